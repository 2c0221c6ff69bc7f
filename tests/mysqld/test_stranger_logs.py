"""Logs in the shapes of public threads, and what a DBA expects of `recovery analyze` and `recovery watch` for each.

The expectations were written from the logs, before the program had read them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from checkout import ROOT

from recovery.cli.main import run

Json = dict[str, Any]
FOLDER = ROOT / "fixtures/errorlogs/strangers"
# Exit codes of `recovery watch`, as docs/not-back.md has them.
READY, GONE, PROGRESSING, STALLED, LOOP = 0, 3, 10, 11, 12
NOT_OVER = (PROGRESSING, STALLED)


@dataclass(frozen=True)
class Start:
    """A start in a log. Seconds are from its first line to its ready line, or to its last line."""

    ready: bool
    seconds: float | None = None
    version: str | None = None
    # None: not to be told from this log.
    kind: str | None = None
    # Seconds of a phase by a word of its name.
    phases: dict[str, float] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    # A pattern that the reason must match.
    reason: str | None = None
    # The log may not tell its seconds. Wrong ones are worse than none.
    or_unknown: bool = False


@dataclass(frozen=True)
class Log:
    files: tuple[str, ...]
    starts: tuple[Start, ...]
    # Whole seconds in the log.
    within_s: float = 0.1
    # Patterns that the printed text must have, and must not have.
    says: tuple[str, ...] = ()
    never_says: tuple[str, ...] = ()
    # The exit code of `recovery watch --once --follow-log` for the last file.
    follow: tuple[int, ...] = ()
    watch_says: tuple[str, ...] = ()
    watch_never_says: tuple[str, ...] = ()
    # What fails: the test, and why.
    failing: dict[str, str] = field(default_factory=dict)


RAISE_THE_LIMIT = r"killed-starts|[Rr]aise the limit"

LOGS = (
    Log(
        ("entrypoint-zone.log",),
        (
            Start(ready=False, version="8.0.36", kind="initialize", without=("dictionary read", "file check")),
            Start(ready=True, seconds=0.73, version="8.0.36", kind="temporary"),
            Start(ready=True, seconds=0.70, version="8.0.36"),
        ),
        # The start of the server that stays is 0.7 s; creating the system tables is no start of it.
        never_says=(RAISE_THE_LIMIT, "Start 1 is the slowest"),
        follow=(READY,),
    ),
    Log(
        ("compose-prefix.log",),
        (Start(True, 19, "mariadb-10.5.9", "crash", {"redo scan": 12, "redo apply": 5}, ("file check", "validation")),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("actions-services.log",),
        (Start(True, 4.25, "8.0.33", None, {"innodb initialization": 3.5}, ("redo", "validation")),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("one-stamp-55.log",),
        # 15:12:31 to 15:13:56 by the server; the collector read the file six minutes later.
        (Start(True, 85, "5.5.44", "crash", {"process start": 0, "discovery": 77}),),
        within_s=1,
        says=("discovery",),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("mariadb-101.log",),
        (
            Start(
                True, 47, "mariadb-10.1.31", "crash", {"discovery": 24, "redo scan": 4, "redo apply": 14, "binlog": 2}
            ),
        ),
        within_s=1,
        follow=(READY,),
    ),
    Log(
        ("signal-11.log",),
        (
            Start(ready=True, version="5.7.27"),
            Start(True, 16.4, "5.7.27", "crash", {"redo apply": 1.2, "validation": 14.4}),
        ),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("ready-in-two.log",),
        (Start(True, 44.0, "8.0.28", None, {"innodb initialization": 42.2}),),
        never_says=(RAISE_THE_LIMIT, "before it was ready"),
        # It was shut down after it had been ready.
        watch_never_says=("its start ended",),
    ),
    Log(
        ("xplugin-first.log",),
        (
            Start(True, 22.0, "8.0.30", None, {"innodb initialization": 8.2}),
            Start(False, 49.6, "8.0.30", None, {"innodb initialization": 47.7}),
        ),
        follow=NOT_OVER,
    ),
    Log(
        ("shutdown-after-90s.log",),
        (Start(True, 5.12, "8.0.32"), Start(True, 4.2, "8.0.32")),
        never_says=(RAISE_THE_LIMIT, "before it was ready", "loop"),
        follow=(READY,),
    ),
    Log(
        ("redo-size-55.log",),
        (
            Start(False, 0, reason="ib_logfile0 is of different size"),
            Start(True, 19, "5.5.31", "crash", {"discovery": 12}),
        ),
        within_s=1,
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("galera-lost-position.log",),
        (Start(False, 6, "mariadb-10.1.33", "position", reason="Unable to lock ./ibdata1"),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
    ),
    Log(
        ("galera-recovery-then-start.log",),
        (
            Start(False, 61, "mariadb-10.4.21", "position", {"redo scan": 49, "redo apply": 11}),
            Start(True, 7, "mariadb-10.4.21", None, {}, ("redo",)),
        ),
        within_s=1,
        never_says=(RAISE_THE_LIMIT, "before it was ready"),
        follow=(READY,),
    ),
    Log(
        ("galera-sst-joiner.log",),
        (Start(True, 1077, "mariadb-10.6.12", None, {"process start": 2}),),
        within_s=1,
        says=(r"[Ss]tate transfer|\bSST\b",),
        never_says=(RAISE_THE_LIMIT, "reads its options"),
        follow=(READY,),
    ),
    Log(
        ("upgrade-57-80.log",),
        (Start(True, 168.2, "8.0.36", None, {"dictionary upgrade": 131.6, "server upgrade": 28.3}, ("file check",)),),
        says=("shorten#upgrade",),
        never_says=(RAISE_THE_LIMIT, "shorten#file-check"),
        # It was shut down half an hour later.
        follow=(GONE,),
        watch_never_says=("its start ended",),
    ),
    Log(
        ("upgrade-57-80-refused.log",),
        (
            Start(False, 1.02, "8.0.39", reason="Upgrade is not supported after a crash"),
            Start(False, 1.02, "8.0.39", reason="Upgrade is not supported after a crash"),
        ),
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=("Upgrade is not supported after a crash",),
    ),
    Log(
        ("upgrade-80-verbosity-2.log",),
        (Start(True, 48.5, "8.0.35", None, {"innodb initialization": 10.4, "server upgrade": 30.0}),),
        says=("shorten#upgrade",),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("verbosity-3-crash.log",),
        (
            Start(
                True,
                65.0,
                "8.0.29",
                "crash",
                {"directory listing": 3, "file scan": 18, "redo scan": 5.2, "redo apply": 6.5, "dictionary read": 8},
                ("innodb initialization", "+"),
            ),
        ),
        never_says=(RAISE_THE_LIMIT, "log_error_verbosity"),
        follow=(READY,),
    ),
    Log(
        ("two-servers.log",),
        (
            Start(True, 12.0, "5.7.29", "crash", {"redo apply": 2.0, "validation": 8.1}),
            Start(True, 9, "mariadb-10.3.22", "crash", {"redo scan": 6}),
        ),
        within_s=1,
        never_says=(RAISE_THE_LIMIT, "killed the server"),
        follow=(READY,),
    ),
    Log(
        ("two-servers-one-after-the-other.log",),
        (Start(True, 1.0, "5.7.31", "clean"), Start(True, 34.0, "5.7.30", "crash", {"validation": 30.0})),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("compose-two-databases.log",),
        (Start(True, 22.5, "8.0.35", None, {"innodb initialization": 21.0}), Start(True, 5.0, "8.0.34")),
        never_says=(RAISE_THE_LIMIT, "killed the server"),
        follow=(READY,),
    ),
    Log(
        ("rotated-within.log.1", "rotated-within.log"),
        (Start(True, 120.0, "5.7.34", "crash", {"redo apply": 20.0, "validation": 80.0}),),
        never_says=(RAISE_THE_LIMIT, "not ready"),
        follow=(READY,),
    ),
    Log(
        # As `error.log*` sorts them.
        ("rotated-within.log", "rotated-within.log.1"),
        (Start(True, 120.0, "5.7.34", "crash", {"redo apply": 20.0, "validation": 80.0}),),
        never_says=(RAISE_THE_LIMIT, "not ready"),
    ),
    Log(
        ("disk-full-57.log",),
        (Start(False, 0.7, "5.7.23", reason="disk is not full or a disk quota|No space left"),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=("disk is not full|No space left",),
    ),
    Log(
        ("disk-full-waits-56.log",),
        (Start(False, 609, "5.6.30", "crash", {"discovery": 6}),),
        within_s=1,
        says=("Disk is full|No space left",),
        never_says=(RAISE_THE_LIMIT, "what shortens it"),
        follow=NOT_OVER,
        watch_says=("Disk is full|No space left",),
    ),
    Log(
        ("permission-80.log",),
        (
            Start(False, 0.01, "8.0.34", reason="ibdata1' must be writable"),
            Start(False, 0.01, "8.0.34", reason="ibdata1' must be writable"),
        ),
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=("must be writable",),
    ),
    Log(
        ("permission-maria.log",),
        (Start(False, 1, "mariadb-10.6.7", reason="Permission denied|must be writable"),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=("Permission denied|must be writable",),
    ),
    Log(
        ("ibdata-size-56.log",),
        (Start(False, 0, "5.6.41", reason="ibdata1 is of a different size"),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT, "run mysql_upgrade"),
        follow=(GONE,),
        watch_says=("ibdata1 is of a different size",),
    ),
    Log(
        ("no-user-table-maria.log",),
        (Start(False, 3, "mariadb-10.3.18", "crash", reason=r"mysql\.(user|servers)' doesn't exist"),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=(r"mysql\.user' doesn't exist",),
    ),
    Log(
        ("no-user-table-80.log",),
        (Start(False, 2.1, "8.0.28", reason=r"mysql\.(user|component)' doesn't exist"),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=(r"mysql\.user' doesn't exist",),
    ),
    Log(
        ("json-80.log",),
        (
            Start(True, 33.5, "8.0.32", None, {"innodb initialization": 31.5}),
            Start(False, 100.0, "8.0.32", reason="Unable to lock ./ibdata1"),
        ),
        never_says=(RAISE_THE_LIMIT, "after 0.02 s"),
        follow=(GONE,),
        watch_says=("Unable to lock ./ibdata1",),
    ),
    Log(
        ("journal-short-iso.log",),
        (
            Start(
                False, 180, "5.7.32", "crash", {"redo apply": 6, "validation": 172}, reason="TimeoutStartSec|took too"
            ),
            Start(True, 59.0, "5.7.32", "crash", {"redo apply": 6.0, "validation": 50.0}),
        ),
        within_s=1,
        says=("TimeoutStartSec",),
        follow=(READY,),
    ),
    Log(
        ("journal-short-precise.log",),
        (Start(True, 91, "mariadb-10.11.6", "crash", {"redo scan": 39, "redo apply": 48}),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("windows-bom.log",),
        (Start(True, 26.0, "5.7.25", "crash", {"redo apply": 3.0, "validation": 20.0}),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("windows-utf16.log",),
        (Start(True, 26.0, "5.7.25", "crash", {"redo apply": 3.0, "validation": 20.0}),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("clock-set-back.log",),
        # Twenty seconds before 3:00 of summer time, and twelve after 2:00 of winter time, and what was between them.
        (Start(True, 52, "mariadb-10.6.10", "crash", or_unknown=True),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT, "Less than 1 s"),
        follow=(READY,),
    ),
    Log(
        ("clock-set-forward.log",),
        (Start(True, 44, "mariadb-10.6.12", "crash", or_unknown=True),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT, "61 minutes"),
        follow=(READY,),
    ),
    Log(
        ("liveness-57.log",),
        (
            Start(False, version="5.7.35", kind="crash", phases={"redo scan": 20.3}, without=("validation",)),
            Start(False, version="5.7.35", kind="crash", phases={"redo scan": 20.3}, without=("validation",)),
            Start(False, version="5.7.35", kind="crash"),
        ),
        says=("liveness probe", RAISE_THE_LIMIT),
        follow=(LOOP,),
        watch_says=("third try",),
    ),
    Log(
        ("liveness-80-quiet.log",),
        (Start(False, version="8.0.37"), Start(False, version="8.0.37"), Start(False, version="8.0.37")),
        says=("liveness probe", RAISE_THE_LIMIT, "at most 91"),
        follow=(*NOT_OVER, LOOP),
    ),
    Log(
        ("sigterm-before-ready.log",),
        (
            Start(False, version="8.0.37", phases={"innodb initialization": 40.0}, reason="shut down|signal"),
            Start(False, 60.9, "8.0.37", None, {"innodb initialization": 41.0}, reason="shut down|signal"),
        ),
        says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
    ),
    Log(
        ("assertion-loop-57.log",),
        (
            Start(False, kind="crash", reason="signal 6|[Aa]ssertion"),
            Start(False, kind="crash", reason="signal 6|[Aa]ssertion"),
        ),
        never_says=(RAISE_THE_LIMIT, "limit on its"),
        follow=(GONE,),
    ),
    Log(
        ("signal-in-start-maria.log",),
        (Start(False, 5, "mariadb-10.2.22", "crash", reason="signal 11"),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT, "limit on its"),
        follow=(GONE,),
        watch_says=("signal 11",),
    ),
    Log(
        ("oom-journal.log",),
        (Start(False, 18.4, "8.0.35", reason="memory|OOM"), Start(True, 22.5, "8.0.35")),
        says=("memory",),
        never_says=("TimeoutStartSec",),
        follow=(READY,),
    ),
    Log(
        ("permission-57.log",),
        (Start(False, 0.64, "5.7.24", reason="must be writable"),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=("must be writable",),
    ),
    Log(
        ("disk-full-80.log",),
        (Start(False, 3.9, "8.0.33", reason="disk is not full|No space left|out of disk"),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=("disk is not full|No space left|out of disk",),
    ),
    Log(
        ("ibdata-size-maria.log",),
        (Start(False, 1, "mariadb-10.5.13", reason="different size|smaller than expected"),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
    ),
    Log(
        ("unknown-option-80.log",),
        (Start(False, version="8.0.34", reason="unknown variable 'query_cache_size=16M'"),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=("unknown variable",),
    ),
    Log(
        ("crash-55.log",),
        (Start(True, 165, "5.5.35", "crash", {"discovery": 150, "redo apply": 10, "binlog": 2}),),
        within_s=1,
        says=("discovery",),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("pasted-quote.log",),
        (Start(True, 480.4, "8.0.22", None, {"innodb initialization": 400.0}),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("grep-numbers.log",),
        (Start(True, 50.0, "5.7.40", "crash", {"redo apply": 4.0, "validation": 40.0}),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("snipped.log",),
        (Start(True, 201.0, "5.7.30", "crash", {"redo apply": 2.0}), Start(False, version="5.7.30")),
        never_says=(RAISE_THE_LIMIT, "kill"),
        follow=NOT_OVER,
    ),
    Log(
        ("timestamps-system-dst.log",),
        # The stamps have their zones.
        (Start(True, 20.0, "8.0.19"), Start(True, 42.0, "8.0.19")),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("ntp-step-back.log",),
        # 9.0 s before the clock was set, 1.1 s after it.
        (Start(True, 10.1, "8.0.34", or_unknown=True),),
        never_says=(RAISE_THE_LIMIT, "0.00 ready", "too few timestamps"),
        follow=(READY,),
    ),
    Log(
        ("no-clock-at-boot.log",),
        # A small computer gets its time from the network.
        (Start(True, 7, "mariadb-10.11.4", "crash", or_unknown=True),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT, "208289.7 hours"),
        follow=(READY,),
    ),
    Log(
        ("compose-colours.log",),
        (Start(True, 9.2, "8.4.0", None, {"innodb initialization": 8.0}),),
        within_s=0.25,
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("docker-t-local.log",),
        (Start(True, 9, "mariadb-10.8.3", "crash", {"redo scan": 5, "redo apply": 2}),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("ready-in-two-maria.log",),
        (Start(True, 16, "mariadb-10.9.4", "crash", {"redo scan": 12, "redo apply": 2}),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT, "before it was ready"),
        # It was shut down half an hour later.
        follow=(GONE,),
        watch_never_says=("its start ended",),
    ),
    Log(
        ("ready-then-oom.log",),
        (Start(True, 7.5, "8.0.38"), Start(True, 8.0, "8.0.38")),
        never_says=(RAISE_THE_LIMIT, "before it was ready"),
        follow=(READY,),
    ),
    Log(
        ("redo-size-refused-55.log",),
        (Start(False, 0, reason="ib_logfile0 is of different size"),),
        within_s=1,
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=("ib_logfile0 is of different size",),
    ),
    Log(
        ("sst-under-way.log",),
        (Start(False, 3, "mariadb-10.6.12"),),
        within_s=1,
        says=(r"[Ss]tate transfer|\bSST\b",),
        never_says=(RAISE_THE_LIMIT,),
        follow=NOT_OVER,
        watch_says=(r"[Ss]tate transfer|\bSST\b",),
        watch_never_says=("reads its options",),
    ),
    Log(
        ("aria-recovery.log",),
        (Start(True, 74, "mariadb-10.11.2", "crash", {"process start": 0, "redo scan": 1}),),
        within_s=1,
        says=("Aria",),
        never_says=(RAISE_THE_LIMIT, "reads its options"),
        follow=(READY,),
    ),
    Log(
        ("syslog-55.log",),
        (Start(True, 93, "5.5.43", "crash", {"discovery": 75, "redo apply": 8}),),
        within_s=1,
        says=("discovery",),
        never_says=(RAISE_THE_LIMIT,),
        follow=(READY,),
    ),
    Log(
        ("no-user-table-57.log",),
        (Start(False, version="5.7.21", reason=r"mysql\.user' doesn't exist"),),
        never_says=(RAISE_THE_LIMIT, "run mysql_upgrade"),
        follow=(GONE,),
        watch_says=(r"mysql\.user' doesn't exist",),
    ),
    Log(
        ("port-in-use-80.log",),
        (Start(False, version="8.0.35", phases={"innodb initialization": 44.0}, reason="Address already in use"),),
        never_says=(RAISE_THE_LIMIT,),
        follow=(GONE,),
        watch_says=("Address already in use",),
    ),
    Log(
        ("verbosity-3-under-way.log",),
        (Start(False, 36.0, "8.0.29", None, {"directory listing": 6.0, "file scan": 30.0}),),
        says=("15300/25000",),
        never_says=(RAISE_THE_LIMIT,),
        follow=NOT_OVER,
        watch_says=("file scan",),
        watch_never_says=(" 0 of 400,010 files",),
    ),
)


def cases(test: str) -> list[Any]:
    found = []
    for log in LOGS:
        reason = log.failing.get(test)
        marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
        found.append(pytest.param(log, id="+".join(log.files), marks=marks))
    return found


def analyzed(log: Log, capsys: pytest.CaptureFixture[str]) -> list[Json]:
    assert run(["analyze", "--json=-", *(str(FOLDER / name) for name in log.files)]) == 0
    logs = json.loads(capsys.readouterr().out)["logs"]
    return [start for one in logs for start in one["starts"]]


def phase_s(start: Json, word: str) -> float | None:
    found = [seconds for name, seconds in start["seconds"].items() if word in name]
    return sum(found) if found else None


@pytest.mark.parametrize("log", cases("starts"))
def test_all_starts_are_found(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    said = analyzed(log, capsys)
    assert [start["outcome"] == "ready" for start in said] == [start.ready for start in log.starts], said
    for expected, start in zip(log.starts, said, strict=True):
        assert expected.version in (None, start["version"])
        assert expected.kind in (None, start["kind"])
        assert expected.reason is None or re.search(expected.reason, start["reason"] or ""), start["reason"]


@pytest.mark.parametrize("log", cases("seconds"))
def test_a_start_takes_the_seconds_that_its_server_stamped(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    said = analyzed(log, capsys)
    assert len(said) == len(log.starts)
    for expected, start in zip(log.starts, said, strict=True):
        unknown = expected.or_unknown and start["startup_s"] is None
        if expected.seconds is not None and not unknown:
            assert start["startup_s"] == pytest.approx(expected.seconds, abs=log.within_s)
        assert all(seconds >= 0 for seconds in start["seconds"].values()), start["seconds"]


@pytest.mark.parametrize("log", cases("phases"))
def test_phases_are_those_that_the_log_shows(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    said = analyzed(log, capsys)
    assert len(said) == len(log.starts)
    for expected, start in zip(log.starts, said, strict=True):
        for word, seconds in expected.phases.items():
            # One that took no time is left out.
            assert (phase_s(start, word) or 0) == pytest.approx(seconds, abs=log.within_s), start["seconds"]
        for word in expected.without:
            assert phase_s(start, word) is None, start["seconds"]


@pytest.mark.parametrize("log", cases("words"))
def test_no_advice_misleads(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", *(str(FOLDER / name) for name in log.files)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for pattern in log.says:
        assert re.search(pattern, text), text
    for pattern in log.never_says:
        assert not re.search(pattern, text), text


@pytest.mark.parametrize("log", cases("watch"))
def test_watch_says_where_the_last_start_stands(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["watch", "--once", "--follow-log", str(FOLDER / log.files[-1])])
    text = " ".join(capsys.readouterr().out.split())
    assert not log.follow or code in log.follow, text
    for pattern in log.watch_says:
        assert re.search(pattern, text), text
    for pattern in log.watch_never_says:
        assert not re.search(pattern, text), text


@pytest.mark.parametrize("name", ["compose-prefix.log", "shutdown-after-90s.log"])
def test_a_server_whose_log_nobody_writes_is_gone(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "--once", str(FOLDER / name)]) == GONE


def test_every_log_of_the_folder_is_in_the_table() -> None:
    named = {name for log in LOGS for name in log.files}
    assert {path.name for path in FOLDER.iterdir()} == named
