"""The nouns: what is planned, what is measured, what is stored. Frozen, and ignorant of how any of it is done."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from recovery.measured import Chain, Floor, Phase


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
    """What the user calls these settings."""
    tables: int | None = None
    """In each schema that was asked for. Of these three, None is what the schema says."""
    layout: Layout | None = None
    schemas: int | None = None


@dataclass(frozen=True)
class Trial:
    """One planned measurement."""

    number: int
    version: Version
    variant: Variant
    repeat: int
    sampled: bool = False
    """Stacks are taken, which costs time: it is never averaged with the others."""


class Verdict(StrEnum):
    """VOID: not the server's doing, or not what was asked. SAMPLED: as asked, but somebody looked into the server while
    it started. Neither is in a table's numbers."""

    MEASURED = "measured"
    SAMPLED = "sampled"
    FAILED = "failed"
    VOID = "void"

    @property
    def as_asked(self) -> bool:
        return self in (Verdict.MEASURED, Verdict.SAMPLED)


@dataclass(frozen=True)
class Run:
    """One ended trial as it is stored and reported. A figure that was not taken is None, never 0."""

    number: int
    version: str
    flavor: str
    variant: str
    repeat: int
    verdict: Verdict
    reason: str | None = None
    """Why it is FAILED or VOID."""
    started_at: str | None = None
    """Wall clock, UTC, ISO 8601."""
    startup_s: float | None = None
    first_query_s: float | None = None
    phases: tuple[Phase, ...] = ()
    beside: tuple[Phase, ...] = ()
    """What went on in threads of the server's own meanwhile."""
    tables: int | None = None
    tablespaces_opened: int | None = None
    tablespaces_modified: int | None = None
    """Since the last checkpoint before the start."""
    read_bytes: int | None = None
    read_requests: int | None = None
    cpu_s: float | None = None
    resident_before_bytes: int | None = None
    cache_grown_bytes: int | None = None
    cold_means: str | None = None
    warmups: int | None = None
    """Uncounted starts before a warm one, until the bytes read settled."""
    crash_proof: str | None = None
    rows_expected: int | None = None
    rows_found: int | None = None
    ready_lag_s: float | None = None
    start_error_s: float | None = None
    engine_overhead_s: float | None = None
    exit_signal: str | None = None
    """How the server before this start had died: `signal 9` in a crash trial, `exit 0` in a clean start."""
    log: str | None = None
    """The error log of the timed start, relative to the session's folder."""
    reads_per_s: float | None = None
    """`read_requests` over the time in which they were counted, from exec to the first answered query."""
    group_memory_bytes: int | None = None
    """What the server's control group held at the first answered query, page cache included; None without limits."""
    log_held_s: float | None = None
    """How long the server kept lines of its log to itself, so that its own stamps bound the phases; None where not."""
    tablespace_opens: int | None = None
    opened_unmodified: int | None = None
    """Tablespaces that were opened though nothing in them had been modified since the checkpoint."""
    tablespaces_read: int | None = None
    read_unmodified: int | None = None
    """Those of which contents were read, too."""
    traced_by: str | None = None
    """`fanotify` or `inotify`; None where nothing was traced."""
    resident_after_bytes: int | None = None
    scan_threads: int | None = None
    """With which the server says it has scanned its files."""
    sampled_by: str | None = None
    """The program that took the stacks: `eu-stack`, `gdb` or `perf`."""
    samples: int | None = None
    """How often it looked."""
    chains: tuple[Chain, ...] = ()
    """Those seen most, phase by phase."""
    stacks: str | None = None
    """All of them, folded, relative to the session's folder."""


@dataclass(frozen=True)
class Finding:
    about: str
    text: str
    hint: str


@dataclass(frozen=True)
class Session:
    """Everything a report is made of. `settings` holds what was asked; `servers` what each server said of itself."""

    scenario: str
    question: str
    command: str
    """The exact command that repeats it."""
    started_at: str
    environment: dict[str, str | int | float | None]
    settings: dict[str, str | int | float | bool | None]
    versions: tuple[str, ...]
    variants: tuple[str, ...]
    planned_runs: int
    servers: dict[str, dict[str, str]] = field(default_factory=dict)
    """By version, and by the variant's name where settings are compared: source, fingerprint, options given, and the
    effective values asked from the server."""
    notes: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    floors: tuple[Floor, ...] = ()
    """One for each data directory, where they were asked for."""
    tool_version: str = ""
    title: str = "Startup after SIGKILL"
    """What was timed, in words."""
    status: str = "running"
    """running, finished, interrupted, or aborted (with the reason in the notes)."""


@dataclass(frozen=True)
class Table:
    """Rows of text for a renderer; numbers are right-aligned where `numeric` says so."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    notes: tuple[str, ...] = ()
