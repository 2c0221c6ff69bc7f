"""Which statements build the stage, and do they make what was asked? The script is streamed, never held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import UsageError
from recovery.host.space import Need, need_for
from recovery.load.script import read_template, render_text, variables
from recovery.load.statements import compressed_kib, count_indexes, creates_table, split
from recovery.model import Layout, Schema, Version
from recovery.paths import template_dir

ROWS_IN_AN_INSERT = 1000
"""As our own templates have it; a test holds them together."""


@dataclass(frozen=True)
class ScriptSize:
    statements: int
    tables: int
    indexes: int = 0
    """Of all tables, beside their primary keys."""
    block_bytes: int | None = None
    """Of compressed pages, the largest, or 0 where the server chooses it; None where not all tables have such."""


def template_path(schema: Schema) -> Path:
    if schema.template is not None:
        return schema.template
    return template_dir() / ("schema.sql.j2" if schema.layout is Layout.FILES else "layouts.sql.j2")


def template_text(schema: Schema) -> str:
    return read_template(template_path(schema))


def render(schema: Schema) -> Iterator[str]:
    """The script in chunks, as it may be attached to a report."""
    return render_text(template_text(schema), str(template_path(schema)), variables(schema))


def statements(schema: Schema) -> Iterator[str]:
    return split(render(schema))


def measure(schema: Schema) -> ScriptSize:
    """Our own template is known; somebody else's is rendered once: less than a second for 200,000 tables."""
    if schema.template is None:
        inserts = schema.total_tables * -(-schema.rows // ROWS_IN_AN_INSERT)
        spaces = 1 if schema.layout is Layout.GENERAL else 0
        return ScriptSize(spaces + schema.databases + schema.total_tables + inserts, schema.total_tables)
    return measure_by_rendering(schema)


def sysbench_tables(schema: Schema) -> tuple[str, ...]:
    """As templates/sysbench.sql.j2 calls them."""
    return tuple(
        f"{database}.sbtest{number}" for database in schema.database_names for number in range(1, schema.tables + 1)
    )


def measure_by_rendering(schema: Schema) -> ScriptSize:
    count = tables = indexes = 0
    compressed: set[int | None] = set()
    for statement in statements(schema):
        count += 1
        if creates_table(statement):
            tables += 1
            indexes += count_indexes(statement)
            compressed.add(compressed_kib(statement))
    sizes = [kib for kib in compressed if kib is not None]
    block_bytes = 1024 * max(sizes) if len(sizes) == len(compressed) > 0 else None
    return ScriptSize(count, tables, indexes, block_bytes)


def need_of(script: ScriptSize, version: Version, schema: Schema, settings: Mapping[str, str]) -> Need:
    """What the disk must have for the tables of a script."""
    return need_for(version, schema, settings, indexes=script.indexes, block_bytes=script.block_bytes)


def goes_on(smaller: Schema, larger: Schema) -> bool:
    """Whether the larger script begins with the whole of the smaller one: then a server that has had that can be given
    the rest."""
    rest = statements(larger)
    return all(one == next(rest, None) for one in statements(smaller))


def check_template(schema: Schema) -> ScriptSize:
    """UsageError unless the template renders, and to as many tables as asked. Done before anything is touched."""
    size = measure(schema)
    path = template_path(schema)
    if size.statements == 0:
        raise UsageError(f"the template {path} renders to no statement at all", "it should create a schema and tables")
    if size.tables != schema.total_tables:
        comparison = "fewer" if size.tables < schema.total_tables else "more"
        raise UsageError(
            f"the template {path} makes {comparison} tables than said: {size.tables} instead of {schema.total_tables}",
            f"ask for as many as it makes, or loop over `databases` and `range(1, tables + 1)` in it "
            f"({schema.databases} databases of {schema.tables} tables were asked)",
        )
    return size
