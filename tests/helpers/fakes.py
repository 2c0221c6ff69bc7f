"""Fake programs: shell scripts, and a server that is a real child process and writes a real log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from recovery.model import Build, parse_version
from recovery.mysqld.launcher import Launch
from recovery.mysqld.local import LocalProcess

READY_57 = "2026-01-01T00:00:00.000000Z 0 [Note] /opt/server/bin/mysqld: ready for connections.\n"
READY_56 = "2026-01-01 00:00:00 77 [Note] /opt/server/bin/mysqld: ready for connections.\n"
CRASHED = "2026-01-01 00:00:00 77 [Note] InnoDB: Database was not shutdown normally!\n"

# Steps: text is written as it is, a number is a pause in seconds, "exit N" and "signal N" end the process, "spin" burns
# CPU for the rest of its life. A process that has run out of steps stays until it is killed.
_PROGRAM = """
import json, os, sys, time
for step in json.loads(sys.argv[1]):
    if isinstance(step, (int, float)):
        time.sleep(step)
    elif step.startswith("exit "):
        os._exit(int(step[5:]))
    elif step.startswith("signal "):
        os.kill(os.getpid(), int(step[7:]))
    elif step == "spin":
        while True:
            pass
    else:
        os.write(2, step.encode())
time.sleep(600)
"""


def shell_script(path: Path, body: str) -> Path:
    """Writes an executable script that takes the place of a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_build(version: str = "5.7.22") -> Build:
    return Build(parse_version(version), Path("/opt/server/bin/mysqld"), Path("/opt/server"), "f" * 64, "fake")


def fake_launch(folder: Path, version: str = "5.7.22") -> Launch:
    return Launch(fake_build(version), folder / "data", {}, folder / "logs" / "launch.log", folder / "run")


@dataclass
class FakeLauncher:
    """Every launch plays the next script, and the last one again when there are no more."""

    scripts: list[list[str | float]]
    launches: list[Launch] = field(default_factory=list)

    def launch(self, launch: Launch) -> LocalProcess:
        script = self.scripts[min(len(self.launches), len(self.scripts) - 1)]
        self.launches.append(launch)
        launch.log.parent.mkdir(parents=True, exist_ok=True)
        launch.rundir.mkdir(mode=0o700, parents=True)
        log = os.open(launch.log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        try:
            started_at = time.monotonic()
            process = subprocess.Popen([sys.executable, "-S", "-c", _PROGRAM, json.dumps(script)], stderr=log)
        finally:
            os.close(log)
        return LocalProcess(launch, process, started_at)
