"""Real servers are killed again and again while they recover, and `recovery analyze` reads their one log meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from datadirs import empty_datadir, server_on
from waiting import until

from recovery.analysis.phase_names import advice_on
from recovery.cli.main import run
from recovery.model import Build
from recovery.mysqld.launcher import Launch, RunDirs, environment, open_files_limit, prepare_command
from recovery.mysqld.options import base_settings, experiment_settings, merge

pytestmark = pytest.mark.real
LARGE = pytest.mark.on_demand("large")
READY = "ready for connections"
LAST_LINES = {
    "5.7.22": ("Apply batch completed", "validation"),
    "8.0.31": ("Using undo tablespace", "undo and temp"),
    "mariadb-10.2.11": ("Starting final batch to recover", "redo apply + validation"),
}
"""A line of the recovery, and the phase that it opens."""


def crashed_datadir(version: str, folder: Path) -> tuple[Build, Path]:
    build, datadir = empty_datadir(version, folder)
    with server_on(build, datadir, folder / "logs") as server:
        server.start()
        connection = server.connect()
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE discovery")
            for number in range(20):
                cursor.execute(f"CREATE TABLE discovery.table_{number} (id INT PRIMARY KEY) ENGINE=InnoDB")
                cursor.execute(f"INSERT INTO discovery.table_{number} VALUES ({number})")
        server.kill()
    return build, datadir


@contextmanager
def stopped_at(line: str, build: Build, datadir: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that appends to the log and is stopped by a signal after this line; it is killed at the end."""
    begin, rundirs = log.stat().st_size if log.exists() else 0, RunDirs()
    rundir = rundirs.next()
    settings = merge(base_settings(build.version, rundir=rundir), experiment_settings(build.version))
    launch = Launch(build, datadir, settings, log, rundir)
    command = prepare_command(launch, open_files=open_files_limit())
    with log.open("ab") as opened, subprocess.Popen(
        command, stdout=opened, stderr=opened, stdin=subprocess.DEVNULL, env=environment(launch), cwd=launch.rundir
    ) as process:  # fmt: skip
        try:
            until(lambda: line in log.read_text(errors="replace")[begin:], line)
            process.send_signal(signal.SIGSTOP)
            yield process
        finally:
            process.kill()
            process.wait()
            rundirs.remove()


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
