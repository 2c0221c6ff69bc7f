"""What killed runs left is recognised by its mark and removed, and nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from otherusers import child_process, done_in_child
from waiting import until

from recovery.linux import cleanup
from recovery.linux.cleanup import kill_orphaned_servers, kill_servers_in, sweep_drafts, wait_until_ended
from recovery.linux.procfs import is_orphan, is_owner_gone, name_with_process_id, process_id

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]

# --- Marks


def of_an_earlier_process(mark: str) -> str:
    """Return the mark of a process that had the same number, and began earlier."""
    before, dot, began = mark.rpartition(".")
    return f"{before}{dot}{int(began) - 1}"


def orphan_name() -> str:
    return f"mysql-recovery-{of_an_earlier_process(process_id())}-1"


def test_an_owner_that_ended_or_whose_number_was_reused_is_gone() -> None:
    own = process_id()
    assert not is_owner_gone(own)
    assert is_owner_gone(done_in_child(process_id))
    assert is_owner_gone(of_an_earlier_process(own))
    assert is_owner_gone(f"another-boot.{own.partition('.')[2]}")


def test_a_zombie_is_gone() -> None:
    with child_process(process_id) as child:
        assert not is_owner_gone(child.returned)
        psutil.Process(child.pid).kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_owner_gone(child.returned)


def test_an_owner_that_cannot_be_identified_is_not_gone() -> None:
    boot, namespace, pid, began = process_id().split(".")
    assert not is_owner_gone(f"{boot}.{int(namespace) + 1}.{pid}.{began}")
    for no_mark in ("", "somebody else's label"):
        assert not is_owner_gone(no_mark)
    for no_number in ("\u00b2", "9" * 5000, ""):
        assert not is_owner_gone(f"{boot}.{namespace}.{no_number}.{began}")
        assert not is_orphan(f"mysql-recovery-{boot}.{namespace}.{no_number}.{began}-1")


def test_a_name_with_a_mark_is_an_orphan_once_its_owner_is_gone() -> None:
    own = name_with_process_id(1)
    assert name_with_process_id(2) != own
    assert not is_orphan(own)
    assert is_orphan(orphan_name())
    for other in ("docker", "mysql-recovery", f"x{own}", f"{own}x"):
        assert not is_orphan(other)


# --- Temporary folders


def test_only_temporary_folders_of_ended_runs_are_removed(tmp_path: Path) -> None:
    left = Path(done_in_child(lambda: str(cleanup.make_temp_folder(str(tmp_path)))))
    own = cleanup.make_temp_folder(str(tmp_path))
    other = tmp_path / "recovery-of-mine"
    other.mkdir()
    (left / "1").mkdir()
    (left / "1" / "my.cnf").touch()
    # Killed before its mark was written, or while it was removed: its name is a mark.
    (tmp_path / orphan_name() / "1").mkdir(parents=True)
    cleanup.sweep_temp_folders_in(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted((own, other))
    cleanup.sweep_temp_folders_in(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted((own, other))


def test_a_temporary_folder_is_never_without_a_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    rename = Path.rename

    def watched(self: Path, target: Path) -> Path:
        seen.append(f"{self.name} {sorted(entry.name for entry in self.iterdir())} {target.name}")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", watched)
    made = cleanup.make_temp_folder(str(tmp_path))
    (made / "1").mkdir()
    cleanup.remove_temp_folder(made)
    named, unnamed = seen
    assert named.startswith("mysql-recovery-")
    assert named.endswith(f" ['owner'] {made.name}")
    assert unnamed.startswith(f"{made.name} ['1', 'owner'] mysql-recovery-")
    assert list(tmp_path.iterdir()) == []
    cleanup.remove_temp_folder(made)  # it is gone, which is no error


def test_a_temporary_folder_is_private_and_ends_with_its_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with cleanup.temp_folder() as made:
        assert made.stat().st_mode & 0o777 == 0o700
        assert cleanup.socket_temp_base() == (str(tmp_path) if len(os.fsencode(tmp_path)) <= 60 else "/tmp")
    assert not made.exists()


def test_temporary_folders_of_another_user_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = Path(done_in_child(lambda: str(cleanup.make_temp_folder(str(tmp_path)))))
    half = tmp_path / orphan_name()
    half.mkdir()
    trap = tmp_path / "recovery-trap"
    trap.mkdir()
    os.mkfifo(trap / "owner")
    assert cleanup.is_abandoned_temp_folder(left)
    monkeypatch.setattr(os, "geteuid", lambda: half.stat().st_uid + 1)
    cleanup.sweep_temp_folders_in(tmp_path)
    cleanup.remove_temp_folder(left)
    assert sorted(tmp_path.iterdir()) == sorted((left, half, trap))


# --- Drafts of files


@pytest.fixture
def dead() -> str:
    """The number of a process that has ended."""
    return done_in_child(lambda: str(os.getpid()))


def test_only_drafts_of_ended_processes_are_removed(tmp_path: Path, dead: str) -> None:
    gone = [f".report.json.{dead}", f".001.json.{dead}", f".report.txt.{os.getpid()}"]
    stay = [f".report.json.{os.getppid()}", f".hidden.{dead}", "report.json", ".report.json", f"report.json.{dead}"]
    for name in (*gone, *stay):
        (tmp_path / name).touch()
    sweep_drafts(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(stay)
    sweep_drafts(tmp_path / "nowhere")


def test_among_files_of_the_user_only_drafts_with_given_names_are_removed(tmp_path: Path, dead: str) -> None:
    (tmp_path / f".20261122T060000Z-scale.{dead}" / "runs").mkdir(parents=True)
    (tmp_path / f".notes.txt.{dead}").touch()
    (tmp_path / f".latest.{dead}").symlink_to("elsewhere")
    sweep_drafts(tmp_path, r"\d{8}T\d{6}Z-[a-z-]+|latest")
    assert [entry.name for entry in tmp_path.iterdir()] == [f".notes.txt.{dead}"]


# --- Servers


@contextmanager
def sleeping(*arguments: str, folder: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*SLEEPER, *arguments], cwd=folder)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_only_servers_that_run_in_the_folder_are_killed(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    with sleeping(folder=mine) as orphan, sleeping(folder=other) as of_others:
        name = psutil.Process(orphan.pid).name()
        assert kill_servers_in(mine, "mysqld") == ()
        assert orphan.poll() is None
        assert kill_servers_in(mine, name) == (orphan.pid,)
        assert not psutil.pid_exists(orphan.pid)
        assert of_others.poll() is None
        assert kill_servers_in(mine, name) == ()


def run_folder(folder: Path, owner: str) -> str:
    """Return the option of a server whose run folder has this owner."""
    (folder / "1").mkdir(parents=True)
    (folder / "owner").write_text(owner)
    return f"--defaults-file={folder}/1/my.cnf"


def test_only_servers_with_the_run_folder_of_a_dead_run_are_killed(tmp_path: Path) -> None:
    gone = of_an_earlier_process(process_id())
    with (
        sleeping(run_folder(tmp_path / "recovery-gone", gone)) as orphan,
        sleeping(run_folder(tmp_path / "recovery-ours", process_id())) as ours,
        sleeping(run_folder(tmp_path / "somebody-elses", gone)) as other,
    ):
        assert orphan.pid in kill_orphaned_servers()
        assert not psutil.pid_exists(orphan.pid)
        assert ours.poll() is None
        assert other.poll() is None


def test_a_zombie_that_nobody_collects_is_not_waited_for(tmp_path: Path) -> None:
    """The orphan of a killed run belongs to the first process of a container, which may not collect it."""
    with child_process(lambda: str(subprocess.Popen(SLEEPER, cwd=tmp_path).pid)) as parent:
        child = psutil.Process(int(parent.returned))
        assert kill_servers_in(tmp_path, child.name()) == (child.pid,)
        assert child.status() == psutil.STATUS_ZOMBIE


def test_a_process_with_a_second_thread_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread may still write, and hold the files that the next server is to open."""
    lasting = (
        "import ctypes, os, threading;"
        "threading.Thread(target=os.read, args=(0, 1)).start(); ctypes.CDLL(None).pthread_exit(None)"
    )
    process = subprocess.Popen([sys.executable, "-S", "-c", lasting], stdin=subprocess.PIPE)
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
