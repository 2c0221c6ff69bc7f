"""Finds the server starts in an error log, clean and crash starts, and divides the time of each into phases.

Only the text of the log is known: it may begin and end anywhere, have the lines of several servers, and have torn
lines. Times are the server's own stamps, so the time before its first line is not included."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, cast

from recovery.errors import UsageError
from recovery.model import Flavor, Phase, Version, parse_version
from recovery.mysqld.error_log import EventKind, Milestone, Stamp, classify, milestone_of, parse_stamp, progress_of
from recovery.mysqld.phases import BACKGROUND_MILESTONES, FileAccess, PhaseTracker

_VERSION = re.compile(
    r"\((?:mysqld|mariadbd)\S* (\d+\.\d+\.\d+[^\s)]*)\) (?:starting|initializing)"
    r"|Starting MariaDB (\d+\.\d+\.\d+\S*)|Version: '(\d+\.\d+\.\d+[^']*)'",
    re.ASCII,
)
_VERSION_HINTS = ("(mysqld", "(mariadbd", "Starting MariaDB", "Version: ")
_START_MILESTONES = {Milestone.SAFE, Milestone.ANNOUNCED, Milestone.STARTING, Milestone.INITIALIZING}
_BEFORE = {Milestone.SAFE, Milestone.ANNOUNCED}
"""Milestones before the server's own first line, which belongs to the same start."""
_EARLY = (Milestone.INNODB, Milestone.SCAN, Milestone.POOL)
_ONLY_DURING_START = {
    Milestone.POOLED,
    Milestone.SYSTEM,
    Milestone.REDO,
    Milestone.CHECKPOINT,
    Milestone.DISCOVER,
    Milestone.READY,
}
"""Milestones that a running server does not log: one outside a start belongs to a start that began before the log."""
_DEBIAN = "(Debian)"
_MAX_TEXT = 300


@dataclass(frozen=True)
class LoggedStart:
    line: int
    """Number of its first line. If that is a line of mysqld_safe, the time before the server's own first line is not
    counted."""
    at: str | None
    """Its first time stamp, as it is written in the log."""
    version: str | None
    kind: str
    """`crash`, `clean`, `initialize`, or `not told`: 8.0 and later log it only with --log-error-verbosity=3."""
    outcome: str
    """`ready`, `failed`, `cut` (the log or the server ended before) or `ended` (it initialised a data directory)."""
    reason: str | None
    startup_s: float | None
    """From its first line to the ready line, or to its last line if it did not become ready."""
    whole_seconds: bool
    phases: tuple[Phase, ...]
    beside: tuple[Phase, ...]
    """The name in the JSON. Work of the server's background threads, during the start and after it."""
    counts: dict[str, int]
    standing: str | None
    """The phase in which the start ended without becoming ready, with its progress; None if it became ready."""


@dataclass
class _OpenStart:
    line: int
    headless: bool = False
    by_safe: bool = False
    """Only mysqld_safe has logged something so far."""
    first: Stamp | None = None
    last: Stamp | None = None
    whole: bool = False
    tracker: PhaseTracker = field(default_factory=PhaseTracker)
    progress: str | None = None
    outcome: str = "cut"
    reason: str | None = None
    end: Stamp | None = None

    def add(self, milestone: Milestone | None, text: str) -> None:
        stamp = parse_stamp(text)
        if stamp is not None and self.first is None:
            self.first, self.tracker.started_s = stamp, stamp.at_s
        if stamp is not None:
            self.last, self.whole = stamp, self.whole or stamp.whole
        self.tracker.add(text, milestone, None if stamp is None else stamp.at_s)
        self.progress = progress_of(text) or self.progress
        self.tracker.version = _version_of(text) or self.tracker.version


class StartParser:
    """Takes a log line by line, and returns each start as soon as no further line can belong to it."""

    def __init__(self) -> None:
        self._open: _OpenStart | None = None
        """The start under way."""
        self._ended: _OpenStart | None = None
        """The start before it: its background threads may still log, and its version may be on the next line."""

    @property
    def idle(self) -> bool:
        """Whether no start is under way. Then only lines that could begin a start, or add to the last one, matter."""
        return self._open is None

    def take(self, number: int, text: str) -> list[LoggedStart]:
        milestone = milestone_of(text)
        if milestone is None and self._open is not None and text.startswith("Version: '"):
            # This line follows the ready line, which is translated up to 5.7 and in MariaDB.
            milestone = Milestone.READY
        given = self._begin(number, milestone) if milestone is not None else []
        start = self._open
        if start is None:
            self._after(milestone, text)
            return given
        if start.by_safe and milestone is not Milestone.SAFE and "mysqld_safe" not in text:
            start.by_safe, start.first = False, None
            start.tracker.discard_milestones()
        start.add(milestone, text)
        self._judge(start, milestone, text)
        return given

    def finish(self) -> list[LoggedStart]:
        """Returns the starts that are still open at the end of the log."""
        return [*self._close(), *self._give()]

    def _begin(self, number: int, milestone: Milestone) -> list[LoggedStart]:
        """Begins a new start if this line belongs to one, and returns the starts that are complete with that."""
        headless = self._open is None and milestone in _ONLY_DURING_START
        if self._open is None:
            begins = headless or milestone in _START_MILESTONES or milestone in _EARLY
        else:
            seen = self._open.tracker.seen
            begins = milestone in _START_MILESTONES and (milestone in seen or not seen <= _BEFORE)
            begins = begins or (milestone is Milestone.POOL and milestone in seen)
        if not begins:
            return []
        given = self.finish()
        self._open = _OpenStart(number, headless, by_safe=milestone is Milestone.SAFE)
        return given

    def _after(self, milestone: Milestone | None, text: str) -> None:
        """Handles a line between two starts: it may come from the background threads of the last start, or have its
        version."""
        if self._ended is None:
            return
        tracker = self._ended.tracker
        if milestone in BACKGROUND_MILESTONES and (stamp := parse_stamp(text)) is not None:
            tracker.add(text, milestone, stamp.at_s)
        if tracker.version is None:
            tracker.version = _version_of(text)

    def _judge(self, start: _OpenStart, milestone: Milestone | None, text: str) -> None:
        event = classify(text)
        if milestone is Milestone.READY:
            start.outcome = "ready"
        elif event is not None and event.kind is EventKind.FAILURE:
            start.outcome, start.reason = "failed", text.strip()[:_MAX_TEXT]
        elif event is not None and event.kind is EventKind.SHUTDOWN:
            start.reason = "it was shut down before it was ready"
        elif event is not None:
            start.tracker.crashed = True
            return
        else:
            return
        start.end = start.last
        self._open, self._ended = None, start

    def _close(self) -> list[LoggedStart]:
        """Ends the start under way, which did not become ready, and returns the one before it."""
        if self._open is None:
            return []
        given = self._give()
        self._open, self._ended = None, self._open
        return given

    def _give(self) -> list[LoggedStart]:
        ended, self._ended = self._ended, None
        return [] if ended is None else [_start_of(ended)]


def _version_of(text: str) -> Version | None:
    if not any(hint in text for hint in _VERSION_HINTS):
        return None
    match = _VERSION.search(text[:_MAX_TEXT])
    if match is None:
        return None
    try:
        version = parse_version(next(filter(None, match.groups())))
    except ValueError:
        return None
    if version.flavor is Flavor.PERCONA and _DEBIAN in text:
        return replace(version, flavor=Flavor.MYSQL)  # Debian numbers its builds of MySQL as Percona does
    return version


def _start_of(start: _OpenStart) -> LoggedStart:
    ready, tracker = start.outcome == "ready", start.tracker
    first, end = start.first, start.end or start.last
    startup_s = None if first is None or end is None or start.headless else max(0.0, end.at_s - first.at_s)
    where = None if ready else tracker.last_phase
    return LoggedStart(
        line=start.line,
        at=None if first is None else first.text,
        version=str(tracker.version) if tracker.version else None,
        kind=_kind(start),
        outcome="ended" if Milestone.INITIALIZING in tracker.seen and start.outcome == "cut" else start.outcome,
        reason=start.reason,
        startup_s=startup_s,
        whole_seconds=start.whole,
        phases=() if startup_s is None else tracker.phases(startup_s, ready=ready),
        beside=() if startup_s is None else tracker.background_phases(),
        counts=dict(tracker.counts),
        standing=f"{where} ({start.progress})" if where and start.progress else where,
    )


def _kind(start: _OpenStart) -> str:
    seen = start.tracker.seen
    if Milestone.INITIALIZING in seen:
        return "initialize"
    if start.tracker.crashed:
        return "crash"
    # The kind is unknown until the redo log has been read, and if the server does not log what it finds there.
    has_read_redo = seen & {Milestone.APPLIED, Milestone.SEGMENTS, Milestone.UNDO, Milestone.STARTED}
    is_dictionary = start.tracker.context.file_access is FileAccess.SCAN_AND_VALIDATE
    is_quiet = is_dictionary and not seen & {Milestone.SCAN, Milestone.POOL}
    return "clean" if has_read_redo and not is_quiet and not start.headless else "not told"


# --- Reading a log of any size, compressed or not, in little memory
#
# The log of a running server is irrelevant: pieces without any text that could begin a start are skipped without being
# split into lines.

_CHUNK_BYTES = 1 << 18
_LONGEST_LINE_BYTES = 1 << 16
"""Longer lines are cut, so that a log without newlines does not fill the memory."""
_OVERLAP_BYTES = 1 << 10
_ANCHORS = (
    b"as process ", b"Server - start", b"MY-015015", b"mysqld_safe", b"initializ", b"Initializ",
    b"Directories to scan", b"Completed init",
    b"file format is", b"ready for conn", b"rash recovery", b"was not shut", b"not match", b"redo log",
    b"tablespace information", b"checkpoint", b"load completed", b"load aborted", b"ackground the rollback",
    b"Rollback of non", b"Version: ", b"Scanning '", b"size_max=", b"Log scan prog", b"log scan based",
    b"scanned up to", b"End of log", b"Loading buffer", b"ib_buffer_pool",
)  # fmt: skip
"""Every line that matters while no start is under way contains one of these."""


def starts_in(log: BinaryIO, name: str) -> Iterator[LoggedStart]:
    """Yields the starts in a log as they are found. If the log cannot be read to its end, yields the starts before that
    point and then raises UsageError."""
    starts, number, rest = StartParser(), 0, b""
    try:
        unpacked = _decompressed(log)
        while chunk := unpacked.read(_CHUNK_BYTES):
            piece = rest + chunk
            if starts.idle and not any(anchor in piece for anchor in _ANCHORS):
                number += piece.count(b"\n")
                # The end of the piece may cut an anchor in two, so its last, incomplete line is kept.
                rest = piece[piece.rfind(b"\n") + 1 :][-_LONGEST_LINE_BYTES:]
                continue
            *lines, rest = piece.split(b"\n")
            if len(rest) > _LONGEST_LINE_BYTES:
                rest = rest[-_OVERLAP_BYTES:]
            for line in lines:
                number += 1
                yield from starts.take(number, _text(line))
    except (OSError, EOFError, MemoryError, lzma.LZMAError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error) or "it needs too much memory"
        raise UsageError(
            f"{name} cannot be read to its end: {why}",
            "is it whole? Unpack it yourself and pipe it in: `zcat FILE | recovery analyze -`",
        ) from error
    if rest:
        yield from starts.take(number + 1, _text(rest))
    yield from starts.finish()


def open_log(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", "name an error log, or - for standard input"
        ) from error


def _decompressed(log: BinaryIO) -> io.BufferedIOBase:
    """Returns the log, decompressed if its first bytes show a compressed format. Its name is not used: standard input
    has none."""
    buffered = cast("io.BufferedReader", log if hasattr(log, "peek") else io.BufferedReader(cast("io.RawIOBase", log)))
    head = buffered.peek(6)[:6]
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=buffered)
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(buffered)
    if head.startswith(b"BZh"):
        return bz2.BZ2File(buffered)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        raise UsageError(
            "the log is compressed by zstd, which cannot be unpacked here", "zstdcat FILE | recovery analyze -"
        )
    return buffered


def _text(line: bytes) -> str:
    return line[:_LONGEST_LINE_BYTES].decode("utf-8", errors="replace").rstrip("\r")
