"""Draws every chart of the HTML report: `bars` in rows, and `xy`, lines and symbols over a numeric axis.

Both get plain data, which `session_charts.py` and `timelines.py` take from a session. Horizontal positions are in
percent, so that a chart grows with the window while its text keeps its size. Colours are CSS classes: the page's style
sheet defines them for light mode, dark mode and print.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, groupby
from typing import Literal

from markupsafe import Markup

from recovery.report import fmt
from recovery.report.fmt import ChartAxis, round_step, rounded_axis, wrap_text
from recovery.report.html.parts import DOUBTED, Chart, LegendEntry

# --- What is drawn


@dataclass(frozen=True)
class About:
    """What a chart says about itself."""

    key: str
    title: str
    unit: str
    """What the horizontal axis counts."""
    notes: tuple[str, ...] = ()
    description: str = ""
    """What a screen reader says after the figures."""
    interval: str = "95 % interval of the mean"
    """What the intervals are."""


Interval = tuple[float, float]


@dataclass(frozen=True)
class Segment:
    """A kind of bar, or of the parts that a bar is stacked from."""

    name: str
    """In the legend, unless it is empty."""
    css: str
    hatched: bool = False


@dataclass(frozen=True)
class Row:
    """One bar."""

    name: str
    """Shown above the bar, unless the row above has the same name."""
    values: Mapping[str, float]
    """The value of each of its segments, by their names, from left to right."""
    text: str
    """The figure at the end of the bar."""
    tooltips: Mapping[str, str] = field(default_factory=dict)
    """The value of a segment as text, by its name."""
    interval: Interval | None = None
    runs: tuple[tuple[float, str], ...] = ()
    """The value of each run, and its tooltip."""
    doubts: tuple[str, ...] = ()
    """The warnings about the figure."""

    @property
    def end(self) -> float:
        return max(sum(self.values.values()), *(self.interval or (0.0,)), *(value for value, _ in self.runs), 0.0)


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    kind: Literal["run", "mean", "predicted"] = "run"
    """A mean has no symbol."""
    tooltip: str = ""
    interval: Interval | None = None
    label: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def top(self) -> float:
        return max(self.y, *(self.interval or (0.0,)))


@dataclass(frozen=True)
class Series:
    """A line, symbols, or both."""

    name: str
    """In the legend."""
    css: str
    panel: str
    """What its vertical axis counts. Series with the same one share a panel."""
    line: tuple[tuple[float, float | None], ...] = ()
    """None is a gap in the line."""
    points: tuple[Point, ...] = ()
    is_filled: bool = False


@dataclass(frozen=True)
class Band:
    """A part of the horizontal axis, such as a phase."""

    start: float
    end: float
    css: str
    name: str = ""
    """In the legend, unless it is empty."""
    tooltip: str = ""
    hatched: bool = False
    lane: str | None = None
    """Label of the lane above the panels that it is in; None if it is in none."""
    is_shade: bool = True
    """Whether it is also behind the panels."""


COLOURS = 8
"""Number of distinct colours of bars and phases; further kinds reuse them, hatched."""
LINES = 6
"""Number of distinct styles of lines and symbols; further ones reuse them."""


def bar_css(number: int) -> str:
    return f"bar v{number % COLOURS}"


def line_css(number: int) -> str:
    return f"s{number % LINES}"


# --- Bars

_BAR, _GAP, _BETWEEN = 20.0, 4.0, 10.0
_DOT_OFFSETS = (0.0, -4.0, 4.0, -6.5, 6.5, -2.0, 2.0)
"""Vertical offsets of the dots, in pixels, so that runs with the same result do not cover each other."""
_MIN_SHARE = 0.0005
"""Segments shorter than this share of the axis are not drawn, because they cannot be seen."""
_LETTER, _EDGE = 7.0, 10.0
"""Width of a letter, and the margin that a text needs in addition, in pixels."""
_NARROW, _ROOMY = 300, 850
"""Widths of a chart, in pixels, for which it is decided whether a text fits: a phone and a desktop screen."""
_MIN_END, _MAX_END = 40.0, 84.0


def bars(
    about: About, rows: Sequence[Row], segments: Sequence[Segment], *, reference: tuple[float, str] | None = None
) -> Chart | None:
    """Returns a chart with a bar for each row, or None if there are no rows.

    `segments` are the kinds of bars, in the order of the legend. `reference` is a value that all rows are compared
    with, and its name: a vertical line."""
    if not rows:
        return None
    line_at = reference[0] if reference else 0.0
    scale = rounded_axis(max(line_at, *(row.end for row in rows)), start=_START, end=_axis_end(rows))
    kinds = {segment.name: segment for segment in segments}
    parts: list[Markup] = []
    y = 0.0
    for name, group in groupby(rows, key=lambda row: row.name):
        parts += _wrapped_text(y + 13, name)
        y += _LABEL_LINE * len(wrap_text(name, _MAX_LABEL)) + 2
        for row in group:
            parts += _bar(about.key, scale, y, row, kinds)
            if reference:
                parts.append(_line((scale.at(line_at), y - 2), (scale.at(line_at), y + _BAR + 2), class_="reference"))
            end = _percent(scale.at(max(row.end, line_at)))
            sign = _doubt_sign(row.doubts)
            parts.append(_element("text", row.text, *sign, x=end, y=y + _BAR / 2 + 4.5, dx=9, class_="value"))
            y += _BAR + _GAP
        y += _BETWEEN - _GAP
    signs = (
        (any(row.runs for row in rows), LegendEntry("sign-dot", "one run")),
        (any(row.interval for row in rows), LegendEntry("sign-whisker", about.interval)),
        (reference is not None, LegendEntry("sign-line", reference[1] if reference else "")),
        (any(row.doubts for row in rows), DOUBTED),
    )
    legend = (
        *(_swatch(segment) for segment in segments if segment.name),
        *(entry for is_there, entry in signs if is_there),
    )
    is_hatched = any(segment.hatched for segment in segments)
    drawn = [*([_hatch_pattern(about.key)] if is_hatched else ()), *_bar_axis(scale, y, about.unit), *parts]
    return _chart(about, map(_bar_description, rows), y + 24, drawn, legend)


def _axis_end(rows: Sequence[Row]) -> float:
    """Returns the end of the axis, in percent: right of it even a phone has room for the figures of the bars."""
    needed = max(len(row.text) * _LETTER + _EDGE + (2 * _LETTER if row.doubts else 0) for row in rows)
    return max(_MIN_END, min(_MAX_END, 100 * (1 - needed / _NARROW)))


def _bar(key: str, scale: ChartAxis, y: float, row: Row, kinds: Mapping[str, Segment]) -> Iterator[Markup]:
    at, centre = 0.0, y + _BAR / 2
    is_stacked = len(row.values) > 1
    for name, value in row.values.items():
        sides = (scale.at(at), scale.at(at + value))
        if not is_stacked or value > _MIN_SHARE * scale.maximum:
            segment = kinds[name]
            shown = f"{name}: {row.tooltips[name]}" if name in row.tooltips else ""
            yield from _rectangle(sides, (y, y + _BAR), segment.css, shown, hatch=key if segment.hatched else "")
            if is_stacked:
                yield from _segment_label(segment, sides, y)
        at += value
    for (value, shown), offset in zip(row.runs, cycle(_DOT_OFFSETS), strict=False):
        x = _percent(scale.at(value))
        yield _element("circle", _element("title", shown), cx=x, cy=centre + offset, r=2.8, class_="dot")
    if row.interval:
        start, end = (scale.at(max(0.0, side)) for side in row.interval)
        yield _line((start, centre), (end, centre), class_="whisker")
        yield from (_line((x, centre - 5), (x, centre + 5), class_="whisker") for x in (start, end))


def _segment_label(segment: Segment, sides: Interval, y: float) -> Iterator[Markup]:
    """Yields the name of a segment inside it, if it fits there on every screen or at least on a wide one. In a hatched
    segment it has a plain background."""
    share, needed = (sides[1] - sides[0]) / 100, len(segment.name) * _LETTER + _EDGE
    if share * _ROOMY < needed:
        return
    colour = segment.css.split()[-1]
    always = "" if share * _NARROW >= needed else " roomy"
    if segment.hatched:
        plain = _element("rect", x=2, width=needed - 4, height=_BAR - 6, class_=f"{colour}{always}")
        yield _element("svg", plain, x=_percent(sides[0]), y=y + 3, overflow="visible")
    yield _text(sides[0], y + _BAR / 2 + 4, segment.name, dx=_EDGE / 2, class_=f"on-{colour}{always}")


def _bar_axis(axis: ChartAxis, bottom: float, unit: str) -> Iterator[Markup]:
    """Yields vertical grid lines from the top to the tick labels below. The unit is next to the last label. A narrow
    screen has every second label, if all would overlap there."""
    ticks = axis.ticks()
    labels = [tick_label(value, axis.maximum) for value in ticks]
    needed = max(map(len, labels)) * _LETTER + _GAP
    is_crowded = len(ticks) > 1 and (axis.at(ticks[1]) - axis.at(ticks[0])) / 100 * _NARROW < needed
    for number, (value, label) in enumerate(zip(ticks, labels, strict=True)):
        x = axis.at(value)
        yield _line((x, 0), (x, bottom), class_="grid")
        css = "tick roomy" if is_crowded and number and (len(ticks) - number) % 2 == 0 else "tick"
        yield _text(x, bottom + 16, label, text_anchor="start" if value == 0 else "middle", class_=css)
    yield _text(axis.at(axis.ticks()[-1]), bottom + 16, unit, dx=28, class_="tick")


def _bar_description(row: Row) -> str:
    if len(row.values) == 1:
        # The name of a row can begin with that of its bar: MySQL 8.0.31.
        names = (name for name in row.values if not row.name.startswith(name))
        return " ".join(filter(None, (*names, row.name, row.text)))
    return f"{row.name} {row.text}: most in {max(row.values, key=lambda name: row.values[name])}"


# --- Lines and symbols over a numeric axis

_LEFT, _RIGHT = 10.5, 95.0
"""Sides of the panels, in percent."""
_HEAD, _PANEL, _TALL_PANEL = 26.0, 64.0, 224.0
"""Heights of the label of a panel, of a panel of lines, and of one with symbols."""
_LANE, _LANE_LABEL = 9.0, 15.0
_MAX_TICKS = 6
_MIN_LABEL_DISTANCE = 6.0
"""Minimum distance of two labels below the axis, in percent of the width; nearer ones would overlap."""
_MIN_SIGN_DISTANCE = 4.0
"""Least distance of two signs of warnings, in percent of the width."""
_LABEL_OFFSETS = ((0, -9, "middle"), (0, 18, "middle"), (10, 8, "start"))
"""Labels are above, below or to the right of the points, so that those of nearby lines do not overlap."""
_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",
    "M-3.6-3.6h7.2v7.2h-7.2Z",
    "M0-5L4.6 3.4h-9.2Z",
    "M0-5.2L4.6 0L0 5.2L-4.6 0Z",
)
_FIELD = 1000.0
"""Horizontal units of the lines of a panel, which are stretched to the picture's width."""
Ticks = Sequence[tuple[float, str]]


def xy(
    about: About,
    series: Sequence[Series],
    bands: Sequence[Band] = (),
    *,
    ticks: Ticks | None = None,
    least: tuple[float, float] = (0.0, 0.0),
) -> Chart:
    """Returns a chart of series over a numeric axis, with a panel for each vertical axis, and bands along it.

    `ticks` are the values and labels of the horizontal axis, in place of round numbers. `least` are values that both
    axes reach at least, so that several charts share their scales."""
    across = _across(series, bands, least[0])
    panels: dict[str, list[Series]] = {}
    for drawn in series:
        panels.setdefault(drawn.panel, []).append(drawn)
    height = _TALL_PANEL if any(drawn.points for drawn in series) else _PANEL
    parts, y = _lanes(about.key, across, bands)
    for label, of_panel in panels.items():
        parts += _panel(across, y + _HEAD, height, label, of_panel, least[1])
        y += _HEAD + height
    shades = [
        part
        for band in bands
        if band.is_shade
        for part in _rectangle((across.at(band.start), across.at(band.end)), (0, y), f"shade {band.css.split()[-1]}")
    ]
    is_hatched = any(band.hatched for band in bands)
    axis = _tick_labels(across, y, about.unit, ticks)
    signs = [*([_hatch_pattern(about.key)] if is_hatched else ()), *shades, *axis, *parts]
    return _chart(about, map(_series_description, series), y + 42, signs, _xy_legend(about, series, bands))


def _across(series: Sequence[Series], bands: Sequence[Band], least: float) -> ChartAxis:
    values = [x for drawn in series for x in (*(x for x, _ in drawn.line), *(point.x for point in drawn.points))]
    values += [side for band in bands for side in (band.start, band.end)]
    minimum, maximum = min(0.0, *values, 0.0), max(least, *values, 0.0)
    return ChartAxis(maximum if maximum > minimum else minimum + 1.0, _LEFT, _RIGHT, minimum=minimum)


def _lanes(key: str, across: ChartAxis, bands: Sequence[Band]) -> tuple[list[Markup], float]:
    """Returns the lanes above the panels, and the height that they take."""
    parts: list[Markup] = []
    y = 0.0
    for label in dict.fromkeys(band.lane for band in bands if band.lane is not None):
        if label:
            parts.append(_text(_START, y + 11, label, dx=2, class_="tick"))
            y += _LANE_LABEL
        for band in bands:
            if band.lane == label:
                sides, hatch = (across.at(band.start), across.at(band.end)), key if band.hatched else ""
                parts += _rectangle(sides, (y, y + _LANE), band.css, band.tooltip, hatch=hatch)
        y += _LANE + 2
    return parts, y


def _panel(
    across: ChartAxis, top: float, height: float, label: str, series: Sequence[Series], least: float
) -> Iterator[Markup]:
    """Yields the vertical axis of a panel, its lines, its symbols, and the signs of warnings."""
    largest = max(
        least,
        *(y for drawn in series for _, y in drawn.line if y is not None),
        *(point.top for drawn in series for point in drawn.points),
        0.0,
    )
    up = rounded_axis(largest or 1.0, start=top + height, end=top)
    yield _text(_START, top - 10, label, dx=2, class_="tick")
    values = up.ticks() if height == _TALL_PANEL else (0.0, up.maximum)
    for value in values:
        y = up.at(value)
        yield _line((_LEFT, y), (_RIGHT, y), class_="ground" if value == 0 else "grid")
        yield _text(_LEFT, y + 4, tick_label(value, up.maximum), dx=-6, text_anchor="end", class_="tick")
    within = ChartAxis(up.maximum, height, 0.0)
    if curves := [part for drawn in series for part in _curve(across, within, drawn)]:
        yield _element(
            "svg", *curves, x="0", y=top, width="100%", height=height, viewBox=f"0 0 {_FIELD:g} {height:g}",
            preserveAspectRatio="none", overflow="visible",
        )  # fmt: skip
    yield from (part for number, drawn in enumerate(series) for part in _symbols(across, up, number, drawn))
    yield from _doubt_signs(across, up, [point for drawn in series for point in drawn.points])


def _curve(across: ChartAxis, up: ChartAxis, series: Series) -> Iterator[Markup]:
    """Yields the connected parts of a line. Their widths are stretched to the picture's, their strokes are not."""
    for is_gap, group in groupby(series.line, key=lambda place: place[1] is None):
        if is_gap:
            continue
        places = [(across.at(x) * _FIELD / 100, up.at(max(0.0, y or 0.0))) for x, y in group]
        if series.is_filled:
            area = [(places[0][0], up.at(0)), *places, (places[-1][0], up.at(0))]
            yield _path(area, f"area {series.css}")
        yield _path(places, f"series {series.css}")


def _path(places: Sequence[tuple[float, float]], css: str) -> Markup:
    d = "".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(places))
    return _element("path", d=d, vector_effect="non-scaling-stroke", class_=css)


def _symbols(across: ChartAxis, up: ChartAxis, number: int, series: Series) -> Iterator[Markup]:
    shape = _SHAPES[int(series.css[-1]) % len(_SHAPES)] if series.css[-1].isdigit() else _SHAPES[0]
    for point in series.points:
        x, y = across.at(point.x), up.at(point.y)
        if point.interval:
            low, high = (up.at(max(0.0, side)) for side in point.interval)
            yield _line((x, low), (x, high), class_=f"upright {series.css}")
            yield from (_line((x - 0.6, end), (x + 0.6, end), class_=f"upright {series.css}") for end in (low, high))
        if point.kind != "mean":
            css = "run" if point.kind == "run" else "hollow"
            sign = _element("path", _element("title", point.tooltip), d=shape, class_=f"{css} {series.css}")
            yield _element("svg", sign, x=_percent(x), y=y, overflow="visible")
        if point.label:
            dx, dy, anchor = _LABEL_OFFSETS[number % len(_LABEL_OFFSETS)]
            yield _text(x, y + dy, point.label, dx=dx, text_anchor=anchor, class_="tick")


def _doubt_signs(across: ChartAxis, up: ChartAxis, points: Sequence[Point]) -> Iterator[Markup]:
    """Yields the signs of warnings above everything at the places that they doubt: one for places near each other."""
    near: list[list[Point]] = []
    for point in sorted((point for point in points if point.doubts), key=lambda point: point.x):
        if near and across.at(point.x) - across.at(near[-1][0].x) < _MIN_SIGN_DISTANCE:
            near[-1].append(point)
        else:
            near.append([point])
    for doubted in near:
        places = {point.x for point in doubted}
        top = up.at(max(point.top for point in points if point.x in places))
        sign = _doubt_sign(text for point in doubted for text in point.doubts)
        yield _element("text", *sign, x=_percent(across.at(doubted[0].x)), y=top - 8, dx=-7)


def _tick_labels(across: ChartAxis, bottom: float, unit: str, ticks: Ticks | None) -> Iterator[Markup]:
    """Yields the horizontal axis. A narrow screen has every second round number; of given labels, those that would
    overlap are left out."""
    last_x = -_MIN_LABEL_DISTANCE
    for value, label, css in _round_ticks(across) if ticks is None else [(*tick, "tick") for tick in ticks]:
        x = across.at(value)
        if x - last_x >= _MIN_LABEL_DISTANCE:
            last_x = x
            yield _line((x, 0), (x, bottom), class_="grid")
            yield _text(x, bottom + 16, label, text_anchor="middle", class_=css)
    yield _text((_LEFT + _RIGHT) / 2, bottom + 33, unit, text_anchor="middle", class_="tick")


def _round_ticks(across: ChartAxis) -> Iterator[tuple[float, str, str]]:
    step = round_step((across.maximum - across.minimum) / _MAX_TICKS)
    count = int(across.maximum / step * (1 + 1e-9))
    for number in range(count + 1):
        css = "tick roomy" if number % 2 and number < count else "tick"
        yield number * step, tick_label(number * step, across.maximum), css


def tick_label(value: float, maximum: float) -> str:
    """Formats a tick label, such as `250k`, because a phone has no room for `250,000` next to the axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if maximum >= max(size, 1e4):
            return f"{value / size:g}{unit if value else ''}"
    return f"{value:,.6g}"


def _xy_legend(about: About, series: Sequence[Series], bands: Sequence[Band]) -> tuple[LegendEntry, ...]:
    entries = [LegendEntry(f"{'marker' if drawn.points else 'stroke'} {drawn.css}", drawn.name) for drawn in series]
    entries += [_swatch(band) for band in bands if band.name]
    points = [point for drawn in series for point in drawn.points]
    has_intervals = any(point.interval for point in points if point.kind == "mean")
    entries += [LegendEntry("sign-whisker", about.interval)] if has_intervals else []
    entries += [DOUBTED] if any(point.doubts for point in points) else []
    return tuple(dict.fromkeys(entries))


def _series_description(series: Series) -> str:
    means = [point for point in series.points if point.kind == "mean"]
    shown = means if any(point.label for point in means) else [*means[:1], *means[1:][-1:]]
    texts = (f"{point.label} {fmt.number(point.y)} at {fmt.number(point.x)}".strip() for point in shown)
    return f"{series.name}: {', '.join(texts)}" if means else series.name


# --- SVG

_START = 0.6
"""Left side of bars and of labels, in percent."""
_MAX_LABEL, _LABEL_LINE = 46, 17.0
"""Most letters in a line of a label, which a phone shows, and the height of a line."""
_Attribute = str | int | float


def _chart(
    about: About, figures: Iterable[str], height: float, parts: Iterable[Markup], legend: tuple[LegendEntry, ...]
) -> Chart:
    """Returns a chart with a title and a description for screen readers. Its figures are also in a table on the
    page."""
    key = about.key
    drawing = _element(
        "svg",
        _element("title", about.title, id=f"{key}-title"),
        _element("desc", f"{'; '.join(dict.fromkeys(figures))}. {about.description}".strip(), id=f"{key}-desc"),
        *parts,
        class_="chart",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        width="100%",
        height=height,
    )
    return Chart(key, about.title, drawing, legend, about.notes)


def _swatch(kind: Segment | Band) -> LegendEntry:
    return LegendEntry(f"swatch {kind.css}{' hatched' if kind.hatched else ''}", kind.name)


def _element(name: str, *inner: str, **attributes: _Attribute) -> Markup:
    """Returns an SVG element. `class_` becomes `class` and `stroke_width` becomes `stroke-width`. Everything that is
    not `Markup` is escaped."""
    pairs = (
        Markup(' {}="{}"').format(
            key.rstrip("_").replace("_", "-"), value if isinstance(value, str) else _number(value)
        )
        for key, value in attributes.items()
    )
    shown = (one if isinstance(one, Markup) else fmt.plus_minus(one) for one in inner)
    return Markup("<{0}{1}>{2}</{0}>").format(name, Markup("").join(pairs), Markup("").join(shown))


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _percent(value: float) -> str:
    return f"{_number(value)}%"


def _text(x: float, y: float, words: str, **attributes: _Attribute) -> Markup:
    return _element("text", words, x=_percent(x), y=y, **attributes)


def _wrapped_text(y: float, words: str) -> Iterator[Markup]:
    """Yields the lines of a label, the first one at `y`. A drawing does not break lines, and a phone has no room."""
    for number, part in enumerate(wrap_text(words, _MAX_LABEL)):
        yield _text(0, y + number * _LABEL_LINE, part, class_="row-name")


def _doubt_sign(texts: Iterable[str]) -> Iterator[Markup]:
    """Yields the sign of a warning, to be put behind the figure that it doubts, with the warnings as its tooltip."""
    if tooltip := " ".join(texts):
        yield _element("tspan", "!", _element("title", tooltip), dx=5, class_="doubt")


def _line(start: tuple[float, float], end: tuple[float, float], **attributes: _Attribute) -> Markup:
    return _element("line", x1=_percent(start[0]), y1=start[1], x2=_percent(end[0]), y2=end[1], **attributes)


def _rectangle(x: Interval, y: Interval, css: str, tooltip: str = "", *, hatch: str = "") -> Iterator[Markup]:
    """Yields a rectangle from `x[0]` to `x[1]` and from `y[0]` to `y[1]`. `hatch` is the key of the chart, whose
    pattern is drawn over it."""
    inner = [_element("title", tooltip)] if tooltip else []
    place: dict[str, _Attribute] = {
        "x": _percent(x[0]), "y": y[0], "width": _percent(max(0.0, x[1] - x[0])), "height": max(0.0, y[1] - y[0]),
    }  # fmt: skip
    yield _element("rect", *inner, **place, class_=css)
    if hatch:
        yield _element("rect", *inner, **place, fill=f"url(#{hatch}-hatch)")


def _hatch_pattern(key: str) -> Markup:
    """Returns the definition of a hatch pattern: a light line beside a dark one, for colours of any lightness. It marks
    kinds that have no colour left."""
    stripes = (
        _element("path", d=f"M{x} 0V6", class_=f"hatch-line {css}") for x, css in (("0", "dark"), ("1.2", "light"))
    )
    tile = _element(
        "pattern", *stripes, id=f"{key}-hatch", width=5, height=5, patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )  # fmt: skip
    return _element("defs", tile)
