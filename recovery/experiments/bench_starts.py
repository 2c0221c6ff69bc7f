"""The starts and ends of one server, over its data directory, as the bench of an experiment has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pymysql

from recovery.builds.packages import Tool
from recovery.errors import ServerFailedError, ServerKilledError
from recovery.experiments.bench_cache import BenchCache
from recovery.experiments.server_description import check_differs, describe_build, describe_options
from recovery.experiments.user_command import run_user_command
from recovery.linux.page_cache import CacheDropper
from recovery.model import Cache, ExtraRun, Measurement, OpenedFiles, Phase, Schema, StackSamples, Variant
from recovery.mysqld.client import message_of, run_to_last_row
from recovery.mysqld.datadir import DataDir, removal_hint
from recovery.mysqld.options import (
    adapt_redo_capacity,
    every_start_settings,
    merge,
    timed_only_settings,
    wait_counting_settings,
)
from recovery.mysqld.server import Server, StartCompanion
from recovery.mysqld.table_files import table_files
from recovery.workload.first_queries import NamedQueries, first_queries

if TYPE_CHECKING:  # imported below where a session traces or samples stacks
    from recovery.experiments.opened_files import OpenedFilesTracer
    from recovery.profiling.profile import StackSampler


@dataclass(frozen=True)
class Conditions:
    statements: tuple[str, ...]
    """Statements of the rendered insert script."""
    as_published: bool = False
    """Whether pages that the insert script has read stay in the cache, as in the published experiment."""
    before_start: tuple[str, ...] = ()
    """A command of the user's to run before each timed start."""
    before_kill: tuple[str, ...] = ()
    """A command of the user's to run before each kill, or the word for a load of the tool's own."""
    first_queries: str | NamedQueries = ()
    """Queries to time after each timed start."""
    dropper: CacheDropper | None = None
    """Drops the caches of the whole host; with None, files are evicted one by one."""
    timed_settings: tuple[tuple[str, str], ...] = ()
    """Options of the timed start only: a server accepts no inserts with them, so other starts do not use them."""
    labels: tuple[str, ...] = ()
    """Labels of all variants, in the order of the report."""
    samplers: tuple[str, ...] = ()
    """Programs that can take stack traces, best first."""
    programs: Mapping[str, Tool] = field(default_factory=dict)
    """Client programs such as sysbench, by name."""
    session: str = ""
    """Start time of the session, used in the names of data directories that are kept after failed starts."""


_DEFAULT_VARIANT = Variant("", Cache.COLD)
"""A variant without settings of its own."""


class ServerStarts:
    """The starts and ends of one server over its data directory during a session; `cache` has its pages."""

    def __init__(
        self,
        server: Server,
        datadir: DataDir,
        schema: Schema,
        *,
        conditions: Conditions,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.server = server
        self.datadir = datadir
        self.schema = schema
        self.conditions = conditions
        original = datadir.original if self.is_as_is else None
        self.files = table_files(datadir.mysql, schema, original=original)
        self._tracer: OpenedFilesTracer | None = None
        """Records the files that the timed start of this trial opens; None unless it is the extra run for that."""
        self.before_start_s: float | None = None
        """Seconds of the user's command before the last timed start; None without one."""
        self.on_step = on_step
        """Called with a description of each step before it begins."""
        self.notes: list[str] = []
        """Notes for the report about the trials on this bench."""
        self.run_notes: list[str] = []
        """Notes about the run that is under way."""
        self._variant = _DEFAULT_VARIANT
        self._extra: ExtraRun | None = None
        self.repeat = 1
        """Number of the run of this variant. It seeds random choices, so that they are the same in another session."""
        self._collect_stacks: Callable[[], StackSamples] | None = None
        """Returns the stack samples of the last timed start; None if it was not sampled."""
        self._described: dict[str, dict[str, str]] = {}
        """Server descriptions by the label of the variant, each read once."""
        self.cpus_shared = False
        """Whether server and clients share all CPUs because pinning the server was refused."""
        self.stopped_cleanly = datadir.state.status == "whole"
        """Whether the server was stopped cleanly and not started since: the ledger and the files agree."""
        self.can_recover = True
        """False if the server failed at the timed start of this trial, other than by a kill from outside."""
        self._untimed = 0
        self.cache = BenchCache(datadir.mysql, self.files, conditions.dropper, on_step=lambda step: self.on_step(step))

    def configure(self, variant: Variant, *, extra: ExtraRun | None, repeat: int) -> None:
        """Sets the variant for the next starts; `extra` adds what an extra run observes to what is measured."""
        known = adapt_redo_capacity(self.server.build.version, dict(variant.settings))
        self._variant = replace(variant, settings=tuple(known.items()))
        self._extra = extra
        self._tracer = None
        if extra is ExtraRun.TRACE:
            from recovery.experiments.opened_files import OpenedFilesTracer

            self._tracer = OpenedFilesTracer(self.datadir.mysql, self.files)
        self.repeat = repeat
        self.run_notes.clear()
        self.can_recover = True

    def reset_variant(self) -> None:
        """Makes the next starts those of a variant without settings."""
        self._variant = _DEFAULT_VARIANT

    @property
    def is_as_is(self) -> bool:
        """Whether every run times the recovery that is ahead of a copy of the user's own data directory."""
        return self.schema.own is not None and self.schema.own.as_is

    @property
    def description(self) -> dict[str, str]:
        return describe_build(self.server.build, self.schema, self.datadir.state) | self._described.get(
            self._variant.label, {}
        )

    @property
    def settings(self) -> dict[str, str]:
        return every_start_settings(dict(self._variant.settings))

    @property
    def _timed_settings(self) -> dict[str, str]:
        return dict(self.conditions.timed_settings) | timed_only_settings(dict(self._variant.settings))

    def start(self, log_name: str | None = None) -> None:
        """Starts the server without measuring. If it fails, the hint names the command that removes the data
        directory."""
        self._untimed += 1
        self.on_step("starting the server")
        try:
            self._start(log_name or f"untimed-{self._untimed}.err")
        except ServerFailedError as error:
            error.hint = error.hint or (
                f"check the server options, if you gave any; only if its files are damaged: "
                f"{removal_hint(self.datadir.path)}"
            )
            raise
        if self._variant.task is not None and self._variant.settings:
            self.describe()
            check_differs(self._variant.label, self._described, self.conditions.labels)

    def timed_start(self, log_name: str) -> Measurement:
        sampling = self.stack_sampler()

        def start() -> Measurement:
            return self._start(log_name, self._timed_settings, companion=sampling.of if sampling else nullcontext)

        tracer = self._tracer
        self.on_step("timed start")
        try:
            measured = start() if tracer is None else tracer.trace(start, lambda: self.server.process)
        except ServerFailedError as error:
            self.can_recover = isinstance(error, ServerKilledError)
            raise
        self.cache.last_read_bytes = measured.metrics.get("read_bytes")
        self._collect_stacks = None
        if sampling is not None:
            process, phases = self.server.process, measured.startup.phases
            self._collect_stacks = partial(
                sampling.samples, process.pid, since=process.started_at, phases=phases, note=self.run_notes.append
            )
        return self._with_first_queries(measured)

    def _with_first_queries(self, measured: Measurement) -> Measurement:
        """Runs the first queries, if there are any, and returns the start with a phase for each after its own."""
        given, phases = self.conditions.first_queries, list(measured.startup.phases)
        if not given:
            return measured
        self.on_step("first queries")
        since_s = self.server.process.started_at
        with self.server.session() as connection:
            for name, statement in first_queries(given, connection):
                began_s = time.monotonic() - since_s
                try:
                    run_to_last_row(connection, statement)
                except pymysql.MySQLError as error:
                    raise self.server.failure(f"the query '{name}' failed: {message_of(error)}") from error
                phases.append(Phase(name, began_s, time.monotonic() - since_s))
        return replace(measured, startup=replace(measured.startup, phases=tuple(phases)))

    def run_before_start(self) -> bool:
        """Runs the user's command for the next timed start, and returns whether there is one."""
        command = self.conditions.before_start
        if command:
            self.on_step("running BEFORE_START")
            self.before_start_s = run_user_command("BEFORE_START", command)
        return bool(command)

    @property
    def metrics(self) -> dict[str, float]:
        """The seconds of the user's command before the last timed start, and of the last clean shutdown."""
        metrics = {"before_start_s": self.before_start_s, "shutdown_s": self.server.shutdown_s}
        return {name: value for name, value in metrics.items() if value is not None}

    def stacks(self) -> StackSamples:
        """Returns the stack samples of the last timed start, if any were taken; the server must still run."""
        return StackSamples() if self._collect_stacks is None else self._collect_stacks()

    def stack_sampler(self) -> StackSampler | None:
        if self._extra is not ExtraRun.STACKS:
            return None
        from recovery.profiling.profile import StackSampler

        executable = self.server.build.mysqld.name
        return StackSampler(self.conditions.samplers, executable, self.server.logdir / "stacks")

    def kill(self) -> str:
        ended = str(self.server.kill())
        self._on_ended()
        return ended

    def stop(self) -> str:
        self.on_step("shutting down")
        ended = str(self.server.stop())
        self._on_ended()
        self.stopped_cleanly = True
        return ended

    def add_note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def opened_files(self) -> OpenedFiles:
        """Returns the files that the timed start before the last stop opened, if it was traced."""
        return OpenedFiles() if self._tracer is None else self._tracer.result()

    def _on_ended(self) -> None:
        if self._tracer is not None:
            self._tracer.on_ended()

    def _start(
        self, log_name: str, settings: dict[str, str] | None = None, companion: StartCompanion = nullcontext
    ) -> Measurement:
        self.stopped_cleanly = False
        if self._tracer is not None:
            self._tracer.on_start()
        chosen = self.settings | (settings or {})
        if self._variant.task is not None and self._extra is ExtraRun.WAITS:
            chosen |= wait_counting_settings(merge(self.server.settings, chosen))
        return self.server.start(log_name=log_name, settings=chosen, companion=companion)

    def on_restored(self) -> None:
        if self._tracer is not None:
            self._tracer.on_restored()

    def describe(self) -> None:
        """Reads the description of the running server, once for each variant."""
        if self._variant.label not in self._described:
            given = dict(self._variant.settings) | self._timed_settings
            self._described[self._variant.label] = describe_options(self.server, given)

    def clear_logs(self) -> None:
        """Deletes the error logs of earlier trials; every start writes a separate log."""
        for old in self.server.logdir.glob("*.err"):
            old.unlink()
