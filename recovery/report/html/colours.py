"""Which colour has a phase? Always the same, in every chart; hatched where another phase has it without."""

from __future__ import annotations

from collections.abc import Iterable

from recovery import phases
from recovery.report.html.drawn import COLOURS
from recovery.report.html.parts import Mark

# Those that take long have the colours that differ most.
_COLOURED = (
    phases.DISCOVERY, phases.VALIDATION, phases.REDO_SCAN, phases.REDO_APPLY, phases.DICTIONARY, phases.REST,
    phases.UNDO_AND_TEMP, phases.UNNAMED,
    phases.BUFFER_POOL, phases.PROCESS_START, phases.SYSTEM_FILES, phases.UPGRADE, phases.BINLOG_RECOVERY,
    phases.FIRST_QUERY, phases.ROLLBACK, phases.BUFFER_POOL_LOAD,
)  # fmt: skip


def colour_of(phase: str) -> tuple[int, bool]:
    """Which, and whether it is hatched. Phases that no line parts have that of the first."""
    first, joined, _ = phase.partition(phases.JOIN)
    number = _COLOURED.index(first) if first in _COLOURED else _COLOURED.index(phases.UNNAMED)
    return number % COLOURS, bool(joined) != (number >= COLOURS)


def legend(names: Iterable[str]) -> tuple[Mark, ...]:
    return tuple(Mark(_css(name), name) for name in names)


def _css(name: str) -> str:
    number, hatched = colour_of(name)
    return f"swatch p{number}{' hatched dark' if hatched else ''}"
