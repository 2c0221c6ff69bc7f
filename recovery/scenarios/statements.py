"""How is one statement timed, a dump, or the making of tables? By one client, over the server's own socket."""

from __future__ import annotations

import shlex
from contextlib import closing

from pymysql.cursors import SSCursor

from recovery.builds.tools import DUMP
from recovery.load.clients import Client
from recovery.scenarios.bench import Bench
from recovery.scenarios.done import Done
from recovery.scenarios.scratch import SCRATCH
from recovery.scenarios.watch import Watch
from recovery.work import Ask, Create, Dump

_ROWS_AT_ONCE = 1000
_LOOK_S = 60.0


def ask(bench: Bench, task: Ask, watch: Watch) -> Done:
    """Until its last row has arrived; the connection stands before."""
    bench.tell("asking")
    rows = 0
    with bench.server.session() as connection, closing(connection.cursor(SSCursor)) as cursor, watch.measured():
        cursor.execute(task.statement)
        while fetched := cursor.fetchmany(_ROWS_AT_ONCE):
            rows += len(fetched)
    return Done({"elapsed_s": watch.seconds, "rows": float(rows)}, {"statement": task.statement})


def dump(bench: Bench, task: Dump, watch: Watch) -> Done:
    """Of the definitions alone; what is written is counted, and kept nowhere."""
    bench.tell("dumping")
    program = bench.conditions.programs[DUMP]
    command = [
        str(program.path), "--no-defaults", "--user=root", f"--socket={bench.server.socket}", "--no-data",
        *program.options, *task.options, "--databases", *bench.schema.database_names,
    ]  # fmt: skip
    with (
        watch.clients_at_work(),
        bench.server.watched(),
        watch.measured(),
        Client(program.name, command, only_count=True) as client,
    ):
        watch.clients.append(client)
        # An hour, over a million tables: whether its server still moves is looked at beside.
        while not client.has_ended(_LOOK_S):
            pass
        ended = client.wait(0)
    return Done(
        {"elapsed_s": watch.seconds, "dump_bytes": float(ended.written_bytes)},
        {program.name: program.version, "dump": shlex.join(command)},
    )


def create(bench: Bench, task: Create, watch: Watch) -> Done:
    """In a schema of their own, which is dropped once it is measured: the next trial finds what this one found."""
    bench.tell(f"making {task.tables:,} tables, one by one")
    with bench.server.session() as connection, connection.cursor() as cursor:
        cursor.execute(f"drop schema if exists {SCRATCH}")
        cursor.execute(f"create schema {SCRATCH}")
        with watch.measured():
            for number in range(1, task.tables + 1):
                cursor.execute(
                    f"create table {SCRATCH}.table_{number} (id int primary key auto_increment, s1 varchar(32))"
                )
        bench.tell("dropping them")
        cursor.execute(f"drop schema {SCRATCH}")
    per_s = task.tables / watch.seconds
    return Done({"elapsed_s": watch.seconds, "tables_made": float(task.tables), "tables_per_s": per_s})
