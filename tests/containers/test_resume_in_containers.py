"""A session in containers whose tool was killed goes on, and its container goes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import docker
import pytest
from loopback import NOBODY
from sessions import stored

from recovery.cli import run
from recovery.host import engine
from recovery.host.owner import is_gone

pytestmark = [pytest.mark.containers, pytest.mark.alone]
TABLES = 300
SHARES_DATA = True
ASKED = ["crash-recovery", "--engine", "docker", "--registry", NOBODY, "--version", "5.6.24", "--runs", "1"]


def left(client: docker.DockerClient) -> list[str]:
    """Containers whose owner is gone."""
    found = client.containers.list(all=True, ignore_removed=True, filters={"label": engine.OWNER})
    return [str(one.name) for one in found if is_gone(one.labels[engine.OWNER])]


def test_what_is_missing_is_measured(
    at: list[str], tmp_path: Path, client: docker.DockerClient, capsys: pytest.CaptureFixture[str]
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery", *ASKED, *at], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert any(line.startswith("[1/2]") for line in process.stderr)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert run(["run", "--resume", "--results", str(tmp_path / "results")]) == 0
    assert "goes on: 1 of 2 runs have ended" in capsys.readouterr().err
    report = stored(tmp_path)
    assert [(one["variant"], one["verdict"]) for one in report["runs"]] == [("cold", "measured"), ("warm", "measured")]
    assert left(client) == []
