"""Marks of real processes: this one, one that ended, one of another boot."""

from __future__ import annotations

import os
import subprocess
import sys

from recovery.linux import procfs

PRINT_MARK = "from recovery.linux.procfs import process_id; print(process_id())"


def test_who_lives_is_not_gone() -> None:
    assert not procfs.is_owner_gone(procfs.process_id())


def test_who_has_ended_is_gone() -> None:
    done = subprocess.run([sys.executable, "-c", PRINT_MARK], capture_output=True, text=True, check=True)
    assert procfs.is_owner_gone(done.stdout.strip())


def test_its_number_may_be_in_use_again() -> None:
    boot, namespace, pid, began = procfs.process_id().split(".")
    assert procfs.is_owner_gone(f"{boot}.{namespace}.{pid}.{int(began) - 1}")
    assert procfs.is_owner_gone(f"another-boot.{namespace}.{pid}.{began}")


def test_what_cannot_be_told_is_left_alone() -> None:
    boot, namespace, pid, began = procfs.process_id().split(".")
    assert not procfs.is_owner_gone(f"{boot}.{int(namespace) + 1}.{pid}.{began}")
    assert not procfs.is_owner_gone("")
    assert not procfs.is_owner_gone("somebody else's label")
    for no_number in ("\u00b2", "9" * 5000, ""):
        assert not procfs.is_owner_gone(f"{boot}.{namespace}.{no_number}.{began}")
        assert not procfs.is_orphan(f"mysql-recovery-{boot}.{namespace}.{no_number}.{began}-1")


def test_a_zombie_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", PRINT_MARK], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    mark = child.stdout.read().strip()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert procfs.is_owner_gone(mark)
    child.wait()
    child.stdout.close()


def test_a_name_tells_whether_its_owner_lives() -> None:
    own = procfs.name_with_process_id(1)
    assert procfs.name_with_process_id(2) != own
    assert not procfs.is_orphan(own)
    assert procfs.is_orphan(own.rpartition("-")[0] + "0-1"), "another process had this id before"
    for other in ("docker", "mysql-recovery", f"x{own}", f"{own}x"):
        assert not procfs.is_orphan(other)
