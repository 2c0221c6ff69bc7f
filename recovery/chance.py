"""Which of several comparisons differ by more than the luck of so many explains? Holm's correction. Pure."""

from __future__ import annotations

from collections.abc import Sequence

LUCK = 0.05
"""Of so many comparisons an interval of 95 % leaves out the truth."""


def holm(found: Sequence[float]) -> tuple[float, ...]:
    """For each probability, in their order, how likely luck is to bring one as small among all of them. Holm (1979):
    the smallest counts as often as there are, the next as often as are left, and none less than one before it."""
    corrected = [0.0] * len(found)
    before = 0.0
    for rank, place in enumerate(sorted(range(len(found)), key=found.__getitem__)):
        before = max(before, min(1.0, (len(found) - rank) * found[place]))
        corrected[place] = before
    return tuple(corrected)


def stand_out(found: Sequence[float | None]) -> tuple[bool | None, ...]:
    """Which do so all taken together; None stays what it is, and is counted with none."""
    known = iter(holm([one for one in found if one is not None]))
    return tuple(None if one is None else next(known) <= LUCK for one in found)


def by_luck(count: int) -> str:
    """How many of so many would differ though nothing does."""
    many = round(LUCK * count)
    return f"about {many:,}" if many else "less than one"
