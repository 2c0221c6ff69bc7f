"""Whose are these temporary folders? They bear their owner's mark, so that those of a killed run go with the next."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from recovery.files import read_strange
from recovery.host.owner import is_gone, mark

PREFIX = "recovery-"
_OWNER = "owner"
_MOST_BYTES = 1000


def make(base: str | None = None) -> Path:
    """Private, with a short name."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    (folder / _OWNER).write_text(mark(), encoding="ascii")
    return folder


def sweep(base: Path) -> int:
    """Removes those whose owner is gone; how many. What bears no mark, or is another user's, is left alone."""
    removed = 0
    for folder in filter(is_left, base.glob(f"{PREFIX}*")):
        with suppress(OSError):
            if folder.lstat().st_uid == os.geteuid():
                shutil.rmtree(folder)
                removed += 1
    return removed


def is_left(folder: Path) -> bool:
    """By an owner that is gone."""
    if not folder.name.startswith(PREFIX):
        return False
    with suppress(OSError):
        # The mark is its owner's: in a folder for everybody anybody may make one that is called so.
        marked = read_strange(folder / _OWNER, _MOST_BYTES)
        return marked is not None and marked[1] == folder.lstat().st_uid and is_gone(marked[0].decode(errors="replace"))
    return False
