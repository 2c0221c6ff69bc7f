"""The table of metrics: each measured number with its label, its unit, and whether more of it is better.

A new figure is a row here and the place that measures it: the files and, if it is `of_every_run`, the CSV have it. The
summary table shows it if the main metric names it among its `related` ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from recovery.model import STARTUP_METRIC


@dataclass(frozen=True)
class Metric:
    name: str
    label: str
    """Column heading."""
    unit: str
    """Printed after a value; empty for a plain number."""
    more_is_better: bool | None = None
    """None if neither more nor less is better."""
    note: str = ""
    """Explanation to print below a table."""
    related: tuple[str, ...] = ()
    """Further metrics to show beside it in a summary, if they were measured."""
    of_run: tuple[str, ...] = ()
    """Metrics to show for every single run, in place of the related ones."""
    over_time: tuple[str, ...] = ()
    """Metrics to draw first, sample by sample."""
    of_every_run: bool = False
    """Whether it is also counted in runs of loads. It has a column of the CSV, and a table shows it only if the main
    metric names it among its related ones."""
    is_whole: bool = False
    """Whether its values are stored as whole numbers."""
    is_compared: bool = True
    """Whether its means are compared. Those of recoveries are not, because each server was killed at another moment."""


_OF_LOADS = (
    "qps", "redo_bytes_per_s", "fsyncs_per_s", "written_bytes_per_s", "row_lock_waits_per_s", "mutex_os_waits_per_s",
    "rwlock_os_waits_per_s", "checkpoint_age_bytes", "device_reads_per_s",
)  # fmt: skip
_LATENCIES = ("latency_mean_ms", "latency_p95_ms", "latency_p99_ms")
RECOVERY_METRIC = "recovery_s"
"""The main metric of a session that crashes servers at random moments."""
_OF_PENDING_WORK = (
    "dirty_pages", "pages_recovered", "uncommitted_rows", "rows_recovered", "untouched_row_s", "locked_row_s",
    "waiting_row_s", "rollback_s",
)  # fmt: skip
METRICS: dict[str, Metric] = {
    about.name: about
    for about in (
        Metric(
            STARTUP_METRIC, "seconds", "s", False, "until ready for connections",
            (
                "first_query_s", "shutdown_s", "peak_memory_bytes", "redo_bytes", *_OF_PENDING_WORK,
            ),
            ("first_query_s", "redo_bytes", "read_bytes", "read_requests", "cpu_s", "kernel_cpu_s", "before_start_s"),
            ("read_bytes_per_s",), of_every_run=True,
        ),
        Metric(
            "first_query_s", "first query", "s", False, "seconds until the first answered query", of_every_run=True
        ),
        Metric("shutdown_s", "shutdown", "s", False, "seconds from SIGTERM to the exit of the server"),
        Metric(
            "peak_memory_bytes", "peak memory", "B", False,
            "largest resident memory of the server until the first answered query", of_every_run=True, is_whole=True,
        ),
        Metric(
            "redo_bytes", "redo", "B", None, "of the log that the start had to read, from the last checkpoint on",
            of_every_run=True, is_whole=True,
        ),
        Metric(
            "before_start_s", "before start", "s", None, "seconds of BEFORE_START, which ended with exit code 0",
            of_every_run=True,
        ),
        Metric(
            "elapsed_s", "seconds", "s", False, "until the last answer",
            ("read_bytes", "read_requests", "server_cpu_s", "tables_per_s"), (),
            (
                "device_reads_per_s", "read_bytes_per_s", "opened_tables_per_s", "opened_table_definitions_per_s",
                "table_open_cache_misses_per_s", "fsyncs_per_s",
            ),
        ),
        Metric(
            RECOVERY_METRIC, "seconds", "s", False, "until ready again, after the last kill", is_compared=False
        ),
        Metric("kills", "kills", "", None, "of the server, including those during its recovery"),
        Metric("cut_short", "cut short", "", None, "recoveries that were killed before they ended"),
        Metric("killed_after_s", "killed after, s", "s", None, "of writing, of shutdown, or of the last recovery"),
        Metric("uncommitted_rows", "uncommitted rows", "", None, "changed by one transaction, right before the kill"),
        Metric("pages_recovered", "pages recovered", "", None, "with redo to apply, according to the log"),
        Metric("rows_recovered", "rows recovered", "", None, "of transactions to roll back, according to the log"),
        Metric("untouched_row_s", "first write", "s", False, "until a row that nothing had changed was written"),
        Metric("locked_row_s", "locked row", "s", False, "until a new statement got a row of the transaction"),
        Metric("waiting_row_s", "waiting", "s", False, "until a statement that waited for such a row got it"),
        Metric("rollback_s", "rollback", "s", False, "until the transaction was rolled back"),
        Metric("acknowledged", "acknowledged", "", None, "transactions or statements before the kill"),
        Metric("lost", "lost", "", False, "of the acknowledged ones"),
        Metric("lost_window_s", "oldest lost, s", "s", False, "time between its acknowledgement and the kill"),
        Metric("ghosts", "ghosts", "", False, "found, although rolled back or never committed"),
        Metric("torn", "torn", "", False, "transactions of which only a part was found"),
        Metric("holes", "holes", "", False, "lost, although later ones of the same client were found"),
        Metric("half_done", "half done", "", False, "definitions neither as before nor as after a statement"),
        Metric("orphans", "orphans", "", False, "files that belong to no table"),
        Metric("missing", "missing", "", False, "files that a table needs"),
        Metric("failing", "failing", "", False, "tables for which CHECK TABLE reports an error"),
        Metric("complaints", "complaints", "", False, "lines of the log about damage"),
        Metric(
            "qps", "queries/s", "/s", True, "statements of the load that were answered, per second", _LATENCIES, (),
            _OF_LOADS,
        ),
        Metric(
            "tps", "transactions/s", "/s", True, "committed", ("errors_per_transaction", "qps", *_LATENCIES), (),
            _OF_LOADS,
        ),
        Metric("latency_mean_ms", "mean ms", "ms", False, "of a transaction"),
        Metric("latency_p50_ms", "p50 ms", "ms", False),
        Metric("latency_p95_ms", "p95 ms", "ms", False),
        Metric("latency_p99_ms", "p99 ms", "ms", False),
        Metric("latency_p999_ms", "p99.9 ms", "ms", False),
        Metric("latency_max_ms", "max ms", "ms", False),
        Metric("client_errors", "errors", "", False, "that sysbench ignored, mostly deadlocks"),
        Metric("errors_per_transaction", "errors/transaction", "", False, "mostly deadlocks, per commit"),
        Metric("polls_per_s", "polls/s", "/s", None, "queries of information_schema that were answered"),
        Metric("poll_mean_ms", "poll ms", "ms", False),
        Metric("server_cpus", "server CPUs", "", None, "used by the server on average"),
        Metric("client_cpus", "client CPUs", "", None, "used by sysbench on average"),
        Metric("others_cpus", "other CPUs", "", None, "used by other processes on average"),
        Metric("steal_cpus", "stolen CPUs", "", False, "given to other machines by the hypervisor"),
        Metric("questions_per_s", "questions/s", "/s", None, "counted by the server, including those of this tool"),
        Metric("server_cpu_us_per_query", "us/query", "us", False, "CPU time of the server per query"),
        Metric("read_bytes_per_s", "read/s", "B/s"),
        Metric("written_bytes_per_s", "written/s", "B/s"),
        Metric("device_reads_per_s", "reads/s", "/s", None, "completed by the device under the data"),
        Metric("device_reads_per_query", "reads/query", "", False, "reads of the device per query"),
        Metric("device_writes_per_s", "writes/s", "/s", None, "completed by the device under the data"),
        Metric("redo_bytes_per_s", "redo/s", "B/s", None, "written to InnoDB's log, including padding"),
        Metric("redo_bytes_per_commit", "redo/commit", "B", False, "written to InnoDB's log, including padding"),
        Metric("fsyncs_per_s", "fsyncs/s", "/s", None, "of InnoDB's log and data"),
        Metric("fsyncs_per_commit", "fsyncs/commit", "", False, "of InnoDB's log and data"),
        Metric("pending_fsyncs", "pending fsyncs", "", False, "that InnoDB waited for"),
        Metric("rows_changed_per_s", "rows changed/s", "/s", None, "inserted, updated and deleted"),
        Metric("row_lock_waits_per_s", "row waits/s", "/s", False),
        Metric("row_lock_wait_ms", "row wait ms", "ms", False, "mean time of a wait for a row lock"),
        Metric("mutex_spin_rounds_per_query", "spins/query", "", False),
        Metric("mutex_os_waits_per_s", "mutex waits/s", "/s", False),
        Metric("rwlock_spin_rounds_per_query", "lock spins/query", "", False, "of InnoDB's read-write locks"),
        Metric("rwlock_os_waits_per_s", "lock waits/s", "/s", False, "for InnoDB's read-write locks, after spinning"),
        Metric("table_open_cache_hits_per_s", "hits/s", "/s"),
        Metric("table_open_cache_misses_per_s", "misses/s", "/s", False),
        Metric("table_open_cache_overflows_per_s", "overflows/s", "/s", False),
        Metric("table_open_cache_hit_share", "hit share", "", True, "of all accesses to the table cache"),
        Metric("load_table_open_cache_hits_per_s", "load hits/s", "/s"),
        Metric("load_table_open_cache_misses_per_s", "load misses/s", "/s", False, "of the load's own connections"),
        Metric("load_table_open_cache_hit_share", "load share", "", True, "of the accesses by the load"),
        Metric("table_open_cache_active_instances", "instances", "", None, "of the table cache in use (MariaDB)"),
        Metric("opened_tables_per_s", "opened/s", "/s", False),
        Metric("opened_table_definitions_per_s", "definitions/s", "/s", False),
        Metric("buffer_pool_reads_per_s", "pool reads/s", "/s", False, "pages that were not in the buffer pool"),
        Metric("dirty_pages", "dirty pages", "", None, "in the buffer pool, not written yet"),
        Metric("checkpoint_age_bytes", "checkpoint age", "B", None, "redo written since the last checkpoint"),
        Metric("history_list_length", "history", "", False, "old row versions not purged yet"),
        Metric("resident_bytes", "memory", "B", False, "resident memory of the server"),
        Metric("dump_bytes", "dump size", "B"),
        Metric("rows", "rows", "", None, "of the result"),
        Metric(
            "read_bytes", "read", "B", None, "fetched from storage for the server", of_every_run=True, is_whole=True
        ),
        Metric(
            "read_requests", "requests", "", None, "reads completed by the device", of_every_run=True, is_whole=True
        ),
        Metric(
            "reads_per_s", "reads/s", "/s", None, "requests per second until the first answered query",
            of_every_run=True,
        ),
        Metric(
            "cache_grown_bytes", "cache growth", "B", None, "growth of the host's page cache during the start",
            of_every_run=True, is_whole=True,
        ),
        Metric(
            "group_memory_bytes", "memory", "B", None, "of the server's control group, page cache included",
            of_every_run=True, is_whole=True,
        ),
        Metric("cpu_s", "CPU s", "s", False, "CPU time of the server, user and system", of_every_run=True),
        Metric("kernel_cpu_s", "kernel CPU s", "s", False, "the part of it in the kernel", of_every_run=True),
        Metric(
            "host_reads_per_s", "host reads/s", "/s", None, "4 KiB at random by one thread, before the block",
            of_every_run=True, is_whole=True,
        ),
        Metric(
            "host_reads_16_per_s", "host reads/s, 16 threads", "/s", None, "4 KiB at random, before the block",
            of_every_run=True, is_whole=True,
        ),
        Metric("host_cpu_loop_s", "host CPU loop s", "s", None, "a fixed loop, before the block", of_every_run=True),
        Metric(
            "host_steal_share", "host steal", "", None, "of the CPUs, taken by other machines before the block",
            of_every_run=True,
        ),
        Metric("server_cpu_s", "server CPU s", "s", False),
        Metric("tables_per_s", "tables/s", "/s", True),
        Metric("tables_made", "tables", "", None, "created"),
        Metric("threads_running", "running", "", None, "threads, according to the server, this tool's included"),
    )
}  # fmt: skip

_UNITS = {"_per_s": "/s", "_bytes": "B", "_ms": "ms", "_s": "s"}
"""Unit by the end of a metric's name."""


def metric(name: str) -> Metric:
    """Returns the metric of this name. An unknown one is labelled by its name, and its unit is derived from the end of
    that name: `inserts_per_s` are inserts/s."""
    if name in METRICS:
        return METRICS[name]
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
    return Metric(name, re.sub("_per_s$", "/s", name).replace("_", " "), unit)


def typed_value(name: str, value: float) -> float:
    """Returns the value of a metric as an int if its values are whole numbers."""
    return round(value) if metric(name).is_whole else value
