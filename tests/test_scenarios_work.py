"""The variants that each experiment plans, without a server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recovery.errors import UsageError
from recovery.experiments import find_scenario
from recovery.experiments.experiment import Experiment, ExperimentRequest, HostCapacity, option_combinations
from recovery.experiments.load_plan import (
    SPECIAL,
    UNIFORM,
    data_bytes,
    pool_bytes,
    pool_options,
    powers_of_two,
)
from recovery.experiments.table_cache import INSTANCES
from recovery.model import Cache, CreateTask, DumpTask, Layout, Load, Schema, StatementTask, VariantSpec, parse_version
from recovery.session.plan import build_variants, datadir_specs, make_plan

HOST = HostCapacity(cpus=2, memory_bytes=24 << 30)
NAMES = ("metadata", "interference", "table-cache", "write-scaling")


def experiment(name: str) -> Experiment:
    found = find_scenario(name).experiment
    assert found is not None
    return found


def works(name: str, asked: ExperimentRequest, schema: Schema | None = None) -> tuple[VariantSpec, ...]:
    found = experiment(name)
    return found.works(asked, schema or found.schema, HOST)


def loads(found: tuple[VariantSpec, ...]) -> list[Load]:
    return [work.task for work in found if isinstance(work.task, Load)]


@pytest.mark.parametrize("name", NAMES)
def test_each_variant_has_a_unique_name_that_is_a_valid_file_name(name: str) -> None:
    found = works(name, ExperimentRequest(threads=(1, 4)))
    names = [work.name for work in found]
    assert len(set(names)) == len(names)
    assert all("/" not in one and " " not in one for one in names)


@pytest.mark.parametrize("name", NAMES)
def test_the_baseline_of_each_axis_is_measured(name: str) -> None:
    found = works(name, ExperimentRequest(threads=(1, 4)))
    for axis, base in experiment(name).bases.items():
        assert any(dict(work.axes).get(axis) == base for work in found), axis


def test_metadata_runs_the_published_queries_and_both_dumps() -> None:
    found = works("metadata", ExperimentRequest(published_build=500, queries=(("mine", "select 1"),)))
    assert {work.cache for work in found} == {Cache.COLD}
    tasks = {work.name: work.task for work in found}
    assert list(tasks) == ["Q1", "Q2", "Q3", "mine", "dump", "dump-skip-lock-tables", "published-build"]
    assert isinstance(tasks["Q2"], StatementTask)
    assert "'s_1'" in tasks["Q2"].statement
    assert tasks["mine"] == StatementTask("select 1")
    assert tasks["dump-skip-lock-tables"] == DumpTask(("--skip-lock-tables",))
    assert tasks["published-build"] == CreateTask(500)


def test_interference_measures_each_cache_with_and_without_the_poller() -> None:
    found = works(
        "interference", ExperimentRequest(options=(("table_open_cache", ("400", "9000")),), pollers=3, every_s=0.5)
    )
    assert [(dict(work.axes)["table_open_cache"], dict(work.axes)["poll"]) for work in found] == [
        ("400", "off"), ("400", "on"), ("9000", "off"), ("9000", "on"),
    ]  # fmt: skip
    polls = [load.poll for load in loads(found)]
    assert polls[0] is not None
    assert polls[1] is not None
    assert (polls[0].clients, polls[1].clients, polls[1].every_s) == (0, 3, 0.5), "the baseline has no poller"
    assert "referential_constraints" in polls[1].statements[0]
    assert found[3].settings == (("table_open_cache", "9000"),)


def test_no_load_prepares_statements_if_one_load_cannot() -> None:
    found = works("interference", ExperimentRequest(threads=(1, 10)))
    assert {load.options for load in loads(found)} == {(SPECIAL, "--db-ps-mode=disable")}
    assert {load.options for load in loads(works("interference", ExperimentRequest(threads=(1, 2))))} == {(SPECIAL,)}


def test_the_table_cache_is_measured_by_workload_instances_tables_and_clients() -> None:
    found = works("table-cache", ExperimentRequest(threads=(1, 8)))
    assert len(found) == 3 * 3 * 3 * 2
    assert "read-only-instances-16-2-tables-8-threads" in [work.name for work in found]
    assert {load.tables for load in loads(found)} == {1, 2, 3}
    assert {load.script for load in loads(found)} == {"oltp_point_select", "oltp_read_only", "oltp_read_write"}


def test_readers_are_not_measured_for_each_flush_option() -> None:
    found = works("write-scaling", ExperimentRequest(parts=("scaling",), threads=(1,)))
    flushed = {dict(work.axes)["workload"] for work in found if "innodb_flush_log_at_trx_commit" in dict(work.axes)}
    assert flushed == {"read-write", "update-nokey"}


def test_a_workload_of_the_user_is_measured_once() -> None:
    found = works(
        "write-scaling", ExperimentRequest(parts=("scaling",), threads=(1,), workloads=("update-nokey", "point-select"))
    )
    assert [work.name for work in found] == [
        "scaling-point-select",
        *(f"scaling-update-nokey-commit-{value}" for value in ("1", "2", "0")),
    ]


def test_two_loads_with_the_same_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.lua").write_text("")
    both = tuple(str(tmp_path / folder / "mine.lua") for folder in ("a", "b"))
    with pytest.raises(UsageError, match=r"two of the loads are called mine\.lua"):
        works(
            "table-cache",
            ExperimentRequest(workloads=both, threads=(1,), load_tables=(1,), options=((INSTANCES, ("1",)),)),
        )


def test_larger_than_memory_exceeds_the_pool_and_has_a_data_directory_for_each_page_size() -> None:
    found = works("write-scaling", ExperimentRequest(parts=("larger-than-memory",), threads=(4,)))
    schema = experiment("write-scaling").schema
    pools = {int(dict(work.settings)["innodb_buffer_pool_size"]) for work in found}
    assert pools == {pool_bytes(schema, HOST, ratio=4.0)}
    assert pools.pop() * 3.5 < data_bytes(schema.total_tables, schema.rows)
    assert {load.options for load in loads(found)} == {(UNIFORM,)}, "otherwise most would hit the few rows that fit"
    places = datadir_specs([parse_version("5.7.22")], build_variants(found))
    assert [dict(place.settings).get("innodb_page_size") for place in places] == [None, "8k", "4k"]


def test_compressed_tables_have_a_separate_data_directory() -> None:
    found = works("write-scaling", ExperimentRequest(parts=("compression",), threads=(4,)))
    places = datadir_specs([parse_version("5.7.22")], build_variants(found))
    assert [place.layout for place in places] == [None, None, Layout.COMPRESSED]


@pytest.mark.parametrize(
    ("part", "version", "measured"),
    [
        ("redo-spinning", "5.7.22", False),
        ("redo-spinning", "8.0.31", True),
        ("lock-schedule", "8.0.31", False),
        ("lock-schedule", "mariadb-10.2.11", True),
    ],
)
def test_a_part_is_skipped_on_servers_without_the_capability(part: str, version: str, measured: bool) -> None:
    variants = build_variants(works("write-scaling", ExperimentRequest(parts=(part,), threads=(4,))))
    plan = make_plan([parse_version(version)], variants, repeats=1, alternating=True)
    assert bool(plan.trials) is measured


def test_an_unknown_question_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no question 'speed'") as error:
        works("write-scaling", ExperimentRequest(parts=("speed",)))
    assert "hot-rows" in error.value.hint


def test_hot_rows_are_ten_rows_locked_by_transactions() -> None:
    for part in ("hot-rows", "lock-schedule"):
        found = loads(works("write-scaling", ExperimentRequest(parts=(part,), threads=(4,), load_tables=(3,))))
        assert {(load.script, load.tables, load.rows) for load in found} == {("oltp_read_write", 1, 10)}
        assert {load.options for load in found} == {(UNIFORM,)}


def test_hot_rows_compare_committed_transactions() -> None:
    found = works("write-scaling", ExperimentRequest(threads=(4,)))
    own = {dict(work.axes)["question"] for work in found if work.figure == "tps"}
    assert own == {"hot-rows", "lock-schedule"}
    assert {work.figure for work in found} == {None, "tps"}
    assert {one.figure for one in build_variants(found) if "hot-rows" in one.name} == {"tps"}


def test_redo_spinning_is_forced_on_or_off() -> None:
    found = works("write-scaling", ExperimentRequest(parts=("redo-spinning",), threads=(4,)))
    assert [(dict(work.axes)["spinning"], dict(work.axes)["threads"]) for work in found] == [
        ("on", "1"), ("on", "4"), ("off", "1"), ("off", "4"),
    ]  # fmt: skip
    on, off = dict(found[0].settings), dict(found[-1].settings)
    assert (on["innodb_log_spin_cpu_abs_lwm"], on["innodb_log_spin_cpu_pct_hwm"]) == ("0", "100")
    assert int(on["innodb_log_wait_for_flush_spin_hwm"]) > 10**9
    assert int(off["innodb_log_spin_cpu_abs_lwm"]) > 10**9
    assert off["innodb_log_spin_cpu_pct_hwm"] == "0"


@pytest.mark.parametrize("part", ["larger-than-memory", "compression"])
def test_a_memory_ratio_of_one_is_refused_for_data_larger_than_memory(part: str) -> None:
    with pytest.raises(UsageError, match="MEMORY_RATIO=1 leaves no data that is larger"):
        works("write-scaling", ExperimentRequest(parts=(part,), memory_ratio=1.0))
    assert works("write-scaling", ExperimentRequest(parts=("scaling",), threads=(1,), memory_ratio=1.0))


def test_data_that_does_not_fit_into_memory_is_refused_with_a_size_that_fits() -> None:
    schema = Schema(8, rows=10_000_000)
    with pytest.raises(UsageError, match="need a buffer pool of 24") as told:
        works("table-cache", ExperimentRequest(threads=(1,), load_tables=(8,)), schema)
    fit = re.search(r"ROWS=(\d+)", told.value.hint)
    assert fit is not None
    assert 4_500_000 < int(fit[1]) < 5_500_000
    assert works("table-cache", ExperimentRequest(threads=(1,), load_tables=(8,)), Schema(8, rows=int(fit[1])))
    # The load's own tables count, and data that is to be larger does not.
    assert works("table-cache", ExperimentRequest(threads=(1,), load_tables=(1,)), schema)
    assert works("write-scaling", ExperimentRequest(threads=(1,), parts=("larger-than-memory", "hot-rows")), schema)
    with pytest.raises(UsageError, match="MEMORY_RATIO=1 asks") as told:
        works("table-cache", ExperimentRequest(threads=(1,), memory_ratio=1.0), schema)
    assert "MEMORY_RATIO=1.6 or more" in told.value.hint
    assert works("table-cache", ExperimentRequest(threads=(1,), load_tables=(8,), memory_ratio=1.6), schema)


@pytest.mark.parametrize("rows", [1, 20_000, 70_000, 250_000, 450_000, 1_000_000, 3_000_000, 20_000_000])
@pytest.mark.parametrize("ratio", [None, 4.0])
def test_no_version_rounds_the_pool_size(rows: int, ratio: float | None) -> None:
    """Rounded up by a server it would be twice as large in one as in another."""
    schema, host = Schema(8, rows=rows), HostCapacity(cpus=2, memory_bytes=256 << 30)
    size = pool_bytes(schema, host, ratio=ratio)
    options = pool_options(size)
    instances, chunk = (int(options[f"loose_innodb_buffer_pool_{name}"]) for name in ("instances", "chunk_size"))
    assert size % (instances * chunk) == 0
    assert size // chunk <= 1000
    assert instances == (1 if size < 1 << 30 else 8)
    if ratio:
        assert data_bytes(8, rows) / size == pytest.approx(ratio, rel=0.07) or size == 5 << 20
    else:
        assert size > 1.4 * data_bytes(8, rows)


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(UsageError, match="no workload is called nonsense"):
        works("table-cache", ExperimentRequest(workloads=("nonsense",)))


def test_options_are_crossed_and_the_values_of_the_user_replace_the_defaults() -> None:
    asked = ExperimentRequest(options=(("a", ("1", "2")), ("b", ("x",))))
    assert option_combinations(asked, (("a", ("7",)),)) == ((("a", "1"), ("b", "x")), (("a", "2"), ("b", "x")))


def test_a_pool_holds_all_data_unless_a_ratio_is_given() -> None:
    schema = Schema(8, rows=1_000_000)
    assert pool_bytes(schema, HOST, ratio=None) > 8 * 1_000_000 * 250
    assert pool_bytes(schema, HOST, ratio=4.0) < 8 * 1_000_000 * 250 / 3
    assert pool_bytes(Schema(8, rows=10**9), HOST, ratio=None) <= HOST.memory_bytes / 2


def test_clients_are_doubled() -> None:
    assert powers_of_two(12) == (1, 2, 4, 8)
