"""Middles, ratios of versions, and what each axis does: of servers at work, from synthetic sessions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from at_work import DOUBLEWRITE, FLUSH, FORMS, NEW, OLD, SMALL, interference, metadata, table_cache, write_scaling
from schema_check import complaints

from recovery.analysis.summary import (
    Group,
    all_variant_ratios,
    cell_words,
    cell_words_in_group,
    compared_with_baseline,
    groups,
    is_numeric,
    is_self_explanatory,
    is_switch,
    metric_names,
    metric_value,
    scale_axis,
    stored_summaries,
    summarise,
    variant_ratios,
    version_ratios,
)
from recovery.model import STARTUP_METRIC, Axis, Run, Session, Verdict
from recovery.report.exports import schema
from recovery.report.stored_session import to_json

every_form = pytest.mark.parametrize("name", FORMS)


def axis_of(session: Session, name: str) -> Axis:
    return next(axis for axis in session.axes if axis.name == name)


def with_verdict(session: Session, verdict: Verdict, *, of: int) -> Session:
    return replace(
        session, runs=tuple(replace(run, verdict=verdict) if run.number == of else run for run in session.runs)
    )


def test_middles_are_of_measured_runs_alone() -> None:
    session = metadata()
    first = next(one for one in summarise(session) if (one.version, one.variant) == (OLD, "Q1"))
    assert (first.name, first.unit, first.count) == ("elapsed_s", "s", 3)
    assert first.mean == pytest.approx(58.3 * (1 + 1.006 + 0.992) / 3)
    assert first.min == pytest.approx(58.3 * 0.992)
    assert first.max == pytest.approx(58.3 * 1.006)
    assert first.interval is not None
    for verdict, told in ((Verdict.FAILED, (1, 0)), (Verdict.VOID, (0, 1))):
        less = next(iter(summarise(with_verdict(session, verdict, of=1))))
        assert (less.count, less.interval, less.failed, less.void) == (2, None, *told)
        assert less.max == pytest.approx(58.3 * 1.006)


def test_where_transactions_meet_it_is_those_that_were_committed_that_count() -> None:
    """More statements were answered, of which more were undone."""
    session = write_scaling()

    def measured(run: Run) -> dict[str, float]:
        cell = session.cells[run.variant]
        more = cell.get("transaction_isolation") == "READ-COMMITTED"
        return {**run.measures, "qps": 1300.0 if more else 1000.0, "tps": 40.0 if more else 50.0 + run.repeat}

    session = replace(session, runs=tuple(replace(run, measures=measured(run)) for run in session.runs))
    hot = [one for one in all_variant_ratios(session) if one.axis == "transaction_isolation"]
    assert {round(one.ratio or 0, 3) for one in hot} == {round(40 / 52, 3)}
    told = {(one.variant.startswith("hot-rows"), one.name) for one in summarise(session)}
    assert told == {(True, "tps"), (False, "qps")}
    assert {round(one.ratio or 0, 3) for one in version_ratios(session) if one.variant.startswith("hot-rows")} == {1.0}


def test_errors_are_told_for_each_committed_transaction() -> None:
    (run, *_) = write_scaling().runs
    measures = {"client_errors": 30.0, "tps": 50.0, "elapsed_s": 60.0}
    assert metric_value(replace(run, measures=measures), "errors_per_transaction") == 0.01
    assert metric_value(replace(run, measures={**measures, "tps": 0.0}), "errors_per_transaction") is None
    assert metric_value(replace(run, measures={"tps": 50.0, "elapsed_s": 60.0}), "errors_per_transaction") is None


def test_every_figure_has_middles_and_what_was_not_taken_is_none() -> None:
    session = metadata()
    assert metric_names(session)[0] == "elapsed_s"
    dumped = {one.variant: one.mean for one in summarise(session, "dump_bytes") if one.version == OLD}
    assert dumped["Q1"] is None
    assert dumped["dump"] == pytest.approx(9.5e6)
    assert all(one.count == 0 for one in summarise(session, "nothing"))


def test_versions_against_the_baseline() -> None:
    ratios = {one.variant: one for one in compared_with_baseline(metadata())}
    assert {one.version for one in ratios.values()} == {NEW}
    assert ratios["Q1"].ratio == pytest.approx(1.92 / 58.3)
    assert ratios["Q1"].differs
    assert ratios["dump"].ratio == pytest.approx(108.2 / 32.0)
    turned = replace(metadata(), settings={"baseline": NEW, "runs": 3})
    assert {one.version for one in compared_with_baseline(turned)} == {OLD}


def test_along_an_axis_all_else_is_equal() -> None:
    session = interference()
    held = {(one.version, one.variant): one for one in variant_ratios(session, axis_of(session, "poll"))}
    assert len(held) == 2 * 3
    lost = held[OLD, "400-on"]
    assert lost.base_variant == "400-off"
    assert lost.ratio == pytest.approx(1 - 0.169)
    assert lost.differs
    assert lost.ratio_error is not None
    assert held[NEW, "400-on"].differs is False
    assert variant_ratios(session, axis_of(session, "table_open_cache")) == (), "nothing is a base there"


def test_a_cell_that_an_axis_does_not_concern_is_held_against_nothing_along_it() -> None:
    session = write_scaling()
    held = variant_ratios(session, axis_of(session, DOUBLEWRITE))
    assert {(one.variant, one.base_variant) for one in held} == {
        ("doublewrite-update-nokey-OFF", "doublewrite-update-nokey-ON")
    }
    assert [one.ratio for one in held] == [pytest.approx(1.4)] * 2
    assert len(all_variant_ratios(table_cache())) == 2 * (3 * 3 * 4 * 2 + 3 * 3 * 4 * 2)


def test_zero_has_no_ratio() -> None:
    session = interference()
    assert {one.ratio for one in summarise(session, "client_errors")} == {None}
    misses = {(one.version, one.variant): one for one in summarise(session, "table_open_cache_misses_per_s")}
    assert misses[NEW, "400-on"].ratio is None
    assert misses[OLD, "400-on"].ratio == 1


def test_one_run_has_no_interval() -> None:
    session = interference(runs=1)
    assert {(one.count, one.stdev, one.interval) for one in summarise(session)} == {(1, None, None)}
    assert {one.differs for one in all_variant_ratios(session)} == {None}


@every_form
def test_stored_keys_keep_the_schema(name: str) -> None:
    session = FORMS[name]()
    report = json.loads(to_json(session))
    made = schema()
    assert list(complaints(report, made, made)) == []
    assert report["summaries"] == []
    assert len(report["measures"]) == len(stored_summaries(session)) > 0
    assert {one["name"] for one in report["measures"]} >= {session.figure}
    assert bool(report["contrasts"]) is (name != "metadata")
    assert all({"unit", "ratio_error", "differs", "stdev", "interval"} <= set(one) for one in report["measures"])


def test_a_session_about_starts_has_no_measures() -> None:
    starts = replace(metadata(), figure=STARTUP_METRIC, runs=())
    assert "measures" not in json.loads(to_json(starts))
    assert all_variant_ratios(starts) == ()


def test_kinds_of_axes() -> None:
    assert is_switch(Axis("poll", ("off", "on")))
    assert is_switch(Axis("innodb_doublewrite", ("ON", "OFF")))
    assert is_numeric(Axis("threads", ("1", "16")))
    assert not is_numeric(Axis("innodb_page_size", ("16k", "8k")))
    assert is_self_explanatory(Axis("question", ("Q1", "dump, --skip-lock-tables")))
    assert not is_self_explanatory(Axis("innodb_page_size", ("16k", "8k")))
    assert not is_self_explanatory(Axis("poll", ("off", "on")))


def test_cells_are_called_by_what_differs() -> None:
    session = interference()
    assert cell_words(session, "400-on") == "table_open_cache=400, poll=on"
    assert cell_words(session, "400-on", without=("poll",)) == "table_open_cache=400"
    alone = interference(caches=("400",))
    assert cell_words(alone, "400-on") == "poll=on"
    assert [axis.name for axis in alone.differing_axes] == ["poll"]
    assert (
        cell_words(table_cache(), "read-only-16-2-8") == "read-only, table_open_cache_instances=16, tables 2, threads 8"
    )
    bare = replace(metadata(), axes=(), cells={})
    assert cell_words(bare, "Q1") == "Q1"


def test_groups_are_what_has_axes_of_its_own() -> None:
    found = {group.name: [axis.name for axis in group.axes] for group in groups(write_scaling())}
    assert found["doublewrite"] == [DOUBLEWRITE]
    assert found["one-user"] == ["workload"]
    assert found["hot-rows"] == ["threads", "transaction_isolation"]
    assert [group.name for group in groups(table_cache())] == ["point-select", "read-only", "read-write"]
    (whole,) = groups(metadata())
    assert (whole.name, [axis.name for axis in whole.axes]) == ("", ["question"])
    assert cell_words_in_group(table_cache(), groups(table_cache())[0], "point-select-8-1-2").startswith(
        "table_open_cache_inst"
    )


def test_the_axis_that_is_drawn_against() -> None:
    def scale(group: Group) -> str | None:
        axis = scale_axis(group)
        return axis.name if axis else None

    assert [scale(group) for group in groups(table_cache())] == ["threads"] * 3
    assert [scale(group) for group in groups(interference())] == ["table_open_cache"]
    assert [scale(group) for group in groups(metadata())] == [None]
    flush = Axis(FLUSH, ("1", "2", "0"), "1")
    assert scale(Group("", (), (flush,), "qps")) is None, "names, not amounts"
    assert scale(Group("", (), (replace(flush, values=("1", "8", "16")),), "qps")) == FLUSH
    found = {group.name: scale(group) for group in groups(write_scaling())}
    assert (found["scaling"], found["doublewrite"], found["one-user"]) == ("threads", None, None)


def test_the_small_forms_are_of_the_same_kind() -> None:
    for name, small in SMALL.items():
        assert {axis.name for axis in small().axes} == {axis.name for axis in FORMS[name]().axes}
