"""Runs the servers of the proof: a load, a prediction, a kill, and a timed start, again and again over one data
directory."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pymysql
from bench.site import Site, scratch

from estimate.records import LIMITS, Load, Planned, Purpose, Record, append, constants_after, missing, read
from recovery.analysis.crash_estimate import estimate_start
from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import RecoveryError
from recovery.linux.cgroups import LimitGroup, server_limits
from recovery.linux.page_cache import direct_cache_dropper, make_cold
from recovery.linux.storage import device_of
from recovery.model import Build, Limits
from recovery.mysqld.client import scalar
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.options import REDO_CAPACITY, adapt_redo_capacity, experiment_settings
from recovery.mysqld.pending_state import StateReader, redo_since_checkpoint
from recovery.mysqld.server import Server, ServerConfig

TABLES, ROWS, _SEED_ROWS = 4, 150_000, 400
_PAD_BYTES = 200
_HOT_ROWS, _ROWS_AT_ONCE, _NEW_ROWS = 50, 10, 50
_PAUSE_S, _HOT_PAUSE_S = 0.01, 0.002
_CLEAN_PAGES, _CLEAN_BYTES, _CLEAN_S, _POLL_S = 200, 3 << 20, 12.0, 0.1
"""MySQL 8.0 keeps 2 MB before its oldest dirty page, and 5.7 writes a checkpoint every 7 s."""
_STEADY_PCT = 5
_ROLLBACK_S = 120.0
_LOCKED = "load_.locked"
"""The table that the open transaction changes."""
_ROWS_TO_UNDO = (
    "select coalesce(sum(trx_rows_modified), 0) from information_schema.innodb_trx where trx_mysql_thread_id = 0"
)


def run_server(folder: Path, data: Path, version: str, most: int | None = None) -> Iterator[Record]:
    """Kills a server as often as the plan says and the folder does not have yet, and stores each kill."""
    left = missing(folder, version)[:most]
    if not left:
        return
    build = resolve_server(version, Sources(), print)
    with scratch(data) as site, server_limits(Limits(read_iops=LIMITS[0]), site.folder) as group:
        assert group is not None, "it has a limit"
        with _built(site, build, group) as server:
            for one in left:
                yield _kill(folder, version, server, group, one)


@contextmanager
def _built(site: Site, build: Build, group: LimitGroup) -> Iterator[Server]:
    """Yields a server that runs over its tables, all of which fit into its buffer pool."""
    datadir = site.empty_datadir(build, "data")
    logs = site.folder / "logs"
    logs.mkdir()
    settings = adapt_redo_capacity(
        build.version,
        experiment_settings(build.version)
        | {
            "innodb_buffer_pool_size": str(512 << 20),
            "loose_" + REDO_CAPACITY: str(256 << 20),
            "innodb_flush_method": "O_DIRECT",
            "innodb_io_capacity": "100",
            "innodb_adaptive_flushing": "OFF",
            "innodb_max_dirty_pages_pct": "99",
            "innodb_flush_log_at_trx_commit": "2",
        },
    )
    set_limit(group, site.folder, None)
    with Server(ServerConfig(LocalLauncher(), build, logs, settings, group=group), datadir) as server:
        server.start(settings={"innodb_io_capacity": "20000"})
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            _fill(cursor)
        server.stop()
        server.start()
        yield server


def _fill(cursor: pymysql.cursors.Cursor) -> None:
    cursor.execute("create database load_")
    cursor.execute("create table load_.seed (id int primary key auto_increment) engine=innodb")
    cursor.execute(f"insert into load_.seed values {','.join(['(null)'] * _SEED_ROWS)}")
    columns = f"(id int primary key auto_increment, k int not null, pad char({_PAD_BYTES}) not null, key(k))"
    names = [f"load_.t{number}" for number in range(TABLES)]
    for name in (*names, _LOCKED):
        cursor.execute(f"create table {name} {columns} engine=innodb default charset=latin1")
        cursor.execute(
            f"insert into {name} (k, pad) select floor(rand() * 1000000), repeat('a', {_PAD_BYTES}) "
            f"from load_.seed a, load_.seed b limit {ROWS}"
        )


def set_limit(group: LimitGroup, data: Path, requests_per_s: int | None) -> None:
    """Limits the reads and the writes a second of the servers in the group; None lifts the limit."""
    disk = device_of(data).disk
    for folder in group.folders:
        if (folder / "io.max").exists():
            most = requests_per_s or "max"
            (folder / "io.max").write_text(f"{disk} riops={most} wiops={most}")
        else:
            for kind in ("read", "write"):
                (folder / f"blkio.throttle.{kind}_iops_device").write_text(f"{disk} {requests_per_s or 0}")


# --- One kill


def _kill(folder: Path, version: str, server: Server, group: LimitGroup, one: Planned) -> Record:
    """Loads the server, stores a prediction, kills it, and times the start under a limit."""
    with closing(server.connect()) as connection:
        _write_pages(connection)
        _set_flushing(connection, one)
    constants = constants_after(read(folder, version).values(), version)
    with closing(server.connect()) as connection:
        reader = StateReader(connection)
        with _open_transaction(server, one.rows), _load(server, one):
            time.sleep(one.load_s)
            reader.begin()
            state = reader.read(float(one.reads_per_s))
            found = estimate_start(state, constants)
            record = Record(one, state, found.seconds, found.low_s, found.high_s)
            append(folder, version, record)
            server.kill()
    make_cold(server.datadir, direct_cache_dropper())
    set_limit(group, server.datadir, one.reads_per_s)
    try:
        startup_s = server.start().metrics["startup_s"]
        rollback_s = _time_rollback(server) if one.rows else None
    finally:
        set_limit(group, server.datadir, None)
    record = replace(record, startup_s=startup_s, rollback_s=rollback_s)
    append(folder, version, record)
    return record


def _write_pages(connection: pymysql.Connection) -> None:
    """Has the server write what is dirty, and a checkpoint: some servers write nothing of what they recovered."""
    with connection.cursor() as cursor:
        cursor.execute("set global innodb_io_capacity_max = 40000")
        cursor.execute("set global innodb_io_capacity = 20000")
        cursor.execute("set global innodb_max_dirty_pages_pct = 0")
        until_s = time.monotonic() + _CLEAN_S
        while time.monotonic() < until_s:
            cursor.execute("show global status like 'Innodb_buffer_pool_pages_dirty'")
            dirty = cursor.fetchone()
            cursor.execute("show engine innodb status")
            status = cursor.fetchone()
            assert dirty is not None
            assert status is not None
            if int(dirty[1]) <= _CLEAN_PAGES and (redo_since_checkpoint(status[2]) or 0) <= _CLEAN_BYTES:
                break
            time.sleep(_POLL_S)


def _set_flushing(connection: pymysql.Connection, one: Planned) -> None:
    """Has the server write dirty pages by itself, or hardly any."""
    is_steady = one.purpose is Purpose.STEADY
    with connection.cursor() as cursor:
        cursor.execute(f"set global innodb_max_dirty_pages_pct = {_STEADY_PCT if is_steady else 99}")
        cursor.execute(f"set global innodb_adaptive_flushing = {int(is_steady)}")
        cursor.execute(f"set global innodb_io_capacity = {one.io_capacity}")
        cursor.execute(f"set global innodb_io_capacity_max = {2 * one.io_capacity if is_steady else 40_000}")


@contextmanager
def _open_transaction(server: Server, rows: int) -> Iterator[None]:
    if not rows:
        yield
        return
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute("begin")
            cursor.execute(f"update {_LOCKED} set pad = reverse(pad), k = k + 1 where id <= {rows}")
        yield
    finally:
        with suppress(pymysql.err.Error, OSError):
            connection.close()


@contextmanager
def _load(server: Server, one: Planned) -> Iterator[None]:
    """Runs the clients of a load until the block ends, in which the server is killed."""
    over = threading.Event()
    clients = [
        threading.Thread(target=_client, args=(server, one, number, over), name="client", daemon=True)
        for number in range(one.threads)
    ]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        over.set()
        for client in clients:
            client.join()


def _client(server: Server, one: Planned, number: int, over: threading.Event) -> None:
    rng = random.Random(f"{one.number} {number}")  # noqa: S311 - of a test
    with suppress(pymysql.err.Error, RecoveryError, OSError), closing(server.connect()) as connection:
        while not over.is_set():
            for statement in _statements(one.load, rng, number):
                # A deadlock of two clients is no reason to stop.
                with suppress(pymysql.err.OperationalError), connection.cursor() as cursor:
                    cursor.execute(statement)
                if not connection.open:
                    return
            over.wait(_HOT_PAUSE_S if one.load is Load.HOT else _PAUSE_S)


def _statements(load: Load, rng: random.Random, client: int) -> Iterator[str]:
    table = f"load_.t{rng.randrange(TABLES)}"
    letter = rng.choice("bcdefghijk")
    ids = ", ".join(str(rng.randint(1, ROWS)) for _ in range(_ROWS_AT_ONCE))
    if load is Load.HOT:
        first = 1 + client * _HOT_ROWS
        where = f"id between {first} and {first + _HOT_ROWS - 1}"
        yield f"update load_.t0 set pad = repeat('{letter}', {_PAD_BYTES}) where {where}"
    elif load is Load.UPDATE:
        yield f"update {table} set pad = repeat('{letter}', {_PAD_BYTES}) where id in ({ids})"
    else:
        count = _NEW_ROWS if load is Load.INSERT else _ROWS_AT_ONCE // 2
        rows = ", ".join(f"({rng.randrange(10**6)}, repeat('{letter}', {_PAD_BYTES}))" for _ in range(count))
        yield f"insert into {table} (k, pad) values {rows}"
        if load is Load.MIXED:
            yield f"update {table} set k = {rng.randrange(10**6)} where id in ({ids})"
            yield f"delete from {table} where id = {rng.randint(1, ROWS)}"


def _time_rollback(server: Server) -> float:
    """Returns the seconds from ready until no transaction of before the crash is left."""
    began_s = time.monotonic()
    with closing(server.connect()) as connection:
        while time.monotonic() - began_s < _ROLLBACK_S and int(str(scalar(connection, _ROWS_TO_UNDO))):
            time.sleep(_POLL_S)
    return time.monotonic() - began_s
