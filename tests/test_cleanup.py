"""What a killed run left is recognised by its mark and removed, and nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from waiting import until

from recovery.linux import cleanup
from recovery.linux.cleanup import kill_orphaned_servers, kill_servers_in, sweep_drafts, wait_until_ended
from recovery.linux.procfs import is_orphan, is_owner_gone, name_with_process_id, process_id

PRINT_MARK = "from recovery.linux.procfs import process_id; print(process_id())"
MAKE = "import sys; from recovery.linux.cleanup import make_temp_folder; print(make_temp_folder(sys.argv[1]))"
SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]

# --- Marks


def test_who_lives_is_not_gone() -> None:
    assert not is_owner_gone(process_id())


def test_who_has_ended_is_gone() -> None:
    done = subprocess.run([sys.executable, "-c", PRINT_MARK], capture_output=True, text=True, check=True)
    assert is_owner_gone(done.stdout.strip())


def test_its_number_may_be_in_use_again() -> None:
    boot, namespace, pid, began = process_id().split(".")
    assert is_owner_gone(f"{boot}.{namespace}.{pid}.{int(began) - 1}")
    assert is_owner_gone(f"another-boot.{namespace}.{pid}.{began}")


def test_what_cannot_be_told_is_left_alone() -> None:
    boot, namespace, pid, began = process_id().split(".")
    assert not is_owner_gone(f"{boot}.{int(namespace) + 1}.{pid}.{began}")
    assert not is_owner_gone("")
    assert not is_owner_gone("somebody else's label")
    for no_number in ("\u00b2", "9" * 5000, ""):
        assert not is_owner_gone(f"{boot}.{namespace}.{no_number}.{began}")
        assert not is_orphan(f"mysql-recovery-{boot}.{namespace}.{no_number}.{began}-1")


def test_a_zombie_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", PRINT_MARK], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    mark = child.stdout.read().strip()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_owner_gone(mark)
    child.wait()
    child.stdout.close()


def test_a_name_tells_whether_its_owner_lives() -> None:
    own = name_with_process_id(1)
    assert name_with_process_id(2) != own
    assert not is_orphan(own)
    assert is_orphan(own.rpartition("-")[0] + "0-1"), "another process had this id before"
    for other in ("docker", "mysql-recovery", f"x{own}", f"{own}x"):
        assert not is_orphan(other)


# --- Temporary folders


def test_those_of_a_run_that_has_ended_go_and_no_others(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, "-c", MAKE, str(tmp_path)], capture_output=True, text=True, check=True)
    left, own = Path(made.stdout.strip()), cleanup.make_temp_folder(str(tmp_path))
    strange = tmp_path / "recovery-of-mine"
    strange.mkdir()
    (left / "1").mkdir()
    (left / "1" / "my.cnf").touch()
    assert cleanup.sweep_temp_folders_in(tmp_path) == 1
    assert not left.exists()
    assert own.is_dir()
    assert strange.is_dir()
    assert cleanup.sweep_temp_folders_in(tmp_path) == 0


def of_the_dead() -> str:
    """A name with the mark of a process that has this one's number, and began earlier."""
    before, dot, began = name_with_process_id(1).removesuffix("-1").rpartition(".")
    return f"{before}{dot}{int(began) - 1}-1"


def test_one_that_was_killed_before_its_mark_was_written_or_within_the_removal(tmp_path: Path) -> None:
    """Its name tells whose it was: it has another one only while the mark is in it."""
    half = tmp_path / of_the_dead()
    assert is_orphan(half.name)
    (half / "1").mkdir(parents=True)
    assert cleanup.sweep_temp_folders_in(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_there_is_no_moment_without_a_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    rename = Path.rename

    def watched(self: Path, target: Path) -> Path:
        seen.append(f"{self.name} {sorted(entry.name for entry in self.iterdir())} {target.name}")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", watched)
    made = cleanup.make_temp_folder(str(tmp_path))
    (made / "1").mkdir()
    assert cleanup.remove_temp_folder(made)
    named, unnamed = seen
    assert named.startswith("mysql-recovery-")
    assert named.endswith(f" ['owner'] {made.name}")
    assert unnamed.startswith(f"{made.name} ['1', 'owner'] mysql-recovery-")
    assert list(tmp_path.iterdir()) == []
    assert not cleanup.remove_temp_folder(made)


def test_a_folder_for_a_while(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with cleanup.temp_folder() as made:
        assert made.stat().st_mode & 0o777 == 0o700
        assert cleanup.socket_temp_base() == (str(tmp_path) if len(os.fsencode(tmp_path)) <= 60 else "/tmp")
    assert not made.exists()


def test_another_users_are_left_alone_by_root_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = subprocess.run([sys.executable, "-c", MAKE, str(tmp_path)], capture_output=True, text=True, check=True)
    left, half = Path(made.stdout.strip()), tmp_path / of_the_dead()
    half.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: half.stat().st_uid + 1)
    assert cleanup.sweep_temp_folders_in(tmp_path) == 0
    assert not cleanup.remove_temp_folder(left)
    assert left.is_dir()
    assert half.is_dir()


# --- Drafts of files


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_drafts_of_the_dead_go_and_no_others(tmp_path: Path, dead: int) -> None:
    gone = [f".report.json.{dead}", f".001.json.{dead}", f".report.txt.{os.getpid()}"]
    stay = [f".report.json.{os.getppid()}", f".hidden.{dead}", "report.json", ".report.json", f"report.json.{dead}"]
    for name in (*gone, *stay):
        (tmp_path / name).touch()
    sweep_drafts(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(stay)


def test_of_a_folder_with_files_of_the_user_s_only_what_has_our_names(tmp_path: Path, dead: int) -> None:
    (tmp_path / f".20261122T060000Z-scale.{dead}" / "runs").mkdir(parents=True)
    (tmp_path / f".notes.txt.{dead}").touch()
    (tmp_path / f".latest.{dead}").symlink_to("elsewhere")
    sweep_drafts(tmp_path, r"\d{8}T\d{6}Z-[a-z-]+|latest")
    assert [entry.name for entry in tmp_path.iterdir()] == [f".notes.txt.{dead}"]


def test_a_folder_that_is_not_there_has_no_drafts(tmp_path: Path) -> None:
    sweep_drafts(tmp_path / "nowhere")


# --- Servers


def started_in(folder: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(SLEEPER, cwd=folder, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def test_only_what_works_in_the_folder_is_ended(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "other").mkdir()
    orphan, other = started_in(tmp_path / "mine"), started_in(tmp_path / "other")
    try:
        name = psutil.Process(orphan.pid).name()
        assert kill_servers_in(tmp_path / "mine", "mysqld") == ()
        assert orphan.poll() is None
        assert kill_servers_in(tmp_path / "mine", name) == (orphan.pid,)
        assert not psutil.pid_exists(orphan.pid)
        assert other.poll() is None
        assert kill_servers_in(tmp_path / "mine", name) == ()
    finally:
        for process in (orphan, other):
            process.kill()
            process.communicate()


def started_with_options_in(folder: Path, owner: str) -> subprocess.Popen[bytes]:
    """As a server of a run whose folder bears this mark."""
    (folder / "1").mkdir(parents=True)
    (folder / "owner").write_text(owner)
    process = subprocess.Popen([*SLEEPER, f"--defaults-file={folder}/1/my.cnf"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def test_servers_of_dead_runs_are_ended_whatever_their_data_directory(tmp_path: Path) -> None:
    boot, namespace, pid, _ = process_id().rsplit(".", 3)
    gone = f"{boot}.{namespace}.{pid}.1"  # this process' number, but of an earlier process
    orphan = started_with_options_in(tmp_path / "recovery-gone", gone)
    ours = started_with_options_in(tmp_path / "recovery-ours", process_id())
    other = started_with_options_in(tmp_path / "somebody-elses", gone)
    try:
        assert orphan.pid in kill_orphaned_servers()
        assert not psutil.pid_exists(orphan.pid)
        assert ours.poll() is None
        assert other.poll() is None
    finally:
        for process in (orphan, ours, other):
            process.kill()
            process.communicate()


def test_who_has_ended_and_is_collected_by_nobody_is_not_waited_for(tmp_path: Path) -> None:
    """The orphan of a killed run belongs to the first process of a container, which may not care."""
    idle = (
        "import subprocess, sys, time; p = subprocess.Popen(sys.argv[2:], cwd=sys.argv[1], stdout=subprocess.DEVNULL);"
        "print(p.pid, flush=True); time.sleep(600)"
    )
    (tmp_path / "mine").mkdir()
    command = [sys.executable, "-c", idle, str(tmp_path / "mine"), *SLEEPER]
    parent = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert kill_servers_in(tmp_path / "mine", child.name()) == (child.pid,)
        assert child.status() == psutil.STATUS_ZOMBIE
    finally:
        parent.kill()
        parent.communicate()


def test_who_has_lost_its_first_thread_alone_has_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others may still write, and hold the files that the next server is to open."""
    lasting = (
        "import ctypes, os, threading;"
        "threading.Thread(target=os.read, args=(0, 1)).start(); ctypes.CDLL(None).pthread_exit(None)"
    )
    process = subprocess.Popen([sys.executable, "-c", lasting], cwd=tmp_path, stdin=subprocess.PIPE)
    assert process.stdin is not None
    seen = psutil.Process(process.pid)
    until(lambda: seen.status() == psutil.STATUS_ZOMBIE, "the end of its first thread")
    with monkeypatch.context() as patch:
        patch.setattr(cleanup, "_TIMEOUT_S", 0.0)
        assert wait_until_ended([seen]) == [], "its second thread still runs"
    process.stdin.close()
    assert wait_until_ended([seen]) == [seen]
    assert not psutil.pid_exists(process.pid)
    process.wait()
