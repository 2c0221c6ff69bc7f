"""Locks across real processes: who holds one is told, and a dead holder holds nothing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from otherusers import going_on

from recovery.errors import HostUnfitError, RecoveryError
from recovery.linux import locks
from recovery.linux.locks import host_lock, lock_path
from recovery.mysqld.datadir import DataDirs

HOLD = """
import sys
from recovery.linux.locks import host_lock
sys.argv = ["/usr/bin/recovery", "cold", "--tables", "20"]
with host_lock():
    print("held", flush=True)
    sys.stdin.read()
"""
LOOK = """
import sys
from pathlib import Path
from recovery.linux.locks import lock_holder
print(flush=True)
while True:
    lock_holder(Path(sys.argv[1]))
"""


def test_a_second_run_is_told_who_holds_it() -> None:
    with going_on([sys.executable, "-c", HOLD]) as child:
        with pytest.raises(RecoveryError) as caught, host_lock():
            pass
        assert f"pid {child.pid}, `recovery cold --tables 20`, since 2" in caught.value.message
        assert caught.value.hint


def test_a_killed_holder_holds_nothing() -> None:
    with going_on([sys.executable, "-c", HOLD]) as child:
        child.kill()
        child.wait()
        with host_lock():
            pass


def test_no_child_keeps_it() -> None:
    with host_lock():
        child = subprocess.Popen(["sleep", "600"], close_fds=False)
    try:
        with host_lock():
            pass
    finally:
        child.kill()
        child.wait()


def test_it_comes_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), host_lock():
        _ = 1 / 0
    with host_lock():
        pass


def test_every_user_may_take_it() -> None:
    with host_lock():
        assert Path(os.environ["RECOVERY_HOST_LOCK"]).stat().st_mode & 0o777 == 0o666


def test_where_no_lock_can_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RECOVERY_HOST_LOCK", str(tmp_path / "nowhere/lock"))
    with pytest.raises(HostUnfitError, match="cannot be taken"), host_lock():
        pass


IMPORTANT = [
    b"my thesis",
    b"\0" * 20,
    b"[1, 2]",
    b'{"pid": 1, "command": "x", "since": "y"} and more',
    b'{"pid": 1, "command": "x", "since": "y"}' + b" " * 70_000 + b"more",
    b'{"pid": 1e999, "command": "x", "since": "y"}',
    b'{"pid": %s, "command": "x", "since": "y"}' % (b"9" * 5000),
    b"[" * 65_000,
    b'{"pid": 5, "command": "x", "since": "y", "precious": "a setting"}',
    b'{"pid": true, "command": "x", "since": "y"}',
    b'{"pid": 5, "command": {"a": ["a setting"]}, "since": "y"}',
]


@pytest.mark.parametrize("content", IMPORTANT, ids=range(len(IMPORTANT)))
def test_a_file_that_is_no_lock_is_left_as_it_is(content: bytes, tmp_path: Path) -> None:
    path = Path(os.environ["RECOVERY_HOST_LOCK"])
    path.write_bytes(content)
    with pytest.raises(HostUnfitError, match=f"{path} is not a lock file of this tool") as caught, host_lock():
        pass
    assert caught.value.hint
    assert path.read_bytes() == content
    assert locks.lock_holder(path) is None
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert locks.lock_holder(path) is not None
    datadir = tmp_path / "data/a-key.lock"
    datadir.parent.mkdir()
    path.rename(datadir)
    with pytest.raises(HostUnfitError, match="is not a lock file of this tool"):
        DataDirs(datadir.parent).acquire("a-key")
    DataDirs(datadir.parent).check()
    assert datadir.read_bytes() == content


def test_a_lock_that_was_left_is_taken_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where who held it had a long command, or was an older tool."""
    monkeypatch.setattr(sys, "argv", ["recovery", "x" * 100_000])
    path = tmp_path / "lock"
    for _ in range(2):
        lock = locks.take_lock(path)
        assert lock is not None
        lock.leave()
    path.write_text('{"pid": 1, "command": "recovery cold", "since": "2026-11-22 06:00:00 UTC"}')
    lock = locks.take_lock(path)
    assert lock is not None
    lock.release()
    assert path.read_bytes() == b""


def test_what_was_put_in_a_lock_s_place_stays(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = locks.take_lock(path)
    assert lock is not None
    path.rename(tmp_path / "moved")
    path.write_text("mine")
    lock.release(unlink=True)
    assert path.read_text() == "mine"


def test_no_number_in_a_lock_is_too_long_to_be_told(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text('{"pid": 1, "command": "x", "since": "y", "uid": %s}' % ("9" * 4000))
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert len(str(locks.lock_holder(path))) < 100


def test_without_the_variable_all_come_to_one_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RECOVERY_HOST_LOCK")
    chosen = lock_path()
    assert chosen.name == "mysql-recovery-tester.lock"
    assert chosen.parent.stat().st_mode & 0o002


def test_a_look_does_not_keep_others_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`recovery datadirs` in a loop beside a run that starts."""
    monkeypatch.setattr(locks, "_TIMEOUT_S", 60.0)
    path = tmp_path / "x.lock"
    held = locks.take_lock(path)
    assert held is not None
    held.release()
    looking = subprocess.Popen([sys.executable, "-c", LOOK, str(path)], stdout=subprocess.PIPE)
    try:
        assert looking.stdout is not None
        looking.stdout.readline()
        for _ in range(500):
            lock = locks.take_lock(path)
            assert lock is not None
            lock.release()
    finally:
        looking.kill()
        looking.communicate()
