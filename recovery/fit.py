"""Startup against the number of tables: what is fixed, what does each table cost, and how far does that carry? Pure.

A start of a minute varies by seconds and one of a second by hundredths, so the line is fitted to relative errors: each
run weighs as the square of one over the mean of its point."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recovery.students import t975

LEAST_POINTS = 2
LEAST_RUNS = 4


@dataclass(frozen=True)
class Fit:
    """seconds = fixed + per table x tables; each with the half width of its 95 % interval."""

    fixed_s: float
    """Of a start without any table."""
    fixed_error_s: float
    """Half of its 95 % interval."""
    per_table_s: float
    """That each table adds."""
    per_table_error_s: float
    """Half of its 95 % interval."""
    relative_error: float
    """Standard deviation of a run about the line, as a share of it."""
    runs: int
    """That the line is fitted to."""
    weight: float
    """Sum of the runs' weights, each the square of one over the mean of its point."""
    center: float
    """Mean of the tables, weighed."""
    spread: float
    """Of the tables, weighed: what a prediction's interval is made of."""

    def at(self, tables: float) -> float:
        return self.fixed_s + self.per_table_s * tables

    def predict(self, tables: float) -> tuple[float, float, float]:
        """Of one more run at this number of tables: seconds, and the ends of its 95 % interval."""
        expected = self.at(tables)
        variance = self.relative_error**2 * (expected**2 + 1 / self.weight + (tables - self.center) ** 2 / self.spread)
        half = t975(self.runs - 2) * math.sqrt(variance)
        return expected, max(0.0, expected - half), expected + half


def fit(points: Iterable[tuple[int, float]]) -> Fit | None:
    """Of (tables, seconds) of every run; None where they are too few to tell."""
    runs = tuple(points)
    by_tables: dict[float, list[float]] = {}
    for tables, seconds in runs:
        by_tables.setdefault(float(tables), []).append(seconds)
    if len(by_tables) < LEAST_POINTS or len(runs) < LEAST_RUNS or min(seconds for _, seconds in runs) <= 0:
        return None
    weights = [1 / statistics.fmean(by_tables[float(tables)]) ** 2 for tables, _ in runs]
    return _fit(runs, weights)


def _fit(runs: Sequence[tuple[int, float]], weights: Sequence[float]) -> Fit:
    weight = sum(weights)
    center = sum(w * tables for w, (tables, _) in zip(weights, runs, strict=True)) / weight
    middle_s = sum(w * seconds for w, (_, seconds) in zip(weights, runs, strict=True)) / weight
    spread = sum(w * (tables - center) ** 2 for w, (tables, _) in zip(weights, runs, strict=True))
    slope = sum(w * (n - center) * (s - middle_s) for w, (n, s) in zip(weights, runs, strict=True)) / spread
    fixed_s = middle_s - slope * center
    rest = sum(w * (s - fixed_s - slope * n) ** 2 for w, (n, s) in zip(weights, runs, strict=True))
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
    )
