"""Finds the server starts in an error log, clean and crash starts, and divides the time of each into phases.

Only the text of the log is known: it may begin and end anywhere, have the lines of several servers and of other
programs, and have torn lines. Times are the server's own stamps, or those of a collector where it has none, so the time
before its first line is not included."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

from recovery.errors import UsageError
from recovery.logs.error_log import (
    STRONG_END_HINTS,
    EndReport,
    EventKind,
    StartErrors,
    classify,
    end_report_of,
    ends_the_start,
    full_disk,
    milestone_of,
    progress_of,
    shutdown_request,
)
from recovery.logs.json_log import usual_line
from recovery.logs.phases import BACKGROUND_MILESTONES, PhaseTracker
from recovery.logs.timestamps import (
    LogLine,
    Stamp,
    StampReader,
    container_of,
    form_of_stamp,
    parse_stamp,
    shows_set_clock,
)
from recovery.model import Flavor, Phase, Version, parse_version
from recovery.phase_table import AFTER_REDO, FileAccess, Milestone

_VERSIONS = tuple(
    (hint, re.compile(pattern, re.ASCII))
    for hint, pattern in (
        ("(mysqld", r"\(mysqld\S* (\d+\.\d+\.\d+[^\s)]*)\) (?:starting|initializing)"),
        ("(mariadbd", r"\(mariadbd\S* (\d+\.\d+\.\d+[^\s)]*)\) (?:starting|initializing)"),
        ("(server ", r"\(server (\d+\.\d+\.\d+[^\s)]*)\) (?:starting|initializing)"),
        ("Starting MariaDB", r"Starting MariaDB (\d+\.\d+\.\d+\S*)"),
        ("Version: ", r"Version: '(\d+\.\d+\.\d+[^']*)'"),
    )
)
_START_MILESTONES = {Milestone.SAFE, Milestone.ANNOUNCED, Milestone.STARTING, Milestone.INITIALIZING}
_BEFORE = {Milestone.SAFE, Milestone.ANNOUNCED}
"""Milestones before the server's own first line, which belongs to the same start."""
_EARLY = (Milestone.INNODB, Milestone.SCAN, Milestone.POOL)
_ONLY_DURING_START = {
    Milestone.POOLED,
    Milestone.SYSTEM,
    Milestone.REDO,
    Milestone.CHECKPOINT,
    Milestone.DISCOVER,
    Milestone.READY,
}
"""Milestones that a running server does not log: one outside a start belongs to a start that began before the log."""
_DEBIAN = "(Debian)"
_MAX_TEXT = 300
_TORN = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ]|\d{6} )[ \d]?\d:\d\d:\d\d(?:\.\d{6})?(?:Z|[+-]\d\d:\d\d)? "
    r"(?:mysqld_safe | ?InnoDB: |(?:\w{1,20} )?(?:\[(?:Note|Warning|System|ERROR)\]|InnoDB: ))",
    re.ASCII,
)
"""The beginning of a line. Within another one, it follows the torn last line of a server that was killed."""
_PROCESS = re.compile(r" as process (\d{1,10})\b", re.ASCII)
_SERVER_PROGRAM = re.compile(r"mysql|maria|percona|[0-9a-f]{12}$", re.ASCII)
"""Names of programs, in a journal, whose lines are a server's. Docker names the container's id."""
ONLY_AFTER_CRASH = re.compile(
    r"\[MY-012552\]|InnoDB(?::|\]) Starting crash recovery\.(?!\.)|Applying a batch of [1-9]\d* redo log"
    r"|Log scan progressed past the checkpoint",
    re.ASCII,
)
"""What InnoDB logs on crash starts only, for a log without the line before it. A clean start applies a batch of 0
records, and the binlog's "Starting crash recovery..." has three dots."""
_NO_SERVER = ("mysqld_safe ", "mariadbd-safe ", "[Entrypoint]")
"""What scripts write that start a server."""
_SCRIPT = re.compile(
    r"(?:mysqld_safe|mariadbd-safe) Starting \S+ daemon|\[Entrypoint\]: (?:Entrypoint script for|(Switching to))",
    re.ASCII,
)
"""The first line of such a script. A container's script switches to another user, and then begins again."""
_POSITION = re.compile(r"WSREP\]?:? Recovered position", re.ASCII)
_FOR_POSITION = "WSREP: Running position recovery"
_TEMPORARY = re.compile(r"\[Entrypoint\]: (Starting|Stopping) temporary server", re.ASCII)
_BEFORE_NAMED_S = 2.0
"""The first lines of a server, such as warnings about its options, come at most so long before it names itself."""


@dataclass(frozen=True)
class LoggedStart:
    line: int
    """Number of its first line. If that is a line of mysqld_safe, the time before the server's own first line is not
    counted."""
    at: str | None
    """Its first time stamp, as it is written in the log."""
    version: str | None
    kind: str
    """`crash`, `clean`, `initialize`, `position` (--wsrep-recover: it logs its position and ends), `temporary` (the
    container's script initialises the directory with it), or `not told`: 8.0 and later log it only with
    --log-error-verbosity=3."""
    outcome: str
    """`ready`, `failed`, `cut` (the log or the server ended before) or `ended` (it did what it was started for: it
    initialised a data directory, logged its position, or was the temporary server of a container)."""
    reason: str | None
    startup_s: float | None
    """From its first line to the ready line, or to its last line if it did not become ready."""
    whole_seconds: bool
    phases: tuple[Phase, ...]
    beside: tuple[Phase, ...]
    """The name in the JSON. Work of the server's background threads, during the start and after it."""
    counts: dict[str, int]
    standing: str | None
    """The phase in which the start ended without becoming ready, with its progress; None if it became ready."""
    phase: str | None
    """The phase in `standing`, without its progress."""
    pid: int | None
    """The process id that the server logged: in a container, the one there."""
    ended_early: bool
    """Whether the log shows that the server ended before it was ready."""
    end_logged: bool
    """Whether a line with a stamp shows the end of the start. Without one, its last line may be much older."""
    next_after_s: float | None
    """Seconds from its first line to the first line of the next start."""
    script_s: float | None = None
    """Seconds from the first line of the script that starts the server, of mysqld_safe or of a container, to the
    server's own first line; None if the log has no such line."""
    running_pid: int | None = None
    """The process id of its server, if that is still running and not ready. Then its seconds run until now."""
    checkpoint_lsn: int | None = None
    """Where the recovery begins in the redo log; None if the log does not say it. A start that ends before it is ready
    leaves the next one the same checkpoint."""
    waits_for: str | None = None
    """The full disk that the server waits for, in its own words; None if its last line says something else."""
    clock_set: bool = False
    """Whether its stamps show that the clock was set meanwhile. Then its seconds are not known."""
    begins_before: bool = False
    """Whether the log begins within it."""
    container: str | None = None
    """The name that a collector puts before the lines of its server."""


def continued(start: LoggedStart, elapsed_s: float | None, running_pid: int) -> LoggedStart:
    """Returns a start that is still under way, with its time and its current phase until now."""
    if start.startup_s is None or elapsed_s is None:
        return replace(start, running_pid=running_pid)
    elapsed_s = max(elapsed_s, start.startup_s)
    phases, last = start.phases, start.phases[-1] if start.phases else None
    if last is not None and last.name == start.phase:
        phases = (*phases[:-1], replace(last, end_s=elapsed_s))
    elif start.phase is not None and elapsed_s > start.startup_s:
        phases = (*phases, Phase(start.phase, start.startup_s, elapsed_s))
    return replace(start, startup_s=elapsed_s, phases=phases, running_pid=running_pid)


@dataclass
class _OpenStart:
    line: int
    headless: bool = False
    by_safe: bool = False
    """Only mysqld_safe has logged something so far."""
    script: Stamp | None = None
    """The first line of the script that starts the server."""
    is_temporary: bool = False
    """Whether a container's script starts it to initialise the data directory."""
    was_stopped: bool = False
    """Whether that script has stopped it."""
    logged_position: bool = False
    """Whether it has logged its position in Galera's cluster, after which it ends."""
    for_position: bool = False
    """Whether mysqld_safe starts it to log its position."""
    first: Stamp | None = None
    last: Stamp | None = None
    whole: bool = False
    tracker: PhaseTracker = field(default_factory=PhaseTracker)
    progress: str | None = None
    """Within the current phase."""
    milestone: Milestone | None = None
    """The last one that bounds a phase."""
    pid: int | None = None
    outcome: str = "cut"
    reason: str | None = None
    errors: StartErrors = field(default_factory=StartErrors)
    waits_for: str | None = None
    """The full disk that it waits for."""
    ended: bool = False
    """Whether a line shows that the server has ended."""
    end: Stamp | None = None
    end_logged: bool = False
    unsure_since: Stamp | None = None
    """The first of the last lines that may belong to the next server already; None if there are none."""
    sure: Stamp | None = None
    """The stamp before those lines."""
    own: Stamp | None = None
    """The last stamp of the server itself."""
    clock_set: bool = False
    """Whether the clock was set during the start."""

    def add(self, milestone: Milestone | None, text: str, stamp: Stamp | None) -> None:
        """Records a line of the server."""
        if stamp is not None and self.first is None:
            self.first, self.tracker.started_s = stamp, stamp.at_s
        progress = progress_of(text)
        if stamp is not None:
            if text.startswith(stamp.text):  # it is no collector's
                self.clock_set = self.clock_set or (self.own is not None and shows_set_clock(self.own, stamp))
                self.own = stamp
            self._place(stamp, sure=milestone is not None or progress is not None or "InnoDB" in text)
            self.whole = self.whole or (stamp.whole and milestone is not None)
        self.tracker.add(text, milestone, None if stamp is None else stamp.at_s)
        if milestone is not None and milestone is not self.milestone and milestone not in BACKGROUND_MILESTONES:
            self.milestone, self.progress = milestone, None
        self.progress = progress or self.progress
        self.tracker.version = version_of(text) or self.tracker.version
        self.logged_position = self.logged_position or _POSITION.search(text[:_MAX_TEXT]) is not None
        if self.pid is None:
            self.pid = process_id_in(text)
        self.errors.add(text)
        if (full := full_disk(text)) is not None or "Message reprinted" not in text:
            self.waits_for = full

    def _place(self, stamp: Stamp, *, sure: bool) -> None:
        if sure:
            self.unsure_since = None
        elif self.unsure_since is None or stamp.at_s > self.unsure_since.at_s + _BEFORE_NAMED_S:
            self.unsure_since, self.sure = stamp, self.last
        self.last = stamp

    def end_before(self, next_start: Stamp | None) -> None:
        """Ends the start, because the next one begins: warnings right before that are of the next server."""
        self.ended = True
        since = self.unsure_since
        if since is not None and next_start is not None and next_start.at_s - since.at_s <= _BEFORE_NAMED_S:
            self.last = self.sure

    def report_end(self, report: EndReport, stamp: Stamp | None) -> None:
        """Takes the reason of an end, and the end itself, from the line of another program."""
        if report.reason is not None and (self.reason is None or report.strong):
            self.reason = report.reason
        if report.ended:
            self.ended, self.end, self.end_logged = True, self.last, stamp is not None
        if report.ended and stamp is not None and (self.last is None or stamp.at_s > self.last.at_s):
            self.end, self.whole = stamp, self.whole or stamp.whole


class StartParser:
    """Takes a log line by line, and returns each start as soon as no further line can belong to it. Lines of several
    servers may alternate in it, if the containers' names or the forms of their stamps tell them apart."""

    def __init__(self, now_s: float) -> None:
        """`now_s` gives the year of stamps without one."""
        self._now_s = now_s
        self._servers = [_Server(None, _ServerParser(now_s))]
        self._server = self._servers[0]
        """The server of the last line."""
        self._last = self._servers[0]
        """The server whose start began last."""

    @property
    def start_line(self) -> int | None:
        """The number of the first line of the start that began last, or None if it is over."""
        return self._last.parser.start_line

    @property
    def waits_for(self) -> str | None:
        """The full disk that the server of the start that began last waits for, or None."""
        return self._last.parser.waits_for

    @property
    def idle(self) -> bool:
        """Whether no start is under way. Then only lines that could begin a start, or add to the last one, matter."""
        return all(server.parser.idle for server in self._servers)

    @property
    def follows_last(self) -> bool:
        """Whether the last line is of the server whose start began last."""
        return self._server is self._last

    def take(self, number: int, text: str) -> list[LoggedStart]:
        text = usual_line(text)
        server = self._server = self._server_of(text)
        before = server.parser.start_line
        given = [replace(start, container=server.container) for start in server.parser.take(number, text)]
        if server.parser.start_line not in (None, before):
            self._last = server
        return given

    def finish(self) -> list[LoggedStart]:
        """Returns the starts that are still open at the end of the log."""
        starts = [
            replace(start, container=server.container)
            for server in self._servers
            for start in server.parser.finish(server.successor)
        ]
        return sorted(starts, key=lambda start: start.line)

    def _server_of(self, text: str) -> _Server:
        """Returns the server that a line is of."""
        container = container_of(text)
        servers = [one for one in self._servers if one.container == container]
        if container is not None and not servers:
            # Tables that a client prints have such lines, too.
            is_named = any(one.container for one in self._servers) or milestone_of(text) is not None
            return self._add(container) if is_named else self._server
        server = self._server if self._server.parser.first_line is not None else self._last
        if servers and server not in servers:
            server = servers[-1]
        begins = process_id_in(text) is not None
        if len(servers) == 1 and not begins:
            return server
        form = form_of_stamp(text)
        same = [one for one in servers if form is not None and one.form == form]
        if same:
            same[0].successor = None
            return same[0]
        if begins and server.form is not None and server.parser.names_itself:
            # Either another server writes into this log, too, or this one ended, and the next has another form.
            server.successor, server = parse_stamp(text), self._add(container)
        if begins:
            server.form = form
        return server

    def _add(self, container: str | None) -> _Server:
        first = self._servers[0]
        if len(self._servers) == 1 and first.container is None and first.parser.first_line is None:
            first.container = container
            return first
        self._servers.append(_Server(container, _ServerParser(self._now_s)))
        return self._servers[-1]


@dataclass
class _Server:
    """One of the servers of a log."""

    container: str | None
    """The name before its lines."""
    parser: _ServerParser
    form: str | None = None
    """The form of the stamp with which it named itself."""
    successor: Stamp | None = None
    """When the next server named itself with a stamp of another form, as long as this one has no line after that."""


class _ServerParser:
    """Takes the lines of one server."""

    def __init__(self, now_s: float) -> None:
        self._stamps = StampReader(now_s)
        self._open: _OpenStart | None = None
        """The start under way."""
        self._ended: _OpenStart | None = None
        """The start before it: its background threads may still log, and its version may be on the next line."""
        self._script: Stamp | None = None
        """The first line of a script whose server has not logged anything yet."""
        self._script_goes_on = False
        """Whether a container's script is about to run itself again, as another user."""
        self._temporary = False
        """Whether the next server is the temporary one of a container's script."""
        self._for_position = False
        """Whether the next server is to log its position."""

    @property
    def start_line(self) -> int | None:
        """The number of the first line of the start under way, or None."""
        return None if self._open is None else self._open.line

    @property
    def first_line(self) -> int | None:
        """The number of the first line of the earliest start that has not been returned, or None."""
        return next((one.line for one in (self._ended, self._open) if one is not None), None)

    @property
    def names_itself(self) -> bool:
        """Whether the server has named itself in the start under way."""
        return self._open is not None and not self._open.tracker.milestones <= _BEFORE

    @property
    def waits_for(self) -> str | None:
        return None if self._open is None else self._open.waits_for

    @property
    def idle(self) -> bool:
        return self._open is None

    def take(self, number: int, text: str) -> list[LoggedStart]:
        if (temporary := _TEMPORARY.search(text[:_MAX_TEXT])) is not None:
            self._temporary = temporary[1] == "Starting"
            if self._open is not None and self._open.is_temporary and not self._temporary:
                self._open.was_stopped = True
        if _FOR_POSITION in text[:_MAX_TEXT]:
            self._for_position = True
            if self._open is not None and self._open.by_safe:
                self._open.for_position, self._for_position = True, False
        script = _SCRIPT.search(text[:_MAX_TEXT])
        if self._open is None and self._ended is None and script is None and milestone_of(text) is None:
            return []
        line, stamp = self._stamps.read(text)
        if script is not None:
            switches = script[1] is not None
            if self._script is None or not (switches or self._script_goes_on):
                self._script = stamp
            self._script_goes_on = switches
        cuts = [torn.start() for torn in _TORN.finditer(line.message, 1)]
        if not cuts:
            return self._take(number, line, stamp)
        begin, spans = len(text) - len(line.message), (0, *cuts, len(line.message))
        # The next line of a collected log follows without the collector's stamp, so it gets that of this line.
        pieces = [text[: begin + to] if not at else text[:begin] + line.message[at:to] for at, to in pairwise(spans)]
        return [start for piece in pieces for start in self._take(number, *self._stamps.read(piece))]

    def _take(self, number: int, line: LogLine, stamp: Stamp | None) -> list[LoggedStart]:
        milestone = milestone_of(line.message)
        if milestone is None and self._open is not None and line.message.startswith("Version: '"):
            # This line follows the ready line, which is translated up to 5.7 and in MariaDB.
            milestone = Milestone.READY
        given = self._begin(number, milestone, stamp) if milestone is not None else []
        start = self._open
        if start is None:
            self._after(milestone, line.message, stamp)
            return given
        if milestone is None and (report := end_report_of(line.message)) is not None:
            start.report_end(report, stamp)
            if start.ended:
                self._open, self._ended = None, start
            return given
        if milestone is None and not _is_of_server(line):
            return given
        if start.by_safe and milestone is not Milestone.SAFE:
            start.by_safe, start.first, start.own = False, None, None
            start.tracker.discard_milestones()
        start.add(milestone, line.message, stamp)
        self._judge(start, milestone, line.message, stamp)
        return given

    def finish(self, next_start: Stamp | None = None) -> list[LoggedStart]:
        """Returns the starts that are still open at the end of the log, or at the beginning of the next start."""
        if self._open is not None and next_start is not None:
            self._open.end_before(next_start)
        return [*self._close(), *self._give(next_start)]

    def _begin(self, number: int, milestone: Milestone, stamp: Stamp | None) -> list[LoggedStart]:
        """Begins a new start if this line belongs to one, and returns the starts that are complete with that."""
        headless = self._open is None and milestone in _ONLY_DURING_START
        if self._open is None:
            begins = headless or milestone in _START_MILESTONES or milestone in _EARLY
        else:
            known = self._open.tracker.milestones
            is_over = self._open.outcome == "failed" or milestone in known or not known <= _BEFORE
            begins = milestone in _START_MILESTONES and is_over
            begins = begins or (milestone is Milestone.POOL and milestone in known)
        if not begins:
            return []
        if self._open is not None:
            self._open.end_before(stamp)
        given = [*self._close(), *self._give(stamp)]
        self._open = _OpenStart(number, headless, by_safe=milestone is Milestone.SAFE, script=self._script)
        self._open.is_temporary, self._temporary = self._temporary, False
        self._open.for_position, self._for_position = self._for_position, False
        self._script = None
        return given

    def _after(self, milestone: Milestone | None, text: str, stamp: Stamp | None) -> None:
        """Handles a line between two starts: it may come from the background threads of the last start, have its
        version, or say why it ended."""
        if self._ended is None:
            return
        tracker = self._ended.tracker
        if milestone in BACKGROUND_MILESTONES and stamp is not None:
            tracker.add(text, milestone, stamp.at_s)
        if tracker.version is None:
            tracker.version = version_of(text)
        if self._ended.outcome == "cut" and (report := end_report_of(text)) is not None and report.strong:
            self._ended.reason = report.reason

    def _judge(self, start: _OpenStart, milestone: Milestone | None, text: str, stamp: Stamp | None) -> None:
        event = classify(text)
        if milestone is Milestone.READY:
            start.outcome, start.reason, start.ended = "ready", None, False
        elif event is not None and event.kind is EventKind.FAILURE:
            if start.outcome != "failed":
                start.reason = start.errors.reason(text)[:_MAX_TEXT]
            start.outcome, start.ended, start.end_logged = "failed", True, stamp is not None
            if not ends_the_start(text):
                return
        elif event is not None and event.kind is EventKind.SHUTDOWN:
            start.reason = start.reason or "the server was shut down"
            start.ended, start.was_stopped = True, True
        else:
            if event is not None or ONLY_AFTER_CRASH.search(text[:_MAX_TEXT]):
                start.tracker.crashed = True
            start.reason = start.reason or shutdown_request(text)
            return
        start.end, start.end_logged = start.last, stamp is not None
        self._open, self._ended = None, start

    def _close(self) -> list[LoggedStart]:
        """Ends the start under way, which did not become ready, and returns the one before it."""
        if self._open is None:
            return []
        given = self._give(self._open.first)
        self._open, self._ended = None, self._open
        return given

    def _give(self, next_start: Stamp | None) -> list[LoggedStart]:
        ended, self._ended = self._ended, None
        return [] if ended is None else [_start_of(ended, next_start)]


def _is_of_server(line: LogLine) -> bool:
    """Returns whether a line may be a server's own, and not one of another program in the same log or journal."""
    if any(sign in line.message[:_MAX_TEXT] for sign in _NO_SERVER):
        return False
    if line.program is None or _SERVER_PROGRAM.match(line.program):
        return True
    return line.own is not None and line.program not in ("systemd", "kernel")


def process_id_in(text: str) -> int | None:
    """Returns the process id with which a server names itself."""
    named = _PROCESS.search(text[:_MAX_TEXT]) if " as process " in text else None
    return None if named is None else int(named[1])


def version_of(text: str) -> Version | None:
    found = (pattern.search(text[:_MAX_TEXT]) for hint, pattern in _VERSIONS if hint in text)
    match = next(filter(None, found), None)
    if match is None:
        return None
    try:
        version = parse_version(match[1])
    except ValueError:
        return None
    if version.flavor is Flavor.PERCONA and _DEBIAN in text:
        return replace(version, flavor=Flavor.MYSQL)  # Debian numbers its builds of MySQL as Percona does
    return version


def _start_of(start: _OpenStart, next_start: Stamp | None) -> LoggedStart:
    ready, tracker = start.outcome == "ready", start.tracker
    first, end = start.first, start.end or start.last
    is_timed = not (start.headless or start.clock_set)
    startup_s = max(0.0, end.at_s - first.at_s) if first is not None and end is not None and is_timed else None
    where = None if ready else tracker.last_phase
    has_task = Milestone.INITIALIZING in tracker.milestones or start.logged_position
    did_task = start.outcome == "cut" and (has_task or (start.is_temporary and start.was_stopped))
    return LoggedStart(
        line=start.line,
        at=None if first is None else first.text,
        version=str(tracker.version) if tracker.version else None,
        kind=_kind(start),
        outcome="ended" if did_task else start.outcome,
        reason=start.reason,
        startup_s=startup_s,
        whole_seconds=start.whole,
        phases=() if startup_s is None else tracker.phases(startup_s, ready=ready),
        beside=() if startup_s is None else tracker.background_phases(),
        counts=dict(tracker.counts),
        standing=f"{where} ({start.progress})" if where and start.progress else where,
        phase=where,
        pid=start.pid,
        ended_early=start.ended and not ready and not did_task and not start.headless,
        end_logged=start.end_logged,
        checkpoint_lsn=tracker.checkpoint_lsn,
        clock_set=start.clock_set,
        begins_before=start.headless,
        waits_for=None if ready or start.ended else start.waits_for,
        script_s=None if first is None or start.script is None else max(0.0, first.at_s - start.script.at_s),
        next_after_s=None if first is None or next_start is None else max(0.0, next_start.at_s - first.at_s),
    )


def _kind(start: _OpenStart) -> str:
    milestones = start.tracker.milestones
    if Milestone.INITIALIZING in milestones:
        return "initialize"
    if start.logged_position or start.for_position:
        return "position"
    if start.is_temporary:
        return "temporary"
    if start.tracker.crashed:
        return "crash"
    # The kind is unknown until the redo log has been read, and if the server does not log what it finds there.
    has_read_redo = milestones & {Milestone.APPLIED, *AFTER_REDO}
    is_dictionary = start.tracker.context.file_access is FileAccess.SCAN_AND_VALIDATE
    is_quiet = is_dictionary and not milestones & {Milestone.SCAN, Milestone.POOL}
    return "clean" if has_read_redo and not is_quiet and not start.headless else "not told"


# --- Reading a log of any size, compressed or not, in little memory
#
# The log of a running server is irrelevant: pieces without any text that could begin a start are skipped without being
# split into lines.

_CHUNK_BYTES = 1 << 18
_LONGEST_LINE_BYTES = 1 << 16
"""Longer lines are cut, so that a log without newlines does not fill the memory."""
_OVERLAP_BYTES = 1 << 10
_IDLE_MILESTONES = {*_START_MILESTONES, *_EARLY, *_ONLY_DURING_START, *BACKGROUND_MILESTONES}
_ANCHORS = tuple(
    dict.fromkeys(
        text.encode()
        for text in (
            *(hint for milestone in Milestone if milestone in _IDLE_MILESTONES for hint in milestone.value.hints),
            *STRONG_END_HINTS,
            *_NO_SERVER,
            "Version: ",
        )
    )
)
"""Every line that matters while no start is under way contains one of these."""


def starts_in(log: BinaryIO, name: str) -> Iterator[LoggedStart]:
    """Yields the starts in a log as they are found. If the log cannot be read to its end, yields the starts before that
    point and then raises UsageError."""
    yield from starts_over([(log, name)])


def starts_over(logs: Iterable[tuple[BinaryIO, str]]) -> Iterator[LoggedStart]:
    """Yields the starts in the files of one log that was rotated, the oldest first. Lines are counted over all."""
    starts, number = StartParser(time.time()), 0
    for log, name in logs:
        rest = b""
        try:
            unpacked = _in_utf8(_decompressed(log))
            while chunk := unpacked.read(_CHUNK_BYTES):
                piece = rest + chunk
                if starts.idle and not any(anchor in piece for anchor in _ANCHORS):
                    number += piece.count(b"\n")
                    # The end of the piece may cut an anchor in two, so its last, incomplete line is kept.
                    rest = piece[piece.rfind(b"\n") + 1 :][-_LONGEST_LINE_BYTES:]
                    continue
                *lines, rest = piece.split(b"\n")
                if len(rest) > _LONGEST_LINE_BYTES:
                    rest = rest[-_OVERLAP_BYTES:]
                for line in lines:
                    number += 1
                    yield from starts.take(number, _text(line))
        except (OSError, EOFError, MemoryError, lzma.LZMAError, zlib.error) as error:
            why = getattr(error, "strerror", None) or str(error) or "it needs too much memory"
            raise UsageError(
                f"{name} cannot be read to its end: {why}",
                "is it whole? Unpack it yourself and pipe it in: `zcat FILE | recovery analyze -`",
            ) from error
        if rest:
            number += 1
            yield from starts.take(number, _text(rest))
    yield from starts.finish()


def open_log(path: Path) -> BinaryIO:
    """Opens a file or a pipe, also one that the shell makes for `<(...)`. Raises UsageError if it is a device, which
    may have no end, or a pipe that nobody writes into, which would block."""
    hint = "name an error log, or - for standard input"
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            log = os.fdopen(opened, "rb")
        except OSError:  # it is a folder
            os.close(opened)
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint) from error
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return log
    os.set_blocking(opened, True)
    if not stat.S_ISFIFO(mode):
        log.close()
        raise UsageError(f"{path} is a device, not a log", hint)
    if not log.peek(1):
        log.close()
        raise UsageError(f"{path} is a pipe that nobody writes into", "start the program that writes into it first")
    return log


def _in_utf8(log: io.BufferedIOBase) -> io.BufferedIOBase | codecs.StreamRecoder:
    """Returns the log in UTF-8. PowerShell writes UTF-16, with a byte-order mark at the beginning."""
    head = cast("io.BufferedReader", log).peek(2)[:2]
    if head not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return log
    return codecs.EncodedFile(log, "utf-8", "utf-16", errors="replace")


def _decompressed(log: BinaryIO) -> io.BufferedIOBase:
    """Returns the log, decompressed if its first bytes show a compressed format. Its name is not used: standard input
    has none."""
    buffered = cast("io.BufferedReader", log if hasattr(log, "peek") else io.BufferedReader(cast("io.RawIOBase", log)))
    head = buffered.peek(6)[:6]
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=buffered)
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(buffered)
    if head.startswith(b"BZh"):
        return bz2.BZ2File(buffered)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        raise UsageError(
            "the log is compressed by zstd, which cannot be unpacked here", "zstdcat FILE | recovery analyze -"
        )
    return buffered


def _text(line: bytes) -> str:
    return line[:_LONGEST_LINE_BYTES].decode("utf-8", errors="replace").rstrip("\r")
