"""Whose are these temporary folders? They bear their owner's mark, so that those of a killed run go with the next.

There is no moment at which one of them lies there without a mark: it gets its short name when the mark is in it, and
what is removed has the mark of who removes it in its name first."""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recovery.files import read_strange
from recovery.host.owner import is_gone, is_orphan, mark, own_name
from recovery.ownership import refuse_untrusted

PREFIX = "recovery-"
_OWNER = "owner"
_MOST_BYTES = 1000
_LONGEST_BASE_BYTES = 60
"""A socket's path holds 107 bytes; the rest is for our own names."""
_TRIES = 100
_numbers = itertools.count(1)


def make(base: str | None = None) -> Path:
    """Private, with a short name. HostUnfitError where another user could put a folder of theirs in its place."""
    parent = Path(base or tempfile.gettempdir())
    refuse_untrusted(parent, "name a folder of your own in TMPDIR; where everybody may write, chmod +t helps")
    draft = parent / own_name(next(_numbers))
    draft.mkdir(mode=0o700)
    try:
        (draft / _OWNER).write_text(mark(), encoding="ascii")
        return _named(draft)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _named(draft: Path) -> Path:
    for _ in range(_TRIES):
        folder = draft.with_name(f"{PREFIX}{secrets.token_hex(4)}")
        try:
            draft.rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        else:
            return folder
    raise FileExistsError(errno.EEXIST, "no name is free for a folder", str(draft.parent))


@contextmanager
def folder() -> Iterator[Path]:
    """For as long as it is used."""
    made = make()
    try:
        yield made
    finally:
        remove(made)


def short_base() -> str:
    """Where a socket may lie."""
    base = tempfile.gettempdir()
    return base if len(os.fsencode(base)) <= _LONGEST_BASE_BYTES else "/tmp"  # noqa: S108 - private folders in it


def remove(made: Path) -> bool:
    """Of ours; False where it is another user's, or has gone."""
    if not _is_ours(made):
        return False
    doomed = made.with_name(own_name(next(_numbers)))
    try:
        made.rename(doomed)
    except OSError:
        return False
    shutil.rmtree(doomed, ignore_errors=True)
    return True


def sweep_all() -> None:
    for base in dict.fromkeys((tempfile.gettempdir(), short_base())):
        sweep(Path(base))


def sweep(base: Path) -> int:
    """Removes those whose owner is gone; how many. What bears no mark, or is another user's, is left alone."""
    left = [found for found in base.glob(f"{PREFIX}*") if is_left(found) and remove(found)]
    half = [found for found in base.glob("*") if is_orphan(found.name) and _is_ours(found)]
    for found in half:
        shutil.rmtree(found, ignore_errors=True)
    return len(left) + len(half)


def _is_ours(found: Path) -> bool:
    with suppress(OSError):
        return found.lstat().st_uid == os.geteuid()
    return False


def is_left(found: Path) -> bool:
    """By an owner that is gone."""
    if not found.name.startswith(PREFIX):
        return False
    with suppress(OSError):
        # The mark is its owner's: in a found for everybody anybody may make one that is called so.
        marked = read_strange(found / _OWNER, _MOST_BYTES)
        return marked is not None and marked[1] == found.lstat().st_uid and is_gone(marked[0].decode(errors="replace"))
    return False
