"""A session whose tool was killed or interrupted goes on: of a load, and of crashes (of starts `make torture` does)."""

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
RUNS = 4
"""The first has ended when the tool is ended, the last one not."""
SMALL = ("--tables", "2", "--runs", str(RUNS), "--option", "innodb_flush_log_at_trx_commit=1")
LOAD = [
    *("write-scaling", "--version", "5.7.22", "--question", "scaling", "--workload", "update-nokey", *SMALL),
    *("--rows", "500", "--threads", "1", "--seconds", "1", "--warmup", "0"),
]
CRASHES = [
    *("crash-matrix", "--version", "5.6.24", "--question", "inserts", *SMALL),
    *("--option", "innodb_doublewrite=1"),
]


def ended_early(command: list[str], number: signal.Signals, at: list[str], tmp_path: Path) -> str:
    """Ends the tool after its first run, and returns what it said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery", *command, *at], cwd=tmp_path.parent, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    first_run_stored(tmp_path / "results")
    process.send_signal(number)
    said = process.stderr.read()
    process.wait(60)
    assert process.returncode == (-signal.SIGKILL if number is signal.SIGKILL else 130), said
    return said


@pytest.fixture
def at(data: Path, tmp_path: Path) -> list[str]:
    return ["--data", str(data), "--results", str(tmp_path / "results"), "--no-probe"]


@pytest.mark.parametrize(
    ("command", "number"), [(LOAD, signal.SIGINT), (CRASHES, signal.SIGKILL)], ids=["a load", "crashes"]
)
def test_what_is_missing_is_measured(
    command: list[str], number: signal.Signals, at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ended_early(command, number, at, tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "results").glob("2*/runs/*.json")}
    words = ["run", "--resume", "--results", str(tmp_path / "results")]
    if number is signal.SIGINT:
        told = re.search(r"`recovery (run --resume [^`]*)` measures the missing runs", said)
        assert told is not None, said
        words = told[1].split()
    assert run(words) == 0
    captured = capsys.readouterr()
    assert f"goes on: {len(before)} of {RUNS} runs have ended" in captured.err
    report = stored(tmp_path)
    assert report["status"] == "finished"
    assert [(one["number"], one["verdict"]) for one in report["runs"]] == [
        (number, "measured") for number in range(1, RUNS + 1)
    ]
    assert {path: path.read_bytes() for path in before} == before
    assert 1 <= len(before) < RUNS
    assert any("went on at" in note for note in report["notes"])
    assert len(list((tmp_path / "results").iterdir())) == 2, "the session, and latest"
    assert run(words) in (0, 2)
