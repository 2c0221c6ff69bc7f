"""How is a file replaced so that a power loss leaves the old one or the new one, and never half of one?"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from recovery.errors import RecoveryError


def write_atomically(path: Path, data: bytes) -> None:
    """The new content is on the disk on return; the old one is still there after an OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # A process of this number may have left one; and where others may write, a link of theirs is not followed.
        draft.unlink(missing_ok=True)
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    sync_folder(path.parent)


def new_folder(parent: Path, name: str) -> Path:
    """One that was not there before: with a number at its end, where others have begun in the same second."""
    for number in range(1, 1000):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise RecoveryError(f"{parent} is full of folders called {name}", "try again in a second")


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
