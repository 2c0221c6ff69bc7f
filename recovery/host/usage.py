"""What have a process and its storage done since a moment? Three small reads of /proc; a figure not there is None."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

from recovery.host.limits import Counted, Group
from recovery.host.storage import Device, completed_reads
from recovery.measured import Usage

_MEMINFO = Path("/proc/meminfo")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_AFTER_NAME_UTIME = 11
"""utime's place in /proc/PID/stat after the name, which may hold blanks and parentheses itself."""


class Meter:
    """Counts from its construction on."""

    def __init__(self, pid: int, device: Device, group: Group | None = None) -> None:
        self._pid = pid
        self._device = device
        self._group = group
        self._start = self._now()

    def read(self) -> Usage:
        read, requests, ticks, cached, own_requests = map(_difference, self._now(), self._start)
        return Usage(
            read_bytes=read,
            read_requests=requests if own_requests is None else own_requests,
            cpu_s=None if ticks is None else ticks / _TICKS_PER_S,
            cache_grown_bytes=cached,
            group_memory_bytes=self._group.counted().memory_bytes if self._group else None,
        )

    def _now(self) -> tuple[int | None, ...]:
        io, ticks = _io(self._pid), _ticks(self._pid)
        counted = self._group.counted() if self._group else Counted()
        return (
            io.get("read_bytes") if io else None,
            completed_reads(self._device),
            sum(ticks) if ticks else None,
            cached_bytes(),
            counted.read_requests,
        )


def _difference(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


def cpu_s(pid: int) -> float | None:
    """Since the process was made."""
    ticks = _ticks(pid)
    return None if ticks is None else sum(ticks) / _TICKS_PER_S


def moved_bytes(pid: int) -> tuple[int, int] | None:
    """Fetched from storage for the process, and made by it to be written there, since it was made."""
    io = _io(pid)
    return None if io is None else (io["read_bytes"], io["write_bytes"])


def resident_bytes(pid: int) -> int | None:
    """Of the process' memory, what lies in the host's."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return None


@dataclass(frozen=True)
class Activity:
    cpu_s: float
    io: tuple[int, ...] | None
    """Bytes and calls; None where the process is another user's."""


def activity(pid: int) -> Activity | None:
    """What the process has computed, read and written so far; None once it is gone."""
    ticks, io = _ticks(pid), _io(pid)
    return None if ticks is None else Activity(sum(ticks) / _TICKS_PER_S, None if io is None else tuple(io.values()))


def cached_bytes() -> int | None:
    """The host's page cache: files' pages, without shared memory and tmpfs, which the kernel counts among them."""
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return None
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    if "Cached" not in kib:
        return None
    return (kib["Cached"] + kib.get("Buffers", 0) - kib.get("Shmem", 0)) * 1024


def peak_memory_bytes() -> int:
    """Of this process, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _io(pid: int) -> dict[str, int] | None:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:  # gone, or another user's
        return None
    return {name: int(value) for name, _, value in (line.partition(":") for line in lines)}


def _ticks(pid: int) -> tuple[int, int] | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[_AFTER_NAME_UTIME]), int(fields[_AFTER_NAME_UTIME + 1])
