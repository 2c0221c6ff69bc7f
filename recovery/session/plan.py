"""Plans the trials of a session: which trials run, over which data directories, in which order.

The same request always gives the same plan. The plan is stored with the session, so that an interrupted session can be
compared with the current request and resumed."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter

from recovery.errors import UsageError
from recovery.linux.files import FORMAT
from recovery.model import (
    QUESTION,
    Build,
    Extra,
    Layout,
    Named,
    Schema,
    Trial,
    Variant,
    Version,
    Work,
    can,
    more_than_a_report_shows,
    who_can,
)
from recovery.mysqld.options import shaping

# --- The stored plan

PLAN = "plan.json"
"""Name of its file in the session's folder."""


@dataclass(frozen=True)
class Step:
    """Describes a trial as the stored plan lists it."""

    number: int
    version: str
    variant: str
    repeat: int
    extra: str | None = None

    def __str__(self) -> str:
        extra = f" with {self.extra}" if self.extra else ""
        return f"run {self.number} is {self.version} {self.variant} {self.repeat}{extra}"


@dataclass(frozen=True)
class Planned:
    """Holds the plan of a session as it is stored in the session's folder."""

    command: str
    """Command that asks for the whole session, including the values that came from other layers of settings."""
    folder: str
    """Working directory of the command: its relative paths refer to this folder."""
    boot: str
    """Boot id of the host when the session last began or was resumed."""
    alternating: bool
    """Whether the trials alternate. This depended on the free space at the beginning and does not change later."""
    trials: tuple[Step, ...]
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

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(step.number for step in self.trials)


ADAPTER = TypeAdapter(Planned)


def to_json(planned: Planned) -> bytes:
    return (json.dumps({"format": FORMAT, **ADAPTER.dump_python(planned, mode="json")}, indent=1) + "\n").encode()


def steps(trials: Iterable[Trial]) -> tuple[Step, ...]:
    return tuple(
        Step(one.number, str(one.version), one.variant.name, one.repeat, one.extra.value if one.extra else None)
        for one in trials
    )


def settings_of(trials: Iterable[Trial]) -> dict[str, dict[str, str]]:
    return {one.variant.name: dict(one.variant.settings) for one in trials}


def servers_of(builds: Iterable[Build]) -> dict[str, str]:
    return {str(build.version): build.fingerprint for build in builds}


def differences(before: Planned, now: Planned) -> Iterator[str]:
    """Yields the reasons, in words, why the missing runs would not belong to the same experiment."""
    for version, fingerprint in before.servers.items():
        found = now.servers.get(version)
        if found is None:
            yield f"the server is {' '.join(now.servers)} now, and was {version}"
        elif found != fingerprint:
            yield f"the server {version} is another build (SHA-256 {found[:12]}, and was {fingerprint[:12]})"
    if before.trials != now.trials:
        yield _other_plan(before, now)
    for variant, options in before.settings.items():
        if variant in now.settings and dict(now.settings[variant]) != dict(options):
            yield f"the options of {variant} are {_told(now.settings[variant])} now, and were {_told(options)}"
    if before.inserts != now.inserts:
        yield "the insert script is another one now"
    if before.servers == now.servers and before.directories != now.directories:
        yield "the tables are made in another way now: their template or the options that shape them have changed"


def _other_plan(before: Planned, now: Planned) -> str:
    if len(before.trials) != len(now.trials):
        return f"the plan has {len(now.trials)} runs now, and had {len(before.trials)}"
    for old, new in zip(before.trials, now.trials, strict=True):
        if old != new:
            return f"the plan is another one: {new} now, and was {old.version} {old.variant} {old.repeat}"
    return "the plan is another one"


def _told(options: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items()) or "none"


UNNAMED = Named("")
SETTINGS = "settings"
"""Name of the axis for the variants that the user named."""


@dataclass(frozen=True)
class Place:
    """Identifies a data directory by what shapes its files; the build of the server need not be known yet."""

    version: Version
    tables: int | None = None
    """None: the number in the schema."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of a variant that shape the files."""
    layout: Layout | None = None
    schemas: int | None = None
    """For the layout and the number of schemas, too, None means the value in the schema."""

    def schema(self, asked: Schema) -> Schema:
        found = replace(asked, tables=self.tables or asked.tables, layout=self.layout or asked.layout)
        return found if self.schemas is None else found.spread_over(self.schemas)

    @property
    def words(self) -> tuple[str, ...]:
        """Returns what a variant changes about the files, as `name=value` texts."""
        more = (("layout", self.layout), ("schemas", self.schemas), *self.settings)
        return tuple(f"{name}={value}" for name, value in more if value is not None)

    def grows_into(self, later: Place) -> bool:
        """Returns whether `later` differs only in its number of tables; which number is larger is not checked."""
        return self != later and None not in (self.tables, later.tables) and replace(self, tables=later.tables) == later


def place_of(version: Version, variant: Variant) -> Place:
    shape = tuple(sorted(shaping(dict(variant.settings)).items()))
    return Place(version, variant.tables, shape, variant.layout, variant.schemas)


@dataclass(frozen=True)
class Plan:
    """Holds the trials of a session in the order in which they run."""

    trials: tuple[Trial, ...]
    alternating: bool
    """Whether blocks over several data directories take turns, so that a drift of the host affects all alike."""
    versions: tuple[Version, ...] = ()
    """The requested versions in the requested order; one of them may have no trial."""

    @property
    def places(self) -> tuple[Place, ...]:
        """Returns the places in the order in which they are needed."""
        return tuple(dict.fromkeys(place_of(trial.version, trial.variant) for trial in self.trials))

    @property
    def order(self) -> str:
        """Returns a description of the order for the report."""
        what = "versions" if len({trial.version for trial in self.trials}) > 1 else "data directories"
        if len(self.places) < 2:
            return "one version"
        return f"{what} alternate, block by block" if self.alternating else f"{what} run one after the other"

    def is_last(self, trial: Trial) -> bool:
        """Returns whether no later trial uses the same data directory."""
        place = place_of(trial.version, trial.variant)
        return not any(place_of(later.version, later.variant) == place for later in self.trials[trial.number :])

    def over(self, place: Place) -> tuple[Trial, ...]:
        """Returns the trials that are measured over this data directory."""
        return tuple(trial for trial in self.trials if place_of(trial.version, trial.variant) == place)

    def variants_over(self, place: Place) -> tuple[str, ...]:
        return tuple(dict.fromkeys(trial.variant.name for trial in self.over(place)))

    def is_missing(self, place: Place, done: Container[int]) -> bool:
        """Returns whether a trial over this data directory is not among those that are done."""
        return any(trial.number not in done for trial in self.over(place))


@dataclass(frozen=True)
class Begun:
    """Describes how much of its plan an interrupted session has done."""

    done: frozenset[int] = frozenset()
    """Numbers of the trials that have ended and need not be repeated."""
    alternating: bool | None = None
    """Whether its trials alternate. None if the order is not chosen yet."""
    built: frozenset[str] = frozenset()
    """Keys of the data directories that it has built."""


NOTHING_YET = Begun()


def variants_of(
    works: Iterable[Work],
    named: Sequence[Named] = (),
    points: Sequence[int] = (),
    *,
    common: Named = UNNAMED,
) -> tuple[Variant, ...]:
    """Returns a variant for each combination of work, named settings and number of tables."""
    ways = tuple(works)
    return tuple(
        Variant(
            name="-".join(map(str, filter(None, (work.name, own.label, tables)))),
            cache=work.cache,
            settings=tuple((dict(work.settings) | dict(own.settings)).items()),
            label=" ".join(filter(None, (own.label, *(f"{name}={value}" for name, value in work.settings)))),
            tables=tables,
            layout=own.layout or work.layout,
            schemas=own.schemas,
            task=work.task,
            needs=work.needs,
            figure=work.figure,
            axes=(*work.axes, *(((SETTINGS, own.label),) if own.label else ())),
        )
        for tables in points or (None,)
        for own in (_own(one, common) for one in named or (UNNAMED,))
        for work in ways
    )


def _own(named: Named, common: Named) -> Named:
    """Returns the variant without what all have in common: otherwise equal files would need two directories."""
    return Named(
        named.label,
        tuple(pair for pair in named.settings if pair not in common.settings),
        None if named.layout == common.layout else named.layout,
        None if named.schemas == common.schemas else named.schemas,
    )


def places_for(versions: Iterable[Version], variants: Sequence[Variant]) -> tuple[Place, ...]:
    return tuple(
        dict.fromkeys(
            place_of(version, variant) for version in versions for variant in variants if concerns(variant, version)
        )
    )


def is_over(variant: Variant, place: Place) -> bool:
    """Returns whether the variant is measured over this data directory."""
    return concerns(variant, place.version) and place_of(place.version, variant) == place


def concerns(variant: Variant, version: Version) -> bool:
    """Returns whether this server has the capability that the variant needs."""
    return variant.needs is None or can(version, variant.needs)


def make_plan(
    versions: Sequence[Version],
    variants: Sequence[Variant],
    *,
    repeats: int,
    alternating: bool,
    extras: Sequence[Extra] = (),
    first: int = 1,
) -> Plan:
    """Returns the plan of the trials. Raises UsageError if a report could not show that many.

    A block is every variant over one data directory, once: cold, then warm. In an alternating plan, block n of every
    directory comes before block n + 1 of any; otherwise all blocks of a directory come one after the other. Extra
    blocks follow the counted ones. `first` is the number of the first block: random choices in its trials depend on
    this number."""
    places = places_for(versions, variants)
    beyond = first + repeats
    turns = range(first, beyond + len(extras))
    extra = dict(enumerate(extras, start=beyond))
    if alternating:
        blocks = [(place, repeat) for repeat in turns for place in places]
    else:
        blocks = [(place, repeat) for place in places for repeat in turns]
    steps = [
        (place.version, variant, repeat) for place, repeat in blocks for variant in variants if is_over(variant, place)
    ]
    if many := more_than_a_report_shows(runs=len(steps), versions=len(versions), variants=len(variants)):
        raise UsageError(f"a session of {many} is too large", "measure fewer, or divide them among several sessions")
    return Plan(
        tuple(
            Trial(number, version, variant, repeat, extra.get(repeat))
            for number, (version, variant, repeat) in enumerate(steps, start=1)
        ),
        alternating,
        tuple(versions),
    )


# --- Questions that not every server supports


def left_out(versions: Sequence[Version], variants: Sequence[Variant]) -> tuple[str, ...]:
    """Returns a message for each question that some of the versions do not support."""
    needs = _needs(variants)
    without = {name: [str(one) for one in versions if not concerns(variant, one)] for name, variant in needs.items()}
    return tuple(
        f"{name} is not asked of {' and '.join(found)}: it needs {who_can(str(needs[name].needs))}."
        for name, found in without.items()
        if found
    )


def refuse_nothing(versions: Sequence[Version], variants: Sequence[Variant], *, baseline: Version | None) -> None:
    """Raises UsageError if no trial is left for the versions, or none for the baseline.

    The check comes before anything is built, and even before anything is fetched if the versions are known by then."""
    needs = _needs(variants)
    if not places_for(versions, variants):
        raise UsageError(
            f"{' and '.join(map(str, versions))} cannot be asked {' or '.join(needs)}, and nothing else was wanted",
            "; ".join(f"{name} needs {who_can(str(one.needs))}" for name, one in needs.items()),
        )
    if baseline is not None and not places_for([baseline], variants):
        raise UsageError(
            f"the baseline {baseline} is measured at nothing: it cannot be asked {' or '.join(needs)}",
            "name another BASELINE, or none",
        )


def _needs(variants: Sequence[Variant]) -> dict[str, Variant]:
    """Returns, by name, a variant of each question that needs a capability of the server.

    One is enough: all variants of a question need the same capability."""
    return {dict(one.axes).get(QUESTION, one.name): one for one in variants if one.needs is not None}
