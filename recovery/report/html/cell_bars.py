"""Draws the main metric of each cell as a bar, with its range and a dot for each run; a colour for each version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

from markupsafe import Markup

from recovery.analysis.summary import (
    Group,
    cell_words_in_group,
    groups,
    main_value,
    mean,
    measured_runs_by_cell,
)
from recovery.model import Metric, Run, Session, metric
from recovery.report import fmt
from recovery.report.fmt import ChartAxis, group_title, rounded_axis
from recovery.report.html import svg
from recovery.report.html.scaling_charts import scaling_charts
from recovery.report.html.svg import Chart, LegendEntry, Part

_NAME, _BAR, _GAP, _BETWEEN = 19, 20, 4, 10
_AXIS_END = 70.0
"""End of the axis, in percent: right of it even a phone has room for `mean 412.3 s`."""
_DOT_OFFSETS = (0.0, -4.0, 4.0, -6.5, 6.5, -2.0, 2.0)
"""Vertical offsets of the dots, in pixels, so that runs with the same result do not cover each other."""
Values = Sequence[tuple[int, float]]
"""The number and the value of each run."""


def group_charts(session: Session) -> Iterator[Part]:
    """Yields a chart for each group: lines if an axis has enough numeric values, else bars."""
    for number, group in enumerate(groups(session), 1):
        drawn = scaling_charts(session, group, f"scaling-{number}") or cell_bars(session, group, f"bars-{number}")
        if drawn is not None:
            yield drawn


def cell_bars(session: Session, group: Group, key: str) -> Chart | None:
    """Returns the bar chart of a group, or None if nothing above zero was measured."""
    cells = {cell: _values(session, runs) for cell, runs in measured_runs_by_cell(session).items()}
    shown = (values for cell, values in cells.items() if cell[1] in group.variants)
    largest = max((value for values in shown for _, value in values), default=0)
    if largest <= 0:
        return None
    about = metric(group.metric)
    scale = rounded_axis(largest, start=svg.START, end=_AXIS_END)
    parts: list[Markup] = []
    described: list[str] = []
    y = 0.0
    is_named = session.are_told_apart(group.variants, group.axes)
    for variant in group.variants:
        found = [(number, name) for number, name in enumerate(session.versions) if (name, variant) in cells]
        if not found:
            continue
        named = (is_named and (cell_words_in_group(session, group, variant) or group.name)) or variant
        parts.append(svg.text(0, y + 13, named, class_="row-name"))
        y += _NAME
        for number, version in found:
            values = cells[version, variant]
            parts += _bar(scale, y, values, about, css=f"v{number % svg.COLOURS}")
            described.append(f"{version} {named} {fmt.column(about, mean(value for _, value in values))}")
            y += _BAR + _GAP
        y += _BETWEEN
    title = group_title(f"{session.title}: {about.label}", group)
    drawing = svg.picture(
        key,
        title=title,
        description=f"{'; '.join(described)}. The table below has the figures.",
        height=y + 24,
        parts=[*svg.grid(scale, y, about.label), *parts],
    )
    return Chart(key, title, drawing, _legend(session))


def _values(session: Session, runs: tuple[Run, ...]) -> Values:
    return [(run.number, value) for run in runs if (value := main_value(session, run)) is not None]


def _bar(scale: ChartAxis, y: float, values: Values, about: Metric, *, css: str) -> list[Markup]:
    middle = mean(value for _, value in values)
    if middle is None:
        return []
    low, high = min(value for _, value in values), max(value for _, value in values)
    centre = y + _BAR / 2
    parts = [svg.rectangle((scale.at(0), scale.at(middle)), (y, y + _BAR), class_=f"bar {css}")]
    if len(values) > 1:
        parts += svg.whisker(scale, centre, low, high)
    for (number, value), offset in zip(values, cycle(_DOT_OFFSETS), strict=False):
        tooltip = svg.element("title", f"run {number}: {fmt.with_unit(about, value)}")
        x = svg.percent(scale.at(value))
        parts.append(svg.element("circle", tooltip, cx=x, cy=centre + offset, r=3.2, class_="dot"))
    # The label includes the word `mean`, because at the end of the whisker it could be taken for the maximum.
    label = f"mean {fmt.with_unit(about, middle) if about.unit == 's' else fmt.column(about, middle)}"
    return [*parts, svg.text(scale.at(max(middle, high)), centre + 4.5, label, dx=9, class_="value")]


def _legend(session: Session) -> tuple[LegendEntry, ...]:
    versions = (
        LegendEntry(f"swatch v{number % svg.COLOURS}", f"{version}, mean")
        for number, version in enumerate(session.versions)
    )
    dot, whisker = LegendEntry("sign-dot", "one run"), LegendEntry("sign-whisker", "from the smallest to the largest")
    return (*versions, dot, whisker)
