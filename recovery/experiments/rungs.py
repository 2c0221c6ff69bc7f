"""At which scales does an experiment make sense, from the smallest to its own? The words of its command. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recovery.scenarios.experiment import Host

_THREADS_FOR_EACH_CPU = 4
_MOST_THREADS = 64
_FLUSH = "innodb_flush_log_at_trx_commit=1"
_INSTANCES = "table_open_cache_instances=1,16"
_TABLES = 8
"""Of those that InnoDB is measured with. What is about one to three of them uses the same data directory: one less is
made."""


@dataclass(frozen=True)
class Caps:
    """What the user wants at most; None is as much as the budget allows."""

    tables: int | None = None
    """In all schemas of one experiment, of those that are about many."""
    seconds: int | None = None
    runs: int | None = None
    smallest: bool = False
    """Of each experiment the smallest scale, whatever else would fit."""


@dataclass(frozen=True)
class Rung:
    """One scale."""

    words: tuple[str, ...]
    """Options of the experiment's command."""
    runs: int
    told: str
    """In words, for the plan and the report."""


def rungs(name: str, host: Host, caps: Caps) -> tuple[Rung, ...]:
    """Each takes longer than the one before; the second is the first with three runs."""
    found = tuple(dict.fromkeys(_LADDERS[name](host, caps)))
    return found[:1] if caps.smallest else found


def most_threads(host: Host) -> int:
    """A power of two."""
    return 1 << (min(_MOST_THREADS, _THREADS_FOR_EACH_CPU * host.cpus).bit_length() - 1)


def _least(value: int, cap: int | None) -> int:
    return value if cap is None else max(1, min(value, cap))


def _rung(caps: Caps, runs: int, told: str, **options: object) -> Rung:
    runs = _least(runs, caps.runs)
    words: list[str] = []
    for option, value in {**options, "runs": runs}.items():
        name = f"--{option.replace('_', '-')}"
        words += [name] if value is True else [name, str(value)]
    return Rung(tuple(words), runs, f"{told}, {runs} run{'s' if runs > 1 else ''} of each")


def _crash_recovery(_: Host, caps: Caps) -> Iterator[Rung]:
    steps = (
        (1000, 1), (1000, 3), (2000, 3), (5000, 3), (10_000, 3), (20_000, 3), (20_000, 5), (50_000, 5), (100_000, 5),
        (200_000, 5),
    )  # fmt: skip
    for wished, runs in steps:
        tables = _least(wished, caps.tables)
        yield _rung(caps, runs, f"{tables:,} tables", tables=tables, trace=True)


def _metadata(_: Host, caps: Caps) -> Iterator[Rung]:
    steps = (
        (10, 100, 1), (10, 100, 3), (20, 100, 3), (50, 100, 3), (100, 100, 3), (100, 200, 3), (100, 500, 3),
        (100, 1000, 3), (100, 2000, 3), (100, 5000, 3), (100, 10_000, 3),
    )  # fmt: skip
    for number, (schemas, wished, runs) in enumerate(steps):
        tables = _least(wished, None if caps.tables is None else max(1, caps.tables // schemas))
        told = f"{schemas * tables:,} tables in {schemas} schemas"
        if number == 0:
            yield _rung(caps, runs, told, schemas=schemas, tables=tables)
            continue
        made = _least(schemas * tables // 10, 10_000)
        told = f"{told}, {made:,} of them made by one client, too"
        yield _rung(caps, runs, told, schemas=schemas, tables=tables, published_build=made)


_FOREIGN_KEYS = 40
"""Tables that hold those of the published experiment."""
_LOADED = 500
"""Tables at most: a table cache has an entry of each in every instance, and hosts allow some 20,000 open files."""


def _interference(_: Host, caps: Caps) -> Iterator[Rung]:
    """The load keeps to a tenth of the tables, as published, as far as a cache can hold it, as its published hits say;
    at the end there is a cache that does not, beside it."""
    steps = (
        (1000, 5, 2, 1), (2000, 10, 3, 3), (5000, 10, 3, 3), (10_000, 10, 5, 3), (10_000, 20, 5, 3),
        (10_000, 30, 10, 3), (10_000, 60, 10, 3),
    )  # fmt: skip
    for both in (False, True):
        for wished, seconds, warmup, runs in steps[-1:] if both else steps:
            tables = max(_FOREIGN_KEYS, _least(wished, caps.tables))
            load = min(tables // 10, _LOADED)
            caches = (*((tables // 5,) if both else ()), 16 * load)
            told = f"{tables:,} tables, a load of {{seconds}} s over {load:,} of them"
            yield _load(
                caps, (seconds, warmup, runs), f"{told}, table cache {' and '.join(map(str, caches))}",
                tables=tables, load_tables=load, option=f"table_open_cache={','.join(map(str, caches))}",
            )  # fmt: skip


def _load(caps: Caps, times: tuple[int, int, int], told: str, **options: object) -> Rung:
    """`times`: seconds of each load, of its warm-up, and runs."""
    seconds, warmup = _least(times[0], caps.seconds), _least(times[1], caps.seconds)
    return _rung(caps, times[2], told.format(seconds=seconds), **options, seconds=seconds, warmup=warmup)


def _table_cache(host: Host, caps: Caps) -> Iterator[Rung]:
    one, most = "1", str(most_threads(host))
    steps = (
        (one, most, 5, 2, 1), (one, most, 10, 3, 3), ("1 2 3", most, 10, 3, 3), ("1 2 3", most, 30, 5, 3),
        ("1 2 3", f"1 {most}", 30, 5, 3), ("1 2 3", f"1 {most}", 60, 10, 3),
    )  # fmt: skip
    for tables, threads, seconds, warmup, runs in steps:
        rows = 100_000 if seconds > 10 else 10_000
        what = f"1 and 16 instances, {_listed(tables)} table{'' if tables == one else 's'} of {rows:,} rows"
        yield _load(
            caps, (seconds, warmup, runs), f"{what}, {_listed(threads)} clients, {{seconds}} s",
            workload="read-only", load_tables=tables, threads=threads, tables=_TABLES, rows=rows, option=_INSTANCES,
        )  # fmt: skip
    yield _load(caps, (60, 10, 3), "all workloads, instances, tables and clients of the experiment, {seconds} s")


_SMALL = 2
"""Scales, with one run and with three."""


def _write_scaling(host: Host, caps: Caps) -> Iterator[Rung]:
    most = str(most_threads(host))
    both = most if most == "1" else f"1 {most}"
    parts = "scaling hot-rows doublewrite redo-spinning"
    steps = (
        ("scaling", most, 10_000, 5, 2, 1), ("scaling", most, 10_000, 5, 2, 3), ("scaling", most, 10_000, 10, 3, 3),
        ("scaling", both, 10_000, 10, 3, 3),
        ("scaling", both, 100_000, 20, 5, 3), (parts, both, 100_000, 30, 5, 3), (parts, both, 250_000, 60, 10, 3),
    )  # fmt: skip
    for number, (question, threads, rows, seconds, warmup, runs) in enumerate(steps):
        # The smallest are about writing alone: most that was published is.
        workloads = {"workload": "read-write update-nokey"} if number < _SMALL else {}
        what = f"{_listed(question)}{', writing alone' if workloads else ''}"
        told = f"{what}: {_TABLES} tables of {rows:,} rows, {_listed(threads)} clients, {{seconds}} s"
        yield _load(
            caps, (seconds, warmup, runs), told, question=question, **workloads, threads=threads, tables=_TABLES,
            rows=rows, option=_FLUSH,
        )  # fmt: skip
    yield _load(caps, (60, 10, 3), "all questions of the experiment, 8 tables of 250,000 rows, {seconds} s")


def _listed(words: str) -> str:
    *first, last = words.split()
    return f"{', '.join(first)} and {last}" if first else last


_LADDERS = {
    "crash-recovery": _crash_recovery,
    "metadata": _metadata,
    "interference": _interference,
    "table-cache": _table_cache,
    "write-scaling": _write_scaling,
}
