"""The error log: single lines, a log that grows, the phases of one start, and all starts in the log of another host."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import select
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fuzzing.errorlog import in_order
from hypothesis import given
from hypothesis import strategies as st

from recovery.cli.analyze import advice_lines, log_answer
from recovery.errors import UsageError
from recovery.logs import log_tail
from recovery.logs.error_log import (
    EventKind,
    StartErrors,
    classify,
    is_error,
    log_counters,
    microsecond_stamp,
    milestone_of,
    progress_of,
)
from recovery.logs.log_analysis import LoggedStart, starts_in
from recovery.logs.log_tail import LogTail, last_lines
from recovery.logs.phases import PhaseTracker, with_first_query
from recovery.logs.timestamps import parse_stamp
from recovery.model import parse_version
from recovery.phase_table import named_share, seconds_by_name

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "errorlogs"
TEXTS = {log.stem: log.read_bytes() for log in sorted(LOGS.glob("*.err"))}


# -- single lines


def test_logs_of_six_versions_are_recorded() -> None:
    assert all(sum(name.endswith(kind) for name in TEXTS) >= 6 for kind in ("-clean", "-crash"))


@pytest.mark.parametrize("name", TEXTS)
def test_a_start_is_ready_once_and_proves_a_crash_before(name: str) -> None:
    events = [event.kind for line in TEXTS[name].decode().splitlines() if (event := classify(line)) is not None]
    proof = [EventKind.CRASH_RECOVERY] if name.endswith("-crash") else []
    assert events == [*proof, EventKind.READY, EventKind.SHUTDOWN]


OLD, NEW = "2026-11-20 20:28:36 77", "2026-11-20T20:29:15.1Z"
"""How lines begin: of 5.6, and of later servers."""


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (None, f"{NEW} 0 [System] [MY-011323] [Server] X Plugin ready for connections."),
        (None, f"{NEW} 0 [Note] X Plugin ready for connections. Socket: '/tmp/mysqlx.sock'"),
        (None, "Version: '5.7.22'  socket: '/run/mysqld.sock'  port: 0  MySQL Community Server (GPL)"),
        (None, f"{OLD} [Note] /opt/server/bin/mysqld: ready for conn"),
        (None, f"{NEW} 1 [Note] [MY-012532] [InnoDB] Applying a batch of 0 redo log records ..."),
        (None, f"{NEW} 1 [Note] [MY-012535] [InnoDB] Apply batch completed!"),
        (None, f"{OLD} [Note] Starting crash recovery..."),
        (None, f"{OLD} [Note] Crash recovery finished."),
        (None, f"{OLD} [ERROR] Can't open the mysql.plugin table. Please run mysql_upgrade to create it."),
        (None, f"{OLD} [Warning] unknown variable 'loose_x=1'"),
        (None, f"{OLD} [Note] InnoDB: Shutdown completed; log sequence number 1748196"),
        (None, "InnoDB: Progress in percent: 1 2 3"),
        (None, ""),
        (EventKind.FAILURE, f"{NEW} 0 [ERROR] [MY-010119] [Server] Aborting"),
        (EventKind.FAILURE, f"{OLD} [ERROR] Aborting"),
        (EventKind.FAILURE, f"{OLD} [ERROR] /opt/server/bin/mysqld: unknown variable 'nonsense=1'"),
        (EventKind.FAILURE, f"{OLD} [ERROR] /opt/server/bin/mysqld: unknown option '--nonsense'"),
        (EventKind.FAILURE, f"{NEW} 0 [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11"),
        (EventKind.FAILURE, "InnoDB: Unable to lock ./ibdata1, error: 11"),
        (EventKind.FAILURE, f"{OLD} [ERROR] mariadbd: Can't lock aria control file '/d/aria_log' for exclusive use"),
        (EventKind.FAILURE, f"{OLD} [ERROR] Fatal error: Can't open and lock privilege tables: 'mysql.user'"),
        (EventKind.FAILURE, "20:29:15 UTC - mysqld got signal 11 ;"),
        (EventKind.FAILURE, "261120 20:29:15 [ERROR] mysqld got signal 6 ;"),
        (EventKind.FAILURE, f"{OLD} [ERROR] Can't start server : Bind on unix socket: No such file or directory"),
        (
            EventKind.FAILURE,
            "/opt/server/bin/mysqld: error while loading shared libraries: libaio.so.1: cannot open shared object file",
        ),
        (EventKind.READY, f"{NEW} 0 [System] [MY-010931] [Server] /x/mysqld: ready for connections. Version: '9.7.4'"),
        (EventKind.READY, "261120 20:28:37 [Note] ./mysqld: ready for connections."),
        (EventKind.READY, "2026-11-20  9:28:37 140509477750592 [Note] /with space/mysqld: ready for connections."),
    ],
)
def test_the_meaning_of_a_line(kind: EventKind | None, line: str) -> None:
    """None: the line neither ends a start nor proves its kind."""
    event = classify(line)
    assert (None if event is None else event.kind) is kind


@pytest.mark.parametrize(
    ("line", "seconds", "whole"),
    [
        ("1970-01-01T00:00:01.500000Z 0 [Note] x", 1.5, False),
        ("1970-01-01T02:00:01.500000+02:00 0 [Note] x", 1.5, False),
        ("1970-01-01  0:00:01 77 [Note] x", 1.0, True),
        ("db-1  | 1970-01-01 00:00:01 0 [Note] x", 1.0, True),
        ("000101  0:00:00 [Note] x", 946684800.0, True),
        ("2026-13-20T20:28:37.000000Z 0 [Note] x", None, True),
        ("InnoDB: Apply batch completed", None, True),
    ],
)
def test_time_stamps(line: str, seconds: float | None, whole: bool) -> None:
    stamp = parse_stamp(line)
    assert (None if stamp is None else stamp.at_s) == seconds
    assert stamp is None or stamp.whole is whole
    assert microsecond_stamp(line) == (None if whole else seconds)


def test_errors_of_any_severity() -> None:
    assert is_error("2026-11-20 20:29:15 77 [ERROR] Can't open the mysql.plugin table.")
    assert not is_error("2026-11-20 20:29:15 77 [Warning] x")


@pytest.mark.parametrize(
    ("line", "counters"),
    [
        ("[MY-012207] [InnoDB] Using 17 threads to scan 324780 tablespace files", {"scan_threads": 17}),
        (
            "[InnoDB] Scanned 26 tablespaces. Validated 25.",
            {"tablespaces_in_dictionary": 26, "tablespaces_validated": 25},
        ),
        ("[InnoDB] 8threads have validated 622649 out of 1000006 tablespaces so far.", {"validation_threads": 8}),
        # To look for a number in a line of nothing but digits would take minutes.
        ("1" * 60_000 + " threads have validated 1 out of 2", {}),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:40],
)
def test_counters(line: str, counters: dict[str, int]) -> None:
    assert dict(log_counters(line)) == counters


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        ("[InnoDB] Thread# 0 - Checked 15615/20298 files", "Checked 15615/20298"),
        ("[InnoDB] Validated 2 out of 10 tablespaces so far.", "Validated 2 out of 10"),
        ("InnoDB: Progress in percent: 1 2 3", "3 %"),
        ("InnoDB: Progress in percents: 0 1 2 3 050908 14:01:09 InnoDB: Error: page 42497", "3 %"),
        ("InnoDB: Progress in percents: 12 13 142022-10-31T14:49:27.850056Z 0 [System] x", "13 %"),
        ("InnoDB: x", None),
        ("recovered pages: 0% 10% 20% 31%", "31 %"),
    ],
)
def test_progress(line: str, progress: str | None) -> None:
    assert progress_of(line) == progress


# -- a log that grows


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").touch()
    return tmp_path / "log"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def read(tail: LogTail) -> list[tuple[str, bool]]:
    return [(line.text, line.complete) for line in tail.read()]


@pytest.mark.parametrize(
    ("writes", "reads"),
    [
        ([b"one\ntwo\n", b""], [[("one", True), ("two", True)], []]),
        (
            [b"percent: 1", b"", b" 2", b"\nnext\n"],
            [[("percent: 1", False)], [], [("percent: 1 2", False)], [("percent: 1 2", True), ("next", True)]],
        ),
        ([b"\xff\xfe bad\r\n"], [[("\ufffd\ufffd bad", True)]]),
        (
            [codecs.BOM_UTF16_LE + "a\r\nb\r\n".encode("utf-16-le"), b"c\0"],
            [[("a", True), ("b", True)], [("c", False)]],
        ),
        (
            [codecs.BOM_UTF16_BE + "a\r\nb\r\n".encode("utf-16-be"), b"\0c"],
            [[("a", True), ("b", True)], [("c", False)]],
        ),
        ([b"gr\xc3", b"\xbc\n"], [[("gr\ufffd", False)], [("gr\u00fc", True)]]),
        ([b"x" * (1 << 18), b""], [[("x" * (1 << 18), False)], []]),
    ],
    ids=[
        "lines",
        "partial line",
        "no text",
        "UTF-16",
        "other UTF-16",
        "half a character",
        "partial line at the end of a piece",
    ],
)
def test_new_text_is_read_once(log: Path, writes: list[bytes], reads: list[list[tuple[str, bool]]]) -> None:
    append(log, writes[0])
    with LogTail(log) as tail:
        found = [read(tail)]
        for data in writes[1:]:
            append(log, data)
            found.append(read(tail))
    assert found == reads


def test_the_descriptor_polls_readable_when_the_log_grows(log: Path) -> None:
    with LogTail(log) as tail:
        poller = select.poll()
        poller.register(tail.fd, select.POLLIN)
        assert poller.poll(0) == []
        append(log, b"x\n")
        assert poller.poll(1000)
        tail.read()
        assert poller.poll(0) == []


def test_a_large_log_is_read_once_and_in_pieces(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_tail, "_MAX_CHUNKS", 2)
    append(log, b"a line of forty characters, more or less\n" * 30_000)
    with LogTail(log) as tail:
        pieces = [len(tail.read())]
        while tail.behind:
            pieces.append(len(tail.read()))
        assert sum(pieces) == 30_000
        assert max(pieces) < 15_000
        append(log, b"last\n")
        before = tail.bytes_read
        assert read(tail) == [("last", True)]
        assert tail.bytes_read - before == 5


def test_a_line_without_end_does_not_fill_the_memory(log: Path) -> None:
    append(log, b"x" * (3 << 20))
    with LogTail(log) as tail:
        assert max(len(line.text) for line in tail.read()) <= 2 << 20


def test_the_last_lines(log: Path) -> None:
    append(log, b"".join(b"%d\n" % number for number in range(100)))
    assert last_lines(log, 2) == ("98", "99")
    assert last_lines(log.parent / "none") == ()


# -- phases of one start: from arrivals, and from the server's stamps only if it held its lines back

STARTED_S, WALL_S = 1000.0, 1_700_000_000.0
LINES_80 = (
    (0.5, "1 [Note] [MY-012203] [InnoDB] Directories to scan './'"),
    (2.5, "1 [Note] [MY-012208] [InnoDB] Completed space ID check of 24 files."),
    (2.6, "1 [Note] [MY-012955] [InnoDB] Initializing buffer pool, total size = 128.000000M"),
)
LINES_57 = (
    (0.1, "0 [Note] /opt/mysqld (mysqld 5.7.22) starting as process 7 ..."),
    (0.2, "0 [Note] InnoDB: Initializing buffer pool, total size = 128M"),
    (0.3, "0 [Note] InnoDB: Completed initialization of buffer pool"),
    (0.4, "0 [Note] InnoDB: Highest supported file format is Barracuda."),
    (0.5, "0 [Note] InnoDB: Doing recovery: scanned up to log sequence number 123"),
    (0.6, "0 [Note] InnoDB: Starting an apply batch of log records to the database..."),
    (0.7, "0 [Note] InnoDB: Apply batch completed"),
)


def tracked(*arrivals: tuple[float, float, str], version: str = "8.0.15") -> PhaseTracker:
    """Each line with the seconds at which it arrived and at which it was written."""
    tracker = PhaseTracker(parse_version(version), STARTED_S)
    tracker.crashed = True
    for arrived_s, written_s, text in arrivals:
        line = f"{datetime.fromtimestamp(WALL_S + written_s, UTC):%Y-%m-%dT%H:%M:%S.%fZ} {text}"
        tracker.add(line, milestone_of(line), STARTED_S + arrived_s, wall_s=WALL_S + arrived_s)
    return tracker


def spans(tracker: PhaseTracker) -> dict[str, tuple[float, float]]:
    found = with_first_query(tracker.phases(4.0), 4.5)
    return {phase.name: (round(phase.start_s, 3), round(phase.end_s, 3)) for phase in found}


def test_phases_of_lines_that_were_held_back_come_from_their_stamps() -> None:
    """test_phases.py has whole starts."""
    tracker = tracked(*((3.0, at_s, text) for at_s, text in LINES_80))
    assert tracker.held_s is not None
    assert round(tracker.held_s, 3) == 2.5
    assert spans(tracker)["directory listing + file scan"] == (0.5, 2.5)
    # The lines after them are not taken for late.
    last = (3.05, "1 [Note] [MY-012357] [InnoDB] Reading DD tablespace files")
    done = (3.09, "1 [Note] [MY-012356] [InnoDB] Validated 26/26  tablespaces")
    tracker = tracked(*((3.1, at_s, text) for at_s, text in (*LINES_80, last, done)))
    assert spans(tracker)["dictionary read + file check"] == (3.05, 3.09)


def test_a_stamp_before_the_start_does_not_make_a_phase_begin_before_it() -> None:
    found = tracked(*((3.0, at_s - 10, text) for at_s, text in LINES_80)).phases(4.0)
    assert found[0].start_s == 0.0
    assert all(phase.start_s <= phase.end_s for phase in found)


def test_a_long_redo_log_does_not_displace_later_lines() -> None:
    scanned = (
        (0.5 + number / 1e5, "InnoDB: Doing recovery: scanned up to log sequence number 1") for number in range(5000)
    )
    applied = (2.0, "1 [Note] [MY-012535] [InnoDB] Apply batch completed!")
    undo = (3.0, "1 [Note] [MY-013252] [InnoDB] Using undo tablespace './undo_001'.")
    tracker = tracked(*((at_s, at_s, text) for at_s, text in (*scanned, applied, undo)), version="5.7.22")
    assert spans(tracker)["validation"] == (2.0, 3.0)


def test_phases_beside_the_start() -> None:
    load = (1.0, 0.999, "0 [Note] InnoDB: Loading buffer pool(s) from /data/ib_buffer_pool")
    loaded = (1.5, 1.499, "0 [Note] InnoDB: Buffer pool(s) load completed at 261121  1:00:00")
    rollback = (3.0, 2.999, "0 [Note] InnoDB: Starting in background the rollback of uncommitted transactions")
    found = tracked(load, loaded, rollback, version="5.7.22").background_phases(4.0)
    assert [(phase.name, round(phase.start_s, 3), round(phase.end_s, 3)) for phase in found] == [
        ("buffer pool load", 1.0, 1.5),
        ("rollback", 3.0, 4.0),
    ], "a phase without an end lasts until the ready line"
    assert tracked(loaded, version="5.7.22").background_phases(4.0) == ()
    # Held back, by stamps that go back, and to before the start: no time is less than none.
    early, earlier = (1.0, -2.0, load[2]), (1.5, -3.0, loaded[2])
    (phase,) = tracked(early, earlier, version="5.7.22").background_phases(4.0)
    assert (phase.start_s, phase.end_s) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("lines", "now_s", "crashed", "phase", "since_s"),
    [
        (0, 0.05, True, None, 0.0),
        (2, 0.25, True, "buffer pool", 0.2),
        (4, 0.45, True, "redo scan", 0.4),
        (5, 0.55, True, "redo scan", 0.4),
        (7, 40.0, True, "validation", 0.7),
        (7, 40.0, False, "dictionary", 0.7),
        (7, 0.1, True, "validation", 0.7),
    ],
)
def test_the_current_phase_of_a_start(
    lines: int, now_s: float, crashed: bool, phase: str | None, since_s: float
) -> None:
    """In the last case, a line comes between the clock's reading and the look at the lines."""
    tracker = tracked(*((at_s, at_s, text) for at_s, text in LINES_57[:lines]), version="5.7.22")
    tracker.crashed = crashed
    found = tracker.current(STARTED_S + now_s)
    assert (found.phase, round(found.since_s - STARTED_S, 3)) == (phase, since_s)


def test_the_progress_of_the_current_phase() -> None:
    tracker = tracked((0.5, 0.5, LINES_80[0][1]))
    tracker.latest = "2026-01-01T00:00:00.000000Z 1 [Note] [MY-012200] [InnoDB] Checked 15615/20298 files"
    found = tracker.current(STARTED_S + 3)
    assert (found.phase, found.progress) == ("directory listing + file scan", "Checked 15615/20298")


def test_the_check_of_the_files_is_the_current_phase_from_the_first_line_about_progress() -> None:
    reads = (1.0, 1.0, "1 [Note] [MY-012357] [InnoDB] Reading DD tablespace files")
    checks = (30.0, 30.0, "0 [Note] [MY-012350] [InnoDB] 8threads have validated 7 out of 9 tablespaces so far.")
    before, after = tracked(reads).current(STARTED_S + 20), tracked(reads, checks).current(STARTED_S + 31)
    assert (before.phase, round(before.since_s - STARTED_S, 3)) == ("dictionary read + file check", 1.0)
    assert (after.phase, round(after.since_s - STARTED_S, 3)) == ("file check", 20.0)


# -- all starts in a log

MYSQL_55 = b"""\
130409 15:54:32 mysqld_safe Starting mysqld daemon with databases from /var/lib/mysql
130409 15:54:32 [Note] Plugin 'FEDERATED' is disabled.
130409 15:54:32 InnoDB: The InnoDB memory heap is disabled
130409 15:54:32 InnoDB: Initializing buffer pool, size = 299.0M
130409 15:54:33 InnoDB: Completed initialization of buffer pool
130409 15:54:33 InnoDB: highest supported file format is Barracuda.
InnoDB: Log scan progressed past the checkpoint lsn 5772634979
130409 15:54:33  InnoDB: Database was not shut down normally!
InnoDB: Starting crash recovery.
InnoDB: Reading tablespace information from the .ibd files...
InnoDB: Restoring possible half-written data pages from the doublewrite
InnoDB: buffer...
InnoDB: Doing recovery: scanned up to log sequence number 5772636095
130409 16:01:03  InnoDB: Starting an apply batch of log records to the database...
InnoDB: Progress in percents: 37 38 39 40 98 99
InnoDB: Apply batch completed
130409 16:01:04  InnoDB: Waiting for the background threads to start
130409 16:01:05 InnoDB: 1.1.8 started; log sequence number 5772636095
130409 16:01:05 [Note] /usr/sbin/mysqld: ready for connections.
Version: '5.5.30-log'  socket: '/var/run/mysqld/mysqld.sock'  port: 3306  MySQL Community Server (GPL)
"""
PERCONA_84_QUIET = b"""\
2026-11-10T11:46:30.000000+08:00 0 [System] [MY-010116] [Server] /usr/sbin/mysqld (mysqld 8.4.6-6) starting as process 7
2026-11-10T11:46:30.500000+08:00 1 [System] [MY-013576] [InnoDB] InnoDB initialization has started.
2026-11-10T11:46:31.500000+08:00 1 [System] [MY-013577] [InnoDB] InnoDB initialization has ended.
2026-11-10T03:46:33.000000Z 0 [System] [MY-011323] [Server] X Plugin ready for connections. Bind-address: '::'
2026-11-10T11:46:32.500000+08:00 0 [System] [MY-010931] [Server] /usr/sbin/mysqld: ready for connections. Version: \
'8.4.6-6'  socket: '/s'  port: 3306  Percona Server (GPL), Release 6.
"""


def starts(*logs: bytes) -> list[LoggedStart]:
    return list(starts_in(io.BytesIO(b"".join(logs)), "a log"))


@pytest.mark.parametrize("name", TEXTS)
def test_a_recorded_log_is_one_start(name: str) -> None:
    (start,) = starts(TEXTS[name])
    version, _, kind = name.removeprefix("mysql-").rpartition("-")
    assert (start.version, start.kind, start.outcome) == (version, kind, "ready")
    assert start.startup_s is not None
    assert sum(seconds_by_name(start.phases).values()) == pytest.approx(start.startup_s, abs=1e-4)
    assert start.whole_seconds is (version == "5.6.24" or "mariadb" in version)


def test_logs_in_a_row_are_starts_in_a_row() -> None:
    found = starts(*TEXTS.values())
    assert [f"{start.version}-{start.kind}" for start in found] == [name.removeprefix("mysql-") for name in TEXTS]
    assert [start.line for start in found] == sorted(start.line for start in found)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_log_may_be_compressed(pack: Callable[[bytes], bytes]) -> None:
    assert starts(pack(TEXTS["mysql-5.7.22-crash"])) == starts(TEXTS["mysql-5.7.22-crash"])


PACKED = gzip.compress(TEXTS["mysql-5.7.22-crash"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x28\xb5\x2f\xfd and so on", "compressed by zstd"),
        (PACKED[:-20], "cannot be read to its end"),
        (PACKED[:40] + b"\0" * 40 + PACKED[80:], "cannot be read to its end"),
    ],
    ids=["zstd", "cut short", "damaged"],
)
def test_a_log_that_cannot_be_unpacked_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        starts(content)
    assert "zstd" not in message or "zstdcat" in caught.value.hint


def test_5_5_has_only_the_phases_that_its_stamps_bound() -> None:
    (start,) = starts(MYSQL_55)
    assert (start.version, start.kind, start.startup_s, start.whole_seconds) == ("5.5.30", "crash", 393.0, True)
    assert seconds_by_name(start.phases)["redo scan + discovery"] == 390.0


def test_the_time_of_mysqld_safe_is_not_part_of_the_start() -> None:
    safe = b"2026-11-10T03:46:20.000000Z mysqld_safe Starting mysqld daemon with databases from /d\n"
    announced = b"2026-11-10T11:46:29.750000+08:00 0 [System] [MY-015015] [Server] MySQL Server - start.\n"
    (start,) = starts(safe, announced, PERCONA_84_QUIET)
    assert (start.line, start.startup_s, start.at) == (1, 2.75, "2026-11-10T11:46:29.750000+08:00")


def test_the_kind_of_a_start_with_few_lines_is_unknown() -> None:
    (start,) = starts(PERCONA_84_QUIET)
    assert (start.version, start.kind, start.startup_s) == ("percona-8.4.6", "not told", 2.5)
    assert seconds_by_name(start.phases) == {
        "process start": 0.5,
        "innodb initialization": 1.0,
        "dictionary read + file check + rest to ready": 1.0,
    }


RESIZED = b"""\
2026-11-27T17:20:49.057185Z 0 [Note] /opt/bin/mysqld (mysqld 5.7.22) starting as process 12793 ...
2026-11-27T17:20:49.106849Z 0 [Note] InnoDB: Initializing buffer pool, total size = 128M, instances = 1
2026-11-27T17:20:49.131035Z 0 [Note] InnoDB: Completed initialization of buffer pool
2026-11-27T17:20:49.163758Z 0 [Note] InnoDB: Highest supported file format is Barracuda.
2026-11-27T17:20:49.167554Z 0 [Note] InnoDB: Log scan progressed past the checkpoint lsn 16844356
2026-11-27T17:20:50.092192Z 0 [Note] InnoDB: Doing recovery: scanned up to log sequence number 17217864
2026-11-27T17:20:50.236707Z 0 [Note] InnoDB: Database was not shutdown normally!
2026-11-27T17:20:50.283816Z 0 [Note] InnoDB: Starting an apply batch of log records to the database...
2026-11-27T17:20:51.336989Z 0 [Note] InnoDB: Apply batch completed
2026-11-27T17:20:53.757056Z 0 [Warning] InnoDB: Resizing redo log from 2*3072 to 2*1536 pages, LSN=17419766
2026-11-27T17:20:53.875166Z 0 [Warning] InnoDB: Starting to delete and rewrite log files.
2026-11-27T17:20:53.940913Z 0 [Warning] InnoDB: New log files created, LSN=17419766
2026-11-27T17:20:53.948586Z 0 [Note] InnoDB: Removed temporary tablespace data file: "ibtmp1"
2026-11-27T17:20:54.014876Z 0 [Note] InnoDB: 5.7.22 started; log sequence number 17217864
2026-11-27T17:20:54.122624Z 0 [Note] /opt/bin/mysqld: ready for connections.
Version: '5.7.22'  socket: '/tmp/mysqld.sock'  port: 0  MySQL Community Server (GPL)
"""


def test_a_redo_log_of_another_size_is_rebuilt_in_a_phase_of_its_own() -> None:
    """A trace of this start showed 0.1 s of validation, then the writes, of which only the end is logged."""
    (start,) = starts(RESIZED)
    seconds = {name: round(found, 2) for name, found in seconds_by_name(start.phases).items()}
    assert (seconds["validation + redo log resize"], seconds["redo log resize"]) == (2.42, 0.18)
    assert "validation" not in seconds
    assert "rebuilds the redo log in its configured size" in log_answer([start])


PUBLISHED = LOGS / "published"
"""Shortened logs of others; splits.txt names their source."""


def answer(name: str, *, without: str = "\n\n") -> str:
    text = (PUBLISHED / name).read_text()
    return log_answer(starts("".join(line for line in text.splitlines(keepends=True) if without not in line).encode()))


def test_a_published_log_without_notes_names_what_it_hides_and_how_to_see_more() -> None:
    found = answer("8.0.39-default.err")
    assert "85 % innodb initialization: 8.0.39 reads the first page of every file and, after a crash" in found
    assert "set log_error_verbosity=3 in my.cnf before the next start" in found
    assert "log_error_verbosity" in answer("8.0.39-default.err", without="ready for"), "also while it is not ready"
    (start,) = starts((PUBLISHED / "8.0.39-default.err").read_bytes())
    assert named_share(start.phases) == 1.0


@pytest.mark.parametrize("name", ["notes", "default"])
def test_an_upgrade_has_phases_of_its_own(name: str) -> None:
    """8.0.31 over the files of 8.0.15, with the default verbosity and with Notes."""
    log = (LOGS / "upgrades" / f"8.0.15-8.0.31-{name}.err").read_text()
    (start,) = starts(log.encode())
    seconds = {phase: round(found, 2) for phase, found in seconds_by_name(start.phases).items()}
    assert seconds["dictionary upgrade"] == (0.72 if name == "notes" else 0.67)
    assert seconds["server upgrade"] == (3.57 if name == "notes" else 3.07)
    found = log_answer([start])
    assert "% server upgrade: 8.0.31 upgrades the system tables and the sys schema" in found
    assert found.endswith("An upgrade happens once: the next start has none.")
    assert [*advice_lines([start])] == ["what shortens it: recovery docs shorten#upgrade"]
    (cut,) = starts(log[: log.index("[MY-013413]")].encode())
    assert cut.phase == "dictionary upgrade"
    assert log_answer([cut]).endswith("An upgrade happens once, and is not to be killed.")
    assert "log_error_verbosity" not in found + log_answer([cut])


GALERA = """\
2024-05-02 10:00:00 0 [Note] Starting MariaDB 10.11.5-MariaDB source revision abc as process 4711
2024-05-02 10:00:00 0 [Note] InnoDB: Initializing buffer pool, total size = 128.000MiB, chunk size = 2.000MiB
2024-05-02 10:00:00 0 [Note] InnoDB: Completed initialization of buffer pool
2024-05-02 10:00:00 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=46300
2024-05-02 10:00:09 0 [Note] InnoDB: 128 rollback segments are active.
2024-05-02 10:00:09 0 [Note] InnoDB: log sequence number 46312; transaction id 14
2024-05-02 10:00:10 0 [Note] WSREP: Recovered position: 37bb872a-0f5c-11ef-9d3c-0242ac110002:437
{end}"""


@pytest.mark.parametrize(
    "end",
    [
        "",
        "2024-05-02 10:00:10 0 [Note] InnoDB: Starting shutdown...\n2024-05-02 10:00:11 0 [Note] Shutdown complete\n",
        "240502 10:00:11 mysqld_safe WSREP: Recovered position 37bb872a-0f5c-11ef-9d3c-0242ac110002:437\n"
        "2024-05-02 10:00:12 0 [Note] Starting MariaDB 10.11.5-MariaDB source revision abc as process 4799\n"
        "2024-05-02 10:00:13 0 [Note] mariadbd: ready for connections.\nVersion: '10.11.5-MariaDB-log'  port: 3306\n",
    ],
    ids=["end-of-log", "shut-down", "next-start"],
)
def test_a_pass_for_the_position_of_galera_is_no_start_that_was_killed(end: str) -> None:
    first, *others = starts(GALERA.format(end=end).encode())
    assert (first.kind, first.outcome, first.ended_early) == ("position", "ended", False)
    assert "killed" not in log_answer([first, *others])
    assert [line for line in advice_lines([first, *others]) if "killed" in line] == []


CONTAINER = """\
2024-05-02 10:00:00+00:00 [Note] [Entrypoint]: Entrypoint script for MySQL Server 8.0.36-1.el8 started.
2024-05-02 10:00:01+00:00 [Note] [Entrypoint]: Initializing database files
2024-05-02T10:00:01.1Z 0 [System] [MY-013169] [Server] /usr/sbin/mysqld (mysqld 8.0.36) initializing of server in progress as process 80
2024-05-02T10:00:01.2Z 1 [System] [MY-013576] [InnoDB] InnoDB initialization has started.
2024-05-02T10:00:02.2Z 1 [System] [MY-013577] [InnoDB] InnoDB initialization has ended.
2024-05-02 10:00:04+00:00 [Note] [Entrypoint]: Database files initialized
2024-05-02 10:00:04+00:00 [Note] [Entrypoint]: Starting temporary server
2024-05-02T10:00:04.5Z 0 [System] [MY-010116] [Server] /usr/sbin/mysqld (mysqld 8.0.36) starting as process 124
2024-05-02T10:00:04.6Z 1 [System] [MY-013576] [InnoDB] InnoDB initialization has started.
2024-05-02T10:00:05.0Z 1 [System] [MY-013577] [InnoDB] InnoDB initialization has ended.
{ready}2024-05-02 10:00:07+00:00 [Note] [Entrypoint]: Stopping temporary server
2024-05-02 10:00:08+00:00 [Note] [Entrypoint]: Temporary server stopped
2024-05-02 10:00:08+00:00 [Note] [Entrypoint]: MySQL init process done. Ready for start up.
2024-05-02T10:00:08.5Z 0 [System] [MY-010116] [Server] /usr/sbin/mysqld (mysqld 8.0.36) starting as process 1
2024-05-02T10:00:08.6Z 1 [System] [MY-013576] [InnoDB] InnoDB initialization has started.
2024-05-02T10:00:09.0Z 1 [System] [MY-013577] [InnoDB] InnoDB initialization has ended.
2024-05-02T10:00:09.5Z 0 [System] [MY-010931] [Server] /usr/sbin/mysqld: ready for connections. Version: '8.0.36'  port: 3306
"""  # noqa: E501 - as the server writes it
READY_WITHOUT_PORT = (
    "2024-05-02T10:00:05.5Z 0 [System] [MY-010931] [Server] /usr/sbin/mysqld: ready for connections. "
    "Version: '8.0.36'  port: 0\n"
)


@pytest.mark.parametrize("ready", ["", READY_WITHOUT_PORT], ids=["not-ready", "ready"])
def test_the_temporary_server_of_a_container_is_no_start_that_was_killed(ready: str) -> None:
    found = starts(CONTAINER.format(ready=ready).encode())
    assert [start.kind for start in found] == ["initialize", "temporary", "not told"]
    assert [start.outcome for start in found] == ["ended", "ready" if ready else "ended", "ready"]
    assert "killed" not in log_answer(found)
    assert not any("killed-starts" in line for line in advice_lines(found))


def test_a_log_with_notes_gets_no_advice_to_log_them() -> None:
    assert "log_error_verbosity" not in answer("8.0.39-no-validation.err") + answer("9.1.0-clean.err")


def test_a_published_clean_start_reads_no_file_while_it_checks() -> None:
    (start,) = starts((PUBLISHED / "9.1.0-clean.err").read_bytes())
    seconds = {name: round(found, 1) for name, found in seconds_by_name(start.phases).items()}
    assert seconds["dictionary read"] == 173.8
    assert seconds["file check"] == 67.9
    assert {phase.name for phase in start.phases if phase.estimated} == {"dictionary read", "file check"}
    assert "dictionary read: 9.1.0 reads all tablespaces from its dictionary" in answer("9.1.0-clean.err")
    joined = answer("9.1.0-clean.err", without="MY-012350")
    assert "50 % dictionary read + file check" in joined
    assert joined.endswith("from its dictionary, then opens and closes every file, without reading it.")


def test_a_published_start_without_path_validation_has_an_exact_boundary() -> None:
    (start,) = starts((PUBLISHED / "8.0.39-no-validation.err").read_bytes())
    seconds = seconds_by_name(start.phases)
    assert (round(seconds["dictionary read"], 2), round(seconds["file check"], 2)) == (48.72, 0.20)
    assert not any(phase.estimated for phase in start.phases)


def test_a_log_that_ends_early_is_cut() -> None:
    whole = TEXTS["mysql-5.7.22-crash"]
    at = whole.index(b"Apply batch completed\n") + len(b"Apply batch completed\n")
    (start,) = starts(whole[:at])
    assert (start.outcome, start.kind) == ("cut", "crash")
    assert start.standing is not None
    assert start.standing.startswith("validation")
    # And the next server in the same file does not make it ready.
    assert [start.outcome for start in starts(whole[:at], TEXTS["mysql-8.0.15-clean"])] == ["cut", "ready"]
    (start,) = starts(b"InnoDB: Doing recovery: scanned up to log sequence number 5772636095\n" * 3)
    assert (start.outcome, start.standing) == ("cut", "redo scan (scanned up to log sequence number 5772636095)")


def test_a_log_that_begins_in_the_middle_has_no_duration() -> None:
    whole = TEXTS["mysql-5.7.22-crash"]
    (start,) = starts(whole[whole.index(b"2026-11-20T20:28:49.151478Z") :])
    assert (start.kind, start.outcome, start.startup_s) == ("crash", "ready", None)


def test_the_ready_line_may_be_in_another_language() -> None:
    whole = TEXTS["mysql-5.7.22-crash"].replace(b": ready for connections.", ": bereit f\xfcr Verbindungen.".encode())
    (start,) = starts(whole)
    assert (start.outcome, start.version) == ("ready", "5.7.22")
    assert start.startup_s == pytest.approx(0.705, abs=0.01)


def test_a_failed_start_has_its_reason() -> None:
    head = TEXTS["mysql-5.7.22-clean"].split(b"\n")[:12]
    (start,) = starts(b"\n".join([*head, b"2026-11-20T20:28:52.1Z 0 [ERROR] Aborting", b""]))
    assert start.outcome == "failed"
    assert start.reason is not None
    assert start.reason.endswith("Aborting")


def test_the_work_of_other_threads_is_in_no_phase_of_a_start() -> None:
    load = b"2026-11-20T20:28:51.888699Z 0 [Note] InnoDB: Loading buffer pool(s) from /d/ib_buffer_pool\n"
    loaded = b"2026-11-20T20:28:54.888699Z 0 [Note] InnoDB: Buffer pool(s) load completed at 261120 20:28:54\n"
    whole = TEXTS["mysql-5.7.22-clean"]
    at = whole.index(b"2026-11-20T20:28:51.888898Z")
    end = whole.index(b"2026-11-20T20:28:51.912763Z")
    (start,) = starts(whole[:at], load, whole[at:end], loaded, whole[end:])
    assert [(one.name, round(one.end_s - one.start_s, 6)) for one in start.beside] == [("buffer pool load", 3.0)]
    assert "buffer pool load" not in seconds_by_name(start.phases)


names = st.sampled_from(sorted(TEXTS))


@given(names, names, st.lists(st.booleans(), max_size=300))
def test_starts_are_in_order_in_any_mix_of_two_logs(first: str, second: str, choices: list[bool]) -> None:
    """test_fuzzed.py has any bytes and any lines."""
    one, other = (TEXTS[name].splitlines(keepends=True)[::-1] for name in (first, second))
    mixed = []
    for choice in choices:
        chosen = one if (choice and one) or not other else other
        if chosen:
            mixed.append(chosen.pop())
    in_order(starts(*mixed, *one[::-1], *other[::-1]))


def test_the_page_begins_with_what_took_the_time() -> None:
    log = "".join(
        f"2026-01-01T00:{at}.000000Z 0 [Note] {text}\n"
        for at, text in (
            ("00:00", "mysqld (mysqld 5.7.22) starting as process 1 ..."),
            ("00:01", "InnoDB: Database was not shutdown normally!"),
            ("00:01", "InnoDB: Starting an apply batch of log records to the database..."),
            ("00:02", "InnoDB: Apply batch completed"),
            ("17:00", "InnoDB: Creating shared tablespace for temporary tables"),
            ("17:01", "mysqld: ready for connections."),
        )
    )
    (start,) = starts_in(io.BytesIO(log.encode()), "log")
    assert log_answer([start]) == "17 minutes; 100 % validation: 5.7.22 reads every file after redo."
    assert log_answer([start, start]).startswith("Start 1 is the slowest of 2: 17 minutes")
    (cut,) = starts_in(io.BytesIO(log.partition("InnoDB: Creating")[0].rpartition("2026")[0].encode()), "log")
    assert log_answer([start, cut]).startswith("The last start is not ready after 2.00 s, in validation")


def test_the_reason_of_a_failed_start_is_no_error_that_a_server_starts_with() -> None:
    errors = StartErrors()
    for line in (
        "2018-11-06 12:03:25 1 [ERROR] Can't open the mysql.plugin table. Please run mysql_upgrade to create it.",
        "InnoDB: Error: log file ./ib_logfile0 is of different size 0 5242880 bytes",
        "InnoDB: than specified in the .cnf file 0 268435456 bytes!",
        "2018-11-06 12:03:25 1 [ERROR] Plugin 'InnoDB' init function returned error.",
    ):
        errors.add(line)
    assert errors.reason("[ERROR] Aborting").endswith(
        "0 5242880 bytes than specified in the .cnf file 0 268435456 bytes!"
    )
    fatal = "[ERROR] Fatal error: Can't open and lock privilege tables: Table 'mysql.user' doesn't exist"
    assert errors.reason(fatal) == fatal
