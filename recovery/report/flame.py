"""Stacks as a flame graph: a row for each depth, as wide as often seen, the phases from left to right. Plain SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from zlib import crc32

from recovery.folded import LEAST_SAMPLES, share

_WIDTH, _ROW, _HEAD = 1200, 17, 34
_LETTER = 6.2
"""Width of one at this font size, about."""
_LEAST_WIDTH = 0.4
"""What is narrower cannot be seen."""
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


def flame(title: str, folded: Mapping[tuple[str, ...], int], phases: Sequence[str]) -> str:
    """Read from above: the phase, the thread, and what called what. A tooltip has the whole name, the count,
    and the share."""
    root = _tree(folded)
    if root.count < LEAST_SAMPLES:
        title += f" (no shares: they need {LEAST_SAMPLES} samples)"
    height = _HEAD + root.depth * _ROW + 8
    parts = "".join(_drawn(root, 0.0, _WIDTH / max(1, root.count), 0, root.count, phases))
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


def _drawn(node: _Node, x: float, unit: float, row: int, whole: int, phases: Sequence[str]) -> Iterator[str]:
    width = node.count * unit
    if width < _LEAST_WIDTH:
        return
    y = _HEAD + row * _ROW
    counted = f"{node.count} of {whole}"
    told = escape(f"{node.name}: {counted}{f', {share(node.count, whole)}' if whole >= LEAST_SAMPLES else ''}")
    yield (
        f'<g><title>{told}</title><rect x="{x:.1f}" y="{y}" width="{max(_LEAST_WIDTH, width - 0.5):.1f}" '
        f'height="{_ROW - 1}" rx="1" fill="{_colour(node.name, row, phases)}"/>{_label(node.name, x, y, width)}</g>'
    )
    for one in sorted(node.below.values(), key=lambda one: _place(one.name, row, phases)):
        yield from _drawn(one, x, unit, row + 1, whole, phases)
        x += one.count * unit


def _label(name: str, x: float, y: float, width: float) -> str:
    room = int((width - 6) / _LETTER)
    if room < 3:
        return ""
    shown = name if len(name) <= room else f"{name[: room - 1]}\u2026"
    return f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(shown)}</text>'


def _place(name: str, row: int, phases: Sequence[str]) -> tuple[int, str]:
    """Phases as they come, what they hold by name."""
    return (phases.index(name) if row == 0 and name in phases else len(phases), name)


def _colour(name: str, row: int, phases: Sequence[str]) -> str:
    """The same function has the same colour in every picture."""
    if row == 0:
        return "#d0d7de"
    if row == 1 and name in phases:
        return _PHASES[phases.index(name) % len(_PHASES)]
    return "#d8dee4" if row == 2 else _FRAMES[crc32(name.encode()) % len(_FRAMES)]
