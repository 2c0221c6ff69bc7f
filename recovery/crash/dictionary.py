"""Do a server's dictionary and the files in its data directory agree? And can each of its tables be read?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from recovery.crash.definitions import BROKEN, Table
from recovery.crash.found import Agreement
from recovery.load.script import quoted
from recovery.model import Version
from recovery.server.client import scalar
from recovery.versions import can

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

_SPACE, _DEFINITION = ".ibd", ".frm"
_UNFINISHED = "#sql"
"""Names of what a server makes while it alters a table."""


def agreement(connection: Connection[Cursor], version: Version, datadir: Path, databases: Iterable[str]) -> Agreement:
    """Of tables in files of their own."""
    orphans: list[str] = []
    missing: list[str] = []
    for database in databases:
        known = set(_known(connection, version, database))
        spaces, definitions = (_files(datadir / database, end) for end in (_SPACE, _DEFINITION))
        orphans += [f"{database}/{name}{_SPACE}" for name in spaces - known]
        missing += [f"{database}/{name}{_SPACE}" for name in known - spaces]
        if can(version, "frm_files"):
            orphans += [f"{database}/{name}{_DEFINITION}" for name in definitions - known]
            lone = known - definitions
            missing += [f"{database}/{name}{_DEFINITION}" for name in lone if not name.startswith(_UNFINISHED)]
        orphans += [f"{database}.{name}" for name in known & spaces if name.startswith(_UNFINISHED)]
    return Agreement(tuple(sorted(orphans)), tuple(sorted(missing)))


def _known(connection: Connection[Cursor], version: Version, database: str) -> Iterator[str]:
    """To InnoDB's own dictionary, as files are named."""
    view = "innodb_tables" if can(version, "innodb_views_renamed") else "innodb_sys_tables"
    with connection.cursor() as cursor:
        statement = f"select name from information_schema.{view} where name like %s"  # noqa: S608 - one of two
        cursor.execute(statement, (f"{database}/%",))
        for (name,) in cursor.fetchall():
            yield str(name).partition("/")[2]


def _files(folder: Path, end: str) -> set[str]:
    return {file.name.removesuffix(end) for file in folder.glob(f"*{end}")}


def catalogue(connection: Connection[Cursor], database: str) -> dict[str, Table]:
    """As the server lists it, and with the rows that each table has."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select table_name, column_name from information_schema.columns where table_schema = %s "
            "order by table_name, ordinal_position",
            (database,),
        )
        columns: dict[str, list[str]] = {}
        for table, column in cursor.fetchall():
            columns.setdefault(str(table), []).append(str(column))
    return {table: Table(tuple(names), _rows(connection, database, table)) for table, names in columns.items()}


def _rows(connection: Connection[Cursor], database: str, table: str) -> int:
    try:
        found = scalar(connection, f"select count(*) from {quoted(database)}.{quoted(table)}")  # noqa: S608 - quoted
    except pymysql.err.OperationalError as error:
        if connection.open:
            return BROKEN
        raise error
    except pymysql.err.MySQLError:
        return BROKEN
    assert isinstance(found, int)
    return found


def failing(connection: Connection[Cursor], databases: Iterable[str]) -> tuple[str, ...]:
    """Tables that CHECK TABLE finds fault with, and its words."""
    told: dict[str, str] = {}
    with connection.cursor() as cursor:
        for database in databases:
            cursor.execute("select table_name from information_schema.tables where table_schema = %s", (database,))
            for (table,) in cursor.fetchall():
                cursor.execute(f"check table {quoted(database)}.{quoted(str(table))}")
                # Messages come before the status, which is the last.
                *_, (_, _, kind, text) = cursor.fetchall()
                if (kind, text) != ("status", "OK"):
                    told[f"{database}.{table}"] = f"{database}.{table}: {text}"
    return tuple(told.values())
