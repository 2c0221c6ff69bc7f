"""Samples a server under load: its status counters, process and storage device, every second, from a separate thread.

The module also subtracts the server's wait counters between two moments, and writes the samples as CSV."""

from __future__ import annotations

import csv
import gzip
import io
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pymysql

from recovery.errors import RecoveryError
from recovery.linux import procfs
from recovery.linux.files import write_atomically
from recovery.linux.procfs import host_cpu_time
from recovery.linux.storage import Device, read_device_counters
from recovery.model import ThreadWait
from recovery.mysqld.startup_sampler import DownsampledSeries

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


# --- Samples

SAMPLE_COST = "look_s"
"""Name of the value for the cost of the sample itself: how many seconds the server took to answer its queries."""


@dataclass(frozen=True)
class Sample:
    """The values of all counters at one moment, as read: nothing is subtracted. Values that could not be read are
    missing."""

    at_s: float
    """Seconds since the start of the measurement; negative during the warm-up."""
    figures: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Values by source and name: `status.Questions`, `metric.log_writes`, `process.cpu_s`."""


def first_measured_sample(samples: tuple[Sample, ...]) -> Sample | None:
    """Returns the sample taken at the start of the measurement; None if there are no samples.

    This is the first sample at or after 0. A sample before 0 may be closer, but it shows the preparation. If there is
    no sample at or after 0, the last one before it is returned."""
    since = (sample for sample in samples if sample.at_s >= 0)
    at_s = attrgetter("at_s")
    return min(since, key=at_s, default=None) or max(samples, key=at_s, default=None)


# --- Waits of server threads, from the counters that each server version provides

MUTEX, EVENT, STATUS = "innodb mutex", "performance schema", "status"
MAX_WAITS = 10
"""Maximum number of waits that are kept for each source."""
MUTEX_WAITS, MUTEX_SPINS = "mutex.waits", "mutex.spins"
"""Names of values of a sample: the totals of all mutexes and read-write locks that the server reports."""


@dataclass(frozen=True)
class WaitCount:
    """The counters of one mutex, event or kind of lock since the start of the server."""

    waits: int
    wait_s: float | None = None
    """None if the source reports no times."""
    spins: int | None = None
    """None if the source reports no spins."""


WaitCounts = dict[tuple[str, str], WaitCount]
"""Counts by source and name."""

_MUTEX_STATUS = re.compile(r"\b(spins|os_waits|waits)=(\d{1,20})", re.ASCII)
_PICOSECONDS_PER_S = 1e12
_LOCKS = {
    "row locks": ("status.Innodb_row_lock_waits", "status.Innodb_row_lock_time"),
    "table locks": ("status.Table_locks_waited", ""),
}


def parse_mutexes(rows: Iterable[tuple[Any, ...]]) -> WaitCounts:
    """Returns the counts in the rows of SHOW ENGINE INNODB MUTEX, which have the columns type, name and status.

    The status is `os_waits=3` in 5.6. In 5.7 and later it is `waits=3` for a read-write lock, and
    `spins=9,waits=3,calls=90` for a mutex, if mutexes are monitored. Rows with the same name are added up."""
    totals: WaitCounts = {}
    for _, name, status, *_ in rows:
        counts = {what.removeprefix("os_"): int(count) for what, count in _MUTEX_STATUS.findall(str(status))}
        if "waits" in counts:
            before = totals.get((MUTEX, str(name)), WaitCount(0))
            spins = counts["spins"] + (before.spins or 0) if "spins" in counts else before.spins
            totals[MUTEX, str(name)] = WaitCount(before.waits + counts["waits"], None, spins)
    return totals


def parse_events(rows: Iterable[tuple[Any, ...]]) -> WaitCounts:
    """Returns the counts in rows of the Performance Schema with the columns name, count and picoseconds."""
    return {(EVENT, str(name)): WaitCount(int(count), int(waited) / _PICOSECONDS_PER_S) for name, count, waited in rows}


def lock_counts(figures: Mapping[str, float]) -> WaitCounts:
    """Returns the counts of waits for row locks and table locks in the status counters of a sample."""
    counts: WaitCounts = {}
    for name, (count, milliseconds) in _LOCKS.items():
        if count in figures:
            waited_s = figures[milliseconds] / 1000 if milliseconds in figures else None
            counts[STATUS, name] = WaitCount(int(figures[count]), waited_s)
    return counts


def mutex_totals(counted: WaitCounts) -> dict[str, float]:
    """Returns the totals of waits and spins of all mutexes and read-write locks, as values for a sample.

    If there are no mutexes in `counted`, either the server does not report them or no thread has waited: the totals are
    left out then."""
    mutex = [count for (source, _), count in counted.items() if source == MUTEX]
    spins = [count.spins for count in mutex if count.spins is not None]
    totals: dict[str, float] = {}
    if mutex:
        totals[MUTEX_WAITS] = sum(count.waits for count in mutex)
    if spins:
        totals[MUTEX_SPINS] = sum(spins)
    return totals


def waits_between(before: WaitCounts, after: WaitCounts) -> tuple[ThreadWait, ...]:
    """Returns the waits between two counts, the MAX_WAITS largest of each source.

    They are sorted by time, and by number where the source reports no times."""
    grown = []
    for (source, name), now in after.items():
        then = before.get((source, name), WaitCount(0))
        if now.waits > then.waits:
            waited_s = None if now.wait_s is None else max(0.0, round(now.wait_s - (then.wait_s or 0.0), 6))
            grown.append(ThreadWait(source, name, now.waits - then.waits, waited_s))
    grown.sort(key=lambda wait: (wait.wait_s or 0.0, wait.count), reverse=True)
    by_source = {source: [wait for wait in grown if wait.source == source] for source in (MUTEX, EVENT, STATUS)}
    return tuple(wait for waits in by_source.values() for wait in waits[:MAX_WAITS])


# --- The server's own counters: two statements per sample, over a separate connection

Connect = Callable[[], "Connection[Cursor]"]

QUERY_ERRORS = (pymysql.MySQLError, OSError, RecoveryError)
"""Exceptions of a query to a server that is overloaded, has ended, or refuses to answer."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_STATUS = "SHOW GLOBAL STATUS"
_METRICS = (
    "SELECT name, count FROM information_schema.innodb_metrics WHERE status = 'enabled'",
    # MariaDB since 10.5
    "SELECT name, count FROM information_schema.innodb_metrics WHERE enabled = 1",
)
_MUTEXES = "SHOW ENGINE INNODB MUTEX"
_EVENTS = (
    "SELECT event_name, count_star, sum_timer_wait FROM performance_schema.events_waits_summary_global_by_event_name"
    # Table locks are excluded: those events measure how long the storage engine takes to be notified of a statement.
    " WHERE count_star > 0 AND (event_name LIKE 'wait/synch/%' OR event_name LIKE 'wait/lock/metadata/%')"
    # Condition variables are excluded: idle threads wait on them.
    " AND event_name NOT LIKE 'wait/synch/cond/%'"
)


class CounterReader:
    """Reads the counters of a server over one connection, which is opened on demand and again after a failure.

    All methods that query the server may raise the exceptions in QUERY_ERRORS."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: Connection[Cursor] | None = None
        self._metrics = list(_METRICS)
        """Queries for InnoDB metrics that this server has not rejected yet."""

    def status(self) -> dict[str, float]:
        """Returns the numeric status variables, with the prefix `status.`."""
        return dict(_numbers("status", self._rows(_STATUS)))

    def metrics(self) -> dict[str, float]:
        """Returns the enabled InnoDB metrics, with the prefix `metric.`.

        A server that has no such metrics is not queried again."""
        while self._metrics:
            try:
                return dict(_numbers("metric", self._rows(self._metrics[0])))
            except pymysql.MySQLError as error:
                if not _is_server_error(error):
                    raise
                del self._metrics[0]
        return {}

    def waits(self) -> WaitCounts:
        """Returns the counts of waits. Sources that the server rejects are left out."""
        counts: WaitCounts = {}
        for statement, parsed in ((_MUTEXES, parse_mutexes), (_EVENTS, parse_events)):
            try:
                counts |= parsed(self._rows(statement))
            except pymysql.MySQLError as error:
                if not _is_server_error(error):
                    raise
        return counts

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*QUERY_ERRORS):  # an error while closing does not matter
                connection.close()

    def _rows(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        try:
            if self._connection is None:
                self._connection = self._connect()
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                return tuple(cursor.fetchall())
        except QUERY_ERRORS as error:
            if not _is_server_error(error):
                self.close()
            raise


def _is_server_error(error: BaseException) -> bool:
    """Returns whether the error was sent by the server, which is still connected then.

    Error numbers from 2000 to 2999 come from the client library."""
    match error.args:
        case (int(number), *_):
            return number >= 1000 and not 2000 <= number < 3000
        case _:
            return False


def _numbers(kind: str, rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[str, float]]:
    """Yields the names, with the prefix `kind`, and the values of all rows that have a numeric value."""
    for name, value, *_ in rows:
        if _NUMBER.fullmatch(str(value)):
            # The names are interned because the samples of an hour refer to millions of them.
            yield sys.intern(f"{kind}.{name}"), parse_number(str(value))


def parse_number(text: str) -> float:
    """Returns an int for a whole number, otherwise a float."""
    return int(text) if text.removeprefix("-").isdecimal() else float(text)


# --- The file of all samples: gzipped CSV with a row for each sample and a column for each counter

_TIME_COLUMN = "at_s"


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Writes the samples to a gzipped CSV file, with an empty cell for each missing value.

    The same samples always produce the same bytes."""
    columns = tuple(dict.fromkeys(name for sample in samples for name in sample.figures))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((_TIME_COLUMN, *columns))
    writer.writerows((sample.at_s, *(sample.figures.get(name) for name in columns)) for sample in samples)
    write_atomically(path, gzip.compress(text.getvalue().encode(), mtime=0))


MAX_SAMPLES = 1200
"""The number of samples in memory stays below this. Hours of load therefore take no more memory than minutes, and the
rest is left to the server's page cache."""
_TIMEOUT_S = 15.0
"""Seconds to wait for the samples at both ends of the measurement, and for a pending answer when sampling stops."""


@dataclass
class _EndSample:
    """A request for a sample at one end of the measurement, made by the caller and answered by the sampler thread."""

    sample: Sample | None = None
    """The sample; None if it failed."""
    waits: WaitCounts | None = None
    """The counts of waits at this end; None if they could not be read."""
    taken: threading.Event = field(default_factory=threading.Event)
    """Set once the sample has been taken or has failed."""


class Sampler:
    """A context manager that takes samples in a thread until the measurement ends.

    A sample that fails is missing; it has no other effect. `connect` must return connections with a timeout. `clients`
    returns the CPU time of the load's client programs, or None if unknown."""

    def __init__(
        self,
        connect: Connect,
        pid: int,
        device: Device,
        *,
        clients: Callable[[], float | None],
        every_s: float = 1.0,
    ) -> None:
        self._counters = CounterReader(connect)
        self._pid = pid
        self._device = device
        self._clients = clients
        self.began_s = time.monotonic()
        """Start of the measurement on the monotonic clock; until begin() is called, the start of the sampling."""
        self._series = DownsampledSeries[Sample](every_s, MAX_SAMPLES)
        """Samples with times on the monotonic clock. The one at the start of the measurement is never dropped."""
        self._requests: queue.SimpleQueue[_EndSample | None] = queue.SimpleQueue()
        """Requests to the thread: a sample at an end of the measurement, or None to stop."""
        self._ends: list[_EndSample] = []
        """Requests that were answered within _TIMEOUT_S."""
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples, with times since the start of the measurement. Valid once sampling has ended."""
        return tuple(Sample(round(sample.at_s - self.began_s, 3), sample.figures) for sample in self._series.kept)

    @property
    def whole(self) -> bool:
        """Whether the samples at both ends of the measurement were taken, so that their difference covers all of it."""
        return len(self._ends) == 2 and all(end.sample is not None for end in self._ends)

    @property
    def waits(self) -> tuple[ThreadWait, ...]:
        """The waits during the measurement; empty if the counts of one end are missing."""
        if not self.whole:
            return ()
        before, after = (end.waits for end in self._ends)
        return () if before is None or after is None else waits_between(before, after)

    def begin(self) -> None:
        """Starts the measurement: takes a sample at once, and the next ones at fixed intervals from here."""
        self.began_s = time.monotonic()
        self._mark()

    def end(self) -> None:
        """Ends the measurement with a last sample."""
        self._mark()

    def _mark(self) -> None:
        """Requests a sample at an end of the measurement, and waits until it is taken or has failed.

        Without the wait, the sample could include what the caller does next, or disturb it."""
        end = _EndSample()
        self._requests.put(end)
        if self._thread.is_alive() and end.taken.wait(_TIMEOUT_S):
            self._ends.append(end)

    def _run(self) -> None:
        """Runs in the sampler thread: takes samples at fixed times, and answers requests."""
        due_s = self.began_s
        left = 2
        while left:
            try:
                end = self._requests.get(timeout=max(0.0, due_s - time.monotonic()))
            except queue.Empty:
                if (sample := self._sample()) is not None:
                    self._series.add(sample)
            else:
                if end is None:
                    return
                due_s = self.began_s
                left -= 1
                self._sample_end(end)
            due_s = self._series.next_due_s(due_s, time.monotonic())

    def _sample(self) -> Sample | None:
        """Takes a sample; returns None if the server does not answer."""
        asked_s = time.monotonic()
        try:
            figures = self._counters.status()
            at_s = time.monotonic()
            others = self._read_outside_server()
            metrics_s = time.monotonic()
            figures |= self._counters.metrics()
        except QUERY_ERRORS:
            return None
        cost_s = at_s - asked_s + time.monotonic() - metrics_s
        return Sample(at_s, {SAMPLE_COST: round(cost_s, 6), **others, **figures})

    def _read_outside_server(self) -> dict[str, float]:
        """Returns the values that do not come from the server: process, device, host, clients and this tool.

        Values that are not available are left out."""
        host, device, moved = host_cpu_time(), read_device_counters(self._device), procfs.process_io_bytes(self._pid)
        figures = {
            "process.cpu_s": procfs.process_cpu_s(self._pid),
            "process.read_bytes": moved[0] if moved else None,
            "process.written_bytes": moved[1] if moved else None,
            "process.resident_bytes": procfs.process_resident_bytes(self._pid),
            **({f"device.{name}": value for name, value in asdict(device).items()} if device else {}),
            **({f"host.{name}": value for name, value in asdict(host).items()} if host else {}),
            "clients.cpu_s": self._clients(),
            "tool.cpu_s": round(time.process_time(), 6),
        }
        return {name: value for name, value in figures.items() if value is not None}

    def _sample_end(self, end: _EndSample) -> None:
        """Takes the sample at one end of the measurement and reads the wait counters.

        The wait counters are too expensive to read every second. They are read before the first sample and after the
        last one, so that the cost lies outside the measurement."""
        first = not self._ends
        if first:  # a sample taken while begin() was called may show what happened before the measurement
            self._series.kept = [sample for sample in self._series.kept if sample.at_s < self.began_s]
        counted = self._waits() if first else None
        sample = self._sample()
        if sample is not None:
            counted = counted if first else self._waits()
            end.sample = replace(sample, figures={**sample.figures, **mutex_totals(counted or {})})
            end.waits = None if counted is None else counted | lock_counts(sample.figures)
            self._series.pinned = self._series.pinned or end.sample
            self._series.add(end.sample)
        end.taken.set()

    def _waits(self) -> WaitCounts | None:
        with suppress(*QUERY_ERRORS):
            return self._counters.waits()
        return None

    def __enter__(self) -> Self:
        self.began_s = time.monotonic()
        with suppress(RuntimeError):  # no thread can be started
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put(None)
        if self._thread.ident is not None:
            self._thread.join(_TIMEOUT_S)
        if not self._thread.is_alive():  # else it still uses the connection, to a server that does not answer
            self._counters.close()
