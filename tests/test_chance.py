"""Many comparisons: what luck makes of them, and what is left by Holm's correction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist

import pytest
from at_work import OLD, interference, table_cache

from recovery.analysis.statistics import false_positives_text, holm_adjusted, holm_significant
from recovery.analysis.summary import all_variant_ratios, variant_ratios
from recovery.cli.suite_published import Claim, ClaimVerdict, Publication
from recovery.cli.suite_published import answer_claims as published_answers
from recovery.model import Run, Session
from recovery.report.metric_tables import axis_tables, version_tables
from recovery.report.summary_text import answers


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
    assert holm_adjusted(found) == pytest.approx(corrected)


def test_what_has_no_interval_is_not_counted_among_the_others() -> None:
    assert holm_significant([0.02, None, 0.04]) == (True, None, True)
    assert holm_significant([0.02, 0.9, 0.04]) == (False, False, False)
    assert holm_significant([]) == ()


def test_how_many_differ_by_luck() -> None:
    assert [false_positives_text(count) for count in (2, 9, 12, 72)] == [
        "less than one",
        "less than one",
        "about 1",
        "about 4",
    ]


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
    held = variant_ratios(session, instances)
    assert len(held) == 144
    assert sum(bool(one.differs) for one in held) > 0, "some differ by themselves"
    assert not any(one.stands_out for one in held)
    told = answers(session)
    assert all(
        "table_open_cache_instances changes nothing significantly" in one and "makes it" not in one for one in told
    )
    assert any("the 144 comparisons along table_open_cache_instances taken together" in one for one in told)


def test_the_line_below_a_table_counts_what_is_marked_in_them() -> None:
    session = table_cache()
    tables = [one for one in axis_tables(session) if one.title.startswith("table_open_cache_instances:")]
    held = variant_ratios(session, next(axis for axis in session.axes if axis.name == "table_open_cache_instances"))
    differ, marked = (sum(bool(getattr(one, name)) for one in held) for name in ("differs", "stands_out"))
    assert 0 < marked <= differ < len(held)
    line = (
        f"Of 144 comparisons along table_open_cache_instances about 7 would be significant by chance; {differ} are. "
        f"With Holm's correction for all of them, {marked} (*) are."
    )
    assert [table.notes[-1] for table in tables] == [line] * 3
    assert sum(cell.endswith(" *") for table in tables for row in table.rows for cell in row) == marked


def test_of_versions_too_and_of_one_comparison_nothing_is_said() -> None:
    session = interference()
    *_, versions = version_tables(session)
    yes = sum(row[-1].startswith("yes") for row in versions.rows)
    assert versions.notes[-1].endswith(f"would be significant by chance; {yes} are.")
    alone = replace(interference(caches=("400",)), versions=(OLD,))
    (table,) = axis_tables(alone)
    assert table.rows[0][table.headers.index("significant")] == "yes, worse"
    assert not any("chance" in note for note in table.notes)
    assert [one.stands_out for one in all_variant_ratios(alone)] == [True]


def test_a_loss_by_luck_is_told_as_none_of_all_taken_together() -> None:
    """One of 5.7's three is just beyond its interval, which is not enough among six."""
    luck = {"4000-on": (973.0, 980.0, 966.0)}

    def value(run: Run) -> float:
        values = luck.get(run.variant, (1000.0, 1010.0, 990.0)) if run.version == OLD else (1000.0, 1010.0, 990.0)
        return values[run.repeat - 1]

    session = with_values(interference(), value)
    assert [one.differs for one in all_variant_ratios(session)].count(True) == 1
    told = answers(session)[0]
    assert "does not lose significantly by poll=on" in told
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
    assert (answer.verdict, answer.note) == (ClaimVerdict.COMPARED, "significant")
    assert answer.ours_text == "0.83"
    assert answer.interval_text.startswith("0.8")
    assert (answer.published, answer.published_text) == (None, "no figure")
