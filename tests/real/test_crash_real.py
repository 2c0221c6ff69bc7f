"""Real servers are killed at each moment, judged by what came back, and reported with their damaged files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import psutil
import pytest
from datadirs import empty_datadir
from sessions import need_disks
from waiting import until

from recovery.cli.main import run
from recovery.crash import crash_matrix
from recovery.crash.consistency import compare_dictionary
from recovery.crash.tasks import CrashMoment
from recovery.crash.writers import JournalWriter
from recovery.linux.loop_device import attached_images, image_path, loop_disk, why_no_loop_disk
from recovery.linux.privileges import RootStep, refuse_steps
from recovery.model import Run, Session, Verdict
from recovery.mysqld.datadir import DataDirs, remove_copy, remove_leftover_copies
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.options import experiment_settings
from recovery.mysqld.server import Server, ServerConfig
from recovery.storage.sessions import find_session, load_session

pytestmark = pytest.mark.real
FAST, OLD, NEW = "mariadb-10.11.5", "5.7.22", "8.0.31"
LARGE = pytest.mark.on_demand("large")
FLUSHED = ("--option", "innodb_flush_log_at_trx_commit=1", "--option", "innodb_doublewrite=1")


@pytest.fixture
def disks() -> None:
    need_disks()


def measured(
    experiment: str, questions: str, data: Path, folder: Path, *options: str, version: str = FAST, code: int = 0
) -> Session:
    folders = ["--data", str(data), "--results", str(folder / "results"), "--no-probe", "--runs", "1"]
    command = [experiment, "--version", version, "--question", questions, "--tables", "5", *folders, *options]
    assert run(command) == code
    assert not list(data.glob("*/copy*")), "left behind"
    return load_session(find_session(folder / "results", None))


def by_question(session: Session) -> dict[str, Run]:
    return {session.values_of(one.variant)["question"]: one for one in session.runs}


@pytest.mark.parametrize(
    ("version", "moments"),
    [
        (FAST, "inserts load definitions recovery"),
        pytest.param(OLD, "definitions recovery", marks=LARGE),
        pytest.param(NEW, "inserts load definitions recovery shutdown", marks=LARGE),
    ],
)
def test_a_server_killed_at_any_moment_keeps_its_promises(
    version: str, moments: str, data: Path, tmp_path: Path
) -> None:
    found = by_question(measured("crash-matrix", moments, data, tmp_path, *FLUSHED, version=version))
    assert sorted(found) == sorted(moments.split())
    for moment, one in found.items():
        # Once in sixty kills 5.7.22 does not come back at all from one of these.
        may_fail = moment == "shutdown" or (version, moment) == (OLD, "definitions")
        assert one.verdict is Verdict.MEASURED or may_fail, one.reason
        if one.verdict is Verdict.MEASURED:
            assert one.metrics["lost"] == one.metrics["torn"] == one.metrics["ghosts"] == 0
            assert one.metrics["startup_s"] == pytest.approx(one.metrics["recovery_s"], rel=1e-6)
    assert any(one.metrics.get("acknowledged") for one in found.values()), "of one a slow host may have written nothing"
    if "recovery" in found:
        assert found["recovery"].startup.crash_proof
        assert found["recovery"].metrics["kills"] > 1


def test_files_are_compared_with_the_views_of_a_new_server(tmp_path: Path) -> None:
    build, datadir = empty_datadir(NEW, tmp_path)
    logs, settings = tmp_path / "logs", experiment_settings(build.version)
    with Server(ServerConfig(LocalLauncher(), build, logs, settings), datadir) as server:
        server.start()
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute("create database crashed")
            for table in ("there", "gone"):
                cursor.execute(f"create table crashed.{table} (id int primary key)")
            (datadir / "crashed" / "gone.ibd").unlink()
            (datadir / "crashed" / "unknown.ibd").touch()
            found = compare_dictionary(connection, build.version, datadir, ["crashed"])
        server.kill()
    assert found == (("crashed/unknown.ibd",), ("crashed/gone.ibd",))


def test_a_single_kill_is_repeated_by_its_number(data: Path, tmp_path: Path) -> None:
    """Without those before it. The seed says when, and the server is not killed before that."""
    (found,) = measured("crash-matrix", "inserts", data, tmp_path, *FLUSHED, "--only", "17").runs
    assert found.repeat == 17
    chance = Random(f"1 {found.version} {found.variant} 17")  # noqa: S311 - no secret
    assert found.metrics["killed_after_s"] >= chance.uniform(*crash_matrix.WRITING_S[CrashMoment.INSERTS])


def test_a_journal_that_is_missing_makes_the_run_void(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = JournalWriter.end

    def end_and_lose_one(writer: JournalWriter) -> None:
        end(writer)
        (writer._folder / "2").unlink()

    monkeypatch.setattr(JournalWriter, "end", end_and_lose_one)
    (one,) = measured("crash-matrix", "load", data, tmp_path, *FLUSHED, code=1).runs
    assert one.verdict is Verdict.VOID
    assert one.reason is not None
    assert one.reason.startswith("the journal of client 2 cannot be read")


def test_a_kill_that_comes_after_the_shutdown_is_repeated_earlier(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_shutdown, asked_s, took_s = crash_matrix._kill_shutdown, list[float](), list[float]()

    def late_and_then_at_once(server: Server, *, after_s: float) -> crash_matrix._Kill:
        asked_s.append(after_s)
        try:
            return kill_shutdown(server, after_s=0.0 if took_s else 600.0)
        except crash_matrix._ShutdownFinishedError as error:
            took_s.append(error.took_s)
            raise

    monkeypatch.setattr(crash_matrix, "_kill_shutdown", late_and_then_at_once)
    (found,) = measured("crash-matrix", "shutdown", data, tmp_path, *FLUSHED).runs
    assert found.verdict is Verdict.MEASURED, found.reason
    assert (len(asked_s), len(took_s)) == (2, 1)
    assert asked_s[1] <= took_s[0]
    assert found.metrics["kills"] == 1
    assert found.metrics["lost"] == found.metrics["torn"] == found.metrics["ghosts"] == 0


@pytest.fixture(scope="module")
def damage(data: Path, tmp_path_factory: pytest.TempPathFactory, module_settings: None) -> dict[str, dict[str, str]]:
    """What is reported about a server with pages of 4 KB after each damage, by variant."""
    faults = "flipped truncated missing" if why_no_loop_disk() else "full-disk flipped truncated missing"
    folder = tmp_path_factory.mktemp("damage")
    session = measured("damage", faults, data, folder, "--set", "innodb_page_size=4096")
    return {one.variant: one.observations for one in session.runs}


def test_a_flipped_bit_is_in_an_index_page(damage: dict[str, dict[str, str]]) -> None:
    """Otherwise the server would not find it by reading the table."""
    assert "page number=" in damage["flipped-untouched"]["says"]


def test_a_truncated_file_is_reported(damage: dict[str, dict[str, str]]) -> None:
    assert "should be at least" in damage["truncated-untouched"]["says"]


def test_a_missing_file_is_reported(damage: dict[str, dict[str, str]]) -> None:
    assert {"missing-written-to", "missing-untouched"} <= damage.keys()
    assert "Tablespace is missing for a table" in damage["missing-untouched"]["the table"]


@pytest.mark.usefixtures("disks")
def test_a_server_comes_back_after_a_full_disk(damage: dict[str, dict[str, str]]) -> None:
    once_mended = damage["full-disk"]["once mended"]
    assert once_mended.startswith("ready after")
    assert "there" in once_mended


@pytest.mark.usefixtures("disks")
def test_what_was_flushed_survives_a_power_loss(tmp_path: Path) -> None:
    """How much of the rest is lost depends on when the server last had to flush for other reasons.

    On a busy host this server sometimes does not start again: its log then needs a page that is all zeros. The trial is
    reported as failed; why the page is zeros is not known."""
    data = tmp_path / "data"
    folders = ["--data", str(data), "--results", str(tmp_path / "results"), "--no-probe", "--runs", "1"]
    options = ("--option", "innodb_flush_log_at_trx_commit=1,2", "--option", "innodb_doublewrite=1")
    code = run(["crash-matrix", "--version", FAST, "--question", "power-loss", "--tables", "5", *folders, *options])
    session = load_session(find_session(tmp_path / "results", None))
    failed = [one for one in session.runs if one.verdict is Verdict.FAILED]
    assert code == bool(failed)
    assert len(list(data.glob("*-failed-*/state.json"))) == len(failed)
    assert all("corrupted page" in (one.reason or "") for one in failed)
    for one in session.runs:
        if one in failed:
            continue
        assert one.verdict is Verdict.MEASURED, one.reason
        if session.values_of(one.variant)["innodb_flush_log_at_trx_commit"] == "1":
            assert one.metrics["lost"] == 0
            assert one.metrics["acknowledged"]
    assert not list(data.glob("*/copy*")), "left behind"
    assert str(data) not in Path("/proc/mounts").read_text(encoding="utf-8")


@pytest.mark.usefixtures("disks")
def test_a_disk_without_power_keeps_only_what_was_synced(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    with loop_disk(place, size_bytes=64 << 20) as disk:
        for name in ("synced", "unsynced"):
            with (place / name).open("wb") as file:
                file.write(b"x" * 10_000)
                if name == "synced":
                    file.flush()
                    os.fsync(file.fileno())
        disk.lose_power()
        disk.replug()
        assert (place / "synced").read_bytes() == b"x" * 10_000
        assert not (place / "unsynced").exists() or not (place / "unsynced").stat().st_size
    assert not place.exists()


def test_an_unknown_question_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crash-matrix", "--question", "breakfast", "--results", str(tmp_path)]) == 2
    assert "--question / QUESTION: breakfast: crash-matrix has no such question" in capsys.readouterr().err


@pytest.mark.usefixtures("disks")
def test_the_disk_of_a_killed_run_is_removed(tmp_path: Path) -> None:
    place = tmp_path / "copy"
    disk = loop_disk(place, size_bytes=64 << 20)
    disk.__enter__()
    (place / "kept-open").write_text("x", encoding="ascii")
    assert os.path.ismount(place)
    remove_copy(tmp_path)
    assert not place.exists()
    assert not image_path(place).exists()


LEAVES_A_DISK = """
import os, signal, sys
from pathlib import Path
from recovery.mysqld.datadir import DataDirs, disposable_copy
directory = DataDirs(Path(sys.argv[1])).acquire("5.7.22-d-5-0123abcd")
directory.mysql.mkdir()
with disposable_copy(directory.mysql, directory.path, on_a_disk=True, for_containers=True):
    print("mounted", flush=True)
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.readline()
"""


@pytest.mark.usefixtures("disks")
def test_disks_of_killed_runs_are_removed_everywhere_and_no_others(tmp_path: Path) -> None:
    """By a session that has nothing to do with them."""
    for name in ("dead", "living", "elsewhere"):
        (tmp_path / name).mkdir(mode=0o700)
    command = [sys.executable, "-c", LEAVES_A_DISK]
    dead = subprocess.run([*command, str(tmp_path / "dead"), "dies"], stdout=subprocess.PIPE, check=False)
    assert dead.returncode == -signal.SIGKILL
    living = subprocess.Popen([*command, str(tmp_path / "living"), ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert living.stdout is not None
        assert living.stdout.readline() == b"mounted\n"
        left = tmp_path / "dead" / "5.7.22-d-5-0123abcd"
        with refuse_steps(frozenset({RootStep.MOUNT})):
            assert "may not be unmounted" in str(dict(remove_leftover_copies(tmp_path / "elsewhere"))[left])
        assert dict(remove_leftover_copies(tmp_path / "elsewhere"))[left] is None
        mounts = Path("/proc/mounts").read_text(encoding="utf-8")
        assert str(tmp_path / "dead") not in mounts
        assert str(tmp_path / "living") in mounts
    finally:
        living.communicate(b"\n")
    assert str(tmp_path) not in Path("/proc/mounts").read_text(encoding="utf-8")
    assert not list(tmp_path.glob("*/*/copy*"))


LEAVES_A_SERVER = """
import os, shutil, signal, subprocess, sys
from pathlib import Path
from recovery.mysqld.datadir import DataDirs, disposable_copy
directory = DataDirs(Path(sys.argv[1])).acquire("5.7.22-d-5-0123abcd")
directory.mysql.mkdir()
with disposable_copy(directory.mysql, directory.path, on_a_disk=True) as copy:
    shutil.copy(shutil.which("sleep"), copy.mysql / "mysqld")
    server = subprocess.Popen([copy.mysql / "mysqld", "600"], cwd=copy.mysql, stdout=subprocess.DEVNULL)
    print(server.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("disks")
def test_a_server_left_by_a_killed_run_on_its_own_disk_is_ended(tmp_path: Path) -> None:
    """Nobody else sees that disk, and it is there for as long as the server is."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    dead = subprocess.run([sys.executable, "-c", LEAVES_A_SERVER, str(data)], stdout=subprocess.PIPE, check=False)
    assert dead.returncode == -signal.SIGKILL
    server, left = psutil.Process(int(dead.stdout)), data / "5.7.22-d-5-0123abcd"
    assert not os.path.ismount(left / "copy")
    assert image_path(left / "copy") in attached_images()
    assert dict(remove_leftover_copies(data)) == {left: None}
    until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, "the end of the server")
    until(lambda: image_path(left / "copy") not in attached_images(), "the end of the disk")
    assert not list(left.glob("copy*"))


def test_the_original_data_directories_are_never_started(data: Path) -> None:
    """The last test here: over a copy of each, all others have started servers."""
    assert {one.status for one in DataDirs(data).list()} <= {"whole"}
