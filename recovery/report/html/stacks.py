"""What was the server doing? Its hottest functions, a flame graph for each run that was looked into, and its chains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from markupsafe import Markup

from recovery.report.html.parts import Chart, Fold, Part, grids
from recovery.stored import Session, Table

_MOST_OPEN = 2
"""Tables of functions; more are folded."""
Tables = tuple[Table, ...]


def stack_parts(session: Session, flames: Mapping[int, str], hottest: Tables, chains: Tables) -> tuple[Part, ...]:
    """`flames` are pictures by the number of the run."""
    functions = grids("hottest", *hottest) if len(hottest) <= _MOST_OPEN else _each("hottest", hottest)
    return (*functions, *_flames(session, flames), *_folded("Chains seen most", "stacks", chains))


def _flames(session: Session, flames: Mapping[int, str]) -> Iterator[Part]:
    for run in session.runs:
        if run.number in flames:
            title = f"Flame graph of run {run.number}, {run.version} {run.variant}"
            # Made by report/flame.py, which escapes every name in it.
            drawing = Markup(flames[run.number])  # noqa: S704
            note = "From above: the phase, the thread, and what called what; as wide as it was seen often."
            yield Fold(title, (Chart(f"flame-{run.number}", title, drawing, notes=(note,), wide=True),))


def _each(key: str, found: Tables) -> tuple[Part, ...]:
    return tuple(Fold(table.title, grids(f"{key}-{number}", table)) for number, table in enumerate(found, 1))


def _folded(summary: str, key: str, found: Tables) -> tuple[Part, ...]:
    return (Fold(f"{summary}: {len(found)} tables", grids(key, *found)),) if found else ()
