"""Draws the reads for each table during startup, and the startup times compared with the storage floor."""

from __future__ import annotations

from collections.abc import Iterator

from recovery.analysis.summary import mean, measured_runs_by_cell, own_read_requests, per_table
from recovery.model import Session
from recovery.report import fmt
from recovery.report.html.svg import COLOURS, BarChartOptions, BarRow, Chart, LegendEntry, bar_chart
from recovery.report.startup_tables import FloorComparison, floor_comparisons, no_floor_notes

_AXIS_END = 55.0
"""End of the axis, in percent: right of it even a phone has room for `140.3 kB in 2.9 reads`."""


def reads_chart(session: Session) -> Chart | None:
    """Returns the chart of the bytes read for each table, or None if they were not counted."""
    measured = measured_runs_by_cell(session)
    requests = {cell: own_read_requests(session, runs, for_each_table=True) for cell, runs in measured.items()}
    means = {
        cell: size
        for cell, runs in measured.items()
        if (size := mean(per_table(run, "read_bytes") for run in runs)) is not None
    }
    divisor, unit = fmt.size_unit(max(means.values(), default=0))
    rows = [
        BarRow(
            f"{version} {variant}",
            size / divisor,
            _words(size, requests[version, variant]),
            f"v{session.versions.index(version) % COLOURS}",
        )
        for (version, variant), size in means.items()
    ]
    return bar_chart(BarChartOptions("reads-chart", "Bytes read for each table", unit, end=_AXIS_END), rows)


def _words(size: float, requests: float | None) -> str:
    return fmt.size(round(size)) + ("" if requests is None else f" in {requests:.2g} reads")


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
        end=_AXIS_END,
    )
    return bar_chart(about, [row for one in found if one.is_floor for row in _floor_rows(one)])


def _floor_rows(one: FloorComparison) -> Iterator[BarRow]:
    name = f"{one.floor.version} {one.variant}"
    for threads, ratio, css in ((1, one.over_one, "v0"), (one.floor.threads, one.over_many, "v2")):
        if ratio is not None:
            text = f"{fmt.ratio(ratio)} \u00d7 {threads} thread{'s' if threads > 1 else ''}"
            yield BarRow(name, ratio, text, css)
            name = ""
