"""The engine of comparison: what a contrast of two cells has, and what is significant among all pairs of a table."""

from __future__ import annotations

import ast
import math
import random
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest
from scipy import stats

from recovery.analysis.contrasts import CellKey, Contrast, Sample, compare_logs, compare_means, contrasts, holm_adjusted
from recovery.analysis.statistics import half_interval_95, over_sessions, t975

SLOW, FAST, OTHER = CellKey("", "5.7.22", "cold"), CellKey("", "8.0.31", "cold"), CellKey("", "9.7", "cold")
VALUES = {SLOW: (2.0, 2.1, 1.9), FAST: (1.0, 1.1, 0.9), OTHER: (2.0, 2.2, 1.9)}
CELLS = {key: Sample((values,)) for key, values in VALUES.items()}


def test_the_other_cell_is_compared_with_the_base() -> None:
    (found,) = contrasts(CELLS, [(SLOW, FAST)])
    effect = compare_means(VALUES[FAST], VALUES[SLOW])
    assert effect is not None
    assert (found.ratio, found.ratio_low, found.ratio_high) == (effect.value, effect.low, effect.high)
    assert (found.p_value, found.differs, found.significant) == (effect.p_value, True, True)


def test_all_pairs_of_a_table_are_corrected_together() -> None:
    pairs = [(SLOW, FAST), (SLOW, OTHER), (FAST, OTHER)]
    found = contrasts(CELLS, pairs)
    adjusted = holm_adjusted([contrast.p_value or 0.0 for contrast in found])
    assert [contrast.significant for contrast in found] == [p <= 0.05 for p in adjusted]
    assert contrasts(CELLS, pairs[:1], chosen_from=100_000)[0].significant is False


def test_a_cell_without_values_has_an_empty_contrast_that_is_not_counted() -> None:
    missing = CellKey("", "8.4", "cold")
    found = contrasts(
        {**CELLS, missing: Sample(((),))}, [(SLOW, missing), (missing, SLOW), (SLOW, CellKey("", "", ""))]
    )
    assert found == (Contrast(),) * 3
    assert not any(contrast.is_known for contrast in found)


def test_a_cell_compared_with_itself_has_a_ratio_and_no_interval() -> None:
    assert contrasts(CELLS, [(SLOW, SLOW)]) == (Contrast(ratio=1.0),)


def test_a_mean_of_zero_has_a_difference() -> None:
    (found,) = contrasts({SLOW: Sample(((0.0, 0.0, 0.0),)), FAST: CELLS[FAST]}, [(FAST, SLOW)])
    assert (found.ratio, found.differs) == (None, True)
    assert found.difference == pytest.approx(-1.0)


def test_a_pair_may_be_compared_by_the_difference_although_it_has_a_ratio() -> None:
    (found,) = contrasts(CELLS, [(SLOW, FAST)], by_difference=True)
    assert (found.ratio, found.significant) == (None, True)
    assert found.difference == pytest.approx(-1.0)
    assert found.difference_error == pytest.approx(half_interval_95(VALUES[FAST]) * math.sqrt(2) * t975(4) / t975(2))
    missing = CellKey("", "8.4", "cold")
    assert contrasts(CELLS, [(SLOW, SLOW), (SLOW, missing)], by_difference=True) == (Contrast(), Contrast())


def test_several_sessions_are_compared_by_their_means() -> None:
    """Runs of one session share its conditions: nine runs of three sessions are three values."""
    sessions = ((1.0, 1.2, 1.1), (3.0, 3.1, 3.2), (2.0, 2.1, 2.2))
    sides = {key._replace(side=side): Sample(sessions) for key in (SLOW,) for side in ("first", "second")}
    (found,) = contrasts(sides, [(SLOW._replace(side="first"), SLOW._replace(side="second"))])
    effect = compare_logs([1.1, 3.1, 2.1], [1.1, 3.1, 2.1])
    assert (found.ratio_low, found.ratio_high) == pytest.approx((effect.low, effect.high))
    described = Sample(sessions).statistics()
    over = over_sessions([1.1, 3.1, 2.1])
    assert over is not None
    assert over.interval is not None
    assert (described["mean"], described["low"], described["high"]) == pytest.approx((over.mean, *over.interval))
    assert described["interval"] == pytest.approx((over.interval[1] - over.interval[0]) / 2)
    assert (described["stdev"], described["max"]) == pytest.approx((1.0, 3.2))


def test_sessions_with_a_mean_of_zero_have_an_arithmetic_mean() -> None:
    described = Sample(((0.0, 0.0), (1.0, 1.2), (0.4,))).statistics()
    assert described["mean"] == Sample(((0.0, 0.0), (1.0, 1.2), (0.4,))).mean == pytest.approx(0.5)
    half = half_interval_95([0.0, 1.1, 0.4])
    assert (described["interval"], described["low"], described["high"]) == pytest.approx((half, 0.5 - half, 0.5 + half))


def test_two_sessions_have_a_geometric_mean_and_no_interval() -> None:
    described = Sample(((1.0, 1.0), (4.0, 4.0))).statistics()
    assert (described["mean"], described["interval"]) == (pytest.approx(2.0), None)


def test_the_factor_of_a_precision_widens_the_interval_of_one_session_only() -> None:
    """Over sessions, each is one value, whatever its precision."""
    sessions = ((1.0, 1.2, 1.1), (3.0, 3.1, 3.2), (2.0, 2.1, 2.2))
    for many, factor in ((sessions, 1.0), (sessions[:1], 1.1)):
        found, wider = Sample(many).statistics(), Sample(many, 1.1).statistics()
        assert wider.pop("interval") == pytest.approx(factor * found.pop("interval"))
        assert wider == found


# --- Sides of sessions, compared by the spread between sessions

FIRST, SECOND = SLOW._replace(side="first"), SLOW._replace(side="second")


def of_sides(first: Sample, second: Sample) -> Contrast:
    (found,) = contrasts({FIRST: first, SECOND: second}, [(FIRST, SECOND)])
    return found


def means(*values: float, spread: tuple[float, ...] = ()) -> Sample:
    return Sample(tuple((value,) for value in values), spread=spread)


def test_three_sessions_of_each_side_have_welchs_interval_on_their_logarithms() -> None:
    first, second = (1.0, 1.1, 0.9), (2.0, 2.4, 1.6, 2.2)
    found = of_sides(means(*first), means(*second, spread=(50.0,)))
    logs = [[math.log(value) for value in side] for side in (first, second)]
    expected = stats.ttest_ind(logs[1], logs[0], equal_var=False)
    low, high = expected.confidence_interval()
    assert (found.ratio_low, found.ratio_high) == pytest.approx((math.exp(low), math.exp(high)))
    assert found.p_value == pytest.approx(expected.pvalue)


def test_fewer_have_the_pooled_spread_of_all_that_are_known() -> None:
    """With all of them named it is Student's interval. The first side needs three."""
    first, second = (1.0, 1.1, 0.9), (1.5, 1.6)
    found = of_sides(means(*first), means(*second))
    expected = stats.ttest_ind(*([math.log(value) for value in side] for side in (second, first)))
    low, high = expected.confidence_interval()
    assert (found.ratio_low, found.ratio_high) == pytest.approx((math.exp(low), math.exp(high)))
    assert found.p_value == pytest.approx(expected.pvalue)
    for sides in ((means(1.0, 1.1), means(*first)), (means(1.0, spread=(1.1,)), means(1.5, spread=first))):
        assert of_sides(*sides).is_known
        assert (of_sides(*sides).differs, of_sides(*sides).significant) == (None, None)
    assert of_sides(means(1.0, spread=(1.1, 0.9)), means(2.5)).differs is True


def test_a_single_session_is_compared_by_its_runs_only_within_it() -> None:
    values = VALUES[SLOW], VALUES[FAST]
    assert of_sides(*(Sample((side,)) for side in values)).significant is True
    assert of_sides(*(Sample((side,), spread=()) for side in values)).significant is None


def test_sessions_with_a_mean_of_zero_are_compared_by_the_difference() -> None:
    assert of_sides(means(0.0, spread=(1.0, 2.0, 3.0)), means(1.0)) == Contrast(difference=1.0)
    assert of_sides(means(0.0, 0.0, 0.1), means(5.0, 5.1, 5.2)).significant is True
    assert of_sides(means(1.0), means()) == Contrast()


def test_the_wider_interval_of_the_two_cells_counts() -> None:
    narrow, wide = (contrasts({**CELLS, FAST: Sample((VALUES[FAST],), f)}, [(SLOW, FAST)])[0] for f in (1.0, 1.1))
    assert wide.ratio_high is not None
    assert narrow.ratio_high is not None
    assert wide.ratio_high > narrow.ratio_high


# --- Cells that alternated

BLOCKS = (1, 2, 3, 4, 5)
LOADED = (1.0, 1.6, 0.7, 1.2, 2.0)
"""The host made all starts of a block faster or slower."""
FASTER = tuple(0.8 * load * own for load, own in zip(LOADED, (1.00, 1.01, 0.99, 1.02, 0.98), strict=True))


def in_blocks(values: Sequence[float], blocks: Sequence[int] = BLOCKS, factor: float = 1.0) -> Sample:
    return Sample((tuple(values),), factor, (tuple(blocks),))


def pair(base: Sample, other: Sample, *, by_difference: bool = False) -> Contrast:
    (found,) = contrasts({SLOW: base, FAST: other}, [(SLOW, FAST)], by_difference=by_difference)
    return found


def test_values_of_a_block_are_compared_with_each_other() -> None:
    found = pair(in_blocks(LOADED), in_blocks(FASTER))
    logs = [math.log(value / base) for value, base in zip(FASTER, LOADED, strict=True)]
    middle, half = statistics.fmean(logs), half_interval_95(logs)
    assert (found.ratio, found.ratio_low, found.ratio_high) == pytest.approx(
        tuple(map(math.exp, (middle, middle - half, middle + half)))
    )
    assert found.significant
    assert not pair(Sample((LOADED,)), Sample((FASTER,))).significant, "the spread between blocks hides it"


def test_the_order_of_the_values_does_not_matter() -> None:
    turned = in_blocks(FASTER[::-1], BLOCKS[::-1])
    assert pair(in_blocks(LOADED), turned) == pair(in_blocks(LOADED), in_blocks(FASTER))


def test_exchanging_the_cells_turns_the_ratio_over() -> None:
    there, back = pair(in_blocks(LOADED), in_blocks(FASTER)), pair(in_blocks(FASTER), in_blocks(LOADED))
    assert back.ratio_low is not None
    assert there.ratio_high == pytest.approx(1 / back.ratio_low)
    assert there.p_value == pytest.approx(back.p_value)


def test_blocks_that_only_one_cell_has_are_not_compared() -> None:
    found = pair(in_blocks(LOADED), in_blocks((*FASTER[:3], 99.0), (1, 2, 3, 9)))
    assert found == pair(in_blocks(LOADED[:3], BLOCKS[:3]), in_blocks(FASTER[:3], BLOCKS[:3]))


@pytest.mark.parametrize("blocks", [(1, 2, 8, 9, 10), (11, 12, 13, 14, 15)])
def test_with_fewer_than_three_common_blocks_the_means_are_compared(blocks: Sequence[int]) -> None:
    assert pair(in_blocks(LOADED), in_blocks(FASTER, blocks)) == pair(Sample((LOADED,)), Sample((FASTER,)))


def test_a_value_of_zero_has_no_logarithm() -> None:
    few = (0.0, 1.0, 2.0, 1.0, 1.0)
    assert pair(in_blocks(LOADED), in_blocks(few)) == pair(Sample((LOADED,)), Sample((few,)))
    none = pair(in_blocks(LOADED), in_blocks((0.0,) * 5))
    assert none.ratio is None
    assert none.difference == pytest.approx(-1.3)
    assert none.difference_error == pytest.approx(half_interval_95(LOADED))


def test_differences_are_those_within_the_blocks() -> None:
    found = pair(in_blocks(LOADED), in_blocks(FASTER), by_difference=True)
    changes = [value - base for value, base in zip(FASTER, LOADED, strict=True)]
    assert found.difference == pytest.approx(statistics.fmean(changes))
    assert found.difference_error == pytest.approx(half_interval_95(changes))


def test_the_factor_of_a_precision_widens_the_interval_of_blocks_too() -> None:
    plain, wide = (pair(in_blocks(LOADED), in_blocks(FASTER, factor=factor)) for factor in (1.0, 1.1))
    assert None not in (plain.ratio, plain.ratio_high, wide.ratio_high)
    assert math.log((wide.ratio_high or 0) / (wide.ratio or 1)) == pytest.approx(
        1.1 * math.log((plain.ratio_high or 0) / (plain.ratio or 1))
    )


def test_values_that_vary_beyond_measure_have_an_interval_that_can_be_stored() -> None:
    found = pair(in_blocks((1e-9, 1e9, 1.0), (1, 2, 3)), in_blocks((1e9, 1e-9, 1.0), (1, 2, 3)))
    assert found.ratio_high is not None
    assert 1e12 < found.ratio_high < 1e30
    steady = [block + 1e-9 * block**2 for block in range(1, 41)]
    far = pair(in_blocks(steady, range(40)), in_blocks([9 * value + 1e-9 for value in steady], range(40)))
    assert (far.significant, far.p_value) == (True, 0.0), "too small to be stored"


def test_equal_values_in_all_blocks_do_not_differ() -> None:
    same = pair(in_blocks(LOADED), in_blocks(LOADED))
    assert (same.ratio, same.ratio_low, same.ratio_high, same.differs, same.p_value) == (1.0, 1.0, 1.0, False, 1.0)


def test_a_session_in_which_both_cells_alternated_is_a_block_of_several_sessions() -> None:
    """The days differ twofold, the ratio of a day does not."""
    days, blocks = (1.0, 2.0, 1.4), tuple(tuple((day, run) for run in range(3)) for day in range(3))
    base = tuple((day, 1.01 * day, 0.99 * day) for day in days)
    other = tuple((0.8 * day, 0.81 * day, own * day) for day, own in zip(days, (0.79, 0.80, 0.81), strict=True))
    found = pair(Sample(base, blocks=blocks), Sample(other, blocks=blocks))
    logs = [math.log(statistics.fmean(two) / statistics.fmean(one)) for one, two in zip(base, other, strict=True)]
    assert found.ratio == pytest.approx(math.exp(statistics.fmean(logs)))
    assert found.ratio_high == pytest.approx(math.exp(statistics.fmean(logs) + half_interval_95(logs)))
    apart = pair(Sample(base), Sample(other))
    assert (found.significant, apart.significant) == (True, False)
    assert apart.ratio == pytest.approx(found.ratio)


@pytest.mark.parametrize("deviations", [(0.05, 0.05), (0.01, 0.15)])
def test_the_interval_of_blocks_contains_the_ratio_however_blocks_and_cells_vary(
    deviations: tuple[float, float],
) -> None:
    """Blocks differ by 20 %, and get slower by 10 % each. Where the blocks are not known, the interval is far wider."""
    inside, narrower, tries = 0, 0, 1500
    for seed in range(tries):
        dice = random.Random(seed)  # noqa: S311 - no secret
        loads = [0.1 * block + dice.gauss(0, 0.2) for block in BLOCKS]
        base, other = ([math.exp(load + dice.gauss(0, own)) for load in loads] for own in deviations)
        found = pair(in_blocks(base), in_blocks([2 * value for value in other]))
        apart = pair(Sample((tuple(base),)), Sample((tuple(2 * value for value in other),)))
        assert None not in (found.ratio_low, found.ratio_high, apart.ratio_error)
        inside += (found.ratio_low or 0.0) <= 2 <= (found.ratio_high or 0.0)
        narrower += (found.ratio_error or 0.0) < (apart.ratio_error or 0.0)
    assert 0.93 <= inside / tries <= 0.97
    assert narrower / tries > 0.9


def test_nothing_else_compares_means() -> None:
    """All that is compared asks for contrasts, the published claims too."""
    package = Path(__file__).parents[2] / "recovery"
    callers = {
        path.stem
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name | ast.Attribute | ast.alias)
        and ast.unparse(node).split(" as ")[0].rpartition(".")[2]
        in ("compare_means", "compare_differences", "compare_logs", "pairs_of_blocks")
    }
    assert callers == {"contrasts"}
