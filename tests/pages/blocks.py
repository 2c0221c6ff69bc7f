"""Fills the blocks of a page: each says in a comment what it shows, and what was made of it follows.

    <!-- table
    session: 2026-11-25-six-servers
    title: Startup after SIGKILL
    columns: version; seconds = {mean} ± {+-}
    rows: cold
    -->

    (what `make results` made)

    <!-- end -->

A `table` is one of a report: its title begins with these words. Of several sessions, separated by spaces, it has a
column with their names. `title` may join tables, with `&`: the rows are those of the first. `columns`, separated by
semicolons, are headers of the table, or a new header with headers in braces; without them all are shown. `rows` is a
regular expression: rows that it does not match are left out. `across` names a column whose values become columns.
`notes` shows the notes of the table that this expression matches. An `answer` is that of a report, and
`computed` is the table of this `name`, made of several sessions or of something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from recovery.model import Session, Table
from recovery.report import fmt
from recovery.report.markdown import table_lines
from recovery.report.tables import all_tables
from recovery.report.text import WIDTH, render

_BLOCK = re.compile(r"^<!-- (table|answer|computed)\n(.*?)^-->\n.*?^<!-- end -->$", re.DOTALL | re.MULTILINE)
_ANY_BLOCK = re.compile(r"^<!-- (?:table|answer|computed)$", re.MULTILINE)
_NAMES = re.compile(r"\{([^}]+)\}")
_RANGE = re.compile(r"± ([\d.,]+-[\d.,]+)")
"""A mean whose interval would pass zero has the range of its runs in its place."""
_KEYS = frozenset({"session", "title", "columns", "rows", "across", "notes", "name"})


class BlockError(ValueError):
    """A block names something that is not there."""


@dataclass(frozen=True)
class Sources:
    """What blocks are made of."""

    session: Callable[[str], Session]
    computed: Mapping[str, Callable[[], str]]


def filled(page: str, sources: Sources, results: PurePosixPath) -> str:
    """Returns the page with all of its blocks made anew. `results` is the way from the page to the sessions."""
    if len(_BLOCK.findall(page)) != len(_ANY_BLOCK.findall(page)):
        raise BlockError("a block has no `-->` or no end")

    def made(match: re.Match[str]) -> str:
        kind, text = match[1], match[2]
        return f"<!-- {kind}\n{text}-->\n\n{_made(kind, _fields(text), sources, results).strip()}\n\n<!-- end -->"

    return _BLOCK.sub(made, page)


def without_blocks(page: str) -> str:
    """Returns what a page has been given by hand."""
    return _BLOCK.sub("", page)


def _fields(text: str) -> dict[str, str]:
    pairs = [line.partition(":")[::2] for line in text.splitlines()]
    if wrong := [name for name, _ in pairs if name not in _KEYS]:
        raise BlockError(f"unknown: {wrong[0]}")
    return {name: value.strip() for name, value in pairs}


def _made(kind: str, fields: Mapping[str, str], sources: Sources, results: PurePosixPath) -> str:
    needed = {"table": ("session", "title"), "answer": ("session",), "computed": ("name",)}[kind]
    if missing := [name for name in needed if name not in fields]:
        raise BlockError(f"a block without {missing[0]}")
    if kind == "computed":
        if fields["name"] not in sources.computed:
            raise BlockError(f"nothing is computed as {fields['name']!r}")
        return sources.computed[fields["name"]]()
    sessions = {name: sources.session(name) for name in fields["session"].split()}
    if kind == "answer":
        return "\n\n".join(f"```text\n{_answer(one)}\n```\n\n{_link(name, results)}" for name, one in sessions.items())
    tables = {name: _table(session, fields) for name, session in sessions.items()}
    if "columns" in fields:
        columns = [one.strip() for one in fields["columns"].split(";")]
        known = frozenset(header for table in tables.values() for header in table.headers)
        tables = {name: _with_columns(table, columns, known) for name, table in tables.items()}
    table = _joined_sessions(tables)
    if "across" in fields:
        table = _across(table, fields["across"])
    rows, below = list(table_lines(replace(table, notes=())))[2:], _notes(tables, fields.get("notes", "$^"))
    if len(tables) > 1:
        return "\n\n".join(("\n".join(_with_links(rows, results)), *below))
    return "\n\n".join(("\n".join(rows), _link(next(iter(tables)), results), *below))


def _link(name: str, results: PurePosixPath) -> str:
    return f"[{name}]({results / name / 'report.txt'})"


def _notes(tables: Mapping[str, Table], wanted: str) -> list[str]:
    """Returns the notes of the tables that the expression matches, with the session where there are several."""
    found = [(name, note) for name, table in tables.items() for note in table.notes if re.search(wanted, note)]
    return [note if len(tables) == 1 else f"{name}: {note}" for name, note in found]


def _with_links(rows: Sequence[str], results: PurePosixPath) -> Iterator[str]:
    """Yields the rows with a link in the first one of each session, in place of its name in all."""
    yield from rows[:2]
    before = ""
    for row in rows[2:]:
        name, cells = row.removeprefix("| ").partition(" | ")[::2]
        yield f"| {'' if name == before else _link(name, results)} | {cells}"
        before = name


def _answer(session: Session) -> str:
    """Returns what the report of a session says between its question and its state."""
    lines = render(session).splitlines()
    question = next(place for place, line in enumerate(lines) if set(line) == {"="}) + 1
    state = next(place for place, line in enumerate(lines) if line.startswith(f"{session.status}, "))
    return "\n".join(lines[question + len(fmt.wrap_text(session.question, WIDTH)) : state]).strip()


def _table(session: Session, fields: Mapping[str, str]) -> Table:
    tables = tuple(all_tables(session))
    first, *others = [_by_title(tables, title.strip()) for title in fields["title"].split("&")]
    for other in others:
        first = _joined(first, other)
    rows = tuple(row for row in first.rows if re.search(fields.get("rows", ""), " | ".join(row)))
    if not rows:
        raise BlockError(f"no row of {first.title!r} is like {fields.get('rows', '')!r}")
    return replace(first, rows=rows)


def _by_title(tables: Iterable[Table], title: str) -> Table:
    found = [table for table in tables if table.title.startswith(title)]
    if not found:
        raise BlockError(f"no table begins with {title!r}")
    return next((table for table in found if table.title == title), found[0])


def _joined(table: Table, other: Table) -> Table:
    """Returns the table with the columns of another, whose rows are found by the headers that both have."""
    shared = [name for name in table.headers[: table.keys] if name in other.headers[: other.keys]]
    new = [place for place, name in enumerate(other.headers) if name not in table.headers]

    def key(one: Table, row: Sequence[str]) -> tuple[str, ...]:
        return tuple(row[one.headers.index(name)] for name in shared)

    by_key = {key(other, row): row for row in other.rows}
    return replace(
        table,
        headers=(*table.headers, *(other.headers[place] for place in new)),
        numeric=(*table.numeric, *(other.numeric[place] for place in new)),
        rows=tuple(
            (*row, *(by_key[key(table, row)][place] if key(table, row) in by_key else "" for place in new))
            for row in table.rows
        ),
    )


def _with_columns(table: Table, columns: Sequence[str], known: Container[str]) -> Table:
    """Returns the table with these columns. `known` are the headers of all sessions: one may be without some."""
    headers, numeric, texts = list[str](), list[bool](), list[str]()
    for column in columns:
        header, is_new, text = (part.strip() for part in column.partition(" = "))
        text = text if is_new else "{" + header + "}"
        names = _NAMES.findall(text)
        if missing := [name for name in names if name not in known]:
            raise BlockError(f"{table.title!r} has no {missing[0]!r}, but {', '.join(table.headers)}")
        headers.append(header)
        numeric.append(all(table.numeric[table.headers.index(name)] for name in names if name in table.headers))
        texts.append(text)
    rows = tuple(tuple(_cell(table, row, text) for text in texts) for row in table.rows)
    return Table(table.title, tuple(headers), rows, tuple(numeric), table.notes)


def _cell(table: Table, row: Sequence[str], text: str) -> str:
    found = dict(zip(reversed(table.headers), reversed(row), strict=True))  # the first of two with one header
    made = _NAMES.sub(lambda match: found.get(match[1], fmt.ABSENT), text)
    return _RANGE.sub(r"(\1)", made).replace(" ± -", "")


def _joined_sessions(tables: Mapping[str, Table]) -> Table:
    """Returns one table of those of several sessions, whose columns may differ."""
    if len(tables) == 1:
        return next(iter(tables.values()))
    headers = list(dict.fromkeys(name for table in tables.values() for name in table.headers))
    numeric = [
        all(table.numeric[table.headers.index(name)] for table in tables.values() if name in table.headers)
        for name in headers
    ]
    rows = [
        (name, *(found.get(header, "") for header in headers))
        for name, table in tables.items()
        for found in (dict(zip(table.headers, row, strict=True)) for row in table.rows)
    ]
    return Table("", ("session", *headers), tuple(rows), (False, *numeric))


def _across(table: Table, column: str) -> Table:
    """Returns a table in which the values of a column are columns, one for each of those that follow it."""
    place = table.headers.index(column)
    keys, values = table.headers[:place], table.headers[place + 1 :]
    names = list(dict.fromkeys(row[place] for row in table.rows))
    found = {(row[:place], row[place]): row[place + 1 :] for row in table.rows}
    absent = ("",) * len(values)
    return Table(
        table.title,
        (*keys, *(name if len(values) == 1 else f"{name}: {value}" for name in names for value in values)),
        tuple(
            (*row, *(cell for name in names for cell in found.get((row, name), absent)))
            for row in dict.fromkeys(row[:place] for row in table.rows)
        ),
        (*table.numeric[:place], *table.numeric[place + 1 :] * len(names)),
    )
