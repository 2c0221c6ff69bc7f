"""Draws the mean duration of the phases of each version and variant as stacked bars."""

from __future__ import annotations

from collections.abc import Container

from markupsafe import Markup

from recovery.analysis.phase_names import estimated_phases, of_the_start, sorted_phases
from recovery.analysis.summary import measured_runs_by_cell, phase_means
from recovery.model import Session
from recovery.report import fmt
from recovery.report.fmt import ChartAxis, rounded_axis
from recovery.report.html import svg
from recovery.report.html.svg import Chart, phase_colour, phase_legend

KEY = "phases-chart"
_BAR, _BETWEEN = 26, 12
_LETTER, _EDGE = 7.0, 10
"""Width of a letter, and the margin that a name in a segment needs in addition, in pixels."""
_NARROW, _ROOMY = 300, 850
"""Chart widths, in pixels, for which it is decided whether a name fits: a phone and a desktop screen."""
_MIN_SHARE = 0.0005
"""Segments shorter than this share of the axis are not drawn, because they cannot be seen."""


def phases_chart(session: Session) -> Chart | None:
    """Returns the chart, or None if no run has phases."""
    means = phase_means(session)
    if not means:
        return None
    scale = rounded_axis(max(sum(found.values()) for found in means.values()), start=svg.START, end=svg.END)
    parts: list[Markup] = []
    y = 0.0
    cells = measured_runs_by_cell(session)
    for (version, variant), found in means.items():
        name = f"{version} {variant}"
        parts += svg.wrapped_text(y + 14, name, class_="name")
        y += svg.wrapped_height(name) + 4
        estimated = estimated_phases((run.startup.phases for run in cells[version, variant]), found)
        parts += _bar(scale, y, found, estimated)
        y += _BAR + _BETWEEN
    title = "Mean seconds of each phase"
    drawing = svg.picture(
        KEY,
        title=title,
        description=_description(means),
        height=y + 24,
        parts=[svg.hatch_pattern(KEY, css=svg.DARK_HATCH), *svg.grid(scale, y, "s"), *parts],
    )
    names = sorted_phases(name for found in means.values() for name in found)
    return Chart(KEY, title, drawing, phase_legend(names))


def _bar(scale: ChartAxis, y: float, found: dict[str, float], estimated: Container[str]) -> list[Markup]:
    parts, at = [], 0.0
    for name, seconds in found.items():
        sides, rows = (scale.at(at), scale.at(at + seconds)), (y, y + _BAR)
        if seconds > _MIN_SHARE * scale.maximum:
            number, hatched = phase_colour(name)
            tooltip = svg.element("title", f"{name}: {fmt.estimate(fmt.seconds(seconds), name in estimated)} s")
            parts.append(svg.rectangle(sides, rows, tooltip, class_=f"phase p{number}"))
            if hatched:
                parts.append(svg.rectangle(sides, rows, tooltip, fill=svg.hatch_fill(KEY)))
            parts += _segment_label(name, sides, y, hatched=hatched)
        at += seconds
    start = of_the_start(found)
    after = [seconds for name, seconds in found.items() if name not in start]
    whole = f"{' + '.join(fmt.seconds(sum(part)) for part in (start.values(), after) if part)} s"
    return [*parts, svg.text(scale.at(at), y + _BAR / 2 + 4.5, whole, dx=9, class_="value")]


def _segment_label(name: str, sides: tuple[float, float], y: float, *, hatched: bool) -> list[Markup]:
    """Returns the name of a phase inside its segment, if it fits there on every screen or at least on a wide one. In a
    hatched segment it has a plain background."""
    share, needed = (sides[1] - sides[0]) / 100, len(name) * _LETTER + _EDGE
    if share * _ROOMY < needed:
        return []
    number, _ = phase_colour(name)
    always = "" if share * _NARROW >= needed else " roomy"
    label = svg.text(sides[0], y + _BAR / 2 + 4, name, dx=_EDGE / 2, class_=f"on-p{number}{always}")
    if not hatched:
        return [label]
    plain = svg.element("rect", x=2, width=needed - 4, height=_BAR - 10, class_=f"p{number}{always}")
    behind = svg.element("svg", plain, x=svg.percent(sides[0]), y=y + 5, overflow="visible")
    return [behind, label]


def _description(means: dict[tuple[str, str], dict[str, float]]) -> str:
    longest = (
        f"{version} {variant}: most in {max(found, key=lambda name: found[name])}"
        for (version, variant), found in means.items()
    )
    return f"{'; '.join(longest)}. The table below has the figures."
