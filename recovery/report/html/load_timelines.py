"""Draws the timelines of servers under load: the figures of the median run of each cell, second by second.

Runs with a switch off and on are drawn over each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from markupsafe import Markup

from recovery.analysis.summary import (
    cell_words,
    groups,
    is_switch,
    main_value,
    measured_runs_by_cell,
    median_run,
    scale_axis,
    value_words,
)
from recovery.model import Axis, LoadTimeline, Run, Series, Session, metric
from recovery.report import fmt
from recovery.report.fmt import ChartAxis, round_step, rounded_axis
from recovery.report.html import svg
from recovery.report.html.svg import Chart, FoldedParts, LegendEntry, Part

# --- Selection of the figures: which are drawn, in which order, and which are folded, depending on the experiment

CPU_FIGURES = ("server_cpus", "client_cpus", "others_cpus")
"""Figures that share a panel if only one run is drawn."""
_CACHE = (
    "qps", "table_open_cache_hits_per_s", "table_open_cache_misses_per_s", "load_table_open_cache_misses_per_s",
    "opened_tables_per_s", "opened_table_definitions_per_s", "table_open_cache_overflows_per_s",
    "table_open_cache_active_instances",
)  # fmt: skip
_FIGURES_BY_SCENARIO: dict[str, tuple[str, ...]] = {
    "interference": (*_CACHE, *CPU_FIGURES),
    "table-cache": (*_CACHE, "mutex_os_waits_per_s", "rwlock_os_waits_per_s", *CPU_FIGURES),
    "write-scaling": (
        "qps", "redo_bytes_per_s", "fsyncs_per_s", "written_bytes_per_s", "row_lock_waits_per_s",
        "mutex_os_waits_per_s", "rwlock_os_waits_per_s", "checkpoint_age_bytes", "device_reads_per_s", *CPU_FIGURES,
    ),
    "metadata": (
        "device_reads_per_s", "read_bytes_per_s", "opened_tables_per_s", "opened_table_definitions_per_s",
        "table_open_cache_misses_per_s", "fsyncs_per_s", *CPU_FIGURES,
    ),
}  # fmt: skip
"""The figures to draw first, by scenario."""
_DEFAULT_FIGURES = (
    "qps", "table_open_cache_misses_per_s", "opened_tables_per_s", "device_reads_per_s", "redo_bytes_per_s",
    "fsyncs_per_s", "row_lock_waits_per_s", *CPU_FIGURES,
)  # fmt: skip
_NEVER_INCREMENTED = frozenset({"rwlock_os_waits_per_s"})
"""Figures that are not listed as zero, because MySQL 8.0 has these counters but never increments them."""
Panel = tuple[str, ...]


@dataclass(frozen=True)
class PanelSelection:
    first: tuple[Panel, ...]
    """Panels of the figures that matter for the experiment."""
    rest: tuple[Panel, ...]
    """Panels of the other recorded figures."""
    nothing: tuple[str, ...]
    """Titles of the figures that matter for the experiment but were zero in every sample."""


def select_panels(scenario: str, timelines: Sequence[LoadTimeline]) -> PanelSelection:
    """Returns the panels for runs that are drawn over each other. A figure that is always zero after the warm-up is not
    drawn."""
    wanted = _FIGURES_BY_SCENARIO.get(scenario, _DEFAULT_FIGURES)
    there = list(dict.fromkeys(series.name for one in timelines for series in one.series))
    drawn = {series.name for one in timelines for series in one.series if _is_nonzero(one, series)}
    first = [name for name in wanted if name in drawn]
    rest = [name for name in there if name in drawn and name not in wanted]
    if not first:
        first, rest = rest, first
    nothing = (name for name in wanted if name in there and name not in drawn and name not in _NEVER_INCREMENTED)
    return PanelSelection(
        _panels(first, alone=len(timelines) == 1),
        _panels(rest, alone=len(timelines) == 1),
        tuple(metric(name).label for name in nothing),
    )


def _is_nonzero(timeline: LoadTimeline, series: Series) -> bool:
    return any(value for at_s, value in zip(timeline.at_s, series.values, strict=False) if at_s > 0)


def _panels(names: Sequence[str], *, alone: bool) -> tuple[Panel, ...]:
    cpus = tuple(name for name in names if name in CPU_FIGURES) if alone else ()
    return tuple(dict.fromkeys(cpus if name in cpus else (name,) for name in names))


# --- Drawing

_PANEL, _HEAD = 64.0, 24.0
_BAND, _ROW = 5.0, 22.0
"""Heights of a band that shows when polls ran during the load, and of its row above the panels."""
_FIELD = 1000.0
"""Horizontal units of a panel, which is stretched to the picture's width."""
_MIN_SAMPLES = 3
_MAX_POINTS = 160
_MAX_OPEN, _MAX_FOLDED = 8, 32
_TICKS = 6
_POLLS = "polls_per_s"
Segment = list[tuple[float, float]]


@dataclass(frozen=True)
class _OverlaidRuns:
    """Runs that are drawn over each other."""

    version: str
    name: str
    runs: tuple[tuple[str, Run], ...]
    """Each run with its name in the legend."""


def load_timelines(session: Session) -> tuple[Part, ...]:
    """Returns the timelines of a session. Cells at the end of the scaled axis are preferred, because they show most;
    those beyond the limit are folded."""
    shown = _overlaid_runs(session)
    wanted = sorted(shown, key=lambda one: not _is_last(session, one.runs[0][1].variant))[:_MAX_OPEN]
    rest = [one for one in shown if one not in wanted]
    opened = tuple(part for one in shown if one in wanted for part in _parts(session, one))
    if not rest:
        return opened
    folded = tuple(_chart(one, select_panels(session.scenario, _samples(one))) for one in rest[:_MAX_FOLDED])
    left = len(rest) - len(folded)
    also = f"; {left} more are in report.json" if left else ""
    return (*opened, FoldedParts(f"The other cells: {len(folded)}{also}", folded))


def _parts(session: Session, shown: _OverlaidRuns) -> Iterator[Part]:
    """Yields the chart of the figures that matter for the experiment, then the other figures, folded."""
    found = select_panels(session.scenario, _samples(shown))
    yield _chart(shown, found)
    if found.rest:
        more = _drawing(shown, found.rest, f"{_key(shown)}-more", f"{_title(shown)}, further figures")
        titles = ", ".join(metric(names[0]).label for names in found.rest)
        yield FoldedParts(f"Further figures of {_title(shown)}: {titles}", (more,))


def _key(shown: _OverlaidRuns) -> str:
    return f"over-time-{shown.runs[0][1].number}"


def _title(shown: _OverlaidRuns) -> str:
    return f"{shown.version} {shown.name}".strip()


def _samples(shown: _OverlaidRuns) -> list[LoadTimeline]:
    return [run.watched or LoadTimeline(()) for _, run in shown.runs]


def _is_last(session: Session, variant: str) -> bool:
    scales = [scale for group in groups(session) if variant in group.variants and (scale := scale_axis(group))]
    return all(session.value_of(variant, axis.name) == axis.values[-1] for axis in scales)


def _overlaid_runs(session: Session) -> list[_OverlaidRuns]:
    over = next((axis for axis in session.differing_axes if is_switch(axis) and axis.base), None)
    found: dict[tuple[str, str], list[tuple[str, Run]]] = {}
    for (version, variant), runs in measured_runs_by_cell(session).items():
        sampled = [run for run in runs if run.watched is not None and len(run.watched.at_s) >= _MIN_SAMPLES]
        run = median_run(session, sampled)
        if run is not None:
            name = cell_words(session, variant, without=(over.name,) if over else ())
            found.setdefault((version, name), []).append((_run_label(session, over, run), run))
    return [_OverlaidRuns(version, name, tuple(runs)) for (version, name), runs in found.items()]


def _run_label(session: Session, over: Axis | None, run: Run) -> str:
    value = session.value_of(run.variant, over.name) if over else None
    named = f"{value_words(over, value)}, " if over and value else ""
    value_text = (
        ""
        if (main := main_value(session, run)) is None
        else f": {fmt.with_unit(metric(session.figure_of(run.variant)), main)}"
    )
    return f"{named}run {run.number}{value_text}"


def _chart(shown: _OverlaidRuns, found: PanelSelection) -> Chart:
    chart = _drawing(shown, found.first, _key(shown), _title(shown))
    nothing = (f"Zero while it was measured: {', '.join(found.nothing)}.",) if found.nothing else ()
    return replace(chart, notes=nothing)


def _drawing(shown: _OverlaidRuns, panels: Sequence[tuple[str, ...]], key: str, title: str) -> Chart:
    timelines = _samples(shown)
    start = min(0.0, *(one.at_s[0] for one in timelines))
    end = max(one.at_s[-1] for one in timelines)
    across = ChartAxis(max(end - start, 1e-9), svg.START, 100 - svg.START)
    parts, y = _polling_rows(across, shown, start)
    for names in panels:
        parts += _panel(across, y, names, [(one, start) for one in timelines])
        y += _HEAD + _PANEL
    names_text = "; ".join(name for name, _ in shown.runs)
    drawing = svg.picture(
        key,
        title=title,
        description=f"Second by second: {names_text}.",
        height=y + 26,
        parts=[*_warmup(across, start, y), *_time_axis(across, (start, end), y), *parts],
    )
    return Chart(key, title, drawing, tuple(_legend(shown, panels, warm=start < 0)))


def _legend(shown: _OverlaidRuns, panels: Sequence[tuple[str, ...]], *, warm: bool) -> Iterator[LegendEntry]:
    for number, (name, _) in enumerate(shown.runs):
        yield LegendEntry(f"stroke s{number % 6}", name)
    cpus = next((names for names in panels if len(names) > 1), ())
    yield from (LegendEntry(f"stroke {_css_of_cpu(name)}", metric(name).label) for name in cpus)
    if warm:
        yield LegendEntry("swatch warming", "warm-up, in no figure")


def _polling_rows(across: ChartAxis, shown: _OverlaidRuns, start: float) -> tuple[list[Markup], float]:
    """Returns a band for each run in which a poller queried the server during the load and its warm-up, and the height
    they take. A band spans the time from the poller's start to its end, and is dark where it received answers."""
    parts: list[Markup] = []
    y = 4.0
    for number, (name, run) in enumerate(shown.runs):
        polls = run.metrics.get(_POLLS)
        if polls is None:
            continue
        text = f"{name.partition(', ')[0]}: {fmt.with_unit(metric(_POLLS), polls)} beside the load"
        bands = tuple(_polling_bands(run.watched or LoadTimeline(())))
        text += "; dark: answers" if len(bands) > 2 else ""
        parts.append(svg.text(svg.START, y + 11, text, dx=2, class_="tick"))
        for span, css in bands:
            x = (across.at(span[0] - start), across.at(span[1] - start))
            parts.append(svg.rectangle(x, (y + 16, y + 16 + _BAND), class_=f"{css} s{number % 6}"))
        y += _ROW
    return parts, y


def _polling_bands(timeline: LoadTimeline) -> Iterator[tuple[tuple[float, float], str]]:
    """Yields the time span and CSS class of each band: all of the polling, then the parts that received answers."""
    values = next((series.values for series in timeline.series if series.name == _POLLS), ())
    # A rate covers the time since the previous sample.
    rates = [(since, until, rate) for (since, until), rate in zip(pairwise(timeline.at_s), values[1:], strict=False)]
    polled = [(since, until) for since, until, rate in rates if rate is not None]
    if polled:
        yield (polled[0][0], polled[-1][1]), "polling silent"
    for answered, some in groupby(rates, key=lambda one: bool(one[2])):
        together = list(some)
        if answered:
            yield (together[0][0], together[-1][1]), "polling"


def _panel(
    across: ChartAxis, y: float, names: tuple[str, ...], timelines: Sequence[tuple[LoadTimeline, float]]
) -> list[Markup]:
    curves = [
        (_css_of_cpu(name) if len(names) > 1 else f"s{number % 6}", segment)
        for number, (one, start) in enumerate(timelines)
        for name in names
        for segment in _segments(one, name, start)
    ]
    about = metric(names[0])
    up = rounded_axis(
        max((value for _, points in curves for _, value in points), default=0.0) or 1.0, start=_PANEL, end=0.0
    )
    top = y + _HEAD
    title = "CPUs in use" if len(names) > 1 else about.label
    inner = [_curve(across, up, points, f"curve {css}") for css, points in curves]
    label = f"{title}; the upper line is {fmt.cell(about, up.maximum)}"
    return [*svg.panel_frame(across, top, _PANEL, label=label), svg.panel(inner, top, size=(_FIELD, _PANEL))]


def _css_of_cpu(name: str) -> str:
    return {"server_cpus": "server", "client_cpus": "clients"}.get(name, "others")


def _segments(timeline: LoadTimeline, name: str, start: float) -> Iterator[Segment]:
    """Yields the connected parts of a curve, which is interrupted where the figure is missing. Several samples are
    averaged if there are more than a chart can show."""
    values = next((series.values for series in timeline.series if series.name == name), ())
    pairs = [(at_s - start, value) for at_s, value in zip(timeline.at_s, values, strict=False)]
    every = -(-len(pairs) // _MAX_POINTS)
    segment: Segment = []
    for first in range(0, len(pairs), every or 1):
        some = [(at, value) for at, value in pairs[first : first + every] if value is not None]
        if some:
            segment.append((some[0][0], sum(value for _, value in some) / len(some)))
        elif segment:
            yield segment
            segment = []
    if segment:
        yield segment


def _curve(across: ChartAxis, up: ChartAxis, points: Segment, css: str) -> Markup:
    stretched = [(across.at(at) * _FIELD / 100, up.at(max(0.0, value))) for at, value in points]
    return svg.stretched_path(stretched, size=(_FIELD, _PANEL), class_=css)


def _warmup(across: ChartAxis, start: float, bottom: float) -> list[Markup]:
    """Returns the shading of the warm-up, with a line where the measurement begins."""
    if start >= 0:
        return []
    x = across.at(-start)
    return [
        svg.rectangle((across.at(0), x), (0, bottom), class_="warming"),
        svg.line((x, 0), (x, bottom + 4), class_="began"),
    ]


def _time_axis(across: ChartAxis, span: tuple[float, float], bottom: float) -> Iterator[Markup]:
    """Yields the time axis. It counts seconds since the measurement began; the picture begins with the warm-up."""
    start, end = span
    step = round_step((end - start) / _TICKS)
    for number in range(int(end / step) + 1):
        x = across.at(number * step - start)
        yield svg.line((x, 0), (x, bottom), class_="grid")
        last = number == int(end / step)
        css = "tick roomy" if number % 2 and not last else "tick"
        text = f"{number * step:g} s" if last else f"{number * step:g}"
        anchor = "start" if x < 2 else "end" if x > 95 else "middle"
        yield svg.text(x, bottom + 16, text, text_anchor=anchor, class_=css)
