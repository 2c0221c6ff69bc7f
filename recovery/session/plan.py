"""Which trials, over which data directories, in which order? Pure: the same request gives the same plan."""

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

# What did a session plan, and over what? Kept beside its runs, so that it can go on when it has ended early.

PLAN = "plan.json"
"""Its file in the session's folder."""


@dataclass(frozen=True)
class Step:
    """A trial, as it was planned."""

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
    command: str
    """That asks for all of it, whatever layers of settings that came from."""
    folder: str
    """In which it was typed: what it names may lie there."""
    boot: str
    """Of the host, when it last began or went on."""
    alternating: bool
    """The order was chosen by the room there was; it stays, whatever there is by now."""
    trials: tuple[Step, ...]
    settings: Mapping[str, Mapping[str, str]]
    """Options of the server, by variant."""
    servers: Mapping[str, str]
    """SHA-256 of each executable, by version."""
    directories: tuple[str, ...]
    """Keys of the data directories: they say what is built, and by whom."""
    inserts: str
    """SHA-256 of the insert script."""
    built: tuple[str, ...] = field(default=())
    """Those directories that the session has made itself: it may remove them when it needs their room."""

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
    """In words: why the runs that are missing would not be of the same experiment."""
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
"""The axis of what the user gives a name to."""


@dataclass(frozen=True)
class Place:
    """One data directory, before it is known which build of the server it belongs to: what the files are made of."""

    version: Version
    tables: int | None = None
    """None: as many as the schema says."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of a variant that shape the files."""
    layout: Layout | None = None
    schemas: int | None = None
    """Of these two as well, None is what the schema says."""

    def schema(self, asked: Schema) -> Schema:
        found = replace(asked, tables=self.tables or asked.tables, layout=self.layout or asked.layout)
        return found if self.schemas is None else found.spread_over(self.schemas)

    @property
    def words(self) -> tuple[str, ...]:
        """What a variant has made of it, as it was given."""
        more = (("layout", self.layout), ("schemas", self.schemas), *self.settings)
        return tuple(f"{name}={value}" for name, value in more if value is not None)

    def grows_into(self, later: Place) -> bool:
        """The same but for more tables."""
        return self != later and None not in (self.tables, later.tables) and replace(self, tables=later.tables) == later


def place_of(version: Version, variant: Variant) -> Place:
    shape = tuple(sorted(shaping(dict(variant.settings)).items()))
    return Place(version, variant.tables, shape, variant.layout, variant.schemas)


@dataclass(frozen=True)
class Plan:
    trials: tuple[Trial, ...]
    alternating: bool
    """Blocks over several data directories take turns, so that a drift of the host hits all of them alike."""
    versions: tuple[Version, ...] = ()
    """As they were asked for, in this order; one of them may have no trial."""

    @property
    def places(self) -> tuple[Place, ...]:
        """In the order in which they are needed."""
        return tuple(dict.fromkeys(place_of(trial.version, trial.variant) for trial in self.trials))

    @property
    def order(self) -> str:
        """In words, for the report."""
        what = "versions" if len({trial.version for trial in self.trials}) > 1 else "data directories"
        if len(self.places) < 2:
            return "one version"
        return f"{what} alternate, block by block" if self.alternating else f"{what} run one after the other"

    def is_last(self, trial: Trial) -> bool:
        """Of those over its data directory."""
        place = place_of(trial.version, trial.variant)
        return not any(place_of(later.version, later.variant) == place for later in self.trials[trial.number :])

    def over(self, place: Place) -> tuple[Trial, ...]:
        """Those that are measured over this data directory."""
        return tuple(trial for trial in self.trials if place_of(trial.version, trial.variant) == place)

    def variants_over(self, place: Place) -> tuple[str, ...]:
        return tuple(dict.fromkeys(trial.variant.name for trial in self.over(place)))

    def is_missing(self, place: Place, done: Container[int]) -> bool:
        """Whether some of those over this data directory are, where these have ended."""
        return any(trial.number not in done for trial in self.over(place))


@dataclass(frozen=True)
class Begun:
    """What there is already of a plan, of which the rest is asked for."""

    done: frozenset[int] = frozenset()
    """Numbers of the trials that have ended."""
    alternating: bool | None = None
    """The order that it began in; None is one that is still to be chosen."""
    built: frozenset[str] = frozenset()
    """Keys of the data directories that it has made."""


NOTHING_YET = Begun()


def variants_of(
    works: Iterable[Work],
    named: Sequence[Named] = (),
    points: Sequence[int] = (),
    *,
    common: Named = UNNAMED,
) -> tuple[Variant, ...]:
    """All work under all that is named, at every number of tables."""
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
    """Without what holds for all: two must not take the same files for different ones."""
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
    """Whether it is measured over this data directory."""
    return concerns(variant, place.version) and place_of(place.version, variant) == place


def concerns(variant: Variant, version: Version) -> bool:
    """Whether this server can do what the variant is about."""
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
    """A block is every variant over one data directory, once: cold, then warm. Alternating, each directory's n-th block
    comes before any one's block n + 1; otherwise all blocks of a directory come one after the other. Extra ones
    come after those that count. `first` is the number of the first block: what is left to chance depends on it."""
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


# Which servers cannot be asked some of what is asked? And is anything left, of all of it, and of the baseline?


def left_out(versions: Sequence[Version], variants: Sequence[Variant]) -> tuple[str, ...]:
    """In words, by question."""
    needs = _needs(variants)
    without = {name: [str(one) for one in versions if not concerns(variant, one)] for name, variant in needs.items()}
    return tuple(
        f"{name} is not asked of {' and '.join(found)}: it needs {who_can(str(needs[name].needs))}."
        for name, found in without.items()
        if found
    )


def refuse_nothing(versions: Sequence[Version], variants: Sequence[Variant], *, baseline: Version | None) -> None:
    """Before anything is fetched or built for it."""
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
    """One of each that not every server can be asked; its others need the same."""
    return {dict(one.axes).get(QUESTION, one.name): one for one in variants if one.needs is not None}
