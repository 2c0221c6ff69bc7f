"""Whose are these temporary folders? They bear their owner's mark, so that those of a killed run go with the next."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from recovery.host.owner import is_gone, mark

PREFIX = "recovery-"
_OWNER = "owner"


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
            shutil.rmtree(folder)
            removed += 1
    return removed


def is_left(folder: Path) -> bool:
    """By an owner that is gone."""
    with suppress(OSError):
        return folder.name.startswith(PREFIX) and is_gone(
            (folder / _OWNER).read_text(encoding="ascii", errors="replace")
        )
    return False
