"""What the experiments of this folder do to a server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from recovery.model import Task

_CRASH_S = 2.0
"""Duration of the short steps of a crash trial: writing, the kill, another start, and the check of all contents."""


class CrashMoment(StrEnum):
    """The moment at which a server is killed."""

    INSERTS = "inserts"
    """While one client runs the insert script."""
    LOAD = "load"
    """While several clients run transactions of several rows each."""
    DEFINITIONS = "definitions"
    """While tables are created, altered, renamed and dropped."""
    RECOVERY = "recovery"
    """While it recovers from such a load, several times in succession."""
    SHUTDOWN = "shutdown"
    """While it shuts down on request under such a load."""
    POWER = "power-loss"
    """Under such a load, not by a signal but by a simulated power loss: everything that its filesystem had not written
    yet is lost."""


@dataclass(frozen=True)
class Crash(Task):
    """A server is killed at a random moment, and the state after its recovery is checked."""

    moment: CrashMoment
    seed: int
    """Seed of all random choices, together with the server's version, the variant and the number of the repeat."""
    depth: int
    """Maximum number of times that a recovery is killed."""

    def estimated_s(self, *_: object) -> float:
        return _CRASH_S


class FileFault(StrEnum):
    """What is wrong with the files when a killed server is started again."""

    FULL_DISK = "full-disk"
    MISSING = "missing"
    """A table's file is missing."""
    TRUNCATED = "truncated"
    """A table's file is cut to half of its pages."""
    FLIPPED = "flipped"
    """One bit of a table's file is inverted."""


@dataclass(frozen=True)
class Damage(Task):
    """A server is killed under a load, and finds its files damaged, or its disk full, at the next start."""

    fault: FileFault
    written: bool
    """Whether the load wrote to the table of the damaged file, so that it has changes to recover. Otherwise nothing
    has changed that table."""
    seed: int

    def estimated_s(self, *_: object) -> float:
        return _CRASH_S
