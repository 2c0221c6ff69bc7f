"""Resolves addresses in a running server to function names, with the symbols of the files that it has mapped.

The files are opened through /proc, so that the files of a server in a container are read from its image. The module
also defines the stack traces of a sample, and runs the programs that take them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from recovery.errors import UsageError
from recovery.linux.files import open_regular

# --- Stack traces and readable function names

_OPERATOR = re.compile(r"operator\s*(?:\(\)|<=>|<<=?|>>=?|->\*?|[<>]=?)")
_SYMBOL_SUFFIX = re.compile(r"@@?(?=\w)| \[clone")
"""Start of a suffix that is removed: the version of a library symbol, or `[clone …]` for a part of a function that the
compiler has split off."""
_ANONYMOUS = "(anonymous namespace)"
_HIDDEN = str.maketrans("()<>", "\x01\x02\x03\x04")
_SHOWN = str.maketrans("\x01\x02\x03\x04", "()<>")


@dataclass(frozen=True)
class Stack:
    main: bool
    """Whether this is the initial thread of the process, which starts the server."""
    frames: tuple[str, ...]
    """Functions, outermost first. `[file]` stands for a function in that file without a symbol."""


@dataclass(frozen=True)
class Snapshot:
    """One sample: the stack traces of threads at one time."""

    at_s: float
    """Seconds since the exec of the server."""
    stacks: tuple[Stack, ...]


def unknown_function(file: str) -> str:
    """Returns the name `[file]` for a function without a symbol."""
    return f"[{PurePath(file).name or '?'}]".replace(";", ",")


def plain_name(name: str) -> str:
    """Returns the name of a C++ function without parameters, return type and template arguments."""
    text = _OPERATOR.sub(lambda match: match[0].translate(_HIDDEN), _SYMBOL_SUFFIX.split(name, maxsplit=1)[0])
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


# --- Mapped files

_HEAD_BYTES = 4096
"""Number of bytes at the beginning of a file that are compared; different builds of a file differ there."""
_C_LIBRARY = re.compile(r"/(?:libc[.-]|ld-musl)")


@dataclass(frozen=True)
class MappedFile:
    """A range of addresses to which a process has mapped a file."""

    start: int
    end: int
    file: str
    code: bool
    """Whether the range is executable: an executable or a library, not data or a cache of the loader."""

    def path(self, pid: int) -> Path:
        """Returns the path of the file as the process sees it: in a container this is a file of its image."""
        return Path(f"/proc/{pid}/root{self.file}")


def mapped_files(pid: int) -> list[MappedFile]:
    """Returns the mapped files of a process, in the kernel's order: lowest address first."""
    mapped = []
    for line in os.fsdecode(Path(f"/proc/{pid}/maps").read_bytes()).splitlines():
        columns = line.split(maxsplit=5)
        if len(columns) == 6 and columns[5].startswith("/"):
            start, end = (int(number, 16) for number in columns[0].split("-"))
            mapped.append(MappedFile(start, end, columns[5].removesuffix(" (deleted)"), "x" in columns[1]))
    return mapped


def same_files_on_host(pid: int, executable: str) -> bool | None:
    """Returns whether the server's files have the same content at their paths on this host, or do not exist there.

    Returns None if the process has not executed the server yet, or has not loaded its libraries yet."""
    files = {mapped.file: mapped.path(pid) for mapped in mapped_files(pid) if mapped.code}
    if not any(PurePath(file).name == executable for file in files) or not any(map(_C_LIBRARY.search, files)):
        return None
    return all(_same_content(Path(file), inside) for file, inside in files.items() if Path(file).is_file())


def _same_content(here: Path, inside: Path) -> bool:
    """Returns whether two files have the same size and the same first _HEAD_BYTES bytes."""
    if here.stat().st_size != inside.stat().st_size:
        return False
    with open_regular(here) as one, open_regular(inside) as other:
        return one.read(_HEAD_BYTES) == other.read(_HEAD_BYTES)


# --- Running the profiling programs

TOOL_TIMEOUT_S = 120.0
"""Time limit in seconds for one call. The symbols of a server with debugging information take a gigabyte."""


def profiler_environment() -> dict[str, str]:
    """Returns the environment for the profiling programs.

    DEBUGINFOD_URLS is removed, because a program would download symbols from a network during the start."""
    return {name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"} | {"LC_ALL": "C"}


def run_tool(command: list[str], *, limit_s: float, given: str = "") -> subprocess.CompletedProcess[bytes]:
    """Runs a command detached from the terminal, with `given` as its standard input."""
    return subprocess.run(
        command, input=given.encode(), capture_output=True, timeout=limit_s, env=profiler_environment(),
        start_new_session=True, check=False,
    )  # fmt: skip


def last_line(output: bytes) -> str:
    """Returns the last line that is not blank; an empty string if there is none."""
    lines = (line.strip() for line in reversed(output.decode(errors="replace").splitlines()))
    return next((line for line in lines if line), "")


# --- Function names of addresses

ADDR2LINE = "eu-addr2line"
_ET_DYN = 3
"""ET_DYN: the ELF type of position-independent files. Their addresses are relative to the start of the mapping."""


def resolve_addresses(pid: int, addresses: Iterable[int]) -> dict[int, str]:
    """Returns the function name of each address that lies in a mapped file. The process must still exist."""
    mapped = mapped_files(pid)
    first: dict[str, MappedFile] = {}
    for mapping in mapped:
        first.setdefault(mapping.file, mapping)
    inside: dict[str, list[int]] = {}
    for address in sorted(set(addresses)):
        file = next((mapping.file for mapping in mapped if mapping.start <= address < mapping.end), None)
        if file is not None:
            inside.setdefault(file, []).append(address)
    functions: dict[int, str] = {}
    for file, here in inside.items():
        path = first[file].path(pid)
        base = first[file].start if _is_position_independent(path) else 0
        names = _addr2line_names(path, [address - base for address in here])
        functions |= {address: name or unknown_function(file) for address, name in zip(here, names, strict=True)}
    return functions


def _is_position_independent(path: Path) -> bool:
    """Returns whether the file is a position-independent ELF file; false if it cannot be read."""
    try:
        with open_regular(path) as file:
            header = file.read(18)
    except (OSError, UsageError):
        return False
    return header[:4] == b"\x7fELF" and int.from_bytes(header[16:18], "little") == _ET_DYN


def _addr2line_names(path: Path, addresses: list[int]) -> list[str | None]:
    """Returns one function name for each address; None if the file has no symbol for it or cannot be read."""
    lines = "".join(f"{address:#x}\n" for address in addresses)
    command = [ADDR2LINE, "--functions", "--demangle", f"--executable={path}"]
    try:
        done = run_tool(command, limit_s=TOOL_TIMEOUT_S, given=lines)
    except (OSError, subprocess.TimeoutExpired):
        return [None] * len(addresses)
    # Each name is followed by a line with its place in the source.
    functions = done.stdout.decode(errors="replace").splitlines()[::2]
    if len(functions) != len(addresses):
        return [None] * len(addresses)
    return [None if name.startswith("??") else plain_name(name) for name in functions]
