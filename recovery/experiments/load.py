"""Plans and runs the work that servers are given: sysbench loads, single statements, dumps and table creation.

The first half plans: buffer pool size, combinations of axes and options, and what a host can hold. The second half runs
one piece of work against a server, and samples the server every second."""

from __future__ import annotations

import math
import shlex
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict

import pymysql
from pymysql.cursors import SSCursor

from recovery.builds.packages import DUMP, SYSBENCH
from recovery.errors import HostUnfitError, RecoveryError, ServerFailedError, TrialVoidError, UsageError
from recovery.experiments.bench import SCRATCH_SCHEMA, Bench
from recovery.experiments.experiment import Experiment, ExperimentRequest, HostCapacity, TaskResult, WorkMeasurement
from recovery.linux.cgroups import UsageMeter
from recovery.linux.privileges import RootStep
from recovery.linux.procfs import own_cores, pin_process, split_cores
from recovery.model import (
    QUESTION_AXIS,
    Cache,
    CreateTask,
    DumpTask,
    HostActivity,
    Layout,
    Load,
    LoadTimeline,
    Phase,
    ResourceUsage,
    Schema,
    Series,
    StackSamples,
    StatementTask,
    Variant,
    VariantSpec,
    Verdict,
)
from recovery.mysqld.client import message_of, scalar
from recovery.mysqld.options import max_clients, needed_connections
from recovery.mysqld.server import Server
from recovery.mysqld.startup_sampler import BackgroundLoadMeter
from recovery.workload import poller as polling
from recovery.workload import sysbench
from recovery.workload.poller import CounterReport, PollerCounters, add_load_counters, parse_counter_reports
from recovery.workload.schema import sysbench_tables
from recovery.workload.status_rates import averages, sample_series
from recovery.workload.status_sampler import Sampler, write_samples
from recovery.workload.sysbench import GRACE_S, NO_PREPARED_STATEMENTS, Client, must_send_text

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


# --- Buffer pool size: the same for all servers, checked against what a load uses

POOL = "innodb_buffer_pool_size"
POOL_OPTIONS = (POOL, "innodb_buffer_pool_instances", "innodb_buffer_pool_chunk_size")
"""The pool size, and the two options by which servers round it."""
ROW_BYTES = 250
"""Estimated size of one row of a sysbench table, with its index, in pages that are not full."""
_TABLE_BYTES = 128 << 10
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


def data_bytes(tables: int, rows: int) -> int:
    """Returns the estimated size of so many sysbench tables of `rows` rows each."""
    return tables * (_TABLE_BYTES + rows * ROW_BYTES)


def pool_bytes(schema: Schema, host: HostCapacity, *, ratio: float | None) -> int:
    """Returns a pool size that holds all data or, with a `ratio`, one that the data exceeds by this factor; never more
    than half of the host's memory."""
    wished = _wanted_pool_bytes(schema, ratio)
    return _round_to_chunks(min(max(wished, _MIN_SERVER_POOL_BYTES), _max_pool_bytes(host)))


def pool_options(size: int) -> dict[str, str]:
    """Returns the options that give a buffer pool of exactly this size.

    Since 5.7 a pool consists of chunks, equally many in each instance, and the server rounds any other size up, by
    default to the next gigabyte; 5.6 accepts any size. Sizes from `pool_bytes()` are not rounded."""
    instances, chunk = _pool_geometry(size)
    chunk = min(chunk, size)
    return {
        POOL: str(size),
        "loose_innodb_buffer_pool_instances": str(instances),
        "loose_innodb_buffer_pool_chunk_size": str(chunk),
    }


def check_memory(works: Iterable[VariantSpec], asked: ExperimentRequest, schema: Schema, host: HostCapacity) -> None:
    """Raises UsageError if this host has too little memory for the data of a load, or for the requested ratio."""
    if asked.memory_ratio is not None:
        _check_ratio(asked.memory_ratio, schema, host)
        return
    for work in works:
        if isinstance(work.task, Load) and POOL not in dict(work.settings):
            _check_load_fits(work.task, host)


def _check_ratio(ratio: float, schema: Schema, host: HostCapacity) -> None:
    wished, most = _wanted_pool_bytes(schema, ratio), _max_pool_bytes(host)
    if wished > most:
        least = data_bytes(schema.total_tables, schema.rows) / most
        raise UsageError(
            f"MEMORY_RATIO={ratio:g} asks for a buffer pool of {_gib(wished)}: {_over_memory_text(most)}",
            f"give MEMORY_RATIO={least + 0.05:.1f} or more",
        )


def _check_load_fits(load: Load, host: HostCapacity) -> None:
    needed, most = _MIN_POOL_FACTOR * data_bytes(load.tables, load.rows), _max_pool_bytes(host)
    if needed > most:
        fit = int((most / _MIN_POOL_FACTOR / load.tables - _TABLE_BYTES) / ROW_BYTES)
        fewer = f"ROWS={fit}, which fit" if fit > 0 else "fewer TABLES"
        raise UsageError(
            f"{load.tables:,} tables of {load.rows:,} rows need a buffer pool of {_gib(needed)}: "
            f"{_over_memory_text(most)}",
            f"give {fewer}; or MEMORY_RATIO=4 for a load that is to read from the device",
        )


def _wanted_pool_bytes(schema: Schema, ratio: float | None) -> float:
    found = data_bytes(schema.total_tables, schema.rows)
    return found / ratio if ratio else max(_DEFAULT_POOL_FACTOR * found, _MIN_DEFAULT_POOL_BYTES)


def _max_pool_bytes(host: HostCapacity) -> float:
    return _MAX_MEMORY_SHARE * host.memory_bytes


def _round_to_chunks(wished: float) -> int:
    """Returns the nearest size, up or down, that servers do not round: so the requested ratio is kept."""
    instances, chunk = _pool_geometry(wished)
    unit = _MIB if wished < chunk else instances * chunk
    return max(1, round(wished / unit)) * unit


def _pool_geometry(size: float) -> tuple[int, int]:
    """Returns the number of instances and the chunk size in bytes, chosen so that there are fewer than 1,000 chunks."""
    if size < _GIB:
        return 1, _CHUNK
    return _INSTANCES, _CHUNK if size < _INSTANCES * _GIB else _LARGE_CHUNK


def _over_memory_text(most: float) -> str:
    return f"that is more than half of the memory, {_gib(most)}"


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"


# --- Axes, options and the list of works

Pairs = tuple[tuple[str, str], ...]
WorkPlanner = Callable[[ExperimentRequest, Schema, HostCapacity], tuple[VariantSpec, ...]]
OptionValues = tuple[tuple[str, tuple[str, ...]], ...]

DATABASE = "sbtest"
WORKLOAD, THREADS, TABLES = "workload", "threads", "tables"
PAGES, SPINNING = "pages", "spinning"
"""Axes that are not options of the server."""
_SELF_EXPLANATORY_AXES = frozenset({WORKLOAD, QUESTION_AXIS, PAGES})
"""Axes with values that are understood without the name of the axis."""
_COUNT_AXES = frozenset({THREADS, TABLES})
_RAND_TYPE_OPTION = "--rand-type="
SPECIAL, UNIFORM = f"{_RAND_TYPE_OPTION}special", f"{_RAND_TYPE_OPTION}uniform"
"""Distribution of row accesses: sysbench's default (three of four accesses go to 1 % of the rows), or uniform."""
_REDO_BYTES = 1 << 30
THREADS_PER_CPU = 4
_MAX_CELLS = 10_000
"""A week, at a minute each."""
_MAX_NAME_BYTES = 180
"""In bytes. The log file is named after the load, the version and the run number."""
DEFAULT_THREADS_TEXT = f"1 2 4 … {THREADS_PER_CPU} times the CPUs"
"""The default numbers of threads, in words."""


def option_combinations(asked: ExperimentRequest, usual: OptionValues) -> tuple[Pairs, ...]:
    """Returns every combination of the options' values. Values that the user gives replace the default ones."""
    wished = dict(usual) | dict(asked.options)
    _check_combination_count(math.prod(map(len, wished.values())))
    return tuple(tuple(zip(wished, values, strict=True)) for values in product(*wished.values()))


def _check_combination_count(cells: int) -> None:
    if cells > _MAX_CELLS:
        raise UsageError(
            f"these are more than {_MAX_CELLS:,} combinations, and each would be measured",
            "give fewer values of OPTION=, WORKLOAD=, LOAD_TABLES= or THREADS=",
        )


@dataclass(frozen=True)
class LoadCase:
    """One load to measure, with its position on the axes of the experiment."""

    load: Load
    axes: Pairs
    options: Pairs = ()
    """Server options."""
    layout: Layout | None = None
    needs: str | None = None
    """Name of the capability that a server must have for it."""
    figure: str | None = None
    """Metric to compare; None is queries per second."""
    fixed: tuple[str, ...] = ()
    """Names of options that are not an axis but must keep their values."""


def works_from_cases(ways: Iterable[LoadCase]) -> tuple[VariantSpec, ...]:
    """Returns one Work for each way, named by the axes in which the ways differ.

    Raises UsageError if there are too many ways, if two get the same name, or if a name is too long for a file."""
    found = _with_same_protocol(tuple(islice(map(_with_row_distribution, ways), _MAX_CELLS + 1)))
    _check_combination_count(len(found))
    values: dict[str, set[str]] = {}
    for way in found:
        for axis, value in way.axes:
            values.setdefault(axis, set()).add(value)
    apart = {axis for axis, there in values.items() if len(there) > 1 or axis in _SELF_EXPLANATORY_AXES}
    names = [_name(way.axes, apart) for way in found]
    for name, times in Counter(names).items():
        if times > 1:
            raise UsageError(f"two of the loads are called {name}", "give scripts and values that differ by name")
        if len(name.encode(errors="replace")) > _MAX_NAME_BYTES:
            told = f"the load {name[:60]}… is called more than what is the name of a file"
            raise UsageError(told, "give shorter values of OPTION=")
    return tuple(
        VariantSpec(name, Cache.WARM, way.load, way.axes, way.options, way.fixed, way.layout, way.needs, way.figure)
        for name, way in zip(names, found, strict=True)
    )


def _with_row_distribution(way: LoadCase) -> LoadCase:
    """Adds sysbench's default row distribution to a load that names none, so that the command in the report shows how
    rows are chosen."""
    if any(option.startswith(_RAND_TYPE_OPTION) for option in way.load.options):
        return way
    return replace(way, load=replace(way.load, options=(*way.load.options, SPECIAL)))


def _with_same_protocol(ways: tuple[LoadCase, ...]) -> tuple[LoadCase, ...]:
    """Sends the statements of all loads as text if one load has too many to prepare: otherwise a comparison of client
    numbers would also be one of prepared statements with text."""
    if not any(must_send_text(way.load) for way in ways):
        return ways
    return tuple(
        replace(way, load=replace(way.load, options=(*way.load.options, NO_PREPARED_STATEMENTS))) for way in ways
    )


def _name(axes: Pairs, apart: Set[str]) -> str:
    return "-".join(_name_part(axis, value.rpartition("/")[2]) for axis, value in axes if axis in apart)


def _name_part(axis: str, value: str) -> str:
    """Returns one part of a name: `read-only`, `8-threads`, `instances-16`."""
    if axis in _SELF_EXPLANATORY_AXES:
        return value
    if axis in _COUNT_AXES:
        return f"{value}-{axis.removesuffix('s') if value == '1' else axis}"
    return f"{axis.rpartition('_')[2]}-{value}"


def settings(asked: ExperimentRequest, schema: Schema, host: HostCapacity, *, clients: int) -> Mapping[str, str]:
    """Returns the server options that all compared servers share, whatever their defaults, for this many clients."""
    return {
        **pool_options(pool_bytes(schema, host, ratio=asked.memory_ratio)),
        "loose_innodb_redo_log_capacity": str(_REDO_BYTES),
        # Data that does not fit into the buffer pool must not be in the host's page cache instead.
        "innodb_flush_method": "O_DIRECT",
        "max_connections": str(needed_connections(clients)),
        # Not `latch`: counting every mutex is expensive, so it has a separate run (Extra.WAITS).
        "loose_innodb_monitor_enable": "log_lsn_checkpoint_age",
        # Takes effect only where the Performance Schema is on. By default it counts none of these waits.
        "loose_performance_schema_instrument": "wait/synch/%/innodb/%=ON",
    }


def sysbench_experiment(
    works: WorkPlanner,
    *,
    tables: int,
    rows: int,
    bases: Mapping[str, str],
    usual: Mapping[str, str],
    foreign_keys: int = 0,
) -> Experiment:
    """Returns an experiment that compares queries per second over sysbench tables.

    Its `works` raise UsageError if the host has too little memory or too few file descriptors for the loads."""

    def checked(asked: ExperimentRequest, schema: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
        found = works(asked, schema, host)
        check_memory(found, asked, schema, host)
        _check_clients(found, host)
        if asked.memory_ratio is None:
            return found
        return tuple(replace(work, fixed=tuple(dict.fromkeys((*work.fixed, *POOL_OPTIONS)))) for work in found)

    def for_all(asked: ExperimentRequest, schema: Schema, host: HostCapacity) -> Mapping[str, str]:
        return settings(asked, schema, host, clients=max_simultaneous_clients(works(asked, schema, host)))

    return Experiment(
        figure="qps",
        works=checked,
        settings=for_all,
        schema=Schema(tables, rows=rows, database=DATABASE, foreign_keys=foreign_keys, more_row_bytes=ROW_BYTES),
        template="sysbench.sql.j2",
        programs=(SYSBENCH,),
        bases=bases,
        usual=usual,
    )


def max_simultaneous_clients(works: Iterable[VariantSpec]) -> int:
    """Returns the largest number of simultaneous clients of any load, pollers included."""
    loads = [work.task for work in works if isinstance(work.task, Load)]
    return max((load.threads + (load.poll.clients if load.poll else 0) for load in loads), default=0)


def _check_clients(works: Iterable[VariantSpec], host: HostCapacity) -> None:
    clients, most = max_simultaneous_clients(works), max_clients(host.open_files)
    if clients > most:
        raise UsageError(
            f"{clients:,} clients at once are more than the {host.open_files:,} files suffice for that a server may "
            f"open here (ulimit -n): {max(0, most):,}",
            "give fewer THREADS=, or fewer POLLERS= where these are the many",
        )


def powers_of_two(most: int) -> tuple[int, ...]:
    """Returns 1, 2, 4 … up to `most`."""
    found = [1]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return tuple(found)


def selected_parts(asked: ExperimentRequest, names: tuple[str, ...], none: str) -> tuple[str, ...]:
    """Returns the parts of an experiment that the user asked for, or all of them.

    Raises UsageError for an unknown part; `none` is the beginning of its message."""
    for name in asked.parts:
        if name not in names:
            raise UsageError(f"{none} '{name}'", f"there are: {', '.join(names)}")
    return asked.parts or names


@dataclass(frozen=True)
class SeparateDiskPart:
    """A part of an experiment that needs a separate disk, and is skipped on hosts that cannot provide one."""

    name: str
    why_not: Callable[[HostCapacity], str | None]

    def among(self, found: tuple[str, ...], *, asked: ExperimentRequest, host: HostCapacity) -> tuple[str, ...]:
        """Returns the parts that this host can run.

        Raises HostUnfitError if the user explicitly asked for the one that needs a disk and the host has none."""
        if self.name not in found or (why := self.why_not(host)) is None:
            return found
        if self.name in asked.parts:
            raise HostUnfitError(
                f"{self.name} needs a disk of its own, and none can be had here: {why}",
                f"root, loop devices, mkfs.ext4 and the step `{RootStep.MOUNT}` are needed; "
                "without them leave it out of QUESTION=",
            )
        return tuple(one for one in found if one != self.name)

    def left_out(self, asked: ExperimentRequest, host: HostCapacity) -> tuple[str, ...]:
        """Returns a note for the report if the part is skipped by default on this host."""
        why = None if asked.parts else self.why_not(host)
        if why is None:
            return ()
        return (f"{self.name} is left out: it needs a disk of its own, and none can be had here: {why}",)


# --- Reading the tables into the buffer pool

_CONNECTIONS = 4


def read_tables(bench: Bench, task: Load) -> None:
    """Reads the tables of a load once from end to end if they fit into the buffer pool.

    The load's warm-up reads only the rows it happens to ask for: a few clients do not get through the tables in a
    minute, and the load would then be measured against the device. Data larger than the pool is not read."""
    tables = sysbench_tables(bench.schema)[: task.tables]
    with bench.server.session() as connection:
        pool = scalar(connection, "SELECT @@innodb_buffer_pool_size")
    if not isinstance(pool, int) or _used_file_bytes(bench, task, tables) > pool:
        return
    bench.tell("reading the tables")
    statements = [statement for table in tables for statement in _read_statements(table, task.rows)]
    shares = [statements[number::_CONNECTIONS] for number in range(_CONNECTIONS)]
    with bench.server.watched(), ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="read") as threads:
        running = [threads.submit(_run_statements, bench, share) for share in shares]
        try:
            for one in running:
                one.result()
        except (pymysql.Error, OSError) as error:
            raise bench.server.failure(f"the tables cannot be read: {message_of(error)}") from error
        except BaseException:
            # On Ctrl-C the tool does not wait for running queries.
            bench.server.close()
            raise


def _run_statements(bench: Bench, statements: list[str]) -> None:
    with closing(bench.server.connect()) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            cursor.fetchall()


def _read_statements(table: str, rows: int) -> Iterator[str]:
    """Yields the statements that read all rows of a table and all entries of its secondary index."""
    index = f"k_{table.rpartition('sbtest')[2]}"
    yield f"SELECT SUM(LENGTH(pad)) FROM {table} FORCE INDEX (PRIMARY) WHERE id <= {rows}"  # noqa: S608 - our names
    yield f"SELECT SUM(k) FROM {table} FORCE INDEX ({index})"  # noqa: S608


def _used_file_bytes(bench: Bench, task: Load, tables: tuple[str, ...]) -> float:
    """Returns the file size of the rows that the load uses; their pages take less, because a file is never full."""
    files = (bench.datadir.mysql / f"{table.replace('.', '/')}.ibd" for table in tables)
    share = min(1.0, task.rows / max(1, bench.schema.rows))
    return share * sum(file.stat().st_size for file in files)


# --- Sampling a server under work: its counters each second, and its total resource usage

SAMPLES_FILE = "looks.csv.gz"
_SAMPLE_TIMEOUT_S = 30.0
"""Timeout of a sample's query: a server may be very busy with the work it was given."""


class TaskMonitor:
    """Samples the running server of a bench while the context is open.

    `measured` marks the interval that counts; it comes last, because nothing is sampled after it."""

    def __init__(self, bench: Bench) -> None:
        self._server = bench.server
        self._sampling = bench.sampling()
        self._began_s = 0.0
        self._looking = ExitStack()
        self.clients: list[Client] = []
        """Client programs of the server, including those that have ended."""
        self.usage = ResourceUsage()
        self.around: HostActivity | None = None
        self.seconds = 0.0
        """Length of the measured interval."""
        pid = self._server.life.pid
        self.sampler = Sampler(self._connect, pid, self._server.device, clients=self.cpu_of_clients)

    def cpu_of_clients(self) -> float:
        """Returns the CPU seconds that all clients have used so far."""
        return sum(client.cpu_s() or 0.0 for client in tuple(self.clients))

    @contextmanager
    def clients_at_work(self) -> Iterator[None]:
        """Turns a client's error into the server's failure if the server is gone, otherwise into TrialVoidError."""
        try:
            yield
        except (ServerFailedError, TrialVoidError, HostUnfitError):
            raise
        except RecoveryError as error:
            failure = self._server.failure(error.message)
            if self._server.alive:
                raise TrialVoidError(error.message, error.hint) from error
            raise failure from error

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measures the time, resource usage and background load of the block, and takes stacks in a run for stacks."""
        pid, device = self._server.life.pid, self._server.device
        clients_s = self.cpu_of_clients()
        self.sampler.begin()
        meter, surroundings = UsageMeter(pid, device, self._server.group), BackgroundLoadMeter(pid, device)
        self._began_s = time.monotonic()
        with self._sampling.of(pid) if self._sampling else ExitStack():
            yield
            self.seconds = time.monotonic() - self._began_s
            self.usage = meter.read()
            self.around = _without_clients(surroundings.read(), self.cpu_of_clients() - clients_s)
            # Before the stack sampler is stopped, which may take a while.
            self.sampler.end()

    def stacks(self, name: str) -> StackSamples | None:
        """Returns the stack traces of the measured interval, as one phase of this name; None if none were asked for.

        Call it before the server ends. Work of a hundredth of a second has no samples but counts nevertheless: then the
        result is empty, with a note."""
        if self._sampling is None:
            return None
        phases = (Phase(name, 0.0, self.seconds),)
        try:
            return self._sampling.seen(self._server.life.pid, since=self._began_s, phases=phases)
        except TrialVoidError as error:
            told = f"{error.message}, in {self.seconds:.3g} s of {name}"
            return StackSamples(self._sampling.program, 0, (), "", note=told)

    @property
    def raw(self) -> Path:
        """The file of all samples, next to the server's log."""
        return self._server.logdir / SAMPLES_FILE

    def _connect(self) -> Connection[Cursor]:
        return self._server.connect(timeout_s=_SAMPLE_TIMEOUT_S)

    def __enter__(self) -> Self:
        self.sampler.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sampler.__exit__(kind, error, trace)


def _without_clients(around: HostActivity, clients_s: float) -> HostActivity:
    """Subtracts the clients' CPU time from that of other processes: the host counts the clients among these, but for a
    reader they are part of the measurement."""
    others = around.others_cpu_s
    return around if others is None else replace(around, others_cpu_s=round(max(0.0, others - clients_s), 2))


# --- sysbench loads, with optional pollers

_LATENCIES = (
    "latency_mean_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_p999_ms", "latency_max_ms",
)  # fmt: skip
_READERS = frozenset({"oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges"})
_LOAD, _POLLS = "load", "polls"
_PROGRAM_NAMES = {_LOAD: "sysbench", _POLLS: "the poller"}
_PREPARING_S = 60.0
"""Timeout for preparing all statements; sysbench itself gives up after half of it."""
_POLLER_END_S, _POLLER_KILLED_END_S = 0.5, 5.0
"""Seconds that a poller gets to end after its load: by itself, and after its running query was killed."""


class _ConnectionArgs(TypedDict):
    program: Path
    socket: Path
    database: str


def run_load(bench: Bench, task: Load, watch: TaskMonitor) -> TaskResult:
    """Runs sysbench against the server, with its warm-up, and returns what it and its poller report.

    The measured interval is sysbench's own: from the end of the warm-up, where it resets its counters, until it ends. A
    poller starts with the first transactions; nobody waits for it at the end."""
    apart = split_cores(own_cores())
    if apart is not None and (refused := pin_process(bench.server.life.pid, apart.server)):
        bench.note(f"Server and clients share all CPUs: {refused}.")
        bench.cpus_shared = True
        apart = None
    clients = _Clients(bench, task, watch, cpus=apart.clients if apart else None)
    read_tables(bench, task)
    with watch.clients_at_work(), bench.server.watched(), clients:
        bench.tell("warming up" if task.warmup_s else "under load")
        client = clients.begun(_LOAD)
        _wait_for_output(client, sysbench.THREADS_STARTED, _PREPARING_S)
        poller = clients.begun(_POLLS) if _has_pollers(task) else None
        if task.warmup_s:
            _wait_for_output(client, sysbench.CHECKPOINT, task.warmup_s + GRACE_S)
            bench.tell("under load")
        with watch.measured():
            ended = client.wait(task.seconds)
            over_s = time.monotonic()
        polls, told = _stop_poller(poller, bench.server, task) if poller else (None, ())
        report = sysbench.parse_report(ended.text)
    return TaskResult(
        measures=dict(_load_metrics(report, polls)),
        clients=clients.told,
        queries=report.queries,
        commits=0 if task.script in _READERS else report.transactions,
        seen=tuple((look.at_s, look.qps) for look in report.looks),
        polled=polls.seen if polls else (),
        beside=None if task.poll is None else PollerCounters(task.poll.clients, over_s, told),
    )


def _has_pollers(task: Load) -> bool:
    return task.poll is not None and task.poll.clients > 0


def _wait_for_output(client: Client, words: str, timeout_s: float) -> None:
    """Waits until the client prints `words`; raises RecoveryError if it ends or hangs before."""
    if not client.has_said(words, timeout_s):
        client.wait(0)  # raises why it has failed, or hangs
        raise RecoveryError(
            f"{client.name} had ended before it was to be measured", "a script or an option of yours ends it"
        )


def _stop_poller(
    poller: Client, server: Server, task: Load
) -> tuple[polling.PollResult | None, tuple[CounterReport, ...]]:
    """Ends a poller after its load and returns its report and its own counts of the table cache.

    A query still running is killed: it may take minutes, and no longer has anything to do with the load."""
    if not poller.has_ended(_POLLER_END_S):
        with server.session() as connection:
            polling.kill_running_queries(connection)
    whole = poller.has_ended(_POLLER_KILLED_END_S)
    ended = poller.wait(0) if whole else poller.stop()
    return polling.parse_polls(ended.text, warmup_s=task.warmup_s, whole=whole), parse_counter_reports(ended.text)


class _Clients:
    """The client programs of a load and of its pollers; leaving the context ends them all."""

    def __init__(self, bench: Bench, task: Load, watch: TaskMonitor, *, cpus: frozenset[int] | None) -> None:
        self._watch = watch
        self._cpus = cpus
        self._begun = ExitStack()
        program, server, schema = bench.conditions.programs[SYSBENCH], bench.server, bench.schema
        where: _ConnectionArgs = {"program": program.path, "socket": server.socket, "database": schema.database}
        self._commands = {_LOAD: sysbench.sysbench_command(task, **where)}
        if task.poll is not None and _has_pollers(task):
            statements = polling.write_statements(task.poll, server.logdir)
            self._commands[_POLLS] = polling.poller_command(
                task.poll, task, statements=statements, tables=schema.tables, version=server.build.version, **where
            )
        self.told = {
            program.name: program.version,
            **{name: shlex.join(command) for name, command in self._commands.items()},
        }
        """Versions and commands of the programs, for the report."""

    def begun(self, name: str) -> Client:
        """Starts the program of this name and returns it."""
        client = self._begun.enter_context(Client(_PROGRAM_NAMES[name], self._commands[name], cpus=self._cpus))
        self._watch.clients.append(client)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._begun.__exit__(kind, error, trace)


def _load_metrics(report: sysbench.Report, polls: polling.PollResult | None) -> Iterator[tuple[str, float]]:
    yield "elapsed_s", report.seconds
    yield "qps", report.qps
    yield "tps", report.tps
    yield "client_errors", float(report.errors)
    for name in _LATENCIES:
        if (value := getattr(report, name)) is not None:
            yield name, value
    if polls is not None:
        yield "polls_per_s", polls.per_s
        if polls.mean_ms is not None:
            yield "poll_mean_ms", polls.mean_ms


# --- Single statements, dumps and table creation: one client over the server's socket

_ROWS_AT_ONCE = 1000
_DUMP_WAIT_S = 60.0


def run_statement(bench: Bench, task: StatementTask, watch: TaskMonitor) -> TaskResult:
    """Times one statement until its last row has arrived; connecting is not part of the time."""
    bench.tell("asking")
    rows = 0
    with bench.server.session() as connection, closing(connection.cursor(SSCursor)) as cursor, watch.measured():
        cursor.execute(task.statement)
        while fetched := cursor.fetchmany(_ROWS_AT_ONCE):
            rows += len(fetched)
    return TaskResult({"elapsed_s": watch.seconds, "rows": float(rows)}, {"statement": task.statement})


def run_dump(bench: Bench, task: DumpTask, watch: TaskMonitor) -> TaskResult:
    """Times a dump of all definitions without rows; its output is counted and discarded."""
    bench.tell("dumping")
    program = bench.conditions.programs[DUMP]
    command = [
        str(program.path), "--no-defaults", "--user=root", f"--socket={bench.server.socket}", "--no-data",
        *program.options, *task.options, "--databases", *bench.schema.database_names,
    ]  # fmt: skip
    with (
        watch.clients_at_work(),
        bench.server.watched(),
        watch.measured(),
        Client(program.name, command, only_count=True) as client,
    ):
        watch.clients.append(client)
        # A dump of a million tables takes an hour. `watched()` ends a server that hangs meanwhile.
        while not client.has_ended(_DUMP_WAIT_S):
            pass
        ended = client.wait(0)
    return TaskResult(
        {"elapsed_s": watch.seconds, "dump_bytes": float(ended.written_bytes)},
        {program.name: program.version, "dump": shlex.join(command)},
    )


def create_tables(bench: Bench, task: CreateTask, watch: TaskMonitor) -> TaskResult:
    """Times the creation of tables in a separate schema, which is dropped afterwards so that the next trial finds the
    same state."""
    bench.tell(f"making {task.tables:,} tables, one by one")
    with bench.server.session() as connection, connection.cursor() as cursor:
        cursor.execute(f"drop schema if exists {SCRATCH_SCHEMA}")
        cursor.execute(f"create schema {SCRATCH_SCHEMA}")
        with watch.measured():
            for number in range(1, task.tables + 1):
                cursor.execute(
                    f"create table {SCRATCH_SCHEMA}.table_{number} (id int primary key auto_increment, s1 varchar(32))"
                )
        bench.tell("dropping them")
        cursor.execute(f"drop schema {SCRATCH_SCHEMA}")
    per_s = task.tables / watch.seconds
    return TaskResult({"elapsed_s": watch.seconds, "tables_made": float(task.tables), "tables_per_s": per_s})


# --- One trial: start the server, run its task, stop it

TIMED_LOG = "timed.err"
_MAX_SAMPLE_DISTANCE_S = 0.5
_TASK_RUNNERS: dict[type, Callable[[Bench, Any, TaskMonitor], TaskResult]] = {
    Load: run_load,
    StatementTask: run_statement,
    DumpTask: run_dump,
    CreateTask: create_tables,
}


def measure(bench: Bench, variant: Variant) -> WorkMeasurement:
    """Starts the server, runs the task of the variant, stops the server, and returns the measurement.

    Every task gets a new server process, so that nothing is left in memory from another one."""
    task = variant.task
    assert task is not None, "this variant has nothing to do"
    bench.start(TIMED_LOG)
    cold = bench.make_tables_cold() if variant.cache is Cache.COLD else None
    with TaskMonitor(bench) as watch:
        done = _TASK_RUNNERS[type(task)](bench, task, watch)
    worked = _to_measurement(watch, done, watch.stacks(variant.name))
    bench.describe()
    bench.stop()
    return replace(worked, cold=cold)


def accept_finished(_: WorkMeasurement) -> tuple[Verdict, str | None]:
    """Accepts every finished measurement: work that failed has already raised an error."""
    return Verdict.MEASURED, None


def _to_measurement(watch: TaskMonitor, done: TaskResult, stacks: StackSamples | None) -> WorkMeasurement:
    looks, whole = watch.sampler.samples, watch.sampler.whole
    if done.beside is not None:
        looks = add_load_counters(looks, done.beside, began_s=watch.sampler.began_s)
    write_samples(watch.raw, looks)
    found = averages(looks, queries=done.queries if whole else 0, commits=done.commits if whole else 0)
    return WorkMeasurement(
        measures={**found, **_total_usage(watch, done), **done.measures},
        seconds=watch.seconds,
        usage=watch.usage,
        around=watch.around,
        clients=done.clients,
        watched=with_poll_rates(with_client_rates(sample_series(looks), done.seen), done.polled),
        waits=watch.sampler.waits,
        raw=watch.raw,
        samples=stacks,
    )


def _total_usage(watch: TaskMonitor, done: TaskResult) -> dict[str, float]:
    """Returns the total resource usage of a statement, a dump or a table creation; nothing for a load, where rates per
    second say more."""
    if done.queries:
        return {}
    usage = watch.usage
    found = {"read_bytes": usage.read_bytes, "read_requests": usage.read_requests, "server_cpu_s": usage.cpu_s}
    return {name: float(value) for name, value in found.items() if value is not None}


def with_client_rates(looks: LoadTimeline, seen: Sequence[tuple[float, float]]) -> LoadTimeline:
    """Adds the queries per second that the clients counted, each second at the nearest sample.

    A sample that is more than half a second away gets no value; a second without a sample near it is dropped."""
    if not seen:
        return looks
    found: dict[float, float] = {}
    for second, qps in seen:
        nearest = min(looks.at_s, key=lambda at_s: abs(at_s - second), default=None)
        if nearest is not None and abs(nearest - second) <= _MAX_SAMPLE_DISTANCE_S:
            found[nearest] = qps
    values = tuple(found.get(at_s) for at_s in looks.at_s)
    return replace(looks, series=(Series("qps", values), *looks.series))


def with_poll_rates(looks: LoadTimeline, polled: Sequence[tuple[float, float]]) -> LoadTimeline:
    """Adds the pollers' answers per second, averaged between each sample and the one before.

    No answers are lost where samples are far apart. There are no values before the poller's start and after its end."""
    found: dict[int, list[float]] = {}
    for second, per_s in polled:
        found.setdefault(bisect_left(looks.at_s, second - _MAX_SAMPLE_DISTANCE_S), []).append(per_s)
    values = tuple(fmean(found[number]) if number in found else None for number in range(len(looks.at_s)))
    told = any(value is not None for value in values)
    return replace(looks, series=(*looks.series, Series("polls_per_s", values))) if told else looks
