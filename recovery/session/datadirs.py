"""Opens, grows and builds the data directories of a session, and makes room for them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from recovery.builds.packages import Tool
from recovery.errors import HostUnfitError
from recovery.experiments.bench import Bench
from recovery.experiments.bench_starts import Conditions
from recovery.experiments.experiment import OwnDataOptions, StartOptions
from recovery.linux.cgroups import LimitGroup
from recovery.linux.cleanup import kill_servers_in
from recovery.linux.page_cache import CacheDropper, flush_caches
from recovery.linux.procfs import memory_bytes
from recovery.linux.signals import defer_signals
from recovery.linux.storage import DiskSpace, free_space
from recovery.model import Layout, Limits
from recovery.mysqld.datadir import DataDir, DataDirs, check_intact
from recovery.mysqld.options import (
    adapt_redo_capacity,
    every_start_settings,
    experiment_settings,
    first_start_settings,
    merge,
)
from recovery.mysqld.server import Server, ServerConfig
from recovery.session.engine import Engine
from recovery.session.plan import DatadirSpec, Plan, PlannedDatadir, is_measured_over
from recovery.session.progress import Progress, ProgressReporter, report_build
from recovery.session.request import Request
from recovery.session.store import SessionStore
from recovery.workload.build import DatadirBuilder, prepare_datadir
from recovery.workload.inserts import insert_statements
from recovery.workload.schema import can_extend, checked_script_size


@dataclass
class DatadirPool:
    """Opens, builds and releases the data directories of a session; each has a bench, opened on first use.

    As a context manager it closes all benches, so that no server is left running, whatever ends the session."""

    request: Request
    plan: Plan
    engine: Engine
    store: SessionStore
    reporter: ProgressReporter
    dropper: CacheDropper | None
    scratch: Path
    group: LimitGroup | None
    """Control group for all measured servers; the caller that created it removes it."""
    samplers: tuple[str, ...]
    """Programs that can take stacks on this host, as tested."""
    programs: Mapping[str, Tool]
    """Programs that put load on a server, by name."""
    _datadirs: dict[DatadirSpec, PlannedDatadir] = field(init=False)
    _built: set[str] = field(init=False)
    """Keys of the directories that this session built, including those from before an interruption."""
    _no_longer_needed: list[str] = field(init=False)
    """Those of `_built` that are no longer needed, oldest first."""
    _open: dict[DatadirSpec, Bench] = field(default_factory=dict)
    _aside: set[str] = field(default_factory=set)
    """Keys of directories that were set aside because a server did not come back on them."""
    _can_grow: set[str] = field(default_factory=set)
    """Those of `_no_longer_needed` that can grow, because their server was shut down cleanly."""

    def __post_init__(self) -> None:
        self._datadirs = {datadir.spec: datadir for datadir in self.plan.datadirs}
        self._built = set(self.plan.built)
        self._no_longer_needed = [datadir.key for datadir in self.plan.no_longer_needed]

    def bench(self, spec: DatadirSpec) -> Bench:
        if spec not in self._open:
            self._open[spec] = self._make_bench(self._datadirs[spec])
        return self._open[spec]

    def is_built(self, spec: DatadirSpec) -> bool:
        """Returns whether the directory is there. A resumed session may have removed it: it needs no trial any more."""
        return spec in self._open or self._datadirs[spec].whole

    def release(self, spec: DatadirSpec) -> None:
        """Releases a directory; it is kept for the next session unless another directory needs the space."""
        bench = self._open.pop(spec, None)
        if bench is not None:
            _close_bench(bench)
            if (key := self._datadirs[spec].key) in self._built:
                self._no_longer_needed.append(key)
                if bench.stopped_cleanly:
                    self._can_grow.add(key)

    def set_aside(self, spec: DatadirSpec) -> str | None:
        """Keeps a directory on which the server did not come back, and returns a message that says where.

        The next trial then gets a newly built directory. Returns None, and leaves the directory in place, if it cannot
        be kept, this session has kept one already, or there is no space for all that is still to be built."""
        bench, planned = self._open[spec], self._datadirs[spec]
        bench.server.close()
        estimate = [other.need for other in self._datadirs.values() if not other.whole and other.key not in self._built]
        if not all(need.fits(free_space(self.request.output.data)) for need in (planned.size, *estimate)):
            bench.add_note(f"{spec.version}: no room to keep the data directory on which it did not come back.")
            return None
        text = bench.contents.set_aside()
        if text is not None:
            self._aside.add(planned.key)
            self._built.discard(planned.key)
            self._open.pop(spec).datadir.release()
            self._datadirs[spec] = replace(planned, whole=False, need=planned.size)
        return text

    def remove(self, spec: DatadirSpec) -> None:
        """Removes a directory on which its server no longer starts.

        It is kept unless this session built it to replace a directory that was set aside."""
        if self._datadirs[spec].key in self._built & self._aside:
            with self._open.pop(spec).datadir as datadir:
                datadir.wipe()

    def __enter__(self) -> DatadirPool:
        return self

    def __exit__(self, *_: object) -> None:
        """Closes all servers, then releases all directories, even if one of these steps fails.

        A second Ctrl-C is deferred until this is done."""
        with defer_signals(), ExitStack() as stack:
            for bench in self._open.values():
                stack.callback(_close_bench, bench)
            for bench in self._open.values():
                stack.callback(bench.server.close)
            self._open.clear()

    def _conditions(self, planned: PlannedDatadir) -> Conditions:
        requested, options = self.request, self.request.experiment_options
        starts = options if isinstance(options, StartOptions) else StartOptions()
        return Conditions(
            insert_statements(planned.schema, count=requested.sizes.inserts, template=requested.sizes.insert_template),
            as_published=requested.method.as_published,
            before_start=starts.before_start,
            before_kill=options.before_kill if isinstance(options, OwnDataOptions) else (),
            first_queries=starts.first_queries,
            dropper=self.dropper,
            timed_settings=requested.timed_settings,
            labels=tuple(variant.label for variant in requested.all_variants),
            samplers=self.samplers,
            programs=self.programs,
            session=self.store.folder.name.partition("-")[0],
        )

    def _make_bench(self, planned: PlannedDatadir) -> Bench:
        directories = DataDirs(self.request.output.data)
        smaller = None if planned.whole else self._growable(planned)
        if smaller is not None:
            self._grow(directories, smaller, planned)
        elif not planned.whole:
            self._make_room(directories, planned.need, planned)
        with ExitStack() as undo:
            datadir = undo.enter_context(directories.acquire(planned.key))
            for pid in kill_servers_in(datadir.mysql, self.plan.servers[planned.spec.version].mysqld.name):
                self.reporter.say(f"{planned.spec.version}: ended server {pid}, which a killed run had left behind")
            if datadir.state.is_complete:
                self.reporter.say(f"{planned.spec.version}: using the data directory {datadir.path}")
                check_intact(datadir, planned.schema, fingerprint=self.plan.servers[planned.spec.version].fingerprint)
            else:
                self._build(planned, datadir)
            if self.request.servers.limits.memory_bytes is not None:
                # Cached pages that other processes have read are charged to them: the server would get them in addition
                # to its memory limit.
                flush_caches(datadir.mysql, self.dropper)
            server = undo.enter_context(self._server(planned, datadir))
            conditions = self._conditions(planned)
            bench = Bench(
                server,
                datadir,
                planned.schema,
                conditions=conditions,
                on_step=lambda step: self.reporter.event(Progress.doing, step),
            )
            if bench.contents.claim_and_recount():
                self.reporter.say(
                    f"{planned.spec.version}: an earlier session was interrupted; the rows were counted again"
                )
            undo.pop_all()
        return bench

    def _growable(self, planned: PlannedDatadir) -> PlannedDatadir | None:
        """Returns a directory of this session that can grow into this one. Those of earlier sessions are the user's."""
        return next(
            (
                other
                for other in reversed(self._datadirs.values())
                if other.key in self._can_grow
                and other.spec.grows_into(planned.spec)
                and can_extend(other.schema, planned.schema)
            ),
            None,
        )

    def _grow(self, directories: DataDirs, smaller: PlannedDatadir, planned: PlannedDatadir) -> None:
        """Gives the directory of the smaller stage the key of this one, as a build that was interrupted at that point.

        It is marked as incomplete before it is renamed: under its new name it must never look complete."""
        self._can_grow.remove(smaller.key)
        self._no_longer_needed.remove(smaller.key)
        self._make_room(directories, planned.size - smaller.size, planned)
        fewer, more = smaller.schema.total_tables, planned.schema.total_tables
        self.reporter.say(f"{planned.spec.version}: growing from {fewer:,} to {more:,} tables")
        with directories.acquire(smaller.key) as datadir:
            done = checked_script_size(smaller.schema).statements
            datadir.save(replace(datadir.state, status="building", statements_done=done))
            directories.rename(datadir, planned.key)

    def _server(self, planned: PlannedDatadir, datadir: DataDir) -> Server:
        config = ServerConfig(
            self.engine.launcher,
            self.plan.servers[planned.spec.version],
            self.scratch / planned.key,
            settings=merge(
                experiment_settings(planned.spec.version),
                adapt_redo_capacity(planned.spec.version, self.request.lasting_settings),
                _initial_settings(self.request, planned),
            ),
            stall_s=self.request.method.stall_s,
            group=self.group,
            keys=datadir.keys_for(planned.schema),
            follower=self.reporter.follow,
            table_files=planned.schema.files if planned.schema.own is None else planned.schema.own.table_files,
        )
        return Server(config, datadir.mysql)

    def _build(self, planned: PlannedDatadir, datadir: DataDir) -> None:
        self.reporter.say(f"{planned.spec.version}: {data_size_text(planned.size.bytes, self.request.servers.limits)}")
        self.store.record_build(planned.key)
        with report_build(self.reporter, planned.title) as progress:
            builder = datadir_builder(self.request, self.plan, planned, datadir, self.engine, self.reporter)
            prepare_datadir(builder, progress=progress)
        self._built.add(planned.key)

    def _make_room(self, directories: DataDirs, need: DiskSpace, planned: PlannedDatadir) -> None:
        """Removes directories that this session built and no longer needs, oldest first, until the next one fits.

        Directories of earlier sessions are never removed: that is for the user to decide."""
        while self._no_longer_needed and not need.fits(free_space(self.request.output.data)):
            if self.request.output.keep:
                raise HostUnfitError(
                    f"the data directory of {planned.spec.version} does not fit beside those that are kept",
                    "leave it out, or give a larger volume with --data",
                    option="keep",
                )
            key = self._no_longer_needed.pop(0)
            self.reporter.say(f"removing the data directory {key}: {planned.spec.version} needs its room")
            directories.remove(key)
            self._can_grow.discard(key)


def datadir_builder(
    request: Request, plan: Plan, planned: PlannedDatadir, datadir: DataDir, engine: Engine, reporter: ProgressReporter
) -> DatadirBuilder:
    return DatadirBuilder(
        plan.servers[planned.spec.version],
        planned.schema,
        datadir,
        launcher=engine.launcher,
        say=reporter.say,
        settings=_initial_settings(request, planned),
        settings_to_check=_later_settings(request, planned),
        stall_s=request.method.stall_s,
    )


def _initial_settings(request: Request, planned: PlannedDatadir) -> dict[str, str]:
    """Returns the settings of every start over these files, including the one that initialises them."""
    return merge(*map(first_start_settings, _later_settings(request, planned)), planned.settings)


def _later_settings(request: Request, planned: PlannedDatadir) -> list[dict[str, str]]:
    """Returns the different settings of later starts over these files, without the test's own settings."""
    here = [variant for variant in request.all_variants if is_measured_over(variant, planned.spec)]
    usual = adapt_redo_capacity(planned.spec.version, request.lasting_settings)
    own = (adapt_redo_capacity(planned.spec.version, dict(variant.settings)) for variant in here)
    wanted = [merge(usual, every_start_settings(settings)) for settings in own]
    return [settings for number, settings in enumerate(wanted) if settings not in wanted[:number]]


def check_encryption(request: Request, plan: Plan, engine: Engine, reporter: ProgressReporter) -> None:
    """Checks that the servers can make encrypted tables, by initialising directories that are removed again.

    The first directory is left out, because its build begins at once and shows the same."""
    for planned in plan.needed[1:]:
        if planned.schema.layout is Layout.ENCRYPTED and not planned.whole:
            with DataDirs(request.output.data).acquire(planned.key) as datadir:
                if datadir.state.status == "new":
                    datadir_builder(request, plan, planned, datadir, engine, reporter).initialise()
                    datadir.wipe()


def data_size_text(data_bytes: int, limits: Limits) -> str:
    memory = min(memory_bytes(), limits.memory_bytes or memory_bytes())
    who = "this host has" if memory == memory_bytes() else "the server may use"
    text = f"about {data_bytes / 1e9:.1f} GB of data; {who} {memory / 1e9:.1f} GB of memory"
    return text if data_bytes < memory else f"{text}: more than can stay in the cache, so a warm start is partly cold"


def _close_bench(bench: Bench) -> None:
    """Ends the bench's server and releases its directory.

    A server that still runs is killed, so that Ctrl-C never waits for a long shutdown. The directory stays marked as in
    use, and the next session starts a server and counts the contents before it trusts them."""
    try:
        bench.server.close()
        if bench.is_as_is:
            shutil.rmtree(bench.datadir.mysql, ignore_errors=True)
        elif bench.stopped_cleanly:
            bench.contents.mark_whole()
    finally:
        bench.datadir.release()
