"""Under which conditions does every trial of a session run, and what should its server hold?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recovery.builds.tools import Tool
from recovery.host.dropping import Dropper


@dataclass(frozen=True)
class Contents:
    """What the server should hold and does hold."""

    tables_expected: int
    tables_found: int
    rows_expected: int
    rows_found: int
    rows_lost: int


@dataclass(frozen=True)
class Conditions:
    """What the user asked of every trial of a session."""

    statements: tuple[str, ...]
    """The insert script, rendered."""
    as_published: bool = False
    """Leave in the cache what the insert script warmed, as the published experiment did."""
    dropper: Dropper | None = None
    """Who drops the whole host's caches; with nobody, files are evicted one by one."""
    timed_settings: tuple[tuple[str, str], ...] = ()
    """Options of the timed start alone: under them a server takes no inserts, so the others go without."""
    trace: bool = False
    """Find out which tables' files each timed start opens."""
    samplers: tuple[str, ...] = ()
    """Programs that can take stacks, best first."""
    programs: Mapping[str, Tool] = field(default_factory=dict)
    """That put a server to work, by name."""
    session: str = ""
    """When it began: it is in the names of the data directories that are kept of failed starts."""
