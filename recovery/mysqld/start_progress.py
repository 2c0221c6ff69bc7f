"""Estimates how far a start has come, and how long its current phase still takes.

It reads no clock and no file: lines of the log, samples of the process and the totals are fed to it, so that a recorded
start can be replayed. All times are of one clock, which the caller chooses.

Progress comes in steps. The time left is counted from the last step, and the time since then is subtracted, at most the
usual time between two steps, and only while the process does anything: the time left of a server that stands still
never falls."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from recovery.analysis.phase_names import (
    DICTIONARY,
    DISCOVERY,
    FILE_CHECK,
    FILE_SCAN,
    INNODB_INITIALIZATION,
    JOIN,
    ORDER,
    REDO_APPLY,
    REDO_SCAN,
    ROLLBACK,
    UNNAMED,
    VALIDATION,
)
from recovery.model import Flavor, can
from recovery.mysqld.error_log import MAX_SEARCHED_CHARS, EventKind, Milestone, classify, is_retried, milestone_of
from recovery.mysqld.log_analysis import ONLY_AFTER_CRASH, version_of
from recovery.mysqld.phases import (
    BACKGROUND_MILESTONES,
    PHASE_OPENED_BY,
    CurrentPhase,
    FileAccess,
    PhaseTracker,
)
from recovery.mysqld.redo_work import SCAN_STEP_BYTES, Points, RedoLeft, RedoWork

if TYPE_CHECKING:
    from recovery.model import Version
    from recovery.mysqld.redo_log import RedoSpan

PAGE_FLUSH = "page flush"
"""8.0 and later write all recovered pages after "Apply batch completed!", and log nothing of it. Reports call this time
`unnamed`, since they cannot tell how much of it the flush took."""

# --- What is fed


@dataclass(frozen=True)
class ProcessSample:
    """Counters of a process since it was created, as /proc/PID/io and /proc/PID/stat have them. One that this user may
    not read is None."""

    at_s: float
    syscr: int | None = None
    rchar: int | None = None
    wchar: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    cpu_s: float | None = None
    state: str | None = None
    """The letter of /proc/PID/stat: `R`, `S`, `D` (waits for storage), `T` (stopped by a signal)."""
    files_opened: int | None = None
    """How many tables' files it has opened, of all in the order of their names."""

    @property
    def io(self) -> tuple[int | None, ...]:
        return self.syscr, self.rchar, self.wchar, self.read_bytes, self.write_bytes


@dataclass(frozen=True)
class Totals:
    """What there is to do, as far as the files show. A value that is not known is None."""

    files: int | None = None
    """Number of .ibd files."""
    redo: RedoSpan | None = None
    """The part of the redo log after the last checkpoint."""
    page_bytes: int = 16384
    direct_io: bool = False
    """Whether the server reads and writes pages without the page cache (O_DIRECT)."""


# --- The table: what is counted in each phase


class Unit(Enum):
    FILES = "files"
    BYTES = "bytes"
    PAGES = "pages"
    PERCENT = "%"
    ROWS = "rows"


class Claim(Enum):
    """Whether a time left is shown, by how well it was measured."""

    RANGE = "a range"
    AT_MOST = "at most"
    TOGETHER = "with the other phase of redo"
    NONE = "none"


@dataclass(frozen=True)
class CountedPhase:
    """A phase of which the progress can be counted: a row of the table."""

    phase: str
    unit: Unit
    counter: Callable[[ProcessSample, Totals], float | None] | None
    """Counts in a sample of the process; None: only lines of the log count."""
    claim: Claim
    errors: tuple[float, float, float]
    """Nine of ten truths were not more than this share above the estimated time left, and not further below it than its
    inverse, when 25, 50 and 75 % were done."""
    passes_before: int = 0
    """How often the server has read every file before this phase."""
    opened_by: Milestone | None = None
    """The milestone from which on is counted, and which names the phase: of the two phases that it opens, the log tells
    only later, if at all, when the second one began."""
    per_file: int = 1
    """Calls of read for each file."""
    skipped_s: float = 0.0
    """Time at the beginning of the phase in which something else is done."""
    of_phase: bool = False
    """Whether the counter is 0 at the beginning of the phase, and not of the process."""


def _read_calls(sample: ProcessSample, _: Totals) -> float | None:
    return sample.syscr


def _bytes_read(sample: ProcessSample, _: Totals) -> float | None:
    return sample.rchar


def _pages_read(sample: ProcessSample, totals: Totals) -> float | None:
    if sample.read_bytes is None or not totals.direct_io:
        return None
    return sample.read_bytes / totals.page_bytes


def _pages_written(sample: ProcessSample, totals: Totals) -> float | None:
    """Pages are written by asynchronous I/O, which `wchar` does not count, and the logs by calls, which it does."""
    if sample.write_bytes is None or sample.wchar is None or not totals.direct_io:
        return None
    return (sample.write_bytes - sample.wchar) / totals.page_bytes


def _files_opened(sample: ProcessSample, _: Totals) -> float | None:
    return sample.files_opened


_REDO_ERRORS = (0.9, 0.8, 0.7)
_WITH_REDO = JOIN.join((REDO_APPLY, VALIDATION))
"""MariaDB 10.2 logs nothing between the two."""
TABLE = (
    CountedPhase(DISCOVERY, Unit.FILES, _read_calls, Claim.RANGE, (0.5, 0.35, 0.3)),
    CountedPhase(INNODB_INITIALIZATION, Unit.FILES, _read_calls, Claim.AT_MOST, (0.5, 0.5, 0.5)),
    CountedPhase(FILE_SCAN, Unit.FILES, _read_calls, Claim.RANGE, (0.4, 0.3, 0.2), opened_by=Milestone.SCAN),
    CountedPhase(REDO_SCAN, Unit.BYTES, _bytes_read, Claim.TOGETHER, _REDO_ERRORS),
    CountedPhase(REDO_APPLY, Unit.PAGES, _pages_read, Claim.TOGETHER, _REDO_ERRORS),
    CountedPhase(VALIDATION, Unit.FILES, _read_calls, Claim.RANGE, (0.2, 0.2, 0.2)),
    CountedPhase(_WITH_REDO, Unit.FILES, _read_calls, Claim.RANGE, (0.4, 0.3, 0.2), per_file=3),
    CountedPhase(PAGE_FLUSH, Unit.PAGES, _pages_written, Claim.AT_MOST, (1.0, 1.0, 1.0)),
    CountedPhase(
        FILE_CHECK,
        Unit.FILES,
        _read_calls,
        Claim.RANGE,
        (0.2, 0.2, 0.2),
        passes_before=1,
        opened_by=Milestone.VALIDATE,
        skipped_s=2.0,
    ),
    CountedPhase(DICTIONARY, Unit.FILES, _files_opened, Claim.AT_MOST, (0.5, 0.5, 0.5), of_phase=True),
    CountedPhase(ROLLBACK, Unit.ROWS, None, Claim.RANGE, (0.4, 0.25, 0.15)),
)
"""The phases in their order. docs/results/how-true.md says how the errors were measured; no error is less than 0.2,
since storage changes its speed."""

# --- What comes out


@dataclass(frozen=True)
class TimeLeft:
    """The time left of a phase: the range that holds nine of ten truths."""

    least_s: float
    """The lower end of the range."""
    most_s: float
    """The upper end of the range."""
    about_s: float | None
    """The estimate; None if only "at most" can be said."""


@dataclass(frozen=True)
class PhaseAhead:
    """A phase that is still to come, and how much there is to do in it, if that is known."""

    phase: str
    total: int | None
    unit: Unit


@dataclass(frozen=True)
class Progress:
    """How far a start has come. A value that is not known is None."""

    phase: str | None
    """None if no line of the log shows a phase yet."""
    done: float | None
    total: int | None
    unit: Unit | None
    """None if nothing is counted in this phase."""
    rate: float | None
    """Per second."""
    since_s: float
    """Time in the phase."""
    left_s: TimeLeft | None
    progress_at_s: float
    """The last moment at which the log, the I/O or the CPU time of the process moved, on the caller's clock."""
    ahead: tuple[PhaseAhead, ...]
    ready: bool
    failure: str | None
    """The line with which the server said that its start failed, or that it ended."""
    cpus: float | None = None
    """CPUs that the process used in the last seconds."""
    read_bytes_per_s: float | None = None
    """What the process read from storage in the last seconds."""
    recent_rate: float | None = None
    """Per second, in the last 20 s or so; None if the phase is not older."""
    fell_from: float | None = None
    """The rate before that, if the recent one is clearly lower."""


_SHOWN_FROM = 0.05
"""The least share of a phase that must be done before a time left is shown."""
_SETTLED_S = 2.0
"""Time after which the rate of a phase is known."""
_WINDOW_S = 5.0
"""The rate is that of the second half of the phase so far, and of so many seconds at least."""
_RECENT_S = 20.0
"""Time of the recent rate, which shows that storage has changed its speed."""
_MOST_OF_MEAN = 20.0
"""The recent rate is not taken to be lower than this share of the mean."""
_CLEARLY = 2.0
"""A rate that fell by this factor is named."""
RESOLUTION_S = 1.0
"""The range is wider by this at both ends: the process is sampled once a second."""
_QUIET_S = 60.0
"""After so long without any progress, no time left is shown."""
_IDLE_CPUS = 0.02
"""CPU use up to this is no progress: a server that waits still wakes up now and then."""
_MAX_SAMPLES = 20_000
_OTHER_READ_CALLS, _REDO_READ_BYTES = 200, 65536
"""What a server reads besides tables' files before it is ready: its own files, and the redo log in such pieces."""
_OTHER_PAGES = 1000
"""What a server reads before it applies redo, besides the redo log."""
REDO = (REDO_SCAN, REDO_APPLY)
"""The phases of which one time left is shown."""
_REDO_SETTLED_S = 1.0
"""Time of batches after which their rate is known."""
_NO_PAGES_LEFT = 0.97
"""Share of the pages after which MariaDB's reads show nothing: it has read others, too."""
_UNREAD_PAGES = 0.5
"""The share of the pages of a batch, at most, that MariaDB need not read."""
_LITTLE_REDO_BYTES = 16 << 20
"""MariaDB 10.2 validates files at their own rate up to so much redo."""
_MANY_FILES = 2000
"""From so many files on, the server's own reads before a phase are few beside them."""
_PARTLY_SEEN = 1.5
"""Factor for the errors of a phase whose beginning was not sampled."""

_STEPS = tuple(
    (hint, re.compile(pattern, re.ASCII), unit, meaning)
    for hint, pattern, unit, meaning in (
        ("Checked ", r"Checked (\d+)/(\d+)", Unit.FILES, "done of total"),
        ("alidated ", r"alidated (\d+)(?: out of |/)(\d+) (?! )", Unit.FILES, "done of total"),
        ("scanned up to", r"scanned up to log sequence number (\d+)", Unit.BYTES, "position"),
        ("redo log up to", r"(?:Read|Parsed) redo log up to LSN=(\d+)", Unit.BYTES, "position"),
        ("Applying a", r"Applying a batch of (\d+)", Unit.PAGES, "total"),
        ("batch to recover", r"batch to recover\s+(\d+) pages", Unit.PAGES, "total"),
        ("To recover", r"To recover: (?:LSN [\d/]+; )?(\d+) pages", Unit.PAGES, "remaining"),
        ("Progress in percent:", r":(?: \d{1,3})*? (\d{1,3})\s*$", Unit.PAGES, "percent"),
        ("MY-012533", r"\[InnoDB\] (\d{1,3})%", Unit.PAGES, "percent"),
        ("row operations", r"in total (\d+) row operations", Unit.ROWS, "total"),
        ("To roll back", r"transactions, (\d+) rows", Unit.ROWS, "remaining"),
        ("Progress in percents:", r":(?: \d{1,3})*? (\d{1,3})\s*$", Unit.ROWS, "percent"),
    )
)
"""What the log reports about progress: a text in the line, the pattern, what is counted, and what the numbers are."""
_MAX_DIGITS = 18
_STEP_OF_THREAD = re.compile(r"Thread# (\d{1,3}) - (\w+) (\d{1,18})/(\d{1,18})\b", re.ASCII)


class StartProgress:
    """Follows one start of a server. Feed it every line and sample, in the order of their times, and ask for
    `progress()` at any moment."""

    def __init__(self, version: Version | None = None, started_s: float = 0.0, totals: Totals | None = None) -> None:
        """`started_s` is the beginning of the start: the first line or, better, the creation of the process."""
        self.tracker = PhaseTracker(version, started_s)
        self.totals = totals or Totals()
        """May be replaced as more becomes known."""
        self.ready_s: float | None = None
        """When the server became ready."""
        self.failure: str | None = None
        self._samples: list[ProcessSample] = []
        self._moved: ProcessSample | None = None
        """The last sample in which the process had done something, or the first one."""
        self.moved_s = started_s
        """The last moment at which the log or the process is known to have moved."""
        self._rows_left: int | None = None
        self._steps: list[tuple[float, Unit, float]] = []
        """Progress that the log reports: when, and how much was done."""
        self._threads: dict[str, tuple[int, int]] = {}
        """Files that each thread has done, and how many it has."""
        self._threads_do = ""
        """What these threads do, in the word of the log."""
        self._thread_steps: list[tuple[float, float]] = []
        """Files that all threads have done, by those that log it: when, and how many."""
        self._logged_totals: dict[Unit, int] = {}
        self._redo = RedoWork()

    def add_line(self, text: str, at_s: float, *, complete: bool = True, wall_s: float | None = None) -> None:
        """Takes a line of the log. One that is still being written is given again when it has grown. `wall_s` is the
        moment of its arrival on the wall clock, which shows lines that the server held back."""
        self.moved_s = max(self.moved_s, at_s)
        self._add_step(text[:MAX_SEARCHED_CHARS], at_s)
        self._redo.add_line(text[:MAX_SEARCHED_CHARS], at_s, complete=complete)
        if not complete or self.failure is not None:
            return
        milestone = milestone_of(text)
        if milestone is None and text.startswith("Version: '"):
            milestone = Milestone.READY  # it follows the ready line, which is translated up to 5.7 and in MariaDB
        if self.ready_s is None or milestone in BACKGROUND_MILESTONES:
            self.tracker.add(text, milestone, at_s, wall_s=wall_s)
        self.tracker.version = self.tracker.version or version_of(text)
        event = classify(text)
        if event is not None and is_retried(event.text):
            event = None  # it may still become ready
        if milestone is Milestone.READY:
            self.ready_s = self.ready_s or at_s
        elif event is not None and event.kind in (EventKind.FAILURE, EventKind.SHUTDOWN):
            self.failure = event.text
        elif event is not None or ONLY_AFTER_CRASH.search(text[:MAX_SEARCHED_CHARS]):
            self.tracker.crashed = True

    def add_sample(self, sample: ProcessSample) -> None:
        """Takes a sample of the process. One a second is enough; one more at each line makes phases begin sharply."""
        self._samples.append(sample)
        if len(self._samples) > _MAX_SAMPLES:
            self._samples = self._samples[::2]
        if self._moved is None:
            self._moved = sample
        elif _has_moved(self._moved, sample):
            self._moved, self.moved_s = sample, max(self.moved_s, sample.at_s)

    def add_rows_to_undo(self, at_s: float, rows: int) -> None:
        """Takes the number of rows that the rollback after ready has still to undo: the sum of `trx_rows_modified` in
        information_schema.innodb_trx where `trx_mysql_thread_id` is 0."""
        if rows != self._rows_left:
            self.moved_s = max(self.moved_s, at_s)
        self._rows_left = rows
        self._add_remaining(at_s, Unit.ROWS, rows)

    def progress(self, now_s: float) -> Progress:
        phase, since_s = self._phase(now_s)
        row = self._row(phase)
        if row is not None and row.opened_by is not None:
            opened_s = self.tracker.first_seen(row.opened_by)
            if opened_s is not None:
                phase, since_s = PHASE_OPENED_BY[row.opened_by], opened_s
        points, unit, partly_seen = self._points(row, since_s) if row is not None else ((), None, False)
        total = None if unit is None else self._total(unit)
        pace = _Pace.of(points, now_s, self.moved_s, since_s + (0.0 if row is None else row.skipped_s))
        # It is not known whether a process moved before it was looked at.
        progress_at_s = max(self.moved_s, self._samples[0].at_s if self._samples else self.moved_s)
        done = points[-1][1] if points else None
        left, is_quiet = None, now_s - progress_at_s >= _QUIET_S
        if is_quiet:
            pass
        elif row is not None and row.claim is Claim.TOGETHER:
            left = self._redo_left(now_s)
        elif row is not None and pace is not None and total:
            left = _time_left(row, pace, total, partly_seen=partly_seen)
        return Progress(
            phase=phase,
            done=done if done is None or total is None else min(done, total),
            total=total,
            unit=unit,
            rate=None if pace is None else pace.rate,
            since_s=max(0.0, now_s - since_s),
            left_s=left,
            progress_at_s=progress_at_s,
            ahead=tuple(self._ahead(phase)),
            ready=self.ready_s is not None and self.failure is None,
            failure=self.failure,
            cpus=self._lately(lambda sample: sample.cpu_s),
            read_bytes_per_s=self._lately(lambda sample: sample.read_bytes),
            recent_rate=None if pace is None or pace.before is None or is_quiet else pace.recent,
            fell_from=None if pace is None or not pace.has_fallen or is_quiet else pace.before,
        )

    def _redo_left(self, now_s: float) -> TimeLeft | None:
        """Returns the time left of the scan and the apply of redo together."""
        version, redo = self.tracker.version, self.totals.redo
        is_mariadb = version is not None and version.flavor is Flavor.MARIADB
        left = self._redo.left(
            now_s,
            self.checkpoint_lsn,
            None if redo is None else redo.bytes,
            self._pages_read_since if self._may_count_pages(is_mariadb=is_mariadb) else None,
        )
        if left is None:
            return None
        pace = _Pace.of(left.applied, left.clock_s, left.clock_s - max(0.0, now_s - self.moved_s), 0.0)
        return None if pace is None else _time_left_of_redo(left, pace, is_mariadb=is_mariadb)

    def _may_count_pages(self, *, is_mariadb: bool) -> bool:
        """Returns whether the pages of redo are counted by what the process reads. MySQL 8.0 reads the files before, so
        that it must have been looked at before it applies redo."""
        begun_s = self.tracker.first_seen(Milestone.APPLY)
        is_late = bool(self._samples) and begun_s is not None and self._samples[0].at_s > begun_s + 1.0
        return self.totals.direct_io and bool(self._samples) and (is_mariadb or not is_late)

    def _pages_read_since(self, begin_s: float, now_s: float) -> Points:
        """Returns how many pages the process has read since a batch of redo began, at each sample."""
        counted = [
            (one.at_s, float(count)) for one in self._samples if (count := _pages_read(one, self.totals)) is not None
        ]
        if not counted:
            return ()
        base = _value_at(counted, begin_s)
        if counted[0][0] > begin_s + 1.0:
            # The process was first looked at later: it had read the redo log before, and its own files.
            if not self._redo.is_first_batch(begin_s):
                return ()
            base = self._pages_before_redo()
        return [(at_s, max(0.0, count - base)) for at_s, count in counted if begin_s < at_s <= now_s]

    def _pages_before_redo(self) -> float:
        redo = 0 if self.totals.redo is None else self.totals.redo.bytes
        return redo / self.totals.page_bytes + _OTHER_PAGES

    def _lately(self, counter: Callable[[ProcessSample], float | None]) -> float | None:
        """Returns how much a counter of the process grew in a second of the last few."""
        if not self._samples or self._samples[-1].at_s <= self._samples[0].at_s:
            return None
        last = self._samples[-1]
        first = next((one for one in reversed(self._samples) if last.at_s - one.at_s >= _WINDOW_S), self._samples[0])
        before, now = counter(first), counter(last)
        return None if before is None or now is None else (now - before) / (last.at_s - first.at_s)

    def current(self, now_s: float) -> CurrentPhase:
        """Returns the phase of the start with its time left. Another thread may call this while lines arrive."""
        current, left = self.tracker.current(now_s), self.progress(now_s).left_s
        return current if left is None else replace(current, left_s=left.about_s)

    # --- Which phase, and which row of the table

    def _phase(self, now_s: float) -> tuple[str | None, float]:
        milestones = self.tracker.milestones
        if self.tracker.redo_bytes is None and self.totals.redo is not None:
            self.tracker.redo_bytes = self.totals.redo.bytes
        if self.ready_s is not None:
            # Rows of prepared transactions stay locked after it.
            may_roll_back = Milestone.ROLLBACK in milestones if self._rows_left is None else self._rows_left > 0
            rolls_back = may_roll_back and Milestone.ROLLED_BACK not in milestones
            return ROLLBACK if rolls_back else None, self.ready_s
        current = self.tracker.current(now_s)
        phase = current.phase
        if self.tracker.last_milestone is Milestone.APPLIED:
            if self._has_redo_left():
                phase = REDO_SCAN
            elif phase == UNNAMED and self.tracker.context.file_access is FileAccess.SCAN_AND_VALIDATE:
                phase = PAGE_FLUSH
        return phase, current.since_s

    def _has_redo_left(self) -> bool:
        """Returns whether a batch has been applied before the scan of the redo log was over."""
        redo, scanned = self.totals.redo, [done for _, unit, done in tuple(self._steps) if unit is Unit.BYTES]
        return redo is not None and bool(scanned) and scanned[-1] < redo.bytes - SCAN_STEP_BYTES

    def _row(self, phase: str | None) -> CountedPhase | None:
        """Returns the row of a phase or, of those that the log joins, of the last one that has a row."""
        parts = () if phase is None else (*phase.split(JOIN), phase)
        row = max((row for row in TABLE if row.phase in parts), key=lambda row: parts.index(row.phase), default=None)
        is_clean = self.tracker.has_notes and not self.tracker.crashed
        if row is None or (row.phase == FILE_CHECK and is_clean):
            return None  # after a clean shutdown, files are opened for the check without being read
        if row.phase == DICTIONARY and not (self._opens_all_for_dictionary() and self._sees_opens()):
            return None
        redo = self.totals.redo
        if row.phase == INNODB_INITIALIZATION:
            # 8.0 by default: it scans the files, and then redo, without a line.
            is_known = redo is not None and redo.bytes <= _LITTLE_REDO_BYTES
            return row if is_known or redo is None else replace(row, claim=Claim.NONE)
        # Pages that redo changes are read among the files.
        has_much_redo = row.phase == _WITH_REDO and redo is not None and redo.bytes > _LITTLE_REDO_BYTES
        return replace(row, claim=Claim.AT_MOST) if has_much_redo else row

    @property
    def opens_files_in_order(self) -> bool:
        """Whether the server opens every table's file now, in the order of their names, and reads hardly any."""
        return self.tracker.last_milestone is Milestone.SEGMENTS and self._opens_all_for_dictionary()

    def _sees_opens(self) -> bool:
        return bool(self._samples) and self._samples[-1].files_opened is not None

    def _opens_all_for_dictionary(self) -> bool:
        version, access = self.tracker.version, self.tracker.context.file_access
        if version is None or access is not FileAccess.NAMED_IN_REDO:
            return False
        return not can(version, "starts_with_modified_files")

    def _ahead(self, phase: str | None) -> Iterator[PhaseAhead]:
        if self.ready_s is not None:
            return
        context = self.tracker.context
        rows = [row for row in TABLE if row.phase in _PHASES_OF[context.file_access]]
        if self._opens_all_for_dictionary():
            rows.append(next(row for row in TABLE if row.phase == DICTIONARY))
        has_read_redo = any(milestone in self.tracker.milestones for milestone in _AFTER_REDO)
        if context.has_notes and not context.crashed and has_read_redo:
            rows = []  # a clean start
        part = None if phase is None else phase.split(JOIN)[-1]
        now = _POSITIONS.get(part or "", -1.0)
        for row in rows:
            if _POSITIONS[row.phase] > now and row.phase != part:
                yield PhaseAhead(row.phase, self._total(row.unit) if row.unit is not Unit.PAGES else None, row.unit)
        if self.tracker.counts.get("transactions_to_roll_back"):
            yield PhaseAhead(ROLLBACK, self._total(Unit.ROWS), Unit.ROWS)

    # --- How much is done

    def _total(self, unit: Unit) -> int | None:
        if unit is Unit.PERCENT:
            return 100
        if unit is Unit.BYTES:
            return None if self.totals.redo is None else self.totals.redo.bytes
        logged = self._logged_totals.get(unit)
        if unit is not Unit.FILES:
            return logged
        return self.totals.files or logged or self.tracker.counts.get("files_found")

    def _points(self, row: CountedPhase, since_s: float) -> tuple[Points, Unit, bool]:
        """Returns what was done in a phase and when, from its beginning on, the unit, and whether its beginning was
        not seen: then it is estimated what the process had counted before."""
        logged, unit = self._logged_points(row, since_s)
        version = self.tracker.version
        # MySQL logs every few megabytes of redo that it scans, MariaDB every 15 seconds.
        prefers_log = row.phase == REDO_SCAN and (version is None or version.flavor is not Flavor.MARIADB)
        if row.counter is None or (prefers_log and len(logged) > 1):
            return logged, unit, False
        counted = [
            (sample.at_s, count) for sample in self._samples if (count := row.counter(sample, self.totals)) is not None
        ]
        if not counted:
            by_threads = self._points_of_threads(row, since_s) if len(logged) == 1 else ()
            return by_threads or logged, unit, False
        # MariaDB logs how many pages there are, and hardly how many of them are done.
        has_steps = logged[-1][1] > 0 if row.phase == REDO_APPLY else len(logged) > 1
        partly_seen = counted[0][0] > since_s + 1.0 and not has_steps and not row.of_phase
        if partly_seen and row.unit is Unit.FILES and (self._total(Unit.FILES) or 0) < _MANY_FILES:
            return (), row.unit, False  # the files of tables cannot be told from the server's own
        base = self._count_before(row) if partly_seen else 0.0 if row.of_phase else _value_at(counted, since_s)
        if row.unit is Unit.FILES and len(logged) > 1 and counted[0][0] <= logged[-1][0]:
            base = _value_at(counted, logged[-1][0]) - logged[-1][1] * row.per_file  # the log tells it exactly
        points = [
            (since_s, 0.0),
            *((at_s, max(0.0, count - base) / row.per_file) for at_s, count in counted if at_s > since_s),
        ]
        # What MariaDB logs as remaining does not fall while it reads the pages.
        is_behind = (
            row.claim in (Claim.AT_MOST, Claim.TOGETHER) and unit is row.unit and 0 < logged[-1][1] < points[-1][1]
        )
        if len(logged) > 1 and (self._total(row.unit) is None or is_behind):
            return logged, unit, False
        return points, row.unit, partly_seen

    def _logged_points(self, row: CountedPhase, since_s: float) -> tuple[Points, Unit]:
        for unit in (row.unit, *((Unit.PERCENT,) if row.unit in (Unit.PAGES, Unit.ROWS) else ())):
            points = [(at_s, done) for at_s, of, done in self._steps if of is unit and at_s >= since_s]
            if points:
                return [(since_s, 0.0), *points], unit
        return [(since_s, 0.0)], row.unit

    def _points_of_threads(self, row: CountedPhase, since_s: float) -> Points:
        is_shared = row.unit is Unit.FILES and bool(self._thread_steps)
        return [(since_s, 0.0), *(step for step in self._thread_steps if step[0] >= since_s)] if is_shared else ()

    def _count_before(self, row: CountedPhase) -> float:
        if row.phase == REDO_APPLY:
            return self._pages_before_redo()
        if row.unit is not Unit.FILES:
            return 0.0
        redo = 0 if self.totals.redo is None else self.totals.redo.bytes // _REDO_READ_BYTES
        return row.passes_before * (self._total(Unit.FILES) or 0) + redo + _OTHER_READ_CALLS

    def _add_step(self, text: str, at_s: float) -> None:
        if "Thread# " in text:
            self._add_step_of_thread(text, at_s)
            return
        for hint, pattern, unit, meaning in _STEPS:
            if hint not in text or (match := pattern.search(text)) is None or len(match[1]) > _MAX_DIGITS:
                continue
            number, total = int(match[1]), self._logged_totals.get(unit)
            match meaning:
                case "total":
                    self._logged_totals[unit] = number
                case "remaining":
                    self._add_remaining(at_s, unit, number)
                case "done of total":
                    self._logged_totals[unit] = int(match[2][:_MAX_DIGITS])
                    self._steps.append((at_s, unit, number))
                case "position" if (begin := self.checkpoint_lsn) is not None and number >= begin:
                    self._steps.append((at_s, unit, number - begin))
                case "percent" if number <= 100:
                    step = (Unit.PERCENT, float(number)) if total is None else (unit, total * number / 100)
                    self._steps.append((at_s, *step))

    def _add_step_of_thread(self, text: str, at_s: float) -> None:
        """Takes the progress of one of several threads that share the files. Not all of them log theirs."""
        match = _STEP_OF_THREAD.search(text)
        if match is None or (total := self._total(Unit.FILES)) is None:
            return
        if self._threads and match[2] != self._threads_do:
            self._threads.clear()
            self._thread_steps.clear()
        self._threads_do = match[2]
        self._threads[match[1]] = int(match[3]), int(match[4])
        done, of = (sum(numbers) for numbers in zip(*self._threads.values(), strict=True))
        if of:
            self._thread_steps.append((at_s, total * min(1.0, done / of)))

    @property
    def checkpoint_lsn(self) -> int | None:
        """Where the recovery begins in the redo log, by the log or else by the files."""
        of_files = self.totals.redo
        return self.tracker.checkpoint_lsn or (None if of_files is None else of_files.checkpoint_lsn)

    def _add_remaining(self, at_s: float, unit: Unit, remaining: int) -> None:
        total = self._logged_totals[unit] = max(remaining, self._logged_totals.get(unit, 0))
        self._steps.append((at_s, unit, total - remaining))


def _has_moved(before: ProcessSample, now: ProcessSample) -> bool:
    if now.io != before.io or now.cpu_s is None or before.cpu_s is None:
        return now.io != before.io
    return now.cpu_s - before.cpu_s > _IDLE_CPUS * (now.at_s - before.at_s)


_PHASES_OF = {
    FileAccess.BEFORE_REDO: (DISCOVERY, REDO_SCAN, REDO_APPLY),
    FileAccess.UNLOGGED_AFTER_REDO: (REDO_SCAN, REDO_APPLY, VALIDATION),
    FileAccess.SCAN_AND_VALIDATE: (FILE_SCAN, REDO_SCAN, REDO_APPLY, PAGE_FLUSH, FILE_CHECK),
    FileAccess.NAMED_IN_REDO: (REDO_SCAN, REDO_APPLY),
}
"""The phases of a crash start that take time, by the server's access to files."""
_POSITIONS = {name: float(number) for number, name in enumerate(ORDER)}
_POSITIONS[PAGE_FLUSH] = _POSITIONS[REDO_APPLY] + 0.5
_AFTER_REDO = {Milestone.SEGMENTS, Milestone.UNDO, Milestone.STARTED}


# --- How fast, and how long still


@dataclass(frozen=True)
class _Pace:
    """The rate of a phase, and the time left by it."""

    done: float
    """At the last step."""
    rate: float
    waited_s: float
    """The part of the time since the last step in which the next one was on its way."""
    elapsed_s: float
    recent: float
    """The rate of the last seconds; the same as `rate` if the phase is not older."""
    before: float | None
    """The rate before them; None if it is not known."""

    @property
    def has_fallen(self) -> bool:
        return self.before is not None and self.recent * _CLEARLY < self.before

    def seconds(self, amount: float) -> tuple[float, float, float]:
        """Returns the shortest, the likely and the longest time that so much takes. A rate that has fallen is likely to
        stay so."""
        times = sorted((amount / self.rate, amount / self.recent))
        return times[0], times[1] if self.has_fallen else amount / self.rate, times[1]

    @classmethod
    def of(cls, points: Points, now_s: float, moved_s: float, begin_s: float) -> _Pace | None:
        steps = [later for before, later in pairwise(points) if later[1] > before[1]]
        if not steps:
            return None
        step_s, done = steps[-1]
        times = [points[0][0], *(at_s for at_s, _ in steps)]
        gaps = sorted(later - before for before, later in pairwise(times[-10:]))
        usual_s = gaps[len(gaps) // 2]
        from_s = max(begin_s, step_s - max(_WINDOW_S, (step_s - begin_s) / 2))
        if from_s >= step_s:
            return None
        gap_s = max(0.0, now_s - step_s)
        # A step that is late makes the rate lower, so that the time left rises.
        spent_s = step_s - from_s + max(0.0, gap_s - usual_s)
        rate = (done - _value_at(points, from_s)) / spent_s
        waited_s = max(0.0, min(gap_s, usual_s, moved_s - step_s))
        if rate <= 0:
            return None
        recent_s, recent, before = step_s - _RECENT_S, rate, None
        if recent_s > max(begin_s, points[0][0]) + _WINDOW_S:
            then = _value_at(points, recent_s)
            recent = max((done - then) / (_RECENT_S + max(0.0, gap_s - usual_s)), rate / _MOST_OF_MEAN)
            before = (then - _value_at(points, begin_s)) / (recent_s - begin_s)
        return cls(done, rate, waited_s, step_s - begin_s, recent, before)


def _time_left_of_redo(left: RedoLeft, pace: _Pace, *, is_mariadb: bool) -> TimeLeft | None:
    share = pace.done / left.total
    if not _SHOWN_FROM <= share < 1 or pace.elapsed_s < _REDO_SETTLED_S:
        return None
    if is_mariadb and share > _NO_PAGES_LEFT:
        return None
    apply = (max(0.0, seconds - pace.waited_s) for seconds in pace.seconds(left.total - pace.done))
    least_s, about_s, most_s = (left.scan_s + seconds for seconds in apply)
    error = _error_at(_REDO_ERRORS, share)
    if is_mariadb and left.pages is not None:
        # Pages that redo writes as a whole are not read.
        least_s = max(0.0, least_s - _UNREAD_PAGES * left.total / pace.rate)
        about_s = (least_s + about_s) / 2
    return TimeLeft(max(0.0, least_s / (1 + error) - RESOLUTION_S), most_s * (1 + error) + RESOLUTION_S, about_s)


def _time_left(row: CountedPhase, pace: _Pace, total: int, *, partly_seen: bool) -> TimeLeft | None:
    share = pace.done / total
    if row.claim is Claim.NONE or not _SHOWN_FROM <= share < 1 or pace.elapsed_s < _SETTLED_S:
        return None
    error = _error_at(row.errors, share) * (_PARTLY_SEEN if partly_seen else 1.0)
    least_s, about_s, most_s = pace.seconds(total - pace.done)
    if row.claim is Claim.AT_MOST:
        return TimeLeft(0.0, most_s * (1 + error) + RESOLUTION_S, None)
    least_s, about_s, most_s = (max(0.0, seconds - pace.waited_s) for seconds in (least_s, about_s, most_s))
    return TimeLeft(max(0.0, least_s / (1 + error) - RESOLUTION_S), most_s * (1 + error) + RESOLUTION_S, about_s)


def _error_at(errors: tuple[float, float, float], share: float) -> float:
    return _value_at(list(zip((0.25, 0.5, 0.75), errors, strict=True)), share)


def _value_at(points: Points, at: float) -> float:
    """Returns the value between two points; before the first and after the last one, the nearest."""
    if at <= points[0][0]:
        return points[0][1]
    index = bisect_right(points, at, key=lambda point: point[0])
    if index == len(points):
        return points[-1][1]
    (before_s, before), (after_s, after) = points[index - 1], points[index]
    return before + (after - before) * (at - before_s) / (after_s - before_s)
