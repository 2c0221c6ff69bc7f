"""The bench: all operations of an experiment on one server, its data directory and the page cache.

It starts, stops and kills the server, sets the state of the page cache, writes and counts rows, and describes the
server for the report. It also measures the storage floor over the server's files."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from recovery.analysis.effective_options import same_effective_options
from recovery.builds.packages import Tool
from recovery.errors import RecoveryError, ServerFailedError, ServerKilledError, TrialVoidError, UsageError
from recovery.experiments.before_start import run_before_start
from recovery.linux.files import data_extents, open_for_reading, sync_on_exit, walk_files
from recovery.linux.page_cache import (
    CacheDropper,
    flush_caches,
    make_cold,
    measure_residency,
    prove_cold,
)
from recovery.linux.storage import device_of
from recovery.model import (
    Build,
    Cache,
    ColdProof,
    Contents,
    ExtraRun,
    Measurement,
    OpenedFiles,
    Phase,
    Schema,
    StackSamples,
    Variant,
)
from recovery.mysqld.client import count_all_tables, create_limited_user, message_of, run_to_last_row
from recovery.mysqld.datadir import DataDir, DataDirs, State, copy_data, removal_hint
from recovery.mysqld.options import (
    adapt_redo_capacity,
    base_settings,
    every_start_settings,
    merge,
    timed_only_settings,
    wait_counting_settings,
)
from recovery.mysqld.phases import with_traced_check
from recovery.mysqld.server import Server, StartCompanion
from recovery.mysqld.table_files import TableFiles, make_tables_cold, resident_share, table_files
from recovery.workload.first_queries import NamedQueries, first_queries
from recovery.workload.inserts import HEARTBEAT, InsertsFailedError, count_rows, execute_inserts, tables_of

if TYPE_CHECKING:  # imported below where a session traces, samples stacks or measures the floor
    from recovery.linux.file_opens import TracedOpens
    from recovery.mysqld.launcher import ServerProcess
    from recovery.mysqld.read_floor import FloorTimes
    from recovery.profiling.profile import StackSampler


@dataclass(frozen=True)
class Conditions:
    statements: tuple[str, ...]
    """Statements of the rendered insert script."""
    as_published: bool = False
    """Whether pages that the insert script has read stay in the cache, as in the published experiment."""
    before_start: tuple[str, ...] = ()
    """A command of the user's to run before each timed start."""
    first_queries: str | NamedQueries = ()
    """Queries to time after each timed start."""
    dropper: CacheDropper | None = None
    """Drops the caches of the whole host; with None, files are evicted one by one."""
    foreign_statements: bool = False
    """Whether a template or query file of the user's is used. Statements on its tables then run as the limited user: a
    view of theirs could otherwise run a function as root."""
    timed_settings: tuple[tuple[str, str], ...] = ()
    """Options of the timed start only: a server accepts no inserts with them, so other starts do not use them."""
    trace: bool = False
    """Whether to record which table files each timed start opens."""
    samplers: tuple[str, ...] = ()
    """Programs that can take stack traces, best first."""
    programs: Mapping[str, Tool] = field(default_factory=dict)
    """Client programs such as sysbench, by name."""
    session: str = ""
    """Start time of the session, used in the names of data directories that are kept after failed starts."""


# --- Description of the server

EFFECTIVE_VARIABLES = (
    "version",
    "version_comment",
    "innodb_buffer_pool_size",
    "innodb_doublewrite",
    "innodb_file_per_table",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_force_recovery",
    "innodb_log_file_size",
    "innodb_log_files_in_group",
    "innodb_open_files",
    "innodb_page_size",
    "innodb_redo_log_capacity",
    "innodb_use_native_aio",
    "innodb_validate_tablespace_paths",
    "log_error_verbosity",
    "log_warnings",
    "open_files_limit",
    "performance_schema",
    "sync_binlog",
    "table_definition_cache",
    "table_open_cache",
    "table_open_cache_instances",
)
"""Variables with values that are read from the running server: they may differ from the requested ones."""


def describe_build(build: Build, schema: Schema, state: State) -> dict[str, str]:
    """Returns what is known of a server and its tables before it is started, without values that are unknown."""
    # A start also reads the program, possibly from another disk than the data.
    device = device_of(build.basedir) if build.image is None else None
    known = {
        "source": build.source,
        "sha256": build.fingerprint,
        "image": build.image or None,
        "program_device": (device.device or device.filesystem or None) if device else None,
        "warnings": "; ".join(build.warnings) or None,
        "tables": schema.all_tables,
        "schemas": schema.own.schemas if schema.own else schema.databases,
        "layout": None if schema.own else schema.layout,
        "ibd_files": state.ibd_files,
        "data_bytes": state.bytes,
        "rows": schema.rows or None,
        "build_s": None if state.build_s is None else round(state.build_s, 2),
    }
    return {name: str(value) for name, value in known.items() if value is not None}


def describe_options(server: Server, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of the timed start and, under `@name`, each value in effect.

    The options are the server's own and those `given` for this start. The values in effect show which options a server
    ignores."""
    build = server.build
    options = merge(base_settings(build.version, rundir=Path("RUNDIR")), server.settings, given)
    command_line = " ".join(f"{name}={value}" if value else name for name, value in sorted(options.items()))
    requested = (name.removeprefix("loose_") for name in (*server.settings, *given))
    effective = {f"@{name}": value for name, value in server.variables((*EFFECTIVE_VARIABLES, *requested)).items()}
    return {"options": command_line, **effective}


def check_differs(label: str, described: Mapping[str, Mapping[str, str]]) -> None:
    """Raises TrialVoidError if the values in effect equal those of an earlier variant: it has been measured already."""
    mine = described[label]
    for other, known in described.items():
        if other == label:
            return
        if same := same_effective_options(mine, known):
            raise TrialVoidError(
                f"{' and '.join(map(str, same))}, as in {other or 'the variant without options'}, which is measured "
                "already",
                f"give values that the server does not change; it may open {mine.get('@open_files_limit', 'few')} "
                "files (OPEN_FILES=)",
            )


# --- Temporary schemas, and their cleanup after a killed run

_DROPPED_AT_ONCE = 1000
"""Tables in one statement: servers search all locks of a statement for each of its tables."""


def drop_schema(cursor: Cursor, name: str) -> None:
    """Drops the schema, if there is one, in statements that do not become slower with the number of tables."""
    cursor.execute("select table_name from information_schema.tables where table_schema = %s", (name,))
    tables = [f"{name}.{table}" for (table,) in cursor.fetchall()]
    for first in range(0, len(tables), _DROPPED_AT_ONCE):
        cursor.execute(f"drop table if exists {', '.join(tables[first : first + _DROPPED_AT_ONCE])}")
    cursor.execute(f"drop schema if exists {name}")


def drop_left_schemas(datadir: DataDir, connection: Connection[Cursor]) -> None:
    """Drops the temporary schemas of a killed run; raises RecoveryError if the server cannot. Statements about all
    tables would count their tables, and a start would open them."""
    for name in datadir.state.temporary_schemas:
        try:
            with connection.cursor() as cursor:
                drop_schema(cursor, name)
        except pymysql.MySQLError as error:
            raise RecoveryError(
                f"the schema {name}, which a killed run left in {datadir.path}, cannot be dropped: {message_of(error)}",
                removal_hint(datadir.path),
            ) from error


# --- Which table files a start opens, compared with those that were modified

_TIMESTAMP_TOLERANCE_S = 1.0
"""A file's timestamp may be this much earlier than the clock."""


class OpenedFilesTracer:
    """Compares the table files that a timed start opens with those modified since the last checkpoint before it.

    One tracer follows one server over one data directory. It must be notified of every start and end of the server."""

    def __init__(self, data: Path, files: TableFiles) -> None:
        self._data = data
        self._files = files
        self._began_s = 0.0
        self._last_end: tuple[int, float] | None = None
        """Checkpoint that the last server process left, and when that process was started."""
        self._before: tuple[int, float] | None = None
        """The same for the process before the timed start."""
        self._opens: TracedOpens | None = None
        self._resident_bytes: int | None = None

    def on_start(self) -> None:
        self._began_s = time.time() - _TIMESTAMP_TOLERANCE_S

    def on_ended(self) -> None:
        """Records the checkpoint of a server that has ended: its next start recovers what comes after it."""
        from recovery.mysqld.redo_log import checkpoint_lsn

        self._last_end = checkpoint_lsn(self._data), self._began_s

    def on_restored(self) -> None:
        """Records the checkpoint in files that were copied, which may have been written at any time."""
        self._began_s = 0.0
        self.on_ended()

    def trace(self, start: Callable[[], Measurement], process: Callable[[], ServerProcess]) -> Measurement:
        """Runs the timed start and records the files that it opens until its first answered query."""
        from recovery.linux.file_opens import OpenTrace

        self._before = self._last_end
        with OpenTrace(self._files.folders, self._files.holds) as trace:
            measured = start()
            server = process()
            opens = self._opens = trace.of(server.pid)
        self._resident_bytes = measure_residency(self._data).resident_bytes
        opened_s = (at_s - server.started_at for at_s in opens.fetched_s)
        phases = with_traced_check(measured.startup.phases, opened_s)
        return replace(measured, startup=replace(measured.startup, phases=phases))

    def result(self) -> OpenedFiles:
        """Returns the counts of opened and modified files.

        Call it after the clean shutdown that follows the traced start: only then the files contain all that was
        recovered."""
        from recovery.mysqld.redo_log import modified_since

        assert self._opens is not None, "nothing was traced"
        assert self._before is not None, "a server ended before the traced one began"
        checkpoint, began_s = self._before
        modified = modified_since(self._files, checkpoint, written_after_s=began_s)
        return OpenedFiles(
            tablespaces_opened=len(self._opens.files),
            tablespace_opens=self._opens.count,
            tablespaces_modified=len(modified),
            opened_unmodified=len(self._opens.files - modified),
            tablespaces_read=len(self._opens.read),
            read_unmodified=len(self._opens.read - modified),
            traced_by=self._opens.means,
            resident_after_bytes=self._resident_bytes,
        )


# --- The bench

_DEFAULT_VARIANT = Variant("", Cache.COLD)
"""A variant without settings of its own."""


class Bench:
    """One server and its data directory during a session, with all operations that experiments use."""

    def __init__(
        self,
        server: Server,
        datadir: DataDir,
        schema: Schema,
        *,
        conditions: Conditions,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.server = server
        self.datadir = datadir
        self.schema = schema
        self.conditions = conditions
        original = datadir.original if schema.own and schema.own.as_is else None
        self.files = table_files(datadir.mysql, schema, original=original)
        self._tracer = OpenedFilesTracer(datadir.mysql, self.files) if conditions.trace else None
        self.before_start_s: float | None = None
        """Seconds of the user's command before the last timed start; None without one."""
        self.last_read_bytes: float | None = None
        """Bytes that the last timed start read from storage; None once anything else has changed the cache."""
        self.on_step = on_step
        """Called with a description of each step before it begins."""
        self.notes: list[str] = []
        """Notes for the report about the trials on this bench."""
        self.run_notes: list[str] = []
        """Notes about the run that is under way."""
        self._variant = _DEFAULT_VARIANT
        self._extra: ExtraRun | None = None
        self.repeat = 1
        """Number of the run of this variant. It seeds random choices, so that they are the same in another session."""
        self._collect_stacks: Callable[[], StackSamples] | None = None
        """Returns the stack samples of the last timed start; None if it was not sampled."""
        self._described: dict[str, dict[str, str]] = {}
        """Server descriptions by the label of the variant, each asked for once."""
        self.cpus_shared = False
        """Whether server and clients share all CPUs because pinning the server was refused."""
        self.stopped_cleanly = datadir.state.status == "whole"
        """Whether the server was stopped cleanly and not started since: the ledger and the files agree."""
        self.can_recover = True
        """False if the server failed at the timed start of this trial, other than by a kill from outside."""
        self._untimed = 0
        self._acknowledged = Counter[str]()
        """Acknowledged rows by table that are not yet in the ledger."""

    # -- the server

    def configure(self, variant: Variant, *, extra: ExtraRun | None, repeat: int) -> None:
        """Sets the variant for the next starts; `extra` adds stack sampling or wait counting to what is measured."""
        known = adapt_redo_capacity(self.server.build.version, dict(variant.settings))
        self._variant = replace(variant, settings=tuple(known.items()))
        self._extra = extra
        self.repeat = repeat
        self.run_notes.clear()
        self.can_recover = True

    @property
    def description(self) -> dict[str, str]:
        return describe_build(self.server.build, self.schema, self.datadir.state) | self._described.get(
            self._variant.label, {}
        )

    @property
    def settings(self) -> dict[str, str]:
        return every_start_settings(dict(self._variant.settings))

    @property
    def _timed_settings(self) -> dict[str, str]:
        return dict(self.conditions.timed_settings) | timed_only_settings(dict(self._variant.settings))

    def start(self, log_name: str | None = None) -> None:
        """Starts the server without measuring. If it fails, the hint names the command that removes the data
        directory."""
        self._untimed += 1
        self.on_step("starting the server")
        try:
            self._start(log_name or f"untimed-{self._untimed}.err")
        except ServerFailedError as error:
            error.hint = error.hint or (
                f"check the server options, if you gave any; only if its files are damaged: "
                f"{removal_hint(self.datadir.path)}"
            )
            raise
        if self._variant.task is not None and self._variant.settings:
            self.describe()
            check_differs(self._variant.label, self._described)

    def timed_start(self, log_name: str) -> Measurement:
        sampling = self.stack_sampler()

        def start() -> Measurement:
            return self._start(log_name, self._timed_settings, companion=sampling.of if sampling else nullcontext)

        tracer = self._tracer
        self.on_step("timed start")
        try:
            measured = start() if tracer is None else tracer.trace(start, lambda: self.server.process)
        except ServerFailedError as error:
            self.can_recover = isinstance(error, ServerKilledError)
            raise
        self.last_read_bytes = measured.metrics.get("read_bytes")
        self._collect_stacks = None
        if sampling is not None:
            process, phases = self.server.process, measured.startup.phases
            self._collect_stacks = partial(
                sampling.samples, process.pid, since=process.started_at, phases=phases, note=self.run_notes.append
            )
        return self._with_first_queries(measured)

    def _with_first_queries(self, measured: Measurement) -> Measurement:
        """Runs the first queries, if there are any, and returns the start with a phase for each after its own."""
        given, phases = self.conditions.first_queries, list(measured.startup.phases)
        if not given:
            return measured
        self.on_step("first queries")
        since_s = self.server.process.started_at
        with self.user_session() as connection:
            for name, statement in first_queries(given, connection):
                began_s = time.monotonic() - since_s
                try:
                    run_to_last_row(connection, statement)
                except pymysql.MySQLError as error:
                    raise self.server.failure(f"the query '{name}' failed: {self.server.message_of(error)}") from error
                phases.append(Phase(name, began_s, time.monotonic() - since_s))
        return replace(measured, startup=replace(measured.startup, phases=tuple(phases)))

    def run_before_start(self) -> bool:
        """Runs the user's command for the next timed start, and returns whether there is one."""
        command = self.conditions.before_start
        if command:
            self.on_step("running BEFORE_START")
            self.before_start_s = run_before_start(command)
        return bool(command)

    @property
    def metrics(self) -> dict[str, float]:
        """The seconds of the user's command before the last timed start, and of the last clean shutdown."""
        found = {"before_start_s": self.before_start_s, "shutdown_s": self.server.shutdown_s}
        return {name: value for name, value in found.items() if value is not None}

    def stacks(self) -> StackSamples:
        """Returns the stack samples of the last timed start, if any were taken; the server must still run."""
        return StackSamples() if self._collect_stacks is None else self._collect_stacks()

    def stack_sampler(self) -> StackSampler | None:
        if self._extra is not ExtraRun.STACKS:
            return None
        from recovery.profiling.profile import StackSampler

        executable = self.server.build.mysqld.name
        return StackSampler(self.conditions.samplers, executable, self.server.logdir / "stacks")

    def kill(self) -> str:
        ended = str(self.server.kill())
        self._on_ended()
        return ended

    def stop(self) -> str:
        self.on_step("shutting down")
        ended = str(self.server.stop())
        self._on_ended()
        self.stopped_cleanly = True
        return ended

    def add_note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def opened_files(self) -> OpenedFiles:
        """Returns the files that the timed start before the last stop opened, if starts are traced."""
        return OpenedFiles() if self._tracer is None else self._tracer.result()

    def _on_ended(self) -> None:
        self._write_ledger()
        if self._tracer is not None:
            self._tracer.on_ended()

    def _start(
        self, log_name: str, settings: dict[str, str] | None = None, companion: StartCompanion = nullcontext
    ) -> Measurement:
        self.stopped_cleanly = False
        if self._tracer is not None:
            self._tracer.on_start()
        chosen = self.settings | (settings or {})
        if self._variant.task is not None and self._extra is ExtraRun.WAITS:
            chosen |= wait_counting_settings(merge(self.server.settings, chosen))
        return self.server.start(log_name=log_name, settings=chosen, companion=companion)

    def clear_logs(self) -> None:
        """Deletes the error logs of earlier trials; every start writes a separate log."""
        for old in self.server.logdir.glob("*.err"):
            old.unlink()

    # -- the cache

    def invalidate_cache_baseline(self) -> None:
        """Discards the bytes that the last start read: another server has used the page cache since."""
        self.last_read_bytes = None

    def flush(self) -> str:
        """Empties the cache while the server runs, as published, and returns the means.

        There is no proof that it is empty, because that would open every file."""
        self.last_read_bytes = None
        self.on_step("flushing the caches")
        return flush_caches(self.datadir.mysql, self.conditions.dropper)

    def make_cold(self) -> ColdProof:
        """Empties the cache while no server runs, and proves that it is empty."""
        self.last_read_bytes = None
        self.on_step("emptying the cache")
        return make_cold(self.datadir.mysql, self.conditions.dropper)

    def prove_still_cold(self, cold: ColdProof) -> ColdProof:
        """Proves that the cache, which was emptied before the user's command, is empty after it."""
        self.on_step("checking the page cache")
        try:
            return prove_cold(self.datadir.mysql, self.conditions.dropper, cold.means or "")
        except TrialVoidError as error:
            hint = "a cold start needs a command that reads and writes little of the data directory"
            raise TrialVoidError(f"after BEFORE_START {error.message}", hint) from error

    def make_tables_cold(self) -> ColdProof:
        """Empties the cache of tables and dictionary while an idle server runs, and proves it."""
        self.last_read_bytes = None
        self.on_step("emptying the cache")
        return make_tables_cold(self.datadir.mysql, self.files, self.conditions.dropper)

    @property
    def is_as_is(self) -> bool:
        """Whether every run times the recovery that is ahead of a copy of the user's own data directory."""
        return self.schema.own is not None and self.schema.own.as_is

    def restore(self) -> None:
        """Puts a fresh copy of the user's own data directory in place of the one that the last server changed."""
        self.last_read_bytes = None
        self.on_step("copying the data directory")
        shutil.rmtree(self.datadir.mysql, ignore_errors=True)
        with sync_on_exit(self.datadir.path):
            copy_data(self.datadir.original, self.datadir.mysql)
        self.server.measure_redo()
        if self._tracer is not None:
            self._tracer.on_restored()

    def read_all(self) -> None:
        """Reads all files, so that they are in the page cache. Holes have nothing that could be read from the disk."""
        self.on_step("reading the data directory")
        for folder_fd, name in walk_files(self.datadir.mysql):
            with open_for_reading(folder_fd, name) as fd:
                for start, end in data_extents(fd):
                    while start < end and (read := len(os.pread(fd, min(1 << 20, end - start), start))):
                        start += read

    def resident_share(self) -> float | None:
        """Returns the share of table files that have pages in the page cache; None if the host cannot say."""
        self.on_step("checking the page cache")
        return resident_share(self.datadir.mysql, self.files)

    @property
    def data_bytes(self) -> int | None:
        return self.datadir.state.bytes

    # -- the contents

    def user_session(self) -> AbstractContextManager[Connection[Cursor]]:
        """Returns a connection for statements that may be somebody else's, or that read the tables of these."""
        return self.server.session(limited=self.conditions.foreign_statements)

    def run_inserts(self) -> None:
        """Runs the insert script.

        The ledger is written only after the server has ended: nothing may come between the inserts and the SIGKILL. If
        this process dies before that, the directory is still marked as in use, and its rows are counted again."""
        self.on_step("inserting")
        if not self.conditions.statements:
            with self.server.session() as connection:
                connection.query(HEARTBEAT)
            return
        with self.user_session() as connection:
            try:
                acknowledged = execute_inserts(connection, self.conditions.statements)
            except InsertsFailedError as error:
                self._acknowledged.update(error.acknowledged)
                failure = self.server.failure(error.message)
                if self.server.alive:
                    raise  # the server rejects the script, and would do so in every trial
                raise failure from error
        self._acknowledged.update(acknowledged)

    @contextmanager
    def temporary_schema(self, name: str) -> Iterator[None]:
        """Creates a schema for the block, and drops it with its tables afterwards.

        The data directory's state names it meanwhile, so that it is dropped even if this process is killed."""
        state = self.datadir.state
        if name not in state.temporary_schemas and (self.datadir.mysql / name).is_dir():
            raise UsageError(
                f"the data directory {self.datadir.path} has a schema {name}, which this experiment would drop",
                f"name another schema for the tables (DATABASE=); {removal_hint(self.datadir.path)}",
            )
        self.datadir.save(replace(state, temporary_schemas=(*state.temporary_schemas, name)))
        with self.server.session() as connection, connection.cursor() as cursor:
            drop_schema(cursor, name)
            cursor.execute(f"create schema {name}")
        yield
        with self.server.session() as connection, connection.cursor() as cursor:
            drop_schema(cursor, name)
        others = tuple(other for other in self.datadir.state.temporary_schemas if other != name)
        self.datadir.save(replace(self.datadir.state, temporary_schemas=others))

    def describe(self) -> None:
        """Reads the description of the running server, once for each variant."""
        if self._variant.label not in self._described:
            given = dict(self._variant.settings) | self._timed_settings
            self._described[self._variant.label] = describe_options(self.server, given)

    def count_contents(self) -> Contents:
        self.on_step("counting rows and tables")
        state = self.datadir.state
        self.describe()
        with self.user_session() as connection:
            rows_found = count_rows(connection, tuple(state.rows))
            return Contents(
                tables_expected=state.tables or self.schema.total_tables,
                # How many tables the dictionary of a directory as it is should have is not known, only its files are.
                tables_found=self.files.count() if self.is_as_is else count_all_tables(connection, self.schema),
                rows_expected=sum(state.rows.values()),
                rows_found=sum(rows_found.values()),
                rows_lost=sum(max(0, rows - rows_found[table]) for table, rows in state.rows.items()),
            )

    def claim_and_recount(self) -> bool:
        """Marks the data directory as in use; returns whether it already was, because an earlier run died.

        In that case the server is started, the contents are counted, and the server is stopped again. The same happens
        if the insert script names tables that were never counted, if a killed run left a temporary schema, or if an
        earlier version of the tool built the directory without the limited user, who is needed now. Raises
        RecoveryError if the number of tables is wrong."""
        if self.is_as_is:  # each run begins with another copy
            return False
        dirty = self.datadir.state.status == "in_use"
        new_tables = set(tables_of(self.conditions.statements)) - set(self.datadir.state.rows)
        self.datadir.save(replace(self.datadir.state, status="in_use"))
        if dirty or new_tables or self.datadir.state.temporary_schemas or self._lacks_user:
            self._recount((*self.datadir.state.rows, *sorted(new_tables)))
        return dirty

    @property
    def _lacks_user(self) -> bool:
        return self.conditions.foreign_statements and not self.datadir.state.limited_user

    def recount_after_failure(self) -> None:
        """Ends the server of a failed trial, starts it again, and counts tables and rows.

        The start does not use the settings of the failed variant, which may be what prevented the server's start."""
        self.server.close()
        if self.is_as_is:
            return
        self._variant = _DEFAULT_VARIANT
        self._recount(tuple(self.datadir.state.rows))

    def set_aside(self, copy: Path | None = None) -> str | None:
        """Keeps the files that the server failed to start with (this directory, or a copy); returns where, in words.

        Returns None if this session has already kept one for this directory, or if it cannot be kept."""
        try:
            kept = DataDirs(self.datadir.path.parent).set_aside(self.datadir, self.conditions.session, copy=copy)
        except RecoveryError as error:
            self.add_note(f"The files that {self.server.build.version} failed on could not be kept: {error.message}.")
            return None
        return None if kept is None else f"its data directory is kept as {kept}"

    def mark_whole(self) -> None:
        """Marks the directory as whole after a clean stop, so that the next session need not count its contents."""
        self.datadir.save(replace(self.datadir.state, status="whole"))

    def _recount(self, tables: tuple[str, ...]) -> None:
        """Starts the server, drops temporary schemas if there are any, creates the limited user if it is needed, counts
        tables and rows, and saves the ledger."""
        self.last_read_bytes = None
        self._acknowledged.clear()
        self.start()
        self.on_step("counting rows and tables")
        limited_user = self.datadir.state.limited_user
        with self.server.session() as connection:
            if self.datadir.state.temporary_schemas:
                self.on_step("dropping tables that a killed run left")
                drop_left_schemas(self.datadir, connection)
                self.on_step("counting rows and tables")
            if self._lacks_user:
                create_limited_user(connection, self.schema)
                limited_user = True
        with self.user_session() as connection:
            count = count_all_tables(connection, self.schema)
            if count != self.datadir.state.tables:
                raise RecoveryError(
                    f"the data directory {self.datadir.path} holds {count} tables instead of "
                    f"{self.datadir.state.tables}",
                    removal_hint(self.datadir.path),
                )
            try:
                rows = count_rows(connection, tables)
            except pymysql.err.ProgrammingError as error:
                raise UsageError(
                    f"the insert script writes to a table that is not in the schema: {message_of(error)}",
                    "give --insert-template a script that fits the schema's template",
                ) from error
        self.stop()
        self.datadir.save(replace(self.datadir.state, rows=rows, limited_user=limited_user, temporary_schemas=()))

    def _write_ledger(self) -> None:
        if self._acknowledged:
            rows = Counter(self.datadir.state.rows)
            rows.update(self._acknowledged)
            self.datadir.save(replace(self.datadir.state, rows=dict(rows)))
            self._acknowledged.clear()


# --- Storage floor


def measure_storage_floor(bench: Bench) -> FloorTimes:
    """Measures how fast the storage can read the first pages of the table files while no server runs."""
    from recovery.mysqld.read_floor import measure_read_floor
    from recovery.mysqld.redo_log import read_page_bytes

    assert bench.stopped_cleanly, "a server may still write there"
    bench.invalidate_cache_baseline()

    def emptied() -> ColdProof:
        proof = bench.make_cold()
        bench.on_step("reading first pages")
        return proof

    page_bytes = read_page_bytes(bench.datadir.mysql / "ibdata1")
    return measure_read_floor(bench.files, page_bytes, emptied, bench.server.group)
