"""An interrupted or killed session is resumed: of a load, and of crashes (`make torture` does it for starts)."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sessions import first_run_stored, stored

from recovery.cli.main import run

pytestmark = pytest.mark.real
VERSION, RUNS = "mariadb-10.11.5", 3
"""The first run has ended when the tool is ended, the last one has not."""
SMALL = ("--tables", "2", "--runs", str(RUNS), "--option", "innodb_flush_log_at_trx_commit=1")
LOAD = [
    *("write-scaling", "--version", VERSION, "--question", "scaling", "--workload", "update-nokey", *SMALL),
    *("--rows", "500", "--threads", "1", "--seconds", "1", "--warmup", "0"),
]
CRASHES = [
    *("crash-matrix", "--version", VERSION, "--question", "inserts", *SMALL),
    *("--option", "innodb_doublewrite=1"),
]


def end_early(command: list[str], number: signal.Signals, at: list[str], tmp_path: Path) -> str:
    """Ends the tool after its first run, and returns what it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery", *command, *at], cwd=tmp_path.parent, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    first_run_stored(tmp_path / "results")
    process.send_signal(number)
    printed = process.stderr.read()
    process.wait(60)
    assert process.returncode == (-signal.SIGKILL if number is signal.SIGKILL else 130), printed
    return printed


@pytest.fixture
def at(data: Path, tmp_path: Path) -> list[str]:
    return ["--data", str(data), "--results", str(tmp_path / "results"), "--no-probe"]


@pytest.mark.parametrize(
    ("command", "number"), [(LOAD, signal.SIGINT), (CRASHES, signal.SIGKILL)], ids=["a load", "crashes"]
)
def test_a_resumed_session_measures_the_missing_runs(
    command: list[str], number: signal.Signals, at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = end_early(command, number, at, tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "results").glob("2*/runs/*.json")}
    words = ["resume", "--results", str(tmp_path / "results")]
    if number is signal.SIGINT:
        hint = re.search(r"`recovery (resume [^`]*)` resumes it and measures the missing runs", printed)
        assert hint is not None, printed
        words = hint[1].split()
    assert run([*words, "--yes"]) == 0, "its server options need consent"
    captured = capsys.readouterr()
    assert f"is resumed: {len(before)} of {RUNS} runs have ended" in captured.err
    report = stored(tmp_path)
    assert report["status"] == "finished"
    assert [(one["number"], one["verdict"]) for one in report["runs"]] == [
        (number, "measured") for number in range(1, RUNS + 1)
    ]
    assert {path: path.read_bytes() for path in before} == before
    assert 1 <= len(before) < RUNS
    assert any("was resumed at" in note for note in report["notes"])
    assert len(list((tmp_path / "results").iterdir())) == 2, "the session, and latest"
