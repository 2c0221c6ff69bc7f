"""What the HTML pages are made of, which their templates show: charts, tables, legends and sections."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from recovery.model import Table
from recovery.report.fmt import plus_minus, printable, split


@dataclass(frozen=True)
class LegendEntry:
    """One entry of a legend."""

    css: str
    name: str


DOUBTED = LegendEntry("sign-doubt", "a warning doubts it")
_SIGNS = ("sign-dot", "sign-whisker", "sign-line", DOUBTED.css)


def signs_last(entries: Iterable[LegendEntry]) -> list[LegendEntry]:
    """Returns the entries of a legend with those that all charts have in common at its end."""
    return sorted(entries, key=lambda entry: _SIGNS.index(entry.css) if entry.css in _SIGNS else -1)


@dataclass(frozen=True)
class Chart:
    key: str
    title: str
    svg: Markup
    legend: tuple[LegendEntry, ...] = ()
    notes: tuple[str, ...] = ()
    heading: str | None = None
    """What is shown as its title if a heading above says a part of it; empty if that says all of it."""
    kind: str = field(default="chart", init=False)


_NAMES = re.compile(r'(?P<before> (?:id|aria-labelledby)="|url\(#)(?P<names>[^")]+)')


def numbered_chart(chart: Chart, number: int) -> Chart:
    """Returns the chart with other names of its parts, because a page must have no name twice."""

    def numbered(match: re.Match[str]) -> str:
        return match["before"] + " ".join(f"{name}-{number}" for name in match["names"].split())

    # Text from outside has no quotes in a drawing: they are escaped.
    drawing = Markup(_NAMES.sub(numbered, chart.svg))  # noqa: S704
    return replace(chart, key=f"{chart.key}-{number}", svg=drawing)


_PHONE_LETTERS = 44
"""Letters that fit beside each other on a phone."""


@dataclass(frozen=True)
class TablePart:
    key: str
    table: Table
    heading: str | None = None
    """As of a chart."""
    kind: str = field(default="table", init=False)

    @property
    def is_stacked(self) -> bool:
        """Whether a phone shows the cells of a row below each other, because not all columns fit."""
        return len(split(self.table, _PHONE_LETTERS, gap=2)) > 1


@dataclass(frozen=True)
class Panels:
    """Charts of one kind side by side, with a shared legend."""

    key: str
    title: str
    charts: tuple[Chart, ...]
    legend: tuple[LegendEntry, ...] = ()
    notes: tuple[str, ...] = ()
    heading: str | None = None
    """As of a chart."""
    kind: str = field(default="panels", init=False)


@dataclass(frozen=True)
class FoldedParts:
    """Parts that are collapsed until the reader opens them."""

    summary: str
    parts: tuple[Part, ...]
    kind: str = field(default="fold", init=False)


Part = Chart | TablePart | FoldedParts | Panels


@dataclass(frozen=True)
class PageSection:
    key: str
    title: str
    parts: tuple[Part, ...]
    lead: str = ""
    legend: tuple[LegendEntry, ...] = ()
    """What several of its charts have in common."""


def side_by_side(key: str, title: str, charts: Iterable[Chart], notes: tuple[str, ...]) -> Panels | Chart:
    """Returns charts of one kind with their legends merged; a single one with this title as its own."""
    charts = tuple(charts)
    if len(charts) == 1:
        return replace(charts[0], title=title, notes=notes)
    entries = dict.fromkeys(entry for chart in charts for entry in chart.legend)
    charts = tuple(replace(chart, legend=()) for chart in charts)
    return Panels(key, title, charts, tuple(signs_last(entries)), notes)


def table_parts(key: str, *tables: Table | None) -> tuple[TablePart, ...]:
    found = [table for table in tables if table is not None]
    return tuple(TablePart(f"{key}-table-{number}", table) for number, table in enumerate(found, 1))


_WHOLE = re.compile(
    r"\b[a-z]{1,16}-\d{1,6}(?:\.\d{1,6}){1,3}"  # mariadb-10.11.5
    r"|\(\d[\d.,]{0,12}-\d[\d.,]{0,12}\)"  # an interval
    r"|(?:\u00b1 )?\d[\d.,]{0,12} ?%|(?:\d[\d.,]{0,12} s )?\u00b1 \d[\d.,]{0,12}",
)


def unbroken(text: str) -> Markup:
    """Returns a text, escaped, in which no line ends within the name of a version or a figure."""
    if isinstance(text, Markup):
        return text
    text = plus_minus(printable(f"|{text}|")[1:-1])  # spaces at its ends are kept
    found, at = Markup(""), 0
    for whole in _WHOLE.finditer(text):
        found += text[at : whole.start()] + Markup('<span class="whole">{}</span>').format(whole[0])
        at = whole.end()
    return found + text[at:]
