"""The line through the points, whether it fits, its intervals, and what it predicts."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean

import pytest
from scipy import linalg, stats

from recovery.analysis.growth import Curve, growth_curves
from recovery.analysis.statistics import LINE, PIECEWISE, f_upper_tail_p, fit_line
from recovery.report.stored_session import load_session

POINTS = (1_000, 10_000, 50_000, 200_000)


@pytest.fixture(scope="module")
def kept(kept_sessions: Path) -> dict[str, Curve]:
    """By version."""
    folders = (kept_sessions / name for name in ("2026-11-21-scale", "2026-11-21-scale-mariadb"))
    return {curve.version: curve for folder in folders for curve in growth_curves(load_session(folder))}


def runs(*, noise: float, seed: int = 1, fixed_s: float = 2.0, per_table_s: float = 0.0003) -> list[tuple[int, float]]:
    """Five at each point, off by a share of themselves."""
    dice = random.Random(seed)  # noqa: S311
    return [(n, (fixed_s + per_table_s * n) * (1 + dice.gauss(0, noise))) for n in POINTS for _ in range(5)]


def test_a_line_without_noise_is_found() -> None:
    found = fit_line(runs(noise=0))
    assert found is not None
    assert found.fixed_s == pytest.approx(2.0)
    assert found.per_table_s == pytest.approx(0.0003)
    assert found.relative_error == pytest.approx(0, abs=1e-9)
    assert found.lack_of_fit_p == 1.0, "what is left is rounding"
    predicted = found.predict(1_000_000)
    assert predicted.seconds == pytest.approx(302.0)
    assert predicted.interval == pytest.approx((302.0, 302.0))


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of many sets of runs some 95 % have the true line, and the next run, within their intervals."""
    fixed = slope = next_run = tries = 0
    for seed in range(420):
        found = fit_line(runs(noise=0.05, seed=seed))
        assert found is not None
        if found.form != LINE:
            continue
        tries += 1
        fixed += abs(found.fixed_s - 2.0) <= found.fixed_error_s
        slope += abs(found.per_table_s - 0.0003) <= found.per_table_error_s
        interval = found.predict(1_000_000).interval
        assert interval is not None
        low_s, high_s = interval
        (_, one_more_s), *_ = runs(noise=0.05, seed=-seed - 1, fixed_s=302.0, per_table_s=0)
        next_run += low_s <= one_more_s <= high_s
    assert min(fixed, slope, next_run) >= 0.91 * tries
    assert max(fixed, slope, next_run) <= 0.985 * tries


def test_a_start_of_a_second_says_as_much_as_one_of_a_minute() -> None:
    """Weighed alike, what small numbers of tables show of the fixed part would drown in the noise of the large."""
    found = fit_line([*((1_000, s) for s in (2.2, 2.3, 2.4)), *((200_000, s) for s in (55.0, 62.0, 69.0))])
    assert found is not None
    assert found.fixed_s == pytest.approx(2.0, abs=0.1)
    assert found.fixed_error_s < 0.5


@pytest.mark.parametrize(
    "few", [[], [(1000, 2.0)] * 9, [(1000, 2.0), (2000, 3.0)], [(1000, 2.0), (1000, 2.1), (2000, 3.0)]]
)
def test_too_few_to_tell(few: list[tuple[int, float]]) -> None:
    assert fit_line(few) is None


def test_no_line_goes_through_starts_of_no_time() -> None:
    assert fit_line([(1000, 0.0), (1000, 0.0), (2000, 3.0), (2000, 3.1)]) is None


@pytest.mark.parametrize("over", [1, 2, 3, 8, 500])
@pytest.mark.parametrize("under", [1, 2, 3.7, 16, 500, 9_990])
def test_the_f_distribution_is_that_of_scipy(over: float, under: float) -> None:
    for value in (0.0, 1e-6, 0.3, 1.0, 1.1, 4.0, 30.0, 1e4):
        assert f_upper_tail_p(value, over, under) == pytest.approx(stats.f.sf(value, over, under), rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("version", ["5.7.22", "8.0.31", "mariadb-10.11.5"])
def test_lack_of_fit_is_that_of_a_weighted_regression(kept: dict[str, Curve], version: str) -> None:
    found = kept[version].fit
    assert found is not None
    points = [(n, [run.startup_s or 0.0 for run in runs]) for n, runs in kept[version].points]
    weighed = [(1 / fmean(times), n, s, fmean(times)) for n, times in points for s in times]
    rows, shares = [(w, w * n) for w, n, _, _ in weighed], [w * s for w, _, s, _ in weighed]
    (fixed_s, per_table_s), rest, *_ = linalg.lstsq(rows, shares)
    assert (found.fixed_s, found.per_table_s) == pytest.approx((fixed_s, per_table_s))
    repeated = sum((w * (s - mean)) ** 2 for w, _, s, mean in weighed)
    over, under = len(points) - 2, len(weighed) - len(points)
    assert found.lack_of_fit_p == pytest.approx(stats.f.sf((rest - repeated) / over / (repeated / under), over, under))


def test_a_true_line_is_rejected_as_seldom_as_the_test_says() -> None:
    found = [fit_line(runs(noise=0.05, seed=seed)) for seed in range(600)]
    assert 0.03 <= sum(one is not None and one.form == PIECEWISE for one in found) / len(found) <= 0.07


def test_the_kept_sessions_are_predicted_by_what_fits(kept: dict[str, Curve]) -> None:
    """5.7.22 by its last slope: the straight line says 357 s, and 65 s where 88 were measured."""
    fits = {version: curve.fit for version, curve in kept.items() if curve.fit is not None}
    assert {version: found.form for version, found in fits.items()} == {
        "5.7.22": PIECEWISE,
        "8.0.31": PIECEWISE,
        "mariadb-10.11.5": LINE,
    }
    assert fits["5.7.22"].lack_of_fit_p == pytest.approx(1.2e-9, rel=0.02)
    predicted = fits["5.7.22"].predict(1_000_000)
    assert predicted.seconds == pytest.approx(452.1, abs=0.1)
    assert predicted.interval is None


def test_a_prediction_is_judged_by_its_error_at_the_largest_point(kept: dict[str, Curve]) -> None:
    held_out = {version: curve.held_out for version, curve in kept.items() if curve.held_out is not None}
    assert {version: one.off for version, one in held_out.items()} == pytest.approx(
        {"5.7.22": 0.061, "8.0.31": 0.408, "mariadb-10.11.5": 0.080}, abs=0.001
    )
    assert {version: curve.predicts for version, curve in kept.items()} == {
        "5.7.22": True,
        "8.0.31": False,
        "mariadb-10.11.5": True,
    }
    assert (held_out["5.7.22"].form, held_out["5.7.22"].inside) == (PIECEWISE, None)
    assert (held_out["mariadb-10.11.5"].form, held_out["mariadb-10.11.5"].inside) == (LINE, 5)


def test_piecewise_goes_through_the_means_and_on_with_the_last_slope() -> None:
    found = fit_line([(n, share * s) for n, s in ((1_000, 1.0), (2_000, 4.0), (4_000, 6.0)) for share in (0.99, 1.01)])
    assert found is not None
    assert found.form == PIECEWISE
    assert [found.at(n) for n in (1_000, 1_500, 2_000, 3_000, 6_000)] == pytest.approx([1.0, 2.5, 4.0, 5.0, 8.0])
    assert [n for n, _ in found.drawn(5_000)] == [0, 1_000, 2_000, 4_000, 5_000]
    assert found.drawn(5_000)[0][1] == 0.0, "the first slope would lead below"


def test_a_bend_without_any_noise_is_no_line() -> None:
    found = fit_line([(1_000, 1.0), (1_000, 1.0), (2_000, 4.0), (4_000, 6.0)])
    assert found is not None
    assert (found.lack_of_fit_p, found.form) == (0.0, PIECEWISE)


@pytest.mark.parametrize("untested", [[(1_000, 1.0)] * 2 + [(2_000, 9.0)] * 2, [(n, float(n)) for n in range(1, 6)]])
def test_two_points_or_single_runs_cannot_tell_a_bend(untested: list[tuple[int, float]]) -> None:
    found = fit_line(untested)
    assert found is not None
    assert (found.lack_of_fit_p, found.form) == (None, LINE)
