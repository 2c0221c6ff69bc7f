"""A process is put on some CPUs, where that may be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.linux.procfs import own_cpus, pin_process
from recovery.workload.sysbench import Client

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
NO_SUCH_CPU = 8000


THREADS = """
import sys, threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print(flush=True)
sys.stdin.readline()
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print(flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """Two threads; a third where it is told to."""
    with subprocess.Popen(
        [sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as one:
        assert one.stdout is not None
        one.stdout.readline()
        try:
            yield one
        finally:
            one.kill()


def cpus_of(pid: int) -> list[set[int]]:
    return [os.sched_getaffinity(int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()]


def test_every_thread_is_put_there_and_later_ones_inherit_it(process: subprocess.Popen[str]) -> None:
    last = max(own_cpus())
    assert cpus_of(process.pid) == [own_cpus()] * 2
    assert pin_process(process.pid, frozenset({last})) is None
    assert cpus_of(process.pid) == [{last}] * 2
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    assert cpus_of(process.pid) == [{last}] * 3


def test_cpus_that_are_not_there_are_refused_in_words(process: subprocess.Popen[str]) -> None:
    assert "Invalid argument" in str(pin_process(process.pid, frozenset({NO_SUCH_CPU})))
    assert cpus_of(process.pid) == [own_cpus()] * 2


AS_NOBODY = """
import os, sys
from recovery.linux.procfs import own_cpus, pin_process
os.setgid(65534); os.setuid(65534)
print(pin_process(int(sys.argv[1]), own_cpus()))
"""


@needs_root
def test_a_process_of_another_user_is_left_where_it_is(process: subprocess.Popen[str]) -> None:
    child = [sys.executable, "-c", AS_NOBODY, str(process.pid)]
    said = subprocess.run(child, capture_output=True, text=True, check=True).stdout
    assert "Operation not permitted" in said
    assert cpus_of(process.pid) == [own_cpus()] * 2


def test_a_process_that_has_ended_is_not_pinned_and_nobody_minds(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert pin_process(process.pid, own_cpus()) is None


@pytest.mark.parametrize("there", [True, False])
def test_a_client_runs_on_its_cpus_or_where_it_may(there: bool) -> None:
    one = max(own_cpus())
    command = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
    with Client("a client", command, cpus=frozenset({one if there else NO_SUCH_CPU})) as client:
        assert client.wait(60).text.strip() == str([one] if there else sorted(own_cpus()))
