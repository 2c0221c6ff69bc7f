"""Data types of experiments: what the user asked for, what an experiment consists of, and what a trial returns.

An experiment is a value: a question, the cache states it compares, a function that measures, and one that judges."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recovery.errors import UsageError
from recovery.model import (
    DEFAULT_TABLES,
    STARTUP_METRIC,
    Cache,
    Measurement,
    Schema,
    Variant,
    VariantSpec,
    Verdict,
    startup_specs,
)
from recovery.mysqld.launcher import open_files_limit
from recovery.phase_table import has_hidden_phases

if TYPE_CHECKING:
    from recovery.experiments.bench import Bench

# --- Options of experiments, and their variants

_NOT_TRIED = "it was not tried"


OptionValues = tuple[tuple[str, tuple[str, ...]], ...]
NamedStatements = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ExperimentOptions:
    """What the user asked of an experiment. Each experiment has a class with the options that only it has; where a
    field is None or empty, the experiment uses its default."""

    parts: tuple[str, ...] = ()
    """The parts of the experiment to run (QUESTION=)."""
    options: OptionValues = ()
    """Server options, each with the values to measure at (OPTION=)."""
    seed: int | None = None
    """Seed of all random choices: of the order of the trials within a block, and those of an experiment. A session
    that begins without one gets a random one."""

    @property
    def first_run(self) -> int:
        """Returns the number of the first run of each cell, on which random choices depend."""
        return 1

    @property
    def load_before_kill_s(self) -> float:
        """Returns how long a load of the tool's own runs before each kill."""
        return 0.0

    def setting_of(self, server_option: str) -> str | None:  # noqa: ARG002 - for classes with such an option
        """Returns which of these options sets the server option, in words; None if none does."""
        return None


@dataclass(frozen=True)
class StartOptions(ExperimentOptions):
    """The options of experiments that time starts."""

    before_start: tuple[str, ...] = ()
    """The words of a command to run before each timed start."""
    first_queries: str | NamedStatements = ()
    """Queries to time after each start; `default` for the tool's own."""
    max_startup: float | None = None
    """Seconds that no start may exceed."""


LOAD = "load"
"""The value of BEFORE_KILL for a load of the tool's own."""
LOAD_S = 30.0


@dataclass(frozen=True)
class OwnDataOptions(StartOptions):
    """The options of starts over a data directory of the user's own, too."""

    datadir: Path | None = None
    """The directory; a copy of it is measured."""
    before_kill: tuple[str, ...] = ()
    """The words of a command to run before each kill, or `load`."""

    @property
    def load_before_kill_s(self) -> float:
        return LOAD_S if self.before_kill == (LOAD,) else 0.0

    as_is: bool | None = None
    """True: time the recovery that is ahead of it."""
    predicted: float | None = None
    """Seconds that were predicted for this recovery."""


@dataclass(frozen=True)
class QueryOptions(ExperimentOptions):
    """The options of experiments that execute queries."""

    queries: NamedStatements = ()
    """The user's own."""


@dataclass(frozen=True)
class HostCapacity:
    """Resources of the host that an experiment is scaled to."""

    cpus: int
    memory_bytes: int
    open_files: int = field(default_factory=open_files_limit)
    """Number of files that a server may have open (OPEN_FILES=)."""
    no_disk: Callable[[], str | None] = lambda: _NOT_TRIED
    """Returns why no separate disk can be made for a server, or None if it can. The call tries it."""
    no_power_cut: Callable[[], str | None] = lambda: _NOT_TRIED
    """Returns why no separate disk that can lose its power is possible, or None if it is."""


VariantPlanner = Callable[[Any, Schema, HostCapacity], tuple[VariantSpec, ...]]
"""Takes the experiment's own options."""
Pairs = tuple[tuple[str, str], ...]
MAX_COMBINATIONS = 10_000
"""A week, at a minute each."""


def option_combinations(requested: ExperimentOptions, defaults: OptionValues) -> tuple[Pairs, ...]:
    """Returns every combination of the options' values. Values that the user gives replace the default ones."""
    options = dict(defaults) | dict(requested.options)
    check_combination_count(math.prod(map(len, options.values())))
    return tuple(tuple(zip(options, values, strict=True)) for values in product(*options.values()))


def check_combination_count(count: int) -> None:
    if count > MAX_COMBINATIONS:
        raise UsageError(
            f"these are more than {MAX_COMBINATIONS:,} combinations, and each would be measured",
            "give fewer values of --option, --workload, --load-tables or --threads",
        )


def selected_parts(requested: ExperimentOptions, names: tuple[str, ...], experiment: str) -> tuple[str, ...]:
    """Returns the parts of this experiment that the user asked for, or all; raises UsageError for an unknown one."""
    for name in requested.parts:
        if name not in names:
            raise UsageError(
                f"{name}: {experiment} has no such question", f"there are: {', '.join(names)}", option="question"
            )
    return requested.parts or names


# --- Judgements

TIMED_LOG = "timed.err"
"""Log of a timed start. Logs of timed starts begin with `timed`, so that the newest of them is kept with the run."""


Judgement = tuple[Verdict, str | None]
"""The verdict on a trial, and the reason if its metrics do not count."""


QUICK, STANDARD, PUBLISHED = "quick", "standard", "published"
"""Values of SCALE."""
Sizes = Mapping[str, Mapping[str, object]]
"""By the value of SCALE: values of options, by the names of their parameters. A size that is missing is the published
one; `{clients}` is the largest number of clients on this host."""


THREADS_PER_CPU = 4
_MAX_CLIENTS = 64


def default_clients(cpus: int) -> int:
    """Returns the largest number of clients to measure with on this host by default, a power of two."""
    return 1 << (min(_MAX_CLIENTS, THREADS_PER_CPU * cpus).bit_length() - 1)


@dataclass(frozen=True)
class Experiment:
    """A question that users can ask by name: what is planned for it, and how a trial is measured and judged."""

    name: str
    question: str
    title: str
    measure: Callable[[Bench, Variant], Measurement]
    judge: Callable[[Measurement], Judgement]
    variant_specs: VariantPlanner
    metric: str = STARTUP_METRIC
    """Name of the main metric, a key of `METRICS`."""
    options: type[ExperimentOptions] = ExperimentOptions
    """Class of the options that only some experiments have."""
    settings: Callable[[Any, Schema, HostCapacity], Mapping[str, str]] = lambda *_: {}
    """Server options for all variants; options of the user take precedence."""
    schema: Schema = field(default_factory=lambda: Schema(DEFAULT_TABLES))
    """Schema of the published scale, built unless the user asks for another; `runs` is its, too."""
    points: tuple[int, ...] = ()
    """Numbers of tables to measure at, unless the user gives others. Empty: only the number of the schema."""
    runs: int = 5
    inserts: int = 100
    """Number of rows in the insert script."""
    template: str | None = None
    """Name of the template that creates the schema; None is the user's, or the default one for the layout."""
    programs: tuple[str, ...] = ()
    """Names of client programs that must be available."""
    names: tuple[str, ...] = ()
    """Names of the built-in queries, which queries of the user must not have."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """Baseline value of each axis, with which the others are compared."""
    sizes: Sizes = field(default_factory=dict)
    scale: str | None = None
    """The scale that is used without SCALE. None: the published one."""
    unavailable: Callable[[Any, HostCapacity], tuple[str, ...]] = lambda *_: ()
    """Returns a note for each part that this host cannot run, with the reason."""
    stall_s: float | None = None
    """The default of STALL=, if it is not that of a server that is to start."""
    unprobed: str = ""
    """A note for a session without a measured or limited speed of the storage: what it cannot be used for."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of defaults by option, for the help text; only of defaults that are in no field of this class."""
    how: str = ""
    """A sentence for the help text about the way it measures."""


_SIZES_OF_STARTS: Sizes = {QUICK: {"tables": 1000, "runs": 1}, STANDARD: {"tables": 20_000, "runs": 3}}


def start_experiment(
    name: str,
    question: str,
    title: str,
    caches: tuple[Cache, ...],
    measure: Callable[[Bench, Variant], Measurement],
    judge: Callable[[Measurement], Judgement],
    *,
    options: type[StartOptions] = OwnDataOptions,
    sizes: Sizes = _SIZES_OF_STARTS,
    points: tuple[int, ...] = (),
) -> Experiment:
    specs = startup_specs(caches)
    how = f"Measured with {' and '.join(f'a {cache}' for cache in caches)} cache. "
    return Experiment(
        name,
        question,
        title,
        measure,
        judge,
        lambda *_: specs,
        options=options,
        points=points,
        sizes=sizes,
        how=how,
    )


def judge_recovery(measured: Measurement) -> Judgement:
    """Returns FAILED for broken promises, VOID if the log shows no crash recovery, else the verdict on the contents."""
    if measured.broken_promises:
        return Verdict.FAILED, "; ".join(measured.broken_promises)
    if measured.startup.crash_proof is None and not measured.may_be_clean:
        is_hidden = has_hidden_phases(phase.name for phase in measured.startup.phases)
        takes = ": log_error_verbosity=3 would" if is_hidden else ""
        return Verdict.VOID, f"the log does not show a crash recovery{takes}"
    return judge_contents(measured)


def judge_contents(measured: Measurement) -> Judgement:
    """Returns FAILED if the server has lost tables or acknowledged rows, VOID if it has more than expected."""
    contents = measured.contents
    found, expected = contents.tables_found, contents.tables_expected
    if found is None or expected is None:
        return Verdict.MEASURED, None
    if found > expected:
        more = found - expected
        return Verdict.VOID, f"{more} tables more than before the start: something else wrote to this server"
    if found != expected:
        return Verdict.FAILED, f"{found} tables after the start, {expected} before"
    if contents.rows_lost:
        return Verdict.FAILED, f"{contents.rows_lost} of {contents.rows_expected} acknowledged rows are lost"
    extra = (contents.rows_found or 0) - (contents.rows_expected or 0)
    if extra > 0:
        return Verdict.VOID, f"{extra} rows more than were acknowledged: something else wrote to this server"
    return Verdict.MEASURED, None


def accept(_: Measurement) -> Judgement:
    """Accepts every measurement. For experiments in which a failure raises an error, or any behaviour is a valid
    result."""
    return Verdict.MEASURED, None
