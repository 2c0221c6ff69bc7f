"""How does a table fit a page of so many columns? Long cells are wrapped; too many columns make a second table."""

from __future__ import annotations

import textwrap
from dataclasses import replace

from recovery.stored import Table

MOST_UNBROKEN = 24
"""A longer word may be cut anywhere: so that two columns always fit a page of 78."""
_KEYS_SHARE = 0.65
"""Of the page, for the columns that say which row it is: one more of the widest still fits beside them."""


def printable(text: str) -> str:
    """One line, without what a terminal would obey: line ends become spaces, other control characters `?`."""
    spaced = " ".join(text.split())
    return "".join(char if char.isprintable() else "?" for char in spaced)


def cleaned(table: Table) -> Table:
    """The table with every text printable."""
    return replace(
        table,
        title=printable(table.title),
        headers=tuple(map(printable, table.headers)),
        rows=tuple(tuple(map(printable, row)) for row in table.rows),
        notes=tuple(map(printable, table.notes)),
    )


def split(table: Table, width: int, *, gap: int) -> tuple[Table, ...]:
    """The table as it is if its narrowest form fits; else several, each of which repeats the columns of its keys, as
    far as they leave room for another."""
    needed = [_narrowest(table, column) + gap for column in range(len(table.headers))]
    keys = [column for column in range(table.keys) if column == 0 or sum(needed[: column + 1]) <= _KEYS_SHARE * width]
    groups: list[list[int]] = [list(keys)]
    for column in range(len(keys), len(needed)):
        used = sum(needed[taken] for taken in groups[-1])
        if len(groups[-1]) > len(keys) and used + needed[column] - gap > width:
            groups.append(list(keys))
        groups[-1].append(column)
    first, last = groups[0], groups[-1]
    return tuple(
        replace(
            _columns(table, group),
            title=table.title if group is first else "",
            notes=table.notes if group is last else (),
        )
        for group in groups
    )


def best_gap(table: Table, width: int) -> int:
    """Two blanks between columns; one where that saves a table from being split."""
    return 1 if len(split(table, width, gap=2)) > 1 and len(split(table, width, gap=1)) == 1 else 2


def widths(table: Table, width: int, *, gap: int) -> tuple[int, ...]:
    """The width of each column: its narrowest, and what is left over goes to those that would wrap."""
    found = [_narrowest(table, column) for column in range(len(table.headers))]
    spare = width - gap * (len(found) - 1) - sum(found)
    for column, narrowest in enumerate(found):
        more = max(0, min(spare, _widest(table, column) - narrowest))
        found[column] += more
        spare -= more
    return tuple(found)


def wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _columns(table: Table, group: list[int]) -> Table:
    return replace(
        table,
        headers=tuple(table.headers[column] for column in group),
        rows=tuple(tuple(row[column] for column in group) for row in table.rows),
        numeric=tuple(table.numeric[column] for column in group),
    )


def _narrowest(table: Table, column: int) -> int:
    """Of the longest word; a figure and its unit stay on one line."""
    words = table.headers[column].split()
    for row in table.rows:
        words += [row[column]] if table.numeric[column] else row[column].split()
    return max(1, min(MOST_UNBROKEN, max(map(len, words), default=1)))


def _widest(table: Table, column: int) -> int:
    return max(map(len, (table.headers[column], *(row[column] for row in table.rows))))
