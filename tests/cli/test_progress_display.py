"""The live view fits its terminal, messages reach their reader, and the state is stored as it changes."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import pytest
from planned_progress import NEW, PLANNED, after, at, run_of, trials
from terminals import STYLES, Emulator
from waiting import until

from recovery.cli import progress_view
from recovery.cli.progress_view import (
    FAINT,
    STRONG,
    Line,
    ProgressDisplay,
    Screen,
    current_activity,
    live_view,
    status_page,
)
from recovery.errors import RecoveryError
from recovery.logs.phases import CurrentPhase
from recovery.model import Status, Verdict
from recovery.session.progress import Progress, ProgressSnapshot, from_json, report_build
from recovery.workload.build import BuildInterruptedError

# --- The lines of the live view


def measuring(phase: CurrentPhase | None = None) -> ProgressSnapshot:
    progress = after(PLANNED, 10.0, 6.0, 8.0, 4.0).trial_began(3000.0, trials()[4])
    return at(progress.doing(3010.0, "timed start"), 3055.0, phase or CurrentPhase("validation", 3017.0))


def texts(found: ProgressSnapshot, width: int = 80, height: int = 24) -> list[str]:
    return [line.text for line in live_view(found, width, height)]


def test_a_trial_is_shown_with_the_results_so_far() -> None:
    assert texts(measuring()) == [
        "crash-recovery: 4 of 8 runs done, 34 min so far, about 7 min left",
        "[5/8] 5.7.22 cold 2 of 2, run 5: timed start 45 s, validation 38 s",
        "5.7.22 cold  1/2  mean 5.00 s  last 5.00 s",
        "5.7.22 warm  1/2  mean 3.00 s  last 3.00 s",
        "8.0.31 cold  1/2  mean 4.00 s  last 4.00 s",
        "8.0.31 warm  1/2  mean 2.00 s  last 2.00 s",
    ]
    assert "nearly done" in texts(replace(measuring(), left_s=0.0))[0]
    failed = replace(measuring().cells[0], mean=None, last=None, failed=2)
    shown = texts(replace(measuring(), cells=(failed,)))
    assert shown[-1] == "5.7.22 cold  1/2  mean - s  last - s  2 failed"


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (CurrentPhase(None, 3010.0), "timed start 45 s, nothing in the log yet"),
        (
            CurrentPhase("discovery", 3011.0, "Checked 15615/20298"),
            "timed start 45 s, discovery 44 s (Checked 15615/20298)",
        ),
        (CurrentPhase("validation", 3017.0, left_s=12.4), "timed start 45 s, validation 38 s, about 12 s left"),
    ],
)
def test_the_phase_is_shown_as_far_as_it_is_known(phase: CurrentPhase, words: str) -> None:
    assert current_activity(measuring(phase)).endswith(words)


def test_a_build_is_shown_with_its_progress() -> None:
    building = PLANNED.build_began(1000.0, "5.7.22: 9 tables")
    assert current_activity(at(building, 1004.0)) == "5.7.22: 9 tables: making the data directory, 4 s"
    building = building.built(1010.0, 0, 200_000).built(1074.0, 64_000, 200_000)
    assert texts(at(building, 1074.0))[1:] == [
        "5.7.22: 9 tables: 64,000 of 200,000, 1,000/s, 2 min left",
        "[#######-----------------]",
    ]
    assert current_activity(at(building.built(1200.0, 200_000, 200_000), 1201.0)).endswith("built, being checked")


@pytest.mark.parametrize("width", [1, 12, 20, 39, 40, 79, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 23])
def test_the_view_fits_any_terminal(width: int, height: int) -> None:
    lines = texts(measuring(), width, height)
    assert 1 <= len(lines) <= height
    assert max(map(len, lines)) <= max(12, width)


def test_no_control_character_reaches_the_terminal() -> None:
    evil = replace(measuring(), told="\x1b]0;mine\x07", step="\x1b[2Jx\u202e")
    assert all(text.isprintable() for text in texts(evil))


def test_the_page_of_recovery_status() -> None:
    lines = list(status_page(measuring(), running=True))
    assert lines[0] == "crash-recovery of 5.7.22 8.0.31: pid 7, since 2026-01-01 00:00:00 UTC"
    assert lines[2] == "  measuring: [5/8] 5.7.22 cold 2 of 2, run 5: timed start 45 s, validation 38 s"
    assert lines[-1] == "  results go to /results"
    lines = list(status_page(replace(measuring(), status=Status.KILLED), running=False))
    assert lines[0] == "no session is running"
    assert "killed after 34 min" in lines[1]
    assert lines[-1] == "  results are in /results"


# --- What the display prints and stores during a session

Make = Callable[..., tuple[ProgressDisplay, io.StringIO]]


@dataclass
class Clock:
    """It stands still until a test moves it."""

    now_s: float = 3000.0
    asked: int = 0

    def monotonic(self) -> float:
        self.asked += 1
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Returns when the display has seen the new time: each refresh asks two or three times."""
        self.now_s += seconds
        before = self.asked
        until(lambda: self.asked >= before + 6, "a refresh of the display")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress_view, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


@pytest.fixture
def records() -> list[ProgressSnapshot]:
    return []


@pytest.fixture
def make(records: list[ProgressSnapshot], clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a display that looks at its clock a hundred times a second."""
    monkeypatch.setattr(progress_view, "REFRESH_EVERY_S", 0.01)

    def keep(text: str) -> None:
        snapshot = from_json(text)
        assert snapshot is not None
        records.append(snapshot)

    def made(progress: Progress = PLANNED, *, quiet: bool = False) -> tuple[ProgressDisplay, io.StringIO]:
        stream = io.StringIO()
        return ProgressDisplay(progress, screen=Screen(stream), record=keep, quiet=quiet), stream

    return made


def run_a_trial(display: ProgressDisplay, clock: Clock, *pauses_s: float) -> None:
    trial, began_s = trials()[0], clock.now_s
    display.event(Progress.trial_began, trial)
    display.event(Progress.doing, "timed start")
    display.follow(lambda _: CurrentPhase("validation", began_s))
    for seconds in pauses_s:
        clock.advance(seconds)
    display.trial_ended(run_of(trial))


def test_a_long_start_is_reported_every_16_seconds(make: Make, clock: Clock, records: list[ProgressSnapshot]) -> None:
    display, stream = make()
    with display.active():
        run_a_trial(display, clock, 14, 2, 14, 2)
    assert stream.getvalue().splitlines() == [
        "[1/8] 5.7.22 cold 1 of 2, run 1: timed start 16 s, validation 16 s",
        "[1/8] 5.7.22 cold 1 of 2, run 1: timed start 32 s, validation 32 s",
        "[1/8] 5.7.22 cold 1 of 2, run 1: 40.00 s",
    ]
    assert any(one.phase == "validation" for one in records)
    assert (records[-1].status, records[-1].owner) == (Status.FINISHED, "mark")


def test_the_state_is_stored_at_each_stage_and_once_a_second(
    make: Make, clock: Clock, records: list[ProgressSnapshot]
) -> None:
    display, _ = make()
    stored = []
    with display.active():
        for seconds in (0, 0.9, 0.2, 0.5):
            clock.advance(seconds)
            stored.append(len(records))
        display.event(Progress.trial_began, trials()[0])
        clock.advance(0)
        stored.append(len(records))
    assert stored == [1, 1, 2, 2, 3]
    assert records[-2].trial is not None


def test_a_quiet_session_prints_failures_and_warnings_alone(
    make: Make, clock: Clock, records: list[ProgressSnapshot]
) -> None:
    display, stream = make(quiet=True)
    with display.active():
        display.say("a message")
        run_a_trial(display, clock, 60)
        display.warn("this is not well")
        failed = replace(run_of(trials()[1], None, Verdict.FAILED), reason="it did not start")
        display.trial_ended(failed)
    assert stream.getvalue().splitlines() == [
        "this is not well",
        "[2/8] 5.7.22 warm 1 of 2, run 2: FAILED: it did not start",
    ]
    assert records, "the state is stored all the same"


def test_a_build_is_reported_and_nothing_before_it(make: Make, clock: Clock) -> None:
    display, stream = make(NEW)
    with display.active():
        clock.advance(60)
        assert stream.getvalue() == ""
        with report_build(display, "5.7.22: 9 tables") as progress:
            progress(0, 10)
            clock.advance(5)
            progress(5, 10)
            clock.advance(16)
    assert "5.7.22: 9 tables: 5 of 10, " in stream.getvalue()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), Status.INTERRUPTED),
        (BuildInterruptedError(3), Status.INTERRUPTED),
        (RecoveryError("no"), Status.ABORTED),
        (OSError("no"), Status.ABORTED),
    ],
)
def test_the_last_state_says_how_the_session_ended(
    error: BaseException, status: Status, make: Make, records: list[ProgressSnapshot]
) -> None:
    display, _ = make()
    with pytest.raises(type(error)), display.active():
        raise error
    assert records[-1].status is status


# --- Drawing on a terminal, whose contents an emulator gives


class Terminal:
    def __init__(self) -> None:
        self._reader, writer = pty.openpty()
        self.stream: TextIO = os.fdopen(writer, "w", encoding="utf-8")
        self.output = ""
        self.resize(80)

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._reader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self) -> str:
        os.set_blocking(self._reader, False)
        with suppress(BlockingIOError):
            while read := os.read(self._reader, 65536):
                self.output += read.decode()
        return self.output

    def close(self) -> None:
        self.stream.close()
        os.close(self._reader)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    opened = Terminal()
    yield opened
    opened.close()


def test_lines_are_replaced_and_messages_scroll_above(terminal: Terminal) -> None:
    screen = Screen(terminal.stream)
    assert screen.live
    screen.draw([Line("one"), Line("two", STRONG), Line("three")])
    screen.say("a message")
    screen.draw([Line("four", FAINT)])
    shown = Emulator(80).feed(terminal.read())
    assert shown.lines == ["a message", "four"]
    assert not shown.cursor_shown
    screen.clear()
    shown = Emulator(80).feed(terminal.read())
    assert shown.lines == ["a message"]
    assert shown.cursor_shown


def test_a_session_that_waits_shows_the_time_left_of_the_other(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_view, "RECORD_EVERY_S", 0.01)
    other = [measuring()]
    display = ProgressDisplay(NEW, screen=Screen(terminal.stream), find_running=lambda: other[0])

    def shown() -> list[str]:
        return Emulator(80).feed(terminal.read()).lines

    with display.waiting("pid 7"):
        first = (
            "waiting for another timed run: pid 7; crash-recovery: 4 of 8 runs done, 34 min so far, about 7 min left"
        )
        assert "".join(shown()).startswith(first)
        until(lambda: shown()[-1].startswith("waiting for crash-recovery: 4 of 8 runs done"), "the line below it")
        other[0] = replace(other[0], left_s=90.0)
        until(lambda: shown()[-1].endswith("about 90 s left"), "a later time")
    assert "".join(shown()) == first
    assert Emulator(80).feed(terminal.read()).cursor_shown


def test_a_session_that_waits_without_a_terminal_says_so_now_and_then(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_view, "RECORD_EVERY_S", 0.01)
    other, stream = [measuring()], io.StringIO()
    display = ProgressDisplay(NEW, screen=Screen(stream), find_running=lambda: other[0])
    with display.waiting("pid 7"):
        other[0] = replace(other[0], left_s=90.0)
        clock.now_s += 16
        until(lambda: stream.getvalue().count("\n") == 2, "the second line")
    first, second = stream.getvalue().splitlines()
    assert first.endswith("about 7 min left")
    assert second.endswith("about 90 s left")
    quiet = ProgressDisplay(NEW, screen=Screen(stream), find_running=lambda: other[0], quiet=True)
    with quiet.waiting("pid 7"):
        pass
    assert stream.getvalue().count("\n") == 2


def test_nothing_is_drawn_after_the_end(terminal: Terminal) -> None:
    """By a thread that was about to, say."""
    screen = Screen(terminal.stream)
    screen.draw([Line("one")])
    screen.close()
    screen.draw([Line("two")])
    screen.say("a message")
    shown = Emulator(80).feed(terminal.read())
    assert shown.lines == ["a message"]
    assert shown.cursor_shown


def test_a_terminal_that_became_narrower_has_folded_what_was_drawn(terminal: Terminal) -> None:
    screen = Screen(terminal.stream)
    screen.say("kept")
    screen.draw([Line("x" * 70), Line("y" * 30)])
    before = len(terminal.read())
    terminal.resize(40)
    screen.draw([Line("z")])
    # Two rows and one: as terminals fold them.
    assert terminal.read()[before:].startswith("\x1b[3A")
    folded = Emulator(40).feed(f"kept\n{'x' * 70}\n{'y' * 30}\n" + terminal.read()[before:])
    assert folded.lines == ["kept", "z"]


def test_no_color(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen(terminal.stream)
    screen.draw([Line("one", STRONG)])
    screen.say("a message", FAINT)
    assert screen.live
    assert not STYLES.search(terminal.read())


@pytest.mark.parametrize("name", ["dumb", "unknown", ""])
def test_a_terminal_without_capabilities_gets_plain_lines(
    name: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", name)
    screen = Screen(terminal.stream)
    screen.draw([Line("one", STRONG)])
    screen.say("a message", FAINT)
    screen.clear()
    assert terminal.read() == "a message\r\n"


def test_a_file_gets_plain_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with (tmp_path / "err").open("w") as file:
        screen = Screen(file)
        screen.draw([Line("one", STRONG)])
        screen.say("a \x1b[31mred message", FAINT)
        screen.clear()
    assert (tmp_path / "err").read_text() == "a ?[31mred message\n"


def test_a_stream_without_reader_or_without_file_is_ignored() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        screen = Screen(stream)
        os.close(reader)
        for _ in range(3):
            screen.say("nobody reads it")
        stream.write("nor this")
        stream.flush()
    for screen in (Screen(stream), Screen(None)):
        assert not screen.live
        screen.say("nobody reads it")
        screen.draw([Line("one")])
        screen.clear()
        assert screen.size == (80, 24)


_PROGRAM = """
import atexit, os, pathlib, sys
from recovery.cli.main import main
atexit.register(lambda: pathlib.Path("seen").write_text(os.readlink("/proc/self/fd/2")))
sys.argv = ["recovery", "schema", "--tables", "1"]
main()
"""


def test_closed_standard_streams_are_opened_on_nothing(tmp_path: Path) -> None:
    """The next file that is opened must not take the number of standard error, because children write there."""
    (tmp_path / "program.py").write_text(_PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = f"exec {sys.executable} program.py >&- 2>&- <&-"
    assert subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, env=environment, check=False).returncode == 0
    assert (tmp_path / "seen").read_text() == "/dev/null"


def test_the_line_of_a_damaged_server_that_did_not_start_says_what_it_did(make: Make) -> None:
    display, stream = make()
    plan = PLANNED.plan
    assert plan is not None
    display.event(Progress.planned, plan)
    told = {"start": "the server ended with exit code 1", "says": "tablespace is missing"}
    display.trial_ended(replace(run_of(trials()[0], None), observations=told))
    assert stream.getvalue().splitlines() == ["[1/8] 5.7.22 cold 1 of 2, run 1: the server ended with exit code 1"]
