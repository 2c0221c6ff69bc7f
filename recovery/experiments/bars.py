"""How large is each published effect, there and here? Bars of ratios from 1, on a scale of factors. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from recovery.experiments.answers import Answer
from recovery.report.html import drawn
from recovery.report.html.parts import Chart, Mark
from recovery.report.work.said import times

_NAME, _HIGH, _GAP, _BETWEEN = 19, 15, 3, 12
_END = 78.0
_ROOM = 1.08
"""Beyond the outermost figure."""
_NARROW, _WIDE = 4.0, 50.0
"""From the least to the most: what decides which round numbers stand below."""
_FAR = 4.0
"""Times as much as the largest of the others."""
_PUBLISHED, _OURS = "v6", "v0"


@dataclass(frozen=True)
class Factors:
    """A logarithmic axis: twice as much and half as much are as far from 1."""

    least: float
    most: float

    def at(self, ratio: float) -> float:
        whole = math.log(self.most / self.least)
        inside = min(max(ratio, self.least), self.most)
        return drawn.START + (_END - drawn.START) * math.log(inside / self.least) / whole

    def ticks(self) -> tuple[float, ...]:
        span = self.most / self.least
        steps = (1.0,) if span > _WIDE else (1.0, 2.0, 5.0)
        if span < _NARROW:
            every = 0.1 if span < 2 else 0.5
            first = math.ceil(self.least / every)
            found = [round(every * one, 6) for one in range(first, int(self.most / every + 1e-9) + 1)]
        else:
            powers = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
            found = [step * 10.0**power for power in powers for step in steps]
        return tuple(one for one in found if self.least <= one <= self.most)


def ratio_bars(answers: Sequence[Answer], key: str) -> Chart | None:
    """None where no published ratio has one of ours beside it."""
    every = [one for one in answers if one.is_ratio and one.ours]
    able = list(_alike(every))
    if not able:
        return None
    axis = _axis(able)
    parts: list[Markup] = []
    y = 0.0
    for one in able:
        parts.append(drawn.text(0, y + 13, _name(one, able), class_="row-name"))
        y += _NAME
        for part, height in _both(axis, one, y):
            parts += part
            y += height
        y += _BETWEEN
    title = "Ratios, published and here"
    drawing = drawn.picture(
        key,
        title=title,
        told=f"{'; '.join(map(_told, able))}. The table below has the figures.",
        height=y + 24,
        parts=[*_grid(axis, y), *parts],
    )
    legend = (
        Mark(f"swatch {_PUBLISHED}", "published"),
        Mark(f"swatch {_OURS}", "here"),
        Mark("sign-whisker", "95 % interval"),
    )
    note = "Bars begin at 1, where nothing differs; twice as much and half as much are equally long."
    far = "What is too far from the others to be drawn beside them is in the table."
    return Chart(key, title, drawing, legend, (note, far) if len(able) < len(every) else (note,))


def _alike(answers: Sequence[Answer]) -> Iterator[Answer]:
    """Where no ratio was published, one of ours that is far from all others would leave no room to tell those apart."""
    pairs = [(one.published, one.ours) for one in answers if one.published and one.ours]
    spans = [abs(math.log(ratio)) for pair in pairs for ratio in pair]
    most = max(spans, default=math.inf) + math.log(_FAR)
    for one in answers:
        if one.published or (one.ours and abs(math.log(one.ours)) <= most):
            yield one


def _name(answer: Answer, all_of_them: Sequence[Answer]) -> str:
    again = sum(one.what == answer.what for one in all_of_them) > 1
    return f"{answer.what} ({answer.measured})" if again else answer.what


def _axis(answers: Sequence[Answer]) -> Factors:
    values = [1.0]
    for one in answers:
        assert one.ours is not None
        values += [one.ours, *(max(end, one.ours / 2) for end in one.interval or ())]
        values += [one.published] if one.published else []
    low, high = min(values) / _ROOM, max(values) * _ROOM
    return Factors(low, max(high, low * 1.2))


def _both(axis: Factors, answer: Answer, y: float) -> Iterator[tuple[list[Markup], float]]:
    assert answer.ours is not None
    if answer.published:
        yield _bar(axis, y, answer.published, _PUBLISHED, answer.published_words), _HIGH + _GAP
        y += _HIGH + _GAP
    drawing = _bar(axis, y, answer.ours, _OURS, times(answer.ours), beyond=max(answer.interval or (answer.ours,)))
    if answer.interval is not None:
        low, high = max(answer.interval[0], axis.least), answer.interval[1]
        centre = y + _HIGH / 2
        ends = (axis.at(low), axis.at(high))
        drawing.append(drawn.line((ends[0], centre), (ends[1], centre), class_="whisker"))
        drawing += [drawn.line((x, centre - 4), (x, centre + 4), class_="whisker") for x in ends]
    yield drawing, _HIGH + _GAP


def _bar(axis: Factors, y: float, ratio: float, css: str, told: str, *, beyond: float | None = None) -> list[Markup]:
    one, end = axis.at(1.0), axis.at(ratio)
    sides = (min(one, end), max(one, end, min(one, end) + 0.2))
    x = max(sides[1], axis.at(beyond or ratio))
    return [
        drawn.box(sides, (y, y + _HIGH), class_=f"bar {css}"),
        drawn.text(x, y + _HIGH / 2 + 4.5, told, dx=9, class_="value"),
    ]


def _told(answer: Answer) -> str:
    assert answer.ours is not None
    return f"{answer.what}: {times(answer.ours)}, published {answer.published_words}"


def _grid(axis: Factors, bottom: float) -> Iterator[Markup]:
    for value in axis.ticks():
        x = axis.at(value)
        css = "ground" if value == 1 else "grid"
        yield drawn.line((x, 0), (x, bottom), class_=css)
        yield drawn.text(x, bottom + 16, f"{value:,g}", text_anchor="start" if x < 3 else "middle", class_="tick")
