"""May server and clients each have CPUs of their own here? And who puts a process on them?"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ENOUGH = 4
"""With fewer CPUs one of them would be idle while the other has too much to do."""
_CLIENTS_SHARE = 4
"""One CPU in so many is for the clients: sysbench needs a quarter to a third of what its server does."""


@dataclass(frozen=True)
class Split:
    server: frozenset[int]
    clients: frozenset[int]

    def __str__(self) -> str:
        return f"{len(self.server)} CPUs for the server, {len(self.clients)} for the clients"


def split(cpus: frozenset[int]) -> Split | None:
    """None where there are too few to be divided."""
    if len(cpus) < ENOUGH:
        return None
    ordered = sorted(cpus)
    clients = frozenset(ordered[-max(1, len(ordered) // _CLIENTS_SHARE) :])
    return Split(cpus - clients, clients)


def own_cpus() -> frozenset[int]:
    """That this process may use."""
    return frozenset(os.sched_getaffinity(0))


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
