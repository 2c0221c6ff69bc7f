"""How far has this start come, by the arrival of its lines? And did the server hold lines back before it wrote them?

Arrival is what counts: it is one monotonic clock for every server. But a server can keep its lines to itself (8.0.15
does so at every start, nearly until it is ready) and write them together. Where its own stamps are fine enough to show
that, the lines are put back to where they say they were made."""

from __future__ import annotations

from recovery.model import Phase, Version
from recovery.server.errorlog import stamp_of
from recovery.server.marks import Mark, mark_of
from recovery.server.phases import Server, Sighting, generation_of, phases_of, with_first_query

HELD_S = 0.1
"""A line that is later than this was held back: a reader that inotify wakes is a hundred times faster."""


class Passage:
    """Of one Life, from its exec to its ready line. `see` gets every line as it arrives."""

    def __init__(self, version: Version, started_s: float) -> None:
        self._version = version
        self._started_s = started_s
        self._sightings: list[Sighting] = []
        self.held_s: float | None = None
        """By how much the line that was held back longest was late; None where none was."""

    def see(self, text: str, arrived_s: float, wall_s: float) -> None:
        mark = mark_of(text)
        if mark is None:
            return
        stamp = stamp_of(text)
        late_s = 0.0 if stamp is None else wall_s - stamp
        if late_s <= HELD_S or mark is Mark.READY:
            late_s = 0.0
        else:
            self.held_s = max(self.held_s or 0.0, late_s)
        self._sightings.append(Sighting(mark, arrived_s - late_s - self._started_s))

    def phases(self, *, startup_s: float, first_query_s: float, crashed: bool) -> tuple[Phase, ...]:
        """They add up to the startup, and with the last one to the first answered query."""
        server = Server(generation_of(self._version), crashed)
        return with_first_query(phases_of(self._sightings, (0.0, startup_s), server=server), first_query_s)
