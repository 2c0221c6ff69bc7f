"""What was run against the servers? The rendered scripts, as far as a reader needs them, and the options file."""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from recovery.bundle.literals import words_of
from recovery.errors import RecoveryError, UsageError
from recovery.load.insert import insert_statements
from recovery.load.schema import measure, measure_by_rendering, statements
from recovery.model import Layout, Schema
from recovery.request import DEFAULT_INSERTS, MOST_COLUMNS, MOST_INSERTS, MOST_TABLES, parse_layout, parse_variants
from recovery.stored import Session

MOST_BYTES = 1_000_000
"""Of a script that is put in whole: some 13,000 tables."""
MOST_STATEMENTS = 1_000_000
"""Of a script that is rendered as a whole."""
_SHOWN_INSERTS = 10_000
_SHOWN = 100
"""Statements of either end of a longer one."""


def scripts(session: Session) -> dict[str, str]:
    """By the name of the file. What cannot be rendered any more is told in its place."""
    found = {}
    try:
        for name, schema in _schemas(session).items():
            found[name] = _told(schema)
    except RecoveryError as error:
        found.setdefault("schema.sql", f"-- not rendered: {error.message}\n")
    try:
        asked = _inserts_asked(session)
        head = f"-- The first {_SHOWN_INSERTS:,} of {asked:,}.\n" if asked > _SHOWN_INSERTS else ""
        found["inserts.sql"] = head + "".join(f"{one};\n" for one in inserts(session))
    except RecoveryError:
        # Its message quotes the file, which may be another by now.
        found["inserts.sql"] = "-- not rendered: the insert template is not here any more, or holds something else\n"
    return found


def schema_of(session: Session) -> Schema:
    """As the settings tell it; older tools did not write all of them."""
    settings = session.settings
    template = settings.get("template")
    return Schema(
        tables=_number(session, "tables", 1),
        databases=_number(session, "schemas", 1),
        columns=_number(session, "columns", 0, most=MOST_COLUMNS),
        rows=_number(session, "rows", 0),
        database=str(settings.get("database") or Schema.database),
        template=Path(str(template)) if template else None,
        layout=parse_layout(str(settings.get("layout") or Layout.FILES)),
    )


def first_statements(session: Session, many: int = 3) -> tuple[str, ...]:
    """Of the script that makes the tables; none where it cannot be rendered any more."""
    try:
        _check(schema := schema_of(session))
        return tuple(one for one, _ in zip(statements(schema), range(many), strict=False))
    except RecoveryError:
        return ()


def inserts(session: Session) -> tuple[str, ...]:
    template = session.settings.get("insert_template")
    return insert_statements(
        schema_of(session),
        count=min(_SHOWN_INSERTS, _inserts_asked(session)),
        template=Path(str(template)) if template else None,
    )


def _inserts_asked(session: Session) -> int:
    return _number(session, "inserts", DEFAULT_INSERTS, most=MOST_INSERTS)


def options_file(name: str, options: str) -> str:
    """As the server was given them. What the tool alone knew is not made up."""
    lines = [
        f"# Options of the timed start of {name}, in the order of their names.",
        "# RUNDIR: a folder of this start's own. basedir and datadir are those of your server; they are not told here.",
        "[mysqld]",
    ]
    for option in _parted(options):
        option_name, equals, value = option.partition("=")
        quoted = f'"{value}"' if re.search(r"[\s#;]", value) and '"' not in value else value
        lines.append(f"{option_name} = {quoted}" if equals else option_name)
    return "\n".join(lines) + "\n"


def _parted(options: str) -> Iterator[str]:
    """A value may have blanks in it: a word that looks like no option goes on with the one before."""
    parts: list[str] = []
    for word in options.split():
        if not parts or re.match(r"[a-z][a-z0-9_.]*=", word) or re.fullmatch(r"[a-z0-9]+(?:_[a-z0-9]+)+", word):
            parts.append(word)
        else:
            parts[-1] += f" {word}"
    yield from parts


def _schemas(session: Session) -> dict[str, Schema]:
    """The one that was asked for, and those of variants that lie otherwise."""
    asked = schema_of(session)
    found = {"schema.sql": asked}
    for variant in parse_variants(tuple(words_of(session.settings.get("variants")))):
        schema = asked if variant.layout is None else replace(asked, layout=variant.layout)
        if variant.schemas:
            schema = schema.spread_over(variant.schemas)
        if schema != asked:
            found[f"schema-{variant.label}.sql"] = schema
    return found


def _check(schema: Schema) -> None:
    """A session of somebody else's may name any file as its template: what is none stays out of the archive."""
    if schema.template is None:
        return
    if not schema.template.is_file():
        raise UsageError("the template is not here any more")
    if schema.total_tables > MOST_STATEMENTS:
        raise UsageError(f"the template makes more than {MOST_STATEMENTS:,} tables")
    try:
        made = measure_by_rendering(schema).tables
    except RecoveryError:
        made = -1
    if made != schema.total_tables:
        raise UsageError("the template does not make these tables any more")


def _told(schema: Schema) -> str:
    _check(schema)
    count = measure(replace(schema, template=None)).statements
    if count * max(1, schema.columns) > MOST_STATEMENTS:
        first = "".join(f"{one};\n" for one in islice(statements(schema), _SHOWN))
        return f"-- About {count:,} statements. The first {_SHOWN} are here. All of them: {_command(schema)}\n{first}"
    head: list[str] = []
    ends: deque[str] = deque(maxlen=_SHOWN)
    size = count = 0
    for one in statements(schema):
        count += 1
        size += len(one) + 2
        if size <= MOST_BYTES:
            head.append(one)
        ends.append(one)
    if size <= MOST_BYTES:
        return "".join(f"{one};\n" for one in head)
    first = "".join(f"{one};\n" for one in head[:_SHOWN])
    last = "".join(f"{one};\n" for one in ends)
    left_out = count - 2 * _SHOWN
    return (
        f"-- {count:,} statements, {size:,} bytes: more than the {MOST_BYTES:,} that are put in whole. The first\n"
        f"-- and the last {_SHOWN} are here. All of them: {_command(schema)}\n{first}"
        f"-- … {left_out:,} statements are left out here …\n{last}"
    )


def _command(schema: Schema) -> str:
    words = ["recovery", "schema", "--tables", str(schema.tables)]
    for option, value, usual in (
        ("--schemas", schema.databases, 1),
        ("--layout", schema.layout.value, Layout.FILES.value),
        ("--columns", schema.columns, 0),
        ("--rows", schema.rows, 0),
        ("--database", schema.database, Schema.database),
        ("--template", schema.template, None),
    ):
        words += [] if value == usual else [option, str(value)]
    return shlex.join(words)


def _number(session: Session, name: str, usual: int, *, most: int = MOST_TABLES) -> int:
    value = session.settings.get(name, usual)
    if value is None or value == "":
        return usual
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise UsageError(f"the session's setting {name} is no number that makes sense")
    return value
