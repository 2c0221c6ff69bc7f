"""What has a server counted so far, by its own word? Two statements a look, over one connection of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pymysql

from recovery.errors import RecoveryError
from recovery.load.waits import Counted, events, mutexes

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

    Connect = Callable[[], Connection[Cursor]]

FAILURES = (pymysql.MySQLError, OSError, RecoveryError)
"""Of a server that is busy, gone, or will not answer."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_STATUS = "SHOW GLOBAL STATUS"
_METRICS = (
    "SELECT name, count FROM information_schema.innodb_metrics WHERE status = 'enabled'",
    # MariaDB since 10.5
    "SELECT name, count FROM information_schema.innodb_metrics WHERE enabled = 1",
)
_MUTEXES = "SHOW ENGINE INNODB MUTEX"
_EVENTS = (
    "SELECT event_name, count_star, sum_timer_wait FROM performance_schema.events_waits_summary_global_by_event_name"
    # A table's lock is how long its engine takes to hear of a statement.
    " WHERE count_star > 0 AND (event_name LIKE 'wait/synch/%' OR event_name LIKE 'wait/lock/metadata/%')"
    # On these who has nothing to do waits.
    " AND event_name NOT LIKE 'wait/synch/cond/%'"
)


class Counters:
    """Connects when it is asked, and anew after a failure; what fails is one of FAILURES, and for the caller."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: Connection[Cursor] | None = None
        self._metrics = list(_METRICS)
        """Those that this server has not refused yet."""

    def status(self) -> dict[str, float]:
        return dict(_numbers("status", self._rows(_STATUS)))

    def metrics(self) -> dict[str, float]:
        """InnoDB's, of those that are enabled; a server that has none is not asked again."""
        while self._metrics:
            try:
                return dict(_numbers("metric", self._rows(self._metrics[0])))
            except pymysql.MySQLError as error:
                if not _is_answer(error):
                    raise
                del self._metrics[0]
        return {}

    def waits(self) -> Counted:
        """What it tells of waits; where it tells nothing, nothing."""
        found: Counted = {}
        for statement, parsed in ((_MUTEXES, mutexes), (_EVENTS, events)):
            try:
                found |= parsed(self._rows(statement))
            except pymysql.MySQLError as error:
                if not _is_answer(error):
                    raise
        return found

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FAILURES):  # a goodbye that fails concerns nobody
                connection.close()

    def _rows(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        try:
            if self._connection is None:
                self._connection = self._connect()
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                return tuple(cursor.fetchall())
        except FAILURES as error:
            if not _is_answer(error):
                self.close()
            raise


def _is_answer(error: BaseException) -> bool:
    """Of the server, which is still there; numbers from 2000 to 2999 are the client's own."""
    match error.args:
        case (int(number), *_):
            return number >= 1000 and not 2000 <= number < 3000
        case _:
            return False


def _numbers(kind: str, rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[str, float]]:
    for name, value, *_ in rows:
        if _NUMBER.fullmatch(str(value)):
            # One name for all looks: an hour of them has millions.
            yield sys.intern(f"{kind}.{name}"), number(str(value))


def number(text: str) -> float:
    """Whole numbers stay whole."""
    return int(text) if text.removeprefix("-").isdecimal() else float(text)
