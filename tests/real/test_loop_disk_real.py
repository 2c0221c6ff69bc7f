"""A disk in a file: nothing is written to the host's own disk under its mount point, and no other process uses it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from failing import Disk, small_disk
from sessions import need_disks

from recovery.errors import HostUnfitError, TrialVoidError
from recovery.linux import loop_device
from recovery.linux.loop_device import LoopDisk, loop_disk, unmount

pytestmark = pytest.mark.real
SIZE = 16 << 20


@pytest.fixture(autouse=True)
def disks() -> None:
    need_disks()


@pytest.mark.parametrize("use", [LoopDisk.fill, LoopDisk.lose_power, LoopDisk.replug])
def test_a_disk_that_is_not_mounted_is_not_touched(
    use: Callable[[LoopDisk], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loop_disk(tmp_path / "disk", size_bytes=SIZE) as disk:
        unmount(tmp_path / "disk")
        monkeypatch.setattr(fcntl, "ioctl", lambda *_: pytest.fail("the host's own disk would lose its power"))
        with pytest.raises(TrialVoidError, match=r"disk\.image is not mounted at"):
            use(disk)
        assert list((tmp_path / "disk").iterdir()) == []


@pytest.mark.parametrize("fault", [Disk.full, Disk.without_inodes, Disk.read_only, Disk.dead])
def test_no_test_harms_the_disk_under_a_mount_point(
    fault: Callable[[Disk], AbstractContextManager[None]], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", SIZE) as disk:
        unmount(tmp_path / "disk")
        with pytest.raises(TrialVoidError, match="is not mounted"), fault(disk):
            pass
        assert list((tmp_path / "disk").iterdir()) == []


def test_another_disk_at_the_same_place_is_not_taken_for_it(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk", size_bytes=SIZE), loop_disk(tmp_path / "other", size_bytes=SIZE):
        wrong = LoopDisk(loop_device.image_path(tmp_path / "other"), tmp_path / "disk")
        with pytest.raises(TrialVoidError, match="is not mounted"):
            wrong.fill()


def test_a_process_that_keeps_a_disk_busy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container that is being created does, and a process with an open file."""
    monkeypatch.setattr(loop_device, "_BUSY_S", 0.0)
    with loop_disk(tmp_path / "disk", size_bytes=SIZE, for_containers=True) as disk:
        holds = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo held; read _"]
        with subprocess.Popen(holds, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            with pytest.raises(TrialVoidError, match=rf"still in use by .*\(pid {holder.pid}\)"):
                disk.replug()
            holder.communicate(b"\n")
        monkeypatch.undo()
        disk.mount()
        monkeypatch.setattr(loop_device, "_BUSY_S", 0.0)
        with (tmp_path / "disk" / "file").open("w"), pytest.raises(HostUnfitError, match=rf"pid {os.getpid()}\)"):
            unmount(tmp_path / "disk")
        monkeypatch.undo()


def test_a_disk_without_containers_is_visible_to_this_process_alone(tmp_path: Path) -> None:
    """So that no container can hold it; and afterwards this process is back where it was."""
    namespace, folder = Path("/proc/self/ns/mnt").readlink(), Path.cwd()
    host = f"/proc/{os.getppid()}/mountinfo"
    with loop_disk(tmp_path / "disk", size_bytes=SIZE):
        assert os.path.ismount(tmp_path / "disk")
        sees = [sys.executable, "-c", f"import os; print(os.path.ismount({str(tmp_path / 'disk')!r}))"]
        assert subprocess.run(sees, capture_output=True, text=True, check=True).stdout == "True\n"
        assert str(tmp_path) not in Path(host).read_text(encoding="utf-8")
    assert (Path("/proc/self/ns/mnt").readlink(), Path.cwd()) == (namespace, folder)


def test_without_the_right_to_a_namespace_there_is_no_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Refuses:
        def unshare(self, _: int) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Refuses())
    with (
        pytest.raises(HostUnfitError, match="no mount namespace can be created"),
        loop_disk(tmp_path / "d", size_bytes=SIZE),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
