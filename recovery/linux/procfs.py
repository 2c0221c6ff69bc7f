"""Reads facts about the machine, its CPUs and single processes from /proc and /sys, marks what a process creates, and
pins processes to CPUs.

A value that is not available is None."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# --- The machine

Fact = str | int | float | None

DMI = Path("/sys/class/dmi/id")
_MEMINFO = Path("/proc/meminfo")
_CPUINFO = Path("/proc/cpuinfo")
_CGROUP = Path("/sys/fs/cgroup")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SWAPPINESS = Path("/proc/sys/vm/swappiness")
_BALLOON = Path("/sys/bus/virtio/drivers/virtio_balloon")
_REPORTING_BIT = 5
_DAMON = Path("/sys/kernel/mm/damon/admin/kdamonds")


def read_text(path: Path) -> str | None:
    """Returns the text of a small file, or None if it is empty or cannot be read."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    text = read_text(path)
    return int(text) if text is not None and text.isdigit() else None


def machine_facts() -> dict[str, Fact]:
    return {
        "cpu_model": _cpuinfo("model name") or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_governor": read_text(_GOVERNOR),
        "memory_bytes": memory_bytes(),
        "memory_available_bytes": _meminfo().get("MemAvailable"),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "os": _os_name(),
        "virtualisation": _virtualisation(),
        "cgroup_version": cgroup_version(),
        "machine_vendor": read_text(DMI / "sys_vendor"),
        "machine_product": read_text(DMI / "product_name"),
        "thp": selected_value(read_text(_THP)),
        "swappiness": read_number(_SWAPPINESS),
        "idle_pageout": idle_pageout(),
        "free_page_reporting": free_page_reporting(),
    }


def free_page_reporting(driver: Path = _BALLOON) -> str | None:
    """Returns whether this virtual machine gives free memory back to its host, as `yes` or `no`, or None if it has no
    balloon. The host then provides each page anew when it is used again, so a cold start that fills the page cache
    takes more CPU time."""
    features = [read_text(device / "features") or "" for device in driver.glob("virtio*")]
    if not features:
        return None
    return "yes" if any(bits[_REPORTING_BIT : _REPORTING_BIT + 1] == "1" for bits in features) else "no"


def idle_pageout(admin: Path = _DAMON) -> str | None:
    """Returns a description of the DAMON scheme that pages out idle memory, or None if there is none or it is not
    visible.

    Some virtual machines give back memory that was idle for a while, including the page cache: on these no cache stays
    warm."""
    for scheme in sorted(admin.glob("*/contexts/*/schemes/*")):
        monitor = scheme.parents[3]
        if read_text(monitor / "state") == "on" and read_text(scheme / "action") in ("pageout", "reclaim"):
            age = read_number(scheme / "access_pattern/age/min")
            aggregation_us = read_number(scheme.parents[1] / "monitoring_attrs/intervals/aggr_us")
            if age is None or aggregation_us is None:
                return "DAMON pages out idle memory"
            return f"DAMON pages out what is idle for {age * aggregation_us / 1e6:.0f} s"
    return None


def memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cached_bytes() -> int | None:
    """Returns the size of the host's page cache without shared memory and tmpfs, which the kernel includes in its
    count."""
    sizes = _meminfo()
    if "Cached" not in sizes:
        return None
    return sizes["Cached"] + sizes.get("Buffers", 0) - sizes.get("Shmem", 0)


def _meminfo() -> dict[str, int]:
    """Returns the sizes in /proc/meminfo in bytes. Available memory includes the reclaimable part of the page cache."""
    lines = (line.partition(":") for line in (read_text(_MEMINFO) or "").splitlines())
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in lines}


def _cpuinfo(name: str) -> str | None:
    for text in (read_text(_CPUINFO) or "").splitlines():
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
    """Returns `kvm`, `docker in kvm`, `none`, or just `a hypervisor` if only the CPU's flag is known."""
    if shutil.which("systemd-detect-virt"):
        container, machine = (_detect(kind) for kind in ("--container", "--vm"))
        return f"{container} in {machine}" if container not in (None, "none") else machine
    return "a hypervisor" if "hypervisor" in (_cpuinfo("flags") or "").split() else None


def _detect(kind: str) -> str | None:
    try:  # its exit code is 1 when it prints "none"
        ran = subprocess.run(["systemd-detect-virt", kind], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.strip() or None


def cgroup_version() -> int | None:
    if (_CGROUP / "cgroup.controllers").exists():
        return 2
    return 1 if (_CGROUP / "memory").exists() else None


def selected_value(text: str | None) -> str | None:
    """Returns the selected one of several values: `always [madvise] never` → `madvise`"""
    chosen = (text or "").partition("[")[2].partition("]")[0]
    return chosen or text


# --- Processes

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _STARTTIME = 11, 12, 19
"""Indexes in /proc/PID/stat, counted after the process name. The name itself may contain blanks and parentheses."""


def _stat_fields(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat after the process name, or an empty list if there is no such process."""
    return (read_text(Path(f"/proc/{pid}/stat")) or "").rpartition(")")[2].split()


@dataclass(frozen=True)
class ProcessStat:
    state: str
    """A letter: `R`, `S`, `D` (waits for storage), `T` (stopped by a signal), `Z` (ended)."""
    cpu_ticks: int


def process_stat(pid: int) -> ProcessStat | None:
    """Returns the state of a process, or None once it has ended."""
    fields = _stat_fields(pid)
    if not fields or fields[0] == "Z":
        return None
    return ProcessStat(fields[0], int(fields[_UTIME]) + int(fields[_STIME]))


def is_running(pid: int) -> bool:
    """Returns whether there is such a process that has not ended."""
    return process_stat(pid) is not None


def is_stopped(pid: int) -> bool:
    """Returns whether the process is stopped, by Ctrl-Z or by another stop signal."""
    return _stat_fields(pid)[:1] in (["T"], ["t"])


def process_cpu_ticks(pid: int) -> int | None:
    """Returns the CPU time of the process since it was created, in units of 1 / TICKS_PER_S."""
    fields = _stat_fields(pid)
    return int(fields[_UTIME]) + int(fields[_STIME]) if fields else None


def process_kernel_ticks(pid: int) -> int | None:
    """Returns the part of the CPU time that the kernel used for the process, in the same units."""
    fields = _stat_fields(pid)
    return int(fields[_STIME]) if fields else None


def process_cpu_s(pid: int) -> float | None:
    ticks = process_cpu_ticks(pid)
    return None if ticks is None else ticks / TICKS_PER_S


def process_io_bytes(pid: int) -> tuple[int, int] | None:
    """Returns the bytes that storage has read for the process, and the bytes that the process has caused to be written,
    since it was created."""
    io = process_io(pid)
    return None if io is None else (io["read_bytes"], io["write_bytes"])


def process_resident_bytes(pid: int) -> int | None:
    pages = (read_text(Path(f"/proc/{pid}/statm")) or "").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if pages else None


def process_peak_memory_bytes(pid: int) -> int | None:
    """Returns the largest resident memory that the process has had since its exec."""
    match = re.search(r"^VmHWM:\s*(\d+) kB$", read_text(Path(f"/proc/{pid}/status")) or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def processes_named(names: Set[str]) -> list[int]:
    """Returns the ids of the processes with one of these names, as far as this user may see them."""
    folders = (folder for folder in Path("/proc").iterdir() if folder.name.isdigit())
    return sorted(int(folder.name) for folder in folders if read_text(folder / "comm") in names)


def has_open(pid: int, file: os.stat_result) -> bool | None:
    """Returns whether the process has this file open, or None if this user may not see that."""
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if os.path.samestat(descriptor.stat(), file):
                    return True
    except FileNotFoundError:
        return False  # the process has ended
    except OSError:
        return None
    return False


def process_owner(pid: int) -> int | None:
    """Returns the user id of the process, or None if there is no such process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return None


def process_age_s(pid: int) -> float | None:
    """Returns the seconds since the process was created, or None if there is no such process."""
    ticks, uptime = _start_ticks(pid), read_text(Path("/proc/uptime"))
    return None if ticks is None or uptime is None else max(0.0, float(uptime.split()[0]) - int(ticks) / TICKS_PER_S)


def ids_in_namespaces(pid: int) -> tuple[int, ...]:
    """Returns the ids of the process, from this namespace to that of its innermost container."""
    match = re.search(r"^NSpid:\s*([\d\s]+)$", read_text(Path(f"/proc/{pid}/status")) or "", re.MULTILINE)
    return tuple(map(int, match[1].split())) if match else (pid,)


@dataclass(frozen=True)
class ProcessActivity:
    """CPU time and I/O of a process so far."""

    cpu_s: float
    io: tuple[int, ...] | None
    """Bytes and calls; None if the process belongs to another user."""


def process_activity(pid: int) -> ProcessActivity | None:
    """Returns what the process has computed, read and written so far, or None once it has ended."""
    cpu_s, io = process_cpu_s(pid), process_io(pid)
    return None if cpu_s is None else ProcessActivity(cpu_s, None if io is None else tuple(io.values()))


def process_io(pid: int) -> dict[str, int] | None:
    """Returns the counters of /proc/PID/io, or None if the process has ended or belongs to another user."""
    text = read_text(Path(f"/proc/{pid}/io"))
    if text is None:
        return None
    return {name: int(value) for name, _, value in (line.partition(":") for line in text.splitlines())}


def peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# --- Process marks
#
# A mark identifies the process that created something, and shows whether that process has ended. A process id alone is
# not enough, since the kernel reuses it.

_PROCESS_PREFIX = "mysql-recovery-"
_NAME = re.compile(rf"{_PROCESS_PREFIX}(.+)-\d+")
_NUMBER = re.compile(r"[0-9]{1,10}")


def process_id() -> str:
    """Returns the mark of this process: boot id, pid namespace, pid and start time, separated by dots."""
    return f"{boot_id()}.{_namespace()}.{os.getpid()}.{_start_ticks(os.getpid())}"


def is_owner_gone(made_by: str) -> bool:
    """Returns whether the process with this mark has ended. Returns False if that cannot be determined from here: what
    a process in another pid namespace created is for that namespace to remove."""
    boot, _, rest = made_by.partition(".")
    namespace, _, rest = rest.partition(".")
    pid, _, began = rest.partition(".")
    if not _NUMBER.fullmatch(pid):
        return False
    if boot != boot_id():
        return True
    return namespace == _namespace() and _start_ticks(int(pid)) != began


def name_with_process_id(number: int) -> str:
    """Returns a name that contains the mark of this process, for things that have only a name and no labels."""
    return f"{_PROCESS_PREFIX}{process_id()}-{number}"


def is_orphan(name: str) -> bool:
    """Returns whether the name was made by name_with_process_id in a process that has ended. Returns False for all
    other names."""
    match = _NAME.fullmatch(name)
    return match is not None and is_owner_gone(match[1])


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _start_ticks(pid: int) -> str | None:
    """Returns the start time of the process in clock ticks since boot, or None if there is no such process or only a
    zombie."""
    fields = _stat_fields(pid)
    return None if not fields or fields[0] == "Z" else fields[_STARTTIME]


# --- Cores for server and clients
#
# These functions are pure: they divide the CPUs so that server and clients each get whole cores.

MIN_CORES = 4
"""Minimum number of cores. With fewer, one side would be idle while the other is overloaded. Of two cores, which a
kernel may show as four CPUs, the clients would get half of the host, and half a core is shared with the other side."""
_CLIENTS_SHARE = 4
"""One in this many CPUs is for the clients: sysbench needs a quarter to a third of what its server uses."""


@dataclass(frozen=True)
class Core:
    cpus: frozenset[int]
    """Those of its hardware threads that may be used."""
    node: int = 0
    """Its NUMA node."""


@dataclass(frozen=True)
class CoreSplit:
    server: frozenset[int]
    clients: frozenset[int]


def group_into_cores(may: Set[int], siblings: Mapping[int, Set[int]], nodes: Mapping[int, int]) -> tuple[Core, ...]:
    """Returns the cores that the usable CPUs belong to. `siblings` gives for each CPU the CPUs on the same core,
    `nodes` its NUMA node. A CPU without that information counts as a separate core on node 0."""
    cores: list[Core] = []
    assigned: set[int] = set()
    for cpu in sorted(may):
        if cpu not in assigned:
            own = frozenset(({cpu} | siblings.get(cpu, set())) & may) - assigned
            assigned |= own
            cores.append(Core(own, nodes.get(cpu, 0)))
    return tuple(cores)


def split_cores(cores: Sequence[Core]) -> CoreSplit | None:
    """Divides whole cores between server and clients, or returns None if there are too few cores. The clients get cores
    of a single node, if one has enough of them, starting from its end."""
    if len(cores) < MIN_CORES:
        return None
    every = _all_cpus(cores)
    minimum = max(1, len(every) // _CLIENTS_SHARE)
    clients: frozenset[int] = frozenset()
    for core in reversed(_cores_on_one_node(cores, minimum)):
        if len(clients) < minimum:
            clients |= core.cpus
    return CoreSplit(every - clients, clients)


def _cores_on_one_node(cores: Sequence[Core], minimum: int) -> Sequence[Core]:
    """Returns the cores of the last node that has at least this many CPUs, or all cores, sorted by node, if no node
    has."""
    for node in sorted({core.node for core in cores}, reverse=True):
        inside = [core for core in cores if core.node == node]
        if len(_all_cpus(inside)) >= minimum:
            return inside
    return sorted(cores, key=lambda core: core.node)


def _all_cpus(cores: Sequence[Core]) -> frozenset[int]:
    return frozenset().union(*(core.cpus for core in cores))


def format_cpu_list(cpus: Set[int]) -> str:
    """Returns the CPUs in the kernel's notation: `0-2,4-6`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def parse_cpu_list(text: str) -> frozenset[int]:
    """Returns the CPUs from the kernel's notation. Raises ValueError if it is invalid."""
    ends = [part.partition("-") for part in text.strip().split(",") if part.strip()]
    return frozenset(cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1))


# --- Cores of this host, and pinning

_CPUS = Path("/sys/devices/system/cpu")
_SIBLINGS = ("core_cpus_list", "thread_siblings_list")
"""Two names of the same file; the second is that of kernels before 5.3."""


def own_cpus() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0))


def own_cores() -> tuple[Core, ...]:
    return read_cores(own_cpus())


def read_cores(may: frozenset[int], cpus: Path = _CPUS) -> tuple[Core, ...]:
    """Returns the cores that the kernel reports for these CPUs. Where it reports nothing, each CPU counts as a core."""
    return group_into_cores(may, {cpu: _siblings(cpus / f"cpu{cpu}") for cpu in may}, _nodes(cpus, may))


def _siblings(cpu: Path) -> frozenset[int]:
    for name in _SIBLINGS:
        with suppress(OSError, ValueError):
            return parse_cpu_list((cpu / "topology" / name).read_text(encoding="ascii"))
    return frozenset()


def _nodes(cpus: Path, may: frozenset[int]) -> dict[int, int]:
    nodes = {}
    for cpu in may:
        for folder in (cpus / f"cpu{cpu}").glob("node[0-9]*"):
            with suppress(ValueError):
                nodes[cpu] = int(folder.name.removeprefix("node"))
    return nodes


def reserved_cpus(cpu_set: str | None) -> CoreSplit | None:
    """Returns the CPUs of a loaded server and those of its clients, or None if they share all.

    A server that the user gave a set of CPUs leaves the others to the clients."""
    if cpu_set is None:
        return split_cores(own_cores())
    server = parse_cpu_list(cpu_set)
    others = own_cpus() - server
    return CoreSplit(server, others) if others else None


def pin_process(pid: int, cpus: frozenset[int]) -> str | None:
    """Pins every thread of the process to these CPUs; threads that it creates later inherit the setting.

    It returns None, or the reason why it failed: the process belongs to another user, or its control group does not
    have these CPUs. Threads that were already pinned are then reset."""
    before: set[int] = set()
    for task in _tasks(pid):
        try:
            before = before or os.sched_getaffinity(task)
            os.sched_setaffinity(task, cpus)
        except ProcessLookupError:
            continue
        except OSError as error:
            for changed in _tasks(pid) if before else ():
                with suppress(OSError):
                    os.sched_setaffinity(changed, before)
            return f"a process cannot be pinned to CPUs ({error.strerror})"
    return None


def _tasks(pid: int) -> list[int]:
    try:
        return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []


# --- CPU time of the host

STAT = Path("/proc/stat")


@dataclass(frozen=True)
class HostCpuTime:
    """CPU time since boot, summed over all CPUs of the host."""

    busy_s: float
    steal_s: float


def host_cpu_time(stat: Path = STAT) -> HostCpuTime | None:
    try:
        with stat.open() as file:
            # `cpu user nice system idle iowait irq softirq steal guest guest_nice`: the time of guests is already
            # included in user and nice.
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return HostCpuTime((user + nice + system + irq + softirq) / TICKS_PER_S, steal / TICKS_PER_S)
