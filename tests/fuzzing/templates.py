"""Do our templates make as many tables and rows as was asked, whatever the schema is called and however it lies?"""

from __future__ import annotations

from collections.abc import Iterator

from fuzzing.target import Target, text_of
from recovery.model import Layout, Schema
from recovery.workload.inserts import insert_statements, tables_of
from recovery.workload.schema import (
    ROWS_PER_INSERT,
    check_template,
    measure_by_rendering,
    quote_identifier,
    script_size,
)

_LAYOUTS = (Layout.FILES, Layout.GENERAL, Layout.PARTITIONED, Layout.ENCRYPTED)
_NUMBERS = 6


def check(data: bytes) -> None:
    """The first bytes are numbers, the rest is the name of the schema."""
    tables, databases, columns, rows, layout, count = data[:_NUMBERS].ljust(_NUMBERS, b"\1")
    schema = Schema(
        tables=1 + tables % 8,
        databases=1 + databases % 4,
        columns=columns % 5,
        rows=rows % 4 * (ROWS_PER_INSERT // 2),
        database=text_of(data[_NUMBERS:]),
        layout=_LAYOUTS[layout % len(_LAYOUTS)],
    )
    assert check_template(schema) == script_size(schema) == measure_by_rendering(schema)
    if quote_identifier(schema.database) == schema.database:
        _check_inserts(schema, count)


def _check_inserts(schema: Schema, count: int) -> None:
    """Names that are accepted for a schema are such."""
    script = insert_statements(schema, count=count)
    assert len(script) == count
    there = {f"{name}.table_{number}" for name in schema.database_names for number in range(1, schema.tables + 1)}
    assert set(tables_of(script)) <= there
    assert len(tables_of(script)) == min(count, len(there))


def _seeds() -> Iterator[bytes]:
    for number in range(len(_LAYOUTS)):
        yield bytes((3, number, number, number, number, 30)) + b"discovery"
    yield bytes((1, 1, 1, 1, 0, 1)) + b"a`;'\"--/* b"


TARGET = Target("templates", check, _seeds, most_bytes=48, share=2)
