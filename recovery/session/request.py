"""Defines the request for a session: what the user asked for, in the types of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from recovery.experiments.experiment import ExperimentOptions
from recovery.linux.privileges import NO_STEPS, Steps
from recovery.model import (
    NO_LIMITS,
    ExtraRun,
    Limits,
    NamedSettings,
    Schema,
    Variant,
    VariantSpec,
    Version,
)
from recovery.mysqld.options import every_start_settings, merge, timed_only_settings
from recovery.mysqld.startup import DEFAULT_STALL_S
from recovery.session.plan import build_variants


@dataclass(frozen=True)
class OwnServer:
    """A server of the user's own (MYSQLD)."""

    place: str
    """Its executable, folder or tarball, or the URL of a tarball."""
    name: str = ""
    """Part of its version, such as `patched` in 8.0.31+patched. Empty: the version alone."""

    def __str__(self) -> str:
        return f"{self.name}={self.place}" if self.name else self.place


@dataclass(frozen=True)
class Servers:
    """The servers to measure: where they come from, and what the user gave for all or some of them."""

    versions: tuple[str, ...] = ()
    mysqld: tuple[OwnServer, ...] = ()
    archive: str | None = None
    offline: bool = False
    engine: str = "auto"
    """`auto`, `docker` or `local`."""
    image: str | None = None
    registry: str | None = None
    baseline: str | None = None
    """The one of `names` that the others are compared with. None: the first."""
    options: tuple[tuple[str, str], ...] = ()
    """Options of mysqld that the user gave for all variants."""
    named_settings: tuple[NamedSettings, ...] = ()
    """Settings to compare, under the names that the user gave them."""
    limits: Limits = NO_LIMITS
    """Limits of the measured servers; tables are built without limits."""
    open_files: int | None = None
    """Number of files that every server may open. None: as many as this process."""

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the servers as the user wrote them; empty for one of the user's own without a name."""
        return tuple(own.name for own in self.mysqld if own.name) or self.versions

    def exact_baseline(self, versions: Sequence[Version]) -> Version | None:
        """Returns the exact version of the baseline: the requested 9.7 may have been resolved to 9.7.4."""
        return None if self.baseline is None else versions[self.names.index(self.baseline)]


@dataclass(frozen=True)
class SessionSizes:
    """How many tables, rows, inserts and runs."""

    schema: Schema
    points: tuple[int, ...] = ()
    """Numbers of tables to measure at, ascending; the last is the schema's. Empty: only the number of the schema."""
    predict: int | None = None
    """Number of tables to predict a start for."""
    runs: int | None = None
    """Number of runs of every variant. None: as many as `precision` needs, at most `max_runs`."""
    precision: float | None = None
    """Add runs until half of every interval is at most this share of its mean. None: measure `runs` runs."""
    max_runs: int | None = None
    """Number of runs after which a precision is given up. None without one."""
    inserts: int = 100
    """Number of statements in the insert script, unless the user's own template decides otherwise."""
    insert_template: Path | None = None

    @property
    def repeats(self) -> int:
        """Returns the planned number of runs of every variant; with a precision it may end earlier."""
        return self.runs or self.max_runs or 1

    @property
    def most_tables(self) -> int:
        """Returns the largest number of tables in one data directory."""
        return max(self.points, default=self.schema.tables) * self.schema.databases


@dataclass(frozen=True)
class Method:
    """How servers are measured, and what is recorded in addition to the main metric."""

    as_published: bool = False
    """Do not empty the cache after the inserts."""
    trace: bool = False
    """Record which files a start opens, in one extra run of every variant."""
    stacks: str | None = None
    """Program that takes stacks in one extra run of every variant, or `auto`. None: no stacks."""
    waits: bool = False
    """Count what the server's threads wait for, in one extra run of every variant."""
    floor: bool = False
    """Measure how fast the storage reads the same files without a server (the floor)."""
    probe: bool = True
    """Measure the speed of the storage before anything is built."""
    stall_s: float = DEFAULT_STALL_S
    """Seconds without log, CPU or I/O after which a start is given up."""
    refused: Steps = NO_STEPS
    """Privileged steps that this session must not take, even as root."""

    @property
    def extras(self) -> tuple[ExtraRun, ...]:
        """Returns the kinds of extra runs that every variant gets after the counted ones."""
        wished = {ExtraRun.TRACE: self.trace, ExtraRun.STACKS: self.stacks is not None, ExtraRun.WAITS: self.waits}
        return tuple(extra for extra, is_wished in wished.items() if is_wished)


@dataclass(frozen=True)
class Output:
    """Where data directories and results are kept, and what is said about the results."""

    data: Path
    results: Path
    keep: bool = False
    """Never remove a data directory to make room for the next version."""
    note: str | None = None
    """The user's description of what the host does not report, such as the type of a cloud disk."""
    fail_over: float | None = None
    """Share of the baseline by which a version may be slower before the session ends with an error."""
    repeat_of: str | None = None
    """Name of the first of several sessions of the same measurement, if this is a later one."""


@dataclass(frozen=True)
class Request:
    """Describes one session as the user asked for it. Each row of the option table names the field of its value."""

    scenario: str
    variant_specs: tuple[VariantSpec, ...]
    """Each way to measure a server, as the experiment defines it."""
    servers: Servers
    sizes: SessionSizes
    method: Method
    output: Output
    experiment_options: ExperimentOptions = field(default_factory=ExperimentOptions)
    """Options that only some experiments have."""
    settings_of_experiment: tuple[tuple[str, str], ...] = ()
    """Server options that the experiment sets; the user's options take precedence."""
    unavailable: tuple[str, ...] = ()
    """Messages that say which questions of the experiment this host cannot measure, and why."""
    command: str = ""
    """The exact command that repeats it."""
    stored_settings: tuple[tuple[str, str | int | float | bool | None], ...] = ()
    """The options as they are stored with the session, by name."""

    @property
    def all_variants(self) -> tuple[Variant, ...]:
        schema = self.sizes.schema
        common = NamedSettings("", self.servers.options, schema.layout, schema.databases)
        return build_variants(self.variant_specs, self.servers.named_settings, self.sizes.points, common=common)

    @property
    def lasting_settings(self) -> dict[str, str]:
        """Returns the server options that all variants have in common, for every start."""
        return every_start_settings(merge(dict(self.settings_of_experiment), dict(self.servers.options)))

    @property
    def timed_settings(self) -> tuple[tuple[str, str], ...]:
        """Returns the server options that all variants have in common, for the timed start only."""
        return tuple(timed_only_settings(dict(self.servers.options)).items())


def with_seed(request: Request, seed: int) -> Request:
    """Returns the request with this seed, which is stored with its session, unless it has one."""
    if request.experiment_options.seed is not None:
        return request
    stored = {**dict(request.stored_settings), "seed": seed}
    options = replace(request.experiment_options, seed=seed)
    return replace(request, experiment_options=options, stored_settings=tuple(stored.items()))
