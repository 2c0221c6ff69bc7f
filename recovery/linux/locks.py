"""Who holds this lock? A file lock that the kernel gives back when its holder dies, with a note of who that is."""

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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from recovery.errors import HostUnfitError, harmless
from recovery.linux.files import expanded, made_readable, parse_json, read_strange, user_called

# Who else fetches or makes this just now? One process at a time does; the others wait, and find it done.


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


_PATIENCE_S = 0.3
_POLL_S = 0.02
_MOST_BYTES = 65536
_MOST_LETTERS = 300
_MOST_NUMBER = (1 << 32) - 1
"""Of a process or a user."""


@dataclass(frozen=True)
class Owner:
    pid: int
    command: str
    since: str
    uid: int | None = None

    def __str__(self) -> str:
        return f"pid {self.pid}{self._of()}, `{self.command}`, since {self.since}"

    def _of(self) -> str:
        """Nothing where that is who asks."""
        return "" if self.uid in (None, os.geteuid()) else f" of {user_called(self.uid or 0)}"


class Lock:
    """Held from `take` to `release`. No child process keeps it: its descriptor is closed on exec."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd: int | None = fd
        self.path = path

    def release(self, *, unlink: bool = False) -> None:
        if self._fd is None:
            return
        with suppress(OSError):  # its disk takes nothing any more: it is given back all the same
            if not unlink:
                os.ftruncate(self._fd, 0)
            elif _still_there(self._fd, self.path):
                self.path.unlink()
        self.leave()

    def leave(self) -> None:
        """Given back as by one who was killed: its name stays in it, and so does what it had begun."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def take(path: Path, *, mode: int = 0o600) -> Lock | None:
    """None where another holds it; HostUnfitError where the file is no lock, which is then left as it is. Tried for a
    moment: `holder` takes it for some microseconds, and one that another user has just made is not everybody's yet."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        over = time.monotonic() > deadline
        try:
            fd = _open(path, mode)
        except PermissionError:
            if over:
                raise
        else:
            if _locked(fd) and _still_there(fd, path):
                if not _may_be_signed(fd):
                    os.close(fd)
                    raise HostUnfitError(
                        f"{path} is not a lock file of this tool",
                        "it is left as it is: move it away, or name another one (RECOVERY_HOST_LOCK=, DATA=)",
                    )
                _sign(fd)
                return Lock(fd, path)
            os.close(fd)
            if over:
                return None
        time.sleep(_POLL_S)


def holder(path: Path) -> str | None:
    """Who holds it, in words; None where nobody does."""
    try:
        fd = _plain(os.open(path, os.O_RDONLY | _STRANGE), path)
    except OSError:
        return None
    try:
        return None if _locked(fd, fcntl.LOCK_SH) else _signature(fd)
    finally:
        os.close(fd)


def is_ours(path: Path) -> bool:
    """One that this user took once and never released: its holder was killed, or holds it still."""
    try:
        told = read_strange(path, _MOST_BYTES)
    except OSError:
        return False
    return told is not None and told[1] == os.geteuid() and _owner(told[0]) is not None


def _open(path: Path, mode: int) -> int:
    """O_CREAT alone is refused on another user's file in a sticky folder (fs.protected_regular)."""
    flags = os.O_RDWR | _STRANGE
    try:
        return _plain(os.open(path, flags), path)
    except FileNotFoundError:
        pass
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return _plain(os.open(path, flags), path)
    os.fchmod(fd, mode)  # whatever the umask: other users must be able to take a shared lock
    return fd


_STRANGE = os.O_NOFOLLOW | os.O_NONBLOCK
"""In a folder for everybody anybody may have put something there: no link is followed, and no pipe waited for."""


def _plain(fd: int, path: Path) -> int:
    """What is written there must be nobody else's file under a second name."""
    about = os.fstat(fd)
    if stat.S_ISREG(about.st_mode) and about.st_nlink <= 1:
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no plain file", str(path))


def _locked(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _still_there(fd: int, path: Path) -> bool:
    """The last holder may have removed the file between our opening and our locking it."""
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False


def _may_be_signed(fd: int) -> bool:
    """Tells whether the file is empty, or holds what a lock holds and nothing else: it is emptied now."""
    held = os.pread(fd, _MOST_BYTES, 0)
    return not held or _owner(held) is not None


def _sign(fd: int) -> None:
    owner = Owner(os.getpid(), _command(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"), os.geteuid())
    with suppress(OSError):  # a full disk: it is held all the same, and whoever makes room there must get it
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(vars(owner)).encode(), 0)


def _command() -> str:
    """Not longer than it is shown: a lock that is read in part would not be known again."""
    program = Path(sys.argv[0] if sys.argv else "").name
    return shlex.join(["recovery" if program in ("", "__main__.py") else program, *sys.argv[1:]])[:_MOST_LETTERS]


def _signature(fd: int) -> str:
    """Of one that was just taken there is none yet."""
    return str(_owner(os.pread(fd, _MOST_BYTES, 0)) or "another process")


def _owner(signature: bytes) -> Owner | None:
    """It may be anybody's, and ends on a terminal. None also where there may be more of it than was read."""
    if len(signature) >= _MOST_BYTES:
        return None
    try:
        owner = Owner(**parse_json(signature))
    except (ValueError, TypeError):  # no JSON, or with other names
        return None
    texts, numbers = (owner.command, owner.since), (owner.pid, 0 if owner.uid is None else owner.uid)
    if not all(isinstance(one, str) for one in texts) or not all(type(one) is int for one in numbers):
        return None
    if owner.pid < 1 or not all(0 <= one <= _MOST_NUMBER for one in numbers):
        return None
    return replace(owner, command=_line(owner.command), since=_line(owner.since))


def _line(text: str) -> str:
    return harmless(text[:_MOST_LETTERS])


# Does another timed run go on? Two on one host would measure each other.

_NAME = "mysql-recovery-tester.lock"


@contextmanager
def host_lock() -> Iterator[None]:
    """Held by one process of the host, whichever user's; RECOVERY_HOST_LOCK names another file."""
    path = lock_path()
    try:
        lock = take(path, mode=0o666)
    except OSError as error:
        raise HostUnfitError(
            f"the lock of timed runs, {path}, cannot be taken: {error.strerror}",
            "name another file in RECOVERY_HOST_LOCK, or remove that one",
        ) from error
    if lock is None:
        who = holder(path) or "another process"
        raise HostUnfitError(
            f"another timed run is going on: {who}",
            "wait until it ends: two runs at once would measure each other; `recovery status` tells where it is",
        )
    try:
        yield
    finally:
        lock.release()


def lock_path() -> Path:
    chosen = os.environ.get("RECOVERY_HOST_LOCK")
    return expanded(Path(chosen)) if chosen else _shared_folder() / _NAME


def _shared_folder() -> Path:
    """The first that everybody may write: every user must come to the same one."""
    shared = (Path("/run/lock"), Path("/var/lock"))
    return next((folder for folder in shared if _for_everybody(folder)), Path("/tmp"))  # noqa: S108 - not TMPDIR's


def _for_everybody(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH) and not os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError:
        return False
