"""What is a scenario? A value: a question, the variants it compares, one measurement, and what makes that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recovery.experiments.bench import Bench
from recovery.model import (
    STARTUP,
    Around,
    Cache,
    ColdProof,
    Samples,
    Schema,
    Startup,
    Touched,
    Usage,
    Variant,
    Verdict,
    Wait,
    WarmProof,
    Watched,
    Work,
)
from recovery.mysqld.local import open_files_limit
from recovery.mysqld.options import DIVIDED
from recovery.workload.poller import Beside

# What makes an experiment of a server that is put to work? Which work, over which tables, with which programs.

_NOT_TRIED = "it was not tried"


@dataclass(frozen=True)
class Asked:
    """What the user asked of it. Of what is None or empty, the experiment has a default."""

    seconds: int = 60
    """Of each measured load."""
    warmup_s: int = 10
    threads: tuple[int, ...] = ()
    workloads: tuple[str, ...] = ()
    """Names of sysbench's, or paths of the user's own."""
    parts: tuple[str, ...] = ()
    """Of the experiment's questions, those that are to be asked."""
    load_tables: tuple[int, ...] = ()
    """Numbers of tables that a load uses."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Options of the server, and the values at which each is to be measured."""
    queries: tuple[tuple[str, str], ...] = ()
    """The user's own, with their names."""
    pollers: int = 1
    every_s: float = 0.0
    """Between an answer to a poller and its next question."""
    memory_ratio: float | None = None
    """How many times larger than the buffer pool the data is to be."""
    published_build: int | None = None
    """Make so many tables the published way, too."""
    seed: int = 1
    """Of what is left to chance."""
    depth: int = 3
    """A recovery is killed so many times, at most."""
    only: int | None = None
    """Of each cell the run of this number, and no other."""
    server_cpus: str | None = None
    """That the server has for itself, as a list: `0-2,4-6`; None where it shares all with the clients."""
    client_cpus: str | None = None
    """The same of the clients."""


@dataclass(frozen=True)
class Host:
    """What an experiment is scaled to."""

    cpus: int
    memory_bytes: int
    open_files: int = field(default_factory=open_files_limit)
    """That a server may have."""
    no_disk: Callable[[], str | None] = lambda: _NOT_TRIED
    """Why no disk of its own can be made for a server; None where one can. Whoever asks has it tried."""
    no_power_cut: Callable[[], str | None] = lambda: _NOT_TRIED
    """The same of one that loses its power."""
    instances: tuple[int, ...] = (DIVIDED,)
    """Of the table cache, among which each of the servers divides its entries."""


@dataclass(frozen=True)
class Experiment:
    figure: str
    """What it is about, by its name in `quantities.py`."""
    works: Callable[[Asked, Schema, Host], tuple[Work, ...]]
    settings: Callable[[Asked, Schema, Host], Mapping[str, str]]
    """Options of the server that hold for all of it; the user's win."""
    schema: Schema
    """What is built, unless the user says otherwise."""
    template: str | None = None
    """Of our templates that which makes it; None is the one for tables of a key each."""
    programs: tuple[str, ...] = ()
    """That have to be here."""
    names: tuple[str, ...] = ()
    """Of what it asks by itself: questions of the user's are called otherwise."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """By axis, the value that the others are held against."""
    runs: int = 3
    seconds: int = 60
    inserts: int = 0
    """Of the insert script."""
    unasked: Callable[[Asked, Host], tuple[str, ...]] = lambda _, __: ()
    """Which of its questions this host leaves out, and why, in words."""
    usual: Mapping[str, str] = field(default_factory=dict)
    """By option of its command, in words, what holds where the user says nothing: of what is not among these nouns."""


# What does a trial bring, raw? Of a timed start, or of a server that was put to work.


@dataclass(frozen=True)
class Outcome:
    """The timed start, the stage it began from, and what the server held afterwards."""

    startup: Startup
    previous_exit: str
    """How the process before the timed one had ended."""
    cold: ColdProof | None
    cold_means: str | None
    """How the cache was emptied; None where it was not."""
    warm: WarmProof | None
    tables_expected: int
    tables_found: int
    rows_expected: int
    rows_found: int
    rows_lost: int
    """Table by table: rows too many in one do not make up for those that another lost."""
    touched: Touched | None = None
    samples: Samples | None = None


@dataclass(frozen=True)
class Worked:
    """What a server did that was put to work."""

    measures: Mapping[str, float]
    """By the names of `quantities.py`."""
    seconds: float
    """How long it was measured."""
    usage: Usage
    around: Around | None
    clients: Mapping[str, str]
    """The programs that put it to work, and the command of each."""
    cold: ColdProof | None = None
    """How the cache was emptied under it before; None where it was not."""
    watched: Watched | None = None
    raw: Path | None = None
    """All that was looked at meanwhile: a file that is kept with the results."""
    waits: tuple[Wait, ...] = ()
    samples: Samples | None = None
    startup: Startup | None = None
    """Where it came back from a crash."""
    broken: tuple[str, ...] = ()
    """Promises, in words."""
    may_be_clean: bool = False
    """It need not have had anything to recover."""
    told: Mapping[str, str] = field(default_factory=dict)
    """What the server did and said, by what was looked at."""


Judgement = tuple[Verdict, str | None]
"""What a trial's figures are worth, and why where that is nothing."""


@dataclass(frozen=True)
class Scenario:
    name: str
    question: str
    title: str
    caches: tuple[Cache, ...]
    measure: Callable[[Bench, Variant], Outcome | Worked]
    judge: Callable[[Any], Judgement]
    """Of what `measure` brings."""
    experiment: Experiment | None = None
    """Where a server is put to work, and how; None where its starts are timed."""

    @property
    def figure(self) -> str:
        return STARTUP if self.experiment is None else self.experiment.figure

    @property
    def programs(self) -> tuple[str, ...]:
        """That put a server to work."""
        return () if self.experiment is None else self.experiment.programs


def judge_contents(outcome: Outcome) -> Judgement:
    """Whatever was asked, the server must hold afterwards what it had acknowledged: less is its failure."""
    if outcome.tables_found != outcome.tables_expected:
        return Verdict.FAILED, f"{outcome.tables_found} tables after the start, {outcome.tables_expected} before"
    if outcome.rows_lost:
        return Verdict.FAILED, f"{outcome.rows_lost} of {outcome.rows_expected} acknowledged rows are lost"
    if outcome.rows_found > outcome.rows_expected:
        extra = outcome.rows_found - outcome.rows_expected
        return Verdict.VOID, f"{extra} rows more than were acknowledged: something else wrote to this server"
    return Verdict.MEASURED, None


# What did one piece of work bring, beside what was looked at meanwhile?


@dataclass(frozen=True)
class Done:
    measures: Mapping[str, float]
    clients: Mapping[str, str] = field(default_factory=dict)
    """The programs, with their versions, and the command of each."""
    queries: int = 0
    """That the load's clients had answered while it was measured."""
    commits: int = 0
    """Of transactions that wrote."""
    seen: tuple[tuple[float, float], ...] = ()
    """Queries a second as the clients counted them, by when each second ended, since the measuring began."""
    polled: tuple[tuple[float, float], ...] = ()
    """The same of answers to whoever polls beside the load, from its beginning to its end."""
    beside: Beside | None = None
    """Who asked something else meanwhile; None where that was no question."""
