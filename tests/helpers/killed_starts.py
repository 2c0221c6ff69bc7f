"""Servers that are stopped in the middle of a crash start and killed there, and that append to one log."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datadirs import empty_datadir, server_on
from waiting import until

from recovery.linux.procfs import is_stopped
from recovery.model import Build
from recovery.mysqld.launcher import Launch, RunDirs, environment, open_files_limit, prepare_command
from recovery.mysqld.options import base_settings, experiment_settings, merge

READY = "ready for connections"


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
def started(build: Build, datadir: Path, log: Path, *, redirected: bool = True) -> Iterator[subprocess.Popen[bytes]]:
    """A server that appends to the log: what it writes to standard error is redirected there, or it opens the log by
    itself. It is killed at the end."""
    rundirs = RunDirs()
    rundir = rundirs.next()
    settings = merge(base_settings(build.version, rundir=rundir), experiment_settings(build.version))
    launch = Launch(build, datadir, settings, log, rundir)
    command = prepare_command(launch, open_files=open_files_limit())
    if not redirected:
        command = [*command, f"--log-error={log}"]
    other = log if redirected else log.with_name("script.log")
    with other.open("ab") as opened, subprocess.Popen(
        command, stdout=opened, stderr=opened, stdin=subprocess.DEVNULL, env=environment(launch), cwd=launch.rundir
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            rundirs.remove()


@contextmanager
def stopped_at(
    line: str | None, build: Build, datadir: Path, log: Path, *, redirected: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that is stopped by a signal after this line or, without one, before it has opened its log."""
    begin = log.stat().st_size if log.exists() else 0
    with started(build, datadir, log, redirected=redirected) as process:
        if line is not None:
            until(lambda: log.exists() and line in log.read_text(errors="replace")[begin:], line)
        process.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(process.pid), "the process to stop: a thread may still wait for storage")
        yield process
