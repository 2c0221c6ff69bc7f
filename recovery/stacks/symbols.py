"""Which function does an address of a running server belong to? By the symbols of the very files that it has mapped:
through /proc, so that a server in a container is read from its own image."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from recovery.stacks.mapped import Mapped, mapped_by
from recovery.stacks.snapshot import nameless, plain_name
from recovery.stacks.tools import LIMIT_S, run

PROGRAM = "eu-addr2line"
_MOVABLE = 3
"""ET_DYN: a file that can lie anywhere; its addresses count from where it lies."""


def names_of(pid: int, addresses: Iterable[int]) -> dict[int, str]:
    """The process must still be there. An address of no file is left out."""
    mapped = mapped_by(pid)
    first: dict[str, Mapped] = {}
    for one in mapped:
        first.setdefault(one.file, one)
    inside: dict[str, list[int]] = {}
    for address in sorted(set(addresses)):
        file = next((one.file for one in mapped if one.start <= address < one.end), None)
        if file is not None:
            inside.setdefault(file, []).append(address)
    found: dict[int, str] = {}
    for file, here in inside.items():
        path = first[file].path(pid)
        base = first[file].start if _is_movable(path) else 0
        names = _functions(path, [address - base for address in here])
        found |= {address: name or nameless(file) for address, name in zip(here, names, strict=True)}
    return found


def _is_movable(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            header = file.read(18)
    except OSError:
        return False
    return header[:4] == b"\x7fELF" and int.from_bytes(header[16:18], "little") == _MOVABLE


def _functions(path: Path, addresses: list[int]) -> list[str | None]:
    """One name for each address; None where the file has no symbol there, or is none that can be read."""
    asked = "".join(f"{address:#x}\n" for address in addresses)
    command = [PROGRAM, "--functions", "--demangle", f"--executable={path}"]
    try:
        told = run(command, limit_s=LIMIT_S, given=asked)
    except (OSError, subprocess.TimeoutExpired):
        return [None] * len(addresses)
    functions = told.stdout.decode(errors="replace").splitlines()[::2]  # after each comes its line in the source
    if len(functions) != len(addresses):
        return [None] * len(addresses)
    return [None if name.startswith("??") else plain_name(name) for name in functions]
