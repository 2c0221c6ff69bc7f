"""Mounts a temporary filesystem from a file, so that its power can be cut or its space used up without harm to the
host.

Before anything is written to it or its power is cut, its device number must show that it is mounted: otherwise the
host's own filesystem would be at the mount point."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from recovery.errors import HostUnfitError, RecoveryError, TrialVoidError
from recovery.linux import cleanup
from recovery.linux.files import open_descriptor
from recovery.linux.packages import install_advice
from recovery.linux.privileges import REFUSED_TEXT, RootStep, is_refused
from recovery.linux.procfs import read_text
from recovery.linux.signals import defer_signals

# --- The disk

_SHUTDOWN = 0x8004587D
"""The ioctl EXT4_IOC_SHUTDOWN."""
_NO_LOG_FLUSH = 2
"""The flag EXT4_GOING_FLAGS_NOLOGFLUSH: data that was not synced is lost, as after a power loss."""
_PROGRAMS = {"mkfs.ext4": "e2fsprogs", "mount": "mount", "umount": "mount"}
"""Programs and their packages."""
_BUSY_S = 60.0
_RETRY_S = 0.05
_KEPT_FREE = 64 << 10
_LEAVE_OUT = "root and loop devices are needed; without them leave power-loss and full-disk out of --question"
_CLONE_FS, _CLONE_NEWNS = 0x200, 0x20000
_MS_REC, _MS_SLAVE = 0x4000, 0x80000


class LoopDisk:
    """An ext4 filesystem in the file `image`, mounted at `place`."""

    def __init__(self, image: Path, place: Path) -> None:
        self._image = image
        self._place = place

    def mount(self) -> None:
        self._place.mkdir(exist_ok=True)
        _run("mount", "-o", "loop,noatime", str(self._image), str(self._place))
        self.check_mounted()

    def check_mounted(self) -> None:
        with self.opened():
            pass

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Yields a descriptor of the root folder. Raises TrialVoidError if the image is not mounted there."""
        with open_descriptor(self._place, os.O_RDONLY | os.O_DIRECTORY) as folder:
            if _image_behind(os.fstat(folder).st_dev) != self._image.resolve():
                raise TrialVoidError(
                    f"{self._image.name} is not mounted at {self._place}, which is on the host's own disk"
                )
            yield folder

    def lose_power(self) -> None:
        """Shuts the filesystem down: nothing is written to it any more, and data that was not synced is lost."""
        with self.opened() as folder:
            try:
                fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
            except OSError as error:
                raise HostUnfitError(
                    f"the power of a filesystem cannot be cut here: {error.strerror}",
                    "the kernel must be 4.11 or later; leave power-loss out of --question",
                ) from error

    def replug(self) -> None:
        """Unmounts the disk and mounts it again, which replays the journal.

        While anything holds the old mount, a new one would show the same filesystem, which is shut down. A container
        that is being created may hold it for a moment."""
        self.check_mounted()
        device = self._place.stat().st_dev
        unmount(self._place)
        until_s = time.monotonic() + _BUSY_S
        while _image_behind(device) == self._image.resolve():
            if time.monotonic() > until_s:
                raise TrialVoidError(f"{self._image.name} is unmounted, but still in use by {_holders(device)}")
            time.sleep(_RETRY_S)
        self.mount()

    def fill(self) -> Path:
        """Fills the disk with one file until hardly any space is left, and returns the file. Removing it frees the
        space again."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with self.opened() as folder, open_descriptor("filler", flags, dir_fd=folder) as file:
            os.posix_fallocate(file, 0, max(1, shutil.disk_usage(folder).free - _KEPT_FREE))
        return self._place / "filler"


@contextmanager
def loop_disk(place: Path, *, size_bytes: int, for_containers: bool = False) -> Iterator[LoopDisk]:
    """Yields a mounted disk, with its image file next to `place`. Other processes see it only if it is made for
    containers."""
    _require_mount_right(
        f"nothing may be mounted at {place}",
        "leave power-loss and full-disk out of --question, or leave out --unprivileged",
    )
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            raise HostUnfitError(f"{program} is missing", install_advice(package))
    image = image_path(place)
    with nullcontext() if for_containers else private_mount_namespace():
        try:
            with image.open("wb") as file:
                file.truncate(size_bytes)
            _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
            disk = LoopDisk(image, place)
            disk.mount()
            yield disk
        finally:
            remove_loop_disk(place)


@contextmanager
def private_mount_namespace() -> Iterator[None]:
    """Gives this thread, and the processes that it starts, a mount namespace for the length of the block.

    A container that is created during that time cannot hold what they mount, and it is unmounted when they end, however
    they end."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder, before = (os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in (".", "/proc/thread-self/ns/mnt"))
    try:
        if libc.unshare(_CLONE_NEWNS) != 0:
            raise HostUnfitError(f"no mount namespace can be created: {os.strerror(ctypes.get_errno())}", _LEAVE_OUT)
        # As a slave, the namespace follows unmounts on a host with shared mounts, and none of its own mounts reach the
        # host.
        slave = ctypes.c_ulong(_MS_REC | _MS_SLAVE)
        try:
            if libc.mount(b"none", b"/", None, slave, None) != 0:
                raise HostUnfitError("a new mount namespace cannot be separated from the host", _LEAVE_OUT)
            yield
        finally:
            libc.unshare(_CLONE_FS)  # setns fails while threads that were started inside share the filesystem state
            if libc.setns(before, _CLONE_NEWNS) != 0:
                raise HostUnfitError(
                    f"this process cannot leave its mounts: {os.strerror(ctypes.get_errno())}", _LEAVE_OUT
                )
            os.fchdir(folder)
    finally:
        os.close(folder)
        os.close(before)


def _image_behind(device: int) -> Path | None:
    """Returns the file behind a loop device, or None if this is no loop device or has no file."""
    name = read_text(Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/loop/backing_file"))
    return Path(name) if name else None


def _holders(device: int) -> str:
    """Returns which processes have a file open on this device, or see it mounted in a mount namespace other than
    ours."""
    holders = {}
    own, number = Path("/proc/self/ns/mnt").readlink(), f" {os.major(device)}:{os.minor(device)} "
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has just ended
            namespace = (process / "ns" / "mnt").readlink()
            mounts = (process / "mountinfo").read_text(encoding="utf-8", errors="replace")
            if _has_open(process, device) or (namespace != own and number in mounts and namespace not in holders):
                holders[namespace] = f"{(process / 'comm').read_text().strip()} (pid {process.name})"
    return ", ".join(holders.values()) or "a process that is not visible from here"


def _has_open(process: Path, device: int) -> bool:
    for path in (process / "cwd", process / "root", *(process / "fd").iterdir()):
        with suppress(OSError):
            if path.stat().st_dev == device:
                return True
    return False


def attached_images() -> Iterator[Path]:
    """Yields the image files that are attached to loop devices now. A loop device is released with its last mount."""
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        if name := read_text(file):  # otherwise the device has just been released
            yield Path(name)


def image_path(place: Path) -> Path:
    return place.with_name(f"{place.name}.image")


def remove_loop_disk(place: Path) -> None:
    """Unmounts the disk if necessary, and removes its image file and mount point. It also works on the remains of a
    killed run."""
    if os.path.ismount(place):
        _require_mount_right(
            f"{place} is mounted, and may not be unmounted", f"leave out --unprivileged once, or `umount {place}`"
        )
        unmount(place)
    if place.is_dir():
        place.rmdir()
    image_path(place).unlink(missing_ok=True)


def _require_mount_right(what: str, hint: str) -> None:
    if is_refused(RootStep.MOUNT):
        raise HostUnfitError(f"{what}: {REFUSED_TEXT}", hint)


def unmount(place: Path) -> None:
    """Unmounts the disk, and retries until killed processes with open files there have ended."""
    until_s = time.monotonic() + _BUSY_S
    while True:
        try:
            return _run("umount", str(place))
        except HostUnfitError as error:
            if not os.path.ismount(place):
                raise
            if time.monotonic() > until_s:
                holders = _holders(place.stat().st_dev)
                raise HostUnfitError(
                    f"{error.message} (in use by {holders})", f"end these processes, then `umount {place}`"
                ) from error
            time.sleep(_RETRY_S)


def _run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        reason = " ".join(ran.stderr.split()) or f"code {ran.returncode}"
        raise HostUnfitError(f"{command[0]} failed: {reason[:200]}", _LEAVE_OUT)


# --- Support on this host
#
# Whether this host allows such a disk, and a power cut on it, is tried once with a small disk when it is first needed.
# No file shows that root may mount: a container may lack the right, and a kernel the ioctl.

_PROBE_BYTES = 8 << 20


def why_no_loop_disk() -> str | None:
    """Returns why no loop disk can be made, or None if it can."""
    return _why_not_allowed() or _probe().disk


def why_no_power_cut() -> str | None:
    """Returns why no loop disk can be made that loses its power, or None if it can."""
    return _why_not_allowed() or _probe().disk or _probe().power


def _why_not_allowed() -> str | None:
    """Returns why mounting is not even tried: because the user refused the step, or because this is not root."""
    if is_refused(RootStep.MOUNT):
        return REFUSED_TEXT
    return None if os.geteuid() == 0 else "only root may mount"


@dataclass(frozen=True)
class _ProbeResult:
    """Result of the trial: what failed, as text."""

    disk: str | None = None
    power: str | None = None


@cache
def _probe() -> _ProbeResult:
    """Tries to make a small disk and to cut its power, and returns what failed.

    Signals are deferred until everything is cleaned up, which takes less than a second."""
    with defer_signals():
        try:
            folder = cleanup.make_temp_folder()
        except OSError as error:
            return _ProbeResult(f"no temporary folder can be made: {error.strerror}")
        place = folder / "tried"
        try:
            with loop_disk(place, size_bytes=_PROBE_BYTES) as disk:
                try:
                    disk.lose_power()
                except RecoveryError as error:
                    return _ProbeResult(power=error.message)
            return _ProbeResult()
        except (RecoveryError, OSError) as error:
            text = error.message if isinstance(error, RecoveryError) else str(error)
            return _ProbeResult(text.replace(f"{folder}/", ""))
        finally:
            if not os.path.ismount(place):
                cleanup.remove_temp_folder(folder)
