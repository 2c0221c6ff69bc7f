"""Reads from the files of MySQL 8.0 and later, without a server, which tablespaces and which tables there are.

`mysql.ibd` has the names of all tablespaces' files in the index on `mysql.tablespace_files.file_name`. A record there
is the name, the id of its tablespace (8 bytes) and the number of the file (4 bytes). Before the name are the record's
header (5 bytes, the last two of which are where the next record begins, relative to this one) and, before the header,
the length of the name. Bytes that look like a name prove nothing: the header's last byte may be any letter.

Each tablespace has descriptions of its tables (SDI, serialized dictionary information) in an index of its own, whose
root the first page names. A record there is the type (4 bytes) and the id (8 bytes) of what it describes, the
transaction (13 bytes), the length of the description, that of its compressed text (4 bytes each), and this text."""

from __future__ import annotations

import json
import os
import zlib
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
_OF_DESCRIPTIONS, _OF_LONG_TEXT = 0x45BD, 0x12
"""Types of pages: of the index of descriptions, and of what does not fit into a record there."""
_NEXT, _NO_PAGE = slice(12, 16), 0xFFFFFFFF
_KEY, _TABLE, _TRANSACTION, _LENGTH = 12, 1, 13, 4
"""The key of a description, the type of a table's, and the sizes of what follows it."""
_ELSEWHERE, _REFERENCE = 0x40, 20
"""In the length of a text: the last bytes of the record refer to the rest of the text, on other pages."""
_REFERRED_PAGE = slice(4, 8)
_PART, _PART_BYTES, _NEXT_PART = 38 + 8, slice(38, 42), slice(42, 46)
_VISIBLE, _LONGEST_TEXT = 1, 1 << 26
_ENCRYPTION_BYTES = 115
"""The room for an encryption key, which lies between the extents and the root of the descriptions."""


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


def _extent(size: int) -> tuple[int, int]:
    """Returns the pages of an extent, and the bytes that say which of them are free."""
    pages = max(_SMALL_EXTENT_BYTES // size, _EXTENT_PAGES)
    return pages, _EXTENT_HEADER + pages * 2 // 8


def _is_free(number: int, size: int, extents: bytes) -> bool:
    pages, header = _extent(size)
    extent, bit = number // pages, number % pages * 2
    at = extent * header + _EXTENT_HEADER + bit // 8
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


# --- Descriptions of tables


def tables_in(tablespace: Path) -> set[tuple[str, str]] | None:
    """Returns schema and name of each table in a tablespace, or None if they are not readable: compressed, encrypted,
    damaged, or of a server that has none."""
    with open_regular(tablespace) as file:
        try:
            return {found for page in _leaves(file) for at in _records(page) if (found := _table_at(file, page, at))}
        except (ValueError, LookupError, TypeError, RecursionError, zlib.error):
            return None


def _leaves(file: BinaryIO) -> Iterator[bytes]:
    """Yields the pages of a tablespace's descriptions. Raises ValueError if one is something else."""
    first = file.read(_HEADER_BYTES)
    size = parse_page_bytes(first)
    pages, header = _extent(size)
    root = os.pread(file.fileno(), 8, _EXTENTS_AT + size // pages * header + _ENCRYPTION_BYTES)
    if int.from_bytes(root[:4]) != 1:
        raise ValueError("the tablespace has no descriptions")
    number, passed = int.from_bytes(root[4:]), set[int]()
    while number != _NO_PAGE:
        page = _page_of(file, number, size, _OF_DESCRIPTIONS)
        if number in passed:
            raise ValueError("the pages lead in a circle")
        passed.add(number)
        if int.from_bytes(page[_LEVEL]):
            at = next(_records(page), _FIRST)
            number = int.from_bytes(page[at + _KEY : at + _KEY + 4])
        else:
            yield page
            number = int.from_bytes(page[_NEXT])


def _page_of(file: BinaryIO, number: int, size: int, kind: int) -> bytes:
    page = os.pread(file.fileno(), size, number * size)
    if len(page) != size or int.from_bytes(page[_TYPE]) != kind:
        raise ValueError("the page is not what it should be")
    return page


def _table_at(file: BinaryIO, page: bytes, at: int) -> tuple[str, str] | None:
    """Returns schema and name of the table that a record describes, or None if it describes none that users see."""
    if int.from_bytes(page[at : at + 4]) != _TABLE or page[at - _HEADER] & _DELETED:
        return None
    length = page[at - _HEADER - 1]
    is_elsewhere = bool(length & _LONG and length & _ELSEWHERE)
    if length & _LONG:
        length = (length & 0x3F) << 8 | page[at - _HEADER - 2]
    begin = at + _KEY + _TRANSACTION + 2 * _LENGTH
    text = page[begin : begin + length]
    if is_elsewhere:
        reference, text = text[-_REFERENCE:], text[:-_REFERENCE]
        text += b"".join(_parts(file, int.from_bytes(reference[_REFERRED_PAGE]), len(page)))
    described = json.loads(zlib.decompressobj().decompress(text, _LONGEST_TEXT))["dd_object"]
    return (described["schema_ref"], described["name"]) if described["hidden"] == _VISIBLE else None


def _parts(file: BinaryIO, number: int, size: int) -> Iterator[bytes]:
    passed = set[int]()
    while number != _NO_PAGE and number not in passed:
        passed.add(number)
        page = _page_of(file, number, size, _OF_LONG_TEXT)
        yield page[_PART : _PART + int.from_bytes(page[_PART_BYTES])]
        number = int.from_bytes(page[_NEXT_PART])
