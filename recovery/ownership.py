"""Whose is this file, and who else may change it? What is run or believed must be one's own, or root's."""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from recovery.errors import HostUnfitError

_FOR_EVERYBODY = 0o755
_MOST_LINKS = 40
"""The kernel follows no more of them on one way."""


def user_called(uid: int) -> str:
    """For a message: who has no name here has a number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def why_not_trusted(path: Path) -> str | None:
    """Returns how another user can change what the path leads to, or None where only this user and root can.

    Every folder above it counts, and every link on the way with the folders above its target. In a sticky folder
    everybody may make entries, but change only their own. What does not exist is trusted with the folders above it."""
    trusted, path = trusted_users(), path.absolute()
    for one, about in _way_to(path):
        if about.st_uid not in trusted:
            return f"{_named(one, path)} belongs to {user_called(about.st_uid)}"
        if (who := _who_else_may_write(about, trusted)) is not None:
            return f"{who} may write there" if one == path else f"{who} may write to {one}"
    return None


def refuse_untrusted(path: Path, hint: str) -> None:
    """Raises HostUnfitError where another user can change what the path leads to."""
    if (why := why_not_trusted(path)) is not None:
        raise HostUnfitError(f"{path} is not used: {why}", hint)


def _named(one: Path, path: Path) -> str:
    return "it" if one == path else str(one)


def _way_to(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields every folder and link that the kernel passes on its way to an absolute path, from / on, and its end."""
    here, ahead, links = Path("/"), list(reversed(path.parts)), 0
    while ahead:
        name = ahead.pop()
        if name == "..":
            here = here.parent
            continue
        entry = here / name  # the first is / itself, as it is in a link that begins with it
        try:
            about = entry.lstat()
            if stat.S_ISLNK(about.st_mode):
                links += 1
                ahead += reversed(entry.readlink().parts)
        except OSError:  # it is not there, or this user cannot come to it
            return
        yield entry, about
        if links > _MOST_LINKS:
            return
        if not stat.S_ISLNK(about.st_mode):
            here = entry


def _who_else_may_write(about: os.stat_result, trusted: frozenset[int]) -> str | None:
    """Returns who else may write to a file, or replace what is others' in a folder, as nobody may in /tmp."""
    if stat.S_ISLNK(about.st_mode) or (stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX):
        return None
    if about.st_mode & stat.S_IWOTH:
        return "everybody"
    if about.st_mode & stat.S_IWGRP and about.st_gid not in (0, os.getegid()):
        return next((user_called(uid) for uid in sorted(_members(about.st_gid) - trusted)), None)
    return None


@cache
def _members(gid: int) -> frozenset[int]:
    """Returns the users of a group: those it lists, and those whose own group it is. A group that is not known here has
    the user of the same number."""
    try:
        listed = frozenset(grp.getgrgid(gid).gr_mem)
    except KeyError:
        return frozenset({gid})
    return frozenset(one.pw_uid for one in pwd.getpwall() if one.pw_gid == gid or one.pw_name in listed)


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
