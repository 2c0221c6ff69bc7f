"""Parses single lines of a server's error log: events, counters, progress, milestones of a start, and what other
programs report about the end of a server.

Texts drift between releases and flavors. The events matched here were seen in the recorded logs of
fixtures/errorlogs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from recovery.phase_table import Milestone


class EventKind(StrEnum):
    READY = "ready"
    CRASH_RECOVERY = "crash recovery"
    SHUTDOWN = "shutdown complete"
    FAILURE = "failure"


@dataclass(frozen=True)
class Event:
    kind: EventKind
    text: str


_EVENTS = tuple(
    (kind, hint, re.compile(pattern))
    for kind, hint, pattern in (
        *((EventKind.READY, hint, Milestone.READY.value.pattern) for hint in Milestone.READY.value.hints),
        # The binlog and the XA coordinator also log "Starting crash recovery...", with three dots and without a
        # checkpoint.
        (EventKind.CRASH_RECOVERY, "was not shut", r"Database was not shut ?down normally"),
        (EventKind.CRASH_RECOVERY, "from checkpoint", r"Starting crash recovery from checkpoint"),
        (EventKind.SHUTDOWN, "Shutdown complete", r": Shutdown complete(?:$| \()"),
        # Only errors that end a start. Many [ERROR] lines do not: a missing mysql.plugin, a failed plugin, a lost
        # tablespace.
        (EventKind.FAILURE, "Aborting", r"\[ERROR\].*\bAborting\b"),
        (EventKind.FAILURE, "unknown ", r"\[ERROR\].*\bunknown (?:variable|option)\b"),
        (EventKind.FAILURE, "Unable to lock", r"Unable to lock \.?/?\S*ibdata1"),
        # MariaDB would retry for 30 seconds, but no process of ours is left that could hold the lock.
        (EventKind.FAILURE, "lock aria", r"Can't lock aria control file"),
        (EventKind.FAILURE, "Fatal error", r"Fatal error: |Fatal error in defaults handling"),
        (EventKind.FAILURE, "start server", r"\[ERROR\].*Can't start server"),
        (EventKind.FAILURE, "d got ", r"\b(?:mysqld|mariadbd) got (?:signal|exception) "),
        (EventKind.FAILURE, "while loading", r"error while loading shared libraries: "),
    )
)
"""For each kind of line: what it reports, a text that it contains, for a quick test, and the pattern."""
MAX_SEARCHED_CHARS = 2000
"""Number of characters of a line that are searched. The server's message is within them, and searching a line of
megabytes would take minutes."""
_ERROR, _NOTE = "[ERROR]", "[Note]"
_MICROSECONDS = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})(Z|[+-]\d\d:\d\d)\s")


def classify(line: str) -> Event | None:
    """Returns the event that a line reports, or None for the many lines that neither end a start nor prove what kind of
    start it was."""
    text = line[:MAX_SEARCHED_CHARS].rstrip()
    for kind, hint, pattern in _EVENTS:
        if hint in text and pattern.search(text):
            return Event(kind, text)
    return None


_OLD_ERROR = re.compile(r"(?:\d{6} [ \d]\d:\d\d:\d\d )? ?InnoDB: (?:Fatal )?[Ee]rror[: ]", re.ASCII)
"""How InnoDB begins an error up to 5.6."""


def is_error(line: str) -> bool:
    """Returns whether a line is an error of any severity. `StartErrors` tells which one ended a start."""
    return _ERROR in line or _OLD_ERROR.match(line) is not None


def is_note(line: str) -> bool:
    return _NOTE in line[:MAX_SEARCHED_CHARS]


def error_text(line: str) -> str:
    """Returns an error line from its severity on, and any other line whole."""
    return line[max(0, line.find(_ERROR)) :].strip()


_GOES_ON = re.compile(
    r"mysql\.plugin\b|[Pp]lease run mysql_upgrade|Couldn't load plugin|Can't open shared library|error-message file"
)
"""Errors of a server that starts without what it misses."""
_CONTINUED = re.compile(r"InnoDB: (?=[a-z(])")
"""The next line of an InnoDB that breaks its errors into lines."""
_SAYS_WHY = re.compile(
    r"Fatal error: (?!.*\bengine\b)|Can't start server|\bunknown (?:variable|option)\b|while loading shared"
    r"|\bgot (?:signal|exception) |Unable to lock|Can't lock aria"
)
"""Lines that end a start and give the reason themselves."""


_DISK_FULL = re.compile(r"Disk is full writing .{1,300}?(?=\.? Waiting for someone to free)")
_ENDS_THE_START = re.compile(
    r"\bAborting\b|\bgot (?:signal|exception) |while loading shared|Fatal error in defaults handling"
)
_RETRIED = re.compile(r"Unable to lock|Can't lock aria")
_ASKED = re.compile(r"\] Received SHUTDOWN from user (<via user signal>)?|: Normal shutdown\b")


def ends_the_start(line: str) -> bool:
    """Returns whether a failure is the last one of a start: a server that cannot lock a file tries again first."""
    return _ENDS_THE_START.search(line[:MAX_SEARCHED_CHARS]) is not None


def is_retried(line: str) -> bool:
    """Returns whether a server may start although it has logged this failure: it tries again for a while."""
    return _RETRIED.search(line[:MAX_SEARCHED_CHARS]) is not None


def full_disk(line: str) -> str | None:
    """Returns what a server cannot write and waits to write, as it says itself, or None."""
    found = _DISK_FULL.search(line[:MAX_SEARCHED_CHARS]) if "Disk is full" in line else None
    return None if found is None else found.group()


def shutdown_request(line: str) -> str | None:
    """Returns who asked the server to shut down, in words, or None."""
    asked = _ASKED.search(line[:MAX_SEARCHED_CHARS]) if "hut" in line or "SHUT" in line else None
    if asked is None:
        return None
    return "a signal asked it to shut down" if asked[1] else "it was asked to shut down"


def is_harmless(line: str) -> bool:
    """Returns whether a server that logs this error goes on with its start."""
    return _GOES_ON.search(line[:MAX_SEARCHED_CHARS]) is not None


class StartErrors:
    """The errors of a start, and which of them is the reason if it fails."""

    def __init__(self) -> None:
        self._first: str | None = None
        self._is_open = False
        """Whether the next line may continue the first error."""

    def add(self, line: str) -> None:
        text = line[:MAX_SEARCHED_CHARS].strip()
        if self._is_open and self._first is not None and (match := _CONTINUED.match(text)) is not None:
            self._first = f"{self._first} {text[match.end() :]}"[:MAX_SEARCHED_CHARS]
            return
        self._is_open = False
        if self._first is None and is_error(text) and not is_harmless(text):
            self._first, self._is_open = text, _OLD_ERROR.match(text) is not None

    def reason(self, end: str) -> str:
        """Returns the line that says why a start failed. `end` is the line with which it ended. The first error often
        gives the reason, the last one only the fact that it failed."""
        return end.strip() if _SAYS_WHY.search(end) is not None else self._first or end.strip()


def microsecond_stamp(line: str) -> float | None:
    """Returns the server's own time stamp in seconds since the epoch, or None if it is missing or in whole seconds."""
    match = _MICROSECONDS.match(line)
    if match is None:
        return None
    try:
        return datetime.fromisoformat(match[1] + match[2]).timestamp()
    except ValueError:
        return None


# --- Counters (files, threads, pages, transactions) and progress

# For each kind of line: a text that it contains, for a quick test; the pattern; the names of the counters in its
# groups.
_COUNTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Found ", r"Found (\d+) '\.ibd'", ("files_found",)),
    ("to scan ", r"Using (\d+) threads? to scan \d+ tablespace files", ("scan_threads",)),
    ("space ID check", r"Completed space ID check of (\d+) files", ("tablespaces_scanned",)),
    ("have validated", r"(\d+) ?threads? have validated", ("validation_threads",)),
    (
        "Scanned ",
        r"Scanned (\d+) tablespaces\. Validated (\d+)",
        ("tablespaces_in_dictionary", "tablespaces_validated"),
    ),
    ("Validated ", r"Validated (\d+)/(\d+)  tablespaces", ("tablespaces_validated", "tablespaces_in_dictionary")),
    ("batch to recover", r"batch to recover\s+(\d+) pages", ("pages_to_recover",)),
    ("To recover", r"To recover: (?:LSN \S+ )?(\d+) pages", ("pages_to_recover",)),
    ("Applying a", r"Applying a batch of (\d+) redo log records", ("redo_records",)),
    ("to undo", r"in total (\d+) row operations to undo", ("rows_to_undo",)),
    ("rolled back", r"(\d+) transaction\(s\) which must be rolled back", ("transactions_to_roll_back",)),
    ("rseg using", r"initialize rseg using (\d+) thread", ("rollback_segment_threads",)),
)
_COUNT_PATTERNS = tuple((hint, re.compile(pattern, re.ASCII), names) for hint, pattern, names in _COUNTS)
_PROGRESS = tuple(
    (hint, re.compile(pattern, re.ASCII))
    for hint, pattern in (
        ("Checked ", r"Checked \d+/\d+"),
        ("so far", r"Files found so far: \d+"),
        ("alidated ", r"(?:threads? have v|V)alidated \d+ out of \d+"),
        ("Validated ", r"Validated \d+/\d+ (?! )"),  # with two blanks it is no progress: it ends the work
        ("Progress in", r"Progress in percents?:(?: \d{1,3})+(?!\d)"),
        ("scanned up to", r"scanned up to log sequence number \d+(?: \(\d+%\))?"),
        ("redo log up to", r"(?:Read|Parsed) redo log up to LSN=\d+"),
        ("To recover", r"To recover: (?:LSN [\d/]+; )?\d+ pages"),
        ("MY-012533", r"\[MY-012533\] \[InnoDB\] \d{1,3}%"),
        ("recovered pages", r"recovered pages:(?: \d{1,3}%)+"),  # of Aria
    )
)
_MAX_DIGITS = 18
_CHECKPOINT = re.compile(
    r"found checkpoint is at lsn = (\d{1,20})|checkpoint_lsn = (\d{1,20})|past the checkpoint (?:lsn|LSN) (\d{1,20})"
    r"|crash recovery from checkpoint LSN=(\d{1,20})",
    re.ASCII,
)


def log_counters(line: str) -> Iterator[tuple[str, int]]:
    """Yields the names and values of the counters in a line of a start."""
    text = line[:MAX_SEARCHED_CHARS]
    for hint, pattern, names in _COUNT_PATTERNS:
        match = pattern.search(text) if hint in text else None
        if match is not None:
            for name, digits in zip(names, match.groups(), strict=True):
                if digits and len(digits) <= _MAX_DIGITS:
                    yield name, int(digits)


def checkpoint_of(line: str) -> int | None:
    """Returns the LSN of the checkpoint at which the server says that its recovery begins."""
    match = _CHECKPOINT.search(line[:MAX_SEARCHED_CHARS]) if "heckpoint" in line else None
    return int(next(filter(None, match.groups()))) if match is not None else None


def progress_of(line: str) -> str | None:
    """Returns the progress that a line reports, such as `Checked 15615/20298`, or None. Some lines grow by one
    percentage after another; the last one is returned."""
    text = line[:MAX_SEARCHED_CHARS]
    found = (pattern.search(text) for hint, pattern in _PROGRESS if hint in text)
    match = next(filter(None, found), None)
    if match is None:
        return None
    progress = match.group().strip()
    is_percentage = progress.startswith(("Progress", "[MY", "recovered"))
    return f"{progress.split()[-1].removesuffix('%')} %" if is_percentage else progress


# --- Milestones: the messages that bound the phases of a start

_SPELLINGS = tuple((one, re.compile(one.value.pattern), one.value.hints) for one in Milestone)
_MILESTONES_HINTED_BY = {
    hint: tuple((one, pattern) for one, pattern, hints in _SPELLINGS if hint in hints)
    for hint in dict.fromkeys(hint for _, _, hints in _SPELLINGS for hint in hints)
}


def milestone_of(line: str) -> Milestone | None:
    """Returns the milestone in a line, or None for the many lines that bound no phase. Of several, it is the one that
    the line has first."""
    text = line[:MAX_SEARCHED_CHARS]
    hinted = [rows for hint, rows in _MILESTONES_HINTED_BY.items() if hint in text]
    if not hinted:
        return None
    text, found, at = text.rstrip(), None, MAX_SEARCHED_CHARS
    for rows in hinted:
        for milestone, pattern in rows:
            match = pattern.search(text)
            if match is not None and match.start() < at:
                found, at = milestone, match.start()
    return found


_WHOLE_LINES = ("InnoDB: ", "Version: '", "\t")
"""How lines without a stamp begin that are no second halves."""


def joined_line(line: str, rest: str) -> str | None:
    """Returns the line that a terminal or an editor has broken in two, or None. Only as one they say something of a
    start."""
    if not rest or rest.startswith(_WHOLE_LINES) or _says_something(line) or _says_something(rest):
        return None
    both = (f"{line.rstrip()}{between}{rest.lstrip()}" for between in (" ", ""))
    return next((one for one in both if _says_something(one)), None)


def _says_something(line: str) -> bool:
    return milestone_of(line) is not None or classify(line) is not None


# --- The end of a server, as other programs report it in the same log or journal


@dataclass(frozen=True)
class EndReport:
    """What a line of another program shows about the end of a server."""

    reason: str | None
    """None if it only shows that the server ended."""
    ended: bool
    """Whether the server had ended when this line was written."""
    strong: bool = False
    """Whether the reason explains more than the signal or the exit code that another line has."""


_BY_KERNEL = EndReport("the kernel killed it for lack of memory", ended=False, strong=True)
_BY_SYSTEMD = EndReport(
    "systemd stopped it, because its start took too long (TimeoutStartSec)", ended=False, strong=True
)
_SAFE, _UNIT = r"(?:mysqld|mariadbd)[_-]safe ", r"(?:mysql|maria|percona)\S{0,80}:"
_EXITED = "rocess exited"
_END_REPORTS = tuple(
    (hint, re.compile(pattern), report)
    for hint, pattern, report in (
        ("running now: ", rf"{_SAFE}Number of processes running now: \d", EndReport(None, ended=True)),
        (" restarted", rf"{_SAFE}\S{{1,80}} restarted", EndReport(None, ended=True)),
        ("from pid file", rf"{_SAFE}\S{{1,80}} from pid file .{{1,300}} ended", EndReport(None, ended=True)),
        ("ut of memory", r"[Oo]ut of memory: Kill(?:ed)? process \d+ \((?:mysqld|mariadbd)\)", _BY_KERNEL),
        ("OOM killer", rf"{_UNIT} A process of this unit has been killed by the OOM killer", _BY_KERNEL),
        ("oom-kill", rf"{_UNIT} Failed with result 'oom-kill'", _BY_KERNEL),
        ("timed out", rf"{_UNIT}? [Ss]tart(?:-up)? (?:operation )?timed out", _BY_SYSTEMD),
    )
)
STRONG_END_HINTS = tuple(hint for hint, _, report in _END_REPORTS if report.strong)
"""Every line with a strong reason contains one of these."""
_MAIN_PROCESS = re.compile(
    r"(?:mysql|maria|percona)\S{0,80}: [Mm]ain process exited, code=(\w{1,20}), status=(\d{1,3})(?:/(\w{1,20}))?",
    re.ASCII,
)


def end_report_of(line: str) -> EndReport | None:
    """Returns what a line of mysqld_safe, systemd or the kernel shows about the end of a server, or None."""
    text = line[:MAX_SEARCHED_CHARS]
    if _EXITED in text and (exited := _MAIN_PROCESS.search(text)) is not None:
        how = "a signal ended it" if exited[1] in ("killed", "dumped") else "it exited"
        return EndReport(f"{how} (status {'/'.join(filter(None, exited.groups()[1:]))})", ended=True)
    return next((report for hint, pattern, report in _END_REPORTS if hint in text and pattern.search(text)), None)
