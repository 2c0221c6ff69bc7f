"""Limits take effect: real servers in real control groups. Asserted on what was counted, never on speed as such."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sessions import first_run_stored, need_limits, next_server, stopped_at_a_start, stored
from waiting import until

from recovery.cli.main import run
from recovery.linux.cgroups import LimitGroup, hierarchies, server_limits, throttled_s
from recovery.linux.page_cache import measure_residency
from recovery.linux.procfs import name_with_process_id, own_cpus
from recovery.model import Limits

HERE = Path(__file__).parent
TABLES = 300
MANY = 1100
"""A start reads more of so many tables than MEMORY holds."""
SHARES_DATA = True
VERSION, FAST = "5.7.22", "mariadb-10.11.5"
# Less than this server asks for by itself: some 2,000 reads a second of tables of 96 KiB.
READ_IOPS = 500
MEMORY = 160 << 20


pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def limits() -> None:
    need_limits()


def groups() -> set[str]:
    """Of everybody on this host."""
    return {folder.name for one in hierarchies() for folder in one.root.glob("mysql-recovery-*")}


@pytest.fixture(autouse=True)
def no_group_is_left() -> Iterator[None]:
    yield
    assert not [name for name in groups() if name.startswith(name_with_process_id(0)[:-1])]


def measured(tmp_path: Path, command: str, *arguments: str) -> dict[str, Any]:
    """The last run of a session in which all went well."""
    assert run([command, "--version", VERSION, "--runs", "1", *arguments]) == 0
    report = stored(tmp_path)
    last: dict[str, Any] = report["runs"][-1]
    assert last["verdict"] == "measured", last["reason"]
    return last


def test_read_iops_limits_the_server_and_the_floor(at: list[str], tmp_path: Path) -> None:
    limited = measured(tmp_path, "cold-recovery", "--floor", "--read-iops", str(READ_IOPS), *at)
    assert limited["read_requests"] > TABLES, "a page or more of every table"
    assert limited["reads_per_s"] <= 1.5 * READ_IOPS + 100
    assert limited["reads_per_s"] == pytest.approx(limited["read_requests"] / limited["first_query_s"], rel=0.01)
    report = stored(tmp_path)
    assert report["settings"]["read_iops"] == READ_IOPS
    assert report["settings"]["memory_bytes"] is None
    assert f"--read-iops {READ_IOPS}" in report["command"]
    assert f"The server was limited to {READ_IOPS} reads a second." in report["notes"]
    assert "reads/s" in (tmp_path / "results" / "latest" / "report.txt").read_text()
    (floor,) = report["floors"]
    assert floor["files"] == TABLES
    for seconds in (floor["one_thread_s"], floor["many_threads_s"]):
        assert seconds >= 0.5 * TABLES / READ_IOPS, "no faster than the limit lets it, bursts aside"


def test_read_bps_limits_the_server(at: list[str], tmp_path: Path) -> None:
    limited = measured(tmp_path, "cold-recovery", "--read-bps", "20m", *at)
    rate = limited["read_bytes"] / limited["first_query_s"]
    assert 0 < rate <= 1.5 * (20 << 20) + (2 << 20)


def test_memory_limits_the_server_and_its_cache(at: list[str], data: Path, tmp_path: Path) -> None:
    """Read often enough to fill a larger cache: tables of 96 KiB, system files, and the server's own memory."""
    many = ["--tables", str(MANY), *at[2:]]
    limited = measured(tmp_path, "warm-recovery", "--memory", str(MEMORY), *many)
    assert 0 < limited["group_memory_bytes"] <= MEMORY
    (datadir,) = data.glob(f"{VERSION}-discovery-{MANY}-*/mysql")
    resident = measure_residency(datadir).resident_bytes
    assert resident is None or resident <= MEMORY, "nothing of it is in another cache"


def test_a_process_that_needs_more_memory_is_killed_and_counted(tmp_path: Path) -> None:
    with server_limits(Limits(memory_bytes=128 << 20), tmp_path) as group:
        assert group is not None
        assert group.counted().oom_kills == 0
        code = "import sys; sys.stdin.readline(); bytearray(512 << 20)"
        process = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE)
        group.add(process.pid)
        process.communicate(b"go\n", timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert group.counted().oom_kills == 1


def test_what_one_process_has_read_is_charged_to_the_next(tmp_path: Path) -> None:
    """As of two starts of a server in the same group: the second has no cache beside its limit."""
    big = tmp_path / "big"
    big.write_bytes(bytes(96 << 20))
    os.sync()
    fd = os.open(big, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    with server_limits(Limits(memory_bytes=128 << 20), tmp_path) as group:
        assert group is not None
        read_in(group, big)
        assert 90 << 20 <= (group.counted().memory_bytes or 0) <= 128 << 20, "its reader is gone, the pages are not"
        read_in(group, big)
        assert (group.counted().memory_bytes or 0) <= 128 << 20


def read_in(group: LimitGroup, file: Path) -> None:
    code = (
        "import sys; sys.stdin.readline(); [None for _ in iter(lambda f=open(sys.argv[1], 'rb'): f.read(1 << 20), b'')]"
    )
    process = subprocess.Popen([sys.executable, "-S", "-c", code, str(file)], stdin=subprocess.PIPE)
    group.add(process.pid)
    process.communicate(b"go\n", timeout=60)
    assert process.returncode == 0


def test_cpus_are_a_quota(tmp_path: Path) -> None:
    with server_limits(Limits(cpus=0.25), tmp_path) as group:
        assert group is not None
        process = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
        try:
            group.add(process.pid)
            until(lambda: any((throttled_s(folder) or 0) > 0.1 for folder in group.folders), "the end of its quota")
        finally:
            process.kill()
            process.wait()


def limited_session(at: list[str], *limits: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "recovery", "cold-recovery", "--version", FAST, "--runs", "50", *limits, *at],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def group_of(server: psutil.Process) -> str:
    lines = Path(f"/proc/{server.pid}/cgroup").read_text().splitlines()
    (name,) = {name for line in lines if (name := line.rpartition("/")[2]).startswith("mysql-recovery-")}
    return name


def test_a_killed_session_leaves_a_group_that_the_next_removes_and_an_interrupted_one_none(
    at: list[str], tmp_path: Path
) -> None:
    killed = limited_session(at, "--read-iops", "2000", "--memory", "1g", "--cpus", "0.9")
    first_run_stored(tmp_path / "results")
    server = stopped_at_a_start(killed.pid)
    left = group_of(server)
    killed.kill()
    killed.communicate(timeout=60)
    assert left in groups()
    assert server.is_running()

    folder = tmp_path / "next"
    interrupted = limited_session([*at[:-1], str(folder)], "--read-iops", "2000")
    first_run_stored(folder)
    own = group_of(next_server(interrupted.pid))
    assert own != left
    os.killpg(interrupted.pid, signal.SIGINT)
    _, printed = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert f"removed the control group {left}" in printed
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
    assert not groups() & {left, own}


def test_a_server_has_its_cpus_and_files(at: list[str], tmp_path: Path) -> None:
    last = max(own_cpus())
    session = limited_session(at, "--cpu-set", str(last), "--open-files", "5000")
    first_run_stored(tmp_path / "results")
    server = next_server(session.pid)
    assert server.cpu_affinity() == [last]
    assert server.rlimit(psutil.RLIMIT_NOFILE)[0] == 5000
    os.killpg(session.pid, signal.SIGINT)
    session.communicate(timeout=60)
    assert session.returncode == 130
    report = stored(tmp_path)
    assert (report["settings"]["cpu_set"], report["settings"]["open_files"]) == (str(last), 5000)
    assert report["servers"][FAST]["@open_files_limit"] == "5000"


_AS_NOBODY = """
import io, os, sys
from contextlib import redirect_stdout
from recovery.cli.main import run
with redirect_stdout(io.StringIO()):  # imports what nobody may not read here
    run(["cold-recovery", "--data", "/tmp/nobody-s", "--dry-run"])
os.setgid(65534); os.setuid(65534)
for limit in ("--read-iops=5000", "--memory=2g", "--cpus=1"):
    print(run(["cold-recovery", limit, "--data", "/tmp/nobody-s", "--dry-run"]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_without_root_a_limit_is_refused() -> None:
    """Before anything is fetched, built or started; and never a silent run without it."""
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY], capture_output=True, text=True, timeout=60, check=True,
        cwd=HERE.parent.parent, env={"PATH": os.defpath},
    )  # fmt: skip
    assert done.stdout.split() == ["3"] * 3, done.stderr
    for option in ("--read-iops", "--memory", "--cpus"):
        assert re.search(f"error: {option} / [A-Z_]+: it cannot be set: this user may not create", done.stderr)
    assert done.stderr.count("hint:  run as root, or leave it out") == 3
    assert "Traceback" not in done.stderr
