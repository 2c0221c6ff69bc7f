"""What are the phases of a start called, in which order do they come, and how much of a start has a name?"""

from __future__ import annotations

from collections.abc import Iterable

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
REST = "rest to ready"
UNNAMED = "unnamed"
FIRST_QUERY = "first query"
# Beside the others, in threads of the server's own.
ROLLBACK = "rollback"
BUFFER_POOL_LOAD = "buffer pool load"

JOIN = " + "
"""Between names that no line parts."""

ORDER = (
    PROCESS_START, BUFFER_POOL, DISCOVERY, SYSTEM_FILES, REDO_SCAN, REDO_APPLY, VALIDATION, UNDO_AND_TEMP, DICTIONARY,
    ROLLBACK, UPGRADE, BINLOG_RECOVERY, BUFFER_POOL_LOAD, REST, UNNAMED, FIRST_QUERY,
)  # fmt: skip


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, as a start comes by them; joined ones beside their first."""
    known = {name: number for number, name in enumerate(ORDER)}
    return tuple(sorted(set(names), key=lambda name: (known.get(name.split(JOIN)[0], len(ORDER)), len(name), name)))


def seconds_by_name(phases: Iterable[Phase]) -> dict[str, float]:
    """A phase can come several times: redo is scanned and applied in turns."""
    found: dict[str, float] = {}
    for phase in phases:
        found[phase.name] = found.get(phase.name, 0.0) + phase.end_s - phase.start_s
    return found


def named_share(phases: Iterable[Phase]) -> float | None:
    """How much of the startup has a name, from 0 to 1; None where nothing took time."""
    startup = {name: seconds for name, seconds in seconds_by_name(phases).items() if name != FIRST_QUERY}
    whole = sum(startup.values())
    return 1 - startup.get(UNNAMED, 0.0) / whole if whole > 0 else None
