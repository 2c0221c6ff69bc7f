"""The experiment table-cache: what several table cache instances gain, by number of tables and of clients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from recovery.experiments.experiment import ExperimentOptions, HostCapacity, option_combinations
from recovery.experiments.load import load_experiment
from recovery.experiments.load_plan import (
    DEFAULT_THREADS_TEXT,
    TABLES,
    THREADS,
    THREADS_PER_CPU,
    WORKLOAD,
    load_variant,
    make_load,
    name_variants,
    powers_of_two,
)
from recovery.model import Schema, VariantSpec

INSTANCES = "table_open_cache_instances"
_WORKLOADS = ("point-select", "read-only", "read-write")
_OPTIONS = ((INSTANCES, ("1", "8", "16")),)
_MAX_TABLES = 3


def plan(requested: ExperimentOptions, schema: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
    return name_variants(_variants(requested, schema, host))


def _variants(requested: ExperimentOptions, schema: Schema, host: HostCapacity) -> Iterator[VariantSpec]:
    crossed = product(
        requested.workloads or _WORKLOADS,
        option_combinations(requested, _OPTIONS),
        requested.load_tables or tuple(range(1, min(_MAX_TABLES, schema.tables) + 1)),
        requested.threads or powers_of_two(THREADS_PER_CPU * host.cpus),
    )
    for workload, options, tables, threads in crossed:
        load = make_load(requested, workload, threads=threads, tables=tables, rows=schema.rows)
        axes = ((WORKLOAD, workload), *options, (TABLES, str(tables)), (THREADS, str(threads)))
        yield load_variant(load, axes, options)


TABLE_CACHE = load_experiment(
    "table-cache",
    "How much throughput do several table cache instances add, by workload, tables and clients?",
    "sysbench by table cache instances",
    plan,
    tables=3,
    rows=100_000,
    bases={INSTANCES: "1", TABLES: "1"},
    defaults={
        "threads": DEFAULT_THREADS_TEXT,
        "workload": " ".join(_WORKLOADS),
        "load_tables": " ".join(map(str, range(1, _MAX_TABLES + 1))),
        "options": " ".join(f"{name}={','.join(values)}" for name, values in _OPTIONS),
    },
)
