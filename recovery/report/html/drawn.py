"""How is a chart drawn on the page? As SVG whose sides are percents: it grows with the window, its text does not.
Colours are classes, so that the page's style gives them for light, dark and paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from recovery.report.axis import Axis

START, END = 0.6, 84.0
"""Of a horizontal axis, in percent: right of it there is room for a figure."""
COLOURS = 8
"""So many kinds have one of their own; then the same come again, hatched."""
LINES = 6
"""The same of lines and signs."""
_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",
    "M-3.6-3.6h7.2v7.2h-7.2Z",
    "M0-5L4.6 3.4h-9.2Z",
    "M0-5.2L4.6 0L0 5.2L-4.6 0Z",
)
DARK = "hatch-line dark"
"""Over colours that are the same in light and dark."""
Said = str | int | float


def element(name: str, *inner: str, **attributes: Said) -> Markup:
    """`class_` is class, `stroke_width` is stroke-width; whatever is no markup yet is escaped."""
    told = (Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _said(attributes[key])) for key in attributes)
    return Markup("<{0}{1}>{2}</{0}>").format(name, Markup("").join(told), Markup("").join(inner))


def _said(value: Said) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def percent(value: float) -> str:
    return f"{_said(float(value))}%"


def picture(key: str, *, title: str, told: str, height: float, parts: Iterable[Markup]) -> Markup:
    """One that says what it shows to those who do not see it; its figures are in a table beside it."""
    return element(
        "svg",
        element("title", title, id=f"{key}-title"),
        element("desc", told, id=f"{key}-desc"),
        *parts,
        class_="chart",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        width="100%",
        height=height,
    )


def text(x: float, y: float, said: str, **attributes: Said) -> Markup:
    return element("text", said, x=percent(x), y=y, **attributes)


def line(from_: tuple[float, float], to: tuple[float, float], **attributes: Said) -> Markup:
    return element("line", x1=percent(from_[0]), y1=from_[1], x2=percent(to[0]), y2=to[1], **attributes)


def box(x: tuple[float, float], y: tuple[float, float], *inner: Markup, **attributes: Said) -> Markup:
    """From `x` to `x`, from `y` to `y`."""
    width, height = percent(max(0.0, x[1] - x[0])), max(0.0, y[1] - y[0])
    return element("rect", *inner, x=percent(x[0]), y=y[0], width=width, height=height, **attributes)


def mark(x: float, y: float, shape: int, told: str, **attributes: Said) -> Markup:
    """A small sign of its own for each of four kinds."""
    sign = element("path", element("title", told), d=_SHAPES[shape % len(_SHAPES)], **attributes)
    return element("svg", sign, x=percent(x), y=y, overflow="visible")


def whisker(axis: Axis, y: float, low: float, high: float) -> list[Markup]:
    start, end = axis.at(low), axis.at(high)
    ends = [line((x, y - 5), (x, y + 5), class_="whisker") for x in (start, end)]
    return [line((start, y), (end, y), class_="whisker"), *ends]


def grid(axis: Axis, bottom: float, unit: str) -> list[Markup]:
    """Lines from the top to the numbers below, the last of which names the unit."""
    drawn = []
    for value in axis.ticks():
        x = axis.at(value)
        drawn.append(line((x, 0), (x, bottom), class_="grid"))
        anchor = "start" if value == 0 else "middle"
        drawn.append(text(x, bottom + 16, f"{value:,.6g}", text_anchor=anchor, class_="tick"))
    return [*drawn, text(axis.at(axis.ticks()[-1]), bottom + 16, unit, dx=28, class_="tick")]


def along(points: Sequence[tuple[float, float]], *, size: tuple[float, float], **attributes: Said) -> Markup:
    """A path in a field of this size, stretched to the picture's width; its stroke is not."""
    d = "".join(f"{'L' if number else 'M'}{_said(x)} {_said(y)}" for number, (x, y) in enumerate(points))
    return element("path", d=d, vector_effect="non-scaling-stroke", **attributes) if size[0] and points else Markup("")


def field(inner: Iterable[Markup], y: float, *, size: tuple[float, float]) -> Markup:
    """Units of its own across, which are stretched to the picture's width."""
    return element(
        "svg", *inner, x="0", y=y, width="100%", height=size[1], viewBox=f"0 0 {size[0]:g} {size[1]:g}",
        preserveAspectRatio="none",
    )  # fmt: skip


def frame(axis: Axis, top: float, height: float, *, told: str) -> list[Markup]:
    """Of a panel: what its upper line is, that line, and the one below."""
    return [
        text(START, top - 7, told, dx=2, class_="tick"),
        line((axis.start, top), (axis.end, top), class_="grid"),
        line((axis.start, top + height), (axis.end, top + height), class_="ground"),
    ]


def hatches(key: str, *, css: str = "hatch-line") -> Markup:
    """For kinds that the colours do not suffice for, and warm starts: lines across."""
    stripes = element("path", d="M0 0V6", class_=css)
    tile = element(
        "pattern",
        stripes,
        id=f"{key}-hatch",
        width=5,
        height=5,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
    return element("defs", tile)


def hatched(key: str) -> str:
    return f"url(#{key}-hatch)"
