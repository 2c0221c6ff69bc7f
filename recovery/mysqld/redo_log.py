"""Reads InnoDB's last checkpoint from the redo log headers of a server that is not running, and finds the tables' files
that were modified after a checkpoint."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from recovery.errors import RecoveryError
from recovery.linux.files import TableFiles

# --- Files modified after a checkpoint, found by the LSN in each of their pages

_LSN_AT = 16
"""Offset in a page's header of the LSN, the end of the log record of its last change. It is readable in encrypted and
compressed pages too."""
_FLAGS_AT = 38 + 16
"""Offset of the tablespace flags in its first page."""
_DEFAULT_SHIFT = 5
"""512 << 5 is 16 KiB, which the old form of the flags stores as 0."""
_FULL_CRC32 = 0x10
"""Flag of MariaDB's new form, in which the lowest bits hold only the page size."""


def modified_since(files: TableFiles, checkpoint_lsn: int, *, written_after_s: float) -> frozenset[str]:
    """Returns the files, as `folder/name`, with changes after the checkpoint. Only files that were written after
    `written_after_s` (on the wall clock) are read: a server that recovered and then shut down cleanly has written all
    of its changes."""
    return frozenset(
        f"{path.parent.name}/{path.name}"
        for path in map(Path, files.paths())
        if path.lstat().st_mtime >= written_after_s and _newest_lsn(path) > checkpoint_lsn
    )


def _newest_lsn(path: Path) -> int:
    newest, size = 0, read_page_bytes(path)
    with path.open("rb") as file:
        for start in range(0, os.fstat(file.fileno()).st_size, size):
            file.seek(start + _LSN_AT)
            newest = max(newest, int.from_bytes(file.read(8)))
    return newest


def read_page_bytes(path: Path) -> int:
    with path.open("rb") as file:
        return parse_page_bytes(file.read(_FLAGS_AT + 4))


def parse_page_bytes(first_page: bytes) -> int:
    """Returns the page size on disk, from the first page of a file. For a compressed table it is smaller than the page
    size of the server."""
    flags = int.from_bytes(first_page[_FLAGS_AT : _FLAGS_AT + 4])
    if flags & _FULL_CRC32:
        return 512 << (flags & 0x0F)
    zipped, size = flags >> 1 & 0x0F, flags >> 6 & 0x0F
    return 512 << (zipped or size or _DEFAULT_SHIFT)


# --- The last checkpoint

_REDO_FOLDER = "#innodb_redo"
"""Folder of the redo log in MySQL 8.0.30 and later."""
_REDO_FILES = "ib_logfile[0-9]*"
_ARCHIVED_FILE = re.compile(r"ib_[0-9a-f]{16}\.log", re.IGNORECASE)
"""A file of an archived redo log, named after its first LSN: MariaDB 13.0 and later, with innodb_log_archive=ON."""
_MARIADB_10_8 = 0x50687973
"""Format number since MariaDB 10.8: no blocks, and another layout of the checkpoints."""
_ENCRYPTED = 1 << 31
_HEADER_BYTES = 12288
_BLOCKS_AT, _BLOCK_BYTES, _USED_BYTES = 2048, 512, 0x7FFF
"""Offset of the first block of a file, size of a block, and the bits that say how much of it is used."""
_CHECKPOINTS = (512 + 8, 1536 + 8)
"""Offsets of the LSN in the two checkpoints, which are written in turn. The checkpoint number comes before the LSN."""
_CHECKPOINTS_OF_MARIADB_10_8 = (4096, 8192)
_SHUTDOWN_LSN_AT = 26
"""Offset in the first page of the system tablespace of the LSN at which the server was last shut down cleanly."""


def redo_files(folder: Path) -> list[Path]:
    """Returns the files of the redo log, the first one first; none if there is no redo log."""
    files = [file for file in (folder / _REDO_FOLDER).glob("#ib_redo*") if not file.name.endswith("_tmp")]
    return sorted(files or folder.glob(_REDO_FILES))


def archived_redo_files(folder: Path) -> list[Path]:
    """Returns the files of a redo log in MariaDB's archived form, which this tool does not read."""
    return sorted(file for file in folder.glob("ib_*.log") if _ARCHIVED_FILE.fullmatch(file.name))


def checkpoint_lsn(data: Path) -> int:
    """Returns the LSN of the last checkpoint. All changes up to it are in the data files; later ones must be
    recovered."""
    headers = map(_header, _files_with_checkpoints(data))
    checkpoints = [lsn for header in headers for lsn, _ in _checkpoints_in(header)]
    if not checkpoints:
        raise RecoveryError(f"there is no redo log in {data}", "leave --trace out")
    return max(checkpoints)


def was_shut_down(folder: Path, first_page: bytes) -> bool | None:
    """Returns whether the log ends at its last checkpoint, which the first page of the system tablespace names as a
    clean shutdown. A server that was killed when it was idle may end its log there, too, and leave transactions to roll
    back.

    None for a format that has no blocks (MariaDB 10.8 and later), for that of MySQL 5.6, and for a damaged log."""
    found: list[tuple[int, int, Path]] = []
    for file in _files_with_checkpoints(folder):
        header = _header(file)
        if len(header) < _HEADER_BYTES or _format(header) in (0, _MARIADB_10_8):
            return None
        (start,) = struct.unpack_from(">Q", header, 8)
        for lsn, offset in _checkpoints_in(header):
            found.append((lsn, _BLOCKS_AT + lsn - start if _is_in_folder(file) else offset, file))
    if not found:
        return None
    lsn, offset, file = max(found)
    if not _is_in_folder(file):
        files = redo_files(folder)
        number, offset = divmod(offset, file.stat().st_size)
        file = files[min(number, len(files) - 1)]
    if not 0 <= offset < file.stat().st_size:
        return None
    with file.open("rb") as opened:
        opened.seek(offset - offset % _BLOCK_BYTES)
        (used,) = struct.unpack(">4xH", opened.read(6).ljust(6, b"\0"))
    shutdown_lsn = int.from_bytes(first_page[_SHUTDOWN_LSN_AT : _SHUTDOWN_LSN_AT + 8])
    return bool(used & _USED_BYTES == lsn % _BLOCK_BYTES and shutdown_lsn == lsn)


def _files_with_checkpoints(folder: Path) -> list[Path]:
    files = redo_files(folder)
    return files if all(map(_is_in_folder, files)) else files[:1]


def _is_in_folder(file: Path) -> bool:
    return file.parent.name == _REDO_FOLDER


def _header(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_HEADER_BYTES)


def _format(header: bytes) -> int:
    return int.from_bytes(header[:4]) & ~_ENCRYPTED


def _checkpoints_in(header: bytes) -> Iterator[tuple[int, int]]:
    """Yields the LSN of each checkpoint, and the number after it: before MySQL 8.0.30 its offset in all files."""
    if len(header) < _HEADER_BYTES:
        return
    for place in _CHECKPOINTS_OF_MARIADB_10_8 if _format(header) == _MARIADB_10_8 else _CHECKPOINTS:
        yield struct.unpack_from(">QQ", header, place)
