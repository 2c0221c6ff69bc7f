"""Names of the phases of a start, their order, and the durations of phases by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recovery.model import Phase, Version, can

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

ORDER = (
    PROCESS_START, STATE_TRANSFER, ARIA_RECOVERY, INNODB_INITIALIZATION, DIRECTORY_LISTING, FILE_SCAN, BUFFER_POOL,
    DISCOVERY, SYSTEM_FILES, REDO_SCAN, REDO_APPLY, VALIDATION, REDO_LOG_RESIZE, UNDO_AND_TEMP, DICTIONARY,
    DICTIONARY_READ, FILE_CHECK, ROLLBACK, SYSTEM_TABLES, DICTIONARY_UPGRADE, SERVER_UPGRADE, BINLOG_RECOVERY,
    BUFFER_POOL_LOAD, REST_TO_READY, UNNAMED, FIRST_QUERY,
)  # fmt: skip


_DOES: dict[str, str] = {
    PROCESS_START: "is loaded and reads its options",
    STATE_TRANSFER: "receives all data from another node of its cluster (SST)",
    ARIA_RECOVERY: "recovers the tables of Aria",
    BUFFER_POOL: "allocates the buffer pool",
    DISCOVERY: "reads the first page of every file before redo",
    DIRECTORY_LISTING: "lists the directories of the tables' files",
    FILE_SCAN: "reads the first page of every file before redo",
    SYSTEM_FILES: "opens its system files",
    REDO_SCAN: "reads the redo log",
    REDO_APPLY: "applies the redo log",
    VALIDATION: "reads every file after redo",
    REDO_LOG_RESIZE: "writes all modified pages and rebuilds the redo log in its configured size",
    UNDO_AND_TEMP: "opens undo and temporary tablespaces",
    DICTIONARY: "loads its dictionary and opens the files that it lists",
    DICTIONARY_READ: "reads all tablespaces from its dictionary",
    SYSTEM_TABLES: "creates the system tables of a new data directory",
    DICTIONARY_UPGRADE: "makes its own dictionary from that of the older release",
    SERVER_UPGRADE: "upgrades the system tables and the sys schema, and checks the tables in both",
    BINLOG_RECOVERY: "recovers transactions from the binary log",
}
"""What a server does in a phase. The other phases do not say, or depend on the start."""
_CHECKS = {
    True: "opens and reads every file again, to compare it with the dictionary",
    False: "opens and closes every file, without reading it",
    None: "opens every file again, and reads it after a crash",
}
_INITIALIZES = {
    True: "reads the first page of every file, and reads and applies the redo log",
    False: "reads the first page of every file",
    None: "reads the first page of every file and, after a crash, reads and applies the redo log",
}


def what_happens_in(phase: str, version: Version | None, *, crashed: bool | None) -> str | None:
    """Returns what a server does in a phase, or in all of those that the log joins; None if no phase says it.
    `crashed` is None if it is not known how the server ended before."""
    parts = [_part_of_what_happens(part, version, crashed) for part in phase.split(JOIN)]
    return ", then ".join(part for part in parts if part) or None


def _part_of_what_happens(phase: str, version: Version | None, crashed: bool | None) -> str | None:
    if phase == FILE_CHECK:
        return _CHECKS[crashed]
    if phase == INNODB_INITIALIZATION:
        return _INITIALIZES[crashed]
    if phase == REST_TO_READY and _makes_tls_key(version):
        return "makes a TLS key unless it has ssl_cert or ssl=OFF"
    if version is not None and can(version, "data_dictionary"):
        return "opens its dictionary" if phase == DICTIONARY else _DOES.get(phase)
    if phase == REDO_SCAN and version is not None and can(version, "redo_names_files"):
        return "reads the redo log, and opens and reads the files that it names"
    return _DOES.get(phase)


def _makes_tls_key(version: Version | None) -> bool:
    return version is not None and can(version, "makes_tls_key")


def is_upgrade(phase: str) -> bool:
    """Returns whether a server does this once, at its first start over the files of an older release."""
    return phase in (DICTIONARY_UPGRADE, SERVER_UPGRADE)


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


_ADVICE = {
    DISCOVERY: "discovery",
    DIRECTORY_LISTING: "directory-listing-and-file-scan",
    FILE_SCAN: "directory-listing-and-file-scan",
    INNODB_INITIALIZATION: "innodb-initialization",
    VALIDATION: "validation",
    REDO_LOG_RESIZE: "redo-log-resize",
    DICTIONARY_READ: "dictionary-read",
    FILE_CHECK: "file-check",
    REDO_SCAN: "redo",
    REDO_APPLY: "redo",
    UNDO_AND_TEMP: "undo",
    ROLLBACK: "undo",
    DICTIONARY: "dictionary",
    DICTIONARY_UPGRADE: "upgrade",
    SERVER_UPGRADE: "upgrade",
    BUFFER_POOL: "buffer-pool",
    BUFFER_POOL_LOAD: "buffer-pool",
}
"""The sections of docs/shorten.md about phases. The other phases share one."""


def advice_on(phase: str, version: Version | None = None) -> str:
    """Returns the command that prints what shortens a phase; of phases that the log joins, all sections."""
    sections = dict.fromkeys(
        "tls-key" if part == REST_TO_READY and _makes_tls_key(version) else _ADVICE.get(part, "other-phases")
        for part in phase.split(JOIN)
    )
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


_SPLIT_BY_PROGRESS = ((DIRECTORY_LISTING, FILE_SCAN), (DICTIONARY_READ, FILE_CHECK))
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
    return name.partition(JOIN)[0] not in ORDER


def of_the_start(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: duration for name, duration in seconds.items() if not is_after_the_start(name)}


def named_share(phases: Iterable[Phase]) -> float | None:
    """Returns the share of the startup that belongs to named phases, from 0 to 1, or None if no phase took time."""
    startup = {name: seconds for name, seconds in of_the_start(seconds_by_name(phases)).items() if name != FIRST_QUERY}
    whole = sum(startup.values())
    return 1 - startup.get(UNNAMED, 0.0) / whole if whole > 0 else None
