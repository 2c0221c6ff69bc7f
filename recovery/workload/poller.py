"""Who asks something else beside a load, again and again? A sysbench of its own, with a script of ours."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import pymysql

from recovery.linux.files import template_dir
from recovery.model import Load, Poll, Version, can
from recovery.workload.status_sampler import Sample
from recovery.workload.sysbench import calling, lasting, looks_in, read_report

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


# Which part of the table cache's work is the load's own, and not that of who asks something else beside it? Pure.

OF_LOAD = "load."
"""Before the name of a counter as it is without what was done for the pollers."""
COUNTERS = ("Table_open_cache_hits", "Table_open_cache_misses")
"""Of each session, and of all. MariaDB 10.2 has them of neither."""
_TOLD = re.compile(
    r"^table cache, poller (?P<poller>\d+) at (?P<at>[\d.]+) s(?P<last>, its last)?: "
    r"hits (?P<own_hits>\d+) of (?P<hits>\d+), misses (?P<own_misses>\d+) of (?P<misses>\d+)$",
    re.MULTILINE,
)
Point = tuple[float, float]
"""A time, and a count at it."""


@dataclass(frozen=True)
class Told:
    """By a poller between two of its questions: of the counters, in the order of their names, its own part and all."""

    at_s: float
    """By the monotonic clock."""
    poller: int
    own: tuple[int, ...]
    all: tuple[int, ...]
    is_last: bool = False
    """It has asked nothing any more."""


@dataclass(frozen=True)
class Beside:
    """Who asked something else beside a load."""

    pollers: int
    """None where 0: the load was alone."""
    over_s: float
    """When the load had ended, by the monotonic clock."""
    told: tuple[Told, ...] = ()


def read_told(text: str) -> tuple[Told, ...]:
    """From what the pollers' program wrote, also where it was ended before its report."""
    return tuple(
        Told(
            float(found["at"]),
            int(found["poller"]),
            own=(int(found["own_hits"]), int(found["own_misses"])),
            all=(int(found["hits"]), int(found["misses"])),
            is_last=found["last"] is not None,
        )
        for found in _TOLD.finditer(text)
    )


def with_own(samples: Sequence[Sample], beside: Beside, *, began_s: float) -> tuple[Sample, ...]:
    """Each look with what the load's own sessions had counted by then, as far as that can be told. `began_s`: when the
    measuring began, by the monotonic clock."""
    found = tuple(samples)
    for number, name in enumerate(COUNTERS):
        looks = [
            (one.at_s + began_s, value) for one in found if (value := one.figures.get(f"status.{name}")) is not None
        ]
        values = dict(_growing(tuple(_own(looks, beside, number))) if beside.pollers else looks)
        found = tuple(_with(one, f"{OF_LOAD}{name}", values.get(one.at_s + began_s)) for one in found)
    return found


def _with(sample: Sample, name: str, value: float | None) -> Sample:
    return sample if value is None else replace(sample, figures={**sample.figures, name: round(value, 1)})


def _own(looks: Sequence[Point], beside: Beside, number: int) -> Iterator[Point]:
    """At each look. When a poller tells, it asks nothing: what is left for the load is exact then, but for what other
    pollers are at. It is between these moments that a line is drawn, and not between the parts, which grow by leaps;
    and no further than what was counted before and after allows. Once the load is over, it does nothing more."""
    told = sorted(beside.told, key=lambda one: one.at_s)
    if {one.poller for one in told} != set(range(beside.pollers)):
        return
    parts = {
        poller: [(one.at_s, float(one.own[number])) for one in told if one.poller == poller]
        for poller in range(beside.pollers)
    }
    is_whole = sum(one.is_last for one in told) == beside.pollers
    known_s = math.inf if is_whole else min(points[-1][0] for points in parts.values())
    asked = sum(points[-1][1] for points in parts.values())
    points = _growing([
        *(look for look in looks if look[0] < told[0].at_s),
        *((one.at_s, one.all[number] - sum(_at(part, one.at_s) for part in parts.values())) for one in told
          if one.at_s <= known_s),
        *((at_s, value - asked) for at_s, value in looks if is_whole and at_s > told[-1].at_s),
    ])  # fmt: skip
    for at_s, value in looks:
        if is_whole and at_s >= beside.over_s:
            yield at_s, points[-1][1]
        elif at_s <= known_s:
            most, least = (value - sum(_beside(part, at_s)[end] for part in parts.values()) for end in (0, 1))
            yield at_s, max(0.0, min(max(_at(points, at_s), least), most))


def _growing(points: Sequence[Point]) -> list[Point]:
    """No count shrinks: what is taken away for others between two of their words may be some questions too much."""
    highest = accumulate((value for _, value in points), max)
    return [(at_s, value) for (at_s, _), value in zip(points, highest, strict=True)]


def _beside(points: Sequence[Point], at_s: float) -> tuple[float, float]:
    """The counts before and after."""
    after = bisect_right(points, at_s, key=lambda one: one[0])
    last = len(points) - 1
    return points[max(0, after - 1)][1], points[min(after, last)][1]


def _at(points: Sequence[Point], at_s: float) -> float:
    """On the line between the two that are next; beyond the ends as it is there."""
    after = bisect_right(points, at_s, key=lambda one: one[0])
    if after in (0, len(points)):
        return points[min(after, len(points) - 1)][1]
    (began_s, began), (ended_s, ended) = points[after - 1], points[after]
    return began + (ended - began) * (at_s - began_s) / (ended_s - began_s)


FOREIGN_KEYS = """\
SELECT fk.referenced_table_name AS to_table, fk.referenced_column_name AS primary_key, fk.column_name AS from_column,
       fk.constraint_name AS name, rc.update_rule AS on_update, rc.delete_rule AS on_delete
FROM information_schema.referential_constraints rc
JOIN information_schema.key_column_usage fk
  ON fk.constraint_schema = rc.constraint_schema AND fk.constraint_name = rc.constraint_name
WHERE fk.referenced_column_name IS NOT NULL
  AND fk.table_schema = '{database}' AND fk.table_name = '{table}' AND rc.constraint_schema = '{database}'"""
"""What an object-relational mapper asks of each table that it meets. A server without a dictionary opens tables to
answer: for the one view that which is named, for the other, which is held to the schema alone, all that are in it."""

_NAMED = f"WHERE variable_name IN ({', '.join(map(repr, COUNTERS))})"
_SHOWN = f"SHOW {{scope}} STATUS {_NAMED}"
_SELECTED = f"SELECT * FROM performance_schema.{{scope}}_status {_NAMED}"  # noqa: S608 - of names that stand here
"""Where tables tell, SHOW opens them too, and counts that for no session."""
_IGNORED = (1213, 1020, 1205, 1317)
"""Errors: sysbench's own, and that of an answer which was cut short, as the last one is. It counts as none."""


def write_statements(poll: Poll, folder: Path) -> Path:
    """The file that the command below reads: on a command line not all that a user writes would survive."""
    path = folder / "poll.statements"
    path.write_bytes(b"".join(statement.encode() + b"\0" for statement in poll.statements))
    return path


def command(
    poll: Poll,
    load: Load,
    *,
    program: Path,
    statements: Path,
    socket: Path,
    database: str,
    tables: int,
    version: Version,
) -> list[str]:
    """Beside this load, for as long. `tables` are those that are asked about: sbtest1 and so on."""
    script = str(template_dir() / "poll.lua")
    counters = _SELECTED if can(version, "status_tables") else _SHOWN
    return [
        *calling(script, program=program, socket=socket, database=database, threads=poll.clients),
        *lasting(load), f"--statements={statements}", f"--every={poll.every_s}", f"--tables={tables}",
        f"--schema={database}", f"--counters={counters}", f"--mysql-ignore-errors={','.join(map(str, _IGNORED))}",
        "run",
    ]  # fmt: skip


def cut_short(connection: Connection[Cursor]) -> None:
    """Every statement but our own that the server is at."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        ((own,),) = cursor.fetchall()
        cursor.execute("SHOW PROCESSLIST")
        for number, _, _, _, command, *_ in cursor.fetchall():
            if command == "Query" and number != own:
                with suppress(pymysql.MySQLError):  # it has just been answered, and its connection is gone
                    cursor.execute(f"KILL QUERY {number}")


@dataclass(frozen=True)
class Polls:
    """Answers, after the warm-up."""

    per_s: float
    mean_ms: float | None
    """None where there was none, or nothing was reported."""
    seen: tuple[tuple[float, float], ...] = ()
    """Answers a second, the warm-up's as well, by when each second ended, since the measuring began."""


def read_polls(text: str, *, warmup_s: int, whole: bool) -> Polls | None:
    """Of one that had to be ended there is no report: what it had said each second is left, if it had said anything."""
    seen = tuple((look.at_s, look.tps) for look in looks_in(text, warmup_s))
    if whole:
        report = read_report(text)
        return Polls(report.tps, report.latency_mean_ms, seen)
    said = [per_s for at_s, per_s in seen if at_s > 0]
    return Polls(fmean(said), None, seen) if said else None
