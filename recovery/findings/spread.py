"""Do the runs agree among themselves, and enough for what is said of them?"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

from recovery.findings.doubt import Check, cells, doubt
from recovery.stored import Finding, Session
from recovery.students import LEAST_RUNS
from recovery.summary import baseline_of, summarised

_SLOW = 1.3
"""The first run over the slowest of the others, from which on it is doubted."""
_OFF = 0.15
_DEVIATIONS = 3.5
"""An outlier lies so many robust deviations from the median, and at least so large a share of it."""
_ROBUST = 1.4826
"""The median distance from the median, times this, is the standard deviation of what has none."""
_LEAST_TO_TELL = 5
"""Runs from which on an outlier or a drift can be told from chance."""
_DRIFTED = 0.1
_SURE = 2.2
"""Of Kendall's S in its deviations: five runs that rise one after the other give 2.2."""
_WIDE = 0.15
"""Half of the interval over the mean, from which on a mean says little."""
_WORTH = 0.05
"""A ratio nearer to 1 claims no difference."""
_AGAIN = "The mean includes it. Measure again over the same data directory"


def few_runs(session: Session) -> Iterator[Finding]:
    runs = session.settings.get("runs")
    if session.planned_runs and isinstance(runs, int) and runs < LEAST_RUNS:
        yield doubt(
            "few-runs", "all", f"With {runs} run{'s' if runs > 1 else ''} of each nothing is known of their spread.",
            f"Take these figures as a first look; measure with RUNS={_LEAST_TO_TELL} or more.",
        )  # fmt: skip


def _first_is_slow(times: Sequence[float]) -> bool:
    return len(times) >= LEAST_RUNS and times[0] > _SLOW * max(times[1:])


def slow_first_run(session: Session) -> Iterator[Finding]:
    """Something was not yet as it was for the others."""
    for about, runs in cells(session):
        first, *others = times = [run.startup_s or 0.0 for run in runs]
        if _first_is_slow(times):
            yield doubt(
                "slow-first-run", about,
                f"The first run took {first:.1f} s, the others {min(others):.1f} to {max(others):.1f} s.",
                f"{_AGAIN}: what is slow only once is a volume that is read for the first time, or a storage that "
                "remembers what was read lately.",
            )  # fmt: skip


def outliers(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        times = [run.startup_s or 0.0 for run in runs]
        if len(times) < _LEAST_TO_TELL:
            continue
        middle = statistics.median(times)
        deviation = _ROBUST * statistics.median(abs(time - middle) for time in times)
        far = [
            run for run, time in zip(runs, times, strict=True)
            if abs(time - middle) > max(_DEVIATIONS * deviation, _OFF * middle)
            and not (run is runs[0] and _first_is_slow(times))
        ]  # fmt: skip
        if far:
            told = ", ".join(f"run {run.number} ({run.startup_s or 0:.1f} s)" for run in far)
            yield doubt(
                "outlier", about, f"Far from the median of {middle:.1f} s: {told}.",
                "The mean includes it. See what else went on during that run, in its log and its timeline.",
            )  # fmt: skip


def drift(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        times = [run.startup_s or 0.0 for run in runs]
        change = _change(times)
        if len(times) < _LEAST_TO_TELL or _first_is_slow(times):
            continue
        if abs(change) > _DRIFTED and _trend(times) >= _SURE:
            yield doubt(
                "drift", about,
                f"The runs {'rose' if change > 0 else 'fell'} one after the other, from {times[0]:.1f} to "
                f"{times[-1]:.1f} s.",
                "Something changes while it is measured: credits that run out, a device that fills or warms up. "
                "Measure with more RUNS=, until it is at rest.",
            )  # fmt: skip


def too_wide(session: Session) -> Iterator[Finding]:
    """A difference is claimed by whoever reads two means side by side."""
    more = more_runs(session)
    for summary in summarised(session):
        about = f"{summary.version} {summary.variant}"
        if summary.differs is False and summary.ratio is not None and abs(summary.ratio - 1) > _WORTH:
            yield doubt(
                "spread-too-wide", about,
                f"{summary.ratio:.2f} times {baseline_of(session)} is not significant: the 95 % interval is "
                f"{summary.ratio_low:.2f} to {summary.ratio_high:.2f}.",
                f"Claim no difference; {more}",
            )  # fmt: skip
        elif summary.interval_s is not None and summary.mean_s and summary.interval_s > _WIDE * summary.mean_s:
            yield doubt(
                "wide-interval", about,
                f"The mean of {summary.mean_s:.1f} s is known to {summary.interval_s:.1f} s only.",
                f"Say it with its interval; {more}",
            )  # fmt: skip


def more_runs(session: Session) -> str:
    runs = session.settings.get("runs")
    return f"more runs narrow it: RUNS={2 * runs}." if isinstance(runs, int) else "more runs narrow it."


def _change(times: Sequence[float]) -> float:
    return times[-1] / times[0] - 1 if times and times[0] else 0.0


def _trend(times: Sequence[float]) -> float:
    """Kendall's S over its standard deviation: how sure does one run lie above (or below) those before it?"""
    rising = 0
    before: list[float] = []
    for one in times:
        rising += bisect_left(before, one) - (len(before) - bisect_right(before, one))
        insort(before, one)
    count = len(times)
    return abs(rising) / math.sqrt(count * (count - 1) * (2 * count + 5) / 18)


CHECKS: tuple[Check, ...] = (few_runs, slow_first_run, outliers, drift, too_wide)
