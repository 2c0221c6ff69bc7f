"""Says what is drawn of a session: the rows of bars and the series that `charts.py` draws.

For each chart one function takes the data from the session, and another one draws it. Nothing is made for one
experiment only: cells are bars, or lines if an axis is numeric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from recovery import phase_table
from recovery.analysis.growth import Curve, growth_curves
from recovery.analysis.statistics import Prediction
from recovery.analysis.summary import (
    Cell,
    Group,
    Summary,
    cell_words_in_group,
    groups,
    is_self_explanatory,
    main_value,
    mean,
    measured_runs_by_cell,
    metric_value,
    own_read_requests,
    parse_number,
    per_table,
    phase_means,
    scale_axis,
    summarise,
    value_words,
)
from recovery.analysis.warnings import doubts_by_cell
from recovery.metrics import Metric, metric
from recovery.model import STARTUP_METRIC, Axis, Run, Session
from recovery.phase_table import estimated_phases, of_the_start, sorted_phases
from recovery.report import fmt
from recovery.report.fmt import group_title
from recovery.report.html.charts import (
    COLOURS,
    LINES,
    About,
    Point,
    Row,
    Segment,
    Series,
    bar_css,
    bars,
    line_css,
    xy,
)
from recovery.report.html.parts import Chart, LegendEntry, Panels, Part, side_by_side
from recovery.report.load_tables import DEVICE_READS, PAGES, page_size_groups
from recovery.report.startup_tables import floor_comparisons, no_floor_notes, one_more
from recovery.report.summary_text import mean_text

_IN_THE_TABLE = "The table below has the figures."


def version_segments(versions: Iterable[str]) -> tuple[Segment, ...]:
    """Returns a colour for each version: the same in all charts of bars."""
    return tuple(Segment(version, bar_css(number)) for number, version in enumerate(versions))


def _summaries(session: Session) -> dict[Cell, Summary]:
    return {(summary.version, summary.variant): summary for summary in summarise(session)}


def _cells_by_variant(session: Session) -> Iterator[tuple[str, str, tuple[Run, ...]]]:
    """Yields version, variant and measured runs of each cell; all versions of a variant follow each other."""
    cells = measured_runs_by_cell(session)
    for variant in session.variant_names:
        yield from (
            (version, variant, cells[version, variant]) for version in session.versions if (version, variant) in cells
        )


# --- The main metric of the cells: lines along a numeric axis, else bars


def group_charts(session: Session) -> Iterator[Part]:
    """Yields a chart for each group: lines if an axis has enough numeric values, else bars."""
    for number, group in enumerate(groups(session), 1):
        drawn = scaling_charts(session, group, f"scaling-{number}") or cells_chart(session, group, f"bars-{number}")
        if drawn is not None:
            yield drawn


def cells_chart(session: Session, group: Group, key: str) -> Chart | None:
    """Returns the means of a group as bars, or None if nothing above zero was measured."""
    rows = cell_rows(session, group)
    if max((row.end for row in rows), default=0.0) <= 0:
        return None
    label = metric(group.metric).label
    about = About(key, group_title(f"{session.title}: {label}", group), label, description=_IN_THE_TABLE)
    return bars(about, rows, version_segments(session.versions))


def cell_rows(session: Session, group: Group) -> list[Row]:
    """Returns a row for each cell of a group, with the interval of its mean and its runs."""
    about, means, doubts = metric(group.metric), _summaries(session), doubts_by_cell(session)
    is_named = session.are_told_apart(group.variants, group.axes)
    rows = []
    for version, variant, runs in _cells_by_variant(session):
        values = [(value, run) for run in runs if (value := main_value(session, run)) is not None]
        if variant in group.variants and values:
            summary = means[version, variant]
            rows.append(
                Row(
                    (is_named and (cell_words_in_group(session, group, variant) or group.name)) or variant,
                    {version: summary.mean or 0.0},
                    _mean_text(summary, about),
                    interval=fmt.drawn_interval(summary),
                    runs=tuple((value, f"run {run.number}: {fmt.with_unit(about, value)}") for value, run in values),
                    doubts=tuple(doubts.get((version, variant), ())),
                )
            )
    return rows


def _mean_text(summary: Summary, about: Metric) -> str:
    """Formats a mean with its interval, as the answer and the table do."""
    if fmt.drawn_interval(summary) is None:
        value = fmt.with_unit(about, summary.mean or 0.0) if about.unit == "s" else fmt.column(about, summary.mean)
        return value if summary.count == 1 else f"mean {value}"
    if about.name == STARTUP_METRIC:
        return mean_text(summary)
    unit, error = " s" if about.unit == "s" else "", fmt.interval_column(about, summary)
    if summary.low is not None:
        return f"{fmt.column(about, summary.mean)}{unit} ({error})"
    return f"{fmt.column(about, summary.mean)} +- {error}{unit}"


def scaling_charts(session: Session, group: Group, key: str) -> Panels | Chart | None:
    """Returns the means of a group along its numeric axis, or None if there is no such axis or nothing was measured.
    Panels of the same kind of work share their scales, so that they can be compared."""
    along = scale_axis(group)
    panels = scaling_series(session, group, along) if along else {}
    if along is None or not panels:
        return None
    split, about = _panel_axes(session, group, along), metric(group.metric)
    points = {panel: [point for drawn in series for point in drawn.points] for panel, series in panels.items()}
    farthest = max(point.x for of_panel in points.values() for point in of_panel)
    charts = []
    for number, (panel, series) in enumerate(panels.items(), 1):
        alike = [other for other in panels if _scale_key(split, other) == _scale_key(split, panel)]
        top = max(point.top for other in alike for point in points[other])
        words = ", ".join(value_words(axis, value) for axis, value in zip(split, panel, strict=True) if value)
        own = About(f"{key}-{number}", words or about.label, along.name, description=_IN_THE_TABLE)
        ticks = sorted((parse_number(value) or 0.0, value) for value in along.values)
        charts.append(xy(own, series, ticks=ticks, least=(farthest, top)))
    title = group_title(f"{session.title}: {about.label} against {along.name}", group)
    return side_by_side(f"{key}-panels", title, charts, ("Lines join the means. Each symbol is a run.",))


_Key = tuple[str, ...]
"""Values on the axes by which panels differ."""


def scaling_series(session: Session, group: Group, along: Axis) -> dict[_Key, list[Series]]:
    """Returns the series of each panel: one for each version and combination of the other axes' values."""
    split = _panel_axes(session, group, along)
    rest = [axis for axis in group.axes if axis.name != along.name and axis not in split]
    about, means, doubts = metric(group.metric), _summaries(session), doubts_by_cell(session)
    found: dict[tuple[_Key, str], list[Point]] = {}
    for (version, variant), runs in measured_runs_by_cell(session).items():
        cell = session.values_of(variant)
        at = parse_number(cell.get(along.name, ""))
        values = [(value, run) for run in runs if (value := main_value(session, run)) is not None]
        if variant not in group.variants or at is None or not values:
            continue
        name = ", ".join([version, *(value_words(axis, cell[axis.name]) for axis in rest if axis.name in cell)])
        points = found.setdefault((_key(session, variant, split), name), [])
        points.append(_mean_point(at, means[version, variant], doubts.get((version, variant), ())))
        tooltip = f"{name}, {along.name} {at:g}, run"
        points += [Point(at, value, "run", f"{tooltip} {run.number}: {fmt.with_unit(about, value)}")
                   for value, run in values]  # fmt: skip
    names = list(dict.fromkeys(name for _, name in found))
    panels: dict[_Key, list[Series]] = {}
    for (panel, name), points in found.items():
        points.sort(key=lambda point: point.x)
        css, line = line_css(names.index(name)), _through_means(points)
        panels.setdefault(panel, []).append(Series(name, css, about.label, line, tuple(points)))
    return panels


def _mean_point(x: float, summary: Summary, doubts: Iterable[str]) -> Point:
    return Point(x, summary.mean or 0.0, "mean", interval=fmt.drawn_interval(summary), doubts=tuple(doubts))


def _through_means(points: Iterable[Point]) -> tuple[tuple[float, float], ...]:
    return tuple((point.x, point.y) for point in points if point.kind == "mean")


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
    found: dict[_Key, set[_Key]] = {}
    for variant in group.variants:
        found.setdefault(_key(session, variant, split), set()).add(_key(session, variant, rest))
    return max(map(len, found.values()), default=0) * len(session.versions)


def _key(session: Session, variant: str, axes: Sequence[Axis]) -> _Key:
    cell = session.values_of(variant)
    return tuple(cell.get(axis.name, "") for axis in axes)


def _scale_key(split: Sequence[Axis], panel: _Key) -> _Key:
    """Returns the key of a panel's scale, which panels of the same kind of work have in common."""
    return tuple(value for axis, value in zip(split, panel, strict=True) if is_self_explanatory(axis))


# --- Startup time against the number of tables, and its prediction for more tables

_MAX_PREDICTION_FACTOR = 2.5
"""Farthest prediction in this chart, as a multiple of the largest measured number of tables. One farther ahead would
press the measured points into a corner, and is only in the chart below."""


def growth_charts(session: Session) -> Iterator[Chart]:
    curves = growth_curves(session)
    if not curves:
        return
    requested, ahead = session.design.predict, _near_prediction(session, curves)
    words = "" if requested is None else _predicted_words(requested)
    notes = () if ahead is None else (f"Hollow: {words[0].lower()}{words[1:]}.",)
    title = f"{session.title} against the number of tables"
    yield xy(About("growth-chart", title, "tables", notes, _IN_THE_TABLE), growth_series(session))
    about = About("predicted-chart", words, "s", interval=f"95 % interval of one more {one_more(session)}")
    predicted = bars(about, predicted_rows(session), (Segment("", bar_css(0)),))
    if predicted is not None:
        yield predicted


def growth_series(session: Session) -> list[Series]:
    """Returns each curve: its fitted line, its runs, the intervals of their means, and a prediction that is near."""
    curves, means, doubts = growth_curves(session), _summaries(session), doubts_by_cell(session)
    ahead = _near_prediction(session, curves)
    found = []
    for number, curve in enumerate(curves):
        name = f"{curve.version} {curve.variant}"
        points = []
        for tables, runs in curve.points:
            cell = (curve.version, runs[0].variant)
            points.append(_mean_point(tables, means[cell], doubts.get(cell, ())))
            for run in runs:
                seconds = metric_value(run, STARTUP_METRIC) or 0.0
                points.append(Point(tables, seconds, "run", f"{name}, run {run.number}: {fmt.seconds(seconds)} s"))
        end = curve.points[-1][0]
        if ahead is not None and (prediction := _usable_prediction(curve, ahead)) is not None:
            tooltip = f"{name}: {fmt.seconds(prediction.seconds)} s predicted for {ahead:,} tables"
            points.append(Point(ahead, prediction.seconds, "predicted", tooltip, prediction.interval))
            end = max(end, ahead)
        line = () if curve.fit is None else curve.fit.drawn(end)
        found.append(Series(name, line_css(number), "seconds", line, tuple(points)))
    return found


def predicted_rows(session: Session) -> list[Row]:
    """Returns a row for each curve that can be extended to the requested number of tables."""
    requested = session.design.predict
    rows = []
    for curve in growth_curves(session) if requested is not None else ():
        if requested is not None and (prediction := _usable_prediction(curve, requested)) is not None:
            name = f"{curve.version} {curve.variant}{_tested(curve)}"
            text = f"{fmt.seconds(prediction.seconds)} s"
            rows.append(Row(name, {"": prediction.seconds}, text, interval=prediction.interval))
    return rows


def _near_prediction(session: Session, curves: Sequence[Curve]) -> int | None:
    """Returns the requested number of tables, unless it is too far ahead for the chart of the measured ones."""
    requested = session.design.predict
    max_tables = max((tables for curve in curves for tables, _ in curve.points), default=0)
    return requested if requested is not None and requested <= _MAX_PREDICTION_FACTOR * max_tables else None


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


# --- Phases of a start


def phase_segment(phase: str) -> Segment:
    """Returns the colour of a phase: the same in every chart, hatched if another phase has the plain colour. Phases
    that no log line separates have the colour of the first one, with the hatching reversed. Sixteen styles are
    distinct; the others are used twice, by phases that are rare or that no start has in common."""
    first, joined, _ = phase.partition(phase_table.JOIN)
    # A query after the start is one like the first query.
    row = phase_table.ROWS[phase_table.FIRST_QUERY if phase_table.is_after_the_start(phase) else first]
    return Segment(phase, f"phase p{row.colour % COLOURS}", bool(joined) != (row.colour >= COLOURS))


def is_phase(entry: LegendEntry) -> bool:
    return entry.css.startswith("swatch phase ")


def phases_chart(session: Session) -> Chart | None:
    """Returns the mean duration of the phases as stacked bars, or None if no run has phases."""
    rows = phase_rows(session)
    names = sorted_phases(name for row in rows for name in row.values)
    about = About("phases-chart", "Mean seconds of each phase", "s", description=_IN_THE_TABLE)
    return bars(about, rows, tuple(map(phase_segment, names)))


def phase_rows(session: Session) -> list[Row]:
    """Returns a row for each cell. A duration with an estimated boundary is marked."""
    cells = measured_runs_by_cell(session)
    rows = []
    for (version, variant), seconds in phase_means(session).items():
        estimated = estimated_phases((run.startup.phases for run in cells[version, variant]), seconds)
        tooltips = {
            name: f"{fmt.estimate(fmt.seconds(duration), name in estimated)} s" for name, duration in seconds.items()
        }
        start = of_the_start(seconds)
        after = [duration for name, duration in seconds.items() if name not in start]
        sums = (fmt.seconds(sum(part)) for part in (start.values(), after) if part)
        rows.append(Row(f"{version} {variant}", seconds, f"{' + '.join(sums)} s", tooltips))
    return rows


# --- Reads of a start, and its time compared with the storage floor


def reads_chart(session: Session) -> Chart | None:
    """Returns the chart of the bytes read for each table, or None if they were not counted."""
    unit, rows = read_rows(session)
    return bars(About("reads-chart", "Bytes read for each table", unit), rows, version_segments(session.versions))


def read_rows(session: Session) -> tuple[str, list[Row]]:
    """Returns the unit of the values, and a row for each cell."""
    found = []
    for version, variant, runs in _cells_by_variant(session):
        if (size := mean(per_table(run, "read_bytes") for run in runs)) is not None:
            requests = own_read_requests(session, runs, for_each_table=True)
            text = fmt.size(round(size)) + ("" if requests is None else f" in {requests:.2g} reads")
            found.append((version, variant, size, text))
    divisor, unit = fmt.size_unit(max((size for *_, size, _ in found), default=0))
    return unit, [Row(variant, {version: size / divisor}, text) for version, variant, size, text in found]


def floor_chart(session: Session) -> Chart | None:
    """Returns the chart of startups over the floor, or None if no floor was measured or it applies to no start."""
    many = max((floor.threads for floor in session.floors), default=0)
    title = "Cold startups over the floor: 1 is what plain reads of the same files take"
    about = About("floor-chart", title, "times", no_floor_notes(tuple(floor_comparisons(session))))
    segments = (Segment(_OVER_ONE, bar_css(0)), Segment(_OVER_MANY.format(many), bar_css(2)))
    return bars(about, floor_rows(session, many), segments, reference=(1.0, "the floor itself"))


_OVER_ONE, _OVER_MANY = "over one thread's plain reads", "over those of {} threads"


def floor_rows(session: Session, many: int) -> list[Row]:
    rows = []
    for compared in (compared for compared in floor_comparisons(session) if compared.is_floor):
        name = f"{compared.floor.version} {compared.variant}"
        if compared.over_one is not None:
            rows.append(Row(name, {_OVER_ONE: compared.over_one}, f"{fmt.ratio(compared.over_one)} \u00d7 1 thread"))
        if compared.over_many is not None:
            text = f"{fmt.ratio(compared.over_many)} \u00d7 {compared.floor.threads} threads"
            rows.append(Row(name, {_OVER_MANY.format(many): compared.over_many}, text))
    return rows


# --- Queries per second against the reads of the device, for different page sizes


def page_size_charts(session: Session) -> Iterator[Chart]:
    for number, group in enumerate(page_size_groups(session), 1):
        series = page_size_series(session, group)
        if any(len(_through_means(drawn.points)) > 1 for drawn in series):
            joined = (
                "; lines join the means, from page size to page size" if any(drawn.line for drawn in series) else ""
            )
            about = About(
                f"against-reads-{number}",
                group_title("Queries and reads of the device", group),
                f"{metric(DEVICE_READS).label} of the device",
                (f"Each symbol is a run{joined}. Up and to the left is better.",),
            )
            yield xy(about, series)


def page_size_series(session: Session, group: Group) -> list[Series]:
    """Returns a series for each version and everything else that is not about pages, with a mean for each page size.
    If the number of clients is an axis, only the largest number is used, because more clients cause more device
    reads."""
    scale = scale_axis(group)
    found: dict[str, list[Point]] = {}
    for (version, variant), all_runs in measured_runs_by_cell(session).items():
        runs = tuple(run for run in all_runs if metric_value(run, DEVICE_READS) and metric_value(run, "qps"))
        cell = session.values_of(variant)
        if variant not in group.variants or not runs:
            continue
        if scale is not None and cell.get(scale.name) != scale.values[-1]:
            continue
        size = " ".join(cell[name] for name in PAGES if name in cell)
        name = ", ".join(filter(None, (version, cell_words_in_group(session, group, variant, without=PAGES))))
        points = found.setdefault(name, [])
        points.append(Point(*_reads_and_queries(runs), "mean", label=size))
        for run in runs:
            reads, queries = _reads_and_queries((run,))
            rates = f"{fmt.with_unit(metric('qps'), queries)} at {fmt.with_unit(metric(DEVICE_READS), reads)}"
            points.append(Point(reads, queries, "run", f"{name}, {size}, run {run.number}: {rates}"))
    # Compressed pages have no place in the order of plain page sizes.
    return [
        Series(
            name,
            line_css(number),
            metric("qps").label,
            _through_means(points) if all(point.label[:-1].isdigit() for point in points if point.label) else (),
            tuple(points),
        )
        for number, (name, points) in enumerate(found.items())
    ]


def _reads_and_queries(runs: Sequence[Run]) -> tuple[float, float]:
    reads, queries = (mean(metric_value(run, name) for run in runs) or 0.0 for name in (DEVICE_READS, "qps"))
    return reads, queries
