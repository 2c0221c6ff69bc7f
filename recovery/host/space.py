"""Does the disk hold what is going to be built: enough bytes, and enough inodes?"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host.storage import nearest
from recovery.model import Flavor, Layout, Schema, Version
from recovery.versions import can

_KIB = 1024
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


def need_for(version: Version, schema: Schema) -> Need:
    """As measured on ext4; rows are counted generously, for pages are never full, and a table's first page holds
    some."""
    tables, beside = schema.total_tables, _beside(version, schema.layout)
    row_bytes = 30 + 35 * schema.columns + schema.more_row_bytes
    rows_bytes = max(0, 2 * schema.rows * row_bytes - 8192)
    if schema.layout is Layout.GENERAL:
        in_files = tables * _shared_bytes(version)
    else:
        in_files = schema.files * _file_bytes(version)
    return Need(
        _BASE_BYTES + in_files + tables * (sum(beside) + rows_bytes),
        _BASE_INODES + schema.files + tables * len(beside),
    )


def _file_bytes(version: Version) -> int:
    """On the disk, which is not always the file's length: 8.0.15 leaves holes in it, and 8.0.31 does not; of those in
    between it is taken that they do not."""
    if version.flavor is Flavor.MARIADB:
        return (64 if version.numbers >= (10, 4, 0) else 96) * _KIB
    if version.numbers < (8, 0, 0):
        return 96 * _KIB
    return (80 if version.numbers <= (8, 0, 15) else 112) * _KIB


def _shared_bytes(version: Version) -> int:
    """Of a table in a file that holds all: its page and what the file keeps of it, from 8.0 on its definition too."""
    return (17 if version.numbers < (8, 0, 0) else 20) * _KIB


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


def check_space(folder: Path, need: Need) -> None:
    room = free(folder)
    if not need.fits(room):
        raise HostUnfitError(f"{folder} needs {need} and has {room} free", HINT)
