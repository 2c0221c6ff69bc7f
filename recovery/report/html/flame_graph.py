"""Draws the flame graph of a run as an SVG file of its own: a row for each stack depth, and widths by sample count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from zlib import crc32

from recovery.analysis.stacks import MIN_SAMPLES, share_text
from recovery.report.fmt import without_hidden

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
        return 1 + max((child.depth for child in self.below.values()), default=0)


def flame_graph(title: str, folded: Mapping[tuple[str, ...], int], phases: Sequence[str]) -> str:
    """Returns the flame graph as SVG. From top to bottom it shows the phase, the thread, and the chain of calls. A
    tooltip has the full name, the count, and the share."""
    root = _tree(folded)
    if root.count < MIN_SAMPLES:
        title += f" (no shares: they need {MIN_SAMPLES} samples)"
    height = _HEAD + root.depth * _ROW + 8
    parts = "".join(_boxes(root, 0.0, _WIDTH / max(1, root.count), 0, root.count, phases))
    return without_hidden(
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
    for child in sorted(node.below.values(), key=lambda child: _sort_key(child.name, row, phases)):
        yield from _boxes(child, x, unit, row + 1, whole, phases)
        x += child.count * unit


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
