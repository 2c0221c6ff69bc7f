"""What a server over a copy of the user's data directory does before it is killed (BEFORE_KILL).

The crash of an idle server leaves hardly any redo. With `load` clients update rows of a table of the tool's own until
the kill. A command of the user's can do what their applications do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from random import Random
from typing import TYPE_CHECKING

from recovery.experiments.experiment import LOAD, LOAD_S
from recovery.experiments.user_command import run_user_command
from recovery.linux.files import sudo_user
from recovery.mysqld.client import message_of, scalar

if TYPE_CHECKING:
    from recovery.experiments.bench import Bench
    from recovery.mysqld.server import Server

_SCHEMA, _TABLE = "crash_recovery_load", "crash_recovery_load.updated"
_CLIENTS, _ROWS_AT_ONCE = 8, 20
_ROW_BYTES = 250
_MAX_BYTES = 256 << 20
_POOL_SHARE = 0.5
"""Of the buffer pool, for the table: otherwise the clients would wait for reads."""


@contextmanager
def before_kill(bench: Bench) -> Iterator[None]:
    """Does what BEFORE_KILL says, if it was given, and enters the block in which the server is to be killed. The load
    goes on until then; the command has ended."""
    command = bench.conditions.before_kill
    if command == (LOAD,):
        rows = _create_table(bench)
        with _updating(bench, rows):
            yield
        return
    if command:
        bench.on_step("running BEFORE_KILL")
        # The clients of MySQL and MariaDB find a server by this variable.
        environment = {"MYSQL_UNIX_PORT": str(bench.server.socket)}
        run_user_command("BEFORE_KILL", command, environment=environment, group=_share_socket(bench.server))
    yield


def _create_table(bench: Bench) -> int:
    """Creates the table of the load, and returns the number of its rows."""
    bench.on_step("creating the table of the load")
    bench.contents.create_temporary_schema(_SCHEMA)
    with bench.server.session() as connection, connection.cursor() as cursor:
        pool = scalar(connection, "select @@innodb_buffer_pool_size")
        most = min(_POOL_SHARE * pool if isinstance(pool, int) else _MAX_BYTES, _MAX_BYTES) // _ROW_BYTES
        cursor.execute(
            f"create table {_TABLE} (id int primary key auto_increment, changes int not null, "
            "filler char(200) not null) engine=innodb"
        )
        rows = cursor.execute(f"insert into {_TABLE} (changes, filler) values (0, 'x')")  # noqa: S608 - of ours
        while 2 * rows <= most:
            rows += cursor.execute(f"insert into {_TABLE} (changes, filler) select changes, filler from {_TABLE}")  # noqa: S608 - of ours
        cursor.execute(f"select max(id) from {_TABLE}")  # noqa: S608 - of ours
        return int((cursor.fetchone() or (rows,))[0])


@contextmanager
def _updating(bench: Bench, rows: int) -> Iterator[None]:
    """Updates rows at random, before the block and during it. At its end the server is ended, so that the clients
    end."""
    bench.on_step(f"load for {LOAD_S:.0f} s")
    with ThreadPoolExecutor(_CLIENTS, thread_name_prefix="load") as threads:
        try:
            clients = [threads.submit(_update, bench.server, rows, Random(seed)) for seed in range(_CLIENTS)]  # noqa: S311 - no secret
            for ended in wait(clients, LOAD_S, return_when=FIRST_COMPLETED).done:
                error = ended.exception() or RuntimeError("it ended")
                raise bench.server.failure(f"the load of BEFORE_KILL failed: {message_of(error)}")
            yield
        finally:
            bench.server.close()


def _update(server: Server, rows: int, rng: Random) -> None:
    """Updates rows until the connection is lost. Each statement locks its rows in order: so there are no deadlocks."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        while True:
            ids = sorted(rng.randint(1, rows) for _ in range(_ROWS_AT_ONCE))
            cursor.execute(f"update {_TABLE} set changes = changes + 1 where id in ({', '.join(map(str, ids))})")  # noqa: S608 - of ours


def _share_socket(server: Server) -> int | None:
    """Lets a group of the command's alone reach the socket, and returns it. None if the command runs as the user of
    the tool, whose socket it is.

    The folder of the socket is private: no password protects this copy of the user's data."""
    if sudo_user() is None:
        return None
    group = _FIRST_GROUP + os.getpid()
    for folder in (server.socket.parent, server.socket.parent.parent):
        os.chown(folder, -1, group)
        folder.chmod(0o710)
    return group


_FIRST_GROUP = 1 << 30
"""Nobody has groups of such numbers."""
