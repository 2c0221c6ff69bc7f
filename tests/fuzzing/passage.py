"""A server's lines as they arrive, held back or not, with whatever stamps: is each moment of its start in one phase?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fuzzing import errorlog
from fuzzing.target import FIXTURES, Target, text_of
from recovery.analysis.phase_names import FIRST_QUERY
from recovery.model import parse_version
from recovery.mysqld.phases import HELD_BACK_S, PhaseTracker, with_first_query

_STARTED_S = 1000.0
_ANSWERED_S = 0.5
"""After the ready line."""
_LINE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) (\d{1,10}(?:\.\d{1,9})?)\t(.*)", re.ASCII)
_EACH = 16
"""So often somebody looks where it stands."""


def check(data: bytes) -> None:
    """As tests/real records them: seconds since the exec, the time of day, and the line. First, version and start."""
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
        tracker.add_arrival(line if found is None else found[3], _STARTED_S + at_s, wall_s)
        tracker.latest = line
        if number % _EACH == 0:
            _check_standing(tracker, _STARTED_S + at_s)
    _check_phases(tracker, at_s)
    assert tracker.held_s is None or tracker.held_s > HELD_BACK_S


def _check_standing(tracker: PhaseTracker, now_s: float) -> None:
    standing = tracker.current(now_s)
    assert standing.phase != ""
    assert _STARTED_S <= standing.since_s <= now_s + 1


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


def _seeds() -> Iterator[bytes]:
    for arrivals in sorted((FIXTURES / "errorlogs").glob("*-crash.arrivals")):
        version = arrivals.name.removesuffix("-crash.arrivals").removeprefix("mysql-")
        lines = arrivals.read_bytes().splitlines()
        yield f"{version} crash\n".encode() + b"\n".join(lines[:: 1 + len(lines) // 30])


TARGET = Target("passage", check, _seeds, errorlog.TARGET.words, most_bytes=4096, share=40)
