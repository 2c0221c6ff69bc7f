"""What is a server given to do, beside coming back? Loads, questions and dumps: planned, and ignorant of the doing."""

from __future__ import annotations

from dataclasses import dataclass


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


Task = Load | Ask | Dump | Create
