"""How is the server asked something? Over its socket, as root without a password, in statements that stay fast over
hundreds of thousands of tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql
from pymysql.constants import CLIENT

from recovery.errors import ServerFailedError

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


_NOT_YET = frozenset({2002, 2003, 2006, 2013})
"""Client errors of a server that does not listen yet, or has just gone; all others are answers."""


def message_of(error: BaseException) -> str:
    """In one line. PyMySQL's errors are (number, text); either may be missing, and the text may quote several lines."""
    match error.args:
        case (int(number), str(text)):
            return f"{' '.join(text.split())} ({number})"
        case _:
            return str(error) or type(error).__name__


def connect(socket: Path, *, multi: bool = False, timeout_s: float | None = None) -> Connection[Cursor]:
    """One connection; `multi` allows several statements a packet. pymysql's own error where there is none to be had."""
    return pymysql.connect(
        unix_socket=str(socket),
        user="root",
        password="",
        charset="utf8mb4",
        autocommit=True,
        # Nobody listens in on a socket, and making ready for TLS would cost each connection 20 ms: the first query of a
        # start is timed.
        ssl_disabled=True,
        client_flag=CLIENT.MULTI_STATEMENTS if multi else 0,
        connect_timeout=10,
        read_timeout=timeout_s,
        write_timeout=timeout_s,
        max_allowed_packet=64 << 20,
    )


def try_query(socket: Path, *, timeout_s: float) -> bool:
    """Does the server answer? False while it does not; ServerFailedError where it refuses us for good."""
    connection = None
    try:
        connection = connect(socket, timeout_s=timeout_s)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone() == (1,)
    except pymysql.err.OperationalError as error:
        if error.args and error.args[0] in _NOT_YET:
            return False
        raise ServerFailedError(
            f"the server refuses its root user: {error.args[-1]}", "its data directory was not made by this tool"
        ) from error
    except OSError:
        return False
    finally:
        if connection is not None:
            # A goodbye that fails concerns nobody.
            with contextlib.suppress(pymysql.err.Error, OSError):
                connection.close()


def scalar(connection: Connection[Cursor], statement: str, arguments: tuple[object, ...] = ()) -> object:
    """The first column of the first row; None where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        row = cursor.fetchone()
    return None if row is None else row[0]


def count_tables(connection: Connection[Cursor], databases: Iterable[str]) -> int:
    """By name only: no table is opened for it, in any generation."""
    total = 0
    for database in databases:
        found = scalar(
            connection, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s", (database,)
        )
        assert isinstance(found, int)
        total += found
    return total


def variables(connection: Connection[Cursor], names: Iterable[str]) -> dict[str, str]:
    """Effective values; a name that this server does not know is left out."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    marks = ", ".join(["%s"] * len(wanted))
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", wanted)
        return {str(name): str(value) for name, value in cursor.fetchall()}
