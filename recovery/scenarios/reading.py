"""Is what a load uses in memory before it begins? Where the buffer pool holds it, it is read once, from end to end."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pymysql

from recovery.load.schema import sysbench_tables
from recovery.scenarios.bench import Bench
from recovery.server.client import message_of, scalar
from recovery.work import Load

_CONNECTIONS = 4


def read_tables(bench: Bench, task: Load) -> None:
    """A warm-up reads what it happens to ask for: a few clients do not get through the tables in a minute, and the load
    would be measured against the device. Of data that is larger than memory nothing is read: its warm-up is all there
    can be."""
    tables = sysbench_tables(bench.schema)[: task.tables]
    with bench.server.session() as connection:
        pool = scalar(connection, "SELECT @@innodb_buffer_pool_size")
    if not isinstance(pool, int) or _bytes(bench, task, tables) > pool:
        return
    bench.tell("reading the tables")
    statements = [statement for table in tables for statement in _statements(table, task.rows)]
    shares = [statements[number::_CONNECTIONS] for number in range(_CONNECTIONS)]
    with bench.server.watched(), ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="read") as threads:
        running = [threads.submit(_ask, bench, share) for share in shares]
        try:
            for one in running:
                one.result()
        except (pymysql.Error, OSError) as error:
            raise bench.server.failure(f"the tables cannot be read: {message_of(error)}") from error
        except BaseException:
            # Whoever gives up does not wait for answers.
            bench.server.close()
            raise


def _ask(bench: Bench, statements: list[str]) -> None:
    with closing(bench.server.connect()) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            cursor.fetchall()


def _statements(table: str, rows: int) -> Iterator[str]:
    """Of the rows, and of their index."""
    index = f"k_{table.rpartition('sbtest')[2]}"
    yield f"SELECT SUM(LENGTH(pad)) FROM {table} FORCE INDEX (PRIMARY) WHERE id <= {rows}"  # noqa: S608 - our names
    yield f"SELECT SUM(k) FROM {table} FORCE INDEX ({index})"  # noqa: S608


def _bytes(bench: Bench, task: Load, tables: tuple[str, ...]) -> float:
    """Of the files, of the part to which the load keeps: more than of their pages, for a file is never full."""
    files = (bench.datadir.mysql / f"{table.replace('.', '/')}.ibd" for table in tables)
    share = min(1.0, task.rows / max(1, bench.schema.rows))
    return share * sum(file.stat().st_size for file in files)
