"""What may this user do here, and what does the kernel let him watch? The doctor's checks of rights and limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host import machine
from recovery.host.check import Check, told
from recovery.host.dropping import own_dropper
from recovery.host.facts import open_files_limit
from recovery.host.kernel import FANOTIFY, INOTIFY, controllers, cpu_quota, fanotify_refused, number
from recovery.host.limitable import needed
from recovery.host.probes import cachestat_works
from recovery.host.storage import nearest
from recovery.model import Limits

_FEW_FILES = 5000


def privileges(data: Path) -> Iterator[Check]:
    root = os.geteuid() == 0
    yield Check(
        "root", True if root else None, "yes" if root else "no",
        "dropping the host's caches, limits and --trace by fanotify are root's alone", "run as root, where you may",
    )  # fmt: skip
    drop = own_dropper() is not None
    yield Check(
        "drop_caches",
        True if drop else None,
        "may be written" if drop else "may not be written: a container of the engine does it, where there is one",
        "a cold start begins with an empty cache: files, inodes and names",
        "without it inodes and names stay warm; run as root on the host for a start as cold as after a reboot",
    )
    works = cachestat_works(nearest(data))
    yield Check(
        "cachestat",
        works,
        {True: "works", False: "says nothing true here", None: "not there"}[works],
        "it proves that the cache was empty, in a moment for 200,000 files",
        "mincore is asked instead; cachestat needs Linux 6.5 and no overlay",
    )


def watches(data: Path) -> Iterator[Check]:
    why = "the server's log is followed by inotify: its ready line is seen within a millisecond"
    for name, least in (("max_user_watches", 64), ("max_user_instances", 16)):
        found = number(INOTIFY / name)
        enough = found is not None and found >= least
        yield Check(f"inotify {name}", enough, told(found), why, f"sysctl fs.inotify.{name}={least * 8}")
    yield _fanotify(data)
    limit = open_files_limit()
    yield Check(
        "open files",
        True if limit is None or limit >= _FEW_FILES else None,
        "no limit" if limit is None else f"{limit:,}",
        "a server holds many tables' files open; one that may not opens and closes them again and again",
        f"raise it: ulimit -Hn {_FEW_FILES}",
    )


def _fanotify(data: Path) -> Check:
    refused = fanotify_refused(nearest(data))
    groups, marks = (number(FANOTIFY / name) for name in ("max_user_groups", "max_user_marks"))
    return Check(
        "fanotify",
        True if refused is None else None,
        f"{refused or 'works'} (groups: {told(groups)}, marks: {told(marks)})",
        "--trace tells by it which files the server itself opens, in containers too",
        "inotify is taken instead, which tells anybody's opens; fanotify needs root and Linux 5.9",
    )


def settable(data: Path) -> Iterator[Check]:
    """Whether the measured server can be held to less than this host has: asked, not tried."""
    version = machine.cgroup_version()
    yield Check(
        "control groups",
        None,
        f"version {told(version)} ({controllers() or 'no controller of use'})",
        "READ_IOPS, READ_BPS, MEMORY and CPUS are set by them",
    )
    quota = cpu_quota()
    yield Check(
        "CPU quota of this tool",
        None,
        "none" if quota is None else f"{quota:g} CPUs",
        "servers that are started from here share it, and stand still when it is used up",
        "" if quota is None else "start the tool outside of that group, or take it for part of the host",
    )
    why = "the measured server can be held to less than this host has, as if it were a smaller one"
    wishes = {
        "limit on reads": Limits(read_iops=1, read_bps=1),
        "limit on memory": Limits(memory_bytes=1),
        "limit on CPUs": Limits(cpus=1),
    }
    for name, limits in wishes.items():
        try:
            (unit,) = needed(limits, data)
        except HostUnfitError as error:
            yield Check(name, None, error.message, why, error.hint)
        else:
            yield Check(name, True, f"can be set (cgroup v{unit.hierarchy.version})", why)
