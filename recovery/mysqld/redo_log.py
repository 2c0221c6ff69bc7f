"""Reads InnoDB's redo log: the last checkpoint, how much comes after it, and which of the tables' files were modified
since."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from recovery.errors import RecoveryError
from recovery.linux.files import data_extents, open_regular
from recovery.model import RedoSpan
from recovery.mysqld.table_files import TableFiles

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
    with open_regular(path) as file:
        for start, end in data_extents(file.fileno()):
            for page in range(start - start % size, end, size):
                newest = max(newest, int.from_bytes(os.pread(file.fileno(), 8, page + _LSN_AT)))
    return newest


def read_page_bytes(path: Path) -> int:
    with open_regular(path) as file:
        return parse_page_bytes(file.read(_FLAGS_AT + 4))


def parse_page_bytes(first_page: bytes) -> int:
    """Returns the page size on disk, from the first page of a file. For a compressed table it is smaller than the page
    size of the server."""
    flags = int.from_bytes(first_page[_FLAGS_AT : _FLAGS_AT + 4])
    if flags & _FULL_CRC32:
        return 512 << (flags & 0x0F)
    zipped, size = flags >> 1 & 0x0F, flags >> 6 & 0x0F
    return 512 << (zipped or size or _DEFAULT_SHIFT)


# --- Where the redo log is, and its headers

_REDO_FOLDER = "#innodb_redo"
"""Folder of the redo log in MySQL 8.0.30 and later."""
_REDO_FILES = "ib_logfile[0-9]*"
_ARCHIVED_FILE = re.compile(r"ib_[0-9a-f]{16}\.log", re.IGNORECASE)
"""A file of an archived redo log, named after its first LSN: MariaDB 13.0 and later, with innodb_log_archive=ON."""
_MYSQL_5_6 = 0
"""Format number of MySQL 5.6, and of MariaDB before 10.2: another layout of the checkpoints."""
_MARIADB_10_8 = 0x50687973
"""Format number since MariaDB 10.8: no blocks, and yet another layout of the checkpoints."""
_ENCRYPTED = 1 << 31
_HEADER_BYTES = 12288
_BLOCKS_AT, _BLOCK_BYTES, _USED_BYTES = 2048, 512, 0x7FFF
"""Offset of the first block of a file, size of a block, and the bits that say how much of it is used."""
_CHECKPOINTS = (512 + 8, 1536 + 8)
"""Offsets of the LSN in the two checkpoints, which are written in turn. The checkpoint number comes before the LSN."""
_CHECKPOINTS_OF_MARIADB_10_8 = (4096, 8192)
_HIGH_OFFSET_AT = 304 - 8
"""Offset in a checkpoint of MySQL 5.6, from its LSN on, of the upper half of the offset in all files."""
_SHUTDOWN_LSN_AT = 26
"""Offset in the first page of the system tablespace of the LSN at which the server was last shut down cleanly."""


@dataclass(frozen=True)
class _RedoFile:
    path: Path
    size: int
    header: bytes

    @property
    def format(self) -> int:
        return int.from_bytes(self.header[:4]) & ~_ENCRYPTED

    @property
    def is_encrypted(self) -> bool:
        return bool(int.from_bytes(self.header[:4]) & _ENCRYPTED)

    @property
    def start_lsn(self) -> int:
        return int.from_bytes(self.header[8:16])

    @property
    def is_in_folder(self) -> bool:
        return self.path.parent.name == _REDO_FOLDER

    def checkpoints(self) -> Iterator[tuple[int, int]]:
        """Yields the LSN of each checkpoint and, before MySQL 8.0.30, its offset in all files."""
        if len(self.header) < _HEADER_BYTES:
            return
        for place in _CHECKPOINTS_OF_MARIADB_10_8 if self.format == _MARIADB_10_8 else _CHECKPOINTS:
            lsn, offset = struct.unpack_from(">QQ", self.header, place)
            if self.format == _MYSQL_5_6:
                (high,) = struct.unpack_from(">I", self.header, place + _HIGH_OFFSET_AT)
                offset = high << 32 | offset >> 32
            yield lsn, offset


def redo_files(folder: Path) -> list[Path]:
    """Returns the files of the redo log, the first one first; none if there is no redo log."""
    files = [file for file in (folder / _REDO_FOLDER).glob("#ib_redo*") if not file.name.endswith("_tmp")]
    return sorted(files or folder.glob(_REDO_FILES), key=lambda file: (len(file.name), file.name))


def _read_headers(folder: Path) -> list[_RedoFile]:
    return [_RedoFile(path, *_size_and_header(path)) for path in redo_files(folder)]


def _size_and_header(path: Path) -> tuple[int, bytes]:
    with _open_for_few_reads(path) as opened:
        return os.fstat(opened).st_size, os.pread(opened, _HEADER_BYTES, 0)


@contextmanager
def _open_for_few_reads(path: Path) -> Iterator[int]:
    """Yields a descriptor of a file of which nothing is read ahead into the page cache."""
    with open_regular(path) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        yield file.fileno()


def _last_checkpoint(files: list[_RedoFile]) -> tuple[int, int] | None:
    """Returns the LSN of the last checkpoint, and its offset in all files. In MySQL 8.0.30 and later every file may
    have it, before that only the first one."""
    having = files if all(file.is_in_folder for file in files) else files[:1]
    return max((checkpoint for file in having for checkpoint in file.checkpoints()), default=None)


def archived_redo_files(folder: Path) -> list[Path]:
    """Returns the files of a redo log in MariaDB's archived form, which this tool does not read."""
    return sorted(file for file in folder.glob("ib_*.log") if _ARCHIVED_FILE.fullmatch(file.name))


def checkpoint_lsn(data: Path) -> int:
    """Returns the LSN of the last checkpoint. All changes up to it are in the data files; later ones must be
    recovered."""
    checkpoint = _last_checkpoint(_read_headers(data))
    if checkpoint is None:
        raise RecoveryError(f"there is no redo log in {data}", "leave --trace out")
    return checkpoint[0]


def was_shut_down(folder: Path, first_page: bytes) -> bool | None:
    """Returns whether the log ends at its last checkpoint, which the first page of the system tablespace names as a
    clean shutdown. A server that was killed when it was idle may end its log there, too, and leave transactions to roll
    back.

    None for a format that has no blocks (MariaDB 10.8 and later), for that of MySQL 5.6, and for a damaged log."""
    files = _read_headers(folder)
    checkpoint = _last_checkpoint(files)
    if checkpoint is None or files[0].format in (_MYSQL_5_6, _MARIADB_10_8):
        return None
    lsn, offset = checkpoint
    with _Blocks(files, lsn, offset) as blocks:
        block = blocks.header(lsn)
    shutdown_lsn = int.from_bytes(first_page[_SHUTDOWN_LSN_AT : _SHUTDOWN_LSN_AT + 8])
    return None if block is None else block[1] == lsn % _BLOCK_BYTES and shutdown_lsn == lsn


# --- How much of the redo log the next start has to read


def redo_span(folder: Path) -> RedoSpan | None:
    """Returns the span of the redo log in a folder, which may be in use. About 30 blocks of it are read, or some pieces
    of 64 KiB where the format has no blocks (MariaDB 10.8 and later).

    None if there is no redo log, or if it is damaged, or encrypted without blocks. Raises OSError if it cannot be
    read."""
    files = _read_headers(folder)
    checkpoint = _last_checkpoint(files)
    if checkpoint is None:
        return None
    lsn, offset = checkpoint
    if files[0].format == _MARIADB_10_8:
        end_lsn = _end_without_blocks(files[0], lsn)
    else:
        with _Blocks(files, lsn, offset) as blocks:
            end_lsn = _end_of_blocks(lsn, blocks.limit_lsn, blocks.header)
    return None if end_lsn is None or end_lsn < lsn else RedoSpan(lsn, end_lsn)


# --- The end of a log in blocks: each has a number that follows from its LSN

_NUMBER_BITS, _NUMBER_AND_FLUSH_BIT = 0x3FFFFFFF, 0x7FFFFFFF
_BLOCK_HEADER_BYTES = 6
"""Bytes of a block's header that are read: its number, and how much of it is used."""


class _Blocks:
    """Finds the blocks of a redo log by LSN."""

    def __init__(self, files: list[_RedoFile], checkpoint_lsn: int, offset: int) -> None:
        self._files, self._checkpoint_lsn = files, checkpoint_lsn
        self._has_ranges = files[0].is_in_folder
        """Whether each file has a range of LSN of its own. Before MySQL 8.0.30 all files together are a ring."""
        size = files[0].size
        self._room = max(0, size - _BLOCKS_AT)
        self._index = offset - _BLOCKS_AT * (offset // size + 1) if size else 0
        """Position of the checkpoint in the ring, without the headers of the files."""
        self._opened: dict[Path, int] = {}
        self._stack = ExitStack()

    @property
    def limit_lsn(self) -> int:
        """The end of the space for blocks from the checkpoint on."""
        limit_lsn = self._checkpoint_lsn
        if not self._has_ranges:
            return limit_lsn + self._room * len(self._files)
        for file in sorted(self._files, key=lambda file: file.start_lsn):
            if file.start_lsn <= limit_lsn:
                limit_lsn = max(limit_lsn, file.start_lsn + file.size - _BLOCKS_AT)
        return limit_lsn

    def _place(self, lsn: int) -> tuple[Path, int] | None:
        """Returns the file and the offset in it of an LSN, or None if no file has it."""
        if self._has_ranges:
            for file in self._files:
                if 0 <= lsn - file.start_lsn < file.size - _BLOCKS_AT:
                    return file.path, _BLOCKS_AT + lsn - file.start_lsn
        elif self._room:
            ring = self._room * len(self._files)
            number, index = divmod((self._index + lsn - self._checkpoint_lsn) % ring, self._room)
            return self._files[number].path, _BLOCKS_AT + index
        return None

    def header(self, lsn: int) -> tuple[int, int] | None:
        """Returns the number of the block at an LSN, and how many of its bytes are used; None if there is none."""
        place = self._place(lsn - lsn % _BLOCK_BYTES)
        if place is None:
            return None
        path, offset = place
        if path not in self._opened:
            self._opened[path] = self._stack.enter_context(_open_for_few_reads(path))
        read = os.pread(self._opened[path], _BLOCK_HEADER_BYTES, offset)
        if len(read) < _BLOCK_HEADER_BYTES:
            return None
        number, used = struct.unpack(">IH", read)
        return number & _NUMBER_AND_FLUSH_BIT, used & _USED_BYTES

    def __enter__(self) -> _Blocks:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _end_of_blocks(checkpoint_lsn: int, limit_lsn: int, header: Callable[[int], tuple[int, int] | None]) -> int | None:
    """Returns the LSN at which a log ends: in the last block of the unbroken row from the checkpoint on that have the
    numbers of their LSN. Blocks after it are of an earlier lap, or were never written. None if the checkpoint has no
    block."""

    def has_number(block: int) -> bool:
        fields = header(block * _BLOCK_BYTES)
        return fields is not None and fields[0] == (block & _NUMBER_BITS) + 1

    first, after = checkpoint_lsn // _BLOCK_BYTES, limit_lsn // _BLOCK_BYTES
    if not has_number(first):
        return None
    while after - first > 1:
        middle = (first + after) // 2
        first, after = (middle, after) if has_number(middle) else (first, middle)
    last = header(first * _BLOCK_BYTES)
    return None if last is None else first * _BLOCK_BYTES + min(last[1], _BLOCK_BYTES)


# --- The end of a log without blocks (MariaDB 10.8 and later): mini-transactions follow each other, each with its
# checksum and with a bit that changes with each lap through the file

_PIECE_BYTES = 1 << 16
_LARGEST_BYTES = 1 << 21
"""More than the largest mini-transaction, which has 1 MiB."""
_END_BYTES = 5
"""The end of a mini-transaction: a byte with the bit of its lap, and a checksum."""
_SAME_PAGE = 0x80
"""Flag of a record for the same page as the record before it."""
_MOST_LOOKED_AT_BYTES, _MOST_FOLLOWED_BYTES = 1 << 22, 1 << 26
"""Limits for a log in which no mini-transaction is found: half a second for each piece, and some seconds in all."""


def _end_without_blocks(file: _RedoFile, checkpoint_lsn: int) -> int | None:
    room = file.size - _HEADER_BYTES
    if file.is_encrypted or room <= 0 or checkpoint_lsn < file.start_lsn:
        return None
    with _open_for_few_reads(file.path) as opened:

        def read(lsn: int, length: int) -> bytes:
            """Returns the bytes from an LSN on. The log continues at the beginning of the file."""
            at, length = (lsn - file.start_lsn) % room, min(length, room)
            end = os.pread(opened, min(length, room - at), _HEADER_BYTES + at)
            return end + os.pread(opened, length - len(end), _HEADER_BYTES) if len(end) < length else end

        return _MiniTransactions(file.start_lsn, room, read).end_lsn(checkpoint_lsn)


@dataclass(frozen=True)
class _MiniTransactions:
    """A log of mini-transactions, whose pieces are read by LSN."""

    start_lsn: int
    room: int
    """Bytes of a lap."""
    read: Callable[[int, int], bytes]
    """Returns that many bytes from an LSN on."""

    def end_lsn(self, checkpoint_lsn: int) -> int | None:
        """Returns the LSN after the last of the mini-transactions that follow each other from the checkpoint on, with
        the bit of their lap. None if there is none, or if it is not found soon."""
        first, limit = self._next_after(checkpoint_lsn), checkpoint_lsn + self.room
        while first is not None and limit - first > 2 * _PIECE_BYTES:
            middle = (first + limit) // 2
            found = self._find_after(middle)
            first, limit = (first, middle) if found is None else (found, limit)
        last = first
        while last is not None and (end := self._next_after(last)) is not None and end <= checkpoint_lsn + self.room:
            last = None if end - (first or 0) > _MOST_FOLLOWED_BYTES else end
        return last

    def _next_after(self, lsn: int) -> int | None:
        piece = self.read(lsn, _PIECE_BYTES)
        if _last_byte_of(piece, 0) + _END_BYTES > len(piece):
            piece = self.read(lsn, _LARGEST_BYTES)
        return self._end_of(piece, 0, lsn)

    def _find_after(self, lsn: int) -> int | None:
        """Returns the end of the first mini-transaction that begins in the piece at an LSN; None if it is of an earlier
        lap, or if none was found."""
        piece, looked_at = self.read(lsn, 2 * _PIECE_BYTES), 0
        for at in range(_END_BYTES, min(_PIECE_BYTES, len(piece))):
            # It comes after the end of another one, and its first record names a page.
            if piece[at - _END_BYTES] <= 1 < piece[at] < _SAME_PAGE and looked_at < _MOST_LOOKED_AT_BYTES:
                last = _last_byte_of(piece, at)
                if _is_whole(piece, at, last):
                    return self._end_of(piece, at, lsn)
                looked_at += min(last, len(piece)) - at
        return None

    def _end_of(self, piece: bytes, at: int, lsn: int) -> int | None:
        """Returns the LSN at the end of a mini-transaction in a piece that begins at `lsn`, or None if it is not whole,
        or of an earlier lap."""
        last = _last_byte_of(piece, at)
        is_of_lap = last < len(piece) and piece[last] == 1 - (lsn + last - self.start_lsn) // self.room % 2
        return lsn + last + _END_BYTES if is_of_lap and _is_whole(piece, at, last) else None


def _is_whole(text: bytes, start: int, last: int) -> bool:
    """Returns whether a mini-transaction has its end, and its checksum is right."""
    end = last + _END_BYTES
    return start < last and end <= len(text) and _crc32c(text[start:last]) == int.from_bytes(text[last + 1 : end])


def _last_byte_of(text: bytes, start: int) -> int:
    """Returns where the records of a mini-transaction end, which may be after the end of the text."""
    at = start
    while at < len(text) and (first := text[at]) > 1:
        at += 1 + (first & 0x0F or 15 + _variable_number(text, at + 1))
    return at


def _variable_number(text: bytes, at: int) -> int:
    """Returns a number of variable length: the leading ones of its first byte count the bytes after it. It is past the
    end of any text if it is cut off or invalid."""
    first = text[at] if at < len(text) else 0xFF
    more = 8 - (first ^ 0xFF).bit_length()
    if more > 3:
        return _LARGEST_BYTES
    least = sum(1 << 7 * number for number in range(1, more + 1))
    return least + ((first & 0x7F >> more) << 8 * more | int.from_bytes(text[at + 1 : at + 1 + more]))


def _crc32c(data: bytes) -> int:
    value, table = 0xFFFFFFFF, _crc32c_table()
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


@cache
def _crc32c_table() -> tuple[int, ...]:
    table = list(range(256))
    for _ in range(8):
        table = [value >> 1 ^ (0x82F63B78 if value & 1 else 0) for value in table]
    return tuple(table)
