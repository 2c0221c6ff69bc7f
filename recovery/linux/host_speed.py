"""Measures how fast this host is at the moment: small random reads of its storage, its CPU, and what others take of it.

Sessions differ mostly because their hosts do, and one host may differ from hour to hour. So this is measured before
each block of trials and stored with its runs."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path

from recovery.linux.procfs import host_cpu_time
from recovery.linux.read_benchmark import ProbeEffort, read_speeds

BLOCK_EFFORT = ProbeEffort(64 << 20, 0.3)
SHORT_BLOCK_EFFORT = ProbeEffort(4 << 20, 0.05)
_SHORT_BELOW_TABLES = 10_000
_LOOPS = 3
_NUMBERS = 20_000


def block_effort(tables: int) -> ProbeEffort:
    """Returns what the measurement before each block may cost, in a session with this many tables."""
    return SHORT_BLOCK_EFFORT if tables < _SHORT_BELOW_TABLES else BLOCK_EFFORT


def measure_host_speed(folder: Path, effort: ProbeEffort) -> dict[str, float]:
    """Returns metrics of the host by name. Those of the storage are missing if it cannot be measured."""
    before, began = host_cpu_time(), time.monotonic()
    found: dict[str, float] = {"host_cpu_loop_s": _loop_s()}
    reads = read_speeds(folder, effort, "4k")
    if reads:
        found |= {"host_reads_per_s": reads["4k_1"].iops, "host_reads_16_per_s": reads["4k_16"].iops}
    after, seconds = host_cpu_time(), time.monotonic() - began
    if before is not None and after is not None:
        found["host_steal_share"] = (after.steal_s - before.steal_s) / seconds / (os.cpu_count() or 1)
    return found


def _loop_s() -> float:
    """Returns the shortest time that one CPU takes to compress a fixed text."""
    text = " ".join(str(number * number) for number in range(_NUMBERS)).encode()
    taken: list[float] = []
    for _ in range(_LOOPS):
        began = time.perf_counter()
        zlib.compress(text)
        taken.append(time.perf_counter() - began)
    return min(taken)
