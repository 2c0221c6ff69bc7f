"""Draws the timeline of a start: bytes read and CPUs used over time, with the phases in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from markupsafe import Markup

from recovery.analysis.phase_names import sorted_phases
from recovery.analysis.summary import median_run, runs_by_cell
from recovery.model import Run, Session, Timeline
from recovery.report import fmt
from recovery.report.fmt import ChartAxis, exact_axis, rounded_axis
from recovery.report.html import svg
from recovery.report.html.svg import Chart, FoldedParts, LegendEntry, Part, phase_colour, phase_legend

_BAND, _PANEL, _HEAD = 9.0, 64.0, 24.0
_FIELD = 1000.0
"""Horizontal units of a panel, which is stretched to the picture's width."""
_MAX_STEPS = 160
Rates = list[tuple[float, float, float]]
"""Start and end of each interval, and the rate per second within it."""


def startup_timelines(session: Session) -> tuple[Part, ...]:
    """Returns the timeline of the median run of each version and variant, then the other runs, folded."""
    sampled = [run for run in session.runs if run.timeline is not None and len(run.timeline.at_s) > 1]
    cells = runs_by_cell(replace(session, runs=tuple(sampled))).values()
    shown = {run.number for runs in cells if (run := median_run(session, runs))}
    others = tuple(timeline_chart(run) for run in sampled if run.number not in shown)
    fold = (FoldedParts(f"The other runs: {len(others)}", others),) if others else ()
    return (*(timeline_chart(run) for run in sampled if run.number in shown), *fold)


def timeline_chart(run: Run) -> Chart:
    key = f"timeline-{run.number}"
    samples = run.timeline or Timeline(())
    end = max(samples.at_s[-1], *(phase.end_s for phase in run.phases), 0.0) if samples.at_s else 0.0
    across = exact_axis(end or 1.0, start=svg.START, end=100 - svg.START)
    parts, y = _phases(run, across, key), _BAND + 4
    reads = rates(samples.at_s, [value / 1e6 for value in samples.read_bytes])
    server, others = rates(samples.at_s, samples.cpu_s), rates(samples.at_s, samples.others_cpu_s)
    if reads:
        parts += _panel(across, y, "read, MB/s", [(reads, "area reads"), (reads, "curve reads")])
        y += _HEAD + _PANEL
    if server or others:
        lines = [(server, "area server"), (server, "curve server"), (others, "curve others")]
        parts += _panel(across, y, "CPUs in use", lines)
        y += _HEAD + _PANEL
    peak = max((rate for *_, rate in reads), default=0)
    summary = f"most read {peak:.0f} MB/s" if reads else "reads were not recorded"
    title = f"{run.version} {run.variant}, run {run.number}: {fmt.seconds(run.metrics.get('startup_s'))} s"
    drawing = svg.picture(
        key,
        title=title,
        description=f"Timeline of the start: {summary}.",
        height=y + 26,
        parts=[
            svg.hatch_pattern(key, css=svg.DARK_HATCH),
            *_phase_backgrounds(run, across, y),
            *svg.grid(across, y, "s"),
            *parts,
        ],
    )
    return Chart(key, title, drawing, _legend(run, reads=bool(reads), server=bool(server), others=bool(others)))


def _legend(run: Run, *, reads: bool, server: bool, others: bool) -> tuple[LegendEntry, ...]:
    entries = [
        (reads, LegendEntry("stroke reads", "read for the server")),
        (server, LegendEntry("stroke server", "CPU of the server")),
        (others, LegendEntry("stroke others", "CPU of others")),
    ]
    phases = sorted_phases(phase.name for phase in run.phases)
    return (*(entry for there, entry in entries if there), *phase_legend(phases))


def rates(at_s: Sequence[float], counted: Sequence[float]) -> Rates:
    """Returns the rates between samples. The first interval begins at exec, when all counters were zero. Intervals are
    merged if there are more than a picture can show."""
    samples = [(0.0, 0.0), *zip(at_s, counted, strict=False)] if counted else []
    every = max(1, len(samples) // _MAX_STEPS)
    kept = [*samples[:-1:every], *samples[-1:]]
    return [
        (before, after, max(0.0, (more - less) / (after - before)))
        for (before, less), (after, more) in pairwise(kept)
        if after > before
    ]


def _panel(across: ChartAxis, y: float, name: str, lines: Sequence[tuple[Rates, str]]) -> list[Markup]:
    largest = max((rate for found, _ in lines for *_, rate in found), default=0.0)
    up = rounded_axis(largest or 1.0, start=_PANEL, end=0.0)
    top = y + _HEAD
    x = _stretched(across)
    inner = [_step_curve(found, x, up, css) for found, css in lines if found]
    label = f"{name}; the upper line is {up.maximum:,.6g}"
    return [*svg.panel_frame(across, top, _PANEL, label=label), svg.panel(inner, top, size=(_FIELD, _PANEL))]


def _stretched(across: ChartAxis) -> Callable[[float], float]:
    return lambda value: across.at(value) * _FIELD / 100


def _step_curve(found: Rates, x: Callable[[float], float], up: ChartAxis, css: str) -> Markup:
    """Draws the rates as steps, because only the total between two samples is known."""
    points = [(x(at), up.at(rate)) for before, after, rate in found for at in (before, after)]
    if css.startswith("area"):
        points = [(points[0][0], up.at(0)), *points, (points[-1][0], up.at(0))]
    return svg.stretched_path(points, size=(_FIELD, _PANEL), class_=css)


def _phases(run: Run, across: ChartAxis, key: str) -> list[Markup]:
    parts = []
    for phase in run.phases:
        number, hatched = phase_colour(phase.name)
        sides, rows = (across.at(phase.start_s), across.at(phase.end_s)), (0.0, _BAND)
        tooltip = svg.element("title", f"{phase.name}: {fmt.seconds(phase.end_s - phase.start_s)} s")
        parts.append(svg.rectangle(sides, rows, tooltip, class_=f"phase p{number}"))
        if hatched:
            parts.append(svg.rectangle(sides, rows, fill=svg.hatch_fill(key)))
    return parts


def _phase_backgrounds(run: Run, across: ChartAxis, bottom: float) -> list[Markup]:
    """Returns the phases as faint areas in the background of the panels."""
    return [
        svg.rectangle(
            (across.at(phase.start_s), across.at(phase.end_s)),
            (_BAND, bottom),
            class_=f"shade p{phase_colour(phase.name)[0]}",
        )
        for phase in run.phases
    ]
