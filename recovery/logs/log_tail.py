"""Follows an error log while a server writes it, and records the moment when each line arrives.

Only new bytes are read, however large the log is. A line that is still being written ("Progress in percent: 1 2 3 ..."
grows for minutes) is returned as incomplete each time it has grown, and never held back.
"""

from __future__ import annotations

import codecs
import os
import time
from dataclasses import dataclass
from pathlib import Path

from inotify_simple import INotify, flags

_CHUNK_BYTES = 1 << 18
_MAX_CHUNKS = 16
"""Limit for one read, so that a log of gigabytes is returned in pieces that fit into the memory."""
_LONGEST_LINE_BYTES = 1 << 20
"""Longer lines are cut, so that a log without newlines cannot fill the memory."""
_REMEMBERED_BYTES = 256
"""What is compared with the log at each read: once it was truncated, something else is there, however large it is."""


@dataclass(frozen=True)
class LogLine:
    text: str
    arrived_s: float
    """Moment of the arrival, on the monotonic clock."""
    complete: bool
    wall_s: float = 0.0
    """The same moment on the wall clock, to be compared with the server's own time stamp."""


class LogTail:
    """Follows one file from its first byte, or from the byte `begin`. The file must exist; the server may already be
    writing to it. A file that is truncated, or replaced by a new one of its name, is followed from its first byte."""

    def __init__(self, path: Path, *, begin: int = 0) -> None:
        # The watch is added before the first read, so that nothing is missed. Data written in between is read, and may
        # cause one extra event.
        self._inotify = INotify(nonblocking=True)
        try:
            self._inotify.add_watch(path, flags.MODIFY)
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._inotify.close()
            raise
        self._path = path
        known = min(begin, _REMEMBERED_BYTES)
        self._at, self._before, self._rest = begin, os.pread(self._file, known, begin - known), b""
        self.bytes_read = 0
        self.behind = False
        """Whether the last read left something unread. Then the caller must not wait for more."""

    @property
    def fd(self) -> int:
        """A descriptor that polls readable when the log has grown."""
        return int(self._inotify.fileno())

    def read(self) -> list[LogLine]:
        """Returns the lines that arrived since the last call, at most some megabytes. Does not wait: without new lines
        the result is empty."""
        self._inotify.read(timeout=0)  # the events report only that the file was modified
        lines: list[LogLine] = []
        self.behind = False
        for number in range(_MAX_CHUNKS):
            chunk = self._next_chunk()
            if not chunk and number == 0:
                if not self._was_replaced():
                    return lines
                chunk = self._next_chunk()
            arrived_s, wall_s = time.monotonic(), time.time()
            self.bytes_read += len(chunk)
            *whole, rest = (self._rest + chunk).split(b"\n")
            if len(rest) > _LONGEST_LINE_BYTES:
                whole, rest = [*whole, rest], b""
            lines += [LogLine(_text(raw), arrived_s, complete=True, wall_s=wall_s) for raw in whole]
            self._rest = rest
            if len(chunk) < _CHUNK_BYTES and rest.strip(b"\0"):
                lines.append(LogLine(_text(rest), arrived_s, complete=False, wall_s=wall_s))
            if len(chunk) < _CHUNK_BYTES:
                return lines
        self.behind = True
        return lines

    def _next_chunk(self) -> bytes:
        """Returns what follows the bytes that were read last or, once these are not there any more, the first bytes of
        a log that was truncated. A program that does not append leaves a hole before what it writes after that."""
        known = self._before
        found = os.pread(self._file, len(known) + _CHUNK_BYTES, self._at - len(known))
        if not found.startswith(known) and found[: len(known)] != bytes(len(known)):
            self._begin()
            known, found = b"", os.pread(self._file, _CHUNK_BYTES, 0)
        chunk = found[len(known) :]
        self._at += len(chunk)
        self._before = found[-_REMEMBERED_BYTES:]
        return chunk

    def _was_replaced(self) -> bool:
        """Returns whether there is another file of this name, and goes to its beginning."""
        try:
            if os.path.samestat(os.fstat(self._file), self._path.stat()):
                return False
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self._inotify.add_watch(self._path, flags.MODIFY)
        except OSError:  # renamed, and not yet there again
            return False
        os.close(self._file)
        self._file = file
        self._begin()
        return True

    def _begin(self) -> None:
        self._at, self._before, self._rest = 0, b"", b""

    def is_at(self, path: Path) -> bool:
        """Returns whether this path leads to the followed file, or to none."""
        try:
            return os.path.samestat(os.fstat(self._file), path.stat())
        except OSError:
            return True

    def __enter__(self) -> LogTail:
        return self

    def __exit__(self, *_: object) -> None:
        self._inotify.close()
        os.close(self._file)


def _text(raw: bytes) -> str:
    """Returns a line in UTF-8, or one that PowerShell wrote in UTF-16: its ASCII, without the bytes that are zero."""
    if b"\0" in raw:
        raw = raw.removeprefix(codecs.BOM_UTF16_LE).removeprefix(codecs.BOM_UTF16_BE).replace(b"\0", b"")
    return raw.decode("utf-8", errors="replace").rstrip("\r")


_TAIL_BYTES = 65536


def last_lines(path: Path, count: int = 15) -> tuple[str, ...]:
    """Returns the last lines of a log without reading the rest of it; empty if the log cannot be read."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - _TAIL_BYTES))
            return tuple(_text(raw) for raw in log.read().splitlines()[-count:])
    except OSError:
        return ()
