"""Statistics without other dependencies: distributions, confidence intervals by Student's t, and a line fit.

The module has only pure functions on numbers. `contrasts.py` compares groups of values.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

MIN_RUNS = 3
"""With fewer runs no interval is given: the t of two runs is 12.7, and their spread is mostly chance."""
_LEVEL = 0.95


@lru_cache(maxsize=1 << 14)
def t975(degrees: float) -> float:
    """Returns the t that bounds 95 % on both sides, by bisection. Degrees of freedom need not be whole numbers."""
    low, high = 0.0, 1.0
    while t_two_sided_p(high, degrees) > 1 - _LEVEL:
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_two_sided_p(middle, degrees) > 1 - _LEVEL else (low, middle)
    return high


def t_two_sided_p(t: float, degrees: float) -> float:
    """Returns the probability that Student's t is at least as far from 0, on either side."""
    return regularized_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def f_upper_tail_p(value: float, over: float, under: float) -> float:
    """Returns the probability of an F value at least as large. `over` and `under` are its degrees of freedom."""
    return 1.0 if value <= 0 else regularized_beta(under / (under + over * value), under / 2, over / 2)


def regularized_beta(x: float, a: float, b: float) -> float:
    """Returns the regularised incomplete beta function, by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):
        return 1.0 - regularized_beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            c, d = _away_from_zero(1 + term / c), 1 / _away_from_zero(1 + term * d)
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction / a


def _away_from_zero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300


def half_interval_95(values: Sequence[float], *, factor: float = 1.0) -> float:
    """Returns half of the mean's 95 % interval, multiplied by `factor`."""
    return factor * t975(len(values) - 1) * standard_error(values)


# --- Adding runs until the interval is narrow enough

MIN_RUNS_FOR_PRECISION = 5
PRECISION_FACTOR = 1.1
"""Factor of all intervals of a session that stops at a precision. It stops when runs happen to agree well, so ordinary
intervals would contain the true mean in 92 % of such sessions only. With the factor it is at least 94 % (simulated for
deviations of 1 to 15 %)."""


def is_precise(values: Sequence[float], precision: float) -> bool:
    """Returns whether there are enough values, and half of the mean's interval is at most this share of the mean."""
    if len(values) < MIN_RUNS_FOR_PRECISION:
        return False
    return half_interval_95(values, factor=PRECISION_FACTOR) <= precision * abs(statistics.fmean(values))


def descriptive_statistics(values: Sequence[float], *, factor: float = 1.0) -> dict[str, Any]:
    """Returns mean, median, min, max, stdev and interval (half of the mean's 95 % interval, multiplied by `factor`);
    each is None if there are too few values."""
    return {
        "mean": statistics.fmean(values) if values else None,
        "median": statistics.median(values) if values else None,
        "min": min(values, default=None),
        "max": max(values, default=None),
        # Standard deviation of a sample, not of a population: five runs represent all possible runs.
        "stdev": statistics.stdev(values) if len(values) > 1 else None,
        "interval": half_interval_95(values, factor=factor) if len(values) >= MIN_RUNS else None,
    }


def standard_error(values: Sequence[float]) -> float:
    return _stdev(tuple(values)) / math.sqrt(len(values))


@lru_cache(maxsize=1 << 14)
def _stdev(values: tuple[float, ...]) -> float:
    """Returns the standard deviation. It is cached, because it is exact and slow, and a report needs the same one many
    times, for each of its pairs and formats."""
    return statistics.stdev(values)


# --- Startup against the number of tables: a straight line if it fits, otherwise piecewise between the points
#
# A start of a minute varies by seconds and one of a second by hundredths, so the line is fitted to relative errors:
# the weight of each run is one over the square of the mean of its point.
#
# Why piecewise: where the kept sessions clearly reject the line (5.7.22), the largest point is 36 % above the line
# through the smaller ones, and 6 % above the last slope.

MIN_POINTS = 2
MIN_RUNS_FOR_A_FIT = 4
_LEAST = f"{MIN_POINTS} numbers of tables and {MIN_RUNS_FOR_A_FIT} runs in all"
LINE_NEEDS = f"too few runs for a trend, which needs at least {_LEAST}"
LACK_OF_FIT_NEEDS = "the test of its fit needs at least 3 numbers of tables, one of them with 2 runs"
LINE, PIECEWISE = "straight line", "piecewise"
_SIGNIFICANT = 0.05
_ROUNDING = 1e-18
"""Rounding error of a squared relative error."""


@dataclass(frozen=True)
class Prediction:
    seconds: float
    """Expected duration of one more run."""
    low_s: float | None = None
    """The lower end of its 95 % interval; None if no straight line fits."""
    high_s: float | None = None
    """The upper end of its 95 % interval."""

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low_s is None or self.high_s is None else (self.low_s, self.high_s)


@dataclass(frozen=True)
class LineFit:
    """A straight line (seconds = fixed + per table x tables), and the piecewise form used if the line does not fit."""

    fixed_s: float
    """Duration of a start without any table, by the straight line."""
    fixed_error_s: float
    """Half of its 95 % interval, if the straight line fits."""
    per_table_s: float
    """Duration that each table adds, by the straight line."""
    per_table_error_s: float
    """Half of its 95 % interval, if the straight line fits."""
    relative_error: float
    """Standard deviation of a run from the straight line, relative to the mean of its point."""
    runs: int
    """Number of runs that the line is fitted to."""
    weight: float
    """Sum of the runs' weights. Each weight is one over the square of the mean of its point."""
    center: float
    """Weighted mean of the numbers of tables."""
    spread: float
    """Weighted sum of squared deviations of the numbers of tables from `center`, for the interval of a prediction."""
    lack_of_fit_p: float | None = None
    """Probability that runs on a straight line have means at least this far from it, by an F test against the spread of
    repeated runs. None if there are too few points or runs for the test."""
    means: tuple[tuple[float, float], ...] = ()
    """Number of tables and mean seconds of each point, in ascending order of tables."""

    @property
    def form(self) -> str:
        rejected = self.lack_of_fit_p is not None and self.lack_of_fit_p < _SIGNIFICANT
        return PIECEWISE if rejected else LINE

    @property
    def last_slope_s(self) -> float:
        """Duration that each table adds between the two largest points."""
        return _slope(self.means[-2], self.means[-1])

    def line_at(self, tables: float) -> float:
        return self.fixed_s + self.per_table_s * tables

    def at(self, tables: float) -> float:
        """Returns the seconds by the form that fits. In the piecewise form, the outer slopes extend beyond the outer
        points."""
        if self.form == LINE:
            return self.line_at(tables)
        start, end = next((pair for pair in pairwise(self.means) if tables <= pair[1][0]), self.means[-2:])
        return start[1] + _slope(start, end) * (tables - start[0])

    def drawn(self, max_tables: float) -> tuple[tuple[float, float], ...]:
        """Returns the corners of its curve (tables, seconds), from zero tables to `max_tables`."""
        corners = [tables for tables, _ in self.means if tables < max_tables] if self.form == PIECEWISE else []
        return tuple((tables, max(0.0, self.at(tables))) for tables in (0.0, *corners, max_tables))

    def predict(self, tables: float) -> Prediction:
        expected = self.at(tables)
        if self.form == PIECEWISE:
            return Prediction(max(0.0, expected))
        variance = self.relative_error**2 * (expected**2 + 1 / self.weight + (tables - self.center) ** 2 / self.spread)
        half = t975(self.runs - 2) * math.sqrt(variance)
        return Prediction(*(max(0.0, seconds) for seconds in (expected, expected - half, expected + half)))


def fit_line(points: Iterable[tuple[int, float]]) -> LineFit | None:
    """Fits a line to (tables, seconds) of every run. Returns None if there are too few points or runs."""
    runs = tuple(points)
    by_tables: dict[float, list[float]] = {}
    for tables, seconds in runs:
        by_tables.setdefault(float(tables), []).append(seconds)
    if len(by_tables) < MIN_POINTS or len(runs) < MIN_RUNS_FOR_A_FIT or min(seconds for _, seconds in runs) <= 0:
        return None
    return _weighted_fit(runs, {tables: statistics.fmean(found) for tables, found in sorted(by_tables.items())})


def _weighted_fit(runs: Sequence[tuple[int, float]], means: Mapping[float, float]) -> LineFit:
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
    return LineFit(
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
    """Returns the p-value of the F test for lack of fit, from the weighted squared errors about the line (`rest`) and
    about the means of the points (`repeated`)."""
    over, under = points - 2, runs - points
    if over < 1 or under < 1:
        return None
    lack = rest - repeated
    if lack <= _ROUNDING * runs:
        return 1.0
    return f_upper_tail_p(lack / over / (repeated / under), over, under) if repeated else 0.0


def _slope(start: tuple[float, float], end: tuple[float, float]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0])
