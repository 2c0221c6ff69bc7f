"""Executes an SQL script over several connections in parallel.

The script is sent in packets of many statements. Statements that depend on others are sent in order. This makes
200,000 tables in about a minute."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import pymysql
from pymysql.connections import Connection

from recovery.errors import (
    HostUnfitError,
    InterruptedByUserError,
    RecoveryError,
    ServerFailedError,
    UsageError,
)
from recovery.mysqld.client import message_of
from recovery.workload.inserts import shorten
from recovery.workload.schema import REFERENCES, StatementKind, kind_of

# --- Packets of statements

MAX_PACKET_BYTES = 1 << 20
"""The smallest default of max_allowed_packet (5.5). A single statement that is longer is sent alone, and the server
accepts or rejects it."""


@dataclass(frozen=True)
class Packet:
    """A packet contains statements of one kind that are sent to the server together."""

    first: int
    """Number of its first statement in the script, from 0."""
    kind: StatementKind
    statements: tuple[str, ...]

    @property
    def text(self) -> str:
        return ";\n".join(self.statements)

    @property
    def end(self) -> int:
        return self.first + len(self.statements)


def packets(script: Iterable[str], *, batch: int, done: int = 0) -> Iterator[Packet]:
    """Yields the packets of the script from statement number `done` on, in the order of the script.

    SESSION statements before `done` are yielded too: a resumed build uses new connections, which have not run them."""
    first, kind, taken, size = done, StatementKind.IN_ORDER, list[str](), 0
    for number, (statement, next_kind) in enumerate(_with_kinds(script)):
        if number < done:
            if next_kind is StatementKind.SESSION:
                yield Packet(number, next_kind, (statement,))
            continue
        length = len(statement) if statement.isascii() else len(statement.encode())
        limit = 1 if next_kind is StatementKind.FILL else batch
        if taken and (next_kind is not kind or len(taken) >= limit or size + length > MAX_PACKET_BYTES):
            yield Packet(first, kind, tuple(taken))
            taken, size = [], 0
        if not taken:
            first, kind = number, next_kind
        taken.append(statement)
        size += length + 2
    if taken:
        yield Packet(first, kind, tuple(taken))


def _with_kinds(script: Iterable[str]) -> Iterator[tuple[str, StatementKind]]:
    """Yields each statement with its kind.

    After the first foreign key in the script, inserts must keep their order: the referenced row has to exist first."""
    has_foreign_key = False
    for statement in script:
        kind = kind_of(statement)
        is_ordered = kind is StatementKind.IN_ORDER
        has_foreign_key = has_foreign_key or (is_ordered and REFERENCES.search(statement) is not None)
        is_insert = kind in (StatementKind.INSERT, StatementKind.FILL)
        yield statement, StatementKind.IN_ORDER if has_foreign_key and is_insert else kind


_POLL_S = 0.2
"""Seconds between two checks of the pending packets, so that signals are handled while all connections are busy."""
_PATIENCE_S = 5.0
"""Seconds that the packets already sent get to end after an interruption."""
_CONNECTION_LOST_ERRORS = frozenset({0, 2006, 2013})
"""Error numbers of a lost connection: already closed (0), server has gone away (2006), lost during a query (2013)."""
_DISK_FULL_ERRORS = frozenset({28, 1021, 1114})
"""Error numbers for a full disk: ENOSPC (28), and the server's ER_DISK_FULL (1021) and ER_RECORD_FILE_FULL (1114)."""


class StatementFailedError(UsageError):
    """The server rejected a statement of the script."""


class StatementInterruptedError(InterruptedByUserError):
    """A statement took too long to wait for its end after an interruption."""

    def __init__(self) -> None:
        super().__init__(
            f"the build was interrupted, and a statement did not end within {_PATIENCE_S:.0f} s; nothing of it is kept",
            "run the same command again: it builds from the beginning",
        )


def execute_script(
    script: Iterable[str],
    *,
    open_connection: Callable[[], Connection],
    connections: int,
    batch: int,
    done: int,
    progress: Callable[[int], None],
    stop: threading.Event,
    give_up: Callable[[], None],
) -> int:
    """Executes the script from statement number `done` on and returns how many statements, from its start, are done.

    These are all statements unless `stop` was set. In that case the function waits for the packets already sent, so
    that the number is exact. If they take long, it raises StatementInterruptedError instead. On an error it calls
    `give_up`, which ends the server and with it all pending answers."""
    pool = _ConnectionPool(open_connection, connections, done, progress, stop)
    try:
        last = None
        for packet in packets(script, batch=batch, done=done):
            if stop.is_set():
                break
            if packet.kind is not last or packet.kind is StatementKind.IN_ORDER:
                pool.drain()
            last = packet.kind
            if packet.kind is StatementKind.SESSION:
                pool.run_on_all(packet)
            elif packet.kind is StatementKind.IN_ORDER:
                pool.run_alone(packet)
            else:
                pool.run_in_parallel(packet)
        pool.drain()
        return pool.done
    except BaseException:
        give_up()
        raise
    finally:
        pool.close()


class _ConnectionPool:
    """A pool of connections that run packets in parallel. Only the thread that created the pool may call it."""

    def __init__(
        self,
        open_connection: Callable[[], Connection],
        size: int,
        done: int,
        progress: Callable[[int], None],
        stop: threading.Event,
    ) -> None:
        self._connections: list[Connection] = []
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._pending: set[Future[int]] = set()
        self._progress = progress
        self._stop = stop
        self._patient_until_s: float | None = None
        """Time on the monotonic clock at which the pending packets are given up; None if nothing was interrupted."""
        self._answered = self.done = done
        """`done` is exact only after drain(), because packets that run in parallel end in any order."""
        try:
            for _ in range(size):
                self._connections.append(open_connection())
                self._idle.put(self._connections[-1])
        except BaseException:
            self._close_connections()
            raise
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="build")

    def run_in_parallel(self, packet: Packet) -> None:
        """Runs the packet on any idle connection, in parallel with others.

        At most one packet is queued for the next idle connection, so that little work is pending after an
        interruption."""
        self._collect(FIRST_COMPLETED, timeout_s=0)
        while len(self._pending) > len(self._connections):
            self._collect(FIRST_COMPLETED)
        self._pending.add(self._threads.submit(self._run_on_idle, packet))

    def run_alone(self, packet: Packet) -> None:
        """Runs the packet on the first connection and waits for it.

        It is always the same connection because user variables and temporary tables belong to a connection."""
        self._pending.add(self._threads.submit(run_packet, self._connections[0], packet))
        self.drain()

    def run_on_all(self, packet: Packet) -> None:
        self._pending.add(self._threads.submit(self._run_on_each, packet))
        self.drain()

    def drain(self) -> None:
        """Waits until no packet is pending."""
        while self._pending:
            self._collect(ALL_COMPLETED)
        self.done = self._answered

    def close(self) -> None:
        """Cancels queued packets, waits for running ones, and closes all connections. Safe in any state."""
        for future in self._pending:
            future.cancel()
        self._threads.shutdown(wait=True)
        self._close_connections()

    def _collect(self, until: str, *, timeout_s: float = _POLL_S) -> None:
        ended, self._pending = wait(self._pending, timeout=timeout_s, return_when=until)
        if self._stop.is_set() and self._pending:
            now_s = time.monotonic()
            self._patient_until_s = self._patient_until_s or now_s + _PATIENCE_S
            if now_s >= self._patient_until_s:
                raise StatementInterruptedError
        failures = [failure for future in ended if (failure := future.exception()) is not None]
        self._count(sum(future.result() for future in ended if future.exception() is None))
        if failures:
            raise failures[0]

    def _count(self, statements: int) -> None:
        self._answered += statements
        if statements:
            self._progress(self._answered)

    def _run_on_each(self, packet: Packet) -> int:
        """Runs the packet on every connection, and returns how many statements of the script are done by it: none if it
        has been done in the part of the build before an interruption."""
        for connection in self._connections:
            run_packet(connection, packet)
        return max(0, packet.end - self._answered)

    def _run_on_idle(self, packet: Packet) -> int:
        connection = self._idle.get()
        try:
            return run_packet(connection, packet)
        finally:
            self._idle.put(connection)

    def _close_connections(self) -> None:
        for connection in self._connections:
            if connection.open:
                connection.close()


def run_packet(connection: Connection, packet: Packet) -> int:
    """Sends all statements of the packet at once, reads every answer, and returns the number of statements.

    The server stops at the first statement that fails, and that error is its last answer. The number of answers before
    the error therefore identifies the statement."""
    answered = 0
    try:
        with connection.cursor() as cursor:
            cursor.execute(packet.text)
            answered = 1
            while cursor.nextset():
                answered += 1
    except (pymysql.Error, OSError) as error:
        raise _packet_error(packet, answered, error) from error
    return len(packet.statements)


def _packet_error(packet: Packet, answered: int, error: BaseException) -> RecoveryError:
    number = error.args[0] if error.args else None
    if isinstance(error, OSError) or number in _CONNECTION_LOST_ERRORS:
        return ServerFailedError(
            f"the server was lost while it built the tables, near statement {packet.first + answered + 1}: "
            f"{message_of(error)}",
            "see its error log, in build-logs of the data directory",
        )
    if number in _DISK_FULL_ERRORS:
        return HostUnfitError(
            f"the disk of the server is full: {message_of(error)}",
            "make room, or give --data another disk; the next run builds the tables again",
        )
    # A stored procedure returns several answers, so the count may exceed the number of statements.
    index = min(answered, len(packet.statements) - 1)
    return StatementFailedError(
        f"the server refused statement {packet.first + index + 1} of the schema, "
        f"'{shorten(packet.statements[index])}': {message_of(error)}",
        "correct the template; nothing of this build is kept",
    )
