"""What a server does when it is killed: sysbench, or clients of our own that count what was acknowledged."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from strangers.servers import Server

SYSBENCH = ("oltp_read_write", "oltp_delete", "bulk_insert")
SCHEMA = "strangers_load"


@dataclass
class Load:
    """What the clients were told was committed."""

    clients: int
    acknowledged: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def lost(self, server: Server) -> list[str]:
        """Compare with the server after its start: every acknowledged row, at most one more."""
        cursor = server.connect().cursor()
        found = []
        for client, told in enumerate(self.acknowledged):
            cursor.execute(f"select count(*) from {SCHEMA}.rows_{client}")
            (rows,) = cursor.fetchone() or (None,)
            if rows not in (told, told + 1):
                found.append(f"client {client} was told {told} commits, and finds {rows} rows")
        return found


Step = Callable[[Cursor, random.Random, int], None]


def _uuid(cursor: Cursor, rng: random.Random, client: int) -> None:
    cursor.execute(
        f"insert into {SCHEMA}.uuids values " + ", ".join(["(uuid(), repeat(md5(rand()), 4))"] * rng.randint(1, 200))
    )


def _blobs(cursor: Cursor, rng: random.Random, client: int) -> None:
    data = rng.randbytes(rng.choice((100, 9_000, 60_000, 300_000)))
    cursor.execute(f"insert into {SCHEMA}.blobs (b) values (%s)", (data,))
    if rng.random() < 0.3:
        cursor.execute(f"delete from {SCHEMA}.blobs order by id limit 1")


def _temporary(cursor: Cursor, rng: random.Random, client: int) -> None:
    cursor.execute("create temporary table scratch (id int primary key auto_increment, v char(200)) engine=innodb")
    for _ in range(3):
        cursor.execute("insert into scratch (v) values " + ", ".join(["(md5(rand()))"] * 100))
    cursor.execute(f"insert into {SCHEMA}.uuids select uuid(), v from scratch")
    cursor.execute("drop temporary table scratch")


def _index(cursor: Cursor, rng: random.Random, client: int) -> None:
    if client:
        _uuid(cursor, rng, client)
        return
    with suppress(pymysql.OperationalError):
        cursor.execute(f"alter table {SCHEMA}.uuids add index by_v (v)")
        cursor.execute(f"alter table {SCHEMA}.uuids drop index by_v")


def _alter(cursor: Cursor, rng: random.Random, client: int) -> None:
    if client:
        cursor.execute(f"update {SCHEMA}.blobs set b = md5(rand()) order by rand() limit 5")
        return
    column = f"c{rng.randrange(1_000_000)}"
    cursor.execute(f"alter table {SCHEMA}.uuids add column {column} int, algorithm=copy")
    cursor.execute(f"alter table {SCHEMA}.uuids drop column {column}, algorithm=copy")


def _open(cursor: Cursor, rng: random.Random, client: int) -> None:
    """One client never commits."""
    if client == 0:
        cursor.execute("begin")
        while True:
            _uuid(cursor, rng, client)
    _uuid(cursor, rng, client)


def _small(cursor: Cursor, rng: random.Random, client: int) -> None:
    cursor.execute(f"insert into {SCHEMA}.small_{rng.randrange(_SMALL)} (v) values ('{rng.random()}')")


def _none(cursor: Cursor, rng: random.Random, client: int) -> None:
    threading.Event().wait(0.05)


_SMALL = 300
OWN: dict[str, Step] = {
    "uuid": _uuid,
    "blobs": _blobs,
    "temporary": _temporary,
    "index": _index,
    "alter": _alter,
    "open": _open,
    "small": _small,
    "none": _none,
}
LOADS = (*SYSBENCH, *OWN)


def prepare(server: Server, name: str, rows: int, clients: int) -> None:
    """Make the tables of this load; the server need not wait for the disk."""
    cursor = server.connect().cursor()
    if name in SYSBENCH:
        cursor.execute("create database sbtest")
        _sysbench(server, name, rows, clients, "prepare").wait()
        return
    cursor.execute(f"create database {SCHEMA}")
    for client in range(clients):
        cursor.execute(f"create table {SCHEMA}.rows_{client} (id bigint primary key)")
    cursor.execute(f"create table {SCHEMA}.uuids (id char(36) primary key, v varchar(200)) charset=latin1")
    cursor.execute(f"create table {SCHEMA}.blobs (id int primary key auto_increment, b longblob)")
    if name == "small":
        for number in range(_SMALL):
            cursor.execute(f"create table {SCHEMA}.small_{number} (id int primary key auto_increment, v varchar(40))")
    if name in ("uuid", "index", "alter", "open"):
        rng = random.Random(rows)  # noqa: S311
        for _ in range(rows // 100):
            _uuid(cursor, rng, 0)


def _sysbench(server: Server, name: str, rows: int, clients: int, verb: str) -> subprocess.Popen[bytes]:
    command = ["sysbench", name, "--db-driver=mysql", f"--mysql-socket={server.socket}", "--mysql-user=root"]
    command += ["--mysql-db=sbtest", f"--threads={clients}", "--time=600", "--report-interval=0"]
    if name != "bulk_insert":
        command += ["--tables=4", f"--table-size={rows // 4}"]
    if name == "oltp_delete":
        command += ["--db-ps-mode=disable"]
    return subprocess.Popen(
        [*command, verb], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _client(server: Server, load: Load, step: Step, client: int, seed: int, ended: threading.Event) -> None:
    rng = random.Random(seed * 100 + client)  # noqa: S311
    try:
        cursor: Cursor = server.connect().cursor()
        while not ended.is_set():
            step(cursor, rng, client)
            cursor.execute(f"insert into {SCHEMA}.rows_{client} values ({load.acknowledged[client]})")
            load.acknowledged[client] += 1
    except (pymysql.Error, OSError, ValueError, AttributeError) as error:
        if not ended.is_set():
            load.errors.append(f"client {client}: {error}")


@contextmanager
def running(server: Server, name: str, rows: int, clients: int, seed: int, ended: threading.Event) -> Iterator[Load]:
    """The load goes on until `ended` is set, just before the kill, or the server is gone."""
    load = Load(clients)
    process: subprocess.Popen[bytes] | None = None
    threads: list[threading.Thread] = []
    if name in SYSBENCH:
        process = _sysbench(server, name, rows, clients, "run")
    else:
        load.acknowledged = [0] * clients
        arguments: list[tuple[Any, ...]] = [(server, load, OWN[name], n, seed, ended) for n in range(clients)]
        threads = [threading.Thread(target=_client, args=each, daemon=True) for each in arguments]
        for thread in threads:
            thread.start()
    try:
        yield load
    finally:
        ended.set()
        if process is not None:
            process.kill()
            process.wait()
        for thread in threads:
            thread.join(30)
