"""Draws queries per second against the reads of the device, for different page sizes, with a marker for each run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from markupsafe import Markup

from recovery.analysis.summary import Group, cell_words_in_group, mean, measured_runs_by_cell, metric_value, scale_axis
from recovery.model import Run, Session, metric
from recovery.report import fmt
from recovery.report.fmt import group_title
from recovery.report.html import svg
from recovery.report.html.svg import Chart, LegendEntry, XYAxes
from recovery.report.load_tables import DEVICE_READS, PAGES, page_size_groups

_LABEL_OFFSETS = ((0, -9, "middle"), (0, 18, "middle"), (10, 8, "start"))
Points = list[tuple[str, tuple[Run, ...]]]
Lines = dict[str, Points]
"""The points of each line: page sizes and the runs with each. The key is the line's name, which has the version and
everything else that is not about pages."""


def page_size_charts(session: Session) -> Iterator[Chart]:
    for number, group in enumerate(page_size_groups(session), 1):
        lines = _lines(session, group)
        if any(len(points) > 1 for points in lines.values()):
            yield _chart(group, lines, f"against-reads-{number}")


def _lines(session: Session, group: Group) -> Lines:
    """Returns the lines of a group. If the number of clients is an axis, only the largest number is used, because more
    clients cause more device reads."""
    found: Lines = {}
    scale = scale_axis(group)
    for (version, variant), runs in measured_runs_by_cell(session).items():
        both = tuple(run for run in runs if run.metrics.get(DEVICE_READS) and run.metrics.get("qps"))
        if variant not in group.variants or not both:
            continue
        cell = session.cells.get(variant, {})
        if scale is not None and cell.get(scale.name) != scale.values[-1]:
            continue
        size = " ".join(cell[name] for name in PAGES if name in cell)
        name = ", ".join(filter(None, (version, cell_words_in_group(session, group, variant, without=PAGES))))
        found.setdefault(name, []).append((size, both))
    return found


def _chart(group: Group, lines: Lines, key: str) -> Chart:
    runs = [run for points in lines.values() for _, some in points for run in some]
    axes = XYAxes.within(
        max(run.metrics[DEVICE_READS] for run in runs), max(metric_value(run, "qps") or 0.0 for run in runs)
    )
    parts = [*axes.drawn((f"{metric(DEVICE_READS).label} of the device", metric("qps").label))]
    for place, (name, points) in enumerate(lines.items()):
        parts += _line(axes, place, name, points)
    title = group_title("Queries and reads of the device", group)
    description = "; ".join(
        f"{name}: {', '.join(_rates_text(size, runs) for size, runs in points)}" for name, points in lines.items()
    )
    drawing = svg.picture(key, title=title, description=f"{description}.", height=svg.XY_HEIGHT + 42, parts=parts)
    legend = tuple(LegendEntry(f"marker s{place % svg.LINES}", name) for place, name in enumerate(lines))
    joined = "; lines join the means, from page size to page size" if any(map(_are_plain_sizes, lines.values())) else ""
    note = f"Each symbol is a run{joined}. Up and to the left is better."
    return Chart(key, title, drawing, legend, (note,))


def _are_plain_sizes(points: Points) -> bool:
    """Returns whether the points can be joined. They can if they are plain page sizes; compressed pages have no place
    in that order."""
    return all(size[:-1].isdigit() for size, _ in points)


def _line(axes: XYAxes, place: int, name: str, points: Points) -> Iterator[Markup]:
    css = f"s{place % svg.LINES}"
    means = [axes.at(_mean(runs, DEVICE_READS), _mean(runs, "qps")) for _, runs in points]
    if _are_plain_sizes(points):
        yield from (svg.line(one, other, class_=f"series {css}") for one, other in pairwise(means))
    for (size, runs), (x, y) in zip(points, means, strict=True):
        for run in runs:
            tooltip = f"{name}, {size}, run {run.number}: {_rates_text(size, (run,))}"
            at = axes.at(run.metrics[DEVICE_READS], run.metrics["qps"])
            yield svg.marker(*at, place, tooltip, class_=f"run {css}")
        # Labels are above, below or to the right of the points, so that those of nearby lines do not overlap.
        dx, dy, anchor = _LABEL_OFFSETS[place % len(_LABEL_OFFSETS)]
        yield svg.text(x, y + dy, size, dx=dx, text_anchor=anchor, class_="tick")


def _rates_text(size: str, runs: tuple[Run, ...]) -> str:
    figures = " at ".join(fmt.with_unit(metric(name), _mean(runs, name)) for name in ("qps", DEVICE_READS))
    return f"{size} {figures}"


def _mean(runs: tuple[Run, ...], name: str) -> float:
    return mean(metric_value(run, name) for run in runs) or 0.0
