"""Each warning appears when its condition is real: servers are delayed, disturbed and limited as they start."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from sessions import left_out, need_limits, stored

from recovery.cli.main import run
from recovery.experiments.bench import Bench
from recovery.linux.cgroups import hierarchies
from recovery.linux.page_cache import flush_caches
from recovery.model import Measurement

pytestmark = pytest.mark.real

TABLES = 1100
SHARES_DATA = True
VERSION = "5.7.22"
# With little weight: what burns in this very process is to be seen as well.
BURN = ["nice", "-n", "15", sys.executable, "-c", "while True: pass"]

Meddle = Callable[[Bench, str, int], None]
"""Is called right before the exec of a timed start: `cold` or `warm`, and its how manieth trial of these, from 0."""


def kinds(tmp_path: Path) -> set[tuple[str, str]]:
    report = stored(tmp_path)
    assert {one["verdict"] for one in report["runs"]} == {"measured"}, [one["reason"] for one in report["runs"]]
    assert all(found["hint"] for found in report["findings"])
    return {(found["kind"], found["about"]) for found in report["findings"]}


@pytest.fixture
def meddle(monkeypatch: pytest.MonkeyPatch) -> Callable[[Meddle], None]:
    """Nothing is taken out: the start goes on as always, with something happening before or beside it."""
    timed_start = Bench.timed_start

    def with_(what: Meddle) -> None:
        trials = {"cold": -1, "warm": -1}

        def disturbed(bench: Bench, log_name: str) -> Measurement:
            cache = "cold" if log_name == "timed.err" else "warm"
            trials[cache] += log_name in ("timed.err", "timed-0.err")  # the others are warm-ups of the same trial
            what(bench, cache, trials[cache])
            return timed_start(bench, log_name)

        monkeypatch.setattr(Bench, "timed_start", disturbed)

    return with_


# By a debugger's means: a server that somebody has stopped by a signal is found out, and its run is void.
HOLDER = """
import ctypes, os, sys, time
SEIZE, INTERRUPT, DETACH, ANY_CHILD = 0x4206, 0x4207, 17, 0x40000000
ptrace = ctypes.CDLL(None).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
server = int(sys.stdin.readline())
assert ptrace(SEIZE, server, None, None) == 0
assert ptrace(INTERRUPT, server, None, None) == 0
os.waitpid(server, ANY_CHILD)
time.sleep(float(sys.argv[1]))
ptrace(DETACH, server, None, None)
"""


def hold_up(bench: Bench, seconds: float) -> None:
    """The next server of this bench stands still for so long, soon after its exec."""
    if not seconds:
        return
    before = {child.pid for child in psutil.Process().children()}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(seconds)], stdin=subprocess.PIPE, text=True)

    def hold() -> None:
        deadline, found = time.monotonic() + 60, None
        while found is None and time.monotonic() < deadline:
            time.sleep(0.005)
            found = next((child.pid for child in psutil.Process().children() if is_new(child)), None)
        holder.communicate(f"{found}\n")

    def is_new(child: psutil.Process) -> bool:
        return child.pid not in before and child.name() == bench.server.build.mysqld.name

    threading.Thread(target=hold, daemon=True).start()


def few(at: list[str]) -> list[str]:
    """Of tables: as many as the tests of whole recoveries have, over their data directories."""
    return ["--tables", "300", *at[2:]]


def read_all(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            file.read_bytes()


@pytest.mark.on_demand("disturbed")
def test_runs_that_differ_from_each_other(at: list[str], tmp_path: Path, meddle: Callable[[Meddle], None]) -> None:
    """One cold start stands out, one finds its files in the cache, and the warm ones drift."""
    pauses = {"cold": (0.0, 0.0, 0.0, 3.0, 0.0), "warm": (0.0, 0.7, 1.4, 2.1, 2.8)}

    def disturb(bench: Bench, cache: str, number: int) -> None:
        hold_up(bench, pauses[cache][number])
        if (cache, number) == ("cold", 2):
            read_all(bench.datadir.mysql)

    meddle(disturb)
    assert run(["crash-recovery", "--version", VERSION, "--runs", "5", *few(at)]) == 0
    found = kinds(tmp_path)
    assert {(kind, f"{VERSION} cold") for kind in ("outlier", "cold-was-not")} <= found
    assert {(kind, f"{VERSION} warm") for kind in ("drift", "wide-interval")} <= found
    assert "few-runs" not in {kind for kind, _ in found}
    assert "Warnings" in (tmp_path / "results" / "latest" / "report.txt").read_text()


@pytest.mark.on_demand("disturbed")
def test_a_difference_that_may_be_chance(at: list[str], tmp_path: Path, meddle: Callable[[Meddle], None]) -> None:
    """Both versions are held up by turns, one of them most at first; a baseline can be named, and a limit."""
    pauses = {VERSION: (3.0, 0.0, 1.5), "mariadb-10.11.5": (0.0, 4.5, 1.5)}

    def disturb(bench: Bench, _: str, number: int) -> None:
        version = str(bench.server.build.version)
        hold_up(bench, pauses[version][number // 2])

    meddle(disturb)
    given = ["--version", f"{VERSION} mariadb-10.11.5", "--baseline", "mariadb-10.11.5", "--fail-over", "0%"]
    assert run(["cold-recovery", "--runs", "3", *given, *few(at)]) == 0, "it may be chance, so no limit is exceeded"
    found = {kind for kind, about in kinds(tmp_path) if about == f"{VERSION} cold"}
    assert "wide-interval" in found
    assert "slow-first-run" in found
    starts = [row for row in stored(tmp_path)["summaries"] if row["name"] == "startup_s"]
    assert {row["version"]: row["ratio"] for row in starts}["mariadb-10.11.5"] == 1.0


@pytest.mark.on_demand("disturbed")
def test_a_disturbed_host_and_a_quiet_log(at: list[str], tmp_path: Path, meddle: Callable[[Meddle], None]) -> None:
    noise: list[subprocess.Popen[bytes]] = []
    junk = tmp_path / "junk"
    writing = [sys.executable, "-c", WRITER, str(junk)]

    def disturb(bench: Bench, _: str, number: int) -> None:
        end(noise)
        noise.extend(subprocess.Popen(command) for command in (BURN, writing))
        threading.Thread(target=burn, args=(time.monotonic() + 4,), daemon=True).start()
        hold_up(bench, 2.0)

    meddle(disturb)
    try:
        given = ["--version", "8.0.31", "--runs", "1", "--set", "log_error_verbosity=1"]
        assert run(["clean-start", *given, *few(at)]) == 0, "such a log proves no crash, so there must be none"
    finally:
        end(noise)
    found = {kind for kind, _ in kinds(tmp_path)}
    assert {"few-runs", "other-cpu-load", "other-disk-load", "busy-client"} <= found


WRITER = """
import os, sys
with open(sys.argv[1], "wb", 0) as file:
    while True:
        file.seek(0)
        file.write(bytes(32 << 20))
        os.fsync(file.fileno())
"""


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    while processes:
        process = processes.pop()
        process.kill()
        process.wait()


def burn(until: float) -> None:
    while time.monotonic() < until:
        pass


@pytest.mark.on_demand("disturbed")
def test_little_memory(at: list[str], tmp_path: Path, meddle: Callable[[Meddle], None]) -> None:
    """Less than the data; something empties the cache before every warm start; and the log is read along late."""
    need_limits()

    def disturb(bench: Bench, cache: str, _: int) -> None:
        bench.server.on_line = lambda line: time.sleep(0.5) if "Event Scheduler" in line.text else None
        if cache == "warm":
            flush_caches(bench.datadir.mysql, bench.conditions.dropper)

    meddle(disturb)
    assert run(["crash-recovery", "--version", VERSION, "--runs", "1", "--memory", "160m", *at]) == 0
    assert [one["variant"] for one in stored(tmp_path)["runs"]] == ["cold", "cold", "second start"]
    assert "raise MEMORY=" in " ".join((tmp_path / "results" / "latest" / "report.txt").read_text().split())
    assert "late-log" in {one["kind"] for one in stored(tmp_path)["findings"]}


def test_a_debug_build_and_warm_inodes(at: list[str], tmp_path: Path) -> None:
    """No debug build is available here; this server accepts the name of one."""
    given = [
        "--version",
        "mariadb-10.11.5",
        "--runs",
        "1",
        "--set",
        "version=10.11.5-MariaDB-debug",
        "--no-drop-caches",
    ]
    assert run(["cold-recovery", *given, *few(at)]) == 0
    found = {one["kind"]: one for one in stored(tmp_path)["findings"]}
    assert "10.11.5-MariaDB-debug" in found["debug-build"]["text"]
    assert "leave it out" in found["inodes-were-warm"]["hint"], "the hint fits the option that was given"


@pytest.mark.on_demand("disturbed")
def test_a_quota_and_a_program_on_another_filesystem(volume: Path, held_back: list[str], tmp_path: Path) -> None:
    """The tool in a group with half a CPU, the data on a filesystem of its own."""
    command = [sys.executable, "-m", "recovery", "cold-recovery", "--version", VERSION, "--runs", "1", "--tables", "50"]
    where = ["--data", str(volume), "--results", str(tmp_path / "results"), "--engine", "local"]
    subprocess.run([*held_back, *command, *where], check=True, timeout=200, capture_output=True)
    found = {one["kind"]: one for one in stored(tmp_path)["findings"]}
    assert "Raise the CPU quota" in found["throttled"]["hint"]
    assert str(found["filesystems"]["text"]).startswith("The server's program is on /dev/")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    image, folder = tmp_path / "image", tmp_path / "volume"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(3 << 30)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=False).returncode:
        left_out("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def held_back() -> Iterator[list[str]]:
    """What puts a command into a control group that is held back, to stand before it."""
    cpu = next((one for one in hierarchies() if "cpu" in one.controllers), None)
    if cpu is None or os.geteuid() != 0:
        left_out("no control group can be made here")
    group = cpu.root / f"test-held-back-{os.getpid()}"
    group.mkdir()
    if cpu.version == 1:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text("50000")
    else:
        (group / "cpu.max").write_text("50000 100000")
    yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    group.rmdir()
