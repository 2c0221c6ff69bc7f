"""Draws the startup times of each version, cold and warm, as bars; other bar charts draw their bars with run_bar()."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from recovery.analysis.summary import mean, measured_runs_by_cell
from recovery.model import Cache, Run, Session
from recovery.report import fmt
from recovery.report.fmt import ChartAxis, rounded_axis
from recovery.report.html import svg
from recovery.report.html.svg import Chart, LegendEntry

# --- The bar of one cell: its mean, its range, and a dot for each run

BAR_HEIGHT = 20
AXIS_END = 70.0
"""End of the axis, in percent: right of it even a phone has room for `mean 412.3 s`."""
_DOT_OFFSETS = (0.0, -4.0, 4.0, -6.5, 6.5, -2.0, 2.0)
"""Vertical offsets of the dots, in pixels, so that runs with the same result do not cover each other."""


@dataclass(frozen=True)
class BarStyle:
    css: str
    worded: Callable[[float], str]
    """Formats the figure at the end of the bar."""
    hatch: str | None = None
    """Key of the picture that defines the hatch pattern; None for a plain bar."""


def cell_bar(scale: ChartAxis, y: float, values: Sequence[tuple[int, float]], look: BarStyle) -> list[Markup]:
    """Draws the bar of a cell. `values` are the number and the figure of each run; nothing is drawn if it is empty."""
    middle = mean(value for _, value in values)
    if middle is None:
        return []
    low, high = min(value for _, value in values), max(value for _, value in values)
    sides, rows, centre = (scale.at(0), scale.at(middle)), (y, y + BAR_HEIGHT), y + BAR_HEIGHT / 2
    parts = [svg.rectangle(sides, rows, class_=f"bar {look.css}")]
    if look.hatch is not None:
        parts.append(svg.rectangle(sides, rows, fill=svg.hatch_fill(look.hatch)))
    if len(values) > 1:
        parts += svg.whisker(scale, centre, low, high)
    for place, (number, value) in enumerate(values):
        told = svg.element("title", f"run {number}: {look.worded(value)}")
        x, up = svg.percent(scale.at(value)), centre + _DOT_OFFSETS[place % len(_DOT_OFFSETS)]
        parts.append(svg.element("circle", told, cx=x, cy=up, r=3.2, class_="dot"))
    # The label includes the word `mean`, because at the end of the whisker it could be taken for the maximum.
    said = f"mean {look.worded(middle)}"
    return [*parts, svg.text(scale.at(max(middle, high)), centre + 4.5, said, dx=9, class_="value")]


# --- Chart of startup times

KEY = "startup-chart"
_GAP, _NAME, _BETWEEN = 5, 22, 12
_MAX_LEGEND_VARIANTS = 2
"""Most variants that are only named in the legend; if there are more, each bar has its variant's name."""


def startup_chart(session: Session) -> Chart | None:
    """Returns the chart of startup times, or None if nothing was measured."""
    cells = {(version, variant): runs for version, variant, runs in measured_runs_by_cell(session)}
    times = [run.startup_s for runs in cells.values() for run in runs if run.startup_s is not None]
    if not times:
        return None
    scale = rounded_axis(max(times), start=svg.START, end=AXIS_END)
    named = len(session.variants) > _MAX_LEGEND_VARIANTS
    parts: list[Markup] = []
    y = 0.0
    for version in session.versions:
        rows = [(number, name) for number, name in enumerate(session.variants) if (version, name) in cells]
        if not rows:
            continue
        parts.append(svg.text(0, y + 15, version, class_="name"))
        y += _NAME
        for number, name in rows:
            if named:
                parts.append(svg.text(0, y + 12, name, class_="tick"))
                y += _NAME - 5
            parts += _bar(scale, y, number, cells[version, name], warm=Cache.WARM.begins(name))
            y += BAR_HEIGHT + _GAP
        y += _BETWEEN
    title = f"{session.title}: mean seconds until ready for connections"
    drawing = svg.picture(
        KEY,
        title=title,
        told=_description(cells),
        height=y + 24,
        parts=[svg.hatch_pattern(KEY), *svg.grid(scale, y, "s"), *parts],
    )
    return Chart(KEY, title, drawing, tuple(_legend(session, named=named)))


def _legend(session: Session, *, named: bool) -> Iterator[LegendEntry]:
    if not named:
        for number, name in enumerate(session.variants):
            yield LegendEntry(
                f"swatch v{number % svg.COLOURS}{' hatched' if Cache.WARM.begins(name) else ''}", f"{name}, mean"
            )
    yield LegendEntry("sign-dot", "one run")
    yield LegendEntry("sign-whisker", "from the fastest to the slowest")


def _bar(scale: ChartAxis, y: float, number: int, runs: tuple[Run, ...], *, warm: bool) -> list[Markup]:
    times = [(run.number, run.startup_s) for run in runs if run.startup_s is not None]
    css = f"v{number % svg.COLOURS}"
    return cell_bar(scale, y, times, BarStyle(css, lambda seconds: f"{fmt.seconds(seconds)} s", KEY if warm else None))


def _description(cells: dict[tuple[str, str], tuple[Run, ...]]) -> str:
    return (
        "; ".join(
            f"{version} {variant} {fmt.seconds(mean(run.startup_s for run in runs))} s, {len(runs)} runs"
            for (version, variant), runs in cells.items()
        )
        + ". The table below has the figures."
    )
