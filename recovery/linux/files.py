"""Contains the file operations that the whole tool uses: trust checks, atomic writes, stored JSON, the
tool's own folders, and walks over large trees."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import grp
import json
import os
import pwd
import re
import shutil
import site
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, TypeVar

import platformdirs

from recovery.errors import HostUnfitError, RecoveryError, UsageError

if TYPE_CHECKING:  # most commands read no stored file, and completion must be fast
    from pydantic import TypeAdapter

# --- Trusted paths
#
# What the tool runs or believes must belong to this user or to root.

_FOR_EVERYBODY = 0o755
_MAX_LINKS = 40
"""The kernel follows at most this many symbolic links in one path."""


def user_name(uid: int) -> str:
    """Returns the user's name for a message, or `user 1234` where the id has no name on this host."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def why_not_trusted(path: Path) -> str | None:
    """Returns how another user can change what the path leads to, or None where only this user and root can.

    The check covers every folder above the path, every link on the way, and the folders above each link's target. In a
    sticky folder everybody may create entries, but change only their own. A path that does not exist is trusted if the
    folders above it are."""
    trusted, path = trusted_users(), path.absolute()
    for entry, about in _path_components(path):
        if about.st_uid not in trusted:
            return f"{'it' if entry == path else entry} belongs to {user_name(about.st_uid)}"
        if (who := _who_else_may_write(about, trusted)) is not None:
            return f"{who} may write there" if entry == path else f"{who} may write to {entry}"
    return None


def refuse_untrusted(path: Path, hint: str) -> None:
    """Raises HostUnfitError if another user can change what the path leads to."""
    if (why := why_not_trusted(path)) is not None:
        raise HostUnfitError(f"{path} is not used: {why}", hint)


def _path_components(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields every folder and link that the kernel passes on its way to an absolute path, starting at /, and then the
    path itself."""
    here, ahead, links = Path("/"), list(reversed(path.parts)), 0
    while ahead:
        name = ahead.pop()
        if name == "..":
            here = here.parent
            continue
        entry = here / name  # the first name is "/", as in a link with an absolute target
        try:
            about = entry.lstat()
            if stat.S_ISLNK(about.st_mode):
                links += 1
                ahead += reversed(entry.readlink().parts)
        except OSError:  # it does not exist, or this user cannot reach it
            return
        yield entry, about
        if links > _MAX_LINKS:
            return
        if not stat.S_ISLNK(about.st_mode):
            here = entry


def _who_else_may_write(about: os.stat_result, trusted: frozenset[int]) -> str | None:
    """Returns who else may write to a file, or may replace the entries of other users in a folder. A sticky folder such
    as /tmp does not allow that."""
    if stat.S_ISLNK(about.st_mode) or (stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX):
        return None
    if about.st_mode & stat.S_IWOTH:
        return "everybody"
    if about.st_mode & stat.S_IWGRP and about.st_gid not in (0, os.getegid()):
        return next((user_name(uid) for uid in sorted(_members(about.st_gid) - trusted)), None)
    return None


@cache
def _members(gid: int) -> frozenset[int]:
    """Returns the users of a group: those that it lists, and those that have it as their primary group. A group without
    an entry on this host is assumed to have the user of the same number."""
    try:
        listed = frozenset(grp.getgrgid(gid).gr_mem)
    except KeyError:
        return frozenset({gid})
    return frozenset(user.pw_uid for user in pwd.getpwall() if user.pw_gid == gid or user.pw_name in listed)


def trusted_users() -> frozenset[int]:
    """Returns the user ids that are trusted: root, this user, and for root the user that SUDO_UID names.

    Under sudo, or in a container, root acts on behalf of a user who could do all of it directly."""
    behalf = sudo_user()
    return frozenset({0, os.geteuid(), *([] if behalf is None else [behalf])})


def sudo_user() -> int | None:
    """Returns the id of the user on whose behalf root runs this tool, or None."""
    behalf = os.environ.get("SUDO_UID", "")
    return int(behalf) if os.geteuid() == 0 and re.fullmatch(r"[0-9]{1,10}", behalf) else None


def create_private_folder(folder: Path) -> None:
    """Creates the folder and its missing parents for the owner alone, whatever the umask is. A folder that exists is
    left as it is."""
    _create_folder(folder, stat.S_IRWXU)


def create_readable_folder(folder: Path) -> Path:
    """Creates the folder so that others can read it and only the owner can write, and returns it. Missing parents are
    private, so others may be unable to reach it. A folder that exists is left as it is."""
    return _create_folder(folder, _FOR_EVERYBODY)


def _create_folder(folder: Path, mode: int) -> Path:
    if folder.is_dir():
        return folder
    _create_folder(folder.parent, stat.S_IRWXU)
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        folder.chmod(mode)
    return folder


def remove_write_permissions(tree: Path) -> None:
    """Sets every folder of an unpacked tree to the mode of create_readable_folder: only the owner may write."""
    for folder, _, _ in os.walk(tree):
        Path(folder).chmod(_FOR_EVERYBODY)


# --- Folders to write in
#
# A path can lead elsewhere between a check and its use. A descriptor cannot.

_PASSED_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
"""For folders on the way, which this user may be unable to list."""


@contextmanager
def open_folder(path: Path, *, create: bool = False, links_until: Path | None = None) -> Iterator[int]:
    """Yields a descriptor of a folder to write in. With `create`, makes the folder and its parents where they are
    missing.

    Raises PermissionError, with what to change as its text, at a link of another user, at any link below
    `links_until`, and for root at a folder that another user can change: files of root could be replaced there."""
    path = path.absolute()
    unlinked = 0 if links_until is None else len(path.parts) - len(links_until.absolute().parts)
    folder, here, names, links = _open_in(None, "/"), Path("/"), list(reversed(path.parts[1:])), 0
    try:
        _refuse_shared_folder(folder, here)
        while names:
            name = names.pop()
            target = _link_target(folder, name, here / name, is_refused=len(names) < unlinked)
            if target is not None:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                names += reversed(target.parts)
                continue
            try:
                below = _open_in(folder, name)
            except FileNotFoundError:
                if not create:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                below = _open_in(folder, name)
            os.close(folder)
            folder, here = below, Path(os.path.normpath(here / name))
            _refuse_shared_folder(folder, here)
        yield folder
    except OSError as error:
        if isinstance(error.filename, str) and not error.filename.startswith("/"):
            error.filename = str(here / error.filename)
        raise
    finally:
        os.close(folder)


def make_folder(path: Path, *, links_until: Path | None = None) -> None:
    """Makes a folder to write in, and its missing parents. Refuses what `open_folder` does."""
    with open_folder(path, create=True, links_until=links_until):
        pass


def _open_in(folder: int | None, name: str) -> int:
    return os.open(name, _PASSED_FLAGS | os.O_CLOEXEC, dir_fd=folder)


def _link_target(folder: int, name: str, shown: Path, *, is_refused: bool) -> Path | None:
    """Returns where a link leads to, or None for anything else. Owner and target are those of one link, also where
    another user puts something in its place meanwhile."""
    try:
        with open_descriptor(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder) as entry:
            about = os.fstat(entry)
            if not stat.S_ISLNK(about.st_mode):
                return None
            if about.st_uid not in trusted_users():
                raise _refused(f"{shown} is a link of another user ({user_name(about.st_uid)}), and is not followed")
            target = os.readlink("", dir_fd=entry)
    except FileNotFoundError:
        return None
    if is_refused:
        raise _refused(f"{shown} is a link, and is not followed: it leads to {target}")
    return Path(target)


def _refuse_shared_folder(folder: int, shown: Path) -> None:
    if os.geteuid() != 0:
        return
    trusted, about = trusted_users(), os.fstat(folder)
    if about.st_uid not in trusted:
        raise _refused(
            f"{shown} belongs to {user_name(about.st_uid)}, who could replace what root writes there "
            f"(chown root, or SUDO_UID={about.st_uid} to act for that user)"
        )
    if (who := _who_else_may_write(about, trusted)) is not None:
        raise _refused(f"{who} may write to {shown}, and could replace what root writes there (chmod go-w)")


def _refused(why: str) -> PermissionError:
    return PermissionError(errno.EPERM, why)


def find_replaceable(folder: int, path: Path) -> os.stat_result | None:
    """Returns what is known of the path's file, whose folder is open, or None if there is none. Raises OSError if it is
    a link or a folder, or if root would replace the file of another user."""
    try:
        about = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    is_foreign = about.st_uid not in trusted_users()
    if stat.S_ISLNK(about.st_mode):
        whose = f" of another user ({user_name(about.st_uid)})" if is_foreign else ""
        target = os.readlink(path.name, dir_fd=folder)
        raise _refused(f"{path} is a link{whose}, and is not followed: it leads to {target}")
    if is_foreign and os.geteuid() == 0 and not stat.S_ISCHR(about.st_mode):
        raise _refused(f"{path} belongs to {user_name(about.st_uid)}")
    return about


# --- Atomic writes and drafts


def write_atomically(path: Path, data: bytes, *, create: bool = False, links_until: Path | None = None) -> None:
    """Replaces the file's content so that a power loss leaves the old or the new content, and never a part of one. The
    new content is on the disk on return; after an OSError the old content is still there.

    The folder is opened as by `open_folder`, with its refusals. A link in place of the file is not followed."""
    with open_folder(path.parent, create=create, links_until=links_until) as folder:
        replace_in(folder, path, data)


def copy_atomically(source: Path, path: Path, *, links_until: Path | None = None) -> None:
    """Replaces the file's content with that of `source`, with the guarantees of write_atomically."""
    with source.open("rb") as content, open_folder(path.parent, links_until=links_until) as folder:
        _replace(folder, path, lambda file: shutil.copyfileobj(content, file, 1 << 20))


def replace_in(folder: int, path: Path, data: bytes) -> None:
    """Replaces the content of the path's file, whose folder is open, with the guarantees of write_atomically."""
    _replace(folder, path, lambda file: file.write(data))


def _replace(folder: int, path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    find_replaceable(folder, path)
    draft = draft_path(path).name
    try:
        # An earlier process with this pid may have left a draft. Where others may write, O_EXCL does not follow a link
        # of theirs.
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
        with os.fdopen(opened, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(opened)
        os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # also Ctrl-C
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
    with open_descriptor(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder) as descriptor:
        os.fsync(descriptor)


@contextmanager
def open_regular(path: Path) -> Iterator[BufferedReader]:
    """Yields the open file, and closes it at the end of the block. Raises UsageError if it is a pipe, which would block
    the caller, or a device, which may have no end. Raises OSError if it cannot be opened, or is a folder."""
    with open_descriptor(path, os.O_RDONLY | os.O_NONBLOCK) as opened:
        mode = os.fstat(opened).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise UsageError(f"{path} is not a regular file", "name a file, not a pipe or a device")
        with open(opened, "rb", closefd=False) as file:
            yield file


def read_limited(path: Path, max_bytes: int) -> bytes:
    """Returns the content of a regular file. Raises UsageError if it is not one, or larger than `max_bytes`."""
    with open_regular(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise UsageError(f"{path} is larger than {max_bytes:,} bytes", "name another file, or make it smaller")
    return content


@contextmanager
def sync_on_exit(folder: Path) -> Iterator[None]:
    """Syncs the folder's filesystem at the end of the block. Raises OSError if the filesystem failed to store data that
    was written inside the block.

    A write error can occur long after the write call has returned. os.sync does not report it, and neither does a sync
    on a descriptor that is opened later."""
    with open_descriptor(folder, os.O_RDONLY | os.O_DIRECTORY) as opened:
        yield
        if ctypes.CDLL(None, use_errno=True).syncfs(opened):
            raise last_error(folder)


def last_error(path: Path | None = None) -> OSError:
    """Returns the error of the last call of a C library that was loaded with `use_errno`."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path and str(path))


def draft_path(path: Path) -> Path:
    """Returns the name that a file has until it is complete. It contains the pid, so that the draft of a killed process
    can be recognised."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def numbered_names(name: str) -> Iterator[str]:
    """Yields the name, and then the name with a number appended, for the case that another process has used it."""
    yield name
    yield from (f"{name}-{number}" for number in range(2, 1000))


def rename_to_free_name(draft: Path, names: Iterable[str]) -> Path:
    """Renames a finished folder within its parent to the first of the names that is free, and returns the new path."""
    for name in names:
        folder = draft.with_name(name)
        try:
            draft.rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        else:
            return folder
    raise _no_free_name(draft.parent)


def new_folder(parent: Path, name: str) -> Path:
    """Creates a folder that did not exist before, and returns it. A number is appended where another process has used
    the name in the same second."""
    for folder in map(parent.joinpath, numbered_names(name)):
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise _no_free_name(parent)


def _no_free_name(parent: Path) -> RecoveryError:
    return RecoveryError(f"no name is free for a new folder in {parent}", "remove folders there, or try again later")


def sync_folder(folder: Path) -> None:
    """Writes the folder's entries (names) to the disk."""
    with open_descriptor(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def read_untrusted(path: Path, max_bytes: int) -> tuple[bytes, int] | None:
    """Returns the content of a file that another user may have put there, and the id of its owner. Returns None if it
    is not a regular file. Links are not followed, and a pipe does not block the call."""
    with open_descriptor(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as file:
        about = os.fstat(file)
        return (os.read(file, max_bytes), about.st_uid) if stat.S_ISREG(about.st_mode) else None


@contextmanager
def open_descriptor(path: Path | str, flags: int, *, dir_fd: int | None = None) -> Iterator[int]:
    """Yields a descriptor of the file or folder, and closes it at the end of the block. A file that is created is
    readable by its owner only."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# --- Stored JSON

STORED_FORMAT = 1
_MAX_JSON_BYTES = 500_000_000
"""Twice the size of a stored session with many runs."""
_MAX_MEMO_BYTES = 64 << 20
_MIN_NUMBER, _MAX_NUMBER = 1e-30, 1e30
"""The range of absolute values that are accepted. Everything that can be measured, and all that is computed from it,
lies inside; calculations with values outside would fail."""
_Stored = TypeVar("_Stored")


def read_stored(
    path: Path,
    adapter: TypeAdapter[_Stored],
    *,
    only: int = STORED_FORMAT,
) -> _Stored:
    """Returns the content of a stored file, validated by the adapter. Raises RecoveryError if the file cannot be read,
    is damaged, or has another format than the `only` one that this tool knows.

    Unknown keys come from a later version of the tool and are ignored."""
    try:
        content = read_limited(path, _MAX_JSON_BYTES)
        stored = json.loads(content, parse_float=_checked_float, parse_int=_checked_int, parse_constant=_reject_number)
        if not isinstance(stored, dict) or type(stored.get("format")) is not int:
            raise ValueError("it has no format number")
        if stored["format"] < 1:
            raise ValueError(f"there is no format {stored['format']}")
        if stored["format"] > only:
            raise RecoveryError(
                f"{path} was written by a newer version of this tool (format {stored['format']})",
                f"update the tool: this one reads format {only}",
            )
        if stored["format"] < only:
            raise RecoveryError(
                f"{path} has format {stored['format']}, which no released version of this tool wrote",
                f"remove it, or measure again: this version reads format {only}",
            )
        # Strict mode rejects a number in quotes, which the range checks above have not seen.
        return adapter.validate_json(content, strict=True)
    except OSError as error:
        raise RecoveryError(f"cannot read {path}: {error.strerror}", "check its permissions") from error
    except (ValueError, RecursionError) as error:
        raise RecoveryError(f"{path} is damaged: {_reason(error)}", "restore the file, or measure again") from error


def read_memo(path: Path) -> Any:
    """Returns the parsed content of a JSON file that the tool keeps for later. Raises only OSError and ValueError."""
    try:
        return parse_json(read_limited(path, _MAX_MEMO_BYTES))
    except UsageError as error:
        raise ValueError(error.message) from error


def read_stored_text(path: Path) -> str:
    """Returns the text of a stored file as it is."""
    return read_limited(path, _MAX_JSON_BYTES).decode()


def parse_json(text: str | bytes) -> Any:
    """Returns the parsed text. Raises only ValueError if it is not JSON, also where it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _checked_float(text: str) -> float:
    value = float(text)
    return value if value == 0 or _MIN_NUMBER < abs(value) < _MAX_NUMBER else _reject_number(text)


def _checked_int(text: str) -> int:
    return int(text) if len(text) <= len(f"{_MAX_NUMBER:.0f}") else _reject_number(text)


def _reject_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is outside the range of measured values")


def _reason(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)


# --- The tool's own folders
#
# The functions work in a checkout, a wheel and an editable install alike.

APP = "mysql-recovery-tester"
_MAX_NAME_BYTES, _MAX_PATH_BYTES = 255, 4000
"""Limits in bytes for one name and for a whole path. The kernel allows paths of 4,096 bytes; the difference is for the
names that this tool appends."""


def template_dir() -> Path:
    return _tool_folder("templates", "schema.sql.j2")


def docker_dir() -> Path:
    return _tool_folder("docker", "recovery.Dockerfile")


def doc_pages() -> dict[str, Path]:
    """Returns the pages of the documentation by name: `shorten`, `results/README`."""
    folder = _tool_folder("docs", "shorten.md")
    paths = (*sorted(folder.glob("*.md")), *sorted(folder.glob("results/*.md")))
    return {str(path.relative_to(folder).with_suffix("")): path for path in paths}


def requirements_dir() -> Path:
    return _tool_folder("requirements", "run.lock")


def _tool_folder(name: str, holds: str) -> Path:
    """Returns the checkout's folder of this name if there is one, else the folder that the wheel installed as data."""
    checkout = Path(__file__).resolve().parent.parent.parent / name
    installed = [Path(prefix) / "share" / APP / name for prefix in (sys.prefix, site.getuserbase())]
    for folder in (checkout, *installed):
        if (folder / holds).is_file():
            return folder
    raise RecoveryError(
        f"the tool's own {name} folder is missing", "reinstall the tool, or run it from a checkout of its repository"
    )


def tool_commit() -> str | None:
    """Returns the commit of the checkout, or of that which the wheel was built from; None if it is not known."""
    checkout = Path(__file__).resolve().parent.parent.parent
    if (checkout / ".git").exists():
        return commit_of(checkout)
    with suppress(RecoveryError, OSError):
        return (_tool_folder("build", "commit") / "commit").read_text(encoding="utf-8").strip() or None
    return None


def commit_of(checkout: Path) -> str | None:
    """Returns the commit of a checkout of git; None if git is missing or does not read it."""
    command = ("git", "-C", str(checkout), "rev-parse", "--short=10", "HEAD")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def doc_text(name: str) -> str | None:
    """Returns a page of the documentation; None if this installation has none."""
    try:
        return doc_pages()[name].read_text(encoding="utf-8")
    except (RecoveryError, OSError, KeyError):
        return None


def cache_dir() -> Path:
    """Returns the folder for servers, libraries and, unless DATA is set, data directories. RECOVERY_CACHE overrides
    it."""
    chosen = os.environ.get("RECOVERY_CACHE")
    return expand_path(Path(chosen)).absolute() if chosen else Path(platformdirs.user_cache_dir(APP))


def expand_path(path: Path) -> Path:
    """Returns the path with `~` and `~user` replaced by home folders. Raises UsageError if there is no such home
    folder, or if no file can have this path because it is too long, so that the error comes before any use of the
    path."""
    try:
        expanded = path.expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path}: there is no such home folder on this host", "write the full path") from error
    has_long_name = any(len(os.fsencode(part)) > _MAX_NAME_BYTES for part in expanded.parts)
    if has_long_name or len(os.fsencode(expanded)) > _MAX_PATH_BYTES:
        raise UsageError(f"{str(path)[:40]}… is too long for a path", "give a shorter path")
    return expanded


def images_dir() -> Path:
    """Returns the folder for what is remembered of images, and for the files that are made while an image is built."""
    return _trusted_cache_folder("images")


def options_dir() -> Path:
    return _trusted_cache_folder("options")


def servers_dir() -> Path:
    return _trusted_cache_folder("servers")


def libraries_dir() -> Path:
    """Returns the folder for libraries that were unpacked from packages, for servers that need them."""
    return _trusted_cache_folder("libraries")


def _trusted_cache_folder(name: str) -> Path:
    """Returns a folder of the cache. Raises HostUnfitError if another user can write there, since the tool runs or
    believes its contents."""
    folder = cache_dir() / name
    refuse_untrusted(folder, "name a folder of your own in RECOVERY_CACHE, or let nobody else write there (chmod go-w)")
    return folder


def default_data_dir() -> Path:
    return cache_dir() / "data"


# --- Large trees
#
# These functions handle folders with hundreds of thousands of files, and never hold all names in memory.

_BATCH = 4096
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_SWEEPS = 100


def walk_files(folder: Path) -> Iterator[tuple[int, str]]:
    """Yields every regular file below `folder`, as (descriptor of its folder, name).

    Links are not followed. A folder that cannot be listed is yielded like a file that cannot be opened, so that the
    caller notices it."""
    with open_descriptor(folder, _FOLDER_FLAGS) as folder_fd:
        yield from _files_in(folder_fd)


def _files_in(folder_fd: int) -> Iterator[tuple[int, str]]:
    for batch in scan_batches(folder_fd):
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


def scan_batches(folder: int | Path) -> Iterator[list[os.DirEntry[str]]]:
    """Yields the folder's entries in batches, each sorted by inode number, so that a cold inode table is read
    sequentially instead of at random."""
    with os.scandir(folder) as entries:
        while batch := sorted(islice(entries, _BATCH), key=os.DirEntry.inode):
            yield batch


@contextmanager
def open_for_reading(folder_fd: int, name: str) -> Iterator[int]:
    """Yields a descriptor of the file, opened for reading.

    O_NOATIME is used where the owner may ask for it: otherwise opening and reading the file would make its inode
    dirty."""
    try:
        fd = os.open(name, _FILE_FLAGS | os.O_NOATIME, dir_fd=folder_fd)
    except PermissionError:
        fd = os.open(name, _FILE_FLAGS, dir_fd=folder_fd)
    try:
        yield fd
    finally:
        os.close(fd)


_FICLONE = 0x40049409
"""The request of ioctl(2) that makes a file share the blocks of another one, on XFS and Btrfs."""


def clone_or_copy(source: int, target: int) -> None:
    """Copies the content of an open file to an empty one: by sharing its blocks where the filesystem can. Holes stay
    holes. Raises HostUnfitError if the file becomes shorter or longer meanwhile."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
        return
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS):
            raise
    size = os.fstat(source).st_size
    os.ftruncate(target, size)
    for start, end in data_extents(source):
        os.lseek(target, start, os.SEEK_SET)
        while start < end and (copied := os.sendfile(target, source, start, end - start)):
            start += copied
    if os.fstat(source).st_size != size:
        raise HostUnfitError("a file changed its size while it was copied", "end what writes there, and try again")


def data_extents(file: int) -> Iterator[tuple[int, int]]:
    """Yields the beginning and the end of each part of an open file that is not a hole."""
    size, end = os.fstat(file).st_size, 0
    while end < size:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
            end = os.lseek(file, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nothing but a hole is left, or the file became shorter
                raise
            return
        yield start, end


def allocated_bytes(folder: Path) -> int:
    """Returns the disk space that the files below the folder occupy. Holes are not counted."""
    total = 0
    for folder_fd, name in walk_files(folder):
        try:
            total += os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_blocks * 512
        except FileNotFoundError:  # a running server creates and drops files
            continue
    return total


def empty_folder(folder: Path) -> None:
    """Removes everything inside the folder. `shutil.rmtree` holds all names of a folder in memory: 100 MB for 400,000
    files."""
    with open_descriptor(folder, _FOLDER_FLAGS) as folder_fd:
        _empty(folder_fd)


def _empty(folder_fd: int) -> None:
    """Removes the folder's entries in repeated passes until none is found. Some filesystems skip names when entries are
    removed during the listing."""
    for _ in range(_SWEEPS):
        is_empty = True
        for batch in scan_batches(folder_fd):
            is_empty = False
            for entry in batch:
                _remove_below(folder_fd, entry)
        if is_empty:
            return
    raise OSError(f"files kept appearing during {_SWEEPS} sweeps")


def _remove_below(folder_fd: int, entry: os.DirEntry[str]) -> None:
    if not entry.is_dir(follow_symlinks=False):
        os.unlink(entry.name, dir_fd=folder_fd)
        return
    with open_descriptor(entry.name, _FOLDER_FLAGS, dir_fd=folder_fd) as below_fd:
        _empty(below_fd)
    os.rmdir(entry.name, dir_fd=folder_fd)
