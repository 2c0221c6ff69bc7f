"""Has this start succeeded, failed, died or hung? One wait on the log and on the process, with no fixed time-out.

A start on a slow disk takes an hour, so time alone proves nothing: it is given up when neither the log, the CPU nor the
IO of the process has moved for a while."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from recovery.errors import ServerFailedError, ServerKilledError
from recovery.host.ailing import takes_nothing
from recovery.host.standstill import stopped_by_somebody
from recovery.host.usage import Activity, activity
from recovery.limited import compact
from recovery.model import Version
from recovery.progress import Standing
from recovery.server.errorlog import Kind, classify, is_error, stamp_of
from recovery.server.launcher import Exit, Life
from recovery.server.logtail import Line, LogTail, last_lines
from recovery.server.passage import Passage
from recovery.versions import can

Look = Callable[[int], Activity | None]
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

    def __init__(self, life: Life, look: Look = activity) -> None:
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
    look: Look = activity,
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
