"""Does the disk hold what is going to be built: enough bytes, and enough inodes?"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host.storage import nearest
from recovery.model import Flavor, Version
from recovery.versions import can

_KIB = 1024
_BASE_BYTES = 1_500_000_000
"""System tables, undo logs, the names themselves, and a redo log of 1 GB while the tables are built."""
_BASE_INODES = 1000


@dataclass(frozen=True)
class Need:
    bytes: int
    inodes: int


def need_for(version: Version, tables: int) -> Need:
    """For empty tables, one file each (two where there are .frm files), as measured on ext4."""
    files = 2 if can(version, "frm_files") else 1
    return Need(_BASE_BYTES + tables * _table_bytes(version), _BASE_INODES + tables * files)


def _table_bytes(version: Version) -> int:
    """On the disk, which is not the file's length: 8.0 leaves holes, and a .frm takes whole blocks."""
    if version.flavor is Flavor.MARIADB:
        return (64 + 4) * _KIB if version.numbers >= (10, 4, 0) else (96 + 4) * _KIB
    if version.numbers < (8, 0, 0):
        return (96 + 12) * _KIB
    return (80 if version.numbers < (8, 4, 0) else 112) * _KIB


def free(folder: Path) -> Need:
    """What an ordinary process may still take there; the folder need not exist yet."""
    status = os.statvfs(nearest(folder))
    # btrfs and others make inodes as they go, and say that there are 0 of them.
    return Need(status.f_bavail * status.f_frsize, status.f_favail if status.f_files else sys.maxsize)


def check_space(folder: Path, need: Need) -> None:
    there = free(folder)
    hint = (
        "ask for fewer tables (TABLES=), remove kept data directories (`recovery datadirs`), or give DATA= another disk"
    )
    if there.bytes < need.bytes:
        raise HostUnfitError(
            f"{folder} needs {_told(need.bytes)} and has {_told(there.bytes)} free",
            hint,
        )
    if there.inodes < need.inodes:
        raise HostUnfitError(f"{folder} needs {need.inodes:,} inodes and has {there.inodes:,} free", hint)


def _told(count: int) -> str:
    return f"{count / 1e9:.1f} GB ({count:,} bytes)"
