"""Handles the signals that end a process, defers them in critical sections, and detects pauses and clock changes during
a measurement."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from recovery.linux.procfs import is_stopped

# --- Signals that end the process

_NOT_CAUGHT = {signal.SIGKILL, signal.SIGSTOP}
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
_NOT_ENDING = {
    *(signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT),
    *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
}
ENDING_SIGNALS = frozenset(signal.valid_signals() - _NOT_CAUGHT - _FAULTS - _NOT_ENDING)
"""Signals that end a process without a handler, from Ctrl-C to the real-time signals. Faults of the program itself,
such as SIGSEGV, are left out: it cannot continue after one."""

Handler = Callable[[int, FrameType | None], object]
_handlers: list[Handler] = [signal.default_int_handler]
"""A stack; the last handler gets the signal. A change takes one step, so that no signal can arrive while only some of
the signals have the new handler."""


def _handle(number: int, frame: FrameType | None) -> None:
    _handlers[-1](number, frame)


def raise_interrupt_on_signals() -> None:
    """Makes each of these signals raise KeyboardInterrupt, so that one cleanup path serves all of them."""
    for number in _signals_to_handle():
        signal.signal(number, _handle)


_AGAIN_S = 0.01


def repeat_lost_interrupts() -> None:
    """Sends an interrupt again if it came while Python ran a destructor, whose exceptions it drops."""
    others = sys.unraisablehook

    def take(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            others(dropped)
            return
        again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    sys.unraisablehook = take


def ignore_signals() -> None:
    """Ignores the signals from now on. It is called when all work is done and the interpreter exits: a signal would
    only cause an error message."""
    _handlers.append(lambda *_: None)
    for number in _signals_to_handle():
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def use_signal_handler(handler: Handler) -> Iterator[None]:
    """Gives these signals to the handler inside the block, provided that `raise_interrupt_on_signals` was called.

    Signals are delivered to the main thread; in another thread the function does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = len(_handlers)
    try:
        _handlers.append(handler)
        yield
    finally:
        del _handlers[before:]


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defers signals to the end of the block, for the time between the start of a process and the registration of its
    cleanup. A signal mask would have the same effect, but the process would inherit it."""
    came: list[int] = []
    try:
        with use_signal_handler(lambda number, _frame: came.append(number)):
            yield
    finally:
        for number in came[:1]:
            signal.raise_signal(number)


def _signals_to_handle() -> list[int]:
    """Returns the signals to handle. A signal that nohup or a similar program ignores stays ignored, because the run is
    meant to outlive the terminal. A signal with a handler of a C library (None) is left alone."""
    return [number for number in ENDING_SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]


# --- Pauses and clock changes
#
# Durations come from a monotonic clock, which nobody can set. But if this tool, its server or the host was stopped
# during a measurement, the result is too long by an unknown amount.

_ASLEEP_S = 0.2
_SET_S = 0.5
"""A clock that is corrected gradually never drifts this far within one start."""
_STOPS_S = 0.001
"""Interval between two checks whether a process has stopped."""
_resume_count = 0
_servers_stopped: list[str] = []
_stopped_by_us: set[int] = set()


def count_resumes() -> None:
    """Counts from now on when this process continues after Ctrl-Z or SIGSTOP. Only the main thread can install the
    handler."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCONT, _count_resume)


def _count_resume(_: int, __: FrameType | None) -> None:
    global _resume_count
    _resume_count += 1


def record_server_stop(what: str) -> None:
    """Records that something other than this tool stopped one of its servers, with a description. The caller may notice
    it only after the server has continued."""
    _servers_stopped.append(what)


@contextmanager
def pause_process(pid: int, given_up: Callable[[float], bool]) -> Iterator[float | None]:
    """Stops one of our servers for the length of the block, and yields the monotonic time at which it was stopped.

    It yields None if `given_up`, which waits for the given number of seconds, returned True before that. All output of
    the server up to that time has arrived, since it writes nothing while it is stopped."""
    process = os.pidfd_open(pid)
    _stopped_by_us.add(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGSTOP)
        # A process stops only when its system call is complete, which may be a read from a slow disk.
        while not (is_given_up := given_up(_STOPS_S)) and not is_stopped(pid):
            pass
        yield None if is_given_up else time.monotonic()
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGCONT)
        os.close(process)
        with suppress(ChildProcessError):  # not our child but a container's; for a child this discards the stop event
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
        _stopped_by_us.discard(pid)


def is_stopped_by_others(pid: int) -> bool:
    """Returns whether the process is stopped, and not by this tool for a sample."""
    return pid not in _stopped_by_us and is_stopped(pid) and pid not in _stopped_by_us


class ClockGuard:
    """Detects pauses and clock changes since its construction."""

    def __init__(self) -> None:
        self._continued, self._servers_stopped = _resume_count, len(_servers_stopped)
        self._asleep_s, self._set_s = _asleep_s(), _wall_s()

    def pause(self) -> str | None:
        """Returns a description of the pause, or None if there was none."""
        if _resume_count != self._continued:
            return "this tool was stopped meanwhile: it could not see when the event that it waited for happened"
        if stopped := _servers_stopped[self._servers_stopped :]:
            return f"{stopped[0]}: the time is not the server's alone"
        slept_s = _asleep_s() - self._asleep_s
        return f"the host slept for {slept_s:.0f} s meanwhile" if slept_s > _ASLEEP_S else None

    def clock_set_s(self) -> float | None:
        """Returns by how many seconds the host's clock was set, or None if it was not."""
        set_s = _wall_s() - self._set_s
        return set_s if abs(set_s) > _SET_S else None


def _asleep_s() -> float:
    """Returns the seconds that the host has slept since boot."""
    return _ahead_s(lambda: time.clock_gettime(time.CLOCK_BOOTTIME))


def _wall_s() -> float:
    """Returns the difference between the wall clock and the monotonic clock, which changes when the clock is set."""
    return _ahead_s(time.time)


def _ahead_s(clock: Callable[[], float]) -> float:
    """Returns by how many seconds the clock is ahead of the monotonic one. Of three readings the shortest counts,
    because a busy host may stop this process between two clocks."""
    readings = []
    for _ in range(3):
        before = time.monotonic()
        ahead_s = clock() - before
        readings.append((time.monotonic() - before, ahead_s))
    return min(readings)[1]
