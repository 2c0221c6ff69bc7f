"""Provides file locks that the kernel releases when the holder dies, with a note about the holder in the file."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from recovery.errors import HostUnfitError, escape_control
from recovery.linux.files import create_readable_folder, expand_path, parse_json, read_untrusted, user_name

# --- Locks that wait
#
# One process at a time fetches or builds something; the others wait, and then find it done.


@contextmanager
def wait_for_lock(lock: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds the lock inside the block, and waits for it if necessary. `waiting` is called if another process holds it.
    The kernel releases it when the holder ends, in whatever way."""
    create_readable_folder(lock.parent)
    # O_NOFOLLOW: where other users may write, a link of theirs is not followed.
    with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- Locks with a named holder

_UNKNOWN = "another process"
_TIMEOUT_S = 0.3
_POLL_S = 0.02
_MAX_BYTES = 65536
_MAX_CHARS = 300
_MAX_ID = (1 << 32) - 1
"""The largest id of a process or a user that is accepted."""


@dataclass(frozen=True)
class LockOwner:
    """The holder of a lock, as it is written to the file."""

    pid: int
    command: str
    since: str
    uid: int | None = None

    def __str__(self) -> str:
        user = "" if self.uid is None or self.uid == os.geteuid() else f" of {user_name(self.uid)}"
        return f"pid {self.pid}{user}, `{self.command}`, since {self.since}"


class Lock:
    """A lock that is held from `take_lock` to `release`. Child processes do not inherit it, since its descriptor is
    closed on exec."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd: int | None = fd
        self.path = path

    def release(self, *, unlink: bool = False) -> None:
        if self._fd is None:
            return
        with suppress(OSError):  # the disk accepts no writes any more: the lock is released anyway
            if not unlink:
                os.ftruncate(self._fd, 0)
            elif _is_same_file(self._fd, self.path):
                self.path.unlink()
        self.leave()

    def leave(self) -> None:
        """Releases the lock as if the holder had been killed: its signature stays in the file, and so does any work it
        has begun."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def take_lock(path: Path, *, mode: int = 0o600, wait: bool = False) -> Lock | None:
    """Takes the lock. If another process holds it, waits for it with `wait`, and else returns None. Raises
    HostUnfitError if the file is not a lock file; it is then left unchanged.

    It retries for a moment: `lock_holder` takes the lock for some microseconds, and a lock file that another user has
    just created may not have its final mode yet."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        over = time.monotonic() > deadline
        try:
            fd = _open(path, mode)
        except PermissionError:
            if over:
                raise
        else:
            if _try_flock(fd, wait=wait) and _is_same_file(fd, path):
                # Only an empty file or a lock's signature may be overwritten.
                if (text := os.pread(fd, _MAX_BYTES, 0)) and _parse_owner(text) is None:
                    os.close(fd)
                    raise HostUnfitError(
                        f"{path} is not a lock file of this tool, and was not changed",
                        "move it away, or name another one (RECOVERY_HOST_LOCK=, --data)",
                    )
                _write_owner(fd)
                return Lock(fd, path)
            os.close(fd)
            if over and not wait:
                return None
        time.sleep(_POLL_S)


def lock_holder(path: Path) -> str | None:
    """Returns a description of the lock's holder, or None if nobody holds it."""
    try:
        fd = _require_regular_file(os.open(path, os.O_RDONLY | _UNTRUSTED_FLAGS), path)
    except OSError:
        return None
    try:
        # A lock that was just taken may not have a signature yet.
        return None if _try_flock(fd, fcntl.LOCK_SH) else str(_parse_owner(os.pread(fd, _MAX_BYTES, 0)) or _UNKNOWN)
    finally:
        os.close(fd)


def is_own_lock(path: Path) -> bool:
    """Returns whether this user has taken the lock and never released it: the holder was killed, or still holds it."""
    try:
        content = read_untrusted(path, _MAX_BYTES)
    except OSError:
        return False
    return content is not None and content[1] == os.geteuid() and _parse_owner(content[0]) is not None


def _open(path: Path, mode: int) -> int:
    """Opens the lock file, and creates it if necessary. The first attempt is without O_CREAT, which the kernel refuses
    for another user's file in a sticky folder (fs.protected_regular)."""
    flags = os.O_RDWR | _UNTRUSTED_FLAGS
    try:
        return _require_regular_file(os.open(path, flags), path)
    except FileNotFoundError:
        pass
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return _require_regular_file(os.open(path, flags), path)
    os.fchmod(fd, mode)  # whatever the umask is: other users must be able to take a shared lock
    return fd


_UNTRUSTED_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags for shared folders, where other users may have created the entry: links are not followed, and a pipe does not
block."""


def _require_regular_file(fd: int, path: Path) -> int:
    """Returns the descriptor if it is a regular file with a single link. Raises OSError otherwise: writing to it could
    change another user's file through a second name."""
    about = os.fstat(fd)
    if stat.S_ISREG(about.st_mode) and about.st_nlink <= 1:
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "it is not a regular file with a single name", str(path))


def _try_flock(fd: int, kind: int = fcntl.LOCK_EX, *, wait: bool = False) -> bool:
    try:
        fcntl.flock(fd, kind if wait else kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _is_same_file(fd: int, path: Path) -> bool:
    """Returns whether the path still leads to the locked file. The last holder may have removed the file after it was
    opened here and before it was locked."""
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False


def _write_owner(fd: int) -> None:
    owner = LockOwner(os.getpid(), _command(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"), os.geteuid())
    with suppress(OSError):  # the disk is full: the lock counts anyway, since a command that frees space must get it
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(vars(owner)).encode(), 0)


def _command() -> str:
    """Returns the command line, cut to the length that is displayed. A signature longer than the part that is read
    would not be recognised as one."""
    program = Path(sys.argv[0] if sys.argv else "").name
    return shlex.join(["recovery" if program in ("", "__main__.py") else program, *sys.argv[1:]])[:_MAX_CHARS]


def _parse_owner(signature: bytes) -> LockOwner | None:
    """Returns the owner that a signature describes, or None if it is invalid, or may be longer than the part that was
    read.

    The text may come from any user, and is displayed on a terminal: it is checked, and made harmless."""
    if len(signature) >= _MAX_BYTES:
        return None
    try:
        owner = LockOwner(**parse_json(signature))
    except (ValueError, TypeError):  # not JSON, or with other keys
        return None
    if not (isinstance(owner.command, str) and isinstance(owner.since, str)):
        return None
    if not (_is_number(owner.pid, minimum=1) and (owner.uid is None or _is_number(owner.uid, minimum=0))):
        return None
    command, since = (escape_control(text[:_MAX_CHARS]) for text in (owner.command, owner.since))
    return replace(owner, command=command, since=since)


def _is_number(value: object, *, minimum: int) -> bool:
    return type(value) is int and minimum <= value <= _MAX_ID


# --- The lock of timed runs
#
# Two timed runs on one host would disturb each other.

_NAME = "mysql-recovery-tester.lock"


@contextmanager
def host_lock(*, waiting: Callable[[str], AbstractContextManager[None]] | None = None) -> Iterator[None]:
    """Holds the host's lock, which one process of any user can hold at a time. RECOVERY_HOST_LOCK names another file.

    If another process holds it, waits inside the context of `waiting`, which is called with a description of the
    holder; without `waiting` raises HostUnfitError."""
    path = lock_path()
    lock = _take_host_lock(path)
    if lock is None and waiting is not None:
        with waiting(lock_holder(path) or _UNKNOWN):
            lock = _take_host_lock(path, wait=True)
    if lock is None:
        raise HostUnfitError(
            f"another timed run is in progress: {lock_holder(path) or _UNKNOWN}",
            "wait until it ends (--wait does), since two runs at once would disturb each other; `recovery status` "
            "shows its progress",
        )
    try:
        yield
    finally:
        lock.release()


def _take_host_lock(path: Path, *, wait: bool = False) -> Lock | None:
    try:
        return take_lock(path, mode=0o666, wait=wait)
    except OSError as error:
        raise HostUnfitError(
            f"the lock of timed runs, {path}, cannot be taken: {error.strerror}",
            "remove that file, or name another one in RECOVERY_HOST_LOCK",
        ) from error


def lock_path() -> Path:
    chosen = os.environ.get("RECOVERY_HOST_LOCK")
    return expand_path(Path(chosen)) if chosen else _shared_folder() / _NAME


def _shared_folder() -> Path:
    """Returns the first folder that everybody may write to. All users must arrive at the same one."""
    for folder in (Path("/run/lock"), Path("/var/lock")):
        with suppress(OSError):
            if folder.stat().st_mode & stat.S_IWOTH and not os.statvfs(folder).f_flag & os.ST_RDONLY:
                return folder
    return Path("/tmp")  # noqa: S108 - not TMPDIR's
