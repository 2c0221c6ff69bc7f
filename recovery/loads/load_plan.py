"""Plans sysbench loads: the buffer pool, the variants of an experiment, and what a host can hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice

from recovery.errors import UsageError
from recovery.experiments.experiment import (
    MAX_COMBINATIONS,
    THREADS_PER_CPU,
    ExperimentOptions,
    HostCapacity,
    Pairs,
    check_combination_count,
)
from recovery.loads.sysbench import NO_PREPARED_STATEMENTS, must_send_text, resolve_script
from recovery.loads.tasks import Load, Poll, data_bytes, rows_within
from recovery.model import QUESTION_AXIS, Cache, Schema, VariantSpec
from recovery.mysqld.options import POOL, POOL_OPTIONS, max_clients, needed_connections

# --- The options of loads


@dataclass(frozen=True)
class WorkloadOptions(ExperimentOptions):
    """The options of experiments that run sysbench."""

    threads: tuple[int, ...] = ()
    workloads: tuple[str, ...] = ()
    """Names of sysbench's scripts, or paths of the user's own scripts."""


@dataclass(frozen=True)
class LoadOptions(WorkloadOptions):
    """The options of experiments that measure loads."""

    seconds: int = 60
    """Measured time of each load, after the warm-up."""
    warmup_s: int = 10
    load_tables: tuple[int, ...] = ()
    """Numbers of tables that the loads use."""
    charset: tuple[str, ...] = ()
    """Character sets or collations of the tables to compare."""
    memory_ratio: float | None = None
    """Size of the data divided by the size of the buffer pool."""

    def setting_of(self, server_option: str) -> str | None:
        if self.memory_ratio is None or server_option not in POOL_OPTIONS:
            return None
        return f"--memory-ratio {self.memory_ratio:g} sets the size of the buffer pool"


# --- Buffer pool size: the same for all servers, checked against what a load uses

_DEFAULT_POOL_FACTOR = 1.5
_MIN_POOL_FACTOR = 1.3
"""Pool size over data size that a load needs at least: files are never full, so they exceed the estimate."""
_MIB = 1 << 20
_GIB = 1 << 30
_MIN_DEFAULT_POOL_BYTES = 128 * _MIB
_MIN_SERVER_POOL_BYTES = 5 * _MIB
_MAX_MEMORY_SHARE = 0.5
"""Largest share of the host's memory for the pool: the clients and the page cache need memory, too."""
_INSTANCES = 8
"""Buffer pool instances from 1 GiB on: all versions that have several accept this number. Below 1 GiB some versions
use one instance, whatever the option says."""
_CHUNK, _LARGE_CHUNK = 16 * _MIB, 128 * _MIB


def pool_bytes(schema: Schema, host: HostCapacity, *, ratio: float | None) -> int:
    """Returns a pool size that holds all data or, with a `ratio`, one that the data exceeds by this factor; never more
    than half of the host's memory."""
    size = min(max(_needed_pool_bytes(schema, ratio), _MIN_SERVER_POOL_BYTES), _max_pool_bytes(host))
    # The nearest size, up or down, that servers do not round: so the requested ratio is kept.
    instances, chunk = _pool_geometry(size)
    unit = _MIB if size < chunk else instances * chunk
    return max(1, round(size / unit)) * unit


def pool_options(size: int) -> dict[str, str]:
    """Returns the options that give a buffer pool of exactly this size.

    Since 5.7 a pool consists of chunks, equally many in each instance, and the server rounds any other size up, by
    default to the next gigabyte; 5.6 accepts any size. Sizes from `pool_bytes()` are not rounded."""
    instances, chunk = _pool_geometry(size)
    return {
        POOL: str(size),
        "loose_innodb_buffer_pool_instances": str(instances),
        "loose_innodb_buffer_pool_chunk_size": str(min(chunk, size)),
    }


def check_memory(
    variant_specs: Iterable[VariantSpec], requested: LoadOptions, schema: Schema, host: HostCapacity
) -> None:
    """Raises UsageError if this host has too little memory for the data of a load, or for the requested ratio."""
    if requested.memory_ratio is not None:
        _check_ratio(requested.memory_ratio, schema, host)
        return
    for spec in variant_specs:
        if isinstance(spec.task, Load) and POOL not in dict(spec.settings):
            _check_load_fits(spec.task, host)


def _check_ratio(ratio: float, schema: Schema, host: HostCapacity) -> None:
    needed, limit = _needed_pool_bytes(schema, ratio), _max_pool_bytes(host)
    if needed > limit:
        min_ratio = data_bytes(schema.total_tables, schema.rows) / limit
        raise UsageError(
            f"{ratio:g} asks for a buffer pool of {_gib(needed)}: {_over_memory_text(limit)}",
            f"give {min_ratio + 0.05:.1f} or more",
            option="memory_ratio",
        )


def _check_load_fits(load: Load, host: HostCapacity) -> None:
    needed, limit = _MIN_POOL_FACTOR * data_bytes(load.tables, load.rows), _max_pool_bytes(host)
    if needed > limit:
        fit = rows_within(limit / _MIN_POOL_FACTOR, load.tables)
        fewer = f"--rows {fit}, which fit" if fit > 0 else "fewer --tables"
        raise UsageError(
            f"{load.tables:,} tables of {load.rows:,} rows need a buffer pool of {_gib(needed)}: "
            f"{_over_memory_text(limit)}",
            f"give {fewer}; or --memory-ratio 4 for a load that is to read from the device",
        )


def _needed_pool_bytes(schema: Schema, ratio: float | None) -> float:
    data = data_bytes(schema.total_tables, schema.rows)
    return data / ratio if ratio else max(_DEFAULT_POOL_FACTOR * data, _MIN_DEFAULT_POOL_BYTES)


def _max_pool_bytes(host: HostCapacity) -> float:
    return _MAX_MEMORY_SHARE * host.memory_bytes


def _pool_geometry(size: float) -> tuple[int, int]:
    """Returns the number of instances and the chunk size in bytes, chosen so that there are fewer than 1,000 chunks."""
    if size < _GIB:
        return 1, _CHUNK
    return _INSTANCES, _CHUNK if size < _INSTANCES * _GIB else _LARGE_CHUNK


def _over_memory_text(limit: float) -> str:
    return f"that is more than half of the memory, {_gib(limit)}"


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"


# --- Loads and the variants that measure them

DATABASE = "sbtest"
WORKLOAD, THREADS, TABLES, CHARSET = "workload", "threads", "tables", "charset"
PAGES, SPINNING = "pages", "spinning"
"""Axes that are not options of the server."""
_SELF_EXPLANATORY_AXES = frozenset({WORKLOAD, QUESTION_AXIS, PAGES})
"""Axes with values that are understood without the name of the axis."""
_COUNT_AXES = frozenset({THREADS, TABLES})
SPECIAL, UNIFORM = "--rand-type=special", "--rand-type=uniform"
"""Distribution of row accesses: sysbench's default (three of four accesses go to 1 % of the rows), or uniform."""
_REDO_BYTES = 1 << 30
_MAX_NAME_BYTES = 180
"""In bytes. The log file is named after the load, the version and the run number."""
QUICK_LOAD = {"seconds": 5, "warmup": 2, "runs": 1}
STANDARD_LOAD = {"seconds": 8, "warmup": 2}
"""Sizes by SCALE that several loads share."""
DEFAULT_THREADS_TEXT = f"1 2 4 … {THREADS_PER_CPU} times the CPUs"


def make_load(
    requested: LoadOptions,
    workload: str,
    *,
    threads: int,
    tables: int,
    rows: int,
    distribution: str = SPECIAL,
    poll: Poll | None = None,
) -> Load:
    """Returns a load of the requested length. Its rows are distributed as sysbench does by default, but explicitly, so
    that the command in the report shows it."""
    return Load(
        resolve_script(workload), threads, tables, rows, requested.seconds, requested.warmup_s, (distribution,), poll
    )


def load_variant(load: Load, axes: Pairs, options: Pairs) -> VariantSpec:
    """Returns a variant that measures this load with these server options; `name_variants()` gives it its name."""
    return VariantSpec("", Cache.WARM, load, axes, options)


def name_variants(variants: Iterable[VariantSpec]) -> tuple[VariantSpec, ...]:
    """Names each variant by the axes in which the variants differ.

    Raises UsageError if there are too many, if two get the same name, or if a name is too long for a file."""
    unnamed = _with_same_protocol(tuple(islice(variants, MAX_COMBINATIONS + 1)))
    check_combination_count(len(unnamed))
    values: dict[str, set[str]] = {}
    for variant in unnamed:
        for axis, value in variant.axes:
            values.setdefault(axis, set()).add(value)
    differing = {axis for axis, known in values.items() if len(known) > 1 or axis in _SELF_EXPLANATORY_AXES}
    named = tuple(replace(variant, name=_name(variant.axes, differing)) for variant in unnamed)
    for name, times in Counter(variant.name for variant in named).items():
        if times > 1:
            raise UsageError(f"two of the loads are called {name}", "give scripts and values that differ by name")
        if len(name.encode(errors="replace")) > _MAX_NAME_BYTES:
            raise UsageError(
                f"the name of the load {name[:60]}… is too long for a file", "give shorter values of --option"
            )
    return named


def with_charsets(variants: Iterable[VariantSpec], charsets: Sequence[str]) -> tuple[VariantSpec, ...]:
    """Returns each variant with each of the character sets."""
    return tuple(
        replace(
            variant,
            name=f"{variant.name}-{charset}" if len(charsets) > 1 else variant.name,
            axes=(*variant.axes, (CHARSET, charset)),
            charset=charset,
        )
        for variant in variants
        for charset in charsets
    )


def _with_same_protocol(variants: tuple[VariantSpec, ...]) -> tuple[VariantSpec, ...]:
    """Sends the statements of all loads as text if one load has too many to prepare: otherwise a comparison of client
    numbers would also be one of prepared statements with text."""
    if not any(must_send_text(load) for load in _loads(variants)):
        return variants
    return tuple(
        replace(variant, task=replace(load, options=(*load.options, NO_PREPARED_STATEMENTS)))
        for variant, load in zip(variants, _loads(variants), strict=True)
    )


def _loads(variants: Iterable[VariantSpec]) -> list[Load]:
    return [variant.task for variant in variants if isinstance(variant.task, Load)]


def _name(axes: Pairs, differing: Set[str]) -> str:
    return "-".join(name_part(axis, value.rpartition("/")[2]) for axis, value in axes if axis in differing)


def name_part(axis: str, value: str) -> str:
    """Returns one part of a name: `read-only`, `8-threads`, `instances-16`."""
    if axis in _SELF_EXPLANATORY_AXES:
        return value
    if axis in _COUNT_AXES:
        return f"{value}-{axis.removesuffix('s') if value == '1' else axis}"
    return f"{axis.rpartition('_')[2]}-{value}"


def load_settings(requested: LoadOptions, schema: Schema, host: HostCapacity, *, clients: int) -> Mapping[str, str]:
    """Returns the server options that all compared servers share, whatever their defaults, for this many clients."""
    return {
        **pool_options(pool_bytes(schema, host, ratio=requested.memory_ratio)),
        "loose_innodb_redo_log_capacity": str(_REDO_BYTES),
        # Data that does not fit into the buffer pool must not be in the host's page cache instead.
        "innodb_flush_method": "O_DIRECT",
        "max_connections": str(needed_connections(clients)),
        # Not `latch`: counting every mutex is expensive, so it has a separate run (Extra.WAITS).
        "loose_innodb_monitor_enable": "log_lsn_checkpoint_age",
        # Takes effect only where the Performance Schema is on. By default it counts none of these waits.
        "loose_performance_schema_instrument": "wait/synch/%/innodb/%=ON",
    }


def max_simultaneous_clients(variants: Iterable[VariantSpec]) -> int:
    """Returns the largest number of simultaneous clients of any load, pollers included."""
    return max((load.threads + (load.poll.clients if load.poll else 0) for load in _loads(variants)), default=0)


def check_clients(variants: Iterable[VariantSpec], host: HostCapacity) -> None:
    """Raises UsageError if a server of this host may open too few files for so many clients."""
    clients, limit = max_simultaneous_clients(variants), max_clients(host.open_files)
    if clients > limit:
        raise UsageError(
            f"{clients:,} clients at once need more than the {host.open_files:,} files that a server may open here; "
            f"the limit is {max(0, limit):,} clients",
            "give fewer --threads, fewer --pollers, or more --open-files",
        )


def default_threads(host: HostCapacity) -> tuple[int, ...]:
    """Returns the powers of two up to THREADS_PER_CPU times the CPUs."""
    return tuple(1 << exponent for exponent in range((THREADS_PER_CPU * host.cpus).bit_length()))
