"""A session on a terminal, as another terminal sees it, and with a reader that goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from sessions import stopped_at_a_start, stored
from terminals import STYLES, InTerminal
from waiting import until

from recovery.phase_table import ORDER

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


STEPS = {"starting the server", "flushing the caches", "inserting", "timed start"}


def test_a_narrow_terminal_without_colours_keeps_only_the_lines_of_a_finished_session(
    at: list[str], tmp_path: Path
) -> None:
    with InTerminal(*MEASURE, "--runs", "1", *at, columns=40, NO_COLOR="1") as terminal:
        assert terminal.wait() == 0
    screen = terminal.screen()
    assert screen.cursor_shown
    left = "\n".join(screen.lines)
    assert "runs done" not in left, "the view is removed"
    assert "[1/1] 5.7.22 cold 1 of 1, run 1: " in left
    assert "report: " in left
    watched, _, _ = terminal.output.rpartition("\x1b[?25h")
    assert watched
    assert not STYLES.search(watched)
    found = status()
    assert not found["running"]
    assert found["session"]["status"] == "finished"
    assert Path(found["session"]["results"]) == (tmp_path / "results" / "latest").resolve()


def test_status_from_another_terminal_suspension_and_ctrl_c(at: list[str], tmp_path: Path) -> None:
    """For as many runs as it takes to see a phase, which is short."""
    with InTerminal(*MEASURE, "--runs", "50", *at) as terminal:
        terminal.read_until("[1/50] 5.7.22 cold 1 of 50, run 1: ")

        def within_a_trial() -> dict[str, Any] | None:
            terminal.read_for(0)
            found = status()["session"]
            trial = found["trial"]
            return found if trial and trial["number"] > 1 and found["step"] in STEPS else None

        running = until(within_a_trial, "a step of a later trial")
        assert running["results"].startswith(str(tmp_path / "results"))
        assert any(cell["ended"] for cell in running["cells"])
        assert running["left_s"] > 0

        def phase_is_shown() -> bool:
            terminal.read_for(0)
            return any(f", {name} " in terminal.output for name in ORDER)

        until(phase_is_shown, "a phase as the log shows it")
        terminal.read_until("\x1b[J", after=len(terminal.output))  # it is drawn again
        assert " of 50 runs done" in terminal.output

        terminal.suspend()
        assert terminal.screen().cursor_shown
        assert status()["suspended"]
        before = len(terminal.output)
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.read_until("runs done", after=before)  # the view comes back
        terminal.type(b"\x03")
        assert terminal.wait() == 130, terminal.output[-3000:]
        screen = terminal.screen()
        assert screen.cursor_shown
        left = "\n".join(screen.lines)
        assert "runs done" not in left, "the view is removed"
        assert "error: interrupted" in left
        assert status()["session"]["status"] == "interrupted"


def test_status_shows_a_killed_session(at: list[str]) -> None:
    with InTerminal(*MEASURE, "--runs", "50", *at, TERM="dumb") as terminal:
        running = until(lambda: found if (found := status())["session"] else None, "the session to be shown")
        assert running["session"]["status"] == "running"
        server = stopped_at_a_start(terminal.pid)
        os.kill(terminal.pid, signal.SIGKILL)
        assert terminal.wait() == 128 + signal.SIGKILL
        with suppress(psutil.NoSuchProcess):
            server.kill()  # as the next session does, which may be another test's
        assert "\x1b" not in terminal.output, "a dumb terminal gets plain lines"
        found = status()
        assert (found["running"], found["session"]["status"]) == (False, "killed")


# Pure tests close one stream at a time.
@pytest.mark.on_demand("large")
def test_a_reader_that_goes_away_does_not_end_the_session(at: list[str], tmp_path: Path) -> None:
    command = '"$@" 2>&1 | head -1; exit "${PIPESTATUS[0]}"'
    arguments = [sys.executable, "-m", "recovery", *MEASURE, "--runs", "1", *at]
    ended = subprocess.run(["bash", "-c", command, "bash", *arguments], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("$ recovery cold-recovery")
    assert stored(tmp_path)["status"] == "finished"
