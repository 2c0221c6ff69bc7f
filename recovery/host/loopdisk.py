"""How does a filesystem lose its power, or its room, without harm to the host? One in a file, mounted for a while."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recovery.errors import HostUnfitError, TrialVoidError
from recovery.host.rights import is_refused, refusal
from recovery.rootsteps import RootStep

_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN"""
_WITHOUT_LOG = 2
"""EXT4_GOING_FLAGS_NOLOGFLUSH: what was not synced is gone, as after a power loss."""
_PROGRAMS = ("mkfs.ext4", "mount", "umount")
_BUSY_S = 10.0
_RETRY_S = 0.05
_KEPT_FREE = 64 << 10


class LoopDisk:
    """An ext4 in `image`, at `place`."""

    def __init__(self, image: Path, place: Path) -> None:
        self._image = image
        self._place = place

    def mount(self) -> None:
        self._place.mkdir(exist_ok=True)
        _run("mount", "-o", "loop,noatime", str(self._image), str(self._place))

    def lose_power(self) -> None:
        """From here on nothing reaches it any more, and what had not been synced never did."""
        folder = os.open(self._place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if os.fstat(folder).st_dev == self._place.parent.stat().st_dev:
                raise TrialVoidError(f"nothing is mounted at {self._place.name}: the host would lose its power")
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
        except OSError as error:
            raise HostUnfitError(
                f"the power of a filesystem cannot be cut here: {error.strerror}",
                "the kernel must be 4.11 or later; leave power-loss out of QUESTION=",
            ) from error
        finally:
            os.close(folder)

    def replug(self) -> None:
        """Whoever had files open there must be gone; mounting replays the journal. A container that was just being made
        may hold the mount for a moment: until it lets go, another mount would be of the same dead filesystem."""
        unmount(self._place)
        until_s = time.monotonic() + _BUSY_S
        while self._image in attached_images():
            if time.monotonic() > until_s:
                raise TrialVoidError(f"something on this host keeps {self._image.name} for itself, though unmounted")
            time.sleep(_RETRY_S)
        self.mount()

    def fill(self) -> Path:
        """With one file, until hardly anything more can be written; gone, it is as before."""
        filler = self._place / "filler"
        with filler.open("wb") as file:
            room = shutil.disk_usage(self._place).free - _KEPT_FREE
            os.posix_fallocate(file.fileno(), 0, max(1, room))
        return filler


@contextmanager
def loop_disk(place: Path, *, size_bytes: int) -> Iterator[LoopDisk]:
    """Its file lies beside `place`, and goes with it."""
    _demand_right(f"nothing may be mounted at {place}", "leave power-loss and full-disk out of QUESTION=, or allow it")
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            raise HostUnfitError(f"there is no {program}", "apt-get install e2fsprogs mount")
    image = image_of(place)
    try:
        with image.open("wb") as file:
            file.truncate(size_bytes)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
        disk = LoopDisk(image, place)
        disk.mount()
        yield disk
    finally:
        remove(place)


def attached_images() -> Iterator[Path]:
    """Files that are disks just now: each has a loop device, which is given back with the last mount of it."""
    for told in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # it has just been given back
            yield Path(told.read_text(encoding="utf-8").rstrip("\n"))


def image_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.image")


def remove(place: Path) -> None:
    """Also what a killed run has left."""
    if os.path.ismount(place):
        _demand_right(f"{place} is mounted, and may not be unmounted", f"allow it once, or `umount {place}`")
        unmount(place)
    if place.is_dir():
        place.rmdir()
    image_of(place).unlink(missing_ok=True)


def _demand_right(what: str, hint: str) -> None:
    if is_refused(RootStep.MOUNT):
        raise HostUnfitError(f"{what}: {refusal(RootStep.MOUNT)}", hint)


def unmount(place: Path) -> None:
    """A killed process may need a moment to let go of it."""
    until_s = time.monotonic() + _BUSY_S
    while True:
        try:
            return _run("umount", str(place))
        except HostUnfitError:
            if time.monotonic() > until_s:
                raise
            time.sleep(_RETRY_S)


def _run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        told = " ".join(ran.stderr.split()) or f"code {ran.returncode}"
        raise HostUnfitError(
            f"{command[0]} failed: {told[:200]}", "root and loop devices are needed; leave it out of QUESTION= without"
        )
