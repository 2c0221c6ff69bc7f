"""Defines the request for a session, and parses and checks the values that the user gave for it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from recovery.errors import UsageError
from recovery.experiments.experiment import ExperimentOptions
from recovery.linux.files import expand_path
from recovery.linux.privileges import NO_STEPS, Steps
from recovery.model import (
    NO_LIMITS,
    ExtraRun,
    Layout,
    Limits,
    NamedSettings,
    Schema,
    Variant,
    VariantSpec,
    Version,
)
from recovery.mysqld.options import (
    TIMED_ONLY_OPTIONS,
    canonical_name,
    check_user_settings,
    every_start_settings,
    merge,
    timed_only_settings,
)
from recovery.mysqld.startup import DEFAULT_STALL_S
from recovery.session.plan import Plan, build_variants, make_plan

DEFAULT_TABLES = 200_000
DEFAULT_POINTS = ("1000", "10000", "50000", "200000")
DEFAULT_RUNS = 5
DEFAULT_MAX_RUNS = 30
DEFAULT_INSERTS = 100
_MAX_SHARE = 100.0
MAX_TABLES = 100_000_000
MAX_INSERTS = 1_000_000
MAX_PREDICTED_FACTOR = 10
"""A prediction may be for this many times the largest measured number of tables. Farther, its interval says nothing."""
MAX_SCHEMAS = 100_000
MAX_COLUMNS = 1000
MAX_NOTE_LENGTH = 500
_COUNT = re.compile(r"([0-9]{1,18})([kM]?)")
_COUNT_FACTORS = {"": 1, "k": 1000, "M": 1_000_000}
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}")
_LAYOUT_KEYS = ("layout", "schemas")
"""Keys of a variant that are not server options."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}")
_SYSTEM_SCHEMAS = frozenset({"mysql", "information_schema", "performance_schema", "sys", "test"})


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
class Request:
    """Describes one session as the user asked for it."""

    scenario: str
    variant_specs: tuple[VariantSpec, ...]
    """Each way to measure a server, as the experiment defines it."""
    versions: tuple[str, ...]
    schema: Schema
    runs: int
    data: Path
    results: Path
    settings: tuple[tuple[str, str], ...] = ()
    insert_template: Path | None = None
    mysqld: tuple[OwnServer, ...] = ()
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
    named_settings: tuple[NamedSettings, ...] = ()
    """Settings to compare, under the names that the user gave them."""
    points: tuple[int, ...] = ()
    """Numbers of tables to measure at, ascending; the last is the schema's. Empty: only the number of the schema."""
    predict: int | None = None
    baseline: str | None = None
    """The one of `server_names` that the others are compared with. None: the first."""
    precision: float | None = None
    """Add runs until half of every interval is at most this share of its mean. None: measure `runs` runs."""
    max_runs: int = DEFAULT_MAX_RUNS
    """Number of runs after which a precision is given up."""
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
    experiment_options: ExperimentOptions | None = None
    """Options of an experiment. None if starts are timed."""
    settings_of_experiment: tuple[tuple[str, str], ...] = ()
    """Server options that the experiment sets; the user's options take precedence."""
    unavailable: tuple[str, ...] = ()
    """Messages that say which questions of the experiment this host cannot measure, and why."""
    command: str = ""

    @property
    def all_variants(self) -> tuple[Variant, ...]:
        common = NamedSettings("", self.settings, self.schema.layout, self.schema.databases)
        return build_variants(self.variant_specs, self.named_settings, self.points, common=common)

    @property
    def extras(self) -> tuple[ExtraRun, ...]:
        """Returns the kinds of extra runs, which every variant gets in addition to the counted ones."""
        wished = {ExtraRun.STACKS: self.stacks is not None, ExtraRun.WAITS: self.waits}
        return tuple(extra for extra, is_wished in wished.items() if is_wished)

    @property
    def repeats(self) -> int:
        """Returns the planned number of runs of every variant; with a precision it may end earlier."""
        return self.runs if self.precision is None else self.max_runs

    def plan(self, versions: Sequence[Version], variants: Sequence[Variant], *, alternating: bool) -> Plan:
        only = None if self.experiment_options is None else self.experiment_options.only
        first = 1 if only is None else only
        return make_plan(
            versions, variants, repeats=self.repeats, alternating=alternating, extras=self.extras, first=first
        )

    @property
    def server_names(self) -> tuple[str, ...]:
        """Returns the names of the servers as the user wrote them; empty for one of the user's own without a name."""
        return tuple(own.name for own in self.mysqld if own.name) or self.versions

    def exact_baseline(self, versions: Sequence[Version]) -> Version | None:
        """Returns the exact version of the baseline: the requested 9.7 may have been resolved to 9.7.4."""
        return None if self.baseline is None else versions[self.server_names.index(self.baseline)]

    @property
    def most_tables(self) -> int:
        """Returns the largest number of tables in one data directory."""
        return max(self.points, default=self.schema.tables) * self.schema.databases

    @property
    def lasting_settings(self) -> dict[str, str]:
        """Returns the server options that all variants have in common, for every start."""
        return every_start_settings(merge(dict(self.settings_of_experiment), dict(self.settings)))

    @property
    def timed_settings(self) -> tuple[tuple[str, str], ...]:
        """Returns the server options that all variants have in common, for the timed start only."""
        return tuple(timed_only_settings(dict(self.settings)).items())


def parse_count(name: str, text: str | int, most: int) -> int:
    """Parses a whole number from 1 to `most`, such as 20000, 20k or 1M.

    Raises UsageError for `TABLES=0`, `-1`, `x` and numbers beyond."""
    written = _COUNT.fullmatch(str(text).replace("_", ""))
    number = int(written[1]) * _COUNT_FACTORS[written[2]] if written else 0
    if not 1 <= number <= most:
        example = "20000 or 20k" if most >= DEFAULT_TABLES else "5"
        raise UsageError(f"{name}={text} is not valid", f"give a whole number from 1 to {most:,}, like {example}")
    return number


def parse_share(name: str, text: str) -> float:
    """Parses a percentage such as `10%` or `10` and returns it as a fraction (0.1)."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = math.nan
    if not 0 <= share <= _MAX_SHARE:
        raise UsageError(f"{name}={text} is not valid", "give a percentage, like 10%")
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
        raise UsageError(f"--note is {len(note):,} characters long", f"use at most {MAX_NOTE_LENGTH}")
    if not note.isprintable():
        raise UsageError(f"NOTE={note!r} is not a line of plain text", "leave out line ends and control characters")
    return note or None


def parse_settings(pairs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Parses `--set name=value` options for mysqld; a name without a value is a flag."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name.strip():
            raise UsageError(f"SET={pair} names no option", "write it like SET=innodb_force_recovery=1")
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
                f"VARIANT={text} has no name",
                "a variant has a name, a colon, and options with commas, like small:innodb_open_files=300",
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
                f"'{pair}' in the variant '{label}' has no value",
                "a comma separates options, so a value cannot contain one; options of all variants go to SET=",
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
    layouts = {requested.layout, *(variant.layout or requested.layout for variant in request.named_settings)}
    if requested.template is not None and layouts != {Layout.FILES}:
        raise UsageError("your own template determines the layout of its tables", "leave out one of the two")
    for variant in request.named_settings:
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


_OWN_SERVER = re.compile(rf"(?:({_LABEL.pattern})=)?(.+)", re.DOTALL)
_NEXT_OWN_SERVER = re.compile(rf"\s+(?=(?:{_LABEL.pattern}=)?(?:[~/]|\.\.?/|https?://))")


def split_own_servers(text: str) -> tuple[str, ...]:
    """Splits `MYSQLD="base=/a/mysqld patched=/b/mysqld"`, where a path may contain blanks."""
    return tuple(filter(None, _NEXT_OWN_SERVER.split(text.strip())))


def parse_own_servers(texts: Iterable[str]) -> tuple[OwnServer, ...]:
    """Parses `--mysqld PATH` and `--mysqld NAME=PATH`. Several servers without a name are named by their paths."""
    found = [OwnServer(_absolute_place(place), name) for name, place in map(split_name, texts)]
    if len(found) > 1:
        names = _names_by_path([own.place for own in found])
        found = [replace(own, name=own.name or name) for own, name in zip(found, names, strict=True)]
        name, times = Counter(own.name for own in found).most_common(1)[0]
        if times > 1 or not all(own.name for own in found):
            what = f"two servers have the name '{name}'" if name else "the servers have no names"
            raise UsageError(f"--mysqld: {what}", "give each a name of its own before its path, like patched=/PATH")
    return tuple(found)


def split_name(text: str) -> tuple[str, str]:
    """Splits `NAME=PATH`; without a name the first part is empty."""
    match = _OWN_SERVER.fullmatch(text)
    return (match[1] or "", match[2]) if match else ("", text)


def _absolute_place(place: str) -> str:
    """Returns the absolute path, because a stored path must have the same meaning in every working directory."""
    return place if "://" in place else str(expand_path(Path(place)).absolute())


def _names_by_path(places: Sequence[str]) -> Sequence[str]:
    """Returns the first parts of the paths that are different in all of them, without what a name cannot have."""
    for parts in zip_longest(*(Path(place).parts for place in places), fillvalue=""):
        names = [re.sub(r"[^A-Za-z0-9_.-]+|\.tar\.\w+$", "", part)[:31] for part in parts]
        if len(set(names)) == len(names) and all(map(_LABEL.fullmatch, names)):
            return names
    return ("",) * len(places)


def split_versions(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Splits `VERSION="5.6.24 5.7.22"` and repeated options into versions, each of them once."""
    return tuple(dict.fromkeys(version for text in texts for version in text.replace(",", " ").split()))
