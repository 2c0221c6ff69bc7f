"""Processes whose owner died over a data directory."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from recovery.host.orphans import end_left_servers, end_servers_in
from recovery.host.owner import mark

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


def started_with_options_in(folder: Path, owner: str) -> subprocess.Popen[bytes]:
    """As a server of a run whose folder bears this mark."""
    (folder / "1").mkdir(parents=True)
    (folder / "owner").write_text(owner)
    process = subprocess.Popen([*SLEEPER, f"--defaults-file={folder}/1/my.cnf"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


@pytest.mark.alone  # any session would end what it leaves, before we see it
def test_servers_of_dead_runs_are_ended_whatever_their_data_directory(tmp_path: Path) -> None:
    boot, namespace, pid, _ = mark().rsplit(".", 3)
    gone = f"{boot}.{namespace}.{pid}.1"  # this process' number, but of an earlier process
    orphan = started_with_options_in(tmp_path / "recovery-gone", gone)
    ours = started_with_options_in(tmp_path / "recovery-ours", mark())
    other = started_with_options_in(tmp_path / "somebody-elses", gone)
    try:
        assert orphan.pid in end_left_servers()
        assert not psutil.pid_exists(orphan.pid)
        assert ours.poll() is None
        assert other.poll() is None
    finally:
        for process in (orphan, ours, other):
            process.kill()
            process.communicate()
