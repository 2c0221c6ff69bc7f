"""Is it noticed that this process was stopped, and is a clock that was set told apart from time that went by?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from recovery.linux.signals import ClockGuard

STOPPED = """
import sys, time
from recovery.linux.signals import ClockGuard, count_resumes
count_resumes()
meanwhile = ClockGuard()
print("ready", flush=True)
sys.stdin.readline()
print(meanwhile.pause(), flush=True)
"""


def test_time_that_goes_by_is_no_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour, by every clock."""
    meanwhile, wall, clock, monotonic = ClockGuard(), time.time, time.clock_gettime, time.monotonic
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: wall() + 3600)
        patch.setattr(time, "clock_gettime", lambda which: clock(which) + 3600)
        patch.setattr(time, "monotonic", lambda: monotonic() + 3600)
        told = meanwhile.pause(), meanwhile.clock_set_s()
    assert told == (None, None)


def test_a_process_that_was_stopped_says_so() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "ready\n"
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        os.kill(child.pid, signal.SIGCONT)
        child.stdin.write("\n")
        child.stdin.flush()
        assert "this tool was stopped meanwhile" in child.stdout.readline()


def test_a_clock_that_was_set_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile, now = ClockGuard(), time.time
    monkeypatch.setattr(time, "time", lambda: now() - 3600)
    assert meanwhile.clock_set_s() == pytest.approx(-3600, abs=1)
    assert meanwhile.pause() is None


def test_a_host_that_slept_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile, clock = ClockGuard(), time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda which: clock(which) + 90)
    assert meanwhile.pause() == "the host slept for 90 s meanwhile"
