"""The scenario interference: how much slower a load is while other clients query information_schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from recovery.errors import UsageError
from recovery.experiments.experiment import Asked, Host, Scenario
from recovery.experiments.load import TABLES, THREADS, WORKLOAD, Way, by_sysbench, counts, measure, options_of, works_of
from recovery.model import Cache, Load, Poll, Schema, Work
from recovery.mysqld.options import connections_for, entries_for, most_open
from recovery.workload.poller import FOREIGN_KEYS
from recovery.workload.sysbench import script_of

POLL = "poll"
OFF, ON = "off", "on"
_THREADS = 10
_WORKLOAD = "read-only"
_LOAD_TABLES = 500
"""Default number of tables. A table cache with 16 instances must have 16 times as many entries."""
_CACHE = "table_open_cache"
_MORE = 1.125
"""Size of the larger table cache, divided by what the load needs: the published effect depends on whether the tables of
the load fit into the cache."""


def works(asked: Asked, schema: Schema, host: Host) -> tuple[Work, ...]:
    return works_of(_ways(asked, schema, _Room(host.open_files, host.instances, asked.pollers)))


@dataclass(frozen=True)
class _Room:
    """Limits on the size of a table cache."""

    files: int
    """Number of files that a server may open."""
    instances: tuple[int, ...]
    """Numbers of instances of the servers; each server divides its entries among them."""
    pollers: int

    def most(self, threads: int) -> int:
        """Returns the largest possible number of entries with this many clients."""
        return most_open(self.files, connections=connections_for(threads + self.pollers))

    def needed(self, tables: int, threads: int) -> int:
        """Returns the number of entries that the load needs in the server with the most instances."""
        return entries_for(tables, threads=threads, instances=max(self.instances))

    def too_few(self, tables: int, threads: int) -> int:
        """Returns a number of entries with which no instance, not even a single one, can hold all tables once."""
        return max(1, min(self.needed(tables, threads) // 4, tables * min(self.instances) // 2))

    def fits(self, threads: int) -> bool:
        """Returns whether this many clients can use one table: each needs an entry, and its connection reduces the
        number of possible entries."""
        return self.needed(1, threads) <= self.most(threads)


def _ways(asked: Asked, schema: Schema, room: _Room) -> Iterator[Way]:
    clients = asked.threads or (_THREADS,)
    used = asked.load_tables or (min(_usual_tables(clients, room), schema.tables),)
    caches = dict(asked.options).get(_CACHE) or _caches(max(clients), max(used), room)
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
            poll=Poll(asked.pollers if poll == ON else 0, asked.every_s, _statements(asked)),
        )
        axes = ((WORKLOAD, workload), (THREADS, str(threads)), (TABLES, str(tables)), *options, (POLL, poll))
        yield Way(load, axes, options)


def _usual_tables(threads: tuple[int, ...], room: _Room) -> int:
    """Returns the default number of tables, or fewer if a table cache cannot hold that many for these clients."""
    most = max(threads)
    return max(1, min(_LOAD_TABLES, int(room.most(most) / _MORE) // room.needed(1, most)))


def _caches(threads: int, tables: int, room: _Room) -> tuple[str, str]:
    """Returns two sizes of the table cache: one too small for the tables of the load, and one large enough.

    Raises UsageError if the larger one is impossible, with numbers of tables or clients that are possible."""
    most, needed = room.most(threads), room.needed(tables, threads)
    if needed <= most:
        return str(room.too_few(tables, threads)), str(min(most, int(_MORE * needed)))
    fit = most // room.needed(1, threads)
    fewer = (
        f"LOAD_TABLES={fit} at most, or fewer THREADS=" if fit else f"THREADS={_most_threads(threads, room)} at most"
    )
    raise UsageError(
        f"{threads:,} clients over {tables:,} {'table' if tables == 1 else 'tables'} need {needed:,} entries in the "
        f"table cache, and the files that a server may open here (ulimit -n) suffice for {most:,}",
        f"give {fewer} at most, or the values to measure at: OPTION={_CACHE}={most // 4},{most}",
    )


def _most_threads(threads: int, room: _Room) -> int:
    """Returns the largest possible number of clients over one table, up to `threads`."""
    return next(filter(room.fits, range(threads, 1, -1)), 1)


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
