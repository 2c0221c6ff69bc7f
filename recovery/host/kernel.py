"""How is this kernel set up for what a start needs: control groups, watches on files, and how many of them?"""

from __future__ import annotations

import os
from pathlib import Path

from recovery.host import cgroups
from recovery.host.fanotify import listen
from recovery.host.machine import Fact, line

INOTIFY = Path("/proc/sys/fs/inotify")
FANOTIFY = Path("/proc/sys/fs/fanotify")


def kernel_facts(folder: Path) -> dict[str, Fact]:
    """Of the folder's filesystem, where that matters; it need not be there yet."""
    return {
        "cgroup_controllers": controllers(),
        "cpu_quota": cpu_quota(),
        "inotify_watches": number(INOTIFY / "max_user_watches"),
        "inotify_instances": number(INOTIFY / "max_user_instances"),
        "fanotify": "works" if (why := fanotify_refused(folder)) is None else why,
        "fanotify_groups": number(FANOTIFY / "max_user_groups"),
        "fanotify_marks": number(FANOTIFY / "max_user_marks"),
    }


def number(path: Path) -> int | None:
    text = line(path)
    return int(text) if text is not None and text.isdigit() else None


def controllers(mounts: Path = cgroups.MOUNTS) -> str | None:
    """`v1: blkio cpu memory`: those of use here, by the version that holds them."""
    by_version: dict[int, set[str]] = {}
    for one in cgroups.hierarchies(mounts):
        by_version.setdefault(one.version, set()).update(one.controllers)
    told = (f"v{version}: {' '.join(sorted(names))}" for version, names in sorted(by_version.items()) if names)
    return "; ".join(told) or None


def cpu_quota(mounts: Path = cgroups.MOUNTS) -> float | None:
    """How many CPUs this tool may use, and with it the servers that it starts itself; None is no limit."""
    quotas = [cgroups.cpu_quota(folder) for folder in cgroups.groups_of("self", "cpu", mounts=mounts)]
    return min((quota for quota in quotas if quota is not None), default=None)


def fanotify_refused(folder: Path) -> str | None:
    """Why not; None where opens can be traced by it. Tried: it takes CAP_SYS_ADMIN and a filesystem with handles."""
    try:
        os.close(listen(folder))
    except OSError as error:
        return error.strerror or str(error)
    return None
