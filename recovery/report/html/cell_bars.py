"""Draws the main figure of each cell as bars, with a colour for each version."""

from __future__ import annotations

from markupsafe import Markup

from recovery.analysis.summary import (
    Group,
    cell_words_in_group,
    figure_values,
    measured_runs_by_cell,
    variant_figure_value,
)
from recovery.model import Run, Session, metric
from recovery.report import fmt
from recovery.report.fmt import group_title, rounded_axis
from recovery.report.html import svg
from recovery.report.html.startup_bars import AXIS_END, BAR_HEIGHT, BarStyle, cell_bar
from recovery.report.html.svg import Chart, LegendEntry

_NAME, _GAP, _BETWEEN = 19, 4, 10


def cell_bars(session: Session, group: Group, key: str) -> Chart | None:
    """Returns the bar chart of a group, or None if nothing above zero was measured."""
    cells = {(version, variant): runs for version, variant, runs in measured_runs_by_cell(session)}
    here = [key for key in cells if key[1] in group.variants]
    most = max((value for key in here for value in figure_values(cells[key], group.figure)), default=0.0)
    if most <= 0:
        return None
    about = metric(group.figure)
    scale = rounded_axis(most, start=svg.START, end=AXIS_END)
    parts: list[Markup] = []
    told: list[str] = []
    y = 0.0
    for variant in group.variants:
        found = [(number, name) for number, name in enumerate(session.versions) if (name, variant) in cells]
        if not found:
            continue
        named = cell_words_in_group(session, group, variant) or group.name or variant
        parts.append(svg.text(0, y + 13, named, class_="row-name"))
        y += _NAME
        for number, version in found:
            runs = _values(session, cells[version, variant])
            look = BarStyle(f"v{number % svg.COLOURS}", lambda value: fmt.column(about, value))
            parts += cell_bar(scale, y, runs, look)
            middle = sum(value for _, value in runs) / len(runs) if runs else None
            told.append(f"{version} {named} {fmt.column(about, middle)}")
            y += BAR_HEIGHT + _GAP
        y += _BETWEEN
    title = group_title(f"{session.title}: {about.title}", group)
    drawing = svg.picture(
        key,
        title=title,
        told=f"{'; '.join(told)}. The table below has the figures.",
        height=y + 24,
        parts=[*svg.grid(scale, y, about.title), *parts],
    )
    return Chart(key, title, drawing, _legend(session))


def _values(session: Session, runs: tuple[Run, ...]) -> list[tuple[int, float]]:
    found = ((run.number, variant_figure_value(session, run)) for run in runs)
    return [(number, value) for number, value in found if value is not None]


def _legend(session: Session) -> tuple[LegendEntry, ...]:
    versions = (
        LegendEntry(f"swatch v{number % svg.COLOURS}", f"{version}, mean")
        for number, version in enumerate(session.versions)
    )
    least, most = LegendEntry("sign-dot", "one run"), LegendEntry("sign-whisker", "from the smallest to the largest")
    return (*versions, least, most)
