"""A target of the fuzzer: any bytes go in; a value comes out, or an error of one line."""

from __future__ import annotations

import io
import random
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FIXTURES = ROOT / "fixtures"
CORPORA = FIXTURES / "fuzz.tar.xz"
"""Has a folder for each target: the inputs that reach the most code, and those that were once a crash."""
_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Target:
    name: str
    check: Callable[[bytes], None]
    """Raises AssertionError for a broken promise. Any other exception is a crash."""
    seeds: Callable[[], Iterable[bytes]]
    """Realistic inputs."""
    words: tuple[str, ...] = ()
    """The fuzzer's dictionary."""
    max_bytes: int = 1024
    share: int = 1
    """Share of all executions, relative to the other targets: slow targets have a small one."""
    mutate: Callable[[bytes, random.Random], bytes | None] | None = None
    """Makes another input of the same format, where random bytes would only damage it."""

    def kept(self) -> dict[str, bytes]:
        """Returns the kept inputs by their names."""
        folder = f"{self.name}/"
        return {name.removeprefix(folder): data for name, data in read_corpora().items() if name.startswith(folder)}

    def keep(self, inputs: Mapping[str, bytes]) -> None:
        """Stores these inputs in place of the kept ones."""
        others = {name: data for name, data in read_corpora().items() if not name.startswith(f"{self.name}/")}
        write_corpora({**others, **{f"{self.name}/{name}": data for name, data in inputs.items()}})


def read_corpora() -> dict[str, bytes]:
    """Returns the kept inputs of all targets by TARGET/NAME."""
    with tarfile.open(CORPORA) as archive:
        members = ((member, archive.extractfile(member)) for member in archive)
        return {member.name: file.read() for member, file in members if file is not None}


def write_corpora(inputs: Mapping[str, bytes]) -> None:
    """Writes the archive, which is the same for the same inputs."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for name, data in sorted(inputs.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    CORPORA.write_bytes(packed.getvalue())


def text_of(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Makes a folder for one input, in memory where possible: there are millions."""
    place = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="recovery-fuzz-", dir=place) as folder:
        yield Path(folder)
