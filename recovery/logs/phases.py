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
from itertools import pairwise

from recovery.logs.error_log import checkpoint_of, is_note, log_counters, microsecond_stamp, progress_of
from recovery.model import Phase, Version, can
from recovery.phase_table import (
    DICTIONARY_READ,
    FILE_CHECK,
    FIRST_QUERY,
    JOIN,
    TABLE,
    UNNAMED,
    Bounds,
    FileAccess,
    Milestone,
    PhaseRow,
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


_PROGRESS_OF = dict(row.progress for row in TABLE if row.progress is not None)
"""Milestones about the progress of some work, and the one at which the work began."""
_PROGRESS_INTERVAL_S = 10.0
"""Time from the beginning of that work to its first line about progress."""
BACKGROUND_MILESTONES = {
    milestone: (row.name, begins)
    for row in TABLE
    if row.background
    for bounds in row.bounds
    for milestones, begins in ((bounds.opens, True), (bounds.closes, False))
    for milestone in milestones
}
"""Milestones of the server's background threads: the name of the phase, and whether the phase begins there."""
_OPENED_BY = {
    opener: tuple(
        (row, bounds) for row in TABLE if not row.background for bounds in row.bounds if opener in bounds.opens
    )
    for opener in Milestone
}
_UNDO = {Milestone.SEGMENTS, Milestone.UNDO}
_WITHIN_DICTIONARY_UPGRADE = {
    Milestone.DICTIONARY,
    Milestone.VALIDATE,
    Milestone.CHECK,
    Milestone.VALIDATED,
    Milestone.DICTIONARY_UPGRADE,
}
"""Milestones of the dictionary that are parts of its upgrade, or repeat after it."""


def file_access_of(version: Version | None, milestones: Iterable[Milestone] = ()) -> FileAccess:
    """Returns how a version accesses the files or, if the version is unknown, what the milestones of its log show.
    Without a version UNLOGGED_AFTER_REDO is never returned."""
    if version is None:
        shown = {milestone.value.only for milestone in milestones}
        certain = (FileAccess.SCAN_AND_VALIDATE, FileAccess.BEFORE_REDO)
        return next((access for access in certain if access in shown), FileAccess.NAMED_IN_REDO)
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
    last, seen = milestones[-1] if milestones else Milestone.STARTING, set(milestones)
    return _name_of(
        (row, bounds)
        for row, bounds in _OPENED_BY[last]
        if bounds.lasting
        and _holds(row, bounds, server)
        and (bounds.after is None or bounds.after in seen)
        and not (bounds.alone and bounds.closes & seen)
    )


def _phase_name(opener: Milestone, closer: Milestone, server: StartContext) -> str:
    """Returns the phase between two milestones that follow each other."""
    rows = _OPENED_BY[opener]
    return _name_of((row, bounds) for row, bounds in rows if closer in bounds.closes and _holds(row, bounds, server))


def _holds(row: PhaseRow, bounds: Bounds, server: StartContext) -> bool:
    return (
        server.file_access in row.series
        and (bounds.access is None or server.file_access in bounds.access)
        and bounds.crashed in (None, server.crashed)
        and bounds.has_notes in (None, server.has_notes)
        and bounds.has_redo in (None, server.has_redo)
        and bounds.initializes in (None, server.initializes)
    )


def _name_of(found: Iterable[tuple[PhaseRow, Bounds]]) -> str:
    """Returns the name of the phase with these bounds, or those of the phases that share the time."""
    found = tuple(found)
    alone = [row.name for row, bounds in found if bounds.alone]
    return _join_names(alone or [row.name for row, _ in found])


def with_first_query(phases: tuple[Phase, ...], answered_s: float) -> tuple[Phase, ...]:
    """Returns the phases with one more for the time from the ready line to the first answer."""
    ready_s = phases[-1].end_s if phases else answered_s
    return (*phases, Phase(FIRST_QUERY, ready_s, max(ready_s, answered_s)))


def with_traced_check(phases: tuple[Phase, ...], opened_s: Iterable[float]) -> tuple[Phase, ...]:
    """Returns the phases with the boundary between the dictionary read and the file check at the first of these opens
    of tables' files in them: the dictionary itself is in other files."""
    names = {DICTIONARY_READ, FILE_CHECK, JOIN.join((DICTIONARY_READ, FILE_CHECK))}
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


def _join_names(names: Sequence[str]) -> str:
    known = list(dict.fromkeys(part for name in names for part in name.split(JOIN)))
    return JOIN.join([name for name in known if name != UNNAMED]) or UNNAMED


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
