"""Reads the names of all tablespaces' files from the data dictionary of MySQL 8.0 and later, without a server.

`mysql.ibd` has them in the index on `mysql.tablespace_files.file_name`. A record there is the name, the id of its
tablespace (8 bytes) and the number of the file (4 bytes). Before the name are the record's header (5 bytes, the last
two of which are where the next record begins, relative to this one) and, before the header, the length of the name.
Bytes that look like a name prove nothing: the header's last byte may be any letter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from recovery.linux.files import data_extents, open_regular
from recovery.mysqld.redo_log import parse_page_bytes

_HEADER_BYTES = 64
_TYPE, _OF_INDEX = slice(24, 26), 0x45BF
"""The type of a page. Those of encrypted and compressed pages are others."""
_COUNT, _IS_COMPACT = slice(42, 44), 0x8000
"""The records that the page ever had, which also says how they are laid out."""
_LEVEL = slice(64, 66)
_FIRST, _LAST = 99, 112
"""The records before the first one and after the last one, which every page has."""
_DELETED, _LONG = 0x20, 0x80
"""In the first byte of a record's header: it is marked as deleted. In the length of a name: one more byte follows."""
_HEADER, _ID, _NUMBER = 5, 8, 4
_UNUSED_ID, _UNUSED_NUMBER = 3, 2
"""The first bytes of both, which are zero: no server has had so many."""
_EXTENTS_AT, _EXTENT_HEADER = 38 + 112, 24
"""Of the pages that say which pages are free, two bits for each: where the extents begin, and their headers' size."""
_SMALL_EXTENT_BYTES, _EXTENT_PAGES = 1 << 20, 64


@dataclass(frozen=True)
class TablespaceName:
    name: str
    """As the dictionary has it: relative to the data directory, or an absolute path."""
    is_current: bool
    """Whether the record is neither marked as deleted nor on a page that is free by now."""


def tablespace_names(dictionary: Path) -> Iterator[TablespaceName]:
    """Yields the names in `mysql.ibd`, as far as it is readable: of encrypted pages none."""
    with open_regular(dictionary) as file:
        size = parse_page_bytes(file.read(_HEADER_BYTES))
        group, extents = -1, b""
        for number, page in _pages(file, size):
            if number // size != group:
                group = number // size
                extents = os.pread(file.fileno(), size, group * size * size)[_EXTENTS_AT:]
            is_free = _is_free(number % size, size, extents)
            for name, is_deleted in names_on_page(page):
                yield TablespaceName(name, not (is_free or is_deleted))


def _pages(file: BinaryIO, size: int) -> Iterator[tuple[int, bytes]]:
    """Yields the whole pages of a file and their numbers, without holes."""
    done = 0
    for start, end in data_extents(file.fileno()):
        for number in range(max(done, start // size), -(-end // size)):
            page = os.pread(file.fileno(), size, number * size)
            if len(page) == size:
                yield number, page
            done = number + 1


def _is_free(number: int, size: int, extents: bytes) -> bool:
    pages = max(_SMALL_EXTENT_BYTES // size, _EXTENT_PAGES)
    extent, bit = number // pages, number % pages * 2
    at = extent * (_EXTENT_HEADER + pages * 2 // 8) + _EXTENT_HEADER + bit // 8
    return at < len(extents) and bool(extents[at] >> bit % 8 & 1)


def names_on_page(page: bytes) -> Iterator[tuple[str, bool]]:
    """Yields each name on a page of the index, and whether it is marked as deleted. Other pages have none."""
    if int.from_bytes(page[_TYPE]) != _OF_INDEX or int.from_bytes(page[_LEVEL]):
        return
    count = int.from_bytes(page[_COUNT])
    if count & _IS_COMPACT:
        for at in islice(_records(page), count & ~_IS_COMPACT):
            if (name := _name_at(page, at)) is None:
                return
            yield name, bool(page[at - _HEADER] & _DELETED)


def _records(page: bytes) -> Iterator[int]:
    """Yields where the records of a page begin, in their order."""
    at = _FIRST
    while True:
        at = (at + int.from_bytes(page[at - 2 : at])) % (1 << 16)
        if not _LAST < at < len(page):
            return
        yield at


def _name_at(page: bytes, at: int) -> str | None:
    """Returns the name that a record has, or None if it is none of this index."""
    length = page[at - _HEADER - 1]
    if length & _LONG:
        length = (length & 0x3F) << 8 | page[at - _HEADER - 2]
    name, rest = page[at : at + length], page[at + length : at + length + _ID + _NUMBER]
    if not name or len(rest) < _ID + _NUMBER or any(rest[:_UNUSED_ID]) or any(rest[_ID : _ID + _UNUSED_NUMBER]):
        return None
    if not any(rest[:_ID]) or not any(rest[_ID:]) or 0 in name:
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None
