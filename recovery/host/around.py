"""What else goes on while a server starts? Counters of host, tool, groups and device, read at both of its ends."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recovery.host import cgroups, usage
from recovery.host.cpus import Cpus, cpus
from recovery.host.storage import Device, moved_bytes
from recovery.measured import Around


@dataclass(frozen=True)
class _Look:
    at_s: float
    tool_cpu_s: float
    cpus: Cpus | None
    device_bytes: tuple[int, int] | None
    server_cpu_s: float | None
    server_bytes: tuple[int, int] | None
    throttled_s: Mapping[Path, float]


class Surroundings:
    """Counts from its construction on, which is right after the exec."""

    def __init__(self, pid: int, device: Device) -> None:
        self._pid = pid
        self._device = device
        self._groups = cgroups.groups_of(pid, "cpu")
        """The session's, the engine's, or the one this tool was started in, and all above it."""
        self._start = self._look()

    def read(self) -> Around:
        start, end = self._start, self._look()
        tool_cpu_s = end.tool_cpu_s - start.tool_cpu_s
        read, written = _others_bytes(start, end)
        return Around(
            seconds=round(end.at_s - start.at_s, 3),
            others_cpu_s=others_cpu_s(start.cpus, end.cpus, _server_s(start, end), tool_cpu_s),
            tool_cpu_s=round(tool_cpu_s, 3),
            steal_s=None if start.cpus is None or end.cpus is None else round(end.cpus.steal_s - start.cpus.steal_s, 2),
            throttled_s=_most_grown(start.throttled_s, end.throttled_s),
            others_read_bytes=read,
            others_written_bytes=written,
        )

    def _look(self) -> _Look:
        counted = {folder: cgroups.throttled_s(folder) for folder in self._groups}
        return _Look(
            time.monotonic(),
            time.process_time(),
            cpus(),
            moved_bytes(self._device),
            usage.cpu_s(self._pid),
            usage.moved_bytes(self._pid),
            {folder: seconds for folder, seconds in counted.items() if seconds is not None},
        )


def _server_s(start: _Look, end: _Look) -> float | None:
    return None if end.server_cpu_s is None else end.server_cpu_s - (start.server_cpu_s or 0)


def _others_bytes(start: _Look, end: _Look) -> tuple[int | None, int | None]:
    """For a moment after exec the kernel hides a process' counters from all but root, and then they are near 0."""
    if start.device_bytes is None or end.device_bytes is None or end.server_bytes is None:
        return None, None
    own = zip(end.server_bytes, start.server_bytes or (0, 0), strict=True)
    read, written = (
        max(0, after - before - (ended - began))
        for after, before, (ended, began) in zip(end.device_bytes, start.device_bytes, own, strict=True)
    )
    return read, written


def others_cpu_s(start: Cpus | None, end: Cpus | None, server_s: float | None, tool_s: float) -> float | None:
    """The host counts in ticks and the processes exactly, so that a little less than nothing may be left."""
    if start is None or end is None or server_s is None:
        return None
    return round(max(0.0, end.busy_s - start.busy_s - server_s - tool_s), 2)


def _most_grown(before: Mapping[Path, float], after: Mapping[Path, float]) -> float | None:
    """Groups above count for themselves what they hold back: one and the same wait may be in several."""
    grown = [seconds - before[folder] for folder, seconds in after.items() if folder in before]
    return round(max(grown), 3) if grown else None
