"""Sets resource limits on servers by control groups (version 1, 2, or both at once), and reads what a group, a process
and its storage have used."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import procfs
from recovery.linux.privileges import REFUSED_TEXT, RootStep, is_refused
from recovery.linux.procfs import name_with_process_id
from recovery.linux.storage import MOUNTS, Device, device_of, read_device_counters, read_mounts
from recovery.model import CPU_SET, Limits, Run, are_own_reads

# --- Hierarchies and groups

_V1 = frozenset({"blkio", "memory", "cpu"})


@dataclass(frozen=True)
class Hierarchy:
    version: int
    root: Path
    """The mount point. Groups are made directly below it: version 2 allows controllers only where no group above
    contains a process."""
    controllers: frozenset[str]


def hierarchies(mounts: Path = MOUNTS) -> tuple[Hierarchy, ...]:
    """Returns every mounted hierarchy once, version 1 first, also those without a controller that this tool uses."""
    by_root: dict[Path, Hierarchy] = {}
    for mount in read_mounts(mounts):
        root = Path(mount.point)
        if mount.filesystem == "cgroup2":
            by_root[root] = Hierarchy(2, root, frozenset(_words(root / "cgroup.controllers")))
        elif mount.filesystem == "cgroup":
            by_root[root] = Hierarchy(1, root, _V1 & set(mount.options.split(",")))
    return tuple(sorted(by_root.values(), key=lambda hierarchy: hierarchy.version))


def _words(path: Path) -> list[str]:
    return (procfs.read_text(path) or "").split()


def groups_of(
    process: int | str, *controllers: str, mounts: Path = MOUNTS, proc: Path = Path("/proc")
) -> tuple[Path, ...]:
    """Returns the process's group for a controller, which may have a name in each version of control groups, and the
    groups above it up to the hierarchy's root, as far as they are visible from here. Each may limit the process."""
    lines = (procfs.read_text(proc / str(process) / "cgroup") or "").splitlines()
    paths = {name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")}
    for hierarchy in hierarchies(mounts):
        for controller in hierarchy.controllers.intersection(controllers):
            path = paths.get(controller if hierarchy.version == 1 else "")
            if path is None:
                continue
            own = hierarchy.root / path.lstrip("/")
            # In a container the path is that on the host, while the hierarchy may be mounted from the container's own
            # group.
            own = own if ".." not in own.parts and own.is_dir() else hierarchy.root
            return (own, *(above for above in own.parents if above.is_relative_to(hierarchy.root)))
    return ()


def enable(hierarchy: Hierarchy, controller: str) -> None:
    """Enables the controller for groups below the root, which only version 2 requires. It stays enabled afterwards:
    other programs may have started to use it, and would lose their limits silently."""
    control = hierarchy.root / "cgroup.subtree_control"
    if hierarchy.version == 2 and controller not in _words(control):
        control.write_text(f"+{controller}")


def processes_in(folder: Path) -> tuple[int, ...]:
    """Returns the ids of the processes in the group and in all groups below it."""
    pids: set[int] = set()
    for procs in (folder / "cgroup.procs", *folder.rglob("cgroup.procs")):
        pids.update(int(pid) for pid in _words(procs))
    return tuple(sorted(pids - {0}))


def remove_group(folder: Path) -> bool:
    """Removes the group and all groups below it, as far as they are empty. Returns False if something is left."""
    try:
        for below in [entry for entry in folder.iterdir() if entry.is_dir()]:
            remove_group(below)
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def read_requests(folder: Path, disk: str) -> int | None:
    """Returns the number of reads that the group has issued to this disk, or None if that is not counted.

    Other disks are excluded, because every read of a loop device is counted again on the disk below. A group that has
    read nothing yet has no line in the file."""
    for lines in _lines(folder, "blkio.throttle.io_serviced_recursive", "blkio.throttle.io_serviced"):
        return sum(int(line[2]) for line in lines if line[:2] == [disk, "Read"])
    for lines in _lines(folder, "io.stat"):
        words = (word for line in lines if line[0] == disk for word in line)
        return sum(int(word.removeprefix("rios=")) for word in words if word.startswith("rios="))
    return None


def read_group_memory(folder: Path) -> int | None:
    for lines in _lines(folder, "memory.current", "memory.usage_in_bytes"):
        return int(lines[0][0])
    return None


def throttled_s(folder: Path) -> float | None:
    """Returns the seconds for which the group's processes were throttled, summed over its CPUs, or None if that is not
    counted."""
    for lines in _lines(folder, "cpu.stat"):
        values = {line[0]: int(line[1]) for line in lines if len(line) == 2}
        if "throttled_time" in values:
            return values["throttled_time"] / 1e9
        if "throttled_usec" in values:
            return values["throttled_usec"] / 1e6
    return None


def cpu_quota(folder: Path) -> float | None:
    """Returns the number of CPUs that the group may use, or None if it has no limit."""
    for lines in _lines(folder, "cpu.max"):
        quota, period = lines[0]
        return None if quota == "max" else int(quota) / int(period)
    for quota_lines in _lines(folder, "cpu.cfs_quota_us"):
        for period_lines in _lines(folder, "cpu.cfs_period_us"):
            us = int(quota_lines[0][0])
            return us / int(period_lines[0][0]) if us > 0 else None
    return None


def iops_limit(folder: Path, disk: str, kind: str = "read") -> int | None:
    """Returns the reads (or with `write` the writes) a second of this disk that the group may issue, or None if it has
    no limit."""
    for lines in _lines(folder, f"blkio.throttle.{kind}_iops_device"):
        return next((int(line[1]) for line in lines if line[0] == disk), None)
    key = f"{kind[0]}iops="
    for lines in _lines(folder, "io.max"):
        words = (word for line in lines if line[0] == disk for word in line)
        limit = next((word.removeprefix(key) for word in words if word.startswith(key)), "max")
        return None if limit == "max" else int(limit)
    return None


def read_oom_kills(folder: Path) -> int | None:
    for lines in _lines(folder, "memory.events", "memory.oom_control"):
        return next((int(line[1]) for line in lines if line[0] == "oom_kill"), None)
    return None


def _lines(folder: Path, *names: str) -> Iterator[list[list[str]]]:
    """Yields, for each of the files that exists, the words of its lines."""
    for name in names:
        try:
            yield [line.split() for line in (folder / name).read_text().splitlines() if line.strip()]
        except OSError:
            continue


# --- Limits as text

_SIZE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?(?:e\d{1,2})?)([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MAX_IOPS = 10_000_000
_MIN_BPS = 64 << 10
MIN_MEMORY_BYTES = 128 << 20
"""The smallest supported server needs about 100 MB before it has opened a table."""
_MIN_CPUS = 0.05
_PAGE = 4096

OVERRUN_FACTOR = 1.1
"""Factor above which a limit counts as exceeded: more than a tenth above it."""
READ_SLICE_S = 0.2
"""Added to the duration. The kernel grants reads in slices of a tenth of a second, and the first ones at once."""


def parse_read_iops(text: str) -> int:
    number = int(text.replace("_", "")) if re.fullmatch(r"[0-9_]{0,30}[0-9]", text) else 0
    if not 1 <= number <= _MAX_IOPS:
        raise UsageError(f"{text} is not valid", f"give the reads per second, from 1 to {_MAX_IOPS:,}")
    return number


def parse_read_bps(text: str) -> int:
    return parse_size(text, minimum=_MIN_BPS, example="100m")


def parse_size(text: str, *, minimum: int, example: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    number = int(float(match[1]) * _UNITS[match[2].lower()]) if match else 0
    if not minimum <= number < 1 << 60:
        raise UsageError(
            f"{text} is not valid",
            f"give bytes, at least {format_bytes(minimum)}, with k, m or g, such as {example}",
        )
    return number


def parse_memory(text: str) -> int:
    number = parse_size(text, minimum=1, example="2g")
    if number < MIN_MEMORY_BYTES:
        raise UsageError(
            f"{text} is too little for any server",
            f"give at least {format_bytes(MIN_MEMORY_BYTES)}, and more for a large buffer pool or many tables",
        )
    return number - number % _PAGE  # the kernel counts whole pages


def parse_cpus(text: str) -> float:
    number = float(text) if re.fullmatch(r"\d+(\.\d+)?|\.\d+", text, re.ASCII) else 0.0
    if not _MIN_CPUS <= number <= 1e6:
        raise UsageError(f"{text} is not valid", f"give a number of CPUs, at least {_MIN_CPUS}, such as 1.5")
    return number


def parse_cpu_set(text: str) -> str:
    """Returns the list of CPUs as the kernel writes it: `0-3,8`."""
    cpus = procfs.parse_cpu_list(text) if CPU_SET.fullmatch(text.strip()) else frozenset()
    if not cpus:
        raise UsageError(f"{text} is not valid", "give the numbers of CPUs, such as 0-63 or 0-3,8")
    return procfs.format_cpu_list(cpus)


def usable_cpus(limits: Limits, there: int) -> float:
    """Returns how many of so many CPUs a server with these limits can use."""
    in_set = there if limits.cpu_set is None else len(procfs.parse_cpu_list(limits.cpu_set))
    return min(there, in_set, limits.cpus or there)


def format_bytes(count: int) -> str:
    """Returns the number as a user would write it: 2147483648 is `2g`."""
    unit = next(unit for unit in reversed(_UNITS) if count % _UNITS[unit] == 0)
    return f"{count // _UNITS[unit]}{unit}"


def limits_text(limits: Limits) -> str:
    """Returns the limits as text, such as `5,000 reads a second, 2 GiB of memory with its page cache`. The text is
    empty if there is no limit."""
    texts = []
    if limits.read_iops is not None:
        texts.append(f"{limits.read_iops:,} reads a second")
    if limits.read_bps is not None:
        texts.append(f"{_binary(limits.read_bps)} read a second")
    if limits.memory_bytes is not None:
        texts.append(f"{_binary(limits.memory_bytes)} of memory with its page cache")
    if limits.cpus is not None:
        texts.append(f"{limits.cpus:g} CPU{'' if limits.cpus == 1 else 's'}")
    if limits.cpu_set is not None:
        texts.append(f"CPU {limits.cpu_set}")
    return ", ".join(texts)


def _binary(count: int) -> str:
    unit = next((unit for unit in reversed(_UNITS) if count >= _UNITS[unit]), "")  # a stored session may have 0
    return f"{count / _UNITS[unit]:.4g} {unit.upper()}{'i' if unit else ''}B"


def limit_exceeded(
    limits: Limits, *, read_requests: float | None, read_bytes: float | None, seconds: float
) -> str | None:
    """Returns why this start exceeded its limits, or None if it did not, as far as reads were counted."""
    for limit, count, what in (
        (limits.read_iops, read_requests, "reads"),
        (limits.read_bps, read_bytes, "bytes read"),
    ):
        if limit is not None and count is not None and count > OVERRUN_FACTOR * limit * (seconds + READ_SLICE_S):
            return f"{count / (seconds or READ_SLICE_S):,.0f} {what} a second, although the limit was {limit:,}"
    return None


def run_exceeded(limits: Limits, run: Run) -> str | None:
    """Returns why this run exceeded its limits, by what was stored of it; None if it did not."""
    if run.reason is not None and _REMOVED in run.reason:
        return run.reason
    requests, read, seconds = map(run.metrics.get, ("read_requests", "read_bytes", "first_query_s"))
    if seconds is None:
        seconds = run.host_activity.seconds if run.host_activity else 0.0
    return limit_exceeded(limits, read_requests=requests, read_bytes=read, seconds=seconds)


_REMOVED = "was removed during the run"


# --- Settings for the kernel
#
# This part determines which limits the host can set for a server on this folder, and what is written to which file.

_PERIOD_US = 100_000
_READ_BY_OTHERS = frozenset({"fuseblk", "zfs", "btrfs", "bcachefs"})
"""Filesystems for which another process issues the reads, or that read from devices which the folder does not
reveal."""
_LEAVE_OUT = "or leave it out"


@dataclass(frozen=True)
class Setting:
    """A value for one file of a control group."""

    file: str
    text: str
    vital: bool = True
    """False: the setting is skipped where the kernel does not have the file."""


@dataclass(frozen=True)
class ControllerSettings:
    option: str
    """The user's option, for error messages: `read_iops`."""
    hierarchy: Hierarchy
    controller: str
    settings: tuple[Setting, ...]
    disk: str | None = None
    """The disk for which reads are limited and counted."""


def controller_settings(limits: Limits, data: Path, *, mounts: Path = MOUNTS) -> tuple[ControllerSettings, ...]:
    """Returns the settings for these limits. Raises HostUnfitError if this host cannot set one of them: a run that
    ignores a limit would not measure what was requested."""
    available, settings = hierarchies(mounts), []
    reads = [name for name, value in (("read_iops", limits.read_iops), ("read_bps", limits.read_bps)) if value]
    if reads:
        settings.append(_read_settings(limits, reads[0], _disk(reads[0], data), available))
    if limits.memory_bytes is not None:
        settings.append(_memory_settings(limits.memory_bytes, available))
    if limits.cpus is not None:
        settings.append(_cpu_settings(limits.cpus, available))
    if limits.cpu_set is not None:
        _check_cpu_set(limits.cpu_set)
    return tuple(settings)


def _settings_for(
    option: str, available: Sequence[Hierarchy], *versions: tuple[str, Sequence[Setting]], disk: str | None = None
) -> ControllerSettings:
    """Returns the settings for the first hierarchy that has the controller. `versions` are the controller's name and
    the settings in version 1, and those in version 2."""
    if is_refused(RootStep.CGROUPS):
        raise HostUnfitError(
            f"it cannot be set: it needs a control group, {REFUSED_TEXT}",
            "leave out the limit or --unprivileged",
            option=option,
        )
    for hierarchy in available:
        controller, settings = versions[hierarchy.version - 1]
        if controller in hierarchy.controllers:
            break
    else:
        raise HostUnfitError(
            f"it cannot be set: this host has no control group hierarchy with '{versions[1][0]}'",
            f"run it on a host with cgroup v1 or v2, not in an unprivileged container, {_LEAVE_OUT}",
            option=option,
        )
    if not os.access(hierarchy.root, os.W_OK):
        raise HostUnfitError(
            f"it cannot be set: this user may not create a control group in {hierarchy.root}",
            f"{'run it on the host, not in a container' if os.geteuid() == 0 else 'run as root'}, {_LEAVE_OUT}",
            option=option,
        )
    return ControllerSettings(option, hierarchy, controller, tuple(settings), disk)


def _read_settings(limits: Limits, option: str, disk: str, available: Sequence[Hierarchy]) -> ControllerSettings:
    old, new = [], []
    if limits.read_iops:
        old.append(Setting("blkio.throttle.read_iops_device", f"{disk} {limits.read_iops}"))
        new.append(Setting("io.max", f"{disk} riops={limits.read_iops}"))
    if limits.read_bps:
        old.append(Setting("blkio.throttle.read_bps_device", f"{disk} {limits.read_bps}"))
        new.append(Setting("io.max", f"{disk} rbps={limits.read_bps}"))
    return _settings_for(option, available, ("blkio", old), ("io", new), disk=disk)


def _memory_settings(limit: int, available: Sequence[Hierarchy]) -> ControllerSettings:
    """Returns the memory limit. The group gets no swap: data that does not fit must not be measured as slow memory."""
    there = procfs.memory_bytes()
    if limit > there:
        raise HostUnfitError(
            f"{format_bytes(limit)} is more than this host has ({there / (1 << 30):.1f} GiB)",
            f"give less, {_LEAVE_OUT}",
            option="memory",
        )
    old = (
        Setting("memory.use_hierarchy", "1", vital=False),
        Setting("memory.limit_in_bytes", str(limit)),
        Setting("memory.memsw.limit_in_bytes", str(limit), vital=False),
    )
    new = (Setting("memory.max", str(limit)), Setting("memory.swap.max", "0", vital=False))
    return _settings_for("memory", available, ("memory", old), ("memory", new))


def _cpu_settings(cpus: float, available: Sequence[Hierarchy]) -> ControllerSettings:
    there = os.cpu_count() or 1
    if cpus > there:
        raise HostUnfitError(
            f"{cpus:g} is more than this host has ({there})", f"give less, {_LEAVE_OUT}", option="cpus"
        )
    quota = round(cpus * _PERIOD_US)
    old = (Setting("cpu.cfs_period_us", str(_PERIOD_US)), Setting("cpu.cfs_quota_us", str(quota)))
    return _settings_for("cpus", available, ("cpu", old), ("cpu", (Setting("cpu.max", f"{quota} {_PERIOD_US}"),)))


def _check_cpu_set(cpu_set: str) -> None:
    """A process is pinned to these CPUs, without a control group."""
    there = procfs.own_cpus()
    if not procfs.parse_cpu_list(cpu_set) <= there:
        raise HostUnfitError(
            f"{cpu_set} has CPUs that cannot be used here: there are {procfs.format_cpu_list(there)}",
            f"give some of these, {_LEAVE_OUT}",
            option="cpu_set",
        )


def _disk(option: str, data: Path) -> str:
    """Returns the device number of the whole disk, since the kernel accepts no limit for a partition."""
    device = device_of(data)
    why = _not_limitable(device)
    if why is None and device.disk is not None:
        return device.disk
    raise HostUnfitError(
        f"it cannot be set on {data}: {why}",
        f"name a folder on a plain disk with ext4 or XFS in --data, {_LEAVE_OUT}",
        option=option,
    )


def _not_limitable(device: Device) -> str | None:
    if device.disk is None:
        return f"its filesystem ({device.filesystem or 'unknown'}) is not on a single block device"
    if device.filesystem in _READ_BY_OTHERS:
        return f"{device.filesystem} reads in other processes or from several devices"
    if device.stacked:
        return f"{device.device} is built from other devices, to which the limit may not apply"
    return None


# --- The session's group
#
# A session has one control group, which is created with its limits set.

_TIMEOUT_S = 5.0
_POLL_S = 0.02
_numbers = itertools.count(1)


@dataclass(frozen=True)
class GroupUsage:
    """What the group has used; None is a value that its controllers do not count or that cannot be read."""

    read_requests: int | None = None
    """Reads since the group was created, before adjacent ones are merged, which is how the limit counts them."""
    memory_bytes: int | None = None
    """Current memory use, page cache included."""
    oom_kills: int | None = None
    """Number of the group's processes that the kernel has killed for lack of memory."""


class LimitGroup:
    """The control group of a session, and the CPUs of its servers.

    Every server process of the session is put into it, one after the other. What an earlier one has read into the
    page cache stays charged to the group, so that MEMORY limits the page cache of all of them together."""

    def __init__(self, limits: Limits, name: str, units: Sequence[ControllerSettings]) -> None:
        self.limits = limits
        self.name = name
        self._units = tuple(units)
        self._disk = next((unit.disk for unit in units if unit.disk), None)

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(unit.hierarchy.root / self.name for unit in self._units))

    def make(self) -> None:
        for unit in self._units:
            folder = unit.hierarchy.root / self.name
            try:
                enable(unit.hierarchy, unit.controller)
                folder.mkdir(exist_ok=True)
                for setting in unit.settings:
                    if setting.vital or (folder / setting.file).exists():
                        (folder / setting.file).write_text(setting.text)
            except OSError as error:
                raise HostUnfitError(
                    f"it cannot be set: {error.filename or folder}: {error.strerror}",
                    "run as root on the host itself, or leave it out",
                    option=unit.option,
                ) from error

    def add(self, pid: int) -> None:
        """Puts the process into the group, where the limits apply to it from then on; call it before the process
        becomes a server.

        A process of a container is itself put into this group, not the container's group below it: version 1 does not
        pass read limits on to groups below. CPUs are set last: in version 2 a change of the group sets them anew."""
        for folder in self.folders:
            try:
                (folder / "cgroup.procs").write_text(str(pid))
            except OSError as error:
                raise RecoveryError(
                    f"the server cannot be put into its control group {folder}: {error.strerror}",
                    "check whether another program removes control groups on this host",
                ) from error
        if self.limits.cpu_set is not None:
            refused = procfs.pin_process(pid, procfs.parse_cpu_list(self.limits.cpu_set))
            if refused is not None:
                raise HostUnfitError(
                    f"{self.limits.cpu_set} cannot be set: {refused}", "leave it out", option="cpu_set"
                )

    def counted(self) -> GroupUsage:
        folders = self.folders
        return GroupUsage(
            read_requests=_first(folders, lambda folder: read_requests(folder, self._disk) if self._disk else None),
            memory_bytes=_first(folders, read_group_memory),
            oom_kills=_first(folders, read_oom_kills),
        )

    def lost(self) -> str | None:
        """Returns which limit is no longer set because another program has removed it, or None if all are set."""
        for unit in self._units:
            folder = unit.hierarchy.root / self.name
            for setting in unit.settings:
                if setting.vital and not set(setting.text.split()) <= set(_words(folder / setting.file)):
                    option = "--" + unit.option.replace("_", "-")
                    return f"{option} {_REMOVED}: {folder / setting.file} no longer contains it"
        return None

    def remove(self) -> None:
        """Removes the group. A process that was just killed takes a moment to leave it; a group that cannot be removed
        in time is removed by the next session."""
        left = set(self.folders)
        deadline = time.monotonic() + _TIMEOUT_S
        while left := {folder for folder in left if not remove_group(folder)}:
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)


@contextmanager
def server_limits(limits: Limits, data: Path, *, mounts: Path = MOUNTS) -> Iterator[LimitGroup | None]:
    """Yields a control group with these limits for the length of a session, or None if there are no limits. Raises
    HostUnfitError if this host cannot set one of them."""
    if not limits:
        yield None
        return
    group = LimitGroup(limits, name_with_process_id(next(_numbers)), controller_settings(limits, data, mounts=mounts))
    try:
        group.make()
        yield group
    finally:
        group.remove()


def _first(folders: Sequence[Path], read: Callable[[Path], int | None]) -> int | None:
    return next((value for folder in folders if (value := read(folder)) is not None), None)


# --- Usage of a process and its storage


class UsageMeter:
    """Measures usage from its construction until `read`."""

    def __init__(self, pid: int, device: Device, group: LimitGroup | None = None) -> None:
        self._pid = pid
        self._device = device
        self._group = group
        self._start = self._now()

    def read(self) -> dict[str, float]:
        """Returns the usage as metrics by name, without those that cannot be read."""
        read, requests, device_bytes, ticks, kernel_ticks, cached, own_requests = (
            None if now is None or before is None else now - before
            for now, before in zip(self._now(), self._start, strict=True)
        )
        others = None if read is None or device_bytes is None else device_bytes - read
        if own_requests is None and are_own_reads(read, others):
            own_requests = requests
        found = {
            "read_bytes": read,
            "read_requests": own_requests,
            "cpu_s": None if ticks is None else ticks / procfs.TICKS_PER_S,
            "kernel_cpu_s": None if kernel_ticks is None else kernel_ticks / procfs.TICKS_PER_S,
            "cache_grown_bytes": cached,
            "group_memory_bytes": self._group.counted().memory_bytes if self._group else None,
        }
        return {name: value for name, value in found.items() if value is not None}

    def _now(self) -> tuple[int | None, ...]:
        io = procfs.process_io_bytes(self._pid)
        counted = self._group.counted() if self._group else GroupUsage()
        device = read_device_counters(self._device)
        return (
            io[0] if io else None,
            device.reads if device else None,
            device.read_bytes if device else None,
            procfs.process_cpu_ticks(self._pid),
            procfs.process_kernel_ticks(self._pid),
            procfs.cached_bytes(),
            counted.read_requests,
        )
