"""What makes an experiment of a server that is put to work? Which work, over which tables, with which programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from recovery.model import Schema, Work
from recovery.server.runfiles import open_files_limit
from recovery.server.tablecache import DIVIDED

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
