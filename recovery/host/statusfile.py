"""Where does a session leave word of itself? Beside the lock that it holds: each user in a file of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from glob import escape
from pathlib import Path

from recovery.files import read_strange

_MOST_BYTES = 1 << 20


def status_path(lock: Path) -> Path:
    """With the user's number in it: in a folder for everybody nobody may replace a file of somebody else's."""
    return lock.with_name(f"{lock.name}.{os.geteuid()}.status")


def write(path: Path, text: str) -> None:
    """The old one or the new one is there, never half of one; for its owner alone. Nothing waits for the disk, and
    where it cannot be written nothing is lost but the answer to who asks."""
    draft = path.with_name(f".{path.name}")
    with suppress(OSError):
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, text.encode("utf-8", errors="replace"))
        finally:
            os.close(file)
        draft.replace(path)


def left_beside(lock: Path) -> Iterator[str]:
    """What sessions have left that this user may read: one's own, and to root everybody's."""
    for path in sorted(lock.parent.glob(f"{escape(lock.name)}.*.status")):
        with suppress(OSError):
            text = _read(path)
            if text is not None:
                yield text


def _read(path: Path) -> str | None:
    """None where it is not that user's whose number it bears."""
    found = read_strange(path, _MOST_BYTES)
    if found is None or not path.name.endswith(f".{found[1]}.status"):
        return None
    return found[0].decode("utf-8", errors="replace")
