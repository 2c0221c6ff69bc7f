"""Processes of this host: how they are prepared, started and ended, with a shell script in mysqld's place."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

import pytest
from fakes import fake_launch

from recovery.errors import RecoveryError, ServerFailedError, UsageError
from recovery.mysqld.launcher import Exit, Launch, open_files_limit
from recovery.mysqld.local import LocalLauncher


def script(folder: Path, text: str) -> Launch:
    mysqld = folder / "mysqld"
    mysqld.write_text(f"#!/bin/sh\n{text}\n")
    mysqld.chmod(0o755)
    launch = fake_launch(folder)
    return dataclasses.replace(launch, build=dataclasses.replace(launch.build, mysqld=mysqld, basedir=folder))


def test_it_gets_an_options_file_a_log_and_a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSQL_HOME", "/elsewhere")
    launch = script(tmp_path, 'echo "$1"; echo "$TZ $MYSQL_HOME"; ulimit -Sn; echo bad >&2; exit 7')
    life = LocalLauncher().launch(launch)
    assert life.wait(60) == Exit(code=7, signal=None)
    options_file = launch.rundir / "my.cnf"
    assert launch.log.read_text().splitlines() == [
        f"--defaults-file={options_file}",
        "UTC ",
        str(open_files_limit()),
        "bad",
    ]
    assert f"datadir = {launch.datadir}" in options_file.read_text()
    assert launch.rundir.stat().st_mode & 0o777 == 0o700


def test_a_signal_reaches_it_and_its_death_is_told(tmp_path: Path) -> None:
    life = LocalLauncher().launch(script(tmp_path, "exec sleep 600"))
    assert life.exited() is None
    assert life.wait(0.01) is None
    life.signal(signal.SIGKILL)
    assert life.wait(60) == Exit(code=None, signal=9)
    life.signal(signal.SIGKILL)
    assert str(life.exited()) == "signal 9"


def test_a_log_of_another_start_is_never_appended_to(tmp_path: Path) -> None:
    launch = script(tmp_path, "exit 0")
    launch.log.parent.mkdir(parents=True)
    launch.log.write_text("mysqld: ready for connections.\n")
    with pytest.raises(RecoveryError, match="log of another start"):
        LocalLauncher().launch(launch)


def test_a_socket_path_that_is_too_long_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    launch = dataclasses.replace(script(tmp_path, "exit 0"), rundir=tmp_path / ("long" * 30))
    with pytest.raises(UsageError, match="107 are allowed"):
        LocalLauncher().launch(launch)
    assert not launch.log.exists()


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    launch = script(tmp_path, "")
    launch.build.mysqld.write_bytes(b"\x7fELF, but not really")
    with pytest.raises(ServerFailedError, match="cannot be run"):
        LocalLauncher().launch(launch)
