"""Plans the trials of a session: which trials run, over which data directories, in which order.

The same request always gives the same plan: the random order within a block follows from its seed. The plan is stored
with the session, so that an interrupted session can be compared with the current request and resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pydantic import TypeAdapter

from recovery.errors import UsageError
from recovery.linux.files import STORED_FORMAT
from recovery.linux.storage import NO_SPACE, DiskSpace
from recovery.model import (
    ALTERNATE,
    MIN_FIRST_READ_TABLES,
    ONE_AFTER_THE_OTHER,
    ONE_DIRECTORY,
    QUESTION_AXIS,
    SETTINGS_AXIS,
    Build,
    Cache,
    ExtraRun,
    Layout,
    NamedSettings,
    Schema,
    Trial,
    Variant,
    VariantSpec,
    Version,
    can,
    capability_versions,
    exceeded_limit,
)
from recovery.mysqld.options import datadir_settings
from recovery.report.fmt import count_text
from recovery.session.estimate import SESSION_OVERHEAD_S

# --- The stored plan

PLAN_FILE = "plan.json"
"""Name of its file in the session's folder."""


@dataclass(frozen=True)
class StoredTrial:
    """Describes a trial as the stored plan lists it."""

    number: int
    version: str
    variant: str
    repeat: int
    extra: str | None = None

    def __str__(self) -> str:
        extra = f" with {self.extra}" if self.extra else ""
        return f"run {self.number} is {self.version} {self.variant}{extra}"


@dataclass(frozen=True)
class StoredPlan:
    """Holds the plan of a session as it is stored in the session's folder."""

    command: str
    """Command that asks for the whole session, including the values that came from other layers of settings."""
    folder: str
    """Working directory of the command: its relative paths refer to this folder."""
    boot: str
    """Boot id of the host when the session last began or was resumed."""
    alternating: bool
    """Whether the trials alternate. This depended on the free space at the beginning and does not change later."""
    trials: tuple[StoredTrial, ...]
    settings: Mapping[str, Mapping[str, str]]
    """Server options, by variant."""
    servers: Mapping[str, str]
    """SHA-256 of each server executable, by version."""
    directories: tuple[str, ...]
    """Keys of the data directories, which identify their contents and the builds that made them."""
    inserts: str
    """SHA-256 of the insert script."""
    built: tuple[str, ...] = field(default=())
    """Keys of the directories that the session built itself, and may remove when it needs the space."""


PLAN_ADAPTER = TypeAdapter(StoredPlan)


def to_json(planned: StoredPlan) -> bytes:
    return (
        json.dumps({"format": STORED_FORMAT, **PLAN_ADAPTER.dump_python(planned, mode="json")}, indent=1) + "\n"
    ).encode()


def stored_trials(trials: Iterable[Trial]) -> tuple[StoredTrial, ...]:
    return tuple(
        StoredTrial(
            trial.number,
            str(trial.version),
            trial.variant.name,
            trial.repeat,
            trial.extra.value if trial.extra else None,
        )
        for trial in trials
    )


def differences(before: StoredPlan, now: StoredPlan, *, same_order: bool = True) -> Iterator[str]:
    """Yields the reasons, in words, why the missing runs would not belong to the same experiment. A session that
    repeats another one may have its trials in another order."""
    for version, fingerprint in before.servers.items():
        found = now.servers.get(version)
        if found is None:
            yield f"the server is {' '.join(now.servers)} now, and was {version}"
        elif found != fingerprint:
            yield f"the server {version} is another build (SHA-256 {found[:12]}, and was {fingerprint[:12]})"
    if before.trials != now.trials and (same_order or _cells(before) != _cells(now)):
        yield _plan_difference(before, now)
    for variant, options in before.settings.items():
        if variant in now.settings and dict(now.settings[variant]) != dict(options):
            yield (
                f"the options of {variant} are {_options_text(now.settings[variant])} now, and were "
                f"{_options_text(options)}"
            )
    if before.inserts != now.inserts:
        yield "the insert script has changed"
    if before.servers == now.servers and before.directories != now.directories:
        yield "the schema template, or options that shape the files, have changed"


def _cells(planned: StoredPlan) -> list[tuple[str, str]]:
    """Returns the cell of each trial that counts, whatever their order is."""
    return sorted((trial.version, trial.variant) for trial in planned.trials if trial.extra is None)


def _plan_difference(before: StoredPlan, now: StoredPlan) -> str:
    if len(before.trials) != len(now.trials):
        return f"the plan has {count_text(len(now.trials), 'run')} now, and had {len(before.trials)}"
    for old, new in zip(before.trials, now.trials, strict=True):
        if old != new:
            return f"the plan has changed: {new} now, and was {old.version} {old.variant} {old.repeat}"
    return "the plan has changed"


def _options_text(options: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items()) or "none"


# --- Data directories, and the trials over them

UNNAMED = NamedSettings("")


@dataclass(frozen=True)
class DatadirSpec:
    """Identifies a data directory by what shapes its files; the build of the server need not be known yet."""

    version: Version
    tables: int | None = None
    """None: the number in the schema."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of a variant that shape the files."""
    layout: Layout | None = None
    schemas: int | None = None
    charset: str | None = None
    """For layout, number of schemas and character set, too, None means the value in the schema."""

    def schema(self, requested: Schema) -> Schema:
        found = replace(
            requested,
            tables=self.tables or requested.tables,
            layout=self.layout or requested.layout,
            charset=self.charset or requested.charset,
        )
        return found if self.schemas is None else found.spread_over(self.schemas)

    @property
    def words(self) -> tuple[str, ...]:
        """Returns what a variant changes about the files, as `name=value` texts."""
        more = (("layout", self.layout), ("schemas", self.schemas), ("charset", self.charset), *self.settings)
        return tuple(f"{name}={value}" for name, value in more if value is not None)

    def grows_into(self, later: DatadirSpec) -> bool:
        """Returns whether `later` differs only in its number of tables; which number is larger is not checked."""
        return self != later and None not in (self.tables, later.tables) and replace(self, tables=later.tables) == later


def datadir_spec(version: Version, variant: Variant) -> DatadirSpec:
    shape = tuple(sorted(datadir_settings(dict(variant.settings)).items()))
    return DatadirSpec(version, variant.tables, shape, variant.layout, variant.schemas, variant.charset)


@dataclass(frozen=True)
class PlannedDatadir:
    """Describes a data directory of the plan: its contents, whether it is complete, and what its build takes."""

    spec: DatadirSpec
    schema: Schema
    settings: Mapping[str, str]
    """Settings that shape the files."""
    key: str
    """Empty if there is none, and the server's build is not known yet."""
    whole: bool
    size: DiskSpace
    """Space that the complete directory takes."""
    need: DiskSpace
    """Space that the part still to be built takes."""
    build_s: float
    """Estimated duration of a build of all tables."""

    @property
    def title(self) -> str:
        return " ".join((f"{self.spec.version}: {count_text(self.schema.all_tables, 'table')}", *self.spec.words))

    def grows_into(self, later: PlannedDatadir) -> bool:
        return self.spec.grows_into(later.spec) and self.schema.total_tables < later.schema.total_tables


@dataclass(frozen=True)
class Plan:
    """Holds the trials of a session in the order in which they run, their data directories, and what both take."""

    trials: tuple[Trial, ...]
    alternating: bool
    """Whether blocks over several data directories take turns, so that a drift of the host affects all alike."""
    versions: tuple[Version, ...] = ()
    """The requested versions in the requested order; one of them may have no trial."""
    variants: tuple[Variant, ...] = ()
    """The variants in the order of the report."""
    names: Mapping[Version, str] = field(default_factory=dict)
    """Versions that stand for one whose release is determined at the start, and what the user wrote."""
    unavailable: tuple[str, ...] = ()
    """Messages that say what is not measured, and why."""
    datadirs: tuple[PlannedDatadir, ...] = ()
    """In the order in which they are needed."""
    room: DiskSpace = NO_SPACE
    """Free space for them when the session was planned."""
    trial_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Estimated duration of a trial, by version and variant."""
    servers: Mapping[Version, Build] = field(default_factory=dict)
    """Empty until they are fetched."""
    done: frozenset[int] = frozenset()
    """Numbers of the trials that ended before an interruption and need not be repeated."""
    built: frozenset[str] = frozenset()
    """Keys of the data directories that the session built before an interruption."""

    @property
    def known_versions(self) -> tuple[Version, ...]:
        return tuple(version for version in self.versions if version not in self.names)

    @property
    def measured_versions(self) -> tuple[Version, ...]:
        """Returns the versions that have trials, in the requested order."""
        found = {trial.version for trial in self.trials}
        return tuple(version for version in self.versions if version in found)

    @property
    def cells(self) -> tuple[tuple[str, str], ...]:
        """Returns the versions with the names of their variants that have trials, in the order of the report."""
        found = {(trial.version, trial.variant.name) for trial in self.trials}
        every = ((version, variant.name) for version in self.versions for variant in self.variants)
        return tuple((str(version), name) for version, name in every if (version, name) in found)

    def name(self, version: Version) -> str:
        """Returns the version, or what the user wrote for it."""
        return self.names.get(version, str(version))

    @property
    def specs(self) -> tuple[DatadirSpec, ...]:
        """Returns the data directories in the order in which they are needed."""
        return tuple(dict.fromkeys(datadir_spec(trial.version, trial.variant) for trial in self.trials))

    @property
    def order(self) -> str:
        """Returns a description of the order for the report."""
        what = "versions" if len({trial.version for trial in self.trials}) > 1 else "data directories"
        if len(self.specs) < 2:
            return ONE_DIRECTORY
        return f"{what} {ALTERNATE if self.alternating else ONE_AFTER_THE_OTHER}"

    def is_last(self, trial: Trial) -> bool:
        """Returns whether no later trial uses the same data directory."""
        spec = datadir_spec(trial.version, trial.variant)
        return not any(datadir_spec(later.version, later.variant) == spec for later in self.trials[trial.number :])

    def over(self, spec: DatadirSpec) -> tuple[Trial, ...]:
        """Returns the trials that are measured over this data directory."""
        return tuple(trial for trial in self.trials if datadir_spec(trial.version, trial.variant) == spec)

    def variants_over(self, spec: DatadirSpec) -> tuple[str, ...]:
        found = {trial.variant.name for trial in self.over(spec)}
        return tuple(variant.name for variant in self.variants if variant.name in found)

    @property
    def needed(self) -> tuple[PlannedDatadir, ...]:
        """Returns the data directories over which trials are still missing."""
        specs = {datadir_spec(trial.version, trial.variant) for trial in self.trials if trial.number not in self.done}
        return tuple(datadir for datadir in self.datadirs if datadir.spec in specs)

    @property
    def no_longer_needed(self) -> tuple[PlannedDatadir, ...]:
        """Returns the complete data directories that this session built and no longer needs."""
        needed = self.needed
        return tuple(
            datadir
            for datadir in self.datadirs
            if datadir.whole and datadir.key in self.built and datadir not in needed
        )

    @property
    def builds(self) -> tuple[tuple[PlannedDatadir, float], ...]:
        """Returns the data directories that are still to be built, with the estimated seconds of each build.

        Only the rest counts if a smaller directory grows into this one."""
        lacking = [datadir for datadir in self.needed if not datadir.whole]
        return tuple(
            (
                datadir,
                datadir.build_s - max((less.build_s for less in lacking if less.grows_into(datadir)), default=0.0),
            )
            for datadir in lacking
        )

    @property
    def seconds(self) -> float:
        """Returns the estimated duration of the session."""
        return SESSION_OVERHEAD_S + sum(seconds for _, seconds in self.builds) + self.trials_s(self.trials)

    def trials_s(self, trials: Iterable[Trial]) -> float:
        return sum(self.trial_s[str(trial.version), trial.variant.name] for trial in trials)


def combined_need(plans: Iterable[Plan]) -> DiskSpace:
    """Returns the disk space of several sessions. A directory that they share or that grows counts once."""
    needs = {
        (datadir.spec.version, datadir.schema, tuple(sorted(datadir.settings.items()))): datadir.need
        for plan in plans
        for datadir in plan.datadirs
        if not any(map(datadir.grows_into, plan.datadirs))
    }
    return sum(needs.values(), NO_SPACE)


def build_variants(
    specs: Iterable[VariantSpec],
    named: Sequence[NamedSettings] = (),
    points: Sequence[int] = (),
    *,
    common: NamedSettings = UNNAMED,
) -> tuple[Variant, ...]:
    """Returns a variant for each combination of specification, named settings and number of tables."""
    ways = tuple(specs)
    return tuple(
        Variant(
            name="-".join(map(str, filter(None, (spec.name, own.label, tables)))),
            cache=spec.cache,
            settings=tuple((dict(spec.settings) | dict(own.settings)).items()),
            label=" ".join(filter(None, (own.label, *(f"{name}={value}" for name, value in spec.settings)))),
            tables=tables,
            layout=own.layout or spec.layout,
            charset=spec.charset,
            schemas=own.schemas,
            task=spec.task,
            needs=spec.needs,
            metric=spec.metric,
            axes=(*spec.axes, *(((SETTINGS_AXIS, own.label),) if own.label else ())),
        )
        for tables in points or (None,)
        for own in (_without_common(settings, common) for settings in named or (UNNAMED,))
        for spec in ways
    )


def _without_common(named: NamedSettings, common: NamedSettings) -> NamedSettings:
    """Returns the variant without what all have in common: otherwise equal files would need two directories."""
    return NamedSettings(
        named.label,
        tuple(pair for pair in named.settings if pair not in common.settings),
        None if named.layout == common.layout else named.layout,
        None if named.schemas == common.schemas else named.schemas,
    )


def datadir_specs(versions: Iterable[Version], variants: Sequence[Variant]) -> tuple[DatadirSpec, ...]:
    return tuple(
        dict.fromkeys(
            datadir_spec(version, variant)
            for version in versions
            for variant in variants
            if is_supported_by(variant, version)
        )
    )


def is_measured_over(variant: Variant, spec: DatadirSpec) -> bool:
    """Returns whether the variant is measured over this data directory."""
    return is_supported_by(variant, spec.version) and datadir_spec(spec.version, variant) == spec


def is_supported_by(variant: Variant, version: Version) -> bool:
    """Returns whether this server has the capability that the variant needs."""
    return variant.needs is None or can(version, variant.needs)


_Item = TypeVar("_Item")
_Turn = tuple[int, ExtraRun | None]
"""Number of a block, and the purpose of its runs if they are extra."""


def plan_trials(
    versions: Sequence[Version],
    variants: Sequence[Variant],
    *,
    repeats: int,
    alternating: bool,
    extras: Sequence[ExtraRun] = (),
    first: int = 1,
    first_reads: Collection[DatadirSpec] = (),
    seed: int | None = None,
) -> tuple[Trial, ...]:
    """Returns the trials in their order. Raises UsageError if a report could not show that many.

    A block is one trial of each variant over one data directory. In an alternating plan, block n of every directory
    comes before block n + 1 of any; otherwise all blocks of a directory come one after the other. Blocks of extra runs
    follow the counted ones, and the first reads of `first_reads` come before them. `first` is the number of the first
    block: random choices in its trials depend on this number.

    `seed` determines the order within a block: that of the directories, if they alternate, and that of the variants
    over a directory. None: the given order. Warm starts follow the cold ones, which leave them the files in the
    cache."""
    specs = datadir_specs(versions, variants)
    counted, beyond = range(first, first + repeats), first + repeats
    turns: list[_Turn] = [
        *([(_FIRST_READ_BLOCK, ExtraRun.FIRST_READ)] if first_reads else ()),
        *((repeat, None) for repeat in counted),
        *enumerate(extras, start=beyond),
    ]
    if alternating:
        blocks = [(spec, turn) for turn in turns for spec in _in_random_order(specs, seed, turn[0])]
    else:
        blocks = [(spec, turn) for spec in specs for turn in turns]
    steps: list[tuple[Version, Variant, _Turn]] = []
    for spec, turn in blocks:
        here = [variant for variant in variants if is_measured_over(variant, spec)]
        if turn[1] is ExtraRun.FIRST_READ:
            ordered = [variant for variant in here if _is_start(variant, Cache.COLD)][:1] if spec in first_reads else []
        elif seed is None:
            ordered = here
        else:
            ordered = _in_random_order(here, seed, turn[0], specs.index(spec))
            ordered.sort(key=lambda variant: _is_start(variant, Cache.WARM))
        steps += [(spec.version, variant, turn) for variant in ordered]
    if many := exceeded_limit(runs=len(steps), versions=len(versions), variants=len(variants)):
        raise UsageError(f"a session of {many} is too large", "measure fewer, or divide them among several sessions")
    return tuple(
        Trial(number, version, variant, repeat, extra)
        for number, (version, variant, (repeat, extra)) in enumerate(steps, start=1)
    )


_FIRST_READ_BLOCK = 0


def needs_first_read(schema: Schema) -> bool:
    """Returns whether a data directory gets a first read: an uncounted cold start before the counted ones.

    One of the user's own always gets one: what its start reads does not follow from its number of tables."""
    return schema.own is not None or schema.all_tables >= MIN_FIRST_READ_TABLES


def _is_start(variant: Variant, cache: Cache) -> bool:
    return variant.task is None and variant.cache is cache


def are_warm_starts_only(variants: Iterable[Variant]) -> bool:
    return all(_is_start(variant, Cache.WARM) for variant in variants)


def _in_random_order(items: Sequence[_Item], seed: int | None, *place: int) -> list[_Item]:
    """Returns the items in an order that only depends on the seed and the place in the plan, on every host and with
    every version of Python; in the given order without a seed."""
    if seed is None:
        return list(items)
    numbers = (hashlib.sha256(f"{seed} {place} {number}".encode()).digest() for number in range(len(items)))
    return [item for _, item in sorted(zip(numbers, items, strict=True), key=lambda pair: pair[0])]


def variants_by_datadir(versions: Sequence[Version], variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """Returns the variants that are measured, those over the same data directory together: the order of reports."""
    specs = datadir_specs(versions, variants)
    return tuple(dict.fromkeys(variant for spec in specs for variant in variants if is_measured_over(variant, spec)))


# --- Questions that not every server supports


def unsupported_questions(versions: Sequence[Version], variants: Sequence[Variant]) -> tuple[str, ...]:
    """Returns a message for each question that some of the versions do not support."""
    needs = restricted_questions(variants)
    without = {
        name: [str(version) for version in versions if not is_supported_by(variant, version)]
        for name, variant in needs.items()
    }
    return tuple(
        f"{name} is not measured with {' and '.join(found)}: it needs {capability_versions(str(needs[name].needs))}."
        for name, found in without.items()
        if found
    )


def restricted_questions(variants: Sequence[Variant]) -> dict[str, Variant]:
    """Returns, by name, a variant of each question that needs a capability of the server.

    One is enough: all variants of a question need the same capability."""
    return {
        dict(variant.axes).get(QUESTION_AXIS, variant.name): variant
        for variant in variants
        if variant.needs is not None
    }
