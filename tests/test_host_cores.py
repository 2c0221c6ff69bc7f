"""Are server and clients put on whole cores of their own, however a kernel numbers its CPUs?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from recovery.linux.procfs import (
    Core,
    format_cpu_list,
    group_into_cores,
    own_cores,
    own_cpus,
    parse_cpu_list,
    read_cores,
    split_cores,
)


def host(cores: Iterable[str], *, nodes: Iterable[str] = (), may: str | None = None) -> tuple[Core, ...]:
    """By the lists of CPUs that share a core, and of those that share a node."""
    together = [parse_cpu_list(core) for core in cores]
    every = frozenset().union(*together)
    return group_into_cores(
        every if may is None else parse_cpu_list(may),
        {cpu: core for core in together for cpu in core},
        {cpu: number for number, node in enumerate(nodes) for cpu in parse_cpu_list(node)},
    )


def halves(count: int, first: int = 0) -> list[str]:
    """CPU i and its sibling i + n/2, as EC2 and most of Intel's hosts number them."""
    return [f"{first + cpu},{first + cpu + count // 2}" for cpu in range(count // 2)]


def neighbours(count: int) -> list[str]:
    """As some of AMD's do."""
    return [f"{cpu}-{cpu + 1}" for cpu in range(0, count, 2)]


def alone(count: int) -> list[str]:
    return [str(cpu) for cpu in range(count)]


TWO_SOCKETS = [*(f"{cpu},{cpu + 8}" for cpu in range(4)), *(f"{cpu},{cpu + 8}" for cpu in range(4, 8))]


@pytest.mark.parametrize(
    ("cores", "server", "clients"),
    [
        (host(alone(4)), "0-2", "3"),
        (host(alone(16)), "0-11", "12-15"),
        (host(halves(8)), "0-2,4-6", "3,7"),
        (host(neighbours(8)), "0-5", "6-7"),
        (host(halves(16)), "0-5,8-13", "6-7,14-15"),
        (host(halves(10)), "0-3,5-8", "4,9"),
        # CPU 5 is offline.
        (host(halves(8), may="0-4,6-7"), "0-2,4,6", "3,7"),
        # Two nodes: half of the second.
        (host(TWO_SOCKETS, nodes=("0-3,8-11", "4-7,12-15")), "0-5,8-13", "6-7,14-15"),
        # As some number them, every second CPU is in the second node.
        (host(alone(8), nodes=("0,2,4,6", "1,3,5,7")), "0-4,6", "5,7"),
        # What a container was given need not begin with 0, nor be without gaps.
        (host(alone(40), may="2,4,6,9,11,30"), "2,4,6,9,11", "30"),
        # Halves of cores may be all that a control group has; the others' are not its own.
        (host(halves(8), may="0-3"), "0-2", "3"),
        (host(halves(8), may="0-5"), "0-2,4-5", "3"),
        # Of the second node a part, which has as many as it takes, or has not.
        (host(alone(16), nodes=("0-7", "8-15"), may="0-7,8-11"), "0-8", "9-11"),
        (host(alone(16), nodes=("0-7", "8-15"), may="0-7,8"), "0-5,8", "6-7"),
        # Eight nodes, of which none has as many.
        (host(alone(16), nodes=[f"{cpu}-{cpu + 1}" for cpu in range(0, 16, 2)]), "0-11", "12-15"),
    ],
)  # fmt: skip
def test_whole_cores_go_to_the_clients_from_the_end_of_one_node(
    cores: tuple[Core, ...], server: str, clients: str
) -> None:
    found = split_cores(cores)
    assert found is not None
    assert (format_cpu_list(found.server), format_cpu_list(found.clients)) == (server, clients)
    apart = {core.cpus <= found.clients or core.cpus <= found.server for core in cores}
    assert apart == {True}, "no core is shared"


@pytest.mark.parametrize(
    "cores", [host(alone(1)), host(alone(3)), host(halves(4)), host(neighbours(4)), host(halves(6))]
)
def test_too_few_cores_are_not_divided(cores: tuple[Core, ...]) -> None:
    """Four CPUs that are two cores are shared: of one core each, the clients' would be half idle."""
    assert split_cores(cores) is None


def test_a_cpu_of_which_nothing_is_known_is_a_core() -> None:
    assert group_into_cores({5, 1}, {}, {}) == (Core(frozenset({1})), Core(frozenset({5})))
    assert group_into_cores({5, 1}, {5: set()}, {5: 1}) == (Core(frozenset({1})), Core(frozenset({5}), 1))


def test_lists_are_read_and_written_as_the_kernel_does() -> None:
    assert parse_cpu_list("0-2,4-6,9\n") == {0, 1, 2, 4, 5, 6, 9}
    assert format_cpu_list(parse_cpu_list("9,4-6,0-2")) == "0-2,4-6,9"
    assert parse_cpu_list("") == frozenset()
    with pytest.raises(ValueError, match="ff"):
        parse_cpu_list("ff")


def tell(folder: Path, cpu: int, siblings: str, *, name: str = "core_cpus_list", node: int | None = None) -> None:
    topology = folder / f"cpu{cpu}" / "topology"
    topology.mkdir(parents=True)
    (topology / name).write_text(f"{siblings}\n")
    if node is not None:
        (topology.parent / f"node{node}").mkdir()


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_cores_are_read_from_the_kernels_files(name: str, tmp_path: Path) -> None:
    for cpu in range(8):
        tell(tmp_path, cpu, f"{cpu % 4},{cpu % 4 + 4}", name=name, node=cpu % 4 // 2)
    found = read_cores(frozenset(range(8)), tmp_path)
    assert [format_cpu_list(core.cpus) for core in found] == ["0,4", "1,5", "2,6", "3,7"]
    assert [core.node for core in found] == [0, 0, 1, 1]


def test_what_cannot_be_read_is_a_core_of_its_own(tmp_path: Path) -> None:
    """Of CPU 6 it makes no sense, of 7 there is nothing; and 8, which is offline, is nobody's sibling."""
    for cpu, siblings in enumerate(("0,8", "1", "2-3", "2-3", "4-5", "4-5")):
        tell(tmp_path, cpu, siblings)
    tell(tmp_path, 6, "nonsense")
    assert [format_cpu_list(core.cpus) for core in read_cores(frozenset(range(8)), tmp_path)] == [
        "0",
        "1",
        "2-3",
        "4-5",
        "6",
        "7",
    ]


def test_this_hosts_cores_are_made_of_the_cpus_that_it_may_use() -> None:
    cores = own_cores()
    assert sorted(cpu for core in cores for cpu in core.cpus) == sorted(own_cpus())
