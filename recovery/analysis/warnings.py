"""Checks a session for figures that may be misleading, and yields a warning with advice for each.

A check reads only what is stored in the session, and finds nothing where what it needs was not measured. So all checks
run for every session, timed starts and loads alike.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from recovery.analysis.effective_options import (
    ChangedOption,
    ServerFacts,
    changed_options,
    given_options,
    same_value,
    server_of_cell,
)
from recovery.analysis.growth import growth_curves
from recovery.analysis.phase_names import PROCESS_START, seconds_by_name
from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import cell_words, is_switch, mean, measured_runs_by_cell, metric_value, summarise
from recovery.model import (
    MIN_PROBED_BLOCKS,
    RECOVERY_METRIC,
    STARTUP_METRIC,
    Cache,
    Finding,
    HostActivity,
    Metric,
    Run,
    Session,
    metric,
)

# --- What all checks use

Check = Callable[[Session], Iterator[Finding]]
"""Yields findings from what is stored in a session."""

MIB = 1 << 20
_MAX_SEPARATE_FINDINGS, _MAX_NAMED_CELLS = 3, 4
_MAX_VALUE = 1e30
"""A larger absolute value, or one smaller than its inverse, is not a measured figure."""


def finding(kind: str, about: str, text: str, hint: str) -> Finding:
    return Finding(about, text, hint, kind)


def cells(session: Session) -> Iterator[tuple[str, tuple[Run, ...]]]:
    """Yields the measured runs of each cell, with the cell's name in the report: `5.7.22 cold`."""
    for (version, variant), runs in measured_runs_by_cell(session).items():
        yield f"{version} {cell_words(session, variant)}", runs


@dataclass(frozen=True)
class MeasuredCell:
    """The runs of a cell with their values of the metric that it measures."""

    about: str
    metric: Metric
    runs: tuple[Run, ...]
    values: tuple[float, ...]

    @property
    def verb(self) -> str:
        return "took" if self.metric.unit == "s" else "had"

    def text(self, *values: float) -> str:
        """Formats values: `4.20 s`, `9.1 to 12.5 s`, `3,050 queries/s`."""
        is_time = self.metric.unit == "s"
        numbers = (
            _seconds(value) if is_time else f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values
        )
        return f"{' to '.join(numbers)} {'s' if is_time else self.metric.label}"


def measured_cells(session: Session) -> Iterator[MeasuredCell]:
    """Yields the cells with the values of their metric. Recoveries after random kills are meant to differ."""
    for (version, variant), runs in measured_runs_by_cell(session).items():
        name = session.figure_of(variant)
        known = {run: value for run in runs if (value := metric_value(run, name)) is not None}
        if known and name != RECOVERY_METRIC:
            about = f"{version} {cell_words(session, variant)}"
            yield MeasuredCell(about, metric(name), tuple(known), tuple(known.values()))


def merge_similar(found: Iterable[Finding]) -> Iterator[Finding]:
    """Merges findings of the same kind and hint that concern many cells into one: the first, with the other cells."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for one in found:
        kinds.setdefault((one.kind, one.hint), []).append(one)
    for group in kinds.values():
        if len(group) <= _MAX_SEPARATE_FINDINGS:
            yield from group
            continue
        first, *others = group
        also = "; ".join(one.about for one in others[:_MAX_NAMED_CELLS])
        more = f"; {len(others) - _MAX_NAMED_CELLS} more" if len(others) > _MAX_NAMED_CELLS else ""
        text = f"{first.about}: {first.text} Also: {also}{more}."
        yield Finding(f"{len(group)} cells", text, first.hint, first.kind)


def runs_text(runs: tuple[Run, ...] | list[Run]) -> str:
    """Returns the runs' numbers as text: `runs 1, 4`."""
    return f"run{'s' if len(runs) > 1 else ''} " + ", ".join(str(run.number) for run in runs)


def runs_above(runs: Iterable[Run], figure: Callable[[Run], float | None], limit: float) -> dict[Run, float]:
    """Returns the runs with a figure above this limit, with that figure. Runs without it are left out."""
    return {run: value for run in runs if (value := figure(run)) is not None and value > limit}


def server_of(session: Session, version: str) -> Mapping[str, str]:
    """Returns the facts about a server of this version, under the first of its settings in the session."""
    named = (known for name, known in session.servers.items() if name == version or name.startswith(f"{version} "))
    return next(named, {})


def stored_number(value: object) -> float | None:
    """Returns a stored fact as a number, or None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if found == 0 or 1 / _MAX_VALUE < abs(found) < _MAX_VALUE else None


# --- Page cache: whether cold starts were cold

_USUAL_READS_SHARE = 0.8
"""A cold start that reads less than this share of what the others read found files in the cache."""
_CACHED_SPEEDUP = 2.0


def cold_but_cached(session: Session) -> Iterator[Finding]:
    """Finds starts that found files in the cache after it was emptied. A start without an empty cache is void
    already."""
    for about, runs in cells(session):
        if session.cache_of(runs[0].variant) != Cache.COLD or len(runs) < 2:
            continue
        read = {run: size for run in runs if (size := run.metrics.get("read_bytes")) is not None}
        usual = median(read.values() or [0])
        less = {run: count for run, count in read.items() if count < min(_USUAL_READS_SHARE * usual, usual - 4 * MIB)}
        if less:
            yield finding(
                "cold-was-not", about,
                f"Only {min(less.values()) / 1e6:.0f} MB were read in {runs_text(list(less))}; "
                f"{usual / 1e6:.0f} MB are usual.",
                "Another process read these files meanwhile, or runs the same server program (a backup, another "
                "server): stop it, and measure again.",
            )  # fmt: skip


def cache_below_host(session: Session) -> Iterator[Finding]:
    cached = cache_below_host_text(session.environment)
    if cached is not None and any(run.cold_means for run in session.runs):
        yield finding(
            "cached-below", "host", f"{cached} Cold means cold for this machine only.",
            "Compare only starts over files that were read equally often before; the first cold start may differ.",
        )  # fmt: skip


def cache_below_host_text(host: Mapping[str, object]) -> str | None:
    """Returns what the read probe of the host found, as text. None if it found no cache below this machine, or could
    read too few blocks to find one."""
    times, blocks = (stored_number(host.get(f"probe_again_{name}")) for name in ("times_faster", "blocks"))
    if times is None or blocks is None or times < _CACHED_SPEEDUP or blocks < MIN_PROBED_BLOCKS:
        return None
    first, again = (stored_number(host.get(f"probe_{name}_ms")) for name in ("first_read", "read_again"))
    if first and again:
        times = first / again  # the stored one is the median of the blocks' ratios, which is not that of these times
    faster = f"{times:.0f}" if times >= 10 else f"{times:.1f}"
    seen = f" ({first:g} ms, then {again:g} ms)" if first and again else ""
    return (
        f"Reading the same blocks again is {faster} times as fast{seen}: the hypervisor, the disk controller or the "
        "disk caches what was read."
    )


def cold_not_proved(session: Session) -> Iterator[Finding]:
    as_published = bool(session.settings.get("as_published"))
    for about, runs in cells(session):
        starts = [run for run in runs if run.cold_means]
        if not starts:
            continue
        if {run.cold_means for run in starts} == {"fadvise"}:
            yield finding(
                "inodes-were-warm", about,
                "Files were evicted one by one: inodes and directory entries stayed in memory, unlike after a reboot.",
                _drop_caches_hint(session),
            )  # fmt: skip
        unknown = [run for run in starts if run.resident_before_bytes is None]
        if unknown and not as_published:
            yield finding(
                "cold-not-proved", about,
                f"This host does not show what was left in the cache before {runs_text(unknown)}.",
                "Compare the bytes read. Linux 6.5 or later shows it, without an overlay under the data (see doctor).",
            )  # fmt: skip


def _drop_caches_hint(session: Session) -> str:
    if session.settings.get("no_drop_caches"):
        # Older sessions have `no_root_steps`, the names of the refused steps.
        unprivileged = session.settings.get("unprivileged") or session.settings.get("no_root_steps")
        by = "--unprivileged" if unprivileged not in (None, False, "drop-caches") else "--no-drop-caches"
        return f"{by} does this: leave it out for a start as cold as after a reboot."
    if session.environment.get("root") == "yes":
        return "Allow writing to /proc/sys/vm/drop_caches (an unprivileged container does not)."
    return "Run as root, which may drop the host's caches."


# --- Predictions: whether the smaller numbers of tables predict the largest one


def failed_prediction(session: Session) -> Iterator[Finding]:
    for curve in growth_curves(session):
        found = curve.held_out
        if found is None or curve.predicts:
            continue
        yield finding(
            "no-line", f"{curve.version} {curve.variant}",
            f"The smaller points predict {found.predicted.seconds:.1f} s for {found.tables:,} tables; "
            f"{found.measured_s:.1f} s were measured.",
            f"Do not predict for more than {found.tables:,} tables: measure there.",
        )  # fmt: skip


# --- Host: whether it left the server undisturbed, and gave it all its resources

_MAX_OTHERS_CPUS = 0.1
"""CPUs that other processes used, on average."""
_MAX_OTHERS_READ_RATIO, _MAX_OTHERS_WRITTEN_RATIO = 0.1, 1.0
"""Ratio to what the server read or wrote itself. It is larger for writes, because a file system writes more than it is
given."""
_MAX_STEAL_SHARE = 0.02
_MAX_THROTTLED_SHARE = 0.01
"""Share of the startup."""
_MIN_CPU_S = 0.1
"""The host counts CPU time in ticks of 10 ms; less than this is too few ticks for a finding."""
_MIN_PROCESS_START_SHARE = 0.05
"""Least share of the startup for the phase in which the process starts."""
_IGNORED_BYTES = 64 * MIB
"""A killed server leaves some megabytes in the page cache that are written while the next server starts."""


def other_load(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        used = runs_above(runs, _others_cpus, _MAX_OTHERS_CPUS)
        if used:
            yield finding(
                "other-cpu-load", about,
                f"Other processes used {max(used.values()):.1f} CPUs during {runs_text(list(used))}.",
                "Find them with top, stop them, and measure again.",
            )  # fmt: skip
        io = runs_above(runs, _others_io_bytes, 0.0)
        if io:
            yield finding(
                "other-disk-load", about,
                f"Other processes read and wrote up to {max(io.values()) / 1e6:,.0f} MB on the same device during "
                f"{runs_text(list(io))}.",
                "Find them with iotop, stop them, and measure again" + _own_volume_hint(session),
            )  # fmt: skip


def _others_cpus(run: Run) -> float | None:
    """Returns the CPUs used by others: from the sampler, which knows the clients, or else from the counters at both
    ends of the run. None if that is too little time to be more than rounding."""
    around = run.around
    if around is not None and (around.others_cpu_s or 0.0) <= _MIN_CPU_S:
        return None
    sampled = metric_value(run, "others_cpus")
    return _time_share(around, lambda activity: activity.others_cpu_s) if sampled is None else sampled


def _others_io_bytes(run: Run) -> float | None:
    """Returns the bytes that others read and wrote, as far as they are many in comparison with the server's own."""
    around = run.around
    if around is None:
        return None
    found = 0.0
    for theirs, name, share in (
        (around.others_read_bytes, "read_bytes", _MAX_OTHERS_READ_RATIO),
        (around.others_written_bytes, "written_bytes", _MAX_OTHERS_WRITTEN_RATIO),
    ):
        total, rate = metric_value(run, name), metric_value(run, f"{name}_per_s")
        own = (rate or 0.0) * around.seconds if total is None else total
        if (theirs or 0) > max(_IGNORED_BYTES, share * own):
            found += theirs or 0
    return found


def _own_volume_hint(session: Session) -> str:
    """Returns additional advice if the data shares its device with this tool."""
    tool, data = session.environment.get("tool_device"), session.environment.get("device")
    return "; or give the data its own volume (DATA=)." if tool == data else "."


def stolen_cpu(session: Session) -> Iterator[Finding]:
    yield from _time_share_findings(
        session, "steal", lambda around: around.steal_s, _MAX_STEAL_SHARE,
        "The hypervisor gave {largest:.0%} of a CPU to other machines during {runs}.",
        "Measure on a host that does not share its CPUs (a larger or dedicated instance).",
    )  # fmt: skip


def throttled(session: Session) -> Iterator[Finding]:
    """Finds runs that a control group throttled, unless the user limited the CPUs."""
    if session.settings.get("cpus"):
        return
    yield from _time_share_findings(
        session, "throttled", lambda around: around.throttled_s, _MAX_THROTTLED_SHARE,
        "A control group throttled its processes for {largest:.0%} of the time of {runs}.",
        "Raise the CPU quota of the container or service in which this tool runs, or set CPUS= to measure with a "
        "limit.",
    )  # fmt: skip


def _time_share_findings(
    session: Session, kind: str, seconds: Callable[[HostActivity], float | None], min_share: float, text: str, hint: str
) -> Iterator[Finding]:
    for about, runs in cells(session):
        shares = {run: _time_share(run.around, seconds) for run in runs}
        over = [
            run for run, share in shares.items()
            if run.around is not None and share > min_share and share * run.around.seconds > _MIN_CPU_S
        ]  # fmt: skip
        if over:
            largest = max(shares[run] for run in over)
            yield finding(kind, about, text.format(largest=largest, runs=runs_text(over)), hint)


def _time_share(around: HostActivity | None, seconds: Callable[[HostActivity], float | None]) -> float:
    return 0.0 if around is None or around.seconds <= 0 else (seconds(around) or 0.0) / around.seconds


def program_on_other_device(session: Session) -> Iterator[Finding]:
    data = session.environment.get("device")
    own = session.settings.get("mysqld")
    remedy = "put your server there too" if own else "set RECOVERY_CACHE to a folder there"
    for about, runs in cells(session):
        program = server_of(session, runs[0].version).get("program_device")
        is_cold = session.cache_of(runs[0].variant) == Cache.COLD
        if is_cold and data and program and program != data and _start_share(runs) > _MIN_PROCESS_START_SHARE:
            yield finding(
                "filesystems", about,
                f"The server's program is on {program}, its data on {data}: a cold start also reads the program, and "
                "these reads are neither counted nor limited.",
                f"The phase {PROCESS_START} shows what that costs. To have both on one device, {remedy}.",
            )  # fmt: skip


def _startup_s(run: Run) -> float:
    return run.metrics.get(STARTUP_METRIC, 0.0)


def _start_share(runs: Sequence[Run]) -> float:
    return mean(seconds_by_name(run.phases).get(PROCESS_START, 0.0) / (_startup_s(run) or 1.0) for run in runs) or 0.0


# --- Load: whether the server was the bottleneck, on a quiet host, for long enough, and as requested

_BUSY_CLIENTS_SHARE = 0.85
"""Share of the CPUs available to the clients, above which the clients may have been the bottleneck."""
_MIN_CLIENTS_SHARE = 0.3
"""Share of the host's CPUs used by the clients, for a host without idle CPUs."""
_MIN_IDLE_SHARE = 0.05
"""Share of the host's CPUs; with less than this idle, none counts as idle."""
_MAX_RATE_CHANGE = 0.1
_MIN_SAMPLES = 9
_MIN_LOAD_S = 60
_MAX_ERROR_SHARE = 0.001
_POLL_RATE = "polls_per_s"
_DUMP = "dump"
"""Name of the dump program among the clients of a run."""


def client_bottleneck(session: Session) -> Iterator[Finding]:
    cpus = stored_number(session.environment.get("cpus"))
    for about, runs in cells(session):
        used, allowed = mean(run.metrics.get("client_cpus") for run in runs), _available_client_cpus(session, runs)
        if used is None:
            continue
        if allowed is not None and used >= _BUSY_CLIENTS_SHARE * allowed:
            yield finding(
                "client-was-the-bottleneck", about,
                f"The clients used {used:.1f} of the {allowed:g} CPUs that they could use: they may have been slower "
                "than the server.",
                "Give the clients more CPUs or more threads, or a separate host. Until then this is a lower bound for "
                "the server.",
            )  # fmt: skip
        elif (
            cpus
            and used > min(_MIN_CLIENTS_SHARE * cpus, _server_cpus(runs))
            and _idle_cpus(runs, cpus) < _MIN_IDLE_SHARE * cpus
        ):
            yield finding(
                "client-was-the-bottleneck", about,
                f"The clients used {used:.1f} of the host's {cpus:g} CPUs, and none was idle: clients and server share "
                "the CPUs.",
                "Compare versions measured here with each other, but not with a host where the clients have separate "
                "CPUs.",
            )  # fmt: skip


def _available_client_cpus(session: Session, runs: Sequence[Run]) -> float | None:
    """Returns how many CPUs the clients can use at once: one for each thread, and no more than they are pinned to. A
    dump has one thread, which is not pinned."""
    if any(_DUMP in run.clients for run in runs):
        return 1.0
    if metric(session.figure).unit != "/s":
        return None
    cell = session.cells.get(runs[0].variant, {})
    threads = stored_number(cell.get("threads")) or stored_number(session.settings.get("threads"))
    pinned = _pinned_cpus(session.settings.get("client_cpus"))
    return min((one for one in (threads, pinned) if one), default=None)


def _pinned_cpus(told: str | float | bool | None) -> float | None:
    """Returns how many CPUs a setting names, either as a number or as a list: `2-3,6`."""
    if not isinstance(told, str):
        return stored_number(told)
    ends = [part.split("-") for part in told.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,9}", one) for part in ends for one in part):
        return None
    return sum(int(part[-1]) - int(part[0]) + 1 for part in ends)


def _server_cpus(runs: Sequence[Run]) -> float:
    """Returns the CPUs that the server used, or infinity if unknown. Clients usually use a third as many."""
    used = mean(run.metrics.get("server_cpus") for run in runs)
    return math.inf if used is None else used


def _idle_cpus(runs: Sequence[Run], cpus: float) -> float:
    """Returns how many CPUs of the host were idle."""
    names = ("server_cpus", "client_cpus", "others_cpus")
    return cpus - sum(mean(run.metrics.get(name) for run in runs) or 0.0 for name in names)


def unstable_rate(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        changed = [
            (run, change)
            for run in runs
            if (change := _rate_change(run)) is not None and abs(change) > _MAX_RATE_CHANGE
        ]
        if changed:
            largest = max((change for _, change in changed), key=abs)
            comparison = "higher" if largest > 0 else "lower"
            yield finding(
                "never-warmed-up", about,
                f"The rate in the last third of the measured time was {abs(largest):.0%} "
                f"{comparison} than in the first, in {runs_text([run for run, _ in changed])}.",
                "The load was not stable yet: measure longer (SECONDS=), after a longer warm-up (WARMUP=).",
            )  # fmt: skip


def _rate_change(run: Run) -> float | None:
    """Returns the change of the rate from the first third of the measured time to the last, or None if there are too
    few samples."""
    values = _measured_series(run, "qps")
    third = len(values) // 3
    if len(values) < _MIN_SAMPLES or not fmean(values[:third]):
        return None
    return fmean(values[-third:]) / fmean(values[:third]) - 1


def _measured_series(run: Run, name: str) -> list[float]:
    """Returns the sampled values of the measured time. The first sample covers the last second of the warm-up."""
    if run.timeline is None:
        return []
    samples = zip(run.timeline.at_s, run.timeline.columns.get(name, ()), strict=False)
    return [value for at_s, value in samples if at_s > 0.5 and value is not None]


def short_run(session: Session) -> Iterator[Finding]:
    """Finds loads that were measured for a short time. The duration of a load is a setting. The number of runs is
    checked in every session."""
    seconds = stored_number(session.settings.get("seconds"))
    if seconds is not None and 0 < seconds < _MIN_LOAD_S and metric(session.figure).unit == "/s":
        yield finding(
            "short-run", "all", f"Each load was measured for {seconds:g} s, less than a minute.",
            f"Flushing and checkpoints come in waves of many seconds: measure with SECONDS={_MIN_LOAD_S} or more.",
        )  # fmt: skip


def missing_polls(session: Session) -> Iterator[Finding]:
    """Finds loads with polling in which no poll was answered."""
    polled = {axis.name for axis in session.axes if axis.name == "poll" and is_switch(axis)}
    for about, runs in cells(session):
        cell = session.cells.get(runs[0].variant, {})
        if not any(cell.get(name, "off") == "on" for name in polled):
            continue
        silent = [run for run in runs if not run.metrics.get(_POLL_RATE)]
        if silent:
            yield finding(
                "polls-did-not-run", about, f"No poll was answered during the load in {runs_text(silent)}.",
                "This cell measured the load alone. A poll that takes longer than the load is ended: see the polled "
                "statement, the server's log, and SECONDS=.",
            )  # fmt: skip


def client_errors(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        shares = runs_above(runs, lambda run: metric_value(run, "errors_per_transaction"), _MAX_ERROR_SHARE)
        if shares:
            yield finding(
                "errors", about,
                f"Up to {max(shares.values()):.1%} of the transactions ended in an error that the clients ignored: "
                f"{runs_text(list(shares))}.",
                "Deadlocks are part of some workloads: compare cells with similar numbers of them. Other errors are in "
                "the output of the clients.",
            )  # fmt: skip


# --- Memory: whether the buffer pool held the data

_BUFFER_POOL_SIZE = "innodb_buffer_pool_size"
_LARGER_THAN_POOL_QUESTIONS = frozenset({"larger-than-memory", "compression"})
"""Questions about data that does not fit into the buffer pool."""
_MAX_PAGES_PER_QUERY = 0.01
"""Pages read for each query because they were not in the buffer pool."""
_IGNORED_PAGES_PER_S = 20.0
"""Pages per second that delay nothing: a server that was just started reads some pages for itself, however few queries
there are."""
_PAGE_BYTES = 16 << 10
_NON_TABLE_BYTES = 512 * MIB
"""Part of a data directory for the logs and the server's own tables."""


def data_not_in_buffer_pool(session: Session) -> Iterator[Finding]:
    """Finds loads that read from the device, which then measure the device, unless that was requested."""
    if metric(session.figure).unit != "/s" or (stored_number(session.settings.get("memory_ratio")) or 0) > 1:
        return
    for about, runs in cells(session):
        variant = runs[0].variant
        cell = session.cells.get(variant, {})
        if cell.get("question") in _LARGER_THAN_POOL_QUESTIONS or _BUFFER_POOL_SIZE in cell:
            continue
        read = runs_above(runs, _pages_per_query, _MAX_PAGES_PER_QUERY)
        if read:
            yield finding(
                "not-in-memory", about,
                f"Up to {max(read.values()):.2g} pages per query were read from the device, because they were not in "
                f"the buffer pool: {runs_text(list(read))}.",
                "Use a longer WARMUP=, fewer ROWS=, or a larger pool (--set innodb_buffer_pool_size=…); to measure "
                "reading, set MEMORY_RATIO=.",
            )  # fmt: skip
            continue
        known = server_of_cell(session, runs[0].version, variant)
        pool, data = stored_number(known.get(f"@{_BUFFER_POOL_SIZE}")), _used_data_bytes(known, cell)
        if pool is not None and data is not None and pool < data:
            yield finding(
                "not-in-memory", about,
                f"The tables' files have {data / 1e9:.1f} GB, more than the {pool / 1e9:.1f} GB of the buffer pool.",
                "Use fewer ROWS= or TABLES=, or a host with more memory; to measure that case, set MEMORY_RATIO=.",
            )  # fmt: skip


def _pages_per_query(run: Run) -> float | None:
    if "polls_per_s" in run.metrics:
        return None  # the pages include those read for polls; only a load without polls shows its own
    qps, pages = run.metrics.get("qps"), run.metrics.get("buffer_pool_reads_per_s")
    if pages is None and (read := run.metrics.get("read_bytes_per_s")) is not None:
        pages = read / _PAGE_BYTES
    if not qps or pages is None:
        return None
    return pages / qps if pages > _IGNORED_PAGES_PER_S else 0.0


def _used_data_bytes(known: ServerFacts, cell: Mapping[str, str]) -> float | None:
    """Returns the bytes of the tables that the load uses, estimated from their share of all tables."""
    data, tables, used = (
        stored_number(known.get("data_bytes")),
        stored_number(known.get("tables")),
        stored_number(cell.get("tables")),
    )
    if data is None:
        return None
    share = min(1.0, used / tables) if used and tables else 1.0
    return max(0.0, data - _NON_TABLE_BYTES) * share


def pool_larger_than_memory(session: Session) -> Iterator[Finding]:
    memory = stored_number(session.settings.get("memory_bytes")) or stored_number(
        session.environment.get("memory_bytes")
    )
    for name, known in session.servers.items():
        pool = stored_number(known.get(f"@{_BUFFER_POOL_SIZE}"))
        if pool is not None and memory is not None and pool > memory:
            yield finding(
                "pool-larger-than-memory", name,
                f"The buffer pool has {pool / 1e9:.1f} GB, and the server may use {memory / 1e9:.1f} GB of memory.",
                "A server with so large a pool swaps or is killed when it fills. Set innodb_buffer_pool_size to what "
                "fits, or measure on a larger host.",
            )  # fmt: skip


# --- Redo log: whether a write load continued until the log was full and had to be flushed

_MIN_RISE = 0.05
"""Least rise of the checkpoint age, as a share of its largest value before."""
_IGNORED_LOG_BYTES = MIB
"""A smaller rise can come from other writing: of statistics, or by the purge of old rows."""


def redo_log_still_filling(session: Session) -> Iterator[Finding]:
    """Finds loads during which the redo log was still filling. Servers that do not report how much redo is in the log
    are not checked."""
    for about, runs in cells(session):
        grown = {run: age for run in runs if (age := _grown_checkpoint_age(run)) is not None}
        if grown:
            yield finding(
                "log-still-filling", about,
                "The redo since the last checkpoint still grew in the last third of the measured time, to "
                f"{max(grown.values()) / 1e6:,.0f} MB{_log_capacity_text(session, runs[0])}, in "
                f"{runs_text(list(grown))}: the cost of writing with a full log was not measured.",
                "Measure longer (SECONDS=), after a longer warm-up (WARMUP=), or with a smaller log: "
                "SET=innodb_redo_log_capacity=128M, which is translated for older servers.",
            )  # fmt: skip


def _grown_checkpoint_age(run: Run) -> float | None:
    """Returns the largest checkpoint age in the last third of the run. None if it did not exceed all earlier ones,
    because waves rise and fall."""
    values = _measured_series(run, "checkpoint_age_bytes")
    if len(values) < _MIN_SAMPLES:
        return None
    third = len(values) // 3
    before, last = max(values[:-third]), values[-third:]
    return max(last) if median(last) > before + max(_IGNORED_LOG_BYTES, _MIN_RISE * before) else None


def _log_capacity_text(session: Session, run: Run) -> str:
    """Returns the size of the redo log as text, if the server reported it."""
    known = server_of_cell(session, run.version, run.variant)
    capacity = stored_number(known.get("@innodb_redo_log_capacity"))
    if capacity is None:
        size, files = (stored_number(known.get(f"@innodb_log_{name}")) for name in ("file_size", "files_in_group"))
        # MariaDB has a single file since 10.5, and later also no option for the number of files.
        capacity = None if size is None else size * (files or 1)
    return f" of {capacity / 1e6:,.0f} MB" if capacity else ""


# --- Server and tool: whether the build, its settings and this tool are fit for timing

_TOOL_BUSY_CPUS = 0.5
"""CPUs that this tool itself used during a start."""
_MAX_READY_LAG_S, _MAX_READY_LAG_SHARE = 0.1, 0.01


def debug_build(session: Session) -> Iterator[Finding]:
    for version in session.versions:
        known = server_of(session, version)
        told = " ".join(known.get(name, "") for name in ("@version", "@version_comment"))
        if "debug" in told.lower():
            yield finding(
                "debug-build", version,
                f"This is a debug build ({known.get('@version', version)}), which is slower.",
                "Measure the release build.",
            )  # fmt: skip


def busy_tool(session: Session) -> Iterator[Finding]:
    """Finds runs during which this tool was so busy that it may have been the bottleneck."""
    for about, runs in cells(session):
        busy = [
            run for run in runs if run.around and (run.around.tool_cpu_s or 0) > _TOOL_BUSY_CPUS * run.around.seconds
        ]
        if busy:
            hint = "measure again"
            if session.settings.get("trace"):
                hint = "measure times without --trace, and trace in a separate session"
            yield finding(
                "busy-client", about,
                f"This tool used more than half a CPU during {runs_text(busy)}.",
                f"It may have slowed the server down: {hint}.",
            )  # fmt: skip
        late = [
            run
            for run in runs
            if session.figure == STARTUP_METRIC
            and (run.ready_lag_s or 0) > max(_MAX_READY_LAG_S, _MAX_READY_LAG_SHARE * _startup_s(run))
        ]
        if late:
            worst = max(run.ready_lag_s or 0 for run in late)
            yield finding(
                "late-log", about,
                f"The ready line arrived up to {worst:.2f} s after its own timestamp: {runs_text(late)}.",
                "The host was too busy, or its clock was changed: see what else runs, and measure again.",
            )  # fmt: skip


def options_not_in_effect(session: Session) -> Iterator[Finding]:
    """Finds options of an axis that are in effect with another value. Options that are the same for all cells are
    reported with the server."""
    wished = {axis.name for axis in session.axes}
    told: dict[tuple[str, ChangedOption], Finding] = {}
    for name, known in session.servers.items():
        version = name.partition(" ")[0]
        for one in changed_options(known):
            if one.option in wished and (version, one) not in told:
                files = known.get("@open_files_limit")
                told[version, one] = finding(
                    "option-not-in-effect", f"{version} {one.option}={one.requested}",
                    f"{one}{_same_effect_text(session, version, one)}.",
                    "These cells were measured with the value in effect. A higher limit on open files (ulimit -n"
                    f"{f': {files} here' if files else ''}), or another value, may help.",
                )  # fmt: skip
    yield from told.values()


def _same_effect_text(session: Session, version: str, one: ChangedOption) -> str:
    """Names other requested values of the same option that resulted in the same effective value."""
    here = [known for name, known in session.servers.items() if name.partition(" ")[0] == version]
    others = {
        given_options(known)[one.option] for known in here
        if one.option in given_options(known) and same_value(known.get(f"@{one.option}", ""), one.effective)
    } - {one.requested}  # fmt: skip
    if not others:
        return ""
    return f", the same as for {' or '.join(sorted(others))}: these cells are not compared"


# --- Spread: whether the runs agree, and well enough for the conclusions

_SLOW_FIRST_RATIO = 1.3
"""Ratio of the first run to the slowest of the others, above which it is suspicious."""
_MIN_OUTLIER_SHARE = 0.15
_OUTLIER_DEVIATIONS = 3.5
"""An outlier is at least this many robust deviations from the median, and at least `_MIN_OUTLIER_SHARE` of it."""
_MAD_TO_STDEV = 1.4826
"""Factor from the median absolute deviation to the standard deviation, for a normal distribution."""
_MIN_RUNS_FOR_TREND = 5
"""Number of runs from which on an outlier or a drift can be distinguished from chance."""
_MAX_INTERVAL = 0.15
"""Half of the interval, divided by the mean."""
_MIN_DRIFT = 0.1
_MIN_KENDALL = 2.2
"""Least value of Kendall's S in standard deviations. Five runs in ascending order give 2.2."""
_MIN_COMMON_DRIFT, _MIN_COMMON_KENDALL = 0.05, 3.0
"""The same for all cells together, whose S and variances are added (Hirsch's seasonal test). Six cells of three runs
in ascending order give 3.8."""


def few_runs(session: Session) -> Iterator[Finding]:
    runs = session.settings.get("runs")
    if session.planned_runs and isinstance(runs, int) and runs < MIN_RUNS:
        yield finding(
            "few-runs", "all", f"With {runs} run{'s' if runs > 1 else ''} of each, the spread is unknown.",
            f"Measure with RUNS={_MIN_RUNS_FOR_TREND} or more before you compare.",
        )  # fmt: skip


def _first_is_slow(cell: MeasuredCell) -> bool:
    if len(cell.values) < MIN_RUNS:
        return False
    first, *others = cell.values
    if cell.metric.more_is_better:
        return first * _SLOW_FIRST_RATIO < min(others)
    return first > _SLOW_FIRST_RATIO * max(others)


def slow_first_run(session: Session) -> Iterator[Finding]:
    """Finds a slow first run, for which conditions differed from those of the other runs."""
    for cell in measured_cells(session):
        if _first_is_slow(cell):
            first, *others = cell.values
            yield finding(
                "slow-first-run", cell.about,
                f"The first run {cell.verb} {cell.text(first)}, the others {cell.text(min(others), max(others))}.",
                "The mean includes it. Measure again over the same data directory: a volume that is read for the first "
                "time is slow once, and some storage caches what was read." + _warmup_hint(session),
            )  # fmt: skip


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _warmup_hint(session: Session) -> str:
    return "" if session.settings.get("warmup_s") is None else " A longer WARMUP= may help, too."


def outliers(session: Session) -> Iterator[Finding]:
    for cell in measured_cells(session):
        if len(cell.values) < _MIN_RUNS_FOR_TREND:
            continue
        middle = median(cell.values)
        deviation = _MAD_TO_STDEV * median(abs(value - middle) for value in cell.values)
        far = [
            (run, value) for run, value in zip(cell.runs, cell.values, strict=True)
            if abs(value - middle) > max(_OUTLIER_DEVIATIONS * deviation, _MIN_OUTLIER_SHARE * middle)
            and not (run is cell.runs[0] and _first_is_slow(cell))
        ]  # fmt: skip
        if far:
            listed = ", ".join(f"run {run.number} ({cell.text(value)})" for run, value in far)
            yield finding(
                "outlier", cell.about, f"Far from the median of {cell.text(middle)}: {listed}.",
                "The mean includes it. See the log and the timeline of that run.",
            )  # fmt: skip


_DRIFT_HINT = (
    "Something changes during the session, such as burst credits, a cache of the device, or data that grows. Measure "
    "with more RUNS= until the values are stable."
)


def drift(session: Session) -> Iterator[Finding]:
    """Finds cells whose values rise or fall from run to run, and sessions in which those of most cells do.

    The few runs of each cell of a load show nothing alone."""
    steady = [
        cell for cell in measured_cells(session)
        if len(cell.values) >= MIN_RUNS and cell.values[0] and not _first_is_slow(cell)
    ]  # fmt: skip
    drifting = False
    for cell in steady:
        change = cell.values[-1] / cell.values[0] - 1
        rising, variance = kendall(cell.values)
        enough = len(cell.values) >= _MIN_RUNS_FOR_TREND and abs(rising) >= _MIN_KENDALL * math.sqrt(variance)
        if abs(change) > _MIN_DRIFT and enough:
            drifting = True
            name = "times" if cell.metric.unit == "s" else cell.metric.label
            yield finding(
                "drift", cell.about,
                f"The {name} {'rose' if change > 0 else 'fell'} from run to run, from "
                f"{cell.text(cell.values[0], cell.values[-1])}.",
                _DRIFT_HINT,
            )  # fmt: skip
    counts = [kendall(cell.values) for cell in steady]
    rising, variance = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0.0)
    changes = [cell.values[-1] / cell.values[0] - 1 for cell in steady]
    common = median(changes or [0.0])
    if not drifting and abs(common) > _MIN_COMMON_DRIFT and abs(rising) >= _MIN_COMMON_KENDALL * math.sqrt(variance):
        yield finding(
            "drift", "all cells",
            f"The values {'rose' if common > 0 else 'fell'} from run to run, by {abs(common):.0%} between the first "
            "and the last run of a cell (median).",
            _DRIFT_HINT,
        )  # fmt: skip


def wide_interval(session: Session) -> Iterator[Finding]:
    """Finds means with a wide interval. Kills at random moments are left out: their recoveries are meant to differ."""
    if session.figure != RECOVERY_METRIC and _requested_precision(session) is None:
        for about, share in _intervals_above(session, _MAX_INTERVAL):
            yield finding(
                "wide-interval", about,
                f"The 95 % interval of the mean {f'is +- {share:.0%}' if share < 1 else 'passes zero'}.",
                "State the mean with its interval. More RUNS= narrow it.",
            )  # fmt: skip


def missed_precision(session: Session) -> Iterator[Finding]:
    requested = 100 * (_requested_precision(session) or 0)
    for about, share in cells_missing_precision(session):
        yield finding(
            "precision-missed", about,
            f"The 95 % interval of the mean is +- {100 * share:.3g}%; +- {requested:g}% was requested.",
            "State the mean with its interval. A larger MAX_RUNS= narrows it.",
        )  # fmt: skip


def cells_missing_precision(session: Session) -> Iterator[tuple[str, float]]:
    """Yields the cells whose interval is wider than PRECISION= asked for, with half of it as a share of the mean."""
    if (requested := _requested_precision(session)) is not None:
        yield from _intervals_above(session, requested)


def _requested_precision(session: Session) -> float | None:
    requested = session.settings.get("precision")
    return requested if isinstance(requested, float) else None


def _intervals_above(session: Session, limit: float) -> Iterator[tuple[str, float]]:
    """Yields the cells whose half interval is above this share of the mean, with that share."""
    for one in summarise(session):
        if one.interval is not None and one.mean and one.interval / one.mean > limit:
            yield f"{one.version} {cell_words(session, one.variant)}", one.interval / one.mean


def kendall(values: Sequence[float]) -> tuple[int, float]:
    """Returns Kendall's S, how consistently each run is above (or below) the runs before it, and its variance."""
    rising = 0
    before: list[float] = []
    for one in values:
        rising += bisect_left(before, one) - (len(before) - bisect_right(before, one))
        insort(before, one)
    count = len(values)
    return rising, count * (count - 1) * (2 * count + 5) / 18


# --- All checks

CHECKS: tuple[Check, ...] = (
    missed_precision,
    cold_but_cached, cold_not_proved, cache_below_host, data_not_in_buffer_pool, pool_larger_than_memory,
    options_not_in_effect, debug_build,
    throttled, stolen_cpu, other_load, program_on_other_device, slow_first_run, outliers, drift, few_runs,
    wide_interval, client_bottleneck, unstable_rate, short_run, missing_polls, client_errors, redo_log_still_filling,
    busy_tool, failed_prediction,
)  # fmt: skip
"""The most important come first: whether the right thing was measured, then what disturbed it, then how it varies."""


def findings(session: Session) -> tuple[Finding, ...]:
    return tuple(merge_similar(one for check in CHECKS for one in check(session)))


def not_checked(session: Session) -> str | None:
    """Returns what could not be checked because the session does not contain it, as text. Older sessions do not."""
    if any(run.around is not None for run in session.runs) or not session.runs:
        return None
    return "other activity on the host was not recorded"
