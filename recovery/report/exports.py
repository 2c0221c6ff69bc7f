"""The runs as a table for a spreadsheet: CSV (RFC 4180), a run a row, named as the keys of report.json."""

from __future__ import annotations

import ast
import csv
import inspect
import io
import json
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from recovery import model
from recovery.analysis import summary
from recovery.analysis.phase_names import JOIN, ORDER, in_order, seconds_by_name
from recovery.analysis.statistics import LINE, Fit
from recovery.analysis.summary import Between, Held, Middle
from recovery.errors import harmless
from recovery.linux.files import FORMAT
from recovery.model import Around, Chain, Floor, Hot, Phase, Run, Series, Session, Timeline, Verdict, Wait, Watched
from recovery.report import markdown, text
from recovery.report.stored_session import REPORT, escape_control_characters, load
from recovery.report.write import page_of

# What does report.json look like? Its JSON schema, made from the nouns that are stored and what is said about them.

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, kw_only=True)
class _Predicted:
    tables: int
    """At this number of tables."""
    seconds: float
    """That one more start is expected to take, by the form that fits."""
    low_s: float | None
    """The lower end of the 95 % interval; null where no straight line fits."""
    high_s: float | None
    """The upper end."""


@dataclass(frozen=True, kw_only=True)
class Predicted(_Predicted):
    """How long one more start would take."""

    used: bool | None = None
    """Whether the largest point lies within 25 % of its own prediction; null where that cannot be tested."""


@dataclass(frozen=True, kw_only=True)
class HeldOut(_Predicted):
    """The largest point, and what all the others predict for it."""

    runs: int
    """That were measured there."""
    inside: int | None
    """Of those, within the interval; null where there is none."""
    form: str | None = None
    """`straight line` or `piecewise`: which fits the other points."""
    off: float | None = None
    """By what share more was measured than predicted; null where less than no time was predicted."""


@dataclass(frozen=True, kw_only=True)
class StoredFit(Fit):
    """The growth of startups over several numbers of tables."""

    version: str
    """As in the session's `versions`."""
    variant: str
    """Without the number of tables."""
    form: str = LINE
    """`straight line`, or `piecewise` where the means of the points show that no straight line fits (`lack_of_fit_p`
    under 0.05): straight from one of them to the next, and on from the last with the last slope."""
    predicted: Predicted | None = None
    """There only where it was asked for."""
    held_out: HeldOut | None = None
    """There only where two smaller points with four runs are left."""


@dataclass(frozen=True, kw_only=True)
class Report(model.Session):
    """A session of the crash-recovery tester. Null (None in these words) is a figure that was not taken, never
    zero. Keys that are not named here are a later tool's: readers ignore them."""

    format: Literal[1]
    """Of this file. It grows when a key is removed, or changes its meaning or unit; new keys leave it as it is."""
    summaries: tuple[summary.Summary, ...] = ()
    """Made from the runs whenever the file is written: one for each version in each variant; empty where servers were
    put to work."""
    measures: tuple[Middle, ...] = ()
    """There only where servers were put to work, in place of summaries: one for each figure of each version in each
    variant."""
    contrasts: tuple[Held, ...] = ()
    """There beside them: the figure of one variant over that of another, along each axis that has a base."""
    ratios: tuple[Between, ...] = ()
    """There beside them: the figure of one version over that of another, variant by variant."""
    fits: tuple[StoredFit, ...] = ()
    """Made from the runs too, where several numbers of tables were measured."""
    findings: tuple[model.Finding, ...]
    """Doubts about the figures, made from the runs too; in every report."""


_NOUNS = (
    *(Report, model.Run, model.Axis, model.Finding, summary.Summary, Middle, Held, Between),
    *(StoredFit, Predicted, HeldOut),
    *(Phase, Chain, Hot, Around, Timeline, Floor, Series, Watched, Wait),
)


def schema() -> dict[str, Any]:
    """JSON schema, with a description of every key."""
    made: dict[str, Any] = TypeAdapter(Report).json_schema()
    parts = {**made.pop("$defs", {}), Report.__name__: made}
    for noun in (*_NOUNS, model.Verdict):
        if noun.__name__ in parts:
            parts[noun.__name__]["description"] = " ".join((inspect.getdoc(noun) or "").split())
    for noun in _NOUNS:
        for name, told in described(noun).items():
            parts[noun.__name__]["properties"][name]["description"] = told
    _untitle(made)
    for part in parts.values():
        _untitle(part)
    made["properties"] = {"format": made["properties"].pop("format")} | made["properties"]
    made["$defs"] = {name: part for name, part in sorted(parts.items()) if part is not made}
    return {"$schema": _DIALECT, "title": f"report.json, format {FORMAT}", **made}


def schema_text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def described(noun: type) -> dict[str, str]:
    """What stands under each field of a dataclass, those of the classes it is made of included."""
    found: dict[str, str] = {}
    for one in reversed(noun.__mro__[:-1]):
        found |= dict(_told(one))
    return found


def _told(noun: type) -> Iterator[tuple[str, str]]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(noun))).body
    assert isinstance(tree, ast.ClassDef)
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield field.target.id, " ".join(below.value.value.split())


def _untitle(part: dict[str, Any]) -> None:
    """The titles are the names again."""
    part.pop("title", None)
    for of_key in part.get("properties", {}).values():
        of_key.pop("title", None)


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


# Which formats can a session be had in? Each is a function of what is stored.

RENDERED: dict[str, Callable[[Session], str]] = {
    "text": text.render,
    "markdown": markdown.render,
    "csv": render,
}
FORMATS = (*RENDERED, "json", "html")


def rendered(folder: Path, name: str) -> str:
    """Nothing is written. JSON is report.json as it was stored."""
    if name == "json":
        return escape_control_characters((folder / REPORT).read_text(encoding="utf-8"))
    session = load(folder)
    return escape_control_characters(page_of(folder, session)) if name == "html" else RENDERED[name](session)
