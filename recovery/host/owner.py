"""Whose is it? A name says which process made a thing, so that a later one can tell that its owner is gone."""

from __future__ import annotations

import os
import re
from pathlib import Path

_PREFIX = "mysql-recovery"
_NAME = re.compile(rf"{_PREFIX}-(\d+)-(\d+)-(\d+)-(\d+)")
_AFTER_NAME_START = 19
"""The start time's place in /proc/PID/stat after the name, which may hold blanks and parentheses itself."""
_NAMESPACE = Path("/proc/self/ns/pid")


def own_name(number: int) -> str:
    """By our process id and its start time, which no later process has; both mean something in our own namespace of
    process ids alone, so that is in it too."""
    return f"{_PREFIX}-{_namespace()}-{os.getpid()}-{started(os.getpid())}-{number}"


def is_orphan(name: str) -> bool:
    """False where the owner lives, where it cannot be told from here, and for everybody else's names."""
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    namespace, pid, start, _ = map(int, found.groups())
    return namespace == _namespace() and started(pid) != start


def started(pid: int) -> int | None:
    """In the kernel's ticks since its boot; None where there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_AFTER_NAME_START])
    except (OSError, IndexError):
        return None


def _namespace() -> int:
    return _NAMESPACE.stat().st_ino
