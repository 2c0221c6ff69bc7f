"""The benchmarks' own arithmetic."""

import pytest

from recovery.selfbench.watching import Pair, overhead


def test_overhead_is_paired() -> None:
    """A drift that hits both of a pair alike is no overhead."""
    drifting = [Pair(10.1 + drift, 10.0 + drift) for drift in (0.0, 5.0, 10.0)]
    mean, upper = overhead(drifting)
    assert mean == pytest.approx(0.1 / 15.0)
    assert upper == pytest.approx(mean)
