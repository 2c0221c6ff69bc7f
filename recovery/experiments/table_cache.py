"""The scenario table-cache: what several table cache instances gain, by number of tables and of clients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from recovery.experiments.experiment import ExperimentRequest, HostCapacity, Scenario
from recovery.experiments.load import (
    DEFAULT_THREADS_TEXT,
    TABLES,
    THREADS,
    THREADS_PER_CPU,
    WORKLOAD,
    LoadCase,
    accept_finished,
    measure,
    option_combinations,
    powers_of_two,
    sysbench_experiment,
    works_from_cases,
)
from recovery.model import Cache, Load, Schema, VariantSpec
from recovery.workload.sysbench import resolve_script

INSTANCES = "table_open_cache_instances"
_WORKLOADS = ("point-select", "read-only", "read-write")
_OPTIONS = ((INSTANCES, ("1", "8", "16")),)
_MOST_TABLES = 3


def works(asked: ExperimentRequest, schema: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
    return works_from_cases(_load_cases(asked, schema, host))


def _load_cases(asked: ExperimentRequest, schema: Schema, host: HostCapacity) -> Iterator[LoadCase]:
    crossed = product(
        asked.workloads or _WORKLOADS,
        option_combinations(asked, _OPTIONS),
        asked.load_tables or tuple(range(1, min(_MOST_TABLES, schema.tables) + 1)),
        asked.threads or powers_of_two(THREADS_PER_CPU * host.cpus),
    )
    for workload, options, tables, threads in crossed:
        yield LoadCase(
            Load(
                resolve_script(workload), threads, tables, schema.rows, seconds=asked.seconds, warmup_s=asked.warmup_s
            ),
            ((WORKLOAD, workload), *options, (TABLES, str(tables)), (THREADS, str(threads))),
            options,
        )


TABLE_CACHE = Scenario(
    "table-cache",
    "What do several instances of the table cache gain, by tables, by clients, and by what these do?",
    "sysbench against instances of the table cache",
    (Cache.WARM,),
    measure,
    accept_finished,
    sysbench_experiment(
        works,
        tables=3,
        rows=100_000,
        bases={INSTANCES: "1", TABLES: "1"},
        usual={
            "threads": DEFAULT_THREADS_TEXT,
            "workload": " ".join(_WORKLOADS),
            "load_tables": " ".join(map(str, range(1, _MOST_TABLES + 1))),
            "options": " ".join(f"{name}={','.join(values)}" for name, values in _OPTIONS),
        },
    ),
)
