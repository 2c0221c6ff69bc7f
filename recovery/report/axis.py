"""Where on a picture's axis does a value lie, and which round numbers stand beside it? From zero, always."""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (4, 5, 6)
_ROUND = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Axis:
    """From zero to a round number: a line that looks steep is."""

    most: float
    start: float = 0.0
    end: float = 100.0
    """Where zero and the most lie, in percent of the picture's width or in its units of height."""
    step: float = 1.0
    """From one number beside it to the next."""

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * value / self.most

    def ticks(self) -> tuple[float, ...]:
        return tuple(self.step * number for number in range(int(self.most / self.step * (1 + 1e-9)) + 1))


def axis(most: float, *, start: float = 0.0, end: float = 100.0) -> Axis:
    """Ends at the next round number, after as many steps as come nearest."""
    ends = [(steps * round_step(most / steps), steps) for steps in _STEPS]
    round_most, steps = min(ends)
    return Axis(round_most, start, end, round_most / steps)


def exact_axis(most: float, *, start: float = 0.0, end: float = 100.0) -> Axis:
    """Ends where the values do; the numbers beside it are round."""
    return Axis(most, start, end, round_step(most / _STEPS[-1]))


def round_step(least: float) -> float:
    """The next round number: what a reader can add up."""
    power = 10.0 ** math.floor(math.log10(least if least > 0 else 1))
    return next(round_one * power for round_one in _ROUND if round_one * power >= least * (1 - 1e-9))
