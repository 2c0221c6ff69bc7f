"""Every way a start can end, played by a real process that writes a real log."""

from __future__ import annotations

import dataclasses
import signal
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from fakes import CRASHED, READY_56, READY_57, FakeLauncher, fake_build, fake_launch
from waiting import DEADLINE_S

from recovery.errors import ServerFailedError, ServerKilledError
from recovery.linux.cgroups import GroupUsage, LimitGroup
from recovery.linux.procfs import ProcessActivity
from recovery.model import Limits, parse_version
from recovery.mysqld.bootstrap import initialise
from recovery.mysqld.local import LocalProcess
from recovery.mysqld.log_tail import LogLine, LogTail
from recovery.mysqld.startup import Ready, describe_exit, server_failure, wait_until_ready


def play(folder: Path, *steps: str | float) -> LocalProcess:
    return FakeLauncher([list(steps)]).launch(fake_launch(folder))


def say(life: LocalProcess, text: str) -> None:
    with life.launch.log.open("a") as log:
        log.write(text)


def watched(life: LocalProcess, *, version: str = "5.7.22", stall_s: float = 60.0) -> Ready:
    try:
        return wait_until_ready(life, version=parse_version(version), stall_s=stall_s)
    finally:
        life.signal(signal.SIGKILL)
        life.wait(DEADLINE_S)


def test_ready_with_the_proof_that_came_before_it(tmp_path: Path) -> None:
    life = play(tmp_path, "noise\n", CRASHED, 0.05, READY_57)
    ready = watched(life)
    assert ready.crash_proof == CRASHED.strip()
    assert ready.at_s - life.started_at > 0.05
    assert ready.lag_s is not None
    assert ready.lag_s > 0


def test_no_proof_and_no_lag_where_there_is_none(tmp_path: Path) -> None:
    ready = watched(play(tmp_path, READY_56), version="5.6.24")
    assert ready.crash_proof is None
    assert ready.lag_s is None


def test_a_ready_line_without_its_end_counts_at_once(tmp_path: Path) -> None:
    assert watched(play(tmp_path, "InnoDB: Progress in percent: 1 2", 0.02, " 3\n", READY_57.strip())).line


def test_the_reason_at_the_end_of_a_large_log_is_found(tmp_path: Path) -> None:
    """It is read in pieces, and the process is gone long before the last of them."""
    life = play(tmp_path, 0.2, "exit 1")
    with life.launch.log.open("ab") as log:
        log.write(b"a line of forty characters, more or less\n" * 300_000 + b"x [ERROR] disk on fire\n")
    life.wait(DEADLINE_S)
    with pytest.raises(ServerFailedError, match=r"\[ERROR\] disk on fire"):
        watched(life)


def test_x_plugin_is_not_the_server(tmp_path: Path) -> None:
    x_plugin = "2026-01-01T00:00:00.000000Z 0 [Note] X Plugin ready for connections. Socket: '/x'\n"
    assert "X Plugin" not in watched(play(tmp_path, x_plugin, 0.05, READY_57)).line


def test_a_failed_start_ends_with_the_first_error_and_the_last_lines(tmp_path: Path) -> None:
    with pytest.raises(ServerFailedError, match=r"\[ERROR\] disk on fire") as caught:
        watched(play(tmp_path, "x [ERROR] disk on fire\n", "x [ERROR] Aborting\n", "last words\n", "exit 1"))
    assert caught.value.log_tail[-1] == "last words"


def test_a_failure_ends_the_watch_though_the_process_lingers(tmp_path: Path) -> None:
    life = play(tmp_path, "x [ERROR] InnoDB: Unable to lock ./ibdata1, error: 11\n")
    try:
        with pytest.raises(ServerFailedError, match="Unable to lock"):
            wait_until_ready(life, version=parse_version("5.7.22"))
        assert life.exited() is None
    finally:
        life.signal(signal.SIGKILL)
        life.wait(DEADLINE_S)


def test_an_end_without_a_word(tmp_path: Path) -> None:
    with pytest.raises(ServerFailedError, match="exit code 3"):
        watched(play(tmp_path, "noise\n", "exit 3"))


def test_killed_from_outside_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ServerFailedError, match="signal 9 from outside"):
        watched(play(tmp_path, "noise\n", "signal 9"))


def test_a_server_that_does_nothing_hangs(tmp_path: Path) -> None:
    with pytest.raises(ServerFailedError, match="hangs"):
        watched(play(tmp_path, "noise\n"), stall_s=0.4)


def test_a_server_that_computes_in_silence_does_not_hang(tmp_path: Path) -> None:
    life, looks = play(tmp_path), 0

    def look(_: int) -> ProcessActivity:
        """It is ready at the tenth look: four of them take as long as it may be still."""
        nonlocal looks
        looks += 1
        if looks == 10:
            say(life, READY_57)
        return ProcessActivity(float(looks), (0,))

    try:
        assert wait_until_ready(life, version=parse_version("5.7.22"), stall_s=0.2, read_activity=look).line
    finally:
        life.signal(signal.SIGKILL)
        life.wait(DEADLINE_S)


@pytest.mark.parametrize(
    ("cpus", "io", "hangs"), [(0.001, (0,), True), (0.5, (0,), False), (0.001, None, False)], ids=str
)
def test_the_ticking_of_timers_is_no_work(tmp_path: Path, cpus: float, io: tuple[int, ...] | None, hangs: bool) -> None:
    """Of a process whose reads and writes may not be looked at, any work is work."""
    life, began_s, looks = play(tmp_path), time.monotonic(), 0

    def look(_: int) -> ProcessActivity:
        nonlocal looks
        looks += 1
        if looks == 10 and not hangs:
            say(life, READY_57)
        return ProcessActivity(cpus * (time.monotonic() - began_s), io)

    try:
        with pytest.raises(ServerFailedError, match="nothing moved") if hangs else nullcontext():
            wait_until_ready(life, version=parse_version("5.7.22"), stall_s=0.2, read_activity=look)
    finally:
        life.signal(signal.SIGKILL)
        life.wait(DEADLINE_S)


def test_it_sleeps_until_something_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that did not wait would read the log many thousand times in this second."""
    reads, read = 0, LogTail.read

    def counted(tail: LogTail) -> list[LogLine]:
        nonlocal reads
        reads += 1
        return read(tail)

    monkeypatch.setattr(LogTail, "read", counted)
    assert watched(play(tmp_path, 1.0, READY_57)).line
    assert reads < 200


class _FullGroup(LimitGroup):
    """One in which the kernel has killed."""

    def __init__(self, oom_kills: int) -> None:
        super().__init__(Limits(memory_bytes=128 << 20), "full", ())
        self.oom_kills = oom_kills

    def counted(self) -> GroupUsage:
        return GroupUsage(oom_kills=self.oom_kills)


@pytest.mark.parametrize(("kills", "told"), [(1, ": MEMORY=128m is too little for it"), (0, "")])
def test_a_server_killed_for_want_of_its_memory_is_told_so(kills: int, told: str, tmp_path: Path) -> None:
    launch = dataclasses.replace(fake_launch(tmp_path), group=_FullGroup(kills))
    life = FakeLauncher([["signal 9"]]).launch(launch)
    exited = life.wait(DEADLINE_S)
    assert exited is not None
    error = server_failure(life, describe_exit(life, exited))
    assert isinstance(error, ServerKilledError)
    assert error.message.endswith("when memory runs out" + told)
    assert ("give it more MEMORY" in error.hint) == bool(told)


def test_a_server_killed_while_it_makes_a_data_directory_is_told_so(tmp_path: Path) -> None:
    launcher = FakeLauncher([["x [ERROR] disk on fire\n", "signal 9"]])
    with pytest.raises(ServerKilledError, match=r"when memory runs out: \[ERROR\] disk on fire"):
        initialise(launcher, fake_build(), tmp_path / "data", rundir=tmp_path / "run", log=tmp_path / "logs" / "log")
    assert not (tmp_path / "run").exists()
