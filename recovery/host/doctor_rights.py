"""Which steps that need root would be taken here, when, and what would take their place? Asked, not tried."""

from __future__ import annotations

import os
from collections.abc import Iterator

from recovery.host.check import Check
from recovery.host.rights import is_refused, refusal
from recovery.rootsteps import OPTION, RootStep

_TAKEN = {
    RootStep.DROP_CACHES: (
        "before every cold start; for who is not root a short container of the engine does it",
        "files are evicted one by one, and inodes and names stay warm",
    ),
    RootStep.CGROUPS: ("with READ_IOPS, READ_BPS, MEMORY or CPUS", "these are refused"),
    RootStep.FANOTIFY: ("with --trace", "inotify is taken, which tells anybody's opens"),
    RootStep.MOUNT: (
        "where crash-matrix or damage take the power, or the room, from a disk: one in a file, beside the data",
        "these are left out",
    ),
    RootStep.INSTALL: (
        "where an experiment lacks sysbench, mariadb-dump or perf: apt-get install, and apt-get update where the lists "
        "are old",
        "the experiment says what to install",
    ),
    RootStep.DEBOOTSTRAP: (
        "where a server comes from Debian, and no image of it can be pulled",
        "name a registry that has it (REGISTRY=)",
    ),
}
"""When, and what is done instead."""


def root_steps() -> Iterator[Check]:
    root = os.geteuid() == 0
    for step, (when, instead) in _TAKEN.items():
        if is_refused(step):
            yield Check(step, None, refusal(step), when, instead)
        elif root:
            yield Check(step, None, "would be taken", when, f"{OPTION}={step} refuses it: {instead}")
        else:
            yield Check(step, None, "not this user's to take", when, instead)
