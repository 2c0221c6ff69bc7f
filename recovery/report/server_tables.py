"""Builds the tables of what happened inside the server and its clients during the measurement.

They show the table cache, storage, locks and CPUs as means of each cell, and what the server's threads waited for most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recovery.analysis.summary import cell_words, main_metrics, median_run, metric_means, metric_names, runs_by_cell
from recovery.model import Metric, Run, Session, Table, ThreadWait, metric
from recovery.report import fmt
from recovery.report.fmt import explanations, related_metrics

Means = dict[str, dict[tuple[str, str], float | None]]

METRIC_FAMILIES: dict[str, tuple[str, ...]] = {
    "Table cache": (
        "table_open_cache_hits_per_s", "table_open_cache_misses_per_s", "table_open_cache_overflows_per_s",
        "table_open_cache_hit_share", "load_table_open_cache_hits_per_s", "load_table_open_cache_misses_per_s",
        "load_table_open_cache_hit_share", "opened_tables_per_s", "opened_table_definitions_per_s",
        "table_open_cache_active_instances",
    ),
    "Redo log and storage": (
        "redo_bytes_per_commit", "redo_bytes_per_s", "fsyncs_per_commit", "fsyncs_per_s", "pending_fsyncs",
        "written_bytes_per_s", "read_bytes_per_s", "device_reads_per_s", "device_reads_per_query",
        "device_writes_per_s", "buffer_pool_reads_per_s", "dirty_pages", "checkpoint_age_bytes", "history_list_length",
    ),
    "Locks and waits": (
        "row_lock_waits_per_s", "row_lock_wait_ms", "mutex_spin_rounds_per_query", "mutex_os_waits_per_s",
        "rwlock_spin_rounds_per_query", "rwlock_os_waits_per_s", "threads_running",
    ),
    "CPUs and clients": (
        "server_cpus", "client_cpus", "others_cpus", "steal_cpus", "server_cpu_us_per_query", "resident_bytes",
        "client_errors", "polls_per_s", "poll_mean_ms",
    ),
    "Latency and transactions": (
        "tps", "errors_per_transaction", "questions_per_s", "rows_changed_per_s", "latency_p50_ms", "latency_p999_ms",
        "latency_max_ms",
    ),
}  # fmt: skip
_OTHER_METRICS = "Other metrics"


def internal_metric_tables(session: Session) -> Iterator[Table]:
    """Yields a table for each family of figures, without those that all of the main tables already show."""
    before = [{name, *(about.name for about in related_metrics(session, name))} for name in main_metrics(session)]
    shown = set.intersection(*before)
    found: Means = {name: metric_means(session, name) for name in metric_names(session) if name not in shown}
    placed = {name for names in METRIC_FAMILIES.values() for name in names}
    rest = tuple(name for name in found if name not in placed)
    for title, names in (*METRIC_FAMILIES.items(), (_OTHER_METRICS, rest)):
        family = [metric(name) for name in names if name in found]
        if family:
            yield _table(session, title, family, found)


def _table(session: Session, title: str, family: Sequence[Metric], found: Means) -> Table:
    """Returns the table of a family of metrics. Metrics that are zero in every cell are only listed in a note."""
    some = [about for about in family if any(found[about.name].values())]
    rows = [
        (version, variant)
        for version in session.versions
        for variant in session.variants
        if any(found[about.name].get((version, variant)) is not None for about in family)
    ]
    nowhere = [about.label for about in family if about not in some]
    return Table(
        title=f"{title}, means",
        headers=("version", "cell", *(about.label for about in some)),
        rows=tuple(
            (
                key[0],
                cell_words(session, key[1]),
                *(fmt.column(about, found[about.name].get(key)) for about in some),
            )
            for key in (rows if some else ())
        ),
        numeric=(False, False, *(True,) * len(some)),
        notes=(
            *(note for note in (explanations(some),) if note),
            *((f"Zero in every cell: {', '.join(nowhere)}.",) if nowhere else ()),
        ),
        keys=2,
    )


# --- Waits of the server's threads, as the server itself counts them

_MAX_WAITS = 3
"""Waits shown for each source; report.json has ten."""
_WAITS_NOTE = (
    "innodb mutex: SHOW ENGINE INNODB MUTEX; performance schema: counts every acquisition, not only waits; seconds: of "
    "all threads together, if the server records them."
)


def waits_table(session: Session) -> Table | None:
    """Returns the table of the most frequent waits, or None if there were none or no server reports them."""
    found = {
        key: run for key, runs in runs_by_cell(session).items() if (run := _counted(runs) or median_run(session, runs))
    }
    rows = [(*key, cell_words(session, key[1]), wait) for key, run in found.items() for wait in _top_waits(run.waits)]
    if not rows:
        return None
    return Table(
        title="Most frequent waits",
        headers=("version", "cell", "by", "what", "waits", "seconds"),
        rows=tuple(
            (version, cell, wait.source, wait.name, fmt.count(wait.count), _seconds(wait))
            for version, _, cell, wait in rows
        ),
        numeric=(False, False, False, False, True, True),
        notes=(*_source_notes(tuple(found.values())), _WAITS_NOTE),
        keys=4,
    )


def _source_notes(runs: Sequence[Run]) -> Iterator[str]:
    counted = len([run for run in runs if run.counted_waits])
    if counted:
        yield (
            "From the run of each cell in which all waits were counted (WAITS=1). It is in no mean, because counting "
            "makes the server slower."
        )
    if counted < len(runs):
        yield (
            f"From the median run of each {'other ' if counted else ''}cell. Servers since 5.7 count waits for mutexes "
            "only with WAITS=1."
        )


def _counted(runs: tuple[Run, ...]) -> Run | None:
    return next((run for run in runs if run.counted_waits), None)


def _top_waits(waits: tuple[ThreadWait, ...]) -> Iterator[ThreadWait]:
    """Yields the first waits of each source. They are stored in their order of rank."""
    for source in dict.fromkeys(wait.source for wait in waits):
        yield from [wait for wait in waits if wait.source == source and wait.count][:_MAX_WAITS]


def _seconds(wait: ThreadWait) -> str:
    return fmt.ABSENT if wait.wait_s is None else fmt.duration(wait.wait_s)
