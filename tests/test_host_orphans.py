"""Processes whose owner died over a data directory."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from waiting import until

from recovery.linux import cleanup
from recovery.linux.cleanup import kill_orphaned_servers, kill_servers_in, wait_until_ended
from recovery.linux.procfs import process_id

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


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
        patch.setattr(cleanup, "_PATIENCE_S", 0.0)
        assert wait_until_ended([seen]) == [], "its second thread still runs"
    process.stdin.close()
    assert wait_until_ended([seen]) == [seen]
    assert not psutil.pid_exists(process.pid)
    process.wait()
