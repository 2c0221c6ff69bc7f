"""The experiment table-cache: what several table cache instances gain, by number of tables and of clients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from recovery.experiments.experiment import QUICK, STANDARD, HostCapacity, option_combinations
from recovery.loads.load import LoadExperiment
from recovery.loads.load_plan import (
    DEFAULT_THREADS_TEXT,
    QUICK_LOAD,
    STANDARD_LOAD,
    TABLES,
    THREADS,
    WORKLOAD,
    LoadOptions,
    default_threads,
    load_variant,
    make_load,
    name_variants,
)
from recovery.model import Schema, VariantSpec
from recovery.mysqld.options import CACHE_INSTANCES

_WORKLOADS = ("point-select", "read-only", "read-write")
_OPTIONS = ((CACHE_INSTANCES, ("1", "8", "16")),)
_MAX_TABLES = 3


def plan(requested: LoadOptions, schema: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
    return name_variants(_variants(requested, schema, host))


def _variants(requested: LoadOptions, schema: Schema, host: HostCapacity) -> Iterator[VariantSpec]:
    crossed = product(
        requested.workloads or _WORKLOADS,
        option_combinations(requested, _OPTIONS),
        requested.load_tables or tuple(range(1, min(_MAX_TABLES, schema.tables) + 1)),
        requested.threads or default_threads(host),
    )
    for workload, options, tables, threads in crossed:
        load = make_load(requested, workload, threads=threads, tables=tables, rows=schema.rows)
        axes = ((WORKLOAD, workload), *options, (TABLES, str(tables)), (THREADS, str(threads)))
        yield load_variant(load, axes, options)


TABLE_CACHE = LoadExperiment(
    "table-cache",
    "How much throughput do several table cache instances add, by workload, tables and clients?",
    "sysbench by table cache instances",
    plan,
    tables=3,
    rows=100_000,
    bases={CACHE_INSTANCES: "1", TABLES: "1"},
    # The tables are those of write-scaling, so that both use one data directory.
    sizes={
        QUICK: {
            "tables": 8,
            "rows": 10_000,
            "workload": "read-only",
            "load_tables": 1,
            "threads": "{clients}",
            **QUICK_LOAD,
        },
        STANDARD: {"tables": 8, "rows": 100_000, "threads": "{clients}", **STANDARD_LOAD},
    },
    defaults={
        "threads": DEFAULT_THREADS_TEXT,
        "workload": " ".join(_WORKLOADS),
        "load_tables": " ".join(map(str, range(1, _MAX_TABLES + 1))),
        "options": " ".join(f"{name}={','.join(values)}" for name, values in _OPTIONS),
    },
).as_experiment()
