"""The benchmarks' own arithmetic."""

import statistics

import pytest

from recovery.selfbench.watching import Pair, overhead
from recovery.students import interval_95, t95, upper_bound_95


def test_t_by_degrees_of_freedom_takes_the_safe_side_between_rows() -> None:
    assert t95(9) == 1.833
    assert t95(11) == t95(10)
    assert t95(1000) == 1.658
    assert all(t95(one) >= t95(one + 1) for one in range(1, 200))


def test_the_upper_bound_of_a_mean() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    error = statistics.stdev(values) / 5**0.5
    assert upper_bound_95(values) == pytest.approx(3.0 + 2.132 * error)


def test_the_interval_of_a_mean() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    low, high = interval_95(values)
    error = statistics.stdev(values) / 5**0.5
    assert low == pytest.approx(3.0 - 2.776 * error)
    assert high == pytest.approx(3.0 + 2.776 * error)


def test_overhead_is_paired() -> None:
    """A drift that hits both of a pair alike is no overhead."""
    drifting = [Pair(10.1 + drift, 10.0 + drift) for drift in (0.0, 5.0, 10.0)]
    mean, upper = overhead(drifting)
    assert mean == pytest.approx(0.1 / 15.0)
    assert upper == pytest.approx(mean)
