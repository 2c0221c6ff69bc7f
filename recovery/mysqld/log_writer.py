"""Finds the server that still writes a log, if its last start is not ready."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recovery.linux.procfs import has_open, ids_in_namespaces, is_stopped, process_age_s, process_owner, processes_named
from recovery.logs.log_analysis import LoggedStart, continued
from recovery.logs.timestamps import parse_stamp

SERVERS = frozenset({"mysqld", "mysqld-debug", "mariadbd", "mariadbd-debug"})
_MAX_EXEC_S = 10.0
"""A server logs its name at most so long after its process was created. One that a container's script becomes can be
older."""


@dataclass(frozen=True)
class LogWriter:
    """What this user can see of the server that writes a log."""

    pid: int | None
    """None: no server was found."""
    stopped: bool = False
    """Whether the server is stopped by a signal, such as Ctrl-Z."""
    hidden: bool = False
    """Whether servers of other users run, of which this user may not see the open files."""
    successor: int | None = None
    """The process id of a server that has the log open, but is not the one that logged the start."""


def find_log_writer(log: Path, start: LoggedStart) -> LogWriter:
    """Returns the server that has the log open. If this user may not see the files of a server, it is the one that has
    the process id in the log, was created when the start begins, and owns the file."""
    try:
        file = log.stat()
    except OSError:
        return LogWriter(None)
    pids = processes_named(SERVERS)
    opened = {pid: has_open(pid, file) for pid in pids}
    hidden = [pid for pid in pids if opened[pid] is None]
    likely = [pid for pid in hidden if process_owner(pid) == file.st_uid and _is_of_start(pid, start)]
    writers = [pid for pid in pids if opened[pid]]
    for pid in (*(pid for pid in writers if start.pid is None or start.pid in ids_in_namespaces(pid)), *likely):
        return LogWriter(pid, is_stopped(pid))
    return LogWriter(None, hidden=bool(hidden), successor=next(iter(writers), None))


def has_no_writer(log: Path) -> bool:
    """Returns whether no process of this host writes the log. It may be another program than a server: a container's
    log is written by what runs the container. Processes that this user may not see count if they can be servers."""
    try:
        file = log.stat()
    except OSError:
        return False
    if any(has_open(pid, file) is not False for pid in processes_named(SERVERS)):
        return False
    return not any(_writes(folder, file) for folder in Path("/proc").glob("[0-9]*"))


def _writes(process: Path, file: os.stat_result) -> bool:
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                if os.path.samestat(descriptor.stat(), file) and descriptor.lstat().st_mode & stat.S_IWUSR:
                    return True
    return False


def until_now(start: LoggedStart, writer: LogWriter) -> LoggedStart:
    """Returns the start with its time until now, if its server is still running."""
    return start if writer.pid is None else continued(start, _elapsed_s(start, writer.pid), writer.pid)


def _elapsed_s(start: LoggedStart, pid: int) -> float | None:
    """Returns the seconds since the first line of the start. If that does not name its zone, the age of the process has
    to do."""
    began = parse_stamp(start.at or "")
    return process_age_s(pid) if began is None or not began.zoned else time.time() - began.at_s


def _is_of_start(pid: int, start: LoggedStart) -> bool:
    began, age_s = parse_stamp(start.at or ""), process_age_s(pid)
    if began is None or not began.zoned or age_s is None or start.pid not in ids_in_namespaces(pid):
        return False
    return abs(time.time() - age_s - began.at_s) <= _MAX_EXEC_S
