"""Other processes and other users of this host: children of this process, and ids that only root can take."""

from __future__ import annotations

import ctypes
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

NOBODY, SOMEBODY = 65534, 54321
"""The second has no name here."""
_PR_SET_DUMPABLE = 4
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@contextmanager
def as_user(uid: int = NOBODY, *, umask: int = 0o022) -> Iterator[None]:
    """Take the rights of another user inside the block."""
    groups, before = os.getgroups(), os.umask(umask)
    os.setgroups([])
    os.setresgid(uid, uid, 0)
    os.setresuid(uid, uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)
        os.umask(before)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # the change of user has cleared it


class Child(NamedTuple):
    pid: int
    returned: str


@contextmanager
def child_process(work: Callable[[], str]) -> Iterator[Child]:
    """Yield a child process that has done its work, and waits until it is killed at the end of the block."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, f"{work()}\n".encode())
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        with os.fdopen(reading) as answer:
            line = answer.readline()
        assert line.endswith("\n"), "the work of the child process failed"
        yield Child(pid, line.rstrip("\n"))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def done_in_child(work: Callable[[], str]) -> str:
    """Return what the work returned in a child process that has ended."""
    with child_process(work) as child:
        pass
    return child.returned


@contextmanager
def everybodys_folder() -> Iterator[Path]:
    """Yield a folder like /tmp: pytest's own lies in a private one."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o1777)
        yield Path(made)
