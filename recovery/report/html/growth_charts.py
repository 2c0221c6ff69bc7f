"""Draws the startup time against the number of tables, and its prediction for more tables, for the HTML report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from markupsafe import Markup

from recovery.analysis.growth import Curve, growth_curves, requested_prediction
from recovery.analysis.statistics import Prediction
from recovery.analysis.summary import measured_runs_by_cell, summarise
from recovery.analysis.warnings import doubts_by_cell
from recovery.model import Session
from recovery.report import fmt
from recovery.report.html import svg
from recovery.report.html.svg import BarChartOptions, BarRow, Chart, LegendEntry, XYAxes, bar_chart

KEY = "growth-chart"
_MAX_PREDICTION_FACTOR = 2.5
"""Farthest prediction in this chart, as a multiple of the largest measured number of tables. One farther ahead would
press the measured points into a corner, and is only in the chart below."""


def growth_charts(session: Session) -> tuple[Chart, ...]:
    found = growth_curves(session)
    if not found:
        return ()
    predicted = _predicted(session, found)
    return (_growth(session, found), *((predicted,) if predicted else ()))


def _growth(session: Session, found: Sequence[Curve]) -> Chart:
    max_tables = max(tables for curve in found for tables, _ in curve.points)
    requested = requested_prediction(session)
    ahead = requested if requested is not None and requested <= _MAX_PREDICTION_FACTOR * max_tables else None
    axes = XYAxes.within(max(max_tables, ahead or 0), max(_largest_value(session, curve, ahead) for curve in found))
    title = f"{session.title} against the number of tables"
    legend = [
        LegendEntry(f"marker s{number % svg.LINES}", f"{curve.version} {curve.variant}")
        for number, curve in enumerate(found)
    ]
    if any(map(fmt.drawn_interval, summarise(session))):
        legend.append(LegendEntry("sign-whisker", "95 % interval of the mean"))
    if doubts_by_cell(session):
        legend.append(svg.DOUBTED)
    notes = () if ahead is None else (f"Hollow: {_predicted_words(ahead)[0].lower()}{_predicted_words(ahead)[1:]}.",)
    signs = [part for number, curve in enumerate(found) for part in _curve(session, curve, number, axes, ahead)]
    signs += svg.doubt_marks(axes, _doubts(session))
    drawing = svg.picture(
        KEY,
        title=title,
        description="; ".join(_description(curve) for curve in found) + ". The tables below have the figures.",
        height=svg.XY_HEIGHT + 42,
        parts=[*axes.drawn(("tables", "seconds")), *signs],
    )
    return Chart(KEY, title, drawing, tuple(legend), notes)


def _largest_value(session: Session, curve: Curve, ahead: int | None) -> float:
    """Returns the largest value that is drawn for a curve: its runs, the intervals of their means, its fitted line, and
    its prediction with the interval."""
    cells = {(curve.version, runs[0].variant) for _, runs in curve.points}
    times = [fmt.drawn_end(one) for one in summarise(session) if (one.version, one.variant) in cells]
    times += [seconds for _, seconds in _line_corners(curve, ahead)]
    if ahead is not None and (found := _usable_prediction(curve, ahead)) is not None:
        times.append(found.high_s or found.seconds)
    return max(times)


def _doubts(session: Session) -> Iterator[svg.Doubt]:
    doubts = doubts_by_cell(session)
    for one in summarise(session):
        if cell := doubts.get((one.version, one.variant)):
            runs = measured_runs_by_cell(session)[one.version, one.variant]
            yield runs[0].contents.tables_found or 0, fmt.drawn_end(one), cell


def _line_corners(curve: Curve, ahead: int | None) -> tuple[tuple[float, float], ...]:
    """Returns the corners of the fitted line, up to the largest measured point or up to the prediction."""
    if curve.fit is None:
        return ()
    max_tables = curve.points[-1][0]
    is_predicted = ahead is not None and _usable_prediction(curve, ahead) is not None
    return curve.fit.drawn(max(max_tables, ahead) if ahead is not None and is_predicted else max_tables)


def _curve(session: Session, curve: Curve, number: int, axes: XYAxes, ahead: int | None) -> Iterator[Markup]:
    means = {(one.version, one.variant): one for one in summarise(session)}
    css = f"s{number % svg.LINES}"
    for start, end in pairwise(axes.at(tables, seconds) for tables, seconds in _line_corners(curve, ahead)):
        yield svg.line(start, end, class_=f"series {css}")
    if ahead is not None and (found := _usable_prediction(curve, ahead)) is not None:
        if found.interval is not None:
            yield from svg.upright_whisker(axes, ahead, found.interval, "whisker")
        tooltip = f"{curve.version} {curve.variant}: {fmt.seconds(found.seconds)} s predicted for {ahead:,} tables"
        yield svg.marker(*axes.at(ahead, found.seconds), number, tooltip, class_=f"hollow {css}")
    for tables, runs in curve.points:
        for run in runs:
            seconds = run.metrics.get("startup_s")
            tooltip = f"{curve.version} {curve.variant}, run {run.number}: {fmt.seconds(seconds)} s"
            yield svg.marker(*axes.at(tables, seconds or 0.0), number, tooltip, class_=f"run {css}")
        one = means[curve.version, runs[0].variant]
        if interval := fmt.drawn_interval(one):
            yield from svg.upright_whisker(axes, tables, interval, f"upright {css}")


def _predicted(session: Session, found: Sequence[Curve]) -> Chart | None:
    requested = requested_prediction(session)
    if requested is None:
        return None
    about = BarChartOptions("predicted-chart", _predicted_words(requested), "s")
    rows = []
    for curve in found:
        if (one := _usable_prediction(curve, requested)) is not None:
            name = f"{curve.version} {curve.variant}{_tested(curve)}"
            rows.append(BarRow(name, one.seconds, f"{fmt.seconds(one.seconds)} s", "v0", one.low_s, one.high_s))
    return bar_chart(about, rows)


def _tested(curve: Curve) -> str:
    found = curve.held_out
    if found is None or found.off is None:
        return ", not tested"
    return f", tested: {found.tables:,} tables took {fmt.whole_percent(found.off, sign='+')}"


def _predicted_words(tables: int) -> str:
    return f"Predicted for {tables:,} tables; with the 95 % interval of one more run where a straight line fits"


def _usable_prediction(curve: Curve, tables: int) -> Prediction | None:
    """Returns the prediction for this number of tables, or None if there is no fit or its test failed."""
    return None if curve.fit is None or curve.predicts is False else curve.fit.predict(tables)


def _description(curve: Curve) -> str:
    (min_tables, _), (max_tables, runs) = curve.points[0], curve.points[-1]
    slowest = max(run.metrics.get("startup_s") or 0.0 for run in runs)
    tables = f"from {min_tables:,} to {max_tables:,} tables"
    return f"{curve.version} {curve.variant}: {tables}, up to {fmt.seconds(slowest)} s there"
