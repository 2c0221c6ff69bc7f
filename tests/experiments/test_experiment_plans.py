"""The variants that each experiment plans, without a server: sizes, refusals, the table cache and the estimate."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from at_work import write_scaling
from request_parts import changed_request, make_plan, new_request
from runs import values_of_all

from recovery.analysis.effective_options import changed_options, same_effective_options, same_value, server_of_cell
from recovery.cli import parse
from recovery.cli.measure import request_from_arguments
from recovery.errors import TrialVoidError, UsageError
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.experiments.experiment import HostCapacity
from recovery.experiments.server_description import check_differs
from recovery.loads.load_plan import SPECIAL, UNIFORM, pool_bytes, pool_options
from recovery.loads.tasks import CreateTask, DumpTask, Load, StatementTask, data_bytes
from recovery.model import Cache, ExtraRun, Layout, Schema, Variant, VariantSpec, parse_version, startup_specs
from recovery.mysqld.options import (
    CACHE_INSTANCES,
    POOL,
    max_clients,
    max_open_tables,
    needed_connections,
    needed_open_files,
)
from recovery.session.estimate import SESSION_OVERHEAD_S, build_seconds, trial_seconds
from recovery.session.option_checks import check_table_open_cache
from recovery.session.plan import Plan, build_variants, combined_need, datadir_specs, stored_trials
from recovery.session.prepare import plan_ahead, plan_session
from recovery.storage.sessions import load_session

LIMIT = 20_000
"""The usual number of files that a server may open."""
HOST = HostCapacity(cpus=2, memory_bytes=24 << 30, open_files=LIMIT)
VERSION = parse_version("5.7.22")
NAMES = ("metadata", "interference", "table-cache", "write-scaling")


def works(
    name: str, asked: dict[str, Any], schema: Schema | None = None, host: HostCapacity = HOST
) -> tuple[VariantSpec, ...]:
    found = find_experiment(name)
    return found.variant_specs(found.options(**asked), schema or found.schema, host)


def loads(found: tuple[VariantSpec, ...]) -> list[Load]:
    return [work.task for work in found if isinstance(work.task, Load)]


def axis_values(found: tuple[VariantSpec, ...], axis: str) -> list[str]:
    """The different values on an axis, in order."""
    return list(dict.fromkeys(dict(work.axes)[axis] for work in found))


def test_the_list_of_experiments() -> None:
    assert [find_experiment(name).name for name in EXPERIMENTS] == [
        "cold-recovery", "warm-recovery", "crash-recovery", "clean-start", "scale",
        "metadata", "interference", "table-cache", "write-scaling", "crash-matrix", "pending-work", "damage",
    ]  # fmt: skip
    specs = works("crash-recovery", {})
    assert [spec.cache for spec in specs] == [Cache.COLD, Cache.WARM]
    with pytest.raises(UsageError, match="no experiment 'hot'"):
        find_experiment("hot")


# --- Variants


@pytest.mark.parametrize("name", NAMES)
def test_variants_have_unique_file_names_and_each_axis_its_baseline(name: str) -> None:
    asked = {"threads": (1, 4), "charset": ("latin1", "utf8mb4")} if name != "metadata" else {}
    found = works(name, asked)
    names = [work.name for work in found]
    assert len(set(names)) == len(names)
    assert all("/" not in one and " " not in one for one in names)
    for axis, base in find_experiment(name).bases.items():
        assert any(dict(work.axes).get(axis) == base for work in found), axis


def test_metadata_runs_the_published_queries_and_both_dumps() -> None:
    found = works("metadata", {"published_build": 500, "queries": (("mine", "select 1"),)})
    assert {work.cache for work in found} == {Cache.COLD}
    tasks = {work.name: work.task for work in found}
    assert list(tasks) == ["Q1", "Q2", "Q3", "mine", "dump", "dump-skip-lock-tables", "published-build"]
    assert isinstance(tasks["Q2"], StatementTask)
    assert "'s_1'" in tasks["Q2"].statement
    assert tasks["mine"] == StatementTask("select 1")
    assert tasks["dump-skip-lock-tables"] == DumpTask(100, ("--skip-lock-tables",))
    assert tasks["published-build"] == CreateTask(500)


def test_metadata_runs_only_what_was_asked_for() -> None:
    mine = (("mine", "select 1"),)
    found = works("metadata", {"parts": ("mine", "dump"), "queries": mine, "dump_schemas": 10})
    assert {work.name: work.task for work in found} == {"mine": StatementTask("select 1"), "dump": DumpTask(10)}
    with pytest.raises(UsageError, match="QUESTION: published-build: metadata has no such question"):
        works("metadata", {"parts": ("published-build",)})
    with pytest.raises(UsageError, match="DUMP_SCHEMAS: 101 is more than --schemas 100"):
        works("metadata", {"dump_schemas": 101})


def test_interference_measures_each_cache_with_and_without_the_poller() -> None:
    found = works("interference", {"options": (("table_open_cache", ("400", "9000")),), "pollers": 3, "every_s": 0.5})
    assert [(dict(work.axes)["table_open_cache"], dict(work.axes)["poll"]) for work in found] == [
        ("400", "off"), ("400", "on"), ("9000", "off"), ("9000", "on"),
    ]  # fmt: skip
    polls = [load.poll for load in loads(found)]
    assert polls[0] is not None
    assert polls[1] is not None
    assert (polls[0].clients, polls[1].clients, polls[1].every_s) == (0, 3, 0.5), "the baseline has no poller"
    assert "referential_constraints" in polls[1].statements[0]
    assert found[3].settings == (("table_open_cache", "9000"),)


@pytest.mark.parametrize(("threads", "words"), [((1, 10), (SPECIAL, "--db-ps-mode=disable")), ((1, 2), (SPECIAL,))])
def test_no_load_prepares_statements_if_one_load_cannot(threads: tuple[int, ...], words: tuple[str, ...]) -> None:
    assert {load.options for load in loads(works("interference", {"threads": threads}))} == {words}


def test_only_writers_are_measured_for_each_flush_option() -> None:
    requested: dict[str, Any] = {"parts": ("scaling",), "threads": (1,)}
    found = works("write-scaling", requested)
    flushed = {dict(work.axes)["workload"] for work in found if "innodb_flush_log_at_trx_commit" in dict(work.axes)}
    assert flushed == {"read-write", "update-nokey"}
    chosen = works("write-scaling", requested | {"workloads": ("update-nokey", "point-select")})
    assert [work.name for work in chosen] == [
        "scaling-point-select",
        *(f"scaling-update-nokey-commit-{value}" for value in ("1", "2", "0")),
    ]


def test_larger_than_memory_exceeds_the_pool() -> None:
    found = works("write-scaling", {"parts": ("larger-than-memory",), "threads": (4,)})
    schema = find_experiment("write-scaling").schema
    pools = {int(dict(work.settings)["innodb_buffer_pool_size"]) for work in found}
    assert pools == {pool_bytes(schema, HOST, ratio=4.0)}
    assert pools.pop() * 3.5 < data_bytes(schema.total_tables, schema.rows)
    assert {load.options for load in loads(found)} == {(UNIFORM,)}, "otherwise most would hit the few rows that fit"


@pytest.mark.parametrize(
    ("part", "places"),
    [
        ("larger-than-memory", [(None, None), ("8k", None), ("4k", None)]),
        ("compression", [(None, None), ("4k", None), (None, Layout.COMPRESSED)]),
    ],
)
def test_page_sizes_and_compressed_tables_have_separate_data_directories(
    part: str, places: list[tuple[str | None, Layout | None]]
) -> None:
    variants = build_variants(works("write-scaling", {"parts": (part,), "threads": (4,)}))
    found = [(dict(one.settings).get("innodb_page_size"), one.layout) for one in datadir_specs([VERSION], variants)]
    assert found == places


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
    variants = build_variants(works("write-scaling", {"parts": (part,), "threads": (4,)}))
    plan = make_plan([parse_version(version)], variants, repeats=1, alternating=True)
    assert bool(plan.trials) is measured


def test_hot_rows_are_ten_rows_locked_by_transactions_that_are_counted_by_commits() -> None:
    for part in ("hot-rows", "lock-schedule"):
        found = loads(works("write-scaling", {"parts": (part,), "threads": (4,), "load_tables": (3,)}))
        assert {(load.script, load.tables, load.rows) for load in found} == {("oltp_read_write", 1, 10)}
        assert {load.options for load in found} == {(UNIFORM,)}
    every = works("write-scaling", {"threads": (4,)})
    assert {dict(work.axes)["question"] for work in every if work.metric == "tps"} == {"hot-rows", "lock-schedule"}
    assert {work.metric for work in every} == {None, "tps"}
    assert {one.metric for one in build_variants(every) if "hot-rows" in one.name} == {"tps"}


def test_unknown_questions_and_workloads_are_refused() -> None:
    with pytest.raises(UsageError, match="QUESTION: speed: write-scaling has no such") as error:
        works("write-scaling", {"parts": ("speed",)})
    assert "hot-rows" in error.value.hint
    with pytest.raises(UsageError, match="WORKLOAD: nonsense: there is no such"):
        works("table-cache", {"workloads": ("nonsense",)})


def test_two_loads_with_the_same_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.lua").write_text("")
    both = tuple(str(tmp_path / folder / "mine.lua") for folder in ("a", "b"))
    asked = {"workloads": both, "threads": (1,), "load_tables": (1,), "options": ((CACHE_INSTANCES, ("1",)),)}
    with pytest.raises(UsageError, match=r"two of the loads are called mine\.lua"):
        works("table-cache", asked)


# --- Memory


@pytest.mark.parametrize("part", ["larger-than-memory", "compression"])
def test_a_memory_ratio_of_one_is_refused_for_data_larger_than_memory(part: str) -> None:
    with pytest.raises(UsageError, match="MEMORY_RATIO: 1 leaves no data that is larger"):
        works("write-scaling", {"parts": (part,), "memory_ratio": 1.0})
    assert works("write-scaling", {"parts": ("scaling",), "threads": (1,), "memory_ratio": 1.0})


def test_data_that_does_not_fit_into_memory_is_refused_with_a_size_that_fits() -> None:
    schema = Schema(8, rows=10_000_000)
    with pytest.raises(UsageError, match="need a buffer pool of 24") as error:
        works("table-cache", {"threads": (1,), "load_tables": (8,)}, schema)
    fit = re.search(r"--rows (\d+)", error.value.hint)
    assert fit is not None
    assert 4_500_000 < int(fit[1]) < 5_500_000
    assert works("table-cache", {"threads": (1,), "load_tables": (8,)}, Schema(8, rows=int(fit[1])))
    # The load's own tables count, and data that is to be larger does not.
    assert works("table-cache", {"threads": (1,), "load_tables": (1,)}, schema)
    assert works("write-scaling", {"threads": (1,), "parts": ("larger-than-memory", "hot-rows")}, schema)
    with pytest.raises(UsageError, match="MEMORY_RATIO: 1 asks") as error:
        works("table-cache", {"threads": (1,), "memory_ratio": 1.0}, schema)
    assert "give 1.6 or more" in error.value.hint
    assert works("table-cache", {"threads": (1,), "load_tables": (8,), "memory_ratio": 1.6}, schema)


@pytest.mark.parametrize("rows", [1, 20_000, 70_000, 250_000, 450_000, 1_000_000, 3_000_000, 20_000_000])
@pytest.mark.parametrize("ratio", [None, 4.0])
def test_no_version_rounds_the_pool_size(rows: int, ratio: float | None) -> None:
    """Rounded up by a server it would be twice as large in one as in another."""
    size = pool_bytes(Schema(8, rows=rows), HostCapacity(cpus=2, memory_bytes=256 << 30), ratio=ratio)
    options = pool_options(size)
    instances, chunk = (int(options[f"loose_innodb_buffer_pool_{name}"]) for name in ("instances", "chunk_size"))
    assert size % (instances * chunk) == 0
    assert size // chunk <= 1000
    assert instances == (1 if size < 1 << 30 else 8)
    if ratio:
        assert data_bytes(8, rows) / size == pytest.approx(ratio, rel=0.07) or size == 5 << 20
    else:
        assert size > 1.4 * data_bytes(8, rows)
    assert pool_bytes(Schema(8, rows=10**9), HOST, ratio=None) <= HOST.memory_bytes / 2


# --- Options that are not in effect


def known(option: str, effective: str) -> dict[str, str]:
    name = option.partition("=")[0]
    return {"options": f"max_connections=1000 {option}", f"@{name}": effective, "@max_connections": "1000"}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [("16k", "16384", True), ("ON", "1", True), ("fcfs", "FCFS", True), ("READ-COMMITTED", "read_committed", True),
     ("1g", "1024M", True), ("400", "4000", False), ("on", "off", False), ("", "1", False)],
)  # fmt: skip
def test_values_with_different_spellings_are_the_same(one: str, other: str, *, alike: bool) -> None:
    assert same_value(one, other) is alike


def test_an_option_that_is_not_in_effect_is_found() -> None:
    (found,) = changed_options(known("table_open_cache=16000", "9495"))
    assert str(found) == "table_open_cache=16000 was requested, 9495 is in effect"
    assert list(changed_options(known("loose_innodb_page_size=16k", "16384"))) == []
    assert list(changed_options({"options": "loose_no_such_option=5"})) == [], "one that the server does not have"
    assert list(changed_options(known("log_bin=binlog", "ON"))) == [], "a file name, whose variable is a switch"


def test_two_requests_with_the_same_effect_are_one_experiment() -> None:
    first, second = known("table_open_cache=16000", "9495"), known("table_open_cache=32000", "9495")
    assert [one.requested for one in same_effective_options(first, second)] == ["16000"]
    assert same_effective_options(first, known("table_open_cache=400", "400")) == ()
    assert same_effective_options(first, first) == (), "nothing else was requested"
    assert same_effective_options({}, {}) == ()
    unknown = {"options": "a=1"}, {"options": "a=2"}
    assert same_effective_options(*unknown) == (), "options that the server does not report"
    at_its_default = {"options": "max_connections=1000", "@table_open_cache": "2000", "@max_connections": "1000"}
    assert same_effective_options(known("table_open_cache=2000", "2000"), at_its_default) == (), "another load, maybe"
    described, order = {"b": second, "a": first}, ("a", "b")
    check_differs("b", {"b": second}, order)
    check_differs("a", described, order)  # the first one of the report stays, though the order of a block is random
    with pytest.raises(TrialVoidError, match="32000 was requested, 9495 is in effect, as in a") as error:
        check_differs("b", described, order)
    assert "--open-files" in error.value.hint


def test_the_server_of_a_cell_is_the_one_with_its_options() -> None:
    session = write_scaling(small=True)
    flush = "innodb_flush_log_at_trx_commit"
    servers = {"5.7.22": {"which": "plain"}, f"5.7.22 {flush}=0": {"which": "lazy", "options": f"{flush}=0"}}
    session = replace(session, servers=servers)
    which = {
        cell.get(flush): server_of_cell(session, "5.7.22", name)["which"]
        for name, cell in values_of_all(session).items()
    }
    assert (which["0"], which["2"], which[None]) == ("lazy", "plain", "plain")
    assert server_of_cell(session, "8.0.31", session.variant_names[0]) == {}


# --- The table cache of interference, and the files that servers may open


def interference(host: HostCapacity = HOST, **asked: object) -> tuple[VariantSpec, ...]:
    return works("interference", asked, host=host)


def test_queries_of_the_pollers_are_compared_beside_one_load_alone() -> None:
    own = (("mine", "select 1"),)
    found = interference(queries=own, poll_query=("foreign-keys", "filtered", "mine"))
    polls = {dict(one.axes)["poll"]: one.task.poll for one in found if isinstance(one.task, Load)}
    assert {value: poll.clients for value, poll in polls.items() if poll} == {
        "off": 0, "foreign-keys": 1, "filtered": 1, "mine": 1
    }  # fmt: skip
    asked = {value: poll.statements for value, poll in polls.items() if poll}
    assert "rc.table_name = '{table}'" in asked["filtered"][0]
    assert "rc.table_name" not in asked["foreign-keys"][0]
    assert asked["mine"] == ("select 1",)
    with pytest.raises(UsageError, match="POLL_QUERY: x: there is no such query") as error:
        interference(poll_query=("x",))
    assert error.value.hint == "there are: foreign-keys, filtered"


def test_as_many_tables_stay_open_as_files_allow() -> None:
    """As 10.11.5 reports it; 5.7.22 and 8.0.31 report ten more."""
    assert max_open_tables(LIMIT, connections=1000) == 9485
    assert max_open_tables(4096, connections=1000) == 1533
    assert max_open_tables(1024, connections=1000) == 400
    assert needed_open_files(9485, connections=1000) == LIMIT
    assert max_clients(LIMIT) == 19_154
    assert needed_connections(19_154) + needed_open_files(400, connections=0) == LIMIT


def messages_about_caches(folder: Path, *values: str, versions: tuple[str, ...] = ("5.7.22",)) -> list[str]:
    """What is printed before interference is measured with these values of table_open_cache."""
    found = interference(options=(("table_open_cache", values),))
    own = (("max_connections", "1000"),)
    request = new_request("interference", found, versions, Schema(100), 1, folder, folder, options=own)
    request = changed_request(request, open_files=LIMIT)
    printed: list[str] = []
    check_table_open_cache(request, say=printed.append)
    return printed


def test_a_cache_that_cannot_be_in_effect_is_reported_at_once(tmp_path: Path) -> None:
    assert messages_about_caches(tmp_path, "2000", "9000") == []
    (line,) = messages_about_caches(tmp_path, "2000", "16000")
    assert "table_open_cache=16000 will not be in effect" in line
    assert "about 9,485" in line
    assert "--open-files 33030" in line


def test_two_caches_that_would_be_the_same_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="table_open_cache=16000 and 32000 would be measured as the same value"):
        messages_about_caches(tmp_path, "2000", "16000", "32000")
    for mariadb in ("mariadb-10.2.11", "10.2"):
        lines = messages_about_caches(tmp_path, "16000", "32000", versions=("5.7.22", mariadb))
        assert ["most servers" in line for line in lines] == [True, True], "one of them leaves it as it is"


@pytest.mark.parametrize(
    ("files", "tables", "used", "caches"),
    [
        (LIMIT, 10_000, "1000", ["2000", "9485"]),
        (100_000, 10_000, "1000", ["2000", "20000"]),
        (LIMIT, 1000, "100", ["200", "2000"]),
        (LIMIT, 40, "4", ["8", "80"]),
        (1024, 10_000, "200", ["400"]),
    ],
)
def test_the_default_caches_are_for_the_tables_of_the_load_and_for_all(
    files: int, tables: int, used: str, caches: list[str]
) -> None:
    schema = replace(find_experiment("interference").schema, tables=tables)
    found = works("interference", {}, schema, replace(HOST, open_files=files))
    assert axis_values(found, "tables") == [used]
    assert axis_values(found, "table_open_cache") == caches
    assert max(map(int, caches)) <= max_open_tables(files, connections=1000)


def test_caches_follow_the_tables_that_the_load_uses() -> None:
    assert axis_values(interference(load_tables=(100, 500)), "table_open_cache") == ["1000", "9485"]
    chosen = interference(load_tables=(1000,), options=(("table_open_cache", ("400",)),))
    assert axis_values(chosen, "table_open_cache") == ["400"], "values of the user are accepted"


@pytest.mark.parametrize(
    ("name", "asked", "cpus", "connections"),
    [
        ("interference", {}, 2, 1000),
        ("interference", {"threads": (10, 1100), "pollers": 2}, 2, 1118),
        ("table-cache", {}, 256, 4 * 256 + 16),
        ("write-scaling", {}, 512, 4 * 512 + 16),
    ],
)
def test_as_many_may_connect_as_there_are_clients(
    name: str, asked: dict[str, Any], cpus: int, connections: int
) -> None:
    found, host = find_experiment(name), HostCapacity(cpus, 512 << 30, open_files=LIMIT)
    assert dict(found.settings(found.options(**asked), found.schema, host))["max_connections"] == str(connections)


def test_connections_leave_fewer_files_for_tables() -> None:
    most = max_open_tables(LIMIT, connections=4017)
    assert most == (LIMIT - 30 - 4017) // 2
    assert axis_values(interference(threads=(4000,)), "table_open_cache") == ["2000", str(most)]


def test_more_clients_than_files_suffice_for_are_refused_with_what_fits() -> None:
    with pytest.raises(UsageError, match=r"19,200 clients at once .* the limit is 19,154 clients") as error:
        interference(threads=(9200,), pollers=10_000)
    assert "--threads" in error.value.hint


# --- The estimate of a session's duration

ASKED = Schema(1000)
BOTH = startup_specs((Cache.COLD, Cache.WARM))
REQUEST = new_request("crash-recovery", BOTH, ("5.7.22",), ASKED, 2, Path("/data"), Path("/results"))


def test_a_directory_that_grows_is_counted_once() -> None:
    words = ("--version", "5.7.22", "--runs", "1", "--engine", "local")
    grown = plan_ahead(request_from_arguments("scale", [*words, "--tables", "20000 200000"]))
    (small, large), alone = grown.datadirs, plan_ahead(request_from_arguments("cold-recovery", [*words]))
    assert combined_need([grown]) == combined_need([grown, alone]) == large.need != small.need
    added_s = grown.trials_s(grown.over(small.spec))
    assert grown.seconds == pytest.approx(alone.seconds + added_s)


@pytest.mark.parametrize("began_with", [True, False])
def test_a_resumed_session_has_the_same_runs_only_if_it_began_with_first_reads(began_with: bool) -> None:
    resumed = Mock()
    resumed.planned.trials = stored_trials(planned().trials)[0 if began_with else 1 :]
    resumed.planned.alternating, resumed.planned.built, resumed.store.session.done = True, (), frozenset()
    found = plan_session(REQUEST, [VERSION], resumed=resumed)
    assert sum(trial.extra is ExtraRun.FIRST_READ for trial in found.trials) == 1
    assert (stored_trials(found.trials) == resumed.planned.trials) == began_with


SESSIONS = (
    "2026-11-21-containers-9.7-5000-iops", "2026-11-21-four-versions", "2026-11-21-scale", "2026-11-27-seven-versions",
    "2026-11-22-crash-matrix-writing", "2026-11-22-damage", "2026-11-22-interference", "2026-11-22-metadata",
    "2026-11-25-six-servers", "2026-11-26-table-cache", "2026-11-26-write-scaling",
)  # fmt: skip


def planned(*points: int) -> Plan:
    return plan_session(changed_request(REQUEST, points=points), [VERSION])


def test_the_estimate_has_every_trial_and_every_build_that_is_not_there() -> None:
    plan = planned()
    (datadir,) = plan.datadirs
    assert [(one.title, seconds) for one, seconds in plan.builds] == [
        ("5.7.22: 1,000 tables", build_seconds(VERSION, ASKED))
    ]
    assert plan.trial_s["5.7.22", "cold"] > plan.trial_s["5.7.22", "warm"]
    cold_s, warm_s = (trial_seconds(VERSION, ASKED, variant) for variant in REQUEST.all_variants)
    first_read_s = cold_s
    trials_s = first_read_s + 2 * (cold_s + warm_s)
    assert plan.seconds == pytest.approx(SESSION_OVERHEAD_S + build_seconds(VERSION, ASKED) + trials_s)
    assert replace(plan, datadirs=(replace(datadir, whole=True),)).builds == ()


def test_a_growing_directory_is_estimated_by_what_is_added() -> None:
    plan = planned(100, 1000)
    (small, small_s), (large, large_s) = plan.builds
    assert (small.title, large.title) == ("5.7.22: 100 tables", "5.7.22: 1,000 tables")
    assert small_s + large_s == build_seconds(VERSION, ASKED)
    ended = frozenset(trial.number for trial in plan.over(small.spec))
    resumed = replace(plan, done=ended)
    assert resumed.trials == plan.trials
    assert [one.title for one, _ in resumed.builds] == ["5.7.22: 1,000 tables"], "finished trials need no directory"


@pytest.mark.parametrize("name", SESSIONS)
def test_the_estimate_is_in_the_order_of_recorded_sessions(
    name: str, kept_sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ran on a machine with two cores. Some found their data directories built."""
    monkeypatch.setattr(parse, "host_capacity", lambda _: HOST)
    session = load_session(kept_sessions / name)
    began = [datetime.fromisoformat(run.started_at) for run in session.runs if run.started_at]
    each_s = (began[-1] - began[0]).total_seconds() / (len(began) - 1)
    took_s = (began[0] - datetime.fromisoformat(session.started_at)).total_seconds() + len(began) * each_s
    command, *words = shlex.split(session.command)[1:]
    plan = plan_ahead(request_from_arguments(command, words))
    # The versions of the tool that recorded them had no first reads, and traced the runs that count.
    since_then = [trial for trial in plan.trials if trial.extra in (ExtraRun.FIRST_READ, ExtraRun.TRACE)]
    assert 1 / 2 < (plan.seconds - plan.trials_s(since_then)) / took_s < 2


def loaded(*, tables: int = 8, rows: int = 1_000_000, pool: str | None = None) -> Variant:
    load = Load("oltp_read_only", 4, tables, rows, seconds=60, warmup_s=10)
    return Variant("load", Cache.WARM, ((POOL, pool),) if pool else (), task=load)


def test_the_estimate_includes_the_reading_of_tables_before_each_load() -> None:
    large, small = Schema(8, rows=1_000_000), Schema(8, rows=100)
    spent_s = trial_seconds(VERSION, large, loaded())
    nothing_read_s = trial_seconds(VERSION, small, loaded(rows=100))
    assert 5 < spent_s - nothing_read_s < 60
    part_s = trial_seconds(VERSION, large, loaded(tables=1))
    assert nothing_read_s < part_s < spent_s, "of the tables that it uses"
    fits, too_small = {POOL: str(4 << 30)}, {POOL: str(1 << 30)}
    assert trial_seconds(VERSION, large, loaded(), settings=fits) == spent_s
    assert trial_seconds(VERSION, large, loaded(), settings=too_small) < nothing_read_s + 0.01, "the load reads it"
    assert trial_seconds(VERSION, large, loaded(pool=too_small[POOL]), settings=fits) < spent_s, "the variant's pool"


def test_the_estimate_includes_a_limit_on_reads() -> None:
    cold, large = Variant("cold", Cache.COLD), Schema(8, rows=1_000_000)
    assert trial_seconds(VERSION, ASKED, cold, read_iops=100) > 2 * trial_seconds(VERSION, ASKED, cold)
    limited_s = trial_seconds(VERSION, large, loaded(), read_iops=500)
    nothing_read_s = trial_seconds(VERSION, Schema(8, rows=100), loaded(rows=100))
    assert limited_s - nothing_read_s > 200, "120,000 pages"


def test_the_estimate_uses_the_pool_of_the_session(tmp_path: Path) -> None:
    variant, schema = loaded(), Schema(8, rows=1_000_000)
    found = (VariantSpec("load", Cache.WARM, variant.task, (), ()),)
    seconds = []
    for pool in (4 << 30, 1 << 30):
        own = ((POOL, str(pool)),)
        request = new_request(
            "table-cache", found, ("5.7.22",), schema, 1, tmp_path, tmp_path, settings_of_experiment=own
        )
        seconds.append(next(iter(plan_session(request, [VERSION]).trial_s.values())))
    assert seconds[0] > seconds[1] + 5
