"""Waits until a starting server is ready, fails, dies or hangs.

The wait watches the log and the process and has no fixed time-out. A start on a slow disk takes an hour, so time alone
proves nothing: the wait is given up when neither the log, the CPU nor the IO of the process has moved for a while."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from recovery.errors import ServerFailedError, ServerKilledError
from recovery.linux.cgroups import format_bytes
from recovery.linux.procfs import ProcessActivity, process_activity
from recovery.linux.signals import is_stopped_by_others
from recovery.linux.storage import find_full_folder
from recovery.logs.error_log import EventKind, StartErrors, classify, error_text, is_error, microsecond_stamp
from recovery.logs.log_tail import LogLine, LogTail, last_lines
from recovery.logs.phases import CurrentPhase, PhaseTracker
from recovery.logs.start_progress import StartProgress, Totals
from recovery.model import Version, can
from recovery.mysqld.launcher import Exit, ServerProcess
from recovery.mysqld.running_server import sample_of

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
    crash_proof: str | None
    lag_s: float | None
    log_errors: int
    tracker: PhaseTracker
    """What the log showed of the start, and when."""


class StallDetector:
    """Detects whether a process still does anything. It is polled now and then, and measures the time since the last
    change."""

    def __init__(self, process: ServerProcess, read_activity: ReadActivity = process_activity) -> None:
        self._pid = process.pid
        self._disks = (process.launch.datadir, process.launch.rundir)
        self._read_activity = read_activity
        self._last = read_activity(process.pid)
        self._active_at = self._had_space_at = time.monotonic()

    def record_activity(self) -> None:
        self._active_at = time.monotonic()

    def reason_to_give_up(self, stall_s: float) -> str | None:
        """Returns why it is pointless to wait longer, or None. Some servers wait forever for space on a full disk and
        check it now and then. They are not idle, so the disk is checked here too."""
        idle_s = self.idle_for_s()
        if idle_s >= stall_s:
            return f"nothing moved for {idle_s:.0f} s"
        now_s = time.monotonic()
        full = find_full_folder(self._disks)
        if full is None:
            self._had_space_at = now_s
        return full if now_s - self._had_space_at >= min(stall_s, _DISK_FULL_S) else None

    def idle_for_s(self) -> float:
        # Read first: a busy host may stop this process at any point, and then nothing counts as idle.
        now_s = time.monotonic()
        activity = self._read_activity(self._pid)
        if self._is_active(activity, now_s - self._active_at):
            self._last, self._active_at = activity, now_s
        return now_s - self._active_at

    def _is_active(self, now: ProcessActivity | None, within_s: float) -> bool:
        before = self._last
        if now is None or before is None or now.io is None:
            return now != before
        return now.io != before.io or now.cpu_s - before.cpu_s > _IDLE_CPUS * within_s


class _LogState:
    """What the log of a start has shown so far."""

    def __init__(
        self, process: ServerProcess, version: Version, on_line: Callable[[LogLine], None] | None, totals: Totals
    ) -> None:
        self._process = process
        self._stamped = can(version, "microsecond_stamps")
        self._on_line = on_line
        self._start = StartProgress(version, process.started_at, totals)
        self.tracker = self._start.tracker
        self.crash_proof: str | None = None
        self.start_errors = StartErrors()
        self.errors = 0
        self.failure: str | None = None
        self.ready: Ready | None = None

    def take(self, lines: list[LogLine]) -> None:
        for line in lines:
            if self._on_line is not None:
                self._on_line(line)
            self.tracker.latest = line.text
            if self.ready is None:
                self._start.add_line(line.text, line.arrived_s, complete=line.complete, wall_s=line.wall_s)
            event = classify(line.text)
            if not line.complete:
                # An incomplete line may still become anything, unless it already has the whole ready text.
                event = event if event is not None and event.kind is EventKind.READY else None
            else:
                self.start_errors.add(line.text)
                self.errors += is_error(line.text)
            if event is None:
                continue
            if event.kind is EventKind.CRASH_RECOVERY and self.crash_proof is None and self.ready is None:
                self.crash_proof = event.text
                self.tracker.crashed = True
            elif event.kind is EventKind.FAILURE and self.failure is None:
                self.failure = event.text
            elif event.kind is EventKind.READY and self.ready is None:
                stamp = microsecond_stamp(line.text) if self._stamped else None
                lag_s = None if stamp is None else line.wall_s - stamp
                self.ready = Ready(line.arrived_s, self.crash_proof, lag_s, self.errors, self.tracker)

    def current(self, now_s: float) -> CurrentPhase:
        """Returns the phase of the server, with the time left by a sample of the process."""
        if (sample := sample_of(self._process.pid, now_s)) is not None:
            self._start.add_sample(sample)
        return self._start.current(now_s)

    def fail(self, what: str) -> ServerFailedError:
        why = self.start_errors.reason(self.failure or "")
        return server_failure(self._process, f"{what}: {error_text(why)}" if why else what)


def wait_until_ready(
    process: ServerProcess,
    *,
    version: Version,
    stall_s: float = DEFAULT_STALL_S,
    on_line: Callable[[LogLine], None] | None = None,
    follower: PhaseFollower | None = None,
    totals: Totals | None = None,
    read_activity: ReadActivity = process_activity,
) -> Ready:
    """Waits for the ready line and returns what it showed. Raises ServerFailedError with the reason if none comes.
    Never ends the process itself."""
    log_state = _LogState(process, version, on_line, totals or Totals())
    if follower is not None:
        follower(log_state.current)
    stall = StallDetector(process, read_activity)
    with LogTail(process.launch.log) as tail:
        poller = select.poll()
        poller.register(tail.fd, select.POLLIN)
        poller.register(process.exit_fd(), select.POLLIN)
        interval_ms = int(min(_POLL_S, stall_s / 4) * 1000)
        checked_at = time.monotonic()
        while True:
            exited = process.exited()
            lines = tail.read()
            log_state.take(lines)
            if log_state.ready is not None:
                return log_state.ready
            if log_state.failure is not None:
                raise _failure_from_log(process, log_state, tail)
            if exited is not None and not tail.behind:
                raise log_state.fail(describe_exit(process, exited))
            if lines:
                stall.record_activity()
            if time.monotonic() - checked_at >= interval_ms / 1000:
                checked_at = time.monotonic()
                if (why := stall.reason_to_give_up(stall_s)) is not None:
                    raise log_state.fail(f"the server hangs: {why}")
            poller.poll(0 if tail.behind else interval_ms)


def wait_for_exit(process: ServerProcess, stall_s: float) -> Exit | str:
    """Waits for the process to exit, however long that takes while it does anything. Returns its exit, or the reason
    why it is pointless to wait longer."""
    stall = StallDetector(process)
    while (exited := process.wait(_POLL_S)) is None:
        if (why := stall.reason_to_give_up(stall_s)) is not None:
            return why
    return exited


def _failure_from_log(process: ServerProcess, log_state: _LogState, tail: LogTail) -> ServerFailedError:
    exited = process.wait(_FAILURE_LINES_S)
    log_state.take(tail.read())
    return log_state.fail(
        "the server did not start" if exited is None or exited.signal is None else describe_exit(process, exited)
    )


def server_failure(process: ServerProcess, what: str) -> ServerFailedError:
    """Returns the error for a failed server, with the last lines of its log. It is a ServerKilledError if the process
    was killed or stopped from outside."""
    exited = process.exited()
    tail = last_lines(process.launch.log)
    if exited is None and is_stopped_by_others(process.pid):
        hint = "do not touch the server while it is timed"
        return ServerKilledError(f"{what}; somebody has stopped it (SIGSTOP)", hint, log_tail=tail)
    if exited is None or exited.signal != signal.SIGKILL:
        return ServerFailedError(what, log_tail=tail)
    group = process.launch.group
    if group is not None and (group.counted().oom_kills or 0) > process.launch.oom_kills:
        what = f"{what}: MEMORY={format_bytes(group.limits.memory_bytes or 0)} is too little for it"
        return ServerKilledError(what, "give it more --memory, or a smaller innodb_buffer_pool_size", log_tail=tail)
    return ServerKilledError(what, log_tail=tail)


def describe_exit(process: ServerProcess, exited: Exit) -> str:
    """Describes how the process ended. An unexpected signal 9 nearly always comes from the kernel, out of memory."""
    name = process.launch.build.mysqld.name
    if exited.signal == signal.SIGKILL:
        return f"{name} was killed by signal 9 from outside, as the kernel does when memory runs out"
    if exited.signal is not None:
        return f"{name} died of signal {exited.signal}"
    return f"{name} ended by itself, with exit code {exited.code}"
