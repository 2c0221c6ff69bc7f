"""Real servers are killed again and again while they recover, and `recovery analyze` reads their one log meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killed_starts import READY, crashed_datadir, stopped_at
from waiting import until

from recovery.cli.main import run
from recovery.phase_table import advice_on

pytestmark = pytest.mark.real
LARGE = pytest.mark.on_demand("large")
LAST_LINES = {
    "5.7.22": ("Apply batch completed", "validation"),
    "8.0.31": ("Using undo tablespace", "undo and temp"),
    "mariadb-10.2.11": ("Starting final batch to recover", "redo apply + validation"),
}
"""A line of the recovery, and the phase that it opens."""


@pytest.mark.parametrize(
    "version", ["5.7.22", *(pytest.param(other, marks=LARGE) for other in ("8.0.31", "mariadb-10.2.11"))]
)
def test_a_restart_loop_and_the_start_under_way(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    build, datadir = crashed_datadir(version, tmp_path)
    log, (line, phase) = tmp_path / "error.log", LAST_LINES[version]

    def analyzed(*options: str) -> str:
        capsys.readouterr()
        assert run(["analyze", str(log), *options]) == 0
        return capsys.readouterr().out

    def last_start() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(analyzed("--json"))["logs"][0]["starts"][-1]
        return found

    for _ in range(2):
        with stopped_at(line, build, datadir, log):
            pass
    with stopped_at(line, build, datadir, log) as process:
        page = " ".join(analyzed().split())
        assert page.startswith("2 starts ended before they were ready, after ")
        assert f", in {phase}: something kills the server. Look for a limit on its time" in page
        assert " or on its memory. The last start is not ready after " in page
        assert f"in {phase}; the server (pid {process.pid}) is stopped by a signal. what limits it: " in page
        assert f"what shortens it: {advice_on(phase)}" in page
        first = last_start()
        assert (first["running_pid"], first["pid"], first["outcome"]) == (process.pid, process.pid, "cut")
        until(_grows(last_start, first), "a start that takes longer the later it is asked")
        assert list(last_start()["seconds"])[-1] == phase
    assert "; no server that this user can see has the log open." in " ".join(analyzed().split())
    with stopped_at(READY, build, datadir, log):
        page = " ".join(analyzed().split())
        assert page.startswith("3 starts ended before they were ready, after ")
        assert ": something killed the server. " in page
        assert last_start()["outcome"] == "ready"
        assert " Start 4 became ready after " in page


def _grows(asked: Callable[[], dict[str, Any]], first: dict[str, Any]) -> Callable[[], bool]:
    return lambda: asked()["startup_s"] > first["startup_s"]
