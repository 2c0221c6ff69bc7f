"""The tables and rows in the data directory of a bench: inserted, counted, and recorded in its ledger."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from recovery.errors import RecoveryError, UsageError
from recovery.experiments.bench_starts import ServerStarts
from recovery.linux.files import sync_on_exit
from recovery.model import Contents
from recovery.mysqld.client import count_all_tables, message_of
from recovery.mysqld.datadir import DataDir, DataDirs, copy_data, removal_hint
from recovery.report.fmt import count_text
from recovery.workload.inserts import HEARTBEAT, InsertsFailedError, count_rows, execute_inserts, tables_of

_DROPPED_AT_ONCE = 1000
"""Tables in one statement: servers search all locks of a statement for each of its tables."""


def drop_schema(cursor: Cursor, name: str) -> None:
    """Drops the schema, if there is one, in statements that do not become slower with the number of tables."""
    cursor.execute("select table_name from information_schema.tables where table_schema = %s", (name,))
    tables = [f"{name}.{table}" for (table,) in cursor.fetchall()]
    for first in range(0, len(tables), _DROPPED_AT_ONCE):
        cursor.execute(f"drop table if exists {', '.join(tables[first : first + _DROPPED_AT_ONCE])}")
    cursor.execute(f"drop schema if exists {name}")


def _drop_temporary_schemas(datadir: DataDir, connection: Connection[Cursor]) -> None:
    """Drops the temporary schemas, also those of a killed run; raises RecoveryError if the server cannot. Statements
    about all tables would count their tables, and a start would open them."""
    for name in datadir.state.temporary_schemas:
        try:
            with connection.cursor() as cursor:
                drop_schema(cursor, name)
        except pymysql.MySQLError as error:
            raise RecoveryError(
                f"the temporary schema {name} in {datadir.path} cannot be dropped: {message_of(error)}",
                removal_hint(datadir.path),
            ) from error


class BenchContents:
    """The tables and rows of a bench's data directory, and the ledger of the acknowledged rows."""

    def __init__(self, starts: ServerStarts) -> None:
        self._starts = starts
        self._server, self._datadir = starts.server, starts.datadir
        self._schema, self._conditions = starts.schema, starts.conditions
        self._acknowledged = Counter[str]()
        """Acknowledged rows by table that are not yet in the ledger."""

    def restore(self) -> None:
        """Puts a fresh copy of the user's own data directory in place of the one that the last server changed."""
        self._starts.cache.forget_reads()
        self._starts.on_step("copying the data directory")
        shutil.rmtree(self._datadir.mysql, ignore_errors=True)
        with sync_on_exit(self._datadir.path):
            copy_data(self._datadir.original, self._datadir.mysql)
        self._server.measure_redo()
        self._starts.on_restored()

    def run_inserts(self) -> None:
        """Runs the insert script.

        The ledger is written only after the server has ended: nothing may come between the inserts and the SIGKILL. If
        this process dies before that, the directory is still marked as in use, and its rows are counted again."""
        self._starts.on_step("inserting")
        if not self._conditions.statements:
            with self._server.session() as connection:
                connection.query(HEARTBEAT)
            return
        with self._server.session() as connection:
            try:
                acknowledged = execute_inserts(connection, self._conditions.statements)
            except InsertsFailedError as error:
                self._acknowledged.update(error.acknowledged)
                failure = self._server.failure(error.message)
                if self._server.alive:
                    raise  # the server rejects the script, and would do so in every trial
                raise failure from error
        self._acknowledged.update(acknowledged)

    @contextmanager
    def temporary_schema(self, name: str) -> Iterator[None]:
        """Creates a schema for the block, and drops it with its tables afterwards.

        The data directory's state names it meanwhile, so that it is dropped even if this process is killed."""
        self.create_temporary_schema(name)
        yield
        self.drop_temporary_schemas()

    def create_temporary_schema(self, name: str) -> None:
        """Creates a schema that `drop_temporary_schemas()` drops, also one that is there."""
        state = self._datadir.state
        if name not in state.temporary_schemas and (self._datadir.mysql / name).is_dir():
            raise UsageError(
                f"the data directory {self._datadir.path} has a schema {name}, which this experiment would drop",
                f"name another schema for the tables (--database); {removal_hint(self._datadir.path)}",
            )
        self._datadir.save(replace(state, temporary_schemas=(*state.temporary_schemas, name)))
        with self._server.session() as connection, connection.cursor() as cursor:
            drop_schema(cursor, name)
            cursor.execute(f"create schema {name}")

    def drop_temporary_schemas(self) -> None:
        if self._datadir.state.temporary_schemas:
            with self._server.session() as connection:
                _drop_temporary_schemas(self._datadir, connection)
            self._datadir.save(replace(self._datadir.state, temporary_schemas=()))

    def count(self) -> Contents:
        """Counts the tables and rows of the running server."""
        self._starts.on_step("counting rows and tables")
        self._starts.describe()
        state = self._datadir.state
        with self._server.session() as connection:
            rows_found = count_rows(connection, tuple(state.rows))
            # How many tables the dictionary of a directory as it is should have is not known, only its files are.
            is_as_is = self._starts.is_as_is
            tables_found = self._starts.files.count() if is_as_is else count_all_tables(connection, self._schema)
        return Contents(
            tables_expected=state.tables or self._schema.total_tables,
            tables_found=tables_found,
            rows_expected=sum(state.rows.values()),
            rows_found=sum(rows_found.values()),
            rows_lost=sum(max(0, rows - rows_found[table]) for table, rows in state.rows.items()),
        )

    def claim_and_recount(self) -> bool:
        """Marks the data directory as in use; returns whether it already was, because an earlier run died.

        In that case the server is started, the contents are counted, and the server is stopped again. The same happens
        if the insert script names tables that were never counted, or if a killed run left a temporary schema. Raises
        RecoveryError if the number of tables is wrong."""
        if self._starts.is_as_is:  # each run begins with another copy
            return False
        dirty = self._datadir.state.status == "in_use"
        new_tables = set(tables_of(self._conditions.statements)) - set(self._datadir.state.rows)
        self._datadir.save(replace(self._datadir.state, status="in_use"))
        if dirty or new_tables or self._datadir.state.temporary_schemas:
            self._recount((*self._datadir.state.rows, *sorted(new_tables)))
        return dirty

    def recount_after_failure(self) -> None:
        """Ends the server of a failed trial, starts it again, and counts tables and rows.

        The start does not use the settings of the failed variant, which may be what prevented the server's start."""
        self._server.close()
        if self._starts.is_as_is:
            return
        self._starts.reset_variant()
        self._recount(tuple(self._datadir.state.rows))

    def set_aside(self, copy: Path | None = None) -> str | None:
        """Keeps the files that the server failed to start with (this directory, or a copy); returns where, in words.

        Returns None if this session has already kept one for this directory, or if it cannot be kept."""
        try:
            kept = DataDirs(self._datadir.path.parent).set_aside(self._datadir, self._conditions.session, copy=copy)
        except RecoveryError as error:
            self._starts.add_note(
                f"The files that {self._server.build.version} failed on could not be kept: {error.message}."
            )
            return None
        return None if kept is None else f"its data directory is kept as {kept}"

    def mark_whole(self) -> None:
        """Marks the directory as whole after a clean stop, so that the next session need not count its contents."""
        self._datadir.save(replace(self._datadir.state, status="whole"))

    def _recount(self, tables: tuple[str, ...]) -> None:
        """Starts the server, drops temporary schemas if there are any, counts tables and rows, and saves the ledger."""
        self._starts.cache.forget_reads()
        self._acknowledged.clear()
        self._starts.start()
        self._starts.on_step("counting rows and tables")
        with self._server.session() as connection:
            if self._datadir.state.temporary_schemas:
                self._starts.on_step("dropping tables that a killed run left")
                _drop_temporary_schemas(self._datadir, connection)
                self._starts.on_step("counting rows and tables")
            count = count_all_tables(connection, self._schema)
            if count != self._datadir.state.tables:
                raise RecoveryError(
                    f"the data directory {self._datadir.path} holds {count_text(count, 'table')} instead of "
                    f"{self._datadir.state.tables}",
                    removal_hint(self._datadir.path),
                )
            try:
                rows = count_rows(connection, tables)
            except pymysql.err.ProgrammingError as error:
                raise UsageError(
                    f"the insert script writes to a table that is not in the schema: {message_of(error)}",
                    "give --insert-template a script that fits the schema's template",
                ) from error
        self._starts.stop()
        self._datadir.save(replace(self._datadir.state, rows=rows, temporary_schemas=()))

    def write_ledger(self) -> None:
        """Adds the acknowledged rows to the ledger. Called when the server has ended."""
        if self._acknowledged:
            rows = Counter(self._datadir.state.rows)
            rows.update(self._acknowledged)
            self._datadir.save(replace(self._datadir.state, rows=dict(rows)))
            self._acknowledged.clear()
