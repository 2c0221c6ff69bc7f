"""Builds the eu-stack command and parses its output."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
    samples = [_threads(text) for text in printed]
    names = resolve_addresses(
        pid, {address for threads in samples for frames in threads.values() for address in frames}
    )
    return [
        tuple(
            Stack(number == pid, tuple(names.get(address, unknown_function("")) for address in reversed(frames)))
            for number, frames in threads.items()
            if frames
        )
        for threads in samples
    ]


def _threads(text: str) -> dict[int, list[int]]:
    """Returns the frames of each thread in the output of eu-stack for one sample: addresses inside the functions,
    innermost first.

    All printed addresses but the innermost are return addresses, which may lie behind the end of the calling function.
    Therefore 1 is subtracted from them."""
    threads: dict[int, list[int]] = {}
    frames: list[int] | None = None
    for line in text.splitlines():
        if match := _THREAD.match(line):
            frames = threads.setdefault(int(match[1]), [])
        elif frames is not None and (match := _FRAME.match(line)):
            frames.append(int(match[1], 16) - bool(frames))
    return threads
