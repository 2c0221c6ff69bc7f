"""What have all CPUs of this host done together? One line of /proc/stat; None where there is none to read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cpus:
    """Since the host was booted, summed over all of them."""

    busy_s: float
    steal_s: float


def cpus(stat: Path = STAT) -> Cpus | None:
    try:
        with stat.open() as file:
            return _parsed(file.readline())
    except (OSError, ValueError, IndexError):
        return None


def _parsed(line: str) -> Cpus:
    """`cpu user nice system idle iowait irq softirq steal guest guest_nice`: time of guests is in user and nice too."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line.split()[1:9])
    return Cpus((user + nice + system + irq + softirq) / _TICKS_PER_S, steal / _TICKS_PER_S)
