"""Real servers: made, started, killed, recovered, stopped; and starts that fail."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from datadirs import empty_datadir, made_by, server_on, shared_empty_datadir

from recovery.errors import RecoveryError, ServerFailedError
from recovery.model import Build, can
from recovery.mysqld.client import count_tables, scalar
from recovery.mysqld.launcher import Exit
from recovery.mysqld.options import build_settings, merge
from recovery.mysqld.server import Server

pytestmark = pytest.mark.real
LARGE = pytest.mark.on_demand("large")
TABLES = 20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Build, Path]:
    """One version is enough for tests of the process."""
    return shared_empty_datadir("5.7.22", tmp_path_factory)


@pytest.fixture
def server(made: tuple[Build, Path], tmp_path: Path) -> Iterator[Server]:
    with server_on(*made, tmp_path) as server:
        yield server


# Whole recoveries go through every version of the catalog.
@pytest.mark.parametrize(
    "version", ["5.7.22", *(pytest.param(one, marks=LARGE) for one in ("5.6.24", "8.0.31", "mariadb-10.2.11"))]
)
def test_killed_and_recovered_with_every_row(version: str, tmp_path: Path) -> None:
    build, datadir = empty_datadir(version, tmp_path)
    with server_on(build, datadir, tmp_path / "logs") as server:
        first = server.start(settings=merge(build_settings(build.version)))
        assert first.startup.crash_proof is None
        connection = server.connect()
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE discovery")
            for number in range(TABLES):
                cursor.execute(f"CREATE TABLE discovery.table_{number} (id INT PRIMARY KEY) ENGINE=InnoDB")
        assert count_tables(connection, ("discovery",)) == TABLES
        connection.close()
        server.stop()

        assert server.start().startup.crash_proof is None, "the redo log is made anew, and that is no recovery"
        connection = server.connect()
        with connection.cursor() as cursor:
            for number in range(TABLES):
                cursor.execute(f"INSERT INTO discovery.table_{number} VALUES ({number})")
        assert server.kill().signal == signal.SIGKILL
        assert not server.alive

        crashed = server.start()
        assert crashed.startup.crash_proof is not None
        assert 0 < crashed.metrics["startup_s"] <= crashed.metrics["first_query_s"]
        if can(build.version, "microsecond_stamps"):
            assert crashed.startup.ready_lag_s is not None
            assert crashed.startup.ready_lag_s >= 0, "how little it is on a quiet host, whole recoveries show"
        else:
            assert crashed.startup.ready_lag_s is None
        connection = server.connect()
        found = [scalar(connection, f"SELECT id FROM discovery.table_{number}") for number in range(TABLES)]
        connection.close()
        assert found == list(range(TABLES))
        asked = server.variables(["performance_schema", "innodb_doublewrite", "tmpdir", "no_such_variable"])
        assert asked["performance_schema"] == "OFF"
        assert asked["innodb_doublewrite"] == "ON", "the build's settings are gone"
        assert "no_such_variable" not in asked
        assert server.stop().code == 0
        assert server.start().startup.crash_proof is None


@pytest.mark.parametrize("version", ["5.6.24", "8.0.31", "mariadb-10.11.5"])
def test_an_unknown_option_ends_the_start_with_the_reason(
    version: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with server_on(*shared_empty_datadir(version, tmp_path_factory), tmp_path) as server:
        with pytest.raises(ServerFailedError, match="unknown variable 'nonsense=1'") as caught:
            server.start(settings={"nonsense": "1"})
        assert caught.value.log_tail
        assert not server.alive


def test_killed_from_outside_while_it_starts(server: Server) -> None:
    server.on_line = lambda _line: os.kill(server.process.pid, signal.SIGKILL) if server.alive else None
    with pytest.raises(ServerFailedError, match="signal 9 from outside"):
        server.start()
    server.on_line = None
    server.start()
    server.stop()


def test_a_server_that_hangs_is_given_up(made: tuple[Build, Path], tmp_path: Path) -> None:
    with server_on(*made, tmp_path) as server:
        server.config = replace(server.config, stall_s=1.0)
        server.on_line = lambda _line: os.kill(server.process.pid, signal.SIGSTOP) if server.alive else None
        with pytest.raises(ServerFailedError, match="hangs"):
            server.start()
        assert not server.alive


def test_a_server_that_hangs_during_a_query_is_given_up(made: tuple[Build, Path], tmp_path: Path) -> None:
    with server_on(*made, tmp_path) as server:
        server.start()
        server.config = replace(server.config, stall_s=1.0)
        os.kill(server.process.pid, signal.SIGSTOP)
        with pytest.raises(ServerFailedError, match=r"hangs: nothing moved for \d+ s"):
            server.variables(["port"])
    assert not server.alive


def test_two_servers_on_one_data_directory(server: Server, made: tuple[Build, Path], tmp_path: Path) -> None:
    server.start()
    with server_on(*made, tmp_path / "second") as second, pytest.raises(ServerFailedError, match="Unable to lock"):
        second.start()
    assert server.alive, "the first one was not harmed"
    server.stop()


@pytest.mark.parametrize(("end", "about_to_be"), [(Server.kill, "killed"), (Server.stop, "stopped")])
def test_a_server_that_died_before_is_not_taken_for_ended_by_us(
    end: Callable[[Server], Exit], about_to_be: str, server: Server
) -> None:
    server.start()
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait(60)
    with pytest.raises(ServerFailedError, match=f"already ended before it was {about_to_be}"):
        end(server)


def test_closing_leaves_no_process_and_no_folder(made: tuple[Build, Path], tmp_path: Path) -> None:
    with server_on(*made, tmp_path) as server:
        server.start()
        pid, rundir = server.process.pid, server.socket.parent
        thread = threading.Timer(0, server.close)
        thread.start()
        thread.join()
    assert not Path(f"/proc/{pid}").exists()
    assert not rundir.exists()


def test_a_folder_with_something_in_it_is_not_initialised(made: tuple[Build, Path], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").touch()
    with pytest.raises(RecoveryError, match="not empty"):
        made_by(made[0], tmp_path)
