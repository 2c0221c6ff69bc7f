"""Which tables' files did a start touch, and which had to be? The answer to the documented claim, with both numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from recovery.host.modified import modified_since
from recovery.host.opens import Opens, OpenTrace
from recovery.host.pagecache import residency
from recovery.host.redo import checkpoint_lsn
from recovery.host.tablefiles import TableFiles
from recovery.measured import Startup, Touched

_COARSE_S = 1.0
"""By how much a file's time may lie before the clock's."""


class Tracer:
    """Of one server over one data directory, from one end of it to what its next start made of that."""

    def __init__(self, data: Path, files: TableFiles) -> None:
        self._data = data
        self._files = files
        self._began_s = 0.0
        self._ended: tuple[int, float] | None = None
        """The checkpoint that the last server left, and when that server had begun."""
        self._before: tuple[int, float] | None = None
        """The same of the one before the timed start."""
        self._opens: Opens | None = None
        self._resident_bytes: int | None = None

    def began(self) -> None:
        """A server is about to start."""
        self._began_s = time.time() - _COARSE_S

    def ended(self) -> None:
        """It is gone, killed or not: what its next start has to recover lies behind the checkpoint."""
        self._ended = checkpoint_lsn(self._data), self._began_s

    def traced(self, start: Callable[[], Startup], pid: Callable[[], int]) -> Startup:
        """The timed start, with all that it opens until its first answer."""
        self._before = self._ended
        with OpenTrace(self._files) as trace:
            startup = start()
            self._opens = trace.of(pid())
        self._resident_bytes = residency(self._data).resident_bytes
        return startup

    def found(self) -> Touched:
        """Once the server has shut down cleanly after the traced start: then all that it recovered is in the files."""
        assert self._opens is not None, "nothing was traced"
        assert self._before is not None, "a server ended before the traced one began"
        checkpoint, began_s = self._before
        modified = modified_since(self._files, checkpoint, written_after_s=began_s)
        return Touched(
            opened=len(self._opens.files),
            opens=self._opens.count,
            modified=len(modified),
            opened_unmodified=len(self._opens.files - modified),
            read=len(self._opens.read),
            read_unmodified=len(self._opens.read - modified),
            means=self._opens.means,
            resident_after_bytes=self._resident_bytes,
        )
