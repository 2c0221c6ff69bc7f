"""The startups as hyperfine's JSON, so that scripts that plot that plot these too."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from typing import Any

from recovery.curves import curves
from recovery.stored import Run, Session
from recovery.summary import Summary, measured_by, summarised


def render(session: Session) -> str:
    """A result for each version in each variant that has measured runs. The keys are those of hyperfine 1, with the
    `measurements` and the `summary` of its second format beside them. What is not known is null: the processor's time
    is not told apart into `user` and `system`, and no exit is waited for."""
    points = _tables_of_points(session)
    summaries = {(one.version, one.variant): one for one in summarised(session)}
    results = [
        _result(summaries[version, variant], timed, points.get((version, variant)))
        for version, variant, runs in measured_by(session)
        if (timed := tuple(run for run in runs if run.startup_s is not None))
    ]
    return json.dumps({"primary_metric": "time_wall_clock", "results": results}, indent=2, ensure_ascii=False) + "\n"


def _result(one: Summary, runs: tuple[Run, ...], tables: int | None) -> dict[str, Any]:
    figures = {"mean": one.mean_s, "stddev": one.stdev_s, "median": one.median_s, "min": one.min_s, "max": one.max_s}
    summary = {"time_wall_clock": _summed([run.startup_s or 0.0 for run in runs])}
    cpu = [run.cpu_s for run in runs if run.cpu_s is not None]
    if len(cpu) == len(runs):
        summary["time_cpu"] = _summed(cpu)
    return {
        "command": f"{one.version} {one.variant}",
        **figures,
        "user": None,
        "system": None,
        "times": [run.startup_s for run in runs],
        "exit_codes": [None] * len(runs),
        # One number and nothing else is what a plot over a parameter takes.
        "parameters": {"version": one.version, "variant": one.variant} if tables is None else {"tables": str(tables)},
        "measurements": [dict(_measurement(run)) for run in runs],
        "summary": summary,
    }


def _measurement(run: Run) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "time_wall_clock", {"value": run.startup_s, "unit": "second"}
    if run.cpu_s is not None:
        yield "time_cpu", {"value": run.cpu_s, "unit": "second"}


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
