"""Waits until a starting server is ready, fails, dies or hangs, and samples the server and the host meanwhile.

The wait watches the log and the process and has no fixed time-out. A start on a slow disk takes an hour, so time alone
proves nothing: the wait is given up when neither the log, the CPU nor the IO of the process has moved for a while."""

from __future__ import annotations

import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from recovery.errors import ServerFailedError, ServerKilledError
from recovery.linux import cgroups
from recovery.linux.cgroups import ProcessActivity, format_bytes, process_activity
from recovery.linux.procfs import HostCpuTime, host_cpu_time
from recovery.linux.signals import is_stopped_by_others
from recovery.linux.storage import Device, completed_reads, device_io_bytes, find_full_folder
from recovery.model import HostActivity, Timeline, Version, can
from recovery.mysqld.error_log import Kind, classify, is_error, microsecond_stamp
from recovery.mysqld.launcher import Exit, ServerProcess
from recovery.mysqld.log_tail import LogLine, LogTail, last_lines
from recovery.mysqld.phases import CurrentPhase, PhaseTracker

ReadActivity = Callable[[int], ProcessActivity | None]
DEFAULT_STALL_S = 300.0
_IDLE_CPUS = 0.02
"""CPU use up to this counts as idle. A server that waits forever still counts seconds: MySQL 5.6 uses a thousandth of a
CPU for that."""
_POLL_S = 2.0
"""Interval between two checks of a silent process: long enough to cost nothing."""
PhaseFollower = Callable[[Callable[[float], CurrentPhase]], None]
"""Called at the beginning of a start with a function that returns the server's phase at any moment."""
_DISK_FULL_S = 30.0
_FAILURE_LINES_S = 0.5
"""How long to wait for the remaining log lines of a server that has logged a failure."""


@dataclass(frozen=True)
class Ready:
    at_s: float
    """Arrival of the ready line, on the monotonic clock."""
    line: str
    crash_proof: str | None
    lag_s: float | None
    tracker: PhaseTracker
    """What the log showed of the start, and when."""


class StallDetector:
    """Detects whether a process still does anything. It is polled now and then, and measures the time since the last
    change."""

    def __init__(self, life: ServerProcess, look: ReadActivity = process_activity) -> None:
        self._pid = life.pid
        self._disks = (life.launch.datadir, life.launch.rundir)
        self._look = look
        self._seen = look(life.pid)
        self._moved_at = self._had_room_at = time.monotonic()

    def moved(self) -> None:
        self._moved_at = time.monotonic()

    def hopeless(self, stall_s: float) -> str | None:
        """Returns why it is pointless to wait longer, or None. Some servers wait forever for space on a full disk and
        check it now and then. They are not idle, so the disk is checked here too."""
        still_s = self.still_for_s()
        if still_s >= stall_s:
            return f"nothing moved for {still_s:.0f} s"
        full, now_s = find_full_folder(self._disks), time.monotonic()
        if full is None:
            self._had_room_at = now_s
        return full if now_s - self._had_room_at >= min(stall_s, _DISK_FULL_S) else None

    def still_for_s(self) -> float:
        seen = self._look(self._pid)
        if self._has_moved(seen, time.monotonic() - self._moved_at):
            self._seen = seen
            self.moved()
        return time.monotonic() - self._moved_at

    def _has_moved(self, seen: ProcessActivity | None, within_s: float) -> bool:
        before = self._seen
        if seen is None or before is None or seen.io is None:
            return seen != before
        return seen.io != before.io or seen.cpu_s - before.cpu_s > _IDLE_CPUS * within_s


class _LogState:
    """What the log of a start has shown so far."""

    def __init__(self, life: ServerProcess, version: Version, on_line: Callable[[LogLine], None] | None) -> None:
        self._life = life
        self._stamped = can(version, "microsecond_stamps")
        self._on_line = on_line
        self.tracker = PhaseTracker(version, life.started_at)
        self.crash_proof: str | None = None
        self.first_error: str | None = None
        self.failure: str | None = None
        self.ready: Ready | None = None

    def take(self, lines: list[LogLine]) -> None:
        for line in lines:
            if self._on_line is not None:
                self._on_line(line)
            self.tracker.latest = line.text
            if line.complete and self.ready is None:
                self.tracker.add_arrival(line.text, line.arrived_s, line.wall_s)
            event = classify(line.text)
            if not line.complete:
                # An incomplete line may still become anything, unless it already has the whole ready text.
                event = event if event is not None and event.kind is Kind.READY else None
            elif self.first_error is None and is_error(line.text):
                self.first_error = line.text
            if event is None:
                continue
            if event.kind is Kind.CRASH_RECOVERY and self.crash_proof is None and self.ready is None:
                self.crash_proof = event.text
                self.tracker.crashed = True
            elif event.kind is Kind.FAILURE and self.failure is None:
                self.failure = event.text
            elif event.kind is Kind.READY and self.ready is None:
                self.ready = self._ready(line)

    def _ready(self, line: LogLine) -> Ready:
        stamp = microsecond_stamp(line.text) if self._stamped else None
        lag_s = None if stamp is None else line.wall_s - stamp
        return Ready(line.arrived_s, line.text, self.crash_proof, lag_s, self.tracker)

    def fail(self, what: str) -> ServerFailedError:
        why = self.first_error or self.failure
        return server_failure(self._life, f"{what}: {_without_stamp(why)}" if why else what)


def wait_until_ready(
    life: ServerProcess,
    *,
    ready_version: Version,
    stall_s: float = DEFAULT_STALL_S,
    on_line: Callable[[LogLine], None] | None = None,
    follower: PhaseFollower | None = None,
    look: ReadActivity = process_activity,
) -> Ready:
    """Waits for the ready line and returns what it showed. Raises ServerFailedError with the reason if none comes.
    Never ends the process itself."""
    found = _LogState(life, ready_version, on_line)
    if follower is not None:
        follower(found.tracker.current)
    progress = StallDetector(life, look)
    with LogTail(life.launch.log) as tail:
        poller = select.poll()
        poller.register(tail.fd, select.POLLIN)
        poller.register(life.exit_fd(), select.POLLIN)
        look_ms = int(min(_POLL_S, stall_s / 4) * 1000)
        looked_at = time.monotonic()
        while True:
            exited = life.exited()
            lines = tail.read()
            found.take(lines)
            if found.ready is not None:
                return found.ready
            if found.failure is not None:
                raise _failure_from_log(life, found, tail)
            if exited is not None and not tail.behind:
                raise found.fail(describe_exit(life, exited))
            if lines:
                progress.moved()
            if time.monotonic() - looked_at >= look_ms / 1000:
                looked_at = time.monotonic()
                if (why := progress.hopeless(stall_s)) is not None:
                    raise found.fail(f"the server hangs: {why}")
            poller.poll(0 if tail.behind else look_ms)


def wait_for_exit(life: ServerProcess, stall_s: float) -> Exit | str:
    """Waits for the process to exit, however long that takes while it does anything. Returns its exit, or the reason
    why it is pointless to wait longer."""
    progress = StallDetector(life)
    while (exited := life.wait(_POLL_S)) is None:
        if (why := progress.hopeless(stall_s)) is not None:
            return why
    return exited


def _failure_from_log(life: ServerProcess, found: _LogState, tail: LogTail) -> ServerFailedError:
    exited = life.wait(_FAILURE_LINES_S)
    found.take(tail.read())
    return found.fail(
        "the server did not start" if exited is None or exited.signal is None else describe_exit(life, exited)
    )


def server_failure(life: ServerProcess, what: str) -> ServerFailedError:
    """Returns the error for a failed server, with the last lines of its log. It is a ServerKilledError if the process
    was killed or stopped from outside."""
    exited = life.exited()
    tail = last_lines(life.launch.log)
    if exited is None and is_stopped_by_others(life.pid):
        hint = "whoever did that should leave it alone while it is timed"
        return ServerKilledError(f"{what}; somebody has stopped it (SIGSTOP)", hint, log_tail=tail)
    if exited is None or exited.signal != signal.SIGKILL:
        return ServerFailedError(what, log_tail=tail)
    group = life.launch.group
    if group is not None and group.counted().oom_kills:
        what = f"{what}: MEMORY={format_bytes(group.limits.memory_bytes or 0)} is too little for it"
        return ServerKilledError(what, "give it more MEMORY, or a smaller innodb_buffer_pool_size", log_tail=tail)
    return ServerKilledError(what, log_tail=tail)


def describe_exit(life: ServerProcess, exited: Exit) -> str:
    """Describes how the process ended. An unexpected signal 9 nearly always comes from the kernel, out of memory."""
    name = life.launch.build.mysqld.name
    if exited.signal == signal.SIGKILL:
        return f"{name} was killed by signal 9 from outside, as the kernel does when memory runs out"
    if exited.signal is not None:
        return f"{name} died of signal {exited.signal}"
    return f"{name} ended by itself, with exit code {exited.code}"


def _without_stamp(line: str) -> str:
    """Returns an error line from its severity on."""
    at = line.find("[ERROR]")
    return (line[at:] if at >= 0 else line).strip()


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
        self._start = self._look()

    def read(self) -> HostActivity:
        start, end = self._start, self._look()
        tool_cpu_s = end.tool_cpu_s - start.tool_cpu_s
        read, written = _others_bytes(start, end)
        return HostActivity(
            seconds=round(end.at_s - start.at_s, 3),
            others_cpu_s=others_cpu_s(start.cpus, end.cpus, _server_s(start, end), tool_cpu_s),
            tool_cpu_s=round(tool_cpu_s, 3),
            steal_s=None if start.cpus is None or end.cpus is None else round(end.cpus.steal_s - start.cpus.steal_s, 2),
            throttled_s=_largest_increase(start.throttled_s, end.throttled_s),
            others_read_bytes=read,
            others_written_bytes=written,
        )

    def _look(self) -> _LoadCounters:
        counted = {folder: cgroups.throttled_s(folder) for folder in self._groups}
        return _LoadCounters(
            time.monotonic(),
            time.process_time(),
            host_cpu_time(),
            device_io_bytes(self._device),
            cgroups.process_cpu_s(self._pid),
            cgroups.process_io_bytes(self._pid),
            {folder: seconds for folder, seconds in counted.items() if seconds is not None},
        )


def _server_s(start: _LoadCounters, end: _LoadCounters) -> float | None:
    return None if end.server_cpu_s is None else end.server_cpu_s - (start.server_cpu_s or 0)


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

MAX_SAMPLES = 240
"""The number of kept samples stays below this."""
SAMPLE_INTERVAL_S = 0.25
"""Sampling interval at the beginning."""
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True)
class StartupSample:
    """One sample of a starting server, counted from the exec. A value is None if it could not be read."""

    at_s: float
    read_bytes: int | None = None
    read_requests: int | None = None
    cpu_s: float | None = None
    others_cpu_s: float | None = None


@dataclass
class DownsampledSeries:
    """The samples of a start, fewer than MOST: as soon as there are that many, every second one is dropped and the
    interval between the next ones is doubled."""

    every_s: float = SAMPLE_INTERVAL_S
    kept: list[StartupSample] = field(default_factory=list)

    def add(self, look: StartupSample) -> None:
        self.kept.append(look)
        if len(self.kept) >= MAX_SAMPLES:
            del self.kept[::2]
            self.every_s *= 2

    def timeline(self) -> Timeline | None:
        """Returns the samples as columns, or None if there are no samples. A column with a missing value is empty."""
        if not self.kept:
            return None
        return Timeline(
            at_s=tuple(look.at_s for look in self.kept),
            read_bytes=_complete_column(look.read_bytes for look in self.kept),
            read_requests=_complete_column(look.read_requests for look in self.kept),
            cpu_s=_complete_column(look.cpu_s for look in self.kept),
            # This difference of coarse ticks may decrease slightly, which a counter must not do.
            others_cpu_s=tuple(accumulate(_complete_column(look.others_cpu_s for look in self.kept), max)),
        )


def _complete_column(column: Iterable[_Number | None]) -> tuple[_Number, ...]:
    figures = tuple(column)
    told = tuple(figure for figure in figures if figure is not None)
    return told if len(told) == len(figures) else ()


# --- Sampling thread
class StartupSampler:
    """Samples the server and its storage in a thread, from entry to exit, which is after the first answer. A value that
    cannot be read is missing in the timeline and has no other effect."""

    def __init__(self, pid: int, device: Device, *, since_s: float) -> None:
        self._pid = pid
        self._device = device
        self._since_s = since_s
        """Moment of the exec, on the monotonic clock."""
        self._looks = DownsampledSeries()
        self._requests = completed_reads(device)
        self._cpus = host_cpu_time()
        self._tool_cpu_s = time.process_time()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="onlooker", daemon=True)
        self.timeline: Timeline | None = None
        """Set on exit; None before, and if the start failed."""

    def look(self) -> StartupSample:
        server_s, moved, requests = (
            cgroups.process_cpu_s(self._pid),
            cgroups.process_io_bytes(self._pid),
            completed_reads(self._device),
        )
        now = time.monotonic()
        tool_s = time.process_time() - self._tool_cpu_s
        return StartupSample(
            at_s=round(now - self._since_s, 3),
            read_bytes=moved[0] if moved else None,
            read_requests=None if requests is None or self._requests is None else requests - self._requests,
            cpu_s=server_s,
            others_cpu_s=others_cpu_s(self._cpus, host_cpu_time(), server_s, tool_s),
        )

    def _go_on(self) -> None:
        """Takes samples at fixed times of the clock, so that a late sample does not delay the next ones."""
        due_s = self._looks.every_s
        while not self._over.wait(max(0.0, due_s - (time.monotonic() - self._since_s))):
            self._looks.add(self.look())
            due_s = max(due_s, time.monotonic() - self._since_s - self._looks.every_s) + self._looks.every_s

    def __enter__(self) -> Self:
        with suppress(RuntimeError):  # no thread can be started
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the thread and, if the start succeeded, takes a last sample."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        if kind is None:
            self._looks.add(self.look())
            self.timeline = self._looks.timeline()
