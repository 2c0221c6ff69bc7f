"""What do signals that end a process do to a run, and how are they kept from coming in between two lines?"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

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
