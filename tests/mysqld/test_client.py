"""A login is read from an option file as clients read it, and each error of a server is told with what to do."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest

from recovery.errors import RecoveryError, UsageError
from recovery.mysqld import client
from recovery.mysqld.client import NotAnsweringError, explain, read_login


def test_a_login_is_read_as_clients_read_it(tmp_path: Path) -> None:
    """With includes, options without a value, twice and with prefixes, and bytes that are not UTF-8."""
    (tmp_path / "conf.d").mkdir()
    file, ca = tmp_path / "my.cnf", tmp_path / "ca.pem"
    ca.touch()
    file.write_bytes(
        b"# Caf\xe9\n[client]\nuser=first\nUser = seer\nloose_ssl-ca=" + bytes(ca) + b"\nskip-name-resolve\n"
        b"password='p#\xc3\xa4' # x\n"
        b"port=3307\n[mysqld]\nuser=mysql\nuser=mysql\n[client]\n!includedir " + bytes(tmp_path / "conf.d") + b"\n"
    )
    (tmp_path / "conf.d/socket.cnf").write_text("[client-server]\nsocket=/run/s\n")
    login = read_login(None, file)
    assert login == {
        "unix_socket": "/run/s", "host": "localhost", "port": 3307, "user": "seer", "password": "p#ä".encode(),
        "ssl": {"ca": str(ca), "check_hostname": False}, "ssl_disabled": False, "server_user": "mysql",
    }  # fmt: skip
    assert read_login(Path("/other"), file)["unix_socket"] == "/other"


def test_the_socket_of_a_file_is_not_that_of_another_host(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("[client-server]\nsocket=/run/s\n[client]\nhost=db1\n")
    assert (read_login(None, file)["unix_socket"], read_login(None, file)["host"]) == (None, "db1")


def test_without_host_and_socket_it_is_the_socket_that_clients_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, there = tmp_path / "my.cnf", tmp_path / "s"
    file.write_text("[client]\nuser=seer\n")
    monkeypatch.setattr(client, "_DEFAULT_SOCKETS", (str(tmp_path / "none"), str(there)))
    assert read_login(None, file)["unix_socket"] is None
    there.touch()
    assert (read_login(None, file)["unix_socket"], read_login(None, file)["ssl_disabled"]) == (str(there), True)


def test_a_login_needs_no_file() -> None:
    assert read_login(Path("/run/s"), None) == {
        "unix_socket": "/run/s", "host": "localhost", "port": 0, "user": None, "password": b"", "ssl": None,
        "ssl_disabled": True, "server_user": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("number", "kind", "what"),
    [
        (1045, UsageError, "the login failed"),
        (1227, UsageError, "the user lacks a privilege"),
        (1142, UsageError, "the user lacks a privilege"),
        (1146, RecoveryError, "lacks a table, a variable or a statement"),
        (1193, RecoveryError, "lacks a table, a variable or a statement"),
        (1040, NotAnsweringError, "takes no further connection"),
        (2003, NotAnsweringError, "no MySQL or MariaDB server answers at /run/s"),
        (2013, NotAnsweringError, "no MySQL or MariaDB server answers at /run/s"),
        (1053, NotAnsweringError, "no MySQL or MariaDB server answers at /run/s"),
        (1030, RecoveryError, "answers with an error"),
    ],
)
def test_each_error_of_a_server_is_told_with_what_to_do(number: int, kind: type[RecoveryError], what: str) -> None:
    found = explain(pymysql.err.OperationalError(number, "Words\nof the server"), "/run/s")
    assert type(found) is kind
    assert what in found.message
    assert found.message.endswith(f": Words of the server ({number})")
    assert found.hint


def test_a_server_that_takes_too_long_is_there() -> None:
    error = pymysql.err.OperationalError(2013, "Lost connection (timed out)")
    error.__context__ = TimeoutError()
    assert "takes a connection, but does not answer in time" in explain(error, "/run/s").message


@pytest.mark.parametrize("error", [OSError(5, "I/O"), pymysql.err.InterfaceError(0, ""), pymysql.err.Error("closed")])
def test_an_error_without_a_number_is_no_answer(error: Exception) -> None:
    assert type(explain(error, "/run/s")) is NotAnsweringError
