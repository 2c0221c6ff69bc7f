"""How does a start go on? A thread looks at the server and its storage now and then, until the first answer."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from recovery.host import usage
from recovery.host.around import others_cpu_s
from recovery.host.cpus import cpus
from recovery.host.looks import Look, Looks
from recovery.host.storage import Device, completed_reads
from recovery.measured import Timeline


class Onlooker:
    """From its entry to its exit. What it cannot read is missing in the timeline, and nothing else comes of it."""

    def __init__(self, pid: int, device: Device, *, since_s: float) -> None:
        self._pid = pid
        self._device = device
        self._since_s = since_s
        """The exec, on the monotonic clock."""
        self._looks = Looks()
        self._requests = completed_reads(device)
        self._cpus = cpus()
        self._tool_cpu_s = time.process_time()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="onlooker", daemon=True)
        self.timeline: Timeline | None = None
        """Once it is over."""

    def look(self) -> Look:
        server_s, moved, requests = usage.cpu_s(self._pid), usage.moved_bytes(self._pid), completed_reads(self._device)
        now = time.monotonic()
        tool_s = time.process_time() - self._tool_cpu_s
        return Look(
            at_s=round(now - self._since_s, 3),
            read_bytes=moved[0] if moved else None,
            read_requests=None if requests is None or self._requests is None else requests - self._requests,
            cpu_s=server_s,
            others_cpu_s=others_cpu_s(self._cpus, cpus(), server_s, tool_s),
        )

    def _go_on(self) -> None:
        """By the clock: a look that came late does not put off the next ones."""
        due_s = self._looks.every_s
        while not self._over.wait(max(0.0, due_s - (time.monotonic() - self._since_s))):
            self._looks.add(self.look())
            due_s = max(due_s, time.monotonic() - self._since_s - self._looks.every_s) + self._looks.every_s

    def __enter__(self) -> Self:
        with suppress(RuntimeError):  # no thread is to be had
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """With a last look at the very end."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        if kind is None:
            self._looks.add(self.look())
            self.timeline = self._looks.timeline()
