"""How is eu-stack asked for the stacks of a process, and what did it print? The parsing is pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recovery.profiling.symbols import Stack, nameless, names_of

PROGRAM = "eu-stack"
_THREAD = re.compile(r"TID (\d{1,18}):", re.ASCII)
_FRAME = re.compile(r"#\d+\s+0x([0-9a-f]{1,16})")


def command(pid: int) -> list[str]:
    """Asks for bare addresses, which takes some milliseconds; the names are looked up once all samples are taken."""
    return [PROGRAM, "-q", "-p", str(pid)]


def stacks(pid: int, printed: Sequence[str]) -> list[tuple[Stack, ...]]:
    """Of each sample, in order; while the process is still there."""
    samples = [list(_threads(text)) for text in printed]
    walked = [[(thread.number, _callers(thread.frames)) for thread in threads] for threads in samples]
    names = names_of(pid, {address for threads in walked for _, addresses in threads for address in addresses})
    return [
        tuple(
            Stack(number == pid, tuple(names.get(address, nameless("")) for address in reversed(addresses)))
            for number, addresses in threads
            if addresses
        )
        for threads in walked
    ]


@dataclass
class _Thread:
    number: int
    frames: list[str]
    """Innermost first."""


def _threads(text: str) -> Iterator[_Thread]:
    thread: _Thread | None = None
    for line in text.splitlines():
        if found := _THREAD.match(line):
            if thread is not None:
                yield thread
            thread = _Thread(int(found[1]), [])
        elif thread is not None and (found := _FRAME.match(line)):
            thread.frames.append(found[1])
    if thread is not None:
        yield thread


def _callers(addresses: Sequence[str]) -> list[int]:
    """All but the innermost are addresses to return to, which may lie behind the end of the function that called."""
    return [int(address, 16) - (number > 0) for number, address in enumerate(addresses)]
