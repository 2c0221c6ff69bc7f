"""Which cgroup hierarchies has this host, and which of them holds this controller? Version 1, 2, or both at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from recovery.host.storage import unescape

MOUNTS = Path("/proc/self/mountinfo")
_V1 = frozenset({"blkio", "memory", "cpu"})
Figure = Callable[[Path], int | None]
"""Of the group in this folder; None where its controllers do not keep it."""


@dataclass(frozen=True)
class Hierarchy:
    version: int
    root: Path
    """Where it is mounted. Groups are made directly below: version 2 has controllers only where no process is above."""
    controllers: frozenset[str]
    above: str = "/"
    """What of the whole hierarchy is mounted there: `/`, or a container's own part."""

    def name_of(self, group: str) -> str:
        """As others call it who see the whole hierarchy: an engine's `cgroup_parent`."""
        return f"{self.above.rstrip('/')}/{group}"


def hierarchies(mounts: Path = MOUNTS) -> tuple[Hierarchy, ...]:
    """Each once; those without a controller too, since an engine makes its groups in all of them."""
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
        above, root = unescape(fields[3]), Path(unescape(fields[4]))
        if kind == "cgroup2":
            yield Hierarchy(2, root, frozenset(_words(root / "cgroup.controllers")), above)
        else:
            yield Hierarchy(1, root, _V1 & set(options.split(",")), above)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


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


def read_requests(folder: Path) -> int | None:
    """On all devices. A group that has read nothing yet has no line."""
    for lines in _lines(folder, "blkio.throttle.io_serviced_recursive", "blkio.throttle.io_serviced"):
        return sum(int(line[2]) for line in lines if line[1:2] == ["Read"])
    for lines in _lines(folder, "io.stat"):
        return sum(int(word.removeprefix("rios=")) for line in lines for word in line if word.startswith("rios="))
    return None


def memory_bytes(folder: Path) -> int | None:
    for lines in _lines(folder, "memory.current", "memory.usage_in_bytes"):
        return int(lines[0][0])
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
