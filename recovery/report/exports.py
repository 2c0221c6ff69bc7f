"""Exports a stored session in every supported format, and generates the JSON schema of report.json.

The CSV export (RFC 4180) has one row for each run; its columns are named after the keys of report.json.
"""

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
from recovery.analysis.phase_names import JOIN, ORDER, seconds_by_name, sorted_phases
from recovery.analysis.statistics import LINE, LineFit
from recovery.analysis.summary import Summary, VariantRatio, VersionRatio, startup_key
from recovery.errors import escape_control
from recovery.linux.files import STORED_FORMAT, read_stored_text
from recovery.model import (
    CallChain,
    HostActivity,
    HotFunction,
    Phase,
    ReadFloor,
    Run,
    Session,
    ThreadWait,
    Verdict,
)
from recovery.report import markdown, text
from recovery.report.stored_session import (
    REPORT_FILE,
    LoadTimeline,
    Series,
    StartTimeline,
    StoredRun,
    StoredSession,
    escape_control_characters,
    load_session,
    stored_fields,
)
from recovery.report.write import render_page

# --- JSON schema of report.json, generated from the stored dataclasses and their docstrings

_JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, kw_only=True)
class _Predicted:
    tables: int
    """Number of tables that the prediction is for."""
    seconds: float
    """Seconds that one more start is expected to take, by the form that fits the measured points."""
    low_s: float | None
    """Lower end of the 95 % interval; null if no straight line fits."""
    high_s: float | None
    """Upper end of the 95 % interval; null if no straight line fits."""


@dataclass(frozen=True, kw_only=True)
class Predicted(_Predicted):
    """The predicted duration of one more start."""

    used: bool | None = None
    """Whether the prediction is used, which requires that the largest measured point is within 25 % of the prediction
    made for it from the smaller points; null if that cannot be tested."""


@dataclass(frozen=True, kw_only=True)
class HeldOut(_Predicted):
    """A test of the prediction: the largest measured point compared with what all smaller points predict for it."""

    runs: int
    """Number of runs that were measured at the largest point."""
    inside: int | None
    """Number of these runs within the interval; null if there is no interval."""
    form: str | None = None
    """The form that fits the smaller points: `straight line` or `piecewise`."""
    off: float | None = None
    """Relative error: the measured mean over the prediction, minus 1; null if the prediction is not above zero."""


@dataclass(frozen=True, kw_only=True)
class StoredFit(LineFit):
    """The growth of the startup time with the number of tables, for one version and variant."""

    version: str
    """Server version, as in the session's `versions`."""
    variant: str
    """Name of the variant without the number of tables."""
    form: str = LINE
    """`straight line`, or `piecewise` if the means of the points show that no straight line fits (`lack_of_fit_p`
    under 0.05). Piecewise means straight from each mean to the next, and beyond the last with the last slope."""
    memory_fixed_bytes: float | None = None
    """Peak memory of a start without any table, by a straight line. Present only if it was measured in enough runs."""
    memory_per_table_bytes: float | None = None
    """Peak memory that each table adds, by the same line."""
    memory_per_table_error_bytes: float | None = None
    """Half of its 95 % interval, if the straight line fits."""
    predicted: Predicted | None = None
    """Present only if a prediction was requested."""
    held_out: HeldOut | None = None
    """Present only if at least two smaller points with four runs in all remain without the largest one."""


@dataclass(frozen=True, kw_only=True)
class StartupSummary(Summary):
    """The startup times of one version in one variant."""


@dataclass(frozen=True, kw_only=True)
class Report(StoredSession):
    """A session of the crash-recovery tester. A null value (None in these descriptions) is a figure that was not
    measured; it never means zero. Keys that are not described here come from a later version of the tool: readers
    ignore them."""

    format: Literal[1]
    """Format version of this file. It increases when a key is removed or changes its meaning or unit; new keys leave it
    unchanged."""
    answer: tuple[str, ...] = ()
    """The lines at the top of every report: what was measured, the comparison and the reason."""
    summaries: tuple[StartupSummary, ...] = ()
    """Summary of the startup time, one for each version in each variant. It is computed from the runs whenever the file
    is written, and is empty if another metric was measured."""
    measures: tuple[Summary, ...] = ()
    """Summary of the metrics, one for each metric of each version in each variant. It is present in place of
    `summaries` if another metric than the startup time was measured."""
    contrasts: tuple[VariantRatio, ...] = ()
    """The metric of one variant compared with that of another, along each axis that has a base."""
    ratios: tuple[VersionRatio, ...] = ()
    """The metric of one version compared with that of another, for each variant."""
    fits: tuple[StoredFit, ...] = ()
    """Fits of the startup time, computed from the runs if several numbers of tables were measured."""
    findings: tuple[model.Finding, ...]
    """Warnings about the figures, computed from the runs; every report shows them."""


_STORED_CLASSES = (
    *(Report, StoredRun, model.Axis, model.Finding, StartupSummary, Summary, VariantRatio, VersionRatio),
    *(StoredFit, Predicted, HeldOut),
    *(Phase, CallChain, HotFunction, HostActivity, StartTimeline, ReadFloor, Series, LoadTimeline, ThreadWait),
)


def schema() -> dict[str, Any]:
    """Returns the JSON schema of report.json, with a description of every key."""
    text_ = json.dumps(TypeAdapter(Report).json_schema())
    made: dict[str, Any] = json.loads(text_.replace(StoredRun.__qualname__, StoredRun.__name__))
    parts = {**made.pop("$defs", {}), Report.__name__: made}
    for noun in (*_STORED_CLASSES, model.Verdict):
        if noun.__name__ in parts:
            parts[noun.__name__]["description"] = " ".join((inspect.getdoc(noun) or "").split())
    for noun in _STORED_CLASSES:
        for name, text_ in field_descriptions(noun).items():
            parts[noun.__name__]["properties"][name]["description"] = text_
    for noun, name in ((StoredRun, "metrics"), (StartTimeline, "columns"), (LoadTimeline, "columns")):
        del parts[noun.__name__]["properties"][name]  # in memory only
    _use_startup_keys(parts[StartupSummary.__name__])
    _remove_titles(made)
    for part in parts.values():
        _remove_titles(part)
    made["properties"] = {"format": made["properties"].pop("format")} | made["properties"]
    made["$defs"] = {name: part for name, part in sorted(parts.items()) if part is not made}
    return {"$schema": _JSON_SCHEMA_DIALECT, "title": f"report.json, format {STORED_FORMAT}", **made}


def _use_startup_keys(part: dict[str, Any]) -> None:
    """Renames the keys of a summary to those under `summaries`, which has the same metric everywhere."""
    shown = {key: value for key, value in part["properties"].items() if key not in ("name", "unit")}
    part["properties"] = {startup_key(key): value for key, value in shown.items()}
    part["required"] = [startup_key(key) for key in part["required"] if key in shown]


def schema_text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def field_descriptions(noun: type) -> dict[str, str]:
    """Returns the docstring of each field of a dataclass, including the fields of its base classes."""
    found: dict[str, str] = {}
    for one in reversed(noun.__mro__[:-1]):
        found |= dict(_own_field_descriptions(one))
    return found


def _own_field_descriptions(noun: type) -> Iterator[tuple[str, str]]:
    """Yields the name and the docstring of each field that the class itself declares."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(noun))).body
    assert isinstance(tree, ast.ClassDef)
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield field.target.id, " ".join(below.value.value.split())


def _remove_titles(part: dict[str, Any]) -> None:
    """Removes the generated titles, because they only repeat the names."""
    part.pop("title", None)
    for of_key in part.get("properties", {}).values():
        of_key.pop("title", None)


# --- CSV export

Cell = str | int | float | None
_OMITTED_FIELDS = frozenset(
    {
        "phases",
        "beside",
        "chains",
        "hottest",
        "around",
        "timeline",
        "metrics",
        "measures",
        "watched",
        "waits",
        "clients",
        "told",
    }
)
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\n")
"""A spreadsheet evaluates a cell that starts with one of these as a formula."""
_EMPTY_RUN = Run(0, "", "", "", 0, Verdict.VOID)
"""A run without results, which supplies the names of all columns."""


def render_csv(session: Session) -> str:
    """Returns the CSV text: a header line, then one line for each run. A figure that was not measured is an empty
    cell."""
    names = sorted_phases((*ORDER, *(phase.name for run in session.runs for phase in run.phases)))
    measures = tuple(dict.fromkeys(name for run in session.runs for name in stored_fields(run)["measures"]))
    rows = [dict((*_cells(run, names), *_load_cells(session, run, measures))) for run in session.runs]
    columns = dict((*_cells(_EMPTY_RUN, names), *_load_cells(session, _EMPTY_RUN, measures)))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([_safe_cell(name) for name in columns])
    writer.writerows([_safe_cell(cell) for cell in row.values()] for row in rows)
    return text.getvalue()


def _cells(run: Run, phases: tuple[str, ...]) -> Iterator[tuple[str, Cell]]:
    yield from ((name, value) for name, value in stored_fields(run).items() if name not in _OMITTED_FIELDS)
    for field in fields(HostActivity):
        yield f"around_{field.name}", None if run.around is None else getattr(run.around, field.name)
    seconds = seconds_by_name(run.phases)
    for name in phases:
        yield f"phase_{name.replace(JOIN, '_and_').replace(' ', '_')}_s", seconds.get(name)


def _load_cells(session: Session, run: Run, measures: tuple[str, ...]) -> Iterator[tuple[str, Cell]]:
    """Yields the value of the run's variant on each axis, and what was measured under load. A session that measures
    only startups has neither."""
    for axis in session.axes:
        yield f"axis_{axis.name}", session.value_of(run.variant, axis.name)
    for name in measures:
        yield f"measure_{name}", run.metrics.get(name)


def _safe_cell(cell: Cell) -> Cell:
    """Returns the cell without control characters, and quoted if a spreadsheet would evaluate it as a formula."""
    if isinstance(cell, Enum):
        cell = str(cell.value)
    if isinstance(cell, str):
        cell = "\n".join(map(escape_control, cell.split("\n")))
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_PREFIXES) else cell


# --- All output formats

RENDERERS: dict[str, Callable[[Session], str]] = {
    "text": text.render,
    "markdown": markdown.render,
    "csv": render_csv,
}
FORMATS = (*RENDERERS, "json", "html")


def render_as(folder: Path, name: str) -> str:
    """Returns the session in the given format, without writing any file. JSON is report.json as it was stored."""
    if name == "json":
        return escape_control_characters(read_stored_text(folder / REPORT_FILE))
    session = load_session(folder)
    return escape_control_characters(render_page(folder, session)) if name == "html" else RENDERERS[name](session)
