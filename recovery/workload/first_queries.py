"""The queries that are timed after a start (FIRST_QUERIES): those of the user's file, or the default ones.

Servers are ready long before they answer such queries: the first one to open a table reads its files."""

from __future__ import annotations

from collections.abc import Iterator

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from recovery.workload.schema import quote_identifier

NamedQueries = tuple[tuple[str, str], ...]
"""Pairs of name and statement."""
DEFAULT = "default"
"""In place of the user's own queries: the default ones."""
SIZE_QUERY = "select table_schema, sum(data_length + index_length) from information_schema.tables group by table_schema"
"""As monitoring programs ask it."""
_LISTED = (
    "select table_schema, table_name from information_schema.tables"
    " where table_schema not in ('information_schema', 'mysql', 'performance_schema', 'sys')"
    " and table_type = 'BASE TABLE'"
)
_TABLES = 100
_FIND_SIZES = "/*!80000 set session information_schema_stats_expiry = 0 */"
"""MySQL 8.0 and later keep the sizes for a day: only the first start would have to find them. Others skip comments."""
_DESCRIPTION = "-- Then, for each of 100 tables spread over all schemas: select 1 from TABLE limit 1;"


def first_queries(given: str | NamedQueries, connection: Connection[Cursor]) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each query. Those of one name are one phase of the report."""
    if not isinstance(given, str):
        yield from given
        return
    with connection.cursor() as cursor:
        cursor.execute(_FIND_SIZES)
        yield "size query", SIZE_QUERY
        cursor.execute(_LISTED)
        tables = sorted(cursor.fetchall())
    step = max(1, len(tables) // _TABLES)
    for schema, table in tables[::step][:_TABLES]:
        yield "table queries", f"select 1 from {quote_identifier(schema)}.{quote_identifier(table)} limit 1"  # noqa: S608 - names, quoted


def stored_script(setting: str) -> str:
    """Returns the SQL script of a stored setting: the text of the user's queries, or `default`."""
    if setting != DEFAULT:
        return f"{setting}\n"
    return f"{_FIND_SIZES};\n{SIZE_QUERY};\n{_DESCRIPTION}\n"
