"""Is a server still running whose owner was killed, or a control group left? Nobody waits for it any more."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from recovery.errors import HostUnfitError
from recovery.linux import files
from recovery.linux.cgroups import MOUNTS, hierarchies, processes_in, remove
from recovery.linux.files import is_orphan
from recovery.linux.privileges import RootStep, is_refused

_PATIENCE_S = 60.0
_POLL_S = 0.01
_OPTIONS = "--defaults-file="
SERVERS = ("mysqld", "mariadbd")
"""Names of their processes."""
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def end_servers_in(folder: Path, *names: str) -> tuple[int, ...]:
    """SIGKILL to every process so called that works in this folder, as a server does in its data directory. Only
    for who holds the directory's lock: then the owner of any such process is dead. Returns their ids, once gone."""
    found = [process for process in psutil.process_iter() if _works_in(process, folder, names)]
    for process in found:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied as error:
            raise HostUnfitError(
                f"server {process.pid} runs over {folder} and is another user's", "end it, or give DATA= another folder"
            ) from error
    ended = until_ended(found)
    alive = [process for process in found if process not in ended]
    if alive:
        raise HostUnfitError(
            f"server {alive[0].pid} runs over {folder} and cannot be killed", "see what its storage waits for"
        )
    return tuple(process.pid for process in found)


def _works_in(process: psutil.Process, folder: Path, names: tuple[str, ...]) -> bool:
    try:
        return process.cwd() == str(folder.resolve()) and process.name() in names
    except psutil.Error:  # gone, or another user's
        return False


def end_left_servers() -> tuple[int, ...]:
    """Servers whose options lie in the run folder of a killed run: they would work beside what is timed, whatever data
    directory is theirs. SIGKILL; returns their ids, once gone. Their folders go with them, wherever they lie: another
    run may have had another TMPDIR."""
    folders = {process: folder for process in psutil.process_iter() if (folder := _left_folder(process)) is not None}
    gone = until_ended([process for process in folders if _killed(process)])
    for process in gone:
        files.remove(folders[process])
    return tuple(process.pid for process in gone)


def _left_folder(process: psutil.Process) -> Path | None:
    """Of a server whose owner is gone; None of every other process."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return None
    options = next((word.removeprefix(_OPTIONS) for word in words if word.startswith(_OPTIONS)), None)
    folder = None if options is None else Path(options).parent.parent
    return folder if folder is not None and files.is_left(folder) else None


def end_left_groups(mounts: Path = MOUNTS) -> tuple[str, ...]:
    """Control groups whose owner is gone, and the servers in them: SIGKILL, then the groups. Others' are never touched,
    nor one of ours with somebody else's process in it. Returns the names of those that went."""
    if is_refused(RootStep.CGROUPS):
        return ()
    found = {entry for one in hierarchies(mounts) for entry in _entries(one.root) if is_orphan(entry.name)}
    for folder in found:
        processes = [process for pid in processes_in(folder) if (process := _process(pid)) is not None]
        if all(map(_is_a_server, processes)):
            until_ended([process for process in processes if _killed(process)])
    return tuple(sorted({folder.name for folder in found if remove(folder)}))


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


def _killed(process: psutil.Process) -> bool:
    """False where it is another user's: then there is nothing to wait for."""
    try:
        process.kill()
    except psutil.Error:
        return False
    return True


def until_ended(killed: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that have, after a while. One whose remains nobody collects has ended: who has inherited it may never do
    so, as the first process of a container."""
    until = time.monotonic() + _PATIENCE_S
    while (alive := [process for process in killed if _is_alive(process)]) and time.monotonic() < until:
        time.sleep(_POLL_S)
    return [process for process in killed if process not in alive]


def _is_alive(process: psutil.Process) -> bool:
    if _is_collected(process):
        return False
    with suppress(psutil.Error, OSError):
        if process.is_running() and (process.status() not in _ENDED or _has_threads(process.pid)):
            return True
    _is_collected(process)  # where its last thread has ended since it was asked
    return False


def _is_collected(process: psutil.Process) -> bool:
    """Or gone; False also where its remains are for another to collect."""
    try:
        process.wait(0)
    except psutil.TimeoutExpired:
        return False
    return True


def _has_threads(pid: int) -> bool:
    """The first one may have ended while others still hold its files; nor can it be collected before they have."""
    return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1


def _is_a_server(process: psutil.Process) -> bool:
    """Or the shell that waits to become one."""
    try:
        return any(word.startswith(_OPTIONS) for word in " ".join(process.cmdline()).split())
    except psutil.Error:
        return True  # it has just gone
