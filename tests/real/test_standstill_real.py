"""Ctrl-Z, a server that somebody stops, a clock that is set: is no figure negative or absurd, and is it said?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sessions import next_server, stored
from terminals import InTerminal
from waiting import until

from recovery.cli.main import run
from recovery.experiments.bench import Bench
from recovery.linux.procfs import is_stopped
from recovery.model import Startup

pytestmark = pytest.mark.real
TABLES, SHARES_DATA = 300, True
MEASURE = ["cold-recovery", "--version", "5.7.22"]
_LONGEST_S = 1800.0
"""Half of what a clock is set by here."""


def absurd(told: Any, name: str = "") -> Iterator[str]:
    """Every duration that is less than none, or longer than any test."""
    if isinstance(told, dict):
        for key, value in told.items():
            yield from absurd(value, key if not isinstance(value, dict | list) or key.endswith("_s") else "")
    elif isinstance(told, list):
        for value in told:
            yield from absurd(value, name)
    elif _is_duration(name) and isinstance(told, int | float) and not 0 <= told < _LONGEST_S:
        yield f"{name}: {told}"


def _is_duration(name: str) -> bool:
    return name.endswith("_s") and not name.endswith("_per_s") and name != "ready_lag_s"


def verdicts(report: dict[str, Any]) -> list[str]:
    return [one["verdict"] for one in report["runs"]]


def test_ctrl_z_in_a_timed_run_makes_it_void(at: list[str], tmp_path: Path) -> None:
    with InTerminal(*MEASURE, "--runs", "3", *at) as terminal:
        terminal.read_until("1 of 3 trials")
        next_server(terminal.pid)
        terminal.suspend()
        os.kill(terminal.pid, signal.SIGCONT)
        assert terminal.wait() == 1
    report = stored(tmp_path)
    assert report["status"] == "finished"
    assert sorted(verdicts(report)) == ["measured", "measured", "void"]
    (void,) = (one for one in report["runs"] if one["verdict"] == "void")
    assert "this tool was stopped meanwhile" in void["reason"]
    assert list(absurd(report)) == []


def test_a_server_that_somebody_stops_for_a_while_has_no_time_of_its_own(at: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recovery", *MEASURE, "--runs", "2", *at]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as program:
        assert program.stderr is not None
        for line in program.stderr:
            if "cold run 1: " in line:
                stop_for_a_moment(next_server(program.pid))
        assert program.wait() == 1
    report = stored(tmp_path)
    assert verdicts(report) == ["measured", "void"]
    assert "somebody stopped the server meanwhile" in report["runs"][1]["reason"]
    assert list(absurd(report)) == []
    assert run(["run", "--resume", "--results", str(tmp_path / "results")]) == 0
    assert verdicts(again := stored(tmp_path)) == ["measured", "measured"]
    assert again["runs"][0] == report["runs"][0]
    assert any("run 2 (5.7.22 cold), which was void: somebody stopped the server" in note for note in again["notes"])


def stop_for_a_moment(server: psutil.Process) -> None:
    server.send_signal(signal.SIGSTOP)
    until(lambda: is_stopped(server.pid), "the stop of the server")
    server.send_signal(signal.SIGCONT)


def test_a_clock_that_is_set_back_and_forth_changes_no_duration(
    at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of each timed start, by an hour. The server goes on with the clock that the host had."""
    clock, timed_start, set_s = time.time, Bench.timed_start, 0.0

    def setting(bench: Bench, log_name: str) -> Startup:
        def set_it(_: object) -> None:
            nonlocal set_s
            set_s = 0.0 if was else -3600.0

        was = set_s
        bench.server.on_line = set_it
        try:
            return timed_start(bench, log_name)
        finally:
            bench.server.on_line = None

    monkeypatch.setattr(time, "time", lambda: clock() + set_s)
    monkeypatch.setattr(Bench, "timed_start", setting)
    assert run([*MEASURE, "--runs", "2", *at]) == 0
    report = stored(tmp_path)
    assert verdicts(report) == ["measured", "measured"]
    assert [one["ready_lag_s"] for one in report["runs"]] == [None, None]
    told = [note for note in report["notes"] if "clock was set" in note]
    assert ["-3600" in told[0], "+3600" in told[1]] == [True, True], told
    assert list(absurd(report)) == []
    for one in report["runs"]:
        ends = [0.0, *(phase["end_s"] for phase in one["phases"])]
        assert [phase["start_s"] for phase in one["phases"]] == pytest.approx(ends[:-1])
        assert ends[-1] == pytest.approx(one["first_query_s"])
