"""How does an empty folder become a proved stage? Initialised, built fast, started as the test will, counted."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import recovery
from recovery.builds.libraries import eatmydata
from recovery.errors import HostUnfitError, RecoveryError, StorageFailedError, UsageError
from recovery.files import on_the_disk
from recovery.host.ailing import blaming, temporary
from recovery.host.datadir import State, allocated_bytes
from recovery.host.signals import handled_by
from recovery.host.space import HINT, Need, check_space, free, taken_by
from recovery.host.standstill import Standstill
from recovery.host.tablefiles import table_files
from recovery.load.build import BuildInterruptedError, StatementFailedError, build
from recovery.load.ground import Ground
from recovery.load.insert import count_rows, insert_statements, tables_of
from recovery.load.profile import BuildProfile, build_profile
from recovery.load.schema import ScriptSize, check_template, need_of, statements, sysbench_tables
from recovery.load.statements import creates_table
from recovery.model import Build, Layout, Schema
from recovery.paths import template_dir
from recovery.server.client import count_tables, scalar
from recovery.server.options import Settings, build_settings, compressed_settings, test_settings
from recovery.server.server import Server

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


class StageDiffersError(UsageError):
    """What was built is not what was asked."""


class TablesTooLargeError(HostUnfitError):
    """The disk does not hold as many of them as were asked for."""


def prepare_stage(ground: Ground, *, progress: Callable[[int, int], None], stop: threading.Event | None = None) -> None:
    """Ends in state `whole`, or raises. Ctrl-C (or `stop`) in the build leaves a state that the next call goes on from;
    everything else that goes wrong leaves one that the next call begins anew."""
    size = check_template(ground.schema)
    try:
        # The storage is asked before anything is removed.
        with blaming(ground.target.storage, temporary()):
            done = _begin(ground, size)
            _load(ground, size, done=done, progress=progress, stop=stop or threading.Event())
            whole = _prove(ground)
    except (StatementFailedError, StageDiffersError, TablesTooLargeError):
        # It can't become right by going on, and it may be 20 GB.
        ground.target.wipe()
        raise
    except StorageFailedError:
        if not ground.target.state.statements_done:  # it is begun anew, and may be what the disk is full of
            with suppress(RecoveryError, OSError):
                ground.target.wipe()
        raise
    ground.target.save(whole)


def _begin(ground: Ground, size: ScriptSize) -> int:
    """Statements done already. While the build runs the state says 0: a server that dies leaves nothing to trust."""
    state, version = ground.target.state, ground.build.version
    resumable = state.status == "building" and state.fingerprint == ground.build.fingerprint
    done = min(state.statements_done, size.statements) if resumable else 0
    need = need_of(size, version, ground.schema, ground.settings)
    if done:
        check_space(ground.target.path, need.part(done / size.statements))
        ground.target.save(replace(state, statements_done=0, schema=_stored(ground.schema)))
        shutil.rmtree(ground.logs, ignore_errors=True)
        ground.say(f"{version}: going on where the build stopped, {done:,} of {size.statements:,} statements are done")
        return done
    ground.target.wipe()
    check_space(ground.target.path, need)
    ground.target.save(_new_state(ground))
    ground.say(f"{version}: making a data directory in {ground.target.path}")
    ground.initialise()
    ground.try_settings()
    return 0


def _new_state(ground: Ground) -> State:
    return State(
        status="building",
        version=str(ground.build.version),
        fingerprint=ground.build.fingerprint,
        schema=_stored(ground.schema),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        tool_version=recovery.__version__,
    )


def _stored(schema: Schema) -> dict[str, str | int]:
    """A template's path says nothing later, and its text is in the folder's name."""
    return {name: value for name, value in asdict(schema).items() if isinstance(value, str | int)}


def _load(
    ground: Ground, size: ScriptSize, *, done: int, progress: Callable[[int, int], None], stop: threading.Event
) -> None:
    version, total = ground.build.version, size.statements
    profile, library = build_profile(version), _eatmydata(ground.build)
    if library is None:
        ground.say(f"{version}: building without libeatmydata, which is not to be had here: several times slower")
    ground.say(f"{version}: building {ground.schema.total_tables:,} tables, {profile.connections} connections")
    # From here on Ctrl-C is a wish, not an exception that lands between two lines of bookkeeping.
    with _interruptions(stop):
        # The preloaded library swallows every fsync: what is recorded as done must be on the disk.
        with (
            on_the_disk(ground.target.path),
            ground.server(_build_settings(ground), (library,) if library else ()) as server,
        ):
            server.start(log_name="build.log")
            with _redo_off(server, profile), server.watched():
                progress(done, total)
                began_s, standstill = time.monotonic(), Standstill()
                reached = build(
                    statements(ground.schema),
                    open_connection=lambda: server.connect(multi=True),
                    connections=profile.connections,
                    batch=profile.batch,
                    done=done,
                    progress=_checked(ground, total, progress),
                    stop=stop,
                    give_up=server.close,
                )
                took_s = time.monotonic() - began_s
            server.stop()
        before_s = ground.target.state.build_s
        # Neither has one a time that was begun by a tool which did not count, nor one that stood still meanwhile.
        known = (before_s is not None or not done) and standstill.told() is None
        build_s = took_s + (before_s or 0) if known else None
        ground.target.save(replace(ground.target.state, statements_done=reached, build_s=build_s))
    if stop.is_set():
        raise BuildInterruptedError(reached)


def _checked(ground: Ground, total: int, progress: Callable[[int, int], None]) -> Callable[[int], None]:
    """Tells the progress; and after the first percent looks, once, whether the disk holds all tables if they are like
    those that are there: a template may make larger ones, or more files, than was planned."""
    looked = ground.schema.layout is Layout.GENERAL

    def on_progress(so_far: int) -> None:
        nonlocal looked
        progress(so_far, total)
        if not looked and so_far >= total / 100:
            made = sum(map(creates_table, islice(statements(ground.schema), so_far)))
            looked = made > 0
            if made:
                _check_rest(ground, made)

    return on_progress


def _check_rest(ground: Ground, made: int) -> None:
    left = ground.schema.total_tables - made
    taken, room = taken_by(table_files(ground.target.mysql, ground.schema).folders), free(ground.target.path)
    rest = Need(taken.bytes * left // made, taken.inodes * left // made)
    if not rest.fits(room):
        raise TablesTooLargeError(
            f"the first {made:,} tables of {ground.build.version} take {taken}: {left:,} more need {rest}, "
            f"and {room} are free",
            HINT,
        )


def _build_settings(ground: Ground) -> Settings:
    version, compressed = ground.build.version, ground.schema.layout is Layout.COMPRESSED
    settings = build_settings(version, statistics=ground.schema.statistics)
    return settings | (compressed_settings(version) if compressed else {})


def _eatmydata(build: Build) -> Path | None:
    return build.eatmydata if build.image else eatmydata()


@contextmanager
def _redo_off(server: Server, profile: BuildProfile) -> Iterator[None]:
    """Where it fails in between nothing of the build is kept, so that only the good way turns it on again."""
    if profile.disable_redo:
        _command(server, "ALTER INSTANCE DISABLE INNODB REDO_LOG")
    yield
    if profile.disable_redo:
        _command(server, "ALTER INSTANCE ENABLE INNODB REDO_LOG")


def _command(server: Server, statement: str) -> None:
    with server.session() as connection, connection.cursor() as cursor:
        cursor.execute(statement)


def _interruptions(stop: threading.Event) -> AbstractContextManager[None]:
    """The first Ctrl-C (or SIGTERM, or a closed terminal) asks the build to end, the second is an ordinary one."""

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            signal.default_int_handler(number, frame)
        stop.set()

    return handled_by(on_interrupt)


def _prove(ground: Ground) -> State:
    """Counted in a server that runs as the test will, and on the disk: half a database is fast, and looks fine."""
    version, databases = ground.build.version, ground.schema.database_names
    ground.say(f"{version}: counting what was built")
    with ground.server(test_settings(version)) as server:
        server.start(log_name="prove.log")
        with server.session() as connection:
            tables = count_tables(connection, databases)
            # Tables of somebody's own template have names of their own: they are counted when they are first used.
            written = tables_of(insert_statements(ground.schema)) if ground.schema.template is None else ()
            rows = count_rows(connection, written) if tables == ground.schema.total_tables else {}
            _count_loaded(ground.schema, connection)
            _check_compressed(ground.schema, connection)
        server.stop()
    files = table_files(ground.target.mysql, ground.schema).count()
    _compare(ground.schema, tables=tables, files=files)
    size = allocated_bytes(ground.target.mysql)
    return replace(ground.target.state, status="whole", tables=tables, ibd_files=files, bytes=size, rows=rows)


def _count_loaded(schema: Schema, connection: Connection[Cursor]) -> None:
    """A table that was filled by half is fast, and nobody sees why."""
    if schema.template is None or schema.template.parent != template_dir() or not schema.rows:
        return
    found = count_rows(connection, sysbench_tables(schema))
    for table, rows in found.items():
        if rows != schema.rows:
            raise StageDiffersError(
                f"{table} has {rows:,} rows instead of {schema.rows:,}", "run it again: it is built anew"
            )


def _check_compressed(schema: Schema, connection: Connection[Cursor]) -> None:
    """A server that cannot may say so in a warning, and make plain ones."""
    if schema.layout is not Layout.COMPRESSED:
        return
    table = sysbench_tables(schema)[0]
    asked = "SELECT row_format FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    found = scalar(connection, asked, tuple(table.split(".")))
    if str(found).lower() != "compressed":
        raise StageDiffersError(
            f"{table} is of row format {found} instead of compressed", "leave out QUESTION=compression for this server"
        )


def _compare(schema: Schema, *, tables: int, files: int) -> None:
    asked = schema.total_tables
    where = ", ".join(schema.database_names[:3]) + (" …" if schema.databases > 3 else "")
    if tables != asked:
        raise StageDiffersError(
            f"the build made {tables:,} tables in {where} instead of {asked:,}",
            "a template of your own must create its tables in the schemas that `databases` names, and drop none",
        )
    # A partitioned table of somebody's own template has a file for each partition.
    if files < schema.files or (files > schema.files and schema.template is None):
        raise StageDiffersError(
            f"{files:,} .ibd files lie in {where} for {asked:,} tables: {schema.files:,} should be there",
            "a template of your own must leave each table in a file of its own (InnoDB, innodb_file_per_table)",
        )
