"""How far a start is, how long it still takes, and whether starts repeat: from fed lines and samples, and cut logs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sessions import FIXTURES

from recovery.logs.start_progress import (
    ProcessSample,
    Progress,
    StartProgress,
    Totals,
)
from recovery.logs.watched_log import WatchedLog, find_loop
from recovery.model import RedoSpan
from recovery.phase_table import (
    BUFFER_POOL,
    DICTIONARY,
    FILE_CHECK,
    FILE_SCAN,
    JOIN,
    PAGE_FLUSH,
    PROCESS_START,
    REDO_APPLY,
    REDO_SCAN,
    REST_TO_READY,
    ROLLBACK,
    UNNAMED,
    VALIDATION,
    Unit,
)

LOGS = FIXTURES / "errorlogs"
RECORDED = sorted(path.name.removesuffix("-crash.arrivals") for path in LOGS.glob("*-crash.arrivals"))
NEW = "2026-11-20T20:29:15.123456Z 1 [Note]"
START_57 = (
    f"{NEW} /opt/bin/mysqld (mysqld 5.7.22) starting as process 12 ...",
    f"{NEW} InnoDB: Initializing buffer pool, total size = 128M, instances = 1, chunk size = 128M",
    f"{NEW} InnoDB: Completed initialization of buffer pool",
    f"{NEW} InnoDB: Highest supported file format is Barracuda.",
    f"{NEW} InnoDB: Log scan progressed past the checkpoint lsn 1000000",
)
CRASH_57 = (f"{NEW} InnoDB: Database was not shutdown normally!", f"{NEW} InnoDB: Starting crash recovery.")
APPLIED = f"{NEW} InnoDB: Apply batch completed"
START_80 = (
    f"{NEW} [MY-010116] [Server] /opt/bin/mysqld (mysqld 8.0.31) starting as process 12",
    f"{NEW} [MY-013576] [InnoDB] InnoDB initialization has started.",
)
SCAN_80 = f"{NEW} [MY-012204] [InnoDB] Scanning './'"
CRASH_80 = (
    f"{NEW} [MY-012208] [InnoDB] Completed space ID check of 1000 files.",
    f"{NEW} [MY-012551] [InnoDB] Database was not shutdown normally!",
    f"{NEW} [MY-012552] [InnoDB] Starting crash recovery.",
)
READY = f"{NEW} [MY-010931] [Server] /opt/bin/mysqld: ready for connections. Version: '8.0.31'  socket: ''  port: 0"


def started(*lines: str, totals: Totals | None = None, at_s: float = 1.0) -> StartProgress:
    """A start whose lines all came at one moment."""
    start = StartProgress(totals=totals)
    for line in lines:
        start.add_line(line, at_s)
    return start


def read(start: StartProgress, calls: int, at_s: float) -> Progress:
    """The progress after a sample with so many calls of read."""
    start.add_sample(ProcessSample(at_s, calls, calls * 100, 0, 0, 0, cpu_s=0.0, state="S"))
    return start.progress(at_s)


def opened(start: StartProgress, files: int | None, at_s: float) -> Progress:
    """The progress after a sample in which so many files had been opened in their order."""
    start.add_sample(ProcessSample(at_s, 800, 0, 0, 0, 0, cpu_s=0.1 * at_s, files_opened=files))
    return start.progress(at_s)


# --- The time left


@pytest.mark.parametrize(
    ("lines", "phase"),
    [
        ((*START_57, *CRASH_57, APPLIED), VALIDATION),
        ((*START_80, SCAN_80), FILE_SCAN),
        ((*START_80, SCAN_80, *CRASH_80, f"{NEW} [MY-012357] [InnoDB] Reading DD tablespace files"), FILE_CHECK),
        (
            (
                "2026-11-20 20:29:23 140 [Note] /opt/bin/mysqld (mysqld 10.2.11-MariaDB) starting as process 12 ...",
                "2026-11-20 20:29:23 140 [Note] InnoDB: Starting crash recovery from checkpoint LSN=1694732",
                "2026-11-20 20:29:23 140 [Note] InnoDB: Starting final batch to recover 24 pages from redo log.",
            ),
            VALIDATION,
        ),
    ],
)
def test_the_time_left_of_a_file_phase_follows_the_calls_of_read(lines: tuple[str, ...], phase: str) -> None:
    start = started(*lines, totals=Totals(files=1000))
    read(start, 500, 1.0)
    calls = 60 if "MariaDB" in lines[0] else 20  # MariaDB 10.2 reads three times from each file
    seen = [read(start, 500 + calls * second, 1.0 + second) for second in range(1, 50)]
    now = seen[24]
    assert now.phase is not None
    assert phase in now.phase.split(JOIN)
    assert (now.done, now.total, now.unit) == (500, 1000, Unit.FILES)
    assert now.rate == pytest.approx(20)
    assert now.left_s is not None
    assert now.left_s.about_s == pytest.approx(25, abs=1.1)
    assert now.left_s.least_s < 24
    assert now.left_s.most_s > 26
    widths = [left.most_s - left.least_s for one in seen if (left := one.left_s) is not None]
    assert widths == sorted(widths, reverse=True), "the range shrinks"
    assert seen[0].left_s is None, "one second shows no rate"


@pytest.mark.parametrize("is_in_log", [True, False])
def test_with_an_empty_redo_log_5_7_validates_and_files_are_counted(is_in_log: bool) -> None:
    scanned = (f"{NEW} InnoDB: Doing recovery: scanned up to log sequence number 1000009",) if is_in_log else ()
    start = started(*START_57, *scanned, *CRASH_57, totals=Totals(1000, None if is_in_log else RedoSpan(10**6, 10**6)))
    read(start, 500, 1.0)
    for second in range(1, 26):
        now = read(start, 500 + 20 * second, 1.0 + second)
    assert (now.phase, now.done, now.total, now.unit) == (VALIDATION, 500, 1000, Unit.FILES)
    assert now.left_s is not None
    segments = f"{NEW} InnoDB: 96 redo rollback segment(s) found. 96 redo rollback segment(s) are active."
    start.add_line(segments, 56.0)
    start.add_line("2026-11-20T20:29:15.123456Z 0 [Note] mysqld: ready for connections.", 57.0)
    assert VALIDATION in [phase.name for phase in start.tracker.phases(57.0)], "as analyze says"


def test_a_range_covers_the_rate_of_the_last_seconds_and_tells_that_it_fell() -> None:
    start = started(*START_57, *CRASH_57, APPLIED, totals=Totals(files=10_000))
    read(start, 0, 1.0)
    for second in range(1, 41):
        now = read(start, 100 * second, 1.0 + second)
    assert now.recent_rate == pytest.approx(100)
    assert now.fell_from is None
    for second in range(1, 31):
        now = read(start, 4000 + 20 * second, 41.0 + second)
    assert now.recent_rate == pytest.approx(20)
    assert now.fell_from == pytest.approx(84, abs=5)
    assert now.left_s is not None
    assert now.left_s.most_s > 5400 / 20
    assert now.left_s.about_s == pytest.approx(5400 / 20, rel=0.1), "the rate of now is likely to stay"
    assert now.rate is not None
    assert now.left_s.least_s < 5400 / now.rate


def test_8_0_counts_files_at_its_default_verbosity() -> None:
    start = StartProgress(totals=Totals(5000, RedoSpan(0, 1000)))
    start.add_line("2026-11-20T20:29:15.1Z 0 [System] [MY-010116] [Server] mysqld (mysqld 8.0.31) starting as 12", 0.0)
    start.add_line("2026-11-20T20:29:15.1Z 1 [System] [MY-013576] [InnoDB] InnoDB initialization has started.", 0.1)
    for second in range(21):
        now = read(start, 100 * second, 0.1 + second)
    assert (now.done, now.total, now.unit) == (2000, 5000, Unit.FILES)
    assert now.left_s is not None
    assert now.left_s.about_s is None
    assert now.left_s.most_s > 30


def test_the_threads_that_log_their_files_stand_for_all() -> None:
    found = f"{NEW} [MY-012206] [InnoDB] Found 1000 '.ibd' and 2 undo files"
    start = started(*START_80, SCAN_80, found)
    for at_s, thread, done in ((11.0, 0, 50), (11.1, 3, 100), (21.0, 0, 100)):
        start.add_line(f"{NEW} [MY-012200] [InnoDB] Thread# {thread} - Checked {done}/250 files", at_s)
    start.add_line(f"{NEW} [MY-012200] [InnoDB] Thread# 4 - Checked {'9' * 400}/250 files", 21.0)
    now = start.progress(21.0)
    assert (now.done, now.total) == (400, 1000)
    later = start.progress(3000.0)
    assert (later.done, later.fell_from, later.left_s) == (400, None, None), "nothing is known of its storage"
    read(start, 700, 22.0)
    assert start.progress(22.0).done != 400, "the process is counted, if it is known"


def test_a_clean_start_of_8_0_opens_the_files_without_a_count() -> None:
    line = f"{NEW} [MY-012357] [InnoDB] Reading DD tablespace files"
    start = started(*START_80, SCAN_80, CRASH_80[0], line, totals=Totals(files=1000))
    assert read(start, 100, 2.0).done is None


@pytest.mark.parametrize("state", ["T", "D"])
def test_a_server_that_stands_still_never_shows_a_falling_time(state: str) -> None:
    start = started(*START_57, *CRASH_57, APPLIED, totals=Totals(files=1000))
    read(start, 0, 1.0)
    for tenth in range(1, 301):
        before = read(start, tenth * 2, 1.0 + tenth / 10)
    assert before.left_s is not None
    shown = [before]
    for tenth in range(1, 700):
        at_s = 31.0 + tenth / 10
        start.add_sample(ProcessSample(at_s, 600, 60000, 0, 0, 0, cpu_s=0.0, state=state))
        shown.append(start.progress(at_s))
    abouts = [one.left_s.about_s or 0.0 for one in shown if one.left_s is not None]
    assert len(abouts) > 500
    assert abouts == sorted(abouts)
    assert shown[-1].left_s is None, "after a minute nothing is claimed"
    assert shown[-1].progress_at_s == pytest.approx(31.0)
    assert shown[-1].done == 600


def test_the_scan_of_redo_is_counted_by_the_positions_that_the_log_has() -> None:
    start = started(*START_57, totals=Totals(redo=RedoSpan(1_000_000, 101_000_000)))
    line = f"{NEW} InnoDB: Doing recovery: scanned up to log sequence number"
    for second in range(1, 51):
        start.add_sample(ProcessSample(1.0 + second, second * 10, second * 1_000_000, 0, 0, 0, 0.1 * second))
        if second % 5 == 0:
            start.add_line(f"{line} {1_000_000 + second * 1_000_000}", 1.0 + second)
    for second in range(51, 54):
        start.add_sample(ProcessSample(1.0 + second, second * 10, second * 1_000_000, 0, 0, 0, 0.1 * second))
    now = start.progress(54.0)
    assert (now.phase, now.done, now.total, now.unit) == (REDO_SCAN, 50_000_000, 100_000_000, Unit.BYTES)
    assert now.left_s is None, "nothing is known yet of the batches that follow"


def test_a_scan_that_goes_on_after_a_batch_is_no_validation() -> None:
    line = f"{NEW} InnoDB: Doing recovery: scanned up to log sequence number 51000000"
    start = started(*START_57, *CRASH_57, line, APPLIED, totals=Totals(redo=RedoSpan(1_000_000, 101_000_000)))
    assert start.progress(2.0).phase == REDO_SCAN
    start.add_line(line.replace("51000000", "100900000"), 3.0)
    start.add_line(APPLIED, 4.0)
    assert start.progress(5.0).phase == VALIDATION


def test_a_watcher_that_comes_late_estimates_what_was_read_before() -> None:
    start = started(*START_57, *CRASH_57, APPLIED, totals=Totals(files=2000, redo=RedoSpan(0, 6_553_600)))
    start.add_sample(ProcessSample(30.0, 800))
    now = read(start, 820, 31.0)
    assert now.done == 520, "200 other files, and 100 pieces of redo"
    assert now.left_s is not None
    seen = started(*START_57, *CRASH_57, APPLIED, totals=Totals(files=1000))
    read(seen, 300, 1.0)
    whole = read(seen, 820, 31.0)
    assert whole.left_s is not None
    assert now.left_s.most_s > whole.left_s.most_s, "the range is wider"


@pytest.mark.parametrize("direct_io", [True, False])
def test_pages_to_apply_are_counted_by_bytes_read_or_else_by_the_percentages_of_the_log(direct_io: bool) -> None:
    line = f"{NEW} [MY-012532] [InnoDB] Applying a batch of 2000 redo log records ..."
    totals = Totals(direct_io=direct_io, redo=RedoSpan(1_000_000, 101_000_000))
    start = started(*START_80, SCAN_80, *CRASH_80, line, totals=totals)
    for second in range(1, 11):
        start.add_sample(ProcessSample(1.0 + second, read_bytes=16384 * 100 * (second - 1), write_bytes=0, wchar=0))
        start.add_line(f"{NEW} [MY-012533] [InnoDB] {5 * second}%", 1.0 + second)
    now = start.progress(11.0)
    assert (now.phase, now.done, now.total, now.unit) == (REDO_APPLY, 900 if direct_io else 1000, 2000, Unit.PAGES)
    assert now.left_s is not None
    assert now.left_s.about_s == pytest.approx(11 if direct_io else 10, abs=1)


SCANNED = f"{NEW} InnoDB: Doing recovery: scanned up to log sequence number"
BATCH_57 = f"{NEW} InnoDB: Starting an apply batch of log records to the database..."


def apply_batch(start: StartProgress, begin_s: float, seconds: int, upto: int = 100) -> None:
    """Feeds a batch of 5.7 and its percentages, of which each second has the same number."""
    start.add_line(BATCH_57, begin_s)
    for percent in range(upto):
        text = f"InnoDB: Progress in percent: {' '.join(map(str, range(percent + 1)))} "
        start.add_line(text, begin_s + seconds * percent / 100, complete=False)
    if upto == 100:
        start.add_line(APPLIED, begin_s + seconds)


def test_the_time_left_of_redo_has_all_batches_and_what_is_still_to_scan() -> None:
    start = started(*START_57, totals=Totals(redo=RedoSpan(1_000_000, 121_000_000)))
    start.add_line(f"{SCANNED} 61000000", 3.0)
    assert start.progress(4.0).left_s is None
    start.add_line(f"{SCANNED} 121000000", 5.0)
    for line in CRASH_57:
        start.add_line(line, 5.0)
    start.add_line(f"{SCANNED} 2000000", 5.0)  # it scans from the beginning again
    start.add_line(f"{SCANNED} 41000000", 9.0)
    apply_batch(start, 9.0, 10)
    start.add_line(f"{SCANNED} 81000000", 23.0)
    now = start.progress(23.0)
    assert now.phase == REDO_SCAN
    assert now.left_s is not None
    assert now.left_s.about_s == pytest.approx(4 + 2 * 10, abs=1), "a third to scan, two to apply"
    apply_batch(start, 23.0, 10, upto=51)
    now = start.progress(28.0)
    assert now.phase == REDO_APPLY
    assert now.left_s is not None
    assert now.left_s.about_s == pytest.approx(4 + 15, abs=1)
    assert now.left_s.least_s < 4 + 15 < now.left_s.most_s


def test_the_time_left_of_redo_needs_no_line_but_that_of_now() -> None:
    log = WatchedLog(1000.0, 1.8e9, process_s=970.0)
    log.progress.totals = Totals(redo=RedoSpan(1_000_000, 101_000_000))
    for text, second in ((START_57[0], 32), (START_57[-1], 32), (CRASH_57[0], 38), (CRASH_57[1], 38), (BATCH_57, 40)):
        log.take(text.replace("2026-11-20T20:29:15.123456Z", f"2027-01-15T07:59:{second}.000000Z"))
    log.progress.totals = Totals(redo=RedoSpan(1_000_000, 101_000_000))
    log.take(f"InnoDB: Progress in percent: {' '.join(map(str, range(51)))} ", complete=False)
    left = log.progress.progress(1000.0).left_s
    assert left is not None
    assert left.about_s == pytest.approx(20, abs=1)


def test_mariadb_logs_the_positions_of_its_batches_but_not_of_the_last_one() -> None:
    start = started(
        "2026-11-20 20:29:30 0 [Note] Starting MariaDB 10.11.5-MariaDB source revision 78 as process 12",
        "2026-11-20 20:29:30 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=1000000",
        totals=Totals(redo=RedoSpan(1_000_000, 101_000_000), direct_io=True),
    )
    start.add_sample(ProcessSample(1.0, 0, 0, 0, read_bytes=0, write_bytes=0, cpu_s=0.0))
    start.add_line("2026-11-20 20:29:30 0 [Note] InnoDB: To recover: LSN 41000000/101000000; 4000 pages", 1.0)
    for second in range(1, 19):
        pages = 100 * second
        start.add_sample(ProcessSample(1.0 + second, 0, 0, 0, read_bytes=16384 * pages, write_bytes=0, cpu_s=1.0))
        if second == 10:
            start.add_line("2026-11-20 20:29:40 0 [Note] InnoDB: To recover: 6000 pages", 11.0)
    left = start.progress(19.0).left_s
    assert left is not None
    assert left.least_s < 52 / 2, "of 6,000 pages 800 are read, and half of them need no read"
    assert left.most_s > 52


def test_mariadb_that_is_looked_at_late_counts_pages_since_the_process_began() -> None:
    start = started(
        "2026-11-20 20:29:30 0 [Note] Starting MariaDB 10.11.5-MariaDB source revision 78 as process 12",
        "2026-11-20 20:29:30 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=66973",
        "2026-11-20 20:29:30 0 [Note] InnoDB: To recover: 20000 pages",
        totals=Totals(redo=RedoSpan(66_973, 66_973 + 16384 * 9000), direct_io=True),
    )
    for at_s, pages in ((21.0, 15_000), (22.0, 15_250)):
        start.add_sample(ProcessSample(at_s, 0, 0, 0, read_bytes=16384 * pages, write_bytes=0, cpu_s=at_s))
    now = start.progress(22.0)
    assert (now.done, now.total) == (5250, 20000)
    assert now.left_s is not None
    assert now.left_s.most_s > 59, "15,000 pages at 250 a second"
    assert now.left_s.least_s < 19 * 1.1, "half of the pages may need no read"


def test_percentages_of_5_7_are_counted_without_a_number_of_pages() -> None:
    start = started(*START_57, *CRASH_57, f"{NEW} InnoDB: Starting an apply batch of log records to the database...")
    for percent in range(1, 31):
        text = f"InnoDB: Progress in percent: {' '.join(map(str, range(1, percent + 1)))} "
        start.add_line(text, 1.0 + percent, complete=False)
    now = start.progress(31.0)
    assert (now.phase, now.done, now.total, now.unit) == (REDO_APPLY, 30, 100, Unit.PERCENT)


def test_mariadb_counts_down_the_pages_to_recover() -> None:
    start = started(
        "2026-11-20 20:29:30 0 [Note] Starting MariaDB 10.11.5-MariaDB source revision 78 as process 12",
        "2026-11-20 20:29:30 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=66973",
        "2026-11-20 20:29:30 0 [Note] InnoDB: To recover: 1000 pages",
    )
    for remaining, at_s in ((800, 16.0), (600, 31.0)):
        start.add_line(f"2026-11-20 20:29:45 0 [Note] InnoDB: To recover: {remaining} pages", at_s)
    now = start.progress(31.0)
    assert (now.phase, now.done, now.total) == (REDO_APPLY, 400, 1000)
    assert start.tracker.checkpoint_lsn == 66973


def dictionary_of(release: str) -> StartProgress:
    return started(
        f"2026-11-20 20:29:30 0 [Note] Starting MariaDB {release}-MariaDB source revision 78 as process 12",
        "2026-11-20 20:29:30 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=66973",
        "2026-11-20 20:29:30 0 [Note] InnoDB: 128 rollback segments are active.",
        totals=Totals(files=20_007),
    )


def test_the_dictionary_of_mariadb_is_counted_by_the_files_that_it_opens_in_their_order() -> None:
    start = dictionary_of("10.11.5")
    assert start.opens_files_in_order
    for second in range(1, 11):
        now = opened(start, 1000 * second, 1.0 + second)
    assert (now.phase, now.done, now.total, now.unit) == (DICTIONARY, 10_000, 20_007, Unit.FILES)
    assert now.left_s is not None
    assert (now.left_s.least_s, now.left_s.about_s) == (0.0, None)
    assert now.left_s.most_s == pytest.approx(1.5 * 10 + 1, abs=0.1), "and a second, in which it is not sampled"
    start.add_line('2026-11-20 20:29:45 0 [Note] InnoDB: Removed temporary tablespace data file: "./ibtmp1"', 12.0)
    assert not start.opens_files_in_order


def test_one_look_at_the_dictionary_of_mariadb_is_enough_for_a_rate() -> None:
    start = dictionary_of("10.11.5")
    now = opened(start, 5000, 11.0)
    assert now.done == 5000
    assert now.rate == pytest.approx(500)
    assert now.left_s is not None
    assert now.left_s.most_s == pytest.approx(46, abs=0.1)


def test_the_dictionary_has_no_count_if_the_files_are_not_seen_or_not_opened() -> None:
    now = opened(dictionary_of("10.11.5"), None, 11.0)
    assert (now.phase, now.done, now.rate, now.left_s) == (DICTIONARY, None, None, None)
    start = dictionary_of("11.4.5")
    assert not start.opens_files_in_order
    now = opened(start, None, 11.0)
    assert (now.phase, now.done, now.unit) == (DICTIONARY, None, None)


def test_the_dictionary_of_mariadb_is_ahead_of_redo() -> None:
    start = started(
        "2026-11-20 20:29:30 0 [Note] Starting MariaDB 10.11.5-MariaDB source revision 78 as process 12",
        "2026-11-20 20:29:30 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=66973",
        totals=Totals(files=20_007),
    )
    assert [(one.phase, one.total) for one in start.progress(2.0).ahead] == [(REDO_APPLY, None), (DICTIONARY, 20_007)]


def test_the_flush_that_8_0_does_not_log_is_counted_by_pages_written() -> None:
    batch = f"{NEW} [MY-012532] [InnoDB] Applying a batch of 2000 redo log records ..."
    start = started(*START_80, SCAN_80, *CRASH_80, batch, totals=Totals(direct_io=True))
    start.add_line(f"{NEW} [MY-012535] [InnoDB] Apply batch completed!", 5.0)
    for second in range(11):
        logs = 1_000_000 * second
        sample = ProcessSample(5.0 + second, 0, 0, wchar=logs, read_bytes=0, write_bytes=logs + 16384 * 100 * second)
        start.add_sample(sample)
    now = start.progress(15.0)
    assert (now.phase, now.done, now.total, now.unit) == (PAGE_FLUSH, 1000, 2000, Unit.PAGES)
    assert now.left_s is not None
    assert now.left_s.most_s == pytest.approx(21, abs=0.2), "twice what the rate gives, and a second"
    assert now.left_s.about_s is None
    assert [one.phase for one in now.ahead] == [FILE_CHECK]


def test_the_rollback_after_ready_ends_when_no_row_is_left() -> None:
    undo = (
        f"{NEW} [MY-013017] [InnoDB] 1 transaction(s) which must be rolled back or cleaned up in total 6000 row "
        "operations to undo"
    )
    start = started(*START_80, SCAN_80, *CRASH_80, undo)
    assert [(one.phase, one.total) for one in start.progress(1.0).ahead][-1] == (ROLLBACK, 6000)
    start.add_line(READY, 10.0)
    assert start.progress(10.0).phase is None
    for second in range(1, 5):
        start.add_rows_to_undo(10.0 + second, 6000 - 1000 * second)
    now = start.progress(14.0)
    assert (now.phase, now.done, now.total, now.unit, now.ready) == (ROLLBACK, 4000, 6000, Unit.ROWS, True)
    assert now.left_s is not None
    assert now.left_s.about_s == pytest.approx(2, abs=0.5)
    start.add_rows_to_undo(16.0, 0)
    assert start.progress(16.0).phase is None


def test_the_rollback_ends_although_a_prepared_transaction_keeps_its_rows() -> None:
    start = started(*START_80, SCAN_80, *CRASH_80)
    start.add_line(READY, 10.0)
    start.add_rows_to_undo(11.0, 500)
    assert start.progress(11.0).phase == ROLLBACK
    start.add_line(f"{NEW} [MY-013019] [InnoDB] Rollback of non-prepared transactions completed", 12.0)
    assert start.progress(12.0).phase is None


def test_what_the_process_does_is_told_of_the_last_seconds() -> None:
    start = StartProgress()
    assert start.progress(0.0).cpus is None
    for second in range(21):
        busy_s = float(max(0, second - 10))
        start.add_sample(ProcessSample(float(second), read_bytes=int(1e6 * busy_s), cpu_s=busy_s / 2))
    now = start.progress(20.0)
    assert now.cpus == pytest.approx(0.5)
    assert now.read_bytes_per_s == pytest.approx(1e6)


COUNTS = st.integers(0, 10**12)
SAMPLES = st.builds(ProcessSample, st.floats(0, 1e6), COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.floats(0, 1e6))


@given(samples=st.lists(SAMPLES, max_size=20), now_s=st.floats(0, 2e6), files=st.integers(0, 10**7))
def test_counters_of_any_size_give_an_ordered_range(samples: list[ProcessSample], now_s: float, files: int) -> None:
    for lines in ((*START_57, *CRASH_57, APPLIED), (*START_80, SCAN_80), START_57):
        start = started(*lines, totals=Totals(files=files, redo=RedoSpan(10, 10**9)))
        for sample in sorted(samples, key=lambda sample: sample.at_s):
            start.add_sample(sample)
        left = start.progress(now_s).left_s
        assert left is None or 0 <= left.least_s <= (left.about_s or left.least_s) <= left.most_s


# --- Recorded and cut logs


def recorded(name: str) -> list[tuple[float, str]]:
    """The lines of a recorded crash start, and the moments of their arrival."""
    lines = (LOGS / f"{name}-crash.arrivals").read_text(errors="replace").splitlines()
    return [(float(line.split(" ", 1)[0]), line.partition("\t")[2]) for line in lines]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_start_shows_the_phases_while_it_runs_that_its_report_has(name: str) -> None:
    lines, start, shown = recorded(name), StartProgress(), list[tuple[float, str | None]]()
    for at_s, text in lines:
        start.add_line(text, at_s)
        shown.append((at_s, start.progress(at_s).phase))
    assert start.progress(lines[-1][0]).ready
    assert start.tracker.checkpoint_lsn is not None
    for phase in start.tracker.phases(lines[-1][0]):
        begun = [name for at_s, name in shown if at_s <= phase.start_s]
        parts = set((begun[-1] or PROCESS_START).split(JOIN)) if begun else {PROCESS_START}
        # A view does not go back: what comes after the scan and the check is short, and shown as the next phase.
        next_one = {PROCESS_START: BUFFER_POOL, DICTIONARY: REST_TO_READY}.get(phase.name, UNNAMED)
        assert parts & {*phase.name.split(JOIN), UNNAMED, PAGE_FLUSH, next_one}, phase


@pytest.mark.parametrize("name", [name for name in RECORDED if name.startswith(("mysql-8", "mysql-9"))])
@pytest.mark.parametrize("kind", ["crash", "clean"])
def test_a_phase_that_is_over_is_not_shown_again(name: str, kind: str) -> None:
    shown, start = list[str | None](), StartProgress()
    for number, line in enumerate((LOGS / f"{name}-{kind}.err").read_text(errors="replace").splitlines()):
        start.add_line(line, float(number))
        progress = start.progress(float(number))
        if progress.ready:
            break
        if progress.phase not in shown[-1:]:
            shown.append(progress.phase)
        has_checked = any(FILE_CHECK in (phase or "") for phase in shown[:-1])
        assert not has_checked or FILE_CHECK not in [ahead.phase for ahead in progress.ahead]
    assert has_checked
    assert len(shown) == len(set(shown)), shown


@pytest.mark.parametrize("name", RECORDED)
def test_a_log_that_is_cut_anywhere_shows_no_phase_that_its_start_does_not_have(name: str) -> None:
    lines, chance = recorded(name), random.Random(name)  # noqa: S311 - where logs are cut
    whole, at_end = StartProgress(), list[str | None]()
    for at_s, text in lines:
        whole.add_line(text, at_s)
        at_end.append(whole.progress(at_s).phase)
    raw = "\n".join(text for _, text in lines)
    for _ in range(200 // len(RECORDED) + 1):
        begin, end = sorted(chance.sample(range(len(raw)), 2))
        for first in (0, begin):
            log = WatchedLog(1e6, 1.8e9)
            pieces = raw[first:end].split("\n")
            for number, text in enumerate(pieces):
                log.take(text, complete=number < len(pieces) - 1)
            now = log.progress.progress(1e6)
            log.starts()
            if first == 0 and not now.ready:
                complete = raw[:end].count("\n")
                assert now.phase == (at_end[complete - 1] if complete else None)


# --- Loops


def tries(*ends: float, checkpoint: int = 1_000_000, lines: tuple[str, ...] = START_57) -> WatchedLog:
    """A log of starts that end after so many seconds each, and of the one after them."""
    log = WatchedLog(1e6, 1.8e9)
    at_s = 0.0
    for seconds in (*ends, 0.0):
        for text in lines:
            stamped = text.replace("20:29:15", f"20:{int(at_s) // 60:02}:{int(at_s) % 60:02}")
            log.take(stamped.replace("lsn 1000000", f"lsn {checkpoint}"))
        at_s += seconds + 2
    return log


def test_starts_from_one_checkpoint_that_are_never_ready_are_a_loop() -> None:
    loop = tries(60, 60).loop
    assert loop is not None
    assert (loop.tries, loop.checkpoint_lsn, loop.gains) == (3, 1_000_000, "nothing")
    assert loop.since == "2026-11-20T20:00:00.123456Z"
    assert loop.longest_s == pytest.approx(62)


def test_starts_that_end_while_they_read_files_gain_by_the_page_cache() -> None:
    loop = tries(60, lines=(*START_57, *CRASH_57, APPLIED)).loop
    assert loop is not None
    assert (loop.tries, loop.gains) == (2, "page cache")


def test_one_start_another_checkpoint_or_a_ready_start_is_no_loop() -> None:
    assert tries().loop is None
    log = tries(60)
    history = log.starts()[:-1]
    assert find_loop(history, 1_000_001) is None
    assert find_loop([replace(start, outcome="ready") for start in history], 1_000_000) is None
    assert find_loop([replace(start, checkpoint_lsn=None) for start in history], 1_000_000) is None
    seen = {str(history[0].at): 1_000_000}
    assert find_loop([replace(start, checkpoint_lsn=None) for start in history], 1_000_000, seen) is not None


def test_the_start_of_an_earlier_process_is_not_that_of_a_new_one() -> None:
    log = WatchedLog(1e6, 1.8e9, process_s=1e6 - 1)
    log.take(START_57[0], 1e6 - 100)
    assert not log.is_of((13,)), "another process id"
    assert not log.is_of((12,)), "the same one, as in a container, before the process was there"
    log.take(START_57[0], 1e6)
    assert log.is_of((12,))
    assert log.is_of((345, 12)), "the id within the container"


def test_stamps_without_a_zone_are_placed_by_the_process() -> None:
    log = WatchedLog(1000.0, 1.8e9, process_s=990.0)  # 2027-01-15 08:00 UTC; the server is in another zone
    log.take("2027-01-15 13:29:51 0 [Note] Starting MariaDB 10.11.5-MariaDB source revision 78 as process 12")
    assert log.progress.tracker.started_s == pytest.approx(991.0)
