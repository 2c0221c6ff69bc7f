"""Two targets: SQL scripts, which are split into their statements, and the tool's own templates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fuzzing.target import Target, text_of
from recovery.errors import RecoveryError
from recovery.model import Layout, Schema
from recovery.workload.inserts import insert_statements, shorten, table_of, tables_of
from recovery.workload.schema import (
    ROWS_PER_INSERT,
    StatementKind,
    checked_script_size,
    creates_table,
    kind_of,
    measure_by_rendering,
    quote_identifier,
    script_size,
    script_statements,
    split_script,
)

_SCRIPTS = (
    "use a; set x = 1; insert /* fills */ into a.b select 1 union select 2; -- c\nselect ';' # d;\n;",
    "create temporary table a.b (id int) /* c; */; /*!50711 alter table a.b x=1 */; insert into `a`.`b` values (';');",
    "insert low_priority into a.b values (1) on duplicate key update c = 2; create table if not exists a.`b;` like c;",
)  # fmt: skip


def check_script(data: bytes) -> None:
    """The statements are the same in whatever pieces the script comes."""
    text = text_of(data)
    found = list(split_script([text]))
    assert list(split_script(iter(text), read_chars=1)) == found
    at = 0
    for statement in found:
        assert statement
        at = text.index(statement, at) + len(statement)
        assert kind_of(statement) in StatementKind
        assert len(shorten(statement)) <= 80
        if creates_table(statement):
            assert kind_of(statement) in (StatementKind.TABLE, StatementKind.IN_ORDER)
        with suppress(RecoveryError):
            assert table_of(statement).count(".") == 1


def _script_seeds() -> Iterator[bytes]:
    yield from (script.encode() for script in _SCRIPTS)
    for layout in (Layout.FILES, Layout.GENERAL):
        yield "".join(f"{one};\n" for one in script_statements(Schema(2, columns=1, rows=2, layout=layout))).encode()


STATEMENTS = Target(
    "statements",
    check_script,
    _script_seeds,
    words=("create table ", "insert into ", "/*", "*/", "/*!", "--\n", "# ", "`", "'", '"', "\\", "values (", "use "),
    max_bytes=512,
    share=200,
)

_LAYOUTS = (Layout.FILES, Layout.GENERAL, Layout.PARTITIONED, Layout.ENCRYPTED)
_NUMBERS = 6


def check_templates(data: bytes) -> None:
    """The first bytes are numbers, and the rest is the name of the schema."""
    tables, databases, columns, rows, layout, count = data[:_NUMBERS].ljust(_NUMBERS, b"\1")
    schema = Schema(
        tables=1 + tables % 8,
        databases=1 + databases % 4,
        columns=columns % 5,
        rows=rows % 4 * (ROWS_PER_INSERT // 2),
        database=text_of(data[_NUMBERS:]),
        layout=_LAYOUTS[layout % len(_LAYOUTS)],
    )
    assert checked_script_size(schema) == script_size(schema) == measure_by_rendering(schema)
    if quote_identifier(schema.database) == schema.database:  # an accepted name
        script = insert_statements(schema, count=count)
        assert len(script) == count
        tables_there = {f"{name}.table_{n}" for name in schema.database_names for n in range(1, schema.tables + 1)}
        assert set(tables_of(script)) <= tables_there
        assert len(tables_of(script)) == min(count, len(tables_there))


def _template_seeds() -> Iterator[bytes]:
    for number in range(len(_LAYOUTS)):
        yield bytes((3, number, number, number, number, 30)) + b"discovery"
    yield bytes((1, 1, 1, 1, 0, 1)) + b"a`;'\"--/* b"


TEMPLATES = Target("templates", check_templates, _template_seeds, max_bytes=48, share=2)
