"""Which device and filesystem hold this path, and how are they set up? What is not known is None."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from recovery.paths import expanded

_MOUNTS = Path("/proc/self/mountinfo")
_BLOCK = Path("/sys/dev/block")
IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
"""Filesystems whose files are never on a disk."""
_READS, _READ_SECTORS, _WRITES, _WRITTEN_SECTORS, _BUSY_MS = 0, 2, 4, 6, 9
_SECTOR_BYTES = 512
"""In the kernel's counts, whatever the device's own are."""
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Device:
    device: str | None = None
    """`/dev/nvme1n1p1`; None where no single block device is behind the path (overlay, tmpfs, btrfs, a network)."""
    filesystem: str | None = None
    mount_point: str | None = None
    mount_options: str | None = None
    model: str | None = None
    serial: str | None = None
    scheduler: str | None = None
    read_ahead_kb: int | None = None
    rotational: bool | None = None
    stat_path: Path | None = None
    """Where the kernel counts the device's requests."""
    disk: str | None = None
    """Major and minor number of the whole disk, like `259:0`: a partition has no limits of its own."""
    stacked: bool = False
    """It is made of other devices (device mapper, RAID)."""


@dataclass(frozen=True)
class _Mount:
    number: str
    point: str
    filesystem: str
    options: str


def nearest(path: Path) -> Path:
    """The path itself, or the closest folder above it that exists: what it will lie on once it is made."""
    path = expanded(path).absolute()
    return next((candidate for candidate in (path, *path.parents) if candidate.exists()), Path("/")).resolve()


def device_of(path: Path) -> Device:
    """The path need not exist yet."""
    place = nearest(path)
    number = place.stat().st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    mount = _mount_of(place, name)
    known = _block(_BLOCK / name)
    if mount is None:
        return known
    return replace(known, filesystem=mount.filesystem, mount_point=mount.point, mount_options=mount.options)


def _mount_of(place: Path, number: str) -> _Mount | None:
    """The longest mount point above; the same number first (binds and overmounts), the last one mounted on ties.
    A btrfs subvolume has a number of its own, which no line shows: hence not by number alone."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return None
    above = [mount for line in lines if place.is_relative_to((mount := _parse(line)).point)]
    ranked = sorted(above, key=lambda mount: (mount.number == number, len(mount.point)))
    return ranked[-1] if ranked else None


def _parse(line: str) -> _Mount:
    """`27 1 254:0 / /data rw,noatime shared:1 - ext4 /dev/vda rw,discard`"""
    before, _, after = line.partition(" - ")
    _, _, number, _, point, options, *_ = before.split(" ")
    filesystem, _, own_options = after.split(" ")
    both = dict.fromkeys(f"{options},{own_options}".split(","))
    return _Mount(number, unescape(point), filesystem, ",".join(both))


def unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def _block(link: Path) -> Device:
    if not link.exists():
        return Device()
    own = link.resolve()
    disk = own.parent if (own / "partition").exists() else own  # a partition's queue is its disk's
    read_ahead, rotational = _line(disk / "queue/read_ahead_kb"), _line(disk / "queue/rotational")
    return Device(
        device=f"/dev/{own.name.replace('!', '/')}",
        model=_line(disk / "device/model"),
        serial=_line(disk / "device/serial") or _line(disk / "serial"),
        scheduler=_chosen(_line(disk / "queue/scheduler")),
        read_ahead_kb=int(read_ahead) if read_ahead else None,
        rotational=rotational == "1" if rotational else None,
        stat_path=own / "stat",
        disk=_line(disk / "dev"),
        stacked=any((disk / "slaves").glob("*")),
    )


def _line(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def _chosen(text: str | None) -> str | None:
    """`none [mq-deadline] kyber` → `mq-deadline`"""
    match = re.search(r"\[(.+?)\]", text or "")
    return match[1] if match else text


@dataclass(frozen=True)
class Served:
    """By a device since it is there, whoever asked for it."""

    reads: int
    """Requests that were completed, after neighbours were merged."""
    writes: int
    read_bytes: int
    written_bytes: int
    busy_s: float
    """With at least one request under way."""


def served(device: Device) -> Served | None:
    text = _line(device.stat_path) if device.stat_path else None
    if text is None:
        return None
    fields = [int(field) for field in text.split()]
    return Served(
        reads=fields[_READS],
        writes=fields[_WRITES],
        read_bytes=fields[_READ_SECTORS] * _SECTOR_BYTES,
        written_bytes=fields[_WRITTEN_SECTORS] * _SECTOR_BYTES,
        busy_s=fields[_BUSY_MS] / 1000,
    )


def completed_reads(device: Device) -> int | None:
    """Reads the device has completed since it is there, whoever asked for them."""
    counted = served(device)
    return None if counted is None else counted.reads


def moved_bytes(device: Device) -> tuple[int, int] | None:
    """Read from the device and written to it since it is there, whoever asked for it."""
    counted = served(device)
    return None if counted is None else (counted.read_bytes, counted.written_bytes)
