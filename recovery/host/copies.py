"""How is a data directory used up without harm to it? By a copy beside it, which nobody keeps."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host import loopdisk, tree
from recovery.host.loopdisk import LoopDisk, image_of, loop_disk

_COPY = "copy"
_OF_ONE_START = ("ibtmp", "#innodb_temp")
"""Beginnings of what a server makes anew each time."""
_BELOW = "mysql"
"""A filesystem's own lost+found would look like a schema."""
_ROOM_BYTES = 1 << 30
"""On a disk of its own, beside what is copied."""


@dataclass(frozen=True)
class Copy:
    mysql: Path
    disk: LoopDisk | None = None
    """It lies on, where it has one of its own."""


def copy_in(beside: Path) -> Path:
    """The server's own data directory of the copy there, if there is one."""
    return beside / _COPY / _BELOW


def copies_in(data: Path) -> set[Path]:
    """The folders there beside which one lies."""
    return {found.parent for name in (_COPY, image_of(Path(_COPY)).name) for found in data.glob(f"*/{name}")}


def remove_copy(beside: Path) -> None:
    """Also one that a killed run has left; nothing where there is none."""
    copy = beside / _COPY
    if copy.is_dir() and not os.path.ismount(copy):
        tree.empty(copy)
    loopdisk.remove(copy)


def remove_temporary(datadir: Path) -> None:
    """What its server makes anew at each start, and what it takes room for then."""
    for found in datadir.iterdir():
        if found.name.startswith(_OF_ONE_START):
            shutil.rmtree(found) if found.is_dir() else found.unlink()


def move_out(mysql: Path, to: Path) -> None:
    """The server's own data directory of a copy, before the copy is removed; from a disk of its own it is copied."""
    try:
        mysql.rename(to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(mysql, to)


@contextmanager
def copied(original: Path, beside: Path, *, on_a_disk: bool = False, for_containers: bool = False) -> Iterator[Copy]:
    """Owners and modes are those of the original. Its server must not run."""
    place = beside / _COPY
    remove_copy(beside)
    with ExitStack() as stack:
        stack.callback(remove_copy, beside)
        try:
            disk = None
            if on_a_disk:
                room = tree.allocated_bytes(original) + _ROOM_BYTES
                disk = stack.enter_context(loop_disk(place, size_bytes=room, for_containers=for_containers))
            copy = Copy(copy_in(beside), disk)
            copy.mysql.parent.mkdir(mode=0o700, exist_ok=True)
            _copy(original, copy.mysql)
            if disk is not None:
                os.sync()
        except OSError as error:
            raise HostUnfitError(
                f"{original} cannot be copied: {error.strerror or error}",
                "every crash is that of a copy: make as much room there as it takes, or give DATA= another folder",
            ) from error
        yield copy


def _copy(original: Path, copy: Path) -> None:
    for folder, names, files in os.walk(original):
        there = copy / Path(folder).relative_to(original)
        there.mkdir()
        _like(Path(folder), there)
        names[:] = [name for name in names if not name.startswith(_OF_ONE_START)]
        for name in files:
            if not name.startswith(_OF_ONE_START):
                shutil.copyfile(Path(folder, name), there / name)
                _like(Path(folder, name), there / name)


def _like(original: Path, copy: Path) -> None:
    known = original.stat()
    if (known.st_uid, known.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(copy, known.st_uid, known.st_gid)
    copy.chmod(known.st_mode & 0o7777)
