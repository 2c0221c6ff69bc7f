"""Which cores may this process use, and who puts another one on some of them?"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from recovery.host.cores import Core, cores_of, of_list

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
