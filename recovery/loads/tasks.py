"""The tasks of the experiments that put load on a server, with rough estimates of their time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recovery.model import Schema, Task
from recovery.mysqld.options import POOL

ROW_BYTES = 250
"""Estimated size of one row of a sysbench table, with its index, in pages that are not full."""
_TABLE_BYTES = 128 << 10
_PAGE_BYTES = 16 << 10
_ROWS_INTO_MEMORY_PER_S = 700_000
_TABLES_CREATED_PER_S = 300
_TABLES_DUMPED_PER_S = 300
SKIP_LOCKS = "--skip-lock-tables"
"""Option of a dump. Without it the server holds a lock for each table of a schema, and visits all for each table."""
_LOCK_VISIT_S = 3e-6
"""Between 5.7.22 (1e-6) and 8.0.31 (6e-6 to 8e-6)."""
_READ_ROWS_PER_S = 3_000
"""Rate for information_schema.tables, a guess between an old server's cold files and a new server's dictionary."""


def data_bytes(tables: int, rows: int) -> int:
    """Returns the estimated size of so many sysbench tables of `rows` rows each."""
    return tables * (_TABLE_BYTES + rows * ROW_BYTES)


def rows_within(size: float, tables: int) -> int:
    """Returns how many rows each of so many tables may have to fit into this size."""
    return int((size / tables - _TABLE_BYTES) / ROW_BYTES)


@dataclass(frozen=True)
class Poll:
    """Clients that repeatedly execute other statements during a load."""

    clients: int
    """0: no polling. Such a load is the baseline for the same load with polling."""
    every_s: float
    """Seconds from the beginning of a client's statement to that of its next; it begins later if the answer does."""
    statements: tuple[str, ...]
    """Executed in turn. `{table}` is replaced by the name of a table, another one each time; `{database}` by the name
    of its schema."""


@dataclass(frozen=True)
class Load(Task):
    """A sysbench load over tables that exist already."""

    script: str
    """A script that comes with sysbench (`oltp_read_only`), or the path of a script of the user."""
    threads: int
    tables: int
    rows: int
    """Rows in each table."""
    seconds: int
    """Measured time, after the warm-up."""
    warmup_s: int
    options: tuple[str, ...] = ()
    """Additional options for sysbench: `--rand-type=uniform`."""
    poll: Poll | None = None

    has_clients = True

    @property
    def size_text(self) -> str:
        return f"loads of {self.seconds:,} s after {self.warmup_s:,} s"

    def estimated_s(self, _: Schema, settings: Mapping[str, str], read_iops: int | None, /) -> float:
        load_s, pool = self.seconds + self.warmup_s, settings.get(POOL, "")
        if pool.isdecimal() and data_bytes(self.tables, self.rows) > int(pool):
            return load_s
        # Its tables fit into the buffer pool, and are read before.
        rows = self.tables * self.rows
        limited_s = 0.0 if read_iops is None else rows * ROW_BYTES / _PAGE_BYTES / read_iops
        return load_s + max(rows / _ROWS_INTO_MEMORY_PER_S, limited_s)


@dataclass(frozen=True)
class StatementTask(Task):
    """One statement, timed until its last row arrives."""

    statement: str

    def estimated_s(self, schema: Schema, *_: object) -> float:
        return schema.total_tables / _READ_ROWS_PER_S


@dataclass(frozen=True)
class DumpTask(Task):
    """A dump of the definitions of all tables in so many schemas, without rows."""

    schemas: int
    options: tuple[str, ...] = ()

    def estimated_s(self, schema: Schema, *_: object) -> float:
        locking_s = 0.0 if SKIP_LOCKS in self.options else schema.tables**2 * _LOCK_VISIT_S
        return min(self.schemas, schema.databases) * (schema.tables / _TABLES_DUMPED_PER_S + locking_s)


@dataclass(frozen=True)
class CreateTask(Task):
    """One client creates tables, one statement and one commit at a time, with the server's default durability."""

    tables: int

    def estimated_s(self, *_: object) -> float:
        return self.tables / _TABLES_CREATED_PER_S
