"""The page cache under the server of a bench: emptied, filled, and measured."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from recovery.errors import TrialVoidError
from recovery.linux.files import data_extents, open_for_reading, walk_files
from recovery.linux.page_cache import CacheDropper, flush_caches, make_cold, prove_cold
from recovery.model import ColdProof
from recovery.mysqld.table_files import TableFiles, make_tables_cold, resident_share


class BenchCache:
    """The pages of the data directory in the page cache."""

    def __init__(
        self, data: Path, files: TableFiles, dropper: CacheDropper | None, *, on_step: Callable[[str], None]
    ) -> None:
        self._data, self._files, self._dropper = data, files, dropper
        self._on_step = on_step
        self.last_read_bytes: float | None = None
        """Bytes that the last timed start read from storage; None once anything else has changed the cache."""

    def forget_reads(self) -> None:
        """Forgets the bytes that the last start read, because something else has used the page cache since."""
        self.last_read_bytes = None

    def flush(self) -> str:
        """Empties the cache while the server runs, as published, and returns the means.

        There is no proof that it is empty, because that would open every file."""
        self.forget_reads()
        self._on_step("flushing the caches")
        return flush_caches(self._data, self._dropper)

    def make_cold(self) -> ColdProof:
        """Empties the cache while no server runs, and proves that it is empty."""
        self.forget_reads()
        self._on_step("emptying the cache")
        return make_cold(self._data, self._dropper)

    def prove_still_cold(self, cold: ColdProof) -> ColdProof:
        """Proves that the cache, which was emptied before the user's command, is empty after it."""
        self._on_step("checking the page cache")
        try:
            return prove_cold(self._data, self._dropper, cold.means or "")
        except TrialVoidError as error:
            hint = "a cold start needs a command that reads and writes little of the data directory"
            raise TrialVoidError(f"after BEFORE_START {error.message}", hint) from error

    def make_tables_cold(self) -> ColdProof:
        """Empties the cache of tables and dictionary while an idle server runs, and proves it."""
        self.forget_reads()
        self._on_step("emptying the cache")
        return make_tables_cold(self._data, self._files, self._dropper)

    def read_all(self) -> None:
        """Reads all files, so that they are in the cache. Holes have nothing that could be read from the disk."""
        self._on_step("reading the data directory")
        for folder_fd, name in walk_files(self._data):
            with open_for_reading(folder_fd, name) as fd:
                for start, end in data_extents(fd):
                    while start < end and (read := len(os.pread(fd, min(1 << 20, end - start), start))):
                        start += read

    def resident_share(self) -> float | None:
        """Returns the share of table files that have pages in the cache; None if the host cannot say."""
        self._on_step("checking the page cache")
        return resident_share(self._data, self._files)
