"""The growth as a picture: every run a dot, every version a line. Plain SVG, made of what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from recovery.curves import Curve
from recovery.report.axis import axis

CHART = "chart.svg"
"""Its name beside the reports."""
WIDTH, HEIGHT = 860, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 280, 40, 50
_COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a")
_FILES_A_THREAD = 8000
"""MySQL 8.0.18 and later scan with one more for each so many."""
_MOST_THREADS = 256
"""Lines that a picture can show."""


def chart(title: str, drawn: tuple[Curve, ...]) -> str:
    """Both axes from zero: a line that looks steep is."""
    most_tables = max(tables for curve in drawn for tables, _ in curve.points)
    most_s = max(run.startup_s or 0.0 for curve in drawn for _, runs in curve.points for run in runs)
    frame = _Frame(most_tables, most_s)
    parts = [*_axes(frame), *_more_threads(frame, drawn)]
    for number, curve in enumerate(drawn):
        parts += _curve(frame, curve, colour=_COLOURS[number % len(_COLOURS)], number=number)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="#1f2328"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f'<text x="{_LEFT}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )


class _Frame:
    def __init__(self, most_tables: float, most_s: float) -> None:
        self.tables = axis(most_tables, start=_LEFT, end=WIDTH - _RIGHT)
        self.seconds = axis(most_s, start=HEIGHT - _BOTTOM, end=_TOP)
        self.x = self.tables.at
        self.y = self.seconds.at


def _axes(frame: _Frame) -> Iterator[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    for seconds in frame.seconds.ticks():
        y = frame.y(seconds)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#d0d7de"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{seconds:g}</text>'
    for tables in frame.tables.ticks():
        yield f'<text x="{frame.x(tables):.1f}" y="{bottom + 18}" text-anchor="middle">{tables:,.0f}</text>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{HEIGHT - 10}" text-anchor="middle">tables</text>'
    yield f'<text x="16" y="{(_TOP + bottom) / 2}" transform="rotate(-90 16 {(_TOP + bottom) / 2})">seconds</text>'


def _curve(frame: _Frame, curve: Curve, *, colour: str, number: int) -> Iterator[str]:
    if curve.fit is not None:
        ends = curve.fit.drawn(curve.points[-1][0])
        corners = " ".join(f"{frame.x(tables):.1f},{frame.y(seconds):.1f}" for tables, seconds in ends)
        yield f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for tables, runs in curve.points:
        for run in runs:
            x, y = frame.x(tables), frame.y(run.startup_s or 0.0)
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}" fill-opacity="0.7"/>'
    yield from _threads_told(frame, curve, colour)
    y = _TOP + 18 * number
    yield f'<circle cx="{WIDTH - _RIGHT + 20}" cy="{y}" r="4" fill="{colour}"/>'
    yield f'<text x="{WIDTH - _RIGHT + 30}" y="{y + 4}">{escape(curve.version)} {escape(curve.variant)}</text>'


def _more_threads(frame: _Frame, drawn: tuple[Curve, ...]) -> Iterator[str]:
    """Where a server adds threads to its scan, up to the most that were seen: there a line may bend."""
    seen = [run.scan_threads or 0 for curve in drawn for _, runs in curve.points for run in runs]
    for number in range(1, min(_MOST_THREADS, max(seen, default=0))):
        x = frame.x(number * _FILES_A_THREAD)
        yield (
            f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{HEIGHT - _BOTTOM}" stroke="#d0d7de" '
            'stroke-dasharray="3 3"/>'
        )


def _threads_told(frame: _Frame, curve: Curve, colour: str) -> Iterator[str]:
    """Where the server scanned its files with another number of threads than at the point before."""
    before = None
    for tables, runs in curve.points:
        threads = max((run.scan_threads for run in runs if run.scan_threads is not None), default=None)
        if threads is not None and threads != before:
            y = frame.y(max(run.startup_s or 0.0 for run in runs)) - 8
            told = f"{threads} thread{'s' if threads > 1 else ''}"
            yield f'<text x="{frame.x(tables) - 4:.1f}" y="{y:.1f}" text-anchor="end" fill="{colour}">{told}</text>'
        before = threads or before
