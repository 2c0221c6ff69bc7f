"""Locks across real processes: who holds one is told, and a dead holder holds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from otherusers import going_on

from recovery.errors import HostUnfitError, RecoveryError
from recovery.host import flock
from recovery.host.lock import host_lock

HOLD = """
import sys
from recovery.host.lock import host_lock
sys.argv = ["/usr/bin/recovery", "cold", "--tables", "20"]
with host_lock():
    print("held", flush=True)
    sys.stdin.read()
"""
LOOK = """
import sys
from pathlib import Path
from recovery.host.flock import holder
print(flush=True)
while True:
    holder(Path(sys.argv[1]))
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


def test_without_the_variable_all_come_to_one_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from recovery.host import lock

    monkeypatch.delenv("RECOVERY_HOST_LOCK")
    chosen = lock.lock_path()
    assert chosen.name == "mysql-recovery-tester.lock"
    assert chosen.parent.stat().st_mode & 0o002


def test_a_look_does_not_keep_others_out(tmp_path: Path) -> None:
    """`recovery datadirs` in a loop beside a run that starts."""
    path = tmp_path / "x.lock"
    held = flock.take(path)
    assert held is not None
    held.release()
    looking = subprocess.Popen([sys.executable, "-c", LOOK, str(path)], stdout=subprocess.PIPE)
    try:
        assert looking.stdout is not None
        looking.stdout.readline()
        for _ in range(5000):
            lock = flock.take(path)
            assert lock is not None
            lock.release()
    finally:
        looking.kill()
        looking.communicate()
