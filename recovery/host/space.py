"""Does the disk hold what is going to be built: enough bytes, and enough inodes?"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host.storage import nearest
from recovery.host.tree import allocated_bytes, files
from recovery.model import Flavor, Layout, Schema, Version
from recovery.versions import can

_KIB = 1024
_ON_DISK = 4 * _KIB
"""A file takes whole blocks."""
_PAGE_SIZE, _USUAL_PAGE_BYTES = "innodb_page_size", 16 * _KIB
_NO_SETTINGS: Mapping[str, str] = {}
_SHARED_BYTES = 2 * _KIB
"""Of a table in a file that holds all: what the file keeps of it beside its page."""
_DICTIONARY_BYTES = 3 * _KIB
"""By which the dictionary grows with each table, where it keeps the definitions."""
_BASE_BYTES = 1_500_000_000
"""System tables, undo logs, the names themselves, redo and temporary files while the tables are built, and some air."""
_BASE_INODES = 1000


MOST_OF_THE_ROOM = 0.85
"""A full disk is a slow one, and results and logs have to go somewhere."""
HINT = "ask for fewer tables (TABLES=), remove kept data directories (`recovery datadirs`), or give DATA= another disk"


@dataclass(frozen=True)
class Need:
    """Of a disk; or its room."""

    bytes: int
    inodes: int

    def __add__(self, other: Need) -> Need:
        return Need(self.bytes + other.bytes, self.inodes + other.inodes)

    def __sub__(self, other: Need) -> Need:
        return Need(self.bytes - other.bytes, self.inodes - other.inodes)

    def __str__(self) -> str:
        return f"{self.bytes / 1e9:.1f} GB and {self.inodes:,} inodes"

    def fits(self, room: Need, *, share: float = 1.0) -> bool:
        return self.bytes <= share * room.bytes and self.inodes <= share * room.inodes

    def part(self, done: float) -> Need:
        """What is left where this share is done."""
        return Need(int(self.bytes * (1 - done)), int(self.inodes * (1 - done)))


NOTHING = Need(0, 0)


def need_for(
    version: Version,
    schema: Schema,
    settings: Mapping[str, str] = _NO_SETTINGS,
    *,
    indexes: int = 0,
    block_bytes: int | None = None,
) -> Need:
    """As measured on ext4. `indexes` are those of all tables beside their primary keys, `block_bytes` is the size of
    compressed pages, or 0 where the server chooses it. Rows are counted generously, for pages are never full, and a
    table's first page holds some."""
    tables, page, beside = schema.total_tables, page_bytes(settings), _beside(version, schema.layout)
    row_bytes = 30 + 35 * schema.columns + schema.more_row_bytes
    rows_bytes = max(0, 2 * schema.rows * row_bytes - page // 2)
    if schema.layout is Layout.GENERAL:
        in_files = tables * (page + _SHARED_BYTES)
    else:
        block = page if block_bytes is None else min(page, block_bytes or page // 2)
        in_files = schema.files * _file_bytes(version, page, block, indexes / tables)
    definition_bytes = sum(beside) if beside else _DICTIONARY_BYTES
    return Need(
        _BASE_BYTES + in_files + tables * (definition_bytes + rows_bytes),
        _BASE_INODES + schema.files + tables * len(beside),
    )


def page_bytes(settings: Mapping[str, str]) -> int:
    """Of a server with these settings; whether there are such pages is for the server to say."""
    asked = settings.get(_PAGE_SIZE, settings.get(f"loose_{_PAGE_SIZE}", "")).lower()
    number = asked.removesuffix("k")
    return int(number) * (_KIB if asked.endswith("k") else 1) if number.isdecimal() else _USUAL_PAGE_BYTES


def _file_bytes(version: Version, page: int, block: int, indexes: float) -> int:
    """On the disk, of an empty table with pages of `block` bytes. An index takes one, and a quarter more: a small page
    cannot name all segments of a file with many."""
    pages = _first_pages(version, compressed=block < page, plain=not indexes) + 1.25 * indexes
    least = 0 if can(version, "sparse_files") else 4 * page
    return max(least, math.ceil(pages * block / _ON_DISK) * _ON_DISK)


def _first_pages(version: Version, *, compressed: bool, plain: bool) -> int:
    """8.0.15 leaves holes in a file without indexes, and 8.0.31 does not; of those in between it is taken that they do
    not."""
    if version.flavor is Flavor.MARIADB:
        return 4 if version.numbers >= (10, 4, 0) else 6
    if version.numbers < (8, 0, 0):
        return 4 if compressed else 6
    return 5 if plain and version.numbers <= (8, 0, 15) else 7


def _beside(version: Version, layout: Layout) -> tuple[int, ...]:
    """The sizes of a table's other files, in whole blocks."""
    frm = ((4 if version.flavor is Flavor.MARIADB else 12) * _KIB,) if can(version, "frm_files") else ()
    par = (4 * _KIB,) if layout is Layout.PARTITIONED and can(version, "par_files") else ()
    return frm + par


def free(folder: Path) -> Need:
    """What an ordinary process may still take there; the folder need not exist yet."""
    status = os.statvfs(nearest(folder))
    # btrfs and others make inodes as they go, and say that there are 0 of them.
    return Need(status.f_bavail * status.f_frsize, status.f_favail if status.f_files else sys.maxsize)


def taken_by(folders: Iterable[Path]) -> Need:
    """By what lies in these folders; one that is not there takes nothing."""
    there = [folder for folder in folders if folder.is_dir()]
    return Need(sum(map(allocated_bytes, there)), sum(1 for folder in there for _ in files(folder)))


def check_space(folder: Path, need: Need) -> None:
    room = free(folder)
    if not need.fits(room):
        raise HostUnfitError(f"{folder} needs {need} and has {room} free", HINT)
