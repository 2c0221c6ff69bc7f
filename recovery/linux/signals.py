"""What do signals that end a process do to a run, and how are they kept from coming in between two lines?"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from recovery.linux.files import is_stopped

_NOT_CAUGHT = {signal.SIGKILL, signal.SIGSTOP}
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
_NOT_ENDING = {
    *(signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT),
    *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
}
ENDING = frozenset(signal.valid_signals() - _NOT_CAUGHT - _FAULTS - _NOT_ENDING)
"""Signals that end a process that does not handle them, from Ctrl-C to those for real-time use. Faults of the program
itself are left out: it cannot continue after one."""

Handler = Callable[[int, FrameType | None], object]
_handlers: list[Handler] = [signal.default_int_handler]
"""The last one gets the signal. One step changes it, so that no signal comes while only half of them have changed."""


def _handle(number: int, frame: FrameType | None) -> None:
    _handlers[-1](number, frame)


def end_like_an_interrupt() -> None:
    """From here on each of them is a KeyboardInterrupt, so that one way of clearing up serves them."""
    for number in _not_ignored():
        signal.signal(number, _handle)


def change_nothing_any_more() -> None:
    """All is done, and the interpreter ends: what comes now would only make it complain."""
    _handlers.append(lambda *_: None)
    for number in _not_ignored():
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """The handler gets these signals for a while, once `end_like_an_interrupt` was called.

    They are the main thread's; in another one nothing changes."""
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
def held_back() -> Iterator[None]:
    """What comes meanwhile comes right afterwards: for a process that has been started, but is nobody's yet. A mask
    would do the same, but the process would inherit it."""
    came: list[int] = []
    try:
        with handled_by(lambda number, _frame: came.append(number)):
            yield
    finally:
        for number in came[:1]:
            signal.raise_signal(number)


def _not_ignored() -> list[int]:
    """What nohup and the like ignore stays ignored: whoever started us so wants the run to outlive the terminal. What a
    C library handles (None) stays as it is."""
    return [number for number in ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]


# Did this tool, its server or the whole host stand still while something was timed, or was the clock set? Durations
# are taken from a clock that nobody can set; but what was stopped meanwhile came too late, and none tells by how
# much.

_ASLEEP_S = 0.2
_SET_S = 0.5
"""A clock that is corrected bit by bit never runs so far ahead within one start."""
_STOPS_S = 0.001
"""Between two looks at whether a process has stopped."""
_continued = 0
_servers_stopped: list[str] = []
_stopped_by_us: set[int] = set()


def count_continuing() -> None:
    """From here on it is known when this process goes on after Ctrl-Z, or a SIGSTOP. For the main thread."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCONT, _goes_on)


def _goes_on(_: int, __: FrameType | None) -> None:
    global _continued
    _continued += 1


def a_server_was_stopped(what: str) -> None:
    """And not by us, in words. For who sees that of a server of ours, be it after it went on."""
    _servers_stopped.append(what)


@contextmanager
def stopped_for_a_sample(pid: int, given_up: Callable[[float], bool]) -> Iterator[float | None]:
    """Stops a server of ours. Yields the monotonic time at which it stood still; None where it was given up before,
    which is asked with the seconds to wait. What the server wrote until then has arrived: nothing is written later."""
    process = os.pidfd_open(pid)
    _stopped_by_us.add(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGSTOP)
        # It stops once what it asked of the kernel is done, which may be a read of a slow disk.
        while not (is_given_up := given_up(_STOPS_S)) and not is_stopped(pid):
            pass
        yield None if is_given_up else time.monotonic()
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGCONT)
        os.close(process)
        with suppress(ChildProcessError):  # of a container; a child of ours would remember that it was stopped
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
        _stopped_by_us.discard(pid)


def stopped_by_somebody(pid: int) -> bool:
    """And not by us, for a sample."""
    return pid not in _stopped_by_us and is_stopped(pid) and pid not in _stopped_by_us


class Standstill:
    """From here until it is asked."""

    def __init__(self) -> None:
        self._continued, self._servers_stopped = _continued, len(_servers_stopped)
        self._asleep_s, self._set_s = _asleep_s(), _wall_s()

    def told(self) -> str | None:
        """In words; None where time went by as ever."""
        if _continued != self._continued:
            return "this tool was stopped meanwhile, and went on later: it cannot tell when what it waited for came"
        if stopped := _servers_stopped[self._servers_stopped :]:
            return f"{stopped[0]}: the time is not its own"
        slept_s = _asleep_s() - self._asleep_s
        return f"the host slept for {slept_s:.0f} s meanwhile" if slept_s > _ASLEEP_S else None

    def clock_set_s(self) -> float | None:
        """By how much the host's clock was set; None where it was not."""
        set_s = _wall_s() - self._set_s
        return set_s if abs(set_s) > _SET_S else None


def _asleep_s() -> float:
    """Since the host was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


def _wall_s() -> float:
    return time.time() - time.monotonic()
