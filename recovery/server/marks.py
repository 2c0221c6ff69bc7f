"""Where on its way to ready does this line of the error log stand? One mark for every text that bounds a phase.

Texts drift between releases and flavors, so a mark has many spellings, and a line that has none is no mark: it never
breaks anything. 5.6, 5.7, 8.0, 9.7, MariaDB 10.2 and 10.11 were recorded from real servers; 5.5, 8.4, MariaDB 10.1 and
10.6, and Percona Server are by the texts in their bug reports."""

from __future__ import annotations

import re
from enum import Enum

from recovery.server.errorlog import LONGEST


class Mark(Enum):
    """In the order in which a start usually comes by."""

    SAFE = "mysqld_safe starts a server"
    ANNOUNCED = "the server says that it starts"
    STARTING = "the server names itself"
    INITIALIZING = "the server makes a new data directory"
    INNODB = "InnoDB begins"
    SCAN = "directories are scanned"
    SCANNED = "all files have been scanned"
    POOL = "the buffer pool is made"
    POOLED = "the buffer pool is there"
    SYSTEM = "the system tablespace is open"
    REDO = "the redo log is read"
    CHECKPOINT = "MariaDB's word for a crash recovery"
    DISCOVER = "every file is opened"
    RESTORE = "every file has been opened"
    APPLY = "redo is applied"
    APPLIED = "redo has been applied"
    SEGMENTS = "rollback segments are active"
    UNDO = "undo and temporary tablespaces are opened"
    STARTED = "InnoDB is up"
    DICTIONARY = "the data dictionary is opened"
    VALIDATE = "every file is held against the dictionary"
    VALIDATED = "every file has been held against it"
    DICTIONARY_READ = "the data dictionary is in use"
    UPGRADE = "tables of an older server are upgraded"
    UPGRADED = "the upgrade is done"
    BINLOG = "prepared transactions are looked up in the binlog"
    BINLOG_READ = "prepared transactions are settled"
    READY = "ready for connections"
    # What goes on beside the start, in threads of its own.
    POOL_LOAD = "the buffer pool is loaded"
    POOL_LOADED = "the buffer pool has been loaded"
    ROLLBACK = "transactions are rolled back"
    ROLLED_BACK = "transactions have been rolled back"


_SPELLINGS: tuple[tuple[Mark, str], ...] = (
    (Mark.SAFE, r"mysqld_safe Starting \S+ daemon"),
    (Mark.ANNOUNCED, r"\[MY-015015\]|MySQL Server - start\."),
    (Mark.STARTING, r"starting as process \d|Starting MariaDB .* as process \d"),
    (Mark.INITIALIZING, r"initializing of server in progress"),
    (Mark.INNODB, r"InnoDB initialization has started"),
    (Mark.SCAN, r"Directories to scan|\[InnoDB\] Scanning '"),
    (Mark.SCANNED, r"Completed space ID check of"),
    (Mark.POOL, r"Initializing buffer pool|InnoDB: innodb_buffer_pool_size_max="),
    (Mark.POOLED, r"Completed initialization of buffer pool"),
    (Mark.SYSTEM, r"[Hh]ighest supported file format is"),
    (Mark.CHECKPOINT, r"Starting crash recovery from checkpoint"),
    (Mark.DISCOVER, r"Reading tablespace information from the \.ibd"),
    (Mark.RESTORE, r"Restoring possible half-written"),
    (
        Mark.REDO,
        r"Log scan progressed past|log sequence numbers? .{0,120}(?:do|does) not match|Starting log scan based"
        # The binlog's "Starting crash recovery..." has three dots, and no InnoDB before it.
        r"|Database was not shut ?down normally|InnoDB(?::|\]) Starting crash recovery\.(?!\.)"
        r"|latest found checkpoint|Starting to parse redo log|Doing recovery: scanned up to"
        r"|InnoDB: (?:Read|Parsed) redo log up to|InnoDB: End of log at LSN",
    ),
    (
        Mark.APPLY,
        r"Starting an apply batch|Applying a batch of|Starting (?:a|final) batch to recover|InnoDB: To recover: ",
    ),
    (Mark.APPLIED, r"InnoDB(?::|\]) Apply batch completed"),
    (Mark.SEGMENTS, r"rollback segments?(?:\(s\))? .{0,60}active"),
    (
        Mark.UNDO,
        r"Using undo tablespace|Opened \d+ existing undo tablespaces|Removed temporary tablespace"
        r"|Creating shared tablespace for temp|Waiting for (?:purge|the background threads) to start",
    ),
    (
        Mark.STARTED,
        r"started; log sequence number|InnoDB: log sequence number \d+; transaction id"
        r"|InnoDB initialization has ended",
    ),
    (Mark.DICTIONARY, r"Data dictionary (?:restarting|initializing|upgrading)"),
    (Mark.VALIDATE, r"Reading DD tablespace files"),
    # Threads tell of their progress with nearly the same words: only the last line has the code, or two blanks.
    (Mark.VALIDATED, r"\[MY-012356\]|Validated \d+/\d+  tablespaces|Scanned \d+ tablespaces\. Validated"),
    (Mark.DICTIONARY_READ, r"Using data dictionary with version"),
    (Mark.UPGRADE, r"Server upgrade from .{1,60} started"),
    (Mark.UPGRADED, r"Server upgrade from .{1,60} completed"),
    (Mark.BINLOG, r"Recovering after a crash using|Starting XA crash recovery"),
    # 9.x ends InnoDB's own part with "Crash recovery finished in InnoDB engine", on clean starts too.
    (Mark.BINLOG_READ, r"rash (?:table )?recovery finished\."),
    (Mark.POOL_LOAD, r"Loading buffer pool\(s\) from"),
    (Mark.POOL_LOADED, r"Buffer pool\(s\) load (?:completed|aborted)|Cannot open '.{0,200}ib_buffer_pool"),
    (Mark.ROLLBACK, r"Starting in background the rollback"),
    (Mark.ROLLED_BACK, r"Rollback of non-prepared transactions completed"),
    (
        Mark.READY,
        # As in errorlog.py: the server's own line, which the X Plugin's must not be taken for.
        r"\[(?:Note|System)\] (?:\[MY-\d+\] \[Server\] )?(?!X Plugin).+: ready for connections\.(?:$| )",
    ),
)
# Every spelling has one of these: a quick test for the many lines that say nothing of interest.
_HINTS = (
    "mysqld_safe", "Server - start", "MY-015015", "as process ", "initializing of", "InnoDB initialization",
    "Directories to scan", "Scanning '", "Completed ", "Initializing buffer", "size_max=", "file format is",
    "rash recovery", "able recovery", "Reading ", "Restoring ", "Log scan", "log scan", "log sequence number",
    "was not shut", "checkpoint", "redo log",
    "End of log", "pply batch", "batch to recover", "Applying a", "To recover", "undo tablespace", "rollback",
    "Removed temporary", "Creating shared", "Waiting for ", "ata dictionary", "MY-012356", "alidated",
    "Server upgrade", "Recovering after", "uffer pool(s)", "ib_buffer_pool", "Rollback of", "ready for conn",
)  # fmt: skip
_ANY = re.compile("|".join(f"(?P<{mark.name}>{spelling})" for mark, spelling in _SPELLINGS))


def mark_of(line: str) -> Mark | None:
    """None for the many lines that bound nothing."""
    text = line[:LONGEST]
    for hint in _HINTS:
        if hint in text:
            break
    else:
        return None
    match = _ANY.search(text.rstrip())
    return Mark[match.lastgroup] if match is not None and match.lastgroup else None
