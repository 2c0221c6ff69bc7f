"""`recovery watch` of a server that is killed and started again, as mysqld_safe does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from killed_starts import crashed_datadir
from waiting import until

from recovery.cli.main import run
from recovery.linux.procfs import is_stopped
from recovery.mysqld.launcher import Launch, RunDirs, environment, open_files_limit, prepare_command
from recovery.mysqld.options import base_settings, experiment_settings, merge
from recovery.mysqld.running_server import greeting

pytestmark = pytest.mark.real


@pytest.mark.parametrize("version", ["5.7.22", pytest.param("mariadb-10.11.5", marks=pytest.mark.on_demand("large"))])
@pytest.mark.parametrize("redirected", [True, False])
def test_servers_that_follow_each_other_are_watched_until_one_is_ready(
    version: str, redirected: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build, datadir = crashed_datadir(version, tmp_path)
    log, other, rundirs = tmp_path / "error.log", tmp_path / "script.log", RunDirs()
    rundir = rundirs.next()
    settings = merge(base_settings(build.version, rundir=rundir), experiment_settings(build.version))
    launch = Launch(build, datadir, settings, log, rundir)
    command = prepare_command(launch, open_files=open_files_limit())
    if not redirected:
        command = [*command, f"--log-error={log}"]

    def started() -> subprocess.Popen[bytes]:
        with (log if redirected else other).open("ab") as opened:
            return subprocess.Popen(command, stdout=opened, stderr=opened, env=environment(launch), cwd=rundir)

    pids, server = [], started()
    try:
        server.send_signal(signal.SIGSTOP)
        watching = [sys.executable, "-m", "recovery", "watch", str(datadir), "--json"]
        with subprocess.Popen(watching, stdout=subprocess.PIPE, text=True) as watcher:
            assert watcher.stdout is not None

            def seen(pid: int) -> bool:
                assert watcher.stdout is not None
                return bool(json.loads(watcher.stdout.readline())["pid"] == pid)

            for _ in range(3):
                pid = server.pid
                until(lambda pid=pid: seen(pid), "the server")  # type: ignore[misc]
                pids.append(pid)
                server.kill()
                server.wait()
                server = started()
                server.send_signal(signal.SIGSTOP)  # before it has opened its log
            until(lambda: seen(server.pid), "the last server")
            server.send_signal(signal.SIGCONT)
            *_, last = watcher.stdout
            assert watcher.wait() == 0
        ready = json.loads(last)
        assert (ready["state"], ready["pid"]) == ("ready", server.pid)
        capsys.readouterr()
        assert run(["watch", "--once", str(server.pid)]) == 0
        assert "it greets new connections" in capsys.readouterr().out
        server.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(server.pid), "the server to be stopped")
        assert greeting(server.pid).hangs
        assert run(["watch", "--once", str(server.pid)]) == 11
        server.kill()
        server.wait()
        assert run(["watch", "--once", str(log)]) == 3
    finally:
        server.kill()
        server.wait()
        rundirs.remove()
