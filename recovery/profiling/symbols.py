"""Which function does an address of a running server belong to? By the symbols of the very files that it has mapped:
through /proc, so that a server in a container is read from its own image."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

# What one look at a server shows: a stack for each thread, by names that a reader knows. Pure.

_OPERATOR = re.compile(r"operator\s*(?:\(\)|<=>|<<=?|>>=?|->\*?|[<>]=?)")
_CUT = re.compile(r"@@?(?=\w)| \[clone")
"""From here on: which edition of a library's function, which part of a function of the compiler's."""
_ANONYMOUS = "(anonymous namespace)"
_HIDDEN = str.maketrans("()<>", "\x01\x02\x03\x04")
_SHOWN = str.maketrans("\x01\x02\x03\x04", "()<>")


@dataclass(frozen=True)
class Stack:
    main: bool
    """Of the thread that the process began with: it is the one that starts the server."""
    frames: tuple[str, ...]
    """Functions, outermost first; `[file]` is one of that file, for which it has no symbol."""


@dataclass(frozen=True)
class Snapshot:
    at_s: float
    """Seconds since the exec of the server."""
    stacks: tuple[Stack, ...]


def nameless(file: str) -> str:
    return f"[{PurePath(file).name or '?'}]".replace(";", ",")


def plain_name(name: str) -> str:
    """A function without its parameters, its type, and what its templates were made for."""
    text = _OPERATOR.sub(lambda found: found[0].translate(_HIDDEN), _CUT.split(name, maxsplit=1)[0])
    text = text.replace(_ANONYMOUS, _ANONYMOUS.translate(_HIDDEN).replace(" ", "\x05"))
    kept, depth = list[str](), 0
    for letter in text:
        if letter == "(" and depth == 0:
            break
        depth -= letter == ">"
        if depth == 0:
            kept.append(letter)
        depth += letter == "<"
    words = "".join(kept).strip().split(" ")
    first = next((number for number, word in enumerate(words) if "operator" in word), len(words) - 1)
    plain = " ".join(words[first:]).replace("\x05", " ").translate(_SHOWN) or name
    return plain.replace(";", ",")


# Which files has a process mapped, and are those of the same path on this host the same files?

_HEAD_BYTES = 4096
"""In which a build leaves its mark."""
_C_LIBRARY = re.compile(r"/(?:libc[.-]|ld-musl)")


@dataclass(frozen=True)
class Mapped:
    start: int
    end: int
    file: str
    code: bool
    """It can be executed: an executable or a library, no data and no cache of the loader's."""

    def path(self, pid: int) -> Path:
        """As the process sees it: in a container that is a file of its image."""
        return Path(f"/proc/{pid}/root{self.file}")


def mapped_by(pid: int) -> list[Mapped]:
    """Files alone, lowest first, as the kernel lists them."""
    found = []
    for line in os.fsdecode(Path(f"/proc/{pid}/maps").read_bytes()).splitlines():
        columns = line.split(maxsplit=5)
        if len(columns) == 6 and columns[5].startswith("/"):
            start, end = (int(number, 16) for number in columns[0].split("-"))
            found.append(Mapped(start, end, columns[5].removesuffix(" (deleted)"), "x" in columns[1]))
    return found


def reads_the_same(pid: int, executable: str) -> bool | None:
    """Whether somebody who opens the server's files by their paths finds them, or none. None: it has not become the
    server yet, or not loaded its libraries."""
    files = {one.file: one.path(pid) for one in mapped_by(pid) if one.code}
    if not any(PurePath(file).name == executable for file in files) or not any(map(_C_LIBRARY.search, files)):
        return None
    return all(_same(Path(file), inside) for file, inside in files.items() if Path(file).is_file())


def _same(here: Path, inside: Path) -> bool:
    if here.stat().st_size != inside.stat().st_size:
        return False
    with here.open("rb") as one, inside.open("rb") as other:
        return one.read(_HEAD_BYTES) == other.read(_HEAD_BYTES)


# How are the programs run that look into a server? Apart from the terminal, and without asking a network.

LIMIT_S = 120.0
"""For one answer: symbols of a server with debugging information are a gigabyte."""


def environment() -> dict[str, str]:
    """Without what lets a debugger fetch symbols from somewhere in the middle of a start."""
    return {name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"} | {"LC_ALL": "C"}


def run(command: list[str], *, limit_s: float, given: str | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, input=(given or "").encode(), capture_output=True, timeout=limit_s, env=environment(),
        start_new_session=True, check=False,
    )  # fmt: skip


def last_line(told: bytes) -> str:
    lines = (line.strip() for line in reversed(told.decode(errors="replace").splitlines()))
    return next((line for line in lines if line), "")


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
