"""Which trials, over which data directories, in which order? Pure: the same request gives the same plan."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from recovery.errors import UsageError
from recovery.model import Extra, Layout, Named, Schema, Trial, Variant, Version, Work
from recovery.server.options import shaping
from recovery.stored import more_than_a_report_shows
from recovery.versions import can

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
