"""What did a server's threads wait for between two moments? Its own counts of every generation, subtracted. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recovery.measured import Wait

MUTEX, EVENT, STATUS = "innodb mutex", "performance schema", "status"
MOST = 10
"""Of each source."""
MUTEX_WAITS, MUTEX_SPINS = "mutex.waits", "mutex.spins"
"""Figures of a look: of all mutexes and read-write locks together, as far as they are told."""


@dataclass(frozen=True)
class Count:
    waits: int
    wait_s: float | None = None
    spins: int | None = None


Counted = dict[tuple[str, str], Count]
"""By source and name."""

_TOLD = re.compile(r"\b(spins|os_waits|waits)=(\d{1,20})", re.ASCII)
_PER_S = 1e12
"""The Performance Schema counts in picoseconds."""
_LOCKS = {
    "row locks": ("status.Innodb_row_lock_waits", "status.Innodb_row_lock_time"),
    "table locks": ("status.Table_locks_waited", ""),
}


def mutexes(rows: Iterable[tuple[Any, ...]]) -> Counted:
    """Of SHOW ENGINE INNODB MUTEX: type, name, status. `os_waits=3` in 5.6, `waits=3` for a lock of 5.7 and later,
    `spins=9,waits=3,calls=90` for its mutexes, once they are monitored. Several of one name count as one."""
    found: Counted = {}
    for _, name, status, *_ in rows:
        told = {what.removeprefix("os_"): int(count) for what, count in _TOLD.findall(str(status))}
        if "waits" in told:
            before = found.get((MUTEX, str(name)), Count(0))
            spins = told["spins"] + (before.spins or 0) if "spins" in told else before.spins
            found[MUTEX, str(name)] = Count(before.waits + told["waits"], None, spins)
    return found


def events(rows: Iterable[tuple[Any, ...]]) -> Counted:
    """Of the Performance Schema: name, count, picoseconds."""
    return {(EVENT, str(name)): Count(int(count), int(waited) / _PER_S) for name, count, waited in rows}


def locks(figures: Mapping[str, float]) -> Counted:
    """Of a look's status counters."""
    found: Counted = {}
    for name, (count, milliseconds) in _LOCKS.items():
        if count in figures:
            waited_s = figures[milliseconds] / 1000 if milliseconds in figures else None
            found[STATUS, name] = Count(int(figures[count]), waited_s)
    return found


def totals(counted: Counted) -> dict[str, float]:
    """A list without a mutex in it is of a server that tells nothing of them, or of one in which nobody has waited:
    no figure."""
    mutex = [count for (source, _), count in counted.items() if source == MUTEX]
    spins = [count.spins for count in mutex if count.spins is not None]
    found: dict[str, float] = {}
    if mutex:
        found[MUTEX_WAITS] = sum(count.waits for count in mutex)
    if spins:
        found[MUTEX_SPINS] = sum(spins)
    return found


def between(before: Counted, after: Counted) -> tuple[Wait, ...]:
    """What grew: of each source the largest, by their time where it is told, else by their number."""
    grown = []
    for (source, name), now in after.items():
        then = before.get((source, name), Count(0))
        if now.waits > then.waits:
            waited_s = None if now.wait_s is None else max(0.0, round(now.wait_s - (then.wait_s or 0.0), 6))
            grown.append(Wait(source, name, now.waits - then.waits, waited_s))
    grown.sort(key=lambda one: (one.wait_s or 0.0, one.count), reverse=True)
    by_source = {source: [one for one in grown if one.source == source] for source in (MUTEX, EVENT, STATUS)}
    return tuple(one for of_one in by_source.values() for one in of_one[:MOST])
