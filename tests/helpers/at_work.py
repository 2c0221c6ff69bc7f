"""Sessions of servers under load, one for each experiment. Nobody measured these figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

from runs import make_run, variants_with, with_parts

from recovery.model import Axis, ExtraRun, HostActivity, HotFunction, Run, Session, ThreadWait, Timeline, Verdict

VERSIONS = OLD, NEW = "5.7.22", "8.0.31"
Cell = dict[str, str]
Measures = dict[str, float]
_SPREAD = (1.0, 1.006, 0.992, 1.003, 0.997)
"""Of runs, one after the other."""
_STEADY = frozenset({"rows", "dump_bytes", "table_open_cache_hit_share", "load_table_open_cache_hit_share"})


def a_session(
    figure: str,
    cells: Sequence[Cell],
    axes: Sequence[Axis],
    measured: Callable[[str, Cell], Measures | None],
    *,
    runs: int = 3,
    watched: Callable[[str, Cell, Measures], Timeline] | None = None,
    **about: str,
) -> Session:
    """`measured` gives the middle of each figure; None is a cell that this version does not have."""
    named = {"-".join(cell.values()).replace(" ", "-").replace(",", ""): cell for cell in cells}
    ended: list[Run] = []
    # One cell after the other: all have the same spread, so in blocks their ratios would have none.
    for version, (variant, cell), repeat in product(VERSIONS, named.items(), range(1, runs + 1)):
        middle = measured(version, cell)
        if middle is not None:
            ended.append(_run(len(ended) + 1, (version, variant, repeat), middle, cell, watched))
    return Session(
        experiment=about.get("scenario", "load"),
        question=about.get("question", "What does it cost?"),
        command="python -m recovery work --version 5.7.22 --version 8.0.31",
        started_at="2026-11-21T20:00:00+00:00",
        environment={"os": "Debian GNU/Linux 13", "cpus": 4, "memory_bytes": 16_000_000_000, "device": "/dev/vdb"},
        settings={"tables": 1000, "runs": runs, "seconds": 60, "warmup_s": 15},
        versions=VERSIONS,
        variants=variants_with(named),
        planned_runs=len(ended),
        servers={
            version: {"sha256": "0123456789abcdef" * 4, "@version": version, "@table_open_cache": "400"}
            for version in VERSIONS
        },
        notes=("Made up for the tests: nobody measured these figures.",),
        runs=tuple(ended),
        tool_version="0.2.0",
        title=about.get("title", "At work"),
        status="finished",
        metric=figure,
        axes=tuple(axes),
    )


def _run(
    number: int,
    key: tuple[str, str, int],
    middle: Measures,
    cell: Cell,
    watched: Callable[[str, Cell, Measures], Timeline] | None,
) -> Run:
    version, variant, repeat = key
    share = _SPREAD[(repeat - 1) % len(_SPREAD)]
    measures = {name: value if name in _STEADY else value * share for name, value in middle.items()}
    seconds = measures.get("elapsed_s", 60.0)
    return make_run(
        number, version, "mysql", variant, repeat, Verdict.MEASURED,
        log=f"logs/{number:03d}.err",
        host_activity=HostActivity(seconds, others_cpu_s=0.01 * seconds, tool_cpu_s=0.02 * seconds, steal_s=0.0),
        metrics=measures,
        timeline=watched(version, cell, measures) if watched else None,
        raw=f"raw/{number:03d}.csv" if watched else None,
        clients={"sysbench 1.0.20": f"sysbench oltp --threads={cell.get('threads', '4')} run"} if watched else {},
    )  # fmt: skip


def timeline(named: dict[str, Callable[[float], float | None]], *, seconds: int = 60, warmup: int = 5) -> Timeline:
    at_s = tuple(float(second) for second in range(-warmup, seconds + 1))
    return Timeline(at_s, {name: tuple(values(at) for at in at_s) for name, values in named.items()})


def _wavy(middle: float, share: float = 0.04) -> Callable[[float], float]:
    return lambda at: middle * (1 + share * math.sin(at / 2.3)) if at >= 0 else middle * (0.6 + 0.08 * (at + 5))


QUESTIONS = ("Q1", "Q2", "Q3", "dump", "dump, --skip-lock-tables")
BUILD = "published-build"
CLIENT = {"mariadb-dump": "from 11.8.3-MariaDB", "dump": "mariadb-dump --no-data"}
HOT = (("my_hash_sort_utf8mb3", 180, 181), ("dd::tables::get<dd::Table>", 95, 410), ("os_file_io", 40, 40))


@cache
def metadata(*, profiled: bool = False) -> Session:
    seconds = {OLD: (58.3, 0.61, 14.1, 32.0, 16.1), NEW: (1.92, 0.042, 0.048, 108.2, 15.4)}
    questions = (*QUESTIONS, BUILD) if profiled else QUESTIONS

    def measured(version: str, cell: Cell) -> Measures:
        if cell["question"] == BUILD:
            took = 9.4 if version == OLD else 11.2
            return {"elapsed_s": took, "tables_made": 500.0, "tables_per_s": 500 / took}
        number = QUESTIONS.index(cell["question"])
        took = seconds[version][number]
        return {
            "elapsed_s": took, "read_bytes": took * 3e6, "read_requests": took * 180, "server_cpu_s": took * 0.7,
            **({"dump_bytes": 9.5e6} if number > 2 else {"rows": 100.0}),
        }  # fmt: skip

    def watched(_: str, __: Cell, found: Measures) -> Timeline:
        return timeline({
            "server_cpus": _wavy(0.9), "device_reads_per_s": _wavy(180.0, 0.4), "opened_tables_per_s": _wavy(900.0),
            "fsyncs_per_s": lambda _: 0.0, "resident_bytes": _wavy(4e8),
        }, seconds=max(3, round(found["elapsed_s"])), warmup=0)  # fmt: skip

    session = a_session(
        "elapsed_s", [{"question": name} for name in questions], [Axis("question", questions)], measured,
        scenario="metadata", title="Questions to the dictionary", watched=watched if profiled else None,
        question="What does information_schema cost with many tables?",
    )  # fmt: skip
    return _profiled(session) if profiled else session


def _profiled(session: Session) -> Session:
    """With a sampled run of each dump, and with servers that know how their tables were made."""
    hot = tuple(HotFunction(name, on_top, within, 480) for name, on_top, within in HOT)
    runs = [with_parts(run, clients=CLIENT) if "dump_bytes" in run.metrics else run for run in session.runs]
    dumps = {(run.version, run.variant): run for run in runs if run.variant == "dump"}
    for run in dumps.values():
        sampled = replace(run, number=len(runs) + 1, verdict=Verdict.SAMPLED, extra=ExtraRun.STACKS)
        runs.append(with_parts(sampled, program="perf", count=480, hottest=hot))
    made = {"tables": "100000", "build_s": "310.5"}
    servers = {version: {**known, **made} for version, known in session.servers.items()}
    return replace(session, runs=tuple(runs), servers=servers, planned_runs=len(runs))


POLLS = Axis("poll", ("off", "on"), "off")
CACHES = Axis("table_open_cache", ("400", "4000", "20000"))


@cache
def interference(*, caches: Sequence[str] = ("400", "4000", "20000"), runs: int = 3) -> Session:
    lost = {OLD: {"400": 0.169, "4000": 0.08, "20000": 0.0}, NEW: {"400": 0.0, "4000": 0.0, "20000": 0.0}}

    def measured(version: str, cell: Cell) -> Measures:
        on = cell["poll"] == "on"
        share = lost[version][cell["table_open_cache"]] if on else 0.0
        qps = (46320.0 if version == OLD else 43100.0) * (1 - share)
        misses = 5200.0 * share / 0.169
        return {
            "qps": qps, "tps": qps / 20, "latency_mean_ms": 2e5 / qps, "latency_p95_ms": 4e5 / qps,
            "latency_p99_ms": 6e5 / qps, "client_errors": 0.0, "server_cpus": 2.6, "client_cpus": 0.9,
            "others_cpus": 0.01, "server_cpu_us_per_query": 2.6e6 / qps, "table_open_cache_hits_per_s": qps,
            "table_open_cache_misses_per_s": misses, "table_open_cache_hit_share": qps / (qps + misses),
            "load_table_open_cache_hits_per_s": qps, "load_table_open_cache_misses_per_s": misses / 4,
            "load_table_open_cache_hit_share": qps / (qps + misses / 4),
            "opened_tables_per_s": misses, "opened_table_definitions_per_s": misses / 3,
            "mutex_os_waits_per_s": 120.0, **({"polls_per_s": 210.0, "poll_mean_ms": 4.7} if on else {}),
        }  # fmt: skip

    def watched(version: str, cell: Cell, found: Measures) -> Timeline:
        return timeline({
            "qps": _wavy(found["qps"]), "table_open_cache_hits_per_s": _wavy(found["table_open_cache_hits_per_s"]),
            "table_open_cache_misses_per_s": _wavy(found["table_open_cache_misses_per_s"]),
            "load_table_open_cache_misses_per_s": _wavy(found["load_table_open_cache_misses_per_s"]),
            "opened_tables_per_s": _wavy(found["opened_tables_per_s"]), "server_cpus": _wavy(2.6),
            "client_cpus": _wavy(0.9), "others_cpus": _wavy(0.01), "device_reads_per_s": _wavy(12.0, 0.6),
            # Its first second ended three before the measuring began.
            **({"polls_per_s": lambda at: 210.0 if at >= -3 else None} if cell["poll"] == "on" else {}),
        })  # fmt: skip

    cells = [{"table_open_cache": cache, "poll": poll} for cache in caches for poll in POLLS.values]
    return a_session(
        "qps", cells, [Axis("table_open_cache", tuple(caches)), POLLS], measured, runs=runs, watched=watched,
        scenario="interference", title="A load beside questions to information_schema",
        question="What does a client that asks information_schema in a loop take from a load?",
    )  # fmt: skip


WORKLOADS = {"point-select": 1.0, "read-only": 0.45, "read-write": 0.22}


def _grown(threads: float, instances: float, tables: float) -> float:
    """Queries a second, of one lock that instances and tables share out."""
    alone = 9000.0
    wait = 0.16 * (threads - 1) / (1 + 0.35 * math.log2(instances) + 0.15 * (min(tables, 2) - 1))
    return alone * threads / (1 + wait)


@cache
def table_cache(*, small: bool = False) -> Session:
    axes = [
        Axis("workload", tuple(WORKLOADS)[: 2 if small else None]),
        Axis("table_open_cache_instances", ("1", "16") if small else ("1", "8", "16"), "1"),
        Axis("tables", ("1",) if small else ("1", "2", "3"), "1"),
        Axis("threads", ("1", "4", "8") if small else ("1", "2", "4", "8")),
    ]  # fmt: skip

    def measured(version: str, cell: Cell) -> Measures:
        instances, tables, threads = (float(cell[axis.name]) for axis in axes[1:])
        qps = _grown(threads, instances, tables) * WORKLOADS[cell["workload"]] * (1.0 if version == OLD else 0.94)
        return {
            "qps": qps, "latency_p95_ms": 1300 * threads / qps, "latency_p99_ms": 1900 * threads / qps,
            "table_open_cache_hits_per_s": qps, "table_open_cache_misses_per_s": 0.0,
            "table_open_cache_overflows_per_s": 0.0, "table_open_cache_hit_share": 1.0, "server_cpus": threads * 0.5,
            "client_cpus": threads * 0.2,
        }  # fmt: skip

    def watched(version: str, cell: Cell, found: Measures) -> Timeline:
        return timeline({"qps": _wavy(found["qps"]), "server_cpus": _wavy(found["server_cpus"])}, seconds=60)

    cells = [dict(zip((axis.name for axis in axes), one, strict=True)) for one in product(*(a.values for a in axes))]
    return a_session(
        "qps", cells, axes, measured, watched=watched, scenario="table-cache", title="Table cache instances",
        question="What do several table cache instances bring?",
    )  # fmt: skip


_BRINGS = {"8k": 1.3, "4k": 1.7, "OFF": 1.4, "READ-COMMITTED": 1.06, "compressed": 0.7}
_SMALL = ("scaling", "larger-than-memory", "hot-rows", "doublewrite")
_READS = {"16k": 0.8, "8k": 0.75, "4k": 0.7}
"""Of the device, for each query."""
_HELD_UP = {OLD: 0.09, NEW: 0.05}
FLUSH, DOUBLEWRITE = "innodb_flush_log_at_trx_commit", "innodb_doublewrite"


@cache
def write_scaling(*, small: bool = False) -> Session:
    questions = ("scaling", "one-user", "larger-than-memory", "hot-rows", "doublewrite", "compression")
    axes = [
        Axis("question", questions), Axis("workload", ("point-select", "read-write", "update-nokey")),
        Axis("threads", ("1", "4", "8") if small else ("1", "2", "4", "8")), Axis(FLUSH, ("1", "2", "0"), "1"),
        Axis(DOUBLEWRITE, ("ON", "OFF"), "ON"), Axis("innodb_page_size", ("16k", "8k", "4k"), "16k"),
        Axis("transaction_isolation", ("REPEATABLE-READ", "READ-COMMITTED"), "REPEATABLE-READ"),
        Axis("row_format", ("dynamic", "compressed"), "dynamic"),
    ]  # fmt: skip
    threads = axes[2].values
    cells: list[Cell] = [
        *({"question": "scaling", "workload": w, "threads": t, FLUSH: f}
          for w in axes[1].values for t in threads for f in (axes[3].values if w != "point-select" else ("1",))),
        *({"question": "one-user", "workload": w, "threads": "1"} for w in axes[1].values),
        *({"question": "larger-than-memory", "workload": "point-select", "threads": t, "innodb_page_size": size}
          for t in threads for size in axes[5].values),
        *({"question": "hot-rows", "threads": t, "transaction_isolation": level} for t in threads
          for level in axes[6].values),
        *({"question": "doublewrite", "workload": "update-nokey", DOUBLEWRITE: value} for value in axes[4].values),
        *({"question": "compression", "row_format": value} for value in axes[7].values),
    ]  # fmt: skip
    if small:
        cells = [cell for cell in cells if cell["question"] in _SMALL]
        cells = [cell for cell in cells if cell["question"] != "scaling" or cell["workload"] != "update-nokey"]

    def measured(version: str, cell: Cell) -> Measures | None:
        count = float(cell.get("threads", "4"))
        qps = 7000 * count / (1 + _HELD_UP[version] * count)
        qps *= {"read-write": 0.5, "update-nokey": 0.3}.get(cell.get("workload", ""), 1.0)
        qps *= {"2": 1.5, "0": 1.6}.get(cell.get(FLUSH, ""), 1.0) if cell.get("workload") != "point-select" else 1.0
        qps *= math.prod(_BRINGS.get(value, 1.0) for value in cell.values())
        return {
            "qps": qps, "tps": qps / 10, "latency_p95_ms": 1000 * count / qps, "latency_p99_ms": 2000 * count / qps,
            "server_cpu_us_per_query": 240.0, "redo_bytes_per_commit": 812.0, "fsyncs_per_commit": 0.7,
            "row_lock_waits_per_s": 30.0 * (cell["question"] == "hot-rows"), "mutex_os_waits_per_s": 12.0 * count,
            "device_reads_per_s": _READS.get(cell.get("innodb_page_size", ""), 0.0) * qps, "server_cpus": 2.0,
            "client_cpus": 0.6, "client_errors": 0.0,
            **({"client_errors": 0.0048 * qps, "elapsed_s": 60.0} if cell["question"] == "hot-rows" else {}),
        }  # fmt: skip

    def watched(_: str, cell: Cell, found: Measures) -> Timeline:
        writes = cell.get("workload") != "point-select"
        return timeline({
            "qps": _wavy(found["qps"]), "server_cpus": _wavy(2.0), "client_cpus": _wavy(0.6),
            "redo_bytes_per_s": _wavy(81.2 * found["qps"] * writes), "fsyncs_per_s": _wavy(300.0 * writes),
            "device_writes_per_s": _wavy(700.0 * writes), "dirty_pages": _wavy(12_000.0 * writes),
            "checkpoint_age_bytes": _wavy(4e8 * writes), "mutex_os_waits_per_s": _wavy(40.0),
            "row_lock_waits_per_s": _wavy(found["row_lock_waits_per_s"]),
        })  # fmt: skip

    session = a_session(
        "qps", cells, axes, measured, watched=watched, scenario="write-scaling",
        title="Writes and threads", question="How does InnoDB scale with threads and durability?",
    )  # fmt: skip
    return replace(session, variants=tuple(
        replace(variant, metric="tps" if variant.values["question"] == "hot-rows" else None)
        for variant in session.variants
    ))  # fmt: skip


def waited(session: Session) -> Session:
    """Where all go for a few rows; of all but the last of these cells with a run in which waits were counted."""
    told = (ThreadWait("innodb mutex", "rwlock: btr0sea.cc:202", 66), ThreadWait("status", "row locks", 1800, 10.25))
    all_of_them = (
        ThreadWait("innodb mutex", "SRV_SYS", 25670), *told[:1], ThreadWait("innodb mutex", "LOG_WRITE", 19),
        ThreadWait("innodb mutex", "PURGE_SYS_PQ", 16),
        ThreadWait("performance schema", "wait/synch/mutex/innodb/srv_sys_mutex", 711_243, 5.654736),
        ThreadWait("performance schema", "wait/synch/mutex/innodb/trx_sys_mutex", 239_821, 0.070811), *told[1:],
    )  # fmt: skip
    hot = [name for name in session.variant_names if name.startswith("hot-rows-8")]
    runs = [with_parts(run, waits=told) if run.variant in hot else run for run in session.runs]
    for run in [run for run in runs if run.repeat == 1 and run.variant in hot][:-1]:
        counted = replace(run, number=len(runs) + 1, repeat=4, verdict=Verdict.SAMPLED, extra=ExtraRun.WAITS)
        runs.append(with_parts(counted, waits=all_of_them))
    return replace(session, runs=tuple(runs), planned_runs=len(runs))


SMALL: dict[str, Callable[[], Session]] = {
    "metadata": lambda: metadata(profiled=True),
    "interference": lambda: interference(caches=("400", "4000")),
    "table-cache": lambda: table_cache(small=True),
    "write-scaling": lambda: waited(write_scaling(small=True)),
}
"""With fewer cells, for texts that somebody reads."""
