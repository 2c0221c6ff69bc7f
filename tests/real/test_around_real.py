"""Activity of the host while a real server starts is recorded, and only where there was any."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from datadirs import server_on, shared_empty_datadir
from sessions import need_limits

from recovery.linux.cgroups import server_limits
from recovery.linux.procfs import process_io_bytes
from recovery.linux.storage import device_of
from recovery.model import Build, HostActivity, Limits
from recovery.mysqld.server import Server

pytestmark = pytest.mark.real
CALM_STARTS = 3
"""Of which the calmest counts: others may be at work on this host."""
BURN = "print(flush=True)\nwhile True: pass"
READ = """
import mmap, os, random, sys
page, file = mmap.mmap(-1, 1 << 16), os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
print(flush=True)
while True: os.preadv(file, [page], random.randrange(256) << 16)
"""
WRITE = """
import mmap, os, random, sys
page, file = mmap.mmap(-1, 1 << 16), os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT)
print(flush=True)
while True: os.pwritev(file, [page], random.randrange(256) << 16)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Build, Path]:
    return shared_empty_datadir("5.7.22", tmp_path_factory)


@pytest.fixture
def server(made: tuple[Build, Path], tmp_path: Path) -> Iterator[Server]:
    with server_on(*made, tmp_path / "logs") as server:
        yield server


@contextmanager
def beside(program: str, *arguments: str) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-S", "-c", program, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def around(server: Server) -> HostActivity:
    found = server.start().host_activity
    server.stop()
    assert found is not None
    return found


def calmest(server: Server, figure: str) -> float:
    """A second."""
    found = [around(server) for _ in range(CALM_STARTS)]
    return min(float(getattr(one, figure)) / one.seconds for one in found)


@pytest.mark.on_demand("disturbed")
def test_the_cpu_time_of_another_process_is_recorded(server: Server) -> None:
    calm = calmest(server, "others_cpu_s")
    with beside(BURN):
        busy = around(server)
    assert busy.others_cpu_s is not None
    assert busy.others_cpu_s / busy.seconds > calm + 0.3
    assert busy.tool_cpu_s is not None
    assert busy.tool_cpu_s / busy.seconds < 0.2
    assert busy.steal_s is not None


@pytest.mark.on_demand("disturbed")
@pytest.mark.parametrize(("program", "which", "figure"), [
    (READ, 0, "others_read_bytes"), (WRITE, 1, "others_written_bytes"),
])  # fmt: skip
def test_the_reads_and_writes_of_another_process_are_recorded(
    program: str, which: int, figure: str, server: Server, made: tuple[Build, Path], tmp_path: Path
) -> None:
    if device_of(made[1]).device is None:
        pytest.skip("no block device under the temporary files")
    calm = calmest(server, figure)
    (tmp_path / "file").write_bytes(bytes(16 << 20))
    with beside(program, str(tmp_path / "file")) as pid:
        before = process_io_bytes(pid)
        busy = server.start().host_activity
        after = process_io_bytes(pid)
        server.stop()
    assert before is not None
    assert after is not None
    assert busy is not None
    moved = after[which] - before[which]
    assert moved > 1 << 20
    assert 0.7 * moved < getattr(busy, figure)
    assert calm < 0.3 * moved / busy.seconds


def test_throttling_by_a_cpu_limit_is_recorded(made: tuple[Build, Path], tmp_path: Path) -> None:
    need_limits()
    build, datadir = made
    with (
        server_limits(Limits(cpus=0.05), datadir) as group,
        server_on(build, datadir, tmp_path / "logs") as server,
    ):
        server.config = replace(server.config, group=group)
        held = server.start()
        server.kill()
    assert held.host_activity is not None
    assert held.host_activity.throttled_s is not None
    assert held.host_activity.throttled_s > 0


def test_without_a_limit_no_throttling_is_recorded(server: Server) -> None:
    assert not around(server).throttled_s
