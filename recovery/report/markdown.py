"""Renders the report as Markdown for GitHub, with all text from outside escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recovery.model import Session, Table
from recovery.report import fmt
from recovery.report.answer import Answer, rows_with_bars
from recovery.report.tables import Document, document_of

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# An underscore inside a name is not markup: it is not escaped, so that innodb_page_size stays readable in the source.
_MARKUP = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def render(session: Session) -> str:
    """Returns the whole page, which ends with a newline."""
    return render_document(document_of(session))


def render_document(document: Document) -> str:
    """Returns the whole page."""
    lines = [f"# {escaped(document.heading)}"]
    lines += ["", escaped(document.question), *answer_lines(document.answer), "", escaped(document.state)]
    for table in document.tables:
        lines += ["", *table_lines(table)]
    lines += ["", "To repeat it:"]
    for command in document.commands:
        lines += ["", *code_block(fmt.printable(command))]
    return "\n".join(lines) + "\n"


def answer_lines(answer: Answer) -> Iterator[str]:
    """Yields the answer as a table with bars, and what stands below it as a list."""
    if answer.title:
        yield from ("", f"{escaped(answer.title)}:")
    if answer.rows:
        yield ""
        yield from _table(rows_with_bars(answer, _WIDE))
    if found := (*answer.sentences, *answer.warnings):
        yield ""
        yield from (f"* {escaped(sentence)}" for sentence in found)


_WIDE = 1000
"""A width at which all bars have their full length: a browser wraps the cells."""


def table_lines(table: Table) -> Iterator[str]:
    yield f"## {escaped(table.title)}"
    yield ""
    yield from _table(table)
    for note in table.notes:
        yield ""
        yield escaped(note)


def _table(table: Table) -> Iterator[str]:
    yield _row(table.headers)
    yield "|" + "|".join("---:" if is_number else "---" for is_number in table.numeric) + "|"
    yield from map(_row, table.rows)


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(map(escaped, cells)) + " |"


def escaped(text: str) -> str:
    plain = "".join(_ENTITIES.get(char, char) for char in fmt.plus_minus(fmt.printable(text)))
    return _MARKUP.sub(lambda found: "\\" + found.group(), plain)


def code_block(command: str) -> tuple[str, str, str]:
    """Returns the command as a code block, with a fence longer than any run of backticks in it."""
    longest = max(map(len, re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh", command, fence
