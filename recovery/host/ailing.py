"""Why can nothing be written there any more? Asked of the filesystem itself, once something over it has failed."""

from __future__ import annotations

import errno
import os
import queue
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from recovery.errors import EndedOnRequestError, RecoveryError, ServerFailedError, StorageFailedError
from recovery.host.storage import nearest
from recovery.ownership import user_called

DATA, RESULTS, CACHE, TEMPORARY = "DATA", "RESULTS", "RECOVERY_CACHE", "TMPDIR"
_AT_ONCE_BYTES = 16 << 20
"""What a server, or a download, takes at once, and may give back when it fails for want of more."""
_WRITTEN_BYTES = 64 << 10
_LEAST_BYTES = 1 << 20
_PATIENCE_S = 30.0
_MOST_FOLDERS = 300
_MOST_SAID = 160
_SAID = re.compile(
    r"(?:errcode|errno|error number)[: ]+(?P<number>5|28|30|122)\b|(?P<full>no space left on device|disk is full)",
    re.IGNORECASE,
)
"""How servers and their clients tell of it."""
_OF_STORAGE = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
        *(errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.ENOTCONN, errno.ESHUTDOWN, errno.EREMOTEIO, errno.ETIMEDOUT),
        errno.EUCLEAN,
    }
)
"""And no mistake of who gave the path."""
_WAS = {
    errno.ENOSPC: "a disk was full",
    errno.EDQUOT: "a quota was used up",
    errno.EROFS: "a filesystem was read-only",
    errno.EIO: "a disk gave errors",
}


@dataclass(frozen=True)
class Folder:
    """A folder that this tool writes to, and the setting that names another."""

    setting: str
    path: Path
    below: Path | None = None
    """In it, with folders of its own that must take files, too."""


@dataclass(frozen=True)
class Ailment:
    what: str
    remedy: str


def temporary() -> Folder:
    """Where servers have their temporary files, and their logs while they run."""
    return Folder(TEMPORARY, Path(tempfile.gettempdir()))


def ailment(chosen: Folder) -> Ailment | None:
    """None where files can be made, written and synced."""
    needed = _AT_ONCE_BYTES if chosen.setting in (DATA, CACHE) else _WRITTEN_BYTES
    for folder in islice(_folders(chosen), _MOST_FOLDERS):
        try:
            error = _within(_PATIENCE_S, partial(_tried, folder, needed))
        except TimeoutError:
            what = f"the storage hangs: {folder} has not taken {_WRITTEN_BYTES >> 10} KB within {_PATIENCE_S:.0f} s"
            return Ailment(what, f"`dmesg` tells more; {_or_another(chosen.setting)}")
        if error is not None and error.errno in _OF_STORAGE:
            return _told(folder, error, chosen.setting)
    return None


def blamed(error: BaseException, *folders: Folder) -> StorageFailedError | None:
    """What failed over storage that takes nothing is the storage's failure; None where it is well."""
    if isinstance(error, StorageFailedError):
        return error
    if isinstance(error, EndedOnRequestError):
        return None
    tail = tuple(getattr(error, "log_tail", ()))
    failed = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    for chosen in folders:
        if (found := ailment(chosen)) is not None:
            told = found.what if isinstance(error, OSError) else f"{found.what}; so {_cut(failed)}"
            return StorageFailedError(told, f"{found.remedy}; {_KEPT}", log_tail=tail)
    number = _said((failed, *tail)) if isinstance(error, ServerFailedError) else getattr(error, "errno", None)
    if number in _WAS:
        hint = f"see what else takes room there, and `dmesg`; {_KEPT}"
        return StorageFailedError(f"{_WAS[number]} meanwhile: {_cut(failed)}", hint, log_tail=tail)
    return None


@contextmanager
def blaming(*folders: Folder) -> Iterator[None]:
    try:
        yield
    except (RecoveryError, OSError) as error:
        told = blamed(error, *folders)
        if told is None or told is error:
            raise
        raise told from error


def takes_nothing(folders: Iterable[Path]) -> str | None:
    """For who waits for a server, which may wait for room. Nothing touches the disk that looks as if it had some; of
    what is kept back there for root or for the filesystem itself, only trying tells whether this user gets it."""
    for folder in folders:
        try:
            status = os.statvfs(folder)
        except OSError:
            continue
        if status.f_bavail * status.f_frsize < _LEAST_BYTES or _no_inodes(folder):
            error = _tried(folder, _LEAST_BYTES, sync=False)
            if error is not None and error.errno == errno.ENOSPC:
                return f"no {'inodes are' if _no_inodes(folder) else 'space is'} left for {folder}"
    return None


_KEPT = "what was finished is kept"


def _folders(chosen: Folder) -> Iterator[Path]:
    """Also those that cannot be looked into."""
    yield chosen.path
    if chosen.below is not None:
        yield chosen.below
        for folder, names, _ in os.walk(chosen.below):
            yield from (Path(folder, name) for name in names)


def _within(seconds: float, ask: Callable[[], OSError | None]) -> OSError | None:
    """A disk that hangs holds who asks it, and no signal ends that."""
    answers: queue.SimpleQueue[OSError | None] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(ask()), name="ailing", daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None


def _tried(folder: Path, needed: int, *, sync: bool = True) -> OSError | None:
    try:
        with tempfile.TemporaryFile(dir=nearest(folder)) as file:
            os.posix_fallocate(file.fileno(), 0, needed)
            if sync:
                os.pwrite(file.fileno(), bytes(_WRITTEN_BYTES), 0)
                os.fsync(file.fileno())
    except OSError as error:
        return error
    return None


def _told(folder: Path, error: OSError, setting: str) -> Ailment:
    another = _or_another(setting)
    match error.errno:
        case errno.ENOSPC if _no_inodes(folder):
            return Ailment(f"no inodes are left for {folder}", f"remove files there, {another} with more of them")
        case errno.ENOSPC:
            return Ailment(f"the disk of {folder} is full ({_free(folder)})", f"make room there, {another}")
        case errno.EDQUOT:
            return Ailment(f"the quota for {folder} is used up", f"have it raised, {another}")
        case errno.EROFS:
            remedy = f"`dmesg` tells whether the kernel made it so, after an error; mount it anew, {another}"
            return Ailment(f"the filesystem of {folder} is read-only", remedy)
        case errno.EACCES | errno.EPERM:
            remedy = f"see its owner, mode and attributes (ls -ld, lsattr -d), {another}"
            return Ailment(f"the user {user_called(os.geteuid())} may not write to {folder}", remedy)
        case _:
            why = error.strerror or str(error)
            return Ailment(f"the storage of {folder} fails: {why}", f"`dmesg` tells more; {another}")


def _or_another(setting: str) -> str:
    return f"or name another disk with {setting}="


def _no_inodes(folder: Path) -> bool:
    try:
        status = os.statvfs(nearest(folder))
    except OSError:
        return False
    return bool(status.f_files) and not status.f_favail


def _free(folder: Path) -> str:
    try:
        status = os.statvfs(nearest(folder))
    except OSError:
        return "and does not say by how much"
    free = status.f_bavail * status.f_frsize
    # A thin volume has promised more than there is.
    return f"{free / 1e6:.1f} MB free" + (" as it says, so it is what lies below it" if free > _AT_ONCE_BYTES else "")


def _cut(message: str) -> str:
    """What a server says of a full disk is long, and in the log below."""
    return message if len(message) <= _MOST_SAID else f"{message[:_MOST_SAID]}…"


def _said(lines: Iterable[str]) -> int | None:
    for line in lines:
        if (found := _SAID.search(line)) is not None:
            return errno.ENOSPC if found["full"] else int(found["number"])
    return None
