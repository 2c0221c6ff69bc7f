"""Who opens, builds and gives back the data directories of a session? Whatever ends it, no server is left running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Protocol

from recovery.engines import Engine
from recovery.errors import HostUnfitError
from recovery.host.datadir import DataDir, DataDirs, prove_intact
from recovery.host.limits import Group
from recovery.host.machine import memory_bytes
from recovery.host.orphans import end_servers_in
from recovery.host.pagecache import flush_caches
from recovery.host.space import free
from recovery.host.storage import device_of
from recovery.load.stage import prepare_stage
from recovery.model import Run, Version
from recovery.request import Request
from recovery.scenarios.bench import Bench, Conditions
from recovery.server.options import merge, test_settings
from recovery.server.server import Server
from recovery.stages import Stage, layout_options


class Narrator(Protocol):
    """Tells the user what is going on, on stderr."""

    def say(self, line: str) -> None: ...
    def building(self, title: str) -> AbstractContextManager[Callable[[int, int], None]]: ...
    def trial_ended(self, run: Run, planned: int) -> None: ...


class Stagehand:
    """Benches by version, opened when first asked for. As a context manager it closes what is open."""

    def __init__(
        self,
        request: Request,
        stages: Sequence[Stage],
        *,
        engine: Engine,
        narrator: Narrator,
        group: Group | None = None,
    ) -> None:
        self.request = request
        self.stages = {stage.build.version: stage for stage in stages}
        self.engine = engine
        self.narrator = narrator
        self.group = group
        """For the servers that are measured, all of them; whoever opened it removes it."""
        self._open: dict[Version, Bench] = {}
        self._built: set[str] = set()
        self._done_with: list[str] = []
        """Of those that were built here, oldest first."""

    def bench(self, version: Version, conditions: Conditions, scratch: Path) -> Bench:
        if version not in self._open:
            self._open[version] = self._make_bench(self.stages[version], conditions, scratch)
        return self._open[version]

    def leave(self, version: Version) -> None:
        """Gives a version's directory back; it is kept for the next session unless another needs its room."""
        bench = self._open.pop(version, None)
        if bench is not None:
            _give_back(bench)
            if self.stages[version].key in self._built:
                self._done_with.append(self.stages[version].key)

    def __enter__(self) -> Stagehand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Every server ends first, and every directory is given back, whatever goes wrong with another."""
        with ExitStack() as stack:
            for bench in self._open.values():
                stack.callback(_give_back, bench)
            for bench in self._open.values():
                stack.callback(bench.server.close)
            self._open.clear()

    def _make_bench(self, stage: Stage, conditions: Conditions, scratch: Path) -> Bench:
        directories = DataDirs(self.request.data)
        if not stage.whole:
            self._make_room(directories, stage)
        with ExitStack() as undo:
            datadir = undo.enter_context(directories.acquire(stage.key))
            for pid in end_servers_in(datadir.mysql, stage.build.mysqld.name):
                self.narrator.say(f"{stage.build.version}: ended server {pid}, which a killed run had left behind")
            if datadir.state.status in ("whole", "in_use"):
                self.narrator.say(f"{stage.build.version}: using the data directory {datadir.path}")
                prove_intact(datadir, self.request.schema.database_names, fingerprint=stage.build.fingerprint)
            else:
                self._build(stage, datadir)
            if self.request.limits.memory_bytes is not None:
                # What others have read into the cache is charged to them, and would be there beyond MEMORY.
                flush_caches(datadir.mysql, conditions.dropper)
            server = undo.enter_context(self._server(stage, datadir, scratch))
            bench = Bench(server, datadir, self.request.schema, conditions=conditions)
            if bench.take_possession():
                self.narrator.say(
                    f"{stage.build.version}: an earlier run ended within a trial; its contents were counted anew"
                )
            undo.pop_all()
        return bench

    def _server(self, stage: Stage, datadir: DataDir, scratch: Path) -> Server:
        return Server(
            self.engine.launcher,
            stage.build,
            datadir.mysql,
            device=device_of(datadir.mysql),
            logdir=scratch / str(stage.build.version),
            settings=merge(test_settings(stage.build.version), self.request.lasting_settings),
            stall_s=self.request.stall_s,
            group=self.group,
        )

    def _build(self, stage: Stage, datadir: DataDir) -> None:
        memory = min(memory_bytes(), self.request.limits.memory_bytes or memory_bytes())
        self.narrator.say(f"{stage.build.version}: {data_against_memory(stage.size.bytes, memory)}")
        title = f"{stage.build.version}: {self.request.schema.total_tables:,} tables"
        with self.narrator.building(title) as progress:
            prepare_stage(
                stage.build,
                self.request.schema,
                datadir,
                launcher=self.engine.launcher,
                say=self.narrator.say,
                progress=progress,
                settings=layout_options(dict(self.request.settings)),
                tried=self.request.lasting_settings,
                stall_s=self.request.stall_s,
            )
        self._built.add(stage.key)

    def _make_room(self, directories: DataDirs, stage: Stage) -> None:
        """Removes directories that this session built and has done with, oldest first, while the next does not fit.
        Those of earlier sessions are the user's to remove."""
        while self._done_with and not stage.need.fits(free(self.request.data)):
            if self.request.keep:
                raise HostUnfitError(
                    f"the data directory of {stage.build.version} does not fit beside those that --keep keeps",
                    "leave --keep out, or give a larger volume with DATA=",
                )
            key = self._done_with.pop(0)
            self.narrator.say(f"removing the data directory {key}: {stage.build.version} needs its room")
            directories.remove(key)


def data_against_memory(data_bytes: int, memory: int) -> str:
    told = f"about {data_bytes / 1e9:.1f} GB of data, {memory / 1e9:.1f} GB of memory"
    return told if data_bytes < memory else f"{told}: more than can stay in the cache, so a warm start is partly cold"


def _give_back(bench: Bench) -> None:
    """A server that still runs is killed, not shut down: it is ours, its directory stays marked as in use, and the
    next session starts it and counts before it trusts it. So Ctrl-C never waits for a long shutdown."""
    try:
        bench.server.close()
        if bench.at_rest:
            bench.release()
    finally:
        bench.datadir.release()
