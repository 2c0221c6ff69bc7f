"""The experiment pending-work: what a start after a crash costs by what was pending at the kill.

A load runs until the server has so many dirty pages or so much redo since its last checkpoint, or one transaction
changes so many rows and does not commit. Then the server is killed. What was pending is read right before the kill.
After the timed start, writes show when rows can be changed again. Each run has a copy of the data directory."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count, product, starmap
from pathlib import Path

import pymysql

from recovery.analysis.pending_costs import DIRTY, NONE, PENDING_METRICS, REDO, TRANSACTION
from recovery.builds.packages import SYSBENCH
from recovery.crash.consistency import damage_lines, failing_tables
from recovery.crash.crash import background_writer, log_lines, running_on_copy
from recovery.crash.crash_findings import CrashFindings, broken_promises, crash_metrics
from recovery.crash.tasks import CrashMoment
from recovery.crash.writers import InsertWriter
from recovery.errors import RecoveryError, TrialVoidError, UsageError
from recovery.experiments.bench import Bench
from recovery.experiments.experiment import (
    QUICK,
    STANDARD,
    TIMED_LOG,
    Experiment,
    HostCapacity,
    Pairs,
    judge_recovery,
    option_combinations,
)
from recovery.linux.cgroups import format_bytes
from recovery.linux.page_cache import make_cold
from recovery.loads.load_plan import (
    DATABASE,
    THREADS,
    UNIFORM,
    WORKLOAD,
    WorkloadOptions,
    name_part,
    pool_bytes,
    pool_options,
)
from recovery.loads.sysbench import THREADS_STARTED, Client, resolve_script, sysbench_command
from recovery.loads.tasks import ROW_BYTES, Load, data_bytes
from recovery.logs.error_log import log_counters
from recovery.model import Cache, Measurement, Schema, Task, Variant, VariantSpec
from recovery.mysqld.client import message_of, scalar
from recovery.mysqld.options import needed_connections
from recovery.mysqld.pending_state import UNREAD_PAGES, redo_since_checkpoint, unread_dirty_pages
from recovery.mysqld.server import Server
from recovery.report.fmt import count_text

# --- What is pending


class State(StrEnum):
    """What the transaction has reached at the kill."""

    OPEN = "open"
    PREPARED = "prepared"
    """InnoDB has prepared it, and the binary log has only a part of it: COMMIT was under way."""
    XA = "xa"
    """XA PREPARE was acknowledged, so that it waits for XA COMMIT or XA ROLLBACK."""


@dataclass(frozen=True)
class PendingWork(Task):
    """A server is killed when so much is pending. 0 of each: it is killed after a few inserts."""

    dirty_pages: int = 0
    redo_bytes: int = 0
    rows: int = 0
    """Rows that the transaction has changed."""
    state: State = State.OPEN
    script: str = ""
    threads: int = 1
    """Clients of the load."""

    def estimated_s(self, *_: object) -> float:
        return 20.0 + self.dirty_pages / 500 + self.redo_bytes / 2e6 + self.rows / 20_000


@dataclass(frozen=True)
class Pending:
    """What a running server would have to recover if it were killed now."""

    dirty_pages: int = 0
    redo_bytes: int = 0
    """Since the last checkpoint."""

    def share_of(self, target: Pending) -> float:
        """Returns which share of the target is reached. A target has dirty pages or redo."""
        if target.dirty_pages:
            return self.dirty_pages / target.dirty_pages
        return self.redo_bytes / target.redo_bytes

    def __str__(self) -> str:
        return f"{self.dirty_pages:,} dirty pages and {self.redo_bytes >> 20:,} MiB of redo"


_DIRTY = re.compile(r"Modified db pages\s+(\d{1,18})\b")


def parse_pending(status: str) -> Pending:
    """Reads SHOW ENGINE INNODB STATUS, whose first figures are those of all buffer pool instances together."""
    dirty, redo_bytes = _DIRTY.search(status), redo_since_checkpoint(status)
    if dirty is None or redo_bytes is None:
        raise TrialVoidError("SHOW ENGINE INNODB STATUS does not show dirty pages and the checkpoint")
    return Pending(int(dirty[1]), redo_bytes)


def read_pending(connection: pymysql.Connection) -> Pending:
    with connection.cursor() as cursor:
        cursor.execute("show engine innodb status")
        row = cursor.fetchone()
    return parse_pending(str(row[2]) if row else "")


def pages_recovered(log: Iterable[str]) -> float | None:
    """Returns the number of pages with redo to apply according to the log of a start; None if the log does not say."""
    found = [dict(log_counters(line)) for line in log]
    batches = [counts["redo_records"] for counts in found if "redo_records" in counts]
    left = [counts["pages_to_recover"] for counts in found if "pages_to_recover" in counts]
    return float(max(left) if left else sum(batches)) if left or batches else None


def rows_recovered(log: Iterable[str]) -> float | None:
    """Returns the number of rows to roll back according to the log of a start; None if the log does not say."""
    found = [dict(log_counters(line)) for line in log]
    return next((float(counts["rows_to_undo"]) for counts in found if "rows_to_undo" in counts), None)


_PATIENCE_S, _LEAST_GROWTH = 30.0, 0.01


class Growth:
    """Says when the share of a target no longer grows: its maximum has not risen by 1 % of the target for 30 s."""

    def __init__(self, *, now_s: float) -> None:
        self._most, self._since_s = 0.0, now_s

    def has_ended(self, share: float, *, now_s: float) -> bool:
        if share >= self._most + _LEAST_GROWTH:
            self._most, self._since_s = share, now_s
        return now_s - self._since_s > _PATIENCE_S


# --- One run: reach the state, kill, start, write, compare

_SCHEMA = "pending_work"
_ACKNOWLEDGED, _UNTOUCHED = f"{_SCHEMA}.acknowledged", f"{_SCHEMA}.untouched"
_INSERTS = (f"insert into {_ACKNOWLEDGED} values (null)",) * 20_000  # noqa: S608 - of ours
_INSERTING_S = 0.1
_FEW_ROWS = 100
"""Rows of the load that writes more redo for the same pages."""
_LONG_S = 10**6
_POLL_S, _COMMIT_POLL_S = 0.02, 0.001
_TRANSACTIONS_POLL_S = 0.15
"""Servers read their list of transactions again only if nobody has read it for a tenth of a second."""
_PREPARING_S, _COMMIT_S = 60.0, 600.0
_BINLOG, _BINLOG_BYTES = "pending-binlog", 1 << 20
"""COMMIT is under way when its binary log has grown by so much."""
_LOCK_WAIT_TIMEOUT, _LONGEST_LOCK_WAIT_S = 1205, 10**8
_FLUSH = "innodb_flush_log_at_trx_commit"


def measure(bench: Bench, variant: Variant) -> Measurement:
    task = variant.task
    assert isinstance(task, PendingWork), "this variant leaves nothing pending"
    server = bench.server
    with running_on_copy(bench, on_a_disk=False) as (copy, _):
        flush, table = server.variables([_FLUSH]).get(_FLUSH), f"{DATABASE}.sbtest{bench.schema.tables}"
        checksum = _prepare(server, table)
        writer = InsertWriter(_INSERTS)
        # The server ends first: otherwise a thread that commits would not end.
        with ExitStack() as clients, background_writer(writer, server):
            transaction = clients.enter_context(_work(bench, task, table, copy.mysql))
            pending = _kill(bench, transaction)
        killed_at_s = time.monotonic()
        bench.on_step("emptying the cache")
        cold = make_cold(copy.mysql, bench.conditions.dropper)
        bench.on_step("timed start")
        started = server.start(log_name=TIMED_LOG, settings=bench.settings)
        bench.on_step("writing")
        written, broken = _time_writes(server, task, table)
        bench.on_step("checking rows and tables")
        if _checksum(server, table) != checksum:
            if task.state is State.PREPARED:
                raise TrialVoidError("the transaction was committed before the kill", "give more --uncommitted rows")
            broken = (*broken, f"{table} differs from before the transaction, which was rolled back")
        log = log_lines(server.process.launch.log)
        with server.session() as connection:
            findings = CrashFindings(
                CrashMoment.LOAD,
                writer.compare(server, killed_at_s=killed_at_s),
                promised=flush in ("1", "2", "3"),
                atomic=True,
                failing=failing_tables(connection, (_SCHEMA, DATABASE)),
                complaints=damage_lines(log),
            )
        server.stop()
    found = {"pages_recovered": pages_recovered(log), "rows_recovered": rows_recovered(log)}
    recovered = {name: value for name, value in found.items() if value is not None}
    return replace(
        started,
        cold=cold,
        metrics=crash_metrics(findings) | started.metrics | pending | recovered | written,
        broken_promises=(*broken_promises(findings), *broken),
    )


def _prepare(server: Server, table: str) -> object:
    """Creates the tables of this experiment and returns the checksum of the one that the transaction changes."""
    with server.session() as connection, connection.cursor() as cursor:
        cursor.execute(f"create schema {_SCHEMA}")
        cursor.execute(f"create table {_ACKNOWLEDGED} (id int primary key auto_increment) engine=innodb")
        cursor.execute(f"create table {_UNTOUCHED} (id int primary key auto_increment) engine=innodb")
    return _checksum(server, table)


def _checksum(server: Server, table: str) -> object:
    with server.session() as connection, connection.cursor() as cursor:
        cursor.execute(f"checksum table {table}")
        row = cursor.fetchone()
    return row[1] if row else None


_Commit = Callable[[], None]


@contextmanager
def _work(bench: Bench, task: PendingWork, table: str, data: Path) -> Iterator[tuple[int, _Commit]]:
    """Brings the server into the state of the task; yields the connection of its transaction, and what is to be called
    right before the kill."""
    with ExitStack() as load:
        for target, rows in targets(task, bench.schema.rows):
            load.close()  # that of the target before
            load.enter_context(_load(bench, task, target, rows))
        if not (task.dirty_pages or task.redo_bytes):
            time.sleep(_INSERTING_S)  # a load has taken longer
        yield load.enter_context(_transaction(bench, task, table, data))


def targets(task: PendingWork, rows: int) -> Iterator[tuple[Pending, int]]:
    """Yields what the load is to reach, one after the other, and how many rows of each table it changes."""
    if task.dirty_pages:
        yield Pending(dirty_pages=task.dirty_pages), rows
    if task.redo_bytes:
        yield Pending(redo_bytes=task.redo_bytes), _FEW_ROWS if task.dirty_pages else rows


@contextmanager
def _load(bench: Bench, task: PendingWork, target: Pending, rows: int) -> Iterator[None]:
    """Runs sysbench and enters the block once the target is reached or, with a note, no longer comes nearer."""
    tables = max(1, bench.schema.tables - 1)
    load = Load(task.script, task.threads, tables, rows, _LONG_S, 0, (UNIFORM,))
    program = bench.conditions.programs[SYSBENCH].path
    command = sysbench_command(load, program=program, socket=bench.server.socket, database=DATABASE)
    with Client("sysbench", command) as client:
        if not client.has_said(THREADS_STARTED, _PREPARING_S):
            client.wait(0)  # raises why it has failed
            raise RecoveryError("sysbench ended before its clients were ready", "check your script")
        wait_until_reached(bench, client, target)
        yield


def wait_until_reached(bench: Bench, client: Client, target: Pending) -> None:
    growth, most = Growth(now_s=time.monotonic()), Pending()
    with bench.server.session() as connection:
        while (share := (pending := read_pending(connection)).share_of(target)) < 1:
            most = max(most, pending, key=lambda reached: reached.share_of(target))
            if client.has_ended(_POLL_S):
                client.wait(0)
                raise RecoveryError("sysbench ended before the state was reached", "check your script")
            if growth.has_ended(share, now_s=time.monotonic()):
                bench.run_notes.append(_not_reached(target, most))
                return
            bench.on_step(f"load: {pending}")


def _not_reached(target: Pending, most: Pending) -> str:
    wanted = f"{target.dirty_pages:,} dirty pages" if target.dirty_pages else f"{target.redo_bytes >> 20:,} MiB of redo"
    why = "the server writes pages as fast, or its redo log is too small"
    return f"the load did not reach {wanted}, because {why}; it reached {most}"


@contextmanager
def _transaction(bench: Bench, task: PendingWork, table: str, data: Path) -> Iterator[tuple[int, _Commit]]:
    """Changes the rows of the task in a transaction that is not committed."""
    connection = bench.server.connect()
    with ThreadPoolExecutor(1, thread_name_prefix="commit") as threads, connection.cursor() as cursor:
        if task.rows:
            bench.on_step(f"changing {count_text(task.rows, 'row')}")
            cursor.execute("xa start 'pending'" if task.state is State.XA else "begin")
            cursor.execute(f"update {table} set pad = reverse(pad) where id <= {task.rows}")  # noqa: S608 - of ours
            if task.state is State.XA:
                cursor.execute("xa end 'pending'")
                cursor.execute("xa prepare 'pending'")

        def binlog_bytes() -> int:
            return sum(file.stat().st_size for file in data.glob(f"{_BINLOG}.0*"))

        def commit() -> None:
            if not task.rows or task.state is not State.PREPARED:
                return
            before, until_s = binlog_bytes(), time.monotonic() + _COMMIT_S
            committing = threads.submit(cursor.execute, "commit")
            while binlog_bytes() < before + _BINLOG_BYTES and time.monotonic() < until_s:
                if committing.done():
                    raise TrialVoidError("COMMIT was over before the kill", "give more --uncommitted rows")
                time.sleep(_COMMIT_POLL_S)

        yield int(connection.thread_id()), commit  # type: ignore[no-untyped-call]


def _kill(bench: Bench, transaction: tuple[int, _Commit]) -> dict[str, float]:
    """Kills the server, and returns what it had pending right before."""
    bench.on_step("reading what is pending until the kill")
    thread, commit = transaction
    with bench.server.session() as connection:
        _, condition = unread_dirty_pages(bench.server.build.version)
        unread = scalar(connection, UNREAD_PAGES.format(unread=condition))
        pending = read_pending(connection)
        # Some versions detach a transaction from its connection at XA PREPARE.
        rows = scalar(connection, f"{_CHANGED_ROWS} where trx_mysql_thread_id in (0, %s)", (thread,))
    commit()
    bench.server.kill()
    return {
        "dirty_pages": float(max(0, pending.dirty_pages - (unread if isinstance(unread, int) else 0))),
        "checkpoint_age_bytes": float(pending.redo_bytes),
        "uncommitted_rows": float(rows) if isinstance(rows, int) else 0.0,
    }


def _time_writes(server: Server, task: PendingWork, table: str) -> tuple[dict[str, float], tuple[str, ...]]:
    """Returns when writes succeed and when the transaction is rolled back, in seconds since the exec, and what was not
    as promised.

    A statement that waits for a row makes the server keep the lock on it until the end of the rollback. So each new
    statement asks for another row."""
    since_s = server.process.started_at

    def get_row(ids: Iterator[int], timeout_s: int) -> float:
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute(f"set session innodb_lock_wait_timeout = {timeout_s}")
            for number in ids:
                try:
                    cursor.execute(f"update {table} set k = k where id = {number}")  # noqa: S608 - of ours
                except pymysql.err.OperationalError as error:
                    if error.args[0] != _LOCK_WAIT_TIMEOUT:
                        raise
                else:
                    break
        return time.monotonic() - since_s

    broken: tuple[str, ...] = ()
    with ThreadPoolExecutor(2, thread_name_prefix="write") as threads:
        try:
            with server.session() as connection, connection.cursor() as cursor:
                cursor.execute(f"insert into {_UNTOUCHED} values (null)")  # noqa: S608 - of ours
                untouched_s = time.monotonic() - since_s
                waiting = threads.submit(get_row, iter((1,)), _LONGEST_LOCK_WAIT_S)
                new = threads.submit(get_row, count(max(2, task.rows // 2)), 1)
                if task.rows and task.state is State.XA:
                    cursor.execute("xa recover")
                    broken = () if cursor.fetchall() else ("the transaction that XA PREPARE had acknowledged is gone",)
                    if not broken:
                        cursor.execute("xa rollback 'pending'")
                while scalar(connection, _ROLLING_BACK):
                    time.sleep(_TRANSACTIONS_POLL_S)
                rollback_s = time.monotonic() - since_s
            seconds = {"locked_row_s": _result(server, new), "waiting_row_s": _result(server, waiting)}
        except BaseException:
            server.close()  # otherwise the thread that waits for a row would never end
            raise
    return {"untouched_row_s": untouched_s, **seconds, "rollback_s": rollback_s}, broken


_CHANGED_ROWS = "select max(trx_rows_modified) from information_schema.innodb_trx"
_ROLLING_BACK = (
    "select count(*) from information_schema.innodb_trx where trx_mysql_thread_id = 0 and trx_rows_modified > 0"
)


def _result(server: Server, writing: Future[float]) -> float:
    try:
        return writing.result()
    except (pymysql.Error, OSError) as error:
        raise server.failure(f"a row cannot be written: {message_of(error)}") from error


# --- The experiment

_NOTHING = "nothing-pending"
_WORKLOAD, _THREADS = "update-nokey", 8
_MIN_TABLES = 2
_REDO_CAPACITY_BYTES, _REDO_ROOM = 1 << 29, 2
_MAX_DIRTY_SHARE = 0.8
"""Of the pages of the load's tables. More of them would take long to reach, since rows are chosen at random."""
_PAGE_BYTES = 16 << 10


@dataclass(frozen=True)
class PendingOptions(WorkloadOptions):
    """What is pending at the kill."""

    dirty: tuple[int, ...] = ()
    """Numbers of dirty pages."""
    redo: tuple[int, ...] = ()
    """Bytes of redo since the last checkpoint."""
    uncommitted: tuple[int, ...] = ()
    """Numbers of rows that a transaction has changed."""
    state: tuple[str, ...] = ()


def load_pages(schema: Schema) -> int:
    """Returns the estimated number of pages of the tables that the load changes: all but the transaction's."""
    return data_bytes(max(1, schema.tables - 1), schema.rows) // _PAGE_BYTES


def variant_specs(requested: PendingOptions, schema: Schema, _: HostCapacity) -> tuple[VariantSpec, ...]:
    """Returns a server with nothing pending, and each state. Redo is crossed with dirty pages if both are given."""
    dirty, uncommitted = requested.dirty, requested.uncommitted
    if not (dirty or requested.redo or uncommitted):
        dirty, uncommitted = (load_pages(schema) // 8, load_pages(schema) // 2), (schema.rows // 2,)
    _check_sizes(dirty, uncommitted, schema)
    states = _states(requested)
    if len(requested.workloads) > 1 or len(requested.threads) > 1:
        raise UsageError("pending-work runs one load", "give one --workload and one number of --threads")
    script = resolve_script(*(requested.workloads or (_WORKLOAD,)))
    base = PendingWork(script=script, threads=(requested.threads or (_THREADS,))[0])
    loads = product(dirty or (0,), (0, *requested.redo) if dirty else requested.redo)
    tasks = (
        base,
        *(replace(base, dirty_pages=pages, redo_bytes=redo) for pages, redo in loads),
        *(replace(base, rows=rows, state=state) for state, rows in product(states, uncommitted)),
    )
    return tuple(starmap(_spec, product(tasks, option_combinations(requested, ()))))


def _spec(task: PendingWork, options: Pairs) -> VariantSpec:
    redo = format_bytes(task.redo_bytes) if task.redo_bytes else NONE
    axes = (
        (DIRTY, str(task.dirty_pages)),
        (REDO, redo),
        (TRANSACTION, f"{task.rows} {task.state}" if task.rows else NONE),
    )
    load = ((WORKLOAD, task.script), (THREADS, str(task.threads)))
    pending = [f"{axis}-{value.replace(' ', '-')}" for axis, value in axes if value != NONE] or [_NOTHING]
    name = "-".join((*pending, *(name_part(axis, value) for axis, value in options)))
    return VariantSpec(name, Cache.COLD, task, (*axes, *load, *options), options)


def _states(requested: PendingOptions) -> tuple[State, ...]:
    for name in requested.state:
        if name not in tuple(State):
            raise UsageError(
                f"{name}: a transaction has no such state", f"there are: {', '.join(State)}", option="state"
            )
    return tuple(map(State, requested.state)) or (State.OPEN,)


def _check_sizes(dirty: tuple[int, ...], uncommitted: tuple[int, ...], schema: Schema) -> None:
    """Raises UsageError if there are too few tables, or if they are too small."""
    if schema.tables < _MIN_TABLES:
        raise UsageError(
            "the load and the transaction need tables of their own", f"give --tables {_MIN_TABLES} or more"
        )
    if (rows := max(uncommitted, default=0)) >= schema.rows:
        raise UsageError(
            f"a transaction of {rows:,} rows needs a table of more rows than {schema.rows:,}",
            f"give --rows {2 * rows} or more",
        )
    pages, limit = max(dirty, default=0), int(_MAX_DIRTY_SHARE * load_pages(schema))
    if pages > limit:
        rows = int(pages * schema.rows / limit * 1.1) if limit else 10**5
        raise UsageError(
            f"{schema.tables:,} tables of {schema.rows:,} rows can have about {limit:,} dirty pages, not {pages:,}",
            f"give --rows {rows} or more",
        )


def server_options(requested: PendingOptions, schema: Schema, host: HostCapacity) -> Mapping[str, str]:
    """Returns options with which a server keeps pages dirty: it writes few of them before it must."""
    capacity = max(_REDO_CAPACITY_BYTES, _REDO_ROOM * max(requested.redo, default=0))
    # All servers have it, so that they differ in what is pending only.
    binlog = {"log_bin": _BINLOG, "server_id": "1", "binlog_format": "ROW"}
    return {
        **pool_options(pool_bytes(schema, host, ratio=None)),
        "loose_innodb_redo_log_capacity": str(capacity),
        "innodb_flush_method": "O_DIRECT",
        "innodb_io_capacity": "100",
        "innodb_adaptive_flushing": "OFF",
        "innodb_max_dirty_pages_pct": "99",
        "innodb_max_dirty_pages_pct_lwm": "0",
        # As durable as 1 if only the process is killed.
        _FLUSH: "2",
        "max_connections": str(needed_connections(max(requested.threads, default=_THREADS))),
        **(binlog if State.PREPARED in _states(requested) else {}),
    }


PENDING_WORK = Experiment(
    "pending-work",
    "What does a start after a crash cost by dirty pages, redo and open transactions?",
    "Startup after SIGKILL with work pending",
    measure,
    judge_recovery,
    variant_specs,
    options=PendingOptions,
    settings=server_options,
    schema=Schema(4, rows=1_000_000, database=DATABASE, more_row_bytes=ROW_BYTES),
    template="sysbench.sql.j2",
    programs=(SYSBENCH,),
    inserts=0,
    bases=dict.fromkeys(PENDING_METRICS, NONE),
    sizes={
        QUICK: {"tables": 2, "rows": 50_000, "runs": 1},
        STANDARD: {"tables": 4, "rows": 250_000, "runs": 3},
    },
    scale=STANDARD,
    unprobed="NO_PROBE=1: `recovery calibrate` cannot use this session, which does not measure the reads a second of "
    "the storage. Leave NO_PROBE= out to calibrate with it",
    defaults={
        "dirty": "an eighth and half of the pages that the load changes",
        "uncommitted": "half of the rows of a table",
        "state": State.OPEN,
        "workload": _WORKLOAD,
        "threads": str(_THREADS),
    },
)
