"""A session in containers whose tool was killed goes on, and its container goes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import docker
import pytest
from loopback import NOBODY, containers_of
from sessions import first_run_stored, stored

from recovery.cli.main import run

pytestmark = pytest.mark.containers
TABLES = 300
SHARES_DATA = True
ASKED = ["crash-recovery", "--engine", "docker", "--registry", NOBODY, "--version", "5.6.24", "--runs", "1"]


def test_what_is_missing_is_measured(
    at: list[str], tmp_path: Path, client: docker.DockerClient, capsys: pytest.CaptureFixture[str]
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery", *ASKED, *at], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    first_run_stored(tmp_path / "results")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert run(["run", "--resume", "--results", str(tmp_path / "results")]) == 0
    assert "is resumed: 1 of 2 runs have ended" in capsys.readouterr().err
    report = stored(tmp_path)
    assert [(one["variant"], one["verdict"]) for one in report["runs"]] == [("cold", "measured"), ("warm", "measured")]
    assert containers_of(client, process.pid) == []
