"""A real server is put to work by real programs: what is asked of it, what is stored, and how it ends."""

from __future__ import annotations

import csv
import gzip
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from keptwarm import kept_warm
from waiting import BUILDING_S, until

from recovery.cli.main import run
from recovery.experiments import load as load_experiment
from recovery.linux import procfs
from recovery.linux.procfs import Core
from recovery.model import Run, Session, Verdict
from recovery.report.stored_session import find_session, load_session
from recovery.workload.status_sampler import read_samples

pytestmark = pytest.mark.real
TABLES = 60
SCHEMAS = 3


@pytest.fixture
def at(data: Path, tmp_path: Path) -> list[str]:
    return ["--data", str(data), "--results", str(tmp_path / "results"), "--no-probe", "--runs", "1"]


def stored(tmp_path: Path) -> Session:
    return load_session(find_session(tmp_path / "results", None))


def cell(session: Session, version: str, **axes: str) -> Run:
    (found,) = (
        one for one in session.runs if one.version == version and axes.items() <= session.cells[one.variant].items()
    )
    return found


def test_questions_and_dumps(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.sql"
    mine.write_text("-- names\nselect table_name from information_schema.tables where table_schema = 's_2';\n")
    sizes = ["--tables", str(TABLES), "--schemas", str(SCHEMAS), "--published-build", "20", "--queries", str(mine)]
    assert run(["metadata", "--version", "5.7.22 8.0.31", *sizes, *at]) == 0
    told = capsys.readouterr().out
    session = stored(tmp_path)
    assert session.figure == "elapsed_s"
    assert [axis.name for axis in session.axes] == ["question"]
    for version in session.versions:
        runs = {session.cells[one.variant]["question"]: one for one in session.runs if one.version == version}
        assert {one.verdict for one in runs.values()} == {Verdict.MEASURED}
        assert runs["names"].measures["rows"] == TABLES
        assert runs["Q2"].measures["rows"] == 1
        assert runs["Q1"].measures["rows"] >= SCHEMAS + 2
        assert runs["published-build"].measures["tables_made"] == 20
        assert all(one.cold_means in ("drop_caches", "fadvise") for one in runs.values())
        assert all((one.resident_before_bytes or 0) < 16 << 20 for one in runs.values())
        # Statistics that are not stored yet are made, and written, by the first who asks for them: a kilobyte a table.
        asked = runs["Q1"].measures
        assert asked["redo_bytes_per_s"] * asked["elapsed_s"] < 200 * TABLES * SCHEMAS
        # A line of SQL for each table, at the least.
        assert runs["dump"].measures["dump_bytes"] > 100 * TABLES * SCHEMAS
        assert runs["dump"].measures["dump_bytes"] == runs["dump-skip-lock-tables"].measures["dump_bytes"]
        assert "mariadb-dump" in runs["dump"].clients
        assert float(session.servers[version]["build_s"]) > 0
        assert (
            session.servers[version]["@innodb_buffer_pool_size"]
            == session.servers["5.7.22"]["@innodb_buffer_pool_size"]
        )
    assert session.servers["8.0.31"]["@information_schema_stats_expiry"] == "0"
    assert "extrapolated" in told
    assert re.search(r"8\.0\.31 needs .* for Q1", told)


@pytest.mark.parametrize(
    ("version", "files"),
    [
        ("5.7.22", "*/mysql/s_*/*.frm"),
        pytest.param("8.0.31", "*/mysql/mysql.ibd", marks=pytest.mark.on_demand("large")),
    ],
)
def test_a_dictionary_that_stays_warm_is_found(
    version: str, files: str, at: list[str], data: Path, tmp_path: Path
) -> None:
    """Its tables are cold, and the server runs."""
    command = ["metadata", "--version", version, "--tables", str(TABLES), "--schemas", str(SCHEMAS), *at]
    if not any(data.glob(files)):
        assert run(command) == 0
    with kept_warm(data.glob(files)):
        assert run(command) == 1
    session = stored(tmp_path)
    assert {one.verdict for one in session.runs} == {Verdict.VOID}
    assert all("bytes of the dictionary in" in str(one.reason) for one in session.runs)


def test_what_a_killed_run_has_left_is_gone_before_anything_is_measured(
    at: list[str], data: Path, tmp_path: Path
) -> None:
    """Tables whose making was timed: who counts all tables would count them, also where the ledger knows of nothing."""
    command = ["metadata", "--version", "8.0.31", "--tables", str(TABLES), "--schemas", str(SCHEMAS), *at]
    process = begun([*command, "--published-build", "100000"], words="mysqld")
    try:
        until(lambda: any(data.glob("*/mysql/published_build/table_5.ibd")), "the timed build", within_s=BUILDING_S)
    finally:
        process.kill()
        process.communicate()
    (left,) = data.glob("*/mysql/published_build")
    ledger = left.parents[1] / "state.json"
    ledger.write_text(ledger.read_text().replace('"in_use"', '"whole"'))
    assert run(command) == 0
    assert not any(data.glob("*/mysql/published_build"))
    session = stored(tmp_path)
    the_servers_own = 4
    assert cell(session, "8.0.31", question="Q1").measures["rows"] == SCHEMAS + the_servers_own
    assert {one.verdict for one in session.runs} == {Verdict.MEASURED}


def test_a_load_beside_a_poller(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With fewer entries in the table cache than the schema has tables, the poller opens them again and again."""
    sizes = ["--tables", str(TABLES), "--rows", "20", "--load-tables", "10", "--threads", "2", "--seconds", "3"]
    options = ["--warmup", "1", "--option", "table_open_cache=50", "--set", "table_open_cache_instances=1"]
    options += ["--set", "performance_schema=ON"]
    assert run(["interference", "--version", "5.7.22 8.0.31", *sizes, *options, *at]) == 0
    session = stored(tmp_path)
    alone, polled = (cell(session, "5.7.22", poll=poll).measures for poll in ("off", "on"))
    assert alone["qps"] > 0
    assert polled["polls_per_s"] > 0
    assert "polls_per_s" not in alone
    assert polled["opened_tables_per_s"] > TABLES / 2 * polled["polls_per_s"]
    assert alone["opened_tables_per_s"] < polled["opened_tables_per_s"]
    misses = "load_table_open_cache_misses_per_s"
    assert alone[misses] == alone["table_open_cache_misses_per_s"], "nobody else is there"
    assert 0 < polled[misses] < polled["table_open_cache_misses_per_s"], "some are the poller's own"
    assert polled["load_table_open_cache_hit_share"] > polled["table_open_cache_hit_share"]
    newer = cell(session, "8.0.31", poll="on").measures
    assert newer["opened_tables_per_s"] < polled["opened_tables_per_s"]
    for one in session.runs:
        assert one.watched is not None
        series = {each.name: each.values for each in one.watched.series}
        assert {"qps", "table_open_cache_misses_per_s", misses, "server_cpus", "client_cpus"} <= series.keys()
        assert {len(values) for values in series.values()} == {len(one.watched.at_s)}
        assert any(series["qps"])
        assert one.around is not None
        assert "--time=4 --report-checkpoints=1" in one.clients["load"]
        by_it = {wait.name for wait in one.waits if wait.source == "performance schema"}
        assert any(re.match("wait/synch/mutex/innodb/", name) for name in by_it), by_it
        assert any(re.match("wait/synch/(sxlock|rwlock)/innodb/", name) for name in by_it), by_it
        assert "oltp_read_only" in one.clients["load"]
        raw = tmp_path / "results" / "latest" / str(one.raw)
        looks = read_samples(raw)
        assert looks[-1].figures["status.Questions"] > looks[0].figures["status.Questions"]
        with gzip.open(raw, "rt") as file:
            assert next(csv.reader(file))[0] == "at_s"
    told = capsys.readouterr().out
    assert "poll" in told
    assert "5.7.22" in told


@pytest.mark.on_demand("large")
def test_writing_is_measured_by_commit_and_the_directory_stays_as_it_was(at: list[str], tmp_path: Path) -> None:
    sizes = ["--tables", "2", "--rows", "500", "--threads", "2", "--seconds", "3", "--warmup", "1"]
    options = ["--question", "scaling", "--workload", "update-nokey"]
    command = ["write-scaling", "--version", "5.7.22", *sizes, *options, *at]
    assert run([*command, "--option", "innodb_flush_log_at_trx_commit=1,0"]) == 0
    session = stored(tmp_path)
    synced, lazy = (cell(session, "5.7.22", innodb_flush_log_at_trx_commit=value).measures for value in ("1", "0"))
    assert synced["fsyncs_per_commit"] > 0.3
    assert lazy["fsyncs_per_commit"] < synced["fsyncs_per_commit"]
    assert synced["redo_bytes_per_commit"] > 100
    assert synced["server_cpu_us_per_query"] > 1
    described = session.servers["5.7.22 innodb_flush_log_at_trx_commit=0"]
    assert described["@innodb_flush_log_at_trx_commit"] == "0"
    # Again over the same directory, which is used as it is; and once more with all waits counted.
    monitored = ["--set", "innodb_monitor_enable=log_lsn_checkpoint_age", "--waits"]
    assert run([*command, *monitored, "--option", "innodb_flush_log_at_trx_commit=0"]) == 0
    again = stored(tmp_path)
    usual, counting = again.runs
    assert (usual.verdict, counting.verdict) == (Verdict.MEASURED, Verdict.SAMPLED)
    assert {wait.source for wait in usual.waits if wait.count} <= {"innodb mutex", "status"}
    mutexes = {wait.name for wait in counting.waits if wait.source == "performance schema"}
    assert mutexes
    assert all(name.startswith("wait/synch/") for name in mutexes)
    assert not any("/cond/" in name for name in mutexes)
    raw = read_samples(tmp_path / "results" / "latest" / str(counting.raw))
    assert "metric.log_lsn_checkpoint_age" in raw[-1].figures, "what else is monitored stays so"
    assert again.servers["5.7.22 innodb_flush_log_at_trx_commit=0"]["@performance_schema"] == "OFF"


@pytest.mark.parametrize("there", [True, False])
def test_server_and_clients_have_cpus_of_their_own_where_that_may_be(
    there: bool, at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a host with as many as it takes to divide them; and where the kernel refuses."""
    monkeypatch.setattr(procfs, "MIN_CORES", 2)
    if len(procfs.own_cores()) < 2:
        pytest.skip("one core cannot be divided")
    none_of_them = tuple(Core(frozenset({cpu})) for cpu in range(8000, 8004))
    monkeypatch.setattr(load_experiment, "own_cores", procfs.own_cores if there else lambda: none_of_them)
    sizes = ["--tables", "1", "--rows", "100", "--threads", "2", "--seconds", "2", "--warmup", "0"]
    options = ["--question", "one-user", "--workload", "point-select"]
    assert run(["write-scaling", "--version", "5.7.22", *sizes, *options, *at]) == 0
    session = stored(tmp_path)
    refused = [note for note in session.notes if "share all CPUs" in note]
    assert len(refused) == (0 if there else 1)
    (one,) = session.runs
    assert one.verdict is Verdict.MEASURED
    apart = procfs.split_cores(procfs.own_cores())
    assert apart is not None
    lists = (procfs.format_cpu_list(apart.server), procfs.format_cpu_list(apart.clients)) if there else (None, None)
    assert (session.settings["server_cpus"], session.settings["client_cpus"]) == lists


def begun(command: list[str], words: str) -> subprocess.Popen[str]:
    """The tool as a user starts it, once a process below it has these words in its command."""
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        until(
            lambda: any(words in child for child in names_below(process.pid)),
            f"a process with {words}",
            within_s=BUILDING_S,
        )
    except BaseException:
        process.kill()
        raise
    return process


def names_below(pid: int) -> list[str]:
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            found.append(" ".join(child.cmdline()))
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_an_interrupted_load_leaves_nothing_running(
    number: signal.Signals, code: int, at: list[str], tmp_path: Path
) -> None:
    sizes = ["--tables", "2", "--rows", "500", "--threads", "2", "--seconds", "60", "--warmup", "1"]
    options = ["--question", "scaling", "--workload", "update-nokey", "--option", "innodb_flush_log_at_trx_commit=1"]
    process = begun(["write-scaling", "--version", "5.7.22", *sizes, *options, *at], words="--time=61")
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert "Traceback" not in said
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def test_a_server_that_dies_under_load_has_failed(at: list[str], tmp_path: Path) -> None:
    sizes = ["--tables", "2", "--rows", "500", "--threads", "2", "--seconds", "20", "--warmup", "1"]
    options = ["--question", "scaling", "--workload", "update-nokey", "--option", "innodb_flush_log_at_trx_commit=1"]
    process = begun(["write-scaling", "--version", "5.7.22", *sizes, *options, *at], words="--time=21")
    (server,) = (one for one in psutil.Process(process.pid).children(recursive=True) if one.name() == "mysqld")
    server.send_signal(signal.SIGSEGV)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert "Traceback" not in said
    (one,) = stored(tmp_path).runs
    assert one.verdict is not Verdict.MEASURED
    assert one.reason
