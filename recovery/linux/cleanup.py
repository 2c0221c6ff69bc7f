"""Removes what killed runs left: temporary folders, drafts of files, servers and control groups.

What a run leaves carries the mark of its process (procfs.process_id), or the process id in the name of a draft. Only
what is marked by a process that has ended is removed. The containers of killed runs are removed by docker_engine.py."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from recovery.errors import HostUnfitError
from recovery.linux.cgroups import hierarchies, processes_in, remove_group
from recovery.linux.files import read_untrusted, refuse_untrusted, rename_to_free_name, why_not_trusted
from recovery.linux.privileges import RootStep, is_refused
from recovery.linux.procfs import is_orphan, is_owner_gone, name_with_process_id, process_id
from recovery.linux.storage import MOUNTS

# --- Temporary folders
#
# A folder is never without a mark: it gets its short name once the mark is in it, and a folder that is being removed is
# first renamed to a name that contains the mark of the remover.

TEMP_PREFIX = "recovery-"
_OWNER = "owner"
_MAX_OWNER_BYTES = 1000
_LONGEST_BASE_BYTES = 60
"""The path of a socket holds at most 107 bytes; the rest is for our own names."""
_TRIES = 100
_numbers = itertools.count(1)


def make_temp_folder(base: str | None = None) -> Path:
    """Creates a private temporary folder with a short name, and returns it. Raises HostUnfitError if another user could
    put a different folder in its place."""
    parent = Path(base or tempfile.gettempdir())
    refuse_untrusted(parent, "name a folder of your own in TMPDIR, or set its sticky bit (chmod +t)")
    draft = parent / name_with_process_id(next(_numbers))
    draft.mkdir(mode=0o700)
    try:
        (draft / _OWNER).write_text(process_id(), encoding="ascii")
        return rename_to_free_name(draft, (f"{TEMP_PREFIX}{secrets.token_hex(4)}" for _ in range(_TRIES)))
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


@contextmanager
def temp_folder() -> Iterator[Path]:
    made = make_temp_folder()
    try:
        yield made
    finally:
        remove_temp_folder(made)


@contextmanager
def part_folder(root: Path, prefix: str) -> Iterator[Path]:
    """Yields a temporary folder in `root` for something that is not complete yet. The caller holds the lock on such
    folders, so older ones were left by killed processes and are removed."""
    for leftover in root.glob(f"{prefix}*"):
        if why_not_trusted(leftover) is None:
            shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=root, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def socket_temp_base() -> str:
    """Returns the folder for temporary folders with sockets: the default one, or /tmp if its path is too long for a
    socket."""
    base = tempfile.gettempdir()
    return base if len(os.fsencode(base)) <= _LONGEST_BASE_BYTES else "/tmp"  # noqa: S108 - private folders in it


def remove_temp_folder(made: Path) -> None:
    """Removes a temporary folder unless it belongs to another user or no longer exists."""
    if _is_ours(made):
        doomed = made.with_name(name_with_process_id(next(_numbers)))
        with suppress(OSError):
            made.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)


def sweep_temp_folders() -> None:
    """Sweeps the default temporary folder and the folder that is used for sockets."""
    for base in dict.fromkeys((tempfile.gettempdir(), socket_temp_base())):
        sweep_temp_folders_in(Path(base))


def sweep_temp_folders_in(base: Path) -> None:
    """Removes the temporary folders of ended owners. Folders without a mark and those of other users are left alone."""
    for folder in filter(is_abandoned_temp_folder, base.glob(f"{TEMP_PREFIX}*")):
        remove_temp_folder(folder)
    for folder in base.glob("*"):
        if is_orphan(folder.name) and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    with suppress(OSError):
        return folder.lstat().st_uid == os.geteuid()
    return False


def is_abandoned_temp_folder(folder: Path) -> bool:
    """Returns whether this is a temporary folder of an owner that has ended."""
    if not folder.name.startswith(TEMP_PREFIX):
        return False
    with suppress(OSError):
        # The mark must belong to the folder's owner: in a shared folder anybody can create a folder of such a name.
        marked = read_untrusted(folder / _OWNER, _MAX_OWNER_BYTES)
        return (
            marked is not None
            and marked[1] == folder.lstat().st_uid
            and is_owner_gone(marked[0].decode(errors="replace"))
        )
    return False


# --- Drafts of files


def sweep_drafts(folder: Path, names: str = r".+\.\w+") -> None:
    """Removes the drafts that ended processes have left in the folder. Use it only for a folder in which nothing but
    this tool creates files of such names."""
    draft = re.compile(rf"\.(?:{names})\.(\d+)")
    with suppress(OSError):
        for entry in sorted(folder.iterdir()):
            match = draft.fullmatch(entry.name)
            if match is not None and _is_abandoned(int(match[1])):
                _remove_entry(entry)


def _is_abandoned(process: int) -> bool:
    """Returns whether the process that left a draft has ended. A draft with our own pid is from an earlier process with
    that number, since this process is not writing any draft when it sweeps."""
    return process == os.getpid() or not Path(f"/proc/{process}").exists()


def _remove_entry(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with suppress(OSError):
            entry.unlink()


# --- Servers and control groups

_TIMEOUT_S = 60.0
_POLL_S = 0.01
_OPTIONS = "--defaults-file="
SERVER_NAMES = ("mysqld", "mariadbd")
"""Process names of servers."""
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def servers_in(folder: Path, *names: str) -> list[psutil.Process]:
    """Returns the processes with one of these names that work in this folder, as far as this user can see them."""
    return [process for process in psutil.process_iter() if _runs_in(process, folder, names)]


def kill_servers_in(folder: Path, *names: str) -> tuple[int, ...]:
    """Kills (SIGKILL) every process with one of these names that has this folder as its working directory, as a server
    has its data directory. Returns their ids once they have ended.

    Only the holder of the directory's lock may call it: then the owner of any such process is dead."""
    servers = servers_in(folder, *names)
    for process in servers:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied as error:
            raise HostUnfitError(
                f"server {process.pid} uses {folder} and belongs to another user",
                "end it, or name another folder in --data",
            ) from error
    ended = wait_until_ended(servers)
    alive = [process for process in servers if process not in ended]
    if alive:
        raise HostUnfitError(
            f"server {alive[0].pid} uses {folder} and does not end after SIGKILL",
            "check its storage (`dmesg`), then try again",
        )
    return tuple(process.pid for process in servers)


def _runs_in(process: psutil.Process, folder: Path, names: tuple[str, ...]) -> bool:
    try:
        return process.cwd() == str(folder.resolve()) and process.name() in names
    except psutil.Error:  # the process has ended, or belongs to another user
        return False


def kill_with_environment(name: str, value: str) -> None:
    """Kills (SIGKILL) every process that was started with this variable in its environment. Unlike its parent, session
    and process group, a process that detaches itself keeps it."""
    _kill_and_wait([process for process in psutil.process_iter() if _has_variable(process, name, value)])


def _has_variable(process: psutil.Process, name: str, value: str) -> bool:
    try:
        return process.environ().get(name) == value
    except (psutil.Error, OSError):  # the process has ended, or belongs to another user
        return False


def kill_orphaned_servers() -> tuple[int, ...]:
    """Kills (SIGKILL) the servers with options in the run folder of a killed run, and returns their ids once they have
    ended.

    They would otherwise disturb the measurement, whatever data directory they use. Their run folders are removed too,
    wherever they are, since the other run may have had a different TMPDIR."""
    folders = {process: folder for process in psutil.process_iter() if (folder := _orphan_folder(process)) is not None}
    gone = _kill_and_wait(folders)
    for process in gone:
        remove_temp_folder(folders[process])
    return tuple(process.pid for process in gone)


def _orphan_folder(process: psutil.Process) -> Path | None:
    """Returns the run folder of a server with an ended owner, or None for every other process."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return None
    options = next((word.removeprefix(_OPTIONS) for word in words if word.startswith(_OPTIONS)), None)
    folder = None if options is None else Path(options).parent.parent
    return folder if folder is not None and is_abandoned_temp_folder(folder) else None


def remove_orphaned_groups(mounts: Path = MOUNTS) -> tuple[str, ...]:
    """Kills (SIGKILL) the servers in control groups of ended owners, removes the groups, and returns the names of the
    removed ones.

    Groups of others are never touched, and neither is one of our groups if it contains a process that is not a server
    of this tool."""
    if is_refused(RootStep.CGROUPS):
        return ()
    entries = (entry for hierarchy in hierarchies(mounts) for entry in hierarchy.root.glob("*/"))
    groups = {entry for entry in entries if is_orphan(entry.name)}
    for folder in groups:
        processes = []
        for pid in processes_in(folder):
            with suppress(psutil.Error):  # it has just ended
                processes.append(psutil.Process(pid))
        if all(map(_is_a_server, processes)):
            _kill_and_wait(processes)
    return tuple(sorted({folder.name for folder in groups if remove_group(folder)}))


def _kill_and_wait(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Kills the processes, and returns those that ended in time. Those that have ended before, or belong to another
    user, are skipped."""
    killed = []
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
            killed.append(process)
    return wait_until_ended(killed)


def wait_until_ended(killed: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Waits for the killed processes, and returns those that ended in time.

    A zombie counts as ended: the process that inherited it may never collect it, for example the first process of a
    container."""
    until = time.monotonic() + _TIMEOUT_S
    while (alive := [process for process in killed if _is_alive(process)]) and time.monotonic() < until:
        time.sleep(_POLL_S)
    return [process for process in killed if process not in alive]


def _is_alive(process: psutil.Process) -> bool:
    if _reap(process):
        return False
    with suppress(psutil.Error, OSError):
        # The first thread may have ended while others still hold its files; it cannot be collected before they end.
        threads = len(list(Path(f"/proc/{process.pid}/task").iterdir()))
        if process.is_running() and (process.status() not in _ENDED or threads > 1):
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


def _is_a_server(process: psutil.Process) -> bool:
    """Returns whether the process is a server of this tool, or the shell that will become one."""
    try:
        return any(word.startswith(_OPTIONS) for word in " ".join(process.cmdline()).split())
    except psutil.Error:
        return True  # the process has just ended
