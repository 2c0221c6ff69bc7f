"""Contains `recovery watch`, which shows how far a starting server is, and how long its current phase still takes.

It works on any server of this host, or on a log alone. It changes nothing. Modules that take long to import are
imported where they are used: a probe calls `recovery watch --once` every few seconds."""

from __future__ import annotations

import math
import os
import select
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from recovery.cli.options import PATH_TYPE, table_option
from recovery.cli.output import STANDARD_OUTPUT, print_line, write_json
from recovery.cli.watch_view import State, View, json_line, name_of, one_line, progress_text, to_json, view_lines, worst
from recovery.errors import InterruptedByUserError, RecoveryError, UsageError, escape_control
from recovery.linux.file_opens import OpenOrder
from recovery.linux.files import expand_path
from recovery.linux.procfs import has_open, ids_in_namespaces, is_running, process_age_s, process_stat
from recovery.logs.log_analysis import LoggedStart
from recovery.logs.log_tail import LogTail
from recovery.logs.start_progress import StartProgress
from recovery.logs.watched_log import WatchedLog
from recovery.mysqld.running_server import (
    GREETING_S,
    Answer,
    RunningServer,
    greeting,
    journal_of,
    listening_sockets,
    log_without_server,
    look_at,
    running_servers,
    sample_of,
    short_name,
    start_limit,
    uses_direct_io,
    what_it_waits_for,
)
from recovery.phase_table import Milestone
from recovery.report.fmt import count_text

if TYPE_CHECKING:
    from recovery.mysqld.client import UserConnection

DEFAULT_STALL_S = 60.0
_INTERVAL_S, _SHORTEST_S = 1.0, 0.1
"""Times between two looks: without a new line, and in any case."""
_MOST_PID_DIGITS = 10
_FIRST_LOOK_S, _LOOK_S = 0.1, 0.5
"""Times between two looks of `--once` at a process that has not moved yet."""
_PLAIN_EVERY_S = 15.0
_ANSWER_S, _MOST_ROWS = 10.0, 10**12
"""Of the login that follows a rollback: time for its answer, and rows that can be."""
_LONGEST_READ_S = 10.0
"""Time for which `--once` reads a pipe that never pauses."""
_TAIL_BYTES, _STARTS_BEFORE = 64 << 20, 200
_TAIL_BYTES_ONCE, _STARTS_BEFORE_ONCE = 4 << 20, 12
"""How much of a log is read for the starts before the last one, and how many of them."""
_BEGIN, _BEFORE_BEGIN_BYTES = b" as process ", 4096
"""What a server writes when it names itself, and space for what belongs to its start before that."""
_READ_BYTES = 1 << 16


@click.command()
@click.argument("target", required=False, metavar="[PID | LOG | DATADIR | -]")
@table_option("json")
@click.option(
    "--once", is_flag=True,
    help="Print one line per server. Exit code: 0 ready, 10 progressing, 11 stalled, 12 loop, 3 gone.",
)  # fmt: skip
@click.option("--stall", "stalled_after_s", type=click.FloatRange(min=0, min_open=True), default=DEFAULT_STALL_S,
              metavar="SECONDS", help="Stalled means no progress for so long. [default: 60]")  # fmt: skip
@click.option("--follow-log", "log_alone", type=PATH_TYPE, metavar="FILE", help="Follow this log without a process.")
@click.option(
    "--like",
    metavar="SESSION",
    help="Take the times of the phases ahead from this session. [default: the newest one of this host and version]",
)
@click.option(
    "--socket",
    "login_socket",
    type=PATH_TYPE,
    metavar="FILE",
    help="Log in here after ready: for a query with --once, else to follow the rollback.",
)
@click.option(
    "--defaults-file", "login_file", type=PATH_TYPE, metavar="FILE", help="User and password for that: group [client]."
)  # fmt: skip
@table_option("results")
def watch(target: str | None, *, json_to: str | None, once: bool, **given: Any) -> int:
    """Show how far a starting server is, and how long still: a PID, its LOG, its DATADIR, or - for a log on standard
    input. Without one, the servers of this host that are starting. It needs no login and changes nothing."""
    login = _read_login(given["login_socket"], given["login_file"])
    asked = _Asked(json_to=json_to, once=once, login=login, **given)
    if math.isnan(asked.stalled_after_s):
        raise UsageError("--stall is not a number", "leave it out")
    if target is not None and asked.log_alone is not None:
        raise UsageError(f"--follow-log follows a log alone, so {target} has no meaning", "leave it out")
    try:
        with ExitStack() as stack:
            found = _find(target, asked, stack)
            states = _look_once(found, asked) if once else _follow(found, asked, stack)
            return worst(states).value
    except _NoServerError as error:
        if not write_json(json_to, f"{json_line(State.GONE, str(error), datetime.now(UTC))}\n"):
            print_line(f"gone: {error}")
        return State.GONE.value
    except KeyboardInterrupt:
        return InterruptedByUserError.exit_code


@dataclass(frozen=True)
class _Asked:
    json_to: str | None
    once: bool
    stalled_after_s: float
    log_alone: Path | None
    like: str | None
    login_socket: Path | None
    login_file: Path | None
    login: Mapping[str, Any] | None
    """What the two lead to."""
    results: Path

    @property
    def tail(self) -> tuple[int, int]:
        return (_TAIL_BYTES_ONCE, _STARTS_BEFORE_ONCE) if self.once else (_TAIL_BYTES, _STARTS_BEFORE)


def _read_login(socket: Path | None, defaults_file: Path | None) -> Mapping[str, Any] | None:
    """Returns what a login takes, if one was given."""
    if socket is None and defaults_file is None:
        return None
    from recovery.mysqld.client import read_login

    return read_login(socket, defaults_file)


# --- What is watched

_Line = tuple[str, float | None, bool]
"""A line of a log, when it arrived (None: before it was read), and whether it is complete."""


class _Pipe:
    """Reads a log from a pipe, such as standard input or the journal, as LogTail reads a file."""

    def __init__(self, stream: BinaryIO) -> None:
        self.fd, self._rest, self.ended = stream.fileno(), b"", False
        self._opened_s = self._read_s = time.monotonic()
        self.behind = False
        """Whether there may be more to read at once."""

    @property
    def idle_s(self) -> float:
        """Time since something was read or, before that, since the beginning."""
        return time.monotonic() - self._read_s

    def read(self) -> list[_Line]:
        """Returns the next lines that are there, with the moment of their arrival. What a pipe has at the beginning may
        be old: then the stamps tell when it was written."""
        self.behind = not self.ended and bool(select.select([self.fd], [], [], 0)[0])
        if not self.behind:
            return []
        chunk = os.read(self.fd, _READ_BYTES)
        self.ended = not chunk
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        if self.ended and self._rest:
            return [(_decoded(self._rest), None, True)]
        now_s = self._read_s = time.monotonic()
        arrived_s = now_s if now_s - self._opened_s > _INTERVAL_S else None
        return [(_decoded(line), arrived_s, True) for line in whole]


class _File:
    """Reads the end of a log, and what is added to it."""

    ended = False

    def __init__(self, path: Path, tail: tuple[int, int], stack: ExitStack) -> None:
        self._tail = stack.enter_context(LogTail(path, begin=_begin_of_starts(path, *tail)))
        self._path, self.fd, self._is_old, self.behind = path, self._tail.fd, True, False

    @property
    def idle_s(self) -> float:
        """Time since the file was written; 0 if it is not there at the moment."""
        with suppress(OSError):
            return time.time() - self._path.stat().st_mtime
        return 0.0

    def is_at(self, path: Path) -> bool:
        return self._tail.is_at(path)

    def has_no_writer(self) -> bool:
        from recovery.mysqld.log_writer import has_no_writer

        return has_no_writer(self._path)

    def has_writer(self, pid: int) -> bool:
        with suppress(OSError):
            return bool(has_open(pid, self._path.stat()))
        return False

    def read(self) -> list[_Line]:
        """Returns the next lines, some megabytes at most."""
        lines = self._tail.read()
        found = [(line.text, None if self._is_old else line.arrived_s, line.complete) for line in lines]
        self.behind = self._tail.behind
        self._is_old = self._is_old and self.behind
        return found


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", errors="replace").rstrip("\r")


def _begin_of_starts(path: Path, tail_bytes: int, starts: int) -> int:
    """Returns the position in a log of the last few starts."""
    with path.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        at = max(0, size - tail_bytes)
        log.seek(at)
        content = log.read(tail_bytes)
    found = len(content)
    for _ in range(starts):
        before = content.rfind(_BEGIN, 0, found)
        if before < 0:
            break
        found = before
    begin = max(0, found - _BEFORE_BEGIN_BYTES) if found < len(content) else 0
    line = content.find(b"\n", begin) + 1 if begin or at else 0
    return at + line


class Watched:
    """A server that is watched: its process, if it is known, and its log, if it can be read."""

    def __init__(
        self, server: RunningServer | None, source: _File | _Pipe | None, where: str, *, needs_writer: bool = False
    ) -> None:
        self.server, self.source, self.where = server, source, where
        self.answer: Answer | None = None
        """How a ready server answers a new connection; None while nobody asks."""
        self.needs_writer = needs_writer
        """Whether the server is gone if no process of this host has its log open."""
        now_s, age_s = time.monotonic(), None if server is None else process_age_s(server.pid)
        self.log = WatchedLog(now_s, time.time(), None if age_s is None else now_s - age_s)
        self._ids = () if server is None else ids_in_namespaces(server.pid)
        self.missing = () if server is None else server.missing
        if server is not None and source is None and not server.missing:
            self.missing = ("its log, which is no file: pipe it in, such as `journalctl -fu mysql | recovery watch -`",)
        self._unlogged = StartProgress(started_s=self.log.process_s or now_s)
        self._limit: str | None = None
        self.seconds_ahead: Mapping[str, float] = {}
        self._counted: StartProgress | None = None
        self._last_milestone: Milestone | None = None
        self._opened: OpenOrder | None = None
        self._opened_by: StartProgress | None = None

    @property
    def pid(self) -> int | None:
        return None if self.server is None else self.server.pid

    def update(self) -> None:
        """Takes the new lines of the log, and a sample of the process."""
        begin_s = time.monotonic()
        while self.source is not None:
            for text, arrived_s, complete in self.source.read():
                self.log.take(text, arrived_s, complete=complete)
            if not self.source.behind or time.monotonic() - begin_s >= _INTERVAL_S:
                break  # in the end the log grows as fast as it is read
        progress = self._progress()
        if self.server is None or progress.ready_s is not None:
            return
        if self._counted is not progress and (progress.tracker.milestones or self.source is None):
            self._counted, progress.totals = progress, self.server.totals()
            redo = progress.totals.redo
            if redo is not None and self.log.stamp is not None:
                self.log.seen_checkpoints[self.log.stamp] = redo.checkpoint_lsn
        if progress.tracker.last_milestone is not self._last_milestone:
            # Only when it opens its files it shows how.
            self._last_milestone = progress.tracker.last_milestone
            progress.totals = replace(progress.totals, direct_io=uses_direct_io(self.server.pid))
        files_opened = self._files_opened(progress)
        if (sample := sample_of(self.server.pid, time.monotonic())) is not None:
            progress.add_sample(replace(sample, files_opened=files_opened))

    def _files_opened(self, progress: StartProgress) -> int | None:
        """Returns how many files the server has opened in a phase in which it opens all of them."""
        if self.server is None or not progress.opens_files_in_order:
            self.close()
            return None
        if self._opened_by is not progress:
            self._opened, self._opened_by = self.server.open_order(), progress
        return None if self._opened is None else self._opened.position()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _progress(self) -> StartProgress:
        """Returns the progress of the server's start, of which the log may not have a line yet."""
        is_own = self.server is None or self.log.is_of(self._ids)
        return self.log.progress if is_own else self._unlogged

    def has_moved(self, within_s: float) -> bool:
        """Returns whether the log or the process is known to have moved lately."""
        return self.server is None or time.monotonic() - self._progress().moved_s < within_s

    def view(self, stalled_after_s: float) -> View:
        now_s, start = time.monotonic(), self._progress()
        progress, loop = start.progress(now_s), self.log.loop if start is self.log.progress else None
        stat = None if self.server is None else process_stat(self.server.pid)
        if self.server is None and self.source is not None:
            idle_s = max(0.0, self.source.idle_s)  # without a process only the log can move
        else:
            idle_s = max(0.0, now_s - progress.progress_at_s)
        is_stopped = stat is not None and stat.state in ("T", "t")
        hangs = progress.ready and (is_stopped or (self.answer is not None and self.answer.hangs))
        is_cut = self.needs_writer and isinstance(self.source, _File) and self.source.has_no_writer()
        is_gone = stat is None if self.server is not None else self.log.ended or self._has_no_start() or is_cut
        waits = not is_gone and not progress.ready and (is_stopped or idle_s >= stalled_after_s)
        if is_gone:
            state = State.GONE
        elif progress.ready:
            state = State.STALLED if hangs else State.READY
        elif loop is not None:
            state = State.LOOP
        else:
            state = State.STALLED if waits else State.PROGRESSING
        if loop is not None and self._limit is None and self.server is not None:
            self._limit = start_limit(self.server.pid)
        return View(
            state=state,
            pid=self.pid,
            version=start.tracker.version or (self.log.progress.tracker.version if is_gone else None),
            where=self.where,
            progress=progress,
            startup_s=now_s - start.tracker.started_s if self.server is not None or self.log.has_start else None,
            idle_s=idle_s,
            loop=None if is_gone else loop,
            limit=self._limit,
            waits_for=(None if is_gone else self.log.waits_for)
            or (self._waits_for() if waits or (hangs and is_stopped) else None),
            answer=None if is_gone or not progress.ready else self.answer,
            missing=self.missing,
            seconds_ahead=self.seconds_ahead,
            reason=self._reason(is_cut=is_cut) if is_gone else None,
        )

    def _waits_for(self) -> str:
        if self.server is not None:
            return what_it_waits_for(self.server.pid)
        return "no line was added to the log, and the process is not known here"

    def _has_no_start(self) -> bool:
        """Returns whether there is a log without a process, and all of it shows no start."""
        is_all = isinstance(self.source, _File) or (self.source is not None and self.source.ended)
        progress = self.log.progress
        return is_all and not (self.log.has_start or progress.tracker.milestones or progress.ready_s is not None)

    def _reason(self, *, is_cut: bool = False) -> str | None:
        if self.server is None and self._has_no_start():
            return "its log shows no start"
        starts = self._own_starts()
        if not starts or starts[-1].outcome == "ready":
            return "no process of this host has its log open" if is_cut and not self.log.ended else None
        last = starts[-1]
        where = f" in {last.standing}" if last.standing else ""
        if is_cut and not self.log.ended:
            return f"its start was cut off{where}; no process of this host has its log open"
        reason = self.log.failure_text(last.reason) if last.outcome == "failed" else last.reason
        return f"its start ended{where}{f': {reason}' if reason else ''}"

    def _own_starts(self) -> list[LoggedStart]:
        """Returns the starts in the log, without those after the watched one: the next server may have written its
        lines before this one is known to have ended."""
        starts = self.log.starts()
        if self.server is None:
            return starts
        own = [number for number, start in enumerate(starts) if start.pid is None or start.pid in self._ids]
        return starts[: own[-1] + 1] if own else []


class _NoServerError(Exception):
    """There is no such server; the text says which."""


def _find(target: str | None, asked: _Asked, stack: ExitStack) -> list[Watched]:
    """Returns what was asked for: one server or, without a target, those that are starting. Raises _NoServerError if
    there is none."""
    if target is None and asked.log_alone is None:
        return _find_starting(asked, stack)
    return [_find_one(target, asked, stack)]


def _find_one(target: str | None, asked: _Asked, stack: ExitStack) -> Watched:
    if STANDARD_OUTPUT in (target, str(asked.log_alone)):
        return Watched(None, _Pipe(sys.stdin.buffer), "standard input")
    if asked.log_alone is not None:
        return _open_log_alone(asked.log_alone, asked, stack)
    assert target is not None
    if not target.isdecimal():
        return _find_by_path(expand_path(Path(target)), asked, stack)
    if len(target) > _MOST_PID_DIGITS or int(target) not in running_servers():
        raise _NoServerError(f"no mysqld or mariadbd has the process id {target}")
    return _open_server(int(target), asked, stack)


def _find_by_path(path: Path, asked: _Asked, stack: ExitStack) -> Watched:
    try:
        status = path.stat()
    except OSError as error:
        hint = "name a process id, a log, a data directory, or - for standard input"
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint) from None
    if path.is_dir():
        return _find_by_datadir(path, status, asked, stack)
    for pid in running_servers():
        if has_open(pid, status):
            return _open_server(pid, asked, stack)
    return _open_log_alone(path, asked, stack, needs_writer=True)


def _find_by_datadir(folder: Path, status: os.stat_result, asked: _Asked, stack: ExitStack) -> Watched:
    unseen = []
    for pid in running_servers():
        seen = look_at(pid)
        datadir = seen.datadir
        if datadir is None:
            unseen += [str(pid)] if seen.missing and is_running(pid) else []
            continue
        with suppress(OSError):
            if os.path.samestat(datadir.stat(), status):
                return _open_server(pid, asked, stack)
    if unseen:
        raise UsageError(
            f"no server is seen over {folder}, but this user may not see the data of process {', '.join(unseen)}",
            "run this as root or as the user of the server, or name the process",
        )
    return _open_log_of_ended(folder, f"no server runs over {folder}", asked, stack)


def _open_log_of_ended(folder: Path | None, what: str, asked: _Asked, stack: ExitStack) -> Watched:
    """Returns the log of a server that is not there: it may have failed to start. Raises _NoServerError with `what` if
    there is none."""
    log = log_without_server(folder)
    if log is None:
        raise _NoServerError(f"{what}, and no log of one is found: name it, or pipe in the journal")
    return _open_log_alone(log, asked, stack, needs_writer=True)


def _find_starting(asked: _Asked, stack: ExitStack) -> list[Watched]:
    """Returns the servers of this host that are starting or, if none is, all of them."""
    found = [_open_server(pid, asked, stack) for pid in running_servers()]
    if not found:
        what = "no mysqld or mariadbd runs on this host, as far as this user may see"
        return [_open_log_of_ended(None, what, asked, stack)]
    for watched in found:
        watched.update()
    starting = [watched for watched in found if watched.log.progress.ready_s is None] or found
    is_of_one = asked.login is not None and (asked.login_socket is not None or _is_by_tcp(asked.login))
    if is_of_one and len(starting) > 1:
        names = "; ".join(f"{watched.pid} over {watched.where}" for watched in starting)
        raise UsageError(
            f"the login is of one server, and {len(starting)} are watched: {names}",
            f"name one: recovery watch {starting[0].pid}",
        )
    return starting


def _open_server(pid: int, asked: _Asked, stack: ExitStack) -> Watched:
    server = look_at(pid)
    source: _File | _Pipe | None = None
    if server.log is not None:
        with suppress(OSError):
            source = _File(server.log, asked.tail, stack)
    elif (command := journal_of(pid)) is not None:
        source = _Pipe(_started(command if asked.once else [*command, "--follow"], stack))
    where = "an unknown data directory" if server.datadir is None else str(_real_path(server.datadir))
    return Watched(server, source, where)


def _real_path(path: Path) -> Path:
    with suppress(OSError):
        return path.resolve()
    return path


def _started(command: Sequence[str], stack: ExitStack) -> BinaryIO:
    import subprocess

    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL))
    stack.callback(process.terminate)
    assert process.stdout is not None
    return process.stdout  # type: ignore[return-value]


def _open_log_alone(path: Path, asked: _Asked, stack: ExitStack, *, needs_writer: bool = False) -> Watched:
    from recovery.logs.log_analysis import open_log

    log = stack.enter_context(open_log(path))
    if not path.is_file():
        return Watched(None, _Pipe(log), str(path))
    return Watched(None, _File(path, asked.tail, stack), str(path), needs_writer=needs_writer)


# --- Looking once, and following


def _look_once(found: Sequence[Watched], asked: _Asked) -> list[State]:
    """Prints a line for each server. A process that has not moved is looked at again until it has, or is stalled."""
    wait_s, until_s, stall_s = _FIRST_LOOK_S, time.monotonic() + _LONGEST_READ_S, asked.stalled_after_s
    for watched in found:
        _read_to_end(watched, until_s)
        if asked.like is not None:
            watched.seconds_ahead = _seconds_ahead(watched, asked)
    while unmoved := [
        watched
        for watched in found
        if watched.view(stall_s).state is State.PROGRESSING and not watched.has_moved(stall_s)
    ]:
        time.sleep(wait_s)
        wait_s = min(_LOOK_S, stall_s)
        for watched in unmoved:
            watched.update()
    views = [watched.view(stall_s) for watched in found]
    for number, watched in enumerate(found):
        if views[number].state is State.READY:
            watched.answer = _ask(watched, asked)
            views[number] = watched.view(stall_s)
    if not write_json(asked.json_to, _json_lines(views)):
        for view in views:
            print_line(f"{name_of(view)}: {one_line(view)}" if len(found) > 1 else one_line(view))
    return [view.state for view in views]


def _read_to_end(watched: Watched, until_s: float) -> None:
    """Reads a log to its end, or a pipe until it pauses."""
    watched.update()
    while isinstance(watched.source, _Pipe) and select.select([watched.source.fd], [], [], _INTERVAL_S)[0]:
        watched.update()
        if watched.source.ended or time.monotonic() > until_s:
            break


def _json_lines(views: Iterable[View]) -> str:
    now = datetime.now(UTC)
    return "".join(f"{to_json(view, now)}\n" for view in views)


def _ask(watched: Watched, asked: _Asked) -> Answer:
    """Asks a ready server for a greeting and, if there is a login, for the answer to a query."""
    answer = Answer(None, "only its log is known") if watched.pid is None else greeting(watched.pid)
    if answer.hangs:
        return answer
    login = _login_of(watched, asked)
    if login is None:
        return replace(answer, why=answer.why or "no login was given (--socket, --defaults-file)")
    from recovery.mysqld.client import BROKEN_ANSWER, NotAnsweringError, connect_as_user, explain, scalar

    try:
        with _connectable(login) as named, closing(connect_as_user(named, answer_s=GREETING_S)) as connection:
            scalar(connection, "SELECT 1")
    except BROKEN_ANSWER as error:
        said = explain(error, _place(login))
        if isinstance(said, NotAnsweringError):
            return Answer(answer.to, said.message, hangs=True)
        raise said from error
    return Answer("query")


def _login_of(watched: Watched, asked: _Asked) -> Mapping[str, Any] | None:
    """Returns the login, at the server's own socket, if it is seen, whatever socket a file names. None without a login,
    or if that socket is gone: then another server may be where the login leads."""
    login = asked.login
    if login is None or watched.pid is None or _is_by_tcp(login):
        return login
    try:
        own = [path for path in listening_sockets(watched.pid) if os.access(path, os.W_OK)]
    except PermissionError:
        return login
    with suppress(OSError):
        if any(path.samefile(login["unix_socket"] or "") for path in own):
            return login
    if own and asked.login_socket is not None:
        raise UsageError(f"{asked.login_socket} is no socket of process {watched.pid}", "leave --socket out")
    return _read_login(own[0], asked.login_file) if own else None


def _is_by_tcp(login: Mapping[str, Any]) -> bool:
    return login["unix_socket"] is None and (login["host"] != "localhost" or login["port"] != 0)


@contextmanager
def _connectable(login: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if login["unix_socket"] is None:
        yield login
        return
    with short_name(Path(login["unix_socket"])) as name:
        yield {**login, "unix_socket": name}


def _place(login: Mapping[str, Any]) -> str:
    return str(login["unix_socket"] or login["host"])


@dataclass(frozen=True)
class _Shown:
    """The line that was printed last of a server, where there is no terminal."""

    key: tuple[State, int | None, str | None]
    at_s: float
    text: str


def _after_ready(view: View) -> str:
    """Returns what is said once a server was called ready."""
    return "rows of open transactions are free" if view.progress.phase is None else progress_text(view)


class _Display:
    """Shows views as a page that is drawn again, as lines where there is no terminal, or as JSON, one object a line."""

    def __init__(self, asked: _Asked, *, several: bool) -> None:
        from recovery.cli.progress_view import Screen

        self._asked, self._screen = asked, Screen(None if asked.json_to == STANDARD_OUTPUT else sys.stdout)
        self._several, self._has_written = several, False
        self._shown: dict[int, _Shown] = {}
        self._gone: dict[int, View] = {}
        """The last views of servers that are gone."""

    def show(self, views: Mapping[int, View]) -> None:
        """Shows the views of the servers that are watched still, by their numbers."""
        is_printed = write_json(self._asked.json_to, _json_lines(views.values()), append=self._has_written)
        self._has_written = True
        if is_printed:
            return
        if self._screen.live:
            from recovery.cli.progress_view import Line, wrapped

            for number, view in views.items():
                gone = self._gone.pop(number, None)
                if gone is not None and view.pid != gone.pid:
                    for line in view_lines(gone):
                        self._screen.say(line)
                if view.state is State.GONE:
                    self._gone[number] = view
            columns, rows = self._screen.size
            texts = (text for view in views.values() for text in view_lines(view))
            lines = [row for text in texts for row in wrapped(text, columns - 1)]
            self._screen.draw([Line(escape_control(line)) for line in lines[: rows - 1]])
            return
        now_s = time.monotonic()
        for number, view in views.items():
            before, key = self._shown.get(number), (view.state, view.pid, view.progress.phase)
            if before is None or key != before.key or now_s - before.at_s >= _PLAIN_EVERY_S:
                is_again = before is not None and before.key[:2] == key[:2] and view.state is State.READY
                self._shown[number] = _Shown(key, now_s, one_line(view))
                self._print(view, _after_ready(view) if is_again else one_line(view))

    def _print(self, view: View, line: str) -> None:
        print_line(f"{name_of(view)}: {line}" if self._several else line)

    def end(self, number: int, view: View, lines: Iterable[str]) -> None:
        """Removes the page, and prints the last state of a server, unless it was printed, and more lines."""
        self._screen.clear()
        if self._asked.json_to == STANDARD_OUTPUT:
            return
        shown = self._shown.get(number)
        if shown is None or shown.text != one_line(view):
            self._print(view, one_line(view))
        for line in lines:
            self._print(view, line)

    def __enter__(self) -> _Display:
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.clear()


class _Followed:
    """A server that is followed until it is ready, and what rolls back after that if there is a login. If it ends, the
    next one over its data directory is waited for."""

    def __init__(self, watched: Watched, asked: _Asked, stack: ExitStack) -> None:
        self.watched, self._asked, self._stack = watched, asked, stack
        self._rollback, self._there_s, self._knows_times = _Rollback(asked), time.monotonic(), False
        self.is_over = False

    def look(self) -> View:
        """Returns the state of now."""
        watched = self.watched
        watched.update()
        self._rollback.update(watched)
        if not self._knows_times and watched.log.progress.tracker.version is not None:
            watched.seconds_ahead, self._knows_times = _seconds_ahead(watched, self._asked), True
        view = watched.view(self._asked.stalled_after_s)
        if view.state is State.READY and not (self._rollback.is_followed and view.progress.phase):
            self.is_over = True
            return view
        if view.state is not State.GONE:
            self._there_s = time.monotonic()
            self.watched = _with_its_log(watched, self._asked, self._stack)
        elif watched.server is not None or watched.needs_writer:
            self.watched = _successor(watched, self._asked, self._stack) or watched
        has_ended = self.watched.source is not None and self.watched.source.ended
        self.is_over = has_ended or time.monotonic() - self._there_s > self._asked.stalled_after_s
        return view

    def last_lines(self, view: View) -> Iterator[str]:
        return _last_lines(self.watched, view, self._rollback.rows)


def _follow(found: Sequence[Watched], asked: _Asked, stack: ExitStack) -> list[State]:
    """Shows the progress of servers until each is ready, or gone for good."""
    under_way = {number: _Followed(watched, asked, stack) for number, watched in enumerate(found)}
    states = []
    with _Display(asked, several=len(found) > 1) as display:
        while under_way:
            views = {number: followed.look() for number, followed in under_way.items()}
            display.show(views)
            for number, view in views.items():
                if under_way[number].is_over:
                    display.end(number, view, under_way.pop(number).last_lines(view))
                    states.append(view.state)
            if under_way:
                _wait([followed.watched for followed in under_way.values()])
    return states


def _wait(found: Iterable[Watched]) -> None:
    """Waits for the next line, a second at most. Some lines grow by a number many times a second."""
    sources = [watched.source for watched in found if watched.source is not None]
    if any(source.behind for source in sources):
        return
    time.sleep(_SHORTEST_S)
    poller = select.poll()
    for source in sources:
        poller.register(source.fd, select.POLLIN)
    poller.poll((_INTERVAL_S - _SHORTEST_S) * 1000)


def _last_lines(watched: Watched, view: View, locked_rows: int | None) -> Iterator[str]:
    """Yields, of a start that ended, what `recovery analyze` says of it."""
    from recovery.cli.analyze import advice_lines, log_answer

    last = watched.log.starts()[-1:]
    if view.state is State.READY and view.progress.phase is not None:
        yield "Rows of open transactions stay locked until the rollback ends: --socket or --defaults-file follow it."
    elif view.state is State.READY and locked_rows:
        yield f"{count_text(locked_rows, 'row')} of prepared transactions stay locked: XA RECOVER lists them."
    if last and view.state in (State.READY, State.GONE):
        yield log_answer(last)
        yield from advice_lines(last)


def _successor(watched: Watched, asked: _Asked, stack: ExitStack) -> Watched | None:
    """Returns the server that was started over the same data directory after the watched one ended, or None."""
    for pid in running_servers():
        if pid == watched.pid:
            continue
        if watched.server is None:
            is_next = isinstance(watched.source, _File) and watched.source.has_writer(pid)
        else:
            datadir = look_at(pid).datadir
            is_next = datadir is not None and str(_real_path(datadir)) == watched.where
        if is_next:
            return _taking_over(watched, _open_server(pid, asked, stack))
    return None


def _taking_over(watched: Watched, next_one: Watched) -> Watched:
    next_one.log.seen_checkpoints.update(watched.log.seen_checkpoints)
    next_one.seconds_ahead = watched.seconds_ahead
    return next_one


def _with_its_log(watched: Watched, asked: _Asked, stack: ExitStack) -> Watched:
    """Returns the server with the log that it has opened by now. A server begins with the standard error of what
    started it, and opens its own log later."""
    if watched.server is None or isinstance(watched.source, _Pipe):
        return watched
    found = look_at(watched.server.pid)
    if found.log is None or (watched.source is not None and watched.source.is_at(found.log)):
        return watched
    return _taking_over(watched, _open_server(watched.server.pid, asked, stack))


def _seconds_ahead(watched: Watched, asked: _Asked) -> dict[str, float]:
    """Returns the mean times of the phases in the session that was asked for or, without one, in the newest session if
    that is of this host and version."""
    from statistics import fmean

    from recovery.linux.host_facts import host_id_with
    from recovery.phase_table import JOIN, seconds_by_name
    from recovery.storage.sessions import find_session, load_session

    if asked.like is not None:
        session = load_session(find_session(asked.results, asked.like))
    else:
        datadir = None if watched.server is None else watched.server.datadir
        try:
            session = load_session(find_session(asked.results, None))
            if datadir is None or session.host_id != host_id_with(datadir):
                return {}
        except (RecoveryError, OSError):
            return {}
    version, found = str(watched.log.progress.tracker.version), dict[str, list[float]]()
    for run in session.runs:
        if run.extra is None and (asked.like is not None or run.version == version):
            for phase, seconds in seconds_by_name(run.startup.phases).items():
                found.setdefault(phase.split(JOIN)[-1], []).append(seconds)
    return {phase: fmean(times) for phase, times in found.items()}


class _Rollback:
    """Follows the rollback of open transactions after ready, by a login."""

    _ROWS = (
        "SELECT COALESCE(SUM(trx_rows_modified), 0) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = 0"
    )

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._connection: UserConnection | None = None
        self._asked_s = 0.0
        self.is_followed = asked.login is not None
        self.rows: int | None = None
        """Rows that transactions of before the crash have changed and still lock."""

    def update(self, watched: Watched) -> None:
        progress = watched.log.progress
        if not self.is_followed or progress.ready_s is None or time.monotonic() - self._asked_s < _INTERVAL_S:
            return
        self._asked_s = time.monotonic()
        from recovery.mysqld.client import BROKEN_ANSWER, connect_as_user, explain, scalar, whole_number

        login = _login_of(watched, self._asked) or self._asked.login
        assert login is not None
        try:
            if self._connection is None:
                with _connectable(login) as named:
                    self._connection = connect_as_user(named, answer_s=_ANSWER_S)
            self._connection.begin_question()
            self.rows = whole_number(scalar(self._connection, self._ROWS), "rows to roll back", most=_MOST_ROWS)
        except BROKEN_ANSWER as error:
            raise explain(error, _place(login)) from error
        progress.add_rows_to_undo(time.monotonic(), self.rows)
