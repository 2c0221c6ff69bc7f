"""Connects to a server over its socket, and queries it with statements that stay fast with hundreds of thousands of
tables.

All statements run as root, without a password, also those of a template or query file."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import socket as sockets
import ssl
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor

from recovery.errors import RecoveryError, ServerFailedError, UsageError
from recovery.linux.files import trusted_users, user_name
from recovery.model import SYSTEM_SCHEMAS, Schema
from recovery.mysqld.defaults_file import FileOption, read_defaults_file
from recovery.mysqld.options import base_name

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

    _Base = Connection[Cursor]
else:
    _Base = pymysql.connections.Connection


ADMIN = "root"
_ROWS_AT_ONCE = 1000
_NOT_LISTENING = frozenset({2002, 2003, 2006, 2013, 1040})
"""Errors that mean that the server does not listen yet or has just gone, or (1040) that all its connections are taken.
All others are answers of the server."""


def message_of(error: BaseException) -> str:
    """Returns the message of an error in one line. The errors of PyMySQL are (number, text); either may be missing, and
    the text may quote several lines."""
    match error.args:
        case (int(number), str(text)):
            return f"{shortened(text)} ({number})"
        case _:
            return shortened(str(error)) or type(error).__name__


_SHOWN_CHARS = 500


def shortened(text: str) -> str:
    """Returns a text of a server as one line that is not too long for a message."""
    line = " ".join(text[: 4 * _SHOWN_CHARS].split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}..."


# --- Answers that are not as they should be

_NO_HANDSHAKE, _TOO_LARGE, _MALFORMED, _NO_PLUGIN = 2012, 2020, 2027, 2059
_WHOLE = re.compile(r"[0-9]{1,19}")


def malformed(what: str) -> pymysql.err.OperationalError:
    """Returns the error for an answer that no server gives."""
    return pymysql.err.OperationalError(_MALFORMED, what)


def whole_number(value: object, what: str, *, most: int = (1 << 63) - 1) -> int:
    """Returns a number that a server counts. Raises OperationalError for any other value, such as NULL or -1."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    if not _WHOLE.fullmatch(text) or int(text) > most:
        raise malformed(f"its number of {what} is {'NULL' if value is None else shortened(repr(text))}")
    return int(text)


class _CheckedConnection(_Base):
    """A connection that raises errors of PyMySQL only, also for packets that PyMySQL fails to read."""

    def connect(self, sock: sockets.socket | None = None) -> None:
        with _errors_of_pymysql(_NO_HANDSHAKE):
            super().connect(sock)

    def query(self, sql: Any, unbuffered: bool = False) -> int:
        with _errors_of_pymysql(_MALFORMED):
            return super().query(sql, unbuffered)

    def next_result(self, unbuffered: bool = False) -> int:
        with _errors_of_pymysql(_MALFORMED):
            return super().next_result(unbuffered)


@contextmanager
def _errors_of_pymysql(number: int) -> Iterator[None]:
    """Turns what PyMySQL raises for a malformed packet, which may be anything, into an error with this number."""
    try:
        yield
    except (pymysql.err.Error, RecoveryError):
        raise
    except RuntimeError as error:
        if "LOAD_LOCAL" in str(error):
            raise malformed("it asks for a file of this host, which is not sent") from error
        raise pymysql.err.OperationalError(_NO_PLUGIN, str(error)) from error  # a library for logins is missing
    except Exception as error:
        raise pymysql.err.OperationalError(number, f"its answer is malformed: {error!r}") from error


# --- Servers of the user's own

NO_RIGHT = frozenset({1044, 1142, 1143, 1227, 1370, 1401, 3546})
"""Errors of a user who may not see something."""
_LOST = 2013
BROKEN_ANSWER = pymysql.err.Error
"""What is raised for a connection that fails, or that something else answers."""
_CLIENT_GROUPS = frozenset({"client", "client-server", "client-mariadb"})
_SERVER_GROUPS = frozenset({"mysqld", "mariadbd", "mariadb", "server"})
_TLS_FILES = ("ca", "capath", "cert", "key")
_PORT, _MAX_PORT = re.compile(r"[0-9]{1,5}"), 65_535
_SERVER_USERS = ("mysql", "mariadb")
_CORRECT = "correct the option file"
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
    if not _PORT.fullmatch(port) or int(port) > _MAX_PORT:
        raise UsageError(f"{defaults_file} has port={shortened(port)}, which is no port", _CORRECT)
    host = found.get("host") or "localhost"
    path = str(socket) if socket is not None else found.get("socket") if host == "localhost" else None
    if not path and not found.keys() & {"host", "port"}:
        path = next(filter(os.path.exists, _DEFAULT_SOCKETS), None)
    tls: dict[str, Any] = {name: found[f"ssl_{name}"] for name in (*_TLS_FILES, "cipher") if found.get(f"ssl_{name}")}
    for name in tls.keys() & {*_TLS_FILES}:
        _check_tls_file(f"ssl-{name}", Path(tls[name]))
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
        "server_user": next((one.value for one in options if _names_server_user(one)), None),
    }


def _names_server_user(option: FileOption) -> bool:
    return option.group.partition("-")[0] in _SERVER_GROUPS and base_name(option.name) == "user"


def _check_tls_file(name: str, path: Path) -> None:
    """Raises UsageError for what is no file, such as a pipe, for which the TLS library would wait without an end."""
    is_right = Path.is_dir if name == "ssl-capath" else Path.is_file
    try:
        if not is_right(path):
            raise UsageError(f"{name}={path} is no {'folder' if name == 'ssl-capath' else 'file'}", _CORRECT)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name}={path} cannot be read: {error}", _CORRECT) from error


class _ClearTextRefused:
    """Takes the place of the login plug-ins that send the password to whoever asks for it: as it is, or so weakly
    hashed that it can be computed."""

    def __init__(self, _: Connection[Cursor]) -> None:
        pass

    def authenticate(self, _: object) -> None:
        raise pymysql.err.OperationalError(_NO_PLUGIN, "the server asks for the password in clear text: not sent")


_IN_CLEAR_TEXT = ("mysql_clear_password", "dialog", "mysql_old_password")
_SHA256, _ASKS_FOR_KEY = "sha256_password", (b"\1", b"\2")
"""Packets in which PyMySQL asks for a key to encrypt the password with: anybody has one."""
_PEER = struct.Struct("3i")
_CONNECT_S = 5.0
_MOST_BYTES, _BYTES_PER_READ = 8 << 20, 200
"""Of the answers to one question, where each part of a packet counts as so many more: as much as it takes in memory.
The largest answer is SHOW ENGINE INNODB STATUS, with 1 MiB at most."""


class UserConnection(_CheckedConnection):
    """A connection to a server of the user's own, which may be something else: hostile, broken or hung.

    The time and the size of all answers to one question are limited. Over a socket, the password is sent only to root,
    this user, and the user of the server. Over TCP it leaves this host in clear text, or encrypted for the server, only
    if a certificate has proved whose server it is."""

    _sock: sockets.socket
    _rfile: Any
    _ssl_required: bool
    _auth_plugin_name: str

    def __init__(self, login: Mapping[str, Any], *, answer_s: float) -> None:
        self._answer_s = answer_s
        given = dict(login)
        self._server_user = given.pop("server_user", None)
        self._has_private_peer = False
        self.begin_question()
        super().__init__(
            **given, connect_timeout=min(_CONNECT_S, answer_s), autocommit=True, defer_connect=True,
            auth_plugin_map=dict.fromkeys(_IN_CLEAR_TEXT, _ClearTextRefused),
        )  # fmt: skip
        self.connect()

    def begin_question(self) -> None:
        """Gives the answers that follow their time and their bytes."""
        self._deadline_s, self._bytes_left = time.monotonic() + self._answer_s, _MOST_BYTES

    def connect(self, sock: sockets.socket | None = None) -> None:
        if sock is None and isinstance(self.unix_socket, str):
            sock = self._connected_socket(self.unix_socket)
        super().connect(sock)

    def _connected_socket(self, path: str) -> sockets.socket:
        found = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            found.settimeout(self.connect_timeout)
            found.connect(path)
            self._check_peer(found, path)
        except OSError as error:
            found.close()
            raise pymysql.err.OperationalError(2002, f"can't connect: {error}") from error
        except BaseException:
            found.close()
            raise
        return found

    def _check_peer(self, connected: sockets.socket, path: str) -> None:
        """Raises UsageError if the password would be sent to a user who has nothing to do with the server."""
        sent = connected.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _PEER.size)
        pid, user, _ = _PEER.unpack(sent)
        self._has_private_peer = user in _users_of_servers(self._server_user)
        if self.password and not self._has_private_peer:
            raise UsageError(
                f"{path} belongs to a process of {user_name(user)} ({pid}), who is neither root nor the user of the "
                "server: the password was not sent",
                f"if the server runs as this user, write user={user} in the group [mysqld] of the option file",
            )

    # PyMySQL sends the password in clear text over a connection that is secure, and asks others for a key first.

    @property
    def _secure(self) -> bool:
        context = getattr(self, "ctx", None)
        is_verified = context is not None and context.verify_mode == ssl.CERT_REQUIRED
        return self._has_private_peer or (is_verified and self._ssl_required)

    @_secure.setter
    def _secure(self, _: bool) -> None:
        pass

    def write_packet(self, payload: bytes) -> None:
        if payload in _ASKS_FOR_KEY:
            raise pymysql.err.OperationalError(
                _NO_PLUGIN,
                "the server asks for the password, and no certificate proves whose it is: not sent "
                "(name its socket, or give ssl-ca)",
            )
        super().write_packet(payload)

    def _get_server_information(self) -> None:
        super()._get_server_information()  # type: ignore[misc]
        if self._auth_plugin_name == _SHA256 and not self._secure:
            # PyMySQL would send the password over TLS without a certificate. So the server has to ask for it.
            self._auth_plugin_name = "mysql_native_password"

    def _create_ssl_ctx(self, given: Any) -> ssl.SSLContext:
        try:
            # Without a password, OpenSSL would ask for that of an encrypted key on the terminal.
            found: ssl.SSLContext = super()._create_ssl_ctx({"password": "", **given})  # type: ignore[misc]
        except (OSError, ValueError) as error:
            raise UsageError(f"the TLS files of the option file cannot be used: {error}", _CORRECT) from error
        return found

    def _time_left(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        return left_s

    def _read_bytes(self, count: int) -> bytes:
        self._bytes_left -= count + _BYTES_PER_READ
        found = bytearray()
        try:
            if self._bytes_left < 0:
                raise pymysql.err.OperationalError(
                    _TOO_LARGE, f"its answers have more than {_MOST_BYTES >> 20} MiB, which no answer needs"
                )
            while len(found) < count:
                self._sock.settimeout(self._time_left())
                part = self._rfile.read1(count - len(found))
                if not part:
                    raise pymysql.err.OperationalError(_LOST, "Lost connection to MySQL server during query")
                found += part
        except OSError as error:
            self._force_close()  # type: ignore[attr-defined]
            raise pymysql.err.OperationalError(_LOST, f"Lost connection to MySQL server ({error})") from error
        except BaseException:
            self._force_close()  # type: ignore[attr-defined]
            raise
        return bytes(found)

    def _write_bytes(self, data: bytes) -> None:
        try:
            self._sock.settimeout(self._time_left())
            self._sock.sendall(data)
        except OSError as error:
            self._force_close()  # type: ignore[attr-defined]
            raise pymysql.err.OperationalError(_LOST, f"Lost connection to MySQL server ({error})") from error


def _users_of_servers(named: str | None) -> frozenset[int]:
    """Returns the ids of the users that a server may run as: root, this user, and mysql or the one that is named."""
    found = set(trusted_users())
    for name in _SERVER_USERS if named is None else (named,):
        if name.isascii() and name.isdecimal() and len(name) <= 10:
            found.add(int(name))
        else:
            with contextlib.suppress(KeyError, ValueError):
                found.add(pwd.getpwnam(name).pw_uid)
    return frozenset(found)


def connect_as_user(login: Mapping[str, Any], *, answer_s: float) -> UserConnection:
    """Opens a connection to a server of the user's own. Raises BROKEN_ANSWER, and UsageError where the password is not
    sent."""
    return UserConnection(login, answer_s=answer_s)


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
        {_TOO_LARGE, _MALFORMED}, RecoveryError, "the server at {} does not answer as MySQL or MariaDB does",
        "check that it is one, and that its system tables are sound; proxies and other databases are not supported",
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
    if not isinstance(error, pymysql.err.Error) or not isinstance(number, int):
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
    return _CheckedConnection(
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
    except pymysql.err.Error as error:
        number = error.args[0] if error.args else None
        if number in _NOT_LISTENING:
            return False
        if number in (_NO_HANDSHAKE, _MALFORMED) or isinstance(error, pymysql.err.InternalError):
            raise ServerFailedError(
                f"the server does not answer as it should: {message_of(error)}", "its program may be damaged"
            ) from error
        raise ServerFailedError(
            f"the server refuses its root user: {message_of(error)}", "its data directory was not made by this tool"
        ) from error
    except OSError:
        return False
    finally:
        if connection is not None:
            # An error while closing does not matter.
            with contextlib.suppress(pymysql.err.Error, OSError):
                connection.close()


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
        total += whole_number(scalar(connection, statement, (database,)), "tables")
    return total


def variables(connection: Connection[Cursor], names: Iterable[str]) -> dict[str, str]:
    """Returns the effective values of variables, without those that this server does not know."""
    requested = sorted(set(names))
    if not requested:
        return {}
    marks = ", ".join(["%s"] * len(requested))
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", requested)
        return named_values(cursor.fetchall())


def named_values(rows: Iterable[tuple[object, ...]]) -> dict[str, str]:
    """Returns the rows of SHOW VARIABLES or SHOW STATUS. Raises OperationalError for rows of another shape."""
    found = {}
    for row in rows:
        if len(row) != 2:
            raise malformed(f"a row has {len(row)} columns in place of a name and a value")
        found[str(row[0])] = str(row[1])
    return found
