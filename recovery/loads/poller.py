"""Runs pollers: clients that repeat other queries during a load, by a second sysbench with templates/poll.lua.

The module also separates the table cache counters of the load from those of the pollers."""

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
from recovery.loads.status_sampler import Sample
from recovery.loads.sysbench import base_command, duration_options, parse_intervals, parse_report
from recovery.loads.tasks import Load, Poll
from recovery.model import Version, can

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


# --- Table cache counters of the load alone

LOAD_PREFIX = "load."
"""Prefix of the name of a counter from which the share of the pollers has been subtracted."""
TABLE_CACHE_COUNTERS = ("Table_open_cache_hits", "Table_open_cache_misses")
"""Status variables that exist with session and global scope. MariaDB 10.2 has neither."""
_COUNTER_REPORT = re.compile(
    r"^table cache, poller (?P<poller>\d+) at (?P<at>[\d.]+) s(?P<last>, its last)?: "
    r"hits (?P<own_hits>\d+) of (?P<hits>\d+), misses (?P<own_misses>\d+) of (?P<misses>\d+)$",
    re.MULTILINE,
)
Point = tuple[float, float]
"""A time on the monotonic clock, and the value of a counter at that time."""


@dataclass(frozen=True)
class CounterReport:
    """The counters that a poller read between two of its queries, in the order of TABLE_CACHE_COUNTERS."""

    at_s: float
    """Time on the monotonic clock."""
    poller: int
    """Number of the poller, from 0."""
    own: tuple[int, ...]
    """Values for the session of this poller."""
    all: tuple[int, ...]
    """Global values."""
    is_last: bool = False
    """Whether the poller executed no more queries afterwards."""


@dataclass(frozen=True)
class PollerCounters:
    """The pollers that ran during a load, and the counters that they reported."""

    pollers: int
    """Number of pollers; 0 if the load ran alone."""
    over_s: float
    """Time at which the load had ended, on the monotonic clock."""
    reports: tuple[CounterReport, ...] = ()


def parse_counter_reports(text: str) -> tuple[CounterReport, ...]:
    """Parses the reports of the pollers in the output of sysbench, even if it was stopped before its final report."""
    return tuple(
        CounterReport(
            float(match["at"]),
            int(match["poller"]),
            own=(int(match["own_hits"]), int(match["own_misses"])),
            all=(int(match["hits"]), int(match["misses"])),
            is_last=match["last"] is not None,
        )
        for match in _COUNTER_REPORT.finditer(text)
    )


def add_load_counters(samples: Sequence[Sample], counters: PollerCounters, *, began_s: float) -> tuple[Sample, ...]:
    """Returns the samples with the counters of the load's own sessions added, as far as they can be determined.

    `began_s` is the start of the measurement on the monotonic clock."""
    counted = tuple(samples)
    for number, name in enumerate(TABLE_CACHE_COUNTERS):
        points = [
            (sample.at_s + began_s, value)
            for sample in counted
            if (value := sample.figures.get(f"status.{name}")) is not None
        ]
        values = dict(_running_maximum(tuple(_load_counter(points, counters, number))) if counters.pollers else points)
        counted = tuple(
            _with_value(sample, f"{LOAD_PREFIX}{name}", values.get(sample.at_s + began_s)) for sample in counted
        )
    return counted


def _with_value(sample: Sample, name: str, value: float | None) -> Sample:
    return sample if value is None else replace(sample, figures={**sample.figures, name: round(value, 1)})


def _load_counter(total: Sequence[Point], counters: PollerCounters, number: int) -> Iterator[Point]:
    """Yields the counter of the load at the time of each sample, as far as it can be determined.

    A poller executes no query while it reports its counters. At that moment the load's count, which is the global count
    minus those of all pollers, is exact except for queries that other pollers are executing. The load's count is
    interpolated between these moments. The pollers' counts are not interpolated to the samples, because they grow in
    jumps; their values before and after a sample limit the result. After the end of the load its count is constant."""
    reports = sorted(counters.reports, key=lambda report: report.at_s)
    if {report.poller for report in reports} != set(range(counters.pollers)):
        return
    parts = {
        poller: [(report.at_s, float(report.own[number])) for report in reports if report.poller == poller]
        for poller in range(counters.pollers)
    }
    is_whole = sum(report.is_last for report in reports) == counters.pollers
    known_s = math.inf if is_whole else min(points[-1][0] for points in parts.values())
    requested = sum(points[-1][1] for points in parts.values())
    points = _running_maximum([
        *(point for point in total if point[0] < reports[0].at_s),
        *((report.at_s, report.all[number] - sum(_interpolate(part, report.at_s) for part in parts.values()))
          for report in reports if report.at_s <= known_s),
        *((at_s, value - requested) for at_s, value in total if is_whole and at_s > reports[-1].at_s),
    ])  # fmt: skip
    for at_s, value in total:
        if is_whole and at_s >= counters.over_s:
            yield at_s, points[-1][1]
        elif at_s <= known_s:
            high, low = (value - sum(_values_around(part, at_s)[end] for part in parts.values()) for end in (0, 1))
            yield at_s, max(0.0, min(max(_interpolate(points, at_s), low), high))


def _running_maximum(points: Sequence[Point]) -> list[Point]:
    """Returns the points with the running maximum of their values.

    A counter never shrinks, but the part subtracted for pollers between two of their reports may be a little too
    large."""
    highest = accumulate((value for _, value in points), max)
    return [(at_s, value) for (at_s, _), value in zip(points, highest, strict=True)]


def _values_around(points: Sequence[Point], at_s: float) -> tuple[float, float]:
    """Returns the values of the points before and after a time."""
    after = bisect_right(points, at_s, key=lambda point: point[0])
    last = len(points) - 1
    return points[max(0, after - 1)][1], points[min(after, last)][1]


def _interpolate(points: Sequence[Point], at_s: float) -> float:
    """Returns the value at a time by linear interpolation; outside the points, the value of the nearest one."""
    after = bisect_right(points, at_s, key=lambda point: point[0])
    if after in (0, len(points)):
        return points[min(after, len(points) - 1)][1]
    (began_s, began), (ended_s, ended) = points[after - 1], points[after]
    return began + (ended - began) * (at_s - began_s) / (ended_s - began_s)


FOREIGN_KEY_QUERY = """\
SELECT fk.referenced_table_name AS to_table, fk.referenced_column_name AS primary_key, fk.column_name AS from_column,
       fk.constraint_name AS name, rc.update_rule AS on_update, rc.delete_rule AS on_delete
FROM information_schema.referential_constraints rc
JOIN information_schema.key_column_usage fk
  ON fk.constraint_schema = rc.constraint_schema AND fk.constraint_name = rc.constraint_name
WHERE fk.referenced_column_name IS NOT NULL
  AND fk.table_schema = '{database}' AND fk.table_name = '{table}' AND rc.constraint_schema = '{database}'"""
"""The query for the foreign keys of a table that an object-relational mapper runs for each table it uses.

A server without a data dictionary opens tables to answer it. For key_column_usage it opens only the table given by
name. For referential_constraints, which is restricted only by schema, it opens all tables of the schema."""

FILTERED_QUERY = f"{FOREIGN_KEY_QUERY} AND rc.table_name = '{{table}}'"
"""The published remedy: with a filter on the name of the table, too, the server opens only that table."""

_COUNTERS_CLAUSE = f"WHERE variable_name IN ({', '.join(map(repr, TABLE_CACHE_COUNTERS))})"
_SHOW_STATUS = f"SHOW {{scope}} STATUS {_COUNTERS_CLAUSE}"
_SELECT_STATUS = f"SELECT * FROM performance_schema.{{scope}}_status {_COUNTERS_CLAUSE}"  # noqa: S608 - of names that stand here
"""Used where the server answers SHOW STATUS from Performance Schema tables. There SHOW opens these tables too, and
counts that for no session."""
_IGNORED_ERRORS = (1213, 1020, 1205, 1317)
"""Errors that sysbench ignores: its own defaults, and 1317 for a query that was killed, as the last one is. The killed
query is not counted as an answer."""


def write_statements(poll: Poll, folder: Path) -> Path:
    """Writes the statements to a file for command() and returns its path.

    Not every statement of a user could be passed on a command line."""
    path = folder / "poll.statements"
    path.write_bytes(b"".join(statement.encode() + b"\0" for statement in poll.statements))
    return path


def poller_command(
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
    """Returns the command line of the pollers, which run as long as the load.

    `tables` is the number of tables that the statements can name: sbtest1, sbtest2, and so on."""
    script = str(template_dir() / "poll.lua")
    counters = _SELECT_STATUS if can(version, "status_tables") else _SHOW_STATUS
    return [
        *base_command(script, program=program, socket=socket, database=database, threads=poll.clients),
        *duration_options(load), f"--statements={statements}", f"--every={poll.every_s}", f"--tables={tables}",
        f"--schema={database}", f"--counters={counters}",
        f"--mysql-ignore-errors={','.join(map(str, _IGNORED_ERRORS))}",
        "run",
    ]  # fmt: skip


def kill_running_queries(connection: Connection[Cursor]) -> None:
    """Kills all statements that the server is executing, except those of this connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        ((own,),) = cursor.fetchall()
        cursor.execute("SHOW PROCESSLIST")
        for number, _, _, _, command, *_ in cursor.fetchall():
            if command == "Query" and number != own:
                with suppress(pymysql.MySQLError):  # the statement has just ended, and its connection is closed
                    cursor.execute(f"KILL QUERY {number}")


@dataclass(frozen=True)
class PollResult:
    """The rate and the latency of the pollers' answers after the warm-up."""

    per_s: float
    """Answers per second."""
    mean_ms: float | None
    """Mean latency; None if there were no answers or no final report."""
    rates: tuple[tuple[float, float], ...] = ()
    """For each second, including the warm-up: its end in seconds since the start of the measurement, and the answers
    per second."""


def parse_polls(text: str, *, warmup_s: int, whole: bool) -> PollResult | None:
    """Parses the output of the pollers; returns None if it contains neither a report nor a line after the warm-up.

    Pollers that had to be stopped (`whole` is false) print no final report. Then the rate is the mean of the lines that
    sysbench printed every second."""
    rates = tuple((interval.at_s, interval.tps) for interval in parse_intervals(text, warmup_s))
    if whole:
        report = parse_report(text)
        return PollResult(report.tps, report.latency_mean_ms, rates)
    counted = [per_s for at_s, per_s in rates if at_s > 0]
    return PollResult(fmean(counted), None, rates) if counted else None
