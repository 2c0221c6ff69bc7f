"""Data types of scenarios: what the user asked for, what an experiment consists of, and what a trial returns.

A scenario is a value: a question, the cache states it compares, a function that measures, and one that judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recovery.experiments.bench import Bench
from recovery.model import (
    STARTUP_METRIC,
    Cache,
    ColdProof,
    HostActivity,
    LoadTimeline,
    OpenedFiles,
    ResourceUsage,
    Schema,
    StackSamples,
    Startup,
    ThreadWait,
    Variant,
    VariantSpec,
    Verdict,
    WarmProof,
)
from recovery.mysqld.launcher import open_files_limit
from recovery.mysqld.options import DEFAULT_CACHE_INSTANCES
from recovery.workload.poller import PollerCounters

# --- Experiments: servers that are given work

_NOT_TRIED = "it was not tried"


@dataclass(frozen=True)
class ExperimentRequest:
    """What the user asked of an experiment; where a field is None or empty, the experiment uses its default."""

    seconds: int = 60
    """Measured time of each load, after the warm-up."""
    warmup_s: int = 10
    threads: tuple[int, ...] = ()
    workloads: tuple[str, ...] = ()
    """Names of sysbench's scripts, or paths of the user's own scripts."""
    parts: tuple[str, ...] = ()
    """The parts of the experiment to run (QUESTION=)."""
    load_tables: tuple[int, ...] = ()
    """Numbers of tables that the loads use."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Server options, each with the values to measure at."""
    queries: tuple[tuple[str, str], ...] = ()
    """The user's own statements, as pairs of name and statement."""
    pollers: int = 1
    every_s: float = 0.0
    """Pause of a poller between an answer and its next query."""
    memory_ratio: float | None = None
    """Size of the data divided by the size of the buffer pool."""
    published_build: int | None = None
    """Number of tables to create additionally in the published way; None skips this."""
    seed: int = 1
    """Seed of all random choices."""
    depth: int = 3
    """Largest number of kills during the recoveries of one run."""
    only: int | None = None
    """Number of the only run to do in each cell; None is all."""
    server_cpus: str | None = None
    """CPUs reserved for the server, as a list such as `0-2,4-6`; None if it shares all with the clients."""
    client_cpus: str | None = None
    """CPUs reserved for the clients, in the same format."""


@dataclass(frozen=True)
class HostCapacity:
    """Resources of the host that an experiment is scaled to."""

    cpus: int
    memory_bytes: int
    open_files: int = field(default_factory=open_files_limit)
    """Number of files that a server may have open (ulimit -n)."""
    no_disk: Callable[[], str | None] = lambda: _NOT_TRIED
    """Returns why no separate disk can be made for a server, or None if it can. The call tries it."""
    no_power_cut: Callable[[], str | None] = lambda: _NOT_TRIED
    """Returns why no separate disk that can lose its power is possible, or None if it is."""
    instances: tuple[int, ...] = (DEFAULT_CACHE_INSTANCES,)
    """Numbers of table cache instances of the servers; each server divides its entries among them."""


@dataclass(frozen=True)
class Experiment:
    """What a scenario that gives a server work consists of: the works, their tables, options and programs."""

    figure: str
    """Name of the main metric, a key of `model.QUANTITIES`."""
    works: Callable[[ExperimentRequest, Schema, HostCapacity], tuple[VariantSpec, ...]]
    settings: Callable[[ExperimentRequest, Schema, HostCapacity], Mapping[str, str]]
    """Server options for all works; options of the user take precedence."""
    schema: Schema
    """Schema that is built unless the user asks for another."""
    template: str | None = None
    """Name of the template that creates the schema; None is the default one for the layout."""
    programs: tuple[str, ...] = ()
    """Names of client programs that must be available."""
    names: tuple[str, ...] = ()
    """Names of the built-in queries, which queries of the user must not have."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """Baseline value of each axis, with which the others are compared."""
    runs: int = 3
    seconds: int = 60
    inserts: int = 0
    """Number of rows in the insert script."""
    unasked: Callable[[ExperimentRequest, HostCapacity], tuple[str, ...]] = lambda _, __: ()
    """Returns a note for each part that this host cannot run, with the reason."""
    usual: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of defaults by option, for the help text; only of defaults that are in no field of this class."""


# --- Raw results of a trial


@dataclass(frozen=True)
class StartMeasurement:
    """Result of a timed start: its measurement, the state it began from, and the contents of the server afterwards."""

    startup: Startup
    previous_exit: str
    """How the server process before the timed one ended."""
    cold: ColdProof | None
    cold_means: str | None
    """How the cache was emptied; None if it was not."""
    warm: WarmProof | None
    tables_expected: int
    tables_found: int
    rows_expected: int
    rows_found: int
    rows_lost: int
    """Sum of the rows lost in each table: surplus rows of one table do not offset losses of another."""
    touched: OpenedFiles | None = None
    samples: StackSamples | None = None


@dataclass(frozen=True)
class WorkMeasurement:
    """Result of a server that was given work."""

    measures: Mapping[str, float]
    """Metrics by name, as in `model.QUANTITIES`."""
    seconds: float
    """Length of the measured interval."""
    usage: ResourceUsage
    around: HostActivity | None
    clients: Mapping[str, str]
    """Versions and commands of the client programs."""
    cold: ColdProof | None = None
    """How the cache was emptied before the work; None if it was not."""
    watched: LoadTimeline | None = None
    raw: Path | None = None
    """File of all samples, which is kept with the results."""
    waits: tuple[ThreadWait, ...] = ()
    samples: StackSamples | None = None
    startup: Startup | None = None
    """Start after a crash; None if there was none or it failed."""
    broken: tuple[str, ...] = ()
    """Descriptions of broken promises."""
    may_be_clean: bool = False
    """Whether the server may have had nothing to recover."""
    told: Mapping[str, str] = field(default_factory=dict)
    """Observations of the server in words, by what was checked."""


Judgement = tuple[Verdict, str | None]
"""The verdict on a trial, and the reason if its metrics do not count."""


@dataclass(frozen=True)
class Scenario:
    """A question that users can ask by name, with the functions that measure and judge its trials."""

    name: str
    question: str
    title: str
    caches: tuple[Cache, ...]
    measure: Callable[[Bench, Variant], StartMeasurement | WorkMeasurement]
    judge: Callable[[Any], Judgement]
    """Judges the result of `measure`."""
    experiment: Experiment | None = None
    """The work that the server is given; None if its starts are timed."""

    @property
    def figure(self) -> str:
        """Name of the main metric."""
        return STARTUP_METRIC if self.experiment is None else self.experiment.figure

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of client programs that must be available."""
        return () if self.experiment is None else self.experiment.programs


def judge_contents(outcome: StartMeasurement) -> Judgement:
    """Returns FAILED if the server has lost tables or acknowledged rows, VOID if it has more rows than expected."""
    if outcome.tables_found != outcome.tables_expected:
        return Verdict.FAILED, f"{outcome.tables_found} tables after the start, {outcome.tables_expected} before"
    if outcome.rows_lost:
        return Verdict.FAILED, f"{outcome.rows_lost} of {outcome.rows_expected} acknowledged rows are lost"
    if outcome.rows_found > outcome.rows_expected:
        extra = outcome.rows_found - outcome.rows_expected
        return Verdict.VOID, f"{extra} rows more than were acknowledged: something else wrote to this server"
    return Verdict.MEASURED, None


@dataclass(frozen=True)
class TaskResult:
    """Result of one task as its clients report it, without the samples of the server."""

    measures: Mapping[str, float]
    clients: Mapping[str, str] = field(default_factory=dict)
    """Versions and commands of the client programs."""
    queries: int = 0
    """Number of queries answered to the clients of the load in the measured interval."""
    commits: int = 0
    """Number of commits of writing transactions."""
    seen: tuple[tuple[float, float], ...] = ()
    """Queries per second as counted by the clients, each with the end of its second since the start of the interval."""
    polled: tuple[tuple[float, float], ...] = ()
    """Answers per second to the pollers in the same format, from the start of the warm-up to the end of the load."""
    beside: PollerCounters | None = None
    """The pollers that ran during the load; None if polling is not part of the experiment."""
