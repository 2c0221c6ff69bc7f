"""How far has this start come, by the arrival of its lines? And did the server hold lines back before it wrote them?

Arrival is what counts: it is one monotonic clock for every server. But a server can keep its lines to itself (8.0.15
does so at every start, nearly until it is ready) and write them together. Where its own stamps are fine enough to show
that, all lines of the start are put back to where they say they were made."""

from __future__ import annotations

from recovery.measured import Phase
from recovery.model import Version
from recovery.progress import Standing
from recovery.server.counted import counts_of, progress_of
from recovery.server.errorlog import stamp_of
from recovery.server.marks import Mark, mark_of
from recovery.server.phases import BESIDE, Server, Sighting, generation_of, is_news, phases_of, with_first_query

HELD_S = 0.1
"""A line that is later than this was held back: a reader that inotify wakes is a hundred times faster."""
_A_MOMENT_S = 1e-3
"""What has just begun has taken some time already: it is a phase."""


class Passage:
    """Of one Life, from its exec to its ready line. `see` gets every line as it arrives."""

    def __init__(self, version: Version, started_s: float) -> None:
        self._version = version
        self._started_s = started_s
        self._arrivals: list[tuple[Mark, float, float]] = []
        """Mark, seconds since the exec, and by how much that is later than the line's own stamp."""
        self.scan_threads: int | None = None
        """With which the server says it scans its files."""
        self.crashed = False
        """The log has said so by now."""
        self.latest = ""
        """The line that came last, be it whole or not: for who looks on from another thread."""

    def see(self, text: str, arrived_s: float, wall_s: float) -> None:
        self.scan_threads = dict(counts_of(text)).get("scan_threads", self.scan_threads)
        mark = mark_of(text)
        last = self._arrivals[-1][0] if self._arrivals else None
        if mark is not None and mark is not Mark.READY and is_news(mark, last):
            stamp = stamp_of(text)
            late_s = 0.0 if stamp is None else max(0.0, wall_s - stamp)
            self._arrivals.append((mark, arrived_s - self._started_s, late_s))

    @property
    def held_s(self) -> float | None:
        """By how much the line that was held back longest was late; None where none was."""
        latest_s = max((late_s for _, _, late_s in self._arrivals), default=0.0)
        return latest_s if latest_s > HELD_S else None

    def beside(self, until_s: float) -> tuple[Phase, ...]:
        """What went on in threads of the server's own, as far as it was seen before it was ready."""
        begun: dict[str, float] = {}
        found = []
        for mark, at_s in self._seen():
            name, begins = BESIDE.get(mark, ("", False))
            if begins:
                begun[name] = max(0.0, at_s)
            elif name in begun:
                since_s = begun.pop(name)
                found.append(Phase(name, since_s, max(since_s, at_s)))
        return (*found, *(Phase(name, at_s, max(at_s, until_s)) for name, at_s in begun.items()))

    def _seen(self) -> list[tuple[Mark, float]]:
        """By arrival, or by the server's own stamps where it held lines back."""
        held = self.held_s is not None
        return [(mark, at_s - late_s if held else at_s) for mark, at_s, late_s in self._arrivals]

    def phases(self, *, startup_s: float, first_query_s: float, crashed: bool) -> tuple[Phase, ...]:
        """They add up to the startup, and with the last one to the first answered query."""
        sightings = [Sighting(mark, at_s) for mark, at_s in self._seen()]
        server = Server(generation_of(self._version), crashed)
        return with_first_query(phases_of(sightings, (0.0, startup_s), server=server), first_query_s)

    def standing(self, now_s: float) -> Standing:
        """What the server is at, by what has arrived: silence is told as what it is known to hide. May be asked by
        another thread while lines come in, which costs those lines nothing."""
        arrivals = tuple(self._arrivals)
        if not arrivals:
            return Standing(None, self._started_s)
        sightings = [Sighting(mark, at_s) for mark, at_s, _ in arrivals]
        span_s = (0.0, max(now_s - self._started_s, arrivals[-1][1]) + _A_MOMENT_S)
        last = phases_of(sightings, span_s, server=Server(generation_of(self._version), self.crashed), ready=False)[-1]
        return Standing(last.name, self._started_s + last.start_s, progress_of(self.latest))
