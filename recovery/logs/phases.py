"""Divides the time of a start into phases, from the milestones in its log. The names are the same for every server.

A phase is the time between two milestones. It is named by the milestone that opens it. Where a server logs nothing
about some work, the phase is named by the gap in which that work is known to happen: 5.7.22 reads every file between
"Apply batch completed" and its next line. Where no line separates two kinds of work, both are named (`redo apply +
validation`), and where nothing is known to bound the time, it is `unnamed`. Where the first line about some work is one
about its progress, which is logged every ten seconds, the phase began ten seconds before: an estimate. Phases never
overlap, and add up to the whole start."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from recovery.logs.error_log import (
    Milestone,
    checkpoint_of,
    is_note,
    log_counters,
    microsecond_stamp,
    progress_of,
)
from recovery.model import Phase, Version, can
from recovery.phase_table import (
    ARIA_RECOVERY,
    BINLOG_RECOVERY,
    BUFFER_POOL,
    BUFFER_POOL_LOAD,
    DICTIONARY,
    DICTIONARY_READ,
    DICTIONARY_UPGRADE,
    DIRECTORY_LISTING,
    DISCOVERY,
    FILE_CHECK,
    FILE_SCAN,
    FIRST_QUERY,
    INNODB_INITIALIZATION,
    JOIN,
    PROCESS_START,
    REDO_APPLY,
    REDO_LOG_RESIZE,
    REDO_SCAN,
    REST_TO_READY,
    ROLLBACK,
    SERVER_UPGRADE,
    STATE_TRANSFER,
    SYSTEM_FILES,
    SYSTEM_TABLES,
    UNDO_AND_TEMP,
    UNNAMED,
    VALIDATION,
)


@dataclass(frozen=True)
class CurrentPhase:
    """The current phase of a starting server, as far as its log shows."""

    phase: str | None
    """None if no line of the log shows a phase yet."""
    since_s: float
    """Beginning of the phase, on the monotonic clock."""
    progress: str | None = None
    """Progress within the phase, as the server reports it; None if it reports none."""
    left_s: float | None = None
    """Time left of the phase, where it can be estimated (`start_progress.py`)."""


_MAX_SIGHTINGS = 4096
"""Highest number of milestones in one start: only a log that is not from one server has more."""


class FileAccess(Enum):
    """How a server accesses the tables' files when it starts after a crash."""

    BEFORE_REDO = "before redo"
    """Opens every file before it applies redo."""
    UNLOGGED_AFTER_REDO = "unlogged, after redo"
    """Reads every file after it has applied redo, without a log line."""
    SCAN_AND_VALIDATE = "scan and validate"
    """Scans the files before redo and validates them after it, with log lines."""
    NAMED_IN_REDO = "named in redo"
    """Opens only the files that the redo log names."""


@dataclass(frozen=True)
class StartContext:
    """What must be known about a start to name its phases, apart from its log lines."""

    file_access: FileAccess
    crashed: bool
    has_notes: bool = True
    """Whether the log has lines of the severity Note. 8.0 and later write none by default, and so hardly any milestone
    of InnoDB."""
    has_redo: bool = True
    """Whether there is any redo to scan and apply; True if that is not known."""
    initializes: bool = False
    """Whether the server makes a new data directory."""


@dataclass(frozen=True)
class Sighting:
    """A milestone and the time when it was seen. The time is None, unknown, if the line has no stamp."""

    milestone: Milestone
    at_s: float | None
    late_s: float = 0.0
    """Seconds from the stamp of the line to its arrival."""
    estimated: bool = False
    """Whether the time was computed from a later line."""


PHASE_OPENED_BY: dict[Milestone, str] = {
    Milestone.STARTING: PROCESS_START,
    Milestone.SAFE: PROCESS_START,
    Milestone.ANNOUNCED: PROCESS_START,
    Milestone.INITIALIZING: PROCESS_START,
    Milestone.DIRECTORY_UPGRADE: PROCESS_START,
    Milestone.TRANSFER: STATE_TRANSFER,
    Milestone.TRANSFERRED: PROCESS_START,
    Milestone.ARIA: ARIA_RECOVERY,
    Milestone.ARIA_RECOVERED: PROCESS_START,
    Milestone.INNODB: PROCESS_START,
    Milestone.SCAN: JOIN.join((DIRECTORY_LISTING, FILE_SCAN)),
    Milestone.LISTING: DIRECTORY_LISTING,
    Milestone.FOUND: FILE_SCAN,
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
    Milestone.RESIZE: REDO_LOG_RESIZE,
    Milestone.RESIZED: UNDO_AND_TEMP,
    Milestone.UNDO: UNDO_AND_TEMP,
    Milestone.DICTIONARY: DICTIONARY,
    Milestone.VALIDATE: JOIN.join((DICTIONARY_READ, FILE_CHECK)),
    Milestone.CHECK: FILE_CHECK,
    Milestone.VALIDATED: DICTIONARY,
    Milestone.DICTIONARY_READ: REST_TO_READY,
    Milestone.DICTIONARY_UPGRADE: DICTIONARY_UPGRADE,
    Milestone.DICTIONARY_UPGRADED: DICTIONARY,
    Milestone.UPGRADE: SERVER_UPGRADE,
    Milestone.UPGRADED: REST_TO_READY,
    Milestone.BINLOG: BINLOG_RECOVERY,
    Milestone.BINLOG_READ: REST_TO_READY,
}
_PHASE_BETWEEN: dict[tuple[Milestone, Milestone], tuple[FileAccess, str]] = {
    (Milestone.INNODB, Milestone.STARTED): (FileAccess.SCAN_AND_VALIDATE, INNODB_INITIALIZATION),
    (Milestone.SCAN, Milestone.LISTING): (FileAccess.SCAN_AND_VALIDATE, DIRECTORY_LISTING),
    (Milestone.SCAN, Milestone.FOUND): (FileAccess.SCAN_AND_VALIDATE, DIRECTORY_LISTING),
    (Milestone.VALIDATE, Milestone.CHECK): (FileAccess.SCAN_AND_VALIDATE, DICTIONARY_READ),
    # It looks up each file in the dictionary and opens it, without logging that, on clean starts too.
    (Milestone.SEGMENTS, Milestone.UNDO): (FileAccess.NAMED_IN_REDO, DICTIONARY),
    (Milestone.CHECKPOINT, Milestone.RESTORE): (FileAccess.BEFORE_REDO, DISCOVERY),
    # 8.0 up to 8.0.15 leaves the rest of the upgrade to mysql_upgrade.
    (Milestone.DICTIONARY_UPGRADE, Milestone.READY): (
        FileAccess.SCAN_AND_VALIDATE,
        JOIN.join((DICTIONARY_UPGRADE, REST_TO_READY)),
    ),
    (Milestone.DICTIONARY_UPGRADED, Milestone.UPGRADE): (
        FileAccess.SCAN_AND_VALIDATE,
        JOIN.join((DICTIONARY, REST_TO_READY)),
    ),
}
"""Phases that are known by both of their milestones only, and the access to files of the servers that have them."""
_PHASE_BEGUN_BY = {
    (Milestone.CHECKPOINT, FileAccess.BEFORE_REDO): DISCOVERY,
    (Milestone.SEGMENTS, FileAccess.NAMED_IN_REDO): DICTIONARY,
}
"""The same phases while they last, by the milestone that begins them and the access to files."""
_NEXT_AFTER = {
    Milestone.SCANNED: BUFFER_POOL,
    Milestone.VALIDATED: REST_TO_READY,
    Milestone.DICTIONARY_UPGRADED: REST_TO_READY,
}
"""What is left after these is short, and is counted to the phase before the one that they end. A server that is there
is said to be in the next one: it does not go back."""
_PROGRESS_OF = {Milestone.SCANNING: Milestone.FOUND, Milestone.CHECKING: Milestone.CHECK}
"""Milestones about the progress of some work, and the one at which the work began."""
_PROGRESS_INTERVAL_S = 10.0
"""Time from the beginning of that work to its first line about progress."""
BACKGROUND_MILESTONES = {
    Milestone.POOL_LOAD: (BUFFER_POOL_LOAD, True),
    Milestone.POOL_LOADED: (BUFFER_POOL_LOAD, False),
    Milestone.ROLLBACK: (ROLLBACK, True),
    Milestone.ROLLED_BACK: (ROLLBACK, False),
}
"""Milestones of the server's background threads: the name of the phase, and whether the phase begins there."""
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
_AFTER_REDO = _UNDO | {Milestone.RESIZE, Milestone.RESIZED, Milestone.STARTED}
_SCAN = {Milestone.SCAN, Milestone.LISTING, Milestone.FOUND}
_EARLY = {
    Milestone.STARTING,
    Milestone.SAFE,
    Milestone.ANNOUNCED,
    Milestone.INITIALIZING,
    Milestone.DIRECTORY_UPGRADE,
    Milestone.TRANSFERRED,
    Milestone.ARIA_RECOVERED,
    Milestone.INNODB,
    Milestone.SCANNED,
}
_AFTER_EARLY = _EARLY | _REDO | _SCAN | {Milestone.TRANSFER, Milestone.ARIA, Milestone.POOL, Milestone.POOLED}
_OF_DICTIONARY = {
    Milestone.DICTIONARY,
    Milestone.VALIDATE,
    Milestone.CHECK,
    Milestone.VALIDATED,
    Milestone.DICTIONARY_READ,
    Milestone.DICTIONARY_UPGRADE,
    Milestone.DICTIONARY_UPGRADED,
}
_WITHIN_DICTIONARY_UPGRADE = _OF_DICTIONARY - {Milestone.DICTIONARY_READ, Milestone.DICTIONARY_UPGRADED}
"""Milestones of the dictionary that are parts of its upgrade, or repeat after it."""
_MAY_END_WITH_READY = {Milestone.DICTIONARY_READ, Milestone.BINLOG_READ, Milestone.UPGRADED}
"""Milestones that open a phase which may end with the ready line."""


def file_access_of(version: Version | None, milestones: Iterable[Milestone] = ()) -> FileAccess:
    """Returns how a version accesses the files or, if the version is unknown, what the milestones of its log show.
    Without a version UNLOGGED_AFTER_REDO is never returned."""
    if version is None:
        known = set(milestones)
        if known & (_OF_DICTIONARY | _SCAN | _PROGRESS_OF.keys() | {Milestone.INNODB}):
            return FileAccess.SCAN_AND_VALIDATE
        return FileAccess.BEFORE_REDO if Milestone.DISCOVER in known else FileAccess.NAMED_IN_REDO
    if not can(version, "redo_names_files"):
        return FileAccess.BEFORE_REDO
    if can(version, "data_dictionary"):
        return FileAccess.SCAN_AND_VALIDATE
    return FileAccess.NAMED_IN_REDO if can(version, "opens_only_named_files") else FileAccess.UNLOGGED_AFTER_REDO


def phases_of(
    sightings: Sequence[Sighting], span_s: tuple[float, float], *, server: StartContext, ready: bool = True
) -> tuple[Phase, ...]:
    """Returns the phases from the beginning to the end of the span, without gaps. A time that goes backwards is
    replaced by the latest time before it. If the start is not `ready` at the end, the last phase is the one that it is
    still in."""
    (at_s, end_s), phases = span_s, list[Phase]()
    opener, unstamped, estimated = Milestone.STARTING, list[Milestone](), False
    for sighting in (*_bounding_sightings(sightings), Sighting(Milestone.READY, end_s)):
        if sighting.at_s is None:
            unstamped.append(sighting.milestone)
            continue
        next_s = min(max(sighting.at_s, at_s), end_s)
        chain = [opener, *unstamped, sighting.milestone]
        names = [_phase_name(begin, end, server) for begin, end in pairwise(chain)]
        phases.append(Phase(_join_names(names), at_s, next_s, estimated or sighting.estimated))
        opener, at_s, unstamped, estimated = sighting.milestone, next_s, [], sighting.estimated
    if not ready:
        phases[-1] = replace(phases[-1], name=current_phase(sightings, server))
    return _merge_phases(phases)


def current_phase(sightings: Sequence[Sighting], server: StartContext) -> str:
    """Returns the phase that a server is in at the end of its log: the one that the last milestone opens."""
    milestones = [sighting.milestone for sighting in _bounding_sightings(sightings)]
    last = milestones[-1] if milestones else Milestone.STARTING
    if last is Milestone.APPLIED:
        return _unlogged_phase(server) or UNNAMED
    if last is Milestone.STARTED:
        return SYSTEM_TABLES if server.initializes else _phase_after_innodb(server)
    skips_redo = last in _REDO and _skips_redo(server)
    begun = VALIDATION if skips_redo else _PHASE_BEGUN_BY.get((last, server.file_access))
    if begun is not None and Milestone.UNDO not in milestones:
        return begun
    if last is Milestone.INNODB and not server.has_notes:
        return INNODB_INITIALIZATION
    opened = _NEXT_AFTER.get(last) or PHASE_OPENED_BY.get(last, UNNAMED)
    # Of a clean shutdown there is no redo to scan, and no line until the files are looked up.
    is_last_line = (last is Milestone.APPLY and Milestone.CHECKPOINT in milestones) or (
        last in _REDO and not server.crashed
    )
    if server.file_access is FileAccess.UNLOGGED_AFTER_REDO and is_last_line:
        return _join_names((opened, _unlogged_phase(server) or UNNAMED))
    return opened


def _skips_redo(server: StartContext) -> bool:
    """Returns whether the server reads its files at once, as it does after a crash with an empty redo log."""
    return server.file_access is FileAccess.UNLOGGED_AFTER_REDO and server.crashed and not server.has_redo


def _phase_after_innodb(server: StartContext) -> str:
    if server.file_access is not FileAccess.SCAN_AND_VALIDATE:
        return REST_TO_READY
    return DICTIONARY if server.has_notes else JOIN.join((DICTIONARY_READ, FILE_CHECK))


def with_first_query(phases: tuple[Phase, ...], answered_s: float) -> tuple[Phase, ...]:
    """Returns the phases with one more for the time from the ready line to the first answer."""
    ready_s = phases[-1].end_s if phases else answered_s
    return (*phases, Phase(FIRST_QUERY, ready_s, max(ready_s, answered_s)))


def with_traced_check(phases: tuple[Phase, ...], opened_s: Iterable[float]) -> tuple[Phase, ...]:
    """Returns the phases with the boundary between the dictionary read and the file check at the first of these opens
    of tables' files in them: the dictionary itself is in other files."""
    names = {DICTIONARY_READ, FILE_CHECK, PHASE_OPENED_BY[Milestone.VALIDATE]}
    both = [phase for phase in phases if phase.name in names]
    if not both:
        return phases
    first, last = both[0], both[-1]
    begins_s = min((at_s for at_s in opened_s if first.start_s < at_s < last.end_s), default=None)
    if begins_s is None:
        return phases
    split = (Phase(DICTIONARY_READ, first.start_s, begins_s), Phase(FILE_CHECK, begins_s, last.end_s))
    return (*phases[: phases.index(first)], *split, *phases[phases.index(last) + 1 :])


def _bounding_sightings(sightings: Sequence[Sighting]) -> list[Sighting]:
    """Returns the sightings that bound phases. Those of undo tablespaces after the start of InnoDB are left out: the
    server also recreates them later, within other phases. The first line about the progress of some work tells when it
    began, if no other line did."""
    kept: list[Sighting] = []
    started, begun = False, set[Milestone]()
    for sighting in sightings:
        if sighting.milestone in _PROGRESS_OF:
            sighting = _beginning_of(sighting)
            if sighting.milestone in begun:
                continue
        if (
            sighting.milestone in BACKGROUND_MILESTONES
            or sighting.milestone is Milestone.READY
            or (started and sighting.milestone in _UNDO)
            or (Milestone.DICTIONARY_UPGRADE in begun and sighting.milestone in _WITHIN_DICTIONARY_UPGRADE)
        ):
            continue
        started = started or sighting.milestone is Milestone.STARTED
        begun.add(sighting.milestone)
        kept.append(sighting)
        if sighting.milestone is Milestone.STARTED and Milestone.DIRECTORY_UPGRADE in begun:
            # 8.0 fills its dictionary from the files of 5.7, and logs only the end of that.
            begun.add(Milestone.DICTIONARY_UPGRADE)
            kept.append(replace(sighting, milestone=Milestone.DICTIONARY_UPGRADE))
    return kept


def _beginning_of(progress: Sighting) -> Sighting:
    """Returns the beginning of the work whose first line about progress this is."""
    at_s = None if progress.at_s is None else progress.at_s - _PROGRESS_INTERVAL_S
    return replace(progress, milestone=_PROGRESS_OF[progress.milestone], at_s=at_s, estimated=True)


def _phase_name(opener: Milestone, closer: Milestone, server: StartContext) -> str:
    file_access, name = _PHASE_BETWEEN.get((opener, closer), (None, UNNAMED))
    if file_access is server.file_access:
        return name
    if opener is Milestone.APPLIED:
        return _after_redo(closer, server)
    if opener is Milestone.STARTED:
        return SYSTEM_TABLES if server.initializes else _after_innodb(closer, server.file_access)
    if not _may_bound(opener, closer):
        is_quiet = server.file_access is FileAccess.SCAN_AND_VALIDATE and not server.has_notes
        return _join_names((INNODB_INITIALIZATION, _after_innodb(closer, server.file_access))) if is_quiet else UNNAMED
    if opener in _REDO and closer in _AFTER_REDO and _skips_redo(server):
        return VALIDATION
    silent = _after_redo(closer, server) if closer in _AFTER_REDO and opener in _REDO else UNNAMED
    return _join_names((PHASE_OPENED_BY.get(opener, UNNAMED), silent))


def _may_bound(opener: Milestone, closer: Milestone) -> bool:
    """Returns whether `closer` may end the phase that `opener` begins. Where a server logs little, as 8.0 does by
    default, the next line may come long after the end of that phase."""
    if opener in _EARLY:
        return closer in _AFTER_EARLY
    return closer is not Milestone.READY or opener in _MAY_END_WITH_READY


def _after_redo(closer: Milestone, server: StartContext) -> str:
    if closer in _REDO:
        return REDO_SCAN  # a batch was full, and the scan of the redo log continues
    if closer not in _AFTER_REDO:
        return UNNAMED
    # Before a server says that it rebuilds the redo log, it writes all pages that the recovery has modified.
    flush = REDO_LOG_RESIZE if closer is Milestone.RESIZE and server.crashed else UNNAMED
    return _join_names((_unlogged_phase(server) or UNNAMED, flush))


def _after_innodb(closer: Milestone, file_access: FileAccess) -> str:
    if file_access is not FileAccess.SCAN_AND_VALIDATE:
        return REST_TO_READY
    if closer in _OF_DICTIONARY | {Milestone.STARTED}:
        return DICTIONARY
    # By default, the server does not log that it reads its dictionary and checks the files.
    return _join_names((DICTIONARY_READ, FILE_CHECK, REST_TO_READY if closer is Milestone.READY else UNNAMED))


def _unlogged_phase(server: StartContext) -> str | None:
    """Returns the phase that the server does not log, between the end of redo and its next line, or None."""
    if server.file_access is FileAccess.UNLOGGED_AFTER_REDO:
        return VALIDATION if server.crashed else DICTIONARY
    return DICTIONARY if server.file_access is FileAccess.BEFORE_REDO else None


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
_SCANNED = re.compile(r"scanned up to log sequence number (\d{1,18})\b", re.ASCII)
_NO_REDO_BYTES = 512
"""A redo log of one block is empty: a server that was idle when it was killed has written its checkpoint there."""
_MIN_PHASE_S = 1e-3
"""Length given to a phase that has just begun, so that it is not dropped as empty."""


def _late_s(text: str, wall_s: float | None) -> float:
    """Returns the seconds from the stamp of a line to its arrival, or 0 if they are not known."""
    stamp = None if wall_s is None else microsecond_stamp(text)
    return 0.0 if stamp is None or wall_s is None else max(0.0, wall_s - stamp)


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
        self.milestones: set[Milestone] = set()
        self.has_notes = False
        """Whether a line of the severity Note was seen."""
        self.counts: dict[str, int] = {}
        """Counters that the server has logged, such as `scan_threads`: the number of threads that scan the files."""
        self.checkpoint_lsn: int | None = None
        """Where the recovery begins in the redo log."""
        self.redo_bytes: int | None = None
        """How much redo there is after it, as far as the log shows by now."""
        self._sightings: list[Sighting] = []

    def add(self, text: str, milestone: Milestone | None, at_s: float | None, *, wall_s: float | None = None) -> None:
        """Records a complete line and its milestone. Some milestones repeat (the position of the redo scan, every few
        megabytes); a repeated one is left out. `wall_s` is the moment of its arrival on the wall clock, which shows
        lines that the server held back."""
        self.counts.update(log_counters(text))
        self.has_notes = self.has_notes or is_note(text)
        if self.checkpoint_lsn is None:
            self.checkpoint_lsn = checkpoint_of(text)
        if self.checkpoint_lsn is not None and (scanned := _SCANNED.search(text)) is not None:
            self.redo_bytes = max(self.redo_bytes or 0, int(scanned[1]) - self.checkpoint_lsn)
        if milestone is None:
            return
        self.milestones.add(milestone)
        last = self._sightings[-1] if self._sightings else None
        is_repeated = last is not None and last.milestone is milestone and last.at_s is not None
        if milestone is not Milestone.READY and not is_repeated and len(self._sightings) < _MAX_SIGHTINGS:
            self._sightings.append(Sighting(milestone, at_s, _late_s(text, wall_s)))

    def discard_milestones(self) -> None:
        """Forgets the milestones so far: they belong to something that ran before the server."""
        self._sightings.clear()

    @property
    def context(self) -> StartContext:
        has_redo = self.redo_bytes is None or self.redo_bytes > _NO_REDO_BYTES
        initializes = Milestone.INITIALIZING in self.milestones
        file_access = file_access_of(self.version, self.milestones)
        return StartContext(file_access, self.crashed, self.has_notes, has_redo, initializes)

    @property
    def held_s(self) -> float | None:
        """The longest time for which a line was held back; None if no line was."""
        latest_s = max((sighting.late_s for sighting in self._sightings), default=0.0)
        return latest_s if latest_s > HELD_BACK_S else None

    def phases(self, startup_s: float, *, ready: bool = True) -> tuple[Phase, ...]:
        """The phases add up to the startup time."""
        return phases_of(self._since_start(), (0.0, startup_s), server=self.context, ready=ready)

    def background_phases(self, until_s: float | None = None) -> tuple[Phase, ...]:
        """Returns the phases of background threads. One without an end in the log ends at `until_s`, or is left out if
        that is None."""
        begun: dict[str, float] = {}
        phases = []
        for sighting in self._since_start():
            name, begins = BACKGROUND_MILESTONES.get(sighting.milestone, ("", False))
            if sighting.at_s is None:
                continue
            if begins:
                begun[name] = max(0.0, sighting.at_s)
            elif name in begun:
                since_s = begun.pop(name)
                phases.append(Phase(name, since_s, max(since_s, sighting.at_s)))
        if until_s is not None:
            phases += [Phase(name, at_s, max(at_s, until_s)) for name, at_s in begun.items()]
        return tuple(phases)

    def _since_start(self) -> list[Sighting]:
        """Returns the milestones with their times since the start: by arrival, or by the server's own stamps if it held
        lines back."""
        held = self.held_s is not None
        return [
            replace(
                sighting,
                at_s=None
                if sighting.at_s is None
                else sighting.at_s - self.started_s - (sighting.late_s if held else 0.0),
            )
            for sighting in self._sightings
        ]

    def first_seen(self, milestone: Milestone) -> float | None:
        """Returns when a milestone came first, or None if it has not come."""
        return next((one.at_s for one in tuple(self._sightings) if one.milestone is milestone), None)

    @property
    def last_milestone(self) -> Milestone | None:
        """The last milestone that bounds a phase."""
        bounding = _bounding_sightings(self._sightings)
        return bounding[-1].milestone if bounding else None

    @property
    def last_phase(self) -> str:
        return current_phase(self._sightings, self.context)

    def current(self, now_s: float) -> CurrentPhase:
        """Returns the current phase of the server, by the lines that have arrived. While nothing is logged, it is named
        by the work that is known to happen then. Another thread may call this while lines arrive, without delaying
        them."""
        sightings = [
            replace(sighting, at_s=sighting.at_s - self.started_s)
            for sighting in tuple(self._sightings)
            if sighting.at_s is not None
        ]
        if not sightings:
            return CurrentPhase(None, self.started_s)
        latest_s = max(now_s - self.started_s, sightings[-1].at_s or 0.0)
        last = phases_of(sightings, (0.0, latest_s + _MIN_PHASE_S), server=self.context, ready=False)[-1]
        return CurrentPhase(last.name, self.started_s + last.start_s, progress_of(self.latest))
