"""What the benchmarks build and start: real servers in folders of their own, removed at the end."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from recovery.builds.resolve import Sources, resolve
from recovery.host.datadir import DataDir, DataDirs
from recovery.host.storage import device_of
from recovery.load.ground import Ground
from recovery.load.stage import prepare_stage
from recovery.model import Build, Schema
from recovery.server.bootstrap import initialise
from recovery.server.launcher import Launcher
from recovery.server.local import LocalLauncher
from recovery.server.options import merge, test_settings
from recovery.server.rundirs import RunDirs
from recovery.server.server import Server


def quiet(*_: object) -> None:
    """Nothing is told while something is measured."""


_BYTES_OF_A_TABLE = 400 << 10
"""Of the page cache and of the server's memory while it is built, generously."""


def settle(tables: int) -> None:
    """Brings the host to the same state before each of two things that are compared: what the earlier one wrote is on
    the disk, and free memory is really there. A virtual machine hands its free memory back, and taking a gigabyte from
    the host again was seen to take two seconds: as long as making 4,000 tables."""
    os.sync()
    size = min(tables * _BYTES_OF_A_TABLE, psutil.virtual_memory().available // 3)
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


@dataclass(frozen=True)
class Site:
    """A scratch folder on the volume under test."""

    folder: Path

    def build(self, version: str) -> Build:
        return resolve(version, Sources(), quiet)

    def server(
        self,
        build: Build,
        datadir: Path,
        settings: Mapping[str, str] | None = None,
        *,
        launcher: Launcher | None = None,
    ) -> Server:
        logs = Path(tempfile.mkdtemp(prefix="logs-", dir=self.folder))
        return Server(
            launcher or LocalLauncher(),
            build,
            datadir,
            device=device_of(self.folder),
            logdir=logs,
            settings=merge(test_settings(build.version), settings or {}),
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

    def staged(self, build: Build, tables: int) -> DataDir:
        """A data directory as the tool builds it."""
        target = DataDirs(self.folder).acquire(f"{build.version}-{tables}")
        if target.state.status != "whole":
            ground = Ground(build, Schema(tables), target, launcher=LocalLauncher(), say=quiet)
            prepare_stage(ground, progress=quiet)
        return target


@contextmanager
def scratch(data: Path) -> Iterator[Site]:
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="selfbench-", dir=data))
    try:
        yield Site(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
