"""Draws the timelines of servers under load: the figures of the median run of each cell, second by second.

Runs with a switch off and on are drawn over each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import median_low

from markupsafe import Markup

from recovery.analysis.summary import cell_words, figure_value, groups, is_switch, measured_by, scale_of, value_words
from recovery.model import Axis, Run, Series, Session, Watched, quantity
from recovery.report import format as fmt
from recovery.report.format import Ruler, round_step, ruler
from recovery.report.html import svg
from recovery.report.html.svg import Chart, Fold, Mark, Part

# --- Selection of the figures: which are drawn, in which order, and which are folded, depending on the experiment

TOGETHER = ("server_cpus", "client_cpus", "others_cpus")
"""Figures that share a panel if only one run is drawn."""
_CACHE = (
    "qps", "table_open_cache_hits_per_s", "table_open_cache_misses_per_s", "load_table_open_cache_misses_per_s",
    "opened_tables_per_s", "opened_table_definitions_per_s", "table_open_cache_overflows_per_s",
    "table_open_cache_active_instances",
)  # fmt: skip
_ASKED: dict[str, tuple[str, ...]] = {
    "interference": (*_CACHE, *TOGETHER),
    "table-cache": (*_CACHE, "mutex_os_waits_per_s", "rwlock_os_waits_per_s", *TOGETHER),
    "write-scaling": (
        "qps", "redo_bytes_per_s", "fsyncs_per_s", "written_bytes_per_s", "row_lock_waits_per_s",
        "mutex_os_waits_per_s", "rwlock_os_waits_per_s", "checkpoint_age_bytes", "device_reads_per_s", *TOGETHER,
    ),
    "metadata": (
        "device_reads_per_s", "read_bytes_per_s", "opened_tables_per_s", "opened_table_definitions_per_s",
        "table_open_cache_misses_per_s", "fsyncs_per_s", *TOGETHER,
    ),
}  # fmt: skip
"""The figures to draw first, by scenario."""
_USUAL = (
    "qps", "table_open_cache_misses_per_s", "opened_tables_per_s", "device_reads_per_s", "redo_bytes_per_s",
    "fsyncs_per_s", "row_lock_waits_per_s", *TOGETHER,
)  # fmt: skip
_NOT_COUNTED = frozenset({"rwlock_os_waits_per_s"})
"""Figures that are not listed as zero, because MySQL 8.0 has these counters but never increments them."""
Panel = tuple[str, ...]


@dataclass(frozen=True)
class Chosen:
    first: tuple[Panel, ...]
    """Panels of the figures that matter for the experiment."""
    rest: tuple[Panel, ...]
    """Panels of the other recorded figures."""
    nothing: tuple[str, ...]
    """Titles of the figures that matter for the experiment but were zero in every sample."""


def chosen(scenario: str, looks: Sequence[Watched]) -> Chosen:
    """Returns the panels for runs that are drawn over each other. A figure that is always zero after the warm-up is not
    drawn."""
    asked = _ASKED.get(scenario, _USUAL)
    there = list(dict.fromkeys(series.name for one in looks for series in one.series))
    drawn = {series.name for one in looks for series in one.series if _tells(one, series)}
    first = [name for name in asked if name in drawn]
    rest = [name for name in there if name in drawn and name not in asked]
    if not first:
        first, rest = rest, first
    nothing = (name for name in asked if name in there and name not in drawn and name not in _NOT_COUNTED)
    return Chosen(
        _panels(first, alone=len(looks) == 1),
        _panels(rest, alone=len(looks) == 1),
        tuple(quantity(name).title for name in nothing),
    )


def _tells(looks: Watched, series: Series) -> bool:
    return any(value for at_s, value in zip(looks.at_s, series.values, strict=False) if at_s > 0)


def _panels(names: Sequence[str], *, alone: bool) -> tuple[Panel, ...]:
    cpus = tuple(name for name in names if name in TOGETHER) if alone else ()
    return tuple(dict.fromkeys(cpus if name in cpus else (name,) for name in names))


# --- Drawing

_PANEL, _HEAD = 64.0, 24.0
_BAND, _ROW = 5.0, 22.0
"""Heights of a band that shows when polls ran during the load, and of its row above the panels."""
_FIELD = 1000.0
"""Horizontal units of a panel, which is stretched to the picture's width."""
_LEAST_LOOKS = 3
_MOST_POINTS = 160
_MOST_OPEN, _MOST_FOLDED = 8, 32
_TICKS = 6
_POLLS = "polls_per_s"
Segment = list[tuple[float, float]]


@dataclass(frozen=True)
class _Shown:
    """Runs that are drawn over each other."""

    version: str
    name: str
    runs: tuple[tuple[str, Run], ...]
    """Each run with its name in the legend."""


def over_time(session: Session) -> tuple[Part, ...]:
    """Returns the timelines of a session. Cells at the end of the scaled axis are preferred, because they show most;
    those beyond the limit are folded."""
    shown = _shown(session)
    wanted = sorted(shown, key=lambda one: not _is_last(session, one.runs[0][1].variant))[:_MOST_OPEN]
    rest = [one for one in shown if one not in wanted]
    opened = tuple(part for one in shown if one in wanted for part in _parts(session, one))
    if not rest:
        return opened
    folded = tuple(_chart(one, chosen(session.scenario, _looks(one))) for one in rest[:_MOST_FOLDED])
    left = len(rest) - len(folded)
    also = f"; {left} more are in report.json" if left else ""
    return (*opened, Fold(f"The other cells: {len(folded)}{also}", folded))


def _parts(session: Session, shown: _Shown) -> Iterator[Part]:
    """Yields the chart of the figures that matter for the experiment, then the other figures, folded."""
    found = chosen(session.scenario, _looks(shown))
    yield _chart(shown, found)
    if found.rest:
        more = _drawing(shown, found.rest, f"{_key(shown)}-more", f"{_title(shown)}, further figures")
        titles = ", ".join(quantity(names[0]).title for names in found.rest)
        yield Fold(f"Further figures of {_title(shown)}: {titles}", (more,))


def _key(shown: _Shown) -> str:
    return f"over-time-{shown.runs[0][1].number}"


def _title(shown: _Shown) -> str:
    return f"{shown.version} {shown.name}".strip()


def _looks(shown: _Shown) -> list[Watched]:
    return [run.watched or Watched(()) for _, run in shown.runs]


def _is_last(session: Session, variant: str) -> bool:
    scales = [scale for group in groups(session) if variant in group.variants and (scale := scale_of(group))]
    return all(session.cells.get(variant, {}).get(axis.name) == axis.values[-1] for axis in scales)


def _shown(session: Session) -> list[_Shown]:
    over = next((axis for axis in session.differing_axes if is_switch(axis) and axis.base), None)
    found: dict[tuple[str, str], list[tuple[str, Run]]] = {}
    for version, variant, runs in measured_by(session):
        run = _median(session, runs)
        if run is not None:
            name = cell_words(session, variant, without=(over.name,) if over else ())
            found.setdefault((version, name), []).append((_called(session, over, run), run))
    return [_Shown(version, name, tuple(runs)) for (version, name), runs in found.items()]


def _called(session: Session, over: Axis | None, run: Run) -> str:
    value = session.cells.get(run.variant, {}).get(over.name) if over else None
    named = f"{value_words(over, value)}, " if over and value else ""
    figure = figure_value(session, run)
    told = "" if figure is None else f": {fmt.worded(quantity(session.figure_of(run.variant)), figure)}"
    return f"{named}run {run.number}{told}"


def _median(session: Session, runs: Sequence[Run]) -> Run | None:
    told = [run for run in runs if run.watched is not None and len(run.watched.at_s) >= _LEAST_LOOKS]
    values = [value for run in told if (value := figure_value(session, run)) is not None]
    if not values:
        return None
    middle = median_low(values)
    return next(run for run in told if figure_value(session, run) == middle)


def _chart(shown: _Shown, found: Chosen) -> Chart:
    chart = _drawing(shown, found.first, _key(shown), _title(shown))
    nothing = (f"Zero while it was measured: {', '.join(found.nothing)}.",) if found.nothing else ()
    return replace(chart, notes=nothing)


def _drawing(shown: _Shown, panels: Sequence[tuple[str, ...]], key: str, title: str) -> Chart:
    looks = _looks(shown)
    start = min(0.0, *(one.at_s[0] for one in looks))
    end = max(one.at_s[-1] for one in looks)
    across = Ruler(max(end - start, 1e-9), svg.START, 100 - svg.START)
    parts, y = _polling(across, shown, start)
    for names in panels:
        parts += _panel(across, y, names, [(one, start) for one in looks])
        y += _HEAD + _PANEL
    told = "; ".join(name for name, _ in shown.runs)
    drawing = svg.picture(
        key,
        title=title,
        told=f"Second by second: {told}.",
        height=y + 26,
        parts=[*_warmup(across, start, y), *_times(across, (start, end), y), *parts],
    )
    return Chart(key, title, drawing, tuple(_legend(shown, panels, warm=start < 0)))


def _legend(shown: _Shown, panels: Sequence[tuple[str, ...]], *, warm: bool) -> Iterator[Mark]:
    for number, (name, _) in enumerate(shown.runs):
        yield Mark(f"stroke s{number % 6}", name)
    cpus = next((names for names in panels if len(names) > 1), ())
    yield from (Mark(f"stroke {_css_of_cpu(name)}", quantity(name).title) for name in cpus)
    if warm:
        yield Mark("swatch warming", "warm-up, in no figure")


def _polling(across: Ruler, shown: _Shown, start: float) -> tuple[list[Markup], float]:
    """Returns a band for each run in which a poller queried the server during the load and its warm-up, and the height
    they take. A band spans the time from the poller's start to its end, and is dark where it received answers."""
    parts: list[Markup] = []
    y = 4.0
    for number, (name, run) in enumerate(shown.runs):
        polls = run.measures.get(_POLLS)
        if polls is None:
            continue
        told = f"{name.partition(', ')[0]}: {fmt.worded(quantity(_POLLS), polls)} beside the load"
        bands = tuple(_bands(run.watched or Watched(())))
        told += "; dark: answers" if len(bands) > 2 else ""
        parts.append(svg.text(svg.START, y + 11, told, dx=2, class_="tick"))
        for span, css in bands:
            x = (across.at(span[0] - start), across.at(span[1] - start))
            parts.append(svg.box(x, (y + 16, y + 16 + _BAND), class_=f"{css} s{number % 6}"))
        y += _ROW
    return parts, y


def _bands(looks: Watched) -> Iterator[tuple[tuple[float, float], str]]:
    """Yields the time span and CSS class of each band: all of the polling, then the parts that received answers."""
    values = next((series.values for series in looks.series if series.name == _POLLS), ())
    # A rate covers the time since the previous sample.
    rates = [(since, until, rate) for (since, until), rate in zip(pairwise(looks.at_s), values[1:], strict=False)]
    polled = [(since, until) for since, until, rate in rates if rate is not None]
    if polled:
        yield (polled[0][0], polled[-1][1]), "polling silent"
    for answered, some in groupby(rates, key=lambda one: bool(one[2])):
        together = list(some)
        if answered:
            yield (together[0][0], together[-1][1]), "polling"


def _panel(across: Ruler, y: float, names: tuple[str, ...], looks: Sequence[tuple[Watched, float]]) -> list[Markup]:
    curves = [
        (_css_of_cpu(name) if len(names) > 1 else f"s{number % 6}", segment)
        for number, (one, start) in enumerate(looks)
        for name in names
        for segment in _segments(one, name, start)
    ]
    about = quantity(names[0])
    up = ruler(max((value for _, points in curves for _, value in points), default=0.0) or 1.0, start=_PANEL, end=0.0)
    top = y + _HEAD
    title = "CPUs in use" if len(names) > 1 else about.title
    inner = [_curve(across, up, points, f"curve {css}") for css, points in curves]
    told = f"{title}; the upper line is {fmt.cell(about, up.most)}"
    return [*svg.frame(across, top, _PANEL, told=told), svg.panel(inner, top, size=(_FIELD, _PANEL))]


def _css_of_cpu(name: str) -> str:
    return {"server_cpus": "server", "client_cpus": "clients"}.get(name, "others")


def _segments(looks: Watched, name: str, start: float) -> Iterator[Segment]:
    """Yields the connected parts of a curve, which is interrupted where the figure is missing. Several samples are
    averaged if there are more than a chart can show."""
    values = next((series.values for series in looks.series if series.name == name), ())
    pairs = [(at_s - start, value) for at_s, value in zip(looks.at_s, values, strict=False)]
    every = -(-len(pairs) // _MOST_POINTS)
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


def _curve(across: Ruler, up: Ruler, points: Segment, css: str) -> Markup:
    stretched = [(across.at(at) * _FIELD / 100, up.at(max(0.0, value))) for at, value in points]
    return svg.along(stretched, size=(_FIELD, _PANEL), class_=css)


def _warmup(across: Ruler, start: float, bottom: float) -> list[Markup]:
    """Returns the shading of the warm-up, with a line where the measurement begins."""
    if start >= 0:
        return []
    x = across.at(-start)
    return [
        svg.box((across.at(0), x), (0, bottom), class_="warming"),
        svg.line((x, 0), (x, bottom + 4), class_="began"),
    ]


def _times(across: Ruler, span: tuple[float, float], bottom: float) -> Iterator[Markup]:
    """Yields the time axis. It counts seconds since the measurement began; the picture begins with the warm-up."""
    start, end = span
    step = round_step((end - start) / _TICKS)
    for number in range(int(end / step) + 1):
        x = across.at(number * step - start)
        yield svg.line((x, 0), (x, bottom), class_="grid")
        last = number == int(end / step)
        css = "tick roomy" if number % 2 and not last else "tick"
        told = f"{number * step:g} s" if last else f"{number * step:g}"
        anchor = "start" if x < 2 else "end" if x > 95 else "middle"
        yield svg.text(x, bottom + 16, told, text_anchor=anchor, class_=css)
