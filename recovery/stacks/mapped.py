"""Which files has a process mapped, and are those of the same path on this host the same files?"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePath

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
