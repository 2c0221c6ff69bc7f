"""Which limits can this host set on a server over this folder, and what is written where for them?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host import machine
from recovery.host.cgroups import MOUNTS, Hierarchy, hierarchies
from recovery.host.rights import is_refused, refusal
from recovery.host.storage import Device, device_of
from recovery.limited import compact
from recovery.model import Limits
from recovery.rootsteps import RootStep

_PERIOD_US = 100_000
_READ_BY_OTHERS = frozenset({"fuseblk", "zfs", "btrfs", "bcachefs"})
"""Their reads are made by another process, or on devices that the folder does not tell."""
_LEAVE_OUT = "or leave it out"


@dataclass(frozen=True)
class Setting:
    """One file of a control group."""

    file: str
    text: str
    vital: bool = True
    """False is left alone where the kernel does not have it."""


@dataclass(frozen=True)
class Unit:
    """One controller's part."""

    asked: str
    """What the user wrote, to be named in a refusal: `READ_IOPS`."""
    hierarchy: Hierarchy
    controller: str
    settings: tuple[Setting, ...]
    disk: str | None = None
    """Whose reads are limited, and counted."""


@dataclass(frozen=True)
class _Wish:
    asked: str
    controllers: tuple[str, str]
    """As version 1 calls it, and version 2."""
    settings: tuple[tuple[Setting, ...], tuple[Setting, ...]]
    disk: str | None = None


def needed(limits: Limits, data: Path, *, mounts: Path = MOUNTS) -> tuple[Unit, ...]:
    """What to set, or HostUnfitError: a run that ignores a limit would measure something else than was asked."""
    found = hierarchies(mounts)
    return tuple(_unit(wish, found) for wish in _wishes(limits, data))


def _unit(wish: _Wish, found: tuple[Hierarchy, ...]) -> Unit:
    if is_refused(RootStep.CGROUPS):
        raise HostUnfitError(
            f"{wish.asked} cannot be set: it takes a control group, {refusal(RootStep.CGROUPS)}",
            "leave out one of them",
        )
    for hierarchy in sorted(found, key=lambda one: one.version):
        controller = wish.controllers[hierarchy.version - 1]
        if controller in hierarchy.controllers:
            break
    else:
        raise HostUnfitError(
            f"{wish.asked} cannot be set: this host offers no control group with '{wish.controllers[1]}'",
            f"run it on a host with cgroup v1 or v2, not in an unprivileged container, {_LEAVE_OUT}",
        )
    if not os.access(hierarchy.root, os.W_OK):
        raise HostUnfitError(
            f"{wish.asked} cannot be set: this user may not make a control group in {hierarchy.root}",
            f"{'run it on the host, not in a container' if os.geteuid() == 0 else 'run as root'}, {_LEAVE_OUT}",
        )
    return Unit(wish.asked, hierarchy, controller, wish.settings[hierarchy.version - 1], wish.disk)


def _wishes(limits: Limits, data: Path) -> Iterator[_Wish]:
    asked = [name for name, value in (("READ_IOPS", limits.read_iops), ("READ_BPS", limits.read_bps)) if value]
    if asked:
        yield _reads(limits, " and ".join(asked), _disk(asked[0], data))
    if limits.memory_bytes is not None:
        yield _memory(limits.memory_bytes)
    if limits.cpus is not None:
        yield _cpus(limits.cpus)


def _reads(limits: Limits, asked: str, disk: str) -> _Wish:
    old, new = [], []
    if limits.read_iops:
        old.append(Setting("blkio.throttle.read_iops_device", f"{disk} {limits.read_iops}"))
        new.append(Setting("io.max", f"{disk} riops={limits.read_iops}"))
    if limits.read_bps:
        old.append(Setting("blkio.throttle.read_bps_device", f"{disk} {limits.read_bps}"))
        new.append(Setting("io.max", f"{disk} rbps={limits.read_bps}"))
    return _Wish(asked, ("blkio", "io"), (tuple(old), tuple(new)), disk)


def _memory(limit: int) -> _Wish:
    """Without swap of its own: what does not fit must not be measured as slow memory."""
    there = machine.memory_bytes()
    if limit > there:
        raise HostUnfitError(
            f"MEMORY={compact(limit)} is more than this host has ({there / (1 << 30):.1f} GiB)",
            f"give less, {_LEAVE_OUT}",
        )
    old = (
        Setting("memory.use_hierarchy", "1", vital=False),
        Setting("memory.limit_in_bytes", str(limit)),
        Setting("memory.memsw.limit_in_bytes", str(limit), vital=False),
    )
    return _Wish("MEMORY", ("memory", "memory"), (old, (Setting("memory.max", str(limit)), _NO_SWAP)))


_NO_SWAP = Setting("memory.swap.max", "0", vital=False)


def _cpus(cpus: float) -> _Wish:
    there = os.cpu_count() or 1
    if cpus > there:
        raise HostUnfitError(f"CPUS={cpus:g} is more than this host has ({there})", f"give less, {_LEAVE_OUT}")
    quota = round(cpus * _PERIOD_US)
    old = (Setting("cpu.cfs_period_us", str(_PERIOD_US)), Setting("cpu.cfs_quota_us", str(quota)))
    return _Wish("CPUS", ("cpu", "cpu"), (old, (Setting("cpu.max", f"{quota} {_PERIOD_US}"),)))


def _disk(asked: str, data: Path) -> str:
    """The number of the whole disk: the kernel takes no limit for a partition."""
    device = device_of(data)
    why = _not_limitable(device)
    if why is None and device.disk is not None:
        return device.disk
    raise HostUnfitError(
        f"{asked} cannot be set on {data}: {why}",
        f"give DATA= a folder on a plain disk with ext4 or XFS, {_LEAVE_OUT}",
    )


def _not_limitable(device: Device) -> str | None:
    if device.disk is None:
        return f"no single block device is behind it ({device.filesystem or 'unknown'})"
    if device.filesystem in _READ_BY_OTHERS:
        return f"{device.filesystem} reads by means of its own"
    if device.stacked:
        return f"{device.device} is made of other devices, which the limit is not known to hold for"
    return None
