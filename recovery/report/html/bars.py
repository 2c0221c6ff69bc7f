"""How long did each version take, cold and warm? Means, every run, and their range."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from recovery.model import Cache
from recovery.report import figures
from recovery.report.axis import Axis, axis
from recovery.report.html import drawn
from recovery.report.html.parts import Chart, Mark
from recovery.report.html.runbar import END, HIGH, Look, run_bar
from recovery.stored import Run, Session
from recovery.summary import mean, measured_by

KEY = "startup-chart"
_GAP, _NAME, _BETWEEN = 5, 22, 12
_MOST_PLAIN = 2
"""Variants that a legend tells apart; more are named at each bar."""


def startup_chart(session: Session) -> Chart | None:
    """None where nothing was measured."""
    cells = {(version, variant): runs for version, variant, runs in measured_by(session)}
    times = [run.startup_s for runs in cells.values() for run in runs if run.startup_s is not None]
    if not times:
        return None
    scale = axis(max(times), start=drawn.START, end=END)
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
            y += HIGH + _GAP
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
    yield Mark("sign-dot", "one run")
    yield Mark("sign-whisker", "from the fastest to the slowest")


def _bar(scale: Axis, y: float, number: int, runs: tuple[Run, ...], *, warm: bool) -> list[Markup]:
    times = [(run.number, run.startup_s) for run in runs if run.startup_s is not None]
    css = f"v{number % drawn.COLOURS}"
    return run_bar(scale, y, times, Look(css, lambda seconds: f"{figures.seconds(seconds)} s", KEY if warm else None))


def _told(cells: dict[tuple[str, str], tuple[Run, ...]]) -> str:
    return (
        "; ".join(
            f"{version} {variant} {figures.seconds(mean(run.startup_s for run in runs))} s, {len(runs)} runs"
            for (version, variant), runs in cells.items()
        )
        + ". The table below has the figures."
    )
