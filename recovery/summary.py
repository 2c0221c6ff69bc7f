"""What do the measured runs come to: mean, median, spread, and the ratio to the first version?"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recovery.stored import Run, Session, Verdict


@dataclass(frozen=True)
class Summary:
    version: str
    variant: str
    count: int
    mean_s: float | None
    median_s: float | None
    min_s: float | None
    max_s: float | None
    stdev_s: float | None
    ratio: float | None = None
    """Mean over the mean of the first version in the same variant."""
    failed: int = 0
    void: int = 0


def summarise(runs: Iterable[Run], versions: Sequence[str], variants: Sequence[str]) -> tuple[Summary, ...]:
    """One summary for each version in each variant, in the order given; failed and void runs are only counted."""
    kept = tuple(runs)
    grid = [_summary(kept, version, variant) for version in versions for variant in variants]
    first = {summary.variant: summary.mean_s for summary in grid if summary.version == versions[0]}
    return tuple(replace(summary, ratio=_ratio(summary.mean_s, first.get(summary.variant))) for summary in grid)


def measured_by(session: Session) -> tuple[tuple[str, str, tuple[Run, ...]], ...]:
    """Version, variant, and the runs that count, in the order of the report; without those that have none."""
    measured = [run for run in session.runs if run.verdict is Verdict.MEASURED]
    cells = (
        (version, variant, tuple(run for run in measured if (run.version, run.variant) == (version, variant)))
        for version in session.versions
        for variant in session.variants
    )
    return tuple(cell for cell in cells if cell[2])


def mean(values: Iterable[float | None]) -> float | None:
    """Of the values that were taken; None where there are none."""
    taken = [value for value in values if value is not None]
    return statistics.fmean(taken) if taken else None


def _summary(runs: Sequence[Run], version: str, variant: str) -> Summary:
    cell = [run for run in runs if (run.version, run.variant) == (version, variant)]
    times = [run.startup_s for run in cell if run.verdict is Verdict.MEASURED and run.startup_s is not None]
    return Summary(
        version=version,
        variant=variant,
        count=len(times),
        mean_s=mean(times),
        median_s=statistics.median(times) if times else None,
        min_s=min(times, default=None),
        max_s=max(times, default=None),
        # Of a sample, not of a population: five runs stand for all the runs one could make.
        stdev_s=statistics.stdev(times) if len(times) > 1 else None,
        failed=sum(run.verdict is Verdict.FAILED for run in cell),
        void=sum(run.verdict is Verdict.VOID for run in cell),
    )


def _ratio(mean_s: float | None, first_s: float | None) -> float | None:
    return mean_s / first_s if mean_s is not None and first_s else None
