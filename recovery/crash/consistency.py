"""Checks a recovered server: damage in its error log, dictionary against files, and whether its tables can be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from recovery.crash.ddl_history import UNREADABLE_ROWS, Table
from recovery.logs.error_log import MAX_SEARCHED_CHARS, is_error
from recovery.model import Version, can
from recovery.mysqld.client import scalar
from recovery.workload.schema import quote_identifier

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


# --- Damage in the error log (pure functions)

_DAMAGED = re.compile(
    r"corrupt|checksum|is in the future|Assertion failure|\bgot signal |marked as crashed"
    r"|(\[ERROR\]|InnoDB: Error:).*(was not found|is missing|does not exist|doesn't exist"
    r"|cannot (open|read|rename|delete)|could not (find|open|read)|unable to read|failed to find tablespace"
    r"|outside the tablespace bounds|stored in the page)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"\[Note\]|^(?!.*\[ERROR\]).*doublewrite", re.IGNORECASE)
"""Lines that are no sign of damage, among them those about pages that were repaired from the doublewrite buffer."""


def damage_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Returns the lines that report damage; a successful recovery has none."""
    return tuple(line.strip() for line in lines if _DAMAGED.search(line) and not _HARMLESS.search(line))


_DAMAGE_MESSAGE = re.compile(
    r"\[(?:ERROR|Warning)\].*(?:corrupt|checksum|in the future|marked as crashed|should be at least|is missing\b"
    r"|does not exist|was not found|(?:could not|cannot) (?:be )?(?:find|found|open|opened|read)\b"
    r"|failed ?at offset|failed with error|no space left|out of disk space)"
    r"|InnoDB: (?:Error:|Database page corruption|.*\bcorrupted?\b|.*in the future|.*file is missing)",
    re.IGNORECASE,
)
_NO_DETAILS = re.compile(
    r"system error number \d+ in a file|error number \d+ means|the error means|installing InnoDB", re.IGNORECASE
)
"""Error lines without details, which are in the line after them."""
_SERVER_CRASH = re.compile(r"Assertion failure|\bgot signal ")
_BEGINS = re.compile(r"\[(?:ERROR|Warning)\].*|InnoDB: (?!Progress in percent).*")
"""Beginning of a message; before it is a timestamp, or an unfinished line of another thread."""
_ENDS = (".", "!", "?", ":")
_MAX_LINES = 3
"""Largest number of lines of one sentence."""


def first_damage_message(lines: Sequence[str]) -> str | None:
    """Returns the first message about damage, else the first error, else the reason why the server died; None if none.

    Servers report damage as errors and as warnings; 5.6 writes some of it without either label, in sentences of several
    lines. An error without details is returned only if there is no other."""
    for matches in (_reports_damage, _is_detailed_error, is_error, _SERVER_CRASH.search):
        for number, line in enumerate(lines):
            if matches(line[:MAX_SEARCHED_CHARS]):
                return _message_at(lines, number)
    return None


def _reports_damage(line: str) -> bool:
    return _DAMAGE_MESSAGE.search(line) is not None and not _HARMLESS.search(line) and not _NO_DETAILS.search(line)


def _is_detailed_error(line: str) -> bool:
    return is_error(line) and not _NO_DETAILS.search(line)


def _message_at(lines: Sequence[str], number: int) -> str:
    """Returns the message that begins in this line, with the following lines that continue its sentence."""
    line = lines[number][:MAX_SEARCHED_CHARS].strip()
    beginning = _BEGINS.search(line)
    message = line if beginning is None else beginning[0]
    if line.startswith("InnoDB: "):
        for more in lines[number + 1 : number + _MAX_LINES]:
            if message.endswith(_ENDS) or not more.startswith("InnoDB: "):
                break
            message = f"{message} {more[:MAX_SEARCHED_CHARS].removeprefix('InnoDB: ').strip()}"
    return message


# --- Dictionary and tables

_SPACE, _DEFINITION = ".ibd", ".frm"
_UNFINISHED = "#sql"
"""Prefix of the temporary tables that a server creates while it alters a table."""


def compare_dictionary(
    connection: Connection[Cursor], version: Version, datadir: Path, databases: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Compares InnoDB's dictionary with the files in the data directory; returns orphaned and missing files.

    Each table must have a separate file. Temporary tables left behind by an ALTER TABLE count as orphans."""
    orphans: list[str] = []
    missing: list[str] = []
    for database in databases:
        known = set(_dictionary_tables(connection, version, database))
        folder = datadir / database
        spaces = {file.name.removesuffix(_SPACE) for file in folder.glob(f"*{_SPACE}")}
        definitions = {file.name.removesuffix(_DEFINITION) for file in folder.glob(f"*{_DEFINITION}")}
        orphans += [f"{database}/{name}{_SPACE}" for name in spaces - known]
        missing += [f"{database}/{name}{_SPACE}" for name in known - spaces]
        if can(version, "frm_files"):
            orphans += [f"{database}/{name}{_DEFINITION}" for name in definitions - known]
            lone = known - definitions
            missing += [f"{database}/{name}{_DEFINITION}" for name in lone if not name.startswith(_UNFINISHED)]
        orphans += [f"{database}.{name}" for name in known & spaces if name.startswith(_UNFINISHED)]
    return tuple(sorted(orphans)), tuple(sorted(missing))


def _dictionary_tables(connection: Connection[Cursor], version: Version, database: str) -> Iterator[str]:
    """Yields the tables in InnoDB's dictionary, spelled as in file names."""
    view = "innodb_tables" if can(version, "innodb_views_renamed") else "innodb_sys_tables"
    with connection.cursor() as cursor:
        statement = f"select name from information_schema.{view} where name like %s"  # noqa: S608 - one of two
        cursor.execute(statement, (f"{database}/%",))
        for (name,) in cursor.fetchall():
            yield str(name).partition("/")[2]


def read_catalogue(connection: Connection[Cursor], database: str) -> dict[str, Table]:
    """Returns the tables of a schema with their columns and numbers of rows."""
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
    """Returns the number of rows, or UNREADABLE_ROWS if the table cannot be read; raises if the connection is lost."""
    try:
        count = scalar(connection, f"select count(*) from {quote_identifier(database)}.{quote_identifier(table)}")  # noqa: S608 - quoted
    except pymysql.err.OperationalError as error:
        if connection.open:
            return UNREADABLE_ROWS
        raise error
    except pymysql.err.MySQLError:
        return UNREADABLE_ROWS
    assert isinstance(count, int)
    return count


def failing_tables(connection: Connection[Cursor], databases: Iterable[str]) -> tuple[str, ...]:
    """Returns the tables that fail CHECK TABLE, each with its message."""
    failing: dict[str, str] = {}
    with connection.cursor() as cursor:
        for database in databases:
            cursor.execute("select table_name from information_schema.tables where table_schema = %s", (database,))
            for (table,) in cursor.fetchall():
                cursor.execute(f"check table {quote_identifier(database)}.{quote_identifier(str(table))}")
                # The status is in the last row, after all messages.
                *_, (_, _, kind, text) = cursor.fetchall()
                if (kind, text) != ("status", "OK"):
                    failing[f"{database}.{table}"] = f"{database}.{table}: {text}"
    return tuple(failing.values())
