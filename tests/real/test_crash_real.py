"""Are real servers killed at each moment, judged by what came back, and their damaged files told of?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import psutil
import pytest
from sessions import need_disks
from waiting import until

from recovery.cli.main import run
from recovery.experiments import crash_matrix
from recovery.experiments.writers import JournalWriter
from recovery.linux.loop_device import attached_images, image_path, loop_disk
from recovery.linux.privileges import RootStep, refuse_steps
from recovery.model import CrashMoment, Run, Session, Verdict
from recovery.mysqld.datadir import DataDirs, remove_copy, remove_leftover_copies
from recovery.report.stored_session import find_session, load_session

pytestmark = pytest.mark.real
OLD, NEW = "5.7.22", "8.0.31"
FLUSHED = ("--option", "innodb_flush_log_at_trx_commit=1", "--option", "innodb_doublewrite=1")


@pytest.fixture
def disks() -> None:
    need_disks()


def asked(scenario: str, version: str, questions: str, data: Path, tmp_path: Path, *more: str) -> Session:
    folders = ["--data", str(data), "--results", str(tmp_path / "results"), "--no-probe", "--runs", "1"]
    command = [scenario, "--version", version, "--question", questions, "--tables", "5", *folders, *more]
    assert run(command) == 0
    assert not list(data.glob("*/copy*")), "left behind"
    return load_session(find_session(tmp_path / "results", None))


def by_question(session: Session) -> dict[str, Run]:
    return {session.cells[one.variant]["question"]: one for one in session.runs}


@pytest.mark.parametrize(
    ("version", "moments"), [(NEW, "inserts load definitions recovery shutdown"), (OLD, "definitions recovery")]
)
def test_killed_at_every_moment_a_server_keeps_its_word(version: str, moments: str, data: Path, tmp_path: Path) -> None:
    found = by_question(asked("crash-matrix", version, moments, data, tmp_path, *FLUSHED))
    assert list(found) == moments.split()
    for moment, one in found.items():
        # Once in sixty kills 5.7.22 does not come back at all from one of these.
        may_fail = moment == "shutdown" or (version, moment) == (OLD, "definitions")
        assert one.verdict is Verdict.MEASURED or may_fail, one.reason
        if one.verdict is Verdict.MEASURED:
            assert one.measures["lost"] == one.measures["torn"] == one.measures["ghosts"] == 0
            assert one.startup_s == pytest.approx(one.measures["recovery_s"], rel=1e-6)
    assert any(one.measures.get("acknowledged") for one in found.values()), (
        "of one a slow host may have written nothing"
    )
    assert found["recovery"].crash_proof
    assert found["recovery"].measures["kills"] > 1


def test_one_kill_comes_again(data: Path, tmp_path: Path) -> None:
    """By the number of the run, without those before it; the seed says when, and no server is killed before that."""
    (found,) = asked("crash-matrix", OLD, "inserts", data, tmp_path, *FLUSHED, "--only", "17").runs
    assert found.repeat == 17
    chance = Random(f"1 {found.version} {found.variant} 17")  # noqa: S311 - no secret
    assert found.measures["killed_after_s"] >= chance.uniform(*crash_matrix.WRITING_S[CrashMoment.INSERTS])


def test_a_journal_that_is_missing_makes_the_run_void(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = JournalWriter.end

    def end_and_lose_one(witness: JournalWriter) -> None:
        end(witness)
        (witness._folder / "2").unlink()

    monkeypatch.setattr(JournalWriter, "end", end_and_lose_one)
    folders = [
        "--data",
        str(data),
        "--results",
        str(tmp_path / "results"),
        "--no-probe",
        "--runs",
        "1",
        "--tables",
        "5",
    ]
    assert run(["crash-matrix", "--version", NEW, "--question", "load", *FLUSHED, *folders]) == 1
    (one,) = load_session(find_session(tmp_path / "results", None)).runs
    assert one.verdict is Verdict.VOID
    assert one.reason is not None
    assert one.reason.startswith("the journal of client 2 cannot be read")


def test_damage_is_done_in_the_server_s_own_pages(data: Path, tmp_path: Path) -> None:
    """One of 4 KB whose bit is flipped is an index's, or the server would not find it by reading the table."""
    session = asked("damage", NEW, "flipped truncated", data, tmp_path, "--set", "innodb_page_size=4096")
    told = {one.variant: one.told for one in session.runs}
    assert "page number=" in told["flipped-untouched"]["says"]
    assert "should be at least" in told["truncated-untouched"]["says"]


@pytest.mark.usefixtures("disks")
def test_what_was_flushed_survives_a_power_loss(data: Path, tmp_path: Path) -> None:
    """How much of the rest is lost depends on when the server last had to flush for other reasons."""
    option = ("--option", "innodb_flush_log_at_trx_commit=1,2", "--option", "innodb_doublewrite=1")
    session = asked("crash-matrix", NEW, "power-loss", data, tmp_path, *option)
    assert {one.verdict for one in session.runs} == {Verdict.MEASURED}, [one.reason for one in session.runs]
    for one in session.runs:
        if session.cells[one.variant]["innodb_flush_log_at_trx_commit"] == "1":
            assert one.measures["lost"] == 0
    assert any(one.measures["acknowledged"] for one in session.runs)
    assert str(data) not in Path("/proc/mounts").read_text(encoding="utf-8")


@pytest.mark.usefixtures("disks")
def test_a_disk_without_power_keeps_what_was_synced_alone(tmp_path: Path) -> None:
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


@pytest.mark.usefixtures("disks")
def test_what_a_server_does_about_damage_is_told(data: Path, tmp_path: Path) -> None:
    session = asked("damage", NEW, "full-disk missing", data, tmp_path)
    told = {one.variant: one.told for one in session.runs}
    assert set(told) == {"full-disk", "missing-written-to", "missing-untouched"}
    assert told["full-disk"]["once mended"].startswith("ready after")
    assert "there" in told["full-disk"]["once mended"]
    assert "1812" in told["missing-untouched"]["the table"], "tablespace is missing"


def test_a_question_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crash-matrix", "--question", "breakfast", "--results", str(tmp_path)]) == 2
    assert "crash-matrix has no question 'breakfast'" in capsys.readouterr().err


@pytest.mark.usefixtures("disks")
def test_the_disk_that_a_killed_run_has_left_is_removed(tmp_path: Path) -> None:
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
def test_disks_of_the_dead_are_removed_wherever_they_are_and_no_others(tmp_path: Path) -> None:
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
def test_a_server_that_a_dead_run_has_left_on_a_disk_of_its_own_is_ended(tmp_path: Path) -> None:
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


def test_a_kill_that_comes_too_late_is_tried_again(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of its moments lies long after a shutdown."""
    late = [600.0]
    usual = Random.random
    monkeypatch.setattr("recovery.experiments.crash.Random", type("Late", (Random,), {
        "random": lambda self: late.pop() if late else usual(self) * 1e-3,
    }))  # fmt: skip
    (found,) = asked("crash-matrix", OLD, "shutdown", data, tmp_path, *FLUSHED).runs
    assert not late
    assert found.verdict is Verdict.MEASURED, found.reason
    assert found.measures["kills"] == 1


def test_data_directories_stay_as_they_are(data: Path) -> None:
    """After all of these: what was built was never started, and is trusted."""
    assert {one.status for one in DataDirs(data).list()} <= {"whole"}
