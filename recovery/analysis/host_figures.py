"""What a session recorded of its host, and whether its starts and loads wait for the storage.

A figure belongs to its host. Where one of two cells waits for the storage and the other does not, so does their ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from recovery.analysis.basis import number_of_hosts
from recovery.analysis.summary import Cell, mean, measured_runs_by_cell, metric_value, own_read_requests
from recovery.metrics import metric
from recovery.model import Cache, Run, Session, stored_number

# --- The host's speed

READS, READS_16, CPU_LOOP, STEAL = "host_reads_per_s", "host_reads_16_per_s", "host_cpu_loop_s", "host_steal_share"
_PROBES = {READS: "probe_4k_1_iops", READS_16: "probe_4k_16_iops"}
"""The facts about the host, measured once, that stand in for the metrics where no block was measured."""
_CHANGED = {READS: 1.5, READS_16: 2.0, CPU_LOOP: 1.5}
"""Ratio of the largest to the smallest value above which the host itself changed. On a quiet host it was up to 1.3, for
reads by 16 threads up to 1.6 (20 sessions of three blocks)."""


@dataclass(frozen=True)
class HostFigure:
    """The values of a metric of the host, over the blocks of a session."""

    name: str
    low: float
    median: float
    high: float


def host_figures(session: Session) -> dict[str, HostFigure]:
    """Returns what was recorded of the session's host, by the name of the metric; nothing unless it was one."""
    found: dict[str, HostFigure] = {}
    for name in (READS, READS_16, CPU_LOOP, STEAL) if number_of_hosts(session) == 1 else ():
        values = [value for run in session.runs if (value := run.metrics.get(name)) is not None]
        if not values and (probe := stored_number(session.environment.get(_PROBES.get(name, "")))) is not None:
            values = [probe]
        if values:
            found[name] = HostFigure(name, min(values), median(values), max(values))
    return found


def superseded_probes(session: Session) -> frozenset[str]:
    """Returns the facts about the host in whose place there are figures of each block."""
    return frozenset(
        fact for name, fact in _PROBES.items() if any(run.metrics.get(name) is not None for run in session.runs)
    )


def changed_figures(session: Session) -> Iterator[HostFigure]:
    """Yields the figures by which the host itself changed during the session."""
    for figure in host_figures(session).values():
        if figure.high > _CHANGED.get(figure.name, math.inf) * figure.low:
            yield figure


# --- Waiting for the storage

_MIN_TABLES = 5000
"""With fewer tables, most reads of a start are of other files."""
_MIN_READS_PER_TABLE = 0.5
"""Cold starts of all servers that read the tables' files made 1.0 or more in the kept sessions, those of all others 0.3
or fewer."""
_MIN_READS_PER_QUERY = 0.1
_MIN_FLUSHES_PER_COMMIT = 0.03
"""Of the log. Commits of many clients share one."""


def waits_for_storage(session: Session, runs: Sequence[Run]) -> bool | None:
    """Returns whether the starts or loads of a cell wait for the storage; None if that is not known.

    A start does if it reads the files of most tables: from 5,000 tables on, at least one read for every second table.
    A load does if it reads a page for every tenth query, or flushes the log when it commits."""
    if metric(session.metric_of(runs[0].variant)).unit != "s":
        return _load_waits(runs)
    tables, reads = _tables(session, runs), own_read_requests(session, runs)
    return None if reads is None or tables < _MIN_TABLES else reads >= _MIN_READS_PER_TABLE * tables


def _tables(session: Session, runs: Sequence[Run]) -> float:
    """Returns the number of tables that were found, or else that were asked for."""
    found = mean(run.contents.tables_found for run in runs)
    return found or float((session.design.tables or 0) * (session.design.schemas or 1))


def _load_waits(runs: Sequence[Run]) -> bool | None:
    reads = mean(metric_value(run, "device_reads_per_query") for run in runs)
    flushes, commits = (mean(run.metrics.get(name) for run in runs) for name in ("fsyncs_per_s", "tps"))
    if reads is None and (flushes is None or not commits):
        return None
    per_commit = flushes / commits if flushes is not None and commits else 0.0
    return (reads or 0.0) >= _MIN_READS_PER_QUERY or per_commit >= _MIN_FLUSHES_PER_COMMIT


def waiting_cells(session: Session) -> dict[Cell, bool | None]:
    """Returns whether each measured cell waits for the storage."""
    return {cell: waits_for_storage(session, runs) for cell, runs in measured_runs_by_cell(session).items()}


def dependent_pairs(session: Session, pairs: Iterable[tuple[Cell, Cell]]) -> list[tuple[Cell, Cell]]:
    """Returns those of these pairs of cells whose ratio changes with the storage: one waits for it and the other does
    not. Where that is not known of one, it does if either is a cold start."""
    waiting = waiting_cells(session)

    def depends(pair: tuple[Cell, Cell]) -> bool:
        sides = {waiting[cell] for cell in pair if cell in waiting}
        if None in sides:
            return any(session.cache_of(variant) == Cache.COLD for _, variant in pair)
        return len(sides) > 1

    return [pair for pair in pairs if depends(pair)]
