"""What may a scenario do to the world? Start, stop and kill one server over one data directory, and set its cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from recovery.analysis.effective_options import one_experiment
from recovery.builds.packages import Tool
from recovery.errors import RecoveryError, ServerFailedError, ServerKilledError, TrialVoidError, UsageError
from recovery.linux.file_opens import Opens, OpenTrace
from recovery.linux.files import TableFiles, table_files
from recovery.linux.page_cache import Dropper, flush_caches, make_cold, make_tables_cold, residency, resident_share
from recovery.linux.storage import device_of
from recovery.model import Build, Cache, ColdProof, Extra, Samples, Schema, Startup, Touched, Variant
from recovery.mysqld.client import count_tables, message_of
from recovery.mysqld.datadir import DataDir, DataDirs, removal
from recovery.mysqld.options import as_known, base_settings, counting_settings, lasting, merge, timed_only
from recovery.mysqld.read_floor import Reads
from recovery.mysqld.read_floor import measure as measure_floor
from recovery.mysqld.redo_log import checkpoint_lsn, modified_since, page_bytes_of
from recovery.mysqld.server import Beside, Server, left_alone
from recovery.profiling.profile import Sampling
from recovery.workload.inserts import InsertsFailedError, beat, count_rows, fire, tables_of

# Under which conditions does every trial of a session run, and what should its server hold?


@dataclass(frozen=True)
class Contents:
    """What the server should hold and does hold."""

    tables_expected: int
    tables_found: int
    rows_expected: int
    rows_found: int
    rows_lost: int


@dataclass(frozen=True)
class Conditions:
    """What the user asked of every trial of a session."""

    statements: tuple[str, ...]
    """The insert script, rendered."""
    as_published: bool = False
    """Leave in the cache what the insert script warmed, as the published experiment did."""
    dropper: Dropper | None = None
    """Who drops the whole host's caches; with nobody, files are evicted one by one."""
    timed_settings: tuple[tuple[str, str], ...] = ()
    """Options of the timed start alone: under them a server takes no inserts, so the others go without."""
    trace: bool = False
    """Find out which tables' files each timed start opens."""
    samplers: tuple[str, ...] = ()
    """Programs that can take stacks, best first."""
    programs: Mapping[str, Tool] = field(default_factory=dict)
    """That put a server to work, by name."""
    session: str = ""
    """When it began: it is in the names of the data directories that are kept of failed starts."""


# What does the server say of itself? The values in effect, which need not be those that were asked for.

EFFECTIVE = (
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


def of_build(build: Build) -> dict[str, str]:
    """What is known before it is started."""
    warnings = {"warnings": "; ".join(build.warnings)} if build.warnings else {}
    image = {"image": build.image} if build.image else {}
    return {"source": build.source, "sha256": build.fingerprint, **image, **_lies_on(build), **warnings}


def _lies_on(build: Build) -> dict[str, str]:
    """Of a server of this host: a start reads its program, too, and that from another disk than the data, maybe."""
    device = device_of(build.basedir) if build.image is None else None
    told = device and (device.device or device.filesystem)
    return {"program_device": told} if told else {}


def of_tables(
    schema: Schema, *, files: int | None, size_bytes: int | None, build_s: float | None = None
) -> dict[str, str]:
    """How many of them lie how, how large the data directory is, and how long its statements took."""
    found = {
        "tables": schema.total_tables,
        "schemas": schema.databases,
        "layout": schema.layout,
        "ibd_files": files,
        "data_bytes": size_bytes,
        "rows": schema.rows or None,
        "build_s": None if build_s is None else round(build_s, 2),
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def describe(server: Server, given: Mapping[str, str]) -> dict[str, str]:
    """The options of the timed start, with those that are `given` for it beside the server's own, and under `@name`
    each value in effect: an option that a server ignores is seen by it."""
    build = server.build
    options = merge(base_settings(build.version, rundir=Path("RUNDIR")), server.settings, given)
    told = " ".join(f"{name}={value}" if value else name for name, value in sorted(options.items()))
    wished = (name.removeprefix("loose_") for name in (*server.settings, *given))
    effective = {f"@{name}": value for name, value in server.variables((*EFFECTIVE, *wished)).items()}
    return {"options": told, **effective}


def check_differs(label: str, described: Mapping[str, Mapping[str, str]]) -> None:
    """A variant whose options come out as those of one described before it has been measured already."""
    mine = described[label]
    for other, known in described.items():
        if other == label:
            return
        if alike := one_experiment(mine, known):
            raise TrialVoidError(
                f"{' and '.join(map(str, alike))}, as it is in {other or 'the one without'}: one experiment, not two",
                f"give values that the server does not change; {mine.get('@open_files_limit', 'few')} open files are "
                "allowed it (ulimit -n)",
            )


# Where do tables lie whose making is timed, and what of those that a run has left there because it was killed?

SCRATCH = "published_build"
"""A schema of their own."""


def left_behind(datadir: DataDir, schema: Schema) -> bool:
    """Who is asked about all tables would count them, and a start open them."""
    return SCRATCH not in schema.database_names and (datadir.mysql / SCRATCH).is_dir()


def drop_left_behind(datadir: DataDir, connection: Connection[Cursor]) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"drop schema if exists {SCRATCH}")
    except pymysql.MySQLError as error:
        raise RecoveryError(
            f"the schema {SCRATCH}, which a run has left in {datadir.path}, cannot be dropped: {message_of(error)}",
            removal(datadir.path),
        ) from error


# Which tables' files did a start touch, and which had to be? The answer to the documented claim, with both numbers.

_COARSE_S = 1.0
"""By how much a file's time may lie before the clock's."""


class Tracer:
    """Of one server over one data directory, from one end of it to what its next start made of that."""

    def __init__(self, data: Path, files: TableFiles) -> None:
        self._data = data
        self._files = files
        self._began_s = 0.0
        self._ended: tuple[int, float] | None = None
        """The checkpoint that the last server left, and when that server had begun."""
        self._before: tuple[int, float] | None = None
        """The same of the one before the timed start."""
        self._opens: Opens | None = None
        self._resident_bytes: int | None = None

    def began(self) -> None:
        """A server is about to start."""
        self._began_s = time.time() - _COARSE_S

    def ended(self) -> None:
        """It is gone, killed or not: what its next start has to recover lies behind the checkpoint."""
        self._ended = checkpoint_lsn(self._data), self._began_s

    def traced(self, start: Callable[[], Startup], pid: Callable[[], int]) -> Startup:
        """The timed start, with all that it opens until its first answer."""
        self._before = self._ended
        with OpenTrace(self._files) as trace:
            startup = start()
            self._opens = trace.of(pid())
        self._resident_bytes = residency(self._data).resident_bytes
        return startup

    def found(self) -> Touched:
        """Once the server has shut down cleanly after the traced start: then all that it recovered is in the files."""
        assert self._opens is not None, "nothing was traced"
        assert self._before is not None, "a server ended before the traced one began"
        checkpoint, began_s = self._before
        modified = modified_since(self._files, checkpoint, written_after_s=began_s)
        return Touched(
            opened=len(self._opens.files),
            opens=self._opens.count,
            modified=len(modified),
            opened_unmodified=len(self._opens.files - modified),
            read=len(self._opens.read),
            read_unmodified=len(self._opens.read - modified),
            means=self._opens.means,
            resident_after_bytes=self._resident_bytes,
        )


TIMED_START = "timed start"
_PLAIN = Variant("", Cache.COLD)
"""Nothing but what holds for every trial."""


class Bench:
    """One server and its data directory for the length of a session."""

    def __init__(self, server: Server, datadir: DataDir, schema: Schema, *, conditions: Conditions) -> None:
        self.server = server
        self.datadir = datadir
        self.schema = schema
        self.conditions = conditions
        self.files = table_files(datadir.mysql, schema)
        self._tracer = Tracer(datadir.mysql, self.files) if conditions.trace else None
        self.last_read_bytes: int | None = None
        """Fetched from storage by the last timed start, if nothing has touched the cache since."""
        self.tell: Callable[[str], None] = lambda _: None
        """Hears of every step, in words, before it is taken."""
        self.notes: list[str] = []
        """What a reader must know of all the trials here."""
        self._variant = _PLAIN
        self._extra: Extra | None = None
        self.repeat = 1
        """Of the variant: the same thing happens in its first trial, its second …"""
        self._seen: Callable[[], Samples] | None = None
        """What was seen of the last timed start, where it was one to be sampled."""
        self._described: dict[str, dict[str, str]] = {}
        """What the server said of itself, by variant: asked once, after the first timed start."""
        self.cpus_shared = False
        """Whether server and clients were to have CPUs of their own, and it was refused."""
        self.at_rest = datadir.state.status == "whole"
        """Nothing has happened since a clean stop: the ledger and the files agree."""
        self.came_back = True
        """False where the server failed by itself at the timed start of this trial."""
        self._untimed = 0
        self._acknowledged: dict[str, int] = {}
        """Rows by table that are not in the ledger yet."""

    # -- the server

    def vary(self, variant: Variant, *, extra: Extra | None = None, repeat: int = 1) -> None:
        """Its settings hold from the next start on; what is measured is looked into, or left alone."""
        known = as_known(self.server.build.version, dict(variant.settings))
        self._variant = replace(variant, settings=tuple(known.items()))
        self._extra = extra
        self.repeat = repeat
        self.came_back = True

    @property
    def description(self) -> dict[str, str]:
        """What is known of the server under the settings in force."""
        state = self.datadir.state
        lying = of_tables(self.schema, files=state.ibd_files, size_bytes=state.bytes, build_s=state.build_s)
        return of_build(self.server.build) | lying | self._described.get(self._variant.label, {})

    @property
    def settings(self) -> dict[str, str]:
        """Of every start of this variant."""
        return lasting(dict(self._variant.settings))

    @property
    def _timed_settings(self) -> dict[str, str]:
        return dict(self.conditions.timed_settings) | timed_only(dict(self._variant.settings))

    def start(self, log_name: str | None = None) -> None:
        """A start that is not measured: where it fails, what lies in the directory may be to blame."""
        self._untimed += 1
        self.tell("starting the server")
        try:
            self._start(log_name or f"untimed-{self._untimed}.err")
        except ServerFailedError as error:
            error.hint = error.hint or f"if its files are damaged, {removal(self.datadir.path)}"
            raise
        if self._variant.task is not None and self._variant.settings:
            self.describe()
            check_differs(self._variant.label, self._described)

    def timed_start(self, log_name: str) -> Startup:
        sampling = self.sampling()

        def start() -> Startup:
            return self._start(log_name, self._timed_settings, beside=sampling.of if sampling else left_alone)

        tracer = self._tracer
        self.tell(TIMED_START)
        try:
            startup = start() if tracer is None else tracer.traced(start, lambda: self.server.life.pid)
        except ServerFailedError as error:
            self.came_back = isinstance(error, ServerKilledError)
            raise
        self.last_read_bytes = startup.usage.read_bytes
        self._seen = None
        if sampling is not None:
            life = self.server.life
            self._seen = partial(sampling.seen, life.pid, since=life.started_at, phases=startup.phases)
        return startup

    def samples(self) -> Samples | None:
        """Of the last timed start, while its server is still there; None where nobody looked."""
        return None if self._seen is None else self._seen()

    def sampling(self) -> Sampling | None:
        """Takes stacks, in a trial that is to be looked into."""
        if self._extra is not Extra.STACKS:
            return None
        executable = self.server.build.mysqld.name
        return Sampling(self.conditions.samplers, executable, self.server.logdir / "stacks")

    def kill(self) -> str:
        ended = str(self.server.kill())
        self._ended()
        return ended

    def stop(self) -> str:
        self.tell("shutting down")
        ended = str(self.server.stop())
        self._ended()
        self.at_rest = True
        return ended

    def note(self, told: str) -> None:
        if told not in self.notes:
            self.notes.append(told)

    def touched(self) -> Touched | None:
        """By the timed start before the last stop; None where starts are not traced."""
        return None if self._tracer is None else self._tracer.found()

    def _ended(self) -> None:
        self._write_ledger()
        if self._tracer is not None:
            self._tracer.ended()

    def _start(self, log_name: str, settings: dict[str, str] | None = None, beside: Beside = left_alone) -> Startup:
        self.at_rest = False
        if self._tracer is not None:
            self._tracer.began()
        chosen = self.settings | (settings or {})
        if self._variant.task is not None and self._extra is Extra.WAITS:
            chosen |= counting_settings(merge(self.server.settings, chosen))
        return self.server.start(log_name=log_name, settings=chosen, beside=beside)

    def clear_logs(self) -> None:
        """Of what was tried before: each start has a log of its own."""
        for old in self.server.logdir.glob("*.err"):
            old.unlink()

    # -- the cache

    def disturbed(self) -> None:
        """Another server's files have been through the cache: what the last start here read says nothing now."""
        self.last_read_bytes = None

    def flush(self) -> str:
        """Empties the cache under a running server, as published: without proof, which would open every file. Says by
        which means."""
        self.last_read_bytes = None
        self.tell("flushing the caches")
        return flush_caches(self.datadir.mysql, self.conditions.dropper)

    def make_cold(self) -> ColdProof:
        """Empties the cache under a dead server, and proves it."""
        self.last_read_bytes = None
        self.tell("emptying the cache")
        return make_cold(self.datadir.mysql, self.conditions.dropper)

    def make_tables_cold(self) -> ColdProof:
        """The same under a server that has only been started."""
        self.last_read_bytes = None
        self.tell("emptying the cache")
        return make_tables_cold(self.datadir.mysql, self.files, self.conditions.dropper)

    def resident_share(self) -> float | None:
        """Of the tables' files, the share that is in the page cache; None where the host does not tell."""
        self.tell("checking the page cache")
        return resident_share(self.datadir.mysql, self.files)

    @property
    def data_bytes(self) -> int | None:
        return self.datadir.state.bytes

    # -- the contents

    def fire_inserts(self) -> None:
        """Runs the insert script. The ledger is written once the server is gone: nothing may come between the inserts
        and the SIGKILL, and should this process die first, the directory is counted anew for being in use."""
        self.tell("inserting")
        with self.server.session() as connection:
            try:
                acknowledged = fire(connection, self.conditions.statements) or beat(connection)
            except InsertsFailedError as error:
                self._acknowledge(error.acknowledged)
                failure = self.server.failure(error.message)
                if self.server.alive:
                    raise  # it refuses the script, and would refuse it in every trial
                raise failure from error
        self._acknowledge(acknowledged)

    def describe(self) -> None:
        """Asks the server what it is, once under the settings in force."""
        if self._variant.label not in self._described:
            given = dict(self._variant.settings) | self._timed_settings
            self._described[self._variant.label] = describe(self.server, given)

    def contents(self) -> Contents:
        self.tell("counting rows and tables")
        state = self.datadir.state
        tables = tuple(state.rows)
        self.describe()
        with self.server.session() as connection:
            found = count_rows(connection, tables)
            return Contents(
                tables_expected=state.tables or self.schema.total_tables,
                tables_found=count_tables(connection, self.schema.database_names),
                rows_expected=sum(state.rows.values()),
                rows_found=sum(found.values()),
                rows_lost=sum(max(0, rows - found[table]) for table, rows in state.rows.items()),
            )

    def take_possession(self) -> bool:
        """Marks the directory as in use. Where an earlier owner died over it (True), or the insert script names tables
        that were never counted, or more lies there than was counted, a start finds out what it holds; a directory that
        lost tables is refused."""
        dirty = self.datadir.state.status == "in_use"
        new_tables = set(tables_of(self.conditions.statements)) - set(self.datadir.state.rows)
        self.datadir.save(replace(self.datadir.state, status="in_use"))
        if dirty or new_tables or left_behind(self.datadir, self.schema):
            self._recount((*self.datadir.state.rows, *sorted(new_tables)))
        return dirty

    def settle(self) -> None:
        """After a trial that failed half-way: ends the server, starts it anew and counts what it holds. Not under the
        settings of that trial's variant, which may be what it cannot start with."""
        self.server.close()
        self._variant = _PLAIN
        self._recount(tuple(self.datadir.state.rows))

    def set_aside(self, copy: Path | None = None) -> str | None:
        """Keeps what the server did not come back over, this directory or a copy of the server's own; where, in words.
        None where that is not the first of this version in this session, or it cannot be kept."""
        try:
            kept = DataDirs(self.datadir.path.parent).set_aside(self.datadir, self.conditions.session, copy=copy)
        except RecoveryError as error:
            self.note(f"What {self.server.build.version} did not come back over could not be kept: {error.message}.")
            return None
        return None if kept is None else f"its data directory is kept as {kept}"

    def release(self) -> None:
        """The server was stopped cleanly and the ledger is right: the next session need not look."""
        self.datadir.save(replace(self.datadir.state, status="whole"))

    def _recount(self, tables: tuple[str, ...]) -> None:
        self.last_read_bytes = None
        self._acknowledged = {}
        self.start()
        self.tell("counting rows and tables")
        with self.server.session() as connection:
            if left_behind(self.datadir, self.schema):
                self.tell("dropping tables that a killed run has left")
                drop_left_behind(self.datadir, connection)
                self.tell("counting rows and tables")
            found = count_tables(connection, self.schema.database_names)
            if found != self.datadir.state.tables:
                raise RecoveryError(
                    f"the data directory {self.datadir.path} holds {found} tables instead of "
                    f"{self.datadir.state.tables}",
                    removal(self.datadir.path),
                )
            try:
                rows = count_rows(connection, tables)
            except pymysql.err.ProgrammingError as error:
                raise UsageError(
                    f"the insert script writes to a table that the schema does not make: {message_of(error)}",
                    "give --insert-template a script that fits the schema's template",
                ) from error
        self.stop()
        self.datadir.save(replace(self.datadir.state, rows=rows))

    def _acknowledge(self, acknowledged: Mapping[str, int]) -> None:
        for table, count in acknowledged.items():
            self._acknowledged[table] = self._acknowledged.get(table, 0) + count

    def _write_ledger(self) -> None:
        if self._acknowledged:
            rows = dict(self.datadir.state.rows)
            for table, count in self._acknowledged.items():
                rows[table] = rows.get(table, 0) + count
            self.datadir.save(replace(self.datadir.state, rows=rows))
            self._acknowledged = {}


# What does the storage allow over the files of a bench, when no server runs there?


def floor(bench: Bench) -> Reads:
    """Between trials."""
    assert bench.at_rest, "a server may still write there"
    bench.disturbed()

    def emptied() -> ColdProof:
        proof = bench.make_cold()
        bench.tell("reading first pages")
        return proof

    return measure_floor(bench.files, page_bytes_of(bench.datadir.mysql / "ibdata1"), emptied, bench.server.group)
