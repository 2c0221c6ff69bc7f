"""Two targets: files of error logs, and lines as they arrive. Phases lie within their start, in order, without gaps."""

from __future__ import annotations

import gzip
import io
import json
import re
import time
from collections.abc import Iterator, Sequence
from zlib import crc32

from fuzzing.target import FIXTURES, Target, text_of
from recovery.cli.analyze import AnalyzedLog, logs_page, to_json
from recovery.errors import RecoveryError
from recovery.logs.error_log import classify, log_counters, microsecond_stamp, milestone_of
from recovery.logs.log_analysis import LoggedStart, StartParser, starts_in
from recovery.logs.phases import HELD_BACK_S, PhaseTracker, with_first_query
from recovery.model import parse_version
from recovery.phase_table import FIRST_QUERY

PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_OUTCOMES = {"ready", "failed", "cut", "ended"}
_KINDS = {"crash", "clean", "initialize", "not told"}
_PAGES = 16
"""One log in so many is also rendered, which takes longer than reading it."""
_MAX_WORD = 60
_STAMPS = (
    "2026-11-20T20:28:51.888699Z", "2026-11-20 20:28:36", "130409 15:54:32", "+24:00", "0000-00-00T00:00:00.000000Z",
    "Nov 27 16:47:36 db1 mysqld[1]: ", "Feb 29 16:47:36 h systemd[1]: mysql: Main process exited, code=x, status=9",
    "2026-11-27T16:47:36.123456789Z ", "2026-11-27T16:47:36Z stderr F ", "db-1  | ", "mysqld_safe mysqld restarted",
)  # fmt: skip
_LOGS = sorted((FIXTURES / "errorlogs").glob("*.err"))


def check_log(data: bytes) -> None:
    found: list[LoggedStart] = []
    try:
        found.extend(starts_in(io.BytesIO(data), "a log"))
    except RecoveryError:
        assert data.startswith(PACKED)
    # Those of a server that shares the log with another one may end later.
    in_order(sorted(found, key=lambda start: start.line))
    if not data.startswith(PACKED):
        assert found == _line_by_line(data)
        for line in data.split(b"\n")[:4]:
            microsecond_stamp(text_of(line))
    if crc32(data) % _PAGES == 0:
        log = AnalyzedLog("a log", tuple(found))
        logs_page([log])
        assert len(json.loads(json.dumps(to_json([log])))["logs"][0]["starts"]) == len(found)


def in_order(found: Sequence[LoggedStart]) -> None:
    assert [start.line for start in found] == sorted(start.line for start in found)
    for start in found:
        assert start.startup_s is None or start.startup_s >= 0
        assert not start.phases or start.startup_s is not None
        at_s = 0.0
        for phase in start.phases:
            assert phase.start_s == at_s
            assert phase.end_s > at_s
            at_s = phase.end_s
        assert start.startup_s is None or at_s == (start.startup_s if start.phases else 0.0)
        assert all(phase.end_s >= phase.start_s for phase in start.beside)
        assert all(count >= 0 for count in start.counts.values())
        assert (start.outcome, start.kind) in {(outcome, kind) for outcome in _OUTCOMES for kind in _KINDS}
        assert start.version is None or str(parse_version(start.version)) == start.version


def _line_by_line(data: bytes) -> list[LoggedStart]:
    starts, found = StartParser(time.time()), list[LoggedStart]()
    lines = data.split(b"\n")
    for number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
        found += starts.take(number, text_of(line).rstrip("\r"))
    return found + starts.finish()


def _is_understood(line: bytes) -> bool:
    text = text_of(line)
    return bool(milestone_of(text) or classify(text) or dict(log_counters(text))) or text.startswith("Version: ")


def _log_seeds() -> Iterator[bytes]:
    """The understood lines of recorded logs."""
    for log in _LOGS:
        short = b"\n".join([line for line in log.read_bytes().splitlines() if _is_understood(line)]) + b"\n"
        yield short
        yield short[len(short) // 2 :] + short[: len(short) // 3]
    yield gzip.compress(short, mtime=0)


def _words() -> Iterator[str]:
    """Yields the messages of recorded logs, as far as a dictionary holds them, and time stamps."""
    for log in _LOGS:
        for line in filter(_is_understood, log.read_bytes().splitlines()):
            yield text_of(line).rpartition("] ")[2][:_MAX_WORD]
    yield from _STAMPS


ERRORLOG = Target("errorlog", check_log, _log_seeds, tuple(sorted(set(_words()))), max_bytes=4096, share=40)

# --- Lines as they arrive, held back or not, with whatever time stamps

_STARTED_S = 1000.0
_ANSWERED_S = 0.5
"""After the ready line."""
_LINE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) (\d{1,10}(?:\.\d{1,9})?)\t(.*)", re.ASCII)
_EACH = 16
"""The current phase is asked after one line in so many."""


def check_arrivals(data: bytes) -> None:
    """The first line has the version and the kind of start, the others seconds since the exec, time of day and text."""
    head, *lines = text_of(data).split("\n")
    name, _, kind = head.partition(" ")
    try:
        version = parse_version(name)
    except ValueError:
        version = parse_version("8.0.31")
    tracker = PhaseTracker(version, _STARTED_S)
    tracker.crashed = kind == "crash"
    at_s = wall_s = 0.0
    for number, line in enumerate(lines):
        if (found := _LINE.fullmatch(line)) is not None:
            # No monotonic clock goes back; the other one may.
            at_s, wall_s = max(at_s, float(found[1])), float(found[2])
        text = line if found is None else found[3]
        tracker.add(text, milestone_of(text), _STARTED_S + at_s, wall_s=wall_s)
        tracker.latest = line
        if number % _EACH == 0:
            _check_current(tracker, _STARTED_S + at_s)
    _check_phases(tracker, at_s)
    assert tracker.held_s is None or tracker.held_s > HELD_BACK_S


def _check_current(tracker: PhaseTracker, now_s: float) -> None:
    current = tracker.current(now_s)
    assert current.phase != ""
    assert _STARTED_S <= current.since_s <= now_s + 1


def _check_phases(tracker: PhaseTracker, startup_s: float) -> None:
    *phases, last = with_first_query(tracker.phases(startup_s), startup_s + _ANSWERED_S)
    at_s = 0.0
    for phase in phases:
        assert phase.start_s == at_s
        assert phase.end_s > at_s
        at_s = phase.end_s
    assert at_s == (startup_s if phases else 0.0)
    assert (last.name, last.end_s) == (FIRST_QUERY, startup_s + _ANSWERED_S)
    for one in tracker.background_phases(startup_s):
        assert 0 <= one.start_s <= one.end_s


def _arrival_seeds() -> Iterator[bytes]:
    for arrivals in sorted((FIXTURES / "errorlogs").glob("*-crash.arrivals")):
        version = arrivals.name.removesuffix("-crash.arrivals").removeprefix("mysql-")
        lines = arrivals.read_bytes().splitlines()
        yield f"{version} crash\n".encode() + b"\n".join(lines[:: 1 + len(lines) // 30])


PASSAGE = Target("passage", check_arrivals, _arrival_seeds, ERRORLOG.words, max_bytes=4096, share=40)
