"""Who writes to a server until it is killed, and knows what it had promised? The insert script, a load, definitions."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Protocol

import pymysql

from recovery.builds.tools import Tool
from recovery.crash import definitions, journal
from recovery.crash.definitions import Catalogue, Step
from recovery.crash.dictionary import catalogue
from recovery.crash.found import Found
from recovery.errors import RecoveryError, TrialVoidError
from recovery.load.clients import Client
from recovery.load.insert import InsertsFailedError, count_rows, fire, table_of, tables_of
from recovery.load.sysbench import AT_WORK, calling
from recovery.paths import template_dir
from recovery.server.server import Server
from recovery.versions import can

LOAD = "crash_load"
"""A schema of its own."""
CLIENTS = 4
_TABLES = 3
_PREPARING_S = 30.0
_LONGEST_S = 60.0
_OF_THE_CLIENT = 2000
"""Numbers of errors from here on tell that there is no server any more."""
_NO_ERROR = 9999
"""That no server knows: sysbench goes on after those that it is told to ignore, under the same number."""


class Witness(Protocol):
    @property
    def databases(self) -> tuple[str, ...]:
        """That it makes."""

    def begin(self, server: Server) -> None:
        """It writes from here on, beside whoever called."""

    def end(self) -> None:
        """After the kill; nothing of it is left running."""

    def compare(self, server: Server, *, killed_at_s: float) -> Found:
        """With what the recovered server holds."""


class Inserts:
    """One client and its script, a row and a commit at a time."""

    databases: tuple[str, ...] = ()
    """None but those that lie there anyway."""

    def __init__(self, statements: Sequence[str]) -> None:
        self._statements = statements
        self._before: Mapping[str, int] = {}
        self._acknowledged: Mapping[str, int] = {}
        self._thread: threading.Thread | None = None

    def begin(self, server: Server) -> None:
        with server.session() as connection:
            self._before = count_rows(connection, tables_of(self._statements))
        connection = server.connect()

        def write() -> None:
            try:
                self._acknowledged = fire(connection, self._statements)
            except InsertsFailedError as error:
                self._acknowledged = error.acknowledged
            finally:
                _close(connection)

        self._thread = threading.Thread(target=write, name="insert script", daemon=True)
        self._thread.start()

    def end(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def compare(self, server: Server, *, killed_at_s: float) -> Found:  # noqa: ARG002 - no answer was timed
        with server.session() as connection:
            there = count_rows(connection, self._before)
        return compare_inserts(
            self._statements,
            acknowledged=self._acknowledged,
            there={table: rows - self._before[table] for table, rows in there.items()},
        )


def compare_inserts(statements: Sequence[str], *, acknowledged: Mapping[str, int], there: Mapping[str, int]) -> Found:
    """One client wrote them in this order: what is there must be the first so many of them."""
    tables = [table_of(statement) for statement in statements]
    promised, held = sum(acknowledged.values()), sum(there.values())
    lost = sum(max(0, rows - there.get(table, 0)) for table, rows in acknowledged.items())
    in_order = Counter(tables[:held]) == Counter({table: rows for table, rows in there.items() if rows})
    return Found(
        acknowledged=promised,
        lost=lost,
        # One more than was acknowledged may have been under way.
        ghosts=max(0, held - promised - 1),
        holes=0 if in_order else 1,
        examples=() if in_order else (f"{held} rows are there, and not the first {held} of the script",),
    )


class Journalled:
    """Clients of sysbench with a script of ours; each keeps a journal outside the server."""

    databases = (LOAD,)

    def __init__(self, program: Tool, folder: Path, chance: Random) -> None:
        self._program = program
        self._folder = folder
        self._seed = chance.randrange(1, 2**31)
        self._running = ExitStack()

    def begin(self, server: Server) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute(f"create schema {LOAD}")
            for number in range(1, _TABLES + 1):
                cursor.execute(
                    f"create table {LOAD}.ledger_{number} (client int not null, number int not null, "
                    "filler varchar(500) not null, primary key (client, number)) engine=innodb"
                )
            cursor.execute(f"create table {LOAD}.balance (client int primary key, number int not null) engine=innodb")
            zeros = ", ".join(f"({client}, 0)" for client in range(CLIENTS))
            cursor.execute(f"insert into {LOAD}.balance values {zeros}")  # noqa: S608 - of numbers
        client = self._running.enter_context(Client("sysbench", self._command(server)))
        if not client.has_said(AT_WORK, _PREPARING_S):
            client.wait(0)  # raises why it has failed
            raise RecoveryError("sysbench ended before it had begun", "look at the server's error log")

    def _command(self, server: Server) -> list[str]:
        script = str(template_dir() / "journal.lua")
        called = calling(script, program=self._program.path, socket=server.socket, database=LOAD, threads=CLIENTS)
        return [
            *called, "--time=0", f"--rand-seed={self._seed}", f"--mysql-ignore-errors={_NO_ERROR}",
            f"--journals={self._folder}", f"--tables={_TABLES}", f"--rollback-every={journal.ROLLED_BACK_EVERY}", "run",
        ]  # fmt: skip

    def end(self) -> None:
        self._running.close()

    def compare(self, server: Server, *, killed_at_s: float) -> Found:
        journals = [journal.read_journal(client, self._written_by(client)) for client in range(CLIENTS)]
        return journal.compare(journals, _held(server), killed_at_s=killed_at_s)

    def _written_by(self, client: int) -> str:
        """Each has made its own before it begins: one that is not there has not been empty."""
        try:
            return (self._folder / str(client)).read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise TrialVoidError(
                f"the journal of client {client} cannot be read: {error.strerror}; of what it was promised nothing is "
                "known",
                "somebody may have cleared the temporary folder (TMPDIR) meanwhile: measure again",
            ) from error


def _held(server: Server) -> list[journal.Held]:
    with server.session() as connection, connection.cursor() as cursor:
        tables = []
        for number in range(1, _TABLES + 1):
            found: dict[int, set[int]] = {client: set() for client in range(CLIENTS)}
            cursor.execute(f"select client, number from {LOAD}.ledger_{number}")  # noqa: S608 - names of ours
            for client, transaction in cursor.fetchall():
                found[client].add(transaction)
            tables.append(found)
        cursor.execute(f"select client, number from {LOAD}.balance")  # noqa: S608 - a name of ours
        balances = dict(cursor.fetchall())
    return [
        journal.Held(tuple(frozenset(found[client]) for found in tables), balances.get(client, 0))
        for client in range(CLIENTS)
    ]


class Definitions:
    """One client that makes, alters, renames and drops tables."""

    databases = (definitions.DATABASE,)

    def __init__(self, chance: Random) -> None:
        self._steps = definitions.steps(chance)
        self._answered: list[tuple[Step, float]] = []
        self._under_way: Step | None = None
        self._refused: RecoveryError | None = None
        self._thread: threading.Thread | None = None
        self._news = threading.Condition()
        self._is_over = False

    def begin(self, server: Server) -> None:
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute(f"create schema {definitions.DATABASE}")
        connection = server.connect()

        def write() -> None:
            try:
                with connection.cursor() as cursor:
                    for step in self._steps:
                        self._under_way = step
                        cursor.execute(step.statement)
                        with self._news:
                            self._answered.append((step, time.monotonic()))
                            self._news.notify()
            except (pymysql.MySQLError, OSError) as error:
                if not _is_gone(error):
                    self._refused = RecoveryError(
                        f"the server refuses '{self._under_way.statement if self._under_way else ''}': {error}",
                        "this is a mistake of the tool's: report it with this line",
                    )
            finally:
                with self._news:
                    self._is_over = True
                    self._news.notify()
                _close(connection)

        self._thread = threading.Thread(target=write, name="definitions", daemon=True)
        self._thread.start()

    def has_answered(self, many: int) -> None:
        """Returns once so many statements are answered, or nobody writes any more, or that takes too long."""
        with self._news:
            self._news.wait_for(lambda: len(self._answered) >= many or self._is_over, _LONGEST_S)

    def end(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def compare(self, server: Server, *, killed_at_s: float) -> Found:
        if self._refused is not None:
            raise self._refused
        with server.session() as connection:
            there: Catalogue = catalogue(connection, definitions.DATABASE)
        atomic = can(server.build.version, "atomic_definitions")
        return definitions.compare(self._answered, self._under_way, there, killed_at_s=killed_at_s, atomic=atomic)


def _is_gone(error: pymysql.MySQLError | OSError) -> bool:
    """The server, and did not refuse a statement."""
    if isinstance(error, pymysql.err.OperationalError):
        number = error.args[0] if error.args else 0
        return not isinstance(number, int) or number == 0 or number >= _OF_THE_CLIENT
    return isinstance(error, pymysql.err.InterfaceError | OSError)


def _close(connection: pymysql.Connection) -> None:
    with suppress(pymysql.Error, OSError):
        connection.close()
