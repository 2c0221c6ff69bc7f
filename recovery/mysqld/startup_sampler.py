"""Samples a starting server, its storage and the host: CPU time, I/O, page cache and background load."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Generic, Self, TypeVar

from recovery.linux import cgroups, procfs
from recovery.linux.cgroups import LimitGroup, UsageMeter
from recovery.linux.procfs import HostCpuTime, host_cpu_time
from recovery.linux.storage import Device, completed_reads, device_io_bytes
from recovery.model import HostActivity, Timeline

# --- Background load: counters of host, tool, control groups and device, read at the beginning and the end of a start


@dataclass(frozen=True)
class _LoadCounters:
    at_s: float
    tool_cpu_s: float
    cpus: HostCpuTime | None
    device_bytes: tuple[int, int] | None
    server_cpu_s: float | None
    server_bytes: tuple[int, int] | None
    throttled_s: Mapping[Path, float]


class BackgroundLoadMeter:
    """Measures the load around a server from construction, which is right after the exec, until `read`."""

    def __init__(self, pid: int, device: Device) -> None:
        self._pid = pid
        self._device = device
        self._groups = cgroups.groups_of(pid, "cpu")
        """The control group of the session, of the engine, or the one in which this tool was started, and all groups
        above it."""
        self._start = self._read_counters()

    def read(self) -> HostActivity:
        start, end = self._start, self._read_counters()
        tool_cpu_s = end.tool_cpu_s - start.tool_cpu_s
        server_cpu_s = None if end.server_cpu_s is None else end.server_cpu_s - (start.server_cpu_s or 0)
        read, written = _others_bytes(start, end)
        return HostActivity(
            seconds=round(end.at_s - start.at_s, 3),
            others_cpu_s=others_cpu_s(start.cpus, end.cpus, server_cpu_s, tool_cpu_s),
            tool_cpu_s=round(tool_cpu_s, 3),
            steal_s=None if start.cpus is None or end.cpus is None else round(end.cpus.steal_s - start.cpus.steal_s, 2),
            throttled_s=_largest_increase(start.throttled_s, end.throttled_s),
            others_read_bytes=read,
            others_written_bytes=written,
        )

    def _read_counters(self) -> _LoadCounters:
        counted = {folder: cgroups.throttled_s(folder) for folder in self._groups}
        return _LoadCounters(
            time.monotonic(),
            time.process_time(),
            host_cpu_time(),
            device_io_bytes(self._device),
            procfs.process_cpu_s(self._pid),
            procfs.process_io_bytes(self._pid),
            {folder: seconds for folder, seconds in counted.items() if seconds is not None},
        )


def _others_bytes(start: _LoadCounters, end: _LoadCounters) -> tuple[int | None, int | None]:
    """Returns the bytes that others read from and wrote to the device. For a moment after exec the kernel hides a
    process' counters from all but root. They are near 0 then, so missing counters at the start are taken as 0."""
    if start.device_bytes is None or end.device_bytes is None or end.server_bytes is None:
        return None, None
    own = zip(end.server_bytes, start.server_bytes or (0, 0), strict=True)
    read, written = (
        max(0, after - before - (ended - began))
        for after, before, (ended, began) in zip(end.device_bytes, start.device_bytes, own, strict=True)
    )
    return read, written


def others_cpu_s(
    start: HostCpuTime | None, end: HostCpuTime | None, server_s: float | None, tool_s: float
) -> float | None:
    """Returns the CPU time of all other processes, at least 0. The host counts in ticks and the processes exactly, so
    the difference may be slightly negative."""
    if start is None or end is None or server_s is None:
        return None
    return round(max(0.0, end.busy_s - start.busy_s - server_s - tool_s), 2)


def _largest_increase(before: Mapping[Path, float], after: Mapping[Path, float]) -> float | None:
    """Returns the largest increase of any group. Each group counts the throttling that it causes itself, and one and
    the same wait may be counted by several, so the values are not added."""
    grown = [seconds - before[folder] for folder, seconds in after.items() if folder in before]
    return round(max(grown), 3) if grown else None


# --- Downsampling, so that an hour of samples takes no more space than a minute

_Sample = TypeVar("_Sample")
_Number = TypeVar("_Number", int, float)


@dataclass
class DownsampledSeries(Generic[_Sample]):
    """The samples of a measurement, fewer than `max_samples`. As soon as there are that many, every second one is
    dropped and the interval between the next ones is doubled."""

    every_s: float
    max_samples: int
    kept: list[_Sample] = field(default_factory=list)
    pinned: _Sample | None = None
    """A sample that is never dropped; None if there is none."""

    def add(self, sample: _Sample) -> None:
        self.kept.append(sample)
        if len(self.kept) >= self.max_samples:
            self.kept = [sample for number, sample in enumerate(self.kept) if number % 2 or sample is self.pinned]
            self.every_s *= 2

    def next_due_s(self, due_s: float, now_s: float) -> float:
        """Returns when the sample after the one at `due_s` is due. Samples are due at fixed times, so that a late one
        does not delay the next ones."""
        return max(due_s, now_s - self.every_s) + self.every_s


# --- Samples of a start

MAX_SAMPLES = 240
"""The number of kept samples stays below this."""
SAMPLE_INTERVAL_S = 0.25
"""Sampling interval at the beginning."""
_METER_TRIES = 5
_RETRY_S = 0.001


@dataclass(frozen=True)
class StartupSample:
    """One sample of a starting server, counted from the exec. A value is None if it could not be read."""

    at_s: float
    read_bytes: int | None = None
    read_requests: int | None = None
    cpu_s: float | None = None
    others_cpu_s: float | None = None


def timeline_of(samples: Sequence[StartupSample]) -> Timeline:
    """Returns the samples as columns. A column with a missing value is left out."""
    # This difference of coarse ticks may decrease slightly, which a counter must not do.
    others = tuple(accumulate(_complete_column(sample.others_cpu_s for sample in samples), max))
    columns: dict[str, tuple[float | None, ...]] = {
        "read_bytes": _complete_column(sample.read_bytes for sample in samples),
        "read_requests": _complete_column(sample.read_requests for sample in samples),
        "cpu_s": _complete_column(sample.cpu_s for sample in samples),
        "others_cpu_s": others,
    }
    return Timeline(tuple(sample.at_s for sample in samples), {name: col for name, col in columns.items() if col})


def _complete_column(column: Iterable[_Number | None]) -> tuple[_Number, ...]:
    values = tuple(column)
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else ()


class StartupSampler:
    """Measures the server, its storage and the host from construction, which is right after the exec, and samples them
    in a thread from entry to exit, which is after the first answer. A value that cannot be read is missing in the
    results and has no other effect."""

    usage: dict[str, float]
    """Metrics by name: what the server and its storage did."""
    background: HostActivity
    timeline: Timeline
    """These three are set on exit, unless the start failed."""

    def __init__(self, pid: int, device: Device, *, since_s: float, group: LimitGroup | None = None) -> None:
        self._pid = pid
        self._device = device
        self._group = group
        self._since_s = since_s
        """Moment of the exec, on the monotonic clock."""
        self._meter = _usage_meter(pid, device, group)
        self._background = BackgroundLoadMeter(pid, device)
        self._series = DownsampledSeries[StartupSample](SAMPLE_INTERVAL_S, MAX_SAMPLES)
        self._reads = self._completed_reads()
        self._cpus = host_cpu_time()
        self._tool_cpu_s = time.process_time()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="startup-sampler", daemon=True)

    def sample(self) -> StartupSample:
        server_s = procfs.process_cpu_s(self._pid)
        moved = procfs.process_io_bytes(self._pid)
        reads = self._completed_reads()
        now = time.monotonic()
        tool_s = time.process_time() - self._tool_cpu_s
        return StartupSample(
            at_s=round(now - self._since_s, 3),
            read_bytes=moved[0] if moved else None,
            read_requests=None if reads is None or self._reads is None else reads - self._reads,
            cpu_s=server_s,
            others_cpu_s=others_cpu_s(self._cpus, host_cpu_time(), server_s, tool_s),
        )

    def _completed_reads(self) -> int | None:
        """Returns the reads of the server's control group, or those of the device if they are not counted."""
        own = self._group.counted().read_requests if self._group else None
        return completed_reads(self._device) if own is None else own

    def _run(self) -> None:
        due_s = self._since_s + self._series.every_s
        while not self._over.wait(max(0.0, due_s - time.monotonic())):
            self._series.add(self.sample())
            due_s = self._series.next_due_s(due_s, time.monotonic())

    def __enter__(self) -> Self:
        with suppress(RuntimeError):  # no thread can be started
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Reads the totals if the start succeeded, stops the thread, and takes a last sample."""
        if kind is None:
            self.usage, self.background = self._meter.read(), self._background.read()
            if (peak := procfs.process_peak_memory_bytes(self._pid)) is not None:
                self.usage["peak_memory_bytes"] = peak
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        if kind is None:
            self._series.add(self.sample())
            self.timeline = timeline_of(self._series.kept)
            if "read_requests" not in self.usage:  # others read, too
                self.timeline.columns.pop("read_requests", None)


def _usage_meter(pid: int, device: Device, group: LimitGroup | None) -> UsageMeter:
    """Returns a meter for the process. For a moment after exec the kernel hides the counters of a process from all but
    root, so reading them is retried briefly."""
    meter = UsageMeter(pid, device, group)
    for _ in range(_METER_TRIES):
        if "read_bytes" in meter.read():
            break
        time.sleep(_RETRY_S)
        meter = UsageMeter(pid, device, group)
    return meter
