"""Writers that keep a server busy until it is killed, and then compare its contents with what it had acknowledged.

There are three: the insert script, a sysbench load with journals, and a stream of DDL statements."""

from __future__ import annotations

import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

import pymysql

from recovery.builds.packages import Tool
from recovery.crash.consistency import read_catalogue
from recovery.crash.crash_findings import DDL_DATABASE, Violations, first_examples
from recovery.crash.ddl_history import Step, compare_catalogues, generate_steps
from recovery.errors import RecoveryError, TrialVoidError
from recovery.linux.files import template_dir
from recovery.loads.sysbench import THREADS_STARTED, Client, base_command
from recovery.model import can
from recovery.mysqld.server import Server
from recovery.workload.inserts import InsertsFailedError, count_rows, execute_inserts, table_of, tables_of

# --- Comparison of the clients' journals with the recovered tables (pure functions)
#
# Each client numbers its transactions and keeps a journal outside the server of those that the server has acknowledged
# as committed and those that it has rolled back. A transaction writes its number into several tables and into the
# client's balance.

COMMITTED, ROLLED_BACK = "c", "r"
"""First field of a line in a journal. The number follows, then the time of the answer on the monotonic clock."""
ROLLED_BACK_EVERY = 10
"""One in so many transactions is rolled back. The number decides which, so that the intended end of the transaction at
the kill is known, too."""


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
        """Number of the transaction that may have been sent, but was not answered, when the server was killed."""
        return max((answer.number for answer in (*self.committed, *self.rolled_back)), default=0) + 1

    @property
    def may_be_there(self) -> frozenset[int]:
        """Transactions that may be in the tables: the committed ones, and the unanswered one unless it rolls back."""
        committed = {answer.number for answer in self.committed}
        return frozenset(committed | ({self.under_way} if self.under_way % ROLLED_BACK_EVERY else set()))


@dataclass(frozen=True)
class ServerContents:
    """What the recovered server has of one client."""

    tables: tuple[frozenset[int], ...] = ()
    """Transaction numbers in each table."""
    balance: int = 0

    @property
    def whole(self) -> frozenset[int]:
        """Transactions that are in all tables."""
        return frozenset.intersection(*self.tables) if self.tables else frozenset()

    @property
    def partly(self) -> frozenset[int]:
        """Transactions that are in at least one table."""
        return frozenset().union(*self.tables)


def read_journal(client: int, text: str) -> Journal:
    """Reads the journal of a client; raises TrialVoidError if a line is malformed.

    A last line without a line end was being written when the client was ended: its transaction counts as unanswered."""
    answers: dict[str, list[Answer]] = {COMMITTED: [], ROLLED_BACK: []}
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        try:
            what, number, at_s = line.split()
            answers[what].append(Answer(int(number), float(at_s)))
        except (ValueError, KeyError) as error:
            raise TrialVoidError(
                f"the journal of client {client} has an invalid line: {line.strip()[:60]}",
                "its disk may be full; without the journal the acknowledged writes are unknown",
            ) from error
    return Journal(client, tuple(answers[COMMITTED]), tuple(answers[ROLLED_BACK]))


def compare_journals(journals: Sequence[Journal], held: Sequence[ServerContents], *, killed_at_s: float) -> Violations:
    """Compares each journal with what the server has of the same client; both sequences are in the same order."""
    pairs = tuple(zip(journals, held, strict=True))
    lost = [(journal.client, answer) for journal, there in pairs for answer in _lost(journal, there)]
    ghosts = [(journal.client, number) for journal, there in pairs for number in there.partly - journal.may_be_there]
    torn = [(journal.client, number) for journal, there in pairs for number in _torn(there)]
    holes = sum(
        answer.number < max(there.whole, default=0) for journal, there in pairs for answer in _lost(journal, there)
    )
    oldest_s = min((answer.at_s for _, answer in lost), default=None)
    return Violations(
        acknowledged=sum(len(journal.committed) for journal in journals),
        lost=len(lost),
        lost_window_s=None if oldest_s is None else max(0.0, killed_at_s - oldest_s),
        ghosts=len(ghosts),
        torn=len(torn),
        holes=holes,
        examples=(
            *first_examples(_describe_transactions(((client, answer.number) for client, answer in lost), "lost")),
            *first_examples(_describe_transactions(ghosts, "unexpected")),
            *first_examples(_describe_transactions(torn, "torn")),
        ),
    )


def _lost(journal: Journal, there: ServerContents) -> Iterator[Answer]:
    return (answer for answer in journal.committed if answer.number not in there.whole)


def _torn(there: ServerContents) -> Iterator[int]:
    yield from sorted(there.partly - there.whole)
    if there.balance != max(there.whole, default=0):
        yield there.balance


def _describe_transactions(transactions: Iterable[tuple[int, int]], what: str) -> Iterator[str]:
    return (f"transaction {number:,} of client {client} is {what}" for client, number in transactions)


# --- The writers

LOAD_DATABASE = "crash_load"
CLIENTS = 4
_TABLES = 3
_PREPARING_S = 30.0
_LONGEST_S = 60.0
_FIRST_CLIENT_ERROR = 2000
"""Error numbers from here on come from the client library: the server is gone."""
_UNUSED_ERROR = 9999
"""An error number that no server uses, so that sysbench ignores no error: after an ignored one it would continue with
the same transaction number."""


class Writer(Protocol):
    """A writer that can compare what the server acknowledged with what it has after its recovery."""

    @property
    def databases(self) -> tuple[str, ...]:
        """Schemas that the writer creates."""

    def begin(self, server: Server) -> None:
        """Starts to write in the background."""

    def end(self) -> None:
        """Ends the writer after the kill and waits for it."""

    def compare(self, server: Server, *, killed_at_s: float) -> Violations:
        """Compares the acknowledged writes with the contents of the recovered server."""


class ThreadWriter(ABC):
    """A writer that uses one connection, in a thread."""

    _thread: threading.Thread | None = None

    @abstractmethod
    def _prepare(self, server: Server) -> None:
        """Prepares the server before the first write."""

    @abstractmethod
    def _write(self, connection: pymysql.Connection) -> None:
        """Writes until the server is gone."""

    def begin(self, server: Server) -> None:
        self._prepare(server)
        connection = server.connect()

        def write() -> None:
            try:
                self._write(connection)
            finally:
                with suppress(pymysql.Error, OSError):
                    connection.close()

        self._thread = threading.Thread(target=write, name=type(self).__name__, daemon=True)
        self._thread.start()

    def end(self) -> None:
        if self._thread is not None:
            self._thread.join()


class InsertWriter(ThreadWriter):
    """Writes the insert script over one connection, one row and one commit at a time."""

    databases: tuple[str, ...] = ()
    """Empty: the script writes to tables that already exist."""

    def __init__(self, statements: Sequence[str]) -> None:
        self._statements = statements
        self._before: Mapping[str, int] = {}
        self._acknowledged: Mapping[str, int] = {}

    def _prepare(self, server: Server) -> None:
        with server.session() as connection:
            self._before = count_rows(connection, tables_of(self._statements))

    def _write(self, connection: pymysql.Connection) -> None:
        try:
            self._acknowledged = execute_inserts(connection, self._statements)
        except InsertsFailedError as error:
            self._acknowledged = error.acknowledged

    def compare(self, server: Server, *, killed_at_s: float) -> Violations:  # noqa: ARG002 - no answer was timed
        with server.session() as connection:
            there = count_rows(connection, self._before)
        return compare_inserts(
            self._statements,
            acknowledged=self._acknowledged,
            there={table: rows - self._before[table] for table, rows in there.items()},
        )


def compare_inserts(
    statements: Sequence[str], *, acknowledged: Mapping[str, int], there: Mapping[str, int]
) -> Violations:
    """Compares the rows that are `there` with the acknowledged ones.

    One client wrote the rows in the order of the script, so those that are there must be its first ones."""
    tables = [table_of(statement) for statement in statements]
    promised, held = sum(acknowledged.values()), sum(there.values())
    lost = sum(max(0, rows - there.get(table, 0)) for table, rows in acknowledged.items())
    in_order = Counter(tables[:held]) == Counter({table: rows for table, rows in there.items() if rows})
    return Violations(
        acknowledged=promised,
        lost=lost,
        # One statement may have been executed without its answer having arrived.
        ghosts=max(0, held - promised - 1),
        holes=0 if in_order else 1,
        examples=() if in_order else (f"the {held} rows that are there are not the first {held} of the script",),
    )


class JournalWriter:
    """Runs sysbench clients with the script `journal.lua`, in which each keeps a journal outside the server."""

    databases = (LOAD_DATABASE,)

    def __init__(self, program: Tool, folder: Path, rng: Random) -> None:
        self._program = program
        self._folder = folder
        self._seed = rng.randrange(1, 2**31)
        self._running = ExitStack()

    def begin(self, server: Server) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute(f"create schema {LOAD_DATABASE}")
            for number in range(1, _TABLES + 1):
                cursor.execute(
                    f"create table {LOAD_DATABASE}.ledger_{number} (client int not null, number int not null, "
                    "filler varchar(500) not null, primary key (client, number)) engine=innodb"
                )
            cursor.execute(
                f"create table {LOAD_DATABASE}.balance (client int primary key, number int not null) engine=innodb"
            )
            zeros = ", ".join(f"({client}, 0)" for client in range(CLIENTS))
            cursor.execute(f"insert into {LOAD_DATABASE}.balance values {zeros}")  # noqa: S608 - of numbers
        client = self._running.enter_context(Client("sysbench", self._command(server)))
        if not client.has_said(THREADS_STARTED, _PREPARING_S):
            client.wait(0)  # raises why it has failed
            raise RecoveryError("sysbench ended before its clients were ready", "see the server's error log")

    def _command(self, server: Server) -> list[str]:
        script = str(template_dir() / "journal.lua")
        called = base_command(
            script, program=self._program.path, socket=server.socket, database=LOAD_DATABASE, threads=CLIENTS
        )
        return [
            *called, "--time=0", f"--rand-seed={self._seed}", f"--mysql-ignore-errors={_UNUSED_ERROR}",
            f"--journals={self._folder}", f"--tables={_TABLES}", f"--rollback-every={ROLLED_BACK_EVERY}", "run",
        ]  # fmt: skip

    def end(self) -> None:
        self._running.close()

    def compare(self, server: Server, *, killed_at_s: float) -> Violations:
        journals = [read_journal(client, self._written_by(client)) for client in range(CLIENTS)]
        return compare_journals(journals, _read_contents(server), killed_at_s=killed_at_s)

    def _written_by(self, client: int) -> str:
        """Returns the text of a client's journal; raises TrialVoidError if it cannot be read.

        Every client creates its journal before its first transaction, so a missing one does not mean an empty one."""
        try:
            return (self._folder / str(client)).read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise TrialVoidError(
                f"the journal of client {client} cannot be read: {error.strerror}; its acknowledged writes are unknown",
                "the temporary folder (TMPDIR) may have been cleared meanwhile: measure again",
            ) from error


def _read_contents(server: Server) -> list[ServerContents]:
    with server.session() as connection, connection.cursor() as cursor:
        tables = []
        for number in range(1, _TABLES + 1):
            transactions: dict[int, set[int]] = {client: set() for client in range(CLIENTS)}
            cursor.execute(f"select client, number from {LOAD_DATABASE}.ledger_{number}")  # noqa: S608 - names of ours
            for client, transaction in cursor.fetchall():
                transactions[client].add(transaction)
            tables.append(transactions)
        cursor.execute(f"select client, number from {LOAD_DATABASE}.balance")  # noqa: S608 - a name of ours
        balances = dict(cursor.fetchall())
    return [
        ServerContents(tuple(frozenset(transactions[client]) for transactions in tables), balances.get(client, 0))
        for client in range(CLIENTS)
    ]


class DdlWriter(ThreadWriter):
    """Creates, alters, renames and drops tables over one connection."""

    databases = (DDL_DATABASE,)

    def __init__(self, rng: Random) -> None:
        self._steps = generate_steps(rng)
        self._answered: list[tuple[Step, float]] = []
        self._under_way: Step | None = None
        self._refused: RecoveryError | None = None
        self._news = threading.Condition()
        self._is_over = False

    def _prepare(self, server: Server) -> None:
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute(f"create schema {DDL_DATABASE}")

    def _write(self, connection: pymysql.Connection) -> None:
        try:
            with connection.cursor() as cursor:
                for step in self._steps:
                    self._under_way = step
                    cursor.execute(step.statement)
                    with self._news:
                        self._answered.append((step, time.monotonic()))
                        self._news.notify()
        except (pymysql.MySQLError, OSError) as error:
            if not _means_server_gone(error):
                self._refused = RecoveryError(
                    f"the server refuses '{self._under_way.statement if self._under_way else ''}': {error}",
                    "this is a bug of this tool: report it with this line",
                )
        finally:
            with self._news:
                self._is_over = True
                self._news.notify()

    def has_answered(self, many: int) -> None:
        """Waits until this many statements are answered; gives up when the writer has ended, or after a minute."""
        with self._news:
            self._news.wait_for(lambda: len(self._answered) >= many or self._is_over, _LONGEST_S)

    def compare(self, server: Server, *, killed_at_s: float) -> Violations:
        if self._refused is not None:
            raise self._refused
        with server.session() as connection:
            there = read_catalogue(connection, DDL_DATABASE)
        atomic = can(server.build.version, "atomic_definitions")
        return compare_catalogues(self._answered, self._under_way, there, killed_at_s=killed_at_s, atomic=atomic)


def _means_server_gone(error: pymysql.MySQLError | OSError) -> bool:
    """Returns whether the error means that the server is gone, not that it rejected a statement."""
    if isinstance(error, pymysql.err.OperationalError):
        number = error.args[0] if error.args else 0
        return not isinstance(number, int) or number == 0 or number >= _FIRST_CLIENT_ERROR
    return isinstance(error, pymysql.err.InterfaceError | OSError)
