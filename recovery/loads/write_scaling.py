"""The experiment write-scaling: how InnoDB scales with the number of clients, mainly when writing.

It consists of several parts, each with a separate question, over the same sysbench tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from recovery.errors import UsageError
from recovery.experiments.experiment import (
    QUICK,
    STANDARD,
    HostCapacity,
    OptionValues,
    Pairs,
    option_combinations,
    selected_parts,
)
from recovery.loads.load import LoadExperiment
from recovery.loads.load_plan import (
    DEFAULT_THREADS_TEXT,
    PAGES,
    QUICK_LOAD,
    SPECIAL,
    SPINNING,
    STANDARD_LOAD,
    THREADS,
    UNIFORM,
    WORKLOAD,
    LoadOptions,
    default_threads,
    load_variant,
    make_load,
    name_variants,
    pool_bytes,
    pool_options,
)
from recovery.model import QUESTION_AXIS, Layout, Schema, VariantSpec
from recovery.mysqld.options import POOL, POOL_OPTIONS

_FLUSH = "innodb_flush_log_at_trx_commit"
_PAGE = "innodb_page_size"
_USUAL_PAGE = (_PAGE, "16k")
"""The default page size, with which the tables are built."""
_DOUBLEWRITE = "innodb_doublewrite"
_ISOLATION = "transaction_isolation"
_SPIN = (
    ("innodb_log_spin_cpu_abs_lwm", "0"),
    ("innodb_log_spin_cpu_pct_hwm", "100"),
    ("innodb_log_wait_for_flush_spin_hwm", str(2**64 - 1)),
)
"""Options that make threads spin regardless of CPU usage and of the device's flush time. With the defaults there is no
spinning in most measurements: with one client the CPU usage is below the first limit, with many it is above the second,
and a slow flush exceeds the third."""
_NO_SPIN = (("innodb_log_spin_cpu_abs_lwm", str(2**32 - 1)), ("innodb_log_spin_cpu_pct_hwm", "0"))
"""Options that stop both clients and log threads from spinning; the second option does not affect log threads."""
_SCHEDULE = "innodb_lock_schedule_algorithm"
_DATA_TO_POOL_RATIO = 4.0
"""Size of the data divided by the size of the buffer pool."""
_HOT_ROWS = 10
"""Number of rows, all in one table."""
_CONFLICT_METRIC = "tps"
"""Metric of parts in which transactions conflict: the statements of a transaction that ends in a deadlock count as
queries although they are rolled back."""
_READERS, _WRITERS = ("point-select", "read-only"), ("read-write", "update-nokey")


@dataclass(frozen=True)
class Part:
    """One question of the experiment, and the loads that answer it."""

    name: str
    workloads: tuple[str, ...]
    clients: Literal["all", "most", "one", "ends"]
    """Numbers of clients: each of 1, 2, 4 …, the largest of these, one, or one and the largest."""
    options: OptionValues = ()
    fixed: Pairs = ()
    """Server options for all loads of the part."""
    named: Pairs = ()
    """Name and value of an axis that represents several options together."""
    layout: Layout | None = None
    rows: int | None = None
    """Number of rows in the only table that the load uses; None is all rows of all tables."""
    larger: bool = False
    """Whether the data is larger than the buffer pool."""
    needs: str | None = None
    """Name of the capability that a server must have."""
    metric: str | None = None
    """Metric to compare; None is queries per second."""
    writes: bool | None = None
    """Which workloads of the user belong to the part: those that write (True), only read (False), or all (None)."""


PARTS = (
    # Read-only clients do not wait for the log, so the flush option is not varied for them.
    Part("scaling", _READERS, "all", writes=False),
    Part("scaling", _WRITERS, "all", ((_FLUSH, ("1", "2", "0")),), writes=True),
    Part("one-user", (*_READERS, *_WRITERS), "one"),
    Part(
        "larger-than-memory",
        ("point-select", "update-nokey"),
        "most",
        ((_PAGE, ("16k", "8k", "4k")),),
        larger=True,
    ),
    # Transactions with several locks: a single update reads nothing twice and cannot deadlock.
    Part(
        "hot-rows",
        ("read-write",),
        "most",
        ((_ISOLATION, ("REPEATABLE-READ", "READ-COMMITTED")),),
        rows=_HOT_ROWS,
        metric=_CONFLICT_METRIC,
    ),
    Part("doublewrite", ("update-nokey",), "most", ((_DOUBLEWRITE, ("1", "0")),)),
    *(
        Part(
            "redo-spinning",
            ("update-nokey",),
            "ends",
            fixed=fixed,
            named=((SPINNING, value),),
            needs="redo_spinning",
        )
        for value, fixed in (("on", _SPIN), ("off", _NO_SPIN))
    ),
    # Two ways to read fewer bytes at a time from the device.
    *(
        Part("compression", ("point-select",), "most", (), fixed, ((PAGES, pages),), layout, larger=True)
        for pages, fixed, layout in (
            ("16k", (_USUAL_PAGE,), None),
            ("4k", ((_PAGE, "4k"),), None),
            ("8k-compressed", (_USUAL_PAGE,), Layout.COMPRESSED),
        )
    ),
    Part(
        "lock-schedule",
        ("read-write",),
        "most",
        ((_SCHEDULE, ("fcfs", "vats")),),
        rows=_HOT_ROWS,
        needs="lock_schedule",
        metric=_CONFLICT_METRIC,
    ),
)
PART_NAMES = tuple(dict.fromkeys(part.name for part in PARTS))
LARGER_PARTS = tuple(dict.fromkeys(part.name for part in PARTS if part.larger))


def plan(requested: LoadOptions, schema: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
    parts = selected_parts(requested, PART_NAMES, "write-scaling")
    return name_variants(
        variant for part in PARTS if part.name in parts for variant in _variants(part, requested, schema, host)
    )


def _variants(part: Part, requested: LoadOptions, schema: Schema, host: HostCapacity) -> Iterator[VariantSpec]:
    given = (*part.fixed, *(_smaller_pool(requested, schema, host) if part.larger else ()))
    fixed = (*(name for name, _ in part.fixed), *(POOL_OPTIONS if part.larger else ()))
    crossed = product(
        _workloads(part, requested), option_combinations(requested, part.options), _threads(part, requested, host)
    )
    for workload, options, threads in crossed:
        load = make_load(
            requested,
            workload,
            threads=threads,
            tables=1 if part.rows else max(requested.load_tables, default=schema.tables),
            rows=min(part.rows or schema.rows, schema.rows),
            distribution=UNIFORM if part.rows or part.larger else SPECIAL,
        )
        axes = ((QUESTION_AXIS, part.name), (WORKLOAD, workload), *options, *part.named, (THREADS, str(threads)))
        settings = tuple(pair for pair in (*given, *options) if pair != _USUAL_PAGE)
        variant = load_variant(load, axes, settings)
        yield replace(variant, fixed=fixed, layout=part.layout, needs=part.needs, metric=part.metric)


def _smaller_pool(requested: LoadOptions, schema: Schema, host: HostCapacity) -> Pairs:
    """Returns the options of a buffer pool smaller than the data that differ from the usual ones.

    The size is always among them, so that the reader sees it. Raises UsageError for a MEMORY_RATIO of 1 or less."""
    if requested.memory_ratio is not None and requested.memory_ratio <= 1:
        raise UsageError(
            f"{requested.memory_ratio:g} leaves no data that is larger than memory",
            f"give more than 1, or --question without {' and '.join(LARGER_PARTS)}",
            option="memory_ratio",
        )
    usual = pool_options(pool_bytes(schema, host, ratio=requested.memory_ratio))
    smaller = pool_options(pool_bytes(schema, host, ratio=requested.memory_ratio or _DATA_TO_POOL_RATIO))
    return tuple((name, value) for name, value in smaller.items() if name == POOL or value != usual[name])


def _workloads(part: Part, requested: LoadOptions) -> tuple[str, ...]:
    if not requested.workloads:
        return part.workloads
    return tuple(name for name in requested.workloads if part.writes in (None, name not in _READERS))


def _threads(part: Part, requested: LoadOptions, host: HostCapacity) -> tuple[int, ...]:
    every = requested.threads or default_threads(host)
    ends = tuple(dict.fromkeys((1, max(every))))
    return {"all": every, "most": (max(every),), "one": (1,), "ends": ends}[part.clients]


WRITE_SCALING = LoadExperiment(
    "write-scaling",
    "How does InnoDB scale with the number of clients, especially when they write, and what limits it?",
    "InnoDB under load",
    plan,
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
    # The tables are those of table-cache, so that both use one data directory.
    sizes={
        QUICK: {
            "tables": 8,
            "rows": 10_000,
            "workload": "read-write update-nokey",
            "threads": "{clients}",
            "parts": "scaling",
            **QUICK_LOAD,
        },
        STANDARD: {"tables": 8, "rows": 100_000, "threads": "1 {clients}", **STANDARD_LOAD},
    },
    defaults={
        "threads": DEFAULT_THREADS_TEXT,
        "workload": "by question",
        "load_tables": "all",
        "memory_ratio": f"it fits; {_DATA_TO_POOL_RATIO:g} for {' and '.join(LARGER_PARTS)}",
        "options": "by question",
        "parts": "all of them",
    },
).as_experiment()
