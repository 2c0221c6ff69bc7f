"""The line through the points, its intervals, and what it predicts."""

from __future__ import annotations

import random

import pytest

from recovery.fit import fit

POINTS = (1_000, 10_000, 50_000, 200_000)


def runs(*, noise: float, seed: int = 1, fixed_s: float = 2.0, per_table_s: float = 0.0003) -> list[tuple[int, float]]:
    """Five at each point, off by a share of themselves."""
    dice = random.Random(seed)  # noqa: S311
    return [(n, (fixed_s + per_table_s * n) * (1 + dice.gauss(0, noise))) for n in POINTS for _ in range(5)]


def test_a_line_without_noise_is_found() -> None:
    found = fit(runs(noise=0))
    assert found is not None
    assert found.fixed_s == pytest.approx(2.0)
    assert found.per_table_s == pytest.approx(0.0003)
    assert found.relative_error == pytest.approx(0, abs=1e-9)
    assert found.predict(1_000_000) == pytest.approx((302.0, 302.0, 302.0))


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of many sets of runs some 95 % have the true line, and the next run, within their intervals."""
    fixed = slope = next_run = 0
    tries = 400
    for seed in range(tries):
        found = fit(runs(noise=0.05, seed=seed))
        assert found is not None
        fixed += abs(found.fixed_s - 2.0) <= found.fixed_error_s
        slope += abs(found.per_table_s - 0.0003) <= found.per_table_error_s
        _, low_s, high_s = found.predict(1_000_000)
        (_, one_more_s), *_ = runs(noise=0.05, seed=-seed - 1, fixed_s=302.0, per_table_s=0)
        next_run += low_s <= one_more_s <= high_s
    assert min(fixed, slope, next_run) >= 0.91 * tries
    assert max(fixed, slope, next_run) <= 0.985 * tries


def test_a_start_of_a_second_says_as_much_as_one_of_a_minute() -> None:
    """Weighed alike, what small numbers of tables show of the fixed part would drown in the noise of the large."""
    found = fit([*((1_000, s) for s in (2.2, 2.3, 2.4)), *((200_000, s) for s in (55.0, 62.0, 69.0))])
    assert found is not None
    assert found.fixed_s == pytest.approx(2.0, abs=0.1)
    assert found.fixed_error_s < 0.5


@pytest.mark.parametrize(
    "few", [[], [(1000, 2.0)] * 9, [(1000, 2.0), (2000, 3.0)], [(1000, 2.0), (1000, 2.1), (2000, 3.0)]]
)
def test_too_few_to_tell(few: list[tuple[int, float]]) -> None:
    assert fit(few) is None


def test_no_line_goes_through_starts_of_no_time() -> None:
    assert fit([(1000, 0.0), (1000, 0.0), (2000, 3.0), (2000, 3.1)]) is None
