"""Draws the mean of each cell as a bar, with its 95 % interval and a dot for each run; a colour for each version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

from markupsafe import Markup

from recovery.analysis.summary import (
    Group,
    Summary,
    cell_words_in_group,
    groups,
    main_value,
    measured_runs_by_cell,
    summarise,
)
from recovery.analysis.warnings import doubts_by_cell
from recovery.model import STARTUP_METRIC, Metric, Run, Session, metric
from recovery.report import fmt
from recovery.report.fmt import ChartAxis, group_title, rounded_axis
from recovery.report.html import svg
from recovery.report.html.scaling_charts import scaling_charts
from recovery.report.html.svg import Chart, LegendEntry, Part
from recovery.report.summary_text import mean_text

_BAR, _GAP, _BETWEEN = 20, 4, 10
_AXIS_END = 60.0
"""End of the axis, in percent: right of it even a phone has room for `53,206 +- 13,346` and the sign of a warning."""
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
    means = {(one.version, one.variant): one for one in summarise(session) if one.variant in group.variants}
    largest = max((fmt.drawn_end(one) for one in means.values()), default=0)
    if largest <= 0:
        return None
    about = metric(group.metric)
    doubts = doubts_by_cell(session)
    scale = rounded_axis(largest, start=svg.START, end=_AXIS_END)
    parts: list[Markup] = []
    described: list[str] = []
    y = 0.0
    is_named = session.are_told_apart(group.variants, group.axes)
    for variant in group.variants:
        found = [(number, name) for number, name in enumerate(session.versions) if cells.get((name, variant))]
        if not found:
            continue
        named = (is_named and (cell_words_in_group(session, group, variant) or group.name)) or variant
        parts += svg.wrapped_text(y + 13, named, class_="row-name")
        y += svg.wrapped_height(named) + 2
        for number, version in found:
            one, values, doubt = means[version, variant], cells[version, variant], doubts.get((version, variant), ())
            parts += _bar(scale, y, one, values, about, doubt, css=f"v{number % svg.COLOURS}")
            described.append(f"{version} {named} {_label(one, about)}")
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
    is_doubted = any(variant in group.variants for _, variant in doubts)
    legend = tuple(_legend(session, list(means.values()), is_doubted=is_doubted))
    return Chart(key, title, drawing, legend)


def _values(session: Session, runs: tuple[Run, ...]) -> Values:
    return [(run.number, value) for run in runs if (value := main_value(session, run)) is not None]


def _label(one: Summary, about: Metric) -> str:
    """Formats a mean with its interval, as the answer and the table do."""
    if fmt.drawn_interval(one) is None:
        value = fmt.with_unit(about, one.mean or 0.0) if about.unit == "s" else fmt.column(about, one.mean)
        return value if one.count == 1 else f"mean {value}"
    if about.name == STARTUP_METRIC:
        return mean_text(one)
    unit = " s" if about.unit == "s" else ""
    return f"{fmt.column(about, one.mean)} +- {fmt.interval_column(about, one)}{unit}"


def _bar(
    scale: ChartAxis, y: float, one: Summary, values: Values, about: Metric, doubts: Sequence[str], *, css: str
) -> list[Markup]:
    centre = y + _BAR / 2
    parts = [svg.rectangle((scale.at(0), scale.at(one.mean or 0.0)), (y, y + _BAR), class_=f"bar {css}")]
    for (number, value), offset in zip(values, cycle(_DOT_OFFSETS), strict=False):
        tooltip = svg.element("title", f"run {number}: {fmt.with_unit(about, value)}")
        x = svg.percent(scale.at(value))
        parts.append(svg.element("circle", tooltip, cx=x, cy=centre + offset, r=2.8, class_="dot"))
    if interval := fmt.drawn_interval(one):
        parts += svg.whisker(scale, centre, *interval)
    sign = svg.doubt_sign(doubts)
    end = svg.percent(scale.at(fmt.drawn_end(one)))
    return [*parts, svg.element("text", _label(one, about), *sign, x=end, y=centre + 4.5, dx=9, class_="value")]


def _legend(session: Session, means: Sequence[Summary], *, is_doubted: bool) -> Iterator[LegendEntry]:
    for number, version in enumerate(session.versions):
        yield LegendEntry(f"swatch v{number % svg.COLOURS}", version)
    yield LegendEntry("sign-dot", "one run")
    if any(map(fmt.drawn_interval, means)):
        yield LegendEntry("sign-whisker", "95 % interval of the mean")
    if is_doubted:
        yield svg.DOUBTED
