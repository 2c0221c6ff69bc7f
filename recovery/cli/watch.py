"""Contains `recovery watch`, which shows how far a starting server is, and how long its current phase still takes.

It works on any server of this host, or on a log alone. It changes nothing. Modules that take long to import are
imported where they are used: a probe calls `recovery watch --once` every few seconds."""

from __future__ import annotations

import math
import os
import select
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from recovery.cli.options import PATH_TYPE, table_option
from recovery.cli.output import STANDARD_OUTPUT, print_line, write_json
from recovery.cli.watch_view import State, View, json_line, one_line, to_json, view_lines
from recovery.errors import InterruptedByUserError, RecoveryError, UsageError, escape_control
from recovery.linux.files import expand_path
from recovery.linux.procfs import has_open, ids_in_namespaces, process_age_s, process_stat
from recovery.mysqld.error_log import Milestone
from recovery.mysqld.log_tail import LogTail
from recovery.mysqld.running_server import (
    RunningServer,
    greets,
    journal_of,
    log_without_server,
    look_at,
    running_servers,
    sample_of,
    start_limit,
    uses_direct_io,
    what_it_waits_for,
)
from recovery.mysqld.start_progress import StartProgress
from recovery.mysqld.watched_log import WatchedLog

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

DEFAULT_STALL_S = 60.0
_INTERVAL_S, _SHORTEST_S = 1.0, 0.1
"""Times between two looks: without a new line, and in any case."""
_FIRST_LOOK_S, _LOOK_S = 0.1, 0.5
"""Times between two looks of `--once` at a process that has not moved yet."""
_PLAIN_EVERY_S = 15.0
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
    "--once", is_flag=True, help="Print one line. Exit code: 0 ready, 10 progressing, 11 stalled, 12 loop, 3 gone."
)
@click.option("--stall", "stalled_after_s", type=click.FloatRange(min=0, min_open=True), default=DEFAULT_STALL_S,
              metavar="SECONDS", help="Stalled means no progress for so long. [default: 60]")  # fmt: skip
@click.option("--follow-log", "log_alone", type=PATH_TYPE, metavar="FILE", help="Follow this log without a process.")
@click.option(
    "--like",
    metavar="SESSION",
    help="Take the times of the phases ahead from this session. [default: the newest one of this host and version]",
)
@click.option(
    "--socket", "login_socket", type=PATH_TYPE, metavar="FILE", help="Log in here after ready, to follow the rollback."
)
@click.option(
    "--defaults-file", "login_file", type=PATH_TYPE, metavar="FILE", help="User and password for that: group [client]."
)
@table_option("results")
def watch(target: str | None, *, json_to: str | None, once: bool, **given: Any) -> int:
    """Show how far a starting server is, and how long still: a PID, its LOG, its DATADIR, or - for a log on standard
    input. Without one, the server of this host that is starting. It needs no login and changes nothing."""
    asked = _Asked(json_to=json_to, once=once, **given)
    if math.isnan(asked.stalled_after_s):
        raise UsageError("--stall is not a number", "leave it out")
    if target is not None and asked.log_alone is not None:
        raise UsageError(f"--follow-log follows a log alone, so {target} has no meaning", "leave it out")
    try:
        with ExitStack() as stack:
            watched = _find(target, asked, stack)
            return _look_once(watched, asked) if once else _follow(watched, asked, stack)
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
    results: Path

    @property
    def tail(self) -> tuple[int, int]:
        return (_TAIL_BYTES_ONCE, _STARTS_BEFORE_ONCE) if self.once else (_TAIL_BYTES, _STARTS_BEFORE)


# --- What is watched


class _Pipe:
    """Reads a log from a pipe, such as standard input or the journal, as LogTail reads a file."""

    def __init__(self, stream: BinaryIO) -> None:
        self.fd, self._rest, self.ended = stream.fileno(), b"", False
        self._opened_s = self._read_s = time.monotonic()
        self.behind = False

    def behind_since(self, begin_s: float) -> bool:
        self.behind = time.monotonic() - begin_s >= _INTERVAL_S
        return self.behind

    @property
    def idle_s(self) -> float:
        """Time since something was read or, before that, since the beginning."""
        return time.monotonic() - self._read_s

    def read(self) -> Iterator[tuple[str, float | None, bool]]:
        """Yields the lines that are there, with the moment of their arrival. What a pipe has at the beginning may be
        old: then the stamps tell when it was written."""
        begin_s = time.monotonic()
        while not self.ended and select.select([self.fd], [], [], 0)[0]:
            chunk = os.read(self.fd, _READ_BYTES)
            self.ended = not chunk
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            now_s = self._read_s = time.monotonic()
            arrived_s = now_s if now_s - self._opened_s > _INTERVAL_S else None
            yield from ((_decoded(line), arrived_s, True) for line in whole)
            if self.behind_since(begin_s):
                return  # the log grows as fast as it is read
        self.behind = False
        if self.ended and self._rest:
            yield _decoded(self._rest), None, True
            self._rest = b""


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

    def read(self) -> Iterator[tuple[str, float | None, bool]]:
        begin_s = time.monotonic()
        while lines := self._tail.read():
            for line in lines:
                yield line.text, None if self._is_old else line.arrived_s, line.complete
            self.behind = self._tail.behind
            if not self.behind:
                break
            if time.monotonic() - begin_s >= _INTERVAL_S:
                return  # the log grows as fast as it is read
        self._is_old = False


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
        self.answer: bool | None = None
        """Whether a ready server answers a new connection; None if it was not asked."""
        self.needs_writer = needs_writer
        """Whether the server is gone if no process of this host has its log open."""
        now_s, age_s = time.monotonic(), None if server is None else process_age_s(server.pid)
        self.log = WatchedLog(now_s, time.time(), None if age_s is None else now_s - age_s)
        self.missing = () if server is None else server.missing
        if server is not None and source is None and not server.missing:
            self.missing = ("its log, which is no file: pipe it in, such as `journalctl -fu mysql | recovery watch -`",)
        self._unlogged = StartProgress(started_s=self.log.process_s or now_s)
        self._limit: str | None = None
        self.seconds_ahead: Mapping[str, float] = {}
        self._counted: StartProgress | None = None
        self._last_milestone: Milestone | None = None

    @property
    def pid(self) -> int | None:
        return None if self.server is None else self.server.pid

    def update(self) -> None:
        """Takes the new lines of the log, and a sample of the process."""
        for text, arrived_s, complete in () if self.source is None else self.source.read():
            self.log.take(text, arrived_s, complete=complete)
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
        if (sample := sample_of(self.server.pid, time.monotonic())) is not None:
            progress.add_sample(sample)

    def _progress(self) -> StartProgress:
        """Returns the progress of the server's start, of which the log may not have a line yet."""
        is_own = self.server is None or self.log.is_of(ids_in_namespaces(self.server.pid))
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
        hangs = progress.ready and (is_stopped or self.answer is False)
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
            version=start.tracker.version,
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
        starts = self.log.starts()
        if not starts or starts[-1].outcome == "ready":
            return "no process of this host has its log open" if is_cut and not self.log.ended else None
        last = starts[-1]
        where = f" in {last.standing}" if last.standing else ""
        if is_cut and not self.log.ended:
            return f"its start was cut off{where}; no process of this host has its log open"
        reason = self.log.failure_text(last.reason) if last.outcome == "failed" else last.reason
        return f"its start ended{where}{f': {reason}' if reason else ''}"


class _NoServerError(Exception):
    """There is no such server; the text says which."""


def _find(target: str | None, asked: _Asked, stack: ExitStack) -> Watched:
    """Returns what was asked for. Raises _NoServerError if there is no such server."""
    if STANDARD_OUTPUT in (target, str(asked.log_alone)):
        return Watched(None, _Pipe(sys.stdin.buffer), "standard input")
    if asked.log_alone is not None:
        return _open_log_alone(asked.log_alone, asked, stack)
    if target is None:
        return _find_starting(asked, stack)
    if not target.isdecimal():
        return _find_by_path(expand_path(Path(target)), asked, stack)
    if int(target) not in running_servers():
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
            unseen += [str(pid)] if seen.missing else []
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


def _find_starting(asked: _Asked, stack: ExitStack) -> Watched:
    found = [_open_server(pid, asked, stack) for pid in running_servers()]
    if not found:
        what = "no mysqld or mariadbd runs on this host, as far as this user may see"
        return _open_log_of_ended(None, what, asked, stack)
    for watched in found:
        watched.update()
    starting = [watched for watched in found if watched.log.progress.ready_s is None]
    if len(starting) > 1:
        names = "; ".join(f"{watched.pid} over {watched.where}" for watched in starting)
        are = "may be" if any(watched.source is None for watched in starting) else "are"
        raise UsageError(
            f"{len(starting)} servers {are} starting: {names}", f"name one: recovery watch {starting[0].pid}"
        )
    return (starting or found)[-1]


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
    from recovery.mysqld.log_analysis import open_log

    log = stack.enter_context(open_log(path))
    if not path.is_file():
        return Watched(None, _Pipe(log), str(path))
    return Watched(None, _File(path, asked.tail, stack), str(path), needs_writer=needs_writer)


# --- Looking once, and following


def _look_once(watched: Watched, asked: _Asked) -> int:
    """Prints one line. A process that has not moved is looked at again until it has, or is stalled."""
    wait_s = _FIRST_LOOK_S
    watched.update()
    if asked.like is not None:
        watched.seconds_ahead = _seconds_ahead(watched, asked)
    until_s = time.monotonic() + _LONGEST_READ_S
    while isinstance(watched.source, _Pipe) and select.select([watched.source.fd], [], [], _INTERVAL_S)[0]:
        watched.update()
        if watched.source.ended or time.monotonic() > until_s:
            break
    while (view := watched.view(asked.stalled_after_s)).state is State.PROGRESSING:
        if watched.has_moved(asked.stalled_after_s):
            break
        time.sleep(wait_s)
        wait_s = min(_LOOK_S, asked.stalled_after_s)
        watched.update()
    if view.state is State.READY and watched.server is not None:
        watched.answer = greets(watched.server.pid)
        view = watched.view(asked.stalled_after_s)
    if not write_json(asked.json_to, f"{to_json(view, datetime.now(UTC))}\n"):
        print_line(one_line(view))
    return view.state.value


class _Display:
    """Shows views as a page that is drawn again, as lines where there is no terminal, or as JSON, one object a line."""

    def __init__(self, asked: _Asked) -> None:
        from recovery.cli.progress_view import Screen

        self._asked, self._screen = asked, Screen(None if asked.json_to == STANDARD_OUTPUT else sys.stdout)
        self._shown: tuple[object, ...] = ()
        self._shown_s = 0.0

    def show(self, view: View) -> None:
        now_s, key = time.monotonic(), (view.state, view.pid, view.progress.phase)
        if write_json(self._asked.json_to, f"{to_json(view, datetime.now(UTC))}\n"):
            return
        if self._screen.live:
            from recovery.cli.progress_view import Line, wrapped

            columns, rows = self._screen.size
            lines = [row for text in view_lines(view) for row in wrapped(text, columns - 1)]
            self._screen.draw([Line(escape_control(line)) for line in lines[: rows - 1]])
        elif key != self._shown or now_s - self._shown_s >= _PLAIN_EVERY_S:
            self._shown, self._shown_s = key, now_s
            print_line(one_line(view))

    def end(self, watched: Watched, view: View, locked_rows: int | None) -> None:
        """Removes the page, and prints what `recovery analyze` says of the start."""
        self._screen.clear()
        if self._asked.json_to != STANDARD_OUTPUT:
            for line in _last_lines(watched, view, locked_rows):
                print_line(line)

    def __enter__(self) -> _Display:
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.clear()


def _follow(watched: Watched, asked: _Asked, stack: ExitStack) -> int:
    """Shows the progress until the server is ready, and what rolls back after that if there is a login. If the server
    ends, the next one over its data directory is waited for."""
    rollback, there_s = _Rollback(asked), time.monotonic()
    knows_times = False
    with _Display(asked) as display:
        while True:
            watched.update()
            rollback.update(watched.log.progress)
            if not knows_times and watched.log.progress.tracker.version is not None:
                watched.seconds_ahead, knows_times = _seconds_ahead(watched, asked), True
            view = watched.view(asked.stalled_after_s)
            display.show(view)
            if view.state is State.READY and not (rollback.is_followed and view.progress.phase):
                break
            if view.state is not State.GONE:
                there_s = time.monotonic()
            elif watched.server is not None or watched.needs_writer:
                watched = _successor(watched, asked, stack) or watched
            if watched.server is not None and view.state is not State.GONE:
                watched = _with_its_log(watched, asked, stack)
            is_over = watched.source is not None and watched.source.ended
            if is_over or time.monotonic() - there_s > asked.stalled_after_s:
                break
            _wait(watched)
        display.end(watched, view, rollback.rows)
    return view.state.value


def _wait(watched: Watched) -> None:
    """Waits for the next line, a second at most. Some lines grow by a number many times a second."""
    if watched.source is not None and watched.source.behind:
        return
    time.sleep(_SHORTEST_S)
    poller = select.poll()
    if watched.source is not None:
        poller.register(watched.source.fd, select.POLLIN)
    poller.poll((_INTERVAL_S - _SHORTEST_S) * 1000)


def _last_lines(watched: Watched, view: View, locked_rows: int | None) -> Iterator[str]:
    """Yields the last state and, of a start that ended, what `recovery analyze` says of it."""
    from recovery.cli.analyze import advice_lines, log_answer

    yield one_line(view)
    last = watched.log.starts()[-1:]
    if view.state is State.READY and view.progress.phase is not None:
        yield "Rows of open transactions stay locked until the rollback ends: --socket or --defaults-file follow it."
    elif view.state is State.READY and locked_rows:
        yield f"{locked_rows:,} rows of prepared transactions stay locked: XA RECOVER lists them."
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

    from recovery.analysis.phase_names import JOIN, seconds_by_name
    from recovery.linux.host_facts import host_id_with
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
        self._login: Mapping[str, Any] | None = None
        self._connection: Connection[Cursor] | None = None
        self._asked_s = 0.0
        self.rows: int | None = None
        """Rows that transactions of before the crash have changed and still lock."""
        if asked.login_socket is not None or asked.login_file is not None:
            from recovery.mysqld.client import read_login

            self._login = read_login(asked.login_socket, asked.login_file)
            self._where = self._login["unix_socket"] or str(asked.login_file)

    @property
    def is_followed(self) -> bool:
        return self._login is not None

    def update(self, progress: StartProgress) -> None:
        if self._login is None or progress.ready_s is None or time.monotonic() - self._asked_s < _INTERVAL_S:
            return
        self._asked_s = time.monotonic()
        from recovery.mysqld.client import BROKEN_ANSWER, connect_as_user, explain, scalar

        try:
            if self._connection is None:
                self._connection = connect_as_user(self._login)
            self.rows = int(str(scalar(self._connection, self._ROWS)))
        except BROKEN_ANSWER as error:
            raise explain(error, self._where) from error
        progress.add_rows_to_undo(time.monotonic(), self.rows)
