"""How are 200,000 tables made in a minute? Statements in packets, packets over connections, order where it matters."""

from __future__ import annotations

import queue
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import combinations, islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Protocol

import pymysql
from pymysql.connections import Connection

import recovery
from recovery.analysis.effective_options import given, lowered, one_experiment
from recovery.builds.executable import eatmydata
from recovery.errors import (
    EndedOnRequestError,
    HostUnfitError,
    RecoveryError,
    ServerFailedError,
    StorageFailedError,
    UsageError,
)
from recovery.linux.files import allocated_bytes, on_the_disk, table_files, template_dir
from recovery.linux.signals import Standstill, handled_by
from recovery.linux.storage import HINT, Need, blaming, check_space, device_of, free, taken_by, temporary
from recovery.model import Build, Layout, Schema, Version, can
from recovery.mysqld.bootstrap import initialise, make_keys
from recovery.mysqld.client import count_tables, message_of, scalar
from recovery.mysqld.datadir import DataDir, State
from recovery.mysqld.launcher import Launcher, RunDirs
from recovery.mysqld.options import Settings, build_settings, compressed_settings, merge, test_settings
from recovery.mysqld.server import Server
from recovery.mysqld.startup import DEFAULT_STALL_S
from recovery.workload.inserts import count_rows, insert_statements, shortened, tables_of
from recovery.workload.schema import (
    REFERENCES,
    Kind,
    ScriptSize,
    check_template,
    creates_table,
    kind_of,
    need_of,
    statements,
    sysbench_tables,
)

if TYPE_CHECKING:
    from pymysql.cursors import Cursor


# Which statements travel together, and what must be finished before them? Pure.

MAX_PACKET_BYTES = 1 << 20
"""The smallest default of max_allowed_packet (5.5); a single longer statement goes alone, and the server decides."""


@dataclass(frozen=True)
class Packet:
    """Statements of one kind that go to the server in one piece."""

    first: int
    """Number of its first statement in the script, from 0."""
    kind: Kind
    statements: tuple[str, ...]

    @property
    def text(self) -> str:
        return ";\n".join(self.statements)

    @property
    def end(self) -> int:
        return self.first + len(self.statements)


def packets(script: Iterable[str], *, batch: int, done: int = 0) -> Iterator[Packet]:
    """The script from statement `done` on, in its order. What changes a connection is never skipped: the connections
    that go on are new ones, and have not run it."""
    first, kind, taken, size = done, Kind.IN_ORDER, list[str](), 0
    for number, (statement, its_kind) in enumerate(_kinds(script)):
        if number < done:
            if its_kind is Kind.SESSION:
                yield Packet(number, its_kind, (statement,))
            continue
        length = len(statement) if statement.isascii() else len(statement.encode())
        most = 1 if its_kind is Kind.FILL else batch
        if taken and (its_kind is not kind or len(taken) >= most or size + length > MAX_PACKET_BYTES):
            yield Packet(first, kind, tuple(taken))
            taken, size = [], 0
        if not taken:
            first, kind = number, its_kind
        taken.append(statement)
        size += length + 2
    if taken:
        yield Packet(first, kind, tuple(taken))


def _kinds(script: Iterable[str]) -> Iterator[tuple[str, Kind]]:
    """Rows of tables that refer to each other must keep their order: the row referred to comes first."""
    referring = False
    for statement in script:
        kind = kind_of(statement)
        referring = referring or (kind is Kind.IN_ORDER and REFERENCES.search(statement) is not None)
        yield statement, Kind.IN_ORDER if referring and kind in (Kind.INSERT, Kind.FILL) else kind


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


# Where is built what, and with what? And does a server start there at all, with all that was asked?

_LOG = "initialise.log"
_NOT_FOUND = re.compile(r"Can't open shared library '([^']+)'")


@dataclass(frozen=True)
class Ground:
    """Of one stage."""

    build: Build
    schema: Schema
    target: DataDir
    launcher: Launcher
    say: Callable[[str], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Those that shape the files."""
    tried: Sequence[Mapping[str, str]] = ()
    """Those of later starts: one that the server refuses is told before the hour of building."""
    stall_s: float = DEFAULT_STALL_S

    @property
    def logs(self) -> Path:
        return self.target.path / "build-logs"

    def server(self, settings: Mapping[str, str], preload: tuple[Path, ...] = ()) -> Server:
        return Server(
            self.launcher,
            self.build,
            self.target.mysql,
            device=device_of(self.target.path),
            logdir=self.logs,
            settings=merge(settings, self.settings),
            preload=preload,
            stall_s=self.stall_s,
            keys=self._keys,
        )

    @property
    def _keys(self) -> Path | None:
        return self.target.keys_for(self.schema)

    def initialise(self) -> None:
        """Of an empty folder."""
        self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._keys is not None:
            make_keys(self._keys)
        rundirs = RunDirs()
        try:
            initialise(
                self.launcher,
                self.build,
                self.target.mysql,
                rundir=rundirs.next(),
                log=self.logs / _LOG,
                settings=dict(self.settings),
                keys=self._keys,
                stall_s=self.stall_s,
            )
        except ServerFailedError as error:
            if self._keys is not None and (plugin := _not_found(self.logs / _LOG)):
                self.target.wipe()
                raise HostUnfitError(
                    f"this build of {self.build.version} has no {plugin}, which encrypted tables take their keys from",
                    "take a build that has it (MYSQLD=, IMAGE=), or say where it lies: --set plugin_dir=FOLDER",
                ) from error
            raise
        finally:
            rundirs.remove()

    def try_settings(self) -> None:
        """On the empty directory, where a start takes a second."""
        found: list[dict[str, str]] = []
        try:
            for number, settings in enumerate(filter(None, self.tried), 1):
                with (
                    blaming(self.target.storage, temporary()),
                    self.server(merge(test_settings(self.build.version), settings)) as server,
                ):
                    server.start(log_name=f"settings-{number}.log")
                    found.append(_in_effect(server, settings))
                    server.stop()
        except ServerFailedError as error:
            self.target.wipe()
            raise UsageError(
                f"with the options asked for, {error.message}",
                "see --set and --variant, and the server's manual of this version",
            ) from error
        self._compare(found)

    def _compare(self, found: Sequence[Mapping[str, str]]) -> None:
        """Two that a server starts with alike would be measured as two; one that it lowers is told."""
        for one, other in combinations(found, 2):
            if alike := one_experiment(one, other):
                self.target.wipe()
                told = " and ".join(map(str, alike))
                raise UsageError(
                    f"{self.build.version} makes no difference between two of the settings asked for: {told} in both",
                    f"give values that it does not change; {one['@open_files_limit']} open files are allowed it "
                    "(ulimit -n)",
                )
        vary = {name for one, other in combinations(map(given, found), 2) for name, _ in one.items() ^ other.items()}
        for less in dict.fromkeys(less for known in found for less in lowered(known) if less.option in vary):
            self.say(f"{self.build.version}: {less}")


def _in_effect(server: Server, settings: Mapping[str, str]) -> dict[str, str]:
    """As a session stores it."""
    names = [name.removeprefix("loose_") for name in settings]
    told = server.variables((*names, "open_files_limit"))
    options = " ".join(f"{name}={value}" for name, value in settings.items())
    return {"options": options} | {f"@{name}": value for name, value in told.items()}


def _not_found(log: Path) -> str | None:
    """The plugin that the server looked for in vain, and where."""
    try:
        found = _NOT_FOUND.search(log.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:  # it was never started
        return None
    return found and found[1]


# How is this server's stage built fastest? Measured, on two cores. Pure.


@dataclass(frozen=True)
class BuildProfile:
    connections: int
    batch: int
    """Statements in one packet."""
    disable_redo: bool


def build_profile(version: Version) -> BuildProfile:
    """A dictionary lock makes more than two connections useless before 8.0. Without the preloaded library the rate
    halves, or worse. Larger packets gain nothing, and an interruption has to wait for those under way."""
    scales = can(version, "ddl_scales_with_connections")
    return BuildProfile(
        connections=4 if scales else 2,
        batch=100 if scales else 200,
        disable_redo=can(version, "disable_redo"),
    )


# How does an empty folder become a proved stage? Initialised, built fast, started as the test will, counted.


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
