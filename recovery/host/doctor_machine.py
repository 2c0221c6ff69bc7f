"""What machine is this, how is it set up, and who else uses it? The doctor's checks of CPU, memory and neighbours."""

from __future__ import annotations

import os
from collections.abc import Iterator

from recovery.host import ec2
from recovery.host.check import Check, told
from recovery.host.facts import other_servers
from recovery.host.machine import DMI, ec2_instance_type, machine

_BUSY = 0.5
"""Processes that want a CPU, for each CPU."""


def cpu_and_memory() -> Iterator[Check]:
    facts = machine()
    yield Check(
        "CPUs", None, f"{facts['cpus']}, {facts['cpu_model']}", "newer releases scan files with several threads"
    )
    governor = facts["cpu_governor"]
    slow = governor in ("powersave", "ondemand", "conservative")
    yield Check(
        "governor",
        None,
        told(governor),
        "a CPU that has to speed up first makes short starts longer",
        "cpupower frequency-set -g performance" if slow else "",
    )
    yield Check("transparent huge pages", None, told(facts["thp"]), "they decide how fast a large pool is laid out")
    yield Check("swappiness", None, told(facts["swappiness"]), "how soon memory goes to the disk in the cache's favour")
    reclaimed = facts["idle_pageout"]
    if reclaimed is not None:
        yield Check(
            "page cache", None, str(reclaimed), "warm starts are partly cold here", "compare the bytes they read"
        )


def machine_checks() -> Iterator[Check]:
    facts = machine()
    yield Check(
        "system", None, f"{told(facts['os'])}, Linux {facts['kernel']}, {facts['architecture']}",
        "kernels differ in what they read ahead, and in what they keep in the cache",
    )  # fmt: skip
    yield Check(
        "virtualisation", None, told(facts["virtualisation"]), "a neighbour on the same machine takes CPU and disk time"
    )
    if ec2.looks_like_ec2():
        found = ec2.instance()
        kind = ec2_instance_type(DMI) or found.type
        yield Check(
            "EC2 instance",
            None,
            ", ".join(filter(None, (kind, found.zone))) or "unknown: the metadata service did not answer",
            "each type has a limit on IOPS of its own, and small ones live on credits of CPU and disk",
            "" if kind else 'say which it is: --note "m5.large"; in a container the service may be a hop too far',
        )


def other_load() -> Iterator[Check]:
    pids = other_servers()
    yield Check(
        "other servers",
        None if pids else True,
        "pid " + ", ".join(map(str, pids)) if pids else "none",
        "they share disk, memory and CPU with what is measured",
        "stop them first",
    )
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    calm = load < _BUSY * cpus
    yield Check(
        "load",
        True if calm else None,
        f"{load:.2f} over the last minute",
        "what else runs takes CPU and disk from what is measured; each run tells how much it was",
        "see `top`, and end what need not run",
    )
