"""How a server is started, held back, watched until it is ready, and ended. Real processes play the server."""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from fakes import CRASHED, READY_56, READY_57, FakeLauncher, fake_build, fake_launch, shell_script
from waiting import DEADLINE_S

from recovery.builds.download import program_output
from recovery.errors import HostUnfitError, RecoveryError, ServerFailedError, ServerKilledError, UsageError
from recovery.linux.cgroups import GroupUsage, LimitGroup
from recovery.linux.procfs import ProcessActivity
from recovery.logs import log_tail
from recovery.logs.log_tail import LogLine, LogTail
from recovery.model import NO_LIMITS, Limits, parse_version
from recovery.mysqld import startup
from recovery.mysqld.bootstrap import initialise
from recovery.mysqld.container import ExecBarrier
from recovery.mysqld.launcher import Exit, Launch, open_files_limit
from recovery.mysqld.local import LocalLauncher, LocalProcess, spawn_in_cgroup
from recovery.mysqld.server import Server, ServerConfig
from recovery.mysqld.startup import Ready, StallDetector, describe_exit, server_failure, wait_until_ready

# -- local processes


def script(folder: Path, text: str) -> Launch:
    launch, mysqld = fake_launch(folder), shell_script(folder / "mysqld", text)
    return dataclasses.replace(launch, build=dataclasses.replace(launch.build, mysqld=mysqld, basedir=folder))


def test_a_server_gets_an_options_file_a_log_and_a_clean_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_HOME", "/elsewhere")
    launch = script(tmp_path, 'echo "$1"; echo "$TZ $MYSQL_HOME"; ulimit -Sn; echo bad >&2; exit 7')
    process = LocalLauncher().launch(launch)
    assert process.wait(60) == Exit(code=7, signal=None)
    options = launch.rundir / "my.cnf"
    lines = [f"--defaults-file={options}", "UTC ", str(open_files_limit()), "bad"]
    assert launch.log.read_text().splitlines() == lines
    assert f"datadir = {launch.datadir}" in options.read_text()
    assert launch.rundir.stat().st_mode & 0o777 == 0o700


def test_a_server_may_open_as_many_files_as_the_user_says(tmp_path: Path) -> None:
    launch = script(tmp_path, "ulimit -Sn")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert LocalLauncher(1500).launch(launch).wait(60) == Exit(code=0, signal=None)
    assert launch.log.read_text() == "1500\n"
    assert "open_files_limit = 1500\n" in (launch.rundir / "my.cnf").read_text()
    with pytest.raises(HostUnfitError, match=r"OPEN_FILES: 2147483648 is more .* the limit is [0-9,]+"):
        LocalLauncher(1 << 31)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_a_signal_reaches_the_server_and_its_death_is_reported(tmp_path: Path) -> None:
    process = LocalLauncher().launch(script(tmp_path, "exec sleep 600"))
    assert process.exited() is None
    assert process.wait(0.01) is None
    process.signal(signal.SIGKILL)
    assert process.wait(60) == Exit(code=None, signal=9)
    process.signal(signal.SIGKILL)
    assert str(process.exited()) == "signal 9"


def test_a_log_of_another_start_is_never_appended_to(tmp_path: Path) -> None:
    launch = script(tmp_path, "exit 0")
    launch.log.parent.mkdir(parents=True)
    launch.log.write_text("mysqld: ready for connections.\n")
    with pytest.raises(RecoveryError, match="log of another start"):
        LocalLauncher().launch(launch)


def test_a_socket_path_that_is_too_long_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    launch = dataclasses.replace(script(tmp_path, "exit 0"), rundir=tmp_path / ("long" * 30))
    with pytest.raises(UsageError, match="107 are allowed"):
        LocalLauncher().launch(launch)
    assert not launch.log.exists()


def test_a_file_that_is_no_program_cannot_be_started(tmp_path: Path) -> None:
    launch = script(tmp_path, "")
    launch.build.mysqld.write_bytes(b"\x7fELF, but not really")
    with pytest.raises(ServerFailedError, match="cannot be run"):
        LocalLauncher().launch(launch)


NASTY = "a b'c\"d $(touch ran) `touch ran`; touch ran #"


def test_no_path_and_no_setting_is_read_by_the_shell(tmp_path: Path) -> None:
    folder = tmp_path / NASTY
    folder.mkdir()
    source, log = folder / "in", folder / "log"
    body = 'cat\nprintf "%s\\n" "$$" "$1" "$LD_LIBRARY_PATH" "$TZ"\nls -l /proc/self/fd'
    program = shell_script(folder / "program", body)
    source.write_text("from its input\n")
    output = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
    process, _ = spawn_in_cgroup(
        LimitGroup(NO_LIMITS, "none", ()), [str(program), NASTY], source=source, log=output,
        environment={"LD_LIBRARY_PATH": f"{folder}:x", "TZ": "UTC", "PATH": os.defpath}, cwd=tmp_path,
    )  # fmt: skip
    os.close(output)
    assert process.wait(60) == 0
    text = log.read_text()
    assert text.startswith(f"from its input\n{process.pid}\n{NASTY}\n{folder}:x\nUTC\n")
    assert " 4 -> " not in text, "the second descriptor of the input is closed"
    assert sorted(path.name for path in tmp_path.iterdir()) == [NASTY]
    assert sorted(path.name for path in folder.iterdir()) == ["in", "log", "program"]


# -- the barrier of a container: a shell that waits, and becomes the command


@contextmanager
def at_barrier(folder: Path, command: list[str]) -> Iterator[tuple[ExecBarrier, subprocess.Popen[bytes]]]:
    (folder / "in").write_text("from its input\n")
    with ExecBarrier(folder) as barrier:
        process = subprocess.Popen(barrier.command(folder / "log", folder / "in", command))
        assert barrier.wait(lambda: process.poll() is None)
        yield barrier, process


def test_a_process_waits_at_the_barrier_and_then_becomes_the_command(tmp_path: Path) -> None:
    """It inherits neither pipe of the barrier."""
    shell = ["/bin/sh", "-c", "echo $$ $0; cat; echo wrong >&2; ls -l /proc/self/fd", "x y"]
    with at_barrier(tmp_path, shell) as (barrier, process):
        assert (tmp_path / "log").read_text() == "", "the log is the command's own, from its first byte"
        before = time.monotonic()
        released_at, error_s = barrier.open()
        assert before <= released_at
        assert 0 < error_s <= time.monotonic() - before
        assert process.wait(60) == 0
    text = (tmp_path / "log").read_text()
    assert text.startswith(f"{process.pid} x y\nfrom its input\nwrong\n")
    assert "gate-" not in text
    assert not list(tmp_path.glob("gate-*"))


def test_a_process_that_ends_before_the_barrier_is_noticed(tmp_path: Path) -> None:
    with ExecBarrier(tmp_path) as barrier:
        process = subprocess.Popen(["/bin/false"])
        assert not barrier.wait(lambda: process.poll() is None)


def test_nothing_is_run_if_the_tool_dies_at_the_barrier(tmp_path: Path) -> None:
    with at_barrier(tmp_path, ["/bin/echo", "ran"]) as (barrier, process):
        barrier.close()
        assert process.wait(60) != 0
    assert (tmp_path / "log").read_text() == ""


def test_a_barrier_that_cannot_be_created_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "gate-go").write_text("in the way")
    before = {path.name for path in Path("/proc/self/fd").iterdir()}
    with pytest.raises(FileExistsError):
        ExecBarrier(tmp_path)
    assert {path.name for path in Path("/proc/self/fd").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["gate-go"]


# -- waiting until a server is ready


@contextmanager
def playing(folder: Path, *steps: str | float) -> Iterator[LocalProcess]:
    process = FakeLauncher([list(steps)]).launch(fake_launch(folder))
    try:
        yield process
    finally:
        process.signal(signal.SIGKILL)
        process.wait(DEADLINE_S)


def watched(folder: Path, *steps: str | float, version: str = "5.7.22", stall_s: float = 60.0) -> Ready:
    with playing(folder, *steps) as process:
        return wait_until_ready(process, version=parse_version(version), stall_s=stall_s)


def test_a_ready_server_comes_with_its_proof_of_a_crash_and_its_lag(tmp_path: Path) -> None:
    with playing(tmp_path, "noise\n", CRASHED, 0.05, READY_57) as process:
        ready = wait_until_ready(process, version=parse_version("5.7.22"))
    assert ready.crash_proof == CRASHED.strip()
    assert ready.at_s - process.started_at > 0.05
    assert ready.lag_s is not None
    assert ready.lag_s > 0


def test_a_clean_start_has_no_proof_and_an_old_server_no_lag(tmp_path: Path) -> None:
    ready = watched(tmp_path, READY_56, version="5.6.24")
    assert (ready.crash_proof, ready.lag_s) == (None, None)


def test_a_ready_line_without_its_end_counts_at_once(tmp_path: Path) -> None:
    assert watched(tmp_path, "InnoDB: Progress in percent: 1 2", 0.02, " 3\n", READY_57.strip()).at_s


def test_a_failed_start_has_the_first_error_and_the_last_lines(tmp_path: Path) -> None:
    with pytest.raises(ServerFailedError, match=r"\[ERROR\] disk on fire") as caught:
        watched(tmp_path, "x [ERROR] disk on fire\n", "x [ERROR] Aborting\n", "last words\n", "exit 1")
    assert caught.value.log_tail[-1] == "last words"


@pytest.mark.parametrize(
    ("end", "message"),
    [("exit 3", "exit code 3"), ("signal 9", "signal 9 from outside"), (600.0, "hangs: nothing moved")],
)
def test_a_start_without_an_error_in_the_log_fails_with_the_way_it_ended(
    tmp_path: Path, end: str | float, message: str
) -> None:
    with pytest.raises(ServerFailedError, match=message):
        watched(tmp_path, "noise\n", end, stall_s=0.2 if isinstance(end, float) else 60)


def test_a_failure_in_the_log_ends_the_wait_although_the_process_lives(tmp_path: Path) -> None:
    with playing(tmp_path, "x [ERROR] InnoDB: Unable to lock ./ibdata1, error: 11\n") as process:
        with pytest.raises(ServerFailedError, match="Unable to lock"):
            wait_until_ready(process, version=parse_version("5.7.22"))
        assert process.exited() is None


def test_the_error_at_the_end_of_a_large_log_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read in pieces, and the process is gone long before the last of them."""
    monkeypatch.setattr(log_tail, "_MAX_CHUNKS", 1)
    with playing(tmp_path, 0.2, "exit 1") as process:
        with process.launch.log.open("ab") as log:
            log.write(b"a line of forty characters, more or less\n" * 20_000 + b"x [ERROR] disk on fire\n")
        process.wait(DEADLINE_S)
        with pytest.raises(ServerFailedError, match=r"\[ERROR\] disk on fire"):
            wait_until_ready(process, version=parse_version("5.7.22"))


@pytest.mark.parametrize(
    ("cpus", "io", "hangs"), [(0.001, (0,), True), (0.5, (0,), False), (0.001, None, False)], ids=str
)
def test_a_silent_server_hangs_unless_it_works(
    tmp_path: Path, cpus: float, io: tuple[int, ...] | None, hangs: bool
) -> None:
    """The CPU time of its timers is no work, unless its reads and writes are unknown. It is ready at the tenth poll;
    four polls take as long as it may be idle."""
    began_s, polls = time.monotonic(), 0

    def read_activity(_: int) -> ProcessActivity:
        nonlocal polls
        polls += 1
        if polls == 10 and not hangs:
            with process.launch.log.open("a") as log:
                log.write(READY_57)
        return ProcessActivity(cpus * (time.monotonic() - began_s), io)

    refused = pytest.raises(ServerFailedError, match="nothing moved") if hangs else nullcontext()
    with playing(tmp_path) as process, refused:
        wait_until_ready(process, version=parse_version("5.7.22"), stall_s=0.2, read_activity=read_activity)


def test_a_server_at_work_is_not_idle_however_long_the_tool_waits_for_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, polls = count(step=10), count()
    monkeypatch.setattr(startup, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    with playing(tmp_path) as process:
        stall = StallDetector(process, lambda _: ProcessActivity(5.0 * next(polls), (0,)))
        assert stall.idle_for_s() == 0


def test_waiting_is_not_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy loop would read the log many thousand times in this time."""
    reads, read = 0, LogTail.read

    def counted(tail: LogTail) -> list[LogLine]:
        nonlocal reads
        reads += 1
        return read(tail)

    monkeypatch.setattr(LogTail, "read", counted)
    assert watched(tmp_path, 0.3, READY_57).at_s
    assert reads < 200


class OomKilledGroup(LimitGroup):
    """A cgroup in which the kernel has killed processes."""

    def __init__(self, oom_kills: int) -> None:
        super().__init__(Limits(memory_bytes=128 << 20), "full", ())
        self.oom_kills = oom_kills

    def counted(self) -> GroupUsage:
        return GroupUsage(oom_kills=self.oom_kills)


@pytest.mark.parametrize(
    ("kills", "before", "reason"), [(1, 0, ": MEMORY=128m is too little for it"), (0, 0, ""), (1, 1, "")]
)
def test_a_server_that_was_killed_for_lack_of_memory_says_so(
    kills: int, before: int, reason: str, tmp_path: Path
) -> None:
    """A kill of an earlier server in the same group is not its own."""
    launch = dataclasses.replace(fake_launch(tmp_path), group=OomKilledGroup(kills), oom_kills=before)
    process = FakeLauncher([["signal 9"]]).launch(launch)
    exited = process.wait(DEADLINE_S)
    assert exited is not None
    error = server_failure(process, describe_exit(process, exited))
    assert isinstance(error, ServerKilledError)
    assert error.message.endswith("when memory runs out" + reason)
    assert ("give it more --memory" in error.hint) == bool(reason)


def test_a_server_that_was_killed_while_it_makes_a_data_directory_says_so(tmp_path: Path) -> None:
    launcher = FakeLauncher([["x [ERROR] disk on fire\n", "signal 9"]])
    with pytest.raises(ServerKilledError, match=r"when memory runs out: \[ERROR\] disk on fire"):
        initialise(launcher, fake_build(), tmp_path / "data", rundir=tmp_path / "run", log=tmp_path / "logs" / "log")
    assert not (tmp_path / "run").exists()


# -- programs that leave something running

DETACH = (
    f"{sys.executable} -c 'import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
    'open("PID", "w").write(str(os.getpid())); os.rename("PID", "FILE"); os.closerange(0, 9); time.sleep(3600)\'; '
    "while [ ! -e FILE ]; do sleep 0.01; done; "
)


def detached(folder: Path, then: str) -> tuple[str, Path]:
    """The text of a program that starts another in the background, as a daemon does, and a file with its id."""
    file = folder / "pid"
    return DETACH.replace("FILE", str(file)).replace("PID", f"{file}.draft") + then, file


def test_a_server_that_detaches_itself_is_ended(tmp_path: Path) -> None:
    text, file = detached(tmp_path, "exit 0")
    launch = script(tmp_path, text)
    launch.datadir.mkdir()
    with (
        Server(ServerConfig(LocalLauncher(), launch.build, tmp_path / "logs"), launch.datadir) as server,
        pytest.raises(ServerFailedError),
    ):
        server.start()
    assert not psutil.pid_exists(int(file.read_text()))


def test_a_server_that_detaches_itself_as_it_initialises_is_ended(tmp_path: Path) -> None:
    text, file = detached(tmp_path, "exit 1")
    launch = script(tmp_path, text)
    with pytest.raises(ServerFailedError):
        initialise(LocalLauncher(), launch.build, launch.datadir, rundir=launch.rundir, log=launch.log)
    assert not psutil.pid_exists(int(file.read_text()))


def test_a_program_that_detaches_itself_as_it_is_asked_is_ended(tmp_path: Path) -> None:
    text, file = detached(tmp_path, "echo Ver 5.7.22")
    assert program_output(shell_script(tmp_path / "asked", text), environment={"PATH": os.defpath}) == "Ver 5.7.22"
    assert not psutil.pid_exists(int(file.read_text()))
