"""Who writes to a server until it is killed, and knows what it had promised? The insert script, a load, definitions."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

import pymysql

from recovery.builds.packages import Tool
from recovery.errors import RecoveryError, TrialVoidError
from recovery.experiments import ddl_history
from recovery.experiments.consistency import catalogue
from recovery.experiments.ddl_history import Catalogue, Found, Step, first_of
from recovery.linux.files import template_dir
from recovery.model import can
from recovery.mysqld.server import Server
from recovery.workload.inserts import InsertsFailedError, count_rows, fire, table_of, tables_of
from recovery.workload.sysbench import AT_WORK, Client, calling

# What had been promised to each client of a write load, and which transactions does the server hold? Pure.
#
# Each client numbers its transactions, and writes down, outside the server, which ones it was told are committed, and
# which ones it has rolled back. A transaction puts its number into several tables, and into the client's balance.

COMMITTED, ROLLED_BACK = "c", "r"
"""At the beginning of a journal's line; then comes the number, and the monotonic clock when the answer had come."""
ROLLED_BACK_EVERY = 10
"""Transactions: so the client decides by the number, and the one under way at the kill is known, too."""


@dataclass(frozen=True)
class Answer:
    number: int
    at_s: float


@dataclass(frozen=True)
class Journal:
    client: int
    committed: tuple[Answer, ...] = ()
    rolled_back: tuple[Answer, ...] = ()

    @property
    def under_way(self) -> int:
        """The transaction that may or may not have been sent when the server was killed."""
        return max((one.number for one in (*self.committed, *self.rolled_back)), default=0) + 1

    @property
    def may_be_there(self) -> frozenset[int]:
        """The server need not have, but may have, committed what it was still to answer."""
        found = {one.number for one in self.committed}
        return frozenset(found | ({self.under_way} if self.under_way % ROLLED_BACK_EVERY else set()))


@dataclass(frozen=True)
class Held:
    """By the server, of one client."""

    tables: tuple[frozenset[int], ...] = ()
    """The numbers that each table has."""
    balance: int = 0

    @property
    def whole(self) -> frozenset[int]:
        return frozenset.intersection(*self.tables) if self.tables else frozenset()

    @property
    def partly(self) -> frozenset[int]:
        return frozenset().union(*self.tables)


def read_journal(client: int, text: str) -> Journal:
    """A last line without its end was being written when its client was ended: its transaction counts as under way."""
    found: dict[str, list[Answer]] = {COMMITTED: [], ROLLED_BACK: []}
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        try:
            what, number, at_s = line.split()
            found[what].append(Answer(int(number), float(at_s)))
        except (ValueError, KeyError) as error:
            raise TrialVoidError(
                f"the journal of client {client} has a line that is none: {line.strip()[:60]}",
                "its disk may be full; without the journal nothing is known of what was acknowledged",
            ) from error
    return Journal(client, tuple(found[COMMITTED]), tuple(found[ROLLED_BACK]))


def compare(journals: Sequence[Journal], held: Sequence[Held], *, killed_at_s: float) -> Found:
    """`held` in the order of the journals."""
    pairs = tuple(zip(journals, held, strict=True))
    lost = [(journal.client, one) for journal, there in pairs for one in _lost(journal, there)]
    ghosts = [(journal.client, one) for journal, there in pairs for one in there.partly - journal.may_be_there]
    torn = [(journal.client, one) for journal, there in pairs for one in _torn(there)]
    holes = sum(one.number < max(there.whole, default=0) for journal, there in pairs for one in _lost(journal, there))
    oldest_s = min((one.at_s for _, one in lost), default=None)
    return Found(
        acknowledged=sum(len(journal.committed) for journal in journals),
        lost=len(lost),
        lost_window_s=None if oldest_s is None else max(0.0, killed_at_s - oldest_s),
        ghosts=len(ghosts),
        torn=len(torn),
        holes=holes,
        examples=(
            *first_of(_told(((client, one.number) for client, one in lost), "lost")),
            *first_of(_told(ghosts, "not to be there")),
            *first_of(_told(torn, "torn")),
        ),
    )


def _lost(journal: Journal, there: Held) -> Iterator[Answer]:
    return (one for one in journal.committed if one.number not in there.whole)


def _torn(there: Held) -> Iterator[int]:
    yield from sorted(there.partly - there.whole)
    if there.balance != max(there.whole, default=0):
        yield there.balance


def _told(found: Iterable[tuple[int, int]], what: str) -> Iterator[str]:
    return (f"transaction {number:,} of client {client} is {what}" for client, number in found)


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
            f"--journals={self._folder}", f"--tables={_TABLES}", f"--rollback-every={ROLLED_BACK_EVERY}", "run",
        ]  # fmt: skip

    def end(self) -> None:
        self._running.close()

    def compare(self, server: Server, *, killed_at_s: float) -> Found:
        journals = [read_journal(client, self._written_by(client)) for client in range(CLIENTS)]
        return compare(journals, _held(server), killed_at_s=killed_at_s)

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


def _held(server: Server) -> list[Held]:
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
        Held(tuple(frozenset(found[client]) for found in tables), balances.get(client, 0)) for client in range(CLIENTS)
    ]


class Definitions:
    """One client that makes, alters, renames and drops tables."""

    databases = (ddl_history.DATABASE,)

    def __init__(self, chance: Random) -> None:
        self._steps = ddl_history.steps(chance)
        self._answered: list[tuple[Step, float]] = []
        self._under_way: Step | None = None
        self._refused: RecoveryError | None = None
        self._thread: threading.Thread | None = None
        self._news = threading.Condition()
        self._is_over = False

    def begin(self, server: Server) -> None:
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute(f"create schema {ddl_history.DATABASE}")
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
            there: Catalogue = catalogue(connection, ddl_history.DATABASE)
        atomic = can(server.build.version, "atomic_definitions")
        return ddl_history.compare(self._answered, self._under_way, there, killed_at_s=killed_at_s, atomic=atomic)


def _is_gone(error: pymysql.MySQLError | OSError) -> bool:
    """The server, and did not refuse a statement."""
    if isinstance(error, pymysql.err.OperationalError):
        number = error.args[0] if error.args else 0
        return not isinstance(number, int) or number == 0 or number >= _OF_THE_CLIENT
    return isinstance(error, pymysql.err.InterfaceError | OSError)


def _close(connection: pymysql.Connection) -> None:
    with suppress(pymysql.Error, OSError):
        connection.close()
