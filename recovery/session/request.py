"""Defines the request for a session, and parses and checks the values that the user gave for it.

All checks happen once, before anything is touched. They include clashes between the user's server options and those
that an experiment varies or needs."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import OptionConflictError, UsageError
from recovery.experiments.experiment import ExperimentRequest
from recovery.experiments.load_plan import POOL_OPTIONS
from recovery.linux.privileges import NO_STEPS, Steps
from recovery.model import (
    NO_LIMITS,
    QUESTION_AXIS,
    ExtraRun,
    Layout,
    Limits,
    Load,
    NamedSettings,
    Schema,
    Variant,
    VariantSpec,
    Version,
    can,
)
from recovery.mysqld.options import (
    REDO_CAPACITY,
    REDO_FILE_OPTIONS,
    TIMED_ONLY_OPTIONS,
    adapt_redo_capacity,
    base_name,
    canonical_name,
    check_user_settings,
    every_start_settings,
    hint_if_unknown,
    merge,
    timed_only_settings,
)
from recovery.mysqld.startup import DEFAULT_STALL_S
from recovery.session.plan import Plan, build_variants, make_plan

DEFAULT_TABLES = 200_000
DEFAULT_POINTS = ("1000", "10000", "50000", "200000")
DEFAULT_RUNS = 5
DEFAULT_INSERTS = 100
_MAX_SHARE = 100.0
MAX_TABLES = 100_000_000
MAX_RUNS = 10_000
MAX_INSERTS = 1_000_000
MAX_SCHEMAS = 100_000
MAX_COLUMNS = 1000
MAX_NOTE_LENGTH = 500
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}")
_LAYOUT_KEYS = ("layout", "schemas")
"""Keys of a variant that are not server options."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}")
_SYSTEM_SCHEMAS = frozenset({"mysql", "information_schema", "performance_schema", "sys", "test"})


@dataclass(frozen=True)
class Request:
    """Describes one session as the user asked for it."""

    scenario: str
    works: tuple[VariantSpec, ...]
    """Each way to measure a server, as the scenario defines it."""
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
    """Number of statements in the insert script, unless the user's own template decides otherwise."""
    as_published: bool = False
    trace: bool = False
    """Record which files each timed start opens."""
    stacks: str | None = None
    """Program that takes stacks in one extra run of every variant, or `auto`. None: no stacks."""
    waits: bool = False
    """Count what the server's threads wait for, in one extra run of every variant."""
    variants: tuple[NamedSettings, ...] = ()
    """Settings to compare, under the names that the user gave them."""
    points: tuple[int, ...] = ()
    """Numbers of tables to measure at, ascending; the last is the schema's. Empty: only the number of the schema."""
    predict: int | None = None
    baseline: str | None = None
    """The one of `versions` that the others are compared with. None: the first."""
    fail_over: float | None = None
    """Share of the baseline by which a version may be slower before the session ends with an error."""
    floor: bool = False
    """Measure how fast the storage reads the same files without a server (the floor)."""
    refused: Steps = NO_STEPS
    """Privileged steps that this session must not take, even as root."""
    keep: bool = False
    offline: bool = False
    stall_s: float = DEFAULT_STALL_S
    limits: Limits = NO_LIMITS
    """Limits of the measured servers; tables are built without limits."""
    note: str | None = None
    """The user's description of what the host does not report, such as the type of a cloud disk."""
    probe: bool = True
    """Measure the speed of the storage before anything is built."""
    work: ExperimentRequest | None = None
    """Options of an experiment. None if starts are timed."""
    own_settings: tuple[tuple[str, str], ...] = ()
    """Server options that the experiment sets; the user's options take precedence."""
    unasked: tuple[str, ...] = ()
    """Messages that say which questions of the experiment this host cannot measure, and why."""
    command: str = ""

    @property
    def measured(self) -> tuple[Variant, ...]:
        """Returns all variants of the session."""
        common = NamedSettings("", self.settings, self.schema.layout, self.schema.databases)
        return build_variants(self.works, self.variants, self.points, common=common)

    @property
    def extras(self) -> tuple[ExtraRun, ...]:
        """Returns the kinds of extra runs, which every variant gets in addition to the counted ones."""
        wished = {ExtraRun.STACKS: self.stacks is not None, ExtraRun.WAITS: self.waits}
        return tuple(extra for extra, is_wished in wished.items() if is_wished)

    def plan(self, versions: Sequence[Version], variants: Sequence[Variant], *, alternating: bool) -> Plan:
        first = (self.work and self.work.only) or 1
        return make_plan(
            versions, variants, repeats=self.runs, alternating=alternating, extras=self.extras, first=first
        )

    def exact_baseline(self, versions: Sequence[Version]) -> Version | None:
        """Returns the exact version of the baseline: the requested 9.7 may have been resolved to 9.7.4."""
        return None if self.baseline is None else versions[self.versions.index(self.baseline)]

    @property
    def most_tables(self) -> int:
        """Returns the largest number of tables in one data directory."""
        return max(self.points, default=self.schema.tables) * self.schema.databases

    @property
    def lasting_settings(self) -> dict[str, str]:
        """Returns the server options that all variants have in common, for every start."""
        return every_start_settings(merge(dict(self.own_settings), dict(self.settings)))

    @property
    def timed_settings(self) -> tuple[tuple[str, str], ...]:
        """Returns the server options that all variants have in common, for the timed start only."""
        return tuple(timed_only_settings(dict(self.settings)).items())


def parse_count(name: str, text: str | int, most: int) -> int:
    """Parses a whole number from 1 to `most`; raises UsageError for `TABLES=0`, `-1`, `x` and numbers beyond."""
    try:
        number = int(str(text).replace("_", ""))
    except ValueError:
        number = 0
    if not 1 <= number <= most:
        raise UsageError(f"{name}={text} is not valid", f"give a whole number from 1 to {most:,}")
    return number


def parse_share(name: str, text: str) -> float:
    """Parses a percentage such as `10%` or `10` and returns it as a fraction (0.1)."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = math.nan
    if not 0 <= share <= _MAX_SHARE:
        raise UsageError(f"{name} {text} is not valid", "give a percentage, like 10%")
    return share


def parse_identifier(name: str, text: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise UsageError(f"{name}={text} is not a plain SQL name", "use letters, digits and underscores, 50 at most")
    if text.lower() in _SYSTEM_SCHEMAS:
        raise UsageError(f"{name}={text} is a schema of the server itself", "use another name")
    return text


def parse_notes(notes: Iterable[str]) -> str | None:
    """Joins the texts of `--note "io2, 5000 IOPS"`; raises UsageError for text that a report cannot show."""
    note = "; ".join(filter(None, (text.strip() for text in notes)))
    if len(note) > MAX_NOTE_LENGTH:
        raise UsageError(f"NOTE is {len(note):,} characters long", f"use at most {MAX_NOTE_LENGTH}")
    if not note.isprintable():
        raise UsageError(f"NOTE={note!r} is not a line of plain text", "leave out line ends and control characters")
    return note or None


def parse_settings(pairs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Parses `--set name=value` options for mysqld; a name without a value is a flag."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name.strip():
            raise UsageError(f"--set '{pair}' names no option", "write it like --set innodb_force_recovery=1")
        settings[name] = value.strip()
    checked = check_user_settings(settings)
    for name, value in checked.items():
        if name.removeprefix("loose_") in TIMED_ONLY_OPTIONS and value not in ("0", "1", "2", "3"):
            raise UsageError(f"{name}={value} can damage the data directory", "1 to 3 are safe; 1 skips the validation")
    return tuple(checked.items())


def parse_points(text: str | None) -> tuple[int, ...]:
    """Parses `TABLES="1000 10000"`; returns each number once, in ascending order."""
    words = DEFAULT_POINTS if text is None else text.replace(",", " ").split()
    points = sorted({parse_count("TABLES", word, MAX_TABLES) for word in words})
    if len(points) < 2:
        raise UsageError(f"TABLES={text} is only one point", 'give several, like TABLES="1000 10000 50000"')
    return tuple(points)


def parse_variants(texts: tuple[str, ...]) -> tuple[NamedSettings, ...]:
    """Parses `--variant small:innodb_open_files=300,table_open_cache=100`.

    With nothing after the colon, the variant is the server without further options. `layout` and `schemas` are not
    server options: they determine how the tables are stored."""
    found: dict[str, NamedSettings] = {}
    for text in texts:
        label, colon, pairs = text.partition(":")
        if not colon or not _LABEL.fullmatch(label):
            raise UsageError(
                f"--variant '{text}' has no name",
                "write NAME:OPTION=VALUE,OPTION=VALUE, like small:innodb_open_files=300",
            )
        if label in found:
            raise UsageError(f"two variants are called '{label}'", "give each a name of its own")
        found[label] = _parse_variant(label, pairs)
    return tuple(found.values())


def _parse_variant(label: str, pairs: str) -> NamedSettings:
    options: list[str] = []
    words: dict[str, str] = {}
    for pair in filter(str.strip, pairs.split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(
                f"'{pair}' in the variant '{label}' is not OPTION=VALUE",
                "a comma separates options, so a value cannot contain one; options of all variants go to --set",
            )
        if canonical_name(name) in _LAYOUT_KEYS:
            words[canonical_name(name)] = value.strip()
        else:
            options.append(pair)
    layout, schemas = (words.get(word) for word in _LAYOUT_KEYS)
    return NamedSettings(
        label,
        parse_settings(tuple(options)),
        None if layout is None else parse_layout(layout),
        None if schemas is None else parse_count("schemas", schemas, MAX_SCHEMAS),
    )


def parse_layout(text: str) -> Layout:
    # Compressed tables are reserved for loads.
    known = [layout for layout in Layout if layout is not Layout.COMPRESSED]
    if text not in known:
        raise UsageError(f"LAYOUT={text} is not valid", f"expected one of: {', '.join(known)}")
    return Layout(text)


def check_layouts(request: Request) -> None:
    """Raises UsageError for a layout with the user's own template, or tables that cannot be divided among schemas.

    Layouts apply to the tool's own tables only. Variants must have the same number of tables to be comparable."""
    requested = request.schema
    layouts = {requested.layout, *(variant.layout or requested.layout for variant in request.variants)}
    if requested.template is not None and layouts != {Layout.FILES}:
        raise UsageError("your own template determines the layout of its tables", "leave out one of the two")
    for variant in request.variants:
        for tables in request.points or (requested.tables,):
            total = tables * requested.databases
            if variant.schemas and total % variant.schemas:
                raise UsageError(
                    f"the variant '{variant.label}' cannot divide {total:,} tables among {variant.schemas:,} schemas",
                    "all schemas have the same number of tables: give a TABLES= that can be divided by it",
                )


def variant_text(variant: NamedSettings) -> str:
    """Returns the variant as a value of `--variant`; a flag keeps its `=`, because only OPTION=VALUE is accepted."""
    words = zip(_LAYOUT_KEYS, (variant.layout, variant.schemas), strict=True)
    pairs = [f"{name}={value}" for name, value in words if value is not None]
    return f"{variant.label}:" + ",".join((*pairs, *(f"{name}={value}" for name, value in variant.settings)))


def split_versions(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Splits `VERSION="5.6.24 5.7.22"` and repeated options into versions, each of them once."""
    return tuple(dict.fromkeys(version for text in texts for version in text.replace(",", " ").split()))


# --- Clashes between the user's options and those that an experiment varies or needs
#
# A cell is named after the values that were requested for it. If an option of the user's replaced such a value, or
# was replaced by it, two cells would measure the same thing, or a cell something else than its name says. No figure
# would show this.


@dataclass(frozen=True)
class _UserOption:
    """Represents a server option as the user gave it."""

    name: str
    value: str
    by: str
    """What precedes its name on the command line, such as `--set `."""

    @property
    def text(self) -> str:
        return f"{self.by}{self.name}={self.value}" if self.value else f"{self.by}{self.name}"


def check_option_clashes(request: Request) -> None:
    """Raises OptionConflictError for the first option of the user's that clashes with the experiment.

    Options that the experiment neither varies nor needs are free: `--set` replaces a value that the experiment would
    set for all variants, `OPTION=` replaces an axis or adds one."""
    if request.work is None:
        return
    options = _axis_options(request)
    _check_spellings(request, options)
    own = {base_name(one.name): one.text for one in options}
    for one in (*_options_from_set(request), *_variant_options(request.variants)):
        if base_name(one.name) in own:
            raise OptionConflictError(
                f"{one.text}: {own[base_name(one.name)]} already gives its values",
                "leave out one of the two",
            )
        _check_fixed_option(request, one, varied=True)
        _check_varied_option(request, one)
    for one in options:
        _check_fixed_option(request, one, varied=False)
    for variant in request.variants:
        _check_variant_layout(request, variant)


def check_redo_log_options(versions: Iterable[Version], request: Request) -> None:
    """Raises OptionConflictError if the size of the redo log's files is varied, and a server ignores it.

    A server ignores the size of the files if the capacity of the log is set, by the user or by the experiment."""
    given = [
        one
        for one in (*_axis_options(request), *_variant_options(request.variants))
        if base_name(one.name) in REDO_FILE_OPTIONS
    ]
    for version in versions if given else ():
        usual = adapt_redo_capacity(version, request.lasting_settings)
        if can(version, "redo_log_capacity") and REDO_CAPACITY in map(base_name, usual):
            raise OptionConflictError(
                f"{given[0].text} has no effect on {version}: {REDO_CAPACITY} sets the size of its redo log",
                f"vary {REDO_CAPACITY} instead, the size of the whole log: for servers before 8.0.30 "
                "it is translated to the size of their files",
            )


def user_options(request: Request) -> tuple[_UserOption, ...]:
    """Returns all server options that the user gave."""
    return (*_options_from_set(request), *_variant_options(request.variants), *_axis_options(request))


def check_options_known(request: Request, listed: Mapping[Version, Collection[str]]) -> None:
    """Raises UsageError for the first option that a server does not list; one that lists no options is not checked."""
    for one in user_options(request):
        hints = {version: _hint(one, version, names) for version, names in listed.items() if names}
        lacking = [version for version, hint in hints.items() if hint]
        if lacking:
            raise UsageError(f"{one.text}: no such option in {', '.join(map(str, lacking))}", hints[lacking[0]])


def _hint(given: _UserOption, version: Version, listed: Collection[str]) -> str:
    """Returns what to write instead, or an empty text if the server has the option or the one it is translated to."""
    names = [name for value in given.value.split(",") for name in adapt_redo_capacity(version, {given.name: value})]
    return next(filter(None, (hint_if_unknown(name, listed) for name in names)), "")


def _options_from_set(request: Request) -> tuple[_UserOption, ...]:
    return tuple(_UserOption(name, value, "--set ") for name, value in request.settings)


def _axis_options(request: Request) -> tuple[_UserOption, ...]:
    options = () if request.work is None else request.work.options
    return tuple(_UserOption(name, ",".join(values), "--option ") for name, values in options)


def _variant_options(variants: Iterable[NamedSettings]) -> Iterator[_UserOption]:
    for variant in variants:
        yield from (_UserOption(name, value, f"--variant {variant.label}:") for name, value in variant.settings)


def _check_spellings(request: Request, options: Sequence[_UserOption]) -> None:
    """Raises OptionConflictError for two spellings of one axis, as `loose_max_connections` and `max_connections`."""
    for one in options:
        name = base_name(one.name)
        if [base_name(other.name) for other in options].count(name) > 1:
            raise OptionConflictError(
                f"{one.text}: {name} is named twice", f"give all its values at once: --option {name}=A,B"
            )
        axes = {axis for work in request.works for axis, _ in work.axes}
        if any(base_name(axis) == name for axis in axes - {one.name}):
            raise OptionConflictError(
                f"{one.text}: {request.scenario} varies {name} itself",
                f"write it without a prefix to replace these values: OPTION={name}=…",
            )


def _check_fixed_option(request: Request, given: _UserOption, *, varied: bool) -> None:
    """Raises OptionConflictError if the experiment sets the option itself.

    With `varied`, the hint also leaves out the questions that vary the option: they clash with it as well."""
    name, work = base_name(given.name), request.work
    if work is not None and work.memory_ratio is not None and name in POOL_OPTIONS:
        raise OptionConflictError(
            f"{given.text}: MEMORY_RATIO={work.memory_ratio:g} sets the size of the buffer pool",
            "leave out one of the two",
        )
    found = [one for one in request.works if name in one.fixed]
    if found:
        too = [one for one in request.works if varied and name in _axis_names(one)]
        text = f"{given.text}: {request.scenario} sets {name} itself{_in_questions(found)}"
        raise OptionConflictError(text, f"leave it out{_other_questions_hint(request, [*found, *too])}")


def _check_varied_option(request: Request, given: _UserOption) -> None:
    name = base_name(given.name)
    found = [one for one in request.works if name in _axis_names(one)]
    if found:
        raise OptionConflictError(
            f"{given.text}: {request.scenario} measures at several values of {name}{_in_questions(found)}",
            f"give the values, like OPTION={name}={_example_values(given)}; or leave it "
            f"out{_other_questions_hint(request, found)}",
        )


def _check_variant_layout(request: Request, variant: NamedSettings) -> None:
    """Raises OptionConflictError if the variant changes the schema or layout of tables that a task names."""
    requested = request.schema
    spread = requested if variant.schemas is None else requested.spread_over(variant.schemas)
    otherwise = spread != requested or variant.layout not in (None, requested.layout)
    if otherwise and any(isinstance(work.task, Load) for work in request.works):
        raise OptionConflictError(
            f"the variant '{variant.label}' changes the layout, but a load uses tables of one schema, each "
            "in its own file",
            "leave layout= and schemas= out of it",
        )
    first = requested.database_names[0]
    if first not in spread.database_names:
        raise OptionConflictError(
            f"the variant '{variant.label}' has no schema {first}, which {request.scenario} queries",
            "with schemas=1 the schema has another name: give more than one, or only SCHEMAS=1",
        )


def _example_values(given: _UserOption) -> str:
    """Returns example values for the hint: both for an option that its name switches (`skip_` and the like)."""
    switched = not given.value or given.name.startswith(("skip_", "loose_skip_", "disable_", "loose_disable_"))
    return "1,0" if switched else f"{given.value},…"


def _axis_names(work: VariantSpec) -> set[str]:
    return {base_name(name) for name, _ in work.axes}


def _questions(works: Iterable[VariantSpec]) -> list[str]:
    return list(dict.fromkeys(dict(work.axes)[QUESTION_AXIS] for work in works if QUESTION_AXIS in dict(work.axes)))


def _in_questions(works: Iterable[VariantSpec]) -> str:
    names = _questions(works)
    return f" in {_join_names(names)}" if names else ""


def _other_questions_hint(request: Request, works: Iterable[VariantSpec]) -> str:
    """Returns the end of a hint: which questions to ask instead; empty if the works belong to no question."""
    names = _questions(works)
    rest = [name for name in _questions(request.works) if name not in names]
    if not names:
        return ""
    return f'; or ask QUESTION="{" ".join(rest)}" alone' if rest else "; or ask another QUESTION="


def _join_names(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
