"""Data directories and servers for tests that start one by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from recovery.builds.resolve import Sources, resolve_server
from recovery.model import Build, Schema
from recovery.mysqld.bootstrap import initialise
from recovery.mysqld.datadir import DataDir, DataDirs
from recovery.mysqld.launcher import RunDirs
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.options import experiment_settings
from recovery.mysqld.server import Server, ServerConfig
from recovery.workload.build import DatadirBuilder, prepare_datadir
from recovery.workload.schema import template_text


def empty_datadir(version: str, folder: Path) -> tuple[Build, Path]:
    """As the server makes it, with no tables."""
    build = resolve_server(version, Sources(), lambda _line: None)
    return build, made_by(build, folder)


def shared_empty_datadir(version: str, folders: pytest.TempPathFactory) -> tuple[Build, Path]:
    """The data directory of this version that all tests share which start servers over it, in whatever state."""
    folder = folders.getbasetemp() / f"empty-{version}"
    if (folder / "data").exists():
        return resolve_server(version, Sources(), lambda _line: None), folder / "data"
    folder.mkdir(exist_ok=True)
    return empty_datadir(version, folder)


def made_by(build: Build, folder: Path, **settings: str) -> Path:
    rundirs = RunDirs()
    try:
        initialise(
            LocalLauncher(), build, folder / "data",
            rundir=rundirs.next(), log=folder / "initialise.log", settings=settings,
        )  # fmt: skip
    finally:
        rundirs.remove()
    return folder / "data"


@contextmanager
def built_datadir(
    build: Build, schema: Schema, folder: Path, *, settings: Mapping[str, str] | None = None
) -> Iterator[DataDir]:
    """The directory in this folder that a session with this schema looks for."""
    shape, directories = dict(settings or {}), DataDirs(folder)
    key = directories.key_for(build, schema, template_text=template_text(schema), options=shape)
    with directories.acquire(key) as target:
        builder = DatadirBuilder(build, schema, target, LocalLauncher(), lambda _: None, settings=shape)
        prepare_datadir(builder, progress=lambda *_: None)
        yield target


def server_on(build: Build, datadir: Path, logs: Path, **settings: str) -> Server:
    """A server that is not started yet, with the settings of an experiment."""
    chosen = experiment_settings(build.version) | settings
    return Server(ServerConfig(LocalLauncher(), build, logs, chosen), datadir)


@contextmanager
def running(build: Build, datadir: Path, logs: Path, **settings: str) -> Iterator[Server]:
    """A started server with the settings of an experiment; it is killed at the end."""
    with server_on(build, datadir, logs, **settings) as server:
        server.start()
        yield server
