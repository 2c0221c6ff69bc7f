"""Tests the published experiments with real servers, over few tables: interrupted and resumed, and all five."""

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
"""Instead of the gigabyte that loads are given, which is written for every data directory."""


def suite_folder(results: Path) -> Path:
    (folder,) = results.glob("*-experiments")
    return folder


@pytest.mark.timeout(600)
def test_ctrl_c_ends_the_run_and_it_can_be_resumed(tmp_path: Path, data: Path) -> None:
    results = tmp_path / "results"
    words = [
        *("experiments", "--version", "mariadb-10.11.5", "--tables", str(TABLES), "--seconds", "1"),
        *("--no-drop-caches", "--no-probe", *SMALL_LOG),
        *("--data", str(data), "--results", str(results), "--only", "crash-recovery interference"),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery", *words],
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert any(line.startswith("[1/") for line in process.stderr)
    process.send_signal(signal.SIGINT)
    shown, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    folder = suite_folder(results)
    assert f"--resume {folder}`" in errors
    shown = " ".join(shown.split())
    assert "It ended early: it was interrupted." in shown
    assert "InnoDB redesigned" not in shown, "it was not requested"
    assert "not measured yet" in shown, "interference had not begun"
    assert [path.name for path in folder.iterdir()] == ["experiments.json"]

    found = tmp_path / "found.json"
    resumed = ["experiments", "--resume", str(folder), "--yes", f"--json={found}"]
    assert run(resumed) == 0, "its server options need consent"
    assert json.loads(found.read_text())["status"] == "finished"
    sessions = [json.loads(path.read_text()) for path in results.glob("*Z-*/report.json")]
    assert sorted(session["experiment"] for session in sessions) == ["crash-recovery", "interference"]
    assert {session["status"] for session in sessions} == {"finished"}


@pytest.mark.on_demand("large")
@pytest.mark.timeout(900)
def test_all_five(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results"
    small = ["--tables", str(TABLES), "--seconds", "1", "--no-drop-caches", "--no-probe", *SMALL_LOG]
    where = ["--data", str(data), "--results", str(results), "--version", "5.7.22"]
    file = tmp_path / "found.json"
    assert run(["experiments", "--scale", "quick", *small, *where, f"--json={file}"]) == 0
    captured = capsys.readouterr()
    for number in range(1, 6):
        assert f"experiment {number} of 5: E{number} " in captured.err
    assert "InnoDB redesigned in 8.0" in captured.out
    found = json.loads(file.read_text())
    assert (found["status"], found["scale"]) == ("finished", "quick")
    for step in found["steps"]:
        assert step["error"] is None
        session = json.loads((results / step["session"] / "report.json").read_text())
        assert f"{step['session']}/report.html" in captured.out
        assert session["status"] == "finished"
        assert session["command"] == step["command"]
        assert session["settings"]["set"].count("innodb_log_file_size=8M") == 1
        assert all(server["@innodb_log_file_size"] == str(8 << 20) for server in session["servers"].values())
        assert step["summaries"]
    opened = found["steps"][0]["answers"][0]
    assert opened["ours"] == 1.0, "5.7 opens every file"
    assert "Published and here" in (results / found["steps"][0]["session"] / "report.html").read_text()
    assert not list(results.glob("*-experiments/report.json")), "it is no session itself"
