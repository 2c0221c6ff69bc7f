"""What have all CPUs of this host done together? One line of /proc/stat; None where there is none to read."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recovery.linux.storage import Device

# What machine is this: its CPU, its memory, what virtualises it, and is it one of Amazon's?

Fact = str | int | float | None

DMI = Path("/sys/class/dmi/id")
_MEMINFO = Path("/proc/meminfo")
_CPUINFO = Path("/proc/cpuinfo")
_CGROUP = Path("/sys/fs/cgroup")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SWAPPINESS = Path("/proc/sys/vm/swappiness")
_DAMON = Path("/sys/kernel/mm/damon/admin/kdamonds")
_EBS_MODEL = "Amazon Elastic Block Store"


def line(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def machine() -> dict[str, Fact]:
    swappiness = line(_SWAPPINESS)
    return {
        "cpu_model": _cpuinfo("model name") or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_governor": line(_GOVERNOR),
        "memory_bytes": memory_bytes(),
        "memory_available_bytes": _available_bytes(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "os": _os_name(),
        "virtualisation": _virtualisation(),
        "cgroup_version": cgroup_version(),
        "machine_vendor": line(DMI / "sys_vendor"),
        "machine_product": line(DMI / "product_name"),
        "thp": _bracketed(line(_THP)),
        "swappiness": int(swappiness) if swappiness else None,
        "idle_pageout": idle_pageout(),
    }


def idle_pageout(admin: Path = _DAMON) -> str | None:
    """Some virtual machines give memory back that was idle for a while, page cache included: there no cache stays warm.
    None where nothing like it is seen (or may be seen)."""
    for scheme in sorted(admin.glob("*/contexts/*/schemes/*")):
        monitor = scheme.parents[3]
        if line(monitor / "state") == "on" and line(scheme / "action") in ("pageout", "reclaim"):
            age = line(scheme / "access_pattern/age/min")
            aggregation_us = line(scheme.parents[1] / "monitoring_attrs/intervals/aggr_us")
            if age is None or aggregation_us is None:
                return "DAMON pages out idle memory"
            return f"DAMON pages out what is idle for {int(age) * int(aggregation_us) / 1e6:.0f} s"
    return None


def memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _available_bytes() -> int | None:
    """What could be had without swapping: the page cache counts, as far as it can be given up."""
    for text in (line(_MEMINFO) or "").splitlines():
        if text.startswith("MemAvailable:"):
            return int(text.split()[1]) * 1024
    return None


def ec2_instance_type(dmi: Path) -> str | None:
    """On Nitro the product name is the instance type; elsewhere it is something else, and None here."""
    return line(dmi / "product_name") if line(dmi / "sys_vendor") == "Amazon EC2" else None


def ebs_volume(device: Device) -> str | None:
    """The serial is the volume's id, without its dash."""
    serial = device.serial or ""
    if device.model != _EBS_MODEL or not serial.startswith("vol"):
        return None
    return "vol-" + serial.removeprefix("vol").removeprefix("-")


def _cpuinfo(name: str) -> str | None:
    for text in (line(_CPUINFO) or "").splitlines():
        key, _, value = text.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _os_name() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _virtualisation() -> str | None:
    """`kvm`, `docker in kvm`, `none`; from the CPU's flag alone just `a hypervisor`."""
    if shutil.which("systemd-detect-virt"):
        container, machine = (_detect(kind) for kind in ("--container", "--vm"))
        return f"{container} in {machine}" if container not in (None, "none") else machine
    return "a hypervisor" if "hypervisor" in (_cpuinfo("flags") or "").split() else None


def _detect(kind: str) -> str | None:
    try:  # it exits with 1 where it says "none"
        asked = subprocess.run(["systemd-detect-virt", kind], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() or None


def cgroup_version() -> int | None:
    if (_CGROUP / "cgroup.controllers").exists():
        return 2
    return 1 if (_CGROUP / "memory").exists() else None


def _bracketed(text: str | None) -> str | None:
    """`always [madvise] never` → `madvise`"""
    chosen = (text or "").partition("[")[2].partition("]")[0]
    return chosen or text


# Which CPUs are one core, and which cores may server and clients each have for themselves? Pure.

ENOUGH = 4
"""Cores. With fewer of them one side would be idle while the other has too much to do: of two, which a kernel may call
four CPUs, the clients would have half of the host; and half a core is none of one's own."""
_CLIENTS_SHARE = 4
"""One CPU in so many is for the clients: sysbench needs a quarter to a third of what its server does."""


@dataclass(frozen=True)
class Core:
    cpus: frozenset[int]
    """Of its threads those that may be used."""
    node: int = 0
    """Of the memory that is near."""


@dataclass(frozen=True)
class Split:
    server: frozenset[int]
    clients: frozenset[int]


def cores_of(may: Set[int], siblings: Mapping[int, Set[int]], nodes: Mapping[int, int]) -> tuple[Core, ...]:
    """Of the CPUs that may be used, by the CPUs that share a core with each. One of which nothing is known is a core,
    and lies with the first."""
    found: list[Core] = []
    seen: set[int] = set()
    for cpu in sorted(may):
        if cpu not in seen:
            own = frozenset(({cpu} | siblings.get(cpu, set())) & may) - seen
            seen |= own
            found.append(Core(own, nodes.get(cpu, 0)))
    return tuple(found)


def split(cores: Sequence[Core]) -> Split | None:
    """By whole cores, those of the clients in one node where one has as many: from its end. None where there are too
    few to be divided."""
    if len(cores) < ENOUGH:
        return None
    every = _cpus(cores)
    least = max(1, len(every) // _CLIENTS_SHARE)
    clients: frozenset[int] = frozenset()
    for core in reversed(_near(cores, least)):
        if len(clients) < least:
            clients |= core.cpus
    return Split(every - clients, clients)


def _near(cores: Sequence[Core], least: int) -> Sequence[Core]:
    """Those of the last node that has so many CPUs; where none has, all of them, node by node."""
    for node in sorted({core.node for core in cores}, reverse=True):
        inside = [core for core in cores if core.node == node]
        if len(_cpus(inside)) >= least:
            return inside
    return sorted(cores, key=lambda core: core.node)


def _cpus(cores: Sequence[Core]) -> frozenset[int]:
    return frozenset().union(*(core.cpus for core in cores))


def as_list(cpus: Set[int]) -> str:
    """`0-2,4-6`, as the kernel writes it."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def of_list(text: str) -> frozenset[int]:
    """Of what the kernel writes; ValueError where it is something else."""
    ends = [part.partition("-") for part in text.strip().split(",") if part.strip()]
    return frozenset(cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1))


# Which cores may this process use, and who puts another one on some of them?

_CPUS = Path("/sys/devices/system/cpu")
_SIBLINGS = ("core_cpus_list", "thread_siblings_list")
"""The same; the second is what kernels before 5.3 call it."""


def own_cpus() -> frozenset[int]:
    """That this process may use."""
    return frozenset(os.sched_getaffinity(0))


def own_cores() -> tuple[Core, ...]:
    return read_cores(own_cpus())


def read_cores(may: frozenset[int], cpus: Path = _CPUS) -> tuple[Core, ...]:
    """As the kernel tells them; where it does not, each CPU is one."""
    return cores_of(may, {cpu: _siblings(cpus / f"cpu{cpu}") for cpu in may}, _nodes(cpus, may))


def _siblings(cpu: Path) -> frozenset[int]:
    for name in _SIBLINGS:
        with suppress(OSError, ValueError):
            return of_list((cpu / "topology" / name).read_text(encoding="ascii"))
    return frozenset()


def _nodes(cpus: Path, may: frozenset[int]) -> dict[int, int]:
    found = {}
    for cpu in may:
        for folder in (cpus / f"cpu{cpu}").glob("node[0-9]*"):
            with suppress(ValueError):
                found[cpu] = int(folder.name.removeprefix("node"))
    return found


def pin(pid: int, cpus: frozenset[int]) -> str | None:
    """Every thread it has; those it makes later inherit it. None, or why that may not be: a process of another user,
    or CPUs that its control group does not have. What was pinned by then goes free again."""
    before = None
    for task in _tasks(pid):
        try:
            before = before or os.sched_getaffinity(task)
            os.sched_setaffinity(task, cpus)
        except ProcessLookupError:
            continue
        except OSError as error:
            if before is not None:
                _free(pid, before)
            return f"a process cannot be put on CPUs of its own ({error.strerror})"
    return None


def _free(pid: int, cpus: set[int]) -> None:
    for task in _tasks(pid):
        with suppress(OSError):
            os.sched_setaffinity(task, cpus)


def _tasks(pid: int) -> list[int]:
    try:
        return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []


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
