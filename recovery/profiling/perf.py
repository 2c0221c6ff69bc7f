"""What did perf record say? It sees who has a CPU, and nothing of who waits. The parsing is pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from recovery.profiling.symbols import Snapshot, Stack, nameless, plain_name

PROGRAM = "perf"
RATE_HZ = 99
"""Not in step with what a server does every tenth of a second."""
_STACK_BYTES = 8192
MOST_RECORDED = "1G"
"""Some twenty minutes of one CPU; perf ends by itself then."""
_HEAD = re.compile(r"\s*(\d{1,18})\s+(\d{1,18}\.\d{1,18}):", re.ASCII)
_FRAME = re.compile(r"\s+[0-9a-f]+ (.*) \((.*)\)$")
_KERNEL = re.compile(r"\[(?:kernel|guest)|.*\.ko(?:\.\w+)?$|\[unknown\]$|\[vdso\]$")


def record_command(pid: int, folder: Path) -> list[str]:
    """By the clock, since a virtual machine may have no counters; and by copies of the stacks, since servers are built
    without frame pointers. Copies of the server's files go to the same folder."""
    return [
        PROGRAM, "--buildid-dir", str(folder), "record", "--quiet", "--event", "cpu-clock", "--freq", str(RATE_HZ),
        "--clockid", "CLOCK_MONOTONIC", "--call-graph", f"dwarf,{_STACK_BYTES}", "--pid", str(pid),
        "--max-size", MOST_RECORDED, "--output", str(recording(folder)),
    ]  # fmt: skip


def recording(folder: Path) -> Path:
    return folder / "perf.data"


def script_command(folder: Path) -> list[str]:
    return [
        PROGRAM, "--buildid-dir", str(folder), "script", "--no-inline", "--fields", "tid,time,ip,sym,dso",
        "--input", str(recording(folder)),
    ]  # fmt: skip


def snapshots(printed: str, *, pid: int, since: float) -> Iterator[Snapshot]:
    """One for each sample, of the one thread that had the CPU; the kernel's frames are left out, as other programs
    leave them out."""
    for block in printed.split("\n\n"):
        head, *frames = block.strip("\n").split("\n")
        if found := _HEAD.match(head):
            names = [_name(told[1], told[2]) for frame in frames if (told := _FRAME.match(frame))]
            stack = Stack(int(found[1]) == pid, tuple(name for name in reversed(names) if name))
            if stack.frames:
                yield Snapshot(float(found[2]) - since, (stack,))


def _name(name: str, file: str) -> str | None:
    if _KERNEL.match(file):
        return None
    return nameless(file) if name.startswith("[unknown]") else plain_name(name)
