"""Random loads that a server is killed under: work, sizes and memory of the server come from a seed."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pymysql

from recovery.errors import RecoveryError
from recovery.mysqld import client
from recovery.mysqld.redo_log import redo_span

if TYPE_CHECKING:
    from recovery.mysqld.server import Server

LOAD = "load"
"""The beginning of the names of these states: `load-7` is that of the seed 7."""
_KINDS = ("oltp_read_write", "oltp_write_only", "updates", "uuid", "blobs")
_LONGEST_S = 75.0
_USER = "sbtest"


@dataclass(frozen=True)
class Load:
    """A load. All of it follows from the seed."""

    seed: int
    kind: str
    pool_bytes: int
    redo_bytes: int
    """The server is killed once its redo log is so long."""
    tables: int
    rows: int
    """Of each table."""
    clients: int
    read_iops: tuple[int | None, ...]
    """The limits under which its starts are recorded."""

    @classmethod
    def of(cls, state: str) -> Load:
        seed = int(state.partition("-")[2])
        rng = random.Random(seed)  # noqa: S311
        return cls(
            seed,
            _KINDS[seed % len(_KINDS)],
            rng.choice((48, 64, 96, 128, 256)) << 20,
            rng.randrange(30, 200) << 20,
            rng.randrange(1, 9),
            rng.randrange(20_000, 100_000),
            rng.randrange(1, 9),
            tuple(rng.sample((1000, 2000, 4000, None), 2)),
        )

    def prepare(self, server: Server) -> None:
        """Makes the tables. The server is shut down after that, so that the redo log is empty when the load begins."""
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"drop database if exists {_USER}")
            cursor.execute(f"create database {_USER}")
            with suppress(pymysql.Error):
                cursor.execute(f"create user {_USER}@localhost")
            with suppress(pymysql.Error):
                cursor.execute(f"alter user {_USER}@localhost identified with mysql_native_password by ''")
            cursor.execute(f"grant all on {_USER}.* to {_USER}@localhost")
        if self.kind.startswith("oltp"):
            self._sysbench(server, "prepare").communicate()
            return
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            for table in range(self.tables):
                cursor.execute(
                    f"create table {_USER}.t{table} (id {'char(36)' if self.kind == 'uuid' else 'int'} primary key, "
                    "k int, v int, pad varchar(200), b mediumblob, key (k), key (v, pad)) engine=innodb"
                )
                if self.kind == "uuid":
                    continue
                for first in range(0, self.rows, 5000):
                    cursor.execute(
                        f"insert into {_USER}.t{table} values "
                        + ",".join(f"({n}, {n * 7919 % 100_003}, {n}, repeat('a', 150), '')"
                                   for n in range(first, min(first + 5000, self.rows)))
                    )  # fmt: skip
                    cursor.execute("commit")

    def run(self, server: Server) -> None:
        """Runs the load until the redo log is long enough, and kills the server under it."""
        over, began_s = threading.Event(), time.monotonic()
        if self.kind.startswith("oltp"):
            running = self._sysbench(server, "run")
            wait: Callable[[], object] = running.communicate
        else:
            threads = [
                threading.Thread(target=self._client, args=(server, number, over)) for number in range(self.clients)
            ]
            for thread in threads:
                thread.start()
            wait = partial(_join, threads)
        span = None
        while time.monotonic() - began_s < _LONGEST_S:
            span = redo_span(server.datadir)
            if span is not None and span.bytes >= self.redo_bytes:
                break
            time.sleep(0.5)
        server.kill()
        over.set()
        wait()
        if span is None or span.bytes < 1 << 20:
            raise RecoveryError(f"the load {self.kind} wrote no redo", "run it by hand")

    def _client(self, server: Server, number: int, over: threading.Event) -> None:
        rng = random.Random(1000 * self.seed + number)  # noqa: S311
        with suppress(pymysql.Error, OSError), closing(client.connect(server.socket)) as connection:
            cursor = connection.cursor()
            while not over.is_set():
                cursor.execute("begin")
                for _ in range(rng.randrange(1, 20)):
                    cursor.execute(self._statement(rng))
                cursor.execute("commit")

    def _statement(self, rng: random.Random) -> str:
        table, row = f"{_USER}.t{rng.randrange(self.tables)}", rng.randrange(self.rows)
        number = rng.randrange(1 << 30)
        match self.kind:
            case "uuid":
                values = ",".join(f"(uuid(), {rng.randrange(1 << 30)}, {number}, md5({number}), '')" for _ in range(20))
                return f"insert into {table} values {values}"
            case "blobs":
                return f"update {table} set b = repeat('{number:x}', {rng.randrange(100, 4000)}) where id = {row}"
        return f"update {table} set k = {number}, v = v + 1, pad = md5({number}) where id between {row} and {row + 9}"

    def _sysbench(self, server: Server, command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sysbench", self.kind, f"--mysql-socket={server.socket}", f"--mysql-user={_USER}", "--mysql-password=",
             f"--mysql-db={_USER}", f"--tables={self.tables}", f"--table-size={self.rows}", f"--threads={self.clients}",
             f"--rand-seed={self.seed + 1}", "--rand-type=uniform", f"--time={int(2 * _LONGEST_S)}",
             "--db-ps-mode=disable", command],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()
