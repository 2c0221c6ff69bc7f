"""Contains `recovery estimate`, which says how long a running server would take to start if it were killed now, and
`recovery calibrate`, which takes what a start costs on this host from a session of pending-work.

The server is only read. What its storage can do is measured beside it, for two seconds."""

from __future__ import annotations

import json
import math
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import click
import psutil
from pydantic import TypeAdapter

from recovery.analysis.crash_estimate import (
    CONSTANTS,
    Constants,
    Estimate,
    Kill,
    ServerState,
    constants_for,
    estimate_start,
    fit_constants,
    kills_of,
    known_constants,
    series_of,
)
from recovery.cli.options import PATH_TYPE, table_option
from recovery.cli.output import STANDARD_OUTPUT, check_output, print_line, remove_json, write_json
from recovery.errors import InterruptedByUserError, RecoveryError, UsageError, escape_control
from recovery.linux.cgroups import groups_of, iops_limit
from recovery.linux.files import cache_dir, read_stored, write_atomically
from recovery.linux.host_facts import host_id_with
from recovery.linux.pressure import busy_host
from recovery.linux.read_benchmark import ProbeEffort, read_speeds
from recovery.linux.storage import Device, device_of
from recovery.mysqld.client import (
    BROKEN_ANSWER,
    NotAnsweringError,
    UserConnection,
    connect_as_user,
    explain,
    message_of,
    read_login,
)
from recovery.mysqld.pending_state import StateReader
from recovery.mysqld.running_server import look_at
from recovery.report.answer import Answer, Row, Value
from recovery.report.console import ReportConsole, draw
from recovery.report.openmetrics import render_estimate
from recovery.storage.sessions import find_session, load_session, session_names

_EVERY_S, _MEASURE_EVERY_S = 60.0, 3600.0
_ANSWER_S = 30.0
"""For all answers that one estimate needs."""
_EFFORT = ProbeEffort(64 << 20, 1.0)
"""A second with one read in flight, and one with 16."""
_LOWEST_OF_CLASS = 7
_JSON_FORMAT = 1


def _take_back(target: str | None, where: str, said: str) -> None:
    """Writes that there is no estimate, or prints why that cannot be written, unless `said` is about it already."""
    try:
        write_json(target, render_estimate(where, None, time.time()))
    except (RecoveryError, OSError) as error:
        why = error.message if isinstance(error, RecoveryError) else message_of(error)
        if why != said:
            print_line(f"warning: {why}", err=True)


class EstimateCommand(click.Command):
    """A command after whose errors nobody goes on reading old figures, also after those in its own words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with self.words_checked(list(args)):
            return super().parse_args(ctx, args)

    @staticmethod
    @contextmanager
    def words_checked(words: Sequence[str]) -> Iterator[None]:
        """Takes the figures back that `--openmetrics` among these words wrote, if the block refuses the words."""
        try:
            yield
        except (RecoveryError, click.UsageError):
            where = _word_after("--socket", words) or _word_after("--defaults-file", words)
            _take_back(_word_after("--openmetrics", words) or None, where, "")
            raise


def _word_after(option: str, words: Sequence[str]) -> str:
    for word, following in pairwise((*words, "")):
        name, equals, value = word.partition("=")
        if name == option and not (value if equals else following).startswith("-"):
            return value if equals else following
    return ""


@click.command(cls=EstimateCommand)
@click.option("--socket", "login_socket", type=PATH_TYPE, metavar="FILE", help="The socket of the server.")
@click.option(
    "--defaults-file", "login_file", type=PATH_TYPE, metavar="FILE",
    help="User and password, and the socket unless --socket names it: group [client].",
)  # fmt: skip
@click.option(
    "--reads", "reads_per_s", type=click.IntRange(1, 10**8), metavar="N",
    help="Small reads a second of the storage under the data. [default: measured there for 2 s]",
)  # fmt: skip
@click.option("--watch", "watches", is_flag=True, help="Print a line a minute, until Ctrl-C.")
@click.option(
    "--openmetrics", "metrics_to", type=PATH_TYPE, metavar="FILE",
    help="Write the figures for Prometheus, such as to a .prom file of node_exporter. With -, print them only.",
)  # fmt: skip
@table_option("json")
def estimate(
    *,
    login_socket: Path | None,
    login_file: Path | None,
    reads_per_s: int | None,
    watches: bool,
    metrics_to: Path | None,
    json_to: str | None,
) -> int:
    """Estimate how long a running server would take to start if it were killed now. It only reads."""
    if json_to == str(metrics_to) == STANDARD_OUTPUT:
        raise UsageError("--json and --openmetrics both print", "name a file for one of them")
    where, target = str(login_socket or login_file or ""), None if metrics_to is None else str(metrics_to)
    check_output("--openmetrics", target)
    lines, was_written = _Lines(stamped=watches), False
    try:
        if login_socket is None and login_file is None:
            raise UsageError("estimate needs a running server", "name its socket (--socket) or give --defaults-file")
        login = read_login(login_socket, login_file)
        where = login["unix_socket"] or where
        for found in _estimates(login, where, reads_per_s):
            answer = None if isinstance(found, RecoveryError) else found
            is_printed = write_json(target, render_estimate(where, answer, time.time()))
            text = json.dumps(as_json(where, answer or str(found)), indent=None if watches else 2)
            if not write_json(json_to, f"{text}\n", append=was_written) and not is_printed:
                lines.print(found)
            was_written = True
            if not watches:
                break
            time.sleep(_EVERY_S)
    except KeyboardInterrupt:
        if watches:
            remove_json(target)  # nobody would replace it
        else:
            _take_back(target, where, "")
        return InterruptedByUserError.exit_code
    except Exception as error:  # whatever ends this, nobody must go on reading old figures
        said = error.message if isinstance(error, RecoveryError) else message_of(error)
        _take_back(target, where, said)
        with suppress(RecoveryError, OSError):
            write_json(json_to, f"{json.dumps(as_json(where, said))}\n", append=was_written)
        raise
    return 0


def as_json(where: str, answer: tuple[ServerState, Estimate] | str) -> dict[str, Any]:
    """Returns an estimate as the object that `--json` prints or, with a text, why there is none."""
    if isinstance(answer, str):
        return {"format": _JSON_FORMAT, "server": where, "error": answer}
    state, found = answer
    return {
        "format": _JSON_FORMAT,
        "server": where,
        "version": str(state.version),
        "datadir": state.datadir,
        "seconds": found.seconds,
        "low_seconds": found.low_s,
        "high_seconds": found.high_s,
        "is_partial": found.is_partial,
        "parts": {
            part.name: {"seconds": part.seconds, "low_seconds": part.low_s, "high_seconds": part.high_s}
            for part in found.parts
        },
        "lever": found.lever,
        "locked_seconds": found.locked_s,
        "reads_per_second": state.reads_per_s,
        "reads_from": state.reads_from,
        "busy": state.busy,
        "files": state.files,
        "dirty_pages": state.dirty_pages,
        "reads_per_dirty_page": state.read_share,
        "redo_bytes": state.redo_bytes,
        "open_transactions": state.transactions,
        "uncommitted_rows": state.uncommitted_rows,
        "prepared_rows": state.prepared_rows,
        "notes": list(found.notes),
    }


def answer_of(found: Estimate, notes: Sequence[str]) -> Answer:
    """Returns an estimate as the answer of a report: its parts, the longest first, and what makes it shorter."""
    rows = tuple(
        Row(part.name, (Value(part.text, part.seconds, (part.low_s, part.high_s), "seconds"),))
        for part in found.shown_parts
    )
    locked = (f"Then {found.locked_text}.",) if found.locked_text else ()
    return Answer(
        title=f"If it were killed now: {found.whole_text}, of which",
        columns=("",),
        rows=rows,
        cause=(*locked, f"Largest lever: {found.lever}."),
        doubts=tuple(f"Note: {note}." for note in notes),
    )


class _Lines:
    """Prints estimates, with notes and errors once until they change."""

    def __init__(self, *, stamped: bool) -> None:
        self._stamped = stamped
        self._noted: tuple[str, ...] | None = None
        self._error = ""

    def print(self, found: tuple[ServerState, Estimate] | RecoveryError) -> None:
        """Prints an estimate, or why there is none."""
        now = datetime.now()
        if isinstance(found, RecoveryError):
            if found.message != self._error:
                print_line(f"{now:%H:%M:%S} {escape_control(found.message)}; it is asked again every minute.")
            self._error = found.message
            return
        state, estimated = found
        notes = (f"the storage has {state.reads_per_s:,.0f} reads a second ({state.reads_from})", *estimated.notes)
        if not self._stamped:
            draw(answer_of(estimated, notes), ReportConsole())
            return
        print_line(f"{now:%H:%M:%S} killed now: {estimated.text}. Largest lever: {estimated.lever}.")
        for note in notes if notes != self._noted else ():
            print_line(f"Note: {note}.")
        self._noted, self._error = notes, ""


def _estimates(
    login: Mapping[str, Any], where: str, reads_per_s: int | None
) -> Iterator[tuple[ServerState, Estimate] | RecoveryError]:
    """Yields an estimate whenever it is asked, or the error of a server that has answered before."""
    server, was_read = _Server(reads_per_s), False
    while True:
        is_read = False
        try:
            with _connected(login, where) as connection:
                server.use_connection(connection)
                while True:
                    found = server.estimate()
                    is_read = was_read = True
                    yield found
        except RecoveryError as error:
            if not was_read:
                raise
            failed = error
        if not is_read:  # else it may only have closed a connection that was idle for long
            yield failed


@contextmanager
def _connected(login: Mapping[str, Any], where: str) -> Iterator[UserConnection]:
    """Yields a connection. Errors in the block that are the server's are turned into one that says what to do."""
    if login["unix_socket"]:
        _check_socket(Path(login["unix_socket"]))
    try:
        connection = connect_as_user(login, answer_s=_ANSWER_S)
    except BROKEN_ANSWER as error:
        raise explain(error, where) from error
    with closing(connection):
        try:
            yield connection
        except BROKEN_ANSWER as error:
            raise explain(error, where) from error


def _check_socket(path: Path) -> None:
    try:
        is_socket = stat.S_ISSOCK(path.stat().st_mode)
    except PermissionError as error:
        raise UsageError(f"{path} cannot be reached: {error.strerror}", "run this as the server's user") from error
    except OSError as error:
        raise NotAnsweringError(f"{path} cannot be reached: {error.strerror}", "SELECT @@socket names it") from error
    if not is_socket:
        raise UsageError(f"{path} is no socket", "SELECT @@socket names it")


class _Server:
    """A running server, with what its storage can do and what a start costs there."""

    def __init__(self, reads_per_s: int | None) -> None:
        self._given_reads_per_s = reads_per_s
        self._reads_per_s, self._measured_s = float(reads_per_s or 0), 0.0

    def use_connection(self, connection: UserConnection) -> None:
        """Takes a new connection: the first one, or one to a server that was started again."""
        self._connection, self._reader = connection, StateReader(connection)
        self._pid = self._reader.server_pid
        self._datadir = None if self._pid is None else look_at(self._pid).datadir
        self._constants = constants_of(None if self._datadir is None else host_id_with(self._datadir))
        constants_for(self._reader.version, self._constants)
        hidden = "its data directory is not seen from here, so that the constants are not those of a calibration"
        self._notes = (hidden,) if self._datadir is None and _stored_constants() else ()
        self._reader.begin()

    def estimate(self) -> tuple[ServerState, Estimate]:
        busy = busy_host(self._pid)  # before this measures anything
        now_s = time.monotonic()
        is_old = self._given_reads_per_s is None and now_s - self._measured_s >= _MEASURE_EVERY_S
        if is_old or not self._reads_per_s:
            with suppress(UsageError) if self._reads_per_s else nullcontext():  # what was measured before is kept
                self._reads_per_s = self._measure()
            self._measured_s = now_s
        device = Device() if self._datadir is None else device_of(self._datadir)
        reads, writes = self._limit("read", device), self._limit("write", device)
        self._connection.begin_question()
        is_limited = reads < self._reads_per_s
        read_ahead_bytes = None if device.read_ahead_kb is None else device.read_ahead_kb << 10
        state = self._reader.read(min(self._reads_per_s, reads), read_ahead_bytes=read_ahead_bytes)
        state = replace(
            state,
            notes=(*state.notes, *self._notes),
            reads_from=self._reads_from(is_limited=is_limited),
            writes_share_limit=writes <= reads if is_limited else None,
            busy=busy,
        )
        return state, estimate_start(state, self._constants)

    def _reads_from(self, *, is_limited: bool) -> str:
        if self._given_reads_per_s is not None:
            return "given with --reads"
        return "the limit of the server's control group" if is_limited else "measured for 2 s beside the server"

    def _limit(self, kind: str, device: Device) -> float:
        """Returns the reads or writes a second that the server's control groups allow, such as those of its
        container."""
        if self._pid is None or self._datadir is None or self._given_reads_per_s is not None:
            return math.inf
        limits = (iops_limit(group, device.disk or "", kind) for group in groups_of(self._pid, "blkio", "io"))
        return min((limit for limit in limits if limit), default=math.inf)

    def _measure(self) -> float:
        """Measures a file without a name on the volume of the data directory, beside the server."""
        if self._datadir is None:
            raise UsageError(
                "the server's data directory is not seen from here, so its storage cannot be measured",
                "run this on its host as root or as the server's user, or give --reads",
            )
        with _low_io_priority():
            speeds = read_speeds(self._datadir, _EFFORT, "4k")
        if not speeds:
            raise UsageError(
                "the storage of the server's data directory cannot be measured",
                "run this as root or as the server's user, with 128 MiB of free space, or give --reads",
            )
        return float(speeds["4k_16"].iops)


@contextmanager
def _low_io_priority() -> Iterator[None]:
    """Gives this thread, and those that it starts, the lowest priority of its class for I/O. With a lower one for CPU
    it would measure a busy host in place of the storage."""
    process = psutil.Process()
    with suppress(psutil.Error, OSError):
        process.ionice(psutil.IOPRIO_CLASS_BE, _LOWEST_OF_CLASS)
    try:
        yield
    finally:
        with suppress(psutil.Error, OSError):
            process.ionice(psutil.IOPRIO_CLASS_NONE)


# --- The constants of a host


_FORMAT = 2


@dataclass(frozen=True)
class _StoredConstants:
    format: int
    hosts: dict[str, dict[str, Constants]]
    """By the host's id, and by series."""


def _constants_file() -> Path:
    return cache_dir() / "estimate-constants.json"


def _stored_constants() -> dict[str, dict[str, Constants]]:
    path = _constants_file()
    if not path.exists():
        return {}
    hosts = read_stored(path, TypeAdapter(_StoredConstants), only=_FORMAT).hosts
    for series, one in ((series, one) for of_host in hosts.values() for series, one in of_host.items()):
        if not one.is_possible:
            raise UsageError(f"{path} has impossible constants for {series}", f"remove {path}, or calibrate again")
    return hosts


def constants_of(host_id: str | None) -> Mapping[str, Constants]:
    """Returns the constants of each series: those of this host and storage, if it was calibrated."""
    return {**CONSTANTS, **_stored_constants().get(host_id or "", {})}


def store_constants(host_id: str, fitted: Mapping[str, Constants]) -> Path:
    """Stores the constants of a host, in place of those of the same series, and returns the file."""
    hosts, path = _stored_constants(), _constants_file()
    hosts[host_id] = {**hosts.get(host_id, {}), **fitted}
    stored = asdict(_StoredConstants(_FORMAT, hosts))
    write_atomically(path, (json.dumps(stored, indent=2) + "\n").encode(), create=True)
    return path


@click.command()
@click.argument("session", required=False)
@table_option("results")
@table_option("json")
def calibrate(session: str | None, results: Path, json_to: str | None) -> None:
    """Take what a start costs on this host from a session of pending-work, the newest unless one is named. From then on
    `recovery estimate` uses it for servers of the same series on the same storage, until the file that this names is
    removed."""
    found_session = find_session(results, session or _newest(results))
    found = load_session(found_session)
    by_series = kills_of(found)
    if found.host_id is None:
        raise UsageError("the session does not know its host", "measure again, with this version of the tool")
    if not by_series:
        raise UsageError(
            f"a session of {found.experiment} does not say what was pending at a kill", "name one of pending-work"
        )
    fitted = {}
    for series, kills in by_series.items():
        try:
            fitted[series] = fit_constants(kills, known_constants(series))
        except UsageError as error:
            raise UsageError(f"{series}: {error.message}", error.hint) from error
    path = store_constants(found.host_id, fitted)
    rows = {
        series: {**asdict(one), "starts": len(by_series[series]), "range_ratio": _range_ratio(by_series[series], one)}
        for series, one in fitted.items()
    }
    if write_json(json_to, {"format": _JSON_FORMAT, "session": found_session.name, "file": str(path), "series": rows}):
        return
    for series, one in fitted.items():
        print_line(
            f"{series}, {len(by_series[series])} starts: {one.process_s:.2g} s, and for each dirty page "
            f"{one.requests_per_page:.2g} requests, or {1000 * one.page_s:.2g} ms where the storage is faster; the "
            f"range is +-{100 * one.error:.0f} %, and its ends are {rows[series]['range_ratio']:.1f} times apart "
            "(median)"
        )
    print_line(f"Stored for this host in {path}. To undo it, remove this file, which has the constants of all series.")


def _range_ratio(kills: Sequence[Kill], constants: Constants) -> float:
    """Returns the median ratio of the ends of the ranges for these starts."""
    found = [estimate_start(kill.state, {series_of(kill.state.version): constants}) for kill in kills]
    return median(one.high_s / one.low_s for one in found)


def _newest(results: Path) -> str:
    names = [name for name in session_names(results) if "-pending-work" in name]
    if not names:
        raise UsageError(
            f"there is no session of pending-work in {results}",
            "measure one, in about 10 minutes: `recovery pending-work --version VERSION --runs 3`",
        )
    return names[-1]
