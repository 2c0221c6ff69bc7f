"""Checks a session for figures that may be misleading, and gives a warning with advice for each.

A check reads only what is stored in the session, and finds nothing where what it needs was not measured. So all checks
run for every session, whatever its main metric is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from recovery.analysis.combined import CombinedSession, Part, host_variant
from recovery.analysis.contrasts import holm_adjusted
from recovery.analysis.effective_options import (
    ChangedOption,
    ServerFacts,
    changed_options,
    given_options,
    same_value,
    server_of_cell,
)
from recovery.analysis.growth import growth_curves
from recovery.analysis.host_figures import CPU_LOOP, READS, READS_16, changed_figures
from recovery.analysis.statistics import MIN_RUNS, Slope, common_slope
from recovery.analysis.summary import (
    Cell,
    cell_words,
    is_compared,
    main_value,
    mean,
    measured_runs_by_cell,
    metric_value,
    runs_words,
    summarise,
)
from recovery.metrics import Metric, metric
from recovery.model import (
    MIN_PROBED_BLOCKS,
    ONE_AFTER_THE_OTHER,
    STARTUP_METRIC,
    Cache,
    ExtraRun,
    Finding,
    HostActivity,
    Run,
    Session,
    newest_tried,
    parse_version,
    stored_number,
)
from recovery.phase_table import PROCESS_START, seconds_by_name

# --- What all checks use

Facts = tuple[str, dict[str, object]]
"""What a finding is about, and the figures for its text and its hint."""
Runs = Sequence[Run]


@dataclass(frozen=True)
class Check:
    """A check, and the text and the hint of what it finds, in which names in braces stand for figures."""

    kind: str
    find: Callable[[Session], Iterator[Facts]]
    text: str
    hint: str

    def findings(self, session: Session) -> Iterator[Finding]:
        for about, facts in self.find(session):
            yield Finding(about, self.text.format(**facts), self.hint.format(**facts), self.kind)


MIB = 1 << 20
_MAX_SEPARATE_FINDINGS, _MAX_NAMED_CELLS = 3, 4


def cells(session: Session) -> Iterator[tuple[str, tuple[Run, ...]]]:
    """Yields the measured runs of each cell, with the cell's name in the report: `5.7.22 cold`."""
    for (version, variant), runs in measured_runs_by_cell(session).items():
        yield f"{version} {cell_words(session, variant)}", runs


def in_cells(find: Callable[[Session, Runs], Mapping[str, object] | None]) -> Callable[[Session], Iterator[Facts]]:
    """Returns a check of each cell: `find` returns the figures of a finding, or None."""

    def check(session: Session) -> Iterator[Facts]:
        for about, runs in cells(session):
            if (facts := find(session, runs)) is not None:
                yield about, dict(facts)

    return check


def in_runs(
    value_of: Callable[[Run], float | None],
    limit: float,
    more: Callable[[Session, Runs], Mapping[str, object]] | None = None,
) -> Callable[[Session], Iterator[Facts]]:
    """Returns a check of each cell for runs with a value above this limit: `{runs}`, with the `{largest}` value,
    which is also there as `{percent}`."""

    def find(session: Session, runs: Runs) -> dict[str, object] | None:
        above = {run: value for run in runs if (value := value_of(run)) is not None and value > limit}
        if not above:
            return None
        largest = max(above.values())
        figures = {"largest": largest, "percent": 100 * largest, "runs": runs_words(session, list(above))}
        return {**figures, **(more(session, runs) if more else {})}

    return in_cells(find)


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
    """Yields the cells with the values of their metric, unless these are meant to differ."""
    for (version, variant), runs in measured_runs_by_cell(session).items():
        about = metric(session.metric_of(variant))
        known = {run: value for run in runs if (value := metric_value(run, about.name)) is not None}
        if known and about.is_compared:
            yield MeasuredCell(f"{version} {cell_words(session, variant)}", about, tuple(known), tuple(known.values()))


def merge_similar(found: Iterable[Finding]) -> Iterator[Finding]:
    """Merges findings of the same kind and hint that concern many cells into one: the first, with the other cells."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for finding in found:
        kinds.setdefault((finding.kind, finding.hint), []).append(finding)
    for group in kinds.values():
        if len(group) <= _MAX_SEPARATE_FINDINGS:
            yield from group
            continue
        first, *others = group
        also = "; ".join(finding.about for finding in others[:_MAX_NAMED_CELLS])
        more = f"; {len(others) - _MAX_NAMED_CELLS} more" if len(others) > _MAX_NAMED_CELLS else ""
        text = f"{first.about}: {first.text} Also: {also}{more}."
        yield Finding(f"{len(group)} cells", text, first.hint, first.kind)


def server_of(session: Session, version: str, variant: str = "") -> ServerFacts:
    """Returns the facts about a server of this version, under the first of its settings. In a combined session it is
    the server on the host of the variant."""
    servers = session.servers_of(variant)
    named = (known for name, known in servers.items() if name == version or name.startswith(f"{version} "))
    return next(named, {})


# --- Page cache: whether cold starts were cold

_USUAL_READS_SHARE = 0.8
"""A cold start that reads less than this share of what the others read found files in the cache."""
_CACHED_SPEEDUP = 2.0


def cold_but_cached(session: Session, runs: Runs) -> Mapping[str, object] | None:
    """Finds starts that found files in the cache after it was emptied. A start without an empty cache is void
    already."""
    if session.cache_of(runs[0].variant) != Cache.COLD or len(runs) < 2:
        return None
    read = {run: size for run in runs if (size := run.metrics.get("read_bytes")) is not None}
    usual = median(read.values() or [0])
    less = {run: count for run, count in read.items() if count < min(_USUAL_READS_SHARE * usual, usual - 4 * MIB)}
    least = min(less.values(), default=0.0)
    return {"least": least / 1e6, "runs": runs_words(session, list(less)), "usual": usual / 1e6} if less else None


def cache_below_host(session: Session) -> Iterator[Facts]:
    cached = cache_below_host_text(session.environment)
    if cached is not None and any(run.cold.means for run in session.runs):
        yield "host", {"cached": cached}


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
    seen = f" ({first:.3g} ms, then {again:.3g} ms)" if first and again else ""
    return (
        f"Reading the same blocks again is {faster} times as fast{seen}: the hypervisor, the disk controller or the "
        "disk caches what was read."
    )


def inodes_stayed(session: Session, runs: Runs) -> Mapping[str, object] | None:
    means = {run.cold.means for run in runs if run.cold.means}
    return {"hint": _drop_caches_hint(session)} if means == {"fadvise"} else None


def cold_not_proved(session: Session, runs: Runs) -> Mapping[str, object] | None:
    unknown = [run for run in runs if run.cold.means and run.cold.resident_bytes is None]
    return {"runs": runs_words(session, unknown)} if unknown and not session.design.as_published else None


def _drop_caches_hint(session: Session) -> str:
    if session.design.keeps_caches:
        by = "--unprivileged" if session.design.is_unprivileged else "--no-drop-caches"
        return f"{by} does this: leave it out for a start as cold as after a reboot."
    if session.environment.get("root") == "yes":
        return "Allow writing to /proc/sys/vm/drop_caches (an unprivileged container does not)."
    return "Run as root, which may drop the host's caches."


# --- Predictions: whether the smaller numbers of tables predict the largest one


def failed_prediction(session: Session) -> Iterator[Facts]:
    for curve in growth_curves(session):
        test = curve.held_out
        if test is not None and not curve.predicts:
            facts: dict[str, object] = {
                "predicted": test.predicted.seconds,
                "tables": test.tables,
                "measured": test.measured_s,
            }
            yield f"{curve.version} {curve.variant}", facts


# --- Host: whether it left the server undisturbed, and gave it all its resources

_MAX_OTHERS_CPUS = 0.1
"""CPUs that other processes used, on average."""
_MAX_OTHERS_READ_RATIO, _MAX_OTHERS_WRITTEN_RATIO = 0.1, 1.0
"""Ratio to what the server read or wrote itself. It is larger for writes, because a file system writes more than it is
given."""
_MAX_STEAL_SHARE = 0.02
_MAX_THROTTLED_SHARE = 0.01
"""Share of the startup."""
_MAX_KERNEL_SHARE = 0.25
"""Share of a cold start that the kernel may compute. On a host that gives free memory back it was a third to a half."""
_MIN_LONG_START_S = 5.0
"""A shorter start reads too little to be made longer by new pages."""
_MIN_CPU_S = 0.1
"""The host counts CPU time in ticks of 10 ms; less than this is too few ticks for a finding."""
_MIN_PROCESS_START_SHARE = 0.05
"""Least share of the startup for the phase in which the process starts."""
_IGNORED_BYTES = 64 * MIB
"""A killed server leaves some megabytes in the page cache that are written while the next server starts."""


def _others_cpus(run: Run) -> float | None:
    """Returns the CPUs used by others: from the sampler, which knows the clients, or else from the counters at both
    ends of the run. None if that is too little time to be more than rounding."""
    activity = run.host_activity
    if activity is not None and (activity.others_cpu_s or 0.0) <= _MIN_CPU_S:
        return None
    sampled = metric_value(run, "others_cpus")
    return _time_share(activity, lambda during: during.others_cpu_s) if sampled is None else sampled


def _others_io_mb(run: Run) -> float | None:
    """Returns the megabytes that others read and wrote, as far as they are many in comparison with the server's own."""
    activity = run.host_activity
    if activity is None:
        return None
    found = 0.0
    for theirs, name, share in (
        (activity.others_read_bytes, "read_bytes", _MAX_OTHERS_READ_RATIO),
        (activity.others_written_bytes, "written_bytes", _MAX_OTHERS_WRITTEN_RATIO),
    ):
        total, rate = metric_value(run, name), metric_value(run, f"{name}_per_s")
        own = (rate or 0.0) * activity.seconds if total is None else total
        if (theirs or 0) > max(_IGNORED_BYTES, share * own):
            found += theirs or 0
    return found / 1e6


def _own_volume_hint(session: Session, _: Runs) -> Mapping[str, object]:
    """Returns additional advice if the data shares its device with this tool."""
    tool, data = session.environment.get("tool_device"), session.environment.get("device")
    return {"more": "; or give the data its own volume (DATA=)." if tool == data else "."}


def throttled(session: Session) -> Iterator[Facts]:
    """Finds runs that a control group throttled, unless the user limited the CPUs."""
    if not session.design.limits.cpus:
        yield from in_runs(_cpu_share(lambda activity: activity.throttled_s), _MAX_THROTTLED_SHARE)(session)


def memory_given_back(session: Session, runs: Runs) -> dict[str, object] | None:
    """Finds cold starts that spent much of their time in the kernel, on a machine that gives free memory back."""
    if session.environment.get("free_page_reporting") != "yes" or session.cache_of(runs[0].variant) != Cache.COLD:
        return None
    share = mean(
        run.metrics["kernel_cpu_s"] / run.metrics[STARTUP_METRIC]
        for run in runs
        if run.metrics.get(STARTUP_METRIC, 0.0) >= _MIN_LONG_START_S and "kernel_cpu_s" in run.metrics
    )
    return {"percent": 100 * share} if share is not None and share > _MAX_KERNEL_SHARE else None


def _cpu_share(seconds: Callable[[HostActivity], float | None]) -> Callable[[Run], float | None]:
    """Returns CPU time as a share of a run's time, unless that is too little to be more than rounding."""

    def share(run: Run) -> float | None:
        found = _time_share(run.host_activity, seconds)
        return found if run.host_activity is not None and found * run.host_activity.seconds > _MIN_CPU_S else None

    return share


def _time_share(activity: HostActivity | None, seconds: Callable[[HostActivity], float | None]) -> float:
    if activity is None or activity.seconds <= 0:
        return 0.0
    return (seconds(activity) or 0.0) / activity.seconds


_HOST_WORDS = {
    READS: "{low:,.0f} to {high:,.0f} reads/s by one thread",
    READS_16: "{low:,.0f} to {high:,.0f} reads/s by 16",
    CPU_LOOP: "{low:.2g} to {high:.2g} s of a CPU loop",
}


def host_changed(session: Session) -> Iterator[Facts]:
    """Finds sessions during which the host itself became faster or slower, from block to block."""
    found = [
        _HOST_WORDS[figure.name].format(low=_two_digits(figure.low), high=_two_digits(figure.high))
        for figure in changed_figures(session)
    ]
    if found:
        yield "host", {"values": ", ".join(found)}


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def program_on_other_device(session: Session, runs: Runs) -> Mapping[str, object] | None:
    program = server_of(session, runs[0].version, runs[0].variant).get("program_device")
    data = session.environment.get("device")
    is_cold = session.cache_of(runs[0].variant) == Cache.COLD
    if not (is_cold and data and program and program != data):
        return None
    shares = (
        seconds_by_name(run.startup.phases).get(PROCESS_START, 0.0) / (main_value(session, run) or math.inf)
        for run in runs
    )
    if (mean(shares) or 0.0) <= _MIN_PROCESS_START_SHARE:
        return None
    remedy = "put your server there too" if session.design.has_own_servers else "set RECOVERY_CACHE to a folder there"
    return {"program": program, "data": data, "phase": PROCESS_START, "remedy": remedy}


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
_POLL, _POLL_RATE = "poll", "polls_per_s"
_DUMP = "dump"
"""Name of the dump program among the clients of a run."""


def busy_clients(session: Session, runs: Runs) -> Mapping[str, object] | None:
    used, allowed = mean(run.metrics.get("client_cpus") for run in runs), _available_client_cpus(session, runs)
    if used is None or allowed is None or used < _BUSY_CLIENTS_SHARE * allowed:
        return None
    return {"used": used, "allowed": allowed}


def no_idle_cpu(session: Session, runs: Runs) -> Mapping[str, object] | None:
    cpus, used = stored_number(session.environment.get("cpus")), mean(run.metrics.get("client_cpus") for run in runs)
    if not cpus or used is None or busy_clients(session, runs) is not None:
        return None
    is_much = used > min(_MIN_CLIENTS_SHARE * cpus, _server_cpus(runs))
    return {"used": used, "cpus": cpus} if is_much and _idle_cpus(runs, cpus) < _MIN_IDLE_SHARE * cpus else None


def _available_client_cpus(session: Session, runs: Sequence[Run]) -> float | None:
    """Returns how many CPUs the clients can use at once: one for each thread, and no more than they are pinned to. A
    dump has one thread, which is not pinned."""
    if any(_DUMP in run.load.clients for run in runs):
        return 1.0
    if metric(session.metric).unit != "/s":
        return None
    cell = session.values_of(runs[0].variant)
    threads = stored_number(cell.get("threads"))
    return min((cpus for cpus in (threads, session.design.client_cpus) if cpus), default=None)


def _server_cpus(runs: Sequence[Run]) -> float:
    """Returns the CPUs that the server used, or infinity if unknown. Clients usually use a third as many."""
    used = mean(run.metrics.get("server_cpus") for run in runs)
    return math.inf if used is None else used


def _idle_cpus(runs: Sequence[Run], cpus: float) -> float:
    """Returns how many CPUs of the host were idle."""
    names = ("server_cpus", "client_cpus", "others_cpus")
    return cpus - sum(mean(run.metrics.get(name) for run in runs) or 0.0 for name in names)


def unstable_rate(session: Session, runs: Runs) -> Mapping[str, object] | None:
    changed = {
        run: change for run in runs if (change := _rate_change(run)) is not None and abs(change) > _MAX_RATE_CHANGE
    }
    if not changed:
        return None
    largest = max(changed.values(), key=abs)
    comparison = "higher" if largest > 0 else "lower"
    return {"percent": 100 * abs(largest), "comparison": comparison, "runs": runs_words(session, list(changed))}


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


def short_run(session: Session) -> Iterator[Facts]:
    """Finds loads that were measured for a short time. The duration of a load is a setting. The number of runs is
    checked in every session."""
    seconds = session.design.seconds
    if seconds is not None and 0 < seconds < _MIN_LOAD_S and metric(session.metric).unit == "/s":
        yield "all", {"seconds": seconds, "least": _MIN_LOAD_S}


def missing_polls(session: Session, runs: Runs) -> Mapping[str, object] | None:
    """Finds loads with polling in which no poll was answered."""
    if session.values_of(runs[0].variant).get(_POLL, "off") == "off":
        return None
    silent = [run for run in runs if not run.metrics.get(_POLL_RATE)]
    return {"runs": runs_words(session, silent)} if silent else None


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


def _should_be_in_memory(session: Session, variant: str) -> bool:
    if metric(session.metric).unit != "/s" or (session.design.memory_ratio or 0) > 1:
        return False
    values = session.values_of(variant)
    return values.get("question") not in _LARGER_THAN_POOL_QUESTIONS and _BUFFER_POOL_SIZE not in values


def reads_of_pages(session: Session, runs: Runs) -> Mapping[str, object] | None:
    """Finds loads that read from the device, which then measure the device, unless that was requested."""
    read = {run: pages for run in runs if (pages := _pages_per_query(run) or 0.0) > _MAX_PAGES_PER_QUERY}
    if not read or not _should_be_in_memory(session, runs[0].variant):
        return None
    return {"largest": max(read.values()), "runs": runs_words(session, list(read))}


def pool_smaller_than_data(session: Session, runs: Runs) -> Mapping[str, object] | None:
    variant = runs[0].variant
    if reads_of_pages(session, runs) is not None or not _should_be_in_memory(session, variant):
        return None
    known = server_of_cell(session, runs[0].version, variant)
    pool = stored_number(known.get(f"@{_BUFFER_POOL_SIZE}"))
    data = _used_data_bytes(known, session.values_of(variant))
    return {"data": data / 1e9, "pool": pool / 1e9} if pool is not None and data is not None and pool < data else None


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


def pool_larger_than_memory(session: Session) -> Iterator[Facts]:
    memory = session.design.limits.memory_bytes or stored_number(session.environment.get("memory_bytes"))
    for name, known in session.servers.items():
        pool = stored_number(known.get(f"@{_BUFFER_POOL_SIZE}"))
        if pool is not None and memory is not None and pool > memory:
            yield name, {"pool": pool / 1e9, "memory": memory / 1e9}


# --- Redo log: whether a write load continued until the log was full and had to be flushed

_MIN_RISE = 0.05
"""Least rise of the checkpoint age, as a share of its largest value before."""
_IGNORED_LOG_BYTES = MIB
"""A smaller rise can come from other writing: of statistics, or by the purge of old rows."""


def _log_capacity(session: Session, runs: Runs) -> Mapping[str, object]:
    """Returns the size of the redo log as text, if the server reported it."""
    known = server_of_cell(session, runs[0].version, runs[0].variant)
    capacity = stored_number(known.get("@innodb_redo_log_capacity"))
    if capacity is None:
        size, files = (stored_number(known.get(f"@innodb_log_{name}")) for name in ("file_size", "files_in_group"))
        # MariaDB has a single file since 10.5, and later also no option for the number of files.
        capacity = None if size is None else size * (files or 1)
    return {"of": f" of {capacity / 1e6:,.0f} MB" if capacity else ""}


def _grown_log_mb(run: Run) -> float | None:
    """Returns the largest checkpoint age in the last third of the run, in megabytes. None if it did not exceed all
    earlier ones, because waves rise and fall."""
    values = _measured_series(run, "checkpoint_age_bytes")
    if len(values) < _MIN_SAMPLES:
        return None
    third = len(values) // 3
    before, last = max(values[:-third]), values[-third:]
    return max(last) / 1e6 if median(last) > before + max(_IGNORED_LOG_BYTES, _MIN_RISE * before) else None


# --- Server and tool: whether the build, its settings and this tool are fit for timing

_TOOL_BUSY_CPUS = 0.5
"""CPUs that this tool itself used during a start."""
_MAX_LATE_S, _MAX_LATE_SHARE = 2.0, 0.5
"""How late a measurement may begin in a load, in seconds and as a share of the load. Beyond this share there are no
rates."""
_MAX_READY_LAG_S, _MAX_READY_LAG_SHARE = 0.1, 0.01


def debug_build(session: Session) -> Iterator[Facts]:
    for version in session.versions:
        known = server_of(session, version)
        names = " ".join(known.get(name, "") for name in ("@version", "@version_comment"))
        if "debug" in names.lower():
            yield version, {"version": known.get("@version", version)}


def newer_release(session: Session) -> Iterator[Facts]:
    for version in session.versions:
        try:
            newest = newest_tried(parse_version(version))
        except ValueError:  # a session of an unknown origin
            continue
        if newest is not None:
            yield version, {"newest": newest}


def _late_s(run: Run) -> float | None:
    """Returns how late this tool's measurement began in the load of the clients; None if that is not too late."""
    load_s = metric_value(run, "elapsed_s")
    if run.host_activity is None or load_s is None:
        return None
    late_s = load_s - run.host_activity.seconds
    return late_s if late_s > min(_MAX_LATE_S, _MAX_LATE_SHARE * load_s) else None


def late_log(session: Session, runs: Runs) -> Mapping[str, object] | None:
    lags = {run: run.startup.ready_lag_s or 0.0 for run in runs}
    late = {
        run: lag for run, lag in lags.items()
        if lag > max(_MAX_READY_LAG_S, _MAX_READY_LAG_SHARE * (main_value(session, run) or 0.0))
    }  # fmt: skip
    return {"largest": max(late.values()), "runs": runs_words(session, list(late))} if late else None


def options_not_in_effect(session: Session) -> Iterator[Facts]:
    """Finds options of an axis that are in effect with another value. Options that are the same for all cells are
    reported with the server."""
    on_axes = {axis.name for axis in session.axes}
    known_changes: dict[tuple[str, ChangedOption], Facts] = {}
    for name, known in session.servers.items():
        version = name.partition(" ")[0]
        for change in changed_options(known):
            if change.option in on_axes and (version, change) not in known_changes:
                files = known.get("@open_files_limit")
                known_changes[version, change] = (
                    f"{version} {change.option}={change.requested}",
                    {
                        "change": f"{change}{_same_effect_text(session, version, change)}",
                        "files": f"; {files} here" if files else "",
                    },
                )
    yield from known_changes.values()


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
_MIN_DRIFT, _MIN_COMMON_DRIFT = 0.1, 0.05
"""Least change from the first run of a cell to its last: of a cell alone, and of all cells together."""
_DRIFT_LEVEL, _LARGE_DRIFT_LEVEL, _LARGE_DRIFT = 0.02, 0.05, 4 / 3
"""Share of steady sessions that show a drift by chance, in half of them of one of several cells, in half of all. The
second is that of a drift by more than this factor, which hardly ever happens by chance unless runs vary by a tenth."""
_BLOCKS_LEVEL = 0.05
"""The same where what the runs of a block have in common varies: then the slope of the cells is more certain than it
seems to be, and that of the means of the blocks is tested, too."""


def few_runs(session: Session) -> Iterator[Facts]:
    runs = session.design.runs
    if session.planned_runs and runs is not None and runs < MIN_RUNS:
        yield "all", {"runs": f"{runs} run{'s' if runs > 1 else ''}", "more": _MIN_RUNS_FOR_TREND}


def _first_is_slow(cell: MeasuredCell) -> bool:
    if len(cell.values) < MIN_RUNS:
        return False
    first, *others = cell.values
    if cell.metric.more_is_better:
        return first * _SLOW_FIRST_RATIO < min(others)
    return first > _SLOW_FIRST_RATIO * max(others)


def slow_first_run(session: Session) -> Iterator[Facts]:
    """Finds a slow first run, for which conditions differed from those of the other runs."""
    if any(run.extra is ExtraRun.FIRST_READ for run in session.runs):
        why = (
            "The files had been read before, by a start that is not in the mean: see what else ran, and measure again."
        )
    else:
        why = (
            "Measure again over the same data directory: a volume that is read for the first time is slow once, and "
            "some storage caches what was read."
        )
    if session.design.warmup_s is not None:
        why += " A longer WARMUP= may help, too."
    for cell in measured_cells(session):
        if _first_is_slow(cell):
            first, *others = cell.values
            values = f"{cell.verb} {cell.text(first)}, the others {cell.text(min(others), max(others))}"
            yield cell.about, {"values": values, "why": why}


def one_after_the_other(session: Session) -> Iterator[Facts]:
    """Finds sessions that compare what did not alternate, so that its place in the order counts as a difference."""
    what, _, how = (session.design.order or "").partition(" run ")
    measured = measured_runs_by_cell(session)
    # Variants of one version share a directory, in which they alternate, unless it is the directories that are named.
    compared = {version for version, _ in measured} if what == "versions" and not session.design.points else measured
    if f"run {how}" != ONE_AFTER_THE_OTHER or not is_compared(session) or len(compared) < 2:
        return
    if session.design.points:
        what = "numbers of tables" if len(session.versions) < 2 else "versions, and their numbers of tables,"
        remedy = "Each number of tables grows out of the smaller one, so they cannot alternate: repeat the session."
    else:
        remedy = (
            "They alternate where their directories fit on the disk together, and for warm starts alone also in the "
            "memory: use fewer TABLES=, or another DATA= or host."
        )
    yield "order", {"what": what, "remedy": remedy}


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def outliers(session: Session) -> Iterator[Facts]:
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
            listed = ", ".join(f"{runs_words(session, [run])} ({cell.text(value)})" for run, value in far)
            yield cell.about, {"median": cell.text(middle), "runs": listed}


def drift(session: Session) -> Iterator[Facts]:
    """Finds cells whose values rise or fall from run to run, by the slope of their logarithms over the number of the
    run, and sessions whose cells have such a slope in common. The few runs of a cell may show nothing alone."""
    steady = [
        cell for cell in measured_cells(session)
        if len(cell.values) >= MIN_RUNS and min(cell.values) > 0 and not _first_is_slow(cell)
    ]  # fmt: skip
    logs = [
        [(float(run.number), math.log(value)) for run, value in zip(cell.runs, cell.values, strict=True)]
        for cell in steady
    ]
    slopes = [common_slope([points]) for points in logs]
    adjusted = iter(holm_adjusted([slope.p_value for slope in slopes if slope is not None]))
    tests = 2 if len(steady) > 1 else 1
    drifting = False
    for cell, points, slope in zip(steady, logs, slopes, strict=True):
        if slope is None:
            continue
        change, p_value = _fitted_change(slope, points), next(adjusted)
        if abs(change) > _MIN_DRIFT and p_value * tests <= _drift_level(change):
            drifting = True
            name = "times" if cell.metric.unit == "s" else cell.metric.label
            values = f"from {cell.text(cell.values[0], cell.values[-1])}"
            yield cell.about, {"what": name, "direction": "rose" if change > 0 else "fell", "values": values}
    common, of_blocks = common_slope(logs), _slope_of_blocks(session, steady, logs)
    if tests > 1 and not drifting and common is not None and of_blocks is not None:
        change = median(_fitted_change(common, points) for points in logs)
        is_sure = common.p_value * tests <= _drift_level(change) and of_blocks.p_value <= _BLOCKS_LEVEL
        if abs(change) > _MIN_COMMON_DRIFT and is_sure:
            values = f"by {100 * abs(change):.0f} % between the first and the last run of a cell"
            yield "all cells", {"what": "values", "direction": "rose" if change > 0 else "fell", "values": values}


def _slope_of_blocks(
    session: Session, steady: Sequence[MeasuredCell], logs: Sequence[Sequence[tuple[float, float]]]
) -> Slope | None:
    """Returns the slope of the means of the blocks, of logarithms around the mean of their cell."""
    blocks: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for cell, points in zip(steady, logs, strict=True):
        middle = fmean(log for _, log in points)
        for run, (number, log) in zip(cell.runs, points, strict=True):
            blocks.setdefault(session.block_of(run), []).append((number, log - middle))
    series: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for block, of_block in blocks.items():
        number, log = (fmean(column) for column in zip(*of_block, strict=True))
        series.setdefault(block[:-1], []).append((number, log))
    return common_slope(series.values())


def _drift_level(change: float) -> float:
    return _LARGE_DRIFT_LEVEL if abs(math.log1p(change)) > math.log(_LARGE_DRIFT) else _DRIFT_LEVEL


def _fitted_change(slope: Slope, points: Sequence[tuple[float, float]]) -> float:
    """Returns by what share values change from the first of these points to the last, by a slope of logarithms."""
    return math.expm1(slope.value * (points[-1][0] - points[0][0]))


def wide_interval(session: Session) -> Iterator[Facts]:
    """Finds means with a wide interval."""
    if session.design.precision is None and is_compared(session):
        for about, share in _intervals_above(session, _MAX_INTERVAL):
            yield about, {"interval": f"is +- {100 * share:.0f} %" if share < 1 else "passes zero"}


def missed_precision(session: Session) -> Iterator[Facts]:
    requested = 100 * (session.design.precision or 0)
    for about, share in cells_missing_precision(session):
        yield about, {"share": 100 * share, "requested": requested}


def cells_missing_precision(session: Session) -> Iterator[tuple[str, float]]:
    """Yields the cells whose interval is wider than PRECISION= asked for, with half of it as a share of the mean."""
    if (requested := session.design.precision) is not None:
        yield from _intervals_above(session, requested)


def _intervals_above(session: Session, limit: float) -> Iterator[tuple[str, float]]:
    """Yields the cells whose half interval is above this share of the mean, with that share."""
    for cell in summarise(session):
        if cell.interval is not None and cell.mean and cell.interval / cell.mean > limit:
            yield f"{cell.version} {cell_words(session, cell.variant)}", cell.interval / cell.mean


# --- All checks

_AGAIN = "stop them, and measure again"
CHECKS: tuple[Check, ...] = (
    Check("newer-release", newer_release,
        "Newer than {newest}, the newest series that this version of the tool was tried with, and measured like it.",
        "The times hold. Before you rely on the phases, look for lines of the log without a phase: `recovery analyze` "
        "on the log of a run."),
    Check("precision-missed", missed_precision,
        "The 95 % interval of the mean in this session is +- {share:.3g} %; +- {requested:g} % was requested.",
        "State the mean with its interval. A larger MAX_RUNS= narrows it."),
    Check("cold-was-not", in_cells(cold_but_cached),
        "Only {least:.0f} MB were read in {runs}; {usual:.0f} MB are usual.",
        "Another process read these files meanwhile, or runs the same server program (a backup, another server): stop "
        "it, and measure again."),
    Check("inodes-were-warm", in_cells(inodes_stayed),
        "Files were evicted one by one: inodes and directory entries stayed in memory, unlike after a reboot.",
        "{hint}"),
    Check("cold-not-proved", in_cells(cold_not_proved),
        "This host does not show what was left in the cache before {runs}.",
        "Compare the bytes read. Linux 6.5 or later shows it, without an overlay under the data (see doctor)."),
    Check("cached-below", cache_below_host,
        "{cached} Cold means cold for this machine only.",
        "Compare only starts over files that were read equally often before; the first cold start may differ."),
    Check("not-in-memory", in_cells(reads_of_pages),
        "Up to {largest:.2g} pages per query were read from the device, because they were not in the buffer pool: "
        "{runs}.",
        "Use a longer WARMUP=, fewer ROWS=, or a larger pool (--set innodb_buffer_pool_size=…); to measure reading, "
        "set MEMORY_RATIO=."),
    Check("not-in-memory", in_cells(pool_smaller_than_data),
        "The tables' files have {data:.1f} GB, more than the {pool:.1f} GB of the buffer pool.",
        "Use fewer ROWS= or TABLES=, or a host with more memory; to measure that case, set MEMORY_RATIO=."),
    Check("pool-larger-than-memory", pool_larger_than_memory,
        "The buffer pool has {pool:.1f} GB, and the server may use {memory:.1f} GB of memory.",
        "A server with so large a pool swaps or is killed when it fills. Set innodb_buffer_pool_size to what fits, or "
        "measure on a larger host."),
    Check("option-not-in-effect", options_not_in_effect,
        "{change}.",
        "These cells were measured with the value in effect. More open files (OPEN_FILES={files}), or "
        "another value, may help."),
    Check("debug-build", debug_build,
        "This is a debug build ({version}), which is slower.",
        "Measure the release build."),
    Check("throttled", throttled,
        "A control group throttled its processes for {percent:.0f} % of the time of {runs}.",
        "Raise the CPU quota of the container or service in which this tool runs, or set CPUS= to measure with a "
        "limit."),
    Check("memory-given-back", in_cells(memory_given_back),
        "The kernel used CPU time for {percent:.0f} % of the start. This virtual machine gives free memory back to its "
        "host: what a start reads needs new pages, which take more time at some times than at others.",
        "Compare servers within one session; sessions of other hours show how much this varies."),
    Check("host-changed", host_changed,
        "The host itself changed during the session: {values}.",
        "Means include that. A comparison holds if its runs alternated; else measure again when the host is steady, "
        "or on one of its own."),
    Check("steal", in_runs(_cpu_share(lambda activity: activity.steal_s), _MAX_STEAL_SHARE),
        "The hypervisor gave {percent:.0f} % of a CPU to other machines during {runs}.",
        "Measure on a host that does not share its CPUs (a larger or dedicated instance)."),
    Check("other-cpu-load", in_runs(_others_cpus, _MAX_OTHERS_CPUS),
        "Other processes used {largest:.1f} CPUs during {runs}.",
        f"Find them with top, {_AGAIN}."),
    Check("other-disk-load", in_runs(_others_io_mb, 0.0, _own_volume_hint),
        "Other processes read and wrote up to {largest:,.0f} MB on the same device during {runs}.",
        f"Find them with iotop, {_AGAIN}{{more}}"),
    Check("filesystems", in_cells(program_on_other_device),
        "The server's program is on {program}, its data on {data}: a cold start also reads the program, and these "
        "reads are neither counted nor limited.",
        "The phase {phase} shows what that costs. To have both on one device, {remedy}."),
    Check("slow-first-run", slow_first_run,
        "The first run {values}.",
        "The mean includes it. {why}"),
    Check("log-errors", in_runs(lambda run: run.startup.log_errors, 0),
        "The server logged up to {largest:,.0f} errors before it was ready: {runs}.",
        "See the log of the run: files that are missing or damaged make a start shorter or longer."),
    Check("outlier", outliers,
        "Far from the median of {median}: {runs}.",
        "The mean includes it. See the log and the timeline of that run."),
    Check("drift", drift,
        "The {what} {direction} from run to run, {values}.",
        "Something changes during the session, such as burst credits, a cache of the device, or data that grows. "
        "Measure with more RUNS= until the values are stable."),
    Check("one-after-the-other", one_after_the_other,
        "The {what} were measured one after the other: what changed meanwhile cannot be told apart from a difference "
        "between them.",
        "{remedy}"),
    Check("few-runs", few_runs,
        "With {runs} of each, the spread is unknown.",
        "Measure with RUNS={more} or more before you compare."),
    Check("wide-interval", wide_interval,
        "The 95 % interval of the mean {interval}.",
        "State the mean with its interval. More RUNS= narrow it."),
    Check("client-was-the-bottleneck", in_cells(busy_clients),
        "The clients used {used:.1f} of the {allowed:g} CPUs that they could use: they may have been slower than the "
        "server.",
        "Give the clients more CPUs or more threads, or a separate host. Until then this is a lower bound for the "
        "server."),
    Check("client-was-the-bottleneck", in_cells(no_idle_cpu),
        "The clients used {used:.1f} of the host's {cpus:g} CPUs, and none was idle: clients and server share the "
        "CPUs.",
        "Compare versions measured here with each other, but not with a host where the clients have separate CPUs."),
    Check("never-warmed-up", in_cells(unstable_rate),
        "The rate in the last third of the measured time was {percent:.0f} % {comparison} than in the first, in "
        "{runs}.",
        "The load was not stable yet: measure longer (SECONDS=), after a longer warm-up (WARMUP=)."),
    Check("short-run", short_run,
        "Each load was measured for {seconds:g} s, less than a minute.",
        "Flushing and checkpoints come in waves of many seconds: measure with SECONDS={least} or more."),
    Check("polls-did-not-run", in_cells(missing_polls),
        "No poll was answered during the load in {runs}.",
        "This cell measured the load alone. A poll that takes longer than the load is ended: see the polled statement, "
        "the server's log, and SECONDS=."),
    Check("errors", in_runs(lambda run: metric_value(run, "errors_per_transaction"), _MAX_ERROR_SHARE),
        "Up to {percent:.1f} % of the transactions ended in an error that the clients ignored: {runs}.",
        "Deadlocks are part of some workloads: compare cells with similar numbers of them. Other errors are in the "
        "output of the clients."),
    Check("log-still-filling", in_runs(_grown_log_mb, 0.0, _log_capacity),
        "The redo since the last checkpoint still grew in the last third of the measured time, to "
        "{largest:,.0f} MB{of}, in {runs}: the cost of writing with a full log was not measured.",
        "Measure longer (SECONDS=), after a longer warm-up (WARMUP=), or with a smaller log: "
        "SET=innodb_redo_log_capacity=128M, which is translated for older servers."),
    Check("busy-client", in_runs(_cpu_share(lambda activity: activity.tool_cpu_s), _TOOL_BUSY_CPUS),
        "This tool used more than half a CPU during {runs}.",
        "It may have slowed the server down: measure again."),
    Check("late-measurement", in_runs(_late_s, 0.0),
        "This tool began to measure up to {largest:.1f} s late in the load: {runs}.",
        "The host gave it no CPU time, or the server did not answer. What the clients counted covers the whole load, "
        "what the server counted the rest of it, or nothing if that is less than half. Measure with fewer clients or "
        "more CPUs."),
    Check("late-log", in_cells(late_log),
        "The ready line arrived up to {largest:.2f} s after its own timestamp: {runs}.",
        "The host was too busy, or its clock was changed: see what else runs, and measure again."),
    Check("no-line", failed_prediction,
        "The smaller points predict {predicted:.1f} s for {tables:,} tables; {measured:.1f} s were measured.",
        "Do not predict for more than {tables:,} tables: measure there."),
)  # fmt: skip
"""The most important come first: whether the tool knows the server, and the right thing was measured, then what
disturbed it, then how it varies."""


def findings(session: Session) -> tuple[Finding, ...]:
    return tuple(merge_similar(findings_of_each_cell(session)))


def findings_of_each_cell(session: Session) -> tuple[Finding, ...]:
    """Returns the findings before similar ones are merged, so that each can be shown beside the figure it is about.
    Those of a combined session are what the checks find in each of its parts."""
    if isinstance(session, CombinedSession):
        parts = enumerate(session.parts, 1)
        return tuple(finding for number, part in parts for finding in _of_part(session, part, number))
    return tuple(finding for check in CHECKS for finding in check.findings(session))


def _of_part(session: CombinedSession, part: Part, number: int) -> Iterator[Finding]:
    """Yields the findings in a part of a combined session, with the names that its cells have there, or with the number
    of the session if no host is named."""
    if not part.host:
        found = findings_of_each_cell(part.session)
        yield from (replace(finding, about=f"{finding.about}, session {number}") for finding in found)
        return
    names = {
        cell_name(part.session, (version, variant)): cell_name(session, (version, host_variant(part.host, variant)))
        for version, variant in measured_runs_by_cell(part.session)
    }
    for finding in findings_of_each_cell(part.session):
        yield replace(finding, about=names.get(finding.about, f"{part.host}: {finding.about}"))


def cell_name(session: Session, cell: Cell) -> str:
    """Returns what a finding about a cell is about."""
    version, variant = cell
    return f"{version} {cell_words(session, variant)}"


def doubts_by_cell(session: Session) -> dict[Cell, tuple[str, ...]]:
    """Returns the texts of the findings about single cells."""
    found: dict[str, list[str]] = {}
    for finding in findings_of_each_cell(session):
        found.setdefault(finding.about, []).append(finding.text)
    cells = {cell: cell_name(session, cell) for cell in measured_runs_by_cell(session)}
    return {cell: tuple(found[name]) for cell, name in cells.items() if name in found}


def not_checked(session: Session) -> str | None:
    """Returns what could not be checked because the session does not contain it, as text."""
    if any(run.host_activity is not None for run in session.runs) or not session.runs:
        return None
    return "other activity on the host was not recorded"
