"""Draws what the median run of each cell did over time: with the phases of a start, or the warm-up and polls of a load.

Runs of a load with a switch off and on are drawn over each other. Every other run of a start is folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from markupsafe import Markup

from recovery.analysis.phase_names import sorted_phases
from recovery.analysis.summary import (
    cell_words,
    groups,
    is_switch,
    main_value,
    median_run,
    runs_by_cell,
    scale_axis,
    value_words,
)
from recovery.model import Axis, Run, Session, Timeline, metric
from recovery.report import fmt
from recovery.report.fmt import ChartAxis, round_step, rounded_axis
from recovery.report.html import svg
from recovery.report.html.svg import Chart, FoldedParts, LegendEntry, Part, phase_colour, phase_legend

# --- Figures: which are drawn, in which order, and which are folded

_CPUS = ("server_cpus", "client_cpus", "others_cpus")
"""Figures that share a panel if only one run is drawn."""
_TABLE_CACHE = (
    "qps", "table_open_cache_hits_per_s", "table_open_cache_misses_per_s", "load_table_open_cache_misses_per_s",
    "opened_tables_per_s", "opened_table_definitions_per_s", "table_open_cache_overflows_per_s",
    "table_open_cache_active_instances",
)  # fmt: skip
_BY_OPTION: dict[str, tuple[str, ...]] = {
    "table_open_cache": _TABLE_CACHE,
    "table_open_cache_instances": (*_TABLE_CACHE, "mutex_os_waits_per_s", "rwlock_os_waits_per_s"),
}
"""The figures to draw first if this server option is an axis. Otherwise they depend on the main metric."""
_NEVER_INCREMENTED = frozenset({"rwlock_os_waits_per_s"})
"""Figures that are not listed as zero, because MySQL 8.0 has these counters but never increments them."""
_COUNTED_AS = {"read_bytes_per_s": "read_bytes", "server_cpus": "cpu_s", "others_cpus": "others_cpu_s"}
"""Figures that are drawn from a counter of a start, with its name."""
_MAX_POINTS = 160
Panel = tuple[str, ...]
Segment = list[tuple[float, float]]


@dataclass(frozen=True)
class _Panels:
    first: tuple[Panel, ...]
    """Panels of the figures that matter for the session."""
    rest: tuple[Panel, ...]
    """Panels of the other recorded figures."""
    nothing: tuple[str, ...]
    """Titles of the figures that matter but were zero in every sample."""


def _select_panels(session: Session, runs: Sequence[Run]) -> _Panels:
    """Returns the panels for runs that are drawn over each other. A figure that is always zero after the warm-up is not
    drawn."""
    by_option = [name for axis in session.axes for name in _BY_OPTION.get(axis.name, ())]
    preferred = dict.fromkeys((*(by_option or metric(session.figure_of(runs[0].variant)).over_time), *_CPUS))
    there = list(dict.fromkeys(name for run in runs for name in _figures(_samples(run))))
    drawn = {name for run in runs for name in there if any(y for x, y in _points(_samples(run), name) if x > 0)}
    first = [name for name in preferred if name in drawn]
    rest = [name for name in there if name in drawn and name not in preferred]
    if not first:
        first, rest = rest, first
    zero = (name for name in preferred if name in there and name not in drawn and name not in _NEVER_INCREMENTED)
    alone = len(runs) == 1
    return _Panels(_panels(first, alone=alone), _panels(rest, alone=alone), tuple(metric(name).label for name in zero))


def _panels(names: Sequence[str], *, alone: bool) -> tuple[Panel, ...]:
    cpus = tuple(name for name in names if name in _CPUS) if alone else ()
    return tuple(dict.fromkeys(cpus if name in cpus else (name,) for name in names))


def _samples(run: Run) -> Timeline:
    return run.timeline or Timeline(())


def _is_start(timeline: Timeline) -> bool:
    """Returns whether the samples are the counters of a start."""
    return "cpu_s" in timeline.columns or "read_bytes" in timeline.columns


def _figures(timeline: Timeline) -> Iterable[str]:
    if not _is_start(timeline):
        return timeline.columns
    return [name for name, counter in _COUNTED_AS.items() if counter in timeline.columns]


def _points(timeline: Timeline, name: str) -> Iterator[tuple[float, float]]:
    return (point for segment in _segments(timeline, name) for point in segment)


def _segments(timeline: Timeline, name: str) -> Iterator[Segment]:
    """Yields the connected parts of a curve, which is interrupted where the figure is missing. Several samples are
    averaged if there are more than a chart can show. A counter is drawn as steps, because only the total between two
    samples is known."""
    if _is_start(timeline):
        counted = [value or 0.0 for value in timeline.columns.get(_COUNTED_AS[name], ())]
        if steps := [(at_s, rate) for since, until, rate in rates(timeline.at_s, counted) for at_s in (since, until)]:
            yield steps
        return
    pairs = list(zip(timeline.at_s, timeline.columns.get(name, ()), strict=False))
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


def rates(at_s: Sequence[float], counted: Sequence[float]) -> list[tuple[float, float, float]]:
    """Returns the rates between samples. The first interval begins at exec, when all counters were zero. Intervals are
    merged if there are more than a picture can show."""
    samples = [(0.0, 0.0), *zip(at_s, counted, strict=False)] if counted else []
    every = max(1, len(samples) // _MAX_POINTS)
    kept = [*samples[:-1:every], *samples[-1:]]
    return [
        (before, after, max(0.0, (more - less) / (after - before)))
        for (before, less), (after, more) in pairwise(kept)
        if after > before
    ]


# --- Runs: which are drawn over each other, and which are folded

_MIN_SAMPLES = 3
_MAX_OPEN, _MAX_FOLDED = 8, 32


@dataclass(frozen=True)
class _OverlaidRuns:
    """Runs that are drawn over each other."""

    title: str
    runs: tuple[tuple[str, Run], ...]
    """Each run with its name in the legend."""

    @property
    def key(self) -> str:
        return f"timeline-{self.runs[0][1].number}"


def timelines(session: Session) -> tuple[Part, ...]:
    """Returns the timelines of a session. Of many cells under load, those at the end of the scaled axis are preferred,
    because they show most; the others are folded."""
    drawn = _overlaid_runs(session)
    opened = [one for one in drawn if _is_start(_samples(one.runs[0][1]))]
    loads = [one for one in drawn if one not in opened]
    opened += sorted(loads, key=lambda one: not _is_last(session, one.runs[0][1].variant))[:_MAX_OPEN]
    parts = [part for one in drawn if one in opened for part in _parts(session, one)]
    if rest := [one for one in loads if one not in opened]:
        folded = tuple(_chart(session, one) for one in rest[:_MAX_FOLDED])
        left = len(rest) - len(folded)
        also = f"; {left} more are in report.json" if left else ""
        parts.append(FoldedParts(f"The other cells: {len(folded)}{also}", folded))
    shown = {run.number for one in drawn for _, run in one.runs}
    others = [run for run in session.runs if run.number not in shown and _is_start(_samples(run)) and _is_long(run)]
    if others:
        charts = tuple(_chart(session, _alone(session, run)) for run in others)
        parts.append(FoldedParts(f"The other runs: {len(others)}", charts))
    return tuple(parts)


def _overlaid_runs(session: Session) -> list[_OverlaidRuns]:
    """Returns the median run of each cell, those that differ by a switch together."""
    over = next((axis for axis in session.differing_axes if is_switch(axis) and axis.base), None)
    found: dict[str, list[tuple[str, Run]]] = {}
    starts = []
    for (version, variant), runs in runs_by_cell(session).items():
        run = median_run(session, filter(_is_long, runs))
        if run is not None and _is_start(_samples(run)):
            starts.append(_alone(session, run))
        elif run is not None:
            name = cell_words(session, variant, without=(over.name,) if over else ())
            found.setdefault(f"{version} {name}".strip(), []).append((_run_label(session, over, run), run))
    return [*starts, *(_OverlaidRuns(title, tuple(runs)) for title, runs in found.items())]


def _alone(session: Session, run: Run) -> _OverlaidRuns:
    label = _run_label(session, None, run)
    return _OverlaidRuns(f"{run.version} {cell_words(session, run.variant)}, {label}", ((label, run),))


def _is_long(run: Run) -> bool:
    samples = _samples(run)
    return len(samples.at_s) >= _MIN_SAMPLES - _is_start(samples)


def _is_last(session: Session, variant: str) -> bool:
    scales = [scale for group in groups(session) if variant in group.variants and (scale := scale_axis(group))]
    return all(session.value_of(variant, axis.name) == axis.values[-1] for axis in scales)


def _run_label(session: Session, over: Axis | None, run: Run) -> str:
    value = session.value_of(run.variant, over.name) if over else None
    named = f"{value_words(over, value)}, " if over and value else ""
    main = main_value(session, run)
    measured = "" if main is None else f": {fmt.with_unit(metric(session.figure_of(run.variant)), main)}"
    return f"{named}run {run.number}{measured}"


# --- Drawing

_PANEL, _HEAD = 64.0, 24.0
_PHASES = 9.0
"""Height of the band of phases."""
_BAND, _ROW = 5.0, 22.0
"""Heights of a band that shows when polls ran during the load, and of its row above the panels."""
_FIELD = 1000.0
"""Horizontal units of a panel, which is stretched to the picture's width."""
_TICKS = 6
_POLLS = "polls_per_s"
_CSS = {"read_bytes_per_s": "reads", "server_cpus": "server", "client_cpus": "clients", "others_cpus": "others"}


def _parts(session: Session, shown: _OverlaidRuns) -> Iterator[Part]:
    """Yields the chart of the figures that matter for the session, then the other figures, folded."""
    found = _select_panels(session, [run for _, run in shown.runs])
    yield _chart(session, shown)
    if found.rest:
        more = _drawing(replace(shown, title=f"{shown.title}, further figures"), found.rest, f"{shown.key}-more")
        titles = ", ".join(metric(names[0]).label for names in found.rest)
        yield FoldedParts(f"Further figures of {shown.title}: {titles}", (more,))


def _chart(session: Session, shown: _OverlaidRuns) -> Chart:
    found = _select_panels(session, [run for _, run in shown.runs])
    nothing = (f"Zero while it was measured: {', '.join(found.nothing)}.",) if found.nothing else ()
    return replace(_drawing(shown, found.first, shown.key), notes=nothing)


def _drawing(shown: _OverlaidRuns, panels: Sequence[Panel], key: str) -> Chart:
    timelines = [_samples(run) for _, run in shown.runs]
    run = shown.runs[0][1]
    start = min(0.0, *(one.at_s[0] for one in timelines))
    end = max(*(one.at_s[-1] for one in timelines), *(phase.end_s for phase in run.startup.phases), start)
    across = ChartAxis(max(end - start, 1e-9), svg.START, 100 - svg.START)
    parts, y = _polling_rows(across, shown, start)
    if run.startup.phases:
        parts, y = _phases(run, across, key), _PHASES + 4
    for names in panels:
        parts += _panel(across, y, names, timelines, start)
        y += _HEAD + _PANEL
    drawing = svg.picture(
        key,
        title=shown.title,
        description=f"Sample by sample: {'; '.join(name for name, _ in shown.runs)}.",
        height=y + 26,
        parts=[
            *([svg.hatch_pattern(key, css=svg.DARK_HATCH)] if run.startup.phases else ()),
            *_phase_backgrounds(run, across, y),
            *_warmup(across, start, y),
            *_time_axis(across, (start, end), y),
            *parts,
        ],
    )
    return Chart(key, shown.title, drawing, tuple(_legend(shown, panels, warm=start < 0)))


def _legend(shown: _OverlaidRuns, panels: Sequence[Panel], *, warm: bool) -> Iterator[LegendEntry]:
    first = shown.runs[0][1]
    is_start = _is_start(_samples(first))
    if not is_start:
        yield from (LegendEntry(f"stroke s{number % 6}", name) for number, (name, _) in enumerate(shown.runs))
    coloured = (name for names in panels if is_start or len(names) > 1 for name in names)
    yield from (LegendEntry(f"stroke {_CSS[name]}", metric(name).label) for name in coloured)
    if warm:
        yield LegendEntry("swatch warming", "warm-up, in no figure")
    yield from phase_legend(sorted_phases(phase.name for phase in first.startup.phases))


def _panel(across: ChartAxis, y: float, names: Panel, timelines: Sequence[Timeline], start: float) -> list[Markup]:
    curves = [
        (_CSS[name] if _is_start(one) or len(names) > 1 else f"s{number % 6}", _is_start(one), segment)
        for number, one in enumerate(timelines)
        for name in names
        for segment in _segments(one, name)
    ]
    about = metric(names[0])
    largest = max((value for *_, points in curves for _, value in points), default=0.0)
    up = rounded_axis(largest or 1.0, start=_PANEL, end=0.0)
    inner = []
    for css, filled, points in curves:
        at = [(across.at(x - start) * _FIELD / 100, up.at(max(0.0, value))) for x, value in points]
        if filled and css != _CSS["others_cpus"]:
            area = [(at[0][0], up.at(0)), *at, (at[-1][0], up.at(0))]
            inner.append(svg.stretched_path(area, size=(_FIELD, _PANEL), class_=f"area {css}"))
        inner.append(svg.stretched_path(at, size=(_FIELD, _PANEL), class_=f"curve {css}"))
    label = f"{'CPUs in use' if len(names) > 1 else about.label}; the upper line is {fmt.cell(about, up.maximum)}"
    return [
        *svg.panel_frame(across, y + _HEAD, _PANEL, label=label),
        svg.panel(inner, y + _HEAD, size=(_FIELD, _PANEL)),
    ]


def _phases(run: Run, across: ChartAxis, key: str) -> list[Markup]:
    parts = []
    for phase in run.startup.phases:
        number, hatched = phase_colour(phase.name)
        sides, rows = (across.at(phase.start_s), across.at(phase.end_s)), (0.0, _PHASES)
        figure = fmt.estimate(fmt.seconds(phase.end_s - phase.start_s), phase.estimated)
        tooltip = svg.element("title", f"{phase.name}: {figure} s")
        parts.append(svg.rectangle(sides, rows, tooltip, class_=f"phase p{number}"))
        if hatched:
            parts.append(svg.rectangle(sides, rows, fill=svg.hatch_fill(key)))
    return parts


def _phase_backgrounds(run: Run, across: ChartAxis, bottom: float) -> Iterator[Markup]:
    """Yields the phases as faint areas in the background of the panels."""
    for phase in run.startup.phases:
        sides = across.at(phase.start_s), across.at(phase.end_s)
        yield svg.rectangle(sides, (_PHASES, bottom), class_=f"shade p{phase_colour(phase.name)[0]}")


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
        bands = tuple(_polling_bands(_samples(run)))
        text += "; dark: answers" if len(bands) > 2 else ""
        parts.append(svg.text(svg.START, y + 11, text, dx=2, class_="tick"))
        for span, css in bands:
            x = (across.at(span[0] - start), across.at(span[1] - start))
            parts.append(svg.rectangle(x, (y + 16, y + 16 + _BAND), class_=f"{css} s{number % 6}"))
        y += _ROW
    return parts, y


def _polling_bands(timeline: Timeline) -> Iterator[tuple[tuple[float, float], str]]:
    """Yields the time span and CSS class of each band: all of the polling, then the parts that received answers."""
    values = timeline.columns.get(_POLLS, ())
    # A rate covers the time since the previous sample.
    between = [(since, until, rate) for (since, until), rate in zip(pairwise(timeline.at_s), values[1:], strict=False)]
    polled = [(since, until) for since, until, rate in between if rate is not None]
    if polled:
        yield (polled[0][0], polled[-1][1]), "polling silent"
    for answered, some in groupby(between, key=lambda one: bool(one[2])):
        together = list(some)
        if answered:
            yield (together[0][0], together[-1][1]), "polling"


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
    """Yields the time axis. It counts seconds since exec, or since the measurement began; the picture begins with the
    warm-up."""
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
