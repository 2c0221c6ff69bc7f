"""Which cgroup hierarchies has this host, and which of them holds this controller? Version 1, 2, or both at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from recovery.host.storage import unescape

MOUNTS = Path("/proc/self/mountinfo")
_PROC = Path("/proc")
_V1 = frozenset({"blkio", "memory", "cpu"})
Figure = Callable[[Path], int | None]
"""Of the group in this folder; None where its controllers do not keep it."""


@dataclass(frozen=True)
class Hierarchy:
    version: int
    root: Path
    """Where it is mounted. Groups are made directly below: version 2 has controllers only where no process is above."""
    controllers: frozenset[str]


def hierarchies(mounts: Path = MOUNTS) -> tuple[Hierarchy, ...]:
    """Each once, those without a controller of use here too."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ()
    found = {one.root: one for one in _parsed(lines)}
    return tuple(found.values())


def _parsed(lines: Iterable[str]) -> Iterator[Hierarchy]:
    """`35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`"""
    for line in lines:
        before, _, after = line.partition(" - ")
        kind, _, options = [*after.split(" "), "", ""][:3]
        if kind not in ("cgroup", "cgroup2"):
            continue
        fields = before.split(" ")
        root = Path(unescape(fields[4]))
        if kind == "cgroup2":
            yield Hierarchy(2, root, frozenset(_words(root / "cgroup.controllers")))
        else:
            yield Hierarchy(1, root, _V1 & set(options.split(",")))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def groups_of(process: int | str, controller: str, *, mounts: Path = MOUNTS, proc: Path = _PROC) -> tuple[Path, ...]:
    """The group that this process is in, and those above it up to the hierarchy's root, as far as they are seen from
    here: each of them may hold it back."""
    try:
        lines = (proc / str(process) / "cgroup").read_text().splitlines()
    except OSError:
        return ()
    paths = {name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")}
    for one in sorted(hierarchies(mounts), key=lambda one: one.version):
        path = paths.get(controller if one.version == 1 else "")
        if controller in one.controllers and path is not None:
            own = one.root / path.lstrip("/")
            # In a container the path is the host's, and the root may be mounted from there.
            own = own if ".." not in own.parts and own.is_dir() else one.root
            return (own, *(above for above in own.parents if above.is_relative_to(one.root)))
    return ()


def enable(hierarchy: Hierarchy, controller: str) -> None:
    """Version 2 hands a controller down only where the parent says so. It is left enabled: others may have come to
    use it meanwhile, and would lose their limits silently."""
    control = hierarchy.root / "cgroup.subtree_control"
    if hierarchy.version == 2 and controller not in _words(control):
        control.write_text(f"+{controller}")


def processes_in(folder: Path) -> tuple[int, ...]:
    """Of the group and of all below it."""
    found: set[int] = set()
    for procs in (folder / "cgroup.procs", *folder.rglob("cgroup.procs")):
        found.update(int(pid) for pid in _words(procs))
    return tuple(sorted(found - {0}))


def remove(folder: Path) -> bool:
    """The group and all below it, as far as they are empty; False where something is left."""
    try:
        for below in [entry for entry in folder.iterdir() if entry.is_dir()]:
            remove(below)
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def read_requests(folder: Path, disk: str) -> int | None:
    """Of this disk alone: a loop device's reads are read once more from the disk below. A group that has read nothing
    yet has no line."""
    for lines in _lines(folder, "blkio.throttle.io_serviced_recursive", "blkio.throttle.io_serviced"):
        return sum(int(line[2]) for line in lines if line[:2] == [disk, "Read"])
    for lines in _lines(folder, "io.stat"):
        words = (word for line in lines if line[0] == disk for word in line)
        return sum(int(word.removeprefix("rios=")) for word in words if word.startswith("rios="))
    return None


def memory_bytes(folder: Path) -> int | None:
    for lines in _lines(folder, "memory.current", "memory.usage_in_bytes"):
        return int(lines[0][0])
    return None


def throttled_s(folder: Path) -> float | None:
    """For so long was what runs in the group held back, summed over its CPUs; None where it has no such count."""
    for lines in _lines(folder, "cpu.stat"):
        told = {line[0]: int(line[1]) for line in lines if len(line) == 2}
        if "throttled_time" in told:
            return told["throttled_time"] / 1e9
        if "throttled_usec" in told:
            return told["throttled_usec"] / 1e6
    return None


def cpu_quota(folder: Path) -> float | None:
    """How many CPUs what runs in the group may use; None is no limit."""
    for lines in _lines(folder, "cpu.max"):
        quota, period = lines[0]
        return None if quota == "max" else int(quota) / int(period)
    for quota_lines in _lines(folder, "cpu.cfs_quota_us"):
        for period_lines in _lines(folder, "cpu.cfs_period_us"):
            us = int(quota_lines[0][0])
            return us / int(period_lines[0][0]) if us > 0 else None
    return None


def oom_kills(folder: Path) -> int | None:
    for lines in _lines(folder, "memory.events", "memory.oom_control"):
        return next((int(line[1]) for line in lines if line[0] == "oom_kill"), None)
    return None


def _lines(folder: Path, *names: str) -> Iterator[list[list[str]]]:
    """The words of each line of the files that are there."""
    for name in names:
        try:
            yield [line.split() for line in (folder / name).read_text().splitlines() if line.strip()]
        except OSError:
            continue
