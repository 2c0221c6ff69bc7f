"""Builds the data directory that the experiments start servers on, and checks that it holds what was requested.

Ctrl-C interrupts a build, and the next call resumes it."""

from __future__ import annotations

import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import combinations, islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import recovery
from recovery.analysis.effective_options import changed_options, given_options, same_effective_options
from recovery.builds.executable import find_eatmydata
from recovery.errors import (
    HostUnfitError,
    InterruptedByUserError,
    RecoveryError,
    ServerFailedError,
    StorageFailedError,
    UsageError,
)
from recovery.linux.files import allocated_bytes, sync_on_exit
from recovery.linux.signals import ClockGuard, use_signal_handler
from recovery.linux.storage import (
    SPACE_HINT,
    DiskSpace,
    check_space,
    free_space,
    storage_errors,
    temporary_folder,
    used_space,
)
from recovery.model import Build, Layout, Schema, can
from recovery.mysqld.bootstrap import create_key_folder, initialise
from recovery.mysqld.client import count_all_tables, count_tables, scalar
from recovery.mysqld.datadir import DataDir, State
from recovery.mysqld.launcher import Launcher, RunDirs
from recovery.mysqld.options import build_settings, compressed_settings, experiment_settings, merge
from recovery.mysqld.own_data import copy_own_data
from recovery.mysqld.server import Server, ServerConfig
from recovery.mysqld.startup import DEFAULT_STALL_S
from recovery.mysqld.table_files import table_files
from recovery.workload.inserts import count_rows, insert_statements, tables_of
from recovery.workload.schema import (
    ScriptSize,
    checked_script_size,
    creates_table,
    disk_need,
    has_own_template,
    script_statements,
    sysbench_tables,
)
from recovery.workload.script_runner import StatementFailedError, StatementInterruptedError, execute_script

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


# --- Initialisation, and a check of the requested settings

_INITIALISE_LOG = "initialise.log"
_MISSING_LIBRARY = re.compile(r"Can't open shared library '([^']+)'")


@dataclass(frozen=True)
class DatadirBuilder:
    """Everything needed to build one data directory: server build, schema, target folder and settings."""

    build: Build
    schema: Schema
    target: DataDir
    launcher: Launcher
    say: Callable[[str], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Server settings that determine the format of the files."""
    settings_to_check: Sequence[Mapping[str, str]] = ()
    """Settings of later starts. They are checked before the build, which may take an hour, so that settings which the
    server rejects are reported early."""
    stall_s: float = DEFAULT_STALL_S
    """Seconds without progress after which the server counts as hung."""

    @property
    def logs(self) -> Path:
        return self.target.path / "build-logs"

    def server(self, settings: Mapping[str, str], preload: tuple[Path, ...] = ()) -> Server:
        """Returns a server, not yet started, on the target data directory."""
        config = ServerConfig(
            self.launcher,
            self.build,
            self.logs,
            merge(settings, self.settings),
            preload=preload,
            stall_s=self.stall_s,
            keys=self._keys,
        )
        return Server(config, self.target.mysql)

    @property
    def _keys(self) -> Path | None:
        return self.target.keys_for(self.schema)

    def initialise(self) -> None:
        """Initialises the data directory in the empty target folder.

        Raises HostUnfitError if the server build lacks the plugin that provides the keys of encrypted tables."""
        self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._keys is not None:
            create_key_folder(self._keys)
        rundirs = RunDirs()
        try:
            initialise(
                self.launcher,
                self.build,
                self.target.mysql,
                rundir=rundirs.next(),
                log=self.logs / _INITIALISE_LOG,
                settings=dict(self.settings),
                keys=self._keys,
                stall_s=self.stall_s,
            )
        except ServerFailedError as error:
            if self._keys is not None and (plugin := _missing_plugin(self.logs / _INITIALISE_LOG)):
                self.target.wipe()
                raise HostUnfitError(
                    f"this build of {self.build.version} has no {plugin}, which encrypted tables take their keys from",
                    "take a build that has it (--mysqld, --image), or name its folder: --set plugin_dir=FOLDER",
                ) from error
            raise
        finally:
            rundirs.remove()

    def check_settings(self) -> None:
        """Starts the server once with each of the `settings_to_check`; raises UsageError if it rejects one.

        This is done on the data directory without tables, where a start takes a second."""
        effective: list[dict[str, str]] = []
        try:
            for number, settings in enumerate(filter(None, self.settings_to_check), 1):
                with (
                    storage_errors(self.target.writable_folder, temporary_folder()),
                    self.server(merge(experiment_settings(self.build.version), settings)) as server,
                ):
                    server.start(log_name=f"settings-{number}.log")
                    effective.append(_effective_settings(server, settings))
                    server.stop()
        except ServerFailedError as error:
            self.target.wipe()
            raise UsageError(
                f"with the requested options, {error.message}",
                "see --set and --variant, and the server's manual of this version",
            ) from error
        self._compare(effective)

    def _compare(self, effective: Sequence[Mapping[str, str]]) -> None:
        """Raises UsageError if two settings have the same effect, because they would be measured as if they differed.

        Also reports values that the server lowered, for options in which the settings differ."""
        for first, second in combinations(effective, 2):
            if alike := same_effective_options(first, second):
                self.target.wipe()
                values = " and ".join(map(str, alike))
                raise UsageError(
                    f"{self.build.version} makes no difference between two of the requested settings: {values} in both",
                    f"give values that it does not change; the server may open {first['@open_files_limit']} files "
                    "(--open-files)",
                )
        vary = {
            name
            for first, second in combinations(map(given_options, effective), 2)
            for name, _ in first.items() ^ second.items()
        }
        lowered = (change for settings in effective for change in changed_options(settings) if change.option in vary)
        for change in dict.fromkeys(lowered):
            self.say(f"{self.build.version}: {change}")


def _effective_settings(server: Server, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings and the values in effect on the running server, in the format stored in a session."""
    names = [name.removeprefix("loose_") for name in settings]
    values = server.variables((*names, "open_files_limit"))
    options = " ".join(f"{name}={value}" for name, value in settings.items())
    return {"options": options} | {f"@{name}": value for name, value in values.items()}


def _missing_plugin(log: Path) -> str | None:
    """Returns the path of the plugin library that the server could not open, by its log; None if there is none."""
    try:
        match = _MISSING_LIBRARY.search(log.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:  # the server was never started
        return None
    return match and match[1]


# --- The whole preparation: initialise, build, restart with test settings, count


class BuildInterruptedError(InterruptedByUserError):
    """The build was stopped on request. Exactly the first `done` statements of the script have been executed."""

    def __init__(self, done: int) -> None:
        super().__init__(
            f"the build was interrupted after {done} statements", "run the same command again: it continues from there"
        )
        self.done = done


class DatadirMismatchError(UsageError):
    """The built data directory is not what was requested."""


class TablesTooLargeError(HostUnfitError):
    """The disk has no room for the requested number of tables."""


def prepare_datadir(builder: DatadirBuilder, *, progress: Callable[[int, int], None]) -> None:
    """Builds and checks a data directory. On return its state is `whole`; otherwise the function raises.

    After Ctrl-C during the build, the next call resumes it. After any other failure, the next call starts from the
    beginning."""
    size, own = checked_script_size(builder.schema), builder.schema.own
    try:
        # Storage errors are diagnosed before anything is removed below.
        with storage_errors(builder.target.writable_folder, temporary_folder()):
            done = _start_or_resume(builder, size, progress)
            if own is not None and own.as_is:
                whole = _copied_state(builder)
            else:
                _run_script(builder, size, done=done, progress=progress)
                whole = _verify(builder)
    except (StatementFailedError, StatementInterruptedError, DatadirMismatchError, TablesTooLargeError):
        # Resuming cannot correct this, and the files may take 20 GB.
        builder.target.wipe()
        raise
    except StorageFailedError:
        if not builder.target.state.statements_done:  # it cannot be resumed, and may be what filled the disk
            with suppress(RecoveryError, OSError):
                builder.target.wipe()
        raise
    builder.target.save(whole)


def _copied_state(builder: DatadirBuilder) -> State:
    """Returns the state of a copy on which no server is started."""
    files = table_files(builder.target.original, builder.schema).count()
    size = allocated_bytes(builder.target.original)
    return replace(builder.target.state, status="whole", tables=files, ibd_files=files, bytes=size)


def _start_or_resume(builder: DatadirBuilder, size: ScriptSize, progress: Callable[[int, int], None]) -> int:
    """Prepares a new build, or the continuation of an interrupted one, and returns how many statements are done.

    While a build runs, statements_done is stored as 0: after a server crash none of its files can be trusted, since
    they were written without durability."""
    state, version = builder.target.state, builder.build.version
    resumable = state.status == "building" and state.fingerprint == builder.build.fingerprint
    done = min(state.statements_done, size.statements) if resumable else 0
    need = disk_need(size, version, builder.schema, builder.settings, builder.target.path)
    if done:
        check_space(builder.target.path, need.remaining(done / size.statements))
        builder.target.save(replace(state, statements_done=0, schema=_schema_fields(builder.schema)))
        shutil.rmtree(builder.logs, ignore_errors=True)
        builder.say(f"{version}: continuing the build, {done:,} of {size.statements:,} statements are done")
        return done
    builder.target.wipe()
    check_space(builder.target.path, need)
    builder.target.save(
        State(
            status="building",
            version=version.release,
            fingerprint=builder.build.fingerprint,
            schema=_schema_fields(builder.schema),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            tool_version=recovery.__version__,
        )
    )
    builder.say(f"{version}: making a data directory in {builder.target.path}")
    if (own := builder.schema.own) is not None:
        builder.say(f"{version}: copying {own.path}, {own.bytes / 1e6:,.0f} MB in {own.files:,} files")
        with sync_on_exit(builder.target.path):
            copy_own_data(own, builder.target.original if own.as_is else builder.target.mysql, on_progress=progress)
        if own.as_is:
            return 0
        # It may have to be recovered, which the options of the build would not allow for every state.
        with builder.server(experiment_settings(version)) as server:
            server.start(log_name="first.log")
            server.stop()
    else:
        builder.initialise()
    builder.check_settings()
    return 0


def _schema_fields(schema: Schema) -> dict[str, str | int]:
    """Returns the fields of the schema that are stored: strings and numbers.

    The template's path is left out: it has no meaning later, and a digest of the template's text is part of the name
    of the data directory."""
    return {name: value for name, value in asdict(schema).items() if isinstance(value, str | int)}


def _run_script(builder: DatadirBuilder, size: ScriptSize, *, done: int, progress: Callable[[int, int], None]) -> None:
    """Executes the schema script from statement `done` on, and stores how many statements are done.

    Raises BuildInterruptedError after Ctrl-C."""
    version, total, stop = builder.build.version, size.statements, threading.Event()
    # The fastest on two cores. Before MySQL 8.0 and MariaDB 10.6 a lock on the data dictionary makes more connections
    # useless. Larger packets gain nothing, and an interruption has to wait for the packets already sent.
    connections, batch = (4, 100) if can(version, "ddl_scales_with_connections") else (2, 200)
    script = script_statements(builder.schema)
    settings = build_settings(version, statistics=builder.schema.statistics)
    if builder.schema.layout is Layout.COMPRESSED:
        settings |= compressed_settings(version)
    library = builder.build.eatmydata if builder.build.image else find_eatmydata()
    if library is None:
        builder.say(f"{version}: building without libeatmydata, which is not installed: several times slower")
    tables_text = "1 table" if builder.schema.total_tables == 1 else f"{builder.schema.total_tables:,} tables"
    builder.say(f"{version}: building {tables_text}, {connections} connections")
    # From here on Ctrl-C only sets `stop`: an exception between two lines would leave an inconsistent state.
    with _stop_on_interrupt(stop):
        # libeatmydata ignores every fsync, but statements recorded as done must be on the disk.
        with (
            sync_on_exit(builder.target.path),
            builder.server(settings, (library,) if library else ()) as server,
        ):
            server.start(log_name="build.log")
            with _redo_log_disabled(server), server.watched():
                progress(done, total)
                began_s, clock = time.monotonic(), ClockGuard()
                reached = execute_script(
                    script,
                    open_connection=lambda: server.connect(multi=True),
                    connections=connections,
                    batch=batch,
                    done=done,
                    progress=_progress_with_space_check(builder, total, progress),
                    stop=stop,
                    give_up=server.close,
                )
                took_s = time.monotonic() - began_s
            server.stop()
        before_s = builder.target.state.build_s
        # The build time is unknown if an earlier part was built by a version of this tool that did not record it, or if
        # a process or the host was suspended meanwhile.
        known = (before_s is not None or not done) and clock.pause() is None
        build_s = took_s + (before_s or 0) if known else None
        builder.target.save(replace(builder.target.state, statements_done=reached, build_s=build_s))
    if stop.is_set():
        raise BuildInterruptedError(reached)


def _progress_with_space_check(
    builder: DatadirBuilder, total: int, progress: Callable[[int, int], None]
) -> Callable[[int], None]:
    """Returns a callback that reports the progress and checks the disk space once, after the first percent.

    The check assumes that the remaining tables are like those already made: a template may make larger tables, or more
    files, than estimated. It is skipped for the layout GENERAL."""
    is_checked = builder.schema.layout is Layout.GENERAL

    def on_progress(so_far: int) -> None:
        nonlocal is_checked
        progress(so_far, total)
        if not is_checked and so_far >= total / 100:
            made = sum(map(creates_table, islice(script_statements(builder.schema), so_far)))
            is_checked = made > 0
            if made:
                _check_remaining_space(builder, made)

    return on_progress


def _check_remaining_space(builder: DatadirBuilder, made: int) -> None:
    """Raises TablesTooLargeError if the disk has no room for the remaining tables."""
    left = builder.schema.total_tables - made
    taken, room = used_space(table_files(builder.target.mysql, builder.schema).folders), free_space(builder.target.path)
    rest = DiskSpace(taken.bytes * left // made, taken.inodes * left // made)
    if not rest.fits(room):
        raise TablesTooLargeError(
            f"the first {made:,} tables of {builder.build.version} take {taken}: {left:,} more need {rest}, "
            f"and {room} are free",
            SPACE_HINT,
        )


@contextmanager
def _redo_log_disabled(server: Server) -> Iterator[None]:
    """Disables the redo log of the server in the `with` block, if it can.

    After an exception it is not enabled again, because nothing of the build is kept then."""

    def switch(way: str) -> None:
        if can(server.build.version, "disable_redo"):
            with server.session() as connection, connection.cursor() as cursor:
                cursor.execute(f"ALTER INSTANCE {way} INNODB REDO_LOG")

    switch("DISABLE")
    yield
    switch("ENABLE")


def _stop_on_interrupt(stop: threading.Event) -> AbstractContextManager[None]:
    """Returns a context in which the first Ctrl-C (or SIGTERM, or a closed terminal) sets `stop`.

    A second one raises KeyboardInterrupt as usual."""

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            signal.default_int_handler(number, frame)
        stop.set()

    return use_signal_handler(on_interrupt)


def _verify(builder: DatadirBuilder) -> State:
    """Counts tables, rows and files, and returns the state `whole`; raises DatadirMismatchError if they are wrong.

    The tables are counted in a server with the settings of the tests, and the files on the disk: an incomplete
    database starts fast, and nobody would notice."""
    version = builder.build.version
    builder.say(f"{version}: counting what was built")
    with builder.server(experiment_settings(version)) as server:
        server.start(log_name="verify.log")
        with server.session() as connection:
            tables = count_tables(connection, builder.schema.database_names)
            all_tables = count_all_tables(connection, builder.schema)
            # The table names of a user's template are not known here: their rows are counted at their first use.
            written = tables_of(insert_statements(builder.schema)) if builder.schema.template is None else ()
            rows = count_rows(connection, written) if tables == builder.schema.total_tables else {}
            _check_row_counts(builder.schema, connection)
            _check_compressed(builder.schema, connection)
        server.stop()
    files = table_files(builder.target.mysql, builder.schema).count()
    if (own := builder.schema.own) is None:
        _check_counts(builder.schema, tables=tables, files=files)
    elif files != own.table_files + builder.schema.total_tables * (not own.as_is):
        builder.say(f"{version}: {own.table_files:,} files of tables in the original, {files:,} after the first start")
    size = allocated_bytes(builder.target.mysql)
    return replace(
        builder.target.state, status="whole", tables=all_tables, ibd_files=files, bytes=size, rows=rows
    )  # fmt: skip


def _check_row_counts(schema: Schema, connection: Connection[Cursor]) -> None:
    """Raises DatadirMismatchError if a table made by the sysbench template does not have the requested number of rows.

    A table with too few rows would be fast, and nobody would see why."""
    if schema.template is None or has_own_template(schema) or not schema.rows:
        return
    for table, rows in count_rows(connection, sysbench_tables(schema)).items():
        if rows != schema.rows:
            raise DatadirMismatchError(
                f"{table} has {rows:,} rows instead of {schema.rows:,}", "run it again: it is rebuilt then"
            )


def _check_compressed(schema: Schema, connection: Connection[Cursor]) -> None:
    """Raises DatadirMismatchError if tables that should be compressed are not.

    A server that cannot compress tables may only print a warning and make uncompressed ones."""
    if schema.layout is not Layout.COMPRESSED:
        return
    table = sysbench_tables(schema)[0]
    requested = "SELECT row_format FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    row_format = scalar(connection, requested, tuple(table.split(".")))
    if str(row_format).lower() != "compressed":
        raise DatadirMismatchError(
            f"{table} is of row format {row_format} instead of compressed",
            "leave out --question compression for this server",
        )


def _check_counts(schema: Schema, *, tables: int, files: int) -> None:
    """Raises DatadirMismatchError if the number of tables or .ibd files differs from what was requested."""
    requested = schema.total_tables
    where = ", ".join(schema.database_names[:3]) + (" …" if schema.databases > 3 else "")
    if tables != requested:
        raise DatadirMismatchError(
            f"the build made {tables:,} tables in {where} instead of {requested:,}",
            "a template of your own must create its tables in the schemas that `databases` names, and drop none",
        )
    # A user's template may make partitioned tables, with one file for each partition.
    if files < schema.files or (files > schema.files and schema.template is None):
        raise DatadirMismatchError(
            f"{where} has {files:,} .ibd files for {requested:,} tables instead of {schema.files:,}",
            "a template of your own must leave each table in a file of its own (InnoDB, innodb_file_per_table)",
        )
