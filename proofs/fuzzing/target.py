"""A target of the fuzzer: any bytes go in; a value comes out, or an error of one line."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FIXTURES = ROOT / "fixtures"
CORPORA = FIXTURES / "fuzz"
"""A folder for each target: the inputs that reach the most code, and those that were once a crash."""
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

    @property
    def kept(self) -> tuple[Path, ...]:
        return tuple(sorted((CORPORA / self.name).glob("*")))


def text_of(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Makes a folder for one input, in memory where possible: there are millions."""
    place = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="recovery-fuzz-", dir=place) as folder:
        yield Path(folder)
