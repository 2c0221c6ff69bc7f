"""Are starts found in anybody's log: mixed, torn, compressed, interleaved, and any bytes at all?"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from pathlib import Path

import pytest
from fuzzing.errorlog import in_order
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.analysis.phase_names import seconds_by_name
from recovery.errors import UsageError
from recovery.mysqld.error_log import log_counters, parse_stamp, progress_of
from recovery.mysqld.log_analysis import LoggedStart, starts_in

LOGS = sorted((Path(__file__).resolve().parent.parent / "fixtures" / "errorlogs").glob("*.err"))
TEXTS = {log.stem: log.read_bytes() for log in LOGS}

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


def test_lines_between_starts_are_counted_though_they_are_not_read() -> None:
    noise = b"2026-11-20T20:29:15.1Z 9 [Warning] Aborted connection 9 to db: 'x'\n" * 50_000
    found = starts(TEXTS["mysql-5.7.22-crash"], noise, TEXTS["mysql-8.0.31-crash"])
    lines = (TEXTS["mysql-5.7.22-crash"] + noise).count(b"\n")
    assert lines < found[1].line < lines + 10


def test_a_log_that_cannot_be_unpacked_says_what_can() -> None:
    with pytest.raises(UsageError, match="compressed by zstd") as told:
        starts(b"\x28\xb5\x2f\xfd and so on")
    assert "zstdcat" in str(told.value.hint)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_by_content(pack: object) -> None:
    assert callable(pack)
    assert starts(pack(TEXTS["mysql-5.7.22-crash"])) == starts(TEXTS["mysql-5.7.22-crash"])


def test_a_damaged_archive_is_told_in_one_line() -> None:
    packed = gzip.compress(TEXTS["mysql-5.7.22-crash"])
    for damaged in (packed[:-20], packed[:40] + b"\0" * 40 + packed[80:]):
        with pytest.raises(UsageError, match="cannot be read to its end"):
            starts(damaged)


def test_5_5_has_what_its_stamps_bound_and_no_more() -> None:
    (start,) = starts(MYSQL_55)
    assert (start.version, start.kind, start.startup_s, start.whole_seconds) == ("5.5.30", "crash", 393.0, True)
    assert seconds_by_name(start.phases)["redo scan + discovery"] == 390.0


def test_what_mysqld_safe_takes_is_not_the_server_s() -> None:
    safe = b"2026-11-10T03:46:20.000000Z mysqld_safe Starting mysqld daemon with databases from /d\n"
    announced = b"2026-11-10T11:46:29.750000+08:00 0 [System] [MY-015015] [Server] MySQL Server - start.\n"
    (start,) = starts(safe, announced, PERCONA_84_QUIET)
    assert (start.line, start.startup_s, start.at) == (1, 2.75, "2026-11-10T11:46:29.750000+08:00")


def test_a_quiet_server_is_neither_called_clean_nor_guessed_at() -> None:
    (start,) = starts(PERCONA_84_QUIET)
    assert (start.version, start.kind, start.startup_s) == ("percona-8.4.6", "not told", 2.5)
    assert seconds_by_name(start.phases) == {"process start": 0.5, "unnamed": 2.0}


def test_where_it_stands_when_the_log_ends() -> None:
    whole = TEXTS["mysql-5.7.22-crash"]
    at = whole.index(b"Apply batch completed\n") + len(b"Apply batch completed\n")
    (start,) = starts(whole[:at])
    assert (start.outcome, start.kind) == ("cut", "crash")
    assert start.standing is not None
    assert start.standing.startswith("validation")
    # And the next server in the same file does not make it ready.
    assert [start.outcome for start in starts(whole[:at], TEXTS["mysql-8.0.15-clean"])] == ["cut", "ready"]


def test_a_log_that_begins_in_the_middle() -> None:
    whole = TEXTS["mysql-5.7.22-crash"]
    (start,) = starts(whole[whole.index(b"2026-11-20T20:28:49.151478Z") :])
    assert (start.kind, start.outcome, start.startup_s) == ("crash", "ready", None)


def test_a_ready_line_in_another_language() -> None:
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


def test_what_threads_do_beside_is_in_no_phase() -> None:
    extra = (
        b"2026-11-20T20:28:51.888699Z 0 [Note] InnoDB: Loading buffer pool(s) from /d/ib_buffer_pool\n",
        b"2026-11-20T20:28:54.888699Z 0 [Note] InnoDB: Buffer pool(s) load completed at 261120 20:28:54\n",
    )
    whole = TEXTS["mysql-5.7.22-clean"]
    at = whole.index(b"2026-11-20T20:28:51.888898Z")
    end = whole.index(b"2026-11-20T20:28:51.912763Z")
    (start,) = starts(whole[:at], extra[0], whole[at:end], extra[1], whole[end:])
    assert [(phase.name, round(phase.end_s - phase.start_s, 6)) for phase in start.beside] == [
        ("buffer pool load", 3.0)
    ]
    assert "buffer pool load" not in seconds_by_name(start.phases)


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
def test_stamps(line: str, seconds: float | None, whole: bool) -> None:
    stamp = parse_stamp(line)
    assert (None if stamp is None else stamp.at_s) == seconds
    assert stamp is None or stamp.whole is whole


def test_counts_and_progress() -> None:
    assert dict(log_counters("[MY-012207] [InnoDB] Using 17 threads to scan 324780 tablespace files")) == {
        "scan_threads": 17
    }
    assert dict(log_counters("[InnoDB] Scanned 26 tablespaces. Validated 25.")) == {
        "tablespaces_in_dictionary": 26,
        "tablespaces_validated": 25,
    }
    assert progress_of("[InnoDB] Thread# 0 - Checked 15615/20298 files") == "Checked 15615/20298"
    assert dict(log_counters("[InnoDB] 8threads have validated 622649 out of 1000006 tablespaces so far.")) == {
        "validation_threads": 8
    }
    assert progress_of("InnoDB: Progress in percent: 1 2 3") == "3 %"
    assert progress_of("InnoDB: x") is None
    # To look for a number in a line of nothing but digits would take minutes.
    assert dict(log_counters("1" * 60_000 + " threads have validated 1 out of 2")) == {}


def test_a_log_of_nothing_but_a_redo_scan_is_of_a_start() -> None:
    (start,) = starts(b"InnoDB: Doing recovery: scanned up to log sequence number 5772636095\n" * 3)
    assert (start.outcome, start.standing) == (
        "cut",
        "redo scan (scanned up to log sequence number 5772636095)",
    )


@given(st.binary(max_size=2000))
def test_any_bytes(text: bytes) -> None:
    try:
        in_order(starts(text))
    except UsageError:
        assert text.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"))


names = st.sampled_from(sorted(TEXTS))


@settings(deadline=None)
@given(names, st.integers(0, 20_000), st.integers(0, 20_000), names)
def test_any_cut(first: str, begin: int, end: int, second: str) -> None:
    in_order(starts(TEXTS[first][begin : begin + end], TEXTS[second][end:]))


@settings(deadline=None)
@given(names, names, st.lists(st.booleans(), max_size=300))
def test_any_interleaving_of_two_logs(first: str, second: str, choices: list[bool]) -> None:
    one, other = (TEXTS[name].splitlines(keepends=True)[::-1] for name in (first, second))
    mixed = []
    for choice in choices:
        chosen = one if (choice and one) or not other else other
        if chosen:
            mixed.append(chosen.pop())
    in_order(starts(*mixed, *one[::-1], *other[::-1]))
