"""Which of many looks at a start are kept, so that an hour of it takes no more room than a minute? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

from recovery.measured import Timeline

MOST = 240
EVERY_S = 0.25
_Figure = TypeVar("_Figure", int, float)


@dataclass(frozen=True)
class Look:
    """Counted from the exec; None is a figure that could not be read."""

    at_s: float
    read_bytes: int | None = None
    read_requests: int | None = None
    cpu_s: float | None = None
    others_cpu_s: float | None = None


@dataclass
class Looks:
    """Fewer than MOST: once there are as many, every second one goes and the next ones come half as often."""

    every_s: float = EVERY_S
    kept: list[Look] = field(default_factory=list)

    def add(self, look: Look) -> None:
        self.kept.append(look)
        if len(self.kept) >= MOST:
            del self.kept[::2]
            self.every_s *= 2

    def timeline(self) -> Timeline | None:
        """A column with a hole in it is none."""
        if not self.kept:
            return None
        return Timeline(
            at_s=tuple(look.at_s for look in self.kept),
            read_bytes=_whole(look.read_bytes for look in self.kept),
            read_requests=_whole(look.read_requests for look in self.kept),
            cpu_s=_whole(look.cpu_s for look in self.kept),
            # What is left of coarse ticks may shrink a little, which no count does.
            others_cpu_s=tuple(accumulate(_whole(look.others_cpu_s for look in self.kept), max)),
        )


def _whole(column: Iterable[_Figure | None]) -> tuple[_Figure, ...]:
    figures = tuple(column)
    told = tuple(figure for figure in figures if figure is not None)
    return told if len(told) == len(figures) else ()
