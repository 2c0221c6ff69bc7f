"""What do Ctrl-C, SIGTERM and SIGHUP do to a run, and how are they kept from coming in between two lines?"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Handler = Callable[[int, FrameType | None], object]


def end_like_an_interrupt() -> None:
    """From here on all three are a KeyboardInterrupt, so that one way of clearing up serves them."""
    for number in _not_ignored():
        signal.signal(number, signal.default_int_handler)


def change_nothing_any_more() -> None:
    """All is done, and the interpreter ends: what comes now would only make it complain."""
    for number in _not_ignored():
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """All three, for a while. They are the main thread's; in another one nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {number: signal.signal(number, handler) for number in _not_ignored()}
    try:
        yield
    finally:
        for number, before in earlier.items():
            signal.signal(number, before)


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


def _not_ignored() -> list[signal.Signals]:
    """What nohup and the like ignore stays ignored: whoever started us so wants the run to outlive the terminal."""
    return [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
