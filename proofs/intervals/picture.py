"""Draws the cold starts of intervals.json as docs/startup.svg, the picture of README.md, like a chart of a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from intervals.cells import SessionCell, by_setting
from recovery.analysis.statistics import MIN_SESSIONS_OF_A_MEAN, over_sessions
from recovery.model import Cache
from recovery.report.html.charts import About, Row, Segment, bar_css, bars

TABLES = 200_000
_PRODUCTS = ("MySQL", "MariaDB")
_TITLE = f"Seconds until ready after a crash, cold, {TABLES:,} tables"
_LEGEND = "bar: geometric mean over sessions; dot: one session; line: 95 % interval over sessions"
_WIDTH, _MARGIN, _HEAD, _FOOT = 760, 20, 44, 34
_STYLE = """
:root { --paper: #fff; --ink: #1b1f24; --soft: #59616b; --rule: #dfe3e8; --v0: #0072b2; --v1: #d55e00; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --ink: #e6e9ed; --soft: #a3acb7; --rule: #2d333b; --v0: #56b4e9; --v1: #e69f00; }
}
text { font-family: system-ui, "Segoe UI", Roboto, Arial, sans-serif; font-size: 12.5px; fill: var(--ink); }
.title { font-size: 15px; font-weight: 650; } .tick, .legend { fill: var(--soft); font-size: 12px; }
.value { font-weight: 600; } .paper { fill: var(--paper); } .grid { stroke: var(--rule); }
.v0 { fill: var(--v0); stroke: var(--v0); } .v1 { fill: var(--v1); stroke: var(--v1); }
.bar { stroke-width: 1.25; fill-opacity: .5; } .whisker { stroke: var(--ink); stroke-width: 1.5; }
.dot { fill: var(--ink); stroke: var(--paper); stroke-width: 1; }
"""


def picture(cells: Sequence[SessionCell]) -> str:
    """Returns the SVG: a bar for each server, with a dot for each session."""
    segments = [Segment(name, bar_css(number)) for number, name in enumerate(_PRODUCTS)]
    chart = bars(About("startup", _TITLE, "s"), list(_rows(cells)), segments)
    assert chart is not None
    drawing = str(chart.svg)
    found = re.search(r'height="(\d+)"', drawing)
    assert found is not None
    height = _HEAD + int(found[1]) + _FOOT
    inner = drawing.replace(' width="100%"', f' x="{_MARGIN}" y="{_HEAD}" width="{_WIDTH - 2 * _MARGIN}"', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="8"/>\n'
        f'<text class="title" x="{_MARGIN}" y="28">{_TITLE}</text>\n'
        f"{inner}\n"
        f'<text class="legend" x="{_MARGIN}" y="{height - 14}">{_LEGEND}</text>\n'
        "</svg>\n"
    )


def _rows(cells: Sequence[SessionCell]) -> Iterator[Row]:
    for setting, group in sorted(by_setting(cells).items(), key=lambda item: _order(item[0].server)):
        means = [cell.mean for cell in group]
        found = over_sessions(means)
        if (setting.cache, setting.tables, setting.others) != (Cache.COLD, TABLES, "") or found is None:
            continue
        product, number = named(setting.server)
        interval = interval_of(means)
        if interval is None:
            *first, last = map(_seconds, sorted(means))
            text = f"{', '.join(first)} and {last} s, {len(means)} sessions"
        else:
            low, high = map(_seconds, interval)
            text = f"{_seconds(found.mean)} s ({low}-{high}), {len(means)} sessions"
        dots = tuple((one.mean, f"{one.session}: {_seconds(one.mean)} s") for one in group)
        yield Row(f"{product} {number}", {product: found.mean}, text, interval=interval, runs=dots)


def interval_of(means: Sequence[float]) -> tuple[float, float] | None:
    """Returns the interval of the mean over sessions; None of sessions that are too few for one."""
    found = over_sessions(means)
    return None if found is None or len(means) < MIN_SESSIONS_OF_A_MEAN else found.interval


def named(server: str) -> tuple[str, str]:
    """Returns the product and the number of a server: MariaDB and 10.11.5."""
    product, _, number = server.rpartition("-")
    return ("MariaDB" if product else "MySQL"), number


def in_order(servers: Iterable[str]) -> list[str]:
    """Returns the servers as the picture has them: those of MySQL first."""
    return sorted(servers, key=_order)


def _order(server: str) -> tuple[bool, tuple[int, ...]]:
    product, number = named(server)
    return product != "MySQL", tuple(map(int, number.split(".")))


def _seconds(value: float) -> str:
    """Writes about two digits, as the table of README.md."""
    return f"{value:.{0 if value >= 10 else 1 if value >= 1 else 2}f}"
