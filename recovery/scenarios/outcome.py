"""What does a trial bring, raw? Of a timed start, or of a server that was put to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recovery.measured import Around, ColdProof, Samples, Startup, Touched, Usage, Wait, WarmProof, Watched


@dataclass(frozen=True)
class Outcome:
    """The timed start, the stage it began from, and what the server held afterwards."""

    startup: Startup
    previous_exit: str
    """How the process before the timed one had ended."""
    cold: ColdProof | None
    cold_means: str | None
    """How the cache was emptied; None where it was not."""
    warm: WarmProof | None
    tables_expected: int
    tables_found: int
    rows_expected: int
    rows_found: int
    rows_lost: int
    """Table by table: rows too many in one do not make up for those that another lost."""
    touched: Touched | None = None
    samples: Samples | None = None


@dataclass(frozen=True)
class Worked:
    """What a server did that was put to work."""

    measures: Mapping[str, float]
    """By the names of `quantities.py`."""
    seconds: float
    """How long it was measured."""
    usage: Usage
    around: Around | None
    clients: Mapping[str, str]
    """The programs that put it to work, and the command of each."""
    cold: ColdProof | None = None
    """How the cache was emptied under it before; None where it was not."""
    watched: Watched | None = None
    raw: Path | None = None
    """All that was looked at meanwhile: a file that is kept with the results."""
    waits: tuple[Wait, ...] = ()
    samples: Samples | None = None
    startup: Startup | None = None
    """Where it came back from a crash."""
    broken: tuple[str, ...] = ()
    """Promises, in words."""
    may_be_clean: bool = False
    """It need not have had anything to recover."""
    told: Mapping[str, str] = field(default_factory=dict)
    """What the server did and said, by what was looked at."""
