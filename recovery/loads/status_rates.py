"""Computes rates from the status samples of a server: as time series for a report, and averaged over a measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import fmean, median

from recovery.loads.status_sampler import MUTEX_SPINS, MUTEX_WAITS, Sample, first_measured_sample
from recovery.model import Timeline

MAX_SAMPLES = 240
"""Maximum number of samples in a report; the raw file contains all of them."""

_BELOW_ZERO = 2.0**63
"""Servers print counters without a sign: what is larger than this has fallen below zero (pending fsyncs of 8.0.31)."""

Sums = tuple[tuple[str, ...], ...]
"""Alternative sums of sample values. The first one with all values available on this server is used. Names that begin
with a minus are subtracted."""

COUNTER_SUMS: dict[str, Sums] = {
    "questions_per_s": (("status.Questions",),),
    "table_open_cache_hits_per_s": (("status.Table_open_cache_hits",),),
    "table_open_cache_misses_per_s": (("status.Table_open_cache_misses",),),
    "table_open_cache_overflows_per_s": (("status.Table_open_cache_overflows",),),
    "load_table_open_cache_hits_per_s": (("load.Table_open_cache_hits",),),
    "load_table_open_cache_misses_per_s": (("load.Table_open_cache_misses",),),
    "opened_tables_per_s": (("status.Opened_tables",),),
    "opened_table_definitions_per_s": (("status.Opened_table_definitions",),),
    "server_cpus": (("process.cpu_s",),),
    "client_cpus": (("clients.cpu_s",),),
    "others_cpus": (("host.busy_s", "-process.cpu_s", "-clients.cpu_s", "-tool.cpu_s"),),
    "steal_cpus": (("host.steal_s",),),
    "read_bytes_per_s": (("process.read_bytes",),),
    "written_bytes_per_s": (("process.written_bytes",),),
    "device_reads_per_s": (("device.reads",),),
    "device_writes_per_s": (("device.writes",),),
    # Innodb_data_fsyncs includes the fsyncs of the redo log.
    "fsyncs_per_s": (("status.Innodb_data_fsyncs",),),
    "redo_bytes_per_s": (("status.Innodb_os_log_written",),),
    "buffer_pool_reads_per_s": (("status.Innodb_buffer_pool_reads",),),
    "rows_changed_per_s": (
        ("status.Innodb_rows_inserted", "status.Innodb_rows_updated", "status.Innodb_rows_deleted"),
        ("metric.dml_inserts", "metric.dml_updates", "metric.dml_deletes"),
        ("status.Handler_write", "status.Handler_update", "status.Handler_delete"),
    ),
    "row_lock_waits_per_s": (("status.Innodb_row_lock_waits",),),
    "rwlock_os_waits_per_s": (
        ("metric.innodb_rwlock_s_os_waits", "metric.innodb_rwlock_x_os_waits", "metric.innodb_rwlock_sx_os_waits"),
        ("metric.innodb_rwlock_s_os_waits", "metric.innodb_rwlock_x_os_waits"),
    ),
    # Other servers report this only in SHOW ENGINE INNODB MUTEX, which only the first and the last sample contain.
    "mutex_os_waits_per_s": (("status.Innodb_mutex_os_waits",),),
}
"""Counters that are shown as rates: growth per second."""

GAUGE_SUMS: dict[str, Sums] = {
    "threads_running": (("status.Threads_running",),),
    "table_open_cache_active_instances": (("status.Table_open_cache_active_instances",),),
    "checkpoint_age_bytes": (
        ("metric.log_lsn_checkpoint_age",),
        ("status.Innodb_checkpoint_age",),
        ("status.Innodb_redo_log_current_lsn", "-status.Innodb_redo_log_checkpoint_lsn"),
    ),
    "dirty_pages": (("status.Innodb_buffer_pool_pages_dirty",),),
    "pending_fsyncs": (("status.Innodb_data_pending_fsyncs",),),
    "history_list_length": (("metric.trx_rseg_history_len",), ("status.Innodb_history_list_length",)),
    "resident_bytes": (("process.resident_bytes",),),
}
"""Gauges that are shown as read."""


def sample_series(samples: Sequence[Sample]) -> Timeline:
    """Returns the time series for a report. Columns without any value are left out."""
    shown = _drop_close_samples(tuple(samples))
    columns = {name: tuple(_rates(sums, shown)) for name, sums in COUNTER_SUMS.items()}
    for name, sums in GAUGE_SUMS.items():
        gauges = (first_available_sum(sums, sample) for sample in shown)
        columns[name] = tuple(None if value is None else round_significant(value) for value in gauges)
    known = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    return Timeline(tuple(sample.at_s for sample in shown), known)


def first_available_sum(sums: Sums, sample: Sample) -> float | None:
    """Returns the first of the sums for which the sample has all values; None if there is none."""
    for columns in sums:
        terms = [_term(column, sample) for column in columns]
        known = [term for term in terms if term is not None]
        if len(known) == len(terms):
            return sum(known)
    return None


def growth(sums: Sums, before: Sample, after: Sample) -> float | None:
    """Returns the growth of a sum between two samples; None if a value is missing or a counter was reset."""
    began, ended = first_available_sum(sums, before), first_available_sum(sums, after)
    if began is None or ended is None:
        return None
    if ended < began:
        # A difference of counters may shrink a little, because CPU times are counted in coarse ticks; a counter never
        # shrinks.
        return 0.0 if any(column.startswith("-") for columns in sums for column in columns) else None
    return ended - began


def round_significant(value: float) -> float:
    """Returns the value rounded to six significant digits. The raw file has the exact values."""
    return float(f"{value:.6g}")


def _term(column: str, sample: Sample) -> float | None:
    """Returns the value of one name of a sum, negated if the name begins with a minus; None if it is unknown."""
    value = sample.figures.get(column.removeprefix("-"))
    if value is None or value >= _BELOW_ZERO:
        return None
    return -value if column.startswith("-") else value


def _rates(sums: Sums, samples: Sequence[Sample]) -> Iterable[float | None]:
    """Yields the growth per second since the previous sample, for each sample. The first one is None."""
    yield from (None for _ in samples[:1])
    for before, after in pairwise(samples):
        grown = growth(sums, before, after)
        yield None if grown is None else round_significant(grown / (after.at_s - before.at_s))


def _drop_close_samples(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Returns the samples without those that are too close to the previous one, and at most MAX_SAMPLES of them.

    A rate over a hundredth of a second is meaningless. Therefore a sample is dropped if it follows the previous one by
    at most half the median interval. The sample at the start of the measurement is kept, and the one right before it is
    dropped instead."""
    if len(samples) < 2:
        return samples
    began = first_measured_sample(samples)
    min_interval_s = median(after.at_s - before.at_s for before, after in pairwise(samples)) / 2
    kept: list[Sample] = []
    for sample in samples:
        near = bool(kept) and sample.at_s - kept[-1].at_s <= min_interval_s
        if near and sample is began and kept[-1] is not began:
            kept.pop()
            near = False
        if not near:
            kept.append(sample)
    step = math.ceil(len(kept) / MAX_SAMPLES)
    return tuple(kept[::step])


# --- Averages over a measurement: per second, per query and per commit

_SPINS = (
    ("metric.innodb_rwlock_s_spin_rounds", "metric.innodb_rwlock_x_spin_rounds", "metric.innodb_rwlock_sx_spin_rounds"),
    ("metric.innodb_rwlock_s_spin_rounds", "metric.innodb_rwlock_x_spin_rounds"),
)
_RATIOS = {
    # name: numerator, denominator
    "row_lock_wait_ms": ((("status.Innodb_row_lock_time",),), (("status.Innodb_row_lock_waits",),)),
    "table_open_cache_hit_share": (
        (("status.Table_open_cache_hits",),),
        (("status.Table_open_cache_hits", "status.Table_open_cache_misses"),),
    ),
    "load_table_open_cache_hit_share": (
        (("load.Table_open_cache_hits",),),
        (("load.Table_open_cache_hits", "load.Table_open_cache_misses"),),
    ),
}
_PER_QUERY = {
    "server_cpu_us_per_query": (COUNTER_SUMS["server_cpus"], 1e6),
    "rwlock_spin_rounds_per_query": (_SPINS, 1.0),
    "mutex_spin_rounds_per_query": (((MUTEX_SPINS,), ("status.Innodb_mutex_spin_rounds",)), 1.0),
}
_PER_COMMIT = {
    "redo_bytes_per_commit": COUNTER_SUMS["redo_bytes_per_s"],
    "fsyncs_per_commit": COUNTER_SUMS["fsyncs_per_s"],
}
_RATES = COUNTER_SUMS | {"mutex_os_waits_per_s": ((MUTEX_WAITS,), ("status.Innodb_mutex_os_waits",))}
AVERAGE_NAMES = frozenset({*_RATES, *GAUGE_SUMS, *_PER_QUERY, *_PER_COMMIT, *_RATIOS})
"""Names of all values that averages() can return."""
_MIN_COVERAGE = 0.5
"""Minimum share of the measured time that the samples must cover. A smaller part does not represent the whole."""
_UNMAINTAINED_IF_ZERO = frozenset({"rwlock_spin_rounds_per_query", "rwlock_os_waits_per_s"})
"""Values for which a counter of 0 since the start of the server means that it is not maintained. MySQL 8.0 still has
the counters of its read-write locks, but they stay 0, even with hundreds of waits in SHOW ENGINE INNODB MUTEX."""


def averages(samples: Sequence[Sample], *, queries: int, commits: int, load_s: float = 0.0) -> dict[str, float]:
    """Returns the averages by name, from the sample at the start of the measurement to the last, which is at its end.

    `queries` and `commits` are the numbers counted by the load's clients, in `load_s` seconds; they are 0 if a sample
    at one end is missing. Values that this server does not provide are left out."""
    began = first_measured_sample(tuple(samples))
    measured = [sample for sample in samples if began is not None and sample.at_s >= began.at_s]
    if began is None or measured[-1].at_s <= began.at_s:
        return {}
    ended = measured[-1]
    seconds = ended.at_s - began.at_s
    # A busy server answers the first sample with a delay, and a busy host may leave this tool no CPU time when the
    # warm-up ends. Queries that clients executed until then are not covered.
    covered = min(1.0, seconds / max(ended.at_s, load_s))
    if covered < _MIN_COVERAGE:
        return {}

    results: dict[str, float | None] = {}
    for name, sums in _RATES.items():
        results[name] = _divide(_maintained_growth(name, sums, (began, ended)), seconds)
    for name, sums in GAUGE_SUMS.items():
        # The last sample is left out, because the load has ended by then.
        sampled = (first_available_sum(sums, sample) for sample in measured[:-1])
        values = [value for value in sampled if value is not None]
        results[name] = fmean(values) if values else None
    for name, (sums, factor) in _PER_QUERY.items():
        results[name] = _divide(_maintained_growth(name, sums, (began, ended)), queries * covered / factor)
    for name, sums in _PER_COMMIT.items():
        results[name] = _divide(growth(sums, began, ended), commits * covered)
    for name, (what, of) in _RATIOS.items():
        results[name] = _divide(growth(what, began, ended), growth(of, began, ended))
    return {name: round_significant(value) for name, value in results.items() if value is not None}


def _maintained_growth(name: str, sums: Sums, ends: tuple[Sample, Sample]) -> float | None:
    """Returns the growth between the two samples; None also for a counter that this server does not maintain."""
    return None if name in _UNMAINTAINED_IF_ZERO and not first_available_sum(sums, ends[1]) else growth(sums, *ends)


def _divide(value: float | None, by: float | None) -> float | None:
    return None if value is None or not by else value / by
