"""What else the host did while a real server started: it must show where it was, and only there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from datadirs import empty_datadir
from sessions import need_limits, stored

from recovery.cli.main import run
from recovery.linux.cgroups import server_limits
from recovery.linux.procfs import process_io_bytes
from recovery.linux.storage import device_of
from recovery.model import Build, HostActivity, Limits
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.options import experiment_settings
from recovery.mysqld.server import Server

pytestmark = pytest.mark.real
TABLES = 300
SHARES_DATA = True
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
    return empty_datadir("5.7.22", tmp_path_factory.mktemp("made"))


@pytest.fixture
def server(made: tuple[Build, Path], tmp_path: Path) -> Iterator[Server]:
    build, datadir = made
    with Server(
        LocalLauncher(), build, datadir, device=device_of(datadir), logdir=tmp_path / "logs",
        settings=experiment_settings(build.version),
    ) as server:  # fmt: skip
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
    found = server.start().around
    server.stop()
    assert found is not None
    return found


def calmest(server: Server, figure: str) -> float:
    """A second."""
    found = [around(server) for _ in range(CALM_STARTS)]
    return min(float(getattr(one, figure)) / one.seconds for one in found)


@pytest.mark.on_demand("disturbed")
def test_a_cpu_burner_shows(server: Server) -> None:
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
def test_a_disk_s_other_user_shows(
    program: str, which: int, figure: str, server: Server, made: tuple[Build, Path], tmp_path: Path
) -> None:
    if device_of(made[1]).device is None:
        pytest.skip("no block device under the temporary files")
    calm = calmest(server, figure)
    (tmp_path / "file").write_bytes(bytes(16 << 20))
    with beside(program, str(tmp_path / "file")) as pid:
        before = process_io_bytes(pid)
        busy = server.start().around
        after = process_io_bytes(pid)
        server.stop()
    assert before is not None
    assert after is not None
    assert busy is not None
    moved = after[which] - before[which]
    assert moved > 1 << 20
    assert 0.7 * moved < getattr(busy, figure)
    assert calm < 0.3 * moved / busy.seconds


def test_a_server_held_back_by_its_group_shows(made: tuple[Build, Path], tmp_path: Path) -> None:
    need_limits()
    build, datadir = made
    with (
        server_limits(Limits(cpus=0.2), datadir) as group,
        Server(
            LocalLauncher(), build, datadir, device=device_of(datadir), logdir=tmp_path / "logs",
            settings=experiment_settings(build.version), group=group,
        ) as server,
    ):  # fmt: skip
        held = server.start()
        server.kill()
    assert held.around is not None
    assert held.around.throttled_s is not None
    assert held.around.throttled_s > 0


def test_a_server_that_is_not_held_back_shows_none(server: Server) -> None:
    assert not around(server).throttled_s


def test_a_session_keeps_all_of_it(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["cold-recovery", "--version", "5.7.22", "--runs", "1", "--note", "io2, <b>5000</b> IOPS", *at]
    asked.remove("--no-probe")
    assert run(asked) == 0
    report = stored(tmp_path)
    (one,) = report["runs"]
    assert one["around"]["seconds"] > 0
    timeline = one["timeline"]
    # The last look comes after the first answer.
    assert timeline["at_s"][-1] >= one["first_query_s"] - 0.001
    assert timeline["cpu_s"][-1] >= one["cpu_s"] - 0.001
    assert timeline["read_bytes"][-1] >= one["read_bytes"]
    assert len(timeline["others_cpu_s"]) == len(timeline["at_s"])
    assert report["settings"]["note"] == "io2, <b>5000</b> IOPS"
    assert "--note 'io2, <b>5000</b> IOPS'" in report["command"]
    assert "io2, <b>5000</b> IOPS" in (tmp_path / "results" / "latest" / "report.txt").read_text()
    environment = report["environment"]
    assert environment["probe_4k_1_iops"] is None or environment["probe_4k_1_iops"] > 0
    assert environment["probe_seconds_each"] == 0.1
    assert report["servers"]["5.7.22"]["program_device"]

    assert run([*asked, "--no-probe"]) == 0
    environment = stored(tmp_path)["environment"]
    assert environment["probe"] == "none: left out, as asked"
    assert "probe_4k_1_iops" not in environment

    capsys.readouterr()
    assert run(["warm-recovery", "--dry-run", "--results", str(tmp_path / "results")]) == 0
    assert "--note 'io2, <b>5000</b> IOPS'" in capsys.readouterr().err, "it goes on over the same storage"
