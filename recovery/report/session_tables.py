"""Builds the tables of several sessions of the same measurement: what each found, and what is not alike in all."""

from __future__ import annotations

from collections.abc import Iterator

from recovery.analysis.combined import CombinedSession
from recovery.analysis.compare import differences, lacking_runs
from recovery.analysis.summary import is_compared, measured_runs_by_cell, sample_of
from recovery.metrics import metric
from recovery.model import Table, Verdict
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
                (measured := sum(run.verdict is Verdict.MEASURED for run in part.runs)),
                measured + lacking_runs(part.session),
            ),
        )
        for number, part in enumerate(session.parts, 1)
    )
    return Table(
        "Sessions",
        ("#", "session", "started", "host", "runs"),
        rows,
        (True, False, False, False, True),
        notes=(
            "host: an id of the host and its storage; runs: those that count, of these and those that failed, were "
            "void or are missing.",
        ),
        keys=2,
    )


def _means_table(session: CombinedSession) -> Table:
    """Returns the table with the mean of every cell in each session, and how far they are apart."""
    rows = []
    for (version, variant), runs in measured_runs_by_cell(session).items():
        about = metric(session.metric_of(variant))
        samples = [
            (session.block_of(of_part[0])[0] + 1, sample_of(part, of_part, about.name))
            for part, of_part in session.by_session(runs)
        ]
        spread = fmt.spread([mean for _, sample in samples for mean in sample.means])
        for number, sample in samples:
            if sample.values:
                found = sample.statistics()
                cells = (fmt.column(about, found["mean"]), fmt.column(about, found["interval"]), spread)
                rows.append((version, variant, str(number), str(len(sample.values)), *cells))
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
