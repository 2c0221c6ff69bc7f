"""Processes whose owner died over a data directory."""

import subprocess
import sys
from pathlib import Path

import psutil

from recovery.host.orphans import end_servers_in

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


def started_in(folder: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(SLEEPER, cwd=folder, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def test_only_what_works_in_the_folder_is_ended(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "other").mkdir()
    orphan, other = started_in(tmp_path / "mine"), started_in(tmp_path / "other")
    try:
        name = psutil.Process(orphan.pid).name()
        assert end_servers_in(tmp_path / "mine", "mysqld") == ()
        assert orphan.poll() is None
        assert end_servers_in(tmp_path / "mine", name) == (orphan.pid,)
        assert not psutil.pid_exists(orphan.pid)
        assert other.poll() is None
        assert end_servers_in(tmp_path / "mine", name) == ()
    finally:
        for process in (orphan, other):
            process.kill()
            process.communicate()
