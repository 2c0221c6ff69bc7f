"""Determines which data directories a plan needs, checks that they fit on the disk, and opens and builds them.

The checks come before the first build, because a build can take an hour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Protocol

from recovery.builds.packages import Tool
from recovery.errors import HostUnfitError, UsageError
from recovery.experiments.bench import Bench, Conditions
from recovery.linux.cgroups import LimitGroup
from recovery.linux.cleanup import kill_servers_in
from recovery.linux.page_cache import CacheDropper, flush_caches
from recovery.linux.procfs import memory_bytes
from recovery.linux.signals import defer_signals
from recovery.linux.storage import MAX_USED_SHARE, NO_SPACE, SPACE_HINT, DiskSpace, device_of, free_space
from recovery.model import Build, Layout, Run, Schema, Trial, Version, can, crashes_with_tables
from recovery.mysqld.datadir import DataDir, DataDirs, prove_intact
from recovery.mysqld.options import (
    adapt_redo_capacity,
    datadir_settings,
    every_start_settings,
    experiment_settings,
    first_start_settings,
    merge,
)
from recovery.mysqld.phases import CurrentPhase
from recovery.mysqld.server import Server
from recovery.session.engine import Engine
from recovery.session.plan import DatadirSpec, is_measured_over
from recovery.session.progress import SessionEstimate
from recovery.session.request import Request
from recovery.workload.build import DatadirBuilder, prepare_datadir
from recovery.workload.inserts import insert_statements
from recovery.workload.schema import can_extend, check_template, disk_need, template_text


@dataclass(frozen=True)
class DatadirRequirement:
    """Describes a data directory that the plan needs: its contents, whether it is complete, and the space it takes."""

    place: DatadirSpec
    build: Build
    schema: Schema
    settings: Mapping[str, str]
    """Settings that shape the files."""
    key: str
    whole: bool
    size: DiskSpace
    """Space that the complete directory takes."""
    need: DiskSpace
    """Space that the part still to be built takes."""

    @property
    def title(self) -> str:
        return " ".join((f"{self.build.version}: {self.schema.total_tables:,} tables", *self.place.words))


def required_datadirs(
    places: Sequence[DatadirSpec], builds: Sequence[Build], *, asked: Schema, data: Path, settings: Mapping[str, str]
) -> tuple[DatadirRequirement, ...]:
    """Returns the directory of each place, in the order of the places. `builds` has a build of each place's version."""
    directories = DataDirs(data)
    kept = {info.key: info for info in directories.list()}
    found = {build.version: build for build in builds}
    stages = []
    for place in places:
        build, schema = found[place.version], place.schema(asked)
        check_schema_supported(build.version, schema)
        shape = datadir_settings(merge(settings, dict(place.settings)))
        key = directories.key_for(build, schema, template_text=template_text(schema), options=shape)
        size, there = disk_need(check_template(schema), build.version, schema, shape), kept.get(key)
        whole = there is not None and there.status in ("whole", "in_use")
        # A partial build is either continued, or removed first, which frees the space it takes.
        done = min(1.0, (there.bytes or 0) / size.bytes) if there else 0.0
        need = NO_SPACE if whole else size.part(done)
        stages.append(DatadirRequirement(place, build, schema, shape, key, whole=whole, size=size, need=need))
    return tuple(stages)


def check_schema_supported(version: Version, schema: Schema) -> None:
    """Raises an error if this server is known not to support such a schema."""
    if crashes_with_tables(version, schema.total_tables):
        raise HostUnfitError(
            f"{version} was withdrawn: it dies on a restart with more than 8,000 tables",
            "take the release after it, or TABLES=8000",
        )
    if schema.layout is Layout.GENERAL and not can(version, "general_tablespaces"):
        raise UsageError(
            f"{version} has no general tablespaces, in which all tables could lie in one file",
            "ask for MySQL 5.7.6 or later, or leave layout=general out",
        )
    if schema.layout is Layout.ENCRYPTED and not (can(version, "keyring_file") or can(version, "file_key_management")):
        raise UsageError(
            f"{version} has no plugin that takes the keys of encrypted tables from a file",
            "ask for MySQL 5.7.11 to 8.3, or for MariaDB, or leave layout=encrypted out",
        )


def check_disk_space(
    stages: Sequence[DatadirRequirement], room: DiskSpace, *, keep: bool, done_with: Sequence[DatadirRequirement] = ()
) -> None:
    """Raises HostUnfitError if one of the directories will not fit, before an hour of building shows it.

    Versions run one after the other. A directory that this session built and no longer needs makes room for the
    next one, unless --keep is set."""
    built = [replace(stage, need=stage.size) for stage in done_with]
    for stage in stages:
        if stage.whole:
            continue
        if built and built[-1].place.grows_into(stage.place):
            room += built.pop().need
        while built and not stage.need.fits(room) and not keep:
            room += built.pop(0).need
        if not stage.need.fits(room):
            beside = " beside those before it, which --keep keeps" if keep and built else ""
            raise HostUnfitError(
                f"the data directory of {stage.build.version} needs {stage.need} and does not fit{beside}: "
                f"{room} are free",
                SPACE_HINT,
            )
        room -= stage.need
        built.append(stage)


def check_combined_disk_space(stages: Sequence[DatadirRequirement], room: DiskSpace) -> None:
    """Raises HostUnfitError if the missing directories of a resumed alternating session do not all fit together."""
    need = sum((stage.need for stage in stages), NO_SPACE)
    if not need.fits(room):
        raise HostUnfitError(f"the data directories that are missing need {need}, and {room} are free", SPACE_HINT)


def can_alternate(needs: Iterable[DiskSpace], room: DiskSpace, *, growing: bool) -> bool:
    """Returns whether all directories that are still to be built fit on the disk together, with room to spare.

    With `growing` they cannot alternate: a directory that grows to the next number of tables loses the previous one."""
    return not growing and sum(needs, NO_SPACE).fits(room, share=MAX_USED_SHARE)


# --- The pool of open data directories


class ProgressReporter(Protocol):
    """Reports the progress of a session, to the user on stderr and to other processes such as `recovery status`."""

    def say(self, line: str) -> None: ...
    def warn(self, line: str) -> None: ...
    def on_stage(self) -> AbstractContextManager[None]: ...
    def planned(self, ahead: SessionEstimate) -> None: ...
    def gone_on(self, runs: Iterable[Run]) -> None: ...
    def keeping_in(self, folder: Path) -> None: ...
    def building(self, title: str) -> AbstractContextManager[Callable[[int, int], None]]: ...
    def trial_began(self, trial: Trial) -> None: ...
    def doing(self, step: str) -> None: ...
    def follow(self, standing: Callable[[float], CurrentPhase]) -> None: ...
    def trial_ended(self, run: Run, planned: int) -> None: ...


class DatadirPool:
    """Opens, builds and releases the data directories of a session; each place has a bench, opened on first use.

    As a context manager it closes all benches, so that no server is left running, whatever ends the session."""

    def __init__(
        self,
        request: Request,
        stages: Sequence[DatadirRequirement],
        *,
        engine: Engine,
        narrator: ProgressReporter,
        group: LimitGroup | None = None,
        samplers: tuple[str, ...] = (),
        programs: Mapping[str, Tool] | None = None,
        built: Iterable[str] = (),
        done_with: Iterable[str] = (),
    ) -> None:
        self.request = request
        self.programs = programs or {}
        """Programs that put load on a server, by name."""
        self.samplers = samplers
        """Programs that can take stacks on this host, as tested."""
        self.stages = {stage.place: stage for stage in stages}
        self.engine = engine
        self.narrator = narrator
        self.group = group
        """Control group for all measured servers; the caller that created it removes it."""
        self._open: dict[DatadirSpec, Bench] = {}
        self.session = ""
        """Start time of the session, as in the name of its folder."""
        self._aside: set[str] = set()
        """Keys of directories that were set aside because a server did not come back on them."""
        self.on_build: Callable[[str], None] = lambda _: None
        """Called with the key of each directory before it is built."""
        self._built = set(built)
        """Keys of the directories that this session built, including those from before an interruption."""
        self._done_with = list(done_with)
        """Those of `_built` that are no longer needed, oldest first."""
        self._can_grow: set[str] = set()
        """Those of `_done_with` that can grow, because their server was shut down cleanly."""

    def bench(self, place: DatadirSpec, dropper: CacheDropper | None, scratch: Path) -> Bench:
        if place not in self._open:
            stage = self.stages[place]
            self._open[place] = self._make_bench(stage, self._conditions(stage, dropper), scratch)
        return self._open[place]

    def rehearse(self, places: Sequence[DatadirSpec]) -> None:
        """Checks that the servers can make encrypted tables, by initialising directories that are removed again.

        The first place is left out, because its build begins at once and shows the same."""
        for stage in (self.stages[place] for place in places[1:]):
            if stage.schema.layout is Layout.ENCRYPTED and not stage.whole:
                with DataDirs(self.request.data).acquire(stage.key) as datadir:
                    if datadir.state.status == "new":
                        self._ground(stage, datadir).initialise()
                        datadir.wipe()

    def leave(self, place: DatadirSpec) -> None:
        """Releases a directory; it is kept for the next session unless another directory needs the space."""
        bench = self._open.pop(place, None)
        if bench is not None:
            _close_bench(bench)
            if (key := self.stages[place].key) in self._built:
                self._done_with.append(key)
                if bench.at_rest:
                    self._can_grow.add(key)

    def set_aside(self, place: DatadirSpec) -> str | None:
        """Keeps a directory on which the server did not come back, and returns a message that says where.

        The next trial of this place then gets a newly built directory. Returns None if the directory stays in use: it
        cannot be kept, this session has kept one already, or there is no space for all that is still to be built."""
        bench, stage = self._open[place], self.stages[place]
        bench.server.close()
        ahead = [other.need for at, other in self.stages.items() if not other.whole and at not in self._open]
        if not all(need.fits(free_space(self.request.data)) for need in (stage.size, *ahead)):
            bench.note(f"{place.version}: there is no room to keep what it did not come back over.")
            return None
        told = bench.set_aside()
        if told is not None:
            self._aside.add(stage.key)
            self._open.pop(place).datadir.release()
            self.stages[place] = replace(stage, whole=False, need=stage.size)
        return told

    def drop(self, place: DatadirSpec) -> None:
        """Removes a directory on which its server no longer starts.

        It is kept unless this session built it to replace a directory that was set aside."""
        if self.stages[place].key in self._built & self._aside:
            with self._open.pop(place).datadir as datadir:
                datadir.wipe()

    def __enter__(self) -> DatadirPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes all servers, then releases all directories, even if one of these steps fails.

        A second Ctrl-C is deferred until this is done."""
        with defer_signals(), ExitStack() as stack:
            for bench in self._open.values():
                stack.callback(_close_bench, bench)
            for bench in self._open.values():
                stack.callback(bench.server.close)
            self._open.clear()

    def _conditions(self, stage: DatadirRequirement, dropper: CacheDropper | None) -> Conditions:
        asked = self.request
        return Conditions(
            insert_statements(stage.schema, count=asked.inserts, template=asked.insert_template),
            as_published=asked.as_published,
            dropper=dropper,
            timed_settings=asked.timed_settings,
            trace=asked.trace,
            samplers=self.samplers,
            programs=self.programs,
            session=self.session,
        )

    def _make_bench(self, stage: DatadirRequirement, conditions: Conditions, scratch: Path) -> Bench:
        directories = DataDirs(self.request.data)
        smaller = None if stage.whole else self._smaller(stage)
        if smaller is not None:
            self._grow(directories, smaller, stage)
        elif not stage.whole:
            self._make_room(directories, stage.need, stage)
        with ExitStack() as undo:
            datadir = undo.enter_context(directories.acquire(stage.key))
            for pid in kill_servers_in(datadir.mysql, stage.build.mysqld.name):
                self.narrator.say(f"{stage.build.version}: ended server {pid}, which a killed run had left behind")
            if datadir.state.status in ("whole", "in_use"):
                self.narrator.say(f"{stage.build.version}: using the data directory {datadir.path}")
                prove_intact(datadir, stage.schema, fingerprint=stage.build.fingerprint)
            else:
                self._build(stage, datadir)
            if self.request.limits.memory_bytes is not None:
                # Cached pages that other processes have read are charged to them: the server would get them in addition
                # to its memory limit.
                flush_caches(datadir.mysql, conditions.dropper)
            server = undo.enter_context(self._server(stage, datadir, scratch))
            bench = Bench(server, datadir, stage.schema, conditions=conditions)
            server.follower, bench.tell = self.narrator.follow, self.narrator.doing
            if bench.take_possession():
                self.narrator.say(
                    f"{stage.build.version}: an earlier run ended within a trial; its contents were counted anew"
                )
            undo.pop_all()
        return bench

    def _smaller(self, stage: DatadirRequirement) -> DatadirRequirement | None:
        """Returns a directory of this session that can grow into this one. Those of earlier sessions are the user's."""
        return next(
            (
                other
                for other in reversed(self.stages.values())
                if other.key in self._can_grow
                and other.place.grows_into(stage.place)
                and can_extend(other.schema, stage.schema)
            ),
            None,
        )

    def _grow(self, directories: DataDirs, smaller: DatadirRequirement, stage: DatadirRequirement) -> None:
        """Gives the directory of the smaller stage the key of this one, as a build that was interrupted at that point.

        It is marked as incomplete before it is renamed: under its new name it must never look complete."""
        self._can_grow.remove(smaller.key)
        self._done_with.remove(smaller.key)
        self._make_room(directories, stage.size - smaller.size, stage)
        fewer, more = smaller.schema.total_tables, stage.schema.total_tables
        self.narrator.say(f"{stage.build.version}: growing from {fewer:,} to {more:,} tables")
        with directories.acquire(smaller.key) as datadir:
            done = check_template(smaller.schema).statements
            datadir.save(replace(datadir.state, status="building", statements_done=done))
            directories.rename(datadir, stage.key)

    def _server(self, stage: DatadirRequirement, datadir: DataDir, scratch: Path) -> Server:
        return Server(
            self.engine.launcher,
            stage.build,
            datadir.mysql,
            device=device_of(datadir.mysql),
            logdir=scratch / stage.key,
            settings=merge(
                experiment_settings(stage.build.version),
                adapt_redo_capacity(stage.build.version, self.request.lasting_settings),
                self._from_the_first(stage),
            ),
            stall_s=self.request.stall_s,
            group=self.group,
            keys=datadir.keys_for(stage.schema),
        )

    def _build(self, stage: DatadirRequirement, datadir: DataDir) -> None:
        memory = min(memory_bytes(), self.request.limits.memory_bytes or memory_bytes())
        self.narrator.say(f"{stage.build.version}: {data_size_text(stage.size.bytes, memory)}")
        self.on_build(stage.key)
        with self.narrator.building(stage.title) as progress:
            prepare_datadir(self._ground(stage, datadir), progress=progress)
        self._built.add(stage.key)

    def _ground(self, stage: DatadirRequirement, datadir: DataDir) -> DatadirBuilder:
        return DatadirBuilder(
            stage.build,
            stage.schema,
            datadir,
            launcher=self.engine.launcher,
            say=self.narrator.say,
            settings=self._from_the_first(stage),
            tried=self._tried(stage),
            stall_s=self.request.stall_s,
        )

    def _from_the_first(self, stage: DatadirRequirement) -> dict[str, str]:
        """Returns the settings of every start over these files, including the one that initialises them."""
        return merge(*map(first_start_settings, self._tried(stage)), stage.settings)

    def _tried(self, stage: DatadirRequirement) -> list[dict[str, str]]:
        """Returns the different settings of later starts over these files, without the test's own settings."""
        here = [variant for variant in self.request.measured if is_measured_over(variant, stage.place)]
        usual = adapt_redo_capacity(stage.build.version, self.request.lasting_settings)
        own = (adapt_redo_capacity(stage.build.version, dict(variant.settings)) for variant in here)
        wanted = [merge(usual, every_start_settings(settings)) for settings in own]
        return [settings for number, settings in enumerate(wanted) if settings not in wanted[:number]]

    def _make_room(self, directories: DataDirs, need: DiskSpace, stage: DatadirRequirement) -> None:
        """Removes directories that this session built and no longer needs, oldest first, until the next one fits.

        Directories of earlier sessions are never removed: that is for the user to decide."""
        while self._done_with and not need.fits(free_space(self.request.data)):
            if self.request.keep:
                raise HostUnfitError(
                    f"the data directory of {stage.build.version} does not fit beside those that --keep keeps",
                    "leave --keep out, or give a larger volume with DATA=",
                )
            key = self._done_with.pop(0)
            self.narrator.say(f"removing the data directory {key}: {stage.build.version} needs its room")
            directories.remove(key)
            self._can_grow.discard(key)


def data_size_text(data_bytes: int, memory: int) -> str:
    told = f"about {data_bytes / 1e9:.1f} GB of data, {memory / 1e9:.1f} GB of memory"
    return told if data_bytes < memory else f"{told}: more than can stay in the cache, so a warm start is partly cold"


def _close_bench(bench: Bench) -> None:
    """Ends the bench's server and releases its directory.

    A server that still runs is killed, so that Ctrl-C never waits for a long shutdown. The directory stays marked as in
    use, and the next session starts a server and counts the contents before it trusts them."""
    try:
        bench.server.close()
        if bench.at_rest:
            bench.release()
    finally:
        bench.datadir.release()
