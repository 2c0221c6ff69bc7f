"""What is a part of the tool that is fuzzed? Any bytes go in; a value comes out, or an error that is told in a line."""

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
"""Of each target a folder: what a fuzzer has found worth keeping, and what had once been a crash."""
_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Target:
    name: str
    check: Callable[[bytes], None]
    """Raises AssertionError for a promise that was not kept. Whatever else it raises is a crash."""
    seeds: Callable[[], Iterable[bytes]]
    """What the real thing looks like."""
    words: tuple[str, ...] = ()
    """That stand in it: the fuzzer's dictionary."""
    most_bytes: int = 1024
    share: int = 1
    """Of all executions, beside the shares of the others: what is slow has fewer."""
    mutate: Callable[[bytes, random.Random], bytes | None] | None = None
    """To another input like this one, where bytes put at random would make nothing of it but damage."""

    @property
    def kept(self) -> tuple[Path, ...]:
        return tuple(sorted((CORPORA / self.name).glob("*")))


def text_of(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


@contextmanager
def a_folder() -> Iterator[Path]:
    """For one input: in memory where there is such a place, since there are millions."""
    place = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="recovery-fuzz-", dir=place) as folder:
        yield Path(folder)
