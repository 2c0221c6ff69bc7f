"""The redo that a start has to read, from the log files, is what the server itself then says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from datadirs import made_by, server_on

from recovery.builds.resolve import Sources, resolve_server
from recovery.mysqld.redo_log import redo_span
from recovery.mysqld.server import Server

pytestmark = pytest.mark.real

FIRST_LINES = (r"checkpoint_lsn = (\d+)", r"past the checkpoint lsn (\d+)", r"from checkpoint LSN=(\d+)")
LAST_LINES = (
    r"End of log at LSN=(\d+)", r"scanned up to log sequence number (\d+)", r"started; log sequence number (\d+)",
)  # fmt: skip
ROWS = 300


def number_in(log: str, spellings: tuple[str, ...]) -> int | None:
    """The number in the last line that has one of the spellings, the first of which is the best."""
    found = (re.findall(spelling, log) for spelling in spellings)
    return next((int(numbers[-1]) for numbers in found if numbers), None)


def insert(server: Server, *, table: str, row_bytes: int) -> None:
    with server.session() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS redo")
        cursor.execute(f"CREATE TABLE redo.{table} (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB) ENGINE=InnoDB")
        for number in range(ROWS):
            cursor.execute(f"INSERT INTO redo.{table} (b) VALUES (REPEAT(CHAR(%s), %s))", (number % 256, row_bytes))
        cursor.execute(f"UPDATE redo.{table} SET b = CONCAT(b, 'x')")


@pytest.mark.parametrize(
    "version", ["5.6.24", "5.7.22", "8.0.15", "8.0.31", "mariadb-10.2.11", "mariadb-10.11.5", "mariadb-11.4.5"]
)
def test_the_span_of_redo_is_that_which_the_server_reads(version: str, tmp_path: Path) -> None:
    build = resolve_server(version, Sources(), lambda _: None)
    data = made_by(build, tmp_path)
    with server_on(build, data, tmp_path / "logs") as server:
        for number, row_bytes in enumerate((20, 12_000)):  # small rows, and rows that need pages of their own
            server.start()
            insert(server, table=f"t{number}", row_bytes=row_bytes)
            server.kill()
            span = redo_span(data)
            assert span is not None
            startup = server.start()
            log = server.process.launch.log.read_text()
            assert (span.checkpoint_lsn, span.end_lsn) == (number_in(log, FIRST_LINES), number_in(log, LAST_LINES))
            assert startup.metrics["redo_bytes"] == span.bytes > ROWS * row_bytes
            server.stop()
        clean = redo_span(data)
        assert clean is not None
        assert clean.bytes <= 16, "the record of the checkpoint itself"
        assert server.start().metrics["redo_bytes"] == clean.bytes
