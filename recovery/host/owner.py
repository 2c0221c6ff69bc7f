"""Does the process still live that made something? Its mark names it beyond doubt: a process id is used again."""

from __future__ import annotations

import os
import re
from pathlib import Path

_PREFIX = "mysql-recovery-"
_NAME = re.compile(rf"{_PREFIX}(.+)-\d+")
_NUMBER = re.compile(r"[0-9]{1,10}")
_AFTER_NAME_START = 19
"""starttime's place in /proc/PID/stat after the name, which may hold blanks and parentheses itself."""


def mark() -> str:
    """Of this process: the boot, the namespace its number counts in, the number, and when it began."""
    return f"{boot_id()}.{_namespace()}.{os.getpid()}.{_began(os.getpid())}"


def is_gone(made_by: str) -> bool:
    """False also where it cannot be told from here: what another namespace's process made is that one's to remove."""
    boot, _, rest = made_by.partition(".")
    namespace, _, rest = rest.partition(".")
    pid, _, began = rest.partition(".")
    if not _NUMBER.fullmatch(pid):
        return False
    if boot != boot_id():
        return True
    return namespace == _namespace() and _began(int(pid)) != began


def own_name(number: int) -> str:
    """For something that has no labels, only a name: its mark is in it."""
    return f"{_PREFIX}{mark()}-{number}"


def is_orphan(name: str) -> bool:
    """False for everybody else's names."""
    found = _NAME.fullmatch(name)
    return found is not None and is_gone(found[1])


def boot_id() -> str:
    """Of the host: another one after each start of it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _began(pid: int) -> str | None:
    """In ticks since the boot; None where there is no such process, or only its remains."""
    fields = _fields(pid)
    return None if not fields or fields[0] == "Z" else fields[_AFTER_NAME_START]


def _fields(pid: int) -> list[str]:
    """What the kernel says of it after its name; empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def is_stopped(pid: int) -> bool:
    """By Ctrl-Z, or another signal that does so."""
    return _fields(pid)[:1] in (["T"], ["t"])
