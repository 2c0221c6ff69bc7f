"""Where do the tested tables' files lie in a server's data directory, and which of the files there are theirs?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recovery.host import tree
from recovery.model import Layout, Schema

ALL_TABLES = "all_tables.ibd"
"""As templates/layouts.sql.j2 calls the file of a general tablespace, which a server wants beside its own."""
_ENDING = ".ibd"
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True)
class TableFiles:
    folders: tuple[Path, ...]
    name: str | None = None
    """Of the only one; None is all that look like it."""

    def holds(self, name: str) -> bool:
        """Whether a file of this name, in one of the folders, is theirs."""
        return name.endswith(_ENDING) if self.name is None else name == self.name

    def paths(self) -> Iterator[str]:
        """In the order of their inodes, within each batch: the storage is asked in the kindest way."""
        for folder in self.folders:
            for batch in tree.batches(folder):
                yield from (entry.path for entry in batch if self.holds(entry.name))

    def count(self) -> int:
        """A missing folder holds none."""
        return sum(map(self._count_in, self.folders))

    def _count_in(self, folder: Path) -> int:
        try:
            with os.scandir(folder) as entries:
                return sum(self.holds(entry.name) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return 0


def table_files(data: Path, schema: Schema) -> TableFiles:
    if schema.layout is Layout.GENERAL:
        return TableFiles((data,), ALL_TABLES)
    return TableFiles(tuple(data / _folder_name(database) for database in schema.database_names))


def _folder_name(database: str) -> str:
    """As the server spells it on the disk: `my-db` lies in `my@002ddb`."""
    return _OTHER_CHARACTERS.sub(lambda match: f"@{ord(match[0]):04x}", database)
