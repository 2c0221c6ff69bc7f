"""The data model: tasks, schemas, server versions and their capabilities, measurements, sessions and their figures.

All dataclasses are frozen. They describe what is requested, planned and measured, not how it is carried out: this
module imports no other module of the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import ClassVar

MIN_PROBED_BLOCKS = 100
"""With fewer blocks read twice, the storage probe cannot show whether something below this host caches data."""


# --- Tasks, and the names of axes that all experiments have in common

QUESTION_AXIS = "question"
"""The name of the axis that names the parts of an experiment."""
CACHE_AXIS, TABLES_AXIS = "cache", "tables"
SETTINGS_AXIS = "settings"
"""The name of the axis for the variants that the user named; the first of them is its base."""


@dataclass(frozen=True)
class Task:
    """What a server does in a trial in place of a timed start. Experiments define their own kinds."""

    has_clients: ClassVar[bool] = False
    """Whether clients work with the server: both get CPUs of their own, and the layout of the tables is fixed."""

    @property
    def size_text(self) -> str:
        """Its size in words, for the plan; empty if nothing is to be said."""
        return ""

    def estimated_s(self, schema: Schema, settings: Mapping[str, str], read_iops: int | None, /) -> float:
        """Returns a rough estimate of its seconds, without a start before and a shutdown after it."""
        raise NotImplementedError


# --- Servers, what may limit them, and what is in their data directories


class Flavor(StrEnum):
    MYSQL = "mysql"
    MARIADB = "mariadb"
    PERCONA = "percona"


@dataclass(frozen=True, order=True)
class Version:
    """A server's flavor and release. `text` is the version in the server's spelling (5.6.27-log, 10.11.5-MariaDB)."""

    flavor: Flavor
    numbers: tuple[int, ...]
    """Three numbers, and a fourth for an update of MySQL (9.7.4.1); none for update 0."""
    text: str = field(default="", compare=False)
    build: str = ""
    """The user's name for one of several builds, which may be of the same release: `8.0.31+patched`."""

    @property
    def release(self) -> str:
        """Returns the version without the name of the build."""
        release = ".".join(map(str, self.numbers))
        return release if self.flavor is Flavor.MYSQL else f"{self.flavor}-{release}"

    @property
    def says_update(self) -> bool:
        """Returns whether its text has the number of the update, which servers know since MySQL 9.7.4."""
        return _FOUR_NUMBERS.search(self.text) is not None

    @property
    def percona_number(self) -> str:
        """Returns Percona's own number of a release, such as `28` of 8.0.36-28; empty if there is none."""
        match = _PERCONA_NUMBER.search(self.text) if self.flavor is Flavor.PERCONA else None
        return match[1] if match else ""

    @property
    def full_release(self) -> str:
        """Returns the release with Percona's own number, if there is one: percona-8.0.36-28."""
        return f"{self.release}-{self.percona_number}" if self.percona_number else self.release

    def __str__(self) -> str:
        return f"{self.release}+{self.build}" if self.build else self.release


@dataclass(frozen=True)
class Build:
    """A server that can be started: an executable and the files that belong to it."""

    version: Version
    mysqld: Path
    basedir: Path
    fingerprint: str
    """SHA-256 of the executable. Data directories are kept by it, so that no build uses the files of another build."""
    source: str
    """Origin of the build, as text for the report: `catalog (maven …)`, `archive http://…`, `own /opt/mysql`."""
    messages: Path | None = None
    """The folder that holds english/errmsg.sys. Without this setting a server uses the path that was compiled in."""
    scripts: tuple[Path, ...] = ()
    """Folders of this host that are searched for the server's install scripts, if it cannot initialise itself."""
    library_dirs: tuple[Path, ...] = ()
    """Folders of shared libraries that the host lacks, put in front of the loader's own search path."""
    eatmydata: Path | None = None
    """Path of libeatmydata inside the image, for a server in an image. A server of this host uses the host's."""
    mounted: tuple[Path, ...] = ()
    """Files of this host that are mounted into its containers, under the same path."""
    image: str | None = None
    """Id of the image that holds it; `mysqld` and `basedir` are then paths inside. None for a server of this host."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """The resources of its host that a server may use. None means no limit."""

    read_iops: int | None = None
    """Read requests per second, on the device under the data directory."""
    read_bps: int | None = None
    """Bytes per second read from that device."""
    memory_bytes: int | None = None
    """Includes the page cache."""
    cpus: float | None = None
    cpu_set: str | None = None
    """The CPUs that it may use, such as `0-63`. None: all of them."""

    def __bool__(self) -> bool:
        return self != NO_LIMITS


NO_LIMITS = Limits()


class Layout(StrEnum):
    """How tables are laid out in files."""

    FILES = "files"
    """One file for each table."""
    GENERAL = "general"
    """All tables in one file: a general tablespace."""
    PARTITIONED = "partitioned"
    """Several files for each table."""
    ENCRYPTED = "encrypted"
    """One encrypted file for each table."""
    COMPRESSED = "compressed"
    """One file for each table, with compressed pages of half the size."""


PARTITIONS = 4
"""Number of partitions of a partitioned table."""


DEFAULT_TABLES = 200_000
"""As many as in the published experiment."""


DEFAULT_CHARSET = "latin1"


@dataclass(frozen=True)
class OwnData:
    """A data directory of the user's own. The tool only reads it, and starts servers on a copy."""

    path: Path
    as_is: bool
    """Whether each run times the recovery that is ahead of it. Otherwise the tool makes a crash of its own."""
    version: Version | None
    """Version of the server that wrote it; None if its files do not say."""
    is_exact: bool
    schemas: int
    tables: int
    """Number of its tables, of all engines."""
    table_files: int
    """Number of the .ibd files of its tables: partitions and full-text indexes have their own."""
    files: int
    bytes: int
    digest: str
    """Of the names, sizes and times of all its files."""
    settings: tuple[tuple[str, str], ...]
    """Server options that its files need."""
    given: tuple[tuple[str, str], ...] = ()
    """What the user's my.cnf says about the places of files."""
    left_out: tuple[str, ...] = ()
    """Files that the copy does not have."""
    was_shut_down: bool | None = None
    """Whether the server was shut down cleanly; None if the format of its redo log does not say."""
    without_file: int = 0
    """Number of InnoDB tables, before MySQL 8.0, whose definition is there, but no file of their own."""
    general_tablespaces: int = 0
    in_shared_files: int | None = None
    """Number of `tables` that lie in a general tablespace or in the system tablespace; None before 8.0, where each
    table has a file with its definition."""
    not_counted: int = 0
    """Number of tablespaces, from 8.0 on, whose tables are not in `tables`: they are not readable."""


SYSTEM_SCHEMAS = frozenset({"mysql", "performance_schema", "information_schema", "sys"})


@dataclass(frozen=True)
class Schema:
    """The schema that is built before anything is measured. A single database is named `database`, several ones
    `database_1`, `database_2` …; each has `tables` tables."""

    tables: int
    databases: int = 1
    columns: int = 0
    """Columns in addition to the key, each a varchar(32)."""
    rows: int = 0
    """Rows inserted into each table."""
    database: str = "discovery"
    template: Path | None = None
    """The user's own template. None: templates/schema.sql.j2, or layouts.sql.j2 for any layout but `files`."""
    layout: Layout = Layout.FILES
    foreign_keys: int = 0
    """Number of tables with a foreign key. Each of them refers to a different table."""
    more_row_bytes: int = 0
    """Estimated bytes of each row in addition to its key and columns."""
    statistics: bool = False
    """Whether persistent statistics are stored for each table as it is created, which is a server's default. Without
    them a build is faster, but the first one to open a table has its statistics computed and written."""
    charset: str = DEFAULT_CHARSET
    """Character set of the tables of a load, or one of its collations."""
    own: OwnData | None = None
    """The user's own data directory, to a copy of which these tables are added."""

    @property
    def all_tables(self) -> int:
        """Returns the number of tables with those of the user's own data directory."""
        if self.own is None:
            return self.total_tables
        return self.own.tables + (0 if self.own.as_is else self.total_tables)

    @property
    def total_tables(self) -> int:
        return self.tables * self.databases

    @property
    def files(self) -> int:
        """The number of the tables' .ibd files, unless a template of the user creates more."""
        if self.layout is Layout.GENERAL:
            return 1
        return self.total_tables * (PARTITIONS if self.layout is Layout.PARTITIONED else 1)

    def spread_over(self, databases: int) -> Schema:
        """Returns the schema with the same tables in total, divided among this many databases."""
        return replace(self, databases=databases, tables=self.total_tables // databases)

    @property
    def database_names(self) -> tuple[str, ...]:
        if self.databases == 1:
            return (self.database,)
        return tuple(f"{self.database}_{number}" for number in range(1, self.databases + 1))


# --- Ways to measure a server, and the planned trials


class Cache(StrEnum):
    COLD = "cold"
    WARM = "warm"


SECOND_START = "second start"
"""Replaces `warm` in a variant's name and among its values if its start was planned as warm but is not proved to be
warm."""


@dataclass(frozen=True)
class VariantSpec:
    """One way to measure a server: its task, and its value on each axis."""

    name: str
    cache: Cache
    """WARM for a load, which warms up by itself."""
    task: Task | None = None
    """None: the server's start is measured."""
    axes: tuple[tuple[str, str], ...] = ()
    """Name and value of everything by which it differs from others: threads, tables, an option of the server."""
    settings: tuple[tuple[str, str], ...] = ()
    """Options of the server that belong to it."""
    fixed: tuple[str, ...] = ()
    """Names of options that must keep their values, because with other values something else would be measured."""
    layout: Layout | None = None
    """Layout of its tables in files. None: as in the schema."""
    charset: str | None = None
    """Character set of its tables. None: as in the schema."""
    needs: str | None = None
    """Name of a capability that the server must have. Servers without it are not measured this way."""
    metric: str | None = None
    """Name of the metric that is measured, if it differs from that of the experiment."""


def startup_specs(caches: Iterable[Cache]) -> tuple[VariantSpec, ...]:
    return tuple(VariantSpec(cache.value, cache) for cache in caches)


@dataclass(frozen=True)
class NamedSettings:
    """A configuration that is compared with others, and the user's name for it."""

    label: str
    settings: tuple[tuple[str, str], ...] = ()
    layout: Layout | None = None
    schemas: int | None = None
    """Number of schemas among which all tables are divided."""


@dataclass(frozen=True)
class Variant:
    """One way to measure the same server: state of the cache, settings that differ, number of tables, and task."""

    name: str
    cache: Cache
    settings: tuple[tuple[str, str], ...] = ()
    label: str = ""
    """Name of these settings: given by the user, or made from the settings."""
    tables: int | None = None
    """Tables in each requested schema. For this and the next three, None means the value of the schema."""
    layout: Layout | None = None
    charset: str | None = None
    schemas: int | None = None
    task: Task | None = None
    """Task of the server. None: its start is measured."""
    axes: tuple[tuple[str, str], ...] = ()
    """Name and value of everything by which it differs from others, apart from its cache."""
    needs: str | None = None
    """Name of a capability. A server without it is not measured with this variant."""
    metric: str | None = None
    """Name of the metric that is measured, if it differs from that of the experiment."""

    @property
    def values(self) -> dict[str, str]:
        """Its value on each axis. A start also has its cache and, where several are measured, its number of tables."""
        if self.task is not None:
            return dict(self.axes)
        tables = {} if self.tables is None else {TABLES_AXIS: str(self.tables)}
        return {CACHE_AXIS: self.cache.value, **tables, **dict(self.axes)}


MIN_FIRST_READ_TABLES = 1000
"""A start over fewer tables reads so little that a first read of it shows nothing."""


class ExtraRun(StrEnum):
    """The purpose of a run in addition to those that count. It is shown, and never averaged with the others.

    A first read is one run over each data directory, all others are runs of every variant. Collecting costs time, so
    starts that count are never observed like this. Stacks and waits have separate runs: while waits were counted, 3 to
    8 % of a profile's stacks were those of the counting (two CPUs, 5.7.22 and 8.0.31), and a thread that is often
    stopped to copy its stack holds its locks for longer."""

    FIRST_READ = "first read"
    """The first cold start over a data directory, whose blocks may never have been read since they were written."""
    TRACE = "trace"
    """The files that the start opens are recorded."""
    STACKS = "stacks"
    """Stack traces are taken."""
    WAITS = "waits"
    """All waits of the server's threads are counted."""


@dataclass(frozen=True)
class Trial:
    """One planned measurement."""

    number: int
    version: Version
    variant: Variant
    repeat: int
    """Number of its block, from 1; 0 for a first read, before the first block."""
    extra: ExtraRun | None = None
    """None for a run that counts."""


# --- Server versions

_RELEASE = re.compile(
    r"^(?:(?P<flavor>mysql|mariadb|percona)[-:])?(?P<a>\d{1,3})\.(?P<b>\d{1,3})\.(?P<c>\d{1,4})"
    r"(?:\.(?P<update>\d{1,4}))?(?:\+(?P<build>[A-Za-z0-9][-_.A-Za-z0-9]*))?(?P<rest>[-+~_A-Za-z][-+~_.:A-Za-z0-9]*)?$",
    re.ASCII,
)


_PERCONA_NUMBER = re.compile(r"\d+\.\d+\.\d+-(\d+(?:\.\d+)?)")
_FOUR_NUMBERS = re.compile(r"(?<![\d.])\d+(?:\.\d+){3}")
_FIRST_OF_MARIADB, FIRST_CALENDAR_VERSION = 10, 26


def usual_flavor(first: int) -> Flavor:
    """Returns whose version begins with this number if none is named: MySQL's are below 10, and from 26 on, since its
    versions have the year and the month (26.7.0, July 2026). Those between are MariaDB's."""
    return Flavor.MARIADB if _FIRST_OF_MARIADB <= first < FIRST_CALENDAR_VERSION else Flavor.MYSQL


def parse_version(text: str) -> Version:
    """Parses `5.7.22`, `26.7.0`, `9.7.4.1`, `mariadb-10.11.5` or `10.11.5`, `8.0.31+patched`, `8.0.39-30` (Percona),
    `10.11.19-MariaDB-0+deb12u1` or `5.6.27-log`. Raises ValueError for anything else."""
    match = _RELEASE.match(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a server version")
    rest = match["rest"] or ""
    if match["flavor"]:
        flavor = Flavor(match["flavor"])
    elif "mariadb" in rest.lower():
        flavor = Flavor.MARIADB
    elif re.match(r"-\d+(\.\d+)?(-log|-debug)?$", rest):
        flavor = Flavor.PERCONA
    else:
        flavor = usual_flavor(int(match["a"]))
    update = int(match["update"] or 0)
    if match["update"] and flavor is Flavor.MARIADB:
        raise ValueError(f"'{text}' is not a server version")
    numbers = (int(match["a"]), int(match["b"]), int(match["c"]), *((update,) if update else ()))
    return Version(flavor, numbers, text.strip(), match["build"] or "")


# --- Tracks of releases


class Track(StrEnum):
    """A kind of series, by how long its vendor supports it."""

    LTS = "lts"
    INNOVATION = "innovation"


_FIRST_INNOVATION = {Flavor.MYSQL: (8, 1), Flavor.PERCONA: (8, 1), Flavor.MARIADB: (10, 7)}
_EARLY_LTS = {
    Flavor.MYSQL: {(8, 4), (9, 7)},
    Flavor.PERCONA: {(8, 4), (9, 7)},
    Flavor.MARIADB: {(10, 6), (10, 11), (11, 4), (11, 8)},
}
"""The series with long-term support from before the plans by which `track_of` recognises the others."""


def track_of(version: Version) -> Track | None:
    """Returns the track of a version's series: long-term support for MySQL's of April in every second year (28.4), and
    for MariaDB's last of each year (12.3). That is what the vendors plan; a registry's own tags come first.

    None if the series is older than tracks are."""
    major, minor = series = version.numbers[0], version.numbers[1]
    if version.flavor is Flavor.MARIADB:
        is_planned = major > 11 and minor == 3
    else:
        is_planned = major > FIRST_CALENDAR_VERSION and major % 2 == 0 and minor == 4
    if is_planned or series in _EARLY_LTS[version.flavor]:
        return Track.LTS
    return Track.INNOVATION if series >= _FIRST_INNOVATION[version.flavor] else None


# --- Capabilities

_Range = tuple[tuple[int, ...] | None, tuple[int, ...] | None]
"""From the first version (included) to the last (excluded); None is an open end."""


@dataclass(frozen=True)
class _VersionRanges:
    """The versions that have a capability; None means no version. MySQL's numbers also apply to Percona."""

    mysql: _Range | None
    mariadb: _Range | None
    backported: tuple[_Range, ...] = ()
    """Older versions of MariaDB that have it too, because a fix was applied to their series."""


_ALWAYS = (None, None)

CAPABILITIES: dict[str, _VersionRanges] = {
    # forms of the vendor's tarballs, and the Debian suites that may carry a version
    "tarball_of_any_kernel": _VersionRanges(((5, 7, 0), None), None),
    "tarball_for_one_glibc": _VersionRanges(((8, 0, 0), None), None),
    "still_released": _VersionRanges(((8, 0, 0), None), None),
    "tarball_by_xz": _VersionRanges(((8, 0, 12), None), None),
    "minimal_tarball": _VersionRanges(((8, 0, 16), None), None),
    "minimal_tarball_for_each_glibc": _VersionRanges(((8, 1, 0), None), None),
    "percona_rel_names": _VersionRanges((None, (5, 7, 0)), None),
    "debian-sid": _VersionRanges(((9, 0, 0), None), None),
    "debian-mariadb": _VersionRanges(None, ((10, 11, 0), (11, 0, 0))),
    "debian-mariadb-11": _VersionRanges(None, ((11, 0, 0), None)),
    # initialising a data directory: by the server itself, or with the statements of MariaDB's or MySQL's install script
    "initialize": _VersionRanges(((5, 7, 6), None), None),
    "install_db": _VersionRanges(None, _ALWAYS),
    "bootstrap_sql": _VersionRanges((None, (5, 7, 6)), None),
    # options, defaults and files that exist
    "mysqlx": _VersionRanges(((8, 0, 11), None), None),
    "binlog_on_by_default": _VersionRanges(((8, 0, 1), None), None),
    "log_error_verbosity": _VersionRanges(((5, 7, 2), None), None),
    "secure_file_priv_null": _VersionRanges(((5, 6, 34), None), None),
    # DATA DIRECTORY asks for the right FILE. The release of 5.6 that does so, too, is left out.
    "partition_engine_check": _VersionRanges(((5, 7, 17), (8, 0, 0)), None),
    "sync_frm": _VersionRanges((None, (8, 0, 0)), (None, (10, 7, 0))),
    "frm_files": _VersionRanges((None, (8, 0, 0)), _ALWAYS),
    "stats_persistent": _VersionRanges(((5, 6, 2), None), ((10, 0, 0), None)),
    "buffer_pool_dump": _VersionRanges(((5, 6, 3), None), ((10, 0, 0), None)),
    "redo_log_capacity": _VersionRanges(((8, 0, 30), None), None),
    "redo_resizes_itself": _VersionRanges(((5, 6, 8), None), ((10, 0, 0), None)),
    "one_redo_file": _VersionRanges(None, ((10, 5, 0), None)),
    "file_format": _VersionRanges((None, (8, 0, 0)), (None, (10, 3, 0))),
    "lru_scan_depth": _VersionRanges(((5, 6, 3), None), ((10, 0, 0), None)),
    "io_capacity_max": _VersionRanges(((5, 6, 6), None), ((10, 0, 0), None)),
    "log_timestamps": _VersionRanges(((5, 7, 2), None), None),
    "flush_method_nosync": _VersionRanges((None, (8, 0, 0)), _ALWAYS),
    # Only MariaDB has an option that disables TLS at startup. Since 11.4 it creates a key at each start without one.
    "ssl_off": _VersionRanges(None, _ALWAYS),
    # what helps while a data directory is built
    "disable_redo": _VersionRanges(((8, 0, 21), None), None),
    "ddl_scales_with_connections": _VersionRanges(((8, 0, 0), None), ((10, 6, 0), None)),
    # possible layouts of tables in files
    "general_tablespaces": _VersionRanges(((5, 7, 6), None), None),
    "keyring_file": _VersionRanges(((5, 7, 11), (8, 4, 0)), None),
    "file_key_management": _VersionRanges(None, ((10, 1, 3), None)),
    "par_files": _VersionRanges((None, (5, 7, 6)), _ALWAYS),
    # files of compressed tables use less of the disk than their length
    "sparse_files": _VersionRanges(((5, 7, 0), None), None),
    # what can be changed under load
    "redo_spinning": _VersionRanges(((8, 0, 11), None), None),
    "lock_schedule": _VersionRanges(None, ((10, 2, 3), (10, 6, 0))),
    # SHOW STATUS is answered from tables
    "status_tables": _VersionRanges(((5, 7, 6), None), None),
    # how definitions are changed, and where they are listed
    "atomic_definitions": _VersionRanges(((8, 0, 11), None), ((10, 6, 1), None)),
    "drops_all_or_none": _VersionRanges(((8, 0, 11), None), None),
    "innodb_views_renamed": _VersionRanges(((8, 0, 3), None), None),
    # the redo log names the modified files, so that no other has to be opened before it is applied (WL#7142)
    "redo_names_files": _VersionRanges(((5, 7, 5), None), ((10, 2, 2), None)),
    # it is documented that recovery accesses only the modified files; the manual of 8.0 says that it scans directories
    "promises_modified_files_only": _VersionRanges(((5, 7, 5), (8, 0, 0)), ((10, 2, 2), None)),
    # the definitions of all tables are in the server's own tables, against which it checks every file at a start
    "data_dictionary": _VersionRanges(((8, 0, 0), None), None),
    # recovery reads every file although the redo log names the modified ones (MDEV-18733, corrected in 10.3 by default)
    "recovery_reads_all_files": _VersionRanges(None, (None, (10, 3, 0))),
    # recovery opens only the files that the redo log names, and reads no other after it (MDEV-18733 again)
    "opens_only_named_files": _VersionRanges(
        None, ((10, 4, 4), None), (((10, 2, 23), (10, 3, 0)), ((10, 3, 14), (10, 4, 0)))
    ),
    # a start opens no other file than the modified ones, also for the dictionary (MDEV-32027)
    "starts_with_modified_files": _VersionRanges(None, ((11, 4, 1), None), (((10, 11, 7), (11, 0, 0)),)),
    # without ssl_cert a start makes a TLS key of its own (MDEV-31855)
    "makes_tls_key": _VersionRanges(None, ((11, 4, 1), None)),
    # size of a new table's file
    "files_of_four_pages": _VersionRanges(None, ((10, 4, 0), None)),
    "files_with_holes": _VersionRanges(((8, 0, 0), (8, 0, 16)), None),
    # format of the error log
    "microsecond_stamps": _VersionRanges(((5, 7, 2), None), None),
}
NEWEST_TRIED: dict[Flavor, tuple[int, int]] = {
    Flavor.MYSQL: (9, 7),
    Flavor.PERCONA: (9, 7),
    Flavor.MARIADB: (11, 8),
}
"""The newest series that this tool was tried with; of Percona, that of MySQL with its numbers. Newer ones are taken to
have its capabilities, with a warning."""
# Withdrawn releases: they crash on a restart with more than 8,000 tables.
CRASHES_OVER_8000_TABLES = frozenset({(8, 0, 38), (8, 4, 1), (9, 0, 0)})


def can(version: Version, capability: str) -> bool:
    """Returns whether this server has the capability. Raises KeyError for an unknown name, which is a bug of the
    caller."""
    span = CAPABILITIES[capability]
    ranges = (span.mariadb, *span.backported) if version.flavor is Flavor.MARIADB else (span.mysql,)
    return any(
        (since is None or version.numbers >= since) and (until is None or version.numbers < until)
        for since, until in filter(None, ranges)
    )


def newest_tried(version: Version) -> str | None:
    """Returns the newest series that this tool was tried with, if this version is newer; otherwise None."""
    newest = NEWEST_TRIED[version.flavor]
    return ".".join(map(str, newest)) if version.numbers[:2] > newest else None


def capability_versions(capability: str) -> str:
    """Returns the versions that have the capability, as text: `MySQL 8.0.11 or later`."""
    span = CAPABILITIES[capability]
    both = (("MySQL", span.mysql), ("MariaDB", span.mariadb))
    return " or ".join(f"{name}{_range_words(*range_)}" for name, range_ in both if range_ is not None)


def _range_words(since: tuple[int, ...] | None, until: tuple[int, ...] | None) -> str:
    first, last = (".".join(map(str, numbers or ())) for numbers in (since, until))
    if not last:
        return f" {first} or later" if first else ""
    return f" {first} or later, before {last}" if first else f" before {last}"


def crashes_with_tables(version: Version, tables: int) -> bool:
    return tables > 8000 and version.flavor is not Flavor.MARIADB and version.numbers[:3] in CRASHES_OVER_8000_TABLES


# --- Measurements: raw values, neither judged nor averaged


@dataclass(frozen=True)
class Phase:
    """A named part of a start."""

    name: str
    """Name of the phase: `redo scan`, `file check` …"""
    start_s: float
    """When it began, in seconds since the exec of the server."""
    end_s: float
    """When it ended, in seconds since the exec of the server."""
    estimated: bool = False
    """Whether its beginning or its end was computed from a line about progress."""


@dataclass(frozen=True)
class RedoSpan:
    """The part of a redo log that a start has to read, from the last checkpoint to the end of the log."""

    checkpoint_lsn: int
    end_lsn: int

    @property
    def bytes(self) -> int:
        return self.end_lsn - self.checkpoint_lsn


@dataclass(frozen=True)
class CallChain:
    """A chain of calls that was seen in the stack traces of a start."""

    phase: str
    """The phase in which it was seen."""
    thread: str
    """`main thread` or `other threads`."""
    frames: tuple[str, ...]
    """Functions, outermost first."""
    samples: int
    """Number of samples in which it was seen."""
    of: int
    """Number of samples taken in this phase."""
    waits: bool = False
    """Whether the thread was waiting for another thread, for work, or for a time."""


@dataclass(frozen=True)
class HotFunction:
    """A function that is frequent in the stack traces of a server."""

    function: str
    """Its name; `[file]` for a function of that file that has no symbol."""
    on_top: int
    """Number of samples in which the function itself was executing, rather than a function that it had called."""
    within: int
    """Number of samples in which it was anywhere in the stack trace."""
    of: int
    """Number of all samples of threads that were not waiting."""


@dataclass(frozen=True)
class StackSamples:
    """Stack traces of a server that were sampled during one start or load."""

    program: str | None = None
    """`eu-stack` or `perf`; old sessions also have `gdb`."""
    count: int | None = None
    """Number of samples taken."""
    chains: tuple[CallChain, ...] = ()
    """The most frequent chains of calls, phase by phase."""
    hottest: tuple[HotFunction, ...] = ()
    """The functions most often on top of the stack traces."""
    file: str | None = None
    """File with all stack traces, folded as flame graph programs read them, relative to the session's folder."""


_MAX_OTHERS_READ_SHARE = 0.05


def are_own_reads(read_bytes: float | None, others_read_bytes: float | None) -> bool:
    """Returns whether the reads that a device completed were those of one process: others read at most a twentieth as
    many bytes. The bytes of both are known, the requests only together."""
    if read_bytes is None or others_read_bytes is None:
        return False
    return others_read_bytes <= _MAX_OTHERS_READ_SHARE * read_bytes


def with_read_rate(usage: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Returns the usage of a process with its reads per second."""
    requests = usage.get("read_requests")
    return {**usage, **({} if requests is None or seconds <= 0 else {"reads_per_s": requests / seconds})}


@dataclass(frozen=True)
class HostActivity:
    """What else happened on the host during a timed start, from right after exec until the first answer. None is a
    figure that this host does not provide."""

    seconds: float
    """Duration of the observation."""
    others_cpu_s: float | None = None
    """CPU time of processes other than the server and this tool."""
    tool_cpu_s: float | None = None
    """CPU time of this tool and its helpers."""
    steal_s: float | None = None
    """CPU time that the hypervisor gave to other machines."""
    throttled_s: float | None = None
    """Time for which a control group throttled its processes, summed over its CPUs. Of the server's own group and those
    above it, the largest value."""
    others_read_bytes: int | None = None
    """Bytes read from the device under the data in addition to those that the server fetched."""
    others_written_bytes: int | None = None
    """Bytes written to the device under the data in addition to those that the server wrote; includes what an earlier
    server had left to be written."""


@dataclass(frozen=True)
class Timeline:
    """Samples of a server that starts or is under load: columns of equal length."""

    at_s: tuple[float, ...]
    """Time of each sample since exec, or since the measurement began; a warm-up is before 0."""
    columns: dict[str, tuple[float | None, ...]] = field(default_factory=dict, hash=False)
    """Those of a start are counted from just before exec: `read_bytes`, `cpu_s`. Those of a load have names of
    `METRICS`: `qps`, `redo_bytes_per_s`; None where a sample was not taken."""


@dataclass(frozen=True)
class Startup:
    """What one timed start of a server showed in addition to its metrics. Times are counted from just before exec."""

    crash_proof: str | None = None
    """The line of the log that proves a crash recovery."""
    phases: tuple[Phase, ...] = ()
    """The parts of the time until the first answered query, in their order; after them the queries of FIRST_QUERIES."""
    background_phases: tuple[Phase, ...] = ()
    """Work of the server's background threads. A phase that ends with the startup was not over by then."""
    ready_lag_s: float | None = None
    """Arrival of the ready line minus the server's own timestamp on it; None if that is too coarse."""
    start_error_s: float | None = None
    """How much later than assumed the exec may have happened; None if this tool itself called exec."""
    engine_overhead_s: float | None = None
    """Time that the container engine took before the exec, included in no other figure; None without an engine."""
    log_held_s: float | None = None
    """Longest delay between a line's own timestamp and its arrival from the server's log; None if none was delayed.
    With such a delay the phases are taken from the server's timestamps."""
    log_errors: int | None = None
    """Number of errors that the server logged until it was ready."""
    scan_threads: int | None = None
    """Number of threads that scanned the files, according to the server's log."""


@dataclass(frozen=True)
class ColdProof:
    """How the page cache was emptied before a start, and what remained in it."""

    means: str | None = None
    """`drop_caches` (for the whole host), or `fadvise` (file by file; inodes and names stay cached)."""
    resident_bytes: int | None = None
    """Bytes of the data directory still resident after the first drop; None if the host does not provide that, or if
    nothing proves that the cache was empty, as in the published experiment."""
    seconds: float | None = None
    """Time that it took."""


@dataclass(frozen=True)
class WarmProof:
    """What was in the page cache before a warm start. A share is None if the host does not provide it."""

    warmups: int | None = None
    """Number of uncounted starts before it, until the number of bytes read became stable."""
    resident_share: float | None = None
    """Share of the tables' files with any page in the page cache before the start, from 0 to 1."""
    resident_share_after: float | None = None
    """The same share after the start: the files that such a start leaves in the cache."""


@dataclass(frozen=True)
class Contents:
    """Numbers of tables and rows that the server should have after a start, and that it has."""

    tables_found: int | None = None
    """Number of tables in the data directory, as the server counts them after the start."""
    tables_expected: int | None = None
    """Number of tables before the start."""
    rows_found: int | None = None
    """Number of the acknowledged rows found after the start."""
    rows_expected: int | None = None
    """Number of rows that the server had acknowledged before the crash."""
    rows_lost: int | None = None
    """Sum of the rows lost in each table: surplus rows of one table do not offset losses of another."""


@dataclass(frozen=True)
class OpenedFiles:
    """The files of the tested tables that a traced start opened until its first answer."""

    tablespaces_opened: int | None = None
    """Number of distinct files that the start opened."""
    tablespace_opens: int | None = None
    """How often files were opened, repeats included."""
    tablespaces_modified: int | None = None
    """Number of files modified since the last checkpoint before the start."""
    opened_unmodified: int | None = None
    """Number of files that were opened although nothing in them had been modified since the checkpoint."""
    tablespaces_read: int | None = None
    """Number of distinct files of which contents were read."""
    read_unmodified: int | None = None
    """Number of files of which contents were read although nothing in them had been modified since the checkpoint."""
    traced_by: str | None = None
    """`fanotify` or `inotify`."""
    resident_after_bytes: int | None = None
    """Bytes of the data directory in the page cache after the start."""


@dataclass(frozen=True)
class ReadFloor:
    """The least time that the storage needs for the same files, cold and under the same limits."""

    version: str
    """Version of the server that the files belong to."""
    variants: tuple[str, ...]
    """The variants that were measured over these files."""
    files: int
    """Number of files."""
    one_thread_s: float
    """Time for one thread to read the first page of each file."""
    many_threads_s: float
    """Time for many threads to do the same."""
    threads: int
    """Number of threads in the reading by many."""
    open_s: float
    """Time for one thread to open each file without reading it."""
    times: int = 1
    """How often each of the three times was measured; the shortest is stored."""


@dataclass(frozen=True)
class ThreadWait:
    """What threads of a server under load waited for, from the beginning of the measurement to its end."""

    source: str
    """Source: `innodb mutex` (SHOW ENGINE INNODB MUTEX), `performance schema`, or `status` (counters of locks)."""
    name: str
    """The server's name for it: `rwlock: btr0sea.cc:202`, `wait/synch/mutex/innodb/trx_sys_mutex`, `row locks`."""
    count: int
    """Number of waits. The Performance Schema counts every acquisition, including those without a delay."""
    wait_s: float | None = None
    """Time of all these waits together; None if the server does not record it."""


@dataclass(frozen=True)
class LoadRecord:
    """What was recorded while clients worked with a server, in addition to its metrics."""

    clients: dict[str, str] = field(default_factory=dict, hash=False)
    """The programs that put load on the server, with the exact command of each."""
    waits: tuple[ThreadWait, ...] = ()
    """What the server's threads waited for: the ten largest waits of each source."""
    raw: str | None = None
    """CSV file with all samples of the server, relative to the session's folder."""


@dataclass(frozen=True)
class Measurement:
    """What one trial measured, before it is judged. A part that was not measured has no values."""

    # Of a start they are made in mysqld/server.py, of a load in loads/load.py.
    metrics: dict[str, float] = field(default_factory=dict, hash=False, kw_only=True)
    """What was measured, by the names of `METRICS`: `startup_s`, `qps`, `latency_p99_ms`, `read_bytes`."""
    startup: Startup = field(default=Startup(), kw_only=True)
    """What the timed start showed."""
    cold: ColdProof = field(default=ColdProof(), kw_only=True)
    """How the page cache was emptied before the measurement."""
    warm: WarmProof = field(default=WarmProof(), kw_only=True)
    """What was in the page cache before a warm start."""
    contents: Contents = field(default=Contents(), kw_only=True)
    """The tables and rows after the start."""
    opened_files: OpenedFiles = field(default=OpenedFiles(), kw_only=True)
    """The files that the start opened, if it was traced (TRACE=)."""
    stacks: StackSamples = field(default=StackSamples(), kw_only=True)
    """The stack traces, if any were taken."""
    load: LoadRecord = field(default=LoadRecord(), kw_only=True)
    """What was recorded under load."""
    host_activity: HostActivity | None = field(default=None, kw_only=True)
    """What else happened on the host meanwhile."""
    timeline: Timeline | None = field(default=None, kw_only=True)
    """The course of the start or of the load, sample by sample."""
    previous_exit: str | None = field(default=None, kw_only=True)
    """How the server had ended before this start: `signal 9` in a crash trial, `exit 0` in a clean start."""
    broken_promises: tuple[str, ...] = field(default=(), kw_only=True)
    """What the server had promised and did not keep, as text."""
    may_be_clean: bool = field(default=False, kw_only=True)
    """Whether the server may have had nothing to recover."""
    observations: dict[str, str] = field(default_factory=dict, hash=False, kw_only=True)
    """What a server with damaged files did and logged, as text, by what was examined."""


# --- What is stored and reported: runs, their session, and tables of a report

STARTUP_METRIC = "startup_s"
"""The main metric of a session that times starts."""
REPEAT_OF = "repeat_of"
"""The setting of a session that repeats another one: the name of the first."""


class Verdict(StrEnum):
    """Whether the figures of a run count. FAILED: the server did not come back, or lost something. VOID: the run
    measured something other than was asked, or what happened was not caused by the server. SAMPLED: as asked, but an
    extra run, such as one in which stacks were taken. Only MEASURED runs enter means and comparisons."""

    MEASURED = "measured"
    SAMPLED = "sampled"
    FAILED = "failed"
    VOID = "void"

    @property
    def as_asked(self) -> bool:
        return self in (Verdict.MEASURED, Verdict.SAMPLED)


_EXTRA_RUN_NAMES: Mapping[ExtraRun | None, str] = {ExtraRun.FIRST_READ: "first read", ExtraRun.TRACE: "traced"}
"""What extra runs are called in tables, unless they are `sampled`."""
EXTRA_RUN_WORDS = (Verdict.SAMPLED.value, *_EXTRA_RUN_NAMES.values())


@dataclass(frozen=True)
class Run(Measurement):
    """One finished trial as it is stored and reported: which it was, its verdict, and what was measured."""

    number: int
    """Position in the order of the session, from 1."""
    version: str
    """Version of the server, as in the session's `versions`."""
    flavor: str
    """Flavor of the server: `mysql`, `mariadb` or `percona`."""
    variant: str
    """As in the session's `variants`: `cold`, `warm`, or what was compared. A start that was planned as warm, but is
    not proved to be warm, is a `second start` in report.json, and has its planned name in runs/*.json."""
    repeat: int
    """Number among the runs of this version and variant, from 1, and so the number of its block; 0 for a first read."""
    verdict: Verdict
    """Whether its figures count."""
    reason: str | None = None
    """Why it is FAILED or VOID."""
    started_at: str | None = None
    """Wall-clock time in UTC, ISO 8601."""
    log: str | None = None
    """The error log of the timed start, relative to the session's folder."""
    measure_again: bool = False
    """VOID because the storage failed, or because something that was timed was paused. Neither was caused by the
    server or by the request, so it may not happen again. Resuming the session measures the run again."""
    extra: ExtraRun | None = None
    """The purpose of an extra run; None for a run that counts."""

    @property
    def verdict_words(self) -> str:
        """The verdict, or what kind of extra run this is, for a table."""
        if self.verdict is Verdict.SAMPLED and self.extra in _EXTRA_RUN_NAMES:
            return _EXTRA_RUN_NAMES[self.extra]
        return self.verdict.value

    @property
    def counted_waits(self) -> bool:
        """Whether this is one of the additional runs that only count what the server's threads waited for."""
        return self.verdict is Verdict.SAMPLED and self.extra is ExtraRun.WAITS

    @property
    def is_traced(self) -> bool:
        """Whether the files that this start opened were recorded."""
        return self.opened_files.tablespaces_opened is not None


@dataclass(frozen=True)
class Axis:
    """A property by which variants differ from each other."""

    name: str
    """`threads`, or an option of the server: `table_open_cache_instances`."""
    values: tuple[str, ...]
    """Its values, in the order of the report."""
    base: str | None = None
    """The value that the others are compared with; None if values of this axis are not compared."""


@dataclass(frozen=True)
class Finding:
    """A warning about a figure, and what to do about it."""

    about: str
    """The subject, in a word or two: `5.7.22 cold`, or `host`."""
    text: str
    """What is doubtful, with the figures that show it."""
    hint: str
    """What to do about it."""
    kind: str = ""
    """Name of this kind of finding: `slow-first-run`."""


class Status(StrEnum):
    """State of a session."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    ABORTED = "aborted"
    KILLED = "killed"
    """Set by the reader of a status file, never by the session itself."""


ALTERNATE, ONE_AFTER_THE_OTHER = "alternate, block by block", "run one after the other"
"""How the text of a session's order ends. It begins with what follows each other: versions, or data directories."""
ONE_DIRECTORY = "one version"
"""The order of a session with a single data directory, whose variants always alternate."""
CPU_SET = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", re.ASCII)
"""CPUs as a list, such as `2-3,6`."""
_MAX_VALUE = 1e30
Settings = Mapping[str, str | int | float | bool | None]


def stored_number(value: object) -> float | None:
    """Returns a stored fact as a number, or None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if found == 0 or 1 / _MAX_VALUE < abs(found) < _MAX_VALUE else None


def limits_from_settings(settings: Mapping[str, str | int | float | bool | None]) -> Limits:
    """Returns the limits of a stored session. A session from before limits were introduced has none. A value that is
    not a number is ignored, and so is `true`, which Python counts as an integer."""

    def count(name: str) -> int | None:
        value = settings.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    cpus, cpu_set = settings.get("cpus"), settings.get("cpu_set")
    return Limits(
        read_iops=count("read_iops"),
        read_bps=count("read_bps"),
        memory_bytes=count("memory_bytes"),
        cpus=cpus if isinstance(cpus, float) else count("cpus"),
        cpu_set=cpu_set if isinstance(cpu_set, str) and CPU_SET.fullmatch(cpu_set) else None,
    )


@dataclass(frozen=True)
class Design:
    """What was asked of a session, as its analysis needs it: the settings that are stored, by their types.

    A setting that is not stored, or that is damaged, is None or False."""

    baseline: str | None = None
    """The version that the others are compared with, if the user named one."""
    runs: int | None = None
    """Number of runs of every variant; None with a precision."""
    precision: float | None = None
    """Runs were added until half of every interval was at most this share of its mean."""
    points: tuple[str, ...] = ()
    """The numbers of tables that were measured, if there are several."""
    predict: int | None = None
    """Number of tables to predict a start for."""
    fail_over: float | None = None
    """Share by which a version may be slower than the baseline."""
    max_startup: float | None = None
    """Seconds that a start may take."""
    limits: Limits = NO_LIMITS
    note: str | None = None
    """The user's own."""
    order: str | None = None
    """How the trials over several data directories followed each other, as text (`Plan.order`)."""
    as_published: bool = False
    """The cache was not emptied after the inserts."""
    keeps_caches: bool = False
    """The host's caches were not dropped, because the user did not want it."""
    is_unprivileged: bool = False
    """No step that needs root was taken."""
    has_own_servers: bool = False
    """The user gave the servers, by their paths."""
    has_own_data: bool = False
    """The tables are those of a data directory of the user's own."""
    as_is: bool = False
    """Its own recovery was timed, without a crash that the tool made."""
    predicted: float | None = None
    """Seconds that were predicted for this recovery."""
    tables: int | None = None
    """In each schema."""
    schemas: int | None = None
    rows: int | None = None
    """In each table."""
    dump_schemas: int | None = None
    """Number of schemas that were dumped, if not all."""
    seconds: float | None = None
    """Measured time of each load."""
    warmup_s: float | None = None
    memory_ratio: float | None = None
    """Size of the data divided by the size of the buffer pool."""
    client_cpus: float | None = None
    """Number of CPUs reserved for the clients."""


def design_of(settings: Settings) -> Design:
    """Returns the typed view of a session's settings."""

    def text(name: str) -> str | None:
        value = settings.get(name)
        return str(value) if value else None

    def whole(name: str) -> int | None:
        value = settings.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    precision = settings.get("precision")
    return Design(
        baseline=text("baseline"),
        runs=whole("runs"),
        precision=precision if isinstance(precision, float) and precision else None,
        points=tuple((text("points") or "").split()),
        predict=whole("predict"),
        fail_over=stored_number(settings.get("fail_over")),
        max_startup=stored_number(settings.get("max_startup")),
        limits=limits_from_settings(settings),
        note=text("note"),
        order=text("order"),
        as_published=bool(settings.get("as_published")),
        keeps_caches=bool(settings.get("no_drop_caches")),
        is_unprivileged=bool(settings.get("unprivileged")),
        has_own_servers=bool(settings.get("mysqld")),
        has_own_data=bool(settings.get("datadir")),
        as_is=bool(settings.get("as_is")),
        predicted=stored_number(settings.get("predicted")),
        tables=whole("tables"),
        schemas=whole("schemas"),
        rows=whole("rows"),
        dump_schemas=whole("dump_schemas"),
        seconds=stored_number(settings.get("seconds")),
        warmup_s=stored_number(settings.get("warmup_s")),
        memory_ratio=stored_number(settings.get("memory_ratio")),
        client_cpus=_number_of_cpus(settings.get("client_cpus")),
    )


def _number_of_cpus(setting: str | float | bool | None) -> float | None:
    """Returns how many CPUs a setting names, either as a number or as a list: `2-3,6`."""
    if not isinstance(setting, str):
        return stored_number(setting)
    ends = [part.split("-") for part in setting.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,9}", end) for part in ends for end in part):
        return None
    return sum(int(part[-1]) - int(part[0]) + 1 for part in ends)


@dataclass(frozen=True)
class VariantInfo:
    """A variant of a session, as its reports need it."""

    name: str
    """`cold`, `warm`, or what was compared."""
    values: dict[str, str] = field(default_factory=dict, hash=False)
    """Its value on each axis that applies to it. A start also has its `cache` and, where several were measured, its
    number of `tables`."""
    metric: str | None = None
    """Name of the metric that it measures, if it differs from that of the session."""


@dataclass(frozen=True)
class EarlierSession:
    """The result of a cell in an earlier session of the same design on the same host."""

    session: str
    """Name of that session."""
    started_at: str
    """When it started, as in a session."""
    version: str
    """Version of the cell, as named in this session."""
    variant: str
    """Variant of the cell, as named in this session."""
    count: int
    """Number of its measured runs."""
    mean: float
    """Their mean of the metric that the variant measures."""
    host_id: str | None = None
    """The `host_id` of its environment."""


@dataclass(frozen=True)
class Session:
    """All data of a report. `settings` holds what was requested; `servers` what each server reported about itself."""

    experiment: str
    """Name of the experiment: `crash-recovery`, `cold-recovery`, `warm-recovery`, `clean-start`, `scale` …"""
    question: str
    """The question that the session answers, as text."""
    command: str
    """The exact command that repeats it."""
    started_at: str
    """Wall-clock time in UTC, ISO 8601."""
    environment: dict[str, str | int | float | None]
    """Facts about the host, by name. Names end with units."""
    settings: dict[str, str | int | float | bool | None]
    """What was requested, by name."""
    versions: tuple[str, ...]
    """Versions of the servers, in the order of the report. The first is the baseline, unless the settings name one."""
    variants: tuple[VariantInfo, ...]
    """The variants that were measured for each version, in the order of the report."""
    planned_runs: int
    """Number of runs of the complete session."""
    servers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Facts about each server, by version, and by the variant's name if settings are compared: source, fingerprint,
    given options, and the effective values reported by the server."""
    notes: tuple[str, ...] = ()
    """What a reader should know, as text."""
    runs: tuple[Run, ...] = ()
    """All finished runs, in their order."""
    floors: tuple[ReadFloor, ...] = ()
    """One for each data directory, if floors were requested."""
    tool_version: str = ""
    """Version of the tool that measured."""
    title: str = "Startup after SIGKILL"
    """What was timed, as text."""
    status: str = Status.RUNNING.value
    """A `Status`; the reason for `aborted` is in the notes."""
    metric: str = STARTUP_METRIC
    """Name of the main metric."""
    axes: tuple[Axis, ...] = ()
    """The axes on which the variants differ, unless they differ only in the cache."""
    earlier: tuple[EarlierSession, ...] = ()
    """Results of each cell in earlier sessions of the same design on the same host, as far as they were in the results
    folder when the session ended."""

    @property
    def done(self) -> frozenset[int]:
        """The numbers of the runs that are kept when the session is resumed."""
        return frozenset(run.number for run in self.runs if not run.measure_again)

    def base_of(self, axis: Axis, _version: str, /) -> str | None:
        """Returns the value on an axis that the others are compared with for a version. In a combined session it may
        differ by version."""
        return axis.base

    def by_session(self, runs: Iterable[Run]) -> tuple[tuple[Session, tuple[Run, ...]], ...]:
        """Returns the runs of each session that they were measured in. Those of a combined one come from several."""
        return ((self, tuple(runs)),)

    def block_of(self, run: Run) -> tuple[int, ...]:
        """Returns the block in which a run was measured. Only runs of cells that alternated have it in common."""
        return self._series[run.number], run.repeat

    @cached_property
    def _series(self) -> dict[int, int]:
        """The series of blocks that each run belongs to, by its number. A lower block number than that of the run
        before begins the blocks of other data directories, so these did not alternate with those before them."""
        found, series, before = dict[int, int](), 0, 0
        for run in sorted(self.runs, key=lambda run: run.number):
            series += run.repeat < before
            before = run.repeat
            found[run.number] = series
        return found

    def servers_of(self, _variant: str, /) -> Mapping[str, Mapping[str, str]]:
        """Returns `servers` of the host that measured a variant. A combined session has several hosts."""
        return self.servers

    @cached_property
    def design(self) -> Design:
        """What was asked of the session."""
        return design_of(self.settings)

    @property
    def host_id(self) -> str | None:
        """The id of the host and its storage; None if the host has no id."""
        known = self.environment.get("host_id")
        return known if isinstance(known, str) and known else None

    @cached_property
    def variant_names(self) -> tuple[str, ...]:
        return tuple(variant.name for variant in self.variants)

    @cached_property
    def _by_name(self) -> dict[str, VariantInfo]:
        return {variant.name: variant for variant in self.variants}

    def metric_of(self, variant: str) -> str:
        """Returns the name of the metric that the variant measures."""
        return self.own_metric_of(variant) or self.metric

    def own_metric_of(self, variant: str) -> str | None:
        """Returns the metric of a variant that measures another one than the session; None for all others."""
        return self._by_name[variant].metric if variant in self._by_name else None

    def values_of(self, variant: str) -> dict[str, str]:
        """Returns the variant's values by axis; none for a variant that the session does not have."""
        return self._by_name[variant].values if variant in self._by_name else {}

    def value_of(self, variant: str, axis: str) -> str | None:
        """Returns the variant's value on an axis, or None if the axis does not apply to it."""
        return self.values_of(variant).get(axis)

    def cache_of(self, variant: str) -> str | None:
        """Returns `cold`, `warm` or `second start`; None unless the variant is a start."""
        return self.value_of(variant, CACHE_AXIS)

    @property
    def has_caches(self) -> bool:
        """Whether its variants are starts with a state of the cache."""
        return any(map(self.cache_of, self.variant_names))

    def is_second_start(self, variant: str) -> bool:
        return self.cache_of(variant) == SECOND_START

    def variant_with(self, variant: str, axis: str, value: str) -> str | None:
        """Returns the variant that has this value on an axis and otherwise the same values, or None."""
        wanted = {**self.values_of(variant), axis: value}
        return next((other.name for other in self.variants if other.values == wanted), None)

    @cached_property
    def differing_axes(self) -> tuple[Axis, ...]:
        """The axes on which the session's variants differ."""
        return self.differing_among(self.variant_names)

    @cached_property
    def axes_tell_all_apart(self) -> bool:
        """Whether no two of the session's variants have the same values on its axes."""
        return self.are_told_apart(self.variant_names, self.differing_axes)

    def are_told_apart(self, variants: Sequence[str], axes: Sequence[Axis]) -> bool:
        """Returns whether no two variants have the same values on these axes. Variants that differ only in the cache
        have no axes."""
        if not self.axes:
            return False
        cells = {tuple(self.value_of(variant, axis.name) for axis in axes) for variant in variants}
        return len(cells) == len(variants)

    def differing_among(self, variants: Sequence[str]) -> tuple[Axis, ...]:
        """Returns the axes on which these variants have more than one value. A missing value does not count as one."""
        found = []
        for axis in self.axes:
            had = {self.value_of(variant, axis.name) for variant in variants} - {None}
            if len(had) > 1:
                known = tuple(value for value in axis.values if value in had)
                others = tuple(sorted(value for value in had if value is not None and value not in axis.values))
                found.append(replace(axis, values=known + others))
        return tuple(found)


MAX_RUNS = 10_000
"""Maximum number of runs of a session. With more of them a report takes very long."""
MAX_VERSIONS = 100
"""Maximum number of versions of a session."""
MAX_CELLS = 2_000
"""Maximum number of versions times variants of a session."""


MAX_NAMES = 1_000
"""Maximum number of names of phases and figures in a session."""


def exceeded_limit(*, runs: int, versions: int, variants: int, names: int = 0) -> str | None:
    """Returns the first limit that a session exceeds, as text, or None if it exceeds none."""
    counts = (
        (runs, MAX_RUNS, "runs"),
        (versions, MAX_VERSIONS, "versions"),
        (versions * variants, MAX_CELLS, "versions times variants"),
        (names, MAX_NAMES, "names of phases and figures"),
    )
    return next((f"{count:,} {what} (the limit is {limit:,})" for count, limit, what in counts if count > limit), None)


@dataclass(frozen=True)
class Table:
    """Rows of text for a renderer. Columns are right-aligned where `numeric` is true."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    notes: tuple[str, ...] = ()
    keys: int = 1
    """Number of leading columns that identify a row. They are repeated where a table is split."""
    doubts: tuple[tuple[str, ...], ...] = ()
    """Why the figure in each cell is doubtful, or an empty text. Only an HTML page shows it, beside the figure."""
