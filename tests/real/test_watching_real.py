"""A session as it is watched: on a terminal, from another one, and by nobody."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from sessions import stored
from terminals import STYLES, InTerminal, is_suspended

from recovery.phases import ORDER

pytestmark = pytest.mark.real

TABLES = 300
SHARES_DATA = True
MEASURE = ["cold-recovery", "--version", "5.7.22"]


def status() -> dict[str, Any]:
    asked = subprocess.run(
        [sys.executable, "-m", "recovery", "status", "--json"], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(asked.stdout)
    return found


@pytest.mark.alone  # a busy host takes seconds to tell how the session stands, in which it goes on
def test_on_a_terminal_and_from_another_one(at: list[str], tmp_path: Path) -> None:
    with InTerminal(*MEASURE, "--runs", "2", *at) as terminal:
        terminal.read_until("[1/2] 5.7.22 cold run 1: ")
        seen = []
        while terminal.read_for(0.3):
            seen.append(status())
        assert terminal.wait() == 0
        running = [one["session"] for one in seen if one["running"]]
        assert {one["trial"] and one["trial"]["number"] for one in running} & {1, 2}
        assert {one["step"] for one in running} & {
            "starting the server",
            "flushing the caches",
            "inserting",
            "timed start",
        }
        assert running[0]["results"].startswith(str(tmp_path / "results"))
        assert any(cell["ended"] == 1 for one in running for cell in one["cells"])
        assert running[0]["left_s"] > 0
        shown = terminal.output
        assert shown.count("\x1b[J") > 5, "drawn over and over"
        assert any(f", {name} " in shown for name in ORDER), "a phase as the log shows it"
        assert "1 of 2 trials done" in shown
        screen = terminal.screen()
        assert screen.cursor_shown
        left = "\n".join(screen.lines)
        assert "trials done" not in left, "the view is taken away"
        assert "[2/2] 5.7.22 cold run 2: " in left
        assert "stored in" in left
        found = status()
        assert not found["running"]
        assert found["session"]["status"] == "finished"
        assert Path(found["session"]["results"]) == (tmp_path / "results" / "latest").resolve()


def test_ctrl_z_and_ctrl_c_in_a_narrow_terminal_without_colours(at: list[str]) -> None:
    with InTerminal(*MEASURE, "--runs", "50", *at, columns=40, NO_COLOR="1") as terminal:
        terminal.read_until("[1/50] 5.7.22 cold run 1")
        terminal.read_until("1 of 50 trials")
        terminal.type(b"\x1a")
        deadline = time.monotonic() + 20
        while not is_suspended(terminal.pid):
            terminal.read_for(0.05)
            assert time.monotonic() < deadline
        terminal.read_for(0.2)
        assert terminal.screen().cursor_shown
        assert status()["suspended"]
        before = len(terminal.output)
        os.kill(terminal.pid, signal.SIGCONT)
        deadline = time.monotonic() + 20
        while "trials" not in terminal.output[before:]:
            assert terminal.read_for(0.2)
            assert time.monotonic() < deadline, "the view comes back"
        terminal.type(b"\x03")
        assert terminal.wait() == 130
        screen = terminal.screen()
        assert screen.cursor_shown
        left = "\n".join(screen.lines)
        assert "trials done" not in left
        assert "error: interrupted" in left
        watched, _, _ = terminal.output.rpartition("\x1b[?25h")
        assert not STYLES.search(watched)
        assert status()["session"]["status"] == "interrupted"


def test_a_dumb_terminal_and_a_killed_session(at: list[str]) -> None:
    with InTerminal(*MEASURE, "--runs", "50", *at, TERM="dumb") as terminal:
        terminal.read_until("using the data directory")
        while not (running := status())["session"]:
            pass
        assert (running["running"], running["session"]["status"]) == (True, "running")
        servers = psutil.Process(terminal.pid).children(recursive=True)
        os.kill(terminal.pid, signal.SIGKILL)
        assert terminal.wait() == 128 + signal.SIGKILL
        for server in servers:  # the next session would do it
            with contextlib.suppress(psutil.NoSuchProcess):
                server.kill()
        assert "\x1b" not in terminal.output
        found = status()
        assert (found["running"], found["session"]["status"]) == (False, "killed")


def test_who_stops_reading_does_not_end_the_measuring(at: list[str], tmp_path: Path) -> None:
    command = '"$@" 2>&1 | head -1; exit "${PIPESTATUS[0]}"'
    arguments = [sys.executable, "-m", "recovery", *MEASURE, "--runs", "1", *at]
    ended = subprocess.run(["bash", "-c", command, "bash", *arguments], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("$ recovery cold-recovery")
    assert stored(tmp_path)["status"] == "finished"


def test_the_quiet_get_nothing_but_what_they_asked_for(at: list[str]) -> None:
    arguments = [sys.executable, "-m", "recovery", *MEASURE, "--runs", "1", *at, "--quiet", "--json", "-"]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["status"] == "finished"
