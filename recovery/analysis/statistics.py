"""Intervals and significance: Student's t for means, and for the ratio or the difference of two means (Welch)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

LEAST_RUNS = 3
"""With fewer no interval is given: the t of two runs is 12.7, and their spread a matter of chance."""
_LEVEL = 0.95


@lru_cache(maxsize=1 << 14)
def t975(degrees: float) -> float:
    """Returns the t that bounds 95 % on both sides, by bisection; degrees of freedom need not be whole."""
    low, high = 0.0, 1.0
    while both_tails(high, degrees) > 1 - _LEVEL:
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if both_tails(middle, degrees) > 1 - _LEVEL else (low, middle)
    return high


def both_tails(t: float, degrees: float) -> float:
    """Returns the probability that Student's t is as far from 0, on either side."""
    return beta_share(degrees / (degrees + t * t), degrees / 2, 0.5)


def f_tail(value: float, over: float, under: float) -> float:
    """Returns the probability of an F value at least as large. `over` and `under` are its degrees of freedom."""
    return 1.0 if value <= 0 else beta_share(under / (under + over * value), under / 2, over / 2)


def beta_share(x: float, a: float, b: float) -> float:
    """Returns the regularised incomplete beta function, by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):
        return 1.0 - beta_share(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    c, d = 1.0, 1 / _apart(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            c, d = _apart(1 + term / c), 1 / _apart(1 + term * d)
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction / a


def _apart(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300


def interval_95(values: Sequence[float]) -> tuple[float, float]:
    half = half_interval_95(values)
    mean = statistics.mean(values)
    return mean - half, mean + half


def half_interval_95(values: Sequence[float]) -> float:
    return t975(len(values) - 1) * _error(values)


def described(values: Sequence[float], unit: str = "") -> dict[str, Any]:
    """Returns mean, median, min, max, stdev and interval (half of the mean's 95 %), each None where values are too few.
    `unit` ends each name."""
    found = {
        "mean": statistics.fmean(values) if values else None,
        "median": statistics.median(values) if values else None,
        "min": min(values, default=None),
        "max": max(values, default=None),
        # Of a sample, not of a population: five runs stand for all the runs one could make.
        "stdev": statistics.stdev(values) if len(values) > 1 else None,
        "interval": half_interval_95(values) if len(values) >= LEAST_RUNS else None,
    }
    return {name + unit: value for name, value in found.items()}


@dataclass(frozen=True)
class Effect:
    """The mean of one side compared with that of another: their ratio, or their difference where one mean is zero."""

    value: float
    low: float | None = None
    """The lower end of its 95 % interval; None where either side has too few runs."""
    high: float | None = None
    """The upper end."""
    luck: float | None = None
    """The probability of an effect as large where there is none; None without an interval."""
    is_ratio: bool = True

    @property
    def differs(self) -> bool | None:
        """Significant: no effect lies outside the interval. None where that is not known."""
        if self.low is None or self.high is None:
            return None
        return not self.low <= self.none <= self.high

    @property
    def none(self) -> float:
        """The value of no effect."""
        return 1.0 if self.is_ratio else 0.0

    @property
    def error(self) -> float | None:
        """Half the width of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The keys that are stored of an effect. Those of a ratio are None where a mean is zero."""

    ratio: float | None = None
    """Mean over the mean of what it is compared with."""
    ratio_low: float | None = None
    """The lower end of its 95 % interval; None for the baseline itself, and under three runs of either."""
    ratio_high: float | None = None
    """The upper end."""
    ratio_error: float | None = None
    """Half the width of that interval."""
    difference: float | None = None
    """Mean less the mean of what it is compared with, where one of the two is zero: then there is no ratio."""
    difference_error: float | None = None
    """Half the width of its 95 % interval; None under three runs of either."""
    differs: bool | None = None
    """Significant: no effect (a ratio of 1, a difference of 0) lies outside the interval. None where there is none."""


def stored_effect(found: Effect | None, *, is_base: bool = False) -> dict[str, Any]:
    """Returns the keys of `Compared`; of the baseline, which is compared with itself, its ratio of 1 alone."""
    if found is None:
        return {}
    if is_base:
        return {"ratio": 1.0} if found.is_ratio else {}
    if not found.is_ratio:
        return {"difference": found.value, "difference_error": found.error, "differs": found.differs}
    ends = {"ratio_low": found.low, "ratio_high": found.high, "ratio_error": found.error}
    return {"ratio": found.value, **ends, "differs": found.differs}


def effect_95(values: Sequence[float], to: Sequence[float]) -> Effect | None:
    """Compares the means of two sides. None where one has no value.

    A ratio's interval is taken on its logarithm: the relative standard errors of both means add up as squares (delta
    method), with the degrees of freedom of Welch and Satterthwaite. So it is asymmetric, never below 0, and the verdict
    is the same when the sides are exchanged."""
    if not values or not to:
        return None
    means = (statistics.fmean(values), statistics.fmean(to))
    if min(means) <= 0 or min(*values, *to) < 0:
        return difference_95(values, to)
    return _effect((values, to), math.log(means[0] / means[1]), scales=means, told=math.exp, is_ratio=True)


def difference_95(values: Sequence[float], to: Sequence[float]) -> Effect:
    shift = statistics.fmean(values) - statistics.fmean(to)
    return _effect((values, to), shift, scales=(1.0, 1.0), told=float, is_ratio=False)


def _effect(
    sides: tuple[Sequence[float], Sequence[float]],
    shift: float,
    *,
    scales: tuple[float, float],
    told: Callable[[float], float],
    is_ratio: bool,
) -> Effect:
    if min(map(len, sides)) < LEAST_RUNS:
        return Effect(told(shift), is_ratio=is_ratio)
    parts = [((_error(side) / scale) ** 2, len(side) - 1) for side, scale in zip(sides, scales, strict=True)]
    square = sum(part for part, _ in parts)
    if not square:
        return Effect(told(shift), told(shift), told(shift), 0.0 if shift else 1.0, is_ratio)
    degrees = square**2 / sum(part**2 / degrees for part, degrees in parts)
    error = math.sqrt(square)
    half = t975(degrees) * error
    return Effect(told(shift), told(shift - half), told(shift + half), both_tails(shift / error, degrees), is_ratio)


def _error(values: Sequence[float]) -> float:
    return _spread(tuple(values)) / math.sqrt(len(values))


@lru_cache(maxsize=1 << 14)
def _spread(values: tuple[float, ...]) -> float:
    """Kept: it is exact and slow, and a report asks for the same one many times, of each of its pairs and formats."""
    return statistics.stdev(values)


# Startup against the number of tables: a straight line where it fits, otherwise piecewise between the points. Pure.
#
# A start of a minute varies by seconds and one of a second by hundredths, so the line is fitted to relative errors:
# each run weighs as the square of one over the mean of its point.
#
# Why piecewise: where the line is clearly rejected in the kept sessions (5.7.22), the largest point lies 36 % above
# the line through the smaller ones, and 6 % above the last slope.

LEAST_POINTS = 2
LEAST_RUNS_FOR_A_FIT = 4
LINE_NEEDS = f"a line needs at least {LEAST_POINTS} numbers of tables and {LEAST_RUNS_FOR_A_FIT} runs"
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
    if len(by_tables) < LEAST_POINTS or len(runs) < LEAST_RUNS_FOR_A_FIT or min(seconds for _, seconds in runs) <= 0:
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


# Which of several comparisons differ by more than the luck of so many explains? Holm's correction. Pure.

LUCK = 0.05
"""Of so many comparisons an interval of 95 % leaves out the truth."""


def holm(found: Sequence[float]) -> tuple[float, ...]:
    """For each probability, in their order, how likely luck is to bring one as small among all of them. Holm (1979):
    the smallest counts as often as there are, the next as often as are left, and none less than one before it."""
    corrected = [0.0] * len(found)
    before = 0.0
    for rank, place in enumerate(sorted(range(len(found)), key=found.__getitem__)):
        before = max(before, min(1.0, (len(found) - rank) * found[place]))
        corrected[place] = before
    return tuple(corrected)


def stand_out(found: Sequence[float | None]) -> tuple[bool | None, ...]:
    """Which do so all taken together; None stays what it is, and is counted with none."""
    known = iter(holm([one for one in found if one is not None]))
    return tuple(None if one is None else next(known) <= LUCK for one in found)


def by_luck(count: int) -> str:
    """How many of so many would differ though nothing does."""
    many = round(LUCK * count)
    return f"about {many:,}" if many else "less than one"
