"""The CSV export (RFC 4180): one row for each run. Its columns are flat."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from enum import Enum

from recovery.analysis.combined import CombinedSession, PartRun
from recovery.errors import escape_control
from recovery.metrics import METRICS, typed_value
from recovery.model import HostActivity, Run, Session, Verdict
from recovery.phase_table import JOIN, ORDER, seconds_by_name, sorted_phases

Cell = str | int | float | None
_PARTS = {
    "tables": ("contents", "tables_found"),
    "tablespaces_opened": ("opened_files", "tablespaces_opened"),
    "tablespaces_modified": ("opened_files", "tablespaces_modified"),
    "resident_before_bytes": ("cold", "resident_bytes"),
    "cache_grown_bytes": ("metrics", "cache_grown_bytes"),
    "cold_means": ("cold", "means"),
    "warmups": ("warm", "warmups"),
    "resident_share": ("warm", "resident_share"),
    "resident_share_after": ("warm", "resident_share_after"),
    "crash_proof": ("startup", "crash_proof"),
    "rows_expected": ("contents", "rows_expected"),
    "rows_found": ("contents", "rows_found"),
    "ready_lag_s": ("startup", "ready_lag_s"),
    "start_error_s": ("startup", "start_error_s"),
    "engine_overhead_s": ("startup", "engine_overhead_s"),
    "exit_signal": ("", "previous_exit"),
    "log": ("", "log"),
    "log_held_s": ("startup", "log_held_s"),
    "log_errors": ("startup", "log_errors"),
    "tablespace_opens": ("opened_files", "tablespace_opens"),
    "opened_unmodified": ("opened_files", "opened_unmodified"),
    "tablespaces_read": ("opened_files", "tablespaces_read"),
    "read_unmodified": ("opened_files", "read_unmodified"),
    "traced_by": ("opened_files", "traced_by"),
    "resident_after_bytes": ("opened_files", "resident_after_bytes"),
    "scan_threads": ("startup", "scan_threads"),
    "sampled_by": ("stacks", "program"),
    "samples": ("stacks", "count"),
    "stacks": ("stacks", "file"),
    "raw": ("load", "raw"),
    "measure_again": ("", "measure_again"),
    "extra": ("", "extra"),
}
"""Columns with fields of a run's parts: the part, or none for the run itself, and its field."""
_FIRST_METRICS = (
    "startup_s", "first_query_s", "read_bytes", "read_requests", "cpu_s", "reads_per_s", "group_memory_bytes",
    "peak_memory_bytes", "shutdown_s", "redo_bytes", "before_start_s",
)  # fmt: skip
_FIRST = ("number", "version", "flavor", "variant", "repeat", "verdict", "reason", "started_at")
_METRICS = _FIRST_METRICS + tuple(
    name for name, about in METRICS.items() if about.of_every_run and name not in _FIRST_METRICS and name not in _PARTS
)
"""Metrics with a column of their own: those of every run."""
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\n")
"""A spreadsheet evaluates a cell that starts with one of these as a formula."""
_EMPTY_RUN = Run(0, "", "", "", 0, Verdict.VOID)
"""A run without results, which supplies the names of all columns."""


def render_csv(session: Session) -> str:
    """Returns the CSV text: a header line, then one line for each run. A figure that was not measured is an empty
    cell. Of several sessions, the first column has the name of the run's session."""
    phases = sorted_phases((*ORDER, *(phase.name for run in session.runs for phase in run.startup.phases)))
    measures = tuple(dict.fromkeys(name for run in session.runs for name in _measures(run)))
    rows = [
        dict((*_session_cell(session, run), *_cells(run, phases), *_load_cells(session, run, measures)))
        for run in session.runs
    ]
    empty = (*_cells(_EMPTY_RUN, phases), *_load_cells(session, _EMPTY_RUN, measures))
    columns = dict((("session", None), *empty) if isinstance(session, CombinedSession) else empty)
    return csv_text(tuple(columns), [tuple(row.values()) for row in rows])


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Returns a header line and these rows as CSV, in which a spreadsheet finds no formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([_safe_cell(name) for name in columns])
    writer.writerows([_safe_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _session_cell(session: Session, run: Run) -> Iterator[tuple[str, Cell]]:
    if isinstance(session, CombinedSession) and isinstance(run, PartRun):
        yield "session", session.parts[run.part].name


def _cells(run: Run, phases: tuple[str, ...]) -> Iterator[tuple[str, Cell]]:
    yield from ((name, getattr(run, name)) for name in _FIRST)
    for name, (part, field) in _PARTS.items():
        if part == "metrics":
            yield name, _metric_cell(run, field)
        else:
            yield name, getattr(getattr(run, part) if part else run, field)
    yield from ((name, _metric_cell(run, name)) for name in _METRICS)
    activity = run.host_activity
    for column in fields(HostActivity):
        yield f"around_{column.name}", None if activity is None else getattr(activity, column.name)
    seconds = seconds_by_name(run.startup.phases)
    for name in phases:
        yield f"phase_{name.replace(JOIN, '_and_').replace(' ', '_')}_s", seconds.get(name)


def _metric_cell(run: Run, name: str) -> Cell:
    value = run.metrics.get(name)
    return None if value is None else typed_value(name, value)


def _measures(run: Run) -> tuple[str, ...]:
    """Returns the metrics of a run that measured more than a start, also those that have a column of their own."""
    is_start = run.metrics.keys() <= {*_METRICS, *_PARTS}
    return () if is_start else tuple(name for name in run.metrics if name not in _PARTS)


def _load_cells(session: Session, run: Run, measures: tuple[str, ...]) -> Iterator[tuple[str, Cell]]:
    """Yields the value of the run's variant on each axis, and what was measured under load. A session that measures
    only startups has neither."""
    for axis in session.axes:
        yield f"axis_{axis.name}", session.value_of(run.variant, axis.name)
    for name in measures:
        yield f"measure_{name}", _metric_cell(run, name)


def _safe_cell(cell: Cell) -> Cell:
    """Returns the cell without control characters, and quoted if a spreadsheet would evaluate it as a formula."""
    if isinstance(cell, Enum):
        cell = str(cell.value)
    if isinstance(cell, str):
        cell = "\n".join(map(escape_control, cell.split("\n")))
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_PREFIXES) else cell
