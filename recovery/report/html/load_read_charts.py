"""Draws queries per second against the reads of the device, for different page sizes, with a marker for each run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from markupsafe import Markup

from recovery.analysis.summary import Group, mean, measured_by, scale_of, value_of, words_in
from recovery.model import Run, Session, quantity
from recovery.report import format as fmt
from recovery.report.format import Ruler, ruler, titled
from recovery.report.html import svg
from recovery.report.html.scaling_charts import short
from recovery.report.html.svg import Chart, Mark
from recovery.report.load_tables import PAGES, READS, by_pages

_LEFT, _RIGHT, _TOP, _HEIGHT = 11.0, 92.0, 26.0, 250.0
_PLACES = ((0, -9, "middle"), (0, 18, "middle"), (10, 8, "start"))
Points = list[tuple[str, tuple[Run, ...]]]
Lines = dict[str, Points]
"""The points of each line: page sizes and the runs with each. The key is the line's name, which has the version and
everything else that is not about pages."""


def reads_charts(session: Session) -> Iterator[Chart]:
    for number, group in enumerate(by_pages(session), 1):
        lines = _lines(session, group)
        if any(len(points) > 1 for points in lines.values()):
            yield _chart(group, lines, f"against-reads-{number}")


def _lines(session: Session, group: Group) -> Lines:
    """Returns the lines of a group. If the number of clients is an axis, only the largest number is used, because more
    clients cause more device reads."""
    found: Lines = {}
    scale = scale_of(group)
    for version, variant, runs in measured_by(session):
        both = tuple(run for run in runs if run.measures.get(READS) and run.measures.get("qps"))
        if variant not in group.variants or not both:
            continue
        cell = session.cells.get(variant, {})
        if scale is not None and cell.get(scale.name) != scale.values[-1]:
            continue
        size = " ".join(cell[name] for name in PAGES if name in cell)
        name = ", ".join(filter(None, (version, words_in(session, group, variant, without=PAGES))))
        found.setdefault(name, []).append((size, both))
    return found


def _chart(group: Group, lines: Lines, key: str) -> Chart:
    runs = [run for points in lines.values() for _, some in points for run in some]
    across = ruler(max(run.measures[READS] for run in runs), start=_LEFT, end=_RIGHT)
    up = ruler(max(value_of(run, "qps") or 0.0 for run in runs), start=_HEIGHT, end=_TOP)
    parts = [*_axes(across, up)]
    for place, (name, points) in enumerate(lines.items()):
        parts += _line((across, up), place, name, points)
    title = titled("Queries against the device's reads", group)
    told = "; ".join(
        f"{name}: {', '.join(_told(size, runs) for size, runs in points)}" for name, points in lines.items()
    )
    drawing = svg.picture(key, title=title, told=f"{told}.", height=_HEIGHT + 42, parts=parts)
    legend = tuple(Mark(f"marker s{place % svg.LINES}", name) for place, name in enumerate(lines))
    joined = (
        "; lines join the means, from one size of pages to the next" if any(map(_are_in_order, lines.values())) else ""
    )
    note = f"Each sign is a run{joined}. Up and to the left is better."
    return Chart(key, title, drawing, legend, (note,))


def _axes(across: Ruler, up: Ruler) -> Iterator[Markup]:
    for value in up.ticks():
        yield svg.line((_LEFT, up.at(value)), (_RIGHT, up.at(value)), class_="grid")
        yield svg.text(_LEFT, up.at(value) + 4, short(value, up.most), dx=-6, text_anchor="end", class_="tick")
    for number, value in enumerate(across.ticks()):
        css = "tick roomy" if number % 2 else "tick"
        yield svg.text(across.at(value), _HEIGHT + 18, short(value, across.most), text_anchor="middle", class_=css)
    told = f"{quantity(READS).title} of the device"
    yield svg.text((_LEFT + _RIGHT) / 2, _HEIGHT + 36, told, text_anchor="middle", class_="tick")
    yield svg.text(0, 9, quantity("qps").title, class_="tick")


def _are_in_order(points: Points) -> bool:
    """Returns whether the points can be joined. They can if they are plain page sizes; compressed pages have no place
    in that order."""
    return all(size[:-1].isdigit() for size, _ in points)


def _line(rulers: tuple[Ruler, Ruler], place: int, name: str, points: Points) -> Iterator[Markup]:
    across, up = rulers
    css = f"s{place % svg.LINES}"
    means = [(across.at(_mean(runs, READS)), up.at(_mean(runs, "qps"))) for _, runs in points]
    if _are_in_order(points):
        yield from (svg.line(one, other, class_=f"series {css}") for one, other in pairwise(means))
    for (size, runs), (x, y) in zip(points, means, strict=True):
        for run in runs:
            told = f"{name}, {size}, run {run.number}: {_told(size, (run,))}"
            at = across.at(run.measures[READS]), up.at(run.measures["qps"])
            yield svg.mark(*at, place, told, class_=f"run {css}")
        # Labels are above, below or to the right of the points, so that those of nearby lines do not overlap.
        dx, dy, anchor = _PLACES[place % len(_PLACES)]
        yield svg.text(x, y + dy, size, dx=dx, text_anchor=anchor, class_="tick")


def _told(size: str, runs: tuple[Run, ...]) -> str:
    figures = " at ".join(fmt.worded(quantity(name), _mean(runs, name)) for name in ("qps", READS))
    return f"{size} {figures}"


def _mean(runs: tuple[Run, ...], name: str) -> float:
    return mean(value_of(run, name) for run in runs) or 0.0
