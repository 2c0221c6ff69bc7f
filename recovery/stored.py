"""The nouns that are kept and shown: a run, the session it belongs to, and a report's tables. Frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from recovery.measured import Around, Chain, Floor, Phase, Timeline


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
    around: Around | None = None
    """What else the host did meanwhile."""
    timeline: Timeline | None = None
    """How the start went on, look by look."""


@dataclass(frozen=True)
class Finding:
    """A doubt about a figure, and what to do about it."""

    about: str
    """What it is about, in a word or two: `5.7.22 cold`, or `host`."""
    text: str
    hint: str
    kind: str = ""
    """Its name among the findings: `slow-first-run`."""


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
