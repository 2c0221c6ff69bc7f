"""Measures how much of a folder is in the page cache, removes it from the page cache, and proves that it is cold."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Protocol

from recovery.errors import HostUnfitError, TrialVoidError
from recovery.linux import files as tree_files
from recovery.linux.privileges import RootStep, is_refused
from recovery.linux.storage import IN_MEMORY, device_of
from recovery.model import ColdProof

# --- Dropping the host's caches

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class CacheKind(Enum):
    """What to drop, with the numbers that the kernel uses."""

    PAGES = "1"
    EVERYTHING = "3"
    """Page cache, inodes and directory entries."""


class CacheDropper(Protocol):
    """Drops the caches of the whole host."""

    @property
    def means(self) -> str:
        """The method for the results: `drop_caches`, with the helper in brackets unless this process does it itself."""
        ...

    def drop(self, caches: CacheKind) -> bool:
        """Drops the caches. Returns False if that fails here."""
        ...


class DirectCacheDropper:
    """Drops the caches by writing to the kernel's file from this process, which only root may do."""

    means = "drop_caches"

    def drop(self, caches: CacheKind) -> bool:
        try:
            DROP_CACHES.write_text(caches.value)
        except OSError:  # not root, read-only /proc in a container, or a security module
            return False
        return True


def direct_cache_dropper() -> DirectCacheDropper | None:
    """Returns a dropper if this process itself may drop the caches, else None."""
    if is_refused(RootStep.DROP_CACHES):
        return None
    return DirectCacheDropper() if os.access(DROP_CACHES, os.W_OK) else None


def cold_method(dropper: CacheDropper | None) -> str:
    """Returns how caches are emptied: by the dropper, or without one by evicting files one by one."""
    return dropper.means if dropper else "fadvise"


# --- Residency of files
#
# The kernel reports what is resident. The file's pages are not touched.

_CACHESTAT = 451
"""System call number, the same on every architecture (Linux 6.5 and later)."""
_WINDOW_BYTES = 256 * 1024 * 1024
_LOWEST_BIT = bytes(value & 1 for value in range(256))
"""Translates a result of mincore, of which only the lowest bit is defined for each page."""
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t),  # address and length
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int),  # protection, flags and descriptor
    ctypes.c_int64,  # offset
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


class ResidencyProbe:
    """Measures files by the best method that works here: `cachestat`, or else `mincore`."""

    def __init__(self, *, cachestat: bool = True) -> None:
        self.means = "cachestat" if cachestat else "mincore"
        whole = (ctypes.c_uint64 * 2)(0, 0)  # offset and length; length 0 means to the end of the file
        self._pages = (ctypes.c_uint64 * 5)()  # cached, dirty, under writeback, evicted, recently evicted
        self._arguments = (whole, self._pages, ctypes.c_uint(0))

    def resident_bytes(self, fd: int, status: os.stat_result) -> int | None:
        """Returns the file's bytes in the page cache, or None if the kernel does not report them: unknown is not
        cold."""
        if status.st_size == 0:
            return 0
        if self.means == "cachestat":
            if _libc.syscall(_CACHESTAT, fd, *self._arguments) == 0:
                return self._pages[0] * mmap.PAGESIZE
            if ctypes.get_errno() != errno.EPERM:  # an old kernel; EPERM may concern only this file
                self.means = "mincore"
        return _by_mincore(fd, status)


def _by_mincore(fd: int, status: os.stat_result) -> int | None:
    """Returns the file's resident bytes, or None if they cannot be determined. A user who may not write to the file
    gets None, since mincore then reports every page as resident."""
    if os.geteuid() not in (0, status.st_uid) and not os.access(f"/proc/self/fd/{fd}", os.W_OK):
        return None
    pages = 0
    for offset in range(0, status.st_size, _WINDOW_BYTES):
        resident = _resident_pages(fd, offset, min(_WINDOW_BYTES, status.st_size - offset))
        if resident is None:
            return None
        pages += resident
    return pages * mmap.PAGESIZE


def _resident_pages(fd: int, offset: int, length: int) -> int | None:
    address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
    if address == _FAILED:
        return None
    try:
        vector = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
        if _libc.mincore(address, length, vector) != 0:
            return None
        return vector.raw.translate(_LOWEST_BIT).count(1)
    finally:
        _libc.munmap(address, length)


# --- Cold folders

_CACHED_ELSEWHERE = frozenset({"zfs"})
"""Filesystems with their own cache, which neither method can see."""
_TOLERATED_SHARE = 0.05
_TOLERATED_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Residency:
    """How much of a set of files is in the page cache."""

    resident_bytes: int | None
    """None if any file could not be measured: unknown is not cold."""
    total_bytes: int
    files: int
    resident_files: int
    """Number of files with at least one page in the cache, as far as known."""
    means: str
    """`cachestat` or `mincore`."""


def measure_residency(folder: Path) -> Residency:
    """Measures every file below the folder. This opens the files, and so brings their inodes into memory."""
    return measure_files(folder, tree_files.walk_files(folder))


def measure_files(folder: Path, files_below: Iterable[tuple[int, str]]) -> Residency:
    """Measures these files below the folder, each given by the descriptor of its own folder and its name."""
    filesystem = device_of(folder).filesystem
    # On an overlay cachestat always reports 0, while mincore reports on the file in the layer below.
    probe = ResidencyProbe(cachestat=filesystem != "overlay")
    resident, total, files, some, unknown = 0, 0, 0, 0, filesystem in _CACHED_ELSEWHERE
    for folder_fd, name in files_below:
        try:
            with tree_files.open_for_reading(folder_fd, name) as fd:
                status = os.fstat(fd)
                cached = probe.resident_bytes(fd, status)
        except FileNotFoundError:
            continue
        except PermissionError:
            status, cached = os.stat(name, dir_fd=folder_fd, follow_symlinks=False), None
        files += 1
        total += status.st_size
        if cached is None:
            unknown = True
        else:
            resident += cached
            some += cached > 0
    return Residency(None if unknown else resident, total, files, some, probe.means)


def flush_caches(folder: Path, dropper: CacheDropper | None) -> str:
    """Empties the page cache without proof, and returns the method that was used.

    The proof would open every file. This function is for a server that runs, as in the published experiments."""
    return drop_or_evict(folder, dropper, CacheKind.EVERYTHING)


def drop_or_evict(folder: Path, dropper: CacheDropper | None, caches: CacheKind) -> str:
    """Writes dirty pages and drops the host's caches or, if that fails, evicts the folder's files one by one. Returns
    the method that was used."""
    os.sync()  # dirty pages survive a drop
    if dropper is not None and dropper.drop(caches):
        return dropper.means
    _evict(folder)
    return cold_method(None)


def check_can_be_cold(folder: Path) -> None:
    """Raises HostUnfitError if the folder is in memory, where files cannot be cold. Called before anything is built
    there."""
    filesystem = device_of(folder).filesystem
    if filesystem in IN_MEMORY:
        raise HostUnfitError(
            f"{folder} is in memory ({filesystem}) and cannot be made cold", "name a folder on a disk in --data"
        )


def make_cold(folder: Path, dropper: CacheDropper | None) -> ColdProof:
    """Removes the folder from the page cache, and proves it. Every process that writes there must have ended before."""
    started = time.monotonic()
    check_can_be_cold(folder)
    # Only the page cache is dropped first: the proof opens every file, and takes half the time while the inodes are
    # still in memory.
    means = drop_or_evict(folder, dropper, CacheKind.PAGES)
    return replace(prove_cold(folder, dropper, means), seconds=time.monotonic() - started)


def prove_cold(folder: Path, dropper: CacheDropper | None, means: str) -> ColdProof:
    """Proves that the folder is not in the page cache, which was emptied by these means, and drops what the proof has
    brought there."""
    started = time.monotonic()
    left = measure_residency(folder)
    require_cold(folder, left)
    if dropper is not None and means == dropper.means:
        means = drop_or_evict(folder, dropper, CacheKind.EVERYTHING)
        require_cold(folder, measure_files(folder, _server_files(folder)))
    return ColdProof(means=means, resident_bytes=left.resident_bytes, seconds=time.monotonic() - started)


def _evict(folder: Path) -> None:
    kept = 0
    for folder_fd, name in tree_files.walk_files(folder):
        try:
            with tree_files.open_for_reading(folder_fd, name) as fd:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        except FileNotFoundError:
            continue
        except OSError:
            kept += 1
    if kept:
        raise HostUnfitError(
            f"files of {folder} that cannot be opened stay in the page cache: {kept:,}",
            "run as root, or as the owner of these files",
        )


def _server_files(folder: Path) -> Iterator[tuple[int, str]]:
    """Yields the server's own few files (log, system tablespace), for a last check that does not open the tables
    again."""
    with (
        tree_files.open_descriptor(folder, os.O_RDONLY | os.O_DIRECTORY) as folder_fd,
        os.scandir(folder_fd) as entries,
    ):
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and not entry.name.endswith(".ibd"):
                yield folder_fd, entry.name


def require_cold(folder: Path, left: Residency, *, what: str = "", tolerated: float | None = None) -> None:
    """Raises TrialVoidError if more than `tolerated` bytes are still in the page cache."""
    if tolerated is None:
        tolerated = max(_TOLERATED_BYTES, _TOLERATED_SHARE * left.total_bytes)
    resident = left.resident_bytes
    if resident is None or resident <= tolerated:
        return
    raise TrialVoidError(
        f"{resident:,} of {left.total_bytes:,} bytes of {what}{folder} stay in the page cache (dirty or locked pages)",
        "end the processes that write or map files there; `recovery doctor` lists running servers",
    )


# --- Test of cachestat

_TEST_BYTES = 64 << 10


def cachestat_works(folder: Path) -> bool | None:
    """Returns whether cachestat reports a file that was just written as cached.

    It returns False if cachestat reports otherwise (an overlay), and None if the system call does not exist or no file
    can be created."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_TEST_BYTES))
            file.flush()
            probe = ResidencyProbe()
            resident = probe.resident_bytes(file.fileno(), os.fstat(file.fileno()))
    except OSError:
        return None
    return resident == _TEST_BYTES if probe.means == "cachestat" else None
