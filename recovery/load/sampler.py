"""How does a server at work go on? A thread of its own asks it, its process and its device, every second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
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
"""With an answer that is due when all is over."""


class Sampler:
    """From its entry to its exit. A look that fails is missing, and nothing else comes of it. `connect` gives
    connections that do not wait for ever; `clients` the CPU time of the load's programs, None where it is not known."""

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
        self._began_s = time.monotonic()
        self._looks: list[Sample] = []
        """By the monotonic clock."""
        self._first: Sample | None = None
        """At which the measuring began."""
        self._waits_before: Counted | None = None
        self._wake = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="sampler", daemon=True)
        self.waits: tuple[Wait, ...] = ()
        """Since the mark, once it is over; without a mark nothing is told of them."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Once it is over."""
        return tuple(Sample(round(look.at_s - self._began_s, 3), look.figures) for look in self._looks)

    def mark(self) -> None:
        """The measuring begins now: a look is taken at once, and the next ones by the clock from here."""
        self._began_s = time.monotonic()
        self._wake.set()

    def _go_on(self) -> None:
        """By the clock: a look that came late does not put off the next ones."""
        due_s = self._began_s
        while not self._over.is_set():
            self._wake.wait(max(0.0, due_s - time.monotonic()))
            marked = self._wake.is_set()
            self._wake.clear()
            if self._over.is_set():
                return
            if marked:
                due_s = self._began_s
                self._first, self._waits_before = self._look_at_waits()
            else:
                self._keep(self._look())
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

    def _look_at_waits(self) -> tuple[Sample | None, Counted | None]:
        """At both ends of what is measured: with what is too dear for every second."""
        look = self._look()
        if look is None:
            return None, None
        counted: Counted = {}
        with suppress(*FAILURES):
            counted = self._counters.waits()
        look = replace(look, figures={**look.figures, **totals(counted)})
        self._keep(look)
        return look, counted | locks(look.figures)

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        with suppress(RuntimeError):  # no thread is to be had
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """With a last look at the very end."""
        self._over.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            return  # a server that answers neither yes nor no
        if kind is None:
            _, after = self._look_at_waits()
            if self._waits_before is not None and after is not None:
                self.waits = between(self._waits_before, after)
        self._counters.close()
