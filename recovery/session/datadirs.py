"""Determines which data directories a plan needs, checks that they fit on the disk, and opens and builds them.

The checks come before the first build, because a build can take an hour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from recovery.builds.packages import Tool
from recovery.errors import HostUnfitError, UsageError
from recovery.experiments.bench import Bench, Conditions
from recovery.linux.cgroups import LimitGroup
from recovery.linux.cleanup import kill_servers_in
from recovery.linux.page_cache import CacheDropper, flush_caches
from recovery.linux.procfs import memory_bytes
from recovery.linux.signals import defer_signals
from recovery.linux.storage import MAX_USED_SHARE, NO_SPACE, SPACE_HINT, DiskSpace, device_of, free_space
from recovery.model import Build, Layout, Schema, Version, can, crashes_with_tables
from recovery.mysqld.datadir import DataDir, DataDirs, check_intact
from recovery.mysqld.options import (
    adapt_redo_capacity,
    datadir_settings,
    every_start_settings,
    experiment_settings,
    first_start_settings,
    merge,
)
from recovery.mysqld.server import Server
from recovery.session.engine import Engine
from recovery.session.plan import DatadirSpec, is_measured_over
from recovery.session.progress import ProgressReporter
from recovery.session.request import Request
from recovery.workload.build import DatadirBuilder, prepare_datadir
from recovery.workload.inserts import insert_statements
from recovery.workload.schema import can_extend, checked_script_size, disk_need, template_text


@dataclass(frozen=True)
class DatadirRequirement:
    """Describes a data directory that the plan needs: its contents, whether it is complete, and the space it takes."""

    spec: DatadirSpec
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
        return " ".join((f"{self.build.version}: {self.schema.total_tables:,} tables", *self.spec.words))


def required_datadirs(
    specs: Sequence[DatadirSpec], builds: Sequence[Build], *, requested: Schema, data: Path, settings: Mapping[str, str]
) -> tuple[DatadirRequirement, ...]:
    """Returns the directory of each specification, in the same order. `builds` has a build of each version."""
    directories = DataDirs(data)
    kept = {info.key: info for info in directories.list()}
    found = {build.version: build for build in builds}
    requirements = []
    for spec in specs:
        build, schema = found[spec.version], spec.schema(requested)
        check_schema_supported(build.version, schema)
        shape = datadir_settings(merge(settings, dict(spec.settings)))
        key = directories.key_for(build, schema, template_text=template_text(schema), options=shape)
        size, there = disk_need(checked_script_size(schema), build.version, schema, shape), kept.get(key)
        whole = there is not None and there.is_complete
        # A partial build is either continued, or removed first, which frees the space it takes.
        done = min(1.0, (there.bytes or 0) / size.bytes) if there else 0.0
        need = NO_SPACE if whole else size.remaining(done)
        requirements.append(DatadirRequirement(spec, build, schema, shape, key, whole=whole, size=size, need=need))
    return tuple(requirements)


def check_schema_supported(version: Version, schema: Schema) -> None:
    """Raises an error if this server is known not to support such a schema."""
    if crashes_with_tables(version, schema.total_tables):
        raise HostUnfitError(
            f"{version} was withdrawn: it dies on a restart with more than 8,000 tables",
            "use the release after it, or TABLES=8000",
        )
    if schema.layout is Layout.GENERAL and not can(version, "general_tablespaces"):
        raise UsageError(
            f"{version} has no general tablespaces, which hold all tables in one file",
            "use MySQL 5.7.6 or later, or leave layout=general out",
        )
    if schema.layout is Layout.ENCRYPTED and not (can(version, "keyring_file") or can(version, "file_key_management")):
        raise UsageError(
            f"{version} has no plugin that reads the keys of encrypted tables from a file",
            "use MySQL 5.7.11 to 8.3, or MariaDB, or leave layout=encrypted out",
        )


def check_disk_space(
    requirements: Sequence[DatadirRequirement],
    room: DiskSpace,
    *,
    keep: bool,
    no_longer_needed: Sequence[DatadirRequirement] = (),
) -> None:
    """Raises HostUnfitError if one of the directories will not fit, before an hour of building shows it.

    Versions run one after the other. A directory that this session built and no longer needs makes room for the
    next one, unless --keep is set."""
    built = [replace(requirement, need=requirement.size) for requirement in no_longer_needed]
    for requirement in requirements:
        if requirement.whole:
            continue
        if built and built[-1].spec.grows_into(requirement.spec):
            room += built.pop().need
        while built and not requirement.need.fits(room) and not keep:
            room += built.pop(0).need
        if not requirement.need.fits(room):
            beside = " beside those before it, which --keep keeps" if keep and built else ""
            raise HostUnfitError(
                f"the data directory of {requirement.build.version} needs {requirement.need} and does not fit{beside}: "
                f"{room} are free",
                SPACE_HINT,
            )
        room -= requirement.need
        built.append(requirement)


def check_combined_disk_space(requirements: Sequence[DatadirRequirement], room: DiskSpace) -> None:
    """Raises HostUnfitError if the missing directories of a resumed alternating session do not all fit together."""
    need = sum((requirement.need for requirement in requirements), NO_SPACE)
    if not need.fits(room):
        raise HostUnfitError(f"the data directories that are missing need {need}, and {room} are free", SPACE_HINT)


def can_alternate(needs: Iterable[DiskSpace], room: DiskSpace, *, growing: bool) -> bool:
    """Returns whether all directories that are still to be built fit on the disk together, with room to spare.

    Growing directories cannot alternate: each number of tables replaces the smaller one."""
    return not growing and sum(needs, NO_SPACE).fits(room, share=MAX_USED_SHARE)


# --- The pool of open data directories


@dataclass
class DatadirPool:
    """Opens, builds and releases the data directories of a session; each has a bench, opened on first use.

    As a context manager it closes all benches, so that no server is left running, whatever ends the session."""

    request: Request
    requirements: dict[DatadirSpec, DatadirRequirement]
    engine: Engine
    reporter: ProgressReporter
    dropper: CacheDropper | None
    scratch: Path
    group: LimitGroup | None
    """Control group for all measured servers; the caller that created it removes it."""
    samplers: tuple[str, ...]
    """Programs that can take stacks on this host, as tested."""
    programs: Mapping[str, Tool]
    """Programs that put load on a server, by name."""
    built: set[str]
    """Keys of the directories that this session built, including those from before an interruption."""
    no_longer_needed: list[str]
    """Those of `built` that are no longer needed, oldest first."""
    session: str = ""
    """Start time of the session, as in the name of its folder."""
    on_build: Callable[[str], None] = lambda _: None
    """Called with the key of each directory before it is built."""
    _open: dict[DatadirSpec, Bench] = field(default_factory=dict)
    _aside: set[str] = field(default_factory=set)
    """Keys of directories that were set aside because a server did not come back on them."""
    _can_grow: set[str] = field(default_factory=set)
    """Those of `no_longer_needed` that can grow, because their server was shut down cleanly."""

    def bench(self, spec: DatadirSpec) -> Bench:
        if spec not in self._open:
            self._open[spec] = self._make_bench(self.requirements[spec])
        return self._open[spec]

    def check_encryption(self, specs: Sequence[DatadirSpec]) -> None:
        """Checks that the servers can make encrypted tables, by initialising directories that are removed again.

        The first directory is left out, because its build begins at once and shows the same."""
        for requirement in (self.requirements[spec] for spec in specs[1:]):
            if requirement.schema.layout is Layout.ENCRYPTED and not requirement.whole:
                with DataDirs(self.request.data).acquire(requirement.key) as datadir:
                    if datadir.state.status == "new":
                        self._builder(requirement, datadir).initialise()
                        datadir.wipe()

    def release(self, spec: DatadirSpec) -> None:
        """Releases a directory; it is kept for the next session unless another directory needs the space."""
        bench = self._open.pop(spec, None)
        if bench is not None:
            _close_bench(bench)
            if (key := self.requirements[spec].key) in self.built:
                self.no_longer_needed.append(key)
                if bench.stopped_cleanly:
                    self._can_grow.add(key)

    def set_aside(self, spec: DatadirSpec) -> str | None:
        """Keeps a directory on which the server did not come back, and returns a message that says where.

        The next trial then gets a newly built directory. Returns None, and leaves the directory in place, if it cannot
        be kept, this session has kept one already, or there is no space for all that is still to be built."""
        bench, requirement = self._open[spec], self.requirements[spec]
        bench.server.close()
        estimate = [other.need for at, other in self.requirements.items() if not other.whole and at not in self._open]
        if not all(need.fits(free_space(self.request.data)) for need in (requirement.size, *estimate)):
            bench.add_note(f"{spec.version}: no room to keep the data directory on which it did not come back.")
            return None
        text = bench.set_aside()
        if text is not None:
            self._aside.add(requirement.key)
            self._open.pop(spec).datadir.release()
            self.requirements[spec] = replace(requirement, whole=False, need=requirement.size)
        return text

    def remove(self, spec: DatadirSpec) -> None:
        """Removes a directory on which its server no longer starts.

        It is kept unless this session built it to replace a directory that was set aside."""
        if self.requirements[spec].key in self.built & self._aside:
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

    def _conditions(self, requirement: DatadirRequirement) -> Conditions:
        requested = self.request
        return Conditions(
            insert_statements(requirement.schema, count=requested.inserts, template=requested.insert_template),
            as_published=requested.as_published,
            dropper=self.dropper,
            timed_settings=requested.timed_settings,
            trace=requested.trace,
            samplers=self.samplers,
            programs=self.programs,
            session=self.session,
        )

    def _make_bench(self, requirement: DatadirRequirement) -> Bench:
        directories = DataDirs(self.request.data)
        smaller = None if requirement.whole else self._growable(requirement)
        if smaller is not None:
            self._grow(directories, smaller, requirement)
        elif not requirement.whole:
            self._make_room(directories, requirement.need, requirement)
        with ExitStack() as undo:
            datadir = undo.enter_context(directories.acquire(requirement.key))
            for pid in kill_servers_in(datadir.mysql, requirement.build.mysqld.name):
                self.reporter.say(
                    f"{requirement.build.version}: ended server {pid}, which a killed run had left behind"
                )
            if datadir.state.is_complete:
                self.reporter.say(f"{requirement.build.version}: using the data directory {datadir.path}")
                check_intact(datadir, requirement.schema, fingerprint=requirement.build.fingerprint)
            else:
                self._build(requirement, datadir)
            if self.request.limits.memory_bytes is not None:
                # Cached pages that other processes have read are charged to them: the server would get them in addition
                # to its memory limit.
                flush_caches(datadir.mysql, self.dropper)
            server = undo.enter_context(self._server(requirement, datadir))
            bench = Bench(server, datadir, requirement.schema, conditions=self._conditions(requirement))
            server.follower, bench.on_step = self.reporter.follow, self.reporter.doing
            if bench.claim_and_recount():
                self.reporter.say(
                    f"{requirement.build.version}: an earlier session was interrupted; the rows were counted again"
                )
            undo.pop_all()
        return bench

    def _growable(self, requirement: DatadirRequirement) -> DatadirRequirement | None:
        """Returns a directory of this session that can grow into this one. Those of earlier sessions are the user's."""
        return next(
            (
                other
                for other in reversed(self.requirements.values())
                if other.key in self._can_grow
                and other.spec.grows_into(requirement.spec)
                and can_extend(other.schema, requirement.schema)
            ),
            None,
        )

    def _grow(self, directories: DataDirs, smaller: DatadirRequirement, requirement: DatadirRequirement) -> None:
        """Gives the directory of the smaller stage the key of this one, as a build that was interrupted at that point.

        It is marked as incomplete before it is renamed: under its new name it must never look complete."""
        self._can_grow.remove(smaller.key)
        self.no_longer_needed.remove(smaller.key)
        self._make_room(directories, requirement.size - smaller.size, requirement)
        fewer, more = smaller.schema.total_tables, requirement.schema.total_tables
        self.reporter.say(f"{requirement.build.version}: growing from {fewer:,} to {more:,} tables")
        with directories.acquire(smaller.key) as datadir:
            done = checked_script_size(smaller.schema).statements
            datadir.save(replace(datadir.state, status="building", statements_done=done))
            directories.rename(datadir, requirement.key)

    def _server(self, requirement: DatadirRequirement, datadir: DataDir) -> Server:
        return Server(
            self.engine.launcher,
            requirement.build,
            datadir.mysql,
            device=device_of(datadir.mysql),
            logdir=self.scratch / requirement.key,
            settings=merge(
                experiment_settings(requirement.build.version),
                adapt_redo_capacity(requirement.build.version, self.request.lasting_settings),
                self._initial_settings(requirement),
            ),
            stall_s=self.request.stall_s,
            group=self.group,
            keys=datadir.keys_for(requirement.schema),
        )

    def _build(self, requirement: DatadirRequirement, datadir: DataDir) -> None:
        memory = min(memory_bytes(), self.request.limits.memory_bytes or memory_bytes())
        self.reporter.say(f"{requirement.build.version}: {data_size_text(requirement.size.bytes, memory)}")
        self.on_build(requirement.key)
        with self.reporter.building(requirement.title) as progress:
            prepare_datadir(self._builder(requirement, datadir), progress=progress)
        self.built.add(requirement.key)

    def _builder(self, requirement: DatadirRequirement, datadir: DataDir) -> DatadirBuilder:
        return DatadirBuilder(
            requirement.build,
            requirement.schema,
            datadir,
            launcher=self.engine.launcher,
            say=self.reporter.say,
            settings=self._initial_settings(requirement),
            settings_to_check=self._later_settings(requirement),
            stall_s=self.request.stall_s,
        )

    def _initial_settings(self, requirement: DatadirRequirement) -> dict[str, str]:
        """Returns the settings of every start over these files, including the one that initialises them."""
        return merge(*map(first_start_settings, self._later_settings(requirement)), requirement.settings)

    def _later_settings(self, requirement: DatadirRequirement) -> list[dict[str, str]]:
        """Returns the different settings of later starts over these files, without the test's own settings."""
        here = [variant for variant in self.request.all_variants if is_measured_over(variant, requirement.spec)]
        usual = adapt_redo_capacity(requirement.build.version, self.request.lasting_settings)
        own = (adapt_redo_capacity(requirement.build.version, dict(variant.settings)) for variant in here)
        wanted = [merge(usual, every_start_settings(settings)) for settings in own]
        return [settings for number, settings in enumerate(wanted) if settings not in wanted[:number]]

    def _make_room(self, directories: DataDirs, need: DiskSpace, requirement: DatadirRequirement) -> None:
        """Removes directories that this session built and no longer needs, oldest first, until the next one fits.

        Directories of earlier sessions are never removed: that is for the user to decide."""
        while self.no_longer_needed and not need.fits(free_space(self.request.data)):
            if self.request.keep:
                raise HostUnfitError(
                    f"the data directory of {requirement.build.version} does not fit beside those that --keep keeps",
                    "leave --keep out, or give a larger volume with DATA=",
                )
            key = self.no_longer_needed.pop(0)
            self.reporter.say(f"removing the data directory {key}: {requirement.build.version} needs its room")
            directories.remove(key)
            self._can_grow.discard(key)


def data_size_text(data_bytes: int, memory: int) -> str:
    text = f"about {data_bytes / 1e9:.1f} GB of data; this host has {memory / 1e9:.1f} GB of memory"
    return text if data_bytes < memory else f"{text}: more than can stay in the cache, so a warm start is partly cold"


def _close_bench(bench: Bench) -> None:
    """Ends the bench's server and releases its directory.

    A server that still runs is killed, so that Ctrl-C never waits for a long shutdown. The directory stays marked as in
    use, and the next session starts a server and counts the contents before it trusts them."""
    try:
        bench.server.close()
        if bench.stopped_cleanly:
            bench.mark_whole()
    finally:
        bench.datadir.release()
