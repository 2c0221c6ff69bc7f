"""What was measured: raw, frozen, and neither judged nor averaged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
