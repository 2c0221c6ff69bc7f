"""Many comparisons: what luck makes of them, and what is left by Holm's correction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist

import pytest
from at_work import OLD, interference, table_cache

from recovery.chance import by_luck, holm, stand_out
from recovery.experiments.answers import answers as published_answers
from recovery.experiments.literature import Claim, Publication
from recovery.experiments.verdicts import Word
from recovery.measures import along, contrasts
from recovery.report.answer import answers
from recovery.report.work.against import axis_tables, version_tables
from recovery.stored import Run, Session
from recovery.students import both_tails, ratio_95


@pytest.mark.parametrize(
    ("t", "degrees", "luck"),
    [
        (0.0, 3, 1.0),
        (1.0, 1, 0.5),
        (12.706, 1, 0.05),
        (4.303, 2, 0.05),
        (3.182, 3, 0.05),
        (4.604, 4, 0.01),
        (8.610, 4, 0.001),
        (6.869, 5, 0.001),
        (2.042, 30, 0.05),
        (2.617, 120, 0.01),
    ],
)
def test_students_t_as_in_printed_tables(t: float, degrees: int, luck: float) -> None:
    assert both_tails(t, degrees) == pytest.approx(luck, rel=2e-3)
    assert both_tails(-t, degrees) == both_tails(t, degrees)


@pytest.mark.parametrize(
    ("found", "corrected"),
    [
        ((), ()),
        ((0.03,), (0.03,)),
        ((0.01, 0.04, 0.03, 0.005), (0.03, 0.06, 0.06, 0.02)),
        # The second counts for no less than the first, and nothing is more than certain.
        ((0.02, 0.021, 0.9), (0.06, 0.06, 0.9)),
        ((0.6, 0.7), (1.0, 1.0)),
        ((0.01, 0.01), (0.02, 0.02)),
    ],
)
def test_holms_correction(found: tuple[float, ...], corrected: tuple[float, ...]) -> None:
    assert holm(found) == pytest.approx(corrected)


def test_what_has_no_interval_is_not_counted_among_the_others() -> None:
    assert stand_out([0.02, None, 0.04]) == (True, None, True)
    assert stand_out([0.02, 0.9, 0.04]) == (False, False, False)
    assert stand_out([]) == ()


def test_how_many_differ_by_luck() -> None:
    assert [by_luck(count) for count in (2, 9, 12, 72)] == ["less than one", "less than one", "about 1", "about 4"]


def test_an_interval_that_leaves_out_one_is_unlikely_by_as_much() -> None:
    one, other = (NormalDist(100, 3).samples(1500, seed=1), NormalDist(103, 2).samples(2000, seed=2))
    sides = ((one[3 * place : 3 * place + 3], other[4 * place : 4 * place + 4]) for place in range(500))
    told = [found for values, to in sides if (found := ratio_95(values, to))]
    # But where the t of the printed table, of three decimals, is as near.
    sure = [one for one in told if one.luck is not None and abs(one.luck - 0.05) > 1e-4]
    assert len(sure) > 490
    assert all(one.differs is (one.luck <= 0.05) for one in sure if one.luck is not None)


def with_values(session: Session, value: Callable[[Run], float]) -> Session:
    return replace(
        session, runs=tuple(replace(run, measures={**run.measures, "qps": value(run)}) for run in session.runs)
    )


def of_luck_alone() -> Session:
    session = table_cache()
    values = NormalDist(1000, 10).samples(len(session.runs), seed=7)
    return with_values(session, lambda run: values[run.number - 1])


def test_luck_alone_makes_no_headline() -> None:
    session = of_luck_alone()
    instances = next(axis for axis in session.axes if axis.name == "table_open_cache_instances")
    held = along(session, instances)
    assert len(held) == 144
    assert sum(bool(one.differs) for one in held) > 0, "some differ by themselves"
    assert not any(one.stands_out for one in held)
    told = answers(session)
    assert all(
        "table_open_cache_instances changes nothing by more than noise" in one and "makes it" not in one for one in told
    )
    assert any("the 144 comparisons along table_open_cache_instances taken together" in one for one in told)


def test_the_line_below_a_table_counts_what_is_marked_in_them() -> None:
    session = table_cache()
    tables = [one for one in axis_tables(session) if one.title.startswith("table_open_cache_instances:")]
    held = along(session, next(axis for axis in session.axes if axis.name == "table_open_cache_instances"))
    differ, marked = (sum(bool(getattr(one, name)) for one in held) for name in ("differs", "stands_out"))
    assert 0 < marked < differ < len(held)
    line = (
        f"Of 144 comparisons along table_open_cache_instances about 7 would differ by chance, at 95 %; {differ} do. Of "
        f"all taken together {marked} (*) do (Holm's correction, 5 % in all)."
    )
    assert [table.notes[-1] for table in tables] == [line] * 3
    assert sum(cell.endswith(" *") for table in tables for row in table.rows for cell in row) == marked


def test_of_versions_too_and_of_one_comparison_nothing_is_said() -> None:
    session = interference()
    *_, versions = version_tables(session)
    yes = sum(row[-1].startswith("yes") for row in versions.rows)
    assert versions.notes[-1].endswith(f"would differ by chance, at 95 %; {yes} do.")
    alone = replace(interference(caches=("400",)), versions=(OLD,))
    (table,) = axis_tables(alone)
    assert table.rows[0][table.headers.index("more than noise")] == "yes, worse"
    assert not any("chance" in note for note in table.notes)
    assert [one.stands_out for one in contrasts(alone)] == [True]


def test_a_loss_by_luck_is_told_as_none_of_all_taken_together() -> None:
    """One of 5.7's three is just beyond its interval, which is not enough among six."""
    luck = {"4000-on": (973.0, 980.0, 966.0)}

    def value(run: Run) -> float:
        values = luck.get(run.variant, (1000.0, 1010.0, 990.0)) if run.version == OLD else (1000.0, 1010.0, 990.0)
        return values[run.repeat - 1]

    session = with_values(interference(), value)
    assert [one.differs for one in contrasts(session)].count(True) == 1
    told = answers(session)[0]
    assert "loses nothing that is more than noise by poll=on" in told
    assert told.endswith("the 6 comparisons along poll taken together.")


def test_what_was_compared_without_a_published_figure_is_neither_shown_nor_refuted() -> None:
    claim = Claim(
        what="the loop",
        one={"version": "5.7", "poll": "on", "table_open_cache": "least"},
        other={"poll": "off"},
        direction="either",
    )
    one = Publication(
        name="x", label="E0", title="x", question="x?", source="x", host="x", versions=(), scale="x", claim=(claim,)
    )
    (answer,) = published_answers(one, interference())
    assert answer.word is Word.COMPARED
    assert answer.text.startswith("No figure was published; here 0.83 +- ")
    assert answer.text.endswith("more than noise.")
    assert (answer.published, answer.published_words) == (None, "no figure")
