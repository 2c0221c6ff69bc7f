"""Startup against the number of tables: a straight line where it fits, otherwise piecewise between the points. Pure.

A start of a minute varies by seconds and one of a second by hundredths, so the line is fitted to relative errors: each
run weighs as the square of one over the mean of its point.

Why piecewise: where the line is clearly rejected in the kept sessions (5.7.22), the largest point lies 36 % above the
line through the smaller ones, and 6 % above the last slope."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from recovery.students import f_tail, t975

LEAST_POINTS = 2
LEAST_RUNS = 4
LINE_NEEDS = f"a line needs at least {LEAST_POINTS} numbers of tables and {LEAST_RUNS} runs"
LACK_OF_FIT_NEEDS = "the test of its fit needs at least 3 numbers of tables, one of them with 2 runs"
LINE, PIECEWISE = "straight line", "piecewise"
_SIGNIFICANT = 0.05
_ROUNDING = 1e-18
"""Of a squared relative error."""


@dataclass(frozen=True)
class Prediction:
    seconds: float
    """That one more run is expected to take."""
    low_s: float | None = None
    """The lower end of its 95 % interval; None where no straight line fits."""
    high_s: float | None = None
    """The upper end."""

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low_s is None or self.high_s is None else (self.low_s, self.high_s)


@dataclass(frozen=True)
class Fit:
    """A straight line: seconds = fixed + per table x tables; and what is used in its place where it does not fit."""

    fixed_s: float
    """Of a start without any table, by the straight line."""
    fixed_error_s: float
    """Half of its 95 % interval, if the straight line fits."""
    per_table_s: float
    """That each table adds, by the straight line."""
    per_table_error_s: float
    """Half of its 95 % interval, if the straight line fits."""
    relative_error: float
    """Standard deviation of a run about the straight line, as a share of it."""
    runs: int
    """That the line is fitted to."""
    weight: float
    """Sum of the runs' weights, each the square of one over the mean of its point."""
    center: float
    """Mean of the tables, weighed."""
    spread: float
    """Of the tables, weighed: what a prediction's interval is made of."""
    lack_of_fit_p: float | None = None
    """How likely runs that follow a straight line are to have means as far from it: an F test against the spread of
    repeated runs. None where that needs more points or runs."""
    means: tuple[tuple[float, float], ...] = ()
    """Tables and mean seconds of each point, from the fewest tables on."""

    @property
    def form(self) -> str:
        rejected = self.lack_of_fit_p is not None and self.lack_of_fit_p < _SIGNIFICANT
        return PIECEWISE if rejected else LINE

    @property
    def last_slope_s(self) -> float:
        """That each table adds between the two largest points."""
        return _slope(self.means[-2], self.means[-1])

    def line_at(self, tables: float) -> float:
        return self.fixed_s + self.per_table_s * tables

    def at(self, tables: float) -> float:
        """Seconds by the form that fits. Piecewise, the outer slopes go on beyond the outer points."""
        if self.form == LINE:
            return self.line_at(tables)
        start, end = next((pair for pair in pairwise(self.means) if tables <= pair[1][0]), self.means[-2:])
        return start[1] + _slope(start, end) * (tables - start[0])

    def drawn(self, most: float) -> tuple[tuple[float, float], ...]:
        """The corners of its curve (tables, seconds), from no table to so many."""
        corners = [tables for tables, _ in self.means if tables < most] if self.form == PIECEWISE else []
        return tuple((tables, max(0.0, self.at(tables))) for tables in (0.0, *corners, most))

    def predict(self, tables: float) -> Prediction:
        expected = self.at(tables)
        if self.form == PIECEWISE:
            return Prediction(max(0.0, expected))
        variance = self.relative_error**2 * (expected**2 + 1 / self.weight + (tables - self.center) ** 2 / self.spread)
        half = t975(self.runs - 2) * math.sqrt(variance)
        return Prediction(*(max(0.0, seconds) for seconds in (expected, expected - half, expected + half)))


def fit(points: Iterable[tuple[int, float]]) -> Fit | None:
    """Of (tables, seconds) of every run; None where they are too few to tell."""
    runs = tuple(points)
    by_tables: dict[float, list[float]] = {}
    for tables, seconds in runs:
        by_tables.setdefault(float(tables), []).append(seconds)
    if len(by_tables) < LEAST_POINTS or len(runs) < LEAST_RUNS or min(seconds for _, seconds in runs) <= 0:
        return None
    return _fit(runs, {tables: statistics.fmean(found) for tables, found in sorted(by_tables.items())})


def _fit(runs: Sequence[tuple[int, float]], means: Mapping[float, float]) -> Fit:
    weights = [1 / means[tables] ** 2 for tables, _ in runs]
    weight = sum(weights)
    center = sum(w * tables for w, (tables, _) in zip(weights, runs, strict=True)) / weight
    middle_s = sum(w * seconds for w, (_, seconds) in zip(weights, runs, strict=True)) / weight
    spread = sum(w * (tables - center) ** 2 for w, (tables, _) in zip(weights, runs, strict=True))
    slope = sum(w * (n - center) * (s - middle_s) for w, (n, s) in zip(weights, runs, strict=True)) / spread
    fixed_s = middle_s - slope * center
    rest = sum(w * (s - fixed_s - slope * n) ** 2 for w, (n, s) in zip(weights, runs, strict=True))
    repeated = sum(w * (s - means[n]) ** 2 for w, (n, s) in zip(weights, runs, strict=True))
    degrees = len(runs) - 2
    relative_error = math.sqrt(rest / degrees)
    t = t975(degrees)
    return Fit(
        fixed_s=fixed_s,
        fixed_error_s=t * relative_error * math.sqrt(1 / weight + center**2 / spread),
        per_table_s=slope,
        per_table_error_s=t * relative_error / math.sqrt(spread),
        relative_error=relative_error,
        runs=len(runs),
        weight=weight,
        center=center,
        spread=spread,
        lack_of_fit_p=_lack_of_fit_p(rest, repeated, len(means), len(runs)),
        means=tuple(means.items()),
    )


def _lack_of_fit_p(rest: float, repeated: float, points: int, runs: int) -> float | None:
    """Of the squared errors about the line and about the points' own means."""
    over, under = points - 2, runs - points
    if over < 1 or under < 1:
        return None
    lack = rest - repeated
    if lack <= _ROUNDING * runs:
        return 1.0
    return f_tail(lack / over / (repeated / under), over, under) if repeated else 0.0


def _slope(start: tuple[float, float], end: tuple[float, float]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0])
