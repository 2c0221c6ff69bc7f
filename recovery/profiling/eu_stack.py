"""Builds the eu-stack command and parses its output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recovery.profiling.symbols import Stack, resolve_addresses, unknown_function

PROGRAM = "eu-stack"
_THREAD = re.compile(r"TID (\d{1,18}):", re.ASCII)
_FRAME = re.compile(r"#\d+\s+0x([0-9a-f]{1,16})")


def command(pid: int) -> list[str]:
    """Returns the command for the stack traces of a process.

    It prints only addresses, which takes some milliseconds. The names are resolved once all samples are taken."""
    return [PROGRAM, "-q", "-p", str(pid)]


def resolve_stacks(pid: int, printed: Sequence[str]) -> list[tuple[Stack, ...]]:
    """Returns the stack traces of each sample, given the outputs of eu-stack. The process must still exist."""
    samples = [list(_threads(text)) for text in printed]
    walked = [[(thread.number, _call_addresses(thread.frames)) for thread in threads] for threads in samples]
    names = resolve_addresses(pid, {address for threads in walked for _, addresses in threads for address in addresses})
    return [
        tuple(
            Stack(number == pid, tuple(names.get(address, unknown_function("")) for address in reversed(addresses)))
            for number, addresses in threads
            if addresses
        )
        for threads in walked
    ]


@dataclass
class _Thread:
    """A thread in the output of eu-stack."""

    number: int
    """The thread ID."""
    frames: list[str]
    """Addresses in hexadecimal, innermost first."""


def _threads(text: str) -> Iterator[_Thread]:
    """Yields the threads in the output of eu-stack for one sample."""
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


def _call_addresses(addresses: Sequence[str]) -> list[int]:
    """Returns addresses that lie in the function of each frame.

    All addresses but the innermost are return addresses, which may lie behind the end of the calling function.
    Therefore 1 is subtracted from them."""
    return [int(address, 16) - (number > 0) for number, address in enumerate(addresses)]
