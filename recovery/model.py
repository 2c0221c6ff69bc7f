"""The nouns: what is asked and planned. Frozen, and ignorant of how any of it is done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

LEAST_PROBED_BLOCKS = 100
"""With fewer blocks read twice the storage probe says nothing about a cache below this host."""


# What is a server given to do, beside coming back? Loads, questions and dumps: planned, and ignorant of the doing.

QUESTION = "question"
"""The axis by whose values the parts of an experiment are called."""


@dataclass(frozen=True)
class Poll:
    """Clients that ask something else beside a load, again and again."""

    clients: int
    """0: nobody asks, beside a load that one beside others is held against."""
    every_s: float
    """Pause of each between an answer and its next question."""
    statements: tuple[str, ...]
    """Asked in turn. `{table}` is the name of one table, another each time; `{database}` that of its schema."""


@dataclass(frozen=True)
class Load:
    """A load by sysbench, whose tables lie there already."""

    script: str
    """One of sysbench's own (`oltp_read_only`), or the path of the user's."""
    threads: int
    tables: int
    rows: int
    """In each table."""
    seconds: int
    """That are measured, after the warm-up."""
    warmup_s: int
    options: tuple[str, ...] = ()
    """More for sysbench: `--rand-type=uniform`."""
    poll: Poll | None = None


@dataclass(frozen=True)
class Ask:
    """One statement, timed until its last row."""

    statement: str


@dataclass(frozen=True)
class Dump:
    """Of the definitions of all tables, without rows."""

    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Create:
    """Tables made by one client, a statement and a commit at a time, with the server's own durability."""

    tables: int


class Moment(StrEnum):
    """When a server is killed."""

    INSERTS = "inserts"
    """One client, and the insert script."""
    LOAD = "load"
    """Several clients, and transactions of several rows."""
    DEFINITIONS = "definitions"
    """Tables are made, altered, renamed and dropped."""
    RECOVERY = "recovery"
    """It is coming back after such a load, again and again."""
    SHUTDOWN = "shutdown"
    """It was told to shut down under such a load."""
    POWER = "power-loss"
    """Under such a load: not by a signal, but with all that its filesystem had not written yet."""


@dataclass(frozen=True)
class Crash:
    """A server is killed at a moment of chance, and judged by what comes back."""

    moment: Moment
    seed: int
    """Of all that is left to chance, together with the server's version, the cell and the number of the run."""
    depth: int
    """A recovery is killed so many times, at most."""


class Fault(StrEnum):
    """What is wrong with the files when a killed server is started again."""

    FULL_DISK = "full-disk"
    MISSING = "missing"
    """A table's file."""
    TRUNCATED = "truncated"
    """The same, to half of its pages."""
    FLIPPED = "flipped"
    """One bit in it."""


@dataclass(frozen=True)
class Damage:
    """A server is killed under a load, and finds something wrong with its files."""

    fault: Fault
    written: bool
    """To the table whose file it is: it has changes to be recovered. Otherwise nobody has touched it."""
    seed: int


Task = Load | Ask | Dump | Create | Crash | Damage


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


# Which server is this, and what can it do? Capabilities are asked for by name; the table says since and until when.

_RELEASE = re.compile(
    r"^(?:(?P<flavor>mysql|mariadb|percona)[-:])?(?P<a>\d{1,3})\.(?P<b>\d{1,3})\.(?P<c>\d{1,4})"
    r"(?P<rest>[-+~_A-Za-z][-+~_.:A-Za-z0-9]*)?$",
    re.ASCII,
)


def parse_version(text: str) -> Version:
    """`5.7.22`, `mariadb-10.11.5`, `8.0.39-30` (Percona), `10.11.19-MariaDB-0+deb12u1`, `5.6.27-log`."""
    match = _RELEASE.match(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is no server version")
    rest = match["rest"] or ""
    if match["flavor"]:
        flavor = Flavor(match["flavor"])
    elif "mariadb" in rest.lower():
        flavor = Flavor.MARIADB
    elif re.match(r"-\d+(\.\d+)?(-log|-debug)?$", rest):
        flavor = Flavor.PERCONA
    else:
        flavor = Flavor.MYSQL
    return Version(flavor, (int(match["a"]), int(match["b"]), int(match["c"])), text.strip())


@dataclass(frozen=True)
class _Span:
    """From `since` (in) to `until` (out); None is open. MySQL's numbers hold for Percona too."""

    mysql: tuple[tuple[int, ...] | None, tuple[int, ...] | None] | None
    mariadb: tuple[tuple[int, ...] | None, tuple[int, ...] | None] | None


_ALWAYS = (None, None)

CAPABILITIES: dict[str, _Span] = {
    # how a data directory is made: by itself, or fed the statements of MariaDB's or of MySQL's install script
    "initialize": _Span(((5, 7, 6), None), None),
    "install_db": _Span(None, _ALWAYS),
    "bootstrap_sql": _Span((None, (5, 7, 6)), None),
    # options that exist
    "mysqlx": _Span(((8, 0, 11), None), None),
    "binlog_on_by_default": _Span(((8, 0, 1), None), None),
    "log_error_verbosity": _Span(((5, 7, 2), None), None),
    "secure_file_priv_null": _Span(((5, 6, 34), None), None),
    "partition_engine_check": _Span(((5, 7, 17), (8, 0, 0)), None),
    "sync_frm": _Span((None, (8, 0, 0)), (None, (10, 7, 0))),
    "frm_files": _Span((None, (8, 0, 0)), _ALWAYS),
    "stats_persistent": _Span(((5, 6, 2), None), ((10, 0, 0), None)),
    "buffer_pool_dump": _Span(((5, 6, 3), None), ((10, 0, 0), None)),
    "redo_log_capacity": _Span(((8, 0, 30), None), None),
    "redo_resizes_itself": _Span(((5, 6, 8), None), ((10, 0, 0), None)),
    "one_redo_file": _Span(None, ((10, 5, 0), None)),
    "file_format": _Span((None, (8, 0, 0)), (None, (10, 3, 0))),
    "lru_scan_depth": _Span(((5, 6, 3), None), ((10, 0, 0), None)),
    "io_capacity_max": _Span(((5, 6, 6), None), ((10, 0, 0), None)),
    "log_timestamps": _Span(((5, 7, 2), None), None),
    "flush_method_nosync": _Span((None, (8, 0, 0)), _ALWAYS),
    # MariaDB alone has one that switches TLS off as it starts; since 11.4 it makes a key at every start without one
    "ssl_off": _Span(None, _ALWAYS),
    # what can be done while building
    "disable_redo": _Span(((8, 0, 21), None), None),
    "ddl_scales_with_connections": _Span(((8, 0, 0), None), ((10, 6, 0), None)),
    # how tables may lie in files
    "general_tablespaces": _Span(((5, 7, 6), None), None),
    "keyring_file": _Span(((5, 7, 11), (8, 4, 0)), None),
    "file_key_management": _Span(None, ((10, 1, 3), None)),
    "par_files": _Span((None, (5, 7, 6)), _ALWAYS),
    # files of compressed tables take less of the disk than their length
    "sparse_files": _Span(((5, 7, 0), None), None),
    # what can be switched under load
    "redo_spinning": _Span(((8, 0, 11), None), None),
    "lock_schedule": _Span(None, ((10, 2, 3), (10, 6, 0))),
    # from where on the table cache is divided, each part for some of the connections, unless it is told otherwise
    "divided_table_cache": _Span(((5, 7, 8), None), None),
    # SHOW STATUS is answered from tables
    "status_tables": _Span(((5, 7, 6), None), None),
    # how definitions are changed, and where they are listed
    "atomic_definitions": _Span(((8, 0, 11), None), ((10, 6, 1), None)),
    "drops_all_or_none": _Span(((8, 0, 11), None), None),
    "innodb_views_renamed": _Span(((8, 0, 3), None), None),
    # the redo log names the files that were modified: no other need be opened before it is applied (WL#7142)
    "redo_names_files": _Span(((5, 7, 5), None), ((10, 2, 2), None)),
    # how the log is written
    "microsecond_stamps": _Span(((5, 7, 2), None), None),
}
# Withdrawn releases: they die on a restart with more than 8,000 tables.
DIES_OVER_8000_TABLES = frozenset({(8, 0, 38), (8, 4, 1), (9, 0, 0)})


def can(version: Version, capability: str) -> bool:
    """Does this server have the capability? An unknown name is a mistake of ours, and raises KeyError."""
    span = CAPABILITIES[capability]
    range_ = span.mariadb if version.flavor is Flavor.MARIADB else span.mysql
    if range_ is None:
        return False
    since, until = range_
    return (since is None or version.numbers >= since) and (until is None or version.numbers < until)


def who_can(capability: str) -> str:
    """In words: `MySQL 8.0.11 or later`."""
    span = CAPABILITIES[capability]
    both = (("MySQL", span.mysql), ("MariaDB", span.mariadb))
    return " or ".join(f"{name}{_words(*range_)}" for name, range_ in both if range_ is not None)


def _words(since: tuple[int, ...] | None, until: tuple[int, ...] | None) -> str:
    first, last = (".".join(map(str, numbers or ())) for numbers in (since, until))
    if not last:
        return f" {first} or later" if first else ""
    return f" {first} or later, before {last}" if first else f" before {last}"


def dies_with(version: Version, tables: int) -> bool:
    return tables > 8000 and version.flavor is not Flavor.MARIADB and version.numbers in DIES_OVER_8000_TABLES


# What was measured: raw, frozen, and neither judged nor averaged.


@dataclass(frozen=True)
class Phase:
    name: str
    """`redo scan`, `validation` …"""
    start_s: float
    """Since the exec of the server."""
    end_s: float
    """Since the same moment."""


@dataclass(frozen=True)
class Chain:
    """A chain of calls that a sampled start was seen in."""

    phase: str
    """During which it was seen."""
    thread: str
    """`main thread`, or one of the `other threads`."""
    frames: tuple[str, ...]
    """Functions, outermost first."""
    samples: int
    """Looks in which it was seen."""
    of: int
    """Looks that were taken in this phase."""
    waits: bool = False
    """For another thread, for work, or for a time."""


@dataclass(frozen=True)
class Hot:
    """A function that a sampled server was often in."""

    function: str
    """By its name; `[file]` is one of that file, for which it has no symbol."""
    on_top: int
    """Samples in which it was at work itself, and not what it had called."""
    within: int
    """Samples in which it was anywhere in the stack."""
    of: int
    """All that were taken, of threads that did not wait."""


@dataclass(frozen=True)
class Samples:
    """What was seen of one start by looking into the server again and again."""

    program: str
    """`eu-stack` or `perf`."""
    looks: int
    """How often it was looked."""
    chains: tuple[Chain, ...]
    """Those seen most, phase by phase."""
    folded: str
    """All of them, as flame graph programs read it."""
    note: str = ""
    """What they lack, in words."""


@dataclass(frozen=True)
class Usage:
    """What a process and its storage did between two moments; None is a figure that could not be taken."""

    read_bytes: int | None = None
    """Fetched from storage for the process (/proc/PID/io)."""
    read_requests: int | None = None
    """Reads the device completed meanwhile: the device's count, so other processes' reads are in it. Under a limit on
    reads those of the server's control group, as the limit counts them: before neighbours are merged."""
    cpu_s: float | None = None
    """Of the process, user and system."""
    cache_grown_bytes: int | None = None
    """Growth of the host's page cache meanwhile."""
    group_memory_bytes: int | None = None
    """Of the server's control group at the end, page cache included; None without limits."""


@dataclass(frozen=True)
class Around:
    """What else went on during a timed start, from right after exec to the first answer. None is not told here."""

    seconds: float
    """How long the start was watched."""
    others_cpu_s: float | None = None
    """CPU time of neither the server nor this tool."""
    tool_cpu_s: float | None = None
    """CPU time of this tool and its helpers."""
    steal_s: float | None = None
    """CPU time that the hypervisor gave to others."""
    throttled_s: float | None = None
    """For which a control group held back what runs in it, summed over its CPUs: the server's own, or one above it."""
    others_read_bytes: int | None = None
    """Of the device under the data, beyond what the server fetched."""
    others_written_bytes: int | None = None
    """Of the device under the data, beyond what the server wrote; with what an earlier one had left to be written."""


@dataclass(frozen=True)
class Timeline:
    """Looks at a starting server, every few tenths of a second: columns of one length, each counted from just before
    exec. Empty columns are figures that this host does not tell."""

    at_s: tuple[float, ...]
    """When each look was taken."""
    read_bytes: tuple[int, ...] = ()
    """Fetched from storage for the server."""
    read_requests: tuple[int, ...] = ()
    """Completed by the device."""
    cpu_s: tuple[float, ...] = ()
    """Of the server."""
    others_cpu_s: tuple[float, ...] = ()
    """Of neither the server nor this tool."""


@dataclass(frozen=True)
class Startup:
    """One timed start of a server, from just before exec. Raw: nothing here is judged or averaged."""

    startup_s: float
    """Until the server's own ready line."""
    first_query_s: float
    """Until the first answered query."""
    crash_proof: str | None
    """The log line that proves a crash recovery; None where there was none."""
    usage: Usage
    log: Path
    ready_lag_s: float | None = None
    """Arrival of the ready line minus the server's own stamp on it; None where the stamp is too coarse to tell."""
    start_error_s: float | None = None
    """By how much later than assumed the exec may have been; None where this tool itself called it."""
    engine_overhead_s: float | None = None
    """From the call to the engine until its process stood ready for the exec; None where there is no engine."""
    phases: tuple[Phase, ...] = ()
    """Where the time went, up to the first answered query."""
    beside: tuple[Phase, ...] = ()
    """What went on in threads of the server's own meanwhile; one that ends with the startup was not over by then."""
    log_held_s: float | None = None
    """How long the server kept lines of its log to itself; None where it did not."""
    scan_threads: int | None = None
    """With which it says it has scanned its files; None where it says nothing."""
    around: Around | None = None
    timeline: Timeline | None = None


@dataclass(frozen=True)
class Touched:
    """Which files of the tested tables a traced start opened, until its first answer."""

    opened: int
    """Distinct files."""
    opens: int
    modified: int
    """Files that had been modified since the last checkpoint before the start."""
    opened_unmodified: int
    read: int
    """Files whose contents were read."""
    read_unmodified: int
    means: str
    """`fanotify` or `inotify`."""
    resident_after_bytes: int | None
    """Of the data directory, in the page cache after the start."""


@dataclass(frozen=True)
class ColdProof:
    """How the cache was emptied, and what was found left in it."""

    means: str
    """`drop_caches` (the whole host's), or `fadvise` (file by file; inodes and names stay warm)."""
    resident_bytes: int | None
    """Bytes of the data directory still resident after the first drop; None where the host cannot tell."""
    seconds: float


@dataclass(frozen=True)
class WarmProof:
    """What was in the page cache before a warm start. Shares are of the tables' files, counted where any page of a file
    is in the cache; None where the host cannot tell."""

    warmups: int
    """Starts before it that are not counted."""
    resident_share: float | None = None
    resident_share_after: float | None = None
    """After the start: the files that such a start has in the cache."""


@dataclass(frozen=True)
class Floor:
    """What the storage allows over the same files, cold, under the same limits."""

    version: str
    """Of the server whose files were read."""
    variants: tuple[str, ...]
    """Those that were measured over these files."""
    files: int
    """How many there were."""
    one_thread_s: float
    """To read the first page of each."""
    many_threads_s: float
    """The same by many threads."""
    threads: int
    """How many they were in the reading by many."""
    open_s: float
    """Merely to open each, by one thread."""
    times: int = 1
    """So often was each of the three measured; the shortest is told."""


@dataclass(frozen=True)
class Series:
    """One figure of a server at work, look by look."""

    name: str
    """As in `quantities.py`: `qps`, `table_open_cache_misses_per_s`."""
    values: tuple[float | None, ...]
    """One for each look; a counter's is its growth a second since the look before. None was not taken."""


@dataclass(frozen=True)
class Watched:
    """Looks at a server at work, every second or so, columns of one length."""

    at_s: tuple[float, ...]
    """When each look was taken, since the measuring began; the warm-up lies before 0."""
    series: tuple[Series, ...] = ()
    """Those that a report draws; all that was looked at lies in the run's `raw`."""


@dataclass(frozen=True)
class Wait:
    """What threads of a server at work waited for, from the beginning of the measuring to its end."""

    source: str
    """Who told it: `innodb mutex` (SHOW ENGINE INNODB MUTEX), `performance schema`, or `status` (counters of locks)."""
    name: str
    """As the server calls it: `rwlock: btr0sea.cc:202`, `wait/synch/mutex/innodb/trx_sys_mutex`, `row locks`."""
    count: int
    """How often; the Performance Schema counts every passage, also one that nobody held up."""
    wait_s: float | None = None
    """All of them together; None where the server keeps no time of it."""


# The nouns that are kept and shown: a run, the session it belongs to, and a report's tables. Frozen.

STARTUP = "startup_s"
"""The figure of a session in which starts are timed."""


class Verdict(StrEnum):
    """VOID: not the server's doing, or not what was asked. SAMPLED: as asked, but somebody looked into the server while
    it started or was at work. Neither is in a table's numbers."""

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
    """In the order of the session, from 1."""
    version: str
    """Of the server, as in the session's `versions`."""
    flavor: str
    """`mysql`, `mariadb` or `percona`."""
    variant: str
    """As in the session's `variants`: `cold`, `warm`, or what was compared. A start that was to be warm, and is not
    proved to be, is a `second start` in report.json, and under its planned name in runs/*.json."""
    repeat: int
    """Which of the runs of this version and variant, from 1."""
    verdict: Verdict
    """Whether its figures count."""
    reason: str | None = None
    """Why it is FAILED or VOID."""
    started_at: str | None = None
    """Wall clock, UTC, ISO 8601."""
    startup_s: float | None = None
    """From the exec of the server until its own ready line."""
    first_query_s: float | None = None
    """From the same moment until the first answered query."""
    phases: tuple[Phase, ...] = ()
    """Where the time went, in the order of the start, up to the first answered query."""
    beside: tuple[Phase, ...] = ()
    """What went on in threads of the server's own meanwhile."""
    tables: int | None = None
    """In the data directory, as the server counts them after the start."""
    tablespaces_opened: int | None = None
    """Distinct files of the tested tables that the start opened; None where nothing was traced."""
    tablespaces_modified: int | None = None
    """Since the last checkpoint before the start."""
    read_bytes: int | None = None
    """Fetched from storage for the server, until the first answered query."""
    read_requests: int | None = None
    """Reads that the device completed meanwhile, for whomever; under a limit on reads those of the server alone."""
    cpu_s: float | None = None
    """CPU time of the server, user and system."""
    resident_before_bytes: int | None = None
    """Of the data directory, found in the emptied page cache before the start."""
    cache_grown_bytes: int | None = None
    """Growth of the host's page cache during the start."""
    cold_means: str | None = None
    """How the page cache was emptied: `drop_caches` (the whole host's) or `fadvise` (file by file)."""
    warmups: int | None = None
    """Uncounted starts before a warm one, until the bytes read settled."""
    resident_share: float | None = None
    """Of the tables' files, the share of which any page was in the page cache before a warm start, from 0 to 1."""
    resident_share_after: float | None = None
    """The same after the start: how much of them such a start has in the cache."""
    crash_proof: str | None = None
    """The line of the log that proves a crash recovery."""
    rows_expected: int | None = None
    """That the server had acknowledged before the crash."""
    rows_found: int | None = None
    """Of those, counted after the start."""
    ready_lag_s: float | None = None
    """Arrival of the ready line minus the server's own stamp on it."""
    start_error_s: float | None = None
    """By how much later than assumed the exec may have been; None where this tool itself called it."""
    engine_overhead_s: float | None = None
    """Which the engine took before the exec, in no other figure; None where there is no engine."""
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
    """How often files of the tested tables were opened, repeats included."""
    opened_unmodified: int | None = None
    """Tablespaces that were opened though nothing in them had been modified since the checkpoint."""
    tablespaces_read: int | None = None
    """Distinct files of which contents were read."""
    read_unmodified: int | None = None
    """Those of which contents were read, too."""
    traced_by: str | None = None
    """`fanotify` or `inotify`; None where nothing was traced."""
    resident_after_bytes: int | None = None
    """Of the data directory, in the page cache after a traced start."""
    scan_threads: int | None = None
    """With which the server says it has scanned its files."""
    sampled_by: str | None = None
    """The program that took the stacks: `eu-stack` or `perf`; old sessions have `gdb`, too."""
    samples: int | None = None
    """How often it looked."""
    chains: tuple[Chain, ...] = ()
    """Those seen most, phase by phase."""
    hottest: tuple[Hot, ...] = ()
    """The functions most often on top of these stacks."""
    stacks: str | None = None
    """All of them, folded, relative to the session's folder."""
    around: Around | None = None
    """What else the host did meanwhile."""
    timeline: Timeline | None = None
    """How the start went on, look by look."""
    measures: dict[str, float] = field(default_factory=dict, hash=False)
    """Figures of a server that was put to work, by name, units at their ends: `qps`, `latency_p99_ms`, `elapsed_s`."""
    watched: Watched | None = None
    """How that work went on, look by look."""
    waits: tuple[Wait, ...] = ()
    """What its threads waited for meanwhile: the ten largest of each source."""
    raw: str | None = None
    """All that was looked at, as CSV, relative to the session's folder."""
    clients: dict[str, str] = field(default_factory=dict, hash=False)
    """The programs that put it to work, and the exact command of each."""
    told: dict[str, str] = field(default_factory=dict, hash=False)
    """What a server did and said whose files were damaged, in words, by what was looked at."""
    measure_again: bool = False
    """VOID since the storage failed, or since something that was timed stood still: neither the server's doing nor
    that of what was asked, so that it need not come again. Going on with the session measures it again."""

    @property
    def counted_waits(self) -> bool:
        """It is one of those extra runs in which nothing else is done than to count what its threads waited for."""
        return self.verdict is Verdict.SAMPLED and self.sampled_by is None


@dataclass(frozen=True)
class Axis:
    """Something by which variants differ from each other."""

    name: str
    """`threads`, or an option of the server: `table_open_cache_instances`."""
    values: tuple[str, ...]
    """In the order of the report."""
    base: str | None = None
    """The value that others are held against; None where nothing is held against another along this axis."""


@dataclass(frozen=True)
class Finding:
    """A doubt about a figure, and what to do about it."""

    about: str
    """What it is about, in a word or two: `5.7.22 cold`, or `host`."""
    text: str
    """What is doubtful, with the figures that show it."""
    hint: str
    """What to do about it."""
    kind: str = ""
    """Its name among the findings: `slow-first-run`."""


@dataclass(frozen=True)
class Session:
    """Everything a report is made of. `settings` holds what was asked; `servers` what each server said of itself."""

    scenario: str
    """Its name: `crash-recovery`, `cold-recovery`, `warm-recovery`, `clean-start` or `scale`."""
    question: str
    """Which it answers, in words."""
    command: str
    """The exact command that repeats it."""
    started_at: str
    """Wall clock, UTC, ISO 8601."""
    environment: dict[str, str | int | float | None]
    """Facts of the host, by name; units are at the ends of names."""
    settings: dict[str, str | int | float | bool | None]
    """What was asked, by name."""
    versions: tuple[str, ...]
    """Of the servers, in the order of the report; the first is the baseline unless the settings name another."""
    variants: tuple[str, ...]
    """That were measured of each version."""
    planned_runs: int
    """How many there are when the session has come to its end."""
    servers: dict[str, dict[str, str]] = field(default_factory=dict)
    """By version, and by the variant's name where settings are compared: source, fingerprint, options given, and the
    effective values asked from the server."""
    notes: tuple[str, ...] = ()
    """What a reader should know, in words."""
    runs: tuple[Run, ...] = ()
    """All that have ended, in their order."""
    floors: tuple[Floor, ...] = ()
    """One for each data directory, where they were asked for."""
    tool_version: str = ""
    """Of the tool that measured."""
    title: str = "Startup after SIGKILL"
    """What was timed, in words."""
    status: str = "running"
    """running, finished, interrupted, or aborted (with the reason in the notes)."""
    figure: str = STARTUP
    """What it is about: `startup_s` of a run, or one of its `measures`."""
    axes: tuple[Axis, ...] = ()
    """By what the variants differ, where it is not the cache alone."""
    cells: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of each variant its value on every axis; one that an axis does not concern has none there."""
    figures: dict[str, str] = field(default_factory=dict)
    """Of the variants that are about another figure than the session: its name among their `measures`."""

    @property
    def done(self) -> frozenset[int]:
        """Numbers of the runs that going on with it leaves as they are."""
        return frozenset(run.number for run in self.runs if not run.measure_again)

    def figure_of(self, variant: str) -> str:
        return self.figures.get(variant, self.figure)

    @cached_property
    def differing_axes(self) -> tuple[Axis, ...]:
        """The axes by which its variants differ."""
        return self.differing_among(self.variants)

    def differing_among(self, variants: Sequence[str]) -> tuple[Axis, ...]:
        """The axes on which these have more than one value; what one lacks is none."""
        found = []
        for axis in self.axes:
            had = {self.cells.get(variant, {}).get(axis.name) for variant in variants} - {None}
            if len(had) > 1:
                known = tuple(value for value in axis.values if value in had)
                others = tuple(sorted(value for value in had if value is not None and value not in axis.values))
                found.append(replace(axis, values=known + others))
        return tuple(found)


MOST_RUNS = 10_000
"""Of a session, or it takes a report very long."""
MOST_VERSIONS = 100
"""Of a session."""
MOST_CELLS = 2_000
"""Of a session: its versions times its variants."""


MOST_NAMES = 1_000
"""Of phases and figures, in a session."""


def more_than_a_report_shows(*, runs: int, versions: int, variants: int, names: int = 0) -> str | None:
    """Returns what a session has too much of, in words, or None."""
    counts = (
        (runs, MOST_RUNS, "runs"),
        (versions, MOST_VERSIONS, "versions"),
        (versions * variants, MOST_CELLS, "versions times variants"),
        (names, MOST_NAMES, "names of phases and figures"),
    )
    return next((f"{count:,} {what} (the limit is {most:,})" for count, most, what in counts if count > most), None)


@dataclass(frozen=True)
class Table:
    """Rows of text for a renderer; numbers are right-aligned where `numeric` says so."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    notes: tuple[str, ...] = ()
    keys: int = 1
    """So many first columns say which row it is: they come again where a table is split."""


# What are the figures of a server at work called, in which unit, and is more of it better?


@dataclass(frozen=True)
class Quantity:
    name: str
    title: str
    """As a column is headed."""
    unit: str
    """As it stands behind a figure; empty for a plain number."""
    more_is_better: bool | None = None
    """None where it is neither."""
    told: str = ""
    """What it is, in words for below a table."""


RECOVERY = "recovery_s"
"""The figure of crashes at moments of chance."""
QUANTITIES: dict[str, Quantity] = {
    one.name: one
    for one in (
        Quantity("startup_s", "seconds", "s", False, "until ready for connections"),
        Quantity("elapsed_s", "seconds", "s", False, "until the last answer"),
        Quantity(RECOVERY, "seconds", "s", False, "until ready again, after the last kill"),
        Quantity("kills", "kills", "", None, "of the server, those during its recovery included"),
        Quantity("cut_short", "cut short", "", None, "recoveries that were killed before they were over"),
        Quantity("killed_after_s", "killed after, s", "s", None, "of writing, of a shutdown, or of the last recovery"),
        Quantity("acknowledged", "acknowledged", "", None, "transactions or statements, before the kill"),
        Quantity("lost", "lost", "", False, "of those"),
        Quantity("lost_window_s", "oldest lost, s", "s", False, "how long before the kill it had been acknowledged"),
        Quantity("ghosts", "ghosts", "", False, "there, though rolled back or never committed"),
        Quantity("torn", "torn", "", False, "transactions that are there in part"),
        Quantity("holes", "holes", "", False, "lost before others of the same client that are there"),
        Quantity("half_done", "half done", "", False, "definitions neither as before a statement nor as after it"),
        Quantity("orphans", "orphans", "", False, "files that no table is made of"),
        Quantity("missing", "missing", "", False, "files without which a table cannot be"),
        Quantity("failing", "failing", "", False, "tables that CHECK TABLE finds fault with"),
        Quantity("complaints", "complaints", "", False, "lines of the log that speak of damage"),
        Quantity("qps", "queries/s", "/s", True, "statements the load's clients had answered, a second"),
        Quantity("tps", "transactions/s", "/s", True, "that were committed"),
        Quantity("latency_mean_ms", "mean ms", "ms", False, "of a transaction"),
        Quantity("latency_p50_ms", "p50 ms", "ms", False),
        Quantity("latency_p95_ms", "p95 ms", "ms", False),
        Quantity("latency_p99_ms", "p99 ms", "ms", False),
        Quantity("latency_p999_ms", "p99.9 ms", "ms", False),
        Quantity("latency_max_ms", "max ms", "ms", False),
        Quantity("client_errors", "errors", "", False, "that sysbench ignored: deadlocks, mostly"),
        Quantity("errors_per_transaction", "errors/transaction", "", False, "deadlocks mostly, for each committed"),
        Quantity("polls_per_s", "polls/s", "/s", None, "questions to information_schema that were answered"),
        Quantity("poll_mean_ms", "poll ms", "ms", False),
        Quantity("server_cpus", "server CPUs", "", None, "that the server kept busy on average"),
        Quantity("client_cpus", "client CPUs", "", None, "the same of sysbench"),
        Quantity("others_cpus", "other CPUs", "", None, "of neither server, clients nor this tool"),
        Quantity("steal_cpus", "stolen CPUs", "", False, "that the hypervisor gave to others"),
        Quantity("questions_per_s", "questions/s", "/s", None, "by the server's count, this tool's own included"),
        Quantity("server_cpu_us_per_query", "us/query", "us", False, "CPU time of the server for each query"),
        Quantity("read_bytes_per_s", "read/s", "B/s"),
        Quantity("written_bytes_per_s", "written/s", "B/s"),
        Quantity("device_reads_per_s", "reads/s", "/s", None, "that the device under the data completed"),
        Quantity("device_reads_per_query", "reads/query", "", False, "reads of the device for each query"),
        Quantity("device_writes_per_s", "writes/s", "/s", None, "that the device under the data completed"),
        Quantity("redo_bytes_per_s", "redo/s", "B/s", None, "written to InnoDB's log, its padding included"),
        Quantity("redo_bytes_per_commit", "redo/commit", "B", False, "written to InnoDB's log, its padding included"),
        Quantity("fsyncs_per_s", "fsyncs/s", "/s", None, "of InnoDB's log and data"),
        Quantity("fsyncs_per_commit", "fsyncs/commit", "", False, "of InnoDB's log and data"),
        Quantity("pending_fsyncs", "pending fsyncs", "", False, "that InnoDB waited for"),
        Quantity("rows_changed_per_s", "rows changed/s", "/s", None, "inserted, updated and deleted"),
        Quantity("row_lock_waits_per_s", "row waits/s", "/s", False),
        Quantity("row_lock_wait_ms", "row wait ms", "ms", False, "mean time of a wait for a row"),
        Quantity("mutex_spin_rounds_per_query", "spins/query", "", False),
        Quantity("mutex_os_waits_per_s", "mutex waits/s", "/s", False),
        Quantity("rwlock_spin_rounds_per_query", "lock spins/query", "", False, "of InnoDB's read-write locks"),
        Quantity("rwlock_os_waits_per_s", "lock waits/s", "/s", False, "for InnoDB's read-write locks, after spinning"),
        Quantity("table_open_cache_hits_per_s", "hits/s", "/s"),
        Quantity("table_open_cache_misses_per_s", "misses/s", "/s", False),
        Quantity("table_open_cache_overflows_per_s", "overflows/s", "/s", False),
        Quantity("table_open_cache_hit_share", "hit share", "", True, "of all looks into the table cache"),
        Quantity("load_table_open_cache_hits_per_s", "load hits/s", "/s"),
        Quantity(
            "load_table_open_cache_misses_per_s", "load misses/s", "/s", False, "without those of who asked beside it"
        ),
        Quantity("load_table_open_cache_hit_share", "load share", "", True, "of the load's own looks into it"),
        Quantity(
            "table_open_cache_active_instances", "instances", "", None, "of the table cache, that MariaDB has in use"
        ),
        Quantity("opened_tables_per_s", "opened/s", "/s", False),
        Quantity("opened_table_definitions_per_s", "definitions/s", "/s", False),
        Quantity("buffer_pool_reads_per_s", "pool reads/s", "/s", False, "pages that were not in the buffer pool"),
        Quantity("dirty_pages", "dirty pages", "", None, "in the buffer pool, not written yet"),
        Quantity("checkpoint_age_bytes", "checkpoint age", "B", None, "redo since the last checkpoint"),
        Quantity("history_list_length", "history", "", False, "old row versions that were not purged yet"),
        Quantity("resident_bytes", "memory", "B", False, "of the server, as it lies in the host's"),
        Quantity("dump_bytes", "dump size", "B"),
        Quantity("rows", "rows", "", None, "of the answer"),
        Quantity("read_bytes", "read", "B", None, "fetched from storage for the server"),
        Quantity("read_requests", "requests", "", None, "reads that the device completed"),
        Quantity("server_cpu_s", "server CPU s", "s", False),
        Quantity("tables_per_s", "tables/s", "/s", True),
        Quantity("tables_made", "tables", "", None, "that were made"),
        Quantity(
            "threads_running", "running", "", None, "threads at work by the server's own word, the asking one included"
        ),
    )
}


_UNITS = {"_per_s": "/s", "_bytes": "B", "_ms": "ms", "_s": "s"}
"""At the ends of names."""


def quantity(name: str) -> Quantity:
    """Of any figure: what is not known here is called as it is stored, and counted in what its name ends with."""
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
    return QUANTITIES.get(name) or Quantity(name, name.replace("_", " "), unit)
