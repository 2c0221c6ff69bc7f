"""What are the figures of a server at work called, in which unit, and is more of it better?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    name: str
    title: str
    """As a column is headed."""
    unit: str
    """As it stands behind a figure; empty for a plain number."""
    more_is_better: bool | None = None
    """None where it is neither."""
    told: str = ""
    """What it is, in words for below a table."""


RECOVERY = "recovery_s"
"""The figure of crashes at moments of chance."""
QUANTITIES: dict[str, Quantity] = {
    one.name: one
    for one in (
        Quantity("startup_s", "seconds", "s", False, "until ready for connections"),
        Quantity("elapsed_s", "seconds", "s", False, "until the last answer"),
        Quantity(RECOVERY, "seconds", "s", False, "until ready again, after the last kill"),
        Quantity("kills", "kills", "", None, "of the server, those during its recovery included"),
        Quantity("cut_short", "cut short", "", None, "recoveries that were killed before they were over"),
        Quantity("killed_after_s", "killed after, s", "s", None, "of writing, of a shutdown, or of the last recovery"),
        Quantity("acknowledged", "acknowledged", "", None, "transactions or statements, before the kill"),
        Quantity("lost", "lost", "", False, "of those"),
        Quantity("lost_window_s", "oldest lost, s", "s", False, "how long before the kill it had been acknowledged"),
        Quantity("ghosts", "ghosts", "", False, "there, though rolled back or never committed"),
        Quantity("torn", "torn", "", False, "transactions that are there in part"),
        Quantity("holes", "holes", "", False, "lost before others of the same client that are there"),
        Quantity("half_done", "half done", "", False, "definitions neither as before a statement nor as after it"),
        Quantity("orphans", "orphans", "", False, "files that no table is made of"),
        Quantity("missing", "missing", "", False, "files without which a table cannot be"),
        Quantity("failing", "failing", "", False, "tables that CHECK TABLE finds fault with"),
        Quantity("complaints", "complaints", "", False, "lines of the log that speak of damage"),
        Quantity("qps", "queries/s", "/s", True, "statements the load's clients had answered, a second"),
        Quantity("tps", "transactions/s", "/s", True, "that were committed"),
        Quantity("latency_mean_ms", "mean ms", "ms", False, "of a transaction"),
        Quantity("latency_p50_ms", "p50 ms", "ms", False),
        Quantity("latency_p95_ms", "p95 ms", "ms", False),
        Quantity("latency_p99_ms", "p99 ms", "ms", False),
        Quantity("latency_p999_ms", "p99.9 ms", "ms", False),
        Quantity("latency_max_ms", "max ms", "ms", False),
        Quantity("client_errors", "errors", "", False, "that sysbench ignored: deadlocks, mostly"),
        Quantity("errors_per_transaction", "errors/transaction", "", False, "deadlocks mostly, for each committed"),
        Quantity("polls_per_s", "polls/s", "/s", None, "questions to information_schema that were answered"),
        Quantity("poll_mean_ms", "poll ms", "ms", False),
        Quantity("server_cpus", "server CPUs", "", None, "that the server kept busy on average"),
        Quantity("client_cpus", "client CPUs", "", None, "the same of sysbench"),
        Quantity("others_cpus", "other CPUs", "", None, "of neither server, clients nor this tool"),
        Quantity("steal_cpus", "stolen CPUs", "", False, "that the hypervisor gave to others"),
        Quantity("questions_per_s", "questions/s", "/s", None, "by the server's count, this tool's own included"),
        Quantity("server_cpu_us_per_query", "us/query", "us", False, "CPU time of the server for each query"),
        Quantity("read_bytes_per_s", "read/s", "B/s"),
        Quantity("written_bytes_per_s", "written/s", "B/s"),
        Quantity("device_reads_per_s", "reads/s", "/s", None, "that the device under the data completed"),
        Quantity("device_reads_per_query", "reads/query", "", False, "reads of the device for each query"),
        Quantity("device_writes_per_s", "writes/s", "/s", None, "that the device under the data completed"),
        Quantity("redo_bytes_per_s", "redo/s", "B/s", None, "written to InnoDB's log, its padding included"),
        Quantity("redo_bytes_per_commit", "redo/commit", "B", False, "written to InnoDB's log, its padding included"),
        Quantity("fsyncs_per_s", "fsyncs/s", "/s", None, "of InnoDB's log and data"),
        Quantity("fsyncs_per_commit", "fsyncs/commit", "", False, "of InnoDB's log and data"),
        Quantity("pending_fsyncs", "pending fsyncs", "", False, "that InnoDB waited for"),
        Quantity("rows_changed_per_s", "rows changed/s", "/s", None, "inserted, updated and deleted"),
        Quantity("row_lock_waits_per_s", "row waits/s", "/s", False),
        Quantity("row_lock_wait_ms", "row wait ms", "ms", False, "mean time of a wait for a row"),
        Quantity("mutex_spin_rounds_per_query", "spins/query", "", False),
        Quantity("mutex_os_waits_per_s", "mutex waits/s", "/s", False),
        Quantity("rwlock_spin_rounds_per_query", "lock spins/query", "", False, "of InnoDB's read-write locks"),
        Quantity("rwlock_os_waits_per_s", "lock waits/s", "/s", False, "for InnoDB's read-write locks, after spinning"),
        Quantity("table_open_cache_hits_per_s", "hits/s", "/s"),
        Quantity("table_open_cache_misses_per_s", "misses/s", "/s", False),
        Quantity("table_open_cache_overflows_per_s", "overflows/s", "/s", False),
        Quantity("table_open_cache_hit_share", "hit share", "", True, "of all looks into the table cache"),
        Quantity("load_table_open_cache_hits_per_s", "load hits/s", "/s"),
        Quantity(
            "load_table_open_cache_misses_per_s", "load misses/s", "/s", False, "without those of who asked beside it"
        ),
        Quantity("load_table_open_cache_hit_share", "load share", "", True, "of the load's own looks into it"),
        Quantity(
            "table_open_cache_active_instances", "instances", "", None, "of the table cache, that MariaDB has in use"
        ),
        Quantity("opened_tables_per_s", "opened/s", "/s", False),
        Quantity("opened_table_definitions_per_s", "definitions/s", "/s", False),
        Quantity("buffer_pool_reads_per_s", "pool reads/s", "/s", False, "pages that were not in the buffer pool"),
        Quantity("dirty_pages", "dirty pages", "", None, "in the buffer pool, not written yet"),
        Quantity("checkpoint_age_bytes", "checkpoint age", "B", None, "redo since the last checkpoint"),
        Quantity("history_list_length", "history", "", False, "old row versions that were not purged yet"),
        Quantity("resident_bytes", "memory", "B", False, "of the server, as it lies in the host's"),
        Quantity("dump_bytes", "dump size", "B"),
        Quantity("rows", "rows", "", None, "of the answer"),
        Quantity("read_bytes", "read", "B", None, "fetched from storage for the server"),
        Quantity("read_requests", "requests", "", None, "reads that the device completed"),
        Quantity("server_cpu_s", "server CPU s", "s", False),
        Quantity("tables_per_s", "tables/s", "/s", True),
        Quantity("tables_made", "tables", "", None, "that were made"),
        Quantity(
            "threads_running", "running", "", None, "threads at work by the server's own word, the asking one included"
        ),
    )
}


_UNITS = {"_per_s": "/s", "_bytes": "B", "_ms": "ms", "_s": "s"}
"""At the ends of names."""


def quantity(name: str) -> Quantity:
    """Of any figure: what is not known here is called as it is stored, and counted in what its name ends with."""
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
    return QUANTITIES.get(name) or Quantity(name, name.replace("_", " "), unit)
