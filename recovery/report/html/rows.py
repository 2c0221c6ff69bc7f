"""One figure for each of several things, as bars below one another: the part that such charts share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from recovery.report.axis import axis
from recovery.report.html import drawn
from recovery.report.html.parts import Chart, Mark

_NAME, _BAR, _BETWEEN = 19, 14, 8


@dataclass(frozen=True)
class Row:
    name: str
    """Empty for one that belongs to the row above."""
    value: float
    told: str
    """The figure, as it stands at the bar's end."""
    css: str = "v0"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Rows:
    key: str
    title: str
    unit: str
    line: float | None = None
    """A value that all are held against."""
    legend: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()
    end: float = drawn.END
    """Of the axis, in percent: what is told at a bar's end has the rest."""


def rows_chart(about: Rows, rows: Sequence[Row]) -> Chart | None:
    if not rows:
        return None
    most = max(*(max(row.value, row.high or 0.0) for row in rows), about.line or 0.0)
    scale = axis(most, start=drawn.START, end=about.end)
    parts: list[Markup] = []
    y = 0.0
    for row in rows:
        if row.name:
            parts.append(drawn.text(0, y + 13, row.name, class_="row-name"))
            y += _NAME
        parts.append(drawn.box((scale.at(0), scale.at(row.value)), (y, y + _BAR), class_=f"bar {row.css}"))
        if row.low is not None and row.high is not None:
            parts += drawn.whisker(scale, y + _BAR / 2, max(0.0, row.low), row.high)
        if about.line is not None:
            x = scale.at(about.line)
            parts.append(drawn.line((x, y - 2), (x, y + _BAR + 2), class_="held-against"))
        end = scale.at(max(row.value, row.high or 0.0, about.line or 0.0))
        parts.append(drawn.text(end, y + _BAR - 2.5, row.told, dx=8, class_="value"))
        y += _BAR + _BETWEEN
    told = "; ".join(f"{row.name} {row.told}".strip() for row in rows)
    drawing = drawn.picture(
        about.key, title=about.title, told=told, height=y + 24, parts=[*drawn.grid(scale, y, about.unit), *parts]
    )
    return Chart(about.key, about.title, drawing, about.legend, about.notes)
