"""Ctrl-Z, a stopped server, a clock that is set: the run is void or noted, and no duration is implausible."""

from __future__ import annotations

import os
import signal
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
from recovery.model import Measurement
from recovery.storage.sessions import load_session

pytestmark = pytest.mark.real
TABLES, SHARES_DATA = 300, True
MEASURE = ["cold-recovery", "--version", "5.7.22"]
_LONGEST_S = 1800.0
"""Half of what a clock is set by here."""


def implausible(stored_value: Any, name: str = "") -> Iterator[str]:
    """Every duration that is negative, or longer than any test."""
    if isinstance(stored_value, dict):
        for key, value in stored_value.items():
            yield from implausible(value, key if not isinstance(value, dict | list) or key.endswith("_s") else "")
    elif isinstance(stored_value, list):
        for value in stored_value:
            yield from implausible(value, name)
    elif _is_duration(name) and isinstance(stored_value, int | float) and not 0 <= stored_value < _LONGEST_S:
        yield f"{name}: {stored_value}"


def _is_duration(name: str) -> bool:
    return name.endswith("_s") and not name.endswith("_per_s") and name != "ready_lag_s"


def verdicts(report: dict[str, Any]) -> list[str]:
    return [one["verdict"] for one in report["runs"]]


def test_runs_with_a_stopped_server_or_tool_are_void(at: list[str], tmp_path: Path) -> None:
    with InTerminal(*MEASURE, "--runs", "3", *at) as terminal:
        terminal.read_until("1 of 3 runs")
        stop_for_a_moment(next_server(terminal.pid))
        # After a void run a server is started between two runs, too.
        terminal.read_until("[3/3] 5.7.22 cold 3 of 3, run 3: ")
        next_server(terminal.pid, of_all=True)
        terminal.suspend()
        os.kill(terminal.pid, signal.SIGCONT)
        assert terminal.wait() == 1
    report = stored(tmp_path)
    assert report["status"] == "finished"
    assert verdicts(report) == ["measured", "void", "void"]
    reasons = [one["reason"] for one in report["runs"]]
    assert "somebody stopped the server meanwhile" in reasons[1]
    assert "this tool was stopped meanwhile" in reasons[2]
    again = [one.measure_again for one in load_session(tmp_path / "results" / "latest").runs]
    assert again == [False, True, True], "what a resumed session measures again"
    assert list(implausible(report)) == []


def stop_for_a_moment(server: psutil.Process) -> None:
    server.send_signal(signal.SIGSTOP)
    until(lambda: is_stopped(server.pid), "the stop of the server")
    server.send_signal(signal.SIGCONT)


def test_a_clock_that_is_set_back_and_forth_changes_no_duration(
    at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an hour, in the middle of each timed start. The server keeps the clock of the host."""
    clock, timed_start, set_s = time.time, Bench.timed_start, 0.0

    def setting(bench: Bench, log_name: str) -> Measurement:
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
    notes = [note for note in report["notes"] if "clock was set" in note]
    assert ["-3600" in notes[0], "+3600" in notes[1]] == [True, True], notes
    assert list(implausible(report)) == []
    for one in report["runs"]:
        ends = [0.0, *(phase["end_s"] for phase in one["phases"])]
        assert [phase["start_s"] for phase in one["phases"]] == pytest.approx(ends[:-1])
        assert ends[-1] == pytest.approx(one["first_query_s"])
