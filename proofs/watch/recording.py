"""One recorded start: what an observer saw of it, and what is known of it otherwise. Stored as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from recovery.linux.files import write_atomically
from recovery.logs.start_progress import ProcessSample, Totals
from recovery.model import RedoSpan

SUFFIX = ".json"


@dataclass(frozen=True)
class Conditions:
    """What was in the way of a start, and what it had to do."""

    state: str
    """What the crash left: a name of `states.STATES`."""
    cache: str
    """`cold` or `warm`."""
    read_iops: int | None = None
    """Limit of reads a second."""
    is_stopped: bool = False
    """Whether the server was stopped (SIGSTOP) for some seconds."""
    is_blocked: bool = False
    """Whether its storage answered no reads for some seconds."""

    @property
    def name(self) -> str:
        limit = "" if self.read_iops is None else f"-{self.read_iops}"
        halt = f"{'-stopped' if self.is_stopped else ''}{'-blocked' if self.is_blocked else ''}"
        return f"{self.state}-{self.cache}{limit}{halt}"


@dataclass
class Recording:
    """A start. All times are seconds since the exec of the server."""

    version: str
    """As it was asked for."""
    conditions: Conditions
    tables: int
    settings: dict[str, str]
    recorded_at: str
    files: int
    """Number of .ibd files."""
    checkpoint_lsn: int | None
    end_lsn: int | None
    """Of the redo log before the start."""
    page_bytes: int
    release: str = ""
    """What the server calls itself."""
    direct_io: bool = False
    startup_s: float | None = None
    """Time to the ready line, as the tool measures it."""
    lines: list[tuple[float, str, bool]] = field(default_factory=list)
    """Arrival, text, and whether the line was complete."""
    samples: list[tuple[Any, ...]] = field(default_factory=list)
    """The fields of a `ProcessSample`."""
    rows: list[tuple[float, int]] = field(default_factory=list)
    """Rows that the rollback after ready had still to undo."""
    stopped: tuple[float, float] | None = None
    """When the server was stopped by a signal, or its storage blocked, and when it went on."""
    watch_cpu_s: float = 0.0
    """CPU time of the recorder."""

    @property
    def name(self) -> str:
        return f"{self.version}-{self.conditions.name}"

    @property
    def totals(self) -> Totals:
        span = None
        if self.checkpoint_lsn is not None and self.end_lsn is not None:
            span = RedoSpan(self.checkpoint_lsn, self.end_lsn)
        return Totals(self.files, span, self.page_bytes, self.direct_io)

    def process_samples(self) -> Sequence[ProcessSample]:
        return [ProcessSample(*values) for values in self.samples]

    def write(self, folder: Path) -> None:
        text = json.dumps(asdict(self), separators=(",", ":"))
        write_atomically(file_of(folder, self.version, self.conditions), text.encode())


def file_of(folder: Path, version: str, conditions: Conditions) -> Path:
    return folder / f"{version}-{conditions.name}{SUFFIX}"


def read_recording(path: Path) -> Recording:
    stored = json.loads(path.read_bytes())
    stored["conditions"] = Conditions(**stored["conditions"])
    return Recording(**stored)
