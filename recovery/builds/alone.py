"""Who else fetches or makes this just now? One process at a time does; the others wait, and find it done."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(lock: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds the lock's file; `waiting` is called where another process holds it. The kernel gives it back with its
    holder's end, whatever that is."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
