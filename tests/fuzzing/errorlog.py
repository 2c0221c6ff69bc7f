"""Is any file an error log with starts in it, or with none? Their phases lie inside of them, one after the other."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Sequence
from zlib import crc32

from fuzzing.target import FIXTURES, Target, text_of
from recovery.cli.analyze import log_page, to_json
from recovery.errors import RecoveryError
from recovery.model import parse_version
from recovery.mysqld.error_log import classify, log_counters, microsecond_stamp, milestone_of
from recovery.mysqld.log_analysis import LoggedStart, StartParser, starts_in

PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_OUTCOMES = {"ready", "failed", "cut", "ended"}
_KINDS = {"crash", "clean", "initialize", "not told"}
_LAID_OUT = 16
"""One log in so many is made a page of, too, which takes longer than to read it."""
_LOGS = sorted((FIXTURES / "errorlogs").glob("*.err"))


def check(data: bytes) -> None:
    found: list[LoggedStart] = []
    try:
        # Those before the damage, too.
        found.extend(starts_in(io.BytesIO(data), "a log"))
    except RecoveryError:
        assert data.startswith(PACKED)
    in_order(found)
    if not data.startswith(PACKED):
        assert found == _line_by_line(data)
        for line in data.split(b"\n")[:4]:
            microsecond_stamp(text_of(line))
    if crc32(data) % _LAID_OUT == 0:
        log_page("a log", found)
        assert len(json.loads(to_json([("a log", found)]))["logs"][0]["starts"]) == len(found)


def in_order(found: Sequence[LoggedStart]) -> None:
    assert [start.line for start in found] == sorted({start.line for start in found})
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
    """Nothing is passed over."""
    starts, found = StartParser(), list[LoggedStart]()
    lines = data.split(b"\n")
    for number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
        found += starts.take(number, text_of(line).rstrip("\r"))
    return found + starts.finish()


def _tells(line: bytes) -> bool:
    text = text_of(line)
    return bool(milestone_of(text) or classify(text) or dict(log_counters(text))) or text.startswith("Version: ")


def _seeds() -> Iterator[bytes]:
    """Recorded logs, as far as they are understood."""
    for log in _LOGS:
        short = b"\n".join([line for line in log.read_bytes().splitlines() if _tells(line)]) + b"\n"
        yield short
        yield short[len(short) // 2 :] + short[: len(short) // 3]
    yield gzip.compress(short, mtime=0)


TARGET = Target(
    "errorlog",
    check,
    _seeds,
    words=(
        "starting as process 1", "mysqld_safe Starting mysqld daemon", "[MY-015015]", "Directories to scan",
        "initializing of server in progress", "InnoDB initialization has started", "InnoDB initialization has ended",
        "[InnoDB] Scanning '", "Initializing buffer pool", "Completed initialization of buffer pool",
        "highest supported file format is", "Starting crash recovery from checkpoint", "Starting an apply batch",
        "Database was not shutdown normally", "InnoDB: Starting crash recovery.", "InnoDB: Apply batch completed",
        "Reading tablespace information from the .ibd", "rollback segment(s) are active",
        "Server upgrade from 1 started", "started; log sequence number 1", "Data dictionary initializing",
        "Reading DD tablespace files", "Validated 1/2  tablespaces", "[ERROR] Aborting", "Version: '5.7.22'",
        "[Note] /m: ready for connections.",
        "(mysqld 8.0.31)", "Starting MariaDB 10.11.5", "Loading buffer pool(s) from", "Buffer pool(s) load completed",
        "Starting in background the rollback", "Rollback of non-prepared transactions completed",
        ": Shutdown complete", "Doing recovery: scanned up to", "2026-11-20T20:28:51.888699Z", "2026-11-20 20:28:36",
        "130409 15:54:32", "+24:00", "0000-00-00T00:00:00.000000Z",
    ),
    most_bytes=4096,
    share=40,
)  # fmt: skip
