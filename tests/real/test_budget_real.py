"""Do all five go, one after the other, and end in one report? Interrupted, and at the tiniest scale."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recovery.cli.main import run

pytestmark = pytest.mark.real
TABLES = 40
SMALL_LOG = ("--set", "loose_innodb_log_file_size=8M")
"""Of the gigabyte that loads are given, which is written for every data directory."""


def the_report(results: Path) -> dict[str, object]:
    (folder,) = results.glob("*-experiments")
    found: dict[str, object] = json.loads((folder / "experiments.json").read_text())
    return found


def test_ctrl_c_ends_all_and_what_there_is_is_reported(tmp_path: Path, data: Path) -> None:
    results = tmp_path / "results"
    words = [
        *("experiments", "--budget", "60m", "--version", "5.7.22", "--tables", "40", "--no-drop-caches", "--no-probe"),
        *SMALL_LOG,
        *("--data", str(data), "--results", str(results), "--only", "crash-recovery table-cache"),
    ]
    process = subprocess.Popen([sys.executable, "-m", "recovery", *words], env=dict(os.environ), stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert any(line.startswith(b"[1/") for line in process.stderr)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    found = the_report(results)
    assert found["status"] == "interrupted"
    (folder,) = results.glob("*-experiments")
    written = " ".join((folder / "report.txt").read_text().split())
    assert "It ended early: it was interrupted." in written
    assert "InnoDB" not in written, "nobody asked for it"
    assert "it was not measured yet" in written, "table-cache had not begun"
    assert (folder / "index.html").is_file()


@pytest.mark.on_demand("large")
@pytest.mark.timeout(900)
def test_all_five(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of them over the tables that the interrupted one has left, where that has run."""
    results = tmp_path / "results"
    small = ["--smallest", "--tables", str(TABLES), "--seconds", "1", "--no-drop-caches", "--no-probe", *SMALL_LOG]
    where = ["--data", str(data), "--results", str(results), "--version", "5.7.22"]
    assert run(["experiments", "--budget", "20m", *small, *where]) == 0
    captured = capsys.readouterr()
    for number in range(1, 6):
        assert f"experiment {number} of 5: E{number} " in captured.err
    assert "InnoDB redesigned in 8.0" in captured.out
    (folder,) = results.glob("*-experiments")
    found = json.loads((folder / "experiments.json").read_text())
    assert found["status"] == "finished"
    for step in found["steps"]:
        assert step["error"] is None
        assert step["left_out"] is None
        assert step["took_s"] > 0
        session = json.loads((results / step["session"] / "report.json").read_text())
        assert session["status"] == "finished"
        assert session["command"] == step["command"]
        assert session["settings"]["set"].count("innodb_log_file_size=8M") == 1
        assert all(server["@innodb_log_file_size"] == str(8 << 20) for server in session["servers"].values())
        assert step["measures"]
    opened = found["steps"][0]["answers"][0]
    assert opened["ours"] == 1.0, "5.7 opens every file"
    page = (folder / "index.html").read_text()
    assert all(f"../{step['session']}/report.html" in page for step in found["steps"])
    assert max(map(len, (folder / "report.txt").read_text().splitlines())) <= 78
    assert not list(results.glob("*-experiments/report.json")), "it is no session itself"
