"""Estimates how long a start still scans and applies redo: both together, over all batches and passes.

A server that cannot keep all records in memory applies them in batches: it scans a piece of the log, applies it, and
scans on. MySQL 5.7 first scans such a log to its end without applying anything, and begins again. So the time left has
two parts: what is left to scan, at the speed of this pass, and what is left to apply, at the speed of the batches so
far. Nothing is known of the second one until a batch is under way. It reads no clock and no file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

Points = Sequence[tuple[float, float]]
"""Times, and how much was done then."""
SCAN_STEP_BYTES = 6 << 20
"""MySQL logs the position of its scan of redo every 5 MiB."""


class _Kind(Enum):
    POSITION = "position"
    BATCH = "batch"
    PERCENT = "percent"
    APPLIED = "applied"


_LINES = tuple(
    (hint, re.compile(pattern, re.ASCII), kind)
    for hint, pattern, kind in (
        ("scanned up to", r"scanned up to log sequence number (\d{1,18})\b", _Kind.POSITION),
        ("redo log up to", r"(?:Read|Parsed) redo log up to LSN=(\d{1,18})\b", _Kind.POSITION),
        ("Starting an apply batch", r"()", _Kind.BATCH),
        ("Applying a batch of", r"Applying a batch of (\d{1,18}) ", _Kind.BATCH),
        ("batch to recover", r"batch to recover\s+(\d{1,18}) pages", _Kind.BATCH),
        ("To recover: LSN", r"To recover: LSN (\d{1,18})/\d+; ", _Kind.POSITION),
        ("To recover", r"To recover: (?:LSN [\d/]+; )?(\d{1,18}) pages", _Kind.BATCH),
        ("Progress in percent:", r":(?: \d{1,3})*? (\d{1,3})\s*$", _Kind.PERCENT),
        ("MY-012533", r"\[InnoDB\] (\d{1,3})%", _Kind.PERCENT),
        ("pply batch completed", r"()", _Kind.APPLIED),
    )
)


@dataclass(frozen=True)
class RedoLeft:
    """What is left of redo."""

    scan_s: float
    """Time left of the scan, by the speed of this pass so far."""
    applied: Points
    """How much redo was applied, by the time for which batches were under way."""
    clock_s: float
    """That time until now."""
    total: int
    """Bytes of redo."""
    pages: int | None
    """Of the batch under way, where they are counted by what the process reads; some need no read."""


@dataclass
class RedoWork:
    """Follows scan and batches of one start."""

    _events: list[tuple[float, _Kind, int]] = field(default_factory=list)

    def add_line(self, text: str, at_s: float, *, complete: bool) -> None:
        for hint, pattern, kind in _LINES:
            # Of a line of percentages that was read as a whole, it is not known when each was written.
            is_whole = kind is _Kind.PERCENT and complete and "MY-" not in text
            if hint in text and not is_whole and (match := pattern.search(text)) is not None:
                self._events.append((at_s, kind, int(match[1] or 0)))

    def is_first_batch(self, begin_s: float) -> bool:
        return all(at_s >= begin_s for at_s, kind, _ in self._events if kind is _Kind.BATCH)

    def left(
        self,
        now_s: float,
        begin_lsn: int | None,
        total: int | None,
        read_pages: Callable[[float, float], Points] | None,
    ) -> RedoLeft | None:
        """Returns what is left, or None as long as nothing was applied. `begin_lsn` and `total` are of the redo log;
        `read_pages` returns how many pages the process has read since a moment, at each of its samples until another.
        """
        if begin_lsn is None or not total:
            return None
        state = _State(total, counts_pages=read_pages is not None)
        for at_s, kind, number in tuple(self._events):
            if kind is _Kind.POSITION:
                state.scanned_to(at_s, number - begin_lsn)
            elif kind is _Kind.BATCH:
                state.begin_batch(at_s, number)
            elif kind is _Kind.PERCENT:
                state.apply_percent(at_s, number)
            else:
                state.end_batch(at_s)
        batch = state.batch
        if batch is not None and batch.pages and read_pages is not None:
            for at_s, read in read_pages(batch.begin_s, now_s):
                state.apply(at_s, min(_ALMOST_ALL, read / batch.pages))
        if len(state.points) == 1:
            return None
        clock_s = state.clock_s + (0.0 if batch is None else now_s - batch.begin_s)
        pages = batch.pages if batch is not None and read_pages is not None else 0
        return RedoLeft(state.scan_left_s, state.points, clock_s, total, pages or None)


_ALMOST_ALL = 0.99
"""The share of a batch that is done, at most, until the log says that all is."""


@dataclass(frozen=True)
class _Batch:
    begin_s: float
    pages: int
    """0 if the log does not tell."""
    end: int
    """The position up to which it applies redo."""


@dataclass
class _State:
    """How far scan and batches are. Positions are bytes after the checkpoint."""

    total: int
    counts_pages: bool
    batch: _Batch | None = None
    clock_s: float = 0.0
    """The time for which batches that have ended were under way."""
    points: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])
    _position: int = 0
    _applied: float = 0.0
    _scan_s: float = 0.0
    _scanned: int = 0
    """Bytes scanned in that time, in this pass."""
    _last_s: float | None = None

    @property
    def scan_left_s(self) -> float:
        return max(0, self.total - self._position) * self._scan_s / self._scanned if self._scanned else 0.0

    def scanned_to(self, at_s: float, position: int) -> None:
        if not 0 <= position <= self.total + SCAN_STEP_BYTES:
            return
        if self.batch is not None:
            if position <= self.batch.end:
                return
            self.end_batch(at_s)  # MariaDB logs only that the next one begins
        if position < self._position and not self._applied:
            self._scan_s, self._scanned = 0.0, 0  # the second scan begins
        elif self._last_s is not None:
            self._scan_s += at_s - self._last_s
            self._scanned += max(0, position - self._position)
        self._position, self._last_s = position, at_s

    def begin_batch(self, at_s: float, pages: int) -> None:
        if self.batch is not None:
            if self.batch.end >= self.total or pages in (0, self.batch.pages):
                return  # MariaDB repeats how many pages there are
            self.end_batch(at_s)
            self._position = self.total  # of the last batch, it logs no position
        if self._last_s is not None:
            self._scan_s += at_s - self._last_s
        if self._position == 0 or self.total - self._position < SCAN_STEP_BYTES:
            self._position = self.total
        self.batch = _Batch(at_s, pages, self._position)

    def apply_percent(self, at_s: float, percent: int) -> None:
        if self.batch is not None and not (self.batch.pages and self.counts_pages):
            self.apply(at_s, min(percent, 100) / 100)

    def apply(self, at_s: float, share: float) -> None:
        """Takes the share of the batch that is done."""
        assert self.batch is not None
        at = self.clock_s + at_s - self.batch.begin_s
        self.points.append((at, self._applied + share * (self.batch.end - self._applied)))

    def end_batch(self, at_s: float) -> None:
        if self.batch is not None:
            self.apply(at_s, 1.0)
            self.clock_s, self._applied = self.points[-1]
            self.batch, self._last_s = None, at_s
