"""Which servers are in the cache, and how does one get there whole or not at all?"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recovery.builds.alone import alone
from recovery.files import write_atomically
from recovery.paths import servers_dir

_RECORD = "server.json"


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

    @property
    def mysqld(self) -> Path:
        return self.folder / "tree" / self.origin.mysqld

    @property
    def memo(self) -> Path:
        """Remembers the executable's SHA-256."""
        return self.folder / "mysqld.sha256.json"

    def remove(self) -> None:
        """The record first: without it, what is left is no server."""
        (self.folder / _RECORD).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def every() -> tuple[Installed, ...]:
    """Those that are whole: the record is there, and so is the executable."""
    root = servers_dir()
    if not root.is_dir():
        return ()
    found = (_load(folder) for folder in sorted(root.iterdir()) if not folder.name.startswith("."))
    return tuple(server for server in found if server is not None)


def _load(folder: Path) -> Installed | None:
    try:
        fields = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        fields["warnings"] = tuple(fields.get("warnings", ()))
        server = Installed(folder, Origin(**fields))
    except (OSError, ValueError, TypeError):
        return None
    return server if server.mysqld.is_file() else None


def find(accept: Callable[[Origin], bool]) -> Installed | None:
    return next((server for server in every() if accept(server.origin)), None)


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
    root = servers_dir()
    root.mkdir(parents=True, exist_ok=True)
    waiting = f"waiting for another process that fetches {job.name}"
    with alone(root / f".lock-{job.name}", lambda: say(waiting)):
        found = find(job.accept)
        if found is not None:
            return found
        for leftover in root.glob(f".part-{job.name}-*"):  # nobody else works here: its owner was killed
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f".part-{job.name}-", dir=root) as part:
            return _fill(job, Path(part), root)


def _fill(job: Job, part: Path, root: Path) -> Installed:
    origin = job.fill(part)
    whole = part / "whole"
    whole.mkdir(mode=0o755)
    (part / "tree").rename(whole / "tree")
    write_atomically(whole / _RECORD, json.dumps(dataclasses.asdict(origin), indent=1).encode())
    os.sync()  # a power cut must not leave the name of a server whose files are empty
    target = root / origin.folder_name
    if target.exists():  # damaged, or the same archive from another place
        target.rename(part / "old")
    whole.rename(target)
    return Installed(target, origin)
