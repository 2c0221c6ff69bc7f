"""How does a server at work go on? A thread of its own asks it, its process and its device, every second."""

from __future__ import annotations

import csv
import gzip
import io
import queue
import re
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pymysql

from recovery.errors import RecoveryError
from recovery.linux import cgroups
from recovery.linux.files import write_atomically
from recovery.linux.procfs import cpus
from recovery.linux.storage import Device, served
from recovery.model import Wait

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


# What was seen of a server at work in one look at it? Pure.

LOOK = "look_s"
"""The figure of what the look itself cost: how long the server took to answer it."""


@dataclass(frozen=True)
class Sample:
    """Counters as they stood: nothing is subtracted here. A figure that could not be taken is not among them."""

    at_s: float
    """Since the measuring began; the warm-up lies before 0."""
    figures: Mapping[str, float] = field(default_factory=dict, hash=False)
    """By who tells it and what it is called there: `status.Questions`, `metric.log_writes`, `process.cpu_s`."""


def thinned(samples: list[Sample], *, but: Sample | None) -> list[Sample]:
    """Every second of them, and the one that must stay."""
    return [one for at, one in enumerate(samples) if at % 2 or one is but]


def began_with(samples: tuple[Sample, ...]) -> Sample | None:
    """The look at which the measuring began: the first since then, and not one that is closer, but of what was done to
    prepare it. Where there is none, the one closest to it."""
    since = (one for one in samples if one.at_s >= 0)
    return min(since, key=lambda one: one.at_s, default=None) or max(samples, key=lambda one: one.at_s, default=None)


# What did a server's threads wait for between two moments? Its own counts of every generation, subtracted. Pure.

MUTEX, EVENT, STATUS = "innodb mutex", "performance schema", "status"
MOST_WAITS = 10
"""Of each source."""
MUTEX_WAITS, MUTEX_SPINS = "mutex.waits", "mutex.spins"
"""Figures of a look: of all mutexes and read-write locks together, as far as they are told."""


@dataclass(frozen=True)
class Count:
    waits: int
    wait_s: float | None = None
    spins: int | None = None


Counted = dict[tuple[str, str], Count]
"""By source and name."""

_TOLD = re.compile(r"\b(spins|os_waits|waits)=(\d{1,20})", re.ASCII)
_PER_S = 1e12
"""The Performance Schema counts in picoseconds."""
_LOCKS = {
    "row locks": ("status.Innodb_row_lock_waits", "status.Innodb_row_lock_time"),
    "table locks": ("status.Table_locks_waited", ""),
}


def mutexes(rows: Iterable[tuple[Any, ...]]) -> Counted:
    """Of SHOW ENGINE INNODB MUTEX: type, name, status. `os_waits=3` in 5.6, `waits=3` for a lock of 5.7 and later,
    `spins=9,waits=3,calls=90` for its mutexes, once they are monitored. Several of one name count as one."""
    found: Counted = {}
    for _, name, status, *_ in rows:
        told = {what.removeprefix("os_"): int(count) for what, count in _TOLD.findall(str(status))}
        if "waits" in told:
            before = found.get((MUTEX, str(name)), Count(0))
            spins = told["spins"] + (before.spins or 0) if "spins" in told else before.spins
            found[MUTEX, str(name)] = Count(before.waits + told["waits"], None, spins)
    return found


def events(rows: Iterable[tuple[Any, ...]]) -> Counted:
    """Of the Performance Schema: name, count, picoseconds."""
    return {(EVENT, str(name)): Count(int(count), int(waited) / _PER_S) for name, count, waited in rows}


def locks(figures: Mapping[str, float]) -> Counted:
    """Of a look's status counters."""
    found: Counted = {}
    for name, (count, milliseconds) in _LOCKS.items():
        if count in figures:
            waited_s = figures[milliseconds] / 1000 if milliseconds in figures else None
            found[STATUS, name] = Count(int(figures[count]), waited_s)
    return found


def totals(counted: Counted) -> dict[str, float]:
    """A list without a mutex in it is of a server that tells nothing of them, or of one in which nobody has waited:
    no figure."""
    mutex = [count for (source, _), count in counted.items() if source == MUTEX]
    spins = [count.spins for count in mutex if count.spins is not None]
    found: dict[str, float] = {}
    if mutex:
        found[MUTEX_WAITS] = sum(count.waits for count in mutex)
    if spins:
        found[MUTEX_SPINS] = sum(spins)
    return found


def between(before: Counted, after: Counted) -> tuple[Wait, ...]:
    """What grew: of each source the largest, by their time where it is told, else by their number."""
    grown = []
    for (source, name), now in after.items():
        then = before.get((source, name), Count(0))
        if now.waits > then.waits:
            waited_s = None if now.wait_s is None else max(0.0, round(now.wait_s - (then.wait_s or 0.0), 6))
            grown.append(Wait(source, name, now.waits - then.waits, waited_s))
    grown.sort(key=lambda one: (one.wait_s or 0.0, one.count), reverse=True)
    by_source = {source: [one for one in grown if one.source == source] for source in (MUTEX, EVENT, STATUS)}
    return tuple(one for of_one in by_source.values() for one in of_one[:MOST_WAITS])


# What has a server counted so far, by its own word? Two statements a look, over one connection of its own.

Connect = Callable[[], "Connection[Cursor]"]

FAILURES = (pymysql.MySQLError, OSError, RecoveryError)
"""Of a server that is busy, gone, or will not answer."""
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
    # A table's lock is how long its engine takes to hear of a statement.
    " WHERE count_star > 0 AND (event_name LIKE 'wait/synch/%' OR event_name LIKE 'wait/lock/metadata/%')"
    # On these who has nothing to do waits.
    " AND event_name NOT LIKE 'wait/synch/cond/%'"
)


class Counters:
    """Connects when it is asked, and anew after a failure; what fails is one of FAILURES, and for the caller."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: Connection[Cursor] | None = None
        self._metrics = list(_METRICS)
        """Those that this server has not refused yet."""

    def status(self) -> dict[str, float]:
        return dict(_numbers("status", self._rows(_STATUS)))

    def metrics(self) -> dict[str, float]:
        """InnoDB's, of those that are enabled; a server that has none is not asked again."""
        while self._metrics:
            try:
                return dict(_numbers("metric", self._rows(self._metrics[0])))
            except pymysql.MySQLError as error:
                if not _is_answer(error):
                    raise
                del self._metrics[0]
        return {}

    def waits(self) -> Counted:
        """What it tells of waits; where it tells nothing, nothing."""
        found: Counted = {}
        for statement, parsed in ((_MUTEXES, mutexes), (_EVENTS, events)):
            try:
                found |= parsed(self._rows(statement))
            except pymysql.MySQLError as error:
                if not _is_answer(error):
                    raise
        return found

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FAILURES):  # a goodbye that fails concerns nobody
                connection.close()

    def _rows(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        try:
            if self._connection is None:
                self._connection = self._connect()
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                return tuple(cursor.fetchall())
        except FAILURES as error:
            if not _is_answer(error):
                self.close()
            raise


def _is_answer(error: BaseException) -> bool:
    """Of the server, which is still there; numbers from 2000 to 2999 are the client's own."""
    match error.args:
        case (int(number), *_):
            return number >= 1000 and not 2000 <= number < 3000
        case _:
            return False


def _numbers(kind: str, rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[str, float]]:
    for name, value, *_ in rows:
        if _NUMBER.fullmatch(str(value)):
            # One name for all looks: an hour of them has millions.
            yield sys.intern(f"{kind}.{name}"), number(str(value))


def number(text: str) -> float:
    """Whole numbers stay whole."""
    return int(text) if text.removeprefix("-").isdecimal() else float(text)


# How are all looks at a server kept? As CSV, gzipped, a look a row, a counter a column.

_AT = "at_s"


def write_raw(path: Path, samples: Sequence[Sample]) -> None:
    """The same looks make the same bytes. A figure that a look has not is an empty cell."""
    columns = tuple(dict.fromkeys(name for sample in samples for name in sample.figures))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((_AT, *columns))
    writer.writerows((sample.at_s, *(sample.figures.get(name) for name in columns)) for sample in samples)
    write_atomically(path, gzip.compress(text.getvalue().encode(), mtime=0))


def read_raw(path: Path) -> tuple[Sample, ...]:
    try:
        rows = csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode(), newline=""))
        _, *columns = next(rows)
        return tuple(
            Sample(float(at_s), {name: number(cell) for name, cell in zip(columns, cells, strict=True) if cell})
            for at_s, *cells in rows
        )
    except (OSError, EOFError, ValueError, StopIteration, zlib.error, csv.Error) as error:
        raise RecoveryError(
            f"cannot read the looks in {path}: {error}", "restore the file, or measure again"
        ) from error


MOST = 1200
"""Looks that are kept: once there are as many, every second one goes and the next ones come half as often. So hours of
work take no more memory than minutes; the page cache is the server's."""
_PATIENCE_S = 15.0
"""With the looks at both ends, and with an answer that is under way when all is over."""


@dataclass
class _End:
    """Of what is measured: asked for by one thread, looked at by the other."""

    look: Sample | None = None
    waits: Counted | None = None
    taken: threading.Event = field(default_factory=threading.Event)


class Sampler:
    """From its entry to its exit; after the end of what is measured it looks no more. A look that fails is missing, and
    nothing else comes of it. `connect` gives connections that do not wait for ever; `clients` the CPU time of the
    load's programs, None where it is not known."""

    def __init__(
        self,
        connect: Connect,
        pid: int,
        device: Device,
        *,
        clients: Callable[[], float | None],
        every_s: float = 1.0,
    ) -> None:
        self._counters = Counters(connect)
        self._pid = pid
        self._device = device
        self._clients = clients
        self._every_s = every_s
        self.began_s = time.monotonic()
        """The measuring, by the monotonic clock; until it has begun, its own looking."""
        self._looks: list[Sample] = []
        """By the monotonic clock."""
        self._first: Sample | None = None
        """At which the measuring began."""
        self._asked: queue.SimpleQueue[_End | None] = queue.SimpleQueue()
        """Looks at an end; None: all is over."""
        self._ends: list[_End] = []
        """Those that came in time."""
        self._thread = threading.Thread(target=self._go_on, name="sampler", daemon=True)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Once it is over."""
        return tuple(Sample(round(look.at_s - self.began_s, 3), look.figures) for look in self._looks)

    @property
    def whole(self) -> bool:
        """Whether both ends of what is measured were seen: what grew between them is of all of it."""
        return len(self._ends) == 2 and all(end.look is not None for end in self._ends)

    @property
    def waits(self) -> tuple[Wait, ...]:
        """From one end to the other; where one was not seen, nothing is told of them."""
        if not self.whole:
            return ()
        before, after = (end.waits for end in self._ends)
        return () if before is None or after is None else between(before, after)

    def begin(self) -> None:
        """The measuring begins now: a look is taken at once, and the next ones by the clock from here."""
        self.began_s = time.monotonic()
        self._mark()

    def end(self) -> None:
        """It is over, with a last look."""
        self._mark()

    def _mark(self) -> None:
        """Returns once the look is taken, or has failed: what comes next shall not be in it, nor be disturbed by it."""
        end = _End()
        self._asked.put(end)
        if self._thread.is_alive() and end.taken.wait(_PATIENCE_S):
            self._ends.append(end)

    def _go_on(self) -> None:
        """By the clock: a look that came late does not put off the next ones."""
        due_s = self.began_s
        left = 2
        while left:
            try:
                end = self._asked.get(timeout=max(0.0, due_s - time.monotonic()))
            except queue.Empty:
                self._keep(self._look())
            else:
                if end is None:
                    return
                due_s = self.began_s
                left -= 1
                self._look_at(end)
            due_s = max(due_s, time.monotonic() - self._every_s) + self._every_s

    def _look(self) -> Sample | None:
        asked_s = time.monotonic()
        try:
            figures = self._counters.status()
            at_s = time.monotonic()
            beside = self._beside()
            metrics_s = time.monotonic()
            figures |= self._counters.metrics()
        except FAILURES:
            return None
        cost_s = at_s - asked_s + time.monotonic() - metrics_s
        return Sample(at_s, {LOOK: round(cost_s, 6), **beside, **figures})

    def _beside(self) -> dict[str, float]:
        """What is not the server's word; what is not there is left out."""
        host, device, moved = cpus(), served(self._device), cgroups.moved_bytes(self._pid)
        figures = {
            "process.cpu_s": cgroups.cpu_s(self._pid),
            "process.read_bytes": moved[0] if moved else None,
            "process.written_bytes": moved[1] if moved else None,
            "process.resident_bytes": cgroups.resident_bytes(self._pid),
            **({f"device.{name}": value for name, value in asdict(device).items()} if device else {}),
            **({f"host.{name}": value for name, value in asdict(host).items()} if host else {}),
            "clients.cpu_s": self._clients(),
            "tool.cpu_s": round(time.process_time(), 6),
        }
        return {name: value for name, value in figures.items() if value is not None}

    def _keep(self, look: Sample | None) -> None:
        if look is not None:
            self._looks.append(look)
        if len(self._looks) >= MOST:
            self._looks = thinned(self._looks, but=self._first)
            self._every_s *= 2

    def _look_at(self, end: _End) -> None:
        """With what is too dear for every second, which lies between the two looks at neither end."""
        first = not self._ends
        if first:  # one that was under way may tell of what went on before
            self._looks = [look for look in self._looks if look.at_s < self.began_s]
        counted = self._waits() if first else None
        look = self._look()
        if look is not None:
            counted = counted if first else self._waits()
            end.look = replace(look, figures={**look.figures, **totals(counted or {})})
            end.waits = None if counted is None else counted | locks(look.figures)
            self._first = self._first or end.look
            self._keep(end.look)
        end.taken.set()

    def _waits(self) -> Counted | None:
        with suppress(*FAILURES):
            return self._counters.waits()
        return None

    def __enter__(self) -> Self:
        self.began_s = time.monotonic()
        with suppress(RuntimeError):  # no thread is to be had
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._asked.put(None)
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_S)
        if not self._thread.is_alive():  # a server that answers neither yes nor no
            self._counters.close()
