"""Who else fetches or makes this just now? One process at a time does; the others wait, and find it done."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recovery.ownership import made_readable


@contextmanager
def alone(lock: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds the lock's file; `waiting` is called where another process holds it. The kernel gives it back with its
    holder's end, whatever that is."""
    made_readable(lock.parent)
    # Where others may write, a link of theirs is not followed.
    with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
