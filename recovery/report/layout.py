"""How does a table fit a page of so many columns? Long cells are wrapped; too many columns make a second table.

Each part of a split table has the columns that say which row it is. Where these are too wide they are wrapped too."""

from __future__ import annotations

import textwrap
from dataclasses import replace

from recovery.stored import Table

MOST_UNBROKEN = 24
"""A longer word may be cut anywhere: so that two columns always fit a page of 78."""
_KEYS_SHARE = 0.65
"""Of the page, for the columns that say which row it is: on a page of 78 the widest other one fits beside them."""


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
    """The table as it is if its narrowest form fits; else several, each of which repeats the columns of its keys. One
    that is the same in all rows is not repeated where the keys take too much of the page."""
    narrowest = [_narrowest(table, column) for column in range(len(table.headers))]
    keys = list(range(table.keys))
    differing = [column for column in keys if len({row[column] for row in table.rows}) > 1]
    again = keys if _total(narrowest[: table.keys], gap) <= _KEYS_SHARE * width else differing or keys[:1]
    groups = [keys]
    for column in range(table.keys, len(narrowest)):
        group = [*groups[-1], column]
        has_others = groups[-1][-1] >= table.keys
        if has_others and _total([narrowest[taken] for taken in group], gap) > width:
            groups.append([*again, column])
        else:
            groups[-1] = group
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
    """Two blanks between columns; one where that makes fewer parts."""
    return min((2, 1), key=lambda gap: len(split(table, width, gap=gap)))


def widths(table: Table, width: int, *, gap: int) -> tuple[int, ...]:
    """The width of each column: its narrowest, and what is left over goes to those that would wrap."""
    found = _fitted([_narrowest(table, column) for column in range(len(table.headers))], table.keys, width, gap=gap)
    spare = width - _total(found, gap)
    for column, narrowest in enumerate(found):
        more = max(0, min(spare, _widest(table, column) - narrowest))
        found[column] += more
        spare -= more
    return tuple(found)


def _fitted(narrowest: list[int], keys: int, width: int, *, gap: int) -> list[int]:
    """Narrowed where they are too wide even so: others leave the keys their share, and the widest keys give way."""
    rest = width - gap - min(_total(narrowest[:keys], gap), int(_KEYS_SHARE * width))
    found = narrowest[:keys] + [max(1, min(rest, wanted)) for wanted in narrowest[keys:]]
    while _total(found, gap) > width and max(found[:keys]) > 1:
        found[found.index(max(found[:keys]))] -= 1
    return found


def _total(columns: list[int], gap: int) -> int:
    return sum(columns) + gap * (len(columns) - 1)


def wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _columns(table: Table, group: list[int]) -> Table:
    return replace(
        table,
        headers=tuple(table.headers[column] for column in group),
        rows=tuple(tuple(row[column] for column in group) for row in table.rows),
        numeric=tuple(table.numeric[column] for column in group),
        keys=sum(column < table.keys for column in group),
    )


def _narrowest(table: Table, column: int) -> int:
    """Of the longest word; a figure and its unit stay on one line."""
    words = table.headers[column].split()
    for row in table.rows:
        words += [row[column]] if table.numeric[column] else row[column].split()
    return max(1, min(MOST_UNBROKEN, max(map(len, words), default=1)))


def _widest(table: Table, column: int) -> int:
    return max(map(len, (table.headers[column], *(row[column] for row in table.rows))))
