"""Draws the main metric against a numeric axis, such as the number of threads.

Each version has a line for each combination of the other axes' values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from recovery.analysis.summary import (
    Cell,
    Group,
    Summary,
    is_self_explanatory,
    main_value,
    mean,
    measured_runs_by_cell,
    metric_value,
    parse_number,
    scale_axis,
    summarise,
    value_words,
)
from recovery.analysis.warnings import doubts_by_cell
from recovery.model import Axis, Metric, Run, Session, metric
from recovery.report import fmt
from recovery.report.fmt import ChartAxis, group_title
from recovery.report.html import svg
from recovery.report.html.svg import LINES, Chart, LegendEntry, Panels, XYAxes

_MIN_LABEL_DISTANCE = 6.0
"""Minimum distance of two labels below the axis, in percent of the width; nearer ones would overlap."""
Key = tuple[str, ...]
Point = tuple[float, tuple[Run, ...]]


@dataclass(frozen=True)
class _Line:
    panel: Key
    """Values on the axes by which the panels differ."""
    name: str
    points: tuple[Point, ...]


def scaling_charts(session: Session, group: Group, key: str) -> Panels | Chart | None:
    """Returns the charts of a group, or None if no axis has enough numeric values or nothing was measured."""
    along = scale_axis(group)
    if along is None:
        return None
    split = _panel_axes(session, group, along)
    lines = _lines(session, group, along, split)
    panels = list(dict.fromkeys(line.panel for line in lines))
    if not panels:
        return None
    names = list(dict.fromkeys(line.name for line in lines))
    about = metric(group.metric)
    means = {(one.version, one.variant): one for one in summarise(session)}
    doubts = doubts_by_cell(session)
    charts = []
    for place, panel in enumerate(panels, 1):
        mine = [line for line in lines if line.panel == panel]
        alike = [line for line in lines if _scale_key(split, line.panel) == _scale_key(split, panel)]
        axes = _xy_axes(session, lines, alike)
        title = ", ".join(value_words(one, value) for one, value in zip(split, panel, strict=True) if value)
        context = _ChartContext(along, axes, names, about, means, doubts)
        charts.append(_chart(f"{key}-{place}", title or about.label, context, mine))
    legend = (
        *(LegendEntry(f"marker s{place % LINES}", name) for place, name in enumerate(names)),
        *((svg.DOUBTED,) if any(variant in group.variants for _, variant in doubts) else ()),
    )
    note = "Lines join the means. Each symbol is a run; the vertical bar is the 95 % interval of the mean."
    title = group_title(f"{session.title}: {about.label} against {along.name}", group)
    if len(charts) == 1:
        return replace(charts[0], title=title, legend=legend, notes=(note,))
    return Panels(f"{key}-panels", title, tuple(charts), legend, (note,))


def _panel_axes(session: Session, group: Group, along: Axis) -> tuple[Axis, ...]:
    """Returns the axes to split into panels: as few as possible, so that a panel has no more lines than a reader can
    distinguish. Axes with self-explanatory values come first, because their panels have separate scales; then the last
    axes."""
    rest = [axis for axis in group.axes if axis.name != along.name]
    split: list[Axis] = []
    while rest and _max_lines(session, group, rest, split) > LINES:
        split.append(next((axis for axis in rest if is_self_explanatory(axis)), rest[-1]))
        rest.remove(split[-1])
    return tuple(axis for axis in group.axes if axis in split)


def _max_lines(session: Session, group: Group, rest: Sequence[Axis], split: Sequence[Axis]) -> int:
    found: dict[Key, set[Key]] = {}
    for variant in group.variants:
        found.setdefault(_key(session, variant, split), set()).add(_key(session, variant, rest))
    return max(map(len, found.values()), default=0) * len(session.versions)


def _key(session: Session, variant: str, axes: Sequence[Axis]) -> Key:
    cell = session.cells.get(variant, {})
    return tuple(cell.get(axis.name, "") for axis in axes)


def _lines(session: Session, group: Group, along: Axis, split: tuple[Axis, ...]) -> list[_Line]:
    rest = [axis for axis in group.axes if axis.name != along.name and axis not in split]
    found: dict[tuple[Key, str], list[Point]] = {}
    for (version, variant), runs in measured_runs_by_cell(session).items():
        at = parse_number(session.cells.get(variant, {}).get(along.name, ""))
        counted = tuple(run for run in runs if main_value(session, run) is not None)
        if variant not in group.variants or at is None or not counted:
            continue
        cell = session.cells[variant]
        name = ", ".join([version, *(value_words(axis, cell[axis.name]) for axis in rest if axis.name in cell)])
        found.setdefault((_key(session, variant, split), name), []).append((at, counted))
    return [_Line(panel, name, tuple(sorted(points, key=_position))) for (panel, name), points in found.items()]


def _position(point: Point) -> float:
    return point[0]


def _scale_key(split: Sequence[Axis], panel: Key) -> Key:
    """Returns the key of a panel's scale. Panels of the same kind of work share a scale, so that they can be
    compared."""
    return tuple(value for axis, value in zip(split, panel, strict=True) if is_self_explanatory(axis))


def _xy_axes(session: Session, lines: Sequence[_Line], alike: Sequence[_Line]) -> XYAxes:
    farthest = max(at for line in lines for at, _ in line.points)
    cells = {(runs[0].version, runs[0].variant) for line in alike for _, runs in line.points}
    values = [fmt.drawn_end(one) for one in summarise(session) if (one.version, one.variant) in cells]
    return XYAxes.within(ChartAxis(farthest * 1.02 or 1.0, svg.XY_LEFT, svg.XY_RIGHT), max(values) or 1.0)


@dataclass(frozen=True)
class _ChartContext:
    along: Axis
    axes: XYAxes
    names: list[str]
    about: Metric
    means: Mapping[Cell, Summary]
    doubts: Mapping[Cell, Sequence[str]]


def _chart(key: str, title: str, how: _ChartContext, lines: Sequence[_Line]) -> Chart:
    described = "; ".join(_description(how.about, line) for line in lines)
    parts = [
        *how.axes.drawn((how.along.name, how.about.label), _ticks(how)),
        *(part for line in lines for part in _line(how, line)),
        *svg.doubt_marks(how.axes, (doubt for line in lines for doubt in _doubts(how, line))),
    ]
    drawing = svg.picture(
        key,
        title=title,
        description=f"{described}. The tables below have the figures.",
        height=svg.XY_HEIGHT + 42,
        parts=parts,
    )
    return Chart(key, title, drawing)


def _ticks(how: _ChartContext) -> list[tuple[float, str]]:
    """Returns the labels of the values of the axis, without those that would overlap."""
    ticks: list[tuple[float, str]] = []
    last = -_MIN_LABEL_DISTANCE
    for label in how.along.values:
        value = parse_number(label) or 0.0
        at = how.axes.across.at(value)
        if at - last >= _MIN_LABEL_DISTANCE:
            ticks.append((value, label))
            last = at
    return ticks


def _line(how: _ChartContext, line: _Line) -> Iterator[Markup]:
    place = how.names.index(line.name)
    css = f"s{place % LINES}"
    about = how.about
    means = [how.axes.at(at, _mean(runs, about)) for at, runs in line.points]
    yield from (svg.line(one, other, class_=f"series {css}") for one, other in pairwise(means))
    for at, runs in line.points:
        values = [(run, metric_value(run, about.name) or 0.0) for run in runs]
        cell = (runs[0].version, runs[0].variant)
        if interval := fmt.drawn_interval(how.means[cell]):
            yield from svg.upright_whisker(how.axes, at, interval, f"upright {css}")
        for run, value in values:
            tooltip = f"{line.name}, {how.along.name} {at:g}, run {run.number}: {fmt.with_unit(about, value)}"
            yield svg.marker(*how.axes.at(at, value), place, tooltip, class_=f"run {css}")


def _doubts(how: _ChartContext, line: _Line) -> Iterator[svg.Doubt]:
    for at, runs in line.points:
        cell = (runs[0].version, runs[0].variant)
        yield at, fmt.drawn_end(how.means[cell]), how.doubts.get(cell, ())


def _mean(runs: Sequence[Run], about: Metric) -> float:
    return mean(metric_value(run, about.name) for run in runs) or 0.0


def _description(about: Metric, line: _Line) -> str:
    (first, first_runs), (last, last_runs) = line.points[0], line.points[-1]
    return (
        f"{line.name}: {fmt.column(about, _mean(first_runs, about))} at {first:g}, "
        f"{fmt.column(about, _mean(last_runs, about))} at {last:g}"
    )
