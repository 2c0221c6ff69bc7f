"""Which starts does this error log hold, clean or crash, and where did each one's time go? Lines in, starts out.

Nothing is known of the log but its text: it may begin and end anywhere, hold several servers, and have lines that are
torn. Times are the server's own stamps, so the time before its first line is in no figure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from recovery.errors import UsageError
from recovery.measured import Phase
from recovery.model import Flavor, Version
from recovery.server.counted import counts_of, progress_of
from recovery.server.errorlog import Kind, classify
from recovery.server.marks import Mark, mark_of
from recovery.server.phases import BESIDE, Generation, Server, Sighting, generation_of, is_news, phases_of, standing
from recovery.server.stamps import Stamp, stamp_of_any
from recovery.versions import parse_version

_VERSION = re.compile(
    r"\((?:mysqld|mariadbd)\S* (\d+\.\d+\.\d+[^\s)]*)\) (?:starting|initializing)"
    r"|Starting MariaDB (\d+\.\d+\.\d+\S*)|Version: '(\d+\.\d+\.\d+[^']*)'",
    re.ASCII,
)
_VERSION_HINTS = ("(mysqld", "(mariadbd", "Starting MariaDB", "Version: ")
_BEGIN = {Mark.SAFE, Mark.ANNOUNCED, Mark.STARTING, Mark.INITIALIZING}
_BEFORE = {Mark.SAFE, Mark.ANNOUNCED}
"""Followed by the server's own first word, which is of the same start."""
_EARLY = (Mark.INNODB, Mark.SCAN, Mark.POOL)
_WITHIN = {Mark.POOLED, Mark.SYSTEM, Mark.REDO, Mark.CHECKPOINT, Mark.DISCOVER, Mark.READY}
"""Marks of no running server: one that comes by itself is the rest of a start whose beginning is not in the log."""
_MOST_SIGHTINGS = 4096
"""Of one start: more come only from a log that is not one server's."""
_DEBIAN = "(Debian)"
_MOST_TEXT = 300


@dataclass(frozen=True)
class Start:
    line: int
    """Where it begins: what mysqld_safe says before it is in no time."""
    at: str | None
    """Its first stamp, as it stands there."""
    version: str | None
    kind: str
    """crash, clean, initialize, or `not told`: 8.0 and later say it only at --log-error-verbosity=3."""
    outcome: str
    """ready, failed, cut (the log or the server ended before), or ended (it made a data directory)."""
    reason: str | None
    startup_s: float | None
    """From its first line to the ready line, or to its last line where it is not ready."""
    whole_seconds: bool
    phases: tuple[Phase, ...]
    beside: tuple[Phase, ...]
    """What threads of the server did meanwhile, and beyond."""
    counts: dict[str, int]
    standing: str | None
    """The phase it was in when the log ended, and how far that had come."""


@dataclass
class _Open:
    line: int
    headless: bool = False
    by_safe: bool = False
    """Only mysqld_safe has said something so far."""
    first: Stamp | None = None
    last: Stamp | None = None
    whole: bool = False
    version: Version | None = None
    crashed: bool = False
    sightings: list[Sighting] = field(default_factory=list)
    seen: set[Mark] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    progress: str | None = None
    outcome: str = "cut"
    reason: str | None = None
    end: Stamp | None = None
    beside: dict[str, tuple[float, float | None]] = field(default_factory=dict)


class Starts:
    """Takes a log line by line; gives each start as soon as nothing more can be said of it."""

    def __init__(self) -> None:
        self._open: _Open | None = None
        """The start under way."""
        self._ended: _Open | None = None
        """The one before it: threads of its own may still work, and its version may come on the next line."""

    @property
    def idle(self) -> bool:
        """No start is under way: of the lines to come, only those matter that could begin one."""
        return self._open is None

    def take(self, number: int, text: str) -> list[Start]:
        mark = mark_of(text) or self._ready_in_any_language(text)
        given = self._begin(number, mark) if mark is not None else []
        start = self._open
        if start is None:
            self._after(mark, text)
            return given
        if start.by_safe and mark is not Mark.SAFE and "mysqld_safe" not in text:
            start.by_safe, start.first, start.sightings = False, None, []
        stamp = _note_stamp(start, text)
        if mark is not None:
            _note_mark(start, mark, stamp)
        _note_text(start, text)
        self._judge(start, mark, text)
        return given

    def _ready_in_any_language(self, text: str) -> Mark | None:
        """Up to 5.7 and in MariaDB the ready line is translated, and this one, which follows it, is not."""
        under_way = self._open is not None and Mark.READY not in self._open.seen
        return Mark.READY if under_way and text.startswith("Version: '") else None

    def finish(self) -> list[Start]:
        """The log ends here."""
        return [*self._close(), *self._give()]

    def _begin(self, number: int, mark: Mark) -> list[Start]:
        """A new start, where this line is of one."""
        start = self._open
        if start is None:
            begins = mark in _BEGIN or mark in _EARLY or mark in _WITHIN
            headless = mark in _WITHIN
        else:
            begins = mark in _BEGIN and (mark in start.seen or not start.seen <= _BEFORE)
            begins = begins or (mark is Mark.POOL and mark in start.seen)
            headless = False
        if not begins:
            return []
        given = [*self._close(), *self._give()]
        self._open = _Open(number, headless, by_safe=mark is Mark.SAFE)
        return given

    def _after(self, mark: Mark | None, text: str) -> None:
        """A line between starts: of the last one's threads, or of its version."""
        if self._ended is None:
            return
        if mark is not None:
            _note_beside(self._ended, mark, stamp_of_any(text))
        if self._ended.version is None:
            self._ended.version = _version_of(text)

    def _judge(self, start: _Open, mark: Mark | None, text: str) -> None:
        event = classify(text)
        if mark is Mark.READY:
            start.outcome = "ready"
        elif event is not None and event.kind is Kind.FAILURE:
            start.outcome, start.reason = "failed", text.strip()[:_MOST_TEXT]
        elif event is not None and event.kind is Kind.SHUTDOWN:
            start.reason = "it was shut down before it was ready"
        elif event is not None:
            start.crashed = True
            return
        else:
            return
        start.end = start.last
        self._open, self._ended = None, start

    def _close(self) -> list[Start]:
        """What was under way has come to nothing."""
        if self._open is None:
            return []
        given = self._give()
        self._open, self._ended = None, self._open
        return given

    def _give(self) -> list[Start]:
        ended, self._ended = self._ended, None
        return [] if ended is None else [_start_of(ended)]


def _note_stamp(start: _Open, text: str) -> Stamp | None:
    stamp = stamp_of_any(text)
    if stamp is not None:
        start.first = start.first or stamp
        start.last = stamp
        start.whole = start.whole or stamp.whole
    return stamp


def _note_mark(start: _Open, mark: Mark, stamp: Stamp | None) -> None:
    start.seen.add(mark)
    last = start.sightings[-1] if start.sightings else None
    news = last is None or last.at_s is None or is_news(mark, last.mark)
    if news and len(start.sightings) < _MOST_SIGHTINGS:
        start.sightings.append(Sighting(mark, None if stamp is None else stamp.at_s))
    _note_beside(start, mark, stamp)


def _note_text(start: _Open, text: str) -> None:
    for name, count in counts_of(text):
        start.counts[name] = count
    start.progress = progress_of(text) or start.progress
    start.version = _version_of(text) or start.version


def _note_beside(start: _Open, mark: Mark, stamp: Stamp | None) -> None:
    if mark not in BESIDE or stamp is None:
        return
    name, begins = BESIDE[mark]
    if begins:
        start.beside[name] = (stamp.at_s, None)
    elif name in start.beside and start.beside[name][1] is None:
        start.beside[name] = (start.beside[name][0], stamp.at_s)


def _version_of(text: str) -> Version | None:
    if not any(hint in text for hint in _VERSION_HINTS):
        return None
    match = _VERSION.search(text[:_MOST_TEXT])
    try:
        found = parse_version(next(filter(None, match.groups()))) if match is not None else None
    except UsageError:
        return None
    if found is not None and found.flavor is Flavor.PERCONA and _DEBIAN in text:
        return replace(found, flavor=Flavor.MYSQL)  # Debian counts its builds of MySQL as Percona counts its own
    return found


def _start_of(start: _Open) -> Start:
    ready = start.outcome == "ready"
    server = Server(generation_of(start.version, start.seen), start.crashed)
    first, end = start.first, start.end or start.last
    startup_s = None if first is None or end is None or start.headless else max(0.0, end.at_s - first.at_s)
    phases: tuple[Phase, ...] = ()
    beside: tuple[Phase, ...] = ()
    if first is not None and startup_s is not None:
        since = [
            Sighting(sighting.mark, None if sighting.at_s is None else sighting.at_s - first.at_s)
            for sighting in start.sightings
        ]
        phases = phases_of(since, (0.0, startup_s), server=server, ready=ready)
        beside = tuple(
            Phase(name, begun_s - first.at_s, max(begun_s, ended_s) - first.at_s)
            for name, (begun_s, ended_s) in start.beside.items()
            if ended_s is not None
        )
    where = None if ready else standing(start.sightings, server)
    return Start(
        line=start.line,
        at=None if first is None else first.text,
        version=str(start.version) if start.version else None,
        kind=_kind(start, server.generation),
        outcome="ended" if Mark.INITIALIZING in start.seen and start.outcome == "cut" else start.outcome,
        reason=start.reason,
        startup_s=startup_s,
        whole_seconds=start.whole,
        phases=phases,
        beside=beside,
        counts=dict(start.counts),
        standing=f"{where} ({start.progress})" if where and start.progress else where,
    )


def _kind(start: _Open, generation: Generation) -> str:
    if Mark.INITIALIZING in start.seen:
        return "initialize"
    if start.crashed:
        return "crash"
    # Before the redo log was looked at nobody knows, nor where the server does not tell what it finds there.
    looked = start.seen & {Mark.APPLIED, Mark.SEGMENTS, Mark.UNDO, Mark.STARTED}
    quiet = generation is Generation.DICTIONARY and not start.seen & {Mark.SCAN, Mark.POOL}
    return "clean" if looked and not quiet and not start.headless else "not told"
