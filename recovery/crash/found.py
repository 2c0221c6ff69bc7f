"""What came back after a crash, held against what had been promised before it? Counts, and the first examples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST_EXAMPLES = 3


@dataclass(frozen=True)
class Found:
    acknowledged: int
    """Writes whose end the client had been told of, before the kill."""
    lost: int = 0
    """Of those, not there any more."""
    lost_window_s: float | None = None
    """How long before the kill the oldest lost one had been acknowledged; None where none was lost."""
    ghosts: int = 0
    """That are there, though they were rolled back, or never committed."""
    torn: int = 0
    """Transactions that are there in part."""
    holes: int = 0
    """Lost ones after which the same client has others that are there: no loss of the log's end explains them."""
    half_done: int = 0
    """Definitions that are neither as before the statement under way, nor as after it."""
    some_dropped: bool = False
    """And that is a statement that drops several tables, of which some are gone as a whole, the others not at all."""
    examples: tuple[str, ...] = ()
    under_way: frozenset[str] = frozenset()
    """Tables that a definition was being changed of."""


@dataclass(frozen=True)
class Agreement:
    """Of the server's dictionary with the files in its data directory."""

    orphans: tuple[str, ...] = ()
    """What no table is made of: files that the dictionary does not know, and tables that an alteration has left."""
    missing: tuple[str, ...] = ()
    """Files without which a table of the dictionary cannot be."""


def first_of(told: Iterable[str]) -> tuple[str, ...]:
    return tuple(one for one, _ in zip(told, range(MOST_EXAMPLES), strict=False))


def counted(many: int, what: str) -> str:
    """`1 transaction`, `2 transactions`"""
    return f"{many:,} {what}" if many == 1 else f"{many:,} {what}s"
