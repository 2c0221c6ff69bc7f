"""Whose is this file, and who else may change it? What is run or believed must be one's own, or root's."""

from __future__ import annotations

import os
import pwd
import re
import stat
from pathlib import Path

_FOR_EVERYBODY = 0o755


def user_called(uid: int) -> str:
    """For a message: who has no name here has a number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def why_not_trusted(path: Path) -> str | None:
    """None where its owner alone may change it, and that is this user or root; nor is what is not there distrusted. A
    group's members are its owner's to choose."""
    try:
        owners = {path.lstat().st_uid, path.stat().st_uid}
    except (FileNotFoundError, NotADirectoryError):
        return None
    for uid in owners - trusted_users():
        return f"it belongs to {user_called(uid)}"
    return "everybody may write there" if is_everybodys(path) else None


def is_everybodys(path: Path) -> bool:
    """Everybody may write there; and in a folder replace what is another's, as they may not in /tmp."""
    mode = path.stat().st_mode
    return bool(mode & stat.S_IWOTH) and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX)


def trusted_users() -> frozenset[int]:
    """Root has become root by sudo, or in a container, on behalf of somebody who could do all of it themselves."""
    own, behalf = os.geteuid(), os.environ.get("SUDO_UID", "")
    return frozenset({0, own, *([int(behalf)] if own == 0 and re.fullmatch(r"[0-9]{1,10}", behalf) else [])})


def made_private(folder: Path) -> Path:
    """The folder, made where it lacks with all that lacks above it: for its owner alone, whatever the umask."""
    return _made(folder, stat.S_IRWXU)


def made_readable(folder: Path) -> Path:
    """For others to read, where they come as far: what lies above it may be private. Nobody else may write."""
    return _made(folder, _FOR_EVERYBODY)


def _made(folder: Path, mode: int) -> Path:
    if folder.is_dir():
        return folder
    _made(folder.parent, stat.S_IRWXU)
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        folder.chmod(mode)
    return folder


def closed_to_writers(tree: Path) -> None:
    """Of what was unpacked, every folder as made_readable makes one."""
    for folder, _, _ in os.walk(tree):
        Path(folder).chmod(_FOR_EVERYBODY)
