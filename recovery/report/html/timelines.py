"""Says what is drawn over time: the median run of each cell with the phases of a start, or the warm-up and polls of a
load.

Runs of a load with a switch off and on are drawn over each other. Every other run of a start is folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from recovery.analysis.summary import (
    cell_words,
    groups,
    is_switch,
    main_value,
    median_run,
    metric_value,
    runs_by_cell,
    scale_axis,
    value_words,
)
from recovery.metrics import metric
from recovery.model import Axis, Phase, Run, Session, Timeline
from recovery.report import fmt
from recovery.report.html.charts import About, Band, Series, line_css, xy
from recovery.report.html.parts import Chart, FoldedParts, Part
from recovery.report.html.session_charts import phase_segment


def _samples(run: Run) -> Timeline:
    return run.timeline or Timeline(())


def _phases(run: Run) -> Sequence[Phase]:
    return run.startup.phases


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
_CSS = {"read_bytes_per_s": "reads", "server_cpus": "server", "client_cpus": "clients", "others_cpus": "others"}
_MAX_POINTS = 160
Panel = tuple[str, ...]


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
    preferred = dict.fromkeys((*(by_option or metric(session.metric_of(runs[0].variant)).over_time), *_CPUS))
    there = list(dict.fromkeys(name for run in runs for name in _figures(_samples(run))))
    drawn = {name for run in runs for name in there if any(y for x, y in curve(_samples(run), name) if x > 0)}
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


def _is_start(timeline: Timeline) -> bool:
    """Returns whether the samples are the counters of a start."""
    return "cpu_s" in timeline.columns or "read_bytes" in timeline.columns


def _figures(timeline: Timeline) -> Iterable[str]:
    if not _is_start(timeline):
        return timeline.columns
    return [name for name, counter in _COUNTED_AS.items() if counter in timeline.columns]


def curve(timeline: Timeline, name: str) -> tuple[tuple[float, float | None], ...]:
    """Returns the places of a curve, with None where the figure is missing. Several samples are averaged if there are
    more than a chart can show. A counter is drawn as steps, because only the total between two samples is known."""
    if _is_start(timeline):
        counted = [value or 0.0 for value in timeline.columns.get(_COUNTED_AS[name], ())]
        return tuple((at_s, rate) for since, until, rate in rates(timeline.at_s, counted) for at_s in (since, until))
    pairs = list(zip(timeline.at_s, timeline.columns.get(name, ()), strict=False))
    every = max(1, -(-len(pairs) // _MAX_POINTS))
    return tuple(_average(pairs[first : first + every]) for first in range(0, len(pairs), every))


def _average(pairs: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    known = [(at_s, value) for at_s, value in pairs if value is not None]
    return (known[0][0], sum(value for _, value in known) / len(known)) if known else (pairs[0][0], None)


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
class OverlaidRuns:
    """Runs that are drawn over each other."""

    title: str
    runs: tuple[tuple[str, Run], ...]
    """Each run with its name in the legend."""

    @property
    def key(self) -> str:
        return f"timeline-{self.first.number}"

    @property
    def first(self) -> Run:
        return self.runs[0][1]

    @property
    def is_start(self) -> bool:
        return _is_start(_samples(self.first))

    @property
    def began_s(self) -> float:
        """When the first sample was taken: below zero in the warm-up of a load."""
        return min(0.0, *(_samples(run).at_s[0] for _, run in self.runs))


def timelines(session: Session) -> tuple[Part, ...]:
    """Returns the timelines of a session. Of many cells under load, those at the end of the scaled axis are preferred,
    because they show most; the others are folded."""
    drawn = overlaid_runs(session)
    loads = [overlaid for overlaid in drawn if not overlaid.is_start]
    loads.sort(key=lambda overlaid: not _is_last(session, overlaid.first.variant))
    folded = [overlaid for overlaid in drawn if overlaid in loads[_MAX_OPEN:]]
    parts = [part for overlaid in drawn if overlaid not in folded for part in _parts(session, overlaid)]
    if folded:
        charts = tuple(_chart(session, overlaid) for overlaid in folded[:_MAX_FOLDED])
        left = len(folded) - len(charts)
        also = f"; {left} more are in report.json" if left else ""
        parts.append(FoldedParts(f"The other cells: {len(charts)}{also}", charts))
    shown = {run.number for overlaid in drawn for _, run in overlaid.runs}
    others = [run for run in session.runs if run.number not in shown and _is_start(_samples(run)) and _is_long(run)]
    if others:
        charts = tuple(_chart(session, _alone(session, run)) for run in others)
        parts.append(FoldedParts(f"The other runs: {len(others)}", charts))
    return tuple(parts)


def overlaid_runs(session: Session) -> list[OverlaidRuns]:
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
    return [*starts, *(OverlaidRuns(title, tuple(runs)) for title, runs in found.items())]


def _alone(session: Session, run: Run) -> OverlaidRuns:
    label = _run_label(session, None, run)
    return OverlaidRuns(f"{run.version} {cell_words(session, run.variant)}, {label}", ((label, run),))


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
    measured = "" if main is None else f": {fmt.with_unit(metric(session.metric_of(run.variant)), main)}"
    extra = f" ({run.extra})" if run.extra else ""
    return f"{named}run {run.number}{extra}{measured}"


# --- Charts


def _parts(session: Session, overlaid: OverlaidRuns) -> Iterator[Part]:
    """Yields the chart of the figures that matter for the session, then the other figures, folded."""
    yield _chart(session, overlaid)
    if rest := _select_panels(session, [run for _, run in overlaid.runs]).rest:
        about = About(f"{overlaid.key}-more", f"{overlaid.title}, further figures", *_unit(overlaid))
        more = xy(about, timeline_series(overlaid, rest), timeline_bands(overlaid))
        titles = ", ".join(metric(names[0]).label for names in rest)
        yield FoldedParts(f"Further figures of {overlaid.title}: {titles}", (more,))


def _chart(session: Session, overlaid: OverlaidRuns) -> Chart:
    found = _select_panels(session, [run for _, run in overlaid.runs])
    nothing = (f"Zero while it was measured: {', '.join(found.nothing)}.",) if found.nothing else ()
    about = About(overlaid.key, overlaid.title, *_unit(overlaid), nothing, "Sample by sample.")
    return xy(about, timeline_series(overlaid, found.first), timeline_bands(overlaid))


def _unit(overlaid: OverlaidRuns) -> tuple[str]:
    return ("seconds since exec" if overlaid.is_start else "seconds since the measurement began",)


def timeline_series(overlaid: OverlaidRuns, panels: Sequence[Panel]) -> list[Series]:
    """Returns a series for each figure and run. Those of a start, or of several figures in one panel, have the colour
    of their figure, others that of their run."""
    found = []
    for names in panels:
        label = "CPUs in use" if len(names) > 1 else _panel_label(names[0])
        for number, (run_label, run) in enumerate(overlaid.runs):
            for name in names:
                is_of_figure = overlaid.is_start or len(names) > 1
                found.append(
                    Series(
                        metric(name).label if is_of_figure else run_label,
                        _CSS[name] if is_of_figure else line_css(number),
                        label,
                        curve(_samples(run), name),
                        is_filled=overlaid.is_start and name != "others_cpus",
                    )
                )
    return found


def _panel_label(name: str) -> str:
    about = metric(name)
    return f"{about.label} in bytes" if about.unit in ("B", "B/s") else about.label


def timeline_bands(overlaid: OverlaidRuns) -> list[Band]:
    """Returns the phases of a start, or the warm-up of a load and when it was polled."""
    bands = []
    for phase in _phases(overlaid.first):
        segment = phase_segment(phase.name)
        seconds = fmt.estimate(fmt.seconds(phase.end_s - phase.start_s), phase.estimated)
        tooltip = f"{phase.name}: {seconds} s"
        bands.append(
            Band(phase.start_s, phase.end_s, segment.css, phase.name, tooltip, hatched=segment.hatched, lane="")
        )
    if overlaid.began_s < 0:
        bands.append(Band(overlaid.began_s, 0.0, "warming", "warm-up, in no figure"))
    for number, (name, run) in enumerate(overlaid.runs):
        bands += _polling_bands(name.partition(", ")[0], line_css(number), run)
    return bands


_POLLS = "polls_per_s"


def _polling_bands(name: str, css: str, run: Run) -> Iterator[Band]:
    """Yields the bands of a run in which a poller queried the server during the load and its warm-up: all of the
    polling, then, darker, the parts that received answers."""
    polls = metric_value(run, _POLLS)
    timeline = _samples(run)
    # A rate covers the time since the previous sample.
    rates_of_polls = zip(pairwise(timeline.at_s), timeline.columns.get(_POLLS, ())[1:], strict=False)
    between = [(since, until, rate) for (since, until), rate in rates_of_polls]
    polled = [(since, until) for since, until, rate in between if rate is not None]
    if polls is None or not polled:
        return
    answered = [list(group) for has_answers, group in groupby(between, key=lambda part: bool(part[2])) if has_answers]
    lane = f"{name}: {fmt.with_unit(metric(_POLLS), polls)} beside the load"
    lane += "; dark: answers" if len(answered) > 1 else ""
    yield Band(polled[0][0], polled[-1][1], f"polling silent {css}", lane=lane, is_shade=False)
    for group in answered:
        yield Band(group[0][0], group[-1][1], f"polling {css}", lane=lane, is_shade=False)
