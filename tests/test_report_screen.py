"""Are lines drawn over themselves and nothing else? In a real terminal, whose reader sees it through an emulator."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest
from terminals import STYLES, Emulator

from recovery.cli.progress_view import FAINT, STRONG, Line, Screen


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


def test_after_the_end_nothing_is_drawn_any_more(terminal: Terminal) -> None:
    """By a thread that was about to, say."""
    screen = Screen(terminal.stream)
    screen.draw([Line("one")])
    screen.close()
    screen.draw([Line("two")])
    screen.say("a message")
    shown = Emulator(80).feed(terminal.read())
    assert shown.lines == ["a message"]
    assert shown.cursor_shown


def test_what_has_not_changed_is_not_drawn_again(terminal: Terminal) -> None:
    screen = Screen(terminal.stream)
    screen.draw([Line("one")])
    before = terminal.read()
    screen.draw([Line("one")])
    assert terminal.read() == before


def test_a_message_that_is_longer_than_a_row(terminal: Terminal) -> None:
    screen = Screen(terminal.stream)
    screen.draw([Line("drawn")])
    screen.say("m" * 200)
    screen.draw([Line("later")])
    assert Emulator(80).feed(terminal.read()).lines == ["m" * 80, "m" * 80, "m" * 40, "later"]


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


def test_no_colour(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen(terminal.stream)
    screen.draw([Line("one", STRONG)])
    screen.say("a message", FAINT)
    assert screen.live
    assert not STYLES.search(terminal.read())


@pytest.mark.parametrize("name", ["dumb", "unknown", ""])
def test_a_terminal_that_can_do_nothing_gets_plain_lines(
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


def test_whoever_stops_reading_ends_nothing() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        screen = Screen(stream)
        os.close(reader)
        for _ in range(3):
            screen.say("nobody hears it")
        stream.write("nor this")
        stream.flush()


def test_a_stream_that_is_closed_or_never_was() -> None:
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w")
    stream.close()
    for screen in (Screen(stream), Screen(None)):
        assert not screen.live
        screen.say("nobody hears it")
        screen.draw([Line("one")])
        screen.clear()
        assert screen.size == (80, 24)
    os.close(reader)


_LOOKS = """
import atexit, os, pathlib, sys
from recovery.cli.main import main
atexit.register(lambda: pathlib.Path("seen").write_text(os.readlink("/proc/self/fd/2")))
sys.argv = ["recovery", "schema", "--tables", "1"]
main()
"""


def test_closed_streams_are_opened_on_nothing(tmp_path: Path) -> None:
    """What is opened next must not take the number of standard error, for children write there."""
    (tmp_path / "looks.py").write_text(_LOOKS)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    command = f"exec {sys.executable} looks.py >&- 2>&- <&-"
    assert subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, env=environment, check=False).returncode == 0
    assert (tmp_path / "seen").read_text() == "/dev/null"
