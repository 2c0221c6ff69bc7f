"""How is one cell drawn: its mean as a bar, its range, and every run of it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from recovery.report.axis import Axis
from recovery.report.html import drawn
from recovery.summary import mean

HIGH = 20
END = 70.0
"""Of the axis, in percent: right of it even a phone has room for `mean 412.3 s`."""
_SIDEWAYS = (0.0, -4.0, 4.0, -6.5, 6.5, -2.0, 2.0)
"""By so much dots of runs that came to the same lie apart."""


@dataclass(frozen=True)
class Look:
    css: str
    worded: Callable[[float], str]
    """A figure as it stands at the bar's end."""
    hatch: str | None = None
    """The key of the picture that has the hatches; None without."""


def run_bar(scale: Axis, y: float, values: Sequence[tuple[int, float]], look: Look) -> list[Markup]:
    """`values` are the runs' numbers and figures; of none nothing is drawn."""
    middle = mean(value for _, value in values)
    if middle is None:
        return []
    low, high = min(value for _, value in values), max(value for _, value in values)
    sides, rows, centre = (scale.at(0), scale.at(middle)), (y, y + HIGH), y + HIGH / 2
    parts = [drawn.box(sides, rows, class_=f"bar {look.css}")]
    if look.hatch is not None:
        parts.append(drawn.box(sides, rows, fill=drawn.hatched(look.hatch)))
    if len(values) > 1:
        parts += drawn.whisker(scale, centre, low, high)
    for place, (number, value) in enumerate(values):
        told = drawn.element("title", f"run {number}: {look.worded(value)}")
        x, up = drawn.percent(scale.at(value)), centre + _SIDEWAYS[place % len(_SIDEWAYS)]
        parts.append(drawn.element("circle", told, cx=x, cy=up, r=3.2, class_="dot"))
    # Where the whisker ends, it must not be taken for what that is at.
    said = f"mean {look.worded(middle)}"
    return [*parts, drawn.text(scale.at(max(middle, high)), centre + 4.5, said, dx=9, class_="value")]
