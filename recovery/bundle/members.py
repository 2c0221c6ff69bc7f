"""Which files of a session go on, and how do they become one archive? No link is followed; the same gives the same."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from recovery.errors import RecoveryError
from recovery.host import flock
from recovery.store import LOCK, REPORT, STACKS

MANIFEST = "MANIFEST"
_FOLDERS = {"runs": (".json",), "logs": (".err", ".log", ".txt"), STACKS: (".folded",)}


def stage(folder: Path, to: Path) -> None:
    """A copy of what a session is made of: plain files that were kept in it, and nothing that they point at."""
    report = _plain(folder / REPORT)
    if report is None:
        raise RecoveryError(f"{folder / REPORT} is no plain file", "name the folder of a session itself")
    (to / REPORT).write_bytes(report)
    for name, endings in _FOLDERS.items():
        (to / name).mkdir()
        for path in _inside(folder / name):
            content = _plain(path) if path.suffix in endings else None
            if content is not None:
                (to / name / path.name).write_bytes(content)
    lock = folder / LOCK
    if lock.is_file() and not lock.is_symlink() and flock.holder(lock) is None:
        # So that the copy is seen to have been killed, too.
        (to / LOCK).touch()


def _inside(folder: Path) -> list[Path]:
    """Sorted; none of a folder that is a link."""
    with suppress(OSError):
        if stat.S_ISDIR(folder.lstat().st_mode):
            return sorted(folder.iterdir())
    return []


def _plain(path: Path) -> bytes | None:
    """None for what is no plain file: a link, a pipe, a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    with open(descriptor, "rb") as file:  # noqa: PTH123 - of a descriptor
        return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def with_manifest(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """And the checksums of all, as `sha256sum -c MANIFEST` reads them."""
    sums = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
    return {**files, MANIFEST: "".join(sums).encode()}


def archive(name: str, files: Mapping[str, bytes], *, started_at: str) -> bytes:
    """One folder, `name`, with these files. Every time is that of the session, and nobody owns anything."""
    when = _seconds(started_at)
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=when) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mtime, member.mode = len(content), when, 0o644
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def read_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Logs and stacks, by their path in the session."""
    for name in ("logs", STACKS):
        for path in _inside(folder / name):
            if path.suffix in _FOLDERS[name]:
                yield f"{name}/{path.name}", path.read_text(encoding="utf-8", errors="replace")


def _seconds(started_at: str) -> int:
    """Of the day's beginning where it cannot be read: 1970."""
    try:
        return max(0, int(datetime.fromisoformat(started_at).timestamp()))
    except (ValueError, OverflowError, OSError):
        return 0
