"""How is a file replaced so that a power loss leaves the old one or the new one, and never half of one?"""

from __future__ import annotations

import ctypes
import errno
import grp
import itertools
import json
import os
import pwd
import re
import secrets
import shutil
import site
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

import platformdirs
from pydantic import TypeAdapter, ValidationError

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.model import Layout, Schema

# Whose is this file, and who else may change it? What is run or believed must be one's own, or root's.

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
            return f"{_path_words(one, path)} belongs to {user_called(about.st_uid)}"
        if (who := _who_else_may_write(about, trusted)) is not None:
            return f"{who} may write there" if one == path else f"{who} may write to {one}"
    return None


def refuse_untrusted(path: Path, hint: str) -> None:
    """Raises HostUnfitError where another user can change what the path leads to."""
    if (why := why_not_trusted(path)) is not None:
        raise HostUnfitError(f"{path} is not used: {why}", hint)


def _path_words(one: Path, path: Path) -> str:
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


_ANY_FILE = r".+\.\w+"


def write_atomically(path: Path, data: bytes) -> None:
    """The new content is on the disk on return; the old one is still there after an OSError."""
    _replace(path, lambda file: file.write(data))


def copy_atomically(source: Path, path: Path) -> None:
    """The same, with what another file holds."""
    with source.open("rb") as content:
        _replace(path, lambda file: shutil.copyfileobj(content, file, 1 << 20))


def read_limited(path: Path, most_bytes: int) -> bytes:
    """Returns what the file holds. Raises UsageError if that is more than `most_bytes`."""
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UsageError(f"{path} is larger than {most_bytes:,} bytes", "name another file, or make it smaller")
    return content


def _replace(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    draft = draft_of(path)
    try:
        # A process of this number may have left one; and where others may write, a link of theirs is not followed.
        draft.unlink(missing_ok=True)
        with draft.open("xb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    sync_folder(path.parent)


@contextmanager
def on_the_disk(folder: Path) -> Iterator[None]:
    """What is written there meanwhile has arrived on return, and OSError tells where it has not. A disk may refuse what
    it was given long after whoever wrote it was told that all is well: os.sync says nothing of that, nor does a sync
    that begins later."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield
        if ctypes.CDLL(None, use_errno=True).syncfs(opened):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(opened)


def draft_of(path: Path) -> Path:
    """What it is called until it is whole: whose it is must be seen once its process was killed."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def sweep_drafts(folder: Path, names: str = _ANY_FILE) -> None:
    """Removes what processes that are gone have left half made there. Only for a folder in which nobody but this tool
    calls anything so."""
    draft = re.compile(rf"\.(?:{names})\.(\d+)")
    with suppress(OSError):
        for entry in sorted(folder.iterdir()):
            match = draft.fullmatch(entry.name)
            if match is not None and _is_gone(int(match[1])):
                _remove_entry(entry)


def _is_gone(process: int) -> bool:
    """What bears our own number was left by an earlier process that had it: this one is about nothing else now."""
    return process == os.getpid() or not Path(f"/proc/{process}").exists()


def _remove_entry(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with suppress(OSError):
            entry.unlink()


def name_folder(draft: Path, name: str) -> Path:
    """A folder that was made whole under another name gets this one, beside it, with a number at its end where there
    is one of this name."""
    for number in range(1, 1000):
        folder = draft.with_name(name if number == 1 else f"{name}-{number}")
        try:
            draft.rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        else:
            return folder
    raise _full(draft.parent, name)


def new_folder(parent: Path, name: str) -> Path:
    """One that was not there before: with a number at its end, where others have begun in the same second."""
    for number in range(1, 1000):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise _full(parent, name)


def _full(parent: Path, name: str) -> RecoveryError:
    return RecoveryError(f"{parent} is full of folders called {name}", "try again in a second")


def sync_folder(folder: Path) -> None:
    """The names in it are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_strange(path: Path, most_bytes: int) -> tuple[bytes, int] | None:
    """What others may have put there, and whose it is: no link is followed, and no pipe waited for. None for what is no
    plain file."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(file)
        return (os.read(file, most_bytes), about.st_uid) if stat.S_ISREG(about.st_mode) else None
    finally:
        os.close(file)


# How is a stored file read back? By its format, with what to do where it is damaged or newer than this tool.

FORMAT = 1
_MOST_JSON_BYTES = 500_000_000
"""Twice what a session of many runs takes."""
_LEAST, _MOST = 1e-30, 1e30
"""Between them lies whatever can be measured, and all that is made of it: beyond, to compute with it would fail."""
_Stored = TypeVar("_Stored")


def read_back(path: Path, adapter: TypeAdapter[_Stored]) -> _Stored:
    """Keys that we don't know are a later tool's, and are left alone."""
    try:
        content = read_limited(path, _MOST_JSON_BYTES)
        stored = json.loads(content, parse_float=_real, parse_int=_whole, parse_constant=_no_figure)
        if not isinstance(stored, dict) or not isinstance(stored.get("format"), int):
            raise ValueError("it has no format number")
        if stored["format"] > FORMAT:
            raise RecoveryError(
                f"{path} was written by a newer version of this tool (format {stored['format']})",
                f"update the tool: this one reads format {FORMAT}",
            )
        # Strictly: a figure in quotes is none, and need not be one that was judged here.
        return adapter.validate_json(content, strict=True)
    except OSError as error:
        raise RecoveryError(f"cannot read {path}: {error.strerror}", "look at its permissions") from error
    except (ValueError, RecursionError) as error:
        raise RecoveryError(f"{path} is damaged: {_reason(error)}", "restore the file, or measure again") from error


def parse_json(text: str | bytes) -> Any:
    """Returns what the text says. ValueError alone where it is no JSON, also where it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _real(text: str) -> float:
    value = float(text)
    return value if value == 0 or _LEAST < abs(value) < _MOST else _no_figure(text)


def _whole(text: str) -> int:
    return int(text) if len(text) <= len(f"{_MOST:.0f}") else _no_figure(text)


def _no_figure(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is no figure that can be measured")


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)


# Does the process still live that made something? Its mark names it beyond doubt: a process id is used again.

_PREFIX = "mysql-recovery-"
_NAME = re.compile(rf"{_PREFIX}(.+)-\d+")
_NUMBER = re.compile(r"[0-9]{1,10}")
_AFTER_NAME_START = 19
"""starttime's place in /proc/PID/stat after the name, which may hold blanks and parentheses itself."""


def mark() -> str:
    """Of this process: the boot, the namespace its number counts in, the number, and when it began."""
    return f"{boot_id()}.{_namespace()}.{os.getpid()}.{_began(os.getpid())}"


def is_gone(made_by: str) -> bool:
    """False also where it cannot be told from here: what another namespace's process made is that one's to remove."""
    boot, _, rest = made_by.partition(".")
    namespace, _, rest = rest.partition(".")
    pid, _, began = rest.partition(".")
    if not _NUMBER.fullmatch(pid):
        return False
    if boot != boot_id():
        return True
    return namespace == _namespace() and _began(int(pid)) != began


def own_name(number: int) -> str:
    """For something that has no labels, only a name: its mark is in it."""
    return f"{_PREFIX}{mark()}-{number}"


def is_orphan(name: str) -> bool:
    """False for everybody else's names."""
    found = _NAME.fullmatch(name)
    return found is not None and is_gone(found[1])


def boot_id() -> str:
    """Of the host: another one after each start of it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _began(pid: int) -> str | None:
    """In ticks since the boot; None where there is no such process, or only its remains."""
    fields = _fields(pid)
    return None if not fields or fields[0] == "Z" else fields[_AFTER_NAME_START]


def _fields(pid: int) -> list[str]:
    """What the kernel says of it after its name; empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def is_stopped(pid: int) -> bool:
    """By Ctrl-Z, or another signal that does so."""
    return _fields(pid)[:1] in (["T"], ["t"])


# Whose are these temporary folders? They bear their owner's mark, so that those of a killed run go with the next.
#
# There is no moment at which one of them lies there without a mark: it gets its short name when the mark is in it,
# and what is removed has the mark of who removes it in its name first.

PREFIX = "recovery-"
_OWNER = "owner"
_MOST_OWNER_BYTES = 1000
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
        return _randomly_named(draft)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _randomly_named(draft: Path) -> Path:
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
        marked = read_strange(found / _OWNER, _MOST_OWNER_BYTES)
        return marked is not None and marked[1] == found.lstat().st_uid and is_gone(marked[0].decode(errors="replace"))
    return False


# Where templates, caches and results are, in a checkout, a wheel and an editable install alike.

APP = "mysql-recovery-tester"
_MOST_IN_A_NAME, _MOST_IN_ALL = 255, 4000
"""Bytes; the kernel takes 4,096, and names of ours come behind it."""
DEFAULT_RESULTS = Path("results")
"""In the folder where the user stands."""


def template_dir() -> Path:
    return _brought("templates", "schema.sql.j2")


def docker_dir() -> Path:
    return _brought("docker", "mysqld.Dockerfile")


def _brought(name: str, holds: str) -> Path:
    """The checkout's own folder where there is one, else what the wheel brought as data."""
    checkout = Path(__file__).resolve().parent.parent.parent / name
    installed = [Path(prefix) / "share" / APP / name for prefix in (sys.prefix, site.getuserbase())]
    for folder in (checkout, *installed):
        if (folder / holds).is_file():
            return folder
    raise RecoveryError(
        f"the tool's own {name} folder is missing", "install it again, or run it from a checkout of its repository"
    )


def cache_dir() -> Path:
    """Servers, libraries and, unless DATA says otherwise, data directories. RECOVERY_CACHE moves it."""
    chosen = os.environ.get("RECOVERY_CACHE")
    return expanded(Path(chosen)).absolute() if chosen else Path(platformdirs.user_cache_dir(APP))


def expanded(path: Path) -> Path:
    """`~` and `~user` are home folders. What no file can be called is told here, before anybody looks for it."""
    try:
        found = path.expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path}: nobody here has that home folder", "write the path out") from error
    if any(len(os.fsencode(part)) > _MOST_IN_A_NAME for part in found.parts) or len(os.fsencode(found)) > _MOST_IN_ALL:
        raise UsageError(f"{str(path)[:40]}… is longer than any path", "check the path")
    return found


def images_dir() -> Path:
    """What is remembered of images, and what is made on the way to one."""
    return _run_from("images")


def servers_dir() -> Path:
    return _run_from("servers")


def libraries_dir() -> Path:
    """Of packages that were unpacked for servers which lack them."""
    return _run_from("libraries")


def _run_from(name: str) -> Path:
    """What lies there is run, or believed, so nobody else may put anything there."""
    folder = cache_dir() / name
    refuse_untrusted(folder, "name a folder of your own in RECOVERY_CACHE; where everybody may write, chmod o-w helps")
    return folder


def default_data_dir() -> Path:
    return cache_dir() / "data"


# What lies under a folder of hundreds of thousands of files, without ever holding all their names?

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
                _remove_below(folder_fd, entry)
        if not found:
            return
    raise OSError(f"files kept appearing during {_SWEEPS} sweeps")


def _remove_below(folder_fd: int, entry: os.DirEntry[str]) -> None:
    if not entry.is_dir(follow_symlinks=False):
        os.unlink(entry.name, dir_fd=folder_fd)
        return
    below_fd = os.open(entry.name, _FOLDER_FLAGS, dir_fd=folder_fd)
    try:
        _empty(below_fd)
    finally:
        os.close(below_fd)
    os.rmdir(entry.name, dir_fd=folder_fd)


# Where do the tested tables' files lie in a server's data directory, and which of the files there are theirs?

ALL_TABLES = "all_tables.ibd"
"""As templates/layouts.sql.j2 calls the file of a general tablespace, which a server wants beside its own."""
_ENDING = ".ibd"
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True)
class TableFiles:
    folders: tuple[Path, ...]
    name: str | None = None
    """Of the only one; None is all that look like it."""

    def holds(self, name: str) -> bool:
        """Whether a file of this name, in one of the folders, is theirs."""
        return name.endswith(_ENDING) if self.name is None else name == self.name

    def paths(self) -> Iterator[str]:
        """In the order of their inodes, within each batch: the storage is asked in the kindest way."""
        for folder in self.folders:
            for batch in batches(folder):
                yield from (entry.path for entry in batch if self.holds(entry.name))

    def count(self) -> int:
        """A missing folder holds none."""
        return sum(map(self._count_in, self.folders))

    def _count_in(self, folder: Path) -> int:
        try:
            with os.scandir(folder) as entries:
                return sum(self.holds(entry.name) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return 0


def table_files(data: Path, schema: Schema) -> TableFiles:
    if schema.layout is Layout.GENERAL:
        return TableFiles((data,), ALL_TABLES)
    return TableFiles(tuple(data / _folder_name(database) for database in schema.database_names))


def _folder_name(database: str) -> str:
    """As the server spells it on the disk: `my-db` lies in `my@002ddb`."""
    return _OTHER_CHARACTERS.sub(lambda match: f"@{ord(match[0]):04x}", database)
