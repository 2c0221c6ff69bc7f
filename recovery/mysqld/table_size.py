"""Estimates the disk space of tables from the number and the size of their InnoDB pages."""

from __future__ import annotations

import math
from collections.abc import Mapping

from recovery.linux.storage import DiskSpace
from recovery.model import Flavor, Layout, Schema, Version, can

_KIB = 1024
_ON_DISK = 4 * _KIB
"""A file occupies whole blocks."""
PAGE_SIZE, _USUAL_PAGE_BYTES = "innodb_page_size", 16 * _KIB
_SHARED_BYTES = 2 * _KIB
"""Space in a general tablespace for each table, in addition to the table's page."""
_DICTIONARY_BYTES = 3 * _KIB
"""Growth of the dictionary for each table, in versions that store the definitions there."""
_BASE_BYTES = 1_500_000_000
"""System tables, undo logs, folder entries, redo and temporary files during the build, and a reserve."""
_BASE_INODES = 1000


def estimate_space(
    version: Version,
    schema: Schema,
    settings: Mapping[str, str] = {},
    *,
    indexes: int = 0,
    block_bytes: int | None = None,
) -> DiskSpace:
    """Returns the space that the tables need, as measured on ext4.

    `indexes` is the number of secondary indexes of all tables. `block_bytes` is the size of compressed pages, 0 if the
    server chooses it, and None without compression. The estimate for rows is generous, because pages are never full; a
    table's first page already holds some rows."""
    tables, page = schema.total_tables, configured_page_bytes(settings)
    other_file_bytes = _other_file_bytes(version, schema.layout)
    row_bytes = 30 + 35 * schema.columns + schema.more_row_bytes
    rows_bytes = max(0, 2 * schema.rows * row_bytes - page // 2)
    if schema.layout is Layout.GENERAL:
        in_files = tables * (page + _SHARED_BYTES)
    else:
        block = page if block_bytes is None else min(page, block_bytes or page // 2)
        in_files = schema.files * _file_bytes(version, page, block, indexes / tables)
    definition_bytes = sum(other_file_bytes) if other_file_bytes else _DICTIONARY_BYTES
    return DiskSpace(
        _BASE_BYTES + in_files + tables * (definition_bytes + rows_bytes),
        _BASE_INODES + schema.files + tables * len(other_file_bytes),
    )


def configured_page_bytes(settings: Mapping[str, str]) -> int:
    """Returns the page size of a server with these settings. Whether the size is valid is left to the server."""
    text = settings.get(PAGE_SIZE, settings.get(f"loose_{PAGE_SIZE}", "")).lower()
    number = text.removesuffix("k")
    return int(number) * (_KIB if text.endswith("k") else 1) if number.isdecimal() else _USUAL_PAGE_BYTES


def _file_bytes(version: Version, page: int, block: int, indexes: float) -> int:
    """Returns the disk space of an empty table with pages of `block` bytes. Each index takes a page, and a quarter
    more: a small page cannot list all segments of a file with many indexes."""
    pages = _first_pages(version, compressed=block < page, plain=not indexes) + 1.25 * indexes
    minimum = 0 if can(version, "sparse_files") else 4 * page
    return max(minimum, math.ceil(pages * block / _ON_DISK) * _ON_DISK)


def _first_pages(version: Version, *, compressed: bool, plain: bool) -> int:
    """Returns the number of pages of an empty table without secondary indexes.

    8.0.15 leaves holes in a file without secondary indexes, and 8.0.31 does not. The versions in between are assumed
    not to."""
    if version.flavor is Flavor.MARIADB:
        return 4 if can(version, "files_of_four_pages") else 6
    if not can(version, "data_dictionary"):
        return 4 if compressed else 6
    return 5 if plain and can(version, "files_with_holes") else 7


def _other_file_bytes(version: Version, layout: Layout) -> tuple[int, ...]:
    """Returns the sizes of the table's other files (.frm, .par), in whole blocks."""
    frm = ((4 if version.flavor is Flavor.MARIADB else 12) * _KIB,) if can(version, "frm_files") else ()
    par = (4 * _KIB,) if layout is Layout.PARTITIONED and can(version, "par_files") else ()
    return frm + par
