"""Experiments that give a real server work: what is asked of it, what is stored, and how it ends."""

from __future__ import annotations

import csv
import gzip
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from datadirs import built_datadir, running
from keptwarm import kept_warm
from sessions import read_samples
from waiting import BUILDING_S, until

from recovery.analysis.warnings import findings
from recovery.builds.resolve import Sources, resolve_server
from recovery.cli.main import run
from recovery.errors import TrialVoidError
from recovery.linux import procfs
from recovery.linux.files import template_dir
from recovery.linux.procfs import Core
from recovery.loads.metadata import METADATA
from recovery.loads.tasks import ROW_BYTES
from recovery.model import Layout, Run, Schema, Session, Verdict
from recovery.mysqld.client import scalar
from recovery.mysqld.table_files import make_tables_cold, table_files
from recovery.storage.sessions import find_session, load_session
from recovery.workload.build import DatadirMismatchError

pytestmark = pytest.mark.real
LARGE = pytest.mark.on_demand("large")
OLD, USUAL, NEW, SCHEDULED = "5.6.24", "5.7.22", "8.0.31", "mariadb-10.2.11"
SMALL_LOG = ("--set", "innodb_redo_log_capacity=16M")
"""Instead of a gigabyte that is written for every data directory. For older servers the option is translated."""


@pytest.fixture
def folders(data: Path, tmp_path: Path) -> list[str]:
    return ["--data", str(data), "--results", str(tmp_path / "results"), "--no-probe", "--runs", "1"]


@pytest.fixture
def at(folders: list[str]) -> list[str]:
    return [*folders, *SMALL_LOG]


def stored(tmp_path: Path) -> Session:
    return load_session(find_session(tmp_path / "results", None))


def cell(session: Session, version: str | None = None, **axes: str) -> Run:
    (found,) = (
        one
        for one in session.runs
        if version in (None, one.version) and axes.items() <= session.values_of(one.variant).items()
    )
    return found


# --- metadata

SCHEMAS, TABLES = 3, 60
SCHEMA = replace(METADATA.schema, tables=TABLES, databases=SCHEMAS)
METADATA_COMMAND = ("metadata", "--tables", str(TABLES), "--schemas", str(SCHEMAS))


@pytest.fixture(scope="module", params=[NEW, pytest.param(f"{USUAL} {NEW}", marks=LARGE)])
def metadata(request: pytest.FixtureRequest, once: Path, data: Path) -> Path:
    """The folder of the session. One data directory has tables of a timed build that was killed: who counts all tables
    would count them, and the ledger does not know of them."""
    mine = once / "mine.sql"
    mine.write_text("-- names\nselect table_name from information_schema.tables where table_schema = 's_2';\n")
    build = resolve_server(request.param.split()[-1], Sources(), lambda _: None)
    with built_datadir(build, SCHEMA, data) as target, running(build, target.mysql, once / "logs") as server:
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute("create schema published_build")
            cursor.execute("create table published_build.table_1 (id int primary key)")
        server.kill()
        target.save(replace(target.state, temporary_schemas=("published_build",)))
    command = [*METADATA_COMMAND, "--version", request.param, "--published-build", "20", "--queries", str(mine)]
    where = ["--data", str(data), "--results", str(once / "results"), "--no-probe", "--runs", "1", *SMALL_LOG]
    assert run([*command, *where]) == 0
    return once


def test_queries_dumps_and_table_creation_are_measured(metadata: Path) -> None:
    session = stored(metadata)
    assert session.metric == "elapsed_s"
    assert [axis.name for axis in session.axes] == ["question"]
    for version in session.versions:
        runs = {session.values_of(one.variant)["question"]: one for one in session.runs if one.version == version}
        assert {one.verdict for one in runs.values()} == {Verdict.MEASURED}
        assert runs["names"].metrics["rows"] == TABLES
        assert runs["Q2"].metrics["rows"] == 1
        assert runs["published-build"].metrics["tables_made"] == 20
        assert all(one.cold.means in ("drop_caches", "fadvise") for one in runs.values())
        assert all((one.cold.resident_bytes or 0) < 16 << 20 for one in runs.values())
        # Statistics that are not stored yet are computed and written by the first query, a kilobyte for each table.
        asked = runs["Q1"].metrics
        assert asked["redo_bytes_per_s"] * asked["elapsed_s"] < 200 * TABLES * SCHEMAS
        # A line of SQL for each table, at the least.
        assert runs["dump"].metrics["dump_bytes"] > 100 * TABLES * SCHEMAS
        assert runs["dump"].metrics["dump_bytes"] == runs["dump-skip-lock-tables"].metrics["dump_bytes"]
        assert "mariadb-dump" in runs["dump"].load.clients
        assert float(session.servers[version]["build_s"]) > 0
    assert session.servers[NEW]["@information_schema_stats_expiry"] == "0"
    assert len({session.servers[version]["@innodb_buffer_pool_size"] for version in session.versions}) == 1
    assert "extrapolated" in (metadata / "results" / "latest" / "report.txt").read_text()


def test_tables_that_a_killed_run_left_are_dropped_before_anything_is_measured(metadata: Path, data: Path) -> None:
    assert not any(data.glob("*/mysql/published_build"))
    the_servers_own = 4
    assert cell(stored(metadata), NEW, question="Q1").metrics["rows"] == SCHEMAS + the_servers_own


def test_a_dump_of_one_schema_is_measured_alone(metadata: Path, data: Path, tmp_path: Path) -> None:
    where = ["--data", str(data), "--results", str(tmp_path / "results"), "--no-probe", "--runs", "1", *SMALL_LOG]
    assert run([*METADATA_COMMAND, "--version", NEW, "--question", "dump", "--dump-schemas", "1", *where]) == 0
    session = stored(tmp_path)
    (alone,) = session.runs
    assert session.variant_names == ("dump",)
    assert alone.load.clients["dump"].endswith("--databases s_1")
    of_all = cell(stored(metadata), NEW, question="dump").metrics["dump_bytes"]
    assert 100 * TABLES < alone.metrics["dump_bytes"] < of_all / 2


def test_crash_recovery_uses_the_data_directory_of_metadata(metadata: Path, data: Path, tmp_path: Path) -> None:
    before = set(data.iterdir())
    same = ["--tables", str(TABLES), "--schemas", str(SCHEMAS), "--columns", "1", "--database", "s"]
    where = ["--data", str(data), "--results", str(tmp_path / "results"), "--no-probe", "--runs", "1", *SMALL_LOG]
    assert run(["cold-recovery", "--version", NEW, *same, "--statistics", "on", *where]) == 0
    assert set(data.iterdir()) == before
    assert [one.verdict for one in stored(tmp_path).runs] == [Verdict.MEASURED]


DICTIONARIES = {USUAL: "s_*/*.frm", NEW: "mysql.ibd"}


def test_the_dictionary_of_a_real_server_must_be_cold(metadata: Path, data: Path) -> None:
    for version in stored(metadata).versions:
        (folder,) = data.glob(f"{version}-s-*/mysql")
        with (
            kept_warm(folder.glob(DICTIONARIES[version])),
            pytest.raises(TrialVoidError, match="bytes of the dictionary in"),
        ):
            make_tables_cold(folder, table_files(folder, SCHEMA), None)


@LARGE
@pytest.mark.parametrize("version", DICTIONARIES)
def test_a_dictionary_that_stays_warm_voids_every_trial(
    version: str, at: list[str], data: Path, tmp_path: Path
) -> None:
    """Its tables are cold, and the server runs."""
    command, files = [*METADATA_COMMAND, "--version", version, *at], f"{version}-s-*/mysql/{DICTIONARIES[version]}"
    if not any(data.glob(files)):
        assert run(command) == 0
    with kept_warm(data.glob(files)):
        assert run(command) == 1
    session = stored(tmp_path)
    assert {one.verdict for one in session.runs} == {Verdict.VOID}
    assert all("bytes of the dictionary in" in str(one.reason) for one in session.runs)


# --- interference

INTERFERENCE = ("interference", "--tables", str(TABLES), "--rows", "20")


@pytest.mark.parametrize("versions", [USUAL, pytest.param(f"{USUAL} {NEW}", marks=LARGE)])
def test_a_load_with_a_poller(versions: str, at: list[str], tmp_path: Path) -> None:
    """With fewer entries in the table cache than the schema has tables, the poller opens them again and again."""
    sizes = ["--load-tables", "10", "--threads", "2", "--seconds", "2", "--warmup", "1"]
    options = ["--option", "table_open_cache=50", "--set", "table_open_cache_instances=1"]
    options += ["--set", "performance_schema=ON"]
    assert run([*INTERFERENCE, "--version", versions, *sizes, *options, *at]) == 0
    session = stored(tmp_path)
    alone, polled = (cell(session, USUAL, poll=poll).metrics for poll in ("off", "on"))
    assert alone["qps"] > 0
    assert polled["polls_per_s"] > 0
    assert "polls_per_s" not in alone
    assert polled["opened_tables_per_s"] > TABLES / 2 * polled["polls_per_s"]
    assert alone["opened_tables_per_s"] < polled["opened_tables_per_s"]
    misses = "load_table_open_cache_misses_per_s"
    assert alone[misses] == alone["table_open_cache_misses_per_s"], "nobody else is there"
    assert 0 < polled[misses] < polled["table_open_cache_misses_per_s"], "some are the poller's own"
    assert polled["load_table_open_cache_hit_share"] > polled["table_open_cache_hit_share"]
    for newer in session.versions[1:]:
        opened = cell(session, newer, poll="on").metrics["opened_tables_per_s"]
        assert opened < polled["opened_tables_per_s"]
    for one in session.runs:
        assert one.timeline is not None
        series = one.timeline.columns
        assert {"qps", "table_open_cache_misses_per_s", misses, "server_cpus", "client_cpus"} <= series.keys()
        assert {len(values) for values in series.values()} == {len(one.timeline.at_s)}
        assert any(series["qps"])
        assert one.host_activity is not None
        assert "--time=3 --report-checkpoints=1" in one.load.clients["load"]
        assert "oltp_read_only" in one.load.clients["load"]
        waits = {wait.name for wait in one.load.waits if wait.source == "performance schema"}
        assert any(re.match("wait/synch/mutex/innodb/", name) for name in waits), waits
        assert any(re.match("wait/synch/(sxlock|rwlock)/innodb/", name) for name in waits), waits
        raw = tmp_path / "results" / "latest" / str(one.load.raw)
        samples = read_samples(raw)
        assert samples[-1].figures["status.Questions"] > samples[0].figures["status.Questions"]
        with gzip.open(raw, "rt") as file:
            assert next(csv.reader(file))[0] == "at_s"
    text = (tmp_path / "results" / "latest" / "report.txt").read_text()
    assert "poll" in text
    assert USUAL in text


def test_a_filter_by_table_keeps_a_poll_from_opening_all_tables(at: list[str], tmp_path: Path) -> None:
    sizes = [
        "--load-tables",
        "10",
        "--threads",
        "1",
        "--seconds",
        "2",
        "--warmup",
        "1",
        "--every",
        "0.1",
        "--runs",
        "1",
    ]
    options = ["--option", "table_open_cache=50", "--set", "table_open_cache_instances=1"]
    queries = ["--poll-query", "foreign-keys filtered"]
    assert run([*INTERFERENCE, "--version", USUAL, *sizes, *options, *queries, *at]) == 0
    session = stored(tmp_path)
    assert (session.axes[-1].values, session.axes[-1].base) == (("off", "foreign-keys", "filtered"), "off")
    all_of_them, one = (cell(session, USUAL, poll=poll).metrics for poll in ("foreign-keys", "filtered"))
    assert all_of_them["opened_tables_per_s"] > TABLES / 2 * all_of_them["polls_per_s"]
    assert one["polls_per_s"] > 0
    assert one["opened_tables_per_s"] < TABLES / 4 * one["polls_per_s"]


def test_unanswered_polls_and_an_option_out_of_reach_are_reported(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = tmp_path / "slow.sql"
    slow.write_text("-- slow\nSELECT SLEEP(600);\n")
    sizes = ["--load-tables", "4", "--threads", "1", "--seconds", "1", "--warmup", "0"]
    options = ["--option", "table_open_cache=1000000", "--queries", str(slow)]
    assert run([*INTERFERENCE, "--version", USUAL, *sizes, *options, *at]) == 0
    session = stored(tmp_path)
    assert {one.verdict for one in session.runs} == {Verdict.MEASURED}
    found = {f"{one.kind} {one.about}": one for one in findings(session)}
    assert all(one.hint for one in found.values())
    requested = f"{USUAL} table_open_cache=1000000"
    effective = session.servers[requested]["@table_open_cache"]
    assert f"{effective} is in effect" in found[f"option-not-in-effect {requested}"].text
    assert "table_open_cache=1000000 will not be in effect" in capsys.readouterr().err
    (silent,) = (one for name, one in found.items() if name.startswith("polls-did-not-run "))
    assert "No poll was answered" in silent.text


# --- Character sets


def test_a_load_over_two_character_sets(at: list[str], data: Path, tmp_path: Path) -> None:
    sizes = ["--rows", "20", "--load-tables", "1", "--threads", "1", "--seconds", "1", "--warmup", "0", "--runs", "1"]
    loads = ["--workload", "point-select", "--option", "table_open_cache_instances=1"]
    assert run(["table-cache", "--version", USUAL, "--charset", "latin1 utf8mb4", *sizes, *loads, *at]) == 0
    session = stored(tmp_path)
    assert all(cell(session, USUAL, charset=one).metrics["qps"] > 0 for one in ("latin1", "utf8mb4"))
    (options,) = data.glob(f"{USUAL}-sbtest-*-utf8mb4-*/mysql/sbtest/db.opt")
    assert "default-character-set=utf8mb4\n" in options.read_text()


# --- write-scaling

LOAD_TABLES, ROWS = 2, 20_000


def write_scaling(version: str, *options: str) -> list[str]:
    return ["write-scaling", "--version", version, "--tables", str(LOAD_TABLES), "--rows", str(ROWS), *options]


def measured(version: str, questions: str, at: list[str], tmp_path: Path, *more: str) -> Session:
    sizes = ["--threads", "4", "--seconds", "1", "--warmup", "0"]
    assert run(write_scaling(version, "--question", questions, *sizes, *more, *at)) == 0
    session = stored(tmp_path)
    assert {one.verdict for one in session.runs} == {Verdict.MEASURED}
    return session


def effective_values(session: Session, option: str) -> set[str]:
    return {about[f"@{option}"] for about in session.servers.values() if f"@{option}" in about}


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few are divided, too."""
    if len(procfs.own_cores()) < 2:
        pytest.skip("one core cannot be divided")
    monkeypatch.setattr(procfs, "MIN_CORES", 2)


@pytest.mark.usefixtures("two_cores")
def test_a_load_in_memory_reads_nothing_from_the_device_and_has_cpus_of_its_own(at: list[str], tmp_path: Path) -> None:
    session = measured(USUAL, "one-user", at, tmp_path, "--workload", "point-select")
    (one,) = session.runs
    assert one.metrics["qps"] > 0
    pages = LOAD_TABLES * ROWS * ROW_BYTES / (16 << 10)
    assert one.metrics["buffer_pool_reads_per_s"] * one.metrics["elapsed_s"] < pages / 20
    apart = procfs.split_cores(procfs.own_cores())
    assert apart is not None
    lists = procfs.format_cpu_list(apart.server), procfs.format_cpu_list(apart.clients)
    assert (session.settings["server_cpus"], session.settings["client_cpus"]) == lists
    assert not any("share all CPUs" in note for note in session.notes)


@pytest.mark.usefixtures("two_cores")
def test_hot_rows_are_waited_for_also_if_the_kernel_refuses_separate_cpus(
    at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_such_cpus = tuple(Core(frozenset({cpu})) for cpu in range(8000, 8004))
    monkeypatch.setattr("recovery.linux.procfs.own_cores", lambda: no_such_cpus)
    session = measured(USUAL, "hot-rows", at, tmp_path)
    for level in ("REPEATABLE-READ", "READ-COMMITTED"):
        hot = cell(session, transaction_isolation=level)
        assert hot.metrics["row_lock_waits_per_s"] > 0
        assert "oltp_read_write" in hot.load.clients["load"]
        assert "--tables=1 --table-size=10 " in hot.load.clients["load"]
    assert effective_values(session, "transaction_isolation") == {"REPEATABLE-READ", "READ-COMMITTED"}
    assert sum("share all CPUs" in note for note in session.notes) == 1
    assert (session.settings["server_cpus"], session.settings["client_cpus"]) == (None, None)


@LARGE
def test_the_doublewrite_buffer_is_switched_on_and_off(at: list[str], tmp_path: Path) -> None:
    session = measured(NEW, "doublewrite", at, tmp_path)
    assert effective_values(session, "innodb_doublewrite") == {"ON", "OFF"}


@LARGE
def test_larger_than_memory_is_read_in_pages_of_each_size(at: list[str], data: Path, tmp_path: Path) -> None:
    session = measured(NEW, "larger-than-memory compression", at, tmp_path, "--workload", "point-select")
    sizes = {"16k": "16384", "8k": "8192", "4k": "4096"}
    for size in sizes:
        one = cell(session, question="larger-than-memory", innodb_page_size=size)
        assert one.metrics["buffer_pool_reads_per_s"] > 0.1 * one.metrics["qps"]
        assert "--rand-type=uniform" in one.load.clients["load"]
    assert effective_values(session, "innodb_page_size") == set(sizes.values())
    assert effective_values(session, "innodb_buffer_pool_size") == {str(5 << 20)}
    tables = data.glob(f"{NEW}-sbtest-{LOAD_TABLES}-*/mysql/sbtest/sbtest1.ibd")
    files = sorted(path.stat().st_size for path in tables)
    assert len(files) == 4
    assert files[0] < 0.7 * files[1], "compressed"


@LARGE
def test_writes_are_measured_by_commit_and_the_directory_stays_as_it_was(at: list[str], tmp_path: Path) -> None:
    sizes = ["--threads", "2", "--seconds", "3", "--warmup", "1"]
    command = write_scaling(USUAL, "--question", "scaling", "--workload", "update-nokey", *sizes, *at)
    assert run([*command, "--option", "innodb_flush_log_at_trx_commit=1,0"]) == 0
    session = stored(tmp_path)
    synced, lazy = (cell(session, innodb_flush_log_at_trx_commit=value).metrics for value in ("1", "0"))
    assert synced["fsyncs_per_commit"] > 0.3
    assert lazy["fsyncs_per_commit"] < synced["fsyncs_per_commit"]
    assert synced["redo_bytes_per_commit"] > 100
    assert synced["server_cpu_us_per_query"] > 1
    described = session.servers[f"{USUAL} innodb_flush_log_at_trx_commit=0"]
    assert described["@innodb_flush_log_at_trx_commit"] == "0"
    # Again over the same directory, which is used as it is; and once more with all waits counted.
    monitored = ["--set", "innodb_monitor_enable=log_lsn_checkpoint_age", "--waits"]
    assert run([*command, *monitored, "--option", "innodb_flush_log_at_trx_commit=0"]) == 0
    again = stored(tmp_path)
    usual, counting = again.runs
    assert (usual.verdict, counting.verdict) == (Verdict.MEASURED, Verdict.SAMPLED)
    assert {wait.source for wait in usual.load.waits if wait.count} <= {"innodb mutex", "status"}
    mutexes = {wait.name for wait in counting.load.waits if wait.source == "performance schema"}
    assert mutexes
    assert all(name.startswith("wait/synch/") for name in mutexes)
    assert not any("/cond/" in name for name in mutexes)
    raw = read_samples(tmp_path / "results" / "latest" / str(counting.load.raw))
    assert "metric.log_lsn_checkpoint_age" in raw[-1].figures, "what else is monitored stays so"
    assert again.servers[f"{USUAL} innodb_flush_log_at_trx_commit=0"]["@performance_schema"] == "OFF"


@pytest.mark.on_demand("disturbed")
def test_the_log_spins_or_not_and_transactions_deadlock(folders: list[str], tmp_path: Path) -> None:
    """How often depends on how much of its CPUs the host has left."""
    monitored = "innodb_monitor_enable=latch,log_on_flush_no_waits,log_on_flush_waits"
    session = measured(NEW, "hot-rows redo-spinning", folders, tmp_path, "--set", monitored)
    hot = [cell(session, transaction_isolation=level) for level in ("REPEATABLE-READ", "READ-COMMITTED")]
    assert any(one.metrics["client_errors"] for one in hot), "deadlocks"
    for one in hot:
        assert any(
            wait.source == "innodb mutex" and "rwlock" not in wait.name and wait.count for wait in one.load.waits
        )
    for threads in ("1", "4"):
        on, off = (spun(cell(session, spinning=value, threads=threads), tmp_path) for value in ("on", "off"))
        assert off < 0.1
        assert on > 0.3


def spun(one: Run, tmp_path: Path) -> float:
    """The share of commits whose flush came before they had to sleep."""
    samples = read_samples(find_session(tmp_path / "results", None) / str(one.load.raw))
    figures = [sample.figures for sample in samples if sample.at_s >= 0]
    awake, asleep = (
        figures[-1][name] - figures[0][name] for name in ("metric.log_on_flush_no_waits", "metric.log_on_flush_waits")
    )
    return awake / (awake + asleep)


@LARGE
def test_the_schedule_of_locks_is_the_one_asked_for(at: list[str], tmp_path: Path) -> None:
    session = measured(SCHEDULED, "lock-schedule", at, tmp_path)
    schedules = effective_values(session, "innodb_lock_schedule_algorithm")
    assert {value.lower() for value in schedules} == {"fcfs", "vats"}
    for schedule in ("fcfs", "vats"):
        assert cell(session, innodb_lock_schedule_algorithm=schedule).metrics["row_lock_waits_per_s"] > 0


@LARGE
def test_compressed_tables_of_an_old_server_are_compressed(tmp_path: Path) -> None:
    """Of the version whose own options would make plain tables."""
    build = resolve_server(OLD, Sources(), lambda _: None)
    template = template_dir() / "sysbench.sql.j2"
    schema = Schema(1, rows=2000, database="sbtest", template=template, layout=Layout.COMPRESSED)
    with (
        built_datadir(build, schema, tmp_path / "data") as target,
        running(build, target.mysql, tmp_path / "logs") as server,
        server.session() as connection,
    ):
        assert scalar(connection, "SELECT @@innodb_file_format") == "Antelope", "it need not be kept up"
        of_it = "FROM information_schema.innodb_sys_tables WHERE name = 'sbtest/sbtest1'"
        assert scalar(connection, f"SELECT zip_page_size {of_it}") == 8192
    plain = {"innodb_file_format": "Antelope", "innodb_strict_mode": "OFF"}
    with (
        pytest.raises(DatadirMismatchError, match="row format Compact"),
        built_datadir(build, schema, tmp_path / "data", settings=plain),
    ):
        pass


# --- Loads that end early


def begun(command: list[str], words: str) -> subprocess.Popen[str]:
    """The tool as a user starts it, once a process below it has these words in its command."""
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        until(
            lambda: any(words in child for child in commands_below(process.pid)),
            f"a process with {words}",
            within_s=BUILDING_S,
        )
    except BaseException:
        process.kill()
        raise
    return process


def commands_below(pid: int) -> list[str]:
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            found.append(" ".join(child.cmdline()))
        except psutil.Error:
            continue
    return found


@pytest.fixture
def long_load(at: list[str]) -> list[str]:
    options = ["--question", "scaling", "--workload", "update-nokey", "--option", "innodb_flush_log_at_trx_commit=1"]
    return write_scaling(USUAL, *options, "--threads", "2", "--seconds", "60", "--warmup", "1", *at)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=LARGE)])
def test_an_interrupted_load_leaves_nothing_running(number: signal.Signals, long_load: list[str]) -> None:
    process = begun(long_load, words="--time=61")
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def test_a_server_that_dies_under_load_has_failed(long_load: list[str], tmp_path: Path) -> None:
    process = begun(long_load, words="--time=61")
    (server,) = (one for one in psutil.Process(process.pid).children(recursive=True) if one.name() == "mysqld")
    server.send_signal(signal.SIGSEGV)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert "Traceback" not in errors
    (one,) = stored(tmp_path).runs
    assert one.verdict is not Verdict.MEASURED
    assert one.reason
