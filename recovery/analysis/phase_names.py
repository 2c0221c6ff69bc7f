"""Names of the phases of a start, their order, and the durations of phases by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recovery.model import Phase

PROCESS_START = "process start"
BUFFER_POOL = "buffer pool"
DISCOVERY = "discovery"
SYSTEM_FILES = "system files"
REDO_SCAN = "redo scan"
REDO_APPLY = "redo apply"
VALIDATION = "validation"
UNDO_AND_TEMP = "undo and temp"
DICTIONARY = "dictionary"
UPGRADE = "upgrade"
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
    PROCESS_START, BUFFER_POOL, DISCOVERY, SYSTEM_FILES, REDO_SCAN, REDO_APPLY, VALIDATION, UNDO_AND_TEMP, DICTIONARY,
    ROLLBACK, UPGRADE, BINLOG_RECOVERY, BUFFER_POOL_LOAD, REST_TO_READY, UNNAMED, FIRST_QUERY,
)  # fmt: skip


DOES: dict[str, str] = {
    PROCESS_START: "is loaded and reads its options",
    BUFFER_POOL: "allocates the buffer pool",
    DISCOVERY: "reads the first page of every file before redo",
    SYSTEM_FILES: "opens its system files",
    REDO_SCAN: "reads the redo log",
    REDO_APPLY: "applies the redo log",
    VALIDATION: "reads every file after redo",
    UNDO_AND_TEMP: "opens undo and temporary tablespaces",
    DICTIONARY: "loads its dictionary and opens the files that it lists",
    UPGRADE: "upgrades its dictionary",
    BINLOG_RECOVERY: "recovers transactions from the binary log",
}
"""What a server does in a phase. The other phases do not say."""


_ADVICE = {
    DISCOVERY: "discovery",
    VALIDATION: "validation",
    REDO_SCAN: "redo",
    REDO_APPLY: "redo",
    UNDO_AND_TEMP: "undo",
    ROLLBACK: "undo",
    DICTIONARY: "dictionary",
    BUFFER_POOL: "buffer-pool",
    BUFFER_POOL_LOAD: "buffer-pool",
}
"""The sections of docs/shorten.md about phases. The other phases share one."""


def advice_on(phase: str) -> str:
    """Returns the command that prints what shortens a phase; of phases that the log joins, all sections."""
    sections = dict.fromkeys(_ADVICE.get(part, "other-phases") for part in phase.split(JOIN))
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
