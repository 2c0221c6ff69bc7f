"""Server and clients get whole cores, however the kernel numbers its CPUs, and processes are pinned to them."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from otherusers import as_user, child_process, needs_root

from recovery.linux.procfs import (
    Core,
    format_cpu_list,
    group_into_cores,
    own_cores,
    own_cpus,
    parse_cpu_list,
    pin_process,
    read_cores,
    split_cores,
)
from recovery.loads.sysbench import Client

NO_SUCH_CPU = 8000
NO_SUCH_PROCESS = 2**22 + 1


def host(cores: Iterable[str], *, nodes: Iterable[str] = (), may: str | None = None) -> tuple[Core, ...]:
    """Return the cores of a host by the lists of CPUs that share a core, and of those that share a node."""
    together = [parse_cpu_list(core) for core in cores]
    every = frozenset().union(*together)
    return group_into_cores(
        every if may is None else parse_cpu_list(may),
        {cpu: core for core in together for cpu in core},
        {cpu: number for number, node in enumerate(nodes) for cpu in parse_cpu_list(node)},
    )


def halves(count: int) -> list[str]:
    """CPU i and its sibling i + n/2, as EC2 and most of Intel's hosts number them."""
    return [f"{cpu},{cpu + count // 2}" for cpu in range(count // 2)]


def neighbours(count: int) -> list[str]:
    """As some of AMD's do."""
    return [f"{cpu}-{cpu + 1}" for cpu in range(0, count, 2)]


def alone(count: int) -> list[str]:
    return [str(cpu) for cpu in range(count)]


@pytest.mark.parametrize(
    ("cores", "server", "clients"),
    [
        (host(alone(4)), "0-2", "3"),
        (host(halves(8)), "0-2,4-6", "3,7"),
        (host(neighbours(8)), "0-5", "6-7"),
        (host(halves(16)), "0-5,8-13", "6-7,14-15"),
        # CPU 5 is offline.
        (host(halves(8), may="0-4,6-7"), "0-2,4,6", "3,7"),
        # Two nodes: half of the second.
        (host(halves(16), nodes=("0-3,8-11", "4-7,12-15")), "0-5,8-13", "6-7,14-15"),
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
        (host(alone(16), nodes=neighbours(16)), "0-11", "12-15"),
    ],
)
def test_clients_get_whole_cores_from_the_end_of_one_node(cores: tuple[Core, ...], server: str, clients: str) -> None:
    found = split_cores(cores)
    assert found is not None
    assert (format_cpu_list(found.server), format_cpu_list(found.clients)) == (server, clients)
    assert all(core.cpus <= found.clients or core.cpus <= found.server for core in cores), "no core is shared"


def test_fewer_than_four_cores_are_not_divided() -> None:
    for cores in (alone(1), alone(3), halves(4), neighbours(4), halves(6)):
        assert split_cores(host(cores)) is None


def test_cpu_lists_have_the_form_of_the_kernel() -> None:
    assert parse_cpu_list("0-2,4-6,9\n") == {0, 1, 2, 4, 5, 6, 9}
    assert format_cpu_list(parse_cpu_list("9,4-6,0-2")) == "0-2,4-6,9"
    assert parse_cpu_list("") == frozenset()
    with pytest.raises(ValueError, match="ff"):
        parse_cpu_list("ff")


def write_topology(folder: Path, cpu: int, siblings: str, *, name: str = "core_cpus_list") -> Path:
    topology = folder / f"cpu{cpu}" / "topology"
    topology.mkdir(parents=True)
    (topology / name).write_text(f"{siblings}\n")
    return topology.parent


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_cores_are_read_from_the_files_of_the_kernel(name: str, tmp_path: Path) -> None:
    for cpu in range(8):
        folder = write_topology(tmp_path, cpu, f"{cpu % 4},{cpu % 4 + 4}", name=name)
        (folder / f"node{cpu % 4 // 2}").mkdir()
    found = read_cores(frozenset(range(8)), tmp_path)
    assert [format_cpu_list(core.cpus) for core in found] == ["0,4", "1,5", "2,6", "3,7"]
    assert [core.node for core in found] == [0, 0, 1, 1]


def test_a_cpu_with_unreadable_or_offline_siblings_is_a_core(tmp_path: Path) -> None:
    # CPU 8 is offline; of CPU 7 there is nothing.
    for cpu, siblings in enumerate(("0,8", "1", "2-3", "2-3", "4-5", "4-5", "nonsense")):
        write_topology(tmp_path, cpu, siblings)
    found = read_cores(frozenset(range(8)), tmp_path)
    assert [format_cpu_list(core.cpus) for core in found] == ["0", "1", "2-3", "4-5", "6", "7"]


def test_the_cores_of_this_host_have_the_cpus_that_it_may_use() -> None:
    assert sorted(cpu for core in own_cores() for cpu in core.cpus) == sorted(own_cpus())


# --- Pinning


@pytest.fixture
def process() -> Iterator[int]:
    """A process with two threads."""

    def start_thread() -> str:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        return ""

    with child_process(start_thread) as child:
        yield child.pid


def cpus_of(pid: int) -> list[set[int]]:
    return [os.sched_getaffinity(int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()]


def test_every_thread_is_pinned(process: int) -> None:
    last = max(own_cpus())
    assert cpus_of(process) == [own_cpus()] * 2
    assert pin_process(process, frozenset({last})) is None
    assert cpus_of(process) == [{last}] * 2


def test_no_thread_is_pinned_to_cpus_that_do_not_exist(process: int) -> None:
    assert "Invalid argument" in str(pin_process(process, frozenset({NO_SUCH_CPU})))
    assert cpus_of(process) == [own_cpus()] * 2


@needs_root
def test_a_process_of_another_user_is_not_pinned(process: int) -> None:
    with as_user():
        assert "Operation not permitted" in str(pin_process(process, frozenset({max(own_cpus())})))
    assert cpus_of(process) == [own_cpus()] * 2


def test_pinning_an_ended_process_is_no_error() -> None:
    assert pin_process(NO_SUCH_PROCESS, own_cpus()) is None


@pytest.mark.parametrize("exists", [True, False])
def test_a_client_runs_on_its_cpus_or_where_it_may(exists: bool) -> None:
    one = max(own_cpus())
    program = "import os; print(sorted(os.sched_getaffinity(0)), os.getsid(0) == os.getpid())"
    with Client(
        "a client", [sys.executable, "-S", "-c", program], cpus=frozenset({one if exists else NO_SUCH_CPU})
    ) as client:
        assert client.wait(60).text == f"{[one] if exists else sorted(own_cpus())} True\n", "in a session of its own"
