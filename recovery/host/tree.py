"""What lies under a folder of hundreds of thousands of files, without ever holding all their names?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

_BATCH = 4096
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_SWEEPS = 100


def files(folder: Path) -> Iterator[tuple[int, str]]:
    """Every regular file below `folder`, as (descriptor of its folder, name). Links are not followed. A folder that
    cannot be listed is given like a file that cannot be opened, so that nobody overlooks it."""
    folder_fd = os.open(folder, _FOLDER_FLAGS)
    try:
        yield from _files_in(folder_fd)
    finally:
        os.close(folder_fd)


def _files_in(folder_fd: int) -> Iterator[tuple[int, str]]:
    for batch in batches(folder_fd):
        for entry in batch:
            if entry.is_file(follow_symlinks=False):
                yield folder_fd, entry.name
            elif entry.is_dir(follow_symlinks=False):
                yield from _files_below(folder_fd, entry.name)


def _files_below(parent_fd: int, name: str) -> Iterator[tuple[int, str]]:
    try:
        folder_fd = os.open(name, _FOLDER_FLAGS, dir_fd=parent_fd)
    except FileNotFoundError:
        return
    except PermissionError:
        yield parent_fd, name
        return
    try:
        yield from _files_in(folder_fd)
    finally:
        os.close(folder_fd)


def batches(folder: int | Path) -> Iterator[list[os.DirEntry[str]]]:
    """In the order of the inodes within a batch: a cold inode table is then read forwards, not at random."""
    with os.scandir(folder) as entries:
        while batch := sorted(islice(entries, _BATCH), key=os.DirEntry.inode):
            yield batch


@contextmanager
def opened(folder_fd: int, name: str) -> Iterator[int]:
    """For reading, without a new access time where the owner may ask for that (else the look itself makes dirty
    inodes)."""
    try:
        fd = os.open(name, _FILE_FLAGS | os.O_NOATIME, dir_fd=folder_fd)
    except PermissionError:
        fd = os.open(name, _FILE_FLAGS, dir_fd=folder_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def allocated_bytes(folder: Path) -> int:
    """What the files take on the disk: holes are not counted."""
    total = 0
    for folder_fd, name in files(folder):
        try:
            total += os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_blocks * 512
        except FileNotFoundError:  # a server at work makes and drops files
            continue
    return total


def empty(folder: Path) -> None:
    """Remove everything inside. `shutil.rmtree` holds all names of a folder at once: 100 MB at 400,000 files."""
    folder_fd = os.open(folder, _FOLDER_FLAGS)
    try:
        _empty(folder_fd)
    finally:
        os.close(folder_fd)


def _empty(folder_fd: int) -> None:
    """Some filesystems skip names when others are removed while listing: sweep until nothing is found."""
    for _ in range(_SWEEPS):
        found = False
        for batch in batches(folder_fd):
            found = True
            for entry in batch:
                _remove(folder_fd, entry)
        if not found:
            return
    raise OSError(f"files kept appearing during {_SWEEPS} sweeps")


def _remove(folder_fd: int, entry: os.DirEntry[str]) -> None:
    if not entry.is_dir(follow_symlinks=False):
        os.unlink(entry.name, dir_fd=folder_fd)
        return
    below_fd = os.open(entry.name, _FOLDER_FLAGS, dir_fd=folder_fd)
    try:
        _empty(below_fd)
    finally:
        os.close(below_fd)
    os.rmdir(entry.name, dir_fd=folder_fd)
