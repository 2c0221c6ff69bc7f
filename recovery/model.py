"""The nouns: what is asked and planned. Frozen, and ignorant of how any of it is done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from recovery.work import Task


class Flavor(StrEnum):
    MYSQL = "mysql"
    MARIADB = "mariadb"
    PERCONA = "percona"


@dataclass(frozen=True, order=True)
class Version:
    """A server's flavor and release. `text` is how the server itself spells it (5.6.27-log, 10.11.5-MariaDB)."""

    flavor: Flavor
    numbers: tuple[int, int, int]
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        release = ".".join(map(str, self.numbers))
        return release if self.flavor is Flavor.MYSQL else f"{self.flavor}-{release}"


@dataclass(frozen=True)
class Build:
    """A server that can be started: an executable and what lies around it."""

    version: Version
    mysqld: Path
    basedir: Path
    fingerprint: str
    """SHA-256 of the executable: data directories are kept by it, so that no build meets another build's files."""
    source: str
    """Where it came from, in words for the report: `catalog (maven …)`, `archive http://…`, `own /opt/mysql`."""
    messages: Path | None = None
    """The folder that holds english/errmsg.sys: a server that is not told looks where it was compiled to be."""
    scripts: tuple[Path, ...] = ()
    """Folders of this host in which the server's install scripts are looked for, where it cannot initialise itself."""
    library_dirs: tuple[Path, ...] = ()
    """Folders of shared libraries the host lacks, put in front of the loader's own."""
    eatmydata: Path | None = None
    """libeatmydata for a server in an image, by its path inside; a server of this host takes the host's."""
    mounted: tuple[Path, ...] = ()
    """Files of this host that its containers see, under the same path."""
    image: str | None = None
    """Id of the image that holds it: then `mysqld` and `basedir` are paths inside. None is a server of this host."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """What a server may use of its host; None is no limit."""

    read_iops: int | None = None
    """Read requests a second, of the device under the data directory."""
    read_bps: int | None = None
    """Bytes a second read from it."""
    memory_bytes: int | None = None
    """Page cache included."""
    cpus: float | None = None

    def __bool__(self) -> bool:
        return self != NO_LIMITS


NO_LIMITS = Limits()


class Layout(StrEnum):
    """How tables lie in files."""

    FILES = "files"
    """Each in one of its own."""
    GENERAL = "general"
    """All in one: a general tablespace."""
    PARTITIONED = "partitioned"
    """Each in several."""
    ENCRYPTED = "encrypted"
    """Each in one of its own, which is encrypted."""
    COMPRESSED = "compressed"
    """Each in one of its own, in compressed pages of half the size."""


PARTITIONS = 4
"""Of a partitioned table."""


@dataclass(frozen=True)
class Schema:
    """What is built before anything is measured. With one database it is called `database`, with several
    `database_1`, `database_2` …, each with `tables` tables."""

    tables: int
    databases: int = 1
    columns: int = 0
    """Columns beside the key, each a varchar(32)."""
    rows: int = 0
    """Rows put into each table."""
    database: str = "discovery"
    template: Path | None = None
    """The user's own template; None is templates/schema.sql.j2, or layouts.sql.j2 for another layout than its."""
    layout: Layout = Layout.FILES
    foreign_keys: int = 0
    """So many tables have one, each to a table of its own."""
    more_row_bytes: int = 0
    """Of each row, beside its key and columns: a guess at the space it takes."""
    statistics: bool = False
    """Stored for each table as it is made, which a server does unless told otherwise. Without it a build is faster, and
    whoever first opens a table has its statistics computed and written."""

    @property
    def total_tables(self) -> int:
        return self.tables * self.databases

    @property
    def files(self) -> int:
        """The tables' .ibd files, unless a template of the user's makes more."""
        if self.layout is Layout.GENERAL:
            return 1
        return self.total_tables * (PARTITIONS if self.layout is Layout.PARTITIONED else 1)

    def spread_over(self, databases: int) -> Schema:
        """As many tables in all."""
        return replace(self, databases=databases, tables=self.total_tables // databases)

    @property
    def database_names(self) -> tuple[str, ...]:
        if self.databases == 1:
            return (self.database,)
        return tuple(f"{self.database}_{number}" for number in range(1, self.databases + 1))


class Cache(StrEnum):
    COLD = "cold"
    WARM = "warm"

    def begins(self, variant: str) -> bool:
        """A variant's name begins with its cache: `cold`, `cold-200000`, `warm-small`."""
        return variant.partition("-")[0] == self


SECOND_START = "second start"
"""In the name of a variant, for `warm`: a start that was to be warm, and is not proved to be."""


def is_second_start(variant: str) -> bool:
    return variant.partition("-")[0] == SECOND_START


@dataclass(frozen=True)
class Work:
    """One way to measure a server: what it is given to do, and where that stands among the others."""

    name: str
    cache: Cache
    """Of a load, which warms up by itself, this is WARM."""
    task: Task | None = None
    """None: its start is what is measured."""
    axes: tuple[tuple[str, str], ...] = ()
    """Name and value of each thing by which it differs from others: threads, tables, an option of the server."""
    settings: tuple[tuple[str, str], ...] = ()
    """Options of the server that belong to it."""
    fixed: tuple[str, ...] = ()
    """Names of options that have to be as they are then, or it would be something else that is measured."""
    layout: Layout | None = None
    """How its tables lie; None is what the schema says."""
    needs: str | None = None
    """What a server must be able to do for it, by the name of the capability; others are not asked."""
    figure: str | None = None
    """What it is about, where that is not what its scenario is about."""


def starts(caches: Iterable[Cache]) -> tuple[Work, ...]:
    return tuple(Work(cache.value, cache) for cache in caches)


@dataclass(frozen=True)
class Named:
    """What is compared, under the name that the user gives it."""

    label: str
    settings: tuple[tuple[str, str], ...] = ()
    layout: Layout | None = None
    schemas: int | None = None
    """Among which all tables are divided."""


@dataclass(frozen=True)
class Variant:
    """One way to measure the same server: the cache's state, the settings that differ, and how many tables."""

    name: str
    cache: Cache
    settings: tuple[tuple[str, str], ...] = ()
    label: str = ""
    """What these settings are called, by the user or by themselves."""
    tables: int | None = None
    """In each schema that was asked for. Of these three, None is what the schema says."""
    layout: Layout | None = None
    schemas: int | None = None
    task: Task | None = None
    """What the server is given to do; None: its start is what is measured."""
    axes: tuple[tuple[str, str], ...] = ()
    """Name and value of each thing by which it differs from others, beside its cache."""
    needs: str | None = None
    """A capability; a server without it is not measured so."""
    figure: str | None = None
    """Where it is not the scenario's."""


class Extra(StrEnum):
    """What one more run of every variant is for. It costs time, so that such a run is never averaged with the others.
    Each has one of its own: with waits counted 3 to 8 % of a profile's stacks were those of the counting (two CPUs,
    5.7.22 and 8.0.31), and who is often halted, to have his stack copied, holds his locks for longer."""

    STACKS = "stacks"
    """Are taken."""
    WAITS = "waits"
    """Of the server's threads are counted, all of them."""


@dataclass(frozen=True)
class Trial:
    """One planned measurement."""

    number: int
    version: Version
    variant: Variant
    repeat: int
    extra: Extra | None = None
    """None: it counts."""
