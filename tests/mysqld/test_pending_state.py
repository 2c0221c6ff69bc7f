"""What is pending in a server is read with few rights, of every flavor, and what comes after a start is named. The
connections are made up; real servers are asked in tests/real."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self, cast

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from recovery.analysis.crash_estimate import ServerState
from recovery.errors import RecoveryError, UsageError
from recovery.model import parse_version
from recovery.mysqld.pending_state import StateReader, unread_dirty_pages

STATUS = "LOG\n---\nLog sequence number          5000\nLast checkpoint at           4200\n"
NO_PROCESS = pymysql.err.OperationalError(1227, "Access denied; you need the PROCESS privilege")
ANSWERS: Mapping[str, Any] = {
    r"show global variables": [
        ("version", "8.0.31"), ("innodb_buffer_pool_size", "1000000"), ("log_bin", "OFF"), ("read_only", "OFF"),
    ],
    r".*innodb_tablespaces": [(7,)],
    r".*innodb_trx": [(0, 0, 0, 0, 0, 0)],
    r".*innodb_buffer_page": [(100, 30, 70, 35)],
    r"show engine innodb status": [("InnoDB", "", STATUS)],
    r"show global status": [("Innodb_buffer_pool_pages_dirty", "100")],
    r"show (replica|all slaves) status": [],
}  # fmt: skip


class FakeCursor:
    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers, self._rows = answers, list[tuple[object, ...]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, statement: str, _: object = ()) -> None:
        text = " ".join(statement.lower().split())
        found = next((rows for pattern, rows in self._answers.items() if re.match(pattern, text)), None)
        if found is None:
            raise pymysql.err.ProgrammingError(1064, f"You have an error: {text}")
        if isinstance(found, Exception):
            raise found
        self._rows = list(found)

    def fetchone(self) -> tuple[object, ...] | None:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[tuple[object, ...]]:
        return self._rows


class FakeConnection:
    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def cursor(self) -> FakeCursor:
        return FakeCursor(self._answers)


def read(changes: Mapping[str, Any] | None = None, **variables: str) -> ServerState:
    """What is read from a server that differs in these answers and variables."""
    changes = changes or {}
    answers = {**changes, **ANSWERS, **changes}  # the first pattern that matches counts
    answers["show global variables"] = [*answers["show global variables"], *variables.items()]
    reader = StateReader(cast("Connection[Cursor]", FakeConnection(answers)))
    reader.begin()
    return reader.read(2000.0)


@pytest.mark.parametrize(
    ("version", "kind", "text"),
    [
        ("mariadb-10.11.5", "undo logs", "UNDO_LOG"), ("mariadb-10.2.11", "temporary tables", "4294967294"),
        ("8.0.31", "temporary tables", "4294967293"), ("5.7.22", "temporary tables", "innodb_temporary"),
    ],
)  # fmt: skip
def test_dirty_pages_that_no_start_reads_have_their_own_tablespace_or_type(version: str, kind: str, text: str) -> None:
    found, query = unread_dirty_pages(parse_version(version))
    assert found == kind
    assert text in query


@pytest.mark.parametrize(
    ("variables", "together"),
    [
        ({}, 8), ({"innodb_flush_method": "fsync"}, 8), ({"innodb_flush_method": "O_DIRECT_NO_FSYNC"}, 1),
        ({"innodb_data_file_buffering": "OFF"}, 1), ({"innodb_page_size": "4096"}, 32),
    ],
)  # fmt: skip
def test_neighbouring_pages_are_read_together_through_the_page_cache(variables: dict[str, str], together: int) -> None:
    asked = {rf".*page_number div {together}\b.*innodb_buffer_page": [(100, 30, 70, 35)]}
    state = read(asked, **variables)
    assert (state.dirty_pages, state.read_share) == (70, 0.5)


def test_which_pages_are_neighbours_is_not_known_of_a_large_pool() -> None:
    pool = str(20 << 30)
    assert read(innodb_buffer_pool_size=pool).read_share is None
    assert read(innodb_buffer_pool_size=pool, innodb_flush_method="O_DIRECT").read_share == 1.0


def test_pages_that_were_written_since_the_checkpoint_are_read_again() -> None:
    asked = {r".*newest_modification > 4200.*": [(100, 30, 210, 210)]}
    assert read(asked, innodb_flush_method="O_DIRECT").read_share == 3.0


@pytest.mark.parametrize(("created", "rows", "share"), [(0, 0, 1.0), (120, 0, 0.5), (5000, 0, 0.1), (120, 9, 1.5)])
def test_mariadb_does_not_read_what_it_makes_anew_but_the_undo_logs_of_a_rollback(
    created: int, rows: int, share: float
) -> None:
    """Of 160 pages with redo 80 are of undo logs, and half of all redo was written since the checkpoint."""
    status = (("Innodb_buffer_pool_pages_dirty", "160"), ("Innodb_pages_created", f"{2 * created}"))
    answers = {
        r".*innodb_sys_tablespaces": [(3,)],
        r".*innodb_buffer_page": [(160, 80, 80, 80)],
        r".*innodb_trx": [(1, rows, 0, 0, 0, 0)],
        "show global status": [*status, ("Innodb_os_log_written", "1600")],
    }
    state = read(answers, version="10.11.5-MariaDB", innodb_flush_method="O_DIRECT")
    assert (state.dirty_pages, state.read_share) == (80, share)


def test_pages_of_temporary_tables_do_not_count() -> None:
    state = read()
    assert (state.dirty_pages, state.files, state.pool_bytes, state.tls_library) == (70, 7, 1000000, "")
    assert (state.redo_bytes, state.reads_per_s, state.notes) == (800, 2000.0, ())


@pytest.mark.parametrize(
    ("version", "files"),
    [
        ("10.11.5-MariaDB", 3), ("10.11.7-MariaDB", 0), ("10.11.18-MariaDB", 0), ("11.2.6-MariaDB", 3),
        ("11.4.5-MariaDB", 0),
    ],
)  # fmt: skip
def test_files_that_a_start_does_not_open_do_not_count(version: str, files: int) -> None:
    assert read({r".*innodb_sys_tablespaces": [(3,)]}, version=version).files == files


def test_undo_logs_of_mariadb_do_not_count() -> None:
    old = {r".*innodb_sys_tablespaces": [(3,)]}
    state = read(old, version="10.11.5-MariaDB")
    assert (state.dirty_pages, state.files, state.notes) == (70, 3, ())
    hidden = read({**old, r".*innodb_buffer_page": NO_PROCESS}, version="10.11.5-MariaDB")
    assert (hidden.dirty_pages, len(hidden.notes)) == (100, 1)
    assert "undo logs are counted" in hidden.notes[0]


def test_a_large_pool_is_not_listed() -> None:
    state = read({r".*innodb_buffer_page": NO_PROCESS}, innodb_buffer_pool_size=str(20 << 30))
    assert state.dirty_pages == 100
    assert [note for note in state.notes if "temporary tables are counted" in note]


def test_without_a_right_the_rest_is_read_and_what_is_missing_is_named() -> None:
    seen = ("show global variables", "show global status")
    state = read({statement: NO_PROCESS for statement in ANSWERS if statement not in seen})
    assert (state.dirty_pages, state.files, state.redo_bytes, state.uncommitted_rows) == (100, None, None, None)
    missing, temporary, replica = state.notes
    assert missing == "this user lacks the privilege PROCESS, so that these are left out: files, redo, transactions"
    assert "temporary tables are counted" in temporary
    assert "REPLICATION CLIENT" in replica


@pytest.mark.parametrize(("log_bin", "opened", "prepared"), [("ON", 600, 400), ("OFF", 1000, 0)])
def test_a_commit_under_way_is_prepared_only_with_a_binary_log(log_bin: str, opened: int, prepared: int) -> None:
    state = read({r".*innodb_trx": [(2, 1000, 1, 400, 0, 0)]}, log_bin=log_bin)
    assert (state.uncommitted_rows, state.prepared_rows) == (opened, prepared)
    assert state.transactions == (1 if log_bin == "ON" else 2)
    assert [note for note in state.notes if "newest file" in note] == list(state.notes)
    assert len(state.notes) == (log_bin == "ON")


def test_transactions_after_xa_prepare_are_not_rolled_back() -> None:
    """Those of clients that are still connected and those of clients that have left look alike in this status."""
    listed = STATUS + "---TRANSACTION 7, ACTIVE 9 sec\n---TRANSACTION 5, ACTIVE (PREPARED) 3 sec recovered trx\n"
    state = read(
        {
            "show engine innodb status": [("InnoDB", "", listed)],
            r".*trx_query is null and trx_id in \(0, 5\).*innodb_trx": [(2, 1000, 0, 0, 1, 300)],
        }
    )
    assert (state.transactions, state.uncommitted_rows) == (1, 700)
    assert state.notes == (
        "1 transaction after XA PREPARE: their rows, 300, stay locked until XA COMMIT or XA ROLLBACK",
    )


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"wsrep_on": "ON", "wsrep_cluster_address": "gcomm://a,b"}, "Galera"),
        ({"group_replication_group_name": "3e11fa47"}, "replication group"),
        ({"super_read_only": "ON"}, "read-only"),
        ({"innodb_read_only": "ON"}, "read-only"),
    ],
)
def test_what_comes_after_the_start_is_named(variables: dict[str, str], words: str) -> None:
    (note,) = read(None, **variables).notes
    assert words in note


@pytest.mark.parametrize(
    ("statement", "version"),
    [
        ("show replica status", "8.0.31"), ("show slave status", "5.7.22"),
        ("show all slaves status", "10.11.5-MariaDB"),
    ],
)  # fmt: skip
def test_a_replica_is_named_in_any_dialect(statement: str, version: str) -> None:
    syntax = pymysql.err.ProgrammingError(1064, "syntax")
    answers = {r".*innodb_(sys_)?tablespaces": [(3,)], "show replica status": syntax, statement: [("Waiting",)]}
    answers["show (replica|all slaves) status"] = syntax
    (note,) = read(answers, version=version).notes
    assert "it is a replica" in note


def test_the_right_to_see_a_replica_has_its_name_in_this_flavor() -> None:
    old = {r".*innodb_sys_tablespaces": [(3,)], "show (replica|all slaves) status": NO_PROCESS}
    (note,) = read(old, version="10.11.5-MariaDB").notes
    assert "SLAVE MONITOR" in note


_STATUS = "Log sequence number {}\nLast checkpoint at {}\n"


def test_a_checkpoint_may_be_written_between_two_looks() -> None:
    assert read({"show engine innodb status": [("InnoDB", "", _STATUS.format(5000, 5100))]}).redo_bytes == 0


def test_a_server_without_a_redo_log_is_refused() -> None:
    off = [("Innodb_buffer_pool_pages_dirty", "1"), ("Innodb_redo_log_enabled", "OFF")]
    with pytest.raises(UsageError, match="would not start again"):
        read({"show global status": off})


def test_dirty_pages_that_are_not_shown_are_not_none() -> None:
    with pytest.raises(RecoveryError, match="does not say how many dirty pages"):
        read({"show global status": []})


def test_another_server_is_refused() -> None:
    with pytest.raises(UsageError, match="not one of MySQL or MariaDB"):
        read(version="TiDB")


@pytest.mark.parametrize(
    ("changes", "variables", "said"),
    [
        (
            {r"show engine innodb status": [("InnoDB", "", _STATUS.format(5000, 5001 + (1 << 20)))]}, {},
            "its last checkpoint, 1053577, is after the end of its redo log, 5000",
        ),
        (
            {r".*innodb_buffer_page": [(30, 31, 0, 0)]}, {},
            "31 of its 30 listed dirty pages are not read, and 0 with redo in 0 reads",
        ),
        (
            {r".*innodb_buffer_page": [(130, 30, 100, 101)]}, {},
            "30 of its 130 listed dirty pages are not read, and 100 with redo in 101 reads",
        ),
        ({r".*innodb_trx": [(2, 10, 1, 6, 1, 5)]}, {}, "11 of its 10 uncommitted rows are of prepared transactions"),
        ({}, {"innodb_page_size": "0"}, "its pages have 0 bytes"),
        ({r".*innodb_tablespaces": [(7, 7)]}, {}, "it answers with a row of 2 columns, in place of 1 column"),
        ({r".*innodb_trx": []}, {}, "it answers with no row, in place of 6 columns"),
    ],
)  # fmt: skip
def test_what_no_server_has_is_an_error_and_no_smaller_figure(
    changes: Mapping[str, Any], variables: dict[str, str], said: str
) -> None:
    with pytest.raises(pymysql.err.OperationalError) as raised:
        read(changes, **variables)
    assert raised.value.args[1] == said
