"""What is a server given to do, beside coming back? Loads, questions and dumps: planned, and ignorant of the doing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

QUESTION = "question"
"""The axis by whose values the parts of an experiment are called."""


@dataclass(frozen=True)
class Poll:
    """Clients that ask something else beside a load, again and again."""

    clients: int
    """0: nobody asks, beside a load that one beside others is held against."""
    every_s: float
    """Pause of each between an answer and its next question."""
    statements: tuple[str, ...]
    """Asked in turn. `{table}` is the name of one table, another each time; `{database}` that of its schema."""


@dataclass(frozen=True)
class Load:
    """A load by sysbench, whose tables lie there already."""

    script: str
    """One of sysbench's own (`oltp_read_only`), or the path of the user's."""
    threads: int
    tables: int
    rows: int
    """In each table."""
    seconds: int
    """That are measured, after the warm-up."""
    warmup_s: int
    options: tuple[str, ...] = ()
    """More for sysbench: `--rand-type=uniform`."""
    poll: Poll | None = None


@dataclass(frozen=True)
class Ask:
    """One statement, timed until its last row."""

    statement: str


@dataclass(frozen=True)
class Dump:
    """Of the definitions of all tables, without rows."""

    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Create:
    """Tables made by one client, a statement and a commit at a time, with the server's own durability."""

    tables: int


class Moment(StrEnum):
    """When a server is killed."""

    INSERTS = "inserts"
    """One client, and the insert script."""
    LOAD = "load"
    """Several clients, and transactions of several rows."""
    DEFINITIONS = "definitions"
    """Tables are made, altered, renamed and dropped."""
    RECOVERY = "recovery"
    """It is coming back after such a load, again and again."""
    SHUTDOWN = "shutdown"
    """It was told to shut down under such a load."""
    POWER = "power-loss"
    """Under such a load: not by a signal, but with all that its filesystem had not written yet."""


@dataclass(frozen=True)
class Crash:
    """A server is killed at a moment of chance, and judged by what comes back."""

    moment: Moment
    seed: int
    """Of all that is left to chance, together with the server's version, the cell and the number of the run."""
    depth: int
    """A recovery is killed so many times, at most."""


class Fault(StrEnum):
    """What is wrong with the files when a killed server is started again."""

    FULL_DISK = "full-disk"
    MISSING = "missing"
    """A table's file."""
    TRUNCATED = "truncated"
    """The same, to half of its pages."""
    FLIPPED = "flipped"
    """One bit in it."""


@dataclass(frozen=True)
class Damage:
    """A server is killed under a load, and finds something wrong with its files."""

    fault: Fault
    written: bool
    """To the table whose file it is: it has changes to be recovered. Otherwise nobody has touched it."""
    seed: int


Task = Load | Ask | Dump | Create | Crash | Damage
