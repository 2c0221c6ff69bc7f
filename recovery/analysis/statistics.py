"""Statistics without other dependencies: distributions, confidence intervals by Student's t, and a line fit.

The module has only pure functions on numbers. `contrasts.py` compares groups of values.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

MIN_RUNS = 3
"""With fewer runs no interval is given: the t of two runs is 12.7, and their spread is mostly chance."""
MIN_SESSIONS = MIN_RUNS
MIN_SESSIONS_OF_A_MEAN = 5
"""Of fewer sessions, tables of results show the means themselves: an interval over so few is nearly all of its t."""
"""With fewer sessions there is no interval over them, and no claim that two servers differ."""
_LEVEL = 0.95


def t975(degrees: float) -> float:
    """Returns the t that bounds 95 % on both sides. Degrees of freedom need not be whole numbers."""
    return _t_beyond(1 - _LEVEL, degrees)


@lru_cache(maxsize=1 << 14)
def _t_beyond(share: float, degrees: float) -> float:
    """Returns the t beyond which this share lies, on both sides together, by bisection."""
    low, high = 0.0, 1.0
    while t_two_sided_p(high, degrees) > share:
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_two_sided_p(middle, degrees) > share else (low, middle)
    return high


def t_two_sided_p(t: float, degrees: float) -> float:
    """Returns the probability that Student's t is at least as far from 0, on either side."""
    return regularized_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def f_upper_tail_p(value: float, over: float, under: float) -> float:
    """Returns the probability of an F value at least as large. `over` and `under` are its degrees of freedom."""
    return 1.0 if value <= 0 else regularized_beta(under / (under + over * value), under / 2, over / 2)


def f_test_power(over: float, under: float, noncentrality: float) -> float:
    """Returns the probability that an F test is significant, if its numerator has this noncentrality: the sum of the
    squares of what it tests for, divided by the variance of a value. It is a mixture of beta distributions, weighted
    like a Poisson distribution."""
    half = min(noncentrality, _LARGE_NONCENTRALITY) / 2
    critical = _f_beyond(_SIGNIFICANT, over, under)
    share = over * critical / (over * critical + under)
    below, total, number = 0.0, 0.0, 0
    while total < 1 - 1e-9 and number < 10 * _LARGE_NONCENTRALITY:
        weight = math.exp(number * math.log(half) - half - math.lgamma(number + 1)) if half else 1.0
        below += weight * regularized_beta(share, over / 2 + number, under / 2)
        total, number = total + weight, number + 1
    return min(1.0, max(0.0, 1 - below))


_LARGE_NONCENTRALITY = 1000.0
"""A larger one counts as this one: all but tests with one degree of freedom below are then certain."""


@lru_cache(maxsize=1 << 10)
def _f_beyond(share: float, over: float, under: float) -> float:
    """Returns the F value beyond which this share lies, by bisection."""
    low, high = 0.0, 1.0
    while f_upper_tail_p(high, over, under) > share:
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if f_upper_tail_p(middle, over, under) > share else (low, middle)
    return high


def beyond_rounding(p_value: float) -> float:
    """Returns the p-value, or 0 if it is so small that it says no more than that, and would not be a stored number."""
    return p_value if p_value >= _LEAST_P else 0.0


_LEAST_P = 1e-20


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
deviations of 1 to 15 %). That is the mean of this session, of runs that do not depend on each other: if each is like
the one before (autocorrelation of 0.5), it is about 80 %."""


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


# --- Several sessions: each is one value


@dataclass(frozen=True)
class OverSessions:
    """A mean over several sessions, in which each is one value."""

    mean: float
    """The geometric mean of the sessions' means; their arithmetic mean if one of them is not above zero."""
    interval: tuple[float, float] | None = None
    """The ends of its 95 % interval, which is computed on the logarithm for a geometric mean. None with fewer than
    three sessions."""


def over_sessions(means: Sequence[float]) -> OverSessions | None:
    """Returns the mean over sessions with these means; None without any."""
    if not means:
        return None
    has_logs = min(means) > 0
    values = [math.log(mean) for mean in means] if has_logs else means
    scale = math.exp if has_logs else float
    center = statistics.fmean(values)
    if len(means) < MIN_SESSIONS:
        return OverSessions(scale(center))
    half = half_interval_95(values)
    return OverSessions(scale(center), (scale(center - half), scale(center + half)))


# --- Drift: one slope of several groups of values


@dataclass(frozen=True)
class Slope:
    """The slope that groups of points have in common, each group around its own mean."""

    value: float
    p_value: float
    """Probability of a slope at least as steep if there is none, by a t test."""


def common_slope(groups: Iterable[Sequence[tuple[float, float]]]) -> Slope | None:
    """Fits one slope to groups of (x, y), each with a level of its own, by least squares. Returns None if there are too
    few points for a test: a group of three is enough, and so are two groups of two."""
    points, count, spread, product, square = 0, 0, 0.0, 0.0, 0.0
    for group in groups:
        middles = [statistics.fmean(column) for column in zip(*group, strict=True)]
        centred = [(x - middles[0], y - middles[1]) for x, y in group]
        spread += sum(x * x for x, _ in centred)
        product += sum(x * y for x, y in centred)
        square += sum(y * y for _, y in centred)
        points, count = points + len(group), count + 1
    degrees = points - count - 1
    if degrees < 1 or not spread:
        return None
    slope = product / spread
    rest = max(0.0, square - slope * product)
    if rest <= _ROUNDING * points:
        return Slope(slope, 0.0 if slope * slope * spread > _ROUNDING * points else 1.0)
    return Slope(slope, t_two_sided_p(slope * math.sqrt(spread * degrees / rest), degrees))


# --- Counts


def binomial_interval(count: int, of: int) -> tuple[float, float]:
    """Returns the 95 % interval of a probability, from how many times something happened out of `of` times, by the
    method of Clopper and Pearson (1934). It is exact: it contains the probability in at least 95 % of all cases."""
    tail = (1 - _LEVEL) / 2
    low = 0.0 if count == 0 else _beta_quantile(tail, count, of - count + 1)
    high = 1.0 if count == of else _beta_quantile(1 - tail, count + 1, of - count)
    return low, high


def _beta_quantile(share: float, a: float, b: float) -> float:
    """Returns the x up to which a beta distribution has this share, by bisection."""
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if regularized_beta(middle, a, b) < share else (low, middle)
    return (low + high) / 2


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
NOT_TOLD_APART = "line or curve"
"""Name of a form that is a straight line only as far as the test can tell, which would not have seen a curve."""
_CURVE, _MIN_POWER = 0.25, 0.8
"""The curve that matters has its largest point this share above the line. A test that sees it with less than this
probability does not tell a line from a curve."""
_SIGNIFICANT = 0.05
_ROUNDING = 1e-18
"""Rounding error of a squared relative error."""


@dataclass(frozen=True)
class Prediction:
    seconds: float
    """Expected duration of one more run; over several sessions, the mean of one more session."""
    low_s: float | None = None
    """The lower end of its 95 % interval; None if no straight line fits, and with two sessions."""
    high_s: float | None = None
    """The upper end of its 95 % interval."""

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low_s is None or self.high_s is None else (self.low_s, self.high_s)


@dataclass(frozen=True)
class SessionSpread:
    """How much sessions of the same design differ."""

    log_stdev: float
    """Standard deviation of the logarithms of the sessions' means."""
    sessions: int
    """Number of these sessions, at least two."""


@dataclass(frozen=True)
class Step:
    """What each table adds from one number of tables to the next that was measured."""

    start: float
    """Number of tables at its beginning."""
    end: float
    """Number of tables at its end."""
    per_table_s: float
    """Duration that each table adds between them."""
    per_table_error_s: float | None = None
    """Half of its 95 % interval; None without repeated runs."""


@dataclass(frozen=True)
class LineFit:
    """A straight line (seconds = fixed + per table x tables), and the piecewise form used if the line does not fit."""

    fixed_s: float
    """Duration of a start without any table, by the straight line."""
    fixed_error_s: float | None
    """Half of its 95 % interval, if the straight line fits; None with two sessions."""
    per_table_s: float
    """Duration that each table adds, by the straight line."""
    per_table_error_s: float | None
    """Half of its 95 % interval, if the straight line fits; None with two sessions."""
    relative_error: float
    """Standard deviation of a run from the straight line, relative to the mean of its point."""
    runs: int
    """Number of runs that the line is fitted to; over several sessions, of their means at each point, which count as
    runs."""
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
    counts: tuple[int, ...] = ()
    """Number of runs at each point."""
    repeat_error: float | None = None
    """Standard deviation of a run from the mean of its point, relative to that mean. None without repeated runs."""
    curve_power: float | None = None
    """Probability that the test rejects the straight line if the largest point lies 25 % above it. None if there are
    too few points or runs for the test."""
    sessions: int = 1
    """Number of sessions that the line is fitted to. From two on it is the line of the middle one: each value was
    divided by how far its session is from the others."""
    between: SessionSpread | None = None
    """How far the mean of several sessions may be from that of all that could be measured. Intervals contain it."""

    @property
    def has_intervals(self) -> bool:
        """Whether it has intervals: two sessions do not show how much sessions differ."""
        return self.sessions == 1 or self.between is not None

    @property
    def form(self) -> str:
        rejected = self.lack_of_fit_p is not None and self.lack_of_fit_p < _SIGNIFICANT
        return PIECEWISE if rejected else LINE

    @property
    def called(self) -> str:
        """The form as it is called in reports: a line is one only if the test could have seen a curve."""
        could_see_a_curve = self.curve_power is not None and self.curve_power >= _MIN_POWER
        return self.form if could_see_a_curve or self.form != LINE else NOT_TOLD_APART

    def steepest_step(self, between: SessionSpread | None = None) -> Step:
        """Returns the step between two points next to each other at which each table adds most. The interval holds for
        all steps together (Bonferroni), since the steepest is chosen from them, and with `between` also for other
        sessions: all times of a session are longer or shorter together, and so is the slope."""
        steps = [
            (_slope(*ends), counts, ends)
            for ends, counts in zip(pairwise(self.means), pairwise(self.counts), strict=True)
        ]
        slope, counts, ends = max(steps, key=lambda step: step[0])
        low, high = (point[0] for point in ends)
        if self.repeat_error is None or not self.has_intervals:
            return Step(low, high, slope)
        within = (
            sum((self.repeat_error * middle) ** 2 / count for (_, middle), count in zip(ends, counts, strict=True))
            / (high - low) ** 2
        )
        degrees = sum(self.counts) - len(self.means) - self.sessions + 1
        return Step(
            low, high, slope,
            _half_with_sessions(within, degrees, slope, self.between or between, share=(1 - _LEVEL) / len(steps)),
        )  # fmt: skip

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
        if self.form == PIECEWISE or not self.has_intervals:
            return Prediction(max(0.0, expected))
        variance = self.relative_error**2 * (expected**2 + 1 / self.weight + (tables - self.center) ** 2 / self.spread)
        between = self.between
        if between is not None:  # another session is as far from the middle as these are
            between = replace(between, log_stdev=between.log_stdev * math.sqrt(1 + self.sessions))
        half = _half_with_sessions(variance, self.runs - 1 - self.sessions, expected, between)
        return Prediction(*(max(0.0, seconds) for seconds in (expected, expected - half, expected + half)))


def _half_with_sessions(
    variance: float, degrees: float, value: float, between: SessionSpread | None, *, share: float = 1 - _LEVEL
) -> float:
    """Returns half the width of the interval of a value that has this variance in its sessions, and with `between` also
    that of sessions, in which all times are longer or shorter together. `share` is that of all values outside of it."""
    parts = [(variance, degrees)]
    if between is not None:
        parts.append(((value * between.log_stdev) ** 2, between.sessions - 1))
    square = sum(part for part, _ in parts)
    if not square:
        return 0.0
    # Welch and Satterthwaite, as for a ratio.
    joint = square**2 / sum(part**2 / degrees for part, degrees in parts)
    return _t_beyond(share, joint) * math.sqrt(square)


def fit_line(
    points: Iterable[tuple[int, float]], *, sessions: int = 1, between: SessionSpread | None = None
) -> LineFit | None:
    """Fits a line to (tables, seconds) of every run, or of the mean of each of several sessions, divided by how far the
    session is from the others. Returns None if there are too few points or runs."""
    runs = tuple(points)
    by_tables: dict[float, list[float]] = {}
    for tables, seconds in runs:
        by_tables.setdefault(float(tables), []).append(seconds)
    if len(by_tables) < MIN_POINTS or len(runs) < MIN_RUNS_FOR_A_FIT or min(seconds for _, seconds in runs) <= 0:
        return None
    points_found = dict(sorted(by_tables.items()))
    means = {tables: statistics.fmean(found) for tables, found in points_found.items()}
    return _weighted_fit(runs, means, tuple(map(len, points_found.values())), sessions, between)


def _weighted_fit(
    runs: Sequence[tuple[int, float]],
    means: Mapping[float, float],
    counts: tuple[int, ...],
    sessions: int,
    between: SessionSpread | None,
) -> LineFit:
    weights = [1 / means[tables] ** 2 for tables, _ in runs]
    weight = sum(weights)
    center = sum(w * tables for w, (tables, _) in zip(weights, runs, strict=True)) / weight
    middle_s = sum(w * seconds for w, (_, seconds) in zip(weights, runs, strict=True)) / weight
    spread = sum(w * (tables - center) ** 2 for w, (tables, _) in zip(weights, runs, strict=True))
    slope = sum(w * (n - center) * (s - middle_s) for w, (n, s) in zip(weights, runs, strict=True)) / spread
    fixed_s = middle_s - slope * center
    rest = sum(w * (s - fixed_s - slope * n) ** 2 for w, (n, s) in zip(weights, runs, strict=True))
    repeated = sum(w * (s - means[n]) ** 2 for w, (n, s) in zip(weights, runs, strict=True))
    # How far each session is from the others was taken from the runs, too.
    known = len(runs) - (sessions - 1)
    square, degrees = rest / (known - 2), known - 2
    has_intervals = sessions == 1 or between is not None
    fixed_error_s = _half_with_sessions(square * (1 / weight + center**2 / spread), degrees, fixed_s, between)
    per_table_error_s = _half_with_sessions(square / spread, degrees, slope, between)
    return LineFit(
        fixed_s=fixed_s,
        fixed_error_s=fixed_error_s if has_intervals else None,
        per_table_s=slope,
        per_table_error_s=per_table_error_s if has_intervals else None,
        relative_error=math.sqrt(square),
        runs=len(runs),
        weight=weight,
        center=center,
        spread=spread,
        lack_of_fit_p=_lack_of_fit_p(rest, repeated, len(means), known),
        means=tuple(means.items()),
        counts=counts,
        repeat_error=math.sqrt(repeated / (known - len(means))) if known > len(means) else None,
        curve_power=_curve_power(tuple(means.items()), counts, repeated, known),
        sessions=sessions,
        between=between,
    )


def _curve_power(
    means: Sequence[tuple[float, float]], counts: Sequence[int], repeated: float, known: int
) -> float | None:
    """Returns the probability that the test for lack of fit rejects the line if the mean of the largest point lies
    `_CURVE` above it, with this weighted sum of squared errors of repeated runs. The weight of that point is less
    then. `known` is the number of runs without those that sessions were taken from."""
    over, under = len(means) - 2, known - len(means)
    if over < 1 or under < 1:
        return None
    if repeated <= _ROUNDING * sum(counts):
        return 1.0
    above = [0.0] * (len(means) - 1) + [_CURVE * means[-1][1]]
    weights = [count / (middle + more) ** 2 for (_, middle), count, more in zip(means, counts, above, strict=True)]
    center, level = (
        sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
        for values in ([tables for tables, _ in means], above)
    )
    spread = sum(w * (tables - center) ** 2 for w, (tables, _) in zip(weights, means, strict=True))
    slope = sum(w * (n - center) * value for w, (n, _), value in zip(weights, means, above, strict=True)) / spread
    lack = sum(
        w * (value - level - slope * (n - center)) ** 2 for w, (n, _), value in zip(weights, means, above, strict=True)
    )
    return f_test_power(over, under, lack / (repeated / under))


def _lack_of_fit_p(rest: float, repeated: float, points: int, runs: int) -> float | None:
    """Returns the p-value of the F test for lack of fit, from the weighted squared errors about the line (`rest`) and
    about the means of the points (`repeated`)."""
    over, under = points - 2, runs - points
    if over < 1 or under < 1:
        return None
    lack = rest - repeated
    if lack <= _ROUNDING * runs:
        return 1.0
    return beyond_rounding(f_upper_tail_p(lack / over / (repeated / under), over, under)) if repeated else 0.0


def _slope(start: tuple[float, float], end: tuple[float, float]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0])
