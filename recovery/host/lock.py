"""Does another timed run go on? Two on one host would measure each other."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host import flock
from recovery.paths import expanded

_NAME = "mysql-recovery-tester.lock"


@contextmanager
def host_lock() -> Iterator[None]:
    """Held by one process of the host, whichever user's; RECOVERY_HOST_LOCK names another file."""
    path = lock_path()
    try:
        lock = flock.take(path, mode=0o666)
    except OSError as error:
        raise HostUnfitError(
            f"the lock of timed runs, {path}, cannot be taken: {error.strerror}",
            "name another file in RECOVERY_HOST_LOCK, or remove that one",
        ) from error
    if lock is None:
        who = flock.holder(path) or "another process"
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
