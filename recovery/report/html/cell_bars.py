"""Draws the main figure of each cell as bars, with a colour for each version."""

from __future__ import annotations

from markupsafe import Markup

from recovery.analysis.summary import Group, figure_value, measured_by, taken, words_in
from recovery.model import Run, Session, quantity
from recovery.report import format as fmt
from recovery.report.format import ruler, titled
from recovery.report.html import svg
from recovery.report.html.startup_bars import END, HIGH, Look, run_bar
from recovery.report.html.svg import Chart, Mark

_NAME, _GAP, _BETWEEN = 19, 4, 10


def cell_bars(session: Session, group: Group, key: str) -> Chart | None:
    """Returns the bar chart of a group, or None if nothing above zero was measured."""
    cells = {(version, variant): runs for version, variant, runs in measured_by(session)}
    here = [key for key in cells if key[1] in group.variants]
    most = max((value for key in here for value in taken(cells[key], group.figure)), default=0.0)
    if most <= 0:
        return None
    about = quantity(group.figure)
    scale = ruler(most, start=svg.START, end=END)
    parts: list[Markup] = []
    told: list[str] = []
    y = 0.0
    for variant in group.variants:
        found = [(number, name) for number, name in enumerate(session.versions) if (name, variant) in cells]
        if not found:
            continue
        named = words_in(session, group, variant) or group.name or variant
        parts.append(svg.text(0, y + 13, named, class_="row-name"))
        y += _NAME
        for number, version in found:
            runs = _values(session, cells[version, variant])
            look = Look(f"v{number % svg.COLOURS}", lambda value: fmt.column(about, value))
            parts += run_bar(scale, y, runs, look)
            middle = sum(value for _, value in runs) / len(runs) if runs else None
            told.append(f"{version} {named} {fmt.column(about, middle)}")
            y += HIGH + _GAP
        y += _BETWEEN
    title = titled(f"{session.title}: {about.title}", group)
    drawing = svg.picture(
        key,
        title=title,
        told=f"{'; '.join(told)}. The table below has the figures.",
        height=y + 24,
        parts=[*svg.grid(scale, y, about.title), *parts],
    )
    return Chart(key, title, drawing, _legend(session))


def _values(session: Session, runs: tuple[Run, ...]) -> list[tuple[int, float]]:
    found = ((run.number, figure_value(session, run)) for run in runs)
    return [(number, value) for number, value in found if value is not None]


def _legend(session: Session) -> tuple[Mark, ...]:
    versions = (
        Mark(f"swatch v{number % svg.COLOURS}", f"{version}, mean") for number, version in enumerate(session.versions)
    )
    least, most = Mark("sign-dot", "one run"), Mark("sign-whisker", "from the smallest to the largest")
    return (*versions, least, most)
