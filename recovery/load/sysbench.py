"""How is sysbench called, and what does its report say? Pure. As 1.0.20 has it, which distributions bring."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import RecoveryError
from recovery.work import Load

WORKLOADS = {
    "point-select": "oltp_point_select",
    "read-only": "oltp_read_only",
    "read-write": "oltp_read_write",
    "update-index": "oltp_update_index",
    "update-nokey": "oltp_update_non_index",
    "write-only": "oltp_write_only",
}
"""Short names of sysbench's own scripts."""

# What each thread prepares for each table, by oltp_common.lua and the script's prepare_statements(); and for itself.
_PREPARED_FOR_A_TABLE = {
    "oltp_point_select": 1,
    "oltp_read_only": 5,
    "oltp_read_write": 9,
    "oltp_update_index": 1,
    "oltp_update_non_index": 1,
    "oltp_write_only": 4,
    "oltp_delete": 1,
    "oltp_insert": 0,
}
_PREPARED_FOR_A_THREAD = 2
AS_TEXT = "--db-ps-mode=disable"
AT_WORK = "Threads started!"
"""It says so once all threads have prepared their statements, and counts its time from here."""
CHECKPOINT = "] Checkpoint report:"
"""And this once the warm-up is over, from where on it counts anew."""
_SHORTEST_S = 0.0001
"""As it tells time."""
_MOST_PREPARED = 16_382
"""The default of max_prepared_stmt_count, in all versions."""


def prepared_statements(load: Load) -> int:
    """That are open at once. A script of the user's counts as the one that prepares most, on which it may be built."""
    for_a_table = _PREPARED_FOR_A_TABLE.get(load.script, max(_PREPARED_FOR_A_TABLE.values()))
    return load.threads * (load.tables * for_a_table + _PREPARED_FOR_A_THREAD)


def must_send_text(load: Load) -> bool:
    """Each thread prepares all of its statements before it begins: the server would refuse those beyond its limit, and
    the threads have 30 s in all for it. Without, a statement is sent as text each time."""
    return prepared_statements(load) > _MOST_PREPARED


def command(load: Load, *, program: Path, socket: Path, database: str) -> list[str]:
    """A script of the user's must know the options `tables` and `table_size`, as those that require oltp_common do."""
    options = [f"--tables={load.tables}", f"--table-size={load.rows}"]
    if must_send_text(load) and AS_TEXT not in load.options:
        options.append(AS_TEXT)
    called = calling(load.script, program=program, socket=socket, database=database, threads=load.threads)
    return [*called, *lasting(load), *options, *load.options, "run"]


def lasting(load: Load) -> list[str]:
    """It goes on from the warm-up without a break, and what it reports in the end is of the seconds after it."""
    warming = [f"--report-checkpoints={load.warmup_s}"] if load.warmup_s else []
    return [f"--time={load.warmup_s + load.seconds}", *warming]


def calling(script: str, *, program: Path, socket: Path, database: str, threads: int) -> list[str]:
    """What every call of it begins with."""
    return [
        str(program), script, f"--threads={threads}", "--events=0", "--report-interval=1", "--histogram=on",
        "--percentile=99", "--db-driver=mysql", "--mysql-ssl=off", "--mysql-user=root", "--mysql-password=",
        f"--mysql-socket={socket}", f"--mysql-db={database}",
    ]  # fmt: skip


@dataclass(frozen=True)
class Look:
    """What it says every second of the second before."""

    at_s: float
    """Since the measuring began; the warm-up lies before 0."""
    qps: float
    tps: float
    latency_ms: float
    """At the percentile that it was asked for: 99, unless by an option of the user's."""
    errors: float
    """That were ignored, a second."""


@dataclass(frozen=True)
class Report:
    queries: int
    transactions: int
    """Or events, where they are no transactions."""
    seconds: float
    errors: int
    """That were ignored: deadlocks, mostly."""
    reconnects: int
    latency_mean_ms: float | None
    """Of a transaction. None where there was none."""
    latency_p50_ms: float | None
    """The percentiles are those of the histogram, whose bars are 1.8 % apart: each event was counted at the nearest, so
    that a figure is right to 1 %. None where an option has turned the histogram off."""
    latency_p95_ms: float | None
    latency_p99_ms: float | None
    latency_p999_ms: float | None
    latency_max_ms: float | None
    looks: tuple[Look, ...]

    @property
    def qps(self) -> float:
        return self.queries / self.seconds

    @property
    def tps(self) -> float:
        return self.transactions / self.seconds


_FIGURE = r"\d{1,20}(?:\.\d{1,20})?"
_COUNT = r"\d{1,20}"
_PLAIN = re.MULTILINE | re.ASCII
_LOOK = re.compile(
    rf"^\[ (?P<at>{_FIGURE})s \] thds: \d+ tps: (?P<tps>{_FIGURE}) qps: (?P<qps>{_FIGURE}) [^\n]{{0,200}}?"
    rf"lat \(ms,[\d.]+%\): (?P<latency>{_FIGURE}) err/s:? (?P<errors>{_FIGURE})",
    _PLAIN,
)
_BAR = re.compile(rf"^ *(\d{{1,20}}\.\d{{1,20}}) \|\** +({_COUNT})$", _PLAIN)
_QUERIES = re.compile(rf"^ +total: +({_COUNT})$", _PLAIN)
_TRANSACTIONS = re.compile(rf"^ +transactions: +({_COUNT}) ", _PLAIN)
_ERRORS = re.compile(rf"^ +ignored errors: +({_COUNT}) ", _PLAIN)
_RECONNECTS = re.compile(rf"^ +reconnects: +({_COUNT}) ", _PLAIN)
_SECONDS = re.compile(rf"^ +total time: +({_FIGURE})s$", _PLAIN)
_MEAN = re.compile(rf"^ +avg: +({_FIGURE})$", _PLAIN)
_MAX = re.compile(rf"^ +max: +({_FIGURE})$", _PLAIN)


def read_report(text: str) -> Report:
    ends_s = [float(seconds) for seconds in _SECONDS.findall(text)]
    if len(ends_s) <= text.count(CHECKPOINT):
        raise _no_report(text)
    # It counts anew from a checkpoint on, but tells the time since it began.
    began_s = ends_s[-2] if len(ends_s) > 1 else 0.0
    transactions = int(_last(_TRANSACTIONS, text))
    bars = [(float(value), int(count)) for value, count in _BAR.findall(text)]
    p50, p95, p99, p999 = (percentile(bars, share) for share in (50, 95, 99, 99.9))
    return Report(
        queries=int(_last(_QUERIES, text)),
        transactions=transactions,
        seconds=max(ends_s[-1] - began_s, _SHORTEST_S),
        errors=int(_last(_ERRORS, text)),
        reconnects=int(_last(_RECONNECTS, text)),
        latency_mean_ms=float(_last(_MEAN, text)) if transactions else None,
        latency_p50_ms=p50,
        latency_p95_ms=p95,
        latency_p99_ms=p99,
        latency_p999_ms=p999,
        latency_max_ms=float(_last(_MAX, text)) if transactions else None,
        looks=looks_in(text, began_s),
    )


def looks_in(text: str, began_s: float) -> tuple[Look, ...]:
    """Also of a run that was ended before its report."""
    return tuple(_look(match, began_s) for match in _LOOK.finditer(text))


def percentile(bars: Sequence[tuple[float, int]], share: float) -> float | None:
    """As sysbench finds it itself: the first bar by which that share of all events is counted."""
    wanted = int(sum(count for _, count in bars) * share / 100 + 0.5)
    counted = 0
    for value, count in bars:
        counted += count
        if counted >= wanted:
            return value
    return None


def _look(match: re.Match[str], began_s: float) -> Look:
    return Look(
        at_s=float(match["at"]) - round(began_s),
        qps=float(match["qps"]),
        tps=float(match["tps"]),
        latency_ms=float(match["latency"]),
        errors=float(match["errors"]),
    )


def _last(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.findall(text)
    if not found:
        raise _no_report(text)
    return str(found[-1])


def _no_report(text: str) -> RecoveryError:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return RecoveryError(
        f"sysbench has printed no report; its last line is: {lines[-1][:200] if lines else '(nothing)'}",
        "the scripts of sysbench 1.0 print one; a script of your own must leave it as it is",
    )
