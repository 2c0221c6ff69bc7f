"""The experiment interference: how much slower a load is while other clients query information_schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from recovery.errors import UsageError
from recovery.experiments.experiment import QUICK, STANDARD, HostCapacity, QueryOptions, option_combinations
from recovery.loads.load import LoadExperiment
from recovery.loads.load_plan import (
    QUICK_LOAD,
    TABLES,
    THREADS,
    WORKLOAD,
    LoadOptions,
    load_variant,
    make_load,
    name_variants,
)
from recovery.loads.poller import FILTERED_QUERY, FOREIGN_KEY_QUERY
from recovery.loads.tasks import Poll
from recovery.model import Schema, VariantSpec
from recovery.mysqld.options import max_open_tables, needed_connections

POLL = "poll"
OFF, ON = "off", "on"
QUERIES = {"foreign-keys": FOREIGN_KEY_QUERY, "filtered": FILTERED_QUERY}
_THREADS = 10
_WORKLOAD = "read-only"
_LOAD_SHARE = 10
"""The load uses one of so many tables, as published."""
_CACHE = "table_open_cache"
_CACHE_FACTOR = 2
"""Entries of the smaller table cache for each table of the load, as published."""
_SERVER = (("loose_table_open_cache_instances", "1"), ("table_definition_cache", "4096"))
"""Published options. With several instances, each would have to hold the tables of the load."""


@dataclass(frozen=True)
class InterferenceOptions(LoadOptions, QueryOptions):
    """The options of a load with clients that query information_schema."""

    poll_query: tuple[str, ...] = ()
    """Names of the queries to measure alone."""
    pollers: int = 1
    every_s: float = 0.0
    """Seconds from the beginning of a query of a poller to that of its next."""


def plan(requested: InterferenceOptions, schema: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
    return name_variants(_variants(requested, schema, host))


def _variants(requested: InterferenceOptions, schema: Schema, host: HostCapacity) -> Iterator[VariantSpec]:
    clients = requested.threads or (_THREADS,)
    limit = max_open_tables(host.open_files, connections=needed_connections(max(clients) + requested.pollers))
    used = requested.load_tables or (max(1, min(schema.tables // _LOAD_SHARE, limit // _CACHE_FACTOR)),)
    # One that holds the tables of the load, but not those of the other queries; and one for all, as far as possible.
    caches = (min(_CACHE_FACTOR * tables, limit) for tables in (max(used), schema.tables))
    polls = _polls(requested)
    crossed = product(
        requested.workloads or (_WORKLOAD,),
        clients,
        used,
        option_combinations(requested, ((_CACHE, tuple(dict.fromkeys(map(str, caches)))),)),
        polls,
    )
    for workload, threads, tables, options, poll in crossed:
        load = make_load(requested, workload, threads=threads, tables=tables, rows=schema.rows, poll=polls[poll])
        axes = ((WORKLOAD, workload), (THREADS, str(threads)), (TABLES, str(tables)), *options, (POLL, poll))
        yield load_variant(load, axes, options)


def _polls(requested: InterferenceOptions) -> dict[str, Poll]:
    """Returns what the pollers execute, by the value of the axis: all queries in turn, or each of POLL_QUERY alone."""
    known = {**QUERIES, **dict(requested.queries)}
    for name in requested.poll_query:
        if name not in known:
            raise UsageError(f"{name}: there is no such query", f"there are: {', '.join(known)}", option="poll_query")
    statements = tuple(statement for _, statement in requested.queries) or (FOREIGN_KEY_QUERY,)
    each: dict[str, tuple[str, ...]] = {name: (known[name],) for name in requested.poll_query} or {ON: statements}
    off = {OFF: Poll(0, requested.every_s, next(iter(each.values())))}
    return off | {name: Poll(requested.pollers, requested.every_s, asked) for name, asked in each.items()}


INTERFERENCE = LoadExperiment(
    "interference",
    "How much throughput does a load lose while another client queries foreign keys in information_schema?",
    "A load with concurrent information_schema queries",
    plan,
    options=InterferenceOptions,
    tables=10_000,
    rows=100,
    foreign_keys=20,
    server_options=_SERVER,
    bases={POLL: OFF},
    names=(OFF, ON, *QUERIES),
    sizes={QUICK: {"tables": 1000, **QUICK_LOAD}, STANDARD: {"seconds": 30, "warmup": 5}},
    defaults={
        "threads": str(_THREADS),
        "workload": _WORKLOAD,
        "load_tables": "one of ten",
        "options": f"{_CACHE}, for the tables of the load and for all",
        "queries": "foreign keys of one table after the other",
    },
).as_experiment()
