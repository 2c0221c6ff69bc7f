"""Tests share what servers make when they initialise a data directory."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from initialised import Initialised

from recovery.model import Build, parse_version
from recovery.mysqld import bootstrap
from recovery.mysqld.local import LocalLauncher

SERVER = Build(parse_version("8.0.31"), Path(str(shutil.which("sleep"))), Path("/nowhere"), "0" * 64, "own")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The data directories that a server has made."""
    found: list[Path] = []

    def make(_: object, __: object, datadir: Path, *, log: Path, **___: object) -> None:
        found.append(datadir)
        (datadir / "mysql").mkdir(parents=True)
        (datadir / "mysql/user.frm").write_text(str(len(found)))
        log.write_text("done")

    monkeypatch.setattr(bootstrap, "initialise", make)
    return found


def contents(once: Initialised, folder: Path, *, program: Path = SERVER.mysqld, **more: Any) -> str:
    folder.mkdir()
    build = replace(SERVER, mysqld=program)
    log = folder / "log"
    once.initialise(LocalLauncher(), build, folder / "data", rundir=folder / "run", log=log, **more)
    assert log.read_text() == "done"
    return (folder / "data/mysql/user.frm").read_text()


def test_a_directory_of_the_same_settings_is_made_once(made: list[Path], tmp_path: Path) -> None:
    once = Initialised(tmp_path / "kept")
    asked = [None, {}, {"innodb_page_size": "8192"}, None, {"innodb_page_size": "8192"}]
    found = [contents(once, tmp_path / str(number), settings=one) for number, one in enumerate(asked)]
    assert found == ["1", "1", "2", "1", "2"]
    assert contents(Initialised(tmp_path / "kept"), tmp_path / "other") == "1"


def test_a_directory_with_files_elsewhere_is_made_anew(made: list[Path], tmp_path: Path) -> None:
    once = Initialised(tmp_path / "kept")
    script = tmp_path / "mysqld"
    script.write_text("#!/bin/sh")
    cases: list[dict[str, Any]] = [
        {"settings": {"innodb_log_group_home_dir": "/a"}}, {"keys": tmp_path}, {"program": script},
    ]  # fmt: skip
    for number, more in enumerate([*cases, *cases]):
        assert contents(once, tmp_path / str(number), **more) == str(number + 1)


def test_what_cannot_be_copied_is_made(made: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = Initialised(tmp_path / "kept")
    contents(once, tmp_path / "first")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", fail)
    assert contents(Initialised(tmp_path / "kept"), tmp_path / "second") == "2"
