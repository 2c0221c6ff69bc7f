"""Compares the table files that a timed start opens with those that were modified before it (TRACE=)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from recovery.linux.file_opens import OpenTrace, TracedOpens
from recovery.linux.page_cache import measure_residency
from recovery.logs.phases import with_traced_check
from recovery.model import Measurement, OpenedFiles
from recovery.mysqld.launcher import ServerProcess
from recovery.mysqld.redo_log import checkpoint_lsn, modified_since
from recovery.mysqld.table_files import TableFiles

_TIMESTAMP_TOLERANCE_S = 1.0
"""A file's timestamp may be this much earlier than the clock."""


class OpenedFilesTracer:
    """Compares the table files that a timed start opens with those modified since the last checkpoint before it.

    One tracer follows one server over one data directory. It must be notified of every start and end of the server."""

    def __init__(self, data: Path, files: TableFiles) -> None:
        self._data = data
        self._files = files
        self._began_s = 0.0
        self._last_end: tuple[int, float] | None = None
        """Checkpoint that the last server process left, and when that process was started."""
        self._before: tuple[int, float] | None = None
        """The same for the process before the timed start."""
        self._opens: TracedOpens | None = None
        self._resident_bytes: int | None = None

    def on_start(self) -> None:
        self._began_s = time.time() - _TIMESTAMP_TOLERANCE_S

    def on_ended(self) -> None:
        """Records the checkpoint of a server that has ended: its next start recovers what comes after it."""
        self._last_end = checkpoint_lsn(self._data), self._began_s

    def on_restored(self) -> None:
        """Records the checkpoint in files that were copied, which may have been written at any time."""
        self._began_s = 0.0
        self.on_ended()

    def trace(self, start: Callable[[], Measurement], process: Callable[[], ServerProcess]) -> Measurement:
        """Runs the timed start and records the files that it opens until its first answered query."""
        self._before = self._last_end
        with OpenTrace(self._files.folders, self._files.holds) as trace:
            measured = start()
            server = process()
            opens = self._opens = trace.of(server.pid)
        self._resident_bytes = measure_residency(self._data).resident_bytes
        opened_s = (at_s - server.started_at for at_s in opens.fetched_s)
        phases = with_traced_check(measured.startup.phases, opened_s)
        return replace(measured, startup=replace(measured.startup, phases=phases))

    def result(self) -> OpenedFiles:
        """Returns the counts of opened and modified files.

        Call it after the clean shutdown that follows the traced start: only then the files contain all that was
        recovered."""
        assert self._opens is not None, "nothing was traced"
        assert self._before is not None, "a server ended before the traced one began"
        checkpoint, began_s = self._before
        modified = modified_since(self._files, checkpoint, written_after_s=began_s)
        return OpenedFiles(
            tablespaces_opened=len(self._opens.files),
            tablespace_opens=self._opens.count,
            tablespaces_modified=len(modified),
            opened_unmodified=len(self._opens.files - modified),
            tablespaces_read=len(self._opens.read),
            read_unmodified=len(self._opens.read - modified),
            traced_by=self._opens.means,
            resident_after_bytes=self._resident_bytes,
        )
