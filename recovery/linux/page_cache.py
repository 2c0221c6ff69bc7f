"""How much of a folder is in the page cache, and how does it get out of it?"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import docker
import requests
from docker.errors import DockerException
from docker.models.containers import Container

from recovery.errors import HostUnfitError, TrialVoidError
from recovery.linux import docker_engine
from recovery.linux import files as tree_files
from recovery.linux.files import TableFiles, mark
from recovery.linux.privileges import RootStep, is_refused
from recovery.linux.signals import held_back
from recovery.linux.storage import _BYTES, IN_MEMORY, device_of
from recovery.model import ColdProof

# Who may drop the whole host's caches, and by which means?

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class Caches(Enum):
    """As the kernel numbers them."""

    PAGES = "1"
    EVERYTHING = "3"
    """Inodes and names as well."""


class Dropper(Protocol):
    @property
    def means(self) -> str:
        """For the results: `drop_caches`, and in brackets through whom where it is not this process itself."""
        ...

    def drop(self, caches: Caches) -> bool:
        """False where it cannot be done after all."""
        ...


class OwnDropper:
    """This process writes the kernel's file, as root may."""

    means = "drop_caches"

    def drop(self, caches: Caches) -> bool:
        try:
            DROP_CACHES.write_text(caches.value)
        except OSError:  # no root, a container's read-only /proc, a security module
            return False
        return True


def own_dropper() -> OwnDropper | None:
    if is_refused(RootStep.DROP_CACHES):
        return None
    return OwnDropper() if os.access(DROP_CACHES, os.W_OK) else None


def cold_means(dropper: Dropper | None) -> str:
    """Without anybody who may drop, files are evicted one by one."""
    return dropper.means if dropper else "fadvise"


# How many bytes of one open file are in the page cache? Asked of the kernel, without touching the file's pages.

_CACHESTAT = 451
"""The same number on every architecture (Linux 6.5 and later)."""
_WINDOW_BYTES = 256 * 1024 * 1024
_LOWEST_BIT = bytes(value & 1 for value in range(256))
"""The only bit of a page's answer that mincore defines."""
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


class _Range(ctypes.Structure):
    _fields_ = (("off", ctypes.c_uint64), ("len", ctypes.c_uint64))


class _Stat(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently"))


class Probe:
    """Asks file after file by the best means that works here: `cachestat`, or else `mincore`."""

    def __init__(self, *, cachestat: bool = True) -> None:
        self.means = "cachestat" if cachestat else "mincore"
        self._whole = _Range(0, 0)  # length 0: to the end
        self._stat = _Stat()
        self._arguments = (ctypes.byref(self._whole), ctypes.byref(self._stat), ctypes.c_uint(0))

    def resident_bytes(self, fd: int, status: os.stat_result) -> int | None:
        """None where the kernel does not tell: that is unknown, and not cold."""
        if status.st_size == 0:
            return 0
        if self.means == "cachestat":
            if _libc.syscall(_CACHESTAT, fd, *self._arguments) == 0:
                return int(self._stat.cache) * mmap.PAGESIZE
            if ctypes.get_errno() != errno.EPERM:  # an old kernel; EPERM may be about this one file
                self.means = "mincore"
        return _by_mincore(fd, status)


def _by_mincore(fd: int, status: os.stat_result) -> int | None:
    """To those who could not write the file, mincore says of every page that it is resident: so they are not told."""
    if os.geteuid() not in (0, status.st_uid) and not os.access(f"/proc/self/fd/{fd}", os.W_OK):
        return None
    pages = 0
    for offset in range(0, status.st_size, _WINDOW_BYTES):
        found = _window(fd, offset, min(_WINDOW_BYTES, status.st_size - offset))
        if found is None:
            return None
        pages += found
    return pages * mmap.PAGESIZE


def _window(fd: int, offset: int, length: int) -> int | None:
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


_CACHED_ELSEWHERE = frozenset({"zfs"})
"""They keep a cache of their own, which no means here can see."""
_TOLERATED_SHARE = 0.05
_TOLERATED_BYTES = 16 * 1024 * 1024
_SHARE_OF_A_DICTIONARY = 0.01
_BYTES_OF_A_DICTIONARY = 1024 * 1024
"""A server that has nothing to do may still write a page of it now and then."""
_DICTIONARY = re.compile(
    r"mysql\.ibd|ibdata\d+|undo_?\d+|.*\.ibu|innodb_(?:table|index)_stats\.ibd|.*\.(?:frm|par)|db\.opt"
)
"""Files, wherever they lie, in which a server keeps what it knows of its tables, and older versions of that. 8.0 has
`mysql.ibd`; those before it, and MariaDB, a file for each table beside it."""


@dataclass(frozen=True)
class Residency:
    resident_bytes: int | None
    """None where the host does not tell of every file: unknown is not cold."""
    total_bytes: int
    files: int
    resident_files: int
    """Of which any page is in the cache, as far as the host tells."""
    means: str
    """`cachestat` or `mincore`."""


def residency(folder: Path) -> Residency:
    """Looks at every file below; this opens them, and so warms their inodes."""
    return _residency(tree_files.files(folder), filesystem=device_of(folder).filesystem)


def _residency(found: Iterable[tuple[int, str]], *, filesystem: str | None) -> Residency:
    # Through an overlay cachestat always says 0, while mincore is asked of the file below.
    probe = Probe(cachestat=filesystem != "overlay")
    resident, total, files, some, unknown = 0, 0, 0, 0, filesystem in _CACHED_ELSEWHERE
    for folder_fd, name in found:
        try:
            with tree_files.opened(folder_fd, name) as fd:
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


def resident_share(data: Path, tables: TableFiles) -> float | None:
    """The share of the tables' files of which any page is in the cache; None where the host does not tell. No page is
    touched."""
    found = _residency(_tables(tables), filesystem=device_of(data).filesystem)
    return found.resident_files / found.files if found.files and found.resident_bytes is not None else None


def flush_caches(folder: Path, dropper: Dropper | None) -> str:
    """Empty the cache without proof, which would open every file: under a server that runs, as was published. Says by
    which means."""
    return _empty(folder, dropper, Caches.EVERYTHING)


def _empty(folder: Path, dropper: Dropper | None, caches: Caches) -> str:
    os.sync()  # dirty pages survive a drop
    if dropper is not None and dropper.drop(caches):
        return dropper.means
    _evict(folder)
    return cold_means(None)


def check_can_be_cold(folder: Path) -> None:
    """Before anything is built there; what is on the disk can be cold."""
    filesystem = device_of(folder).filesystem
    if filesystem in IN_MEMORY:
        raise HostUnfitError(
            f"{folder} lies in memory ({filesystem}) and cannot be made cold", "give DATA= a folder on a disk"
        )


def make_cold(folder: Path, dropper: Dropper | None) -> ColdProof:
    """Put the folder out of the page cache, and prove it. Whoever writes there must have ended before."""
    started = time.monotonic()
    filesystem = device_of(folder).filesystem
    check_can_be_cold(folder)
    # Pages alone at first: the proof opens every file, and takes half the time over inodes that are still there.
    means = _empty(folder, dropper, Caches.PAGES)
    left = residency(folder)
    _demand_cold(folder, left)
    if dropper is not None and means == dropper.means:
        dropper.drop(Caches.EVERYTHING)
        _demand_cold(folder, _residency(_outside_databases(folder), filesystem=filesystem))
    return ColdProof(means=means, resident_bytes=left.resident_bytes, seconds=time.monotonic() - started)


def make_tables_cold(data: Path, tables: TableFiles, dropper: Dropper | None) -> ColdProof:
    """The same under a server that runs and has nothing to do, of its tables and its dictionary, each by itself: among
    very many tables a warm dictionary is next to nothing. Its redo log is its own, and may be written at any time."""
    started = time.monotonic()
    filesystem = device_of(data).filesystem
    means = _empty(data, dropper, Caches.PAGES)
    of_tables = _residency(_tables(tables), filesystem=filesystem)
    _demand_cold(data, of_tables)
    dictionary = _residency(_dictionary(data), filesystem=filesystem)
    tolerated = max(_BYTES_OF_A_DICTIONARY, _SHARE_OF_A_DICTIONARY * dictionary.total_bytes)
    _demand_cold(data, dictionary, what="the dictionary in ", tolerated=tolerated)
    if dropper is not None and means == dropper.means:
        dropper.drop(Caches.EVERYTHING)
    left = (of_tables.resident_bytes, dictionary.resident_bytes)
    resident = None if None in left else sum(filter(None, left))
    return ColdProof(means=means, resident_bytes=resident, seconds=time.monotonic() - started)


def _tables(tables: TableFiles) -> Iterator[tuple[int, str]]:
    for folder in tables.folders:
        yield from ((fd, name) for fd, name in tree_files.files(folder) if tables.holds(name))


def _dictionary(data: Path) -> Iterator[tuple[int, str]]:
    return ((fd, name) for fd, name in tree_files.files(data) if _DICTIONARY.fullmatch(name))


def _evict(folder: Path) -> None:
    kept = 0
    for folder_fd, name in tree_files.files(folder):
        try:
            with tree_files.opened(folder_fd, name) as fd:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        except FileNotFoundError:
            continue
        except OSError:
            kept += 1
    if kept:
        raise HostUnfitError(
            f"{kept:,} files of {folder} cannot be opened, so they stay in the page cache",
            "run as root, or as the owner of these files",
        )


def _outside_databases(folder: Path) -> Iterator[tuple[int, str]]:
    """The server's own few files (log, system tablespace): a last look that does not open the tables again."""
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(folder_fd) as entries:
            names = (e.name for e in entries if e.is_file(follow_symlinks=False) and not e.name.endswith(".ibd"))
            yield from ((folder_fd, name) for name in names)
    finally:
        os.close(folder_fd)


def _demand_cold(folder: Path, left: Residency, *, what: str = "", tolerated: float | None = None) -> None:
    if tolerated is None:
        tolerated = max(_TOLERATED_BYTES, _TOLERATED_SHARE * left.total_bytes)
    resident = left.resident_bytes
    if resident is None or resident <= tolerated:
        return
    raise TrialVoidError(
        f"{resident:,} of {left.total_bytes:,} bytes of {what}{folder} stay in the page cache (dirty or locked pages)",
        "end what still writes or maps files there; `recovery doctor` lists servers that run",
    )


# Does this really work here? Tried on a small file of our own, which is gone as soon as it is closed.


def cachestat_works(folder: Path) -> bool | None:
    """A file just written is in the cache. False where cachestat says otherwise (an overlay); None where the call is
    not there, or no file can be made to ask it of."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_BYTES))
            file.flush()
            probe = Probe()
            resident = probe.resident_bytes(file.fileno(), os.fstat(file.fileno()))
    except OSError:
        return None
    return resident == _BYTES if probe.means == "cachestat" else None


# How does a user who is not root, but may use the engine, drop the host's caches? Through a short container.

_LIMIT_S = 300
_INSIDE = "/drop_caches"
_SCRIPT = 'echo "$1" > "$2"'
# Root in a container may write the one file, where it is mounted. A host that forbids even that may allow it to a
# privileged one.
_WAYS: tuple[dict[str, Any], ...] = (
    {"volumes": {str(DROP_CACHES): {"bind": _INSIDE, "mode": "rw"}}, "security_opt": ["apparmor=unconfined"]},
    {"privileged": True},
)


class EngineDropper:
    """For some tenths of a second, of an image that is here already."""

    means = "drop_caches (by a container)"

    def __init__(self, client: docker.DockerClient, image: str) -> None:
        self._client = client
        self._image = image

    def drop(self, caches: Caches) -> bool:
        return not is_refused(RootStep.DROP_CACHES) and any(self._drop(caches, way) for way in _WAYS)

    def _drop(self, caches: Caches, way: dict[str, Any]) -> bool:
        target = DROP_CACHES if "privileged" in way else _INSIDE
        with suppress(DockerException, requests.RequestException), ExitStack() as undo:
            with held_back():  # Ctrl-C while the engine makes it would leave it there
                container = self._client.containers.create(
                    self._image,
                    entrypoint=["/bin/sh", "-c", _SCRIPT, "drop", caches.value, str(target)],
                    command=[],
                    user="0:0",
                    network_mode="none",
                    labels={docker_engine.MADE: "drop", docker_engine.OWNER: mark()},
                    **way,
                )
                undo.callback(_remove, container)
            container.start()
            return int(container.wait(timeout=_LIMIT_S)["StatusCode"]) == 0
        return False


def _remove(container: Container) -> None:
    with suppress(DockerException, requests.RequestException):
        container.remove(v=True, force=True)
