"""Recorded logs of real servers, and lines that must fool nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.mysqld.error_log import EventKind, classify, is_error, microsecond_stamp

LOGS = sorted((Path(__file__).resolve().parent.parent / "fixtures" / "errorlogs").glob("*.err"))


def kinds(log: Path) -> list[EventKind]:
    events = (classify(line) for line in log.read_text().splitlines())
    return [event.kind for event in events if event is not None]


def test_there_are_logs_of_six_versions_clean_and_crashed() -> None:
    assert len([log for log in LOGS if log.stem.endswith("-clean")]) >= 6
    assert len([log for log in LOGS if log.stem.endswith("-crash")]) >= 6


@pytest.mark.parametrize("log", [log for log in LOGS if log.stem.endswith("-clean")], ids=lambda log: str(log.stem))
def test_a_clean_start_is_ready_once_and_proves_no_crash(log: Path) -> None:
    assert kinds(log) == [EventKind.READY, EventKind.SHUTDOWN]


@pytest.mark.parametrize("log", [log for log in LOGS if log.stem.endswith("-crash")], ids=lambda log: str(log.stem))
def test_a_crash_start_is_proved_before_it_is_ready(log: Path) -> None:
    assert kinds(log) == [EventKind.CRASH_RECOVERY, EventKind.READY, EventKind.SHUTDOWN]


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-20T20:29:15.1Z 0 [System] [MY-011323] [Server] X Plugin ready for connections.",
        "2026-11-20T20:29:15.1Z 0 [Note] X Plugin ready for connections. Socket: '/tmp/mysqlx.sock'",
        "Version: '5.7.22'  socket: '/run/mysqld.sock'  port: 0  MySQL Community Server (GPL)",
        "2026-11-20 20:28:36 77 [Note] /opt/server/bin/mysqld: ready for conn",
        "2026-11-20T20:29:15.3Z 1 [Note] [MY-012532] [InnoDB] Applying a batch of 0 redo log records ...",
        "2026-11-20T20:29:15.3Z 1 [Note] [MY-012535] [InnoDB] Apply batch completed!",
        "2026-11-20 20:28:36 77 [Note] Starting crash recovery...",
        "2026-11-20 20:28:36 77 [Note] Crash recovery finished.",
        "2026-11-20 20:28:36 77 [ERROR] Can't open the mysql.plugin table. Please run mysql_upgrade to create it.",
        "2026-11-20 20:28:36 77 [Warning] unknown variable 'loose_x=1'",
        "2026-11-20 20:28:39 77 [Note] InnoDB: Shutdown completed; log sequence number 1748196",
        "InnoDB: Progress in percent: 1 2 3",
        "",
    ],
)
def test_says_nothing(line: str) -> None:
    assert classify(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-20T20:29:15.1Z 0 [ERROR] [MY-010119] [Server] Aborting",
        "2026-11-20 20:29:15 77 [ERROR] Aborting",
        "2026-11-20 20:29:15 77 [ERROR] /opt/server/bin/mysqld: unknown variable 'nonsense=1'",
        "2026-11-20 20:29:15 77 [ERROR] /opt/server/bin/mysqld: unknown option '--nonsense'",
        "2026-11-20T20:29:15.1Z 0 [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11",
        "InnoDB: Unable to lock ./ibdata1, error: 11",
        "2026-11-20 20:29:15 0 [ERROR] mariadbd: Can't lock aria control file '/d/aria_log_control' for exclusive use",
        "2026-11-20 20:29:15 77 [ERROR] Fatal error: Can't open and lock privilege tables: 'mysql.user'",
        "20:29:15 UTC - mysqld got signal 11 ;",
        "261120 20:29:15 [ERROR] mysqld got signal 6 ;",
        "2026-11-20 20:29:15 77 [ERROR] Can't start server : Bind on unix socket: No such file or directory",
        "/opt/server/bin/mysqld: error while loading shared libraries: libaio.so.1: cannot open shared object file",
    ],
)
def test_ends_a_start(line: str) -> None:
    event = classify(line)
    assert event is not None
    assert event.kind is EventKind.FAILURE


def test_ready_is_known_from_its_first_line_alone_in_every_generation() -> None:
    for line in (
        "2026-11-20T20:29:15.4Z 0 [System] [MY-010931] [Server] /x/mysqld: ready for connections. Version: '9.7.4'",
        "261120 20:28:37 [Note] ./mysqld: ready for connections.",
        "2026-11-20  9:28:37 140509477750592 [Note] /with space/mysqld: ready for connections.",
    ):
        event = classify(line)
        assert event is not None, line
        assert event.kind is EventKind.READY


def test_stamps_in_microseconds_only() -> None:
    assert microsecond_stamp("1970-01-01T00:00:01.500000Z 0 [Note] x") == 1.5
    assert microsecond_stamp("1970-01-01T02:00:01.500000+02:00 0 [Note] x") == 1.5
    assert microsecond_stamp("2026-11-20 20:28:37 77 [Note] x") is None
    assert microsecond_stamp("2026-13-20T20:28:37.000000Z 0 [Note] x") is None
    assert microsecond_stamp("Version: '5.7.22'") is None


def test_errors_of_any_weight() -> None:
    assert is_error("2026-11-20 20:29:15 77 [ERROR] Can't open the mysql.plugin table.")
    assert not is_error("2026-11-20 20:29:15 77 [Warning] x")
