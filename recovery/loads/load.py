"""Gives a server a task and measures it: sysbench loads, single statements, dumps and table creation.

The server is sampled every second meanwhile."""

from __future__ import annotations

import shlex
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pymysql

from recovery.builds.packages import DUMP, SYSBENCH
from recovery.errors import HostUnfitError, RecoveryError, ServerFailedError, TrialVoidError
from recovery.experiments.bench import Bench
from recovery.experiments.experiment import (
    STANDARD,
    TIMED_LOG,
    Experiment,
    HostCapacity,
    Pairs,
    Sizes,
    VariantPlanner,
    accept,
)
from recovery.linux.cgroups import UsageMeter
from recovery.linux.procfs import pin_process, reserved_cpus
from recovery.loads import poller as polling
from recovery.loads import sysbench
from recovery.loads.load_plan import (
    CHARSET,
    DATABASE,
    LoadOptions,
    check_clients,
    check_memory,
    load_settings,
    max_simultaneous_clients,
    with_charsets,
)
from recovery.loads.poller import CounterReport, PollerCounters, add_load_counters, parse_counter_reports
from recovery.loads.status_rates import averages, sample_series
from recovery.loads.status_sampler import Sampler, write_samples
from recovery.loads.sysbench import GRACE_S, Client
from recovery.loads.tasks import ROW_BYTES, CreateTask, DumpTask, Load, StatementTask
from recovery.model import (
    DEFAULT_CHARSET,
    Cache,
    ColdProof,
    HostActivity,
    LoadRecord,
    Measurement,
    Phase,
    Schema,
    StackSamples,
    Timeline,
    Variant,
    VariantSpec,
    with_read_rate,
)
from recovery.mysqld.client import message_of, run_to_last_row, scalar
from recovery.mysqld.options import POOL_OPTIONS
from recovery.mysqld.server import Server
from recovery.mysqld.startup_sampler import BackgroundLoadMeter
from recovery.workload.schema import sysbench_tables

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
    bench.on_step("reading the tables")
    statements = [statement for table in tables for statement in _read_statements(table, task.rows)]
    shares = [statements[number::_CONNECTIONS] for number in range(_CONNECTIONS)]
    with bench.server.watched(), ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="read") as threads:
        running = [threads.submit(_run_statements, bench, share) for share in shares]
        try:
            for reading in running:
                reading.result()
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


# --- One task: its result, and the samples of the server meanwhile

SAMPLES_FILE = "samples.csv.gz"
_SAMPLE_TIMEOUT_S = 30.0
"""Timeout of a sample's query: a server may be very busy with the work it was given."""


@dataclass(frozen=True)
class TaskResult:
    """Result of one task as its clients report it, without the samples of the server."""

    metrics: Mapping[str, float]
    clients: Mapping[str, str]
    """Versions and commands of the client programs."""
    queries: int = 0
    """Number of queries answered to the clients of the load in the measured interval."""
    commits: int = 0
    """Number of commits of writing transactions."""
    client_rates: tuple[tuple[float, float], ...] = ()
    """Queries per second as counted by the clients, each with the end of its second since the end of the warm-up."""
    polled: tuple[tuple[float, float], ...] = ()
    """Answers per second to the pollers in the same format, from the start of the warm-up to the end of the load."""
    poller_counters: PollerCounters | None = None
    """The pollers that ran during the load; None if polling is not part of the experiment."""


class TaskMonitor:
    """Monitors the running server of a bench during a task.

    Its `sampler` runs during the whole task; `measured()` marks the interval that counts, and ends the sampling."""

    def __init__(self, bench: Bench) -> None:
        self._server = bench.server
        self._sampling = bench.stack_sampler()
        self._began_s = 0.0
        self.clients: list[Client] = []
        """Client programs of the server, including those that have ended."""
        self.usage: dict[str, float] = {}
        """Metrics by name: what the server and its storage did."""
        self.host_activity: HostActivity | None = None
        self.seconds = 0.0
        """Length of the measured interval."""
        connect = partial(self._server.connect, timeout_s=_SAMPLE_TIMEOUT_S)
        self.sampler = Sampler(connect, self._server.process.pid, self._server.device, clients=self.cpu_of_clients)

    def cpu_of_clients(self) -> float:
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
        pid, device = self._server.process.pid, self._server.device
        clients_s = self.cpu_of_clients()
        with self._sampling.of(pid) if self._sampling else ExitStack():
            if self._sampling:
                self._sampling.wait_until_attached()
            self.sampler.begin()
            meter, surroundings = UsageMeter(pid, device, self._server.group), BackgroundLoadMeter(pid, device)
            self._began_s = time.monotonic()
            yield
            self.seconds = time.monotonic() - self._began_s
            self.usage = meter.read()
            self.usage.pop("cache_grown_bytes", None)  # others may have filled the cache during a load
            self.host_activity = _without_clients(surroundings.read(), self.cpu_of_clients() - clients_s)
            # Before the stack sampler is stopped, which may take a while.
            self.sampler.end()

    @contextmanager
    def client(
        self, name: str, command: list[str], *, cpus: frozenset[int] | None = None, only_count: bool = False
    ) -> Iterator[Client]:
        with Client(name, command, cpus=cpus, only_count=only_count) as client:
            self.clients.append(client)
            yield client

    def stacks(self, name: str, note: Callable[[str], None]) -> StackSamples:
        """Returns the stack traces of the measured interval, as one phase of this name, if any were asked for.

        Call it before the server ends. Work of a hundredth of a second has no samples but counts nevertheless: then the
        result is empty, with a note."""
        if self._sampling is None:
            return StackSamples()
        phases = (Phase(name, 0.0, self.seconds),)
        try:
            return self._sampling.samples(self._server.process.pid, since=self._began_s, phases=phases, note=note)
        except TrialVoidError as error:
            note(f"{error.message}, in {self.seconds:.3g} s of {name}")
            return StackSamples(self._sampling.program, 0)

    @property
    def raw(self) -> Path:
        return self._server.logdir / SAMPLES_FILE


def _without_clients(activity: HostActivity, clients_s: float) -> HostActivity:
    """Subtracts the clients' CPU time from that of other processes: the host counts the clients among these, but for a
    reader they are part of the measurement."""
    others = activity.others_cpu_s
    return activity if others is None else replace(activity, others_cpu_s=round(max(0.0, others - clients_s), 2))


# --- sysbench loads, with optional pollers

_LATENCIES = (
    "latency_mean_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_p999_ms", "latency_max_ms",
)  # fmt: skip
_READERS = frozenset({"oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges"})
_LOAD, _POLLS = "load", "polls"
_PREPARING_S = 60.0
"""Timeout for preparing all statements; sysbench itself gives up after half of it."""
_POLLER_END_S, _POLLER_KILLED_END_S = 0.5, 5.0
"""Seconds that a poller gets to end after its load: by itself, and after its running query was killed."""


def run_load(bench: Bench, task: Load, watch: TaskMonitor) -> TaskResult:
    """Runs sysbench against the server, with its warm-up, and returns what it and its poller report.

    The measured interval is sysbench's own: from the end of the warm-up, where it resets its counters, until it ends. A
    poller starts with the first transactions; its last query is killed after the load."""
    cpus = _pin_apart(bench)
    commands = _client_commands(bench, task)
    read_tables(bench, task)
    with watch.clients_at_work(), bench.server.watched(), ExitStack() as clients:
        bench.on_step("warming up" if task.warmup_s else "under load")
        load = clients.enter_context(watch.client("sysbench", commands[_LOAD], cpus=cpus))
        _wait_for_output(load, sysbench.THREADS_STARTED, _PREPARING_S)
        poller = None
        if _POLLS in commands:
            poller = clients.enter_context(watch.client("the poller", commands[_POLLS], cpus=cpus))
        if task.warmup_s:
            _wait_for_output(load, sysbench.CHECKPOINT, task.warmup_s + GRACE_S)
            bench.on_step("under load")
        with watch.measured():
            ended = load.wait(task.seconds)
            over_s = time.monotonic()
        polls, counters = _stop_poller(poller, bench.server, task) if poller else (None, ())
        report = sysbench.parse_report(ended.text)
    program = bench.conditions.programs[SYSBENCH]
    return TaskResult(
        metrics=dict(_load_metrics(report, polls)),
        clients={program.name: program.version} | {name: shlex.join(command) for name, command in commands.items()},
        queries=report.queries,
        commits=0 if task.script in _READERS else report.transactions,
        client_rates=tuple((interval.at_s, interval.qps) for interval in report.intervals),
        polled=polls.rates if polls else (),
        poller_counters=None if task.poll is None else PollerCounters(task.poll.clients, over_s, counters),
    )


def _pin_apart(bench: Bench) -> frozenset[int] | None:
    """Pins the server to some of the CPUs and returns those of the clients; None if they share all CPUs."""
    group = bench.server.group
    apart = reserved_cpus(group.limits.cpu_set if group else None)
    if apart is not None and (refused := pin_process(bench.server.process.pid, apart.server)):
        bench.add_note(f"Server and clients share all CPUs: {refused}.")
        bench.cpus_shared = True
        return None
    return apart.clients if apart else None


def _client_commands(bench: Bench, task: Load) -> dict[str, list[str]]:
    server, schema, program = bench.server, bench.schema, bench.conditions.programs[SYSBENCH].path
    commands = {_LOAD: sysbench.sysbench_command(task, program=program, socket=server.socket, database=schema.database)}
    if task.poll is not None and task.poll.clients:
        commands[_POLLS] = polling.poller_command(
            task.poll,
            task,
            program=program,
            statements=polling.write_statements(task.poll, server.logdir),
            socket=server.socket,
            database=schema.database,
            tables=schema.tables,
            version=server.build.version,
        )
    return commands


def _wait_for_output(client: Client, words: str, timeout_s: float) -> None:
    """Waits until the client prints `words`; raises RecoveryError if it ends or hangs before."""
    if not client.has_said(words, timeout_s):
        client.wait(0)  # raises why it has failed, or hangs
        raise RecoveryError(f"{client.name} ended before the measurement", "check your script and your options")


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

_DUMP_WAIT_S = 60.0


def run_statement(bench: Bench, task: StatementTask, watch: TaskMonitor) -> TaskResult:
    """Times one statement until its last row has arrived; connecting is not part of the time."""
    bench.on_step("running the statement")
    with bench.server.session() as connection, watch.measured():
        rows = run_to_last_row(connection, task.statement)
    return TaskResult({"elapsed_s": watch.seconds, "rows": float(rows)}, {"statement": task.statement})


def run_dump(bench: Bench, task: DumpTask, watch: TaskMonitor) -> TaskResult:
    """Times a dump of the definitions without rows; its output is counted and discarded."""
    bench.on_step("dumping")
    program = bench.conditions.programs[DUMP]
    command = [
        str(program.path), "--no-defaults", "--user=root", f"--socket={bench.server.socket}", "--no-data",
        *program.options, *task.options, "--databases", *bench.schema.database_names[: task.schemas],
    ]  # fmt: skip
    with (
        watch.clients_at_work(),
        bench.server.watched(),
        watch.measured(),
        watch.client(program.name, command, only_count=True) as client,
    ):
        # A dump of a million tables takes an hour. `watched()` ends a server that hangs meanwhile.
        while not client.has_ended(_DUMP_WAIT_S):
            pass
        ended = client.wait(0)
    return TaskResult(
        {"elapsed_s": watch.seconds, "dump_bytes": float(ended.written_bytes)},
        {program.name: program.version, "dump": shlex.join(command)},
    )


_CREATED_SCHEMA = "published_build"


def create_tables(bench: Bench, task: CreateTask, watch: TaskMonitor) -> TaskResult:
    """Times the creation of tables in a separate schema, which is dropped afterwards so that the next trial finds the
    same state."""
    bench.on_step(f"creating {task.tables:,} tables, one by one")
    with bench.contents.temporary_schema(_CREATED_SCHEMA):
        with bench.server.session() as connection, connection.cursor() as cursor, watch.measured():
            for number in range(1, task.tables + 1):
                cursor.execute(
                    f"create table {_CREATED_SCHEMA}.table_{number} (id int primary key auto_increment, s1 varchar(32))"
                )
        bench.on_step("dropping the tables")
    per_s = task.tables / watch.seconds
    return TaskResult({"elapsed_s": watch.seconds, "tables_made": float(task.tables), "tables_per_s": per_s}, {})


# --- One trial: start the server, run its task, stop it

_MAX_SAMPLE_DISTANCE_S = 0.5
_TASK_RUNNERS: dict[type, Callable[[Bench, Any, TaskMonitor], TaskResult]] = {
    Load: run_load,
    StatementTask: run_statement,
    DumpTask: run_dump,
    CreateTask: create_tables,
}


def measure(bench: Bench, variant: Variant) -> Measurement:
    """Starts the server, runs the task of the variant, stops the server, and returns the measurement.

    Every task gets a new server process, so that nothing is left in memory from another one."""
    task = variant.task
    assert task is not None, "this variant has nothing to do"
    bench.start(TIMED_LOG)
    cold = bench.cache.make_tables_cold() if variant.cache is Cache.COLD else ColdProof()
    watch = TaskMonitor(bench)
    with watch.sampler:
        done = _TASK_RUNNERS[type(task)](bench, task, watch)
    stacks = watch.stacks(variant.name, bench.run_notes.append)
    measured = _evaluate(watch, done)
    bench.describe()
    bench.stop()
    return replace(measured, metrics=measured.metrics | bench.metrics, cold=cold, stacks=stacks)


def _evaluate(watch: TaskMonitor, done: TaskResult) -> Measurement:
    samples, whole = watch.sampler.samples, watch.sampler.whole
    if done.poller_counters is not None:
        samples = add_load_counters(samples, done.poller_counters, began_s=watch.sampler.began_s)
    write_samples(watch.raw, samples)
    load_s = done.metrics["elapsed_s"]
    rates = averages(samples, queries=done.queries if whole else 0, commits=done.commits if whole else 0, load_s=load_s)
    # Clients count from the end of the warm-up, the sampler from when this tool saw it.
    late_s = max(0.0, load_s - watch.seconds)
    counted = (done.client_rates, done.polled)
    client_rates, polled = ([(at_s - late_s, rate) for at_s, rate in rates] for rates in counted)
    return Measurement(
        metrics={
            **rates, **_total_usage(watch, done), **done.metrics, **with_read_rate(watch.usage, watch.seconds),
        },
        load=LoadRecord(clients=dict(done.clients), waits=watch.sampler.waits, raw=str(watch.raw)),
        host_activity=watch.host_activity,
        timeline=with_poll_rates(with_client_rates(sample_series(samples), client_rates), polled),
    )  # fmt: skip


def _total_usage(watch: TaskMonitor, done: TaskResult) -> dict[str, float]:
    """Returns the total CPU time of a statement, a dump or a table creation; nothing for a load, where rates per
    second say more."""
    if done.queries:
        return {}
    return {} if "cpu_s" not in watch.usage else {"server_cpu_s": watch.usage["cpu_s"]}


def with_client_rates(timeline: Timeline, client_rates: Sequence[tuple[float, float]]) -> Timeline:
    """Adds the queries per second that the clients counted, each second at the nearest sample.

    A sample that is more than half a second away gets no value; a second without a sample near it is dropped."""
    if not client_rates:
        return timeline
    rates: dict[float, float] = {}
    for second, qps in client_rates:
        nearest = min(timeline.at_s, key=lambda at_s: abs(at_s - second), default=None)
        if nearest is not None and abs(nearest - second) <= _MAX_SAMPLE_DISTANCE_S:
            rates[nearest] = qps
    values = tuple(rates.get(at_s) for at_s in timeline.at_s)
    return replace(timeline, columns={"qps": values, **timeline.columns})


def with_poll_rates(timeline: Timeline, polled: Sequence[tuple[float, float]]) -> Timeline:
    """Adds the pollers' answers per second, averaged between each sample and the one before.

    No answers are lost where samples are far apart. There are no values before the poller's start and after its end."""
    rates: dict[int, list[float]] = {}
    for second, per_s in polled:
        rates.setdefault(bisect_left(timeline.at_s, second - _MAX_SAMPLE_DISTANCE_S), []).append(per_s)
    values = tuple(fmean(rates[number]) if number in rates else None for number in range(len(timeline.at_s)))
    if all(value is None for value in values):
        return timeline
    return replace(timeline, columns={**timeline.columns, "polls_per_s": values})


# --- Experiments


@dataclass(frozen=True)
class LoadExperiment:
    """What an experiment that compares queries per second over sysbench tables consists of."""

    name: str
    question: str
    title: str
    plan: VariantPlanner
    tables: int
    rows: int
    """Number of rows of each table."""
    bases: Mapping[str, str]
    defaults: Mapping[str, str]
    sizes: Sizes
    options: type[LoadOptions] = LoadOptions
    foreign_keys: int = 0
    names: tuple[str, ...] = ()
    server_options: Pairs = ()
    """Options of the server for all variants, which take precedence over those that are computed for the loads."""

    def as_experiment(self) -> Experiment:
        return Experiment(
            self.name,
            self.question,
            self.title,
            measure,
            accept,
            self._variant_specs,
            metric="qps",
            options=self.options,
            settings=self._settings,
            schema=Schema(
                self.tables,
                rows=self.rows,
                database=DATABASE,
                foreign_keys=self.foreign_keys,
                more_row_bytes=ROW_BYTES,
            ),
            template="sysbench.sql.j2",
            programs=(SYSBENCH,),
            names=self.names,
            runs=3,
            inserts=0,
            bases={**self.bases, CHARSET: DEFAULT_CHARSET},
            sizes=self.sizes,
            scale=STANDARD,
            defaults=self.defaults,
        )

    def _variant_specs(self, requested: LoadOptions, schema: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
        """Returns the variants. Raises UsageError if the host has too little memory or too few file descriptors for
        the loads."""
        variants = self.plan(requested, schema, host)
        if requested.charset:
            variants = with_charsets(variants, requested.charset)
        check_memory(variants, requested, schema, host)
        check_clients(variants, host)
        if requested.memory_ratio is None:
            return variants
        return tuple(
            replace(variant, fixed=tuple(dict.fromkeys((*variant.fixed, *POOL_OPTIONS)))) for variant in variants
        )

    def _settings(self, requested: LoadOptions, schema: Schema, host: HostCapacity) -> Mapping[str, str]:
        clients = max_simultaneous_clients(self.plan(requested, schema, host))
        return {**load_settings(requested, schema, host, clients=clients), **dict(self.server_options)}
