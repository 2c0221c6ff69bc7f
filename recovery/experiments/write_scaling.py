"""How does InnoDB scale, above all at writing? Several questions over the same tables, each a part of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import product

from recovery.errors import UsageError
from recovery.experiments.experiment import Asked, Host, Scenario
from recovery.experiments.load import (
    PAGES,
    POOL,
    POOL_OPTIONS,
    SPINNING,
    THREADS,
    THREADS_FOR_EACH_CPU,
    TO_SO_MANY_THREADS,
    UNIFORM,
    WORKLOAD,
    Pairs,
    Values,
    Way,
    by_sysbench,
    counts,
    measure,
    options_of,
    pool_bytes,
    pool_options,
    powers_of_two,
    wished,
    works_of,
)
from recovery.model import QUESTION, Cache, Layout, Load, Schema, Work
from recovery.workload.sysbench import script_of

_FLUSH = "innodb_flush_log_at_trx_commit"
_PAGE = "innodb_page_size"
_USUAL_PAGE = (_PAGE, "16k")
"""With which the tables lie there anyway."""
_DOUBLEWRITE = "innodb_doublewrite"
_ISOLATION = "transaction_isolation"
_SPIN = (
    ("innodb_log_spin_cpu_abs_lwm", "0"),
    ("innodb_log_spin_cpu_pct_hwm", "100"),
    ("innodb_log_wait_for_flush_spin_hwm", str(2**64 - 1)),
)
"""Whether the server is idle or busy, and however long the device takes: else nobody spins in most of what there is to
measure. One client leaves the CPU below the first limit, many are above the second, and a slow flush is beyond the
third."""
_NO_SPIN = (("innodb_log_spin_cpu_abs_lwm", str(2**32 - 1)), ("innodb_log_spin_cpu_pct_hwm", "0"))
"""Neither clients nor the log's own threads, which the second option does not concern."""
_SCHEDULE = "innodb_lock_schedule_algorithm"
_LARGER = 4.0
"""Times as large as the buffer pool."""
_HOT_ROWS = 10
"""Of one table."""
_COMMITTED = "tps"
"""Where transactions meet: statements of one that ends in a deadlock are answered, and counted, and undone."""
_READERS, _WRITERS = ("point-select", "read-only"), ("read-write", "update-nokey")


class Users(Enum):
    """How many clients there are at a time."""

    ALL = "all"
    """One after the other: one, two, four …"""
    MOST = "most"
    ONE = "one"
    ENDS = "ends"
    """One, and the most."""


@dataclass(frozen=True)
class Part:
    name: str
    workloads: tuple[str, ...]
    users: Users
    options: Values = ()
    fixed: Pairs = ()
    """Options that hold for all of it."""
    named: Pairs = ()
    """What is varied by several options together: its axis, and what it says of these."""
    layout: Layout | None = None
    rows: int | None = None
    """Of the one table to which the load keeps then."""
    larger: bool = False
    """Than memory."""
    needs: str | None = None
    """A capability of the server."""
    figure: str | None = None
    """That is held against each other, where it is not queries a second."""
    writes: bool | None = None
    """Of what the user asks for it takes the workloads that write, or those that do not; None takes all."""


PARTS = (
    # Who only reads does not wait for the log.
    Part("scaling", _READERS, Users.ALL, writes=False),
    Part("scaling", _WRITERS, Users.ALL, ((_FLUSH, ("1", "2", "0")),), writes=True),
    Part("one-user", (*_READERS, *_WRITERS), Users.ONE),
    Part(
        "larger-than-memory", ("point-select", "update-nokey"), Users.MOST, ((_PAGE, ("16k", "8k", "4k")),), larger=True
    ),
    # Transactions of several locks: one update alone reads nothing twice, and waits for nobody who waits for it.
    Part(
        "hot-rows",
        ("read-write",),
        Users.MOST,
        ((_ISOLATION, ("REPEATABLE-READ", "READ-COMMITTED")),),
        rows=_HOT_ROWS,
        figure=_COMMITTED,
    ),
    Part("doublewrite", ("update-nokey",), Users.MOST, ((_DOUBLEWRITE, ("1", "0")),)),
    *(
        Part(
            "redo-spinning",
            ("update-nokey",),
            Users.ENDS,
            fixed=fixed,
            named=((SPINNING, value),),
            needs="redo_spinning",
        )
        for value, fixed in (("on", _SPIN), ("off", _NO_SPIN))
    ),
    # Two ways to read less from the device at once.
    *(
        Part("compression", ("point-select",), Users.MOST, (), fixed, ((PAGES, pages),), layout, larger=True)
        for pages, fixed, layout in (
            ("16k", (_USUAL_PAGE,), None),
            ("4k", ((_PAGE, "4k"),), None),
            ("8k-compressed", (_USUAL_PAGE,), Layout.COMPRESSED),
        )
    ),
    Part(
        "lock-schedule",
        ("read-write",),
        Users.MOST,
        ((_SCHEDULE, ("fcfs", "vats")),),
        rows=_HOT_ROWS,
        needs="lock_schedule",
        figure=_COMMITTED,
    ),
)
NAMES = tuple(dict.fromkeys(part.name for part in PARTS))
LARGER = tuple(dict.fromkeys(part.name for part in PARTS if part.larger))


def works(asked: Asked, schema: Schema, host: Host) -> tuple[Work, ...]:
    parts = wished(asked, NAMES, "write-scaling has no question")
    return works_of(way for part in PARTS if part.name in parts for way in _ways(part, asked, schema, host))


def _ways(part: Part, asked: Asked, schema: Schema, host: Host) -> Iterator[Way]:
    given = (*part.fixed, *(_smaller_pool(asked, schema, host) if part.larger else ()))
    fixed = (*(name for name, _ in part.fixed), *(POOL_OPTIONS if part.larger else ()))
    crossed = product(_workloads(part, asked), options_of(asked, part.options), _threads(part.users, asked, host))
    for workload, options, threads in crossed:
        load = Load(
            script_of(workload),
            threads,
            tables=1 if part.rows else max(asked.load_tables, default=schema.tables),
            rows=min(part.rows or schema.rows, schema.rows),
            seconds=asked.seconds,
            warmup_s=asked.warmup_s,
            options=(UNIFORM,) if part.rows or part.larger else (),
        )
        axes = ((QUESTION, part.name), (WORKLOAD, workload), *options, *part.named, (THREADS, str(threads)))
        settings = tuple(pair for pair in (*given, *options) if pair != _USUAL_PAGE)
        yield Way(load, axes, settings, part.layout, part.needs, part.figure, fixed)


def _smaller_pool(asked: Asked, schema: Schema, host: Host) -> Pairs:
    """What of the buffer pool differs from the one that holds for all; its size does in any case, for the reader."""
    if asked.memory_ratio is not None and asked.memory_ratio <= 1:
        raise UsageError(
            f"MEMORY_RATIO={asked.memory_ratio:g} leaves no data that is larger than memory",
            f"give more than 1, or QUESTION= without {' and '.join(LARGER)}",
        )
    usual = pool_options(pool_bytes(schema, host, ratio=asked.memory_ratio))
    found = pool_options(pool_bytes(schema, host, ratio=asked.memory_ratio or _LARGER))
    return tuple((name, value) for name, value in found.items() if name == POOL or value != usual[name])


def _workloads(part: Part, asked: Asked) -> tuple[str, ...]:
    if not asked.workloads:
        return part.workloads
    return tuple(name for name in asked.workloads if part.writes in (None, name not in _READERS))


def _threads(users: Users, asked: Asked, host: Host) -> tuple[int, ...]:
    every = asked.threads or powers_of_two(THREADS_FOR_EACH_CPU * host.cpus)
    return {
        Users.ALL: every,
        Users.MOST: (max(every),),
        Users.ONE: (1,),
        Users.ENDS: tuple(dict.fromkeys((1, max(every)))),
    }[users]


WRITE_SCALING = Scenario(
    "write-scaling",
    "How does InnoDB scale with the number of clients, above all at writing, and what holds it up?",
    "InnoDB under load",
    (Cache.WARM,),
    measure,
    counts,
    by_sysbench(
        works,
        tables=8,
        rows=250_000,
        bases={
            _FLUSH: "1",
            _PAGE: "16k",
            _DOUBLEWRITE: "1",
            _ISOLATION: "REPEATABLE-READ",
            SPINNING: "on",
            _SCHEDULE: "fcfs",
            PAGES: "16k",
        },
        usual={
            "threads": TO_SO_MANY_THREADS,
            "workload": "by question",
            "load_tables": "all",
            "memory_ratio": f"it fits; {_LARGER:g} for {' and '.join(LARGER)}",
            "options": "by question",
            "parts": "all of them",
        },
    ),
)
