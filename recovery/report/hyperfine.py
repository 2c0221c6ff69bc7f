"""What took how long, as hyperfine's JSON, so that scripts that plot that plot these too."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from typing import Any

from recovery.analysis.growth import curves
from recovery.analysis.summary import is_work, measured_by, taken, value_of
from recovery.errors import UsageError
from recovery.model import STARTUP, Run, Session, quantity
from recovery.report.stored_session import escape_control_characters

SECONDS = (STARTUP, "elapsed_s")
"""The figures that are times."""


def render(session: Session) -> str:
    """A result for each version in each variant that has measured runs. The keys are those of hyperfine 1, with the
    `measurements` and the `summary` of its second format beside them. What is not known is null: the processor's time
    is not told apart into `user` and `system`, and no exit is waited for."""
    if session.figure not in SECONDS:
        raise UsageError(
            f"hyperfine knows times, and this session measured {quantity(session.figure).title}",
            "take --format csv, or report.json",
        )
    points = _tables_of_points(session)
    results = [
        _result(session, timed, _parameters(session, timed[0], points.get((version, variant))))
        for version, variant, runs in measured_by(session)
        if (timed := tuple(run for run in runs if value_of(run, session.figure) is not None))
    ]
    told = {"primary_metric": "time_wall_clock", "results": results}
    return escape_control_characters(json.dumps(told, indent=2, ensure_ascii=False)) + "\n"


def _parameters(session: Session, run: Run, tables: int | None) -> dict[str, str]:
    """One number and nothing else is what a plot over a parameter takes."""
    if tables is not None:
        return {"tables": str(tables)}
    return {"version": run.version, "variant": run.variant, **session.cells.get(run.variant, {})}


def _result(session: Session, runs: tuple[Run, ...], parameters: dict[str, str]) -> dict[str, Any]:
    values = taken(runs, session.figure)
    wall = _summed(values)
    summary = {"time_wall_clock": wall}
    cpu = [seconds for run in runs if (seconds := _cpu_s(session, run)) is not None]
    if len(cpu) == len(runs):
        summary["time_cpu"] = _summed(cpu)
    return {
        "command": f"{runs[0].version} {runs[0].variant}",
        **{name: wall[name] for name in ("mean", "stddev", "median", "min", "max")},
        "user": None,
        "system": None,
        "times": values,
        "exit_codes": [None] * len(runs),
        "parameters": parameters,
        "measurements": [dict(_measurement(session, run)) for run in runs],
        "summary": summary,
    }


def _cpu_s(session: Session, run: Run) -> float | None:
    """Of the server."""
    return run.measures.get("server_cpu_s") if is_work(session) else run.cpu_s


def _measurement(session: Session, run: Run) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "time_wall_clock", {"value": value_of(run, session.figure), "unit": "second"}
    cpu = _cpu_s(session, run)
    if cpu is not None:
        yield "time_cpu", {"value": cpu, "unit": "second"}


def _summed(values: list[float]) -> dict[str, Any]:
    return {
        "unit": "second",
        "count": len(values),
        "mean": statistics.fmean(values),
        "stddev": statistics.stdev(values) if len(values) > 1 else None,
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
    }


def _tables_of_points(session: Session) -> dict[tuple[str, str], int]:
    """Of the runs that make a curve: what its picture has on the horizontal axis."""
    return {
        (run.version, run.variant): tables for curve in curves(session) for tables, runs in curve.points for run in runs
    }
