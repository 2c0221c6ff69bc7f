"""What do looks at a server at work tell? Counters to rates, look by look. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from recovery.load.sample import Sample, began_with
from recovery.measured import Series, Watched

MOST = 240
"""Looks in a report; the raw file has them all."""

Sums = tuple[tuple[str, ...], ...]
"""The first of them whose columns this server tells counts; what begins with a minus is taken away."""

GROWING: dict[str, Sums] = {
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
    # Those of the log are among them.
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
    # Of SHOW ENGINE INNODB MUTEX, which others need, only the first look and the last know.
    "mutex_os_waits_per_s": (("status.Innodb_mutex_os_waits",),),
}
"""Drawn as rates: growth a second."""

LEVELS: dict[str, Sums] = {
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
"""Drawn as they stand."""


def watched(samples: Sequence[Sample]) -> Watched:
    """A series that nothing was taken of is left out."""
    looks = _spaced(tuple(samples))
    series = [Series(name, tuple(_rates(sums, looks))) for name, sums in GROWING.items()]
    series += [Series(name, tuple(_levels(sums, looks))) for name, sums in LEVELS.items()]
    told = tuple(one for one in series if any(value is not None for value in one.values))
    return Watched(tuple(look.at_s for look in looks), told)


def total(sums: Sums, sample: Sample) -> float | None:
    for columns in sums:
        terms = [_term(column, sample) for column in columns]
        told = [term for term in terms if term is not None]
        if len(told) == len(terms):
            return sum(told)
    return None


def growth(sums: Sums, before: Sample, after: Sample) -> float | None:
    """None too where a counter was set back."""
    began, ended = total(sums, before), total(sums, after)
    if began is None or ended is None:
        return None
    if ended < began:
        # What is left after coarse ticks were taken away may shrink a little, which no count does.
        return 0.0 if any(column.startswith("-") for columns in sums for column in columns) else None
    return ended - began


def rounded(value: float) -> float:
    """To six digits: more is in the raw file."""
    return float(f"{value:.6g}")


def _term(column: str, sample: Sample) -> float | None:
    value = sample.figures.get(column.removeprefix("-"))
    return -value if value is not None and column.startswith("-") else value


def _rates(sums: Sums, looks: Sequence[Sample]) -> Iterable[float | None]:
    yield from (None for _ in looks[:1])
    for before, after in pairwise(looks):
        grown = growth(sums, before, after)
        yield None if grown is None else rounded(grown / (after.at_s - before.at_s))


def _levels(sums: Sums, looks: Sequence[Sample]) -> Iterable[float | None]:
    for look in looks:
        value = total(sums, look)
        yield None if value is None else rounded(value)


def _spaced(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Without those that came right before the look at which the measuring began, or right after the last by the clock:
    a rate over a hundredth of a second is none. Of very many as many as a page can draw."""
    if len(samples) < 2:
        return samples
    began = began_with(samples)
    least_s = median(after.at_s - before.at_s for before, after in pairwise(samples)) / 2
    kept: list[Sample] = []
    for sample in samples:
        near = bool(kept) and sample.at_s - kept[-1].at_s <= least_s
        if near and sample is began and kept[-1] is not began:
            kept.pop()
            near = False
        if not near:
            kept.append(sample)
    step = math.ceil(len(kept) / MOST)
    return tuple(kept[::step])
