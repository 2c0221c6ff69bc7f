"""What is written right before the crash, and how much of it did the server acknowledge?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pymysql
from pymysql.connections import Connection

from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import template_dir
from recovery.model import Schema
from recovery.mysqld.client import message_of
from recovery.workload.schema import quoted, read_template, render_text, split, variables

_NAME = r"(?:`[^`.]+`|[\w$]+)"
_INSERT = re.compile(
    rf"insert\s+(?:low_priority\s+|high_priority\s+)?(?:into\s+)?(?P<database>{_NAME})\s*\.\s*(?P<table>{_NAME})",
    re.IGNORECASE,
)
_NOT_COUNTABLE = re.compile(r"\bon\s+duplicate\s+key\b", re.IGNORECASE)


class InsertsFailedError(RecoveryError):
    """The script did not get through. What was acknowledged before counts nevertheless: recovery must find it."""

    def __init__(self, message: str, hint: str = "", *, acknowledged: dict[str, int]) -> None:
        super().__init__(message, hint)
        self.acknowledged = acknowledged


BEAT = "replace into mysql.innodb_table_stats values ('recovery_tester', 'beat', now(), 0, 0, 0)"
"""Where no table is to be written to: a change in a table of the server's own, without which there is no recovery."""


def insert_statements(schema: Schema, *, count: int = 100, template: Path | None = None) -> tuple[str, ...]:
    path = template if template is not None else template_dir() / "insert.sql.j2"
    values = variables(schema) | {"count": count}
    script = tuple(split(render_text(read_template(path), str(path), values)))
    if not script and (count or template is not None):
        raise UsageError(
            f"the insert template {path} renders to no statement", "without a write there is nothing to recover"
        )
    for statement in script:
        table_of(statement)
    return script


def table_of(statement: str) -> str:
    """`database.table`, without quotes. Rows are proved by counting, so only countable statements are accepted."""
    match = _INSERT.match(statement)
    if match is None or _NOT_COUNTABLE.search(statement):
        raise UsageError(
            f"the insert script holds '{shortened(statement)}'",
            "it may only hold plain `insert into database.table …` statements: they are counted after the recovery",
        )
    return f"{match['database'].strip('`')}.{match['table'].strip('`')}"


def tables_of(script: Iterable[str]) -> tuple[str, ...]:
    """Each table once, in the order of the script."""
    return tuple(dict.fromkeys(map(table_of, script)))


def fire(conn: Connection, statements: Sequence[str]) -> dict[str, int]:
    """Acknowledged rows by table, one statement and one commit at a time, as fast as the server answers."""
    work = [(table_of(statement), statement) for statement in statements]
    acknowledged: dict[str, int] = {}
    try:
        conn.autocommit(True)
        for table, statement in work:
            acknowledged[table] = acknowledged.get(table, 0) + conn.query(statement)
    except (pymysql.Error, OSError) as error:
        done = sum(acknowledged.values())
        raise InsertsFailedError(
            f"the server did not take the insert script, after {done} rows: {message_of(error)}",
            "look into its error log, and at the insert template if it is your own",
            acknowledged=acknowledged,
        ) from error
    return acknowledged


def beat(conn: Connection) -> dict[str, int]:
    """Nothing that is counted."""
    conn.autocommit(True)
    conn.query(BEAT)
    return {}


def count_rows(conn: Connection, tables: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    with conn.cursor() as cursor:
        for name in tables:
            database, _, table = name.partition(".")
            cursor.execute(f"select count(*) from {quoted(database)}.{quoted(table)}")  # noqa: S608 - a name, quoted
            (counts[name],) = cursor.fetchone() or (0,)
    return counts


def shortened(statement: str, *, length: int = 80) -> str:
    """One line of it, for an error message."""
    line = " ".join(statement.split())
    return line if len(line) <= length else line[: length - 1] + "…"
