"""What is the page made of? Sections of charts and tables, which its template knows how to write."""

from __future__ import annotations

from dataclasses import dataclass, field

from markupsafe import Markup

from recovery.stored import Table


@dataclass(frozen=True)
class Mark:
    """A line of a legend."""

    css: str
    name: str


@dataclass(frozen=True)
class Chart:
    key: str
    title: str
    svg: Markup
    legend: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()
    wide: bool = False
    """Does not grow with the window: it scrolls in a box of its own."""
    kind: str = field(default="chart", init=False)


@dataclass(frozen=True)
class Grid:
    key: str
    table: Table
    kind: str = field(default="table", init=False)


@dataclass(frozen=True)
class Panels:
    """Charts of one kind beside each other, with one legend."""

    key: str
    title: str
    charts: tuple[Chart, ...]
    legend: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()
    kind: str = field(default="panels", init=False)


@dataclass(frozen=True)
class Fold:
    """Shown when it is asked for."""

    summary: str
    parts: tuple[Chart | Grid | Panels, ...]
    kind: str = field(default="fold", init=False)


Part = Chart | Grid | Fold | Panels


@dataclass(frozen=True)
class Section:
    key: str
    title: str
    parts: tuple[Part, ...]
    lead: str = ""


def grids(key: str, *tables: Table | None) -> tuple[Grid, ...]:
    found = [table for table in tables if table is not None]
    return tuple(Grid(f"{key}-table-{number}", table) for number, table in enumerate(found, 1))
