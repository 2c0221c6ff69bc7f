"""Is this file the one that was meant? SHA-256 of files, remembered where computing it again would cost a second."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.files import sweep_drafts, write_atomically
from recovery.ownership import made_readable

NAMES = {"sha256": "SHA-256", "md5": "MD5"}


def digest(path: Path, algorithm: str = "sha256") -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def verify(path: Path, expected: str, *, hint: str, algorithm: str = "sha256") -> None:
    """A file with another sum is removed: nobody shall take it for the right one later."""
    found = digest(path, algorithm)
    if found != expected.lower():
        path.unlink()
        raise HostUnfitError(
            f"{path.name} has the {NAMES[algorithm]} {found}, but {expected.lower()} was expected", hint
        )


def remembered(path: Path, memo: Path) -> str:
    """SHA-256 of `path`; `memo` keeps it for as long as the file's size, time and inode stay what they are."""
    status = path.stat()
    key = [status.st_size, status.st_mtime_ns, status.st_ino]
    try:
        known = json.loads(memo.read_text(encoding="utf-8"))
        if known["file"] == key:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass  # no memo, or a damaged one: it is made again
    sha256 = digest(path)
    with suppress(OSError):  # a cache of root's, which others may read
        made_readable(memo.parent)
        sweep_drafts(memo.parent)
        write_atomically(memo, json.dumps({"file": key, "sha256": sha256}).encode())
    return sha256
