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
        failing={
            "phases": "an initialisation creates system tables: it reads no dictionary and checks no files",
            "words": "the initialisation is called the slowest start, with advice about files that do not exist yet",
        },
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
        failing={
            "seconds": "the stamp of a collector that read the file later is taken for the time of the first line",
            "phases": "the time before the first stamp of the server is called process start, and 5.5 reads files",
            "words": "84 % are said to be process start",
        },
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
        failing={
            "starts": "a ready line that a terminal broke in two is not seen",
            "seconds": "a ready line that a terminal broke in two is not seen",
            "words": "a server that ran for eleven minutes and was shut down counts as a start that was cut off",
            "watch": "the server is said to have ended in its start",
        },
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
        if expected.seconds is not None:
            assert start["startup_s"] == pytest.approx(expected.seconds, abs=log.within_s)
        assert all(seconds >= 0 for seconds in start["seconds"].values()), start["seconds"]


@pytest.mark.parametrize("log", cases("phases"))
def test_phases_are_those_that_the_log_shows(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    said = analyzed(log, capsys)
    assert len(said) == len(log.starts)
    for expected, start in zip(log.starts, said, strict=True):
        for word, seconds in expected.phases.items():
            assert phase_s(start, word) == pytest.approx(seconds, abs=log.within_s), start["seconds"]
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
    for pattern in log.watch_never_says:
        assert not re.search(pattern, text), text


@pytest.mark.parametrize("name", ["compose-prefix.log", "shutdown-after-90s.log"])
def test_a_server_whose_log_nobody_writes_is_gone(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "--once", str(FOLDER / name)]) == GONE


def test_every_log_of_the_folder_is_in_the_table() -> None:
    named = {name for log in LOGS for name in log.files}
    assert {path.name for path in FOLDER.iterdir()} == named
