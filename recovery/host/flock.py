"""Who holds this lock? A file lock that the kernel gives back when its holder dies, with a note of who that is."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_PATIENCE_S = 0.3
_POLL_S = 0.02


@dataclass(frozen=True)
class Owner:
    pid: int
    command: str
    since: str

    def __str__(self) -> str:
        return f"pid {self.pid}, `{self.command}`, since {self.since}"


class Lock:
    """Held from `take` to `release`. No child process keeps it: its descriptor is closed on exec."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd: int | None = fd
        self.path = path

    def release(self, *, unlink: bool = False) -> None:
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        if unlink:
            self.path.unlink(missing_ok=True)
        else:
            os.ftruncate(fd, 0)
        os.close(fd)


def take(path: Path, *, mode: int = 0o600) -> Lock | None:
    """None where another holds it. Tried for a moment, because `holder` takes it for some microseconds."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        fd = _open(path, mode)
        if _locked(fd) and _still_there(fd, path):
            _sign(fd)
            return Lock(fd, path)
        os.close(fd)
        if time.monotonic() > deadline:
            return None
        time.sleep(_POLL_S)


def holder(path: Path) -> str | None:
    """Who holds it, in words; None where nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return None if _locked(fd, fcntl.LOCK_SH) else _signature(fd)
    finally:
        os.close(fd)


def is_ours(path: Path) -> bool:
    """One that was taken here once, and never released: its holder was killed, or holds it still."""
    try:
        Owner(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return False
    return True


def _open(path: Path, mode: int) -> int:
    """O_CREAT alone is refused on another user's file in a sticky folder (fs.protected_regular)."""
    flags = os.O_RDWR | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return os.open(path, flags)
    os.fchmod(fd, mode)  # whatever the umask: other users must be able to take a shared lock
    return fd


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


def _sign(fd: int) -> None:
    owner = Owner(os.getpid(), _command(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps(vars(owner)).encode(), 0)


def _command() -> str:
    program = Path(sys.argv[0] if sys.argv else "").name
    return shlex.join(["recovery" if program in ("", "__main__.py") else program, *sys.argv[1:]])


def _signature(fd: int) -> str:
    try:
        return str(Owner(**json.loads(os.pread(fd, 65536, 0))))
    except (ValueError, TypeError):  # just taken, not yet signed
        return "another process"
