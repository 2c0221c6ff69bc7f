"""Draws queries per second against the reads of the device, for different page sizes, with a marker for each run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from markupsafe import Markup

from recovery.analysis.summary import Group, cell_words_in_group, mean, measured_runs_by_cell, run_value, scale_axis
from recovery.model import Run, Session, metric
from recovery.report import fmt
from recovery.report.fmt import ChartAxis, group_title, rounded_axis
from recovery.report.html import svg
from recovery.report.html.scaling_charts import tick_label
from recovery.report.html.svg import Chart, LegendEntry
from recovery.report.load_tables import DEVICE_READS, PAGES, page_size_groups

_LEFT, _RIGHT, _TOP, _HEIGHT = 11.0, 92.0, 26.0, 250.0
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
    for version, variant, runs in measured_runs_by_cell(session):
        both = tuple(run for run in runs if run.measures.get(DEVICE_READS) and run.measures.get("qps"))
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
    across = rounded_axis(max(run.measures[DEVICE_READS] for run in runs), start=_LEFT, end=_RIGHT)
    up = rounded_axis(max(run_value(run, "qps") or 0.0 for run in runs), start=_HEIGHT, end=_TOP)
    parts = [*_axes(across, up)]
    for place, (name, points) in enumerate(lines.items()):
        parts += _line((across, up), place, name, points)
    title = group_title("Queries against the device's reads", group)
    told = "; ".join(
        f"{name}: {', '.join(_rates_text(size, runs) for size, runs in points)}" for name, points in lines.items()
    )
    drawing = svg.picture(key, title=title, told=f"{told}.", height=_HEIGHT + 42, parts=parts)
    legend = tuple(LegendEntry(f"marker s{place % svg.LINES}", name) for place, name in enumerate(lines))
    joined = (
        "; lines join the means, from one size of pages to the next"
        if any(map(_are_plain_sizes, lines.values()))
        else ""
    )
    note = f"Each sign is a run{joined}. Up and to the left is better."
    return Chart(key, title, drawing, legend, (note,))


def _axes(across: ChartAxis, up: ChartAxis) -> Iterator[Markup]:
    for value in up.ticks():
        yield svg.line((_LEFT, up.at(value)), (_RIGHT, up.at(value)), class_="grid")
        yield svg.text(_LEFT, up.at(value) + 4, tick_label(value, up.most), dx=-6, text_anchor="end", class_="tick")
    for number, value in enumerate(across.ticks()):
        css = "tick roomy" if number % 2 else "tick"
        yield svg.text(across.at(value), _HEIGHT + 18, tick_label(value, across.most), text_anchor="middle", class_=css)
    told = f"{metric(DEVICE_READS).title} of the device"
    yield svg.text((_LEFT + _RIGHT) / 2, _HEIGHT + 36, told, text_anchor="middle", class_="tick")
    yield svg.text(0, 9, metric("qps").title, class_="tick")


def _are_plain_sizes(points: Points) -> bool:
    """Returns whether the points can be joined. They can if they are plain page sizes; compressed pages have no place
    in that order."""
    return all(size[:-1].isdigit() for size, _ in points)


def _line(rulers: tuple[ChartAxis, ChartAxis], place: int, name: str, points: Points) -> Iterator[Markup]:
    across, up = rulers
    css = f"s{place % svg.LINES}"
    means = [(across.at(_mean(runs, DEVICE_READS)), up.at(_mean(runs, "qps"))) for _, runs in points]
    if _are_plain_sizes(points):
        yield from (svg.line(one, other, class_=f"series {css}") for one, other in pairwise(means))
    for (size, runs), (x, y) in zip(points, means, strict=True):
        for run in runs:
            told = f"{name}, {size}, run {run.number}: {_rates_text(size, (run,))}"
            at = across.at(run.measures[DEVICE_READS]), up.at(run.measures["qps"])
            yield svg.marker(*at, place, told, class_=f"run {css}")
        # Labels are above, below or to the right of the points, so that those of nearby lines do not overlap.
        dx, dy, anchor = _LABEL_OFFSETS[place % len(_LABEL_OFFSETS)]
        yield svg.text(x, y + dy, size, dx=dx, text_anchor=anchor, class_="tick")


def _rates_text(size: str, runs: tuple[Run, ...]) -> str:
    figures = " at ".join(fmt.with_unit(metric(name), _mean(runs, name)) for name in ("qps", DEVICE_READS))
    return f"{size} {figures}"


def _mean(runs: tuple[Run, ...], name: str) -> float:
    return mean(run_value(run, name) for run in runs) or 0.0
