"""Is this host fit for the experiment, and if not, what is to be done?"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host import engine
from recovery.host.check import Check
from recovery.host.doctor_kernel import privileges, settable, watches
from recovery.host.doctor_machine import cpu_and_memory, machine_checks, other_load
from recovery.host.doctor_rights import root_steps
from recovery.host.doctor_storage import device_checks, room, speed
from recovery.host.randomreads import ReadProbe

_PROGRAMS = {
    "mvn": "fetches 5.7.22, 8.0.15, 8.0.31 and MariaDB; install maven, or give MYSQLD= or ARCHIVE=",
    "npm": "fetches 5.6.24; install npm, or give MYSQLD= or ARCHIVE=",
    "apt-get": "fetches libraries that a server lacks; without it, install libaio and libnuma yourself",
    "dpkg-deb": "unpacks libraries that a server lacks; without it, install libaio and libnuma yourself",
}


def examine(
    data: Path, *, stackers: Mapping[str, str | None] | None = None, tried: ReadProbe | None = None
) -> dict[str, tuple[Check, ...]]:
    """By subject. Touches nothing but a small file in `data` (or above it, where that is not there yet), gone at once.

    `stackers`: the programs that take stacks, with why each cannot. `tried`: how fast the storage was found to be."""
    return {
        "Rights": tuple(privileges(data)),
        "Steps that need root": tuple(root_steps()),
        "Watching files": tuple(watches(data)),
        "Room": tuple(room(data)),
        "Storage": (*device_checks(data), *speed(tried)),
        "CPU and memory": tuple(cpu_and_memory()),
        "Machine": tuple(machine_checks()),
        "Limits for the server": tuple(settable(data)),
        "Others on this host": tuple(other_load()),
        "Where servers come from": (*_programs(), _engine()),
        "Programs that take stacks": tuple(_stackers(stackers or {})),
    }


def _programs() -> Iterator[Check]:
    for name, use in _PROGRAMS.items():
        there = shutil.which(name) is not None
        does, _, instead = use.partition("; ")
        yield Check(name, True if there else None, "there" if there else "not there", f"it {does}", instead)


def _engine() -> Check:
    """None of them is needed: without one, servers run as local processes."""
    why = "with an engine, servers run in containers: releases that this host has no libraries for run there too"
    try:
        at = engine.endpoint()
        with closing(engine.connect(at)) as client:
            found = engine.facts(client, at)
    except HostUnfitError as error:
        return Check("container engine", None, error.message, why, error.hint)
    return Check("container engine", True, "; ".join(found.values()), why)


def _stackers(complaints: Mapping[str, str | None]) -> Iterator[Check]:
    why = "--stacks takes the server's stacks by the first that works: what it was doing, as chains of calls"
    one_works = None in complaints.values()
    for name, complaint in complaints.items():
        hint = "" if one_works else "install eu-stack (elfutils) and run as root; see kernel.yama.ptrace_scope"
        yield Check(name, True if complaint is None else None, complaint or "works", why, hint)
