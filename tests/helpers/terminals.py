"""A terminal for tests: what a program has drawn there, as one would see it, and a real one to start programs in."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from waiting import until

from recovery.linux.procfs import is_stopped

_PARTS = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")
STYLES = re.compile(r"\x1b\[[\d;]*m")


class Emulator:
    """Knows what this tool uses, and refuses everything else. Scrolls without end."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[str] = [""]
        self.row = self.column = 0
        self.cursor_shown = True

    def feed(self, text: str) -> Emulator:
        at = 0
        for match in _PARTS.finditer(text):
            assert match.start() == at, repr(text[at : match.start() + 10])
            at = match.end()
            private, numbers, letter, home, down, words = match.groups()
            if letter:
                self._control(private, numbers, letter)
            elif home:
                self.column = 0
            elif down:
                self._down()
                self.column = 0  # as a terminal's driver does
            else:
                self._write(words)
        return self

    @property
    def lines(self) -> list[str]:
        return [row.rstrip() for row in self.rows if row.strip()]

    def _control(self, private: str, numbers: str, letter: str) -> None:
        if private:
            assert numbers == "25", numbers
            self.cursor_shown = letter == "h"
        elif letter == "A":
            self.row -= int(numbers)
            assert self.row >= 0, "drawn above the top"
        elif letter == "J":
            assert not numbers
            del self.rows[self.row + 1 :]
            self.rows[self.row] = self.rows[self.row][: self.column]
        else:
            assert letter == "m", letter

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")

    def _write(self, words: str) -> None:
        for letter in words:
            if self.column == self.columns:
                self._down()
                self.column = 0
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + letter + row[self.column + 1 :]
            self.column += 1


class InTerminal:
    """`recovery` in a terminal of its own, which also controls it: Ctrl-C is typed."""

    def __init__(self, *arguments: str, columns: int = 80, **environment: str) -> None:
        self.columns = columns
        self.output = ""
        self._leader, self._file = pty.fork()
        if self._leader == 0:
            _lead([sys.executable, "-m", "recovery", *arguments], {**os.environ, "TERM": "xterm", **environment})
        self.resize(columns)
        self.pid = self._program()

    def __enter__(self) -> InTerminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:  # the test has failed half-way
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def _program(self) -> int:
        children = Path(f"/proc/{self._leader}/task/{self._leader}/children")
        return int(until(lambda: children.read_text().split(), "the program")[0])

    def resize(self, columns: int) -> None:
        self.columns = columns
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, key: bytes) -> None:
        os.write(self._file, key)

    def read_for(self, seconds: float) -> bool:
        """False once the program has ended and all was read."""
        if not select.select([self._file], [], [], seconds)[0]:
            return True
        try:
            read = os.read(self._file, 65536)
        except OSError:  # nobody has the terminal open any more
            return False
        self.output += read.decode("utf-8", errors="replace")
        return bool(read)

    def read_until(self, words: str, *, after: int = 0) -> None:
        """For as long as that takes: there may be tables to build before."""
        while words not in self.output[after:]:
            assert self.read_for(0.2), self.output

    def suspend(self) -> None:
        """Types Ctrl-Z, and reads what the program writes until it is suspended."""
        self.type(b"\x1a")
        until(lambda: self.read_for(0) and is_stopped(self.pid), "the suspension")
        while select.select([self._file], [], [], 0)[0] and self.read_for(0):
            pass

    def wait(self) -> int:
        """The exit code, as a shell tells it, when everything has been read."""
        while self.read_for(60):
            pass
        _, status = os.waitpid(self._leader, 0)
        os.close(self._file)
        self._file = -1
        return os.waitstatus_to_exitcode(status)

    def screen(self) -> Emulator:
        return Emulator(self.columns).feed(self.output)


def _lead(command: list[str], settings: dict[str, str]) -> NoReturn:
    """As a shell does: the program gets the terminal and a process group of its own, in which it can be suspended."""
    program = os.fork()
    if program == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execve(command[0], command, settings)  # noqa: S606
    _, status = os.waitpid(program, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)
