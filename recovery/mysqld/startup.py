"""Has this start succeeded, failed, died or hung? One wait on the log and on the process, with no fixed time-out.

A start on a slow disk takes an hour, so time alone proves nothing: it is given up when neither the log, the CPU nor the
IO of the process has moved for a while."""

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
from recovery.linux.cgroups import Activity, activity, compact
from recovery.linux.procfs import Cpus, cpus
from recovery.linux.signals import stopped_by_somebody
from recovery.linux.storage import Device, completed_reads, moved_bytes, takes_nothing
from recovery.model import Around, Timeline, Version, can
from recovery.mysqld.error_log import Kind, classify, is_error, stamp_of
from recovery.mysqld.launcher import Exit, Life
from recovery.mysqld.log_tail import Line, LogTail, last_lines
from recovery.mysqld.phases import Passage, Standing

ReadActivity = Callable[[int], Activity | None]
DEFAULT_STALL_S = 300.0
_IDLE_CPUS = 0.02
"""A server that waits for ever still counts its seconds: MySQL 5.6 takes a thousandth of a CPU for it."""
_LOOK_S = 2.0
"""Between two looks at a process that is silent: rare enough to cost nothing."""
Follower = Callable[[Callable[[float], Standing]], None]
"""Is handed, at the beginning of a start, what tells at any moment how far it has come."""
_FULL_FOR_S = 30.0
_LAST_WORDS_S = 0.5
"""A server that said why it fails is given so long to say the rest."""


@dataclass(frozen=True)
class Ready:
    at_s: float
    """Arrival of the ready line, on the monotonic clock."""
    line: str
    crash_proof: str | None
    lag_s: float | None
    passage: Passage
    """Which marks were seen on the way, and when."""


class Progress:
    """Does this process still do anything? Ask now and then; silence is measured from the last change."""

    def __init__(self, life: Life, look: ReadActivity = activity) -> None:
        self._pid = life.pid
        self._disks = (life.launch.datadir, life.launch.rundir)
        self._look = look
        self._seen = look(life.pid)
        self._moved_at = self._had_room_at = time.monotonic()

    def moved(self) -> None:
        self._moved_at = time.monotonic()

    def hopeless(self, stall_s: float) -> str | None:
        """Why there is nothing to wait for any more. Some servers wait for room on a full disk for ever, and look
        again now and then: such a one is not still."""
        still_s = self.still_for_s()
        if still_s >= stall_s:
            return f"nothing moved for {still_s:.0f} s"
        full, now_s = takes_nothing(self._disks), time.monotonic()
        if full is None:
            self._had_room_at = now_s
        return full if now_s - self._had_room_at >= min(stall_s, _FULL_FOR_S) else None

    def still_for_s(self) -> float:
        seen = self._look(self._pid)
        if self._has_moved(seen, time.monotonic() - self._moved_at):
            self._seen = seen
            self.moved()
        return time.monotonic() - self._moved_at

    def _has_moved(self, seen: Activity | None, within_s: float) -> bool:
        before = self._seen
        if seen is None or before is None or seen.io is None:
            return seen != before
        return seen.io != before.io or seen.cpu_s - before.cpu_s > _IDLE_CPUS * within_s


class _Watch:
    """What has been learnt from the log so far."""

    def __init__(self, life: Life, version: Version, on_line: Callable[[Line], None] | None) -> None:
        self._life = life
        self._stamped = can(version, "microsecond_stamps")
        self._on_line = on_line
        self._passage = Passage(version, life.started_at)
        self.standing = self._passage.standing
        self.crash_proof: str | None = None
        self.first_error: str | None = None
        self.failure: str | None = None
        self.ready: Ready | None = None

    def take(self, lines: list[Line]) -> None:
        for line in lines:
            if self._on_line is not None:
                self._on_line(line)
            self._passage.latest = line.text
            if line.complete and self.ready is None:
                self._passage.see(line.text, line.arrived_s, line.wall_s)
            event = classify(line.text)
            if not line.complete:
                # A torn line may still become anything, except that the ready text is already all it needs to be.
                event = event if event is not None and event.kind is Kind.READY else None
            elif self.first_error is None and is_error(line.text):
                self.first_error = line.text
            if event is None:
                continue
            if event.kind is Kind.CRASH_RECOVERY and self.crash_proof is None:
                self.crash_proof = event.text
                self._passage.crashed = True
            elif event.kind is Kind.FAILURE and self.failure is None:
                self.failure = event.text
            elif event.kind is Kind.READY and self.ready is None:
                self.ready = self._ready(line)

    def _ready(self, line: Line) -> Ready:
        stamp = stamp_of(line.text) if self._stamped else None
        lag_s = None if stamp is None else line.wall_s - stamp
        return Ready(line.arrived_s, line.text, self.crash_proof, lag_s, self._passage)

    def fail(self, what: str) -> ServerFailedError:
        why = self.first_error or self.failure
        return failed(self._life, f"{what}: {_without_stamp(why)}" if why else what)


def watch(
    life: Life,
    *,
    ready_version: Version,
    stall_s: float = DEFAULT_STALL_S,
    on_line: Callable[[Line], None] | None = None,
    follower: Follower | None = None,
    look: ReadActivity = activity,
) -> Ready:
    """Until the ready line; ServerFailedError with the reason where none comes. Never ends the process itself."""
    found = _Watch(life, ready_version, on_line)
    if follower is not None:
        follower(found.standing)
    progress = Progress(life, look)
    with LogTail(life.launch.log) as tail:
        poller = select.poll()
        poller.register(tail.fd, select.POLLIN)
        poller.register(life.exit_fd(), select.POLLIN)
        look_ms = int(min(_LOOK_S, stall_s / 4) * 1000)
        looked_at = time.monotonic()
        while True:
            exited = life.exited()
            lines = tail.read()
            found.take(lines)
            if found.ready is not None:
                return found.ready
            if found.failure is not None:
                raise _failed(life, found, tail)
            if exited is not None and not tail.behind:
                raise found.fail(died(life, exited))
            if lines:
                progress.moved()
            if time.monotonic() - looked_at >= look_ms / 1000:
                looked_at = time.monotonic()
                if (why := progress.hopeless(stall_s)) is not None:
                    raise found.fail(f"the server hangs: {why}")
            poller.poll(0 if tail.behind else look_ms)


def end_of(life: Life, stall_s: float) -> Exit | str:
    """However long it takes while the process moves; else why there is nothing to wait for any more."""
    progress = Progress(life)
    while (exited := life.wait(_LOOK_S)) is None:
        if (why := progress.hopeless(stall_s)) is not None:
            return why
    return exited


def _failed(life: Life, found: _Watch, tail: LogTail) -> ServerFailedError:
    exited = life.wait(_LAST_WORDS_S)
    found.take(tail.read())
    return found.fail("the server did not start" if exited is None or exited.signal is None else died(life, exited))


def failed(life: Life, what: str) -> ServerFailedError:
    """With the last lines of its log; of a kind of its own where the process was killed from outside."""
    exited = life.exited()
    tail = last_lines(life.launch.log)
    if exited is None and stopped_by_somebody(life.pid):
        hint = "whoever did that should leave it alone while it is timed"
        return ServerKilledError(f"{what}; somebody has stopped it (SIGSTOP)", hint, log_tail=tail)
    if exited is None or exited.signal != signal.SIGKILL:
        return ServerFailedError(what, log_tail=tail)
    group = life.launch.group
    if group is not None and group.counted().oom_kills:
        what = f"{what}: MEMORY={compact(group.limits.memory_bytes or 0)} is too little for it"
        return ServerKilledError(what, "give it more MEMORY, or a smaller innodb_buffer_pool_size", log_tail=tail)
    return ServerKilledError(what, log_tail=tail)


def died(life: Life, exited: Exit) -> str:
    """In words; who sends signal 9 without being asked is nearly always the kernel, out of memory."""
    name = life.launch.build.mysqld.name
    if exited.signal == signal.SIGKILL:
        return f"{name} was killed by signal 9 from outside, as the kernel does when memory runs out"
    if exited.signal is not None:
        return f"{name} died of signal {exited.signal}"
    return f"{name} ended by itself, with exit code {exited.code}"


def _without_stamp(line: str) -> str:
    """What the server said, from its severity on."""
    at = line.find("[ERROR]")
    return (line[at:] if at >= 0 else line).strip()


# What else goes on while a server starts? Counters of host, tool, groups and device, read at both of its ends.


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
            cgroups.cpu_s(self._pid),
            cgroups.moved_bytes(self._pid),
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


# Which of many looks at a start are kept, so that an hour of it takes no more room than a minute? Pure.

MOST = 240
EVERY_S = 0.25
_Figure = TypeVar("_Figure", int, float)


@dataclass(frozen=True)
class Look:
    """Counted from the exec; None is a figure that could not be read."""

    at_s: float
    read_bytes: int | None = None
    read_requests: int | None = None
    cpu_s: float | None = None
    others_cpu_s: float | None = None


@dataclass
class Looks:
    """Fewer than MOST: once there are as many, every second one goes and the next ones come half as often."""

    every_s: float = EVERY_S
    kept: list[Look] = field(default_factory=list)

    def add(self, look: Look) -> None:
        self.kept.append(look)
        if len(self.kept) >= MOST:
            del self.kept[::2]
            self.every_s *= 2

    def timeline(self) -> Timeline | None:
        """A column with a hole in it is none."""
        if not self.kept:
            return None
        return Timeline(
            at_s=tuple(look.at_s for look in self.kept),
            read_bytes=_whole(look.read_bytes for look in self.kept),
            read_requests=_whole(look.read_requests for look in self.kept),
            cpu_s=_whole(look.cpu_s for look in self.kept),
            # What is left of coarse ticks may shrink a little, which no count does.
            others_cpu_s=tuple(accumulate(_whole(look.others_cpu_s for look in self.kept), max)),
        )


def _whole(column: Iterable[_Figure | None]) -> tuple[_Figure, ...]:
    figures = tuple(column)
    told = tuple(figure for figure in figures if figure is not None)
    return told if len(told) == len(figures) else ()


# How does a start go on? A thread looks at the server and its storage now and then, until the first answer.


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
        server_s, moved, requests = (
            cgroups.cpu_s(self._pid),
            cgroups.moved_bytes(self._pid),
            completed_reads(self._device),
        )
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
