"""Estimates how far a start has come, and how long its current phase still takes.

It reads no clock and no file: lines of the log, samples of the process and the totals are fed to it, so that a recorded
start can be replayed. All times are of one clock, which the caller chooses.

Progress comes in steps. The time left is counted from the last step, and the time since then is subtracted, at most the
usual time between two steps, and only while the process does anything: the time left of a server that stands still
never falls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from recovery.analysis.phase_names import (
    DICTIONARY_READ,
    DIRECTORY_LISTING,
    DISCOVERY,
    FILE_CHECK,
    FILE_SCAN,
    JOIN,
    ORDER,
    REDO_APPLY,
    REDO_SCAN,
    ROLLBACK,
    UNNAMED,
    VALIDATION,
)
from recovery.mysqld.error_log import MAX_SEARCHED_CHARS, EventKind, Milestone, classify, is_error, milestone_of
from recovery.mysqld.log_analysis import version_of
from recovery.mysqld.phases import FileAccess, PhaseTracker

if TYPE_CHECKING:
    from recovery.model import Version
    from recovery.mysqld.redo_log import RedoSpan

PAGE_FLUSH = "page flush"
"""8.0 and later write all recovered pages after "Apply batch completed!", and log nothing of it. Reports call this time
`unnamed`, since they cannot tell how much of it the flush took."""

# --- What is fed


@dataclass(frozen=True)
class ProcessSample:
    """Counters of a process since it was created, as /proc/PID/io and /proc/PID/stat have them. One that this user may
    not read is None."""

    at_s: float
    syscr: int | None = None
    rchar: int | None = None
    wchar: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    cpu_s: float | None = None
    state: str | None = None
    """The letter of /proc/PID/stat: `R`, `S`, `D` (waits for storage), `T` (stopped by a signal)."""

    @property
    def io(self) -> tuple[int | None, ...]:
        return self.syscr, self.rchar, self.wchar, self.read_bytes, self.write_bytes


@dataclass(frozen=True)
class Totals:
    """What there is to do, as far as the files show. A value that is not known is None."""

    files: int | None = None
    """Number of .ibd files."""
    redo: RedoSpan | None = None
    """The part of the redo log after the last checkpoint."""
    page_bytes: int = 16384
    direct_io: bool = False
    """Whether the server reads and writes pages without the page cache (O_DIRECT)."""


# --- The table: what is counted in each phase


class Unit(Enum):
    FILES = "files"
    BYTES = "bytes"
    PAGES = "pages"
    PERCENT = "%"
    ROWS = "rows"


class Claim(Enum):
    """Whether a time left is shown, by how well it was measured."""

    RANGE = "a range"
    AT_MOST = "at most"
    NONE = "none"


@dataclass(frozen=True)
class CountedPhase:
    """A phase of which the progress can be counted: a row of the table."""

    phase: str
    unit: Unit
    counter: Callable[[ProcessSample, Totals], float | None] | None
    """Counts in a sample of the process; None: only lines of the log count."""
    claim: Claim
    errors: tuple[float, float, float]
    """Nine of ten truths were not more than this share above the estimated time left, and not further below it than its
    inverse, when 25, 50 and 75 % were done."""
    passes_before: int = 0
    """How often the server has read every file before this phase."""
    skipped_s: float = 0.0
    """Time at the beginning of the phase in which something else is done."""


def _read_calls(sample: ProcessSample, _: Totals) -> float | None:
    return sample.syscr


def _bytes_read(sample: ProcessSample, _: Totals) -> float | None:
    return sample.rchar


def _pages_read(sample: ProcessSample, totals: Totals) -> float | None:
    if sample.read_bytes is None or not totals.direct_io:
        return None
    return sample.read_bytes / totals.page_bytes


def _pages_written(sample: ProcessSample, totals: Totals) -> float | None:
    """Pages are written by asynchronous I/O, which `wchar` does not count, and the logs by calls, which it does."""
    if sample.write_bytes is None or sample.wchar is None or not totals.direct_io:
        return None
    return (sample.write_bytes - sample.wchar) / totals.page_bytes


TABLE = (
    CountedPhase(DISCOVERY, Unit.FILES, _read_calls, Claim.RANGE, (0.35, 0.35, 0.35)),
    CountedPhase(FILE_SCAN, Unit.FILES, _read_calls, Claim.RANGE, (0.35, 0.30, 0.30)),
    CountedPhase(REDO_SCAN, Unit.BYTES, _bytes_read, Claim.AT_MOST, (1.0, 1.0, 1.0)),
    CountedPhase(REDO_APPLY, Unit.PAGES, _pages_read, Claim.AT_MOST, (1.0, 1.0, 1.0)),
    CountedPhase(VALIDATION, Unit.FILES, _read_calls, Claim.RANGE, (0.40, 0.35, 0.30)),
    CountedPhase(PAGE_FLUSH, Unit.PAGES, _pages_written, Claim.RANGE, (0.30, 0.30, 0.40)),
    CountedPhase(FILE_CHECK, Unit.FILES, _read_calls, Claim.RANGE, (1.2, 0.8, 0.4), passes_before=1, skipped_s=2.0),
    CountedPhase(ROLLBACK, Unit.ROWS, None, Claim.RANGE, (0.40, 0.25, 0.15)),
)
"""The phases in their order. Errors: facts of prototypes, to be replaced by those of the bench."""

# --- What comes out


@dataclass(frozen=True)
class TimeLeft:
    """The time left of a phase: the range that holds nine of ten truths."""

    least_s: float
    most_s: float
    about_s: float | None
    """The estimate; None if only "at most" can be said."""


@dataclass(frozen=True)
class PhaseAhead:
    """A phase that is still to come, and how much there is to do in it, if that is known."""

    phase: str
    total: int | None
    unit: Unit


@dataclass(frozen=True)
class Progress:
    """How far a start has come. A value that is not known is None."""

    phase: str | None
    """None if no line of the log shows a phase yet."""
    done: float | None
    total: int | None
    unit: Unit | None
    """None if nothing is counted in this phase."""
    rate: float | None
    """Per second."""
    since_s: float
    """Time in the phase."""
    left_s: TimeLeft | None
    progress_at_s: float
    """The last moment at which the log, the I/O or the CPU time of the process moved, on the caller's clock."""
    ahead: tuple[PhaseAhead, ...]
    ready: bool
    failure: str | None
    """The line with which the server said that its start failed."""


class StartProgress:
    """Follows one start of a server. Feed it every line and sample, in the order of their times, and ask for
    `progress()` at any moment."""

    def __init__(self, version: Version | None = None, started_s: float = 0.0, totals: Totals | None = None) -> None:
        """`started_s` is the beginning of the start: the first line or, better, the creation of the process."""
        self.tracker = PhaseTracker(version, started_s)
        self.totals = totals or Totals()
        """May be replaced as more becomes known."""
        self.ready_s: float | None = None
        """When the server became ready."""
        self.failure: str | None = None

    def add_line(self, text: str, at_s: float, *, complete: bool = True) -> None:
        """Takes a line of the log. One that is still being written is given again when it has grown."""
        raise NotImplementedError

    def add_sample(self, sample: ProcessSample) -> None:
        raise NotImplementedError

    def add_rows_to_undo(self, at_s: float, rows: int) -> None:
        """Takes the number of rows that the rollback after ready has still to undo: the sum of `trx_rows_modified` in
        information_schema.innodb_trx where `trx_mysql_thread_id` is 0."""
        raise NotImplementedError

    def progress(self, now_s: float) -> Progress:
        raise NotImplementedError
