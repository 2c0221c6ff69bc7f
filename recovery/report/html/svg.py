"""Draws SVG charts: standalone files, and the elements, page parts and bar charts of the HTML report.

The standalone files are the flame graphs. Charts on the page have horizontal positions in percent,
so that they grow with the window while their text keeps its size. Their colours are CSS classes, so that the page's
style sheet defines them for light mode, dark mode and print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from zlib import crc32

from markupsafe import Markup

from recovery.analysis import phase_names
from recovery.analysis.stacks import MIN_SAMPLES, share_text
from recovery.model import Table
from recovery.report.fmt import ChartAxis, printable, rounded_axis, split, wrap_text

# --- Flame graph as a standalone SVG file: a row for each stack depth, widths by sample count, phases left to right

_WIDTH, _ROW, _HEAD = 1200, 17, 34
_LETTER = 6.2
"""Approximate width of a letter at this font size."""
_MIN_WIDTH = 0.4
"""Narrower boxes cannot be seen and are not drawn."""
_PHASES = ("#9ec5fe", "#c5b3f0", "#a3d9b1", "#f2c2d8", "#b8d8e8", "#d5d8a8")
_FRAMES = ("#ffd8a8", "#ffc078", "#ffe3b3", "#fcd19c", "#f9c58d", "#ffdfb8")


@dataclass
class _Node:
    name: str
    count: int = 0
    below: dict[str, _Node] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return 1 + max((one.depth for one in self.below.values()), default=0)


def flame_graph(title: str, folded: Mapping[tuple[str, ...], int], phases: Sequence[str]) -> str:
    """Returns the flame graph as SVG. From top to bottom it shows the phase, the thread, and the chain of calls. A
    tooltip has the full name, the count, and the share."""
    root = _tree(folded)
    if root.count < MIN_SAMPLES:
        title += f" (no shares: they need {MIN_SAMPLES} samples)"
    height = _HEAD + root.depth * _ROW + 8
    parts = "".join(_boxes(root, 0.0, _WIDTH / max(1, root.count), 0, root.count, phases))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="monospace" font-size="10.5" fill="#1f2328" role="img" aria-label="{escape(title)}">'
        f'<rect class="paper" width="{_WIDTH}" height="{height}" fill="#fff"/>'
        f'<text class="head" x="8" y="21" font-size="14" font-weight="bold" font-family="sans-serif">{escape(title)}'
        f"</text>{parts}</svg>\n"
    )


def _tree(folded: Mapping[tuple[str, ...], int]) -> _Node:
    root = _Node("all")
    for names, count in folded.items():
        node = root
        node.count += count
        for name in names:
            node = node.below.setdefault(name, _Node(name))
            node.count += count
    return root


def _boxes(node: _Node, x: float, unit: float, row: int, whole: int, phases: Sequence[str]) -> Iterator[str]:
    width = node.count * unit
    if width < _MIN_WIDTH:
        return
    y = _HEAD + row * _ROW
    counted = f"{node.count} of {whole}"
    tooltip = escape(f"{node.name}: {counted}{f', {share_text(node.count, whole)}' if whole >= MIN_SAMPLES else ''}")
    yield (
        f'<g><title>{tooltip}</title><rect x="{x:.1f}" y="{y}" width="{max(_MIN_WIDTH, width - 0.5):.1f}" '
        f'height="{_ROW - 1}" rx="1" fill="{_colour(node.name, row, phases)}"/>{_label(node.name, x, y, width)}</g>'
    )
    for one in sorted(node.below.values(), key=lambda one: _sort_key(one.name, row, phases)):
        yield from _boxes(one, x, unit, row + 1, whole, phases)
        x += one.count * unit


def _label(name: str, x: float, y: float, width: float) -> str:
    room = int((width - 6) / _LETTER)
    if room < 3:
        return ""
    shown = name if len(name) <= room else f"{name[: room - 1]}\u2026"
    return f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(shown)}</text>'


def _sort_key(name: str, row: int, phases: Sequence[str]) -> tuple[int, str]:
    """Returns the sort key of a box: phases in their order in time, everything inside them by name."""
    return (phases.index(name) if row == 0 and name in phases else len(phases), name)


def _colour(name: str, row: int, phases: Sequence[str]) -> str:
    """Returns the colour of a box. It depends on the name, so that a function has the same colour in every flame
    graph."""
    if row == 0:
        return "#d0d7de"
    if row == 1 and name in phases:
        return _PHASES[phases.index(name) % len(_PHASES)]
    return "#d8dee4" if row == 2 else _FRAMES[crc32(name.encode()) % len(_FRAMES)]


# --- Parts of the HTML page, which its template renders


@dataclass(frozen=True)
class LegendEntry:
    """One entry of a legend."""

    css: str
    name: str


@dataclass(frozen=True)
class Chart:
    key: str
    title: str
    svg: Markup
    legend: tuple[LegendEntry, ...] = ()
    notes: tuple[str, ...] = ()
    wide: bool = False
    """Whether the chart keeps its width and scrolls inside a box, instead of growing with the window."""
    heading: str | None = None
    """What is shown as its title if a heading above says a part of it; empty if that says all of it."""
    kind: str = field(default="chart", init=False)


_NAMES = re.compile(r'(?P<before> (?:id|aria-labelledby)="|url\(#)(?P<names>[^")]+)')


def numbered_chart(chart: Chart, number: int) -> Chart:
    """Returns the chart with other names of its parts, because a page must have no name twice."""

    def numbered(match: re.Match[str]) -> str:
        return match["before"] + " ".join(f"{name}-{number}" for name in match["names"].split())

    # Text from outside has no quotes in a drawing: they are escaped.
    drawing = Markup(_NAMES.sub(numbered, chart.svg))  # noqa: S704
    return replace(chart, key=f"{chart.key}-{number}", svg=drawing)


_PHONE_LETTERS = 44
"""Letters that fit beside each other on a phone."""


@dataclass(frozen=True)
class TablePart:
    key: str
    table: Table
    heading: str | None = None
    """As of a chart."""
    kind: str = field(default="table", init=False)

    @property
    def is_stacked(self) -> bool:
        """Whether a phone shows the cells of a row below each other, because not all columns fit."""
        return len(split(self.table, _PHONE_LETTERS, gap=2)) > 1


@dataclass(frozen=True)
class Panels:
    """Charts of one kind side by side, with a shared legend."""

    key: str
    title: str
    charts: tuple[Chart, ...]
    legend: tuple[LegendEntry, ...] = ()
    notes: tuple[str, ...] = ()
    heading: str | None = None
    """As of a chart."""
    kind: str = field(default="panels", init=False)


@dataclass(frozen=True)
class FoldedParts:
    """Parts that are collapsed until the reader opens them."""

    summary: str
    parts: tuple[Part, ...]
    kind: str = field(default="fold", init=False)


Part = Chart | TablePart | FoldedParts | Panels


@dataclass(frozen=True)
class PageSection:
    key: str
    title: str
    parts: tuple[Part, ...]
    lead: str = ""
    legend: tuple[LegendEntry, ...] = ()
    """What several of its charts have in common."""


def table_parts(key: str, *tables: Table | None) -> tuple[TablePart, ...]:
    found = [table for table in tables if table is not None]
    return tuple(TablePart(f"{key}-table-{number}", table) for number, table in enumerate(found, 1))


_WHOLE = re.compile(
    r"\b[a-z]{1,16}-\d{1,6}(?:\.\d{1,6}){1,3}"  # mariadb-10.11.5
    r"|\(\d[\d.,]{0,12}-\d[\d.,]{0,12}\)"  # an interval
    r"|(?:\+- )?\d[\d.,]{0,12} ?%|\+- \d[\d.,]{0,12}",
    re.ASCII,
)


def unbroken(text: str) -> Markup:
    """Returns a text, escaped, in which no line ends within the name of a version or a figure."""
    text = printable(f"|{text}|")[1:-1]  # spaces at its ends are kept
    found, at = Markup(""), 0
    for whole in _WHOLE.finditer(text):
        found += text[at : whole.start()] + Markup('<span class="whole">{}</span>').format(whole[0])
        at = whole.end()
    return found + text[at:]


# --- SVG elements

XY_LEFT, XY_RIGHT, XY_TOP, XY_HEIGHT = 11.0, 95.0, 26.0, 250.0
"""Sides of a chart with two axes: left and right in percent, top and bottom in pixels."""
START, END = 0.6, 84.0
"""Start and end of a horizontal axis, in percent: right of it there is room for a figure."""
COLOURS = 8
"""Number of distinct colours of bars and phases; further kinds reuse them, hatched."""
LINES = 6
"""Number of distinct styles of lines and markers; further ones reuse them."""
_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",
    "M-3.6-3.6h7.2v7.2h-7.2Z",
    "M0-5L4.6 3.4h-9.2Z",
    "M0-5.2L4.6 0L0 5.2L-4.6 0Z",
)
_MAX_LABEL, _LABEL_LINE = 46, 17.0
"""Most letters in a line of a label, which a phone shows, and the height of a line."""
_MIN_SIGN_DISTANCE = 4.0
"""Least distance of two signs of warnings, in percent of the width."""
DOUBTED = LegendEntry("sign-doubt", "a warning doubts it")
DARK_HATCH = "hatch-line dark"
"""Class of hatches over colours that are the same in light and dark mode."""
AttributeValue = str | int | float


def element(name: str, *inner: str, **attributes: AttributeValue) -> Markup:
    """Returns an SVG element. `class_` becomes `class` and `stroke_width` becomes `stroke-width`. Everything that is
    not `Markup` is escaped."""
    pairs = (
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _attribute_text(attributes[key]))
        for key in attributes
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, Markup("").join(pairs), Markup("").join(inner))


def _attribute_text(value: AttributeValue) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def percent(value: float) -> str:
    return f"{_attribute_text(float(value))}%"


def picture(key: str, *, title: str, description: str, height: float, parts: Iterable[Markup]) -> Markup:
    """Returns a chart with a title and a description for screen readers. Its figures are also in a table on the
    page."""
    return element(
        "svg",
        element("title", title, id=f"{key}-title"),
        element("desc", description, id=f"{key}-desc"),
        *parts,
        class_="chart",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        width="100%",
        height=height,
    )


def text(x: float, y: float, words: str, **attributes: AttributeValue) -> Markup:
    return element("text", words, x=percent(x), y=y, **attributes)


def wrapped_text(y: float, words: str, **attributes: AttributeValue) -> Iterator[Markup]:
    """Yields the lines of a label, the first one at `y`. A drawing does not break lines, and a phone has no room."""
    for number, part in enumerate(wrap_text(words, _MAX_LABEL)):
        yield text(0, y + number * _LABEL_LINE, part, **attributes)


def wrapped_height(words: str) -> float:
    return _LABEL_LINE * len(wrap_text(words, _MAX_LABEL))


def doubt_sign(texts: Iterable[str]) -> Iterator[Markup]:
    """Yields the sign of a warning, to be put behind the figure that it doubts, with the warnings as its tooltip."""
    if tooltip := " ".join(texts):
        yield element("tspan", "!", element("title", tooltip), dx=5, class_="doubt")


def line(from_: tuple[float, float], to: tuple[float, float], **attributes: AttributeValue) -> Markup:
    return element("line", x1=percent(from_[0]), y1=from_[1], x2=percent(to[0]), y2=to[1], **attributes)


def rectangle(x: tuple[float, float], y: tuple[float, float], *inner: Markup, **attributes: AttributeValue) -> Markup:
    """Returns a rectangle from `x[0]` to `x[1]` and from `y[0]` to `y[1]`."""
    width, height = percent(max(0.0, x[1] - x[0])), max(0.0, y[1] - y[0])
    return element("rect", *inner, x=percent(x[0]), y=y[0], width=width, height=height, **attributes)


def marker(x: float, y: float, shape: int, tooltip: str, **attributes: AttributeValue) -> Markup:
    """Returns a small marker with a tooltip, in one of four shapes."""
    sign = element("path", element("title", tooltip), d=_SHAPES[shape % len(_SHAPES)], **attributes)
    return element("svg", sign, x=percent(x), y=y, overflow="visible")


def upright_whisker(axes: XYAxes, x: float, interval: tuple[float, float], css: str) -> Iterator[Markup]:
    """Yields the interval of a mean in a chart with two axes."""
    (across, low), (_, high) = (axes.at(x, max(0.0, end)) for end in interval)
    yield line((across, low), (across, high), class_=css)
    yield from (line((across - 0.6, y), (across + 0.6, y), class_=css) for y in (low, high))


Doubt = tuple[float, float, Sequence[str]]
"""A point of a chart with two axes, and the warnings that doubt it."""


def doubt_marks(axes: XYAxes, doubts: Iterable[Doubt]) -> Iterator[Markup]:
    """Yields the signs of warnings above the points that they doubt: one for points above or near each other."""
    near: list[list[Doubt]] = []
    for doubt in sorted((doubt for doubt in doubts if doubt[2]), key=lambda doubt: doubt[0]):
        if near and axes.across.at(doubt[0]) - axes.across.at(near[-1][0][0]) < _MIN_SIGN_DISTANCE:
            near[-1].append(doubt)
        else:
            near.append([doubt])
    for group in near:
        across, up = axes.at(group[0][0], max(y for _, y, _ in group))
        sign = doubt_sign(text for _, _, texts in group for text in texts)
        yield element("text", *sign, x=percent(across), y=up - 8, dx=-7)


def whisker(axis: ChartAxis, y: float, low: float, high: float) -> list[Markup]:
    start, end = axis.at(max(0.0, low)), axis.at(high)
    ends = [line((x, y - 5), (x, y + 5), class_="whisker") for x in (start, end)]
    return [line((start, y), (end, y), class_="whisker"), *ends]


def grid(axis: ChartAxis, bottom: float, unit: str) -> list[Markup]:
    """Returns vertical grid lines from the top to the tick labels below. The unit is next to the last label."""
    drawn = []
    for value in axis.ticks():
        x = axis.at(value)
        drawn.append(line((x, 0), (x, bottom), class_="grid"))
        anchor = "start" if value == 0 else "middle"
        drawn.append(text(x, bottom + 16, f"{value:,.6g}", text_anchor=anchor, class_="tick"))
    return [*drawn, text(axis.at(axis.ticks()[-1]), bottom + 16, unit, dx=28, class_="tick")]


@dataclass(frozen=True)
class XYAxes:
    """The axes of a chart with lines or points: a horizontal one in percent, a vertical one in pixels."""

    across: ChartAxis
    up: ChartAxis

    @classmethod
    def within(cls, across: ChartAxis | float, maximum: float) -> XYAxes:
        """Returns the axes from 0 to these values, rounded up. A finished horizontal axis is used as it is."""
        if not isinstance(across, ChartAxis):
            across = rounded_axis(across, start=XY_LEFT, end=XY_RIGHT)
        return cls(across, rounded_axis(maximum, start=XY_HEIGHT, end=XY_TOP))

    def at(self, x: float, y: float) -> tuple[float, float]:
        return self.across.at(x), self.up.at(y)

    def drawn(self, labels: tuple[str, str], ticks: Sequence[tuple[float, str]] | None = None) -> Iterator[Markup]:
        """Yields grid, tick labels and titles. `ticks` replaces the labels of the horizontal axis, whose every second
        label is otherwise hidden on a narrow screen."""
        for value in self.up.ticks():
            y = self.up.at(value)
            yield line((self.across.start, y), (self.across.end, y), class_="grid")
            label = tick_label(value, self.up.maximum)
            yield text(self.across.start, y + 4, label, dx=-6, text_anchor="end", class_="tick")
        if ticks is None:
            ticks = [(value, tick_label(value, self.across.maximum)) for value in self.across.ticks()]
            roomy = {value for value, _ in ticks[1::2]}
        else:
            roomy = set()
        for value, label in ticks:
            css = "tick roomy" if value in roomy else "tick"
            yield text(self.across.at(value), XY_HEIGHT + 18, label, text_anchor="middle", class_=css)
        yield text(
            (self.across.start + self.across.end) / 2, XY_HEIGHT + 36, labels[0], text_anchor="middle", class_="tick"
        )
        yield text(0, 9, labels[1], class_="tick")


def tick_label(value: float, maximum: float) -> str:
    """Formats a tick label, such as `250k`, because a phone has no room for `250,000` next to the axis."""
    for minimum, unit in ((1e6, "M"), (1e4, "k")):
        if maximum >= minimum:
            return f"{value / (1e6 if unit == 'M' else 1e3):g}{unit if value else ''}"
    return f"{value:,.6g}"


def stretched_path(
    points: Sequence[tuple[float, float]], *, size: tuple[float, float], **attributes: AttributeValue
) -> Markup:
    """Returns a path in a field of this size. The field is stretched to the picture's width, the stroke is not."""
    d = "".join(
        f"{'L' if number else 'M'}{_attribute_text(x)} {_attribute_text(y)}" for number, (x, y) in enumerate(points)
    )
    return element("path", d=d, vector_effect="non-scaling-stroke", **attributes) if size[0] and points else Markup("")


def panel(inner: Iterable[Markup], y: float, *, size: tuple[float, float]) -> Markup:
    """Returns a panel with its horizontal units stretched to the picture's width."""
    return element(
        "svg", *inner, x="0", y=y, width="100%", height=size[1], viewBox=f"0 0 {size[0]:g} {size[1]:g}",
        preserveAspectRatio="none",
    )  # fmt: skip


def panel_frame(axis: ChartAxis, top: float, height: float, *, label: str) -> list[Markup]:
    """Returns the frame of a panel: a label with the value of the upper line, that line, and the base line."""
    return [
        text(START, top - 7, label, dx=2, class_="tick"),
        line((axis.start, top), (axis.end, top), class_="grid"),
        line((axis.start, top + height), (axis.end, top + height), class_="ground"),
    ]


def hatch_pattern(key: str, *, css: str = "hatch-line") -> Markup:
    """Returns the definition of a hatch pattern. It marks warm starts, and kinds that have no colour left."""
    stripes = [element("path", d="M0 0V6", class_=css)]
    if css == DARK_HATCH:  # a light line beside the dark one, for dark colours
        stripes.append(element("path", d="M1.2 0V6", class_="hatch-line light"))
    tile = element(
        "pattern",
        *stripes,
        id=f"{key}-hatch",
        width=5,
        height=5,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
    return element("defs", tile)


def hatch_fill(key: str) -> str:
    return f"url(#{key}-hatch)"


# --- Horizontal bar charts with one figure in each row

_BAR, _BETWEEN = 14, 8


@dataclass(frozen=True)
class BarRow:
    name: str
    """Label of the row; empty if it belongs to the row above."""
    value: float
    text: str
    """The formatted figure at the end of the bar."""
    css: str = "v0"
    low: float | None = None
    high: float | None = None
    doubts: tuple[str, ...] = ()
    """The warnings about the figure."""


@dataclass(frozen=True)
class BarChartOptions:
    key: str
    title: str
    unit: str
    line: float | None = None
    """A value that all rows are compared with, drawn as a vertical line."""
    legend: tuple[LegendEntry, ...] = ()
    notes: tuple[str, ...] = ()
    end: float = END
    """End of the axis, in percent; the rest of the width is for the figures at the ends of the bars."""


def bar_chart(about: BarChartOptions, rows: Sequence[BarRow]) -> Chart | None:
    """Returns the bar chart, or None if there are no rows."""
    if not rows:
        return None
    largest = max(*(max(row.value, row.high or 0.0) for row in rows), about.line or 0.0)
    scale = rounded_axis(largest, start=START, end=about.end)
    parts: list[Markup] = []
    y = 0.0
    for row in rows:
        if row.name:
            parts += wrapped_text(y + 13, row.name, class_="row-name")
            y += wrapped_height(row.name) + 2
        parts.append(rectangle((scale.at(0), scale.at(row.value)), (y, y + _BAR), class_=f"bar {row.css}"))
        if row.low is not None and row.high is not None:
            parts += whisker(scale, y + _BAR / 2, row.low, row.high)
        if about.line is not None:
            x = scale.at(about.line)
            parts.append(line((x, y - 2), (x, y + _BAR + 2), class_="reference"))
        end = scale.at(max(row.value, row.high or 0.0, about.line or 0.0))
        sign = doubt_sign(row.doubts)
        parts.append(element("text", row.text, *sign, x=percent(end), y=y + _BAR - 2.5, dx=8, class_="value"))
        y += _BAR + _BETWEEN
    description = "; ".join(f"{row.name} {row.text}".strip() for row in rows)
    parts = [*grid(scale, y, about.unit), *parts]
    drawing = picture(about.key, title=about.title, description=description, height=y + 24, parts=parts)
    return Chart(about.key, about.title, drawing, about.legend, about.notes)


# --- Colours of phases: the same in every chart, hatched if another phase has the plain colour

# Phases that take long come first, because the first colours differ most. Sixteen styles are distinct; the others are
# used twice, by phases that are rare or that no start has in common.
_PHASE_COLOUR_ORDER = (
    phase_names.DISCOVERY, phase_names.VALIDATION, phase_names.REDO_SCAN, phase_names.REDO_APPLY,
    phase_names.FILE_SCAN, phase_names.FILE_CHECK, phase_names.DICTIONARY_READ, phase_names.UNNAMED,
    phase_names.DICTIONARY, phase_names.REST_TO_READY, phase_names.UNDO_AND_TEMP, phase_names.BUFFER_POOL,
    phase_names.DIRECTORY_LISTING, phase_names.SYSTEM_FILES, phase_names.PROCESS_START, phase_names.FIRST_QUERY,
    phase_names.INNODB_INITIALIZATION, phase_names.REDO_LOG_RESIZE, phase_names.UPGRADE, phase_names.BINLOG_RECOVERY,
    phase_names.ROLLBACK, phase_names.BUFFER_POOL_LOAD,
)  # fmt: skip


def phase_colour(phase: str) -> tuple[int, bool]:
    """Returns the number of a phase's colour, and whether it is hatched. Phases that no log line separates have the
    colour of the first one, with the hatching reversed."""
    first, joined, _ = phase.partition(phase_names.JOIN)
    number = (
        _PHASE_COLOUR_ORDER.index(first)
        if first in _PHASE_COLOUR_ORDER
        else _PHASE_COLOUR_ORDER.index(phase_names.FIRST_QUERY)  # a query after it
    )
    return number % COLOURS, bool(joined) != (number >= COLOURS)


def phase_legend(names: Iterable[str]) -> tuple[LegendEntry, ...]:
    return tuple(LegendEntry(_css(name), name) for name in names)


def is_phase(entry: LegendEntry) -> bool:
    return entry.css.startswith("swatch p")


def _css(name: str) -> str:
    number, hatched = phase_colour(name)
    return f"swatch p{number}{' hatched dark' if hatched else ''}"
