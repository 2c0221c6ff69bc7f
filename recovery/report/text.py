"""Renders the report as plain text for a bug tracker: only ASCII, and never wider than 78 columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from recovery.model import Session, Table
from recovery.report import fmt
from recovery.report.summary_text import answers
from recovery.report.tables import all_tables, heading, status_line

WIDTH = 78
_ASCII_SPELLINGS = str.maketrans(
    {"\u00d7": "x", "\u2013": "-", "\u2014": "-", "\u2026": "...", "\u2264": "<=", "\u2265": ">=", "\u00b5": "u"}
)


def render(session: Session) -> str:
    """Returns the whole report, which ends with a newline."""
    lines = [*_opening(session)]
    for table in all_tables(session):
        lines += ["", *_table(table)]
    lines += ["", "To repeat it:", *command_lines(session.command)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _opening(session: Session) -> Iterator[str]:
    title = fmt.wrap_text(_ascii(heading(session)), WIDTH)
    yield from title
    yield "=" * max(map(len, title))
    for words in (session.question, *answers(session), status_line(session)):
        yield from paragraph(words)


def paragraph(text: str, *, width: int = WIDTH) -> list[str]:
    return fmt.wrap_text(_ascii(text), width)


def command_lines(command: str) -> Iterator[str]:
    """Yields the command, continued with backslashes between its words so that it can be pasted into a shell
    unchanged: a word that is wider than the page stays whole."""
    command = fmt.printable(command)
    try:
        words = [shlex.quote(word) for word in shlex.split(command)]
    except ValueError:
        words = command.split()
    line = " "
    for word in words:
        if len(line) + len(word) + 3 > WIDTH and line.strip():
            yield f"{line} \\"
            line = "   "
        line += f" {word}"
    yield line


def render_table(table: Table) -> str:
    """Returns a single table as text, without a newline at the end."""
    return "\n".join(line.rstrip() for line in _table(table))


def _table(table: Table) -> Iterator[str]:
    table = fmt.printable_table(table, _ascii)
    yield from fmt.wrap_text(table.title, WIDTH)
    yield "-" * min(WIDTH, len(table.title))
    gap = fmt.column_gap(table, WIDTH)
    for number, part in enumerate(fmt.split(table, WIDTH, gap=gap)):
        if number:
            yield ""
        columns = fmt.widths(part, WIDTH, gap=gap)
        for row in (part.headers, *part.rows):
            yield from _row(row, part.numeric, columns, gap=gap)
    for note in table.notes:
        yield from fmt.wrap_text(note, WIDTH)


def _row(row: tuple[str, ...], numeric: tuple[bool, ...], columns: tuple[int, ...], *, gap: int) -> Iterator[str]:
    cells = [fmt.wrap_text(cell, width) for cell, width in zip(row, columns, strict=True)]
    for number in range(max(map(len, cells))):
        parts = []
        for lines, is_number, width in zip(cells, numeric, columns, strict=True):
            text = lines[number] if number < len(lines) else ""
            parts.append(text.rjust(width) if is_number else text.ljust(width))
        yield (" " * gap).join(parts)


def _ascii(text: str) -> str:
    return fmt.printable(text).translate(_ASCII_SPELLINGS).encode("ascii", errors="replace").decode("ascii")
