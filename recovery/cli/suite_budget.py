"""The scales of each experiment, their cost in time and disk space, and their choice within a budget.

Everything is pure. The estimated durations are rough: they use the rates of `recovery.session.estimate`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from recovery.experiments.experiment import HostCapacity
from recovery.linux.storage import estimate_space
from recovery.model import Load, Version
from recovery.session.estimate import build_seconds, duration_text, version_seconds
from recovery.session.plan import datadir_specs, is_measured_over
from recovery.session.request import Request

# --- Choosing scales within the budget

PLANNED_SHARE = 0.9
"""Share of the budget that is planned; the rest is a reserve, because estimates are rough."""


_LEAST_IN_MINUTES_S = 120
"""Duration from which minutes are shown instead of seconds."""
_MIN_PACE, _MAX_PACE = 0.7, 20.0
"""Limits of the pace. An experiment that found all its data built already says little about the next ones."""


@dataclass(frozen=True)
class Cost:
    """The estimated cost of a scale, or the time and space available."""

    seconds: float
    bytes: int = 0
    inodes: int = 0
    loads_s: float = 0.0
    """Part of the seconds spent on loads, which take the same time on every host."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.seconds + other.seconds,
            self.bytes + other.bytes,
            self.inodes + other.inodes,
            self.loads_s + other.loads_s,
        )

    def at(self, pace: float) -> Cost:
        """Returns the cost if everything except the loads takes `pace` times as long."""
        return replace(self, seconds=self.loads_s + pace * (self.seconds - self.loads_s))

    def within(self, whole: Cost) -> bool:
        return self.seconds <= whole.seconds and self.is_on_disk(whole)

    def is_on_disk(self, whole: Cost) -> bool:
        return self.bytes <= whole.bytes and self.inodes <= whole.inodes


def short_duration_text(seconds: float) -> str:
    """Formats a duration in seconds if it is shorter than two minutes, and otherwise like `duration_text`."""
    return f"{seconds:.0f} s" if seconds < _LEAST_IN_MINUTES_S else duration_text(seconds)


def measured_pace(ended: Iterable[tuple[Cost, float]]) -> float:
    """Returns the ratio of the actual to the estimated duration, without the loads; 1 if nothing has ended.

    `ended` contains the estimate and the actual seconds of each experiment that has ended."""
    guessed = taken = 0.0
    for price, seconds in ended:
        guessed += price.seconds - price.loads_s
        taken += max(0.0, seconds - price.loads_s)
    return min(max(taken / guessed, _MIN_PACE), _MAX_PACE) if guessed else 1.0


def allocate_scales(ladders: Sequence[Sequence[Cost]], whole: Cost) -> tuple[int | None, ...]:
    """Returns the step chosen on each ladder of prices; None if even its first step does not fit in addition to others.

    Every ladder gets its first step, the cheapest first; then its second (with enough runs for an interval), again the
    cheapest first. Then the ladder with the cheapest next step gets it, as long as one fits."""
    chosen: list[int | None] = [None] * len(ladders)
    while True:
        able = []
        for place, (ladder, now) in enumerate(zip(ladders, chosen, strict=True)):
            following = 0 if now is None else now + 1
            if following < len(ladder) and _total_cost(ladders, chosen, (place, following)).within(whole):
                able.append((min(following, 2), ladder[following].seconds, place))
        if not able:
            return tuple(chosen)
        _, _, place = min(able)
        now = chosen[place]
        chosen[place] = 0 if now is None else now + 1


def limited_by_disk(ladders: Sequence[Sequence[Cost]], chosen: Sequence[int | None], whole: Cost) -> tuple[bool, ...]:
    """Returns for each ladder whether its next step fits the time but not the disk."""
    found = []
    for place, (ladder, now) in enumerate(zip(ladders, chosen, strict=True)):
        following = 0 if now is None else now + 1
        more = _total_cost(ladders, chosen, (place, following)) if following < len(ladder) else None
        found.append(more is not None and more.seconds <= whole.seconds and not more.is_on_disk(whole))
    return tuple(found)


def _total_cost(ladders: Sequence[Sequence[Cost]], chosen: Sequence[int | None], one: tuple[int, int]) -> Cost:
    """Returns the total cost if one ladder, given by its index, is at another step."""
    place, step = one
    steps = [*chosen[:place], step, *chosen[place + 1 :]]
    found = Cost(0.0)
    for ladder, number in zip(ladders, steps, strict=True):
        if number is not None:
            found += ladder[number]
    return found


# --- Cost of a session

_SESSION_OVERHEAD_S = 12.0
"""Time for getting the servers and measuring the storage."""
_DATADIR_OVERHEAD_S = 10.0
"""Time for initialising a data directory and for the trial start of its server, whatever its size."""


def estimate_cost(request: Request, versions: tuple[Version, ...]) -> Cost:
    """Returns the estimated cost of a session that has to build all of its data directories and keeps them all."""
    variants = request.measured
    found = Cost(_SESSION_OVERHEAD_S)
    for place in datadir_specs(versions, variants):
        here = [variant for variant in variants if is_measured_over(variant, place)]
        schema = place.schema(request.schema)
        seconds = version_seconds(
            place.version,
            schema,
            runs=request.runs,
            variants=here,
            read_iops=request.limits.read_iops,
            settings=request.lasting_settings,
        )
        if schema.rows:
            # Each table is filled by a separate statement, in addition to the one that creates it.
            seconds += build_seconds(place.version, replace(schema, rows=0))
        loads = [variant.task for variant in here if isinstance(variant.task, Load)]
        loads_s = request.runs * sum(load.seconds + load.warmup_s for load in loads)
        need = estimate_space(place.version, schema, {**dict(request.settings), **dict(place.settings)})
        found += Cost(_DATADIR_OVERHEAD_S + seconds, need.bytes, need.inodes, loads_s)
    return found


# --- Scales of each experiment, from the smallest to that of its own command

_THREADS_FOR_EACH_CPU = 4
_MAX_THREADS = 64
_FLUSH_OPTION = "innodb_flush_log_at_trx_commit=1"
_INSTANCES_OPTION = "table_open_cache_instances=1,16"
_INNODB_TABLES = 8
"""Number of tables in the experiments about InnoDB. Parts about one to three tables use the same data directory, so
one data directory fewer is built."""


@dataclass(frozen=True)
class Caps:
    """Upper limits given by the user; None is as much as the budget allows."""

    tables: int | None = None
    """Tables in all schemas together, for experiments that are about many tables."""
    seconds: int | None = None
    runs: int | None = None
    smallest: bool = False
    """Use the smallest scale of each experiment, even if a larger one fits."""


@dataclass(frozen=True)
class Scale:
    """A scale of an experiment."""

    words: tuple[str, ...]
    """Command-line options of the experiment."""
    runs: int
    told: str
    """Description for the plan and the report."""


def experiment_scales(name: str, host: HostCapacity, caps: Caps) -> tuple[Scale, ...]:
    """Returns the scales of an experiment. Each takes longer than the one before it, and the second is the first with
    three runs."""
    found = tuple(dict.fromkeys(_SCALES_BY_EXPERIMENT[name](host, caps)))
    return found[:1] if caps.smallest else found


def max_threads(host: HostCapacity) -> int:
    """Returns the largest number of threads to measure with on this host, a power of two."""
    return 1 << (min(_MAX_THREADS, _THREADS_FOR_EACH_CPU * host.cpus).bit_length() - 1)


def _capped(value: int, cap: int | None) -> int:
    """Returns the value limited to the cap, but at least 1."""
    return value if cap is None else max(1, min(value, cap))


def _scale(caps: Caps, runs: int, told: str, **options: object) -> Scale:
    runs = _capped(runs, caps.runs)
    words: list[str] = []
    for option, value in {**options, "runs": runs}.items():
        name = f"--{option.replace('_', '-')}"
        words += [name] if value is True else [name, str(value)]
    return Scale(tuple(words), runs, f"{told}, {runs} run{'s' if runs > 1 else ''} of each")


def _crash_recovery(_: HostCapacity, caps: Caps) -> Iterator[Scale]:
    steps = (
        (1000, 1), (1000, 3), (2000, 3), (5000, 3), (10_000, 3), (20_000, 3), (20_000, 5), (50_000, 5), (100_000, 5),
        (200_000, 5),
    )  # fmt: skip
    for wished, runs in steps:
        tables = _capped(wished, caps.tables)
        yield _scale(caps, runs, f"{tables:,} tables", tables=tables, trace=True)


def _metadata(_: HostCapacity, caps: Caps) -> Iterator[Scale]:
    steps = (
        (10, 100, 1), (10, 100, 3), (20, 100, 3), (50, 100, 3), (100, 100, 3), (100, 200, 3), (100, 500, 3),
        (100, 1000, 3), (100, 2000, 3), (100, 5000, 3), (100, 10_000, 3),
    )  # fmt: skip
    for number, (schemas, wished, runs) in enumerate(steps):
        tables = _capped(wished, None if caps.tables is None else max(1, caps.tables // schemas))
        told = f"{schemas * tables:,} tables in {schemas} schemas"
        if number == 0:
            yield _scale(caps, runs, told, schemas=schemas, tables=tables)
            continue
        made = _capped(schemas * tables // 10, 10_000)
        told = f"{told}, {made:,} of them made by one client, too"
        yield _scale(caps, runs, told, schemas=schemas, tables=tables, published_build=made)


_MIN_INTERFERENCE_TABLES = 40
"""Minimum number of tables: enough for the foreign keys of the published experiment."""
_MAX_LOADED_TABLES = 500
"""Maximum number of tables under load: a table cache has an entry of each in every instance, and hosts allow about
20,000 open files."""


def _interference(_: HostCapacity, caps: Caps) -> Iterator[Scale]:
    """Yields the scales of the interference experiment.

    The load uses a tenth of the tables, as published, but no more than a table cache can hold, because the published
    hits show that it held them. The last scale also measures a cache that is too small."""
    steps = (
        (1000, 5, 2, 1), (2000, 10, 3, 3), (5000, 10, 3, 3), (10_000, 10, 5, 3), (10_000, 20, 5, 3),
        (10_000, 30, 10, 3), (10_000, 60, 10, 3),
    )  # fmt: skip
    for both in (False, True):
        for wished, seconds, warmup, runs in steps[-1:] if both else steps:
            tables = max(_MIN_INTERFERENCE_TABLES, _capped(wished, caps.tables))
            load = min(tables // 10, _MAX_LOADED_TABLES)
            caches = (*((tables // 5,) if both else ()), 16 * load)
            told = f"{tables:,} tables, a load of {{seconds}} s over {load:,} of them"
            yield _load_scale(
                caps, (seconds, warmup, runs), f"{told}, table cache {' and '.join(map(str, caches))}",
                tables=tables, load_tables=load, option=f"table_open_cache={','.join(map(str, caches))}",
            )  # fmt: skip


def _load_scale(caps: Caps, times: tuple[int, int, int], told: str, **options: object) -> Scale:
    """Returns a scale of an experiment under load. `times` are the seconds of each load and of its warm-up, and the
    number of runs."""
    seconds, warmup = _capped(times[0], caps.seconds), _capped(times[1], caps.seconds)
    return _scale(caps, times[2], told.format(seconds=seconds), **options, seconds=seconds, warmup=warmup)


def _table_cache(host: HostCapacity, caps: Caps) -> Iterator[Scale]:
    one, most = "1", str(max_threads(host))
    steps = (
        (one, most, 5, 2, 1), (one, most, 10, 3, 3), ("1 2 3", most, 10, 3, 3), ("1 2 3", most, 30, 5, 3),
        ("1 2 3", f"1 {most}", 30, 5, 3), ("1 2 3", f"1 {most}", 60, 10, 3),
    )  # fmt: skip
    for tables, threads, seconds, warmup, runs in steps:
        rows = 100_000 if seconds > 10 else 10_000
        what = f"1 and 16 instances, {_join_words(tables)} table{'' if tables == one else 's'} of {rows:,} rows"
        yield _load_scale(
            caps, (seconds, warmup, runs), f"{what}, {_join_words(threads)} clients, {{seconds}} s",
            workload="read-only", load_tables=tables, threads=threads, tables=_INNODB_TABLES, rows=rows,
            option=_INSTANCES_OPTION,
        )  # fmt: skip
    yield _load_scale(caps, (60, 10, 3), "all workloads, instances, tables and clients of the experiment, {seconds} s")


_WRITE_ONLY_SCALES = 2
"""Number of scales that measure writing alone: the smallest, with one run and with three."""


def _write_scaling(host: HostCapacity, caps: Caps) -> Iterator[Scale]:
    most = str(max_threads(host))
    both = most if most == "1" else f"1 {most}"
    parts = "scaling hot-rows doublewrite redo-spinning"
    steps = (
        ("scaling", most, 10_000, 5, 2, 1), ("scaling", most, 10_000, 5, 2, 3), ("scaling", most, 10_000, 10, 3, 3),
        ("scaling", both, 10_000, 10, 3, 3),
        ("scaling", both, 100_000, 20, 5, 3), (parts, both, 100_000, 30, 5, 3), (parts, both, 250_000, 60, 10, 3),
    )  # fmt: skip
    for number, (question, threads, rows, seconds, warmup, runs) in enumerate(steps):
        # The smallest scales measure writing alone, because most published results are about it.
        workloads = {"workload": "read-write update-nokey"} if number < _WRITE_ONLY_SCALES else {}
        what = f"{_join_words(question)}{', writing alone' if workloads else ''}"
        told = f"{what}: {_INNODB_TABLES} tables of {rows:,} rows, {_join_words(threads)} clients, {{seconds}} s"
        yield _load_scale(
            caps, (seconds, warmup, runs), told, question=question, **workloads, threads=threads, tables=_INNODB_TABLES,
            rows=rows, option=_FLUSH_OPTION,
        )  # fmt: skip
    yield _load_scale(caps, (60, 10, 3), "all questions of the experiment, 8 tables of 250,000 rows, {seconds} s")


def _join_words(words: str) -> str:
    *first, last = words.split()
    return f"{', '.join(first)} and {last}" if first else last


_SCALES_BY_EXPERIMENT = {
    "crash-recovery": _crash_recovery,
    "metadata": _metadata,
    "interference": _interference,
    "table-cache": _table_cache,
    "write-scaling": _write_scaling,
}
