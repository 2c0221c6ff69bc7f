"""How much of a folder is in the page cache, and how does it get out of it?"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError, TrialVoidError
from recovery.host import tree
from recovery.host.dropping import Caches, Dropper, cold_means
from recovery.host.residency import Probe
from recovery.host.storage import IN_MEMORY, device_of
from recovery.host.tablefiles import TableFiles
from recovery.measured import ColdProof

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
    return _residency(tree.files(folder), filesystem=device_of(folder).filesystem)


def _residency(found: Iterable[tuple[int, str]], *, filesystem: str | None) -> Residency:
    # Through an overlay cachestat always says 0, while mincore is asked of the file below.
    probe = Probe(cachestat=filesystem != "overlay")
    resident, total, files, some, unknown = 0, 0, 0, 0, filesystem in _CACHED_ELSEWHERE
    for folder_fd, name in found:
        try:
            with tree.opened(folder_fd, name) as fd:
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
        yield from ((fd, name) for fd, name in tree.files(folder) if tables.holds(name))


def _dictionary(data: Path) -> Iterator[tuple[int, str]]:
    return ((fd, name) for fd, name in tree.files(data) if _DICTIONARY.fullmatch(name))


def _evict(folder: Path) -> None:
    kept = 0
    for folder_fd, name in tree.files(folder):
        try:
            with tree.opened(folder_fd, name) as fd:
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
