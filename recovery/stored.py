"""The nouns that are kept and shown: a run, the session it belongs to, and a report's tables. Frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from recovery.measured import Around, Chain, Floor, Hot, Phase, Timeline, Wait, Watched

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
