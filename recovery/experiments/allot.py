"""Which scale does each experiment get of a given time and disk? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recovery.estimate import duration_text

OF_THE_BUDGET = 0.9
"""That is given away: times are rough."""


_LEAST_IN_MINUTES_S = 120
_FASTEST, _SLOWEST = 0.7, 20.0
"""What a pace may be: who found everything built already is not as fast at what comes next."""


@dataclass(frozen=True)
class Price:
    """Of one scale."""

    seconds: float
    bytes: int = 0
    inodes: int = 0
    loads_s: float = 0.0
    """Of the seconds those of loads, which are as long on every host."""

    def __add__(self, other: Price) -> Price:
        return Price(
            self.seconds + other.seconds,
            self.bytes + other.bytes,
            self.inodes + other.inodes,
            self.loads_s + other.loads_s,
        )

    def at(self, pace: float) -> Price:
        """Where all but the loads takes so many times as long."""
        return replace(self, seconds=self.loads_s + pace * (self.seconds - self.loads_s))

    def within(self, whole: Price) -> bool:
        return self.seconds <= whole.seconds and self.is_on_disk(whole)

    def is_on_disk(self, whole: Price) -> bool:
        return self.bytes <= whole.bytes and self.inodes <= whole.inodes


def span_text(seconds: float) -> str:
    """Of what may be shorter than a minute or two."""
    return f"{seconds:.0f} s" if seconds < _LEAST_IN_MINUTES_S else duration_text(seconds)


def pace_of(ended: Iterable[tuple[Price, float]]) -> float:
    """How many times as long as guessed did it take so far, apart from the loads? Of prices and the seconds taken."""
    guessed = taken = 0.0
    for price, seconds in ended:
        guessed += price.seconds - price.loads_s
        taken += max(0.0, seconds - price.loads_s)
    return min(max(taken / guessed, _FASTEST), _SLOWEST) if guessed else 1.0


def allot(ladders: Sequence[Sequence[Price]], whole: Price) -> tuple[int | None, ...]:
    """For each ladder of prices the step that it gets; None where even its first does not fit beside the others.

    First one step each, the cheapest first; then a second (with runs enough for an interval), again the cheapest first;
    then whoever has the least so far gets the next, as long as one fits."""
    chosen: list[int | None] = [None] * len(ladders)
    while True:
        able = []
        for place, (ladder, now) in enumerate(zip(ladders, chosen, strict=True)):
            following = 0 if now is None else now + 1
            if following < len(ladder) and _with(ladders, chosen, (place, following)).within(whole):
                able.append((min(following, 2), ladder[following].seconds, place))
        if not able:
            return tuple(chosen)
        _, _, place = min(able)
        now = chosen[place]
        chosen[place] = 0 if now is None else now + 1


def held_by_disk(ladders: Sequence[Sequence[Price]], chosen: Sequence[int | None], whole: Price) -> tuple[bool, ...]:
    """For each: there would be time for its next step, and there is no room on the disk."""
    found = []
    for place, (ladder, now) in enumerate(zip(ladders, chosen, strict=True)):
        following = 0 if now is None else now + 1
        more = _with(ladders, chosen, (place, following)) if following < len(ladder) else None
        found.append(more is not None and more.seconds <= whole.seconds and not more.is_on_disk(whole))
    return tuple(found)


def _with(ladders: Sequence[Sequence[Price]], chosen: Sequence[int | None], one: tuple[int, int]) -> Price:
    place, step = one
    steps = [*chosen[:place], step, *chosen[place + 1 :]]
    found = Price(0.0)
    for ladder, number in zip(ladders, steps, strict=True):
        if number is not None:
            found += ladder[number]
    return found
