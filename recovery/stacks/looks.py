"""How are eu-stack and gdb asked for one look at a process, and what did they say? The parsing is pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from recovery.stacks.snapshot import Stack, nameless, plain_name
from recovery.stacks.symbols import names_of

_MOST_FRAMES = 256
"""As eu-stack has it by itself: a stack that cannot be walked to its end goes round in circles."""
_THREAD = re.compile(r"TID (\d{1,18}):|Thread .*\(LWP (\d{1,18})\b", re.ASCII)
_EU_FRAME = re.compile(r"#\d+\s+0x([0-9a-f]{1,16})")
_GDB_FRAME = re.compile(r"#\d+\s+(?:0x[0-9a-f]+ in )?(\S.*)")
_NAMELESS = re.compile(r"\?\? \(\)(?: from (?:target:)?(.*))?")


class Look(Protocol):
    """A program that stops the server for a moment and prints every thread's stack."""

    program: str

    def command(self, pid: int) -> list[str]: ...
    def stacks(self, pid: int, printed: Sequence[str]) -> list[tuple[Stack, ...]]:
        """Of each look, in order; while the process is still there."""


class EuStack:
    """Asked for bare addresses, a look takes it some milliseconds; their names are looked up once all are taken."""

    program = "eu-stack"

    def command(self, pid: int) -> list[str]:
        return [self.program, "-q", "-p", str(pid)]

    def stacks(self, pid: int, printed: Sequence[str]) -> list[tuple[Stack, ...]]:
        looks = [list(_threads(text, _EU_FRAME)) for text in printed]
        walked = [[(thread.number, _callers(thread.frames)) for thread in threads] for threads in looks]
        names = names_of(pid, {address for threads in walked for _, addresses in threads for address in addresses})
        return [
            tuple(
                Stack(number == pid, tuple(names.get(address, nameless("")) for address in reversed(addresses)))
                for number, addresses in threads
                if addresses
            )
            for threads in walked
        ]


class Gdb:
    """Reads all symbols at every look: one takes it a second or more, in which the server stands still."""

    program = "gdb"

    def command(self, pid: int) -> list[str]:
        # Nothing that lies beside the server's files is run, whatever they say.
        return [
            self.program, "-nx", "-batch", "-iex", "set auto-load off",
            "-iex", f"set backtrace limit {_MOST_FRAMES}", "-p", str(pid),
            "-ex", "thread apply all bt -frame-arguments none",
        ]  # fmt: skip

    def stacks(self, pid: int, printed: Sequence[str]) -> list[tuple[Stack, ...]]:
        return [
            tuple(
                Stack(thread.number == pid, tuple(map(_gdb_name, reversed(thread.frames))))
                for thread in _threads(text, _GDB_FRAME)
                if thread.frames
            )
            for text in printed
        ]


@dataclass
class _Thread:
    number: int
    frames: list[str]
    """Innermost first."""


def _threads(text: str, frame: re.Pattern[str]) -> Iterator[_Thread]:
    thread: _Thread | None = None
    for line in text.splitlines():
        if found := _THREAD.match(line):
            if thread is not None:
                yield thread
            thread = _Thread(int(found[1] or found[2]), [])
        elif thread is not None and (found := frame.match(line)):
            thread.frames.append(found[1])
    if thread is not None:
        yield thread


def _callers(addresses: Sequence[str]) -> list[int]:
    """All but the innermost are addresses to return to, which may lie behind the end of the function that called."""
    return [int(address, 16) - (number > 0) for number, address in enumerate(addresses)]


def _gdb_name(frame: str) -> str:
    if found := _NAMELESS.match(frame):
        return nameless(found[1] or "")
    return plain_name(frame)
