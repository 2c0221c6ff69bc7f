"""How long did the starts take? Every version in every variant, and compared with the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recovery.model import is_second_start
from recovery.report import figures
from recovery.report.warm import warm_notes
from recovery.report.work import said
from recovery.stored import Run, Session, Table
from recovery.students import LEAST_RUNS
from recovery.summary import Summary, baseline_of, mean, measured_by, summarised


def timing_tables(session: Session) -> Iterator[Table]:
    found = summarised(session)
    of_second_starts = {one.version for one in found if is_second_start(one.variant)}
    summaries = tuple(
        one for one in found if one.count or one.failed or one.void or one.version not in of_second_starts
    )
    yield _timing(session, summaries)
    if len(session.versions) > 1:
        yield _ratios(baseline_of(session), summaries)


def _timing(session: Session, summaries: Sequence[Summary]) -> Table:
    measured = {(version, variant): runs for version, variant, runs in measured_by(session)}
    return Table(
        title=f"{session.title}, seconds until ready for connections",
        headers=("version", "variant", "runs", "mean", "+-", "median", "min", "max", "stdev", "first query"),
        rows=tuple(_timing_row(summary, measured.get((summary.version, summary.variant), ())) for summary in summaries),
        numeric=(False, False, *(True,) * 8),
        notes=(
            "+-: half of the mean's 95 % interval, by Student's t, from "
            f"{LEAST_RUNS} runs on; first query: mean time to the first answered query.",
            *_left_out(summaries),
            *warm_notes(session),
        ),
        keys=2,
    )


def _timing_row(summary: Summary, runs: tuple[Run, ...]) -> tuple[str, ...]:
    times = (
        *(summary.mean_s, summary.interval_s, summary.median_s),
        *(summary.min_s, summary.max_s, summary.stdev_s),
        mean(run.first_query_s for run in runs),
    )
    return (summary.version, summary.variant, figures.count(summary.count), *map(figures.seconds, times))


def _left_out(summaries: Sequence[Summary]) -> tuple[str, ...]:
    parts = [
        f"{summary.version} {summary.variant} {number} {what}"
        for summary in summaries
        for number, what in ((summary.failed, "failed"), (summary.void, "void"))
        if number
    ]
    return (f"Not counted: {', '.join(parts)}.",) if parts else ()


def _ratios(baseline: str, summaries: Sequence[Summary]) -> Table:
    return Table(
        title=f"Compared with {baseline}",
        headers=("version", "variant", "ratio", "significant"),
        rows=tuple(
            _ratio_row(one) for one in summaries if one.version != baseline and not is_second_start(one.variant)
        ),
        numeric=(False, False, True, False),
        notes=(
            f"ratio: mean over the mean of {baseline} in the same variant, from {LEAST_RUNS} runs of each on with its "
            "95 % interval; significant: 1 lies outside of it.",
        ),
        keys=2,
    )


def _ratio_row(summary: Summary) -> tuple[str, ...]:
    return (
        summary.version,
        summary.variant,
        said.effect(summary),
        figures.yes_or_no(summary.differs),
    )
