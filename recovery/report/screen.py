"""Who holds standard error? Messages that scroll, and under them lines that are drawn over themselves on a terminal.

Not rich's Live: it lays its lines out anew at every refresh, and leaves some behind where a terminal has become
narrower. Whoever stops reading (`2>&1 | head`, a closed terminal) must not end hours of measuring."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

from recovery.report.watching import FAINT, STRONG, Line, harmless

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_STYLES = {STRONG: "1", FAINT: "2"}
_DEFAULT_SIZE = (80, 24)


class Screen:
    """May be written to by several threads."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._drawn: tuple[Line, ...] = ()
        self._hidden = False
        """The cursor."""
        self.live = _is_terminal(stream)
        self._colours = self.live and not os.environ.get("NO_COLOR")

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, as they are now."""
        with suppress(OSError, ValueError, AttributeError):
            found = os.get_terminal_size(self._stream.fileno())  # type: ignore[union-attr]
            if found.columns and found.lines:
                return found.columns, found.lines
        return _DEFAULT_SIZE

    def say(self, text: str, style: str = "") -> None:
        """Above what is drawn. A terminal folds it itself, so that it can be copied as one line."""
        with self._lock:
            drawn = self._drawn
            self._write(self._erased() + self._styled(Line(harmless(text), style)) + "\n" + self._lines(drawn))

    def draw(self, lines: Sequence[Line]) -> None:
        """Instead of what was drawn before. Not while another program has the terminal: its lines are not ours."""
        with self._lock:
            if not self.live or tuple(lines) == self._drawn:
                return
            if not self._in_front():
                self._drawn = ()
                return
            erased = self._erased() if self._hidden else _HIDE
            self._hidden = True
            self._write(erased + self._lines(tuple(lines)))

    def leave(self) -> None:
        """Takes away what is drawn, and gives the cursor back."""
        with self._lock:
            if self._hidden:
                self._hidden = False
                self._write(self._erased() + _SHOW)

    def close(self) -> None:
        """Nothing is drawn any more; messages still are written."""
        with self._lock:
            self.leave()
            self.live = False

    @contextmanager
    def given_back_when_suspended(self) -> Iterator[None]:
        """Ctrl-Z must not leave a terminal without a cursor; the next drawing brings it all back."""
        main = threading.current_thread() is threading.main_thread()
        if not self.live or not main or signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:
            yield
            return

        def stop(number: int, _: FrameType | None) -> None:
            with self._lock:  # until it goes on: nobody may draw between the leaving and the stop
                self.leave()
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
                signal.signal(number, stop)

        signal.signal(signal.SIGTSTP, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    def _erased(self) -> str:
        """Where the terminal has become narrower, a line lies in several rows by now."""
        columns, _ = self.size
        rows = sum(max(1, -(-len(line.text) // columns)) for line in self._drawn)
        self._drawn = ()
        return f"\x1b[{rows}A\r\x1b[J" if rows else ""

    def _lines(self, lines: tuple[Line, ...]) -> str:
        self._drawn = lines
        return "".join(self._styled(line) + "\n" for line in lines)

    def _styled(self, line: Line) -> str:
        code = _STYLES.get(line.style)
        return f"\x1b[{code}m{line.text}\x1b[0m" if code and self._colours else line.text

    def _in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()  # type: ignore[union-attr]
        except OSError:  # a terminal, but not the one that controls us
            return True

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                # What is still in its buffer goes there too, be it when the interpreter ends.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)
            self.live, self._stream = False, None


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
    except ValueError:  # closed
        return False
