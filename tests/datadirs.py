"""A data directory as a server makes it, with nothing in it yet: for tests that start one by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.builds.resolve import Sources, resolve_server
from recovery.model import Build
from recovery.mysqld.bootstrap import initialise
from recovery.mysqld.launcher import RunDirs
from recovery.mysqld.local import LocalLauncher


def empty_datadir(version: str, folder: Path) -> tuple[Build, Path]:
    build = resolve_server(version, Sources(), lambda _line: None)
    return build, made_by(build, folder)


def shared_empty_datadir(version: str, folders: pytest.TempPathFactory) -> tuple[Build, Path]:
    """The data directory of this version that all tests share which start servers over it, in whatever state."""
    folder = folders.getbasetemp() / f"empty-{version}"
    if (folder / "data").exists():
        return resolve_server(version, Sources(), lambda _line: None), folder / "data"
    folder.mkdir(exist_ok=True)
    return empty_datadir(version, folder)


def made_by(build: Build, folder: Path) -> Path:
    rundirs = RunDirs()
    try:
        initialise(LocalLauncher(), build, folder / "data", rundir=rundirs.next(), log=folder / "initialise.log")
    finally:
        rundirs.remove()
    return folder / "data"
