"""Kills servers that still run after their owner was killed, and removes control groups of ended owners."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from recovery.errors import HostUnfitError
from recovery.linux import files
from recovery.linux.cgroups import MOUNTS, hierarchies, processes_in, remove_group
from recovery.linux.privileges import RootStep, is_refused
from recovery.linux.process_marks import is_orphan

_PATIENCE_S = 60.0
_POLL_S = 0.01
_OPTIONS = "--defaults-file="
SERVER_NAMES = ("mysqld", "mariadbd")
"""Process names of servers."""
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def kill_servers_in(folder: Path, *names: str) -> tuple[int, ...]:
    """Kills (SIGKILL) every process with one of these names that has this folder as its working directory, as a server
    has its data directory. Returns their ids once they have ended.

    Only the holder of the directory's lock may call it: then the owner of any such process is dead."""
    found = [process for process in psutil.process_iter() if _runs_in(process, folder, names)]
    for process in found:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied as error:
            raise HostUnfitError(
                f"server {process.pid} runs over {folder} and is another user's", "end it, or give DATA= another folder"
            ) from error
    ended = wait_until_ended(found)
    alive = [process for process in found if process not in ended]
    if alive:
        raise HostUnfitError(
            f"server {alive[0].pid} runs over {folder} and cannot be killed", "see what its storage waits for"
        )
    return tuple(process.pid for process in found)


def _runs_in(process: psutil.Process, folder: Path, names: tuple[str, ...]) -> bool:
    try:
        return process.cwd() == str(folder.resolve()) and process.name() in names
    except psutil.Error:  # the process has ended, or belongs to another user
        return False


def kill_orphaned_servers() -> tuple[int, ...]:
    """Kills (SIGKILL) the servers with options in the run folder of a killed run, and returns their ids once they have
    ended.

    They would otherwise disturb the measurement, whatever data directory they use. Their run folders are removed too,
    wherever they are, since the other run may have had a different TMPDIR."""
    folders = {process: folder for process in psutil.process_iter() if (folder := _orphan_folder(process)) is not None}
    gone = wait_until_ended([process for process in folders if _kill(process)])
    for process in gone:
        files.remove_temp_folder(folders[process])
    return tuple(process.pid for process in gone)


def _orphan_folder(process: psutil.Process) -> Path | None:
    """Returns the run folder of a server with an ended owner, or None for every other process."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return None
    options = next((word.removeprefix(_OPTIONS) for word in words if word.startswith(_OPTIONS)), None)
    folder = None if options is None else Path(options).parent.parent
    return folder if folder is not None and files.is_abandoned_temp_folder(folder) else None


def remove_orphaned_groups(mounts: Path = MOUNTS) -> tuple[str, ...]:
    """Kills (SIGKILL) the servers in control groups of ended owners, removes the groups, and returns the names of the
    removed ones.

    Groups of others are never touched, and neither is one of our groups if it contains a process that is not a server
    of this tool."""
    if is_refused(RootStep.CGROUPS):
        return ()
    found = {entry for one in hierarchies(mounts) for entry in _entries(one.root) if is_orphan(entry.name)}
    for folder in found:
        processes = [process for pid in processes_in(folder) if (process := _process(pid)) is not None]
        if all(map(_is_a_server, processes)):
            wait_until_ended([process for process in processes if _kill(process)])
    return tuple(sorted({folder.name for folder in found if remove_group(folder)}))


def _entries(root: Path) -> tuple[Path, ...]:
    try:
        return tuple(entry for entry in root.iterdir() if entry.is_dir())
    except OSError:
        return ()


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def _kill(process: psutil.Process) -> bool:
    """Kills the process. Returns False if it has ended or belongs to another user: then there is nothing to wait
    for."""
    try:
        process.kill()
    except psutil.Error:
        return False
    return True


def wait_until_ended(killed: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Waits for the killed processes, and returns those that ended in time.

    A zombie counts as ended: the process that inherited it may never collect it, for example the first process of a
    container."""
    until = time.monotonic() + _PATIENCE_S
    while (alive := [process for process in killed if _is_alive(process)]) and time.monotonic() < until:
        time.sleep(_POLL_S)
    return [process for process in killed if process not in alive]


def _is_alive(process: psutil.Process) -> bool:
    if _reap(process):
        return False
    with suppress(psutil.Error, OSError):
        if process.is_running() and (process.status() not in _ENDED or _has_threads(process.pid)):
            return True
    _reap(process)  # collects it if its last thread has ended since the first call
    return False


def _reap(process: psutil.Process) -> bool:
    """Collects the process if it is a child that has ended. Returns True if it is collected or gone, and False if it is
    alive or a zombie that another process has to collect."""
    try:
        process.wait(0)
    except psutil.TimeoutExpired:
        return False
    return True


def _has_threads(pid: int) -> bool:
    """Returns whether the process has other threads. The first thread may have ended while others still hold its files,
    and it cannot be collected before they end."""
    return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1


def _is_a_server(process: psutil.Process) -> bool:
    """Returns whether the process is a server of this tool, or the shell that will become one."""
    try:
        return any(word.startswith(_OPTIONS) for word in " ".join(process.cmdline()).split())
    except psutil.Error:
        return True  # the process has just ended
