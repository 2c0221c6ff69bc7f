"""How long did each version take, cold and warm? Means, medians, every run, and their range."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from markupsafe import Markup

from recovery.model import Cache
from recovery.report import figures
from recovery.report.axis import Axis, axis
from recovery.report.html import drawn
from recovery.report.html.parts import Chart, Mark
from recovery.stored import Run, Session
from recovery.summary import mean, measured_by

KEY = "startup-chart"
_BAR, _GAP, _NAME, _BETWEEN = 20, 5, 22, 12
_END = 70.0
"""Of the axis, in percent: right of it even a phone has room for `mean 412.3 s`."""
_SIDEWAYS = (0.0, -4.0, 4.0, -6.5, 6.5, -2.0, 2.0)
"""By so much dots of runs that took as long lie apart."""
_MOST_PLAIN = 2
"""Variants that a legend tells apart; more are named at each bar."""


def startup_chart(session: Session) -> Chart | None:
    """None where nothing was measured."""
    cells = {(version, variant): runs for version, variant, runs in measured_by(session)}
    times = [run.startup_s for runs in cells.values() for run in runs if run.startup_s is not None]
    if not times:
        return None
    scale = axis(max(times), start=drawn.START, end=_END)
    named = len(session.variants) > _MOST_PLAIN
    parts: list[Markup] = []
    y = 0.0
    for version in session.versions:
        rows = [(number, name) for number, name in enumerate(session.variants) if (version, name) in cells]
        if not rows:
            continue
        parts.append(drawn.text(0, y + 15, version, class_="name"))
        y += _NAME
        for number, name in rows:
            if named:
                parts.append(drawn.text(0, y + 12, name, class_="tick"))
                y += _NAME - 5
            parts += _bar(scale, y, number, cells[version, name], warm=Cache.WARM.begins(name))
            y += _BAR + _GAP
        y += _BETWEEN
    title = f"{session.title}: mean seconds until ready for connections"
    drawing = drawn.picture(
        KEY,
        title=title,
        told=_told(cells),
        height=y + 24,
        parts=[drawn.hatches(KEY), *drawn.grid(scale, y, "s"), *parts],
    )
    return Chart(KEY, title, drawing, tuple(_legend(session, named=named)))


def _legend(session: Session, *, named: bool) -> Iterator[Mark]:
    if not named:
        for number, name in enumerate(session.variants):
            yield Mark(
                f"swatch v{number % drawn.COLOURS}{' hatched' if Cache.WARM.begins(name) else ''}", f"{name}, mean"
            )
    yield Mark("sign-median", "median")
    yield Mark("sign-dot", "one run")
    yield Mark("sign-whisker", "from the fastest to the slowest")


def _bar(scale: Axis, y: float, number: int, runs: tuple[Run, ...], *, warm: bool) -> list[Markup]:
    times = [(run, run.startup_s) for run in runs if run.startup_s is not None]
    middle = mean(seconds for _, seconds in times)
    if middle is None:
        return []
    low, high = min(seconds for _, seconds in times), max(seconds for _, seconds in times)
    sides, rows, centre = (scale.at(0), scale.at(middle)), (y, y + _BAR), y + _BAR / 2
    parts = [drawn.box(sides, rows, class_=f"bar v{number % drawn.COLOURS}")]
    if warm:
        parts.append(drawn.box(sides, rows, fill=drawn.hatched(KEY)))
    if len(times) > 1:
        parts += drawn.whisker(scale, centre, low, high)
        half = scale.at(median(seconds for _, seconds in times))
        parts.append(drawn.line((half, y - 2), (half, y + _BAR + 2), class_="median"))
    for place, (run, seconds) in enumerate(times):
        told = drawn.element("title", f"run {run.number}: {figures.seconds(seconds)} s")
        x, up = drawn.percent(scale.at(seconds)), centre + _SIDEWAYS[place % len(_SIDEWAYS)]
        parts.append(drawn.element("circle", told, cx=x, cy=up, r=3.2, class_="dot"))
    # Where the whisker ends, it must not be taken for what that is at.
    said = f"mean {figures.seconds(middle)} s"
    return [*parts, drawn.text(scale.at(max(middle, high)), centre + 4.5, said, dx=9, class_="value")]


def _told(cells: dict[tuple[str, str], tuple[Run, ...]]) -> str:
    return (
        "; ".join(
            f"{version} {variant} {figures.seconds(mean(run.startup_s for run in runs))} s, {len(runs)} runs"
            for (version, variant), runs in cells.items()
        )
        + ". The table below has the figures."
    )
