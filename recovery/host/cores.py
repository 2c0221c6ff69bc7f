"""Which CPUs are one core, and which cores may server and clients each have for themselves? Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

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
