"""Marks identify the process that created something, and show whether that process has ended."""

from __future__ import annotations

import os
import re
from pathlib import Path

# --- Process marks
#
# A mark identifies the process that created something, and shows whether that process has ended. A process id alone is
# not enough, since the kernel reuses it.

_PROCESS_PREFIX = "mysql-recovery-"
_NAME = re.compile(rf"{_PROCESS_PREFIX}(.+)-\d+")
_NUMBER = re.compile(r"[0-9]{1,10}")
_AFTER_NAME_START = 19
"""Index of starttime in /proc/PID/stat, counted after the process name. The name itself may contain blanks and
parentheses."""


def process_id() -> str:
    """Returns the mark of this process: boot id, pid namespace, pid and start time, separated by dots."""
    return f"{boot_id()}.{_namespace()}.{os.getpid()}.{_start_ticks(os.getpid())}"


def is_owner_gone(made_by: str) -> bool:
    """Returns whether the process with this mark has ended. Returns False if that cannot be determined from here: what
    a process in another pid namespace created is for that namespace to remove."""
    boot, _, rest = made_by.partition(".")
    namespace, _, rest = rest.partition(".")
    pid, _, began = rest.partition(".")
    if not _NUMBER.fullmatch(pid):
        return False
    if boot != boot_id():
        return True
    return namespace == _namespace() and _start_ticks(int(pid)) != began


def name_with_process_id(number: int) -> str:
    """Returns a name that contains the mark of this process, for things that have only a name and no labels."""
    return f"{_PROCESS_PREFIX}{process_id()}-{number}"


def is_orphan(name: str) -> bool:
    """Returns whether the name was made by own_name in a process that has ended. Returns False for all other names."""
    found = _NAME.fullmatch(name)
    return found is not None and is_owner_gone(found[1])


def boot_id() -> str:
    """Returns the id of the host's current boot, which changes with every boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _start_ticks(pid: int) -> str | None:
    """Returns the start time of the process in clock ticks since boot, or None if there is no such process or only a
    zombie."""
    fields = _stat_fields(pid)
    return None if not fields or fields[0] == "Z" else fields[_AFTER_NAME_START]


def _stat_fields(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat after the process name, or an empty list if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def is_stopped(pid: int) -> bool:
    """Returns whether the process is stopped, by Ctrl-Z or by another stop signal."""
    return _stat_fields(pid)[:1] in (["T"], ["t"])
