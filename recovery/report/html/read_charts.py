"""Draws the reads for each table during startup, and the startup times compared with the storage floor."""

from __future__ import annotations

from collections.abc import Iterator

from recovery.analysis.summary import mean, measured_runs_by_cell, per_table
from recovery.model import Session
from recovery.report import fmt
from recovery.report.html.svg import COLOURS, BarChartOptions, BarRow, Chart, LegendEntry, bar_chart
from recovery.report.startup_tables import FloorComparison, floor_comparisons, no_floor_notes

_FLOOR_END = 55.0
"""End of the axis, in percent: right of it even a phone has room for `11.02 x 16 threads`."""


def reads_chart(session: Session) -> Chart | None:
    """Returns the chart of read requests for each table, or None if no requests were counted."""
    about = BarChartOptions("reads-chart", "Read requests for each table, and bytes", "requests")
    return bar_chart(about, list(_read_rows(session)))


def _read_rows(session: Session) -> Iterator[BarRow]:
    for (version, variant), runs in measured_runs_by_cell(session).items():
        requests = mean(per_table(run, "read_requests") for run in runs)
        size = mean(per_table(run, "read_bytes") for run in runs)
        if requests is not None:
            text = f"{requests:.2f}" + (f", {fmt.size(round(size))}" if size is not None else "")
            yield BarRow(f"{version} {variant}", requests, text, f"v{session.versions.index(version) % COLOURS}")


def floor_chart(session: Session) -> Chart | None:
    """Returns the chart of startups over the floor, or None if no floor was measured or it applies to no start."""
    found = tuple(floor_comparisons(session))
    many = max((floor.threads for floor in session.floors), default=0)
    about = BarChartOptions(
        "floor-chart",
        "Cold startups over the floor: 1 is what plain reads of the same files take",
        "times",
        line=1.0,
        legend=(
            LegendEntry("swatch v0", "over one thread's plain reads"),
            LegendEntry("swatch v2", f"over those of {many} threads"),
            LegendEntry("sign-line", "the floor itself"),
        ),
        notes=no_floor_notes(found),
        end=_FLOOR_END,
    )
    return bar_chart(about, [row for one in found if one.is_floor for row in _floor_rows(one)])


def _floor_rows(one: FloorComparison) -> Iterator[BarRow]:
    name = f"{one.floor.version} {one.variant}"
    for threads, ratio, css in ((1, one.over_one, "v0"), (one.floor.threads, one.over_many, "v2")):
        if ratio is not None:
            text = f"{fmt.ratio(ratio)} \u00d7 {threads} thread{'s' if threads > 1 else ''}"
            yield BarRow(name, ratio, text, css)
            name = ""
