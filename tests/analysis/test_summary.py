"""Summaries of runs, ratios of versions, the effect of each axis, and what is significant among many comparisons."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import NormalDist

import pytest
from at_work import FLUSH, NEW, OLD, SMALL, interference, metadata, table_cache, write_scaling
from runs import make_run, plain_variants, with_parts
from schema_check import violations
from sessions import FIXTURES, KEPT_SESSIONS, seconds

from recovery.analysis.combined import combine
from recovery.analysis.contrasts import holm_adjusted, holm_significant, pairs_of_blocks
from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import (
    Group,
    Summary,
    all_variant_ratios,
    groups,
    key_of,
    main_samples,
    mean,
    metric_value,
    own_read_requests,
    scale_axis,
    stored_summaries,
    summarise,
    variant_ratios,
    version_ratios,
)
from recovery.model import STARTUP_METRIC, Axis, HostActivity, Run, Session, Verdict
from recovery.report.json_report import to_json
from recovery.report.metric_tables import axis_tables, runs_table, summary_tables, version_tables
from recovery.report.summary_text import answers
from recovery.storage.sessions import load_session

# --- Starts


def run(version: str, startup_s: float | None, *, variant: str = "cold", verdict: Verdict = Verdict.MEASURED) -> Run:
    return Run(
        1,
        version,
        "mysql",
        variant,
        repeat=1,
        verdict=verdict,
        metrics=seconds(startup_s),
    )


def summaries_of(runs: list[Run], versions: tuple[str, ...] = ("5.7.22",)) -> tuple[Summary, ...]:
    variants = tuple(dict.fromkeys(run.variant for run in runs))
    return summarise(
        Session("s", "q", "c", "now", {}, {}, versions, plain_variants(*variants), len(runs), runs=tuple(runs))
    )


def test_figures_of_measured_runs() -> None:
    (summary,) = summaries_of([run("5.7.22", time_s) for time_s in (1.0, 2.0, 6.0)])
    assert (summary.count, summary.mean, summary.median, summary.min, summary.max) == (3, 3.0, 2.0, 1.0, 6.0)
    # Squares of the distances are 4, 1 and 9: 14 over n - 1, not over n.
    assert summary.stdev == pytest.approx(7**0.5)


def test_failed_and_void_runs_are_counted_and_never_averaged() -> None:
    runs = [
        run("5.7.22", 2.0),
        run("5.7.22", 100.0, verdict=Verdict.VOID),
        run("5.7.22", 100.0, verdict=Verdict.FAILED),
        run("5.7.22", None, verdict=Verdict.FAILED),
    ]
    (summary,) = summaries_of(runs)
    assert (summary.count, summary.mean, summary.max, summary.stdev) == (1, 2.0, 2.0, None)
    assert (summary.failed, summary.void) == (2, 1)


def test_nothing_measured_is_none_and_never_zero() -> None:
    (summary,) = summaries_of([run("5.7.22", 1.0, verdict=Verdict.VOID)])
    assert summary.count == 0
    figures = (summary.mean, summary.median, summary.min, summary.max, summary.stdev, summary.ratio)
    assert figures == (None,) * 6
    assert summaries_of([]) == ()
    assert mean([None, None]) is None
    assert mean([None, 2.0, 4.0]) == 3.0


@pytest.mark.parametrize(
    ("others", "settings", "expected"),
    [
        ((None, None), {}, 300.0),
        ((0, 50_000), {}, 300.0),
        ((0, 51_000), {}, 200.0),
        ((600_000_000, 600_000_000), {}, None),
        ((600_000_000, 600_000_000), {"read_iops": 5000}, 300.0),
    ],
)
def test_reads_of_runs_in_which_others_read_are_not_the_servers(
    others: tuple[int | None, int | None], settings: dict[str, str | int | float | bool | None], expected: float | None
) -> None:
    runs = [
        make_run(
            number, "5.7.22", "mysql", "warm", 1, Verdict.MEASURED, tables_found=100,
            metrics={"read_bytes": 1_000_000, "read_requests": requests},
            host_activity=HostActivity(1.0, others_read_bytes=read),
        )
        for number, requests, read in zip((1, 2), (200, 400), others, strict=True)
    ]  # fmt: skip
    session = Session("s", "q", "c", "now", {}, settings, ("5.7.22",), plain_variants("warm"), 2, runs=tuple(runs))
    assert own_read_requests(session, runs) == expected
    each = own_read_requests(session, runs, for_each_table=True)
    assert each == (None if expected is None else expected / 100)


def test_ratio_is_to_the_first_version_of_the_same_variant() -> None:
    runs = [
        run("5.6.24", 10.0),
        run("5.7.22", 20.0),
        run("5.6.24", 4.0, variant="warm"),
        run("5.7.22", 2.0, variant="warm"),
    ]
    summaries = summaries_of(runs, ("5.6.24", "5.7.22"))
    assert [(summary.version, summary.variant, summary.ratio) for summary in summaries] == [
        ("5.6.24", "cold", 1.0),
        ("5.6.24", "warm", 1.0),
        ("5.7.22", "cold", 2.0),
        ("5.7.22", "warm", 0.5),
    ]


@pytest.mark.parametrize(
    ("times", "ratios"), [({"5.7.22": 1.0}, [None, None]), ({"5.6.24": 1.0, "5.7.22": 0.0}, [1.0, None])]
)
def test_there_is_no_ratio_without_two_means_above_zero(times: dict[str, float], ratios: list[float | None]) -> None:
    runs = [run(version, time) for version, time in times.items() for _ in range(3)]
    assert [summary.ratio for summary in summaries_of(runs, ("5.6.24", "5.7.22"))] == ratios


# --- Servers under load


def axis_of(session: Session, name: str) -> Axis:
    return next(axis for axis in session.axes if axis.name == name)


def test_one_run_has_no_interval_and_no_verdict() -> None:
    session = interference(runs=1)
    assert {(one.count, one.stdev, one.interval) for one in summarise(session)} == {(1, None, None)}
    assert {one.differs for one in all_variant_ratios(session)} == {None}


def test_hot_rows_are_summarised_by_committed_transactions() -> None:
    """More statements were answered, of which more were undone."""
    session = write_scaling()

    def measured(run: Run) -> dict[str, float]:
        cell = session.values_of(run.variant)
        more = cell.get("transaction_isolation") == "READ-COMMITTED"
        return {**run.metrics, "qps": 1300.0 if more else 1000.0, "tps": 40.0 if more else 50.0 + run.repeat}

    session = replace(session, runs=tuple(replace(run, metrics=measured(run)) for run in session.runs))
    hot = [one for one in all_variant_ratios(session) if one.axis == "transaction_isolation"]
    assert {round(one.ratio or 0, 3) for one in hot} == {round(40 / 52, 3)}
    assert {(one.variant.startswith("hot-rows"), one.name) for one in summarise(session)} == {
        (True, "tps"),
        (False, "qps"),
    }
    assert {round(one.ratio or 0, 3) for one in version_ratios(session) if one.variant.startswith("hot-rows")} == {1.0}


@pytest.mark.parametrize(
    ("measures", "expected"),
    [
        ({"client_errors": 30.0, "tps": 50.0, "elapsed_s": 60.0}, 0.01),
        ({"client_errors": 30.0, "tps": 0.0, "elapsed_s": 60.0}, None),
        ({"tps": 50.0, "elapsed_s": 60.0}, None),
    ],
)
def test_errors_are_related_to_committed_transactions(measures: dict[str, float], expected: float | None) -> None:
    one = replace(write_scaling().runs[0], metrics=measures)
    assert metric_value(one, "errors_per_transaction") == expected


def test_along_an_axis_cells_differ_in_nothing_else() -> None:
    session = interference()
    ratios = {(one.version, one.variant): one for one in variant_ratios(session, axis_of(session, "poll"))}
    assert len(ratios) == 2 * 3
    lost = ratios[OLD, "400-on"]
    assert lost.base_variant == "400-off"
    assert lost.ratio == pytest.approx(1 - 0.169)
    assert lost.differs
    assert lost.ratio_error is not None
    assert ratios[NEW, "400-on"].differs is False
    assert variant_ratios(session, axis_of(session, "table_open_cache")) == (), "it has no base"
    assert len(all_variant_ratios(table_cache())) == 2 * (3 * 3 * 4 * 2 + 3 * 3 * 4 * 2)


@pytest.mark.parametrize("name", SMALL)
def test_stored_summaries_keep_the_schema(name: str) -> None:
    session = SMALL[name]()
    report = json.loads(to_json(session))
    assert violations(report) == []
    assert len(report["summaries"]) == len(stored_summaries(session)) > 0
    assert {one["name"] for one in report["summaries"]} >= {session.metric}
    assert bool(report["contrasts"]) is (name != "metadata")
    assert all({"unit", "ratio_error", "differs", "stdev", "interval"} <= set(one) for one in report["summaries"])


def test_a_session_of_starts_has_no_measures() -> None:
    starts = replace(metadata(), metric=STARTUP_METRIC, runs=())
    assert "measures" not in json.loads(to_json(starts))
    assert all_variant_ratios(starts) == ()


# --- Names of cells, and groups of them


def test_the_scale_is_a_numeric_axis() -> None:
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


# --- Many comparisons


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


def test_comparisons_without_an_interval_are_not_counted() -> None:
    assert holm_significant([0.02, None, 0.04]) == (True, None, True)
    assert holm_significant([0.02, 0.9, 0.04]) == (False, False, False)
    assert holm_significant([]) == ()


def with_values(session: Session, value: Callable[[Run], float]) -> Session:
    return replace(
        session, runs=tuple(replace(run, metrics={**run.metrics, "qps": value(run)}) for run in session.runs)
    )


def test_noise_alone_is_never_reported_as_an_effect() -> None:
    session = table_cache()
    values = NormalDist(1000, 10).samples(len(session.runs), seed=7)
    session = with_values(session, lambda run: values[run.number - 1])
    ratios = variant_ratios(session, axis_of(session, "table_open_cache_instances"))
    assert len(ratios) == 144
    assert sum(bool(one.differs) for one in ratios) > 0, "some differ by chance"
    assert not any(one.significant for one in ratios)
    assert answers(session)[-1] == "No significant difference in 396 comparisons, all taken together."


def test_tables_mark_what_is_significant_when_all_are_taken_together() -> None:
    session = table_cache()
    tables = [one for one in axis_tables(session) if one.title.startswith("table_open_cache_instances:")]
    ratios = variant_ratios(session, axis_of(session, "table_open_cache_instances"))
    differ, marked = (sum(bool(getattr(one, name)) for one in ratios) for name in ("differs", "significant"))
    assert 0 < marked <= differ < len(ratios)
    assert {table.notes[-1] for table in tables} == {
        "Significant: when all 144 comparisons along table_open_cache_instances are taken together (Holm's correction)."
    }
    cells = [cell for table in tables for row in table.rows for cell in row if "(0." in cell or "(1." in cell]
    assert (len(cells), sum(not cell.endswith(" (=)") for cell in cells)) == (144, marked)
    *_, versions = version_tables(interference())
    assert versions.notes[-1] == "Significant: when all 6 comparisons are taken together (Holm's correction)."
    assert "yes, better" in {row[-1] for row in versions.rows}


def test_a_single_comparison_needs_no_correction() -> None:
    alone = replace(interference(caches=("400",)), versions=(OLD,))
    (table,) = axis_tables(alone)
    assert table.rows[0][table.headers.index("significant")] == "yes, worse"
    assert not any("taken together" in note for note in table.notes)
    assert [one.significant for one in all_variant_ratios(alone)] == [True]


def test_one_loss_of_six_just_beyond_its_interval_is_not_significant() -> None:
    low = {"4000-on": (973.0, 980.0, 966.0)}

    def value(run: Run) -> float:
        usual = (1000.0, 1010.0, 990.0)
        return (low.get(run.variant, usual) if run.version == OLD else usual)[run.repeat - 1]

    session = with_values(interference(), value)
    assert [one.differs for one in all_variant_ratios(session)].count(True) == 1
    assert answers(session)[-1] == "No significant difference in 12 comparisons, all taken together."


# --- Which runs alternated


def planned(order: Sequence[tuple[str, str, int]]) -> Session:
    """Returns a session with these trials, each a version, a variant and the number of a block."""
    runs = tuple(
        Run(number, version, "mysql", variant, block, Verdict.MEASURED, metrics=seconds(float(number)))
        for number, (version, variant, block) in enumerate(order, 1)
    )
    versions = tuple(dict.fromkeys(run.version for run in runs))
    variants = plain_variants(*dict.fromkeys(run.variant for run in runs))
    return Session("s", "q", "c", "now", {}, {}, versions, variants, len(runs), runs=runs)


def common_blocks(session: Session, one: tuple[str, str], other: tuple[str, str]) -> int:
    samples = main_samples(session)
    return len(pairs_of_blocks(samples[key_of(one)], samples[key_of(other)]))


def test_cells_over_one_directory_alternate_and_versions_one_after_the_other_do_not() -> None:
    blocks = [(version, block) for version in (OLD, NEW) for block in (1, 2, 3)]
    session = planned([(version, variant, block) for version, block in blocks for variant in ("cold", "warm")])
    assert common_blocks(session, (OLD, "cold"), (OLD, "warm")) == 3
    assert common_blocks(session, (OLD, "cold"), (NEW, "cold")) == 0


def test_all_cells_of_alternating_versions_have_their_blocks_in_common() -> None:
    blocks = [(version, block) for block in (1, 2, 3) for version in (OLD, NEW)]
    session = planned([(version, variant, block) for version, block in blocks for variant in ("cold", "warm")])
    assert common_blocks(session, (OLD, "cold"), (NEW, "cold")) == 3
    assert common_blocks(session, (OLD, "warm"), (NEW, "cold")) == 3
    random_order = planned([(NEW, "cold", 1), (OLD, "cold", 1), (OLD, "cold", 2), (NEW, "cold", 2), (NEW, "cold", 3),
                            (OLD, "cold", 3)])  # fmt: skip
    assert common_blocks(random_order, (OLD, "cold"), (NEW, "cold")) == 3


def test_a_run_that_does_not_count_has_no_block_in_common() -> None:
    session = planned([(version, "cold", block) for block in (1, 2, 3, 4) for version in (OLD, NEW)])
    left_out = {3: Verdict.VOID, 8: Verdict.SAMPLED}
    runs = tuple(replace(one, verdict=left_out.get(one.number, one.verdict)) for one in session.runs)
    assert common_blocks(replace(session, runs=runs), (OLD, "cold"), (NEW, "cold")) == 2


@pytest.mark.parametrize("name", KEPT_SESSIONS)
def test_cells_of_kept_sessions_alternated_as_the_session_says(name: str, kept_sessions: Path) -> None:
    session = load_session(kept_sessions / name)
    order = str(session.settings.get("order"))
    samples = {cell: sample for cell, sample in main_samples(session).items() if len(sample.values) >= MIN_RUNS}
    for one, other in combinations(samples, 2):
        is_one_directory = one.version == other.version and not session.design.points
        alternated = "alternate" in order or is_one_directory
        assert (len(pairs_of_blocks(samples[one], samples[other])) >= MIN_RUNS) is alternated, (one, other)


def test_sessions_of_two_hosts_have_no_block_in_common() -> None:
    session = planned([(version, "cold", block) for block in (1, 2, 3) for version in (OLD, NEW)])
    both = combine([("one", session), ("two", session)])
    assert common_blocks(both, (OLD, "one cold"), (NEW, "one cold")) == 3
    assert common_blocks(both, (OLD, "one cold"), (OLD, "two cold")) == 0


# --- How much redo the starts over a data directory of the user's own had to read


def own_session(*, redo_bytes: int | None, **settings: str | int | bool) -> Session:
    session = load_session(FIXTURES / "sessions/three-versions")
    runs = tuple(
        replace(one, metrics=one.metrics | ({} if redo_bytes is None else {"redo_bytes": redo_bytes}))
        for one in session.runs
        if one.version == session.versions[0]
    )
    return replace(session, versions=session.versions[:1], runs=runs, settings={**session.settings, **settings})


def redo_sentences(session: Session) -> list[str]:
    return [line for line in answers(session) if line.startswith("Redo to read")]


def test_a_crash_of_the_tools_own_has_the_least_redo() -> None:
    (line,) = redo_sentences(own_session(redo_bytes=57_000, datadir="/var/lib/mysql", inserts=100))
    assert line == "Redo to read: 57.0 kB, the least: a crash under load leaves more (BEFORE_KILL=load, AS_IS=1)."


def test_a_crash_under_load_does_not_have_the_least_redo() -> None:
    session = own_session(redo_bytes=57_000_000, datadir="/var/lib/mysql", before_kill="load")
    assert redo_sentences(session) == ["Redo to read: 57.0 MB, after BEFORE_KILL."]


def test_the_recovery_that_is_ahead_has_the_redo_of_the_users_server() -> None:
    session = own_session(redo_bytes=34_100_000, datadir="/snapshot/mysql", as_is=True)
    assert redo_sentences(session) == ["Redo to read: 34.1 MB."]


def test_a_prediction_stands_beside_what_the_recovery_took() -> None:
    session = own_session(redo_bytes=1, datadir="/snapshot/mysql", as_is=True, predicted=2)
    lines = [line for line in answers(session) if line.startswith("Predicted")]
    assert len(lines) == len({run.variant for run in session.runs})
    form = re.compile(r"Predicted: 2\.00 s\. [\d.]+ took [\d.]+ s (cold|warm): [+-]\d+ %\.")
    assert all(map(form.fullmatch, lines)), lines
    assert not any(line.startswith("Predicted") for line in answers(own_session(redo_bytes=1)))


def test_a_clean_start_over_the_users_data_says_how_much_redo_it_read() -> None:
    session = own_session(redo_bytes=0, datadir="/var/lib/mysql", inserts=100)
    clean = replace(session, runs=tuple(with_parts(run, crash_proof=None) for run in session.runs))
    assert redo_sentences(clean) == ["Redo to read: 0 B."]


def test_redo_is_not_a_sentence_without_a_data_directory_or_without_a_figure() -> None:
    assert redo_sentences(own_session(redo_bytes=57_000)) == []
    assert redo_sentences(own_session(redo_bytes=None, datadir="/var/lib/mysql")) == []


def test_redo_is_a_metric_of_every_start() -> None:
    session = own_session(redo_bytes=57_000)
    for table in (*summary_tables(session), runs_table(session)):
        column = table.headers.index("redo")
        assert "57.0 kB" in {row[column] for row in table.rows}
    stored = json.loads(to_json(session))
    assert {run["metrics"]["redo_bytes"] for run in stored["runs"]} == {57_000}
