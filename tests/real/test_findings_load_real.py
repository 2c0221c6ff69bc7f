"""Is each doubt about a load said when its condition is really there? Loads are slowed, starved and disturbed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recovery.analysis.warnings import findings
from recovery.cli.main import run
from recovery.model import Finding, Session, Verdict
from recovery.storage.sessions import find_session, load_session

pytestmark = pytest.mark.real
DISTURBED = pytest.mark.on_demand("disturbed")
"""It depends on how much of its CPUs and its disk the host has left for the load."""
VERSION = "5.7.22"
ONE_INSTANCE = ("--option", "table_open_cache_instances=1", "--load-tables", "1")
BURN = ["nice", "-n", "10", sys.executable, "-c", "while True: pass"]

COMPUTES = """
require("oltp_common")
function prepare_statements() end
function event()
  local sum = 0
  for i = 1, 2000000 do sum = sum + i % 7 end
  con:query("SELECT " .. sum)
end
"""
"""A client that is slower than its server."""
ANYWHERE = """
require("oltp_common")
function prepare_statements() end
function event()
  con:query("SELECT c FROM sbtest1 WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.table_size))
end
"""
"""Sysbench's own asks for the same few rows most of the time."""
WARMS_UP = """
require("oltp_common")
function prepare_statements() end
local events = 0
function event()
  events = events + 1
  con:query("SELECT SLEEP(" .. (events < 200 and 0.02 or 0.005) .. ")")
  con:query("UPDATE sbtest1 SET c = REPEAT(CHAR(97 + " .. events % 26 .. "), 119) WHERE id <= 100")
end
"""
"""For its first four seconds it is slow; and it writes a log that is never full."""
BY_TURNS = """
require("oltp_common")
local file = "{turns}"
local pause
function prepare_statements()
  local known = io.open(file, "a+")
  local turn = #known:read("*a")
  known:write(".")
  known:close()
  pause = 0.002 * (turn % 3 * 3 + 1)
end
function event()
  con:query("SELECT SLEEP(" .. pause .. ")")
end
"""
"""Each of three runs at a pace of its own."""


@pytest.fixture
def at(data: Path, tmp_path: Path) -> list[str]:
    return ["--version", VERSION, "--data", str(data), "--results", str(tmp_path / "results"), "--no-probe"]


def script(folder: Path, name: str, text: str) -> str:
    path = folder / f"{name}.lua"
    path.write_text(text)
    return str(path)


def stored(tmp_path: Path) -> Session:
    return load_session(find_session(tmp_path / "results", None))


def found(session: Session) -> dict[str, Finding]:
    assert {one.verdict for one in session.runs} == {Verdict.MEASURED}, [one.reason for one in session.runs]
    told = findings(session)
    assert all(one.hint for one in told)
    return {f"{one.kind} {one.about}": one for one in told}


def kinds_about(told: dict[str, Finding], cell: str) -> set[str]:
    """But for what neighbours may do to it on shared CPUs."""
    disturbed = {"other-cpu-load", "other-disk-load", "steal", "throttled", "wide-interval"}
    return {one.kind for one in told.values() if cell in one.about or cell in one.text} - disturbed


@contextmanager
def burning() -> Iterator[None]:
    process = subprocess.Popen(BURN)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@DISTURBED
def test_a_client_that_computes_and_transactions_that_lock_each_other_out(at: list[str], tmp_path: Path) -> None:
    """Eight clients over twenty rows end in deadlocks, which sysbench ignores."""
    sizes = ["--tables", "1", "--rows", "20", "--threads", "8", "--seconds", "2", "--warmup", "0", "--runs", "1"]
    work = f"read-write {script(tmp_path, 'computes', COMPUTES)}"
    assert run(["table-cache", *sizes, "--workload", work, *ONE_INSTANCE, *at]) == 0
    told = found(stored(tmp_path))
    (errors,) = (one for name, one in told.items() if name.startswith("errors "))
    assert "read-write" in errors.about
    assert "ended in an error" in errors.text
    assert any(name.startswith("client-was-the-bottleneck ") and "computes" in name for name in told)
    assert {"short-run all", "few-runs all"} <= told.keys()


@DISTURBED
def test_a_load_that_is_not_in_memory_and_one_that_comes_to_speed_late(at: list[str], tmp_path: Path) -> None:
    sizes = ["--tables", "1", "--rows", "60000", "--threads", "1", "--seconds", "11", "--warmup", "0", "--runs", "1"]
    work = f"{script(tmp_path, 'anywhere', ANYWHERE)} {script(tmp_path, 'warms-up', WARMS_UP)}"
    small = ["--set", "innodb_buffer_pool_size=5242880"]
    assert run(["table-cache", *sizes, "--workload", work, *small, *ONE_INSTANCE, *at]) == 0
    told = found(stored(tmp_path))
    (read,) = (one for name, one in told.items() if name.startswith("not-in-memory "))
    assert "pages per query" in read.text
    assert "anywhere" in read.about
    (late,) = (one for name, one in told.items() if name.startswith("never-warmed-up ") and "warms-up" in name)
    assert "% higher than in the first" in late.text
    (filling,) = (one for name, one in told.items() if name.startswith("log-still-filling "))
    assert "warms-up" in filling.about
    assert "of 1,074 MB" in filling.text


@DISTURBED
def test_runs_that_do_not_agree_and_a_plain_one_that_does(at: list[str], tmp_path: Path) -> None:
    sizes = ["--tables", "1", "--rows", "500", "--threads", "1", "--seconds", "1", "--warmup", "1", "--runs", "3"]
    turns = script(tmp_path, "by-turns", BY_TURNS.replace("{turns}", str(tmp_path / "turns")))
    assert run(["table-cache", *sizes, "--workload", f"point-select {turns}", *ONE_INSTANCE, *at]) == 0
    told = found(stored(tmp_path))
    assert any(name.startswith("wide-interval") and "by-turns" in name for name in told)
    assert "few-runs all" not in told
    assert kinds_about(told, "point-select") == set()


@DISTURBED
def test_a_neighbour(at: list[str], tmp_path: Path) -> None:
    sizes = ["--tables", "1", "--rows", "20", "--threads", "1", "--seconds", "1", "--warmup", "0", "--runs", "1"]
    with burning():
        assert run(["table-cache", *sizes, "--workload", "point-select", *ONE_INSTANCE, *at]) == 0
    assert any(one.kind == "other-cpu-load" for one in found(stored(tmp_path)).values())


@pytest.mark.on_demand("large")
def test_values_that_come_to_the_same_are_not_measured_as_two(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Known beforehand they are refused before anything starts, or before anything is built; later, void at once."""
    sizes = ["--tables", "1", "--rows", "20", "--threads", "1", "--seconds", "2", "--warmup", "0", "--runs", "1"]
    alone = ["--load-tables", "1", "--workload", "point-select", *sizes, *at]
    assert run(["table-cache", "--option", "table_open_cache=900000,1000000", *alone]) == 2
    assert not (tmp_path / "results").exists(), "before anything starts"
    assert "900000 and 1000000 would be measured as the same value" in capsys.readouterr().err
    # Of these threads a server has 64 at most.
    threads = ["--option", "innodb_read_io_threads=100,200"]
    fresh = ["--rows", "21", "--data", str(tmp_path / "fresh")]
    assert run(["table-cache", *threads, "--option", "table_open_cache_instances=1", *alone, *fresh]) == 2
    said = capsys.readouterr().err
    assert "makes no difference between two" in said
    assert "64 is in effect" in said
    assert run(["table-cache", *threads, *ONE_INSTANCE, *alone]) in (1, 2)
    if not (tmp_path / "results" / "latest").exists():
        assert run(["table-cache", *ONE_INSTANCE, *alone]) == 0, "builds it"
        assert run(["table-cache", *threads, *ONE_INSTANCE, *alone]) == 1
    session = stored(tmp_path)
    assert [one.verdict for one in session.runs] == [Verdict.MEASURED, Verdict.VOID]
    void = session.runs[1]
    assert "200 was requested, 64 is in effect" in str(void.reason)
    assert not void.metrics
    assert "ulimit -n" in str(void.reason)
    (less,) = (one for one in findings(session) if one.kind == "option-not-in-effect" and "=100" in one.about)
    assert "these cells are not compared" in less.text
