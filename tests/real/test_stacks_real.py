"""Stacks by each program are those of the server, and the sampled run is not averaged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from sessions import left_out, stored

from recovery.analysis.stacks import parse_folded
from recovery.cli.main import run
from recovery.profiling.samplers import PERF, PROGRAMS

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="others may not look into a process"),
]

TABLES = 300
SHARES_DATA = True
TABLES_FOR_PERF = "3000"
"""perf sees only a server that computes: with few tables its few samples may all be of another thread."""
TRIES = 10
"""A start is short: no sample may have come while InnoDB started, or none at all, which makes the run void."""
STARTS_INNODB = "innobase_start_or_create_for_mysql"


@pytest.mark.parametrize(
    "program",
    [pytest.param(one, marks=pytest.mark.on_demand("disturbed")) if one == PERF else one for one in PROGRAMS],
)
def test_stacks_by_each_program(program: str, at: list[str], tmp_path: Path) -> None:
    if shutil.which(program) is None:
        left_out(f"there is no {program}")
    more = ["--tables", TABLES_FOR_PERF] if program == PERF else []
    folder = tmp_path / "results" / "latest"
    for _ in range(TRIES):
        code = run(["cold-recovery", "--version", "5.7.22", "--runs", "1", "--stacks", program, *at, *more])
        report = stored(tmp_path)
        timed, sampled = report["runs"]
        folded = parse_folded((folder / sampled["file"]).read_text()) if sampled["file"] else {}
        if any(STARTS_INNODB in frames for frames in folded):
            break
    assert any(STARTS_INNODB in frames for frames in folded), "by the symbols of a stripped server"
    assert code == 0
    assert (timed["verdict"], timed["program"], timed["chains"]) == ("measured", None, [])
    assert (sampled["verdict"], sampled["program"]) == ("sampled", program)
    assert sampled["count"] >= 1
    summary = report["summaries"][0]
    assert (summary["name"], summary["count"], summary["mean"]) == ("startup_s", 1, timed["startup_s"])

    assert {phase for phase, *_ in folded} <= {phase["name"] for phase in sampled["phases"]}
    assert all(chain["samples"] <= chain["of"] <= sampled["count"] for chain in sampled["chains"])
    assert [one.name for one in (folder / "stacks").iterdir()] == [Path(sampled["file"]).name]
    text = " ".join((folder / "report.txt").read_text().split())
    assert f"{sampled['count']:,} sample{'s' if sampled['count'] > 1 else ''} by {program}" in text
    assert f"All stacks: {sampled['file']}, which speedscope.app draws." in text


def test_a_profile_of_a_dump_shows_the_thread_of_its_connection(at: list[str], tmp_path: Path) -> None:
    """That thread is created as the dump begins; perf must have attached by then."""
    if shutil.which(PERF) is None:
        left_out(f"there is no {PERF}")
    dump = ["--schemas", "1", "--tables", "1000", "--question", "dump", "--runs", "1", "--profile"]
    assert run(["metadata", "--version", "5.7.22", *at, *dump]) == 0
    sampled = stored(tmp_path)["runs"][1]
    folded = parse_folded((tmp_path / "results" / "latest" / sampled["file"]).read_text())
    assert any("mysql_execute_command" in frames for frames in folded)
