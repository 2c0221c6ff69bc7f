"""Builds the perf commands and parses the output of perf script.

perf samples only threads that run on a CPU; it does not show threads that wait."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from recovery.profiling.symbols import Snapshot, Stack, plain_name, unknown_function

PROGRAM = "perf"
RATE_HZ = 99
"""Samples per second. It is not 100, so that samples are not synchronous with what a server does every tenth of a
second."""
_STACK_COPY_BYTES = 8192
"""Bytes of the stack that are copied for each sample."""
MAX_RECORDING_SIZE = "1G"
"""Size limit of a recording, which corresponds to about twenty minutes of one CPU. perf ends when it is reached."""
_SAMPLE_HEADER = re.compile(r"\s*(\d{1,18})\s+(\d{1,18}\.\d{1,18}):", re.ASCII)
_FRAME = re.compile(r"\s+[0-9a-f]+ (.*) \((.*)\)$")
_KERNEL = re.compile(r"\[(?:kernel|guest)|.*\.ko(?:\.\w+)?$|\[unknown\]$|\[vdso\]$")


def record_command(pid: int, folder: Path) -> list[str]:
    """Returns the perf record command for a process.

    The event is the CPU clock, because a virtual machine may have no hardware counters. The stacks are copied (dwarf),
    because servers are built without frame pointers. perf stores copies of the server's files in the same folder."""
    return [
        PROGRAM, "--buildid-dir", str(folder), "record", "--quiet", "--event", "cpu-clock", "--freq", str(RATE_HZ),
        "--clockid", "CLOCK_MONOTONIC", "--call-graph", f"dwarf,{_STACK_COPY_BYTES}", "--pid", str(pid),
        "--max-size", MAX_RECORDING_SIZE, "--output", str(recording_path(folder)),
    ]  # fmt: skip


def recording_path(folder: Path) -> Path:
    return folder / "perf.data"


def is_attached(folder: Path) -> bool:
    """Returns whether perf samples all threads of the process: only then it writes the header of the recording."""
    path = recording_path(folder)
    return path.exists() and path.stat().st_size > 0


def script_command(folder: Path) -> list[str]:
    return [
        PROGRAM, "--buildid-dir", str(folder), "script", "--no-inline", "--fields", "tid,time,ip,sym,dso",
        "--input", str(recording_path(folder)),
    ]  # fmt: skip


def parse_snapshots(printed: str, *, pid: int, since: float) -> Iterator[Snapshot]:
    """Yields one snapshot for each sample in the output of perf script, with the one thread that ran on the CPU.

    Kernel frames are left out, as in other programs."""
    for block in printed.split("\n\n"):
        head, *frames = block.strip("\n").split("\n")
        if match := _SAMPLE_HEADER.match(head):
            names = [_name(parts[1], parts[2]) for frame in frames if (parts := _FRAME.match(frame))]
            stack = Stack(int(match[1]) == pid, tuple(name for name in reversed(names) if name))
            if stack.frames:
                yield Snapshot(float(match[2]) - since, (stack,))


def _name(name: str, file: str) -> str | None:
    """Returns the readable name of a frame; None for a frame in the kernel, the vDSO or an unknown file."""
    if _KERNEL.match(file):
        return None
    return unknown_function(file) if name.startswith("[unknown]") else plain_name(name)
