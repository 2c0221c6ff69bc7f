"""Is this host fit for the experiment, and if not, what is to be done?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil

from recovery.errors import HostUnfitError
from recovery.host import engine, machine
from recovery.host.dropping import own_dropper
from recovery.host.facts import open_files_limit
from recovery.host.limitable import needed
from recovery.host.probes import cachestat_works, can_write
from recovery.host.space import free, need_for
from recovery.host.storage import device_of, nearest
from recovery.model import Flavor, Limits, Schema, Version

_TABLES = 200_000
_REFERENCE = Version(Flavor.MYSQL, (5, 7, 22))
_INOTIFY = Path("/proc/sys/fs/inotify")
_FEW_FILES = 5000
_PROGRAMS = {
    "mvn": "fetches 5.7.22, 8.0.15, 8.0.31 and MariaDB; install maven, or give MYSQLD= or ARCHIVE=",
    "npm": "fetches 5.6.24; install npm, or give MYSQLD= or ARCHIVE=",
    "apt-get": "fetches libraries that a server lacks; without it, install libaio and libnuma yourself",
    "dpkg-deb": "unpacks libraries that a server lacks; without it, install libaio and libnuma yourself",
}


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool | None
    """None is a note: good to know, but nothing is refused for it."""
    detail: str
    hint: str = ""


def examine(data: Path) -> tuple[Check, ...]:
    """Touches nothing but a small file in `data` (or above it, where that is not there yet), gone at once."""
    return (*_privileges(data), *_limits(), *_disk(data), *_settable(data), *_others(), *_programs(), _engine())


def _privileges(data: Path) -> Iterator[Check]:
    root = os.geteuid() == 0
    yield Check(
        "root", True if root else None, "yes" if root else "no", "" if root else "needed for drop_caches and for limits"
    )
    drop = own_dropper() is not None
    yield Check(
        "drop_caches",
        True if drop else None,
        "may be written" if drop else "may not be written: a container of the engine does it, where there is one",
        ""
        if drop
        else "without one, inodes and names stay warm; run as root on the host for a start as cold as after a reboot",
    )
    told = cachestat_works(nearest(data))
    yield Check(
        "cachestat",
        told,
        {True: "works", False: "says nothing true here", None: "not there"}[told],
        "" if told else "mincore is asked instead; cachestat needs Linux 6.5 and no overlay",
    )


def _limits() -> Iterator[Check]:
    for name, least in (("max_user_watches", 64), ("max_user_instances", 16)):
        text = machine.line(_INOTIFY / name)
        enough = text is not None and int(text) >= least
        hint = "" if enough else f"the log is followed by inotify: sysctl fs.inotify.{name}={least * 8}"
        yield Check(f"inotify {name}", enough, text or "not there", hint)
    limit = open_files_limit()
    enough = limit is None or limit >= _FEW_FILES
    told = "no limit" if limit is None else f"{limit:,}"
    yield Check("open files", True if enough else None, told, "" if enough else f"raise it: ulimit -Hn {_FEW_FILES}")


def _disk(data: Path) -> Iterator[Check]:
    place = nearest(data)
    writable = can_write(place)
    yield Check("data folder", writable, str(data), "" if writable else "give DATA= a folder that this user may write")
    need, there = need_for(_REFERENCE, Schema(_TABLES)), free(data)
    fewer = f"needed by {_TABLES:,} tables of {_REFERENCE}: give DATA= another disk, or ask for fewer (TABLES=)"
    enough = there.bytes >= need.bytes
    told = f"{there.bytes / 1e9:.1f} GB free, {need.bytes / 1e9:.1f} GB needed"
    yield Check("disk", enough, told, "" if enough else fewer)
    enough = there.inodes >= need.inodes
    yield Check("inodes", enough, f"{there.inodes:,} free, {need.inodes:,} needed", "" if enough else fewer)
    memory = machine.memory_bytes()
    fits = memory > need.bytes
    small = f"{_TABLES:,} tables are more than memory holds: their warm start reads from the disk again"
    yield Check("memory", True if fits else None, f"{memory / 1e9:.1f} GB", "" if fits else small)
    reclaimed = machine.idle_pageout()
    if reclaimed is not None:
        yield Check("page cache", None, reclaimed, "warm starts are partly cold here; compare the bytes they read")
    yield from _device(data)


def _device(data: Path) -> Iterator[Check]:
    device = device_of(data)
    in_memory = device.filesystem in ("tmpfs", "ramfs")
    hint = "it lies in memory and can never be cold: give DATA= a folder on a disk" if in_memory else ""
    yield Check("filesystem", False if in_memory else None, f"{device.filesystem} ({device.mount_options})", hint)
    unknown = "no single block device is behind it, so its requests are not counted"
    yield Check(
        "device",
        None,
        " ".join(filter(None, (device.device, device.model))) or "unknown",
        "" if device.device else unknown,
    )
    yield Check("scheduler", None, device.scheduler or "unknown")
    read_ahead = device.read_ahead_kb
    off = "without read-ahead every page is a request of its own: a cold start of 5.7 took four times as long"
    yield Check(
        "read-ahead", None, "unknown" if read_ahead is None else f"{read_ahead} KiB", off if read_ahead == 0 else ""
    )


def _settable(data: Path) -> Iterator[Check]:
    """Whether the measured server can be held to less than this host has: asked, not tried."""
    wishes = {
        "limit on reads": Limits(read_iops=1, read_bps=1),
        "limit on memory": Limits(memory_bytes=1),
        "limit on CPUs": Limits(cpus=1),
    }
    for name, limits in wishes.items():
        try:
            (unit,) = needed(limits, data)
        except HostUnfitError as error:
            yield Check(name, None, error.message, error.hint)
        else:
            yield Check(name, True, f"can be set (cgroup v{unit.hierarchy.version})")


def _others() -> Iterator[Check]:
    pids = [p.pid for p in psutil.process_iter(["name"]) if p.info["name"] in ("mysqld", "mariadbd")]
    told = "pid " + ", ".join(map(str, pids)) if pids else "none"
    hint = "they share disk, memory and CPU with what is measured: stop them first" if pids else ""
    yield Check("other servers", None if pids else True, told, hint)


def _programs() -> Iterator[Check]:
    for name, use in _PROGRAMS.items():
        there = shutil.which(name) is not None
        yield Check(name, True if there else None, "there" if there else "not there", "" if there else use)


def _engine() -> Check:
    """None of them is needed: without one, servers run as local processes."""
    try:
        at = engine.endpoint()
        with closing(engine.connect(at)) as client:
            told = engine.facts(client, at)
    except HostUnfitError as error:
        return Check("container engine", None, error.message, error.hint)
    return Check("container engine", True, "; ".join(told.values()))
