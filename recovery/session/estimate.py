"""Estimates how long a session takes, from rough rates for each generation of servers.

The estimates are for --dry-run and the displayed remaining time; they never enter a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recovery.model import Cache, Flavor, Schema, Variant, Version, can


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
        reads_all = can(version, "recovery_reads_all_files")
        return _Rates(900, 0.9, 0.55, 1) if reads_all else _Rates(900, 0.065, 0.015, 0.1)
    if not can(version, "redo_names_files"):
        return _Rates(1500, 0.33, 0.4, 1)
    return _Rates(500, 0.5, 0.65, 2) if can(version, "data_dictionary") else _Rates(1600, 0.42, 0.35, 3)


SESSION_OVERHEAD_S = 10.0
"""Duration of finding the servers and measuring the storage, once in each session."""
_INITIALISE_S = 8.0
"""Duration of the initialisation of a data directory, before its tables are built."""
_START_OVERHEAD_S = 3.0
"""Duration of a trial of timed starts with hardly any table."""
_LOAD_OVERHEAD_S = 4.0
"""Duration of a start, a flush, and a shutdown that has pages to write."""
_ROWS_BUILT_PER_S = 60_000
_COPIED_BYTES_PER_S = 100_000_000
_WITH_STATISTICS = 1.6
_NO_SETTINGS: Mapping[str, str] = {}


def build_seconds(version: Version, schema: Schema) -> float:
    """Returns the estimated seconds to initialise a data directory and to build its tables.

    A partition takes as long as a table, here and at a start. A table in a shared file takes as long to build as any
    other."""
    tables_s = max(schema.total_tables, schema.files) / _rates(version).tables_built_per_s
    if schema.statistics:
        tables_s *= _WITH_STATISTICS
    copying_s = schema.own.bytes / _COPIED_BYTES_PER_S if schema.own else 0.0
    return _INITIALISE_S + copying_s + tables_s + schema.total_tables * schema.rows / _ROWS_BUILT_PER_S


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
        return _LOAD_OVERHEAD_S + variant.task.estimated_s(schema, {**settings, **dict(variant.settings)}, read_iops)
    rates = _rates(version)
    reading_ms = 0.0 if read_iops is None else 1000 * rates.reads_per_table / read_iops
    table_ms = max(rates.cold_ms_per_table, reading_ms) if variant.cache is Cache.COLD else rates.warm_ms_per_table
    files, copying_s = schema.files, 0.0
    if schema.own is not None:
        files += schema.own.table_files
        copying_s = schema.own.bytes / _COPIED_BYTES_PER_S if schema.own.as_is else 0.0
    return _START_OVERHEAD_S + copying_s + files * table_ms / 1000


def duration_text(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes <= 1:
        return "1 minute"
    return f"{minutes} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
