"""Intervals and significance: Student's t for means, and for the ratio or the difference of two means (Welch)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
