"""The scenario table-cache: what several table cache instances gain, by number of tables and of clients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from recovery.experiments.experiment import Asked, Host, Scenario
from recovery.experiments.load import (
    TABLES,
    THREADS,
    THREADS_FOR_EACH_CPU,
    TO_SO_MANY_THREADS,
    WORKLOAD,
    Way,
    by_sysbench,
    counts,
    measure,
    options_of,
    powers_of_two,
    works_of,
)
from recovery.model import Cache, Load, Schema, Work
from recovery.workload.sysbench import script_of

INSTANCES = "table_open_cache_instances"
_WORKLOADS = ("point-select", "read-only", "read-write")
_OPTIONS = ((INSTANCES, ("1", "8", "16")),)
_MOST_TABLES = 3


def works(asked: Asked, schema: Schema, host: Host) -> tuple[Work, ...]:
    return works_of(_ways(asked, schema, host))


def _ways(asked: Asked, schema: Schema, host: Host) -> Iterator[Way]:
    crossed = product(
        asked.workloads or _WORKLOADS,
        options_of(asked, _OPTIONS),
        asked.load_tables or tuple(range(1, min(_MOST_TABLES, schema.tables) + 1)),
        asked.threads or powers_of_two(THREADS_FOR_EACH_CPU * host.cpus),
    )
    for workload, options, tables, threads in crossed:
        yield Way(
            Load(script_of(workload), threads, tables, schema.rows, seconds=asked.seconds, warmup_s=asked.warmup_s),
            ((WORKLOAD, workload), *options, (TABLES, str(tables)), (THREADS, str(threads))),
            options,
        )


TABLE_CACHE = Scenario(
    "table-cache",
    "What do several instances of the table cache gain, by tables, by clients, and by what these do?",
    "sysbench against instances of the table cache",
    (Cache.WARM,),
    measure,
    counts,
    by_sysbench(
        works,
        tables=3,
        rows=100_000,
        bases={INSTANCES: "1", TABLES: "1"},
        usual={
            "threads": TO_SO_MANY_THREADS,
            "workload": " ".join(_WORKLOADS),
            "load_tables": " ".join(map(str, range(1, _MOST_TABLES + 1))),
            "options": " ".join(f"{name}={','.join(values)}" for name, values in _OPTIONS),
        },
    ),
)
