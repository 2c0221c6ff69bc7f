"""How are 200,000 tables made in a minute? Statements in packets, packets over connections, order where it matters."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

import pymysql
from pymysql.connections import Connection

from recovery.errors import EndedOnRequestError, HostUnfitError, RecoveryError, ServerFailedError, UsageError
from recovery.load.insert import shortened
from recovery.load.packets import Packet, packets
from recovery.load.statements import Kind
from recovery.server.client import message_of

_POLL_S = 0.2
"""Between two looks at what is pending, so that signals are heard while all connections are busy."""
_FULL = frozenset({28, 1021, 1114})
"""ENOSPC, and the server's own words for it."""
_SYNTAX_AND_SUCH_HINT = "correct the template; nothing of this build is kept"


class Stop(Protocol):
    def is_set(self) -> bool: ...


class BuildInterruptedError(EndedOnRequestError):
    """Stopped on request, in order: the first `done` statements are in the server, and no other."""

    def __init__(self, done: int) -> None:
        super().__init__(
            f"the build was interrupted after {done} statements", "run the same command again: it goes on from there"
        )
        self.done = done


class StatementFailedError(UsageError):
    """The server refused a statement of the script."""


def build(
    script: Iterable[str],
    *,
    open_connection: Callable[[], Connection],
    connections: int,
    batch: int,
    done: int = 0,
    progress: Callable[[int], None],
    stop: Stop,
    give_up: Callable[[], None],
) -> int:
    """Runs the script from statement `done` on; returns how many statements, from its start, are done.

    That is all of them unless `stop` was set: then what was sent is waited for, so that the number is exact. Where
    it goes wrong `give_up` ends the server, and with it the waiting for its answers."""
    crew = _Crew(open_connection, connections, done, progress)
    try:
        return _dispatch(crew, packets(script, batch=batch, done=done), stop)
    except BaseException:
        give_up()
        raise
    finally:
        crew.dismiss()


def _dispatch(crew: _Crew, work: Iterable[Packet], stop: Stop) -> int:
    last = None
    for packet in work:
        if stop.is_set():
            break
        if packet.kind is not last or packet.kind is Kind.IN_ORDER:
            crew.drain()
        last = packet.kind
        if packet.kind is Kind.SESSION:
            crew.everywhere(packet)
        elif packet.kind is Kind.IN_ORDER:
            crew.alone(packet)
        else:
            crew.beside(packet)
    crew.drain()
    return crew.done


class _Crew:
    """The connections, and what each is doing. Only the thread that owns the crew calls it."""

    def __init__(
        self, open_connection: Callable[[], Connection], size: int, done: int, progress: Callable[[int], None]
    ) -> None:
        self._connections: list[Connection] = []
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._pending: set[Future[int]] = set()
        self._progress = progress
        self._answered = self.done = done
        """`done` is right only after drain(): packets beside each other end in any order."""
        try:
            for _ in range(size):
                self._connections.append(open_connection())
                self._idle.put(self._connections[-1])
        except BaseException:
            self._close()
            raise
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="build")

    def beside(self, packet: Packet) -> None:
        """One packet waits for the connection that is idle next; no more, so that little is left to end after an
        interruption."""
        self._collect(FIRST_COMPLETED, timeout_s=0)
        while len(self._pending) > len(self._connections):
            self._collect(FIRST_COMPLETED)
        self._pending.add(self._threads.submit(self._run_on_an_idle_one, packet))

    def alone(self, packet: Packet) -> None:
        """Always the same connection: variables and temporary tables live there."""
        self._pending.add(self._threads.submit(run_packet, self._connections[0], packet))
        self.drain()

    def everywhere(self, packet: Packet) -> None:
        for connection in self._connections:
            run_packet(connection, packet)
        self._count(max(0, packet.end - self._answered))
        self.done = self._answered

    def drain(self) -> None:
        while self._pending:
            self._collect(ALL_COMPLETED)
        self.done = self._answered

    def dismiss(self) -> None:
        """Whatever happened: nothing of ours is left running."""
        for future in self._pending:
            future.cancel()
        running = [future for future in self._pending if not future.done()]
        wait(running)
        self._threads.shutdown(wait=True)
        self._close()

    def _collect(self, until: str, *, timeout_s: float = _POLL_S) -> None:
        ended, self._pending = wait(self._pending, timeout=timeout_s, return_when=until)
        failures = [failure for future in ended if (failure := future.exception()) is not None]
        self._count(sum(future.result() for future in ended if future.exception() is None))
        if failures:
            raise failures[0]

    def _count(self, statements: int) -> None:
        self._answered += statements
        if statements:
            self._progress(self._answered)

    def _run_on_an_idle_one(self, packet: Packet) -> int:
        connection = self._idle.get()
        try:
            return run_packet(connection, packet)
        finally:
            self._idle.put(connection)

    def _close(self) -> None:
        for connection in self._connections:
            if connection.open:
                connection.close()


def run_packet(connection: Connection, packet: Packet) -> int:
    """Sends all statements at once and reads every answer: an error stops the server at its statement, and is the
    last answer, so the number of answers before it tells which one it was."""
    answered = 0
    try:
        with connection.cursor() as cursor:
            cursor.execute(packet.text)
            answered = 1
            while cursor.nextset():
                answered += 1
    except (pymysql.Error, OSError) as error:
        raise _failure(packet, answered, error) from error
    return len(packet.statements)


def _failure(packet: Packet, answered: int, error: BaseException) -> RecoveryError:
    if _is_lost(error):
        return ServerFailedError(
            f"the server was lost while it built the tables, near statement {packet.first + answered + 1}: "
            f"{message_of(error)}",
            "its error log, in build-logs of the data directory, tells why it ended",
        )
    if error.args and error.args[0] in _FULL:
        return HostUnfitError(
            f"the server has no room: {message_of(error)}",
            "make room, or give DATA= another disk; it is built anew then",
        )
    # A procedure gives several answers: then the count runs ahead, and the last one is named.
    index = min(answered, len(packet.statements) - 1)
    return StatementFailedError(
        f"the server refused statement {packet.first + index + 1} of the schema, "
        f"'{shortened(packet.statements[index])}': {message_of(error)}",
        _SYNTAX_AND_SUCH_HINT,
    )


def _is_lost(error: BaseException) -> bool:
    """2006 gone away, 2013 lost during query, 0 a connection that is closed already; anything below the protocol."""
    return isinstance(error, OSError) or bool(error.args and error.args[0] in (0, 2006, 2013))
