"""What do the measured runs come to: mean with its interval, median, spread, and the ratio to the baseline?"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recovery.model import is_second_start
from recovery.stored import Run, Session, Verdict
from recovery.students import Compared, described, effect_95, stored_effect


@dataclass(frozen=True)
class Summary(Compared):
    version: str
    """As in the session's `versions`."""
    variant: str
    """As in its `variants`."""
    count: int
    """Of the runs that were measured; what follows is of their startups."""
    mean_s: float | None
    """Of all of them; None where there are none."""
    median_s: float | None
    """The middle one."""
    min_s: float | None
    """The shortest."""
    max_s: float | None
    """The longest."""
    stdev_s: float | None
    """Standard deviation of a sample; None under two runs."""
    interval_s: float | None = None
    """Half of the mean's 95 % interval, by Student's t; None under three runs."""
    failed: int = 0
    """Runs in which the server did not come back, or lost something."""
    void: int = 0
    """Runs that measured something else than was asked."""


def summarised(session: Session) -> tuple[Summary, ...]:
    return summarise(session.runs, session.versions, session.variants, baseline=baseline_of(session))


def baseline_of(session: Session) -> str:
    """What ratios are taken to: the version that was named, or else the first."""
    named = session.settings.get("baseline")
    return str(named) if named in session.versions else session.versions[0]


def summarise(
    runs: Iterable[Run], versions: Sequence[str], variants: Sequence[str], *, baseline: str | None = None
) -> tuple[Summary, ...]:
    """One summary for each version in each variant, in the order given; failed and void runs are only counted. A
    version has second starts only where there are any, and no ratio of them: they were cold to different degrees."""
    every = cells_of(runs, versions, variants)
    cells = {key: cell for key, cell in every.items() if cell or not is_second_start(key[1])}
    times = {key: _times(cell) for key, cell in cells.items()}
    base = baseline if baseline in versions else next(iter(versions), None)
    found = []
    for (version, variant), cell in cells.items():
        to = () if is_second_start(variant) else times.get((str(base), variant), ())
        effect = effect_95(times[version, variant], to)
        found.append(replace(_summary(version, variant, cell), **stored_effect(effect, is_base=version == base)))
    return tuple(found)


def measured_by(session: Session) -> tuple[tuple[str, str, tuple[Run, ...]], ...]:
    """Version, variant, and the runs that count, in the order of the report; without those that have none."""
    measured = [run for run in session.runs if run.verdict is Verdict.MEASURED]
    cells = cells_of(measured, session.versions, session.variants)
    return tuple((*key, runs) for key, runs in cells.items() if runs)


def mean(values: Iterable[float | None]) -> float | None:
    """Of the values that were taken; None where there are none."""
    taken = [value for value in values if value is not None]
    return statistics.fmean(taken) if taken else None


def cells_of(
    runs: Iterable[Run], versions: Sequence[str], variants: Sequence[str]
) -> dict[tuple[str, str], tuple[Run, ...]]:
    """Returns the runs of each version in each variant."""
    cells: dict[tuple[str, str], list[Run]] = {(version, variant): [] for version in versions for variant in variants}
    for run in runs:
        if (run.version, run.variant) in cells:
            cells[run.version, run.variant].append(run)
    return {key: tuple(found) for key, found in cells.items()}


def _times(cell: Iterable[Run]) -> list[float]:
    return [run.startup_s for run in cell if run.verdict is Verdict.MEASURED and run.startup_s is not None]


def _summary(version: str, variant: str, cell: Sequence[Run]) -> Summary:
    times = _times(cell)
    return Summary(
        version=version,
        variant=variant,
        count=len(times),
        **described(times, "_s"),
        failed=sum(run.verdict is Verdict.FAILED for run in cell),
        void=sum(run.verdict is Verdict.VOID for run in cell),
    )
