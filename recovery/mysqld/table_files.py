"""Finds the files of the tested tables in a data directory, and makes them cold under an idle server."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recovery.linux.files import scan_batches, walk_files
from recovery.linux.page_cache import CacheDropper, CacheKind, drop_or_evict, measure_files, require_cold
from recovery.model import SYSTEM_SCHEMAS, ColdProof, Layout, Schema

ALL_TABLES = "all_tables.ibd"
"""File name of the general tablespace in templates/layouts.sql.j2. The server requires it next to its own
tablespaces."""
_ENDING = ".ibd"
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9_]")
_UNFINISHED = "#sql"
"""Begins the names of tables that a server was making when it died; the next one removes them."""


@dataclass(frozen=True)
class TableFiles:
    """The files of the tested tables, and the folders that contain them."""

    folders: tuple[Path, ...]
    name: str | None = None
    """Name of the only file; None means every file with the ending `.ibd`."""

    def holds(self, name: str) -> bool:
        """Returns whether a file of this name, in one of the folders, belongs to the tables."""
        if self.name is not None:
            return name == self.name
        return name.endswith(_ENDING) and not name.startswith(_UNFINISHED)

    def paths(self) -> Iterator[str]:
        """Yields the paths, sorted by inode number within each batch, which is the cheapest order for the storage."""
        for folder in self.folders:
            for batch in scan_batches(folder):
                yield from (entry.path for entry in batch if self.holds(entry.name))

    def walk(self) -> Iterator[tuple[int, str]]:
        """Yields the descriptor of the folder and the name of each file."""
        for folder in self.folders:
            yield from ((folder_fd, name) for folder_fd, name in walk_files(folder) if self.holds(name))

    def count(self) -> int:
        """Returns the number of files. A missing folder counts as empty."""
        return sum(map(self._count_in, self.folders))

    def _count_in(self, folder: Path) -> int:
        try:
            with os.scandir(folder) as entries:
                return sum(self.holds(entry.name) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return 0


def table_files(data: Path, schema: Schema, *, original: Path | None = None) -> TableFiles:
    """Returns the files of the schema's tables. A copy of the user's own data directory has more schemas: those of
    `original`, which it is made from, or its own."""
    if schema.own is not None:
        schemas = {entry.name for entry in (original or data).iterdir() if entry.is_dir() and entry.name[0] != "#"}
        return TableFiles(tuple(data / name for name in sorted(schemas - SYSTEM_SCHEMAS)))
    if schema.layout is Layout.GENERAL:
        return TableFiles((data,), ALL_TABLES)
    return TableFiles(tuple(data / folder_name(name) for name in schema.database_names))


def folder_name(schema: str) -> str:
    """Returns the folder of a schema: `my-db` is stored as `my@002ddb`. Letters like ä have shorter codes there."""
    return _OTHER_CHARACTERS.sub(lambda match: f"@{ord(match[0]):04x}", schema)


def kept_table_files(data: Path) -> Iterator[str]:
    """Yields the paths of the tables' files in all data directories that are kept in this folder."""
    yield from TableFiles(tuple(data.glob("*/mysql/*/"))).paths()


# --- The tables in the page cache

_DICTIONARY = re.compile(
    r"mysql\.ibd|ibdata\d+|undo_?\d+|.*\.ibu|innodb_(?:table|index)_stats\.ibd|.*\.(?:frm|par)|db\.opt"
)
"""Files, in any folder, in which a server stores the dictionary and its older versions. 8.0 has `mysql.ibd`; earlier
versions and MariaDB have additional files for each table."""
_SHARE_OF_A_DICTIONARY = 0.01
_BYTES_OF_A_DICTIONARY = 1024 * 1024
"""An idle server may still write a dictionary page now and then."""


def resident_share(data: Path, tables: TableFiles) -> float | None:
    """Returns the share of the tables' files that have at least one page in the cache, or None if that is unknown. No
    page is touched."""
    residency = measure_files(data, tables.walk())
    known = residency.files > 0 and residency.resident_bytes is not None
    return residency.resident_files / residency.files if known else None


def make_tables_cold(data: Path, tables: TableFiles, dropper: CacheDropper | None) -> ColdProof:
    """Removes the tables' files and the dictionary from the page cache under a server that runs but is idle, and proves
    it.

    Tables and dictionary are checked separately: compared with very many tables, a warm dictionary would be too small
    to notice. The redo log is not checked, since the server may write to it at any time."""
    started = time.monotonic()
    means = drop_or_evict(data, dropper, CacheKind.PAGES)
    of_tables = measure_files(data, tables.walk())
    require_cold(data, of_tables)
    in_dictionary = ((folder_fd, name) for folder_fd, name in walk_files(data) if _DICTIONARY.fullmatch(name))
    dictionary = measure_files(data, in_dictionary)
    tolerated = max(_BYTES_OF_A_DICTIONARY, _SHARE_OF_A_DICTIONARY * dictionary.total_bytes)
    require_cold(data, dictionary, what="the dictionary in ", tolerated=tolerated)
    if dropper is not None and means == dropper.means:
        means = drop_or_evict(data, dropper, CacheKind.EVERYTHING)
    left = (of_tables.resident_bytes, dictionary.resident_bytes)
    resident = None if None in left else sum(filter(None, left))
    return ColdProof(means=means, resident_bytes=resident, seconds=time.monotonic() - started)
