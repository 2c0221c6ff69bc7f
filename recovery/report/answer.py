"""The answer to the question of a session: one table, which console, text, Markdown and HTML page draw.

Its rows have the figures, as bars and as text, and beside them what they belong to. Below them are the comparison, the
cause of the time, and what is doubtful. Every form shows the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from recovery.analysis.summary import Cell, Summary
from recovery.model import Table
from recovery.report import fmt

MAX_ROWS = 8
"""Most rows of an answer; of more, those that the comparison names come first. The tables have all."""


@dataclass(frozen=True)
class Value:
    """One figure of a row."""

    text: str
    """The figure with its interval and its unit: `86.2 s +- 4.3`."""
    number: float | None = None
    """What its bar shows; None if it has no bar."""
    interval: tuple[float, float] | None = None
    scale: str = ""
    """Values with the same scale have bars that can be compared: the name of their metric."""
    cell: Cell | None = None
    """The version and the variant that it is of, whose warnings doubt it."""


@dataclass(frozen=True)
class Row:
    """What is known of a server, or of a server in one of the ways that were compared."""

    name: str
    values: tuple[Value | None, ...]
    """One for each of the columns."""
    facts: tuple[str, ...] = ()
    """One for each of the answer's facts; empty if it is not known."""
    version: str = ""


@dataclass(frozen=True)
class Answer:
    """What a reader needs to know of a session, or of several."""

    title: str = ""
    """What the figures are: `Startup after SIGKILL: 200,000 tables, mean of 5 runs +- 95 % interval, this host`."""
    columns: tuple[str, ...] = ()
    """The names of the values: `cold`, `warm`."""
    unit: str = ""
    """Of all values, if their texts do not have it."""
    facts: tuple[str, ...] = ()
    """The names of what stands beside them: `opens`."""
    rows: tuple[Row, ...] = ()
    left_out: int = 0
    """The number of rows that only the tables have."""
    comparison: tuple[str, ...] = ()
    """The largest effect comes first."""
    cause: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """What limits what the figures say: first reads, earlier sessions, limits, precision."""
    warnings: tuple[str, ...] = ()
    """A line for each kind of warning, or how many there are."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """What stands below the rows, in its order."""
        more = (f"{fmt.count_text(self.left_out, 'more row')} in the tables.",) if self.left_out else ()
        return (*more, *self.comparison, *self.cause, *self.doubts)

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it as lines, where no table can be drawn."""
        title = (f"{self.title}:",) if self.title else ()
        return (*title, *(row_line(self, row) for row in self.rows), *self.sentences)

    @property
    def bar_column(self) -> int | None:
        """The column whose bars a text draws: the first that has any."""
        has_bars = (place for place in range(len(self.columns)) if any(self.share(row, place) for row in self.rows))
        return next(has_bars, None)

    def share(self, row: Row, column: int) -> float | None:
        """Returns the length of a bar, as a share of the longest of its scale; None without one."""
        value = row.values[column]
        if value is None or value.number is None:
            return None
        return value.number / whole if (whole := self._longest(value.scale)) > 0 else 0.0

    def ends(self, row: Row, column: int) -> tuple[float, float] | None:
        """Returns the ends of the interval on the scale of the bars; None without one."""
        value = row.values[column]
        if value is None or value.interval is None or not (whole := self._longest(value.scale)):
            return None
        low, high = (max(0.0, end) / whole for end in value.interval)
        return low, high

    def _longest(self, scale: str) -> float:
        values = [value for row in self.rows for value in row.values if value is not None and value.scale == scale]
        return max((max(value.number or 0.0, *(value.interval or (0.0,))) for value in values), default=0.0)


def row_line(answer: Answer, row: Row) -> str:
    """Returns a row as a line: `5.7.22: cold 86.2 s +- 4.3; warm 8.80 s +- 3.05; opens all`."""
    values = []
    for name, value in zip(answer.columns, row.values, strict=True):
        if value is not None and value.number is None:
            values.append(value.text)
        elif value is not None:
            values.append(" ".join(filter(None, (name, value.text, answer.unit))))
    facts = [f"{name} {fact}" for name, fact in zip(answer.facts, row.facts, strict=False) if fact]
    return f"{row.name}: {'; '.join((*values, *facts))}"


# --- The rows as a table, in which a text draws the bars

FULL_BLOCK, PART_BLOCKS = "\u2588", " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
_GAP = 2
_LEAST_BAR, _MOST_BAR = 6, 24
"""Narrowest and widest bar of a text, in characters."""


def rows_table(answer: Answer, bars: Mapping[int, str] | None = None) -> Table:
    """Returns the rows of an answer as a table, with these bars, by the number of the row, beside their figures."""
    place = answer.bar_column if bars else None
    columns = [f"{name} {answer.unit}".strip() for name in answer.columns]
    headers, numeric = [""], [False]
    rows = [[row.name] for row in answer.rows]
    for column, name in enumerate(columns):
        headers.append(name)
        numeric.append(any(answer.share(row, column) is not None for row in answer.rows))
        for cells, row in zip(rows, answer.rows, strict=True):
            value = row.values[column]
            cells.append(fmt.ABSENT if value is None else value.text)
        if column == place and bars:
            headers.append("")
            numeric.append(False)
            for number, cells in enumerate(rows):
                cells.append(bars.get(number, ""))
    for place, name in enumerate(answer.facts):
        headers.append(name)
        numeric.append(False)
        for cells, row in zip(rows, answer.rows, strict=True):
            cells.append((row.facts[place] if row.facts else "") or fmt.ABSENT)
    return Table(answer.title, tuple(headers), tuple(map(tuple, rows)), tuple(numeric))


def rows_with_bars(answer: Answer, width: int, *, ascii_only: bool = False) -> Table:
    """Returns the rows as a table with bars as wide as this page has room for, and without bars if it has none."""
    column, plain = answer.bar_column, rows_table(answer)
    if column is None:
        return plain
    *_, rest = _natural_widths(plain)
    room = width - len(max((row.name for row in answer.rows), key=len)) - rest - _GAP
    if room < _LEAST_BAR:  # names may be wrapped
        room = min(_LEAST_BAR, width - _longest_word(plain) - rest - _GAP)
    if room < _LEAST_BAR:
        return plain
    return rows_table(answer, dict(_bars(answer, column, min(_MOST_BAR, room), ascii_only=ascii_only)))


def _natural_widths(table: Table) -> tuple[list[int], int]:
    """Returns the widths of the columns in which no cell is wrapped, and what all but the first take with the gaps."""
    found = [max(map(len, cells)) for cells in zip(table.headers, *table.rows, strict=True)]
    return found, sum(found[1:]) + _GAP * len(found[1:])


def _longest_word(table: Table) -> int:
    return max(len(word) for row in table.rows for word in row[0].split())


def row_lines(answer: Answer, width: int, *, ascii_only: bool = False) -> Iterator[str]:
    """Yields the rows of an answer and their head as lines of a page of this width. Names are wrapped first."""
    if not answer.rows:
        return
    table = rows_with_bars(answer, width, ascii_only=ascii_only)
    natural, rest = _natural_widths(table)
    if (room := width - rest) >= min(natural[0], _longest_word(table)):
        parts = [(table, (min(natural[0], room), *natural[1:]))]
    else:
        parts = [(part, fmt.widths(part, width, gap=_GAP)) for part in fmt.split(table, width, gap=_GAP)]
    for part, columns in parts:
        for row in (part.headers, *part.rows):
            if any(row):
                yield from fmt.row_lines(row, part.numeric, columns, gap=_GAP)


def _bars(answer: Answer, column: int, length: int, *, ascii_only: bool) -> Iterator[tuple[int, str]]:
    shares = [answer.share(row, column) for row in answer.rows]
    longest = max(share for share in shares if share is not None)
    for number, share in enumerate(shares):
        if share is not None:
            yield number, bar_text(share / longest if longest else 0.0, length, ascii_only=ascii_only)


def bar_text(share: float, length: int, *, ascii_only: bool = False) -> str:
    """Returns a bar in characters, of which the longest has this length. What is not zero has a bar."""
    if ascii_only:
        return "#" * max(math.ceil(share) if share > 0 else 0, round(share * length))
    eighths = max(1 if share > 0 else 0, round(8 * share * length))
    whole, rest = divmod(eighths, 8)
    return FULL_BLOCK * whole + (PART_BLOCKS[rest] if rest else "")


# --- Which rows are shown


def chosen(rows: Sequence[Row], named_first: Sequence[Cell]) -> tuple[tuple[Row, ...], int]:
    """Returns at most MAX_ROWS rows in their order, and how many are left out. Those of the cells that the comparison
    names are kept before all others."""
    if len(rows) <= MAX_ROWS:
        return tuple(rows), 0
    order = {cell: place for place, cell in reversed(list(enumerate(named_first)))}

    def rank(number: int) -> tuple[int, int]:
        cells = [value.cell for value in rows[number].values if value is not None]
        return min((order[cell] for cell in cells if cell in order), default=len(order)), number

    kept = sorted(sorted(range(len(rows)), key=rank)[:MAX_ROWS])
    return tuple(rows[number] for number in kept), len(rows) - len(kept)


def value_of(summary: Summary, text: str) -> Value:
    return Value(text, summary.mean, fmt.drawn_interval(summary), summary.name, (summary.version, summary.variant))


def printable(answer: Answer, made: Callable[[str], str] = fmt.printable) -> Answer:
    """Returns the answer with all its texts made printable."""

    def texts(found: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(made, found))

    return replace(
        answer,
        title=made(answer.title),
        columns=texts(answer.columns),
        unit=made(answer.unit),
        facts=texts(answer.facts),
        rows=tuple(
            replace(
                row,
                name=made(row.name),
                values=tuple(value and replace(value, text=made(value.text)) for value in row.values),
                facts=texts(row.facts),
            )
            for row in answer.rows
        ),
        comparison=texts(answer.comparison),
        cause=texts(answer.cause),
        doubts=texts(answer.doubts),
        warnings=texts(answer.warnings),
    )
