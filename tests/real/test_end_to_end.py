"""The whole way, as a user goes it: the command, real servers of every generation, and what is stored afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from sessions import first_run_stored, next_server, stopped_at_a_start, stored

from recovery.analysis.phase_names import JOIN
from recovery.builds import catalog
from recovery.builds.resolve import Sources, resolve_server
from recovery.cli.main import run
from recovery.linux.storage import DiskSpace
from recovery.model import can, parse_version
from recovery.mysqld.datadir import DataDirs

pytestmark = pytest.mark.real

SEVERAL_TIMES = "5.7.22"
CATALOG = [str(row.version) for row in catalog.pinned_servers()]
LARGE = pytest.mark.on_demand("large")
TABLES = 300
SHARES_DATA = True
EVERY_FILE = {
    "5.6.24": {"discovery"},
    "5.7.22": {"validation"},
    "8.0.15": {"discovery", "validation"},
    "8.0.31": {"discovery", "validation"},
    "mariadb-10.2.11": {"redo apply", "validation"},
    "mariadb-10.11.5": set(),
    "mariadb-11.4.5": set(),
}
"""The phases in which a server goes over all files at a crash start."""


@pytest.mark.parametrize("version", [pytest.param(one, marks=LARGE) if one == "8.0.15" else one for one in CATALOG])
def test_cold_and_warm_recovery(version: str, at: list[str], tmp_path: Path) -> None:
    runs = 2 if version == SEVERAL_TIMES else 1
    assert run(["crash-recovery", "--version", version, "--runs", str(runs), *at]) == 0
    report = stored(tmp_path)
    assert report["format"] == 1
    assert report["status"] == "finished"
    assert [one["variant"] for one in report["runs"]] == ["cold", "warm"] * runs
    for number, one in enumerate(report["runs"]):
        assert one["verdict"] == "measured", one["reason"]
        assert one["version"] == version
        assert one["crash_proof"]
        assert one["exit_signal"] == "signal 9"
        assert one["tables"] == TABLES
        assert one["rows_found"] == one["rows_expected"]
        assert one["rows_found"] >= 100 * (number + 1), "what the runs before it wrote is counted, too"
        assert 0 < one["startup_s"] <= one["first_query_s"]
        # Lines that a busy host has the server write at once join their phases.
        names = {name for phase in one["phases"] for name in phase["name"].split(JOIN)}
        # With 300 tables in the cache a phase may be over before its first line is read.
        assert one["variant"] == "warm" or EVERY_FILE[version] <= names
        assert EVERY_FILE[version] or not {"discovery", "validation"} & names
        ends = [phase["end_s"] for phase in one["phases"]]
        assert [phase["start_s"] for phase in one["phases"]] == [0.0, *ends[:-1]]
        assert ends[-2:] == [one["startup_s"], one["first_query_s"]]
        assert "ready for connections" in (tmp_path / "results" / "latest" / one["log"]).read_text(errors="replace")
    cold = next(one for one in report["runs"] if one["variant"] == "cold")
    warm = next(one for one in report["runs"] if one["variant"] == "warm")
    assert cold["cold_means"] in ("drop_caches", "fadvise")
    assert cold["resident_before_bytes"] is None or cold["resident_before_bytes"] < 16 * 1024 * 1024
    assert warm["warmups"] is not None
    if warm["resident_share"] is not None:
        assert warm["resident_share"] >= 0.9 * warm["resident_share_after"]
    assert (warm["ready_lag_s"] is not None) == can(parse_version(version), "microsecond_stamps")
    assert (warm["ready_lag_s"] or 0) >= 0
    summaries = {one["variant"]: one for one in report["summaries"]}
    assert summaries["cold"]["count"] == summaries["warm"]["count"] == runs
    assert report["servers"][version]["@performance_schema"] in ("OFF", "0")
    assert ("ssl=OFF" in report["servers"][version]["options"].split()) == version.startswith("mariadb")


@pytest.mark.alone  # others put files into the cache, or out of it
def test_a_cold_start_reads_what_a_warm_one_does_not(at: list[str], tmp_path: Path) -> None:
    assert run(["crash-recovery", "--version", "5.7.22", "--runs", "1", *at]) == 0
    cold, warm = stored(tmp_path)["runs"]
    assert cold["read_bytes"] > warm["read_bytes"]


def test_a_server_of_one_s_own(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = resolve_server("mariadb-10.11.5", Sources(), lambda _: None)
    assert run(["cold-recovery", "--mysqld", str(own.mysqld), "--runs", "1", "--dry-run", *at]) == 0
    plan = capsys.readouterr().out
    assert f"mariadb-10.11.5: server {own.mysqld};" in plan
    assert "1  mariadb-10.11.5  cold  run 1" in plan
    assert run(["cold-recovery", "--mysqld", str(own.mysqld), "--runs", "1", *at]) == 0
    report = stored(tmp_path)
    assert report["runs"][0]["verdict"] == "measured"
    assert report["runs"][0]["version"] == "mariadb-10.11.5"


@pytest.mark.parametrize(
    "version", ["5.7.22", *(pytest.param(one, marks=LARGE) for one in ("5.6.24", "8.0.31", "mariadb-10.11.5"))]
)
def test_a_clean_start_proves_that_nothing_was_recovered(version: str, at: list[str], tmp_path: Path) -> None:
    assert run(["clean-start", "--version", version, "--runs", "1", *at]) == 0
    for one in stored(tmp_path)["runs"]:
        assert one["verdict"] == "measured", one["reason"]
        assert one["crash_proof"] is None
        assert one["exit_signal"] == "exit 0"


def test_warm_recovery_goes_on_with_the_newest_session(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cold-recovery", "--version", "mariadb-10.11.5 5.7.22", "--runs", "1", *at]) == 0
    results = at[-2:]
    capsys.readouterr()
    assert run(["warm-recovery", "--runs", "1", *results]) == 0
    captured = capsys.readouterr()
    assert "using the data directory" in captured.err
    report = stored(tmp_path)
    assert report["scenario"] == "warm-recovery"
    assert report["versions"] == ["mariadb-10.11.5", "5.7.22"]
    assert report["settings"]["tables"] == TABLES
    assert report["settings"]["order"] == "versions alternate, block by block"


def test_force_recovery_is_passed_on_and_json_goes_to_standard_output(
    at: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--version", "5.7.22", "--runs", "1", "--set", "innodb_force_recovery=1", "--json", "-", *at]
    assert run(["cold-recovery", *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["servers"]["5.7.22"]["@innodb_force_recovery"] == "1"
    assert "--set innodb_force_recovery=1" in report["command"]


def test_as_published_says_so(at: list[str], tmp_path: Path) -> None:
    assert run(["cold-recovery", "--version", "5.7.22", "--runs", "1", "--as-published", *at]) == 0
    report = stored(tmp_path)
    assert report["settings"]["as_published"] is True
    assert report["runs"][0]["resident_before_bytes"] is None


def test_the_floor(at: list[str], tmp_path: Path) -> None:
    assert run(["crash-recovery", "--version", "5.7.22", "--runs", "1", "--floor", *at]) == 0
    report = stored(tmp_path)
    (floor,) = report["floors"]
    assert (floor["version"], floor["variants"]) == ("5.7.22", ["cold", "warm"])
    assert floor["files"] == TABLES
    assert min(floor["one_thread_s"], floor["many_threads_s"], floor["open_s"]) > 0
    assert "--floor" in report["command"]
    assert (
        "Storage floor: plain reads of the same files" in (tmp_path / "results" / "latest" / "report.txt").read_text()
    )


def test_a_server_that_cannot_start_ends_the_session_at_once(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cold-recovery", "--version", "5.7.22", "--runs", "1", *at]) == 0  # the directory is there
    code = run(["cold-recovery", "--version", "5.7.22", "--runs", "2", "--set", "innodb_flush_method=none", *at])
    assert code == 1
    said = capsys.readouterr()
    told = [line for line in said.err.splitlines() if not line.startswith("$ ")]
    assert any("innodb_flush_method" in line for line in told), told
    assert "Traceback" not in said.err
    assert {run["verdict"] for run in stored(tmp_path)["runs"]} <= {"failed"}


def test_an_option_that_the_server_refuses_is_told_before_the_tables_are_built(
    data: Path, at: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--version", "5.7.22", "--database", "unbuilt", "--set", "innodb_flush_method=none"]
    assert run(["cold-recovery", *arguments, *at]) == 2
    said = capsys.readouterr().err
    assert "with the requested options" in said
    assert "Unrecognized value none for innodb_flush_method" in said
    assert "tables, 2 connections" not in said
    assert not list(data.glob("*-unbuilt-*")), "nothing half-made is kept"


def test_files_that_only_the_server_finds_damaged(
    data: Path, at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["cold-recovery", "--version", "5.7.22", "--runs", "1", "--database", "torn", *at]
    assert run(arguments) == 0
    (folder,) = data.glob(f"5.7.22-torn-{TABLES}-*/")
    with (folder / "mysql" / "ibdata1").open("r+b") as file:
        file.write(b"\xff" * 65536)
    assert run(arguments) == 1
    (failed,) = stored(tmp_path)["runs"]
    assert failed["verdict"] == "failed"
    assert f"if its files are damaged, `recovery datadirs --data {data} remove {folder.name}`" in failed["reason"]
    capsys.readouterr()
    assert run(arguments) == 1, "the failed trial left it in use, so it is looked at before the first trial"
    assert f"remove {folder.name}`" in capsys.readouterr().err
    assert run(["datadirs", "--data", str(data), "remove", folder.name]) == 0


def test_a_damaged_data_directory_is_refused(data: Path, at: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["cold-recovery", "--version", "5.7.22", "--runs", "1", "--database", "damaged", *at]
    assert run(arguments) == 0
    (victim,) = data.glob(f"5.7.22-damaged-{TABLES}-*/mysql/damaged/table_7.ibd")
    victim.unlink()
    capsys.readouterr()
    assert run(arguments) == 3
    said = capsys.readouterr().err
    assert f"{TABLES - 1} tables' files" in said
    assert "hint:" in said


def _command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "recovery", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def _read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        if words in line:
            return seen
    raise AssertionError(f"'{words}' was never said: {seen}")


def test_ctrl_c_keeps_the_finished_runs_and_stops_the_server(at: list[str], tmp_path: Path) -> None:
    process = _command("cold-recovery", "--version", "5.7.22", "--runs", "50", *at)
    first_run_stored(tmp_path / "results")
    server = next_server(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error: interrupted" in err
    assert "Traceback" not in err + out
    report = stored(tmp_path)
    assert report["status"] == "interrupted"
    assert 1 <= len(report["runs"]) < 50
    assert (tmp_path / "results" / "latest" / "report.txt").is_file()
    assert not _is_alive(server)
    # What the killed server left is started, counted and then used again.
    assert run(["cold-recovery", "--version", "5.7.22", "--runs", "1", *at]) == 0


@pytest.mark.parametrize(
    "number", [signal.SIGQUIT, *(pytest.param(one, marks=LARGE) for one in (signal.SIGUSR1, signal.SIGABRT))]
)
def test_other_signals_that_end_a_process_stop_the_server(number: signal.Signals, at: list[str]) -> None:
    process = _command("cold-recovery", "--version", "5.7.22", "--runs", "50", *at)
    _read_until(process, "[1/50]")
    server = next_server(process.pid)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error: interrupted" in err
    assert not _is_alive(server)


def test_two_timed_runs_do_not_overlap(at: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    first = _command("cold-recovery", "--version", "5.7.22", "--runs", "50", *at)
    try:
        _read_until(first, "[1/50]")
        assert run(["cold-recovery", "--version", "5.7.22", "--runs", "1", *at]) == 3
        assert f"{first.pid}" in capsys.readouterr().err
    finally:
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 130


def test_a_killed_run_is_settled_by_the_next(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = _command("cold-recovery", "--version", "8.0.31", "--runs", "50", *at)
    _read_until(process, "[1/50]")
    server = stopped_at_a_start(process.pid)
    process.kill()
    process.communicate(timeout=60)
    assert len(stored(tmp_path)["runs"]) >= 1
    assert run(["cold-recovery", "--version", "8.0.31", "--runs", "1", *at]) == 0
    said = capsys.readouterr().err
    assert "counted again" in said
    assert f"ended server {server.pid}" in said
    assert not _is_alive(server), said


def _is_alive(server: psutil.Process) -> bool:
    """Its remains may be there for a moment until this process, which has inherited it, collects them."""
    return server.is_running() and server.status() != psutil.STATUS_ZOMBIE


def test_templates_that_do_not_fit(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = tmp_path / "own.sql.j2"
    template.write_text(
        "{% for d in databases %}create schema {{ d }};{% for n in range(tables) %}"
        "create table {{ d }}.other_{{ n }} (id int primary key auto_increment);{% endfor %}{% endfor %}"
    )
    arguments = ["cold-recovery", "--version", "mariadb-10.11.5", "--runs", "1", "--template", str(template), *at]
    assert run(arguments) == 2
    assert "writes to a table that is not in the schema" in capsys.readouterr().err
    inserts = tmp_path / "inserts.sql.j2"
    inserts.write_text("{% for n in range(5) %}insert into discovery.other_{{ n }} values (null);{% endfor %}")
    assert run([*arguments, "--insert-template", str(inserts)]) == 0
    assert stored(tmp_path)["runs"][0]["rows_found"] == 5
    # And a warm run without VERSION goes on with both templates.
    assert run(["warm-recovery", "--runs", "1", *at[-2:]]) == 0
    assert stored(tmp_path)["runs"][0]["rows_found"] >= 10


def test_a_server_killed_from_outside_voids_its_trial(at: list[str], tmp_path: Path) -> None:
    """As the kernel does when memory runs out."""
    assert run(["cold-recovery", "--version", "8.0.31", "--runs", "1", *at]) == 0
    process = _command("cold-recovery", "--version", "8.0.31", "--runs", "2", *at)
    _read_until(process, "using the data directory")
    next_server(process.pid, of_all=True).kill()
    _, err = process.communicate()
    assert process.returncode == 1, err
    first, second = stored(tmp_path)["runs"]
    assert first["verdict"] == "void"
    assert "killed by signal 9 from outside" in first["reason"]
    assert second["verdict"] == "measured"


@pytest.fixture
def room_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disk that holds one data directory of some hundred tables, as far as the tool can see."""
    data = tmp_path / "small"

    def free(_: Path) -> DiskSpace:
        return DiskSpace(2_000_000_000 - 1_500_000_000 * len(DataDirs(data).list()), 10**6)

    monkeypatch.setattr("recovery.session.prepare.free_space", free)
    monkeypatch.setattr("recovery.session.datadirs.free_space", free)
    return data


TWO = ["--version", "mariadb-10.11.5 mariadb-10.2.11", "--tables", "20", "--runs", "1"]


def test_versions_that_do_not_fit_together_run_one_after_the_other(room_for_one: Path, tmp_path: Path) -> None:
    asked = [*TWO, "--data", str(room_for_one), "--results", str(tmp_path / "results")]
    assert run(["cold-recovery", *asked]) == 0
    report = stored(tmp_path)
    assert [one["verdict"] for one in report["runs"]] == ["measured", "measured"]
    assert report["settings"]["order"] == "versions run one after the other"
    left = [info.key for info in DataDirs(room_for_one).list()]
    assert len(left) == 1, "the first made room for the second"
    assert left[0].startswith("mariadb-10.2.11")


def test_what_is_to_be_kept_makes_no_room(
    room_for_one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*TWO, "--keep", "--data", str(room_for_one), "--results", str(tmp_path / "results")]
    assert run(["cold-recovery", *asked]) == 3
    assert "which --keep keeps" in capsys.readouterr().err
    assert DataDirs(room_for_one).list() == (), "said before anything was built"
