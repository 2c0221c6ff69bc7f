"""Renders the report as plain text for a bug tracker: only ASCII, and never wider than 78 columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from recovery.model import Session, Table
from recovery.report import fmt
from recovery.report.answer import Answer, printable, row_lines
from recovery.report.tables import Document, document_of

WIDTH = 78
_ASCII_SPELLINGS = str.maketrans(
    {"\u00d7": "x", "\u2013": "-", "\u2014": "-", "\u2026": "...", "\u2264": "<=", "\u2265": ">=", "\u00b5": "u"}
)


def render(session: Session) -> str:
    """Returns the whole report, which ends with a newline."""
    return render_document(document_of(session))


def render_document(document: Document) -> str:
    title = paragraph(document.heading)
    lines = [*title, "=" * max(map(len, title))]
    lines += (*paragraph(document.question), *answer_lines(document.answer), *paragraph(document.state))
    for table in document.tables:
        lines += ["", *_table(table)]
    lines += ["", "To repeat it:", *(line for command in document.commands for line in command_lines(command))]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def answer_lines(answer: Answer) -> Iterator[str]:
    """Yields the answer with its bars."""
    answer = printable(answer, _ascii)
    if answer.title:
        yield from ("", *paragraph(f"{answer.title}:"))
    yield from row_lines(answer, WIDTH, ascii_only=True)
    for sentence in (*answer.sentences, *answer.warnings):
        yield from paragraph(sentence)
    yield ""


def paragraph(text: str, *, width: int = WIDTH) -> list[str]:
    return fmt.wrap_text(_ascii(text), width)


def command_lines(command: str) -> Iterator[str]:
    """Yields the command in lines that can be pasted into bash unchanged. They are continued with backslashes, also
    within a word that is wider than the page."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    line = " "
    for word in words:
        whole = _quoted(word)
        if len(line) + len(whole) + 3 > WIDTH and line.strip():
            yield f"{line} \\"
            line = "   "
        line += " "
        while len(line) + len(whole) + 2 > WIDTH:
            part = word[: (WIDTH - len(line)) // _MAX_QUOTED_CHARS]
            yield f"{line}{_quoted(part)}\\"
            line, word = "", word[len(part) :]
            whole = _quoted(word)
        line += whole
    yield line


_MAX_QUOTED_CHARS = 12
"""Of one character in quotes, with the quotes around it."""


def _quoted(word: str) -> str:
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    escaped = (char if char.isalnum() and char.isascii() else f"\\U{ord(char):08x}" for char in word)
    return f"$'{''.join(escaped)}'"


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
            yield from fmt.row_lines(row, part.numeric, columns, gap=gap)
    for note in table.notes:
        yield from fmt.wrap_text(note, WIDTH)


def _ascii(text: str) -> str:
    return fmt.printable(text).translate(_ASCII_SPELLINGS).encode("ascii", errors="replace").decode("ascii")
