"""The table of the phases of a start, and of the lines in a server's log that bound them.

A new phase is one row of `TABLE` and, if it has a line of its own, one `Milestone`. All that names a phase reads them:
charts, pages, `analyze`, `watch`, advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from recovery.model import Phase, Version, can

# --- Servers


class FileAccess(Enum):
    """How a server accesses the tables' files when it starts after a crash. The series of servers differ in it."""

    BEFORE_REDO = "before redo"
    """Opens every file before it applies redo."""
    UNLOGGED_AFTER_REDO = "unlogged, after redo"
    """Reads every file after it has applied redo, without a log line."""
    SCAN_AND_VALIDATE = "scan and validate"
    """Scans the files before redo and validates them after it, with log lines."""
    NAMED_IN_REDO = "named in redo"
    """Opens only the files that the redo log names."""


_BEFORE, _UNLOGGED, _SCANS, _NAMED = ({access} for access in FileAccess)
_ALL = {*FileAccess}


# --- Milestones: the messages that bound the phases of a start
#
# Texts drift between releases and flavors, so a milestone has many spellings. A line that matches none is ignored. The
# texts of 5.6, 5.7, 8.0, 9.7, MariaDB 10.2 and 10.11 were recorded from real servers; those of 5.5, 8.4, MariaDB 10.1
# and 10.6, and Percona Server were taken from bug reports.


@dataclass(frozen=True)
class Line:
    """A line of the log."""

    means: str
    pattern: str
    hints: tuple[str, ...]
    """Every text that matches contains one of these: a quick test for the many lines that are irrelevant."""
    only: FileAccess | None = None
    """The servers that log it, if others do not: they show which one it is where the version is not known."""


_DICTIONARY_ONLY = FileAccess.SCAN_AND_VALIDATE
_GALERA = r"(?:WSREP:|\[WSREP\]|\[Galera\]) "


class Milestone(Enum):
    """A message that bounds a phase. The members have the order in which a start usually logs them."""

    SAFE = Line("mysqld_safe starts a server", r"mysqld_safe Starting \S+ daemon", ("mysqld_safe Starting",))
    ANNOUNCED = Line(
        "the server says that it starts", r"\[MY-015015\]|MySQL Server - start\.", ("MY-015015", "Server - start")
    )
    STARTING = Line(
        "the server names itself", r"starting as process \d|Starting MariaDB .* as process \d", (" as process ",)
    )
    INITIALIZING = Line(
        "the server makes a new data directory", r"initializing of server in progress", ("initializing of server",)
    )
    DIRECTORY_UPGRADE = Line(
        "the data directory of 5.7 is upgraded",
        r"\[MY-011012\]|Starting upgrade of data directory",
        ("MY-011012", "upgrade of data"),
    )
    TRANSFER = Line(
        "a cluster sends all its data",
        rf"{_GALERA}(?:State transfer required|Running: 'wsrep_sst_|Initiating SST/IST transfer)",
        ("State transfer", "wsrep_sst_", "SST/IST"),
    )
    TRANSFERRED = Line(
        "the data of the cluster are there", rf"{_GALERA}SST (?:succeeded|complete)", ("SST succeeded", "SST complete")
    )
    ARIA = Line("the tables of Aria are recovered", r"Aria engine: starting recovery", ("Aria engine: starting",))
    ARIA_RECOVERED = Line(
        "the tables of Aria have been recovered", r"Aria engine: recovery done", ("Aria engine: recovery",)
    )
    INNODB = Line(
        "InnoDB begins", r"InnoDB initialization has started", ("initialization has started",), _DICTIONARY_ONLY
    )
    SCAN = Line(
        "directories are listed, then every file is read",
        r"Directories to scan|\[InnoDB\] Scanning '",
        ("Directories to scan", "Scanning '"),
        _DICTIONARY_ONLY,
    )
    LISTING = Line("directories are still being listed", r"Files found so far: \d", ("found so far",), _DICTIONARY_ONLY)
    FOUND = Line(
        "all directories have been listed",
        r"Found \d+ '\.ibd'|Using \d+ threads? to scan \d",
        (" '.ibd'", " to scan "),
        _DICTIONARY_ONLY,
    )
    SCANNING = Line("files are being read", r"Checked \d+/\d+ files", ("Checked ",), _DICTIONARY_ONLY)
    SCANNED = Line("every file has been read", r"Completed space ID check of", ("space ID check",))
    POOL = Line(
        "the buffer pool is made",
        r"Initializing buffer pool|InnoDB: innodb_buffer_pool_size_max=",
        ("Initializing buffer", "size_max="),
    )
    POOLED = Line("the buffer pool is there", r"Completed initialization of buffer pool", ("initialization of buffer",))
    SYSTEM = Line("the system tablespace is open", r"[Hh]ighest supported file format is", ("file format is",))
    REDO = Line(
        "the redo log is read",
        r"Log scan progressed past|log sequence numbers? .{0,120}(?:do|does) not match|Starting log scan based"
        # The binlog's "Starting crash recovery..." has three dots, and no InnoDB before it.
        r"|Database was not shut ?down normally|InnoDB(?::|\]) Starting crash recovery\.(?!\.)"
        r"|latest found checkpoint|Starting to parse redo log|Doing recovery: scanned up to"
        r"|InnoDB: (?:Read|Parsed) redo log up to|InnoDB: End of log at LSN",
        (
            "Log scan", " not match", "log scan based", "was not shut", "Starting crash recovery", "found checkpoint",
            "parse redo log", "scanned up to", "redo log up to", "End of log",
        ),
    )  # fmt: skip
    CHECKPOINT = Line(
        "MariaDB reports a crash recovery", r"Starting crash recovery from checkpoint", ("recovery from checkpoint",)
    )
    DISCOVER = Line(
        "every file is opened",
        r"Reading tablespace information from the \.ibd",
        ("Reading tablespace",),
        FileAccess.BEFORE_REDO,
    )
    RESTORE = Line("every file has been opened", r"Restoring possible half-written", ("Restoring possible",))
    APPLY = Line(
        "redo is applied",
        r"Starting an apply batch|Applying a batch of|Starting (?:a|final) batch to recover|InnoDB: To recover: ",
        ("an apply batch", "Applying a batch", "batch to recover", "To recover: "),
    )
    APPLIED = Line("redo has been applied", r"InnoDB(?::|\]) Apply batch completed", ("Apply batch",))
    SEGMENTS = Line(
        "rollback segments are active", r"rollback segments?(?:\(s\))? .{0,60}active", ("rollback segment",)
    )
    RESIZE = Line(
        "the redo log is rebuilt in another size",
        r"(?:Resizing|Upgrading) redo log|Starting to delete and rewrite (?:redo )?log file",
        ("ing redo log", "delete and rewrite"),
    )
    RESIZED = Line("the redo log has been rebuilt", r"New (?:redo )?log files? created", ("log file",))
    UNDO = Line(
        "undo and temporary tablespaces are opened",
        r"Using undo tablespace|Opened \d+ existing undo tablespaces|Removed temporary tablespace"
        r"|Creating shared tablespace for temp|Waiting for (?:purge|the background threads) to start",
        ("undo tablespace", "Removed temporary", "Creating shared", "Waiting for "),
    )
    STARTED = Line(
        "InnoDB is up",
        r"started; log sequence number|InnoDB: log sequence number \d+; transaction id"
        r"|InnoDB initialization has ended",
        ("started; log", "; transaction id", "initialization has ended"),
    )
    DICTIONARY = Line(
        "the data dictionary is opened",
        r"Data dictionary (?:restarting|initializing)",
        ("Data dictionary ",),
        _DICTIONARY_ONLY,
    )
    VALIDATE = Line(
        "the dictionary is read, then every file is compared with it",
        r"Reading DD tablespace files",
        ("DD tablespace files",),
        _DICTIONARY_ONLY,
    )
    CHECK = Line(
        "the dictionary has been read, and files are compared with it",
        r"Skipping InnoDB tablespace path validation",
        ("path validation",),
        _DICTIONARY_ONLY,
    )
    # The last line has nearly the same words as those about progress before it, but a code of its own.
    CHECKING = Line(
        "files are being compared with the dictionary",
        r"\[MY-012350\]|threads? have validated \d|Validated \d+ out of \d",
        ("MY-012350", "have validated", "Validated "),
        _DICTIONARY_ONLY,
    )
    VALIDATED = Line(
        "every file has been compared with the dictionary",
        r"\[MY-012356\]|Validated \d+/\d+  tablespaces|Scanned \d+ tablespaces\. Validated",
        ("MY-012356", "Validated"),
        _DICTIONARY_ONLY,
    )
    DICTIONARY_READ = Line(
        "the data dictionary is in use",
        r"Using data dictionary with version",
        ("Using data dictionary",),
        _DICTIONARY_ONLY,
    )
    DICTIONARY_UPGRADE = Line(
        "the data dictionary of an older server is upgraded",
        r"Data dictionary upgrading from version|MySQL server upgrading from version",
        ("upgrading from version",),
        _DICTIONARY_ONLY,
    )
    DICTIONARY_UPGRADED = Line(
        "the data dictionary is of this server",
        r"Data dictionary upgrade from version .{1,60} completed",
        ("dictionary upgrade from",),
        _DICTIONARY_ONLY,
    )
    UPGRADE = Line(
        "tables of an older server are upgraded", r"Server upgrade from .{1,60} started", ("Server upgrade from",)
    )
    UPGRADED = Line("the upgrade is done", r"Server upgrade from .{1,60} completed", ("Server upgrade from",))
    BINLOG = Line(
        "prepared transactions are looked up in the binlog",
        r"Recovering after a crash using|Starting XA crash recovery",
        ("after a crash using", "XA crash recovery"),
    )
    # 9.x ends the part of InnoDB with "Crash recovery finished in InnoDB engine", which must not match: it is logged on
    # clean starts too.
    BINLOG_READ = Line(
        "prepared transactions are settled", r"rash (?:table )?recovery finished\.", ("recovery finished.",)
    )
    # The server's own ready line, which names its executable. The X Plugin logs a similar line before it, without that
    # name. Up to 5.7 and in MariaDB the line ends after the text, and "Version: ..." follows on the next line.
    READY = Line(
        "ready for connections",
        r"\[(?:Note|System)\] (?:\[MY-\d+\] \[Server\] )?(?!X Plugin).+: ready for connections\.(?:$| )",
        ("ready for connections.",),
    )
    # Work of background threads, in parallel with the start.
    POOL_LOAD = Line("the buffer pool is loaded", r"Loading buffer pool\(s\) from", ("Loading buffer pool",))
    POOL_LOADED = Line(
        "the buffer pool has been loaded",
        r"Buffer pool\(s\) load (?:completed|aborted)|Cannot open '.{0,200}ib_buffer_pool",
        ("Buffer pool(s) load", "ib_buffer_pool"),
    )
    ROLLBACK = Line(
        "transactions are rolled back", r"Starting in background the rollback", ("background the rollback",)
    )
    ROLLED_BACK = Line(
        "transactions have been rolled back", r"Rollback of non-prepared transactions completed", ("Rollback of non",)
    )


_M = Milestone
_MILESTONES = tuple(Milestone)


def _span(first: Milestone, last: Milestone) -> set[Milestone]:
    """Returns the milestones from one to another, in the order of a start."""
    return set(_MILESTONES[_MILESTONES.index(first) : _MILESTONES.index(last) + 1])


_ANY = set(Milestone)
_LATER = _ANY - {_M.READY}
"""By default the ready line ends no phase. Where a server logs little, as 8.0 does by default, it may come long after
the end of the last one."""
_NEVER = set[Milestone]()
_EARLY = {
    _M.SAFE, _M.ANNOUNCED, _M.STARTING, _M.INITIALIZING, _M.DIRECTORY_UPGRADE, _M.TRANSFERRED, _M.ARIA_RECOVERED,
    _M.INNODB, _M.SCANNED,
}  # fmt: skip
_REDO = _span(_M.SYSTEM, _M.APPLIED)
AFTER_REDO = _span(_M.SEGMENTS, _M.STARTED)
_OF_DICTIONARY = _span(_M.DICTIONARY, _M.DICTIONARY_UPGRADED)
_AFTER_DICTIONARY = _ANY - _OF_DICTIONARY - {_M.STARTED}


# --- The columns of the table


@dataclass(frozen=True)
class Bounds:
    """Two lines of the log that have a phase between them. A condition that is None holds for every start."""

    opens: AbstractSet[Milestone]
    """Any of these opens the phase."""
    closes: AbstractSet[Milestone] = field(default_factory=lambda: _LATER)
    """Any of these closes it, if it is the next one."""
    lasting: bool = True
    """Whether a server is said to be in this phase while the line that opens it is the last one."""
    after: Milestone | None = None
    """What the log must have shown before, so that the server is said to be in it."""
    alone: bool = False
    """Whether no other phase has a part of this time."""
    access: AbstractSet[FileAccess] | None = None
    crashed: bool | None = None
    has_notes: bool | None = None
    has_redo: bool | None = None
    initializes: bool | None = None


@dataclass(frozen=True)
class Said:
    """A text about a phase, for the servers and starts that it is true of."""

    text: str
    can: str | None = None
    """A capability that the server must have."""
    crashed: bool | None = None
    """How the server must have ended before, if that is known."""


class Files(Enum):
    """How the tables' files are accessed in a phase."""

    NONE = "not at all"
    LISTED = "their directories are listed"
    LOOKED_UP = "their names are read from the dictionary"
    READ = "each is opened and read"
    OPENED = "they are opened, and hardly read"
    CHANGED = "pages that redo changes are read"

    @property
    def fills_page_cache(self) -> bool:
        """Whether the next start does this faster, as long as it stays in the page cache."""
        return self in (Files.LISTED, Files.LOOKED_UP, Files.READ)


class Unit(Enum):
    FILES = "files"
    BYTES = "bytes"
    PAGES = "pages"
    PERCENT = "%"
    ROWS = "rows"


class Counter(Enum):
    """What is counted of a process."""

    READ_CALLS = "calls of read"
    BYTES_READ = "bytes read by calls"
    PAGES_READ = "pages read from storage"
    PAGES_WRITTEN = "pages written to storage"
    FILES_OPENED = "tables' files opened, in the order of their names"


class Claim(Enum):
    """Whether a time left is shown, by how well it was measured."""

    RANGE = "a range"
    AT_MOST = "at most"
    TOGETHER = "with the other phase of redo"
    NONE = "none"


@dataclass(frozen=True)
class Counted:
    """How the progress of a phase is counted."""

    unit: Unit
    counter: Counter | None
    """None: only lines of the log count."""
    claim: Claim
    errors: tuple[float, float, float]
    """Nine of ten truths were not more than this share above the estimated time left, and not further below it than its
    inverse, when 25, 50 and 75 % were done: docs/results/how-true.md says how they were measured. None of a phase that
    reads files is less than 0.2, since storage changes its speed."""
    passes_before: int = 0
    """How often the server has read every file before this phase."""
    opened_by: Milestone | None = None
    """The milestone from which on is counted, and which names the phase: of the two phases that it opens, the log tells
    only later, if at all, when the second one began."""
    per_file: int = 1
    """Calls of read for each file."""
    skipped_s: float = 0.0
    """Time at the beginning of the phase in which something else is done."""
    of_phase: bool = False
    """Whether the counter is 0 at the beginning of the phase, and not of the process."""
    is_ahead: bool = True
    """Whether it is known before that a crash start of its series comes to this phase."""


@dataclass(frozen=True)
class PhaseRow:
    """A phase: a row of the table."""

    name: str
    series: AbstractSet[FileAccess]
    """The servers that have it."""
    bounds: tuple[Bounds, ...]
    """The lines that open and close it. Nothing in the log bounds a phase without any."""
    does: tuple[Said, ...]
    """What a server does in it: the first text that is true. None if it says itself, or depends on the start."""
    files: Files
    counted: Counted | None
    advice: tuple[Said, ...]
    """The section of docs/shorten.md about it: the first one that is true."""
    colour: int
    """Its place among the colours of charts. The first ones differ most, so phases that take long have them."""
    counted_after: Mapping[str, Counted] = field(default_factory=dict)
    """How it is counted together with the phase before, where no line separates the two."""
    progress: tuple[Milestone, Milestone] | None = None
    """The line about its progress, which servers write every ten seconds, and the one that opens it. If that is not
    logged, the phase began ten seconds before the first line about its progress: an estimate. Otherwise no line
    separates it from the row above."""
    background: bool = False
    """Whether threads in the background do it, concurrent with the other phases."""
    is_reported: bool = True
    """Whether reports name it, and not `watch` alone."""


# --- The table

PROCESS_START = "process start"
STATE_TRANSFER = "state transfer"
ARIA_RECOVERY = "aria recovery"
BUFFER_POOL = "buffer pool"
DISCOVERY = "discovery"
DIRECTORY_LISTING = "directory listing"
FILE_SCAN = "file scan"
INNODB_INITIALIZATION = "innodb initialization"
"""Everything from the directory listing to the temporary tablespaces, where 8.0 or later logs no more."""
SYSTEM_FILES = "system files"
REDO_SCAN = "redo scan"
REDO_APPLY = "redo apply"
PAGE_FLUSH = "page flush"
"""8.0 and later write all recovered pages after "Apply batch completed!", and log nothing of it. Reports call this time
`unnamed`, since they cannot tell how much of it the flush took."""
VALIDATION = "validation"
REDO_LOG_RESIZE = "redo log resize"
UNDO_AND_TEMP = "undo and temp"
DICTIONARY = "dictionary"
DICTIONARY_READ = "dictionary read"
FILE_CHECK = "file check"
SYSTEM_TABLES = "system tables"
DICTIONARY_UPGRADE = "dictionary upgrade"
SERVER_UPGRADE = "server upgrade"
BINLOG_RECOVERY = "binlog recovery"
REST_TO_READY = "rest to ready"
UNNAMED = "unnamed"
FIRST_QUERY = "first query"
# Phases of the server's background threads, concurrent with the others.
ROLLBACK = "rollback"
BUFFER_POOL_LOAD = "buffer pool load"

JOIN = " + "
"""Joins the names of phases that no log line separates."""

_OTHER, _UPGRADE = (Said("other-phases"),), (Said("upgrade"),)
_REDO_ERRORS = (0.9, 0.8, 0.7)
_UNLOGGED_CHECK = (
    # By default, 8.0 and later do not log that they read their dictionary and check the files.
    Bounds({_M.STARTED}, _AFTER_DICTIONARY, lasting=False, initializes=False),
    Bounds({_M.STARTED}, _NEVER, has_notes=False, initializes=False),
    Bounds(_EARLY, _span(_M.UPGRADE, _M.READY), lasting=False, has_notes=False),
)

TABLE = (
    PhaseRow(
        PROCESS_START,
        series=_ALL,
        bounds=(
            Bounds(_EARLY - {_M.SCANNED}, _span(_M.SAFE, _M.APPLIED)),
            # What is left after the scan of files is short.
            Bounds({_M.SCANNED}, _span(_M.SAFE, _M.APPLIED), lasting=False),
        ),
        does=(Said("is loaded and reads its options"),),
        files=Files.NONE,
        counted=None,
        advice=_OTHER,
        colour=14,
    ),
    PhaseRow(
        STATE_TRANSFER,
        series=_ALL,
        bounds=(Bounds({_M.TRANSFER}),),
        does=(Said("receives all data from another node of its cluster (SST)"),),
        files=Files.NONE,
        counted=None,
        advice=_OTHER,
        colour=24,
    ),
    PhaseRow(
        ARIA_RECOVERY,
        series=_ALL,
        bounds=(Bounds({_M.ARIA}),),
        does=(Said("recovers the tables of Aria"),),
        files=Files.NONE,
        counted=None,
        advice=_OTHER,
        colour=23,
    ),
    PhaseRow(
        INNODB_INITIALIZATION,
        series=_SCANS,
        bounds=(
            Bounds({_M.INNODB}, {_M.STARTED}, lasting=False, alone=True),
            Bounds({_M.INNODB}, _NEVER, alone=True, has_notes=False),
            Bounds(_EARLY, _span(_M.SEGMENTS, _M.READY), lasting=False, has_notes=False),
        ),
        does=(
            Said("reads the first page of every file, and reads and applies the redo log", crashed=True),
            Said("reads the first page of every file", crashed=False),
            Said("reads the first page of every file and, after a crash, reads and applies the redo log"),
        ),
        files=Files.CHANGED,
        counted=Counted(Unit.FILES, Counter.READ_CALLS, Claim.AT_MOST, (0.5, 0.5, 0.5), is_ahead=False),
        advice=(Said("innodb-initialization"),),
        colour=16,
    ),
    PhaseRow(
        DIRECTORY_LISTING,
        series=_SCANS,
        bounds=(Bounds({_M.SCAN, _M.LISTING}),),
        does=(Said("lists the directories of the tables' files"),),
        files=Files.LISTED,
        counted=None,
        advice=(Said("directory-listing-and-file-scan"),),
        colour=12,
    ),
    PhaseRow(
        FILE_SCAN,
        series=_SCANS,
        bounds=(Bounds({_M.SCAN}, _LATER - {_M.LISTING, _M.FOUND}), Bounds({_M.FOUND})),
        does=(Said("reads the first page of every file before redo"),),
        files=Files.READ,
        counted=Counted(Unit.FILES, Counter.READ_CALLS, Claim.RANGE, (0.4, 0.3, 0.2), opened_by=_M.SCAN),
        advice=(Said("directory-listing-and-file-scan"),),
        colour=4,
        progress=(_M.SCANNING, _M.FOUND),
    ),
    PhaseRow(
        BUFFER_POOL,
        series=_ALL,
        bounds=(Bounds({_M.POOL}), Bounds({_M.SCANNED}, _NEVER)),
        does=(Said("allocates the buffer pool"),),
        files=Files.NONE,
        counted=None,
        advice=(Said("buffer-pool"),),
        colour=11,
    ),
    PhaseRow(
        DISCOVERY,
        series=_BEFORE,
        bounds=(Bounds({_M.DISCOVER}), Bounds({_M.CHECKPOINT}, {_M.RESTORE}, alone=True)),
        does=(Said("reads the first page of every file before redo"),),
        files=Files.READ,
        counted=Counted(Unit.FILES, Counter.READ_CALLS, Claim.RANGE, (0.5, 0.35, 0.3)),
        advice=(Said("discovery"),),
        colour=0,
    ),
    PhaseRow(
        SYSTEM_FILES,
        series=_ALL,
        bounds=(Bounds({_M.POOLED}),),
        does=(Said("opens its system files"),),
        files=Files.NONE,
        counted=None,
        advice=_OTHER,
        colour=13,
    ),
    PhaseRow(
        REDO_SCAN,
        series=_ALL,
        bounds=(
            Bounds({_M.SYSTEM, _M.REDO, _M.CHECKPOINT, _M.RESTORE}),
            # A batch was full, and the scan of the redo log continues.
            Bounds({_M.APPLIED}, _REDO, lasting=False),
        ),
        does=(
            Said("reads the redo log", can="data_dictionary"),
            Said("reads the redo log, and opens and reads the files that it names", can="redo_names_files"),
            Said("reads the redo log"),
        ),
        files=Files.CHANGED,
        counted=Counted(Unit.BYTES, Counter.BYTES_READ, Claim.TOGETHER, _REDO_ERRORS),
        advice=(Said("redo"),),
        colour=2,
    ),
    PhaseRow(
        REDO_APPLY,
        series=_ALL,
        bounds=(Bounds({_M.APPLY}),),
        does=(Said("applies the redo log"),),
        files=Files.CHANGED,
        counted=Counted(Unit.PAGES, Counter.PAGES_READ, Claim.TOGETHER, _REDO_ERRORS),
        advice=(Said("redo"),),
        colour=3,
    ),
    PhaseRow(
        PAGE_FLUSH,
        series=_SCANS,
        bounds=(),
        does=(),
        files=Files.NONE,
        counted=Counted(Unit.PAGES, Counter.PAGES_WRITTEN, Claim.AT_MOST, (1.0, 1.0, 1.0)),
        advice=_OTHER,
        colour=26,
        is_reported=False,
    ),
    PhaseRow(
        VALIDATION,
        series=_UNLOGGED,
        bounds=(
            Bounds({_M.APPLIED}, AFTER_REDO, crashed=True),
            Bounds(_REDO - {_M.APPLIED}, AFTER_REDO, lasting=False, crashed=True),
            # MariaDB 10.2 does not log the end of the batch.
            Bounds({_M.APPLY}, _NEVER, after=_M.CHECKPOINT, crashed=True),
            # With an empty redo log, it reads its files at once.
            Bounds(_REDO - {_M.APPLIED}, AFTER_REDO, alone=True, crashed=True, has_redo=False),
        ),
        does=(Said("reads every file after redo"),),
        files=Files.READ,
        counted=Counted(Unit.FILES, Counter.READ_CALLS, Claim.RANGE, (0.2, 0.2, 0.2)),
        advice=(Said("validation"),),
        colour=1,
        counted_after={REDO_APPLY: Counted(Unit.FILES, Counter.READ_CALLS, Claim.RANGE, (0.4, 0.3, 0.2), per_file=3)},
    ),
    PhaseRow(
        REDO_LOG_RESIZE,
        series=_ALL,
        bounds=(
            Bounds({_M.RESIZE}),
            # Before a server says that it rebuilds the redo log, it writes all pages that the recovery has modified.
            Bounds(_REDO, {_M.RESIZE}, lasting=False, crashed=True),
        ),
        does=(Said("writes all modified pages and rebuilds the redo log in its configured size"),),
        files=Files.NONE,
        counted=None,
        advice=(Said("redo-log-resize"),),
        colour=17,
    ),
    PhaseRow(
        UNDO_AND_TEMP,
        series=_ALL,
        bounds=(Bounds({_M.SEGMENTS, _M.RESIZED, _M.UNDO}),),
        does=(Said("opens undo and temporary tablespaces"),),
        files=Files.NONE,
        counted=None,
        advice=(Said("undo"),),
        colour=10,
    ),
    PhaseRow(
        DICTIONARY,
        series=_ALL,
        bounds=(
            Bounds({_M.DICTIONARY}),
            # What is left after these is short.
            Bounds({_M.VALIDATED, _M.DICTIONARY_UPGRADED}, lasting=False),
            # It looks up each file in the dictionary and opens it, without logging that, on clean starts too.
            Bounds({_M.SEGMENTS}, {_M.UNDO}, alone=True, access=_NAMED),
            Bounds({_M.APPLIED}, AFTER_REDO, access=_BEFORE),
            Bounds(_REDO - {_M.APPLIED}, AFTER_REDO, lasting=False, access=_BEFORE),
            # Of a clean shutdown there is no redo to scan, and no line until the files are looked up.
            Bounds(_REDO, AFTER_REDO, access=_UNLOGGED, crashed=False),
            Bounds({_M.STARTED}, _OF_DICTIONARY | {_M.STARTED}, lasting=False, access=_SCANS, initializes=False),
            Bounds({_M.STARTED}, _NEVER, access=_SCANS, has_notes=True, initializes=False),
            Bounds(_EARLY, _OF_DICTIONARY, lasting=False, access=_SCANS, has_notes=False),
        ),
        does=(
            Said("opens its dictionary", can="data_dictionary"),
            Said("loads its dictionary and opens the files that it lists"),
        ),
        files=Files.OPENED,
        counted=Counted(
            Unit.FILES, Counter.FILES_OPENED, Claim.AT_MOST, (0.5, 0.5, 0.5), of_phase=True, is_ahead=False
        ),
        advice=(Said("dictionary"),),
        colour=8,
    ),
    PhaseRow(
        DICTIONARY_READ,
        series=_SCANS,
        bounds=(Bounds({_M.VALIDATE}), *_UNLOGGED_CHECK),
        does=(Said("reads all tablespaces from its dictionary"),),
        files=Files.LOOKED_UP,
        counted=None,
        advice=(Said("dictionary-read"),),
        colour=6,
    ),
    PhaseRow(
        FILE_CHECK,
        series=_SCANS,
        bounds=(Bounds({_M.VALIDATE}, _LATER - {_M.CHECK}), Bounds({_M.CHECK}), *_UNLOGGED_CHECK),
        does=(
            Said("opens and reads every file again, to compare it with the dictionary", crashed=True),
            Said("opens and closes every file, without reading it", crashed=False),
            Said("opens every file again, and reads it after a crash"),
        ),
        files=Files.READ,
        counted=Counted(
            Unit.FILES,
            Counter.READ_CALLS,
            Claim.RANGE,
            (0.2, 0.2, 0.2),
            passes_before=1,
            opened_by=_M.VALIDATE,
            skipped_s=2.0,
        ),
        advice=(Said("file-check"),),
        colour=5,
        progress=(_M.CHECKING, _M.CHECK),
    ),
    PhaseRow(
        ROLLBACK,
        series=_ALL,
        bounds=(Bounds({_M.ROLLBACK}, {_M.ROLLED_BACK}),),
        does=(),
        files=Files.CHANGED,
        counted=Counted(Unit.ROWS, None, Claim.RANGE, (0.4, 0.25, 0.15), is_ahead=False),
        advice=(Said("undo"),),
        colour=20,
        background=True,
    ),
    PhaseRow(
        SYSTEM_TABLES,
        series=_ALL,
        bounds=(Bounds({_M.STARTED}, _ANY, initializes=True),),
        does=(Said("creates the system tables of a new data directory"),),
        files=Files.NONE,
        counted=None,
        advice=_OTHER,
        colour=25,
    ),
    PhaseRow(
        DICTIONARY_UPGRADE,
        series=_SCANS,
        # 8.0 up to 8.0.15 leaves the rest of the upgrade to mysql_upgrade.
        bounds=(Bounds({_M.DICTIONARY_UPGRADE}, _ANY),),
        does=(Said("makes its own dictionary from that of the older release"),),
        files=Files.OPENED,
        counted=None,
        advice=_UPGRADE,
        colour=22,
    ),
    PhaseRow(
        SERVER_UPGRADE,
        series=_ALL,
        bounds=(Bounds({_M.UPGRADE}),),
        does=(Said("upgrades the system tables and the sys schema, and checks the tables in both"),),
        files=Files.NONE,
        counted=None,
        advice=_UPGRADE,
        colour=18,
    ),
    PhaseRow(
        BINLOG_RECOVERY,
        series=_ALL,
        bounds=(Bounds({_M.BINLOG}),),
        does=(Said("recovers transactions from the binary log"),),
        files=Files.NONE,
        counted=None,
        advice=_OTHER,
        colour=19,
    ),
    PhaseRow(
        BUFFER_POOL_LOAD,
        series=_ALL,
        bounds=(Bounds({_M.POOL_LOAD}, {_M.POOL_LOADED}),),
        does=(),
        files=Files.READ,
        counted=None,
        advice=(Said("buffer-pool"),),
        colour=21,
        background=True,
    ),
    PhaseRow(
        REST_TO_READY,
        series=_ALL,
        bounds=(
            Bounds({_M.DICTIONARY_READ, _M.UPGRADED, _M.BINLOG_READ}, _ANY),
            Bounds({_M.VALIDATED, _M.DICTIONARY_UPGRADED}, _NEVER),
            Bounds({_M.DICTIONARY_UPGRADE}, {_M.READY}, lasting=False, access=_SCANS),
            Bounds({_M.DICTIONARY_UPGRADED}, {_M.UPGRADE}, lasting=False, access=_SCANS),
            Bounds({_M.STARTED}, _ANY, access=_ALL - _SCANS, initializes=False),
            Bounds({_M.STARTED}, {_M.READY}, lasting=False, access=_SCANS, initializes=False),
            Bounds(_EARLY, {_M.READY}, lasting=False, access=_SCANS, has_notes=False),
        ),
        does=(Said("makes a TLS key unless it has ssl_cert or ssl=OFF", can="makes_tls_key"),),
        files=Files.NONE,
        counted=None,
        advice=(Said("tls-key", can="makes_tls_key"), *_OTHER),
        colour=9,
    ),
    PhaseRow(
        UNNAMED,
        series=_ALL,
        bounds=(),
        does=(),
        files=Files.NONE,
        counted=None,
        advice=_OTHER,
        colour=7,
    ),
    PhaseRow(
        FIRST_QUERY,
        series=_ALL,
        bounds=(),
        does=(),
        files=Files.NONE,
        counted=None,
        advice=_OTHER,
        colour=15,
    ),
)
"""The phases in the order of a start."""
ROWS = {row.name: row for row in TABLE}
ORDER = tuple(row.name for row in TABLE if row.is_reported)
"""The phases of reports."""


# --- What is asked of the table


def what_happens_in(phase: str, version: Version | None, *, crashed: bool | None) -> str | None:
    """Returns what a server does in a phase, or in all of those that the log joins; None if no phase says it.
    `crashed` is None if it is not known how the server ended before."""
    parts = [_first_true(ROWS[part].does, version, crashed) for part in phase.split(JOIN)]
    return ", then ".join(part for part in parts if part) or None


def _first_true(texts: Iterable[Said], version: Version | None, crashed: bool | None = None) -> str | None:
    return next(
        (
            said.text
            for said in texts
            if said.crashed in (None, crashed)
            and (said.can is None or (version is not None and can(version, said.can)))
        ),
        None,
    )


def is_upgrade(phase: str) -> bool:
    """Returns whether a server does this once, at its first start over the files of an older release."""
    return all(ROWS[part].advice == _UPGRADE for part in phase.split(JOIN))


def has_hidden_phases(names: Iterable[str]) -> bool:
    """Returns whether these are the phases of a log without Notes, which hides phases and whether there was a crash."""
    return any(INNODB_INITIALIZATION in name.split(JOIN) for name in names)


def quiet_log_advice(names: Iterable[str]) -> str | None:
    """Returns how the log of the next start shows its phases; None if this log does."""
    if not has_hidden_phases(names):
        return None
    return (
        "By default the log does not show more: set log_error_verbosity=3 in my.cnf before the next start "
        "(SET PERSIST takes effect too late)."
    )


def advice_on(phase: str, version: Version | None = None) -> str:
    """Returns the command that prints what shortens a phase; of phases that the log joins, all sections."""
    sections = dict.fromkeys(_first_true(ROWS[part].advice, version) for part in phase.split(JOIN))
    return " ".join(["recovery docs", *(f"shorten#{section}" for section in sections)])


def sorted_phases(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the distinct names in the order of a start. A joined name is sorted by its first part."""
    known = {name: number for number, name in enumerate(ORDER)}
    return tuple(sorted(set(names), key=lambda name: (known.get(name.split(JOIN)[0], len(ORDER)), len(name), name)))


def seconds_by_name(phases: Iterable[Phase]) -> dict[str, float]:
    """Returns the total duration of each phase. A phase can occur several times: redo is scanned and applied in
    turns."""
    found: dict[str, float] = {}
    for phase in phases:
        found[phase.name] = found.get(phase.name, 0.0) + phase.end_s - phase.start_s
    return found


_SPLIT_BY_PROGRESS = tuple((before.name, row.name) for before, row in pairwise(TABLE) if row.progress is not None)
"""Phases that the log separates only if they take long or have many files."""


def seconds_of_starts(starts: Iterable[Iterable[Phase]]) -> list[dict[str, float]]:
    """Returns the durations of the phases of each start, with the same names: two phases that the log of one of the
    starts joins are added up in all of them."""
    found = [seconds_by_name(phases) for phases in starts]
    for parts in _SPLIT_BY_PROGRESS:
        joined = JOIN.join(parts)
        if any(joined in seconds for seconds in found):
            for seconds in found:
                if both := [seconds.pop(name) for name in (*parts, joined) if name in seconds]:
                    seconds[joined] = sum(both)
    return found


def estimated_phases(starts: Iterable[Iterable[Phase]], names: Iterable[str]) -> frozenset[str]:
    """Returns which of these names have a phase whose beginning or end is an estimate in any of the starts."""
    return frozenset(names) & {phase.name for phases in starts for phase in phases if phase.estimated}


def is_after_the_start(name: str) -> bool:
    """Returns whether the phase is a query of FIRST_QUERIES, which follows the first answered query."""
    return any(part not in ORDER for part in name.split(JOIN))


def of_the_start(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: duration for name, duration in seconds.items() if not is_after_the_start(name)}


def named_share(phases: Iterable[Phase]) -> float | None:
    """Returns the share of the startup that belongs to named phases, from 0 to 1, or None if no phase took time."""
    startup = {name: seconds for name, seconds in of_the_start(seconds_by_name(phases)).items() if name != FIRST_QUERY}
    whole = sum(startup.values())
    return 1 - startup.get(UNNAMED, 0.0) / whole if whole > 0 else None
