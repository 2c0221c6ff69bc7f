"""What did a server's threads wait for between two moments? Its own counts of every generation, subtracted. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from recovery.measured import Wait

MUTEX, EVENT, STATUS = "innodb mutex", "performance schema", "status"
MOST = 10
"""Of each source."""

Counted = dict[tuple[str, str], tuple[int, float | None]]
"""By source and name: how often, and how long altogether."""

_WAITS = re.compile(r"\b(?:os_waits|waits)=(\d+)")
_PER_S = 1e12
"""The Performance Schema counts in picoseconds."""
_LOCKS = {
    "row locks": ("status.Innodb_row_lock_waits", "status.Innodb_row_lock_time"),
    "table locks": ("status.Table_locks_waited", None),
}


def mutexes(rows: Iterable[tuple[Any, ...]]) -> Counted:
    """Of SHOW ENGINE INNODB MUTEX: type, name, status. `os_waits=3` in 5.6 and MariaDB, `waits=3` for a lock of 5.7 and
    later, `spins=9,waits=3,calls=90` for its mutexes. Several of one name count as one."""
    found: Counted = {}
    for _, name, status, *_ in rows:
        match = _WAITS.search(str(status))
        if match:
            key = (MUTEX, str(name))
            found[key] = (found.get(key, (0, None))[0] + int(match[1]), None)
    return found


def events(rows: Iterable[tuple[Any, ...]]) -> Counted:
    """Of the Performance Schema: name, count, picoseconds."""
    return {(EVENT, str(name)): (int(count), int(waited) / _PER_S) for name, count, waited in rows}


def locks(figures: Mapping[str, float]) -> Counted:
    """Of a look's status counters."""
    found: Counted = {}
    for name, (count, milliseconds) in _LOCKS.items():
        if count in figures:
            waited_s = figures[milliseconds] / 1000 if milliseconds and milliseconds in figures else None
            found[STATUS, name] = (int(figures[count]), waited_s)
    return found


def between(before: Counted, after: Counted) -> tuple[Wait, ...]:
    """What grew: of each source the largest, by their time where it is told, else by their number."""
    grown = []
    for (source, name), (count, wait_s) in after.items():
        count_before, wait_before_s = before.get((source, name), (0, 0.0))
        if count > count_before:
            grown_s = None if wait_s is None else max(0.0, round(wait_s - (wait_before_s or 0.0), 6))
            grown.append(Wait(source, name, count - count_before, grown_s))
    grown.sort(key=lambda one: (one.wait_s or 0.0, one.count), reverse=True)
    sources = dict.fromkeys(one.source for one in sorted(grown, key=lambda one: one.source))
    return tuple(one for source in sources for one in [each for each in grown if each.source == source][:MOST])
