"""A scratch folder with real servers and data directories, which is removed at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recovery.model import Build, Schema
from recovery.mysqld.bootstrap import initialise
from recovery.mysqld.datadir import DataDir, DataDirs
from recovery.mysqld.launcher import Launcher, RunDirs
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.options import experiment_settings
from recovery.mysqld.server import Server, ServerConfig
from recovery.workload.build import DatadirBuilder, prepare_datadir


def quiet(*_: object) -> None:
    """Prints nothing while something is measured."""


@dataclass(frozen=True)
class Site:
    """A scratch folder on the volume under test."""

    folder: Path

    def server(self, build: Build, datadir: Path, *, launcher: Launcher | None = None) -> Server:
        logs = Path(tempfile.mkdtemp(prefix="logs-", dir=self.folder))
        return Server(
            ServerConfig(launcher or LocalLauncher(), build, logs, experiment_settings(build.version)), datadir
        )

    def empty_datadir(self, build: Build, name: str) -> Path:
        """Initialised, with the server's defaults."""
        datadir = self.folder / name
        rundirs = RunDirs()
        try:
            initialise(LocalLauncher(), build, datadir, rundir=rundirs.next(), log=self.folder / f"{name}.log")
        finally:
            rundirs.remove()
        return datadir

    def staged(self, build: Build, tables: int, name: str = "stage") -> DataDir:
        """A data directory as a session builds it: proved, and shut down."""
        target = DataDirs(self.folder).acquire(f"{name}-{tables}")
        if target.state.status != "whole":
            ground = DatadirBuilder(build, Schema(tables), target, launcher=LocalLauncher(), say=quiet)
            prepare_datadir(ground, progress=quiet)
        return target


@contextmanager
def scratch(data: Path) -> Iterator[Site]:
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="selfbench-", dir=data))
    try:
        yield Site(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
