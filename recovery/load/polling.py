"""Who asks something else beside a load, again and again? A sysbench of its own, with a script of ours."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import pymysql

from recovery.load.shared import COUNTERS
from recovery.load.sysbench import calling, lasting, looks_in, read_report
from recovery.model import Version
from recovery.paths import template_dir
from recovery.versions import can
from recovery.work import Load, Poll

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

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
