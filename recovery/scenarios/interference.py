"""What does a load lose to clients that ask information_schema meanwhile?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from recovery.errors import UsageError
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
from recovery.server.tablecache import connections_for, entries_for, most_open
from recovery.work import Load, Poll

POLL = "poll"
OFF, ON = "off", "on"
_THREADS = 10
_WORKLOAD = "read-only"
_LOAD_TABLES = 500
"""Of which the table cache must hold sixteen times as many: by default it has so many instances."""
_CACHE = "table_open_cache"
_MORE = 1.125
"""Times what the load needs: the published effect depends on whether the cache holds it."""


def works(asked: Asked, schema: Schema, host: Host) -> tuple[Work, ...]:
    return works_of(_ways(asked, schema, host))


def _ways(asked: Asked, schema: Schema, host: Host) -> Iterator[Way]:
    clients = asked.threads or (_THREADS,)
    most = _most_entries(host, max(clients) + asked.pollers)
    used = asked.load_tables or (min(_usual_tables(clients, most), schema.tables),)
    caches = dict(asked.options).get(_CACHE)
    if not caches:
        _check_cache(clients, used, asked, host)
        caches = _caches(clients, used, most)
    crossed = product(
        asked.workloads or (_WORKLOAD,),
        clients,
        used,
        options_of(asked, ((_CACHE, caches),)),
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


def _most_entries(host: Host, clients: int) -> int:
    return most_open(host.open_files, connections=connections_for(clients))


def _usual_tables(threads: tuple[int, ...], most: int) -> int:
    """As many as a cache can hold for them."""
    return max(1, min(_LOAD_TABLES, int(most / _MORE) // entries_for(1, threads=max(threads))))


def _caches(threads: tuple[int, ...], tables: tuple[int, ...], most: int) -> tuple[str, str]:
    """One that does not hold what the load uses, and one that does."""
    needed = entries_for(max(tables), threads=max(threads))
    # Too few also for a server that has one instance, and each of the others gives a thread all of its own.
    fewer = min(needed // 4, max(threads) * max(tables) // 2)
    return str(max(1, fewer)), str(min(most, int(_MORE * needed)))


def _check_cache(threads: tuple[int, ...], tables: tuple[int, ...], asked: Asked, host: Host) -> None:
    """One that holds what they use must be possible; what is, is named."""
    clients, used = max(threads), max(tables)
    needed, most = entries_for(used, threads=clients), _most_entries(host, clients + asked.pollers)
    if needed <= most:
        return
    fit = most // entries_for(1, threads=clients)
    fewer = (
        f"LOAD_TABLES={fit} at most, or fewer THREADS="
        if fit
        else f"THREADS={_most_threads(clients, asked, host)} at most"
    )
    raise UsageError(
        f"{clients:,} clients over {used:,} {'table' if used == 1 else 'tables'} need {needed:,} entries in the table "
        f"cache, and the files that a server may open here (ulimit -n) suffice for {most:,}",
        f"give {fewer}, or the values to measure at: OPTION={_CACHE}={most // 4},{most}",
    )


def _most_threads(threads: int, asked: Asked, host: Host) -> int:
    """Over one table. Each needs an entry, and leaves fewer."""
    fit = (
        fewer
        for fewer in range(threads, 1, -1)
        if entries_for(1, threads=fewer) <= _most_entries(host, fewer + asked.pollers)
    )
    return next(fit, 1)


def _statements(asked: Asked) -> tuple[str, ...]:
    return tuple(statement for _, statement in asked.queries) or (FOREIGN_KEYS,)


INTERFERENCE = Scenario(
    "interference",
    "What does a load lose to a client that asks information_schema for foreign keys in a loop?",
    "A load beside questions to information_schema",
    (Cache.WARM,),
    measure,
    counts,
    by_sysbench(
        works,
        tables=10_000,
        rows=100,
        foreign_keys=20,
        bases={POLL: OFF},
        usual={
            "threads": str(_THREADS),
            "workload": _WORKLOAD,
            "load_tables": f"{_LOAD_TABLES}, or as many as a table cache can hold",
            "options": f"{_CACHE}, too small for the load and large enough",
            "queries": "foreign keys of one table after the other",
        },
    ),
)
