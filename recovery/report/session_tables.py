"""Builds the tables of several sessions of the same measurement: what each found, and what is not alike in all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recovery.analysis.combined import CombinedSession, PartRun
from recovery.analysis.compare import differences
from recovery.analysis.statistics import MIN_RUNS, half_interval_95
from recovery.analysis.summary import interval_factor, is_compared, main_value, measured_runs_by_cell
from recovery.metrics import metric
from recovery.model import Run, Table, Verdict
from recovery.report import fmt


def session_tables(session: CombinedSession) -> Iterator[Table]:
    """Yields a table of the sessions, of what each of them found, and of what is not alike in all of them."""
    yield _sessions_table(session)
    if is_compared(session):
        yield _means_table(session)
    if found := differences([part.session for part in session.parts]):
        yield Table(
            "Not alike in all sessions",
            ("what", "first", "other"),
            tuple((difference.what, difference.one, difference.other) for difference in found),
            (False, False, False),
            notes=("The means are of all of them.",),
        )


def _sessions_table(session: CombinedSession) -> Table:
    rows = tuple(
        (
            str(number),
            part.name,
            part.session.started_at,
            part.session.host_id or fmt.ABSENT,
            fmt.found_of_expected(
                sum(run.verdict is Verdict.MEASURED for run in part.runs),
                sum(run.verdict is not Verdict.SAMPLED for run in part.runs),
            ),
        )
        for number, part in enumerate(session.parts, 1)
    )
    return Table(
        "Sessions",
        ("#", "session", "started", "host", "runs"),
        rows,
        (True, False, False, False, True),
        notes=("host: an id of the host and its storage; runs: those that count, of all but extra ones.",),
        keys=2,
    )


def _means_table(session: CombinedSession) -> Table:
    """Returns the table with the mean of every cell in each session, and how far they are apart."""
    rows = []
    for (version, variant), runs in measured_runs_by_cell(session).items():
        about = metric(session.metric_of(variant))
        found = _values(session, runs)
        means = [sum(values) / len(values) for values in found.values()]
        spread = fmt.spread(means)
        for (place, values), mean in zip(found.items(), means, strict=True):
            factor = interval_factor(session.parts[place].session)
            error = half_interval_95(values, factor=factor) if len(values) >= MIN_RUNS else None
            cells = (fmt.column(about, mean), fmt.column(about, error), spread)
            rows.append((version, variant, str(place + 1), str(len(values)), *cells))
    return Table(
        "Spread between sessions",
        ("version", "variant", "#", "runs", "mean", "+-", "spread"),
        tuple(rows),
        (False, False, True, True, True, True, True),
        notes=(
            "+-: half of the 95 % interval in the session; spread: from the smallest mean of the sessions to the "
            "largest.",
        ),
        keys=3,
    )


def _values(session: CombinedSession, runs: Sequence[Run]) -> dict[int, list[float]]:
    """Returns the values of these runs by the place of their session."""
    found: dict[int, list[float]] = {}
    for run in runs:
        if isinstance(run, PartRun) and (value := main_value(session, run)) is not None:
            found.setdefault(run.part, []).append(value)
    return found
