"""Which of a session's own charts stand on the page of its question? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from recovery.cells import groups
from recovery.measures import is_work
from recovery.report.html.bars import startup_chart
from recovery.report.html.cellbars import cell_bars
from recovery.report.html.overtime import over_time
from recovery.report.html.parts import Chart, Fold, Part
from recovery.report.html.scaling import scaling_charts
from recovery.stored import Session

_SECOND_BY_SECOND = "interference"
"""What was published of it was drawn over time."""


def pictures(session: Session) -> Iterator[Part]:
    """Under keys that no other session's have, for all of them are in one page."""
    if not is_work(session):
        starts = startup_chart(session)
        yield from () if starts is None else (starts,)
        return
    for number, group in enumerate(groups(session), 1):
        key = f"{session.scenario}-{number}"
        drawn = scaling_charts(session, group, key) or cell_bars(session, group, key)
        if drawn is not None:
            yield drawn
    if session.scenario == _SECOND_BY_SECOND:
        yield from _over_time(session)


def _over_time(session: Session) -> Iterator[Part]:
    """One of each version; the rest where it is asked for."""
    found = over_time(session)
    first = {
        next((number for number, part in enumerate(found) if isinstance(part, Chart) and _is_of(version, part)), None)
        for version in session.versions
    }
    yield from (part for number, part in enumerate(found) if number in first)
    rest = tuple(part for number, part in enumerate(found) if number not in first)
    charts = tuple(part for part in rest if not isinstance(part, Fold))
    if charts:
        yield Fold(f"{len(charts)} more of them over time", charts)
    yield from (part for part in rest if isinstance(part, Fold))


def _is_of(version: str, chart: Chart) -> bool:
    return f"{chart.title} ".startswith(f"{version} ")
