"""The engine of comparison: what a contrast of two cells has, and what is significant among all pairs of a table."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest

from recovery.analysis.contrasts import CellKey, Contrast, Sample, compare_means, contrasts, holm_adjusted
from recovery.analysis.statistics import half_interval_95, t975

SLOW, FAST, OTHER = CellKey("", "5.7.22", "cold"), CellKey("", "8.0.31", "cold"), CellKey("", "9.7", "cold")
VALUES = {SLOW: (2.0, 2.1, 1.9), FAST: (1.0, 1.1, 0.9), OTHER: (2.0, 2.2, 1.9)}
CELLS = {key: Sample((values,)) for key, values in VALUES.items()}


def test_the_other_cell_is_compared_with_the_base() -> None:
    (found,) = contrasts(CELLS, [(SLOW, FAST)])
    effect = compare_means(VALUES[FAST], VALUES[SLOW])
    assert effect is not None
    assert (found.ratio, found.ratio_low, found.ratio_high) == (effect.value, effect.low, effect.high)
    assert (found.p_value, found.differs, found.significant, found.is_below) == (effect.p_value, True, True, True)


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
    assert (found.ratio, found.is_below, found.differs) == (None, True, True)
    assert found.difference == pytest.approx(-1.0)


def test_a_pair_may_be_compared_by_the_difference_although_it_has_a_ratio() -> None:
    (found,) = contrasts(CELLS, [(SLOW, FAST)], by_difference=True)
    assert (found.ratio, found.is_below, found.significant) == (None, True, True)
    assert found.difference == pytest.approx(-1.0)
    assert found.difference_error == pytest.approx(half_interval_95(VALUES[FAST]) * math.sqrt(2) * t975(4) / t975(2))
    missing = CellKey("", "8.4", "cold")
    assert contrasts(CELLS, [(SLOW, SLOW), (SLOW, missing)], by_difference=True) == (Contrast(), Contrast())


def test_several_sessions_are_compared_by_their_means() -> None:
    """Runs of one session share its conditions: nine runs of three sessions are three values."""
    sessions = ((1.0, 1.2, 1.1), (3.0, 3.1, 3.2), (2.0, 2.1, 2.2))
    sides = {key._replace(side=side): Sample(sessions) for key in (SLOW,) for side in ("first", "second")}
    (found,) = contrasts(sides, [(SLOW._replace(side="first"), SLOW._replace(side="second"))])
    effect = compare_means([1.1, 3.1, 2.1], [1.1, 3.1, 2.1])
    assert effect is not None
    assert (found.ratio_low, found.ratio_high) == pytest.approx((effect.low, effect.high))
    described = Sample(sessions).statistics()
    assert (described["mean"], described["stdev"], described["max"]) == pytest.approx((2.1, 1.0, 3.2))


def test_the_factor_of_a_precision_widens_the_interval_of_several_sessions_too() -> None:
    sessions = ((1.0, 1.2, 1.1), (3.0, 3.1, 3.2), (2.0, 2.1, 2.2))
    for plain, wide in ((Sample(sessions), Sample(sessions, 1.1)), (Sample(sessions[:1]), Sample(sessions[:1], 1.1))):
        found, wider = plain.statistics(), wide.statistics()
        assert wider.pop("interval") == pytest.approx(1.1 * found.pop("interval"))
        assert wider == found


def test_the_wider_interval_of_the_two_cells_counts() -> None:
    narrow, wide = (contrasts({**CELLS, FAST: Sample((VALUES[FAST],), f)}, [(SLOW, FAST)])[0] for f in (1.0, 1.1))
    assert wide.ratio_high is not None
    assert narrow.ratio_high is not None
    assert wide.ratio_high > narrow.ratio_high


def test_nothing_else_compares_means() -> None:
    """All that is compared asks for contrasts, the published claims too."""
    package = Path(__file__).parents[2] / "recovery"
    callers = {
        path.stem
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name | ast.Attribute | ast.alias)
        and ast.unparse(node).split(" as ")[0].rpartition(".")[2] in ("compare_means", "compare_differences")
    }
    assert callers == {"contrasts"}
