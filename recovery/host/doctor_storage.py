"""Is there room for the tables, what are they on, and how fast is that? The doctor's checks of the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recovery.findings.cache import told_cached_below
from recovery.host import ec2, machine
from recovery.host.check import Check, told
from recovery.host.probes import can_write
from recovery.host.randomreads import ReadProbe
from recovery.host.space import free, need_for
from recovery.host.storage import IN_MEMORY, device_of, nearest
from recovery.model import Flavor, Schema, Version
from recovery.ownership import why_not_trusted

_TABLES = 200_000
_REFERENCE = Version(Flavor.MYSQL, (5, 7, 22))


def room(data: Path) -> Iterator[Check]:
    yield Check(
        "data folder", can_write(nearest(data)), str(data), "it lies on the volume under test",
        "give DATA= a folder that this user may write",
    )  # fmt: skip
    if (why := why_not_trusted(data)) is not None:
        yield Check(
            "who may write there", False, why, "another user could put other files below a server",
            "give DATA= a folder of your own; where everybody may write, chmod o-w or chmod +t",
        )  # fmt: skip
    need, there = need_for(_REFERENCE, Schema(_TABLES)), free(data)
    fewer = "give DATA= another disk, or ask for fewer (TABLES=)"
    why = f"{_TABLES:,} tables of {_REFERENCE} take so much"
    enough = there.bytes >= need.bytes
    yield Check("disk", enough, f"{there.bytes / 1e9:.1f} GB free, {need.bytes / 1e9:.1f} GB needed", why, fewer)
    enough = there.inodes >= need.inodes
    yield Check("inodes", enough, f"{there.inodes:,} free, {need.inodes:,} needed", why, fewer)
    memory = machine.memory_bytes()
    yield Check(
        "memory",
        True if memory > need.bytes else None,
        f"{memory / 1e9:.1f} GB",
        f"a start of {_TABLES:,} tables is warm only where memory holds them",
        "ask for fewer, or take it that a warm start reads from the disk again",
    )


def device_checks(data: Path) -> Iterator[Check]:
    device = device_of(data)
    in_memory = device.filesystem in IN_MEMORY
    yield Check(
        "filesystem",
        False if in_memory else None,
        f"{device.filesystem} ({device.mount_options})",
        "how it finds files and writes its journal is part of every start; what lies in memory can never be cold",
        "give DATA= a folder on a disk" if in_memory else "",
    )
    yield Check(
        "device",
        None,
        " ".join(filter(None, (device.device, device.model))) or "unknown",
        "its requests are counted",
        "" if device.device else "no single block device is behind it, so they are not: take a plain disk",
    )
    yield Check("serial", None, told(device.serial), "it tells which volume this was")
    if (volume := machine.ebs_volume(device)) is not None:
        yield Check(
            "EBS volume",
            None,
            volume,
            "its kind and its IOPS are seen by nobody from in here",
            'say them yourself: --note "io2, 5000 IOPS"',
        )
    elif ec2.on_xen() and device.model is None:
        yield Check(
            "EBS volume",
            None,
            "unknown: on Xen a disk tells neither model nor serial",
            "a report without it cannot be compared",
            'say which it is: --note "vol-…, gp2, 300 IOPS"',
        )
    yield Check("scheduler", None, told(device.scheduler), "it decides which of many requests goes first")
    none = device.read_ahead_kb == 0
    yield Check(
        "read-ahead",
        None,
        told(device.read_ahead_kb, " KiB"),
        "without it every page is a request of its own: a cold start of 5.7 took four times as long",
        f"blockdev --setra 256 {device.device}, if that is not what you test" if none else "",
    )


def speed(tried: ReadProbe | None) -> Iterator[Check]:
    if tried is None:
        return
    why = "a cold start is mostly small reads, and these are what one costs here: of a file just written, so at best"
    for name, found in tried.speeds.items():
        size, _, threads = name.partition("_")
        detail = f"{found.iops:,} a second; mean {found.mean_ms:.2f} ms, p99 {found.p99_ms:.2f} ms"
        yield Check(f"{size.removesuffix('k')} KiB reads, {threads} at once", None, detail, why)
    if not tried.speeds:
        yield Check("reads", None, f"not tried: {tried.why_not}", why)
    if (again := tried.again) is not None:
        cached = told_cached_below(tried.facts())
        both = f"{again.first_ms} ms, then {again.again_ms} ({again.blocks} blocks of {again.over})"
        yield Check(
            "just-read blocks",
            None,
            cached or f"not known: {both}; such a cache may hold them already",
            '"cold" means cold to this machine only: a cache below it is not emptied, and may hold what was just '
            "written, too",
            "compare starts over files that had been read as often before" if cached else "",
        )
