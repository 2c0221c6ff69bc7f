"""Estimates how long a session takes, from rough rates for each generation of servers.

The estimates are for --dry-run and the displayed remaining time; they never enter a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recovery.experiments.load_plan import POOL, ROW_BYTES, data_bytes
from recovery.model import Cache, Crash, CreateTask, Damage, DumpTask, Flavor, Load, Schema, Task, Variant, Version, can


@dataclass(frozen=True)
class _Rates:
    """Holds the rates of one generation of servers."""

    tables_built_per_s: float
    cold_ms_per_table: float
    """Of a whole trial: the start that creates the crash, the timed start, the count and the shutdown."""
    warm_ms_per_table: float
    """The same, with the starts until the cache is warm."""
    reads_per_table: float
    """Read requests per table at a cold start, as a limit on read requests counts them."""


def _rates(version: Version) -> _Rates:
    """Returns the rates of a version, as in the sessions of docs/results: on 2 cores and a local disk."""
    if version.flavor is Flavor.MARIADB:
        validates = version.numbers < (10, 3, 0)
        return _Rates(900, 0.9, 0.55, 1) if validates else _Rates(900, 0.065, 0.015, 0.1)
    if not can(version, "redo_names_files"):
        return _Rates(1500, 0.33, 0.4, 1)
    if version.numbers < (8, 0, 0):
        return _Rates(1600, 0.42, 0.35, 3)
    return _Rates(500, 0.5, 0.65, 2)


SESSION_OVERHEAD_S = 10.0
"""Duration of finding the servers and measuring the storage, once in each session."""
_INITIALISE_S = 8.0
"""Duration of the initialisation of a data directory, before its tables are built."""
_START_OVERHEAD_S = 3.0
"""Duration of a trial of timed starts with hardly any table."""
_LOAD_OVERHEAD_S = 4.0
"""Duration of a start, a flush, and a shutdown that has pages to write."""
_ROWS_BUILT_PER_S = 60_000
_WITH_STATISTICS = 1.6
_TABLES_CREATED_PER_S = 130
_TABLES_DUMPED_PER_S = 300
_CRASH_S = 2.0
"""Duration of the short steps of a crash trial: writing, the kill, another start, and the check of all contents. The
first start and the shutdown are not included."""
_READ_ROWS_PER_S = 3_000
"""Rate for information_schema.tables, a guess between an old server's cold files and a new server's dictionary."""
_ROWS_INTO_MEMORY_PER_S = 700_000
_PAGE_BYTES = 16 << 10
_NO_SETTINGS: Mapping[str, str] = {}


def build_seconds(version: Version, schema: Schema) -> float:
    """Returns the estimated seconds to initialise a data directory and to build its tables.

    A partition takes as long as a table, here and at a start. A table in a shared file takes as long to build as any
    other."""
    tables_s = max(schema.total_tables, schema.files) / _rates(version).tables_built_per_s
    if schema.statistics:
        tables_s *= _WITH_STATISTICS
    return _INITIALISE_S + tables_s + schema.total_tables * schema.rows / _ROWS_BUILT_PER_S


def trial_seconds(
    version: Version,
    schema: Schema,
    variant: Variant,
    *,
    read_iops: int | None = None,
    settings: Mapping[str, str] = _NO_SETTINGS,
) -> float:
    """Returns the estimated seconds of a trial. `settings` are those that all variants have in common."""
    if variant.task is not None:
        pool = {**settings, **dict(variant.settings)}.get(POOL, "")
        reading_s = _reading_seconds(variant.task, pool, read_iops=read_iops)
        return _LOAD_OVERHEAD_S + reading_s + _work_seconds(variant.task, schema)
    return _start_seconds(version, schema, variant.cache, read_iops=read_iops)


def _reading_seconds(task: Task, pool: str, *, read_iops: int | None) -> float:
    """Returns the seconds to read a load's tables into the buffer pool; 0 if they do not fit, and for other tasks."""
    if not isinstance(task, Load) or (pool.isdecimal() and data_bytes(task.tables, task.rows) > int(pool)):
        return 0.0
    rows = task.tables * task.rows
    limited_s = 0.0 if read_iops is None else rows * ROW_BYTES / _PAGE_BYTES / read_iops
    return max(rows / _ROWS_INTO_MEMORY_PER_S, limited_s)


def _work_seconds(task: Task, schema: Schema) -> float:
    match task:
        case Load(seconds=seconds, warmup_s=warmup_s):
            return seconds + warmup_s
        case CreateTask(tables=tables):
            return tables / _TABLES_CREATED_PER_S
        case DumpTask():
            return schema.total_tables / _TABLES_DUMPED_PER_S
        case Crash() | Damage():
            return _CRASH_S
        case _:
            return schema.total_tables / _READ_ROWS_PER_S


def _start_seconds(version: Version, schema: Schema, cache: Cache, *, read_iops: int | None = None) -> float:
    rates = _rates(version)
    reading_ms = 0.0 if read_iops is None else 1000 * rates.reads_per_table / read_iops
    table_ms = max(rates.cold_ms_per_table, reading_ms) if cache is Cache.COLD else rates.warm_ms_per_table
    return _START_OVERHEAD_S + schema.files * table_ms / 1000


def duration_text(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes <= 1:
        return "1 minute"
    return f"{minutes} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
