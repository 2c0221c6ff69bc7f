"""The whole way as a user goes it: the command, real servers, and what is stored afterwards."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import psutil
import pytest
from sessions import first_run_stored, next_server, stopped_at_a_start, stored

from recovery.builds import catalog
from recovery.builds.resolve import Sources, resolve_server
from recovery.cli.main import run
from recovery.experiments.bench import Bench
from recovery.linux.storage import DiskSpace
from recovery.model import SECOND_START, Measurement, can, parse_version
from recovery.mysqld.datadir import DataDirs
from recovery.phase_table import JOIN

pytestmark = pytest.mark.real

FAST, USUAL = "mariadb-10.11.5", "5.7.22"
"""The server that is built and starts fastest, and the one that is measured by default."""
OTHERS = [str(row.version) for row in catalog.pinned_servers() if str(row.version) not in (FAST, USUAL)]
LARGE = pytest.mark.on_demand("large")
TABLES, FEW = 300, 5
SHARES_DATA = True
EVERY_FILE = {
    "5.6.24": {"discovery"},
    "5.7.22": {"validation"},
    "8.0.15": {"file scan", "file check"},
    "8.0.31": {"file scan", "file check"},
    "mariadb-10.2.11": {"redo apply", "validation"},
    "mariadb-10.11.5": set(),
    "mariadb-11.4.5": set(),
}
"""The phases in which a server goes over all files at a crash start."""


def words(data: Path, folder: Path, tables: int = TABLES) -> list[str]:
    """The options of the fixture `at`, for what runs once."""
    return ["--tables", str(tables), "--data", str(data), "--no-probe", "--results", str(folder / "results")]


# --- What a session measures and stores


@pytest.fixture(scope="module")
def measured(data: Path, tmp_path_factory: pytest.TempPathFactory, module_settings: None) -> Path:
    """The folder of a session over two versions, each cold and warm."""
    folder = tmp_path_factory.mktemp("measured")
    assert run(["crash-recovery", "--version", f"{FAST} {USUAL}", "--runs", "1", *words(data, folder)]) == 0
    return folder


@pytest.mark.parametrize("version", [FAST, USUAL])
def test_cold_and_warm_recovery(version: str, measured: Path) -> None:
    check_cold_and_warm(version, measured)


@LARGE
@pytest.mark.parametrize("version", OTHERS)
def test_cold_and_warm_recovery_of_other_versions(version: str, at: list[str], tmp_path: Path) -> None:
    assert run(["crash-recovery", "--version", version, "--runs", "1", *at]) == 0
    check_cold_and_warm(version, tmp_path)


def check_cold_and_warm(version: str, folder: Path) -> None:
    report = stored(folder)
    assert report["format"] == 2
    assert report["status"] == "finished"
    cold, warm = (one for one in report["runs"] if one["version"] == version)
    # A host that pages out, or another test that takes the memory, makes it a second start.
    is_warm = warm["variant"] == "warm"
    assert (cold["variant"], warm["variant"]) == ("cold", "warm" if is_warm else SECOND_START)
    for number, one in enumerate((cold, warm)):
        assert one["verdict"] == "measured", one["reason"]
        assert one["crash_proof"]
        assert one["previous_exit"] == "signal 9"
        assert one["tables_found"] == TABLES
        assert one["rows_found"] == one["rows_expected"]
        assert one["rows_found"] >= 100 * (number + 1), "what the runs before it wrote is counted, too"
        assert 0 < one["startup_s"] <= one["first_query_s"]
        # Lines that a busy host has the server write at once join their phases.
        names = {name for phase in one["phases"] for name in phase["name"].split(JOIN)}
        # With 300 tables in the cache a phase may be over before its first line is read.
        assert one is warm or EVERY_FILE[version] <= names
        assert EVERY_FILE[version] or not {"discovery", "validation"} & names
        ends = [phase["end_s"] for phase in one["phases"]]
        assert [phase["start_s"] for phase in one["phases"]] == [0.0, *ends[:-1]]
        assert ends[-2:] == [one["startup_s"], one["first_query_s"]]
        assert one["group_memory_bytes"] is None, "nothing was limited"
        assert "ready for connections" in (folder / "results" / "latest" / one["log"]).read_text(errors="replace")
    assert cold["means"] in ("drop_caches", "fadvise")
    assert cold["resident_bytes"] is None or cold["resident_bytes"] < 16 * 1024 * 1024
    assert warm["warmups"] is not None
    if is_warm and warm["resident_share"] is not None:
        assert warm["resident_share"] >= 0.9 * warm["resident_share_after"]
    assert (warm["ready_lag_s"] is not None) == can(parse_version(version), "microsecond_stamps")
    assert (warm["ready_lag_s"] or 0) >= 0
    summaries = [row for row in report["summaries"] if (row["version"], row["name"]) == (version, "startup_s")]
    counts = {row["variant"]: row["count"] for row in summaries}
    assert counts == {"cold": 1, warm["variant"]: 1}
    assert report["servers"][version]["@performance_schema"] in ("OFF", "0")
    assert ("ssl=OFF" in report["servers"][version]["options"].split()) == version.startswith("mariadb")


def test_versions_alternate(measured: Path) -> None:
    report = stored(measured)
    assert report["versions"] == [FAST, USUAL]
    assert [one["version"] for one in report["runs"]] in ([FAST, FAST, USUAL, USUAL], [USUAL, USUAL, FAST, FAST])
    assert report["settings"]["order"] == "versions alternate, block by block"


@pytest.mark.alone  # others put files into the cache, or out of it
def test_a_cold_start_reads_what_a_warm_one_does_not(at: list[str], tmp_path: Path) -> None:
    assert run(["crash-recovery", "--version", "5.7.22", "--runs", "1", *at]) == 0
    cold, warm = stored(tmp_path)["runs"]
    assert cold["read_bytes"] > warm["read_bytes"]


@pytest.mark.parametrize("version", [FAST, *(pytest.param(one, marks=LARGE) for one in (USUAL, "5.6.24", "8.0.31"))])
def test_a_clean_start_proves_that_nothing_was_recovered(version: str, at: list[str], tmp_path: Path) -> None:
    assert run(["clean-start", "--version", version, "--runs", "1", *at]) == 0
    for one in stored(tmp_path)["runs"]:
        assert one["verdict"] == "measured", one["reason"]
        assert one["crash_proof"] is None
        assert one["previous_exit"] == "exit 0"


# --- Options


@pytest.fixture(scope="module")
def own(data: Path, tmp_path_factory: pytest.TempPathFactory, module_settings: None) -> dict[str, Any]:
    """The report of one start of an own server, with an option, as published, as it is printed."""
    server = resolve_server(FAST, Sources(), lambda _: None)
    options = ["--set", "innodb_force_recovery=1", "--as-published", "--json", "-"]
    command = ["cold-recovery", "--mysqld", str(server.mysqld), "--runs", "1", *options]
    with redirect_stdout(io.StringIO()) as printed:
        assert run([*command, *words(data, tmp_path_factory.mktemp("own"))]) == 0
    report: dict[str, Any] = json.loads(printed.getvalue())
    return report


def test_an_own_server_is_measured_under_its_version(own: dict[str, Any]) -> None:
    assert [(one["verdict"], one["version"]) for one in own["runs"]] == [("measured", FAST)]


def test_two_builds_of_one_release_are_measured_in_turns(at: list[str], tmp_path: Path) -> None:
    server = resolve_server(FAST, Sources(), lambda _: None)
    patched = tmp_path / "patched"
    shutil.copytree(server.basedir, patched, symlinks=True)
    other = patched / server.mysqld.relative_to(server.basedir)
    with other.open("ab") as file:
        file.write(b"x")  # behind the end of the program: it runs as before
    servers = ["--mysqld", f"base={server.mysqld}", "--mysqld", f"patched={other}"]
    assert run(["cold-recovery", *servers, "--baseline", "patched", "--runs", "2", *at]) == 0
    found = stored(tmp_path)
    versions = [one["version"] for one in found["runs"]]
    assert sorted(versions[:2]) == sorted(versions[2:]) == [f"{FAST}+base", f"{FAST}+patched"]
    assert {one["verdict"] for one in found["runs"]} == {"measured"}
    assert found["servers"][f"{FAST}+base"]["sha256"] != found["servers"][f"{FAST}+patched"]["sha256"]
    assert found["settings"]["baseline"] == f"{FAST}+patched"


def test_a_dry_run_shows_the_plan_for_an_own_server(at: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    mysqld = resolve_server(FAST, Sources(), lambda _: None).mysqld
    assert run(["cold-recovery", "--mysqld", str(mysqld), "--runs", "1", "--dry-run", *at]) == 0
    plan = capsys.readouterr().out
    assert f"{FAST}: server {mysqld};" in plan
    assert f"1  {FAST}  cold\n" in plan


def test_force_recovery_is_passed_on(own: dict[str, Any]) -> None:
    assert own["servers"][FAST]["@innodb_force_recovery"] == "1"
    assert "--set innodb_force_recovery=1" in own["command"]


def test_as_published_nothing_is_dropped_after_the_inserts(own: dict[str, Any]) -> None:
    assert own["settings"]["as_published"] is True
    assert own["runs"][0]["cold"]["resident_bytes"] is None


def test_templates_must_fit_together_and_a_warm_run_takes_server_and_tables_from_the_newest_session(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = tmp_path / "own.sql.j2"
    template.write_text(
        "{% for d in databases %}create schema {{ d }};{% for n in range(tables) %}"
        "create table {{ d }}.other_{{ n }} (id int primary key auto_increment);{% endfor %}{% endfor %}"
    )
    folders = words(data, tmp_path, FEW)
    command = ["cold-recovery", "--version", FAST, "--runs", "1", "--template", str(template), *folders]
    assert run(command) == 2
    assert "writes to a table that is not in the schema" in capsys.readouterr().err
    inserts = tmp_path / "inserts.sql.j2"
    inserts.write_text("{% for n in range(5) %}insert into discovery.other_{{ n }} values (null);{% endfor %}")
    own = ["--template", str(template), "--insert-template", str(inserts)]
    assert run([*command, *own[2:]]) == 0
    assert stored(tmp_path)["runs"][0]["rows_found"] == 5
    capsys.readouterr()
    assert run(["warm-recovery", "--runs", "1", *own, *folders[2:]]) == 0
    printed = capsys.readouterr().err
    assert printed.startswith(f"--version {FAST} and --tables {FEW} from the newest session, ")
    assert "using the data directory" in printed
    report = stored(tmp_path)
    assert report["experiment"] == "warm-recovery"
    assert report["versions"] == [FAST]
    assert report["settings"]["tables"] == FEW
    assert report["runs"][0]["rows_found"] >= 10


# --- Servers that cannot start, and damaged files


@pytest.mark.usefixtures("measured")
def test_a_server_that_cannot_start_ends_the_session_at_once(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cold-recovery", "--version", USUAL, "--runs", "2", "--set", "innodb_flush_method=none", *at]) == 1
    printed = capsys.readouterr().err
    lines = [line for line in printed.splitlines() if not line.startswith("$ ")]
    assert any("innodb_flush_method" in line for line in lines), lines
    assert "Traceback" not in printed
    assert {run["verdict"] for run in stored(tmp_path)["runs"]} <= {"failed"}


def test_a_refused_option_is_reported_before_the_tables_are_built(
    data: Path, at: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--version", USUAL, "--database", "unbuilt", "--set", "innodb_flush_method=none"]
    assert run(["cold-recovery", *arguments, *at]) == 2
    printed = capsys.readouterr().err
    assert "with the requested options" in printed
    assert "Unrecognized value none for innodb_flush_method" in printed
    assert "tables, 2 connections" not in printed
    assert not list(data.glob("*-unbuilt-*")), "nothing half-made is kept"


@pytest.fixture(scope="module")
def few(data: Path, tmp_path_factory: pytest.TempPathFactory, module_settings: None) -> Path:
    """The folder of a session with a precision and the floor, over a data directory of its own, of few tables."""
    folder = tmp_path_factory.mktemp("few")
    assert run([*over_few(data, folder, "--precision", "99%", "--max-runs", "6"), "--floor"]) == 0
    return folder


def over_few(data: Path, folder: Path, *runs: str) -> list[str]:
    number = runs or ("--runs", "1")
    return ["cold-recovery", "--version", FAST, *number, "--database", "few", *words(data, folder, FEW)]


def test_a_precision_decides_the_number_of_runs(few: Path) -> None:
    report = stored(few)
    assert report["status"] == "finished"
    assert len(report["runs"]) == report["planned_runs"]
    assert len(report["runs"]) in (5, 6), "the sixth only if the host was very noisy"
    assert any(note.startswith("PRECISION=99%") for note in report["notes"])
    assert "--precision 99% --max-runs 6" in report["command"]


def test_the_floor_is_stored_and_shown(few: Path) -> None:
    report = stored(few)
    (floor,) = report["floors"]
    assert (floor["version"], floor["variants"]) == (FAST, ["cold"])
    assert floor["files"] == FEW
    assert min(floor["one_thread_s"], floor["many_threads_s"], floor["open_s"]) > 0
    assert "--floor" in report["command"]
    assert "Storage floor: plain reads of the same files" in (few / "results" / "latest" / "report.txt").read_text()


@pytest.mark.usefixtures("few")
def test_a_data_directory_without_one_of_its_files_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (victim,) = data.glob(f"{FAST}-few-{FEW}-*/mysql/few/table_3.ibd")
    aside = victim.rename(victim.with_suffix(".aside"))
    try:
        assert run(over_few(data, tmp_path)) == 3
    finally:
        aside.rename(victim)
    printed = capsys.readouterr().err
    assert f"found {FEW - 1} table files, expected {FEW}" in printed
    assert "hint:" in printed


@pytest.mark.usefixtures("few")
def test_files_that_only_the_server_finds_damaged(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last of these tests: it removes the data directory."""
    (folder,) = data.glob(f"{FAST}-few-{FEW}-*/")
    with (folder / "mysql" / "ibdata1").open("r+b") as file:
        file.write(b"\xff" * 65536)
    assert run(over_few(data, tmp_path)) == 1
    (failed,) = stored(tmp_path)["runs"]
    assert failed["verdict"] == "failed"
    assert f"if its files are damaged: `recovery datadirs --data {data} remove {folder.name}`" in failed["reason"]
    capsys.readouterr()
    assert run(over_few(data, tmp_path)) == 1, "the failed trial left it in use: it is checked before the first trial"
    assert f"remove {folder.name}`" in capsys.readouterr().err
    assert run(["datadirs", "--data", str(data), "remove", folder.name]) == 0


# --- Sessions that are interrupted or killed


def many_runs(at: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "recovery", "cold-recovery", "--version", FAST, "--runs", "50", *at],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def is_alive(server: psutil.Process) -> bool:
    """Its remains may be there for a moment until this process, which has inherited it, collects them."""
    return server.is_running() and server.status() != psutil.STATUS_ZOMBIE


def test_a_session_excludes_others_and_ctrl_c_keeps_its_runs_and_stops_its_server(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = ["cold-recovery", "--version", FAST, "--runs", "1", *at]
    process = many_runs(at)
    first_run_stored(tmp_path / "results")
    assert run(once) == 3
    assert f"{process.pid}" in capsys.readouterr().err
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
    assert not is_alive(server)
    # What the killed server left is started, counted and then used again.
    assert run(once) == 0


@pytest.mark.parametrize(
    "number", [signal.SIGQUIT, *(pytest.param(one, marks=LARGE) for one in (signal.SIGUSR1, signal.SIGABRT))]
)
def test_other_signals_that_end_a_process_stop_the_server(
    number: signal.Signals, at: list[str], tmp_path: Path
) -> None:
    process = many_runs(at)
    first_run_stored(tmp_path / "results")
    server = next_server(process.pid)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error: interrupted" in err
    assert not is_alive(server)


def test_the_next_run_ends_the_server_of_a_killed_one_and_counts_its_rows(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = many_runs(at)
    first_run_stored(tmp_path / "results")
    server = stopped_at_a_start(process.pid)
    process.kill()
    process.communicate(timeout=60)
    assert list((tmp_path / "results/latest/runs").glob("*.json"))
    assert run(["cold-recovery", "--version", FAST, "--runs", "1", *at]) == 0
    printed = capsys.readouterr().err
    assert "counted again" in printed
    assert f"ended server {server.pid}" in printed
    assert not is_alive(server), printed


def test_a_server_killed_from_outside_voids_its_trial(
    at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel does when memory runs out."""
    timed_start, killed = Bench.timed_start, list[int]()

    def kill_the_first(bench: Bench, log_name: str) -> Measurement:
        def kill(_: object) -> None:
            if not killed:
                killed.append(bench.server.process.pid)
                os.kill(killed[0], signal.SIGKILL)

        bench.server.on_line = kill
        return timed_start(bench, log_name)

    monkeypatch.setattr(Bench, "timed_start", kill_the_first)
    assert run(["cold-recovery", "--version", FAST, "--runs", "2", *at]) == 1
    first, second = stored(tmp_path)["runs"]
    assert first["verdict"] == "void"
    assert "killed by signal 9 from outside" in first["reason"]
    assert second["verdict"] == "measured", second["reason"]


# --- Data directories that do not fit on the disk together


@pytest.fixture
def room_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two versions, with data on a disk that holds one data directory, as far as the tool can see."""
    data = tmp_path / "small"

    def free(_: Path) -> DiskSpace:
        return DiskSpace(2_000_000_000 - 1_500_000_000 * len(DataDirs(data).list()), 10**6)

    monkeypatch.setattr("recovery.session.prepare.free_space", free)
    monkeypatch.setattr("recovery.session.datadirs.free_space", free)
    return ["cold-recovery", "--version", f"{FAST} mariadb-11.4.5", "--runs", "1", *words(data, tmp_path, FEW)]


def test_versions_that_do_not_fit_together_run_one_after_the_other(room_for_one: list[str], tmp_path: Path) -> None:
    assert run(room_for_one) == 0
    report = stored(tmp_path)
    assert [one["verdict"] for one in report["runs"]] == ["measured", "measured"]
    assert report["settings"]["order"] == "versions run one after the other"
    (left,) = DataDirs(tmp_path / "small").list()
    assert left.key.startswith("mariadb-11.4.5"), "the first made room for the second"


def test_what_is_to_be_kept_makes_no_room(
    room_for_one: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*room_for_one, "--keep"]) == 3
    assert "which --keep keeps" in capsys.readouterr().err
    assert DataDirs(tmp_path / "small").list() == (), "refused before anything was built"
