"""What is the one-sided 95 % upper bound of a mean? Student's t, from a small table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# 95th percentiles by degrees of freedom; between two rows the smaller number of degrees is the safe one.
_T95 = {
    1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812, 12: 1.782,
    15: 1.753, 20: 1.725, 25: 1.708, 30: 1.697, 40: 1.684, 60: 1.671, 120: 1.658,
}  # fmt: skip


def t95(degrees: int) -> float:
    return _T95[max(known for known in _T95 if known <= degrees)]


def upper_bound_95(values: Sequence[float]) -> float:
    error = statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values) + t95(len(values) - 1) * error
