"""How far can a mean be from what it would be after many more runs? Student's t, from two small tables."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

LEAST_RUNS = 3
"""Of fewer no interval is told: the t of two runs is 12.7, and their spread a matter of luck."""

# 95th percentiles by degrees of freedom; between two rows the smaller number of degrees is the safe one.
_T95 = {
    1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812, 12: 1.782,
    15: 1.753, 20: 1.725, 25: 1.708, 30: 1.697, 40: 1.684, 60: 1.671, 120: 1.658,
}  # fmt: skip

# And the 97.5th, for both sides.
_T975 = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 12: 2.179,
    15: 2.131, 20: 2.086, 25: 2.060, 30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980,
}  # fmt: skip


def t95(degrees: int) -> float:
    """One-sided."""
    return _read(_T95, degrees)


def t975(degrees: int) -> float:
    """Of 95 %, two-sided."""
    return _read(_T975, degrees)


def _read(table: Mapping[int, float], degrees: int) -> float:
    return table[_row(table, degrees)]


def _row(table: Mapping[int, float], degrees: int) -> int:
    return max(known for known in table if known <= degrees)


def upper_bound_95(values: Sequence[float]) -> float:
    """One-sided."""
    return statistics.mean(values) + t95(len(values) - 1) * _error(values)


def interval_95(values: Sequence[float]) -> tuple[float, float]:
    half = half_interval_95(values)
    mean = statistics.mean(values)
    return mean - half, mean + half


def half_interval_95(values: Sequence[float]) -> float:
    return t975(len(values) - 1) * _error(values)


@dataclass(frozen=True)
class Ratio:
    """Of two means."""

    value: float
    error: float | None
    """Half of its 95 % interval; None where either has too few runs."""
    luck: float | None = None
    """How likely noise alone is to bring one as far from 1; None where there is no interval."""

    @property
    def differs(self) -> bool | None:
        """More than noise explains: no change at all lies outside the interval."""
        return None if self.error is None else abs(self.value - 1) > self.error


def ratio_95(values: Sequence[float], to: Sequence[float]) -> Ratio | None:
    """The relative errors of both means add up as squares; degrees of freedom by Welch and Satterthwaite, since neither
    the numbers nor the spreads of runs need be alike. None where one side has no run, or takes no time."""
    if not values or not to or not statistics.fmean(values) or not statistics.fmean(to):
        return None
    ratio = statistics.fmean(values) / statistics.fmean(to)
    if min(len(values), len(to)) < LEAST_RUNS:
        return Ratio(ratio, None)
    parts = [((_error(side) / statistics.fmean(side)) ** 2, len(side) - 1) for side in (values, to)]
    square = sum(part for part, _ in parts)
    if not square:
        return Ratio(ratio, 0.0, 1.0 if ratio == 1 else 0.0)
    degrees = int(square**2 / sum(part**2 / degrees for part, degrees in parts))
    error = ratio * math.sqrt(square)
    return Ratio(ratio, t975(degrees) * error, both_tails(abs(ratio - 1) / error, _row(_T975, degrees)))


def both_tails(t: float, degrees: int) -> float:
    """How likely Student's t is to be as far from 0, on either side: the finite sums for whole degrees of freedom."""
    angle = math.atan(abs(t) / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    term = cosine if degrees % 2 else 1.0
    within = term if degrees > 1 else 0.0
    for each in range(3 if degrees % 2 else 2, degrees - 1, 2):
        term *= cosine**2 * (each - 1) / each
        within += term
    inside = 2 / math.pi * (angle + sine * within) if degrees % 2 else sine * within
    return max(0.0, 1.0 - inside)


def _error(values: Sequence[float]) -> float:
    return _spread(tuple(values)) / math.sqrt(len(values))


@lru_cache(maxsize=1 << 14)
def _spread(values: tuple[float, ...]) -> float:
    """Kept: it is exact and slow, and a report asks for the same one many times, of each of its pairs and formats."""
    return statistics.stdev(values)


_BETA_STEPS = 400
"""Enough for 20,000 degrees of freedom, twice the runs that a session may have."""


def f_tail(value: float, over: float, under: float) -> float:
    """Returns the probability of an F value at least as large. `over` and `under` are its degrees of freedom."""
    return 1.0 if value <= 0 else _beta(under / (under + over * value), under / 2, over / 2)


def _beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, from its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        # The fraction converges on this side only.
        return 1 - _beta(1 - x, b, a)
    fraction = 1.0
    for step in range(_BETA_STEPS, 0, -1):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step - 1) * (a + b + step - 1) * x / ((a + 2 * step - 2) * (a + 2 * step - 1))
        fraction = 1 + odd / (1 + even / fraction)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(logarithm) / (a * fraction)
