"""Renders the inserts that are executed right before a crash, executes them, and counts the acknowledged rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pymysql
from pymysql.connections import Connection

from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import template_dir
from recovery.model import Schema
from recovery.mysqld.client import message_of
from recovery.workload.schema import (
    quote_identifier,
    read_template,
    render_text,
    split_script,
    template_variables,
)

_NAME = r"(?:`[^`.]+`|[\w$]+)"
_INSERT = re.compile(
    rf"insert\s+(?:low_priority\s+|high_priority\s+)?(?:into\s+)?(?P<database>{_NAME})\s*\.\s*(?P<table>{_NAME})",
    re.IGNORECASE,
)
_ON_DUPLICATE_KEY = re.compile(r"\bon\s+duplicate\s+key\b", re.IGNORECASE)


class InsertsFailedError(RecoveryError):
    """The insert script failed. The rows acknowledged before still count: they must be there after the recovery."""

    def __init__(self, message: str, hint: str = "", *, acknowledged: dict[str, int]) -> None:
        super().__init__(message, hint)
        self.acknowledged = acknowledged


HEARTBEAT = "replace into mysql.innodb_table_stats values ('recovery_tester', 'beat', now(), 0, 0, 0)"
"""A statement that changes a system table, for runs that write to no table of the schema. Without any change there is
nothing to recover."""


def insert_statements(schema: Schema, *, count: int = 100, template: Path | None = None) -> tuple[str, ...]:
    """Returns the statements of the insert script; raises UsageError if it is empty or has rows that cannot be counted.

    The script may be empty if `count` is 0 and there is no user's template."""
    path = template if template is not None else template_dir() / "insert.sql.j2"
    values = template_variables(schema) | {"count": count}
    script = tuple(split_script(render_text(read_template(path), str(path), values)))
    if not script and (count or template is not None):
        raise UsageError(
            f"the insert template {path} renders to no statement", "without a write there is nothing to recover"
        )
    for statement in script:
        table_of(statement)
    return script


def table_of(statement: str) -> str:
    """Returns the table of an insert statement as `database.table`, without quotes.

    Raises UsageError for other statements: rows are verified by counting, so each statement must add countable rows."""
    match = _INSERT.match(statement)
    if match is None or _ON_DUPLICATE_KEY.search(statement):
        raise UsageError(
            f"the insert script holds '{shorten(statement)}'",
            "it may only hold plain `insert into database.table …` statements: they are counted after the recovery",
        )
    return f"{match['database'].strip('`')}.{match['table'].strip('`')}"


def tables_of(script: Iterable[str]) -> tuple[str, ...]:
    """Returns each table once, in the order of the script."""
    return tuple(dict.fromkeys(map(table_of, script)))


def execute_inserts(conn: Connection, statements: Sequence[str]) -> dict[str, int]:
    """Executes the statements as fast as the server answers, and returns the number of acknowledged rows by table.

    Each statement is committed separately. Raises InsertsFailedError if the server rejects one or the connection is
    lost."""
    work = [(table_of(statement), statement) for statement in statements]
    acknowledged = Counter[str]()
    try:
        conn.autocommit(True)
        for table, statement in work:
            acknowledged[table] += conn.query(statement)
    except (pymysql.Error, OSError) as error:
        raise InsertsFailedError(
            f"the insert script failed after {acknowledged.total()} rows: {message_of(error)}",
            "see the server's error log, and the insert template if it is your own",
            acknowledged=acknowledged,
        ) from error
    return acknowledged


def count_rows(conn: Connection, tables: Iterable[str]) -> dict[str, int]:
    """Returns the number of rows of each table, by `database.table`."""
    counts: dict[str, int] = {}
    with conn.cursor() as cursor:
        for name in tables:
            database, _, table = name.partition(".")
            cursor.execute(f"select count(*) from {quote_identifier(database)}.{quote_identifier(table)}")  # noqa: S608 - a name, quoted
            (counts[name],) = cursor.fetchone() or (0,)
    return counts


def shorten(statement: str, *, length: int = 80) -> str:
    """Returns the statement on one line of at most `length` characters, for an error message."""
    line = " ".join(statement.split())
    return line if len(line) <= length else line[: length - 1] + "…"
