"""What did the user ask for? Checked once, here, before anything is touched."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import ClashError, UsageError
from recovery.experiments.experiment import Asked
from recovery.experiments.load import POOL_OPTIONS
from recovery.linux.privileges import NO_STEPS, Steps
from recovery.model import NO_LIMITS, QUESTION, Extra, Layout, Limits, Load, Named, Schema, Variant, Version, Work, can
from recovery.mysqld.options import (
    REDO,
    REDO_FILES,
    TIMED_ONLY,
    as_known,
    bare,
    canonical,
    check_user_settings,
    hint_if_unknown,
    lasting,
    merge,
    timed_only,
)
from recovery.mysqld.startup import DEFAULT_STALL_S
from recovery.session.plan import Plan, make_plan, variants_of

DEFAULT_TABLES = 200_000
DEFAULT_POINTS = ("1000", "10000", "50000", "200000")
DEFAULT_RUNS = 5
DEFAULT_INSERTS = 100
_MOST_SHARE = 100.0
MOST_TABLES = 100_000_000
MOST_RUNS = 10_000
MOST_INSERTS = 1_000_000
MOST_SCHEMAS = 100_000
MOST_COLUMNS = 1000
MOST_NOTE = 500
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}")
_WORDS = ("layout", "schemas")
"""Of a variant, and no options of a server."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}")
_THE_SERVERS_OWN = frozenset({"mysql", "information_schema", "performance_schema", "sys", "test"})


@dataclass(frozen=True)
class Request:
    """One session, as asked."""

    scenario: str
    works: tuple[Work, ...]
    """What the scenario makes of it: each way to measure a server."""
    versions: tuple[str, ...]
    schema: Schema
    runs: int
    data: Path
    results: Path
    settings: tuple[tuple[str, str], ...] = ()
    insert_template: Path | None = None
    mysqld: str | None = None
    archive: str | None = None
    engine: str = "auto"
    """`auto`, `docker` or `local`."""
    image: str | None = None
    registry: str | None = None
    inserts: int = DEFAULT_INSERTS
    """Statements of the insert script, unless a template of the user's says otherwise."""
    as_published: bool = False
    trace: bool = False
    """Find out which files each timed start opens."""
    stacks: str | None = None
    """The program that takes stacks in one more run of every variant, or `auto`."""
    waits: bool = False
    """Count in one more run of every variant what the server's threads wait for."""
    variants: tuple[Named, ...] = ()
    """Settings that are compared, by the names that the user gave them."""
    points: tuple[int, ...] = ()
    """Numbers of tables to measure at, ascending; the schema has the last. Empty: as many as the schema has."""
    predict: int | None = None
    baseline: str | None = None
    """The one of `versions` that the others are held against; None is the first."""
    fail_over: float | None = None
    """By what share of the baseline a version may be slower before the session ends with an error."""
    floor: bool = False
    """Find out what the storage allows over the same files."""
    refused: Steps = NO_STEPS
    """What this session must not do, though root may."""
    keep: bool = False
    offline: bool = False
    stall_s: float = DEFAULT_STALL_S
    limits: Limits = NO_LIMITS
    """For the servers that are measured; tables are built without."""
    note: str | None = None
    """The user's own words for what no host tells."""
    probe: bool = True
    """Find out how fast the storage is, before anything is built."""
    work: Asked | None = None
    """What is asked of an experiment; None where starts are timed."""
    own_settings: tuple[tuple[str, str], ...] = ()
    """Options of the server that the experiment wants; those of the user win."""
    unasked: tuple[str, ...] = ()
    """Of the experiment, which questions this host leaves out, and why, in words."""
    command: str = ""

    @property
    def measured(self) -> tuple[Variant, ...]:
        """All that is compared."""
        common = Named("", self.settings, self.schema.layout, self.schema.databases)
        return variants_of(self.works, self.variants, self.points, common=common)

    @property
    def extras(self) -> tuple[Extra, ...]:
        """Runs of every variant beside those that count."""
        wished = {Extra.STACKS: self.stacks is not None, Extra.WAITS: self.waits}
        return tuple(extra for extra, is_wished in wished.items() if is_wished)

    def plan(self, versions: Sequence[Version], variants: Sequence[Variant], *, alternating: bool) -> Plan:
        first = (self.work and self.work.only) or 1
        return make_plan(
            versions, variants, repeats=self.runs, alternating=alternating, extras=self.extras, first=first
        )

    @property
    def most_tables(self) -> int:
        """In one data directory."""
        return max(self.points, default=self.schema.tables) * self.schema.databases

    @property
    def lasting_settings(self) -> dict[str, str]:
        """The options for every start that hold for all variants."""
        return lasting(merge(dict(self.own_settings), dict(self.settings)))

    @property
    def timed_settings(self) -> tuple[tuple[str, str], ...]:
        """And those for the timed one alone."""
        return tuple(timed_only(dict(self.settings)).items())


def positive(name: str, text: str | int, most: int) -> int:
    """A count the user gave: `TABLES=0`, `-1`, `x` and the absurd are told apart from a number."""
    try:
        number = int(str(text).replace("_", ""))
    except ValueError:
        number = 0
    if not 1 <= number <= most:
        raise UsageError(f"{name}={text} makes no sense", f"give a whole number from 1 to {most:,}")
    return number


def parse_share(name: str, text: str) -> float:
    """`10%`, or 10: a hundredth part of what is given."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = math.nan
    if not 0 <= share <= _MOST_SHARE:
        raise UsageError(f"{name} {text} makes no sense", "give a percentage, like 10%")
    return share


def identifier(name: str, text: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise UsageError(f"{name}={text} is no plain SQL name", "use letters, digits and underscores, 50 at most")
    if text.lower() in _THE_SERVERS_OWN:
        raise UsageError(f"{name}={text} is a schema of the server itself", "take another name")
    return text


def parse_notes(notes: Iterable[str]) -> str | None:
    """`--note "io2, 5000 IOPS"`: words for a report, so nothing that a page cannot show."""
    note = "; ".join(filter(None, (text.strip() for text in notes)))
    if len(note) > MOST_NOTE:
        raise UsageError(f"NOTE is {len(note):,} characters long", f"say it in {MOST_NOTE} at most")
    if not note.isprintable():
        raise UsageError(f"NOTE={note!r} is no line of plain text", "leave out line ends and control characters")
    return note or None


def parse_settings(pairs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """`--set name=value` for mysqld; a bare name is a flag."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name.strip():
            raise UsageError(f"--set '{pair}' names no option", "write it like --set innodb_force_recovery=1")
        settings[name] = value.strip()
    checked = check_user_settings(settings)
    for name, value in checked.items():
        if name.removeprefix("loose_") in TIMED_ONLY and value not in ("0", "1", "2", "3"):
            raise UsageError(f"{name}={value} can damage the data directory", "1 to 3 are safe; 1 skips the validation")
    return tuple(checked.items())


def parse_points(text: str | None) -> tuple[int, ...]:
    """`TABLES="1000 10000"`: each once, in ascending order."""
    words = DEFAULT_POINTS if text is None else text.replace(",", " ").split()
    points = sorted({positive("TABLES", word, MOST_TABLES) for word in words})
    if len(points) < 2:
        raise UsageError(f"TABLES={text} is one point, and no line", 'give several, like TABLES="1000 10000 50000"')
    return tuple(points)


def parse_variants(texts: tuple[str, ...]) -> tuple[Named, ...]:
    """`--variant small:innodb_open_files=300,table_open_cache=100`; nothing after the colon is the server as it is.
    `layout` and `schemas` are no options of a server: they say how the tables lie."""
    found: dict[str, Named] = {}
    for text in texts:
        label, colon, pairs = text.partition(":")
        if not colon or not _LABEL.fullmatch(label):
            raise UsageError(
                f"--variant '{text}' has no name",
                "write NAME:OPTION=VALUE,OPTION=VALUE, like small:innodb_open_files=300",
            )
        if label in found:
            raise UsageError(f"two variants are called '{label}'", "give each a name of its own")
        found[label] = _named(label, pairs)
    return tuple(found.values())


def _named(label: str, pairs: str) -> Named:
    options: list[str] = []
    words: dict[str, str] = {}
    for pair in filter(str.strip, pairs.split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(
                f"'{pair}' in the variant '{label}' is no OPTION=VALUE",
                "a comma parts two options, so no value can hold one; what holds for all variants goes to --set",
            )
        if canonical(name) in _WORDS:
            words[canonical(name)] = value.strip()
        else:
            options.append(pair)
    layout, schemas = (words.get(word) for word in _WORDS)
    return Named(
        label,
        parse_settings(tuple(options)),
        None if layout is None else parse_layout(layout),
        None if schemas is None else positive("schemas", schemas, MOST_SCHEMAS),
    )


def parse_layout(text: str) -> Layout:
    # Compressed tables are those of a load.
    known = [layout for layout in Layout if layout is not Layout.COMPRESSED]
    if text not in known:
        raise UsageError(f"LAYOUT={text} makes no sense", f"there are: {', '.join(known)}")
    return Layout(text)


def check_layouts(request: Request) -> None:
    """They are for the tool's own tables; and variants that are held against each other have as many of them."""
    asked = request.schema
    layouts = {asked.layout, *(variant.layout or asked.layout for variant in request.variants)}
    if asked.template is not None and layouts != {Layout.FILES}:
        raise UsageError("a template of your own says by itself how its tables lie", "leave out one of the two")
    for variant in request.variants:
        for tables in request.points or (asked.tables,):
            total = tables * asked.databases
            if variant.schemas and total % variant.schemas:
                raise UsageError(
                    f"the variant '{variant.label}' cannot divide {total:,} tables among {variant.schemas:,} schemas",
                    "all schemas have as many: give TABLES= a number that can be divided",
                )


def variant_text(variant: Named) -> str:
    """As it may be given again: a flag with its `=`, without which it would be no OPTION=VALUE."""
    words = zip(_WORDS, (variant.layout, variant.schemas), strict=True)
    pairs = [f"{name}={value}" for name, value in words if value is not None]
    return f"{variant.label}:" + ",".join((*pairs, *(f"{name}={value}" for name, value in variant.settings)))


def split_versions(texts: tuple[str, ...]) -> tuple[str, ...]:
    """`VERSION="5.6.24 5.7.22"` and repeated options alike; each version once."""
    return tuple(dict.fromkeys(version for text in texts for version in text.replace(",", " ").split()))


# Does an option that the user sets clash with what an experiment varies, or needs as it is? Pure.
#
# Cells are called by what they were asked to be. An option of the user's that replaces it, or is replaced by it,
# would make two cells of one, or a cell of something else, and no figure would tell.


@dataclass(frozen=True)
class _Given:
    """An option as the user gave it."""

    name: str
    value: str
    by: str
    """`--set `, or whatever stands before its name."""

    @property
    def told(self) -> str:
        return f"{self.by}{self.name}={self.value}" if self.value else f"{self.by}{self.name}"


def refuse_clashes(request: Request) -> None:
    """ClashError for the first one. What nothing varies, and nothing needs, is the user's: `--set` replaces what the
    experiment would set for all alike, `OPTION=` replaces an axis or is one more."""
    if request.work is None:
        return
    options = _of_options(request)
    _refuse_two_of_one(request, options)
    own = {bare(one.name): one.told for one in options}
    for one in (*_of_settings(request), *_of_variants(request.variants)):
        if bare(one.name) in own:
            raise ClashError(
                f"{one.told}: {own[bare(one.name)]} says at which values it is measured", "leave out one of the two"
            )
        _refuse_fixed(request, one, varied=True)
        _refuse_varied(request, one)
    for one in options:
        _refuse_fixed(request, one, varied=False)
    for variant in request.variants:
        _refuse_layout(request, variant)


def refuse_size_of_files(versions: Iterable[Version], request: Request) -> None:
    """ClashError where the redo log would be varied by the size of its files, and a server does not look at them: one
    that is told of a capacity, be it by the experiment."""
    given = [one for one in (*_of_options(request), *_of_variants(request.variants)) if bare(one.name) in REDO_FILES]
    for version in versions if given else ():
        usual = as_known(version, request.lasting_settings)
        if can(version, "redo_log_capacity") and REDO in map(bare, usual):
            raise ClashError(
                f"{given[0].told} makes no difference to {version}: its redo log is as large as {REDO} says",
                f"vary {REDO} instead, the size of the whole log: servers before 8.0.30 are told of it by their files'",
            )


def given_options(request: Request) -> tuple[_Given, ...]:
    """All options of the server that the user gave."""
    return (*_of_settings(request), *_of_variants(request.variants), *_of_options(request))


def refuse_unknown(request: Request, listed: Mapping[Version, Collection[str]]) -> None:
    """UsageError for the first option that a server does not list; a server that lists none is not checked."""
    for one in given_options(request):
        hints = {version: _hint(one, version, names) for version, names in listed.items() if names}
        lacking = [version for version, hint in hints.items() if hint]
        if lacking:
            raise UsageError(f"{one.told}: no such option in {', '.join(map(str, lacking))}", hints[lacking[0]])


def _hint(given: _Given, version: Version, listed: Collection[str]) -> str:
    """What to write instead; empty if the server has the option, or what it gets in its place."""
    names = [name for value in given.value.split(",") for name in as_known(version, {given.name: value})]
    return next(filter(None, (hint_if_unknown(name, listed) for name in names)), "")


def _of_settings(request: Request) -> tuple[_Given, ...]:
    return tuple(_Given(name, value, "--set ") for name, value in request.settings)


def _of_options(request: Request) -> tuple[_Given, ...]:
    options = () if request.work is None else request.work.options
    return tuple(_Given(name, ",".join(values), "--option ") for name, values in options)


def _of_variants(variants: Iterable[Named]) -> Iterator[_Given]:
    for variant in variants:
        yield from (_Given(name, value, f"--variant {variant.label}:") for name, value in variant.settings)


def _refuse_two_of_one(request: Request, options: Sequence[_Given]) -> None:
    """Two spellings of an axis: `loose_table_open_cache` beside `table_open_cache`."""
    for one in options:
        name = bare(one.name)
        if [bare(other.name) for other in options].count(name) > 1:
            raise ClashError(f"{one.told}: {name} is named twice", f"give all its values at once: --option {name}=A,B")
        axes = {axis for work in request.works for axis, _ in work.axes}
        if any(bare(axis) == name for axis in axes - {one.name}):
            raise ClashError(
                f"{one.told}: {request.scenario} varies {name} by itself",
                f"write it plainly, and it takes the place of these values: OPTION={name}=…",
            )


def _refuse_fixed(request: Request, given: _Given, *, varied: bool) -> None:
    """`varied`: the questions in which it is an axis are none to be asked with it, either."""
    name, work = bare(given.name), request.work
    if work is not None and work.memory_ratio is not None and name in POOL_OPTIONS:
        raise ClashError(
            f"{given.told}: MEMORY_RATIO={work.memory_ratio:g} says how large the buffer pool is",
            "leave out one of the two",
        )
    found = [one for one in request.works if name in one.fixed]
    if found:
        too = [one for one in request.works if varied and name in _axes(one)]
        told = f"{given.told}: {request.scenario} sets {name} itself{_in(found)}"
        raise ClashError(told, f"leave it out{_without(request, [*found, *too])}")


def _refuse_varied(request: Request, given: _Given) -> None:
    name = bare(given.name)
    found = [one for one in request.works if name in _axes(one)]
    if found:
        raise ClashError(
            f"{given.told}: {request.scenario} measures at several values of {name}{_in(found)}",
            f"say at which, like OPTION={name}={_value(given)}; or leave it out{_without(request, found)}",
        )


def _refuse_layout(request: Request, variant: Named) -> None:
    """What a task names is the schema, and are the tables, that were asked for."""
    asked = request.schema
    spread = asked if variant.schemas is None else asked.spread_over(variant.schemas)
    otherwise = spread != asked or variant.layout not in (None, asked.layout)
    if otherwise and any(isinstance(work.task, Load) for work in request.works):
        raise ClashError(
            f"the variant '{variant.label}' lays tables out otherwise, and a load uses those of one schema, each in a "
            "file of its own",
            "leave layout= and schemas= out of it",
        )
    first = asked.database_names[0]
    if first not in spread.database_names:
        raise ClashError(
            f"the variant '{variant.label}' has no schema {first}, about which {request.scenario} asks",
            "with schemas=1 it is called otherwise: give more than one, or SCHEMAS=1 and none here",
        )


def _value(given: _Given) -> str:
    """Of what is switched by its name, `skip_` and the like, both."""
    switched = not given.value or given.name.startswith(("skip_", "loose_skip_", "disable_", "loose_disable_"))
    return "1,0" if switched else f"{given.value},…"


def _axes(work: Work) -> set[str]:
    return {bare(name) for name, _ in work.axes}


def _questions(works: Iterable[Work]) -> list[str]:
    return list(dict.fromkeys(dict(work.axes)[QUESTION] for work in works if QUESTION in dict(work.axes)))


def _in(works: Iterable[Work]) -> str:
    names = _questions(works)
    return f" in {_listed(names)}" if names else ""


def _without(request: Request, works: Iterable[Work]) -> str:
    """The questions that have nothing against it."""
    names = _questions(works)
    rest = [name for name in _questions(request.works) if name not in names]
    if not names:
        return ""
    return f'; or ask QUESTION="{" ".join(rest)}" alone' if rest else "; or ask another QUESTION="


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
