"""Limits memory and CPU time of this process while it works on untrusted input."""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_PAGE_BYTES = resource.getpagesize()


class TooMuchCpuTimeError(Exception):
    """The block used more CPU time than it may."""


@contextmanager
def limited_memory_and_time(memory_bytes: int, cpu_s: float) -> Iterator[None]:
    """Raises MemoryError in the block if this process takes so much more memory, and TooMuchCpuTimeError after so much
    CPU time. No process may be started in the block: it would inherit the limit of the memory.

    Signals are delivered to the main thread; in another thread the time is not limited."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _address_space_bytes() + memory_bytes
    if soft == resource.RLIM_INFINITY or wanted < soft:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        with _limited_time(cpu_s):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def _limited_time(cpu_s: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_time(_: int, __: FrameType | None) -> NoReturn:
        raise TooMuchCpuTimeError

    before = signal.signal(signal.SIGPROF, on_time)
    try:
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _address_space_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * _PAGE_BYTES
