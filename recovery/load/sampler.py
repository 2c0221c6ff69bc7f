"""How does a server at work go on? A thread of its own asks it, its process and its device, every second."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recovery.host import usage
from recovery.host.cpus import cpus
from recovery.host.storage import Device, served
from recovery.load.counters import FAILURES, Counters
from recovery.load.sample import LOOK, Sample, thinned
from recovery.load.waits import Counted, between, locks, totals
from recovery.measured import Wait

if TYPE_CHECKING:
    from recovery.load.counters import Connect

MOST = 1200
"""Looks that are kept: once there are as many, every second one goes and the next ones come half as often. So hours of
work take no more memory than minutes; the page cache is the server's."""
_PATIENCE_S = 15.0
"""With the looks at both ends, and with an answer that is under way when all is over."""


@dataclass
class _End:
    """Of what is measured: asked for by one thread, looked at by the other."""

    look: Sample | None = None
    waits: Counted | None = None
    taken: threading.Event = field(default_factory=threading.Event)


class Sampler:
    """From its entry to its exit; after the end of what is measured it looks no more. A look that fails is missing, and
    nothing else comes of it. `connect` gives connections that do not wait for ever; `clients` the CPU time of the
    load's programs, None where it is not known."""

    def __init__(
        self,
        connect: Connect,
        pid: int,
        device: Device,
        *,
        clients: Callable[[], float | None],
        every_s: float = 1.0,
    ) -> None:
        self._counters = Counters(connect)
        self._pid = pid
        self._device = device
        self._clients = clients
        self._every_s = every_s
        self.began_s = time.monotonic()
        """The measuring, by the monotonic clock; until it has begun, its own looking."""
        self._looks: list[Sample] = []
        """By the monotonic clock."""
        self._first: Sample | None = None
        """At which the measuring began."""
        self._asked: queue.SimpleQueue[_End | None] = queue.SimpleQueue()
        """Looks at an end; None: all is over."""
        self._ends: list[_End] = []
        """Those that came in time."""
        self._thread = threading.Thread(target=self._go_on, name="sampler", daemon=True)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Once it is over."""
        return tuple(Sample(round(look.at_s - self.began_s, 3), look.figures) for look in self._looks)

    @property
    def whole(self) -> bool:
        """Whether both ends of what is measured were seen: what grew between them is of all of it."""
        return len(self._ends) == 2 and all(end.look is not None for end in self._ends)

    @property
    def waits(self) -> tuple[Wait, ...]:
        """From one end to the other; where one was not seen, nothing is told of them."""
        if not self.whole:
            return ()
        before, after = (end.waits for end in self._ends)
        return () if before is None or after is None else between(before, after)

    def begin(self) -> None:
        """The measuring begins now: a look is taken at once, and the next ones by the clock from here."""
        self.began_s = time.monotonic()
        self._mark()

    def end(self) -> None:
        """It is over, with a last look."""
        self._mark()

    def _mark(self) -> None:
        """Returns once the look is taken, or has failed: what comes next shall not be in it, nor be disturbed by it."""
        end = _End()
        self._asked.put(end)
        if self._thread.is_alive() and end.taken.wait(_PATIENCE_S):
            self._ends.append(end)

    def _go_on(self) -> None:
        """By the clock: a look that came late does not put off the next ones."""
        due_s = self.began_s
        left = 2
        while left:
            try:
                end = self._asked.get(timeout=max(0.0, due_s - time.monotonic()))
            except queue.Empty:
                self._keep(self._look())
            else:
                if end is None:
                    return
                due_s = self.began_s
                left -= 1
                self._look_at(end)
            due_s = max(due_s, time.monotonic() - self._every_s) + self._every_s

    def _look(self) -> Sample | None:
        asked_s = time.monotonic()
        try:
            figures = self._counters.status()
            at_s = time.monotonic()
            beside = self._beside()
            metrics_s = time.monotonic()
            figures |= self._counters.metrics()
        except FAILURES:
            return None
        cost_s = at_s - asked_s + time.monotonic() - metrics_s
        return Sample(at_s, {LOOK: round(cost_s, 6), **beside, **figures})

    def _beside(self) -> dict[str, float]:
        """What is not the server's word; what is not there is left out."""
        host, device, moved = cpus(), served(self._device), usage.moved_bytes(self._pid)
        figures = {
            "process.cpu_s": usage.cpu_s(self._pid),
            "process.read_bytes": moved[0] if moved else None,
            "process.written_bytes": moved[1] if moved else None,
            "process.resident_bytes": usage.resident_bytes(self._pid),
            **({f"device.{name}": value for name, value in asdict(device).items()} if device else {}),
            **({f"host.{name}": value for name, value in asdict(host).items()} if host else {}),
            "clients.cpu_s": self._clients(),
            "tool.cpu_s": round(time.process_time(), 6),
        }
        return {name: value for name, value in figures.items() if value is not None}

    def _keep(self, look: Sample | None) -> None:
        if look is not None:
            self._looks.append(look)
        if len(self._looks) >= MOST:
            self._looks = thinned(self._looks, but=self._first)
            self._every_s *= 2

    def _look_at(self, end: _End) -> None:
        """With what is too dear for every second, which lies between the two looks at neither end."""
        first = not self._ends
        if first:  # one that was under way may tell of what went on before
            self._looks = [look for look in self._looks if look.at_s < self.began_s]
        counted = self._waits() if first else None
        look = self._look()
        if look is not None:
            counted = counted if first else self._waits()
            end.look = replace(look, figures={**look.figures, **totals(counted or {})})
            end.waits = None if counted is None else counted | locks(look.figures)
            self._first = self._first or end.look
            self._keep(end.look)
        end.taken.set()

    def _waits(self) -> Counted | None:
        with suppress(*FAILURES):
            return self._counters.waits()
        return None

    def __enter__(self) -> Self:
        self.began_s = time.monotonic()
        with suppress(RuntimeError):  # no thread is to be had
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._asked.put(None)
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_S)
        if not self._thread.is_alive():  # a server that answers neither yes nor no
            self._counters.close()
