"""Where is InnoDB's last checkpoint, by the headers of the redo log of a server that is not running?"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from recovery.errors import RecoveryError

_FILES_IN_A_FOLDER = "#innodb_redo"
"""MySQL 8.0.30 and later."""
_ONE_FILE = "ib_logfile0"
_MARIADB_10_8 = 0x50687973
"""The format since then: no blocks, and checkpoints of another shape."""
_ENCRYPTED = 1 << 31
_HEADER_BYTES = 12288
_CHECKPOINTS = (512 + 8, 1536 + 8)
"""Two that are written by turns; the number comes before the position."""
_CHECKPOINTS_OF_MARIADB_10_8 = (4096, 8192)


def checkpoint_lsn(data: Path) -> int:
    """Up to here all changes are in the data files; what comes after has to be recovered."""
    found = [lsn for file in _log_files(data) for lsn in _in_header(file)]
    if not found:
        raise RecoveryError(f"there is no redo log in {data}", "leave --trace out")
    return max(found)


def _log_files(data: Path) -> list[Path]:
    in_folder = [file for file in (data / _FILES_IN_A_FOLDER).glob("#ib_redo*") if not file.name.endswith("_tmp")]
    return in_folder or [file for file in (data / _ONE_FILE,) if file.is_file()]


def _in_header(file: Path) -> Iterator[int]:
    with file.open("rb") as opened:
        header = opened.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return
    (kind,) = struct.unpack_from(">I", header)
    new = kind & ~_ENCRYPTED == _MARIADB_10_8
    for place in _CHECKPOINTS_OF_MARIADB_10_8 if new else _CHECKPOINTS:
        yield struct.unpack_from(">Q", header, place)[0]
