"""What does this line of the error log say: is the server ready, is it recovering, has its start failed?

Texts drift between releases and flavors; what is matched here was seen in the recorded logs of fixtures/errorlogs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Kind(StrEnum):
    READY = "ready"
    CRASH_RECOVERY = "crash recovery"
    SHUTDOWN = "shutdown complete"
    FAILURE = "failure"


@dataclass(frozen=True)
class Event:
    kind: Kind
    text: str


_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    # The server's own line: it names its executable, and the X Plugin's line, which comes before, does not. Up to 5.7
    # and in MariaDB the line ends here, and "Version: ..." follows on a second one.
    (
        Kind.READY,
        re.compile(r"\[(?:Note|System)\] (?:\[MY-\d+\] \[Server\] )?(?!X Plugin).+: ready for connections\.(?:$| )"),
    ),
    # The binlog and the XA coordinator have "Starting crash recovery..." lines of their own: three dots, no checkpoint.
    (Kind.CRASH_RECOVERY, re.compile(r"Database was not shut ?down normally|Starting crash recovery from checkpoint")),
    (Kind.SHUTDOWN, re.compile(r": Shutdown complete(?:$| \()")),
    # Only what ends a start. Many an [ERROR] does not: a missing mysql.plugin, a failed plugin, a lost tablespace.
    (Kind.FAILURE, re.compile(r"\[ERROR\].*\bAborting\b")),
    (Kind.FAILURE, re.compile(r"\[ERROR\].*\bunknown (?:variable|option)\b")),
    (Kind.FAILURE, re.compile(r"Unable to lock \.?/?\S*ibdata1")),
    # MariaDB would try again for 30 seconds; no process of ours is still there to be waited for.
    (Kind.FAILURE, re.compile(r"Can't lock aria control file")),
    (Kind.FAILURE, re.compile(r"Fatal error: |Fatal error in defaults handling")),
    (Kind.FAILURE, re.compile(r"\[ERROR\].*Can't start server")),
    (Kind.FAILURE, re.compile(r"\b(?:mysqld|mariadbd) got (?:signal|exception) ")),
    (Kind.FAILURE, re.compile(r"error while loading shared libraries: ")),
)
# Every pattern needs one of these: a quick test for the many lines that say nothing of interest.
_HINTS = re.compile(
    r"ready for|not shut|crash recovery|Shutdown c|Abort|unknown |Unable to|Can't (?:lock|start)|Fatal"
    r"| got |while loading"
)
LONGEST = 2000
"""Letters of a line in which something is looked for: what a server says stands there, and a line of megabytes would
take minutes."""
_MICROSECONDS = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})(Z|[+-]\d\d:\d\d)\s")


def classify(line: str) -> Event | None:
    """None for the many lines that neither end a start nor prove what kind of start it was."""
    text = line[:LONGEST].rstrip()
    if _HINTS.search(text) is None:
        return None
    for kind, pattern in _PATTERNS:
        if pattern.search(text):
            return Event(kind, text)
    return None


def is_error(line: str) -> bool:
    """An error of any weight: the first one usually says why a start failed, and the last one only that it did."""
    return "[ERROR]" in line


def stamp_of(line: str) -> float | None:
    """The server's own stamp in seconds since the epoch; None where it is in whole seconds, or missing."""
    match = _MICROSECONDS.match(line)
    if match is None:
        return None
    zone = "+00:00" if match[2] == "Z" else match[2]
    try:
        return datetime.fromisoformat(match[1] + zone).timestamp()
    except ValueError:
        return None
