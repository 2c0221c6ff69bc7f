"""Connects to a server over its socket, and queries it with statements that stay fast with hundreds of thousands of
tables.

The tool's own statements run as root, without a password. Those of a template or query file are not trusted: they run
as a user who may write to the tables of the test and nowhere else."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor

from recovery.errors import RecoveryError, ServerFailedError, UsageError
from recovery.model import SYSTEM_SCHEMAS, Schema
from recovery.mysqld.defaults_file import read_defaults_file
from recovery.mysqld.options import base_name

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


ADMIN, LIMITED = "root", "recovery_tester"
_ROWS_AT_ONCE = 1000
_NOT_LISTENING = frozenset({2002, 2003, 2006, 2013, 1040})
"""Errors that mean that the server does not listen yet or has just gone, or (1040) that all its connections are taken.
All others are answers of the server."""


def message_of(error: BaseException) -> str:
    """Returns the message of an error in one line. The errors of PyMySQL are (number, text); either may be missing, and
    the text may quote several lines."""
    match error.args:
        case (int(number), str(text)):
            return f"{' '.join(text.split())} ({number})"
        case _:
            return str(error) or type(error).__name__


# --- Servers of the user's own

NO_RIGHT = frozenset({1044, 1142, 1143, 1227, 1370, 1401, 3546})
"""Errors of a user who may not see something."""
_LOST = 2013
BROKEN_ANSWER = (pymysql.err.Error, OSError, RuntimeError, struct.error, ValueError, LookupError, TypeError)
"""What PyMySQL raises for a connection that fails, or that something else answers."""
_CLIENT_GROUPS = frozenset({"client", "client-server", "client-mariadb"})
_TLS_FILES = ("ca", "capath", "cert", "key", "cipher")
_MAX_PORT = 65_535
_DEFAULT_SOCKETS = ("/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock")  # noqa: S108 - of clients


class NotAnsweringError(UsageError):
    """No server answers, or it takes too long. It may answer later."""


def read_login(socket: Path | None, defaults_file: Path | None) -> dict[str, Any]:
    """Returns what PyMySQL logs in with: to a socket, by the group [client] of an option file, or by both. Raises
    UsageError for a file that clients would refuse."""
    options = () if defaults_file is None else read_defaults_file(defaults_file).options
    found = {base_name(one.name): one.value for one in options if one.group in _CLIENT_GROUPS}
    if socket is None and not found.keys() & {"socket", "host", "port", "user"}:
        raise UsageError(f"{defaults_file} has no login in the group [client]", "write user and socket there")
    port = found.get("port") or "0"
    if not (port.isascii() and port.isdecimal() and int(port) <= _MAX_PORT):
        raise UsageError(f"{defaults_file} has port={port}, which is no port", "correct the file")
    host = found.get("host") or "localhost"
    path = str(socket) if socket is not None else found.get("socket") if host == "localhost" else None
    if not path and not found.keys() & {"host", "port"}:
        path = next(filter(os.path.exists, _DEFAULT_SOCKETS), None)
    tls: dict[str, Any] = {name: found[f"ssl_{name}"] for name in _TLS_FILES if found.get(f"ssl_{name}")}
    if tls and path:
        tls["check_hostname"] = False
    return {
        "unix_socket": path or None,
        "host": host,
        "port": int(port),
        "user": found.get("user") or None,
        "password": found.get("password", "").encode(),  # PyMySQL would send a text as latin1
        "ssl": tls or None,
        # PyMySQL would encrypt a socket, too, and cannot with servers that know old versions of TLS only.
        "ssl_disabled": bool(path) and not tls,
    }


class _ClearTextRefused:
    """Takes the place of the login plug-ins that send the password as it is to whoever asks for it."""

    def __init__(self, _: Connection[Cursor]) -> None:
        pass

    def authenticate(self, _: object) -> None:
        raise pymysql.err.OperationalError(_NO_PLUGIN, "the server asks for the password in clear text: not sent")


_NO_PLUGIN = 2059
_IN_CLEAR_TEXT = ("mysql_clear_password", "dialog")


def connect_as_user(login: Mapping[str, Any], *, timeout_s: float | None = None) -> Connection[Cursor]:
    """Opens a connection to a server of the user's own, which gets no password in clear text. Raises BROKEN_ANSWER."""
    return pymysql.connect(
        **login, connect_timeout=5, read_timeout=timeout_s, autocommit=True,
        auth_plugin_map=dict.fromkeys(_IN_CLEAR_TEXT, _ClearTextRefused),
    )  # fmt: skip


_ENDED = {0, 1053, 1077, 1079, 1080, 1927, 3169, 4031}
"""Errors of a server that shuts down, or has closed the connection. Those of PyMySQL itself follow 2000."""
_ERRORS: tuple[tuple[Collection[int], type[RecoveryError], str, str], ...] = (
    (
        {1045, 1130, 1698, 1820, 1862, 2059, 2061, 3118, 4151}, UsageError, "the login failed",
        "give --defaults-file with user and password in the group [client]; the user needs the privilege PROCESS",
    ),
    (NO_RIGHT, UsageError, "the user lacks a privilege", "give it PROCESS: GRANT PROCESS ON *.* TO ..."),
    (
        {1054, 1064, 1109, 1146, 1193, 1235, 1577, 1682, 1728}, RecoveryError,
        "the server at {} lacks a table, a variable or a statement of MySQL and MariaDB",
        "run mysql_upgrade if its system tables are older than it; proxies and other databases are not supported",
    ),
    (
        {1040, 1203, 1226}, NotAnsweringError, "the server at {} takes no further connection",
        "end another client, or raise max_connections",
    ),
    (
        _ENDED | {*range(2000, 3000)}, NotAnsweringError, "no MySQL or MariaDB server answers at {}",
        "check that it runs; SELECT @@socket names its socket",
    ),
)  # fmt: skip


def explain(error: BaseException, where: str) -> RecoveryError:
    """Returns the error that says what a server of the user's own has answered, and what to do."""
    said, number = message_of(error), error.args[0] if error.args else None
    if isinstance(error, RuntimeError):  # a library for logins is missing
        number = _NO_PLUGIN
    elif not isinstance(error, pymysql.err.Error) or not isinstance(number, int):
        number = _LOST
    elif number == _LOST and isinstance(error.__context__, TimeoutError):
        return NotAnsweringError(
            f"the server at {where} takes a connection, but does not answer in time: {said}",
            "it hangs or is overloaded: try again later",
        )
    for numbers, kind, what, hint in _ERRORS:
        if number in numbers:
            return kind(f"{what.format(where)}: {said}", hint)
    return RecoveryError(f"the server at {where} answers with an error: {said}", "look for the reason in its error log")


def connect(
    socket: Path, *, user: str = ADMIN, multi: bool = False, timeout_s: float | None = None
) -> Connection[Cursor]:
    """Opens a connection; `multi` allows several statements in one packet. Errors of PyMySQL are passed on."""
    return pymysql.connect(
        unix_socket=str(socket),
        user=user,
        password="",
        charset="utf8mb4",
        autocommit=True,
        # Nobody can listen in on a socket, and preparing TLS would take 20 ms for each connection. The first query of a
        # start is timed.
        ssl_disabled=True,
        client_flag=CLIENT.MULTI_STATEMENTS if multi else 0,
        connect_timeout=10,
        read_timeout=timeout_s,
        write_timeout=timeout_s,
        max_allowed_packet=64 << 20,
    )


def try_query(socket: Path, *, timeout_s: float) -> bool:
    """Returns whether the server answers a query. Raises ServerFailedError if it refuses the connection for good."""
    connection = None
    try:
        connection = connect(socket, timeout_s=timeout_s)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone() == (1,)
    except pymysql.err.OperationalError as error:
        if error.args and error.args[0] in _NOT_LISTENING:
            return False
        raise ServerFailedError(
            f"the server refuses its root user: {error.args[-1]}", "its data directory was not made by this tool"
        ) from error
    except OSError:
        return False
    finally:
        if connection is not None:
            # An error while closing does not matter.
            with contextlib.suppress(pymysql.err.Error, OSError):
                connection.close()


def create_limited_user(connection: Connection[Cursor], schema: Schema) -> None:
    """Creates the user who may read everything and write to the schemas of the test, unless it is there already.

    Reading everything lets a query see the same tables as root. Without the rights FILE and SUPER, and without writing
    to system tables, no statement can set an option of the server, or write to another file."""
    pattern = schema.database.replace("_", "\\_") + ("" if schema.databases == 1 else "\\_%")
    user = f"'{LIMITED}'@'localhost'"
    known = "SELECT 1 FROM mysql.user WHERE user = %s AND host = 'localhost'"
    if scalar(connection, known, (LIMITED,)) is None:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE USER {user}")
    with connection.cursor() as cursor:
        cursor.execute(f"GRANT SELECT, PROCESS, SHOW DATABASES, SHOW VIEW, REPLICATION CLIENT ON *.* TO {user}")
        cursor.execute(f"GRANT EXECUTE ON sys.* TO {user}")
        cursor.execute(f"GRANT ALL ON `{pattern}`.* TO {user}")


def scalar(connection: Connection[Cursor], statement: str, arguments: tuple[object, ...] = ()) -> object:
    """Returns the first column of the first row, or None if there is no row."""
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        row = cursor.fetchone()
    return None if row is None else row[0]


def users_schemas(connection: Connection[Cursor]) -> list[str]:
    """Returns the names of all schemas but those of the server itself."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT schema_name FROM information_schema.schemata")
        return [name for (name,) in cursor.fetchall() if name.lower() not in SYSTEM_SCHEMAS]


def count_all_tables(connection: Connection[Cursor], schema: Schema) -> int:
    """Returns the number of tables of this schema, with those of the user's own data directory that it was added to."""
    return count_tables(connection, users_schemas(connection) if schema.own else schema.database_names)


def run_to_last_row(connection: Connection[Cursor], statement: str) -> int:
    """Runs a statement until its last row has arrived, and returns the number of rows, none of which is kept."""
    rows = 0
    with contextlib.closing(connection.cursor(SSCursor)) as cursor:
        try:
            cursor.execute(statement)
            while fetched := cursor.fetchmany(_ROWS_AT_ONCE):
                rows += len(fetched)
        except BaseException:
            # After Ctrl-C, closing the cursor would read the rest of the rows first, which may take hours.
            if (result := getattr(connection, "_result", None)) is not None:
                result.unbuffered_active = False
            raise
    return rows


def count_tables(connection: Connection[Cursor], databases: Iterable[str]) -> int:
    """Returns the number of tables in the databases. The statement uses only names, for which no server generation
    opens a table."""
    statement = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s"
    total = 0
    for database in databases:
        count = scalar(connection, statement, (database,))
        assert isinstance(count, int)
        total += count
    return total


def variables(connection: Connection[Cursor], names: Iterable[str]) -> dict[str, str]:
    """Returns the effective values of variables, without those that this server does not know."""
    requested = sorted(set(names))
    if not requested:
        return {}
    marks = ", ".join(["%s"] * len(requested))
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", requested)
        return {str(name): str(value) for name, value in cursor.fetchall()}
