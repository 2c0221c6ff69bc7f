"""Which servers are in the cache, and how does one get there whole or not at all?"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from recovery.builds.alone import alone
from recovery.builds.checksum import remembered
from recovery.files import on_the_disk, sweep_drafts, write_atomically
from recovery.host.ailing import CACHE, Folder, blaming
from recovery.ownership import closed_to_writers, made_readable, why_not_trusted
from recovery.paths import servers_dir
from recovery.readback import parse_json

_RECORD, _TREE = "server.json", "tree_sha256"
FORMAT = 1
"""Of the record; without a word it is that of the first tools."""


@dataclass(frozen=True)
class Origin:
    """What is known of an unpacked server; kept beside it."""

    kind: str
    """`catalog`, `archive`, `file` or `url`."""
    version: str
    """As it was asked for; empty where nobody said."""
    source: str
    """In words, for the report."""
    where: str
    """What it is found again by: artifact, URL or path."""
    archive_sha256: str
    archive_bytes: int
    mysqld: str
    """Relative to the unpacked tree."""
    warnings: tuple[str, ...] = ()

    @property
    def folder_name(self) -> str:
        return f"{self.version or self.kind}-{self.archive_sha256[:8]}"


@dataclass(frozen=True)
class Installed:
    folder: Path
    origin: Origin
    tree_sha256: str | None = None
    """Of all its files, when it was installed; None where an earlier version of this tool installed it."""

    @property
    def mysqld(self) -> Path:
        return self.folder / "tree" / self.origin.mysqld

    def is_altered(self) -> bool:
        """Whether a file was changed, cut short, added or removed since it was installed."""
        try:
            return self.tree_sha256 is not None and _sum_of_tree(self.folder) != self.tree_sha256
        except OSError:
            return True

    @property
    def memo(self) -> Path:
        """Remembers the executable's SHA-256."""
        return self.folder / "mysqld.sha256.json"

    def remove(self) -> None:
        """The record first: without it, what is left is no server."""
        (self.folder / _RECORD).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def every() -> tuple[Installed, ...]:
    """Those that are whole, and may be run: the record is there, and every file is as it was installed."""
    return tuple(server for server in _ours() if not server.is_altered())


def altered() -> Iterator[Installed]:
    """Those that are not as they were installed: they are not run, and fetched again where they are asked for."""
    return (server for server in _ours() if server.is_altered())


def _ours() -> Iterator[Installed]:
    found = ((_load(folder), folder) for folder in _folders())
    return (server for server, folder in found if server is not None and _why_not_ours(folder) is None)


def set_aside() -> Iterator[tuple[Path, str]]:
    """Whole ones that are not used, and why."""
    for folder in _folders():
        if (why := _why_not_ours(folder)) is not None:
            yield folder, why
    for server in altered():
        yield server.folder, "its files were changed after it was installed"


def _folders() -> list[Path]:
    root = servers_dir()
    return sorted(folder for folder in root.iterdir() if not folder.name.startswith(".")) if root.is_dir() else []


def _load(folder: Path) -> Installed | None:
    """What a later tool has put into the record beside what is known here is left alone."""
    try:
        told = parse_json((folder / _RECORD).read_bytes())
        told["warnings"] = tuple(told.get("warnings", ()))
        origin = Origin(**{one.name: told[one.name] for one in dataclasses.fields(Origin)})
        server = Installed(folder, origin, told.get(_TREE))
        place = PurePosixPath(server.origin.mysqld)
        inside = not place.is_absolute() and ".." not in place.parts
        return server if inside and server.mysqld.is_file() else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _why_not_ours(folder: Path) -> str | None:
    """Somebody else's, or open to somebody else on the way to its executable; or written by a later tool in a way that
    is not known here."""
    if (why := why_not_trusted(folder / _RECORD)) is not None:
        return why
    if (server := _load(folder)) is not None and (why := why_not_trusted(server.mysqld)) is not None:
        return why
    return "it was written by a newer version of this tool" if _format_of(folder) > FORMAT else None


def _format_of(folder: Path) -> int:
    try:
        number = parse_json((folder / _RECORD).read_bytes()).get("format", FORMAT)
    except (OSError, ValueError, AttributeError):
        return FORMAT
    return number if isinstance(number, int) else FORMAT


def find(accept: Callable[[Origin], bool]) -> Installed | None:
    """The first that is accepted, and as it was installed. One that an earlier version of this tool installed is taken
    to be, and its files must not change from now on."""
    found = next((server for server in _ours() if accept(server.origin) and not server.is_altered()), None)
    if found is None or found.tree_sha256 is not None or not os.access(found.folder, os.W_OK):
        return found
    with suppress(OSError, ValueError):  # a cache of root's, which others may read
        told = parse_json((found.folder / _RECORD).read_bytes())
        _write_record(found.folder, told | {_TREE: _sum_of_tree(found.folder)})
    return _load(found.folder)


def _sum_of_tree(folder: Path) -> str:
    return remembered(folder / "tree", folder / "tree.sha256.json")


def _write_record(folder: Path, told: dict[str, Any]) -> None:
    """For whoever may read the cache, whatever the umask."""
    sweep_drafts(folder)
    write_atomically(folder / _RECORD, json.dumps(told, indent=1).encode())
    (folder / _RECORD).chmod(0o644)


@dataclass(frozen=True)
class Job:
    """How one server gets into the cache."""

    name: str
    """Only one process at a time works under this name."""
    accept: Callable[[Origin], bool]
    """Which server in the cache makes it needless."""
    fill: Callable[[Path], Origin]
    """Gets an empty folder on the cache's own filesystem, and leaves the unpacked server in its `tree`."""


def obtain(job: Job, say: Callable[[str], None]) -> Installed:
    """From the cache, else filled: under a name of its own until it is whole and on disk, then renamed."""
    found = find(job.accept)
    if found is not None:
        return found
    for folder, why in set_aside():
        say(f"{folder} is not used: {why}")
    root = made_readable(servers_dir())
    waiting = f"waiting for another process that fetches {job.name}"
    with alone(root / f".lock-{job.name}", lambda: say(waiting)):
        found = find(job.accept)
        if found is not None:
            return found
        for leftover in root.glob(f".part-{job.name}-*"):  # nobody else works here: its owner was killed
            if why_not_trusted(leftover) is None:
                shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f".part-{job.name}-", dir=root, ignore_cleanup_errors=True) as part:
            # A power cut must not leave the name of a server whose files are empty, nor a disk that takes no more.
            with blaming(Folder(CACHE, root)), on_the_disk(root):
                origin = _filled(job, Path(part))
            return _put_in_place(origin, Path(part), root)


def _filled(job: Job, part: Path) -> Origin:
    """In its `whole`."""
    origin = job.fill(part)
    whole = part / "whole"
    whole.mkdir(mode=0o755)
    (part / "tree").rename(whole / "tree")
    closed_to_writers(whole / "tree")
    _write_record(whole, dataclasses.asdict(origin) | {_TREE: _sum_of_tree(whole)})
    # Whatever the umask, like the record.
    whole.chmod(0o755)
    return origin


def _put_in_place(origin: Origin, part: Path, root: Path) -> Installed:
    target = next(place for place in _places(root / origin.folder_name) if _why_not_ours(place) is None)
    if target.exists():  # damaged, or the same archive from another place
        target.rename(part / "old")
    (part / "whole").rename(target)
    return Installed(target, origin, _sum_of_tree(target))


def _places(first: Path) -> Iterator[Path]:
    """What is set aside keeps its name."""
    yield first
    yield from (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))
