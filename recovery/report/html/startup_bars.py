"""Draws the startup times of each version, cold and warm, as bars; other bar charts draw their bars with run_bar()."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from recovery.analysis.summary import mean, measured_by
from recovery.model import Cache, Run, Session
from recovery.report import format as fmt
from recovery.report.format import Ruler, ruler
from recovery.report.html import svg
from recovery.report.html.svg import Chart, Mark

# --- The bar of one cell: its mean, its range, and a dot for each run

HIGH = 20
END = 70.0
"""End of the axis, in percent: right of it even a phone has room for `mean 412.3 s`."""
_SIDEWAYS = (0.0, -4.0, 4.0, -6.5, 6.5, -2.0, 2.0)
"""Vertical offsets of the dots, in pixels, so that runs with the same result do not cover each other."""


@dataclass(frozen=True)
class Look:
    css: str
    worded: Callable[[float], str]
    """Formats the figure at the end of the bar."""
    hatch: str | None = None
    """Key of the picture that defines the hatch pattern; None for a plain bar."""


def run_bar(scale: Ruler, y: float, values: Sequence[tuple[int, float]], look: Look) -> list[Markup]:
    """Draws the bar of a cell. `values` are the number and the figure of each run; nothing is drawn if it is empty."""
    middle = mean(value for _, value in values)
    if middle is None:
        return []
    low, high = min(value for _, value in values), max(value for _, value in values)
    sides, rows, centre = (scale.at(0), scale.at(middle)), (y, y + HIGH), y + HIGH / 2
    parts = [svg.box(sides, rows, class_=f"bar {look.css}")]
    if look.hatch is not None:
        parts.append(svg.box(sides, rows, fill=svg.hatched(look.hatch)))
    if len(values) > 1:
        parts += svg.whisker(scale, centre, low, high)
    for place, (number, value) in enumerate(values):
        told = svg.element("title", f"run {number}: {look.worded(value)}")
        x, up = svg.percent(scale.at(value)), centre + _SIDEWAYS[place % len(_SIDEWAYS)]
        parts.append(svg.element("circle", told, cx=x, cy=up, r=3.2, class_="dot"))
    # The label includes the word `mean`, because at the end of the whisker it could be taken for the maximum.
    said = f"mean {look.worded(middle)}"
    return [*parts, svg.text(scale.at(max(middle, high)), centre + 4.5, said, dx=9, class_="value")]


# --- Chart of startup times

KEY = "startup-chart"
_GAP, _NAME, _BETWEEN = 5, 22, 12
_MOST_PLAIN = 2
"""Most variants that are only named in the legend; if there are more, each bar has its variant's name."""


def startup_chart(session: Session) -> Chart | None:
    """Returns the chart of startup times, or None if nothing was measured."""
    cells = {(version, variant): runs for version, variant, runs in measured_by(session)}
    times = [run.startup_s for runs in cells.values() for run in runs if run.startup_s is not None]
    if not times:
        return None
    scale = ruler(max(times), start=svg.START, end=END)
    named = len(session.variants) > _MOST_PLAIN
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
            y += HIGH + _GAP
        y += _BETWEEN
    title = f"{session.title}: mean seconds until ready for connections"
    drawing = svg.picture(
        KEY,
        title=title,
        told=_told(cells),
        height=y + 24,
        parts=[svg.hatches(KEY), *svg.grid(scale, y, "s"), *parts],
    )
    return Chart(KEY, title, drawing, tuple(_legend(session, named=named)))


def _legend(session: Session, *, named: bool) -> Iterator[Mark]:
    if not named:
        for number, name in enumerate(session.variants):
            yield Mark(
                f"swatch v{number % svg.COLOURS}{' hatched' if Cache.WARM.begins(name) else ''}", f"{name}, mean"
            )
    yield Mark("sign-dot", "one run")
    yield Mark("sign-whisker", "from the fastest to the slowest")


def _bar(scale: Ruler, y: float, number: int, runs: tuple[Run, ...], *, warm: bool) -> list[Markup]:
    times = [(run.number, run.startup_s) for run in runs if run.startup_s is not None]
    css = f"v{number % svg.COLOURS}"
    return run_bar(scale, y, times, Look(css, lambda seconds: f"{fmt.seconds(seconds)} s", KEY if warm else None))


def _told(cells: dict[tuple[str, str], tuple[Run, ...]]) -> str:
    return (
        "; ".join(
            f"{version} {variant} {fmt.seconds(mean(run.startup_s for run in runs))} s, {len(runs)} runs"
            for (version, variant), runs in cells.items()
        )
        + ". The table below has the figures."
    )
