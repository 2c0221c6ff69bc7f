"""How is a file replaced so that a power loss leaves the old one or the new one, and never half of one?"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from recovery.errors import RecoveryError, UsageError

_ANY_FILE = r".+\.\w+"


def write_atomically(path: Path, data: bytes) -> None:
    """The new content is on the disk on return; the old one is still there after an OSError."""
    _replace(path, lambda file: file.write(data))


def copy_atomically(source: Path, path: Path) -> None:
    """The same, with what another file holds."""
    with source.open("rb") as content:
        _replace(path, lambda file: shutil.copyfileobj(content, file, 1 << 20))


def read_limited(path: Path, most_bytes: int) -> bytes:
    """Returns what the file holds. Raises UsageError if that is more than `most_bytes`."""
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UsageError(f"{path} is larger than {most_bytes:,} bytes", "name another file, or make it smaller")
    return content


def _replace(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    draft = draft_of(path)
    try:
        # A process of this number may have left one; and where others may write, a link of theirs is not followed.
        draft.unlink(missing_ok=True)
        with draft.open("xb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    sync_folder(path.parent)


@contextmanager
def on_the_disk(folder: Path) -> Iterator[None]:
    """What is written there meanwhile has arrived on return, and OSError tells where it has not. A disk may refuse what
    it was given long after whoever wrote it was told that all is well: os.sync says nothing of that, nor does a sync
    that begins later."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield
        if ctypes.CDLL(None, use_errno=True).syncfs(opened):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(opened)


def draft_of(path: Path) -> Path:
    """What it is called until it is whole: whose it is must be seen once its process was killed."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def sweep_drafts(folder: Path, names: str = _ANY_FILE) -> None:
    """Removes what processes that are gone have left half made there. Only for a folder in which nobody but this tool
    calls anything so."""
    draft = re.compile(rf"\.(?:{names})\.(\d+)")
    with suppress(OSError):
        for entry in sorted(folder.iterdir()):
            match = draft.fullmatch(entry.name)
            if match is not None and _is_gone(int(match[1])):
                _remove(entry)


def _is_gone(process: int) -> bool:
    """What bears our own number was left by an earlier process that had it: this one is about nothing else now."""
    return process == os.getpid() or not Path(f"/proc/{process}").exists()


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with suppress(OSError):
            entry.unlink()


def name_folder(draft: Path, name: str) -> Path:
    """A folder that was made whole under another name gets this one, beside it, with a number at its end where there
    is one of this name."""
    for number in range(1, 1000):
        folder = draft.with_name(name if number == 1 else f"{name}-{number}")
        try:
            draft.rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        else:
            return folder
    raise _full(draft.parent, name)


def new_folder(parent: Path, name: str) -> Path:
    """One that was not there before: with a number at its end, where others have begun in the same second."""
    for number in range(1, 1000):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise _full(parent, name)


def _full(parent: Path, name: str) -> RecoveryError:
    return RecoveryError(f"{parent} is full of folders called {name}", "try again in a second")


def sync_folder(folder: Path) -> None:
    """The names in it are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_strange(path: Path, most_bytes: int) -> tuple[bytes, int] | None:
    """What others may have put there, and whose it is: no link is followed, and no pipe waited for. None for what is no
    plain file."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(file)
        return (os.read(file, most_bytes), about.st_uid) if stat.S_ISREG(about.st_mode) else None
    finally:
        os.close(file)
