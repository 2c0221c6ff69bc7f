"""What did the user ask for? Checked once, here, before anything is touched."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import UsageError
from recovery.model import NO_LIMITS, Extra, Layout, Limits, Named, Schema, Variant, Version, Work
from recovery.plan import Plan, make_plan, variants_of
from recovery.rootsteps import NO_STEPS, Steps
from recovery.scenarios.experiment import Asked
from recovery.server.options import TIMED_ONLY, canonical, check_user_settings, lasting, merge, timed_only
from recovery.server.watcher import DEFAULT_STALL_S

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
