"""The runs as a table for a spreadsheet: CSV (RFC 4180), a run a row, named as the keys of report.json."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum

from recovery.measured import Around
from recovery.phases import JOIN, ORDER, in_order, seconds_by_name
from recovery.report.watching import harmless
from recovery.stored import Run, Session, Verdict

Cell = str | int | float | None
_NESTED = frozenset(
    {"phases", "beside", "chains", "hottest", "around", "timeline", "measures", "watched", "waits", "clients", "told"}
)
_FORMULA = ("=", "+", "-", "@", "\n")
"""A spreadsheet would compute what begins so."""
_EMPTY = Run(0, "", "", "", 0, Verdict.VOID)
"""Has the names of all columns."""


def render(session: Session) -> str:
    """A line of names, then the runs. A figure that was not taken is an empty cell."""
    names = in_order((*ORDER, *(phase.name for run in session.runs for phase in run.phases)))
    measures = tuple(dict.fromkeys(name for run in session.runs for name in run.measures))
    rows = [dict((*_cells(run, names), *_at_work(session, run, measures))) for run in session.runs]
    columns = dict((*_cells(_EMPTY, names), *_at_work(session, _EMPTY, measures)))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([_safe(name) for name in columns])
    writer.writerows([_safe(cell) for cell in row.values()] for row in rows)
    return text.getvalue()


def _cells(run: Run, phases: tuple[str, ...]) -> Iterator[tuple[str, Cell]]:
    for field in fields(Run):
        if field.name not in _NESTED:
            yield field.name, getattr(run, field.name)
    for field in fields(Around):
        yield f"around_{field.name}", None if run.around is None else getattr(run.around, field.name)
    seconds = seconds_by_name(run.phases)
    for name in phases:
        yield f"phase_{name.replace(JOIN, '_and_').replace(' ', '_')}_s", seconds.get(name)


def _at_work(session: Session, run: Run, measures: tuple[str, ...]) -> Iterator[tuple[str, Cell]]:
    """Where its variant lies on every axis, and what was measured there; a start has neither."""
    for axis in session.axes:
        yield f"axis_{axis.name}", session.cells.get(run.variant, {}).get(axis.name)
    for name in measures:
        yield f"measure_{name}", run.measures.get(name)


def _safe(cell: Cell) -> Cell:
    if isinstance(cell, Enum):
        cell = str(cell.value)
    if isinstance(cell, str):
        cell = "\n".join(map(harmless, cell.split("\n")))
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
