"""Says whether something else than a server keeps the host busy."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import psutil

PRESSURE = Path("/proc/pressure")
_SOME = re.compile(r"^some avg10=([\d.]+)", re.MULTILINE)
_WATCHED_S = 1.0
_BUSY_PCT = 10.0
"""So much of the last ten seconds some process waited."""
_OTHERS_SHARE = 0.25
"""Of the CPUs, or of the bytes of the disks: other processes use at least so much of a busy host."""
_LEAST_BYTES = 4 << 20


def busy_host(pid: int | None) -> str:
    """Returns what keeps the host busy beside the server with this process id, in words; empty if nothing does. Its own
    load ends with it, and does not count. It watches the host for a second."""
    others = _others(pid)
    pressures = {kind: _pressure(kind) for kind in ("cpu", "io")}
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    is_loaded = load > cpus
    found = []
    if others["cpu"] >= _OTHERS_SHARE and (is_loaded or (pressures["cpu"] or 0) >= _BUSY_PCT):
        found.append(f"other processes use {100 * others['cpu']:.0f} % of its CPUs")
    if others["io"] >= _OTHERS_SHARE and (is_loaded if pressures["io"] is None else pressures["io"] >= _BUSY_PCT):
        found.append(f"{100 * others['io']:.0f} % of what its disks read and write is of other processes")
    if not found:
        return ""
    waits = [f"{name} pressure {value:.0f} %" for name, value in pressures.items() if value is not None]
    return ", ".join((*found, *waits, f"load {load:.1f} on {cpus} CPUs"))


def _pressure(kind: str) -> float | None:
    """Returns for how much of the last ten seconds some process waited, in percent; None without PSI."""
    with suppress(OSError, ValueError):
        found = _SOME.search((PRESSURE / kind).read_text())
        return None if found is None else float(found[1])
    return None


def _others(pid: int | None) -> dict[str, float]:
    """Returns which share of the CPUs, and of the bytes of the disks, other processes use."""
    before = _used(pid)
    time.sleep(_WATCHED_S)
    seconds, total_s, own_s, total_bytes, own_bytes = (
        after - first for first, after in zip(before, _used(pid), strict=True)
    )
    cpus = os.cpu_count() or 1
    is_reading = total_bytes >= _LEAST_BYTES * seconds
    return {
        "cpu": max(0.0, total_s - own_s) / (seconds * cpus),
        "io": max(0.0, total_bytes - own_bytes) / total_bytes if is_reading else 0.0,
    }


def _used(pid: int | None) -> tuple[float, float, float, float, float]:
    """Returns the time, CPU time of all and of the process, and bytes of all disks and of the process."""
    times, disks = psutil.cpu_times(), psutil.disk_io_counters()
    own_s = own_bytes = 0.0
    with suppress(psutil.Error, OSError):
        if pid is not None:
            process = psutil.Process(pid)
            own = process.cpu_times()
            own_s = own.user + own.system
            counters = process.io_counters()
            own_bytes = counters.read_bytes + counters.write_bytes
    all_s = times.user + times.nice + times.system + times.irq + times.softirq
    total = 0.0 if disks is None else float(disks.read_bytes + disks.write_bytes)
    return time.monotonic(), all_s, own_s, total, own_bytes
