"""Divides the time of a start into phases, from the marks in its log, with the same names for every server generation.

A phase is the time between two marks. It is named by the mark that opens it. Where a server logs nothing about some
work, the phase is named by the gap in which that work is known to happen: 5.7.22 reads every file between "Apply batch
completed" and its next line. Where no line separates two kinds of work, both are named (`redo apply + validation`), and
where nothing is known to bound the time, it is `unnamed`. Phases never overlap, and add up to the whole start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from recovery.analysis.phase_names import (
    BINLOG_RECOVERY,
    BUFFER_POOL,
    BUFFER_POOL_LOAD,
    DICTIONARY,
    DISCOVERY,
    FIRST_QUERY,
    JOIN,
    PROCESS_START,
    REDO_APPLY,
    REDO_SCAN,
    REST_TO_READY,
    ROLLBACK,
    SYSTEM_FILES,
    UNDO_AND_TEMP,
    UNNAMED,
    UPGRADE,
    VALIDATION,
)
from recovery.model import Flavor, Phase, Version, can
from recovery.mysqld.error_log import Milestone, log_counters, microsecond_stamp, milestone_of, progress_of


@dataclass(frozen=True)
class CurrentPhase:
    """The current phase of a starting server, as far as its log shows."""

    phase: str | None
    """None if no line of the log shows a phase yet."""
    since_s: float
    """Beginning of the phase, on the monotonic clock."""
    progress: str | None = None
    """Progress within the phase, as the server reports it; None if it reports none."""


_MAX_SIGHTINGS = 4096
"""Highest number of marks in one start: only a log that is not from one server has more."""


class Generation(Enum):
    """What a server does with every file when it starts after a crash, and at which point."""

    BEFORE_REDO = "opens every file before redo, by itself"
    SILENT = "reads every file after redo, without a log line"
    DICTIONARY = "scans before redo and validates after it, with log lines"
    NONE = "opens the files that the redo log names"


@dataclass(frozen=True)
class StartTraits:
    """What must be known about a start to name its phases."""

    generation: Generation
    crashed: bool


@dataclass(frozen=True)
class Sighting:
    """A mark and the time when it was seen. The time is None, unknown, if the line has no stamp."""

    mark: Milestone
    at_s: float | None
    late_s: float = 0.0
    """Seconds from the stamp of the line to its arrival."""


_PHASE_OPENED_BY: dict[Milestone, str] = {
    Milestone.STARTING: PROCESS_START,
    Milestone.SAFE: PROCESS_START,
    Milestone.ANNOUNCED: PROCESS_START,
    Milestone.INITIALIZING: PROCESS_START,
    Milestone.INNODB: PROCESS_START,
    Milestone.SCAN: DISCOVERY,
    Milestone.SCANNED: PROCESS_START,
    Milestone.POOL: BUFFER_POOL,
    Milestone.POOLED: SYSTEM_FILES,
    Milestone.SYSTEM: REDO_SCAN,
    Milestone.REDO: REDO_SCAN,
    Milestone.CHECKPOINT: REDO_SCAN,
    Milestone.DISCOVER: DISCOVERY,
    Milestone.RESTORE: REDO_SCAN,
    Milestone.APPLY: REDO_APPLY,
    Milestone.SEGMENTS: UNDO_AND_TEMP,
    Milestone.UNDO: UNDO_AND_TEMP,
    Milestone.DICTIONARY: DICTIONARY,
    Milestone.VALIDATE: VALIDATION,
    Milestone.VALIDATED: DICTIONARY,
    Milestone.DICTIONARY_READ: REST_TO_READY,
    Milestone.UPGRADE: UPGRADE,
    Milestone.UPGRADED: REST_TO_READY,
    Milestone.BINLOG: BINLOG_RECOVERY,
    Milestone.BINLOG_READ: REST_TO_READY,
}
BACKGROUND_MILESTONES = {
    Milestone.POOL_LOAD: (BUFFER_POOL_LOAD, True),
    Milestone.POOL_LOADED: (BUFFER_POOL_LOAD, False),
    Milestone.ROLLBACK: (ROLLBACK, True),
    Milestone.ROLLED_BACK: (ROLLBACK, False),
}
"""Marks of the server's background threads: the name of the phase, and whether it begins with this mark."""
_REDO = {
    Milestone.SYSTEM,
    Milestone.REDO,
    Milestone.CHECKPOINT,
    Milestone.DISCOVER,
    Milestone.RESTORE,
    Milestone.APPLY,
    Milestone.APPLIED,
}
_UNDO = {Milestone.SEGMENTS, Milestone.UNDO}
_AFTER_REDO = _UNDO | {Milestone.STARTED}
_EARLY = {
    Milestone.STARTING,
    Milestone.SAFE,
    Milestone.ANNOUNCED,
    Milestone.INITIALIZING,
    Milestone.INNODB,
    Milestone.SCANNED,
}
_AFTER_EARLY = _EARLY | _REDO | {Milestone.SCAN, Milestone.POOL, Milestone.POOLED}
_OF_DICTIONARY = {Milestone.DICTIONARY, Milestone.VALIDATE, Milestone.VALIDATED, Milestone.DICTIONARY_READ}
_MAY_END_WITH_READY = {Milestone.DICTIONARY_READ, Milestone.BINLOG_READ, Milestone.UPGRADED}
"""Marks that open a phase which may end with the ready line."""


def generation_of(version: Version | None, marks: Iterable[Milestone] = ()) -> Generation:
    """Returns the generation of a version or, if that is unknown, the one that the marks of its log show. Without a
    version no server is taken for one that works silently."""
    if version is None:
        seen = set(marks)
        if seen & (_OF_DICTIONARY | {Milestone.INNODB, Milestone.SCAN}):
            return Generation.DICTIONARY
        return Generation.BEFORE_REDO if Milestone.DISCOVER in seen else Generation.NONE
    if not can(version, "redo_names_files"):
        return Generation.BEFORE_REDO
    numbers = version.numbers
    if version.flavor is Flavor.MARIADB:
        # Since MDEV-18733 only the files named in the redo log are opened.
        fixed = {(10, 2): 23, (10, 3): 14, (10, 4): 4}.get(numbers[:2])
        return Generation.SILENT if fixed is not None and numbers[2] < fixed else Generation.NONE
    return Generation.SILENT if numbers < (8, 0, 0) else Generation.DICTIONARY


def phases_of(
    sightings: Sequence[Sighting], span_s: tuple[float, float], *, server: StartTraits, ready: bool = True
) -> tuple[Phase, ...]:
    """Returns the phases from the beginning to the end of the span, without gaps. A time that goes backwards is
    replaced by the latest time before it. If the start is not `ready` at the end, the last phase is the one that it is
    still in."""
    (at_s, end_s), found = span_s, []
    opener, unstamped = Milestone.STARTING, list[Milestone]()
    for sighting in (*_bounding_sightings(sightings), Sighting(Milestone.READY, end_s)):
        if sighting.at_s is None:
            unstamped.append(sighting.mark)
            continue
        next_s = min(max(sighting.at_s, at_s), end_s)
        chain = [opener, *unstamped, sighting.mark]
        names = [_phase_name(one, other, server) for one, other in pairwise(chain)]
        found.append(Phase(_join_names(names), at_s, next_s))
        opener, at_s, unstamped = sighting.mark, next_s, []
    if not ready:
        found[-1] = replace(found[-1], name=current_phase(sightings, server))
    return _merge_phases(found)


def current_phase(sightings: Sequence[Sighting], server: StartTraits) -> str:
    """Returns the phase that a server is in at the end of its log: the one that the last mark opens."""
    marks = [sighting.mark for sighting in _bounding_sightings(sightings)]
    last = marks[-1] if marks else Milestone.STARTING
    if last is Milestone.APPLIED:
        return _unlogged_phase(server) or UNNAMED
    if last is Milestone.STARTED:
        return DICTIONARY if server.generation is Generation.DICTIONARY else REST_TO_READY
    if last is Milestone.CHECKPOINT and server.generation is Generation.BEFORE_REDO:
        return DISCOVERY
    if last is Milestone.APPLY and server.generation is Generation.SILENT and Milestone.CHECKPOINT in marks:
        return JOIN.join((REDO_APPLY, VALIDATION))
    return _PHASE_OPENED_BY.get(last, UNNAMED)


def with_first_query(phases: tuple[Phase, ...], answered_s: float) -> tuple[Phase, ...]:
    """Returns the phases with one more for the time from the ready line to the first answer."""
    ready_s = phases[-1].end_s if phases else answered_s
    return (*phases, Phase(FIRST_QUERY, ready_s, max(ready_s, answered_s)))


def _bounding_sightings(sightings: Sequence[Sighting]) -> list[Sighting]:
    """Returns the sightings that bound phases. Those of undo tablespaces after the start of InnoDB are left out: the
    server also recreates them later, within other phases."""
    kept: list[Sighting] = []
    started = False
    for sighting in sightings:
        if (
            sighting.mark in BACKGROUND_MILESTONES
            or sighting.mark is Milestone.READY
            or (started and sighting.mark in _UNDO)
        ):
            continue
        started = started or sighting.mark is Milestone.STARTED
        kept.append(sighting)
    return kept


def _phase_name(opener: Milestone, closer: Milestone, server: StartTraits) -> str:
    if opener is Milestone.APPLIED:
        return _after_redo(closer, server)
    if opener is Milestone.STARTED:
        return _after_innodb(closer, server.generation)
    if opener is Milestone.SEGMENTS and closer is Milestone.UNDO and server.generation is Generation.NONE:
        return DICTIONARY  # looks up each file in it and opens it, without logging that, on clean starts too
    if opener is Milestone.CHECKPOINT and closer is Milestone.RESTORE and server.generation is Generation.BEFORE_REDO:
        return DISCOVERY
    if not _may_bound(opener, closer):
        return UNNAMED
    silent = _unlogged_phase(server) if closer in _AFTER_REDO and opener in _REDO else None
    return _join_names([_PHASE_OPENED_BY.get(opener, UNNAMED), silent or UNNAMED])


def _may_bound(opener: Milestone, closer: Milestone) -> bool:
    """Returns whether `closer` may end the phase that `opener` begins. Where a server logs little, as 8.0 does by
    default, the next line may come long after the end of that phase."""
    if opener in _EARLY:
        return closer in _AFTER_EARLY
    return closer is not Milestone.READY or opener in _MAY_END_WITH_READY


def _after_redo(closer: Milestone, server: StartTraits) -> str:
    if closer in _REDO:
        return REDO_SCAN  # a batch was full, and the scan of the redo log continues
    return (_unlogged_phase(server) if closer in _AFTER_REDO else None) or UNNAMED


def _after_innodb(closer: Milestone, generation: Generation) -> str:
    if generation is not Generation.DICTIONARY:
        return REST_TO_READY
    return DICTIONARY if closer in _OF_DICTIONARY | {Milestone.STARTED} else UNNAMED


def _unlogged_phase(server: StartTraits) -> str | None:
    """Returns the phase that the server does not log, between the end of redo and its next line, or None."""
    if server.generation is Generation.SILENT:
        return VALIDATION if server.crashed else DICTIONARY
    return DICTIONARY if server.generation is Generation.BEFORE_REDO else None


def _join_names(names: Sequence[str]) -> str:
    known = list(dict.fromkeys(part for name in names for part in name.split(JOIN)))
    return JOIN.join([name for name in known if name != UNNAMED] or known)


def _merge_phases(phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """Merges neighbouring phases of the same name, and drops those that took no time."""
    merged: list[Phase] = []
    for phase in phases:
        if merged and merged[-1].name == phase.name:
            merged[-1] = replace(merged[-1], end_s=phase.end_s)
        elif phase.end_s > phase.start_s:
            merged.append(phase)
    return tuple(merged)


# --- Phases of one start, line by line
#
# While a server starts, the arrival of a line counts, because that is one monotonic clock for every server. But a
# server can hold its lines back (8.0.15 does so at every start, nearly until it is ready) and write them together.
# Where its own time stamps are fine enough to show that, all lines of the start are placed at the times of their
# stamps. In a log that was written earlier, there are only the stamps.

HELD_BACK_S = 0.1
"""A line that arrives later than this after its stamp was held back: a reader woken by inotify is a hundred times
faster."""
_MIN_PHASE_S = 1e-3
"""Length given to a phase that has just begun, so that it is not dropped as empty."""


class PhaseTracker:
    """Records what the log shows of one start. It is fed line by line, while the server starts or from a stored log."""

    def __init__(self, version: Version | None = None, started_s: float = 0.0) -> None:
        self.version = version
        """None if the log has not shown it yet."""
        self.started_s = started_s
        """Beginning of the start, on the clock of all times given to the tracker."""
        self.crashed = False
        """Whether the log has shown a crash recovery so far."""
        self.latest = ""
        """The last line, complete or not, for callers in other threads."""
        self.seen: set[Milestone] = set()
        self.counts: dict[str, int] = {}
        """Counters that the server has logged, such as `scan_threads`: the number of threads that scan the files."""
        self._sightings: list[Sighting] = []

    def add_arrival(self, text: str, arrived_s: float, wall_s: float) -> None:
        """Records a complete line when it arrives. `wall_s` is the moment of its arrival on the wall clock."""
        mark = milestone_of(text)
        stamp = microsecond_stamp(text) if mark is not None else None
        self.add(text, mark, arrived_s, late_s=0.0 if stamp is None else max(0.0, wall_s - stamp))

    def add(self, text: str, mark: Milestone | None, at_s: float | None, *, late_s: float = 0.0) -> None:
        """Records a complete line and its mark. Some marks repeat (the position of the redo scan, every few megabytes),
        and a repeated one is left out."""
        self.counts.update(log_counters(text))
        if mark is None:
            return
        self.seen.add(mark)
        last = self._sightings[-1] if self._sightings else None
        is_repeated = last is not None and last.mark is mark and last.at_s is not None
        if mark is not Milestone.READY and not is_repeated and len(self._sightings) < _MAX_SIGHTINGS:
            self._sightings.append(Sighting(mark, at_s, late_s))

    def discard_marks(self) -> None:
        """Forgets the marks so far: they belong to something that ran before the server."""
        self._sightings.clear()

    @property
    def traits(self) -> StartTraits:
        return StartTraits(generation_of(self.version, self.seen), self.crashed)

    @property
    def held_s(self) -> float | None:
        """The longest time for which a line was held back; None if no line was."""
        latest_s = max((sighting.late_s for sighting in self._sightings), default=0.0)
        return latest_s if latest_s > HELD_BACK_S else None

    def phases(self, startup_s: float, *, ready: bool = True) -> tuple[Phase, ...]:
        """Returns the phases. They add up to the startup time."""
        return phases_of(self._since_start(), (0.0, startup_s), server=self.traits, ready=ready)

    def background_phases(self, until_s: float | None = None) -> tuple[Phase, ...]:
        """Returns the phases of background threads. One without an end in the log ends at `until_s`, or is left out if
        that is None."""
        begun: dict[str, float] = {}
        found = []
        for sighting in self._since_start():
            name, begins = BACKGROUND_MILESTONES.get(sighting.mark, ("", False))
            if sighting.at_s is None:
                continue
            if begins:
                begun[name] = max(0.0, sighting.at_s)
            elif name in begun:
                since_s = begun.pop(name)
                found.append(Phase(name, since_s, max(since_s, sighting.at_s)))
        if until_s is not None:
            found += [Phase(name, at_s, max(at_s, until_s)) for name, at_s in begun.items()]
        return tuple(found)

    def _since_start(self) -> list[Sighting]:
        """Returns the marks with their times since the start: by arrival, or by the server's own stamps if it held
        lines back."""
        held = self.held_s is not None
        return [
            replace(one, at_s=None if one.at_s is None else one.at_s - self.started_s - (one.late_s if held else 0.0))
            for one in self._sightings
        ]

    @property
    def last_phase(self) -> str:
        """The phase that the server is in after the lines so far."""
        return current_phase(self._sightings, self.traits)

    def current(self, now_s: float) -> CurrentPhase:
        """Returns the current phase of the server, by the lines that have arrived. While nothing is logged, it is named
        by the work that is known to happen then. Another thread may call this while lines arrive, without delaying
        them."""
        sightings = [
            replace(one, at_s=one.at_s - self.started_s) for one in tuple(self._sightings) if one.at_s is not None
        ]
        if not sightings:
            return CurrentPhase(None, self.started_s)
        latest_s = max(now_s - self.started_s, sightings[-1].at_s or 0.0)
        last = phases_of(sightings, (0.0, latest_s + _MIN_PHASE_S), server=self.traits, ready=False)[-1]
        return CurrentPhase(last.name, self.started_s + last.start_s, progress_of(self.latest))
