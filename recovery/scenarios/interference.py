"""What does a load lose to clients that ask information_schema meanwhile?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from recovery.load.polling import FOREIGN_KEYS
from recovery.load.workloads import script_of
from recovery.model import Cache, Schema, Work
from recovery.scenarios.experiment import Asked, Host
from recovery.scenarios.loadable import (
    TABLES,
    THREADS,
    WORKLOAD,
    Way,
    by_sysbench,
    options_of,
    works_of,
)
from recovery.scenarios.scenario import Scenario
from recovery.scenarios.working import counts, measure
from recovery.work import Load, Poll

POLL = "poll"
OFF, ON = "off", "on"
_THREADS = 10
_LOAD_TABLES = 1000
_OPTIONS = (("table_open_cache", ("2000", "16000")),)
"""Fewer than the load needs (threads x tables), and more: the published effect depends on it."""


def works(asked: Asked, schema: Schema, _: Host) -> tuple[Work, ...]:
    return works_of(_ways(asked, schema))


def _ways(asked: Asked, schema: Schema) -> Iterator[Way]:
    crossed = product(
        asked.workloads or ("read-only",),
        asked.threads or (_THREADS,),
        asked.load_tables or (min(_LOAD_TABLES, schema.tables),),
        options_of(asked, _OPTIONS),
        (OFF, ON),
    )
    for workload, threads, tables, options, poll in crossed:
        load = Load(
            script_of(workload),
            threads,
            tables,
            schema.rows,
            seconds=asked.seconds,
            warmup_s=asked.warmup_s,
            poll=Poll(asked.pollers, asked.every_s, _statements(asked)) if poll == ON else None,
        )
        axes = ((WORKLOAD, workload), (THREADS, str(threads)), (TABLES, str(tables)), *options, (POLL, poll))
        yield Way(load, axes, options)


def _statements(asked: Asked) -> tuple[str, ...]:
    return tuple(statement for _, statement in asked.queries) or (FOREIGN_KEYS,)


INTERFERENCE = Scenario(
    "interference",
    "What does a load lose to a client that asks information_schema for foreign keys in a loop?",
    "A load beside questions to information_schema",
    (Cache.WARM,),
    measure,
    counts,
    by_sysbench(works, tables=10_000, rows=100, foreign_keys=20, bases={POLL: OFF}),
)
