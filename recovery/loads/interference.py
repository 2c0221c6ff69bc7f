"""The experiment interference: how much slower a load is while other clients query information_schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from recovery.errors import UsageError
from recovery.experiments.experiment import QUICK, STANDARD, ExperimentOptions, HostCapacity, option_combinations
from recovery.loads.load import load_experiment
from recovery.loads.load_plan import QUICK_LOAD, TABLES, THREADS, WORKLOAD, load_variant, make_load, name_variants
from recovery.loads.poller import FILTERED_QUERY, FOREIGN_KEY_QUERY
from recovery.loads.tasks import Poll
from recovery.model import Schema, VariantSpec
from recovery.mysqld.options import max_open_tables, needed_cache_entries, needed_connections

POLL = "poll"
OFF, ON = "off", "on"
QUERIES = {"foreign-keys": FOREIGN_KEY_QUERY, "filtered": FILTERED_QUERY}
_THREADS = 10
_WORKLOAD = "read-only"
_LOAD_TABLES = 500
"""Default number of tables. A table cache with 16 instances must have 16 times as many entries."""
_CACHE = "table_open_cache"
_CACHE_HEADROOM = 1.125
"""Size of the larger table cache, divided by what the load needs: the published effect depends on whether the tables of
the load fit into the cache."""


def plan(requested: ExperimentOptions, schema: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
    return name_variants(_variants(requested, schema, _CacheLimits(host.open_files, host.instances, requested.pollers)))


@dataclass(frozen=True)
class _CacheLimits:
    files: int
    """Number of files that a server may open."""
    instances: tuple[int, ...]
    """Numbers of instances of the servers; each server divides its entries among them."""
    pollers: int

    def max_entries(self, threads: int) -> int:
        """Returns the largest possible number of entries with this many clients."""
        return max_open_tables(self.files, connections=needed_connections(threads + self.pollers))

    def needed(self, tables: int, threads: int) -> int:
        """Returns the number of entries that the load needs in the server with the most instances."""
        return needed_cache_entries(tables, threads=threads, instances=max(self.instances))

    def too_few(self, tables: int, threads: int) -> int:
        """Returns a number of entries with which no instance, not even a single one, can hold all tables once."""
        return max(1, min(self.needed(tables, threads) // 4, tables * min(self.instances) // 2))

    def fits(self, threads: int) -> bool:
        """Returns whether this many clients can use one table: each needs an entry, and its connection reduces the
        number of possible entries."""
        return self.needed(1, threads) <= self.max_entries(threads)


def _variants(requested: ExperimentOptions, schema: Schema, room: _CacheLimits) -> Iterator[VariantSpec]:
    clients = requested.threads or (_THREADS,)
    used = requested.load_tables or (min(_default_tables(clients, room), schema.tables),)
    caches = dict(requested.options).get(_CACHE) or _cache_sizes(max(clients), max(used), room)
    polls = _polls(requested)
    crossed = product(
        requested.workloads or (_WORKLOAD,),
        clients,
        used,
        option_combinations(requested, ((_CACHE, caches),)),
        polls,
    )
    for workload, threads, tables, options, poll in crossed:
        load = make_load(requested, workload, threads=threads, tables=tables, rows=schema.rows, poll=polls[poll])
        axes = ((WORKLOAD, workload), (THREADS, str(threads)), (TABLES, str(tables)), *options, (POLL, poll))
        yield load_variant(load, axes, options)


def _polls(requested: ExperimentOptions) -> dict[str, Poll]:
    """Returns what the pollers execute, by the value of the axis: all queries in turn, or each of POLL_QUERY alone."""
    known = {**QUERIES, **dict(requested.queries)}
    chosen = requested.more.get("poll_query", ())
    for name in chosen:
        if name not in known:
            raise UsageError(f"POLL_QUERY={name}: there is no such query", f"there are: {', '.join(known)}")
    statements = tuple(statement for _, statement in requested.queries) or (FOREIGN_KEY_QUERY,)
    each: dict[str, tuple[str, ...]] = {name: (known[name],) for name in chosen} or {ON: statements}
    off = {OFF: Poll(0, requested.every_s, next(iter(each.values())))}
    return off | {name: Poll(requested.pollers, requested.every_s, asked) for name, asked in each.items()}


def _default_tables(threads: tuple[int, ...], room: _CacheLimits) -> int:
    """Returns the default number of tables, or fewer if a table cache cannot hold that many for these clients."""
    clients = max(threads)
    return max(1, min(_LOAD_TABLES, int(room.max_entries(clients) / _CACHE_HEADROOM) // room.needed(1, clients)))


def _cache_sizes(threads: int, tables: int, room: _CacheLimits) -> tuple[str, str]:
    """Returns two sizes of the table cache: one too small for the tables of the load, and one large enough.

    Raises UsageError if the larger one is impossible, with numbers of tables or clients that are possible."""
    limit, needed = room.max_entries(threads), room.needed(tables, threads)
    if needed <= limit:
        return str(room.too_few(tables, threads)), str(min(limit, int(_CACHE_HEADROOM * needed)))
    fit = limit // room.needed(1, threads)
    most = next(filter(room.fits, range(threads, 1, -1)), 1)
    fewer = f"LOAD_TABLES={fit} at most, fewer THREADS=" if fit else f"THREADS={most} at most"
    raise UsageError(
        f"{threads:,} clients over {tables:,} {'table' if tables == 1 else 'tables'} need {needed:,} entries in the "
        f"table cache; the {room.files:,} files that a server may open here allow {limit:,}",
        f"give {fewer}, more OPEN_FILES=, or the values to measure at: OPTION={_CACHE}={limit // 4},{limit}",
    )


INTERFERENCE = load_experiment(
    "interference",
    "How much throughput does a load lose while another client queries foreign keys in information_schema?",
    "A load with concurrent information_schema queries",
    plan,
    tables=10_000,
    rows=100,
    foreign_keys=20,
    bases={POLL: OFF},
    names=(OFF, ON, *QUERIES),
    sizes={QUICK: {"tables": 1000, **QUICK_LOAD}, STANDARD: {"seconds": 30, "warmup": 5}},
    defaults={
        "threads": str(_THREADS),
        "workload": _WORKLOAD,
        "load_tables": f"{_LOAD_TABLES}, or as many as a table cache can hold",
        "options": f"{_CACHE}, too small for the load and large enough",
        "queries": "foreign keys of one table after the other",
    },
)
