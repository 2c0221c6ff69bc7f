"""Servers that are stopped in the middle of a crash start and killed there, and that append to one log."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datadirs import empty_datadir, server_on
from waiting import until

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
