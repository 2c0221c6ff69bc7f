"""Is this file the one that was meant? SHA-256 of files, remembered where computing it again would cost a second."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.files import sweep_drafts, write_atomically
from recovery.ownership import made_readable
from recovery.readback import parse_json

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
    """SHA-256 of a file, or of the names and contents of all files below a folder. `memo` keeps it for as long as their
    sizes, times and inodes stay what they are: who sets a file's time back still changes when its inode was changed."""
    key = [_state(path, file) for file in _files(path)]
    try:
        known = parse_json(memo.read_bytes())
        if known["file"] == key:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no memo, or a damaged one: it is made again
    sha256 = _digest_below(path) if path.is_dir() else digest(path)
    with suppress(OSError):  # a cache of root's, which others may read
        made_readable(memo.parent)
        sweep_drafts(memo.parent)
        write_atomically(memo, json.dumps({"file": key, "sha256": sha256}).encode())
        memo.chmod(0o644)
    return sha256


def _files(path: Path) -> list[Path]:
    """The file, or all that lies below the folder and is none itself."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_symlink() or not file.is_dir())


def _state(path: Path, file: Path) -> list[str | int]:
    status = file.lstat() if file != path else file.stat()
    return [
        str(file.relative_to(path)), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino,
    ]  # fmt: skip


def _digest_below(folder: Path) -> str:
    whole = hashlib.sha256()
    for file in _files(folder):
        content = f"-> {file.readlink()}" if file.is_symlink() else digest(file) if file.is_file() else "no file"
        whole.update(json.dumps([str(file.relative_to(folder)), content]).encode())
    return whole.hexdigest()
