"""The cells of stored sessions in which starts were timed, and which of them measured the same setting again."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from recovery.analysis.effective_options import server_of_cell
from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import measured_runs_by_cell
from recovery.model import CACHE_AXIS, STARTUP_METRIC, TABLES_AXIS, Run, Session, stored_number

_SHAPING = (
    *("schemas", "layout", "columns", "rows", "statistics", "set", "datadir", "template", "insert_template", "inserts"),
    *("read_iops", "read_bps", "memory_bytes", "cpus", "cpu_set", "as_published", "before_start", "no_drop_caches"),
)
"""Settings that change what is measured. Engine and tracing are facts of a session that may explain a difference."""
_USUAL = {"schemas": 1, "layout": "files", "columns": 0, "rows": 0, "inserts": 100, "read_ahead_kb": 8192}
_CLEAN_START = "clean-start"
_NO_SETTINGS = "plain"
"""Name of the settings of `VARIANT` that change nothing."""


class Setting(NamedTuple):
    """What is measured. Cells of one setting in several sessions are the same measurement again."""

    server: str
    cache: str
    tables: int
    others: str
    """What else shapes a start, where it is not the usual value."""

    def __str__(self) -> str:
        return ", ".join(filter(None, (f"{self.server}, {self.cache}, {self.tables:,} tables", self.others)))


@dataclass(frozen=True)
class SessionCell:
    """The timed starts of one setting in one session, and what the session recorded of its host."""

    session: str
    started_at: str
    setting: Setting
    values: tuple[float, ...]
    """Seconds of each start, in the order of the runs."""
    at: tuple[float, ...]
    """When each run began: 0 is the first run of the session and 1 the last."""
    blocks: tuple[int, ...]
    """The block of each run. Only in sessions whose servers alternate do equal numbers share their conditions."""
    alternates: bool
    host: str | None
    """Id of the host, or its kernel with the build where no id was stored. Hosts of one build may be several."""
    engine: str
    traced: bool
    directory: str | None
    """Seconds that building its data directory took, to tell directories apart; None if they were not stored."""
    is_first: bool = False
    """Whether no earlier session measured this data directory."""
    reads_1_per_s: float | None = None
    """4 KiB at random by one thread: the mean of what was measured before each block, or else before the session."""
    reads_16_per_s: float | None = None
    first_read_ms: float | None = None
    cpu_s: float | None = None
    """Mean CPU seconds of the server until it was ready."""
    others_cpus: float | None = None
    """CPUs that other processes used during the starts."""
    steal: float | None = None
    """Share of a CPU that the hypervisor gave to other machines during the starts."""

    @property
    def logs(self) -> tuple[float, ...]:
        return tuple(map(math.log, self.values))

    @property
    def log_mean(self) -> float:
        return statistics.fmean(self.logs)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)


def session_cells(name: str, session: Session) -> Iterator[SessionCell]:
    """Yields the cells of a session with enough timed starts for an interval."""
    if session.metric != STARTUP_METRIC:
        return
    numbers = [run.number for run in session.runs]
    first, last = min(numbers, default=0), max(numbers, default=0)
    cells = measured_runs_by_cell(session)
    settings = {cell: _setting(session, *cell) for cell in cells}
    count = Counter(settings.values())
    for (version, variant), runs in cells.items():
        values = tuple(run.metrics[STARTUP_METRIC] for run in runs if run.metrics.get(STARTUP_METRIC))
        setting = settings[version, variant]
        # Early sessions stored what their variants differ in only in the names.
        if len(values) < MIN_RUNS or len(values) < len(runs) or setting is None or count[setting] > 1:
            continue
        host = session.environment
        yield SessionCell(
            session=name,
            started_at=session.started_at,
            setting=setting,
            values=values,
            at=tuple((run.number - first) / max(1, last - first) for run in runs),
            blocks=tuple(run.repeat for run in runs),
            alternates="alternate" in str(session.settings.get("order")),
            host=str(host.get("host_id") or host.get("kernel") or "") or None,
            engine=str(session.settings.get("engine") or "local"),
            traced=session.has_traced_times,
            directory=server_of_cell(session, version, variant).get("build_s"),
            reads_1_per_s=_mean(runs, "host_reads_per_s") or stored_number(host.get("probe_4k_1_iops")),
            reads_16_per_s=_mean(runs, "host_reads_16_per_s") or stored_number(host.get("probe_4k_16_iops")),
            first_read_ms=stored_number(host.get("probe_first_read_ms")),
            cpu_s=_mean(runs, "cpu_s"),
            others_cpus=_share(runs, "others_cpu_s"),
            steal=_share(runs, "steal_s"),
        )


def _setting(session: Session, version: str, variant: str) -> Setting | None:
    """Returns the setting of a cell, or None if a variant changes something that is not in the session's settings."""
    values = session.values_of(variant)
    cache, tables = values.get(CACHE_AXIS), values.get(TABLES_AXIS, session.settings.get("tables"))
    changed = {name: value for name, value in values.items() if name not in (CACHE_AXIS, TABLES_AXIS)}
    count = stored_number(tables)
    if cache is None or count is None or set(changed.values()) - {_NO_SETTINGS}:
        return None
    given = {name: session.settings.get(name) for name in _SHAPING}
    given["read_ahead_kb"] = session.environment.get("read_ahead_kb")
    cpus = stored_number(session.environment.get("cpus")) or 0
    if given["cpu_set"] == f"0-{cpus - 1:.0f}":
        given["cpu_set"] = None  # all of them
    others = [
        f"{name}={value}"
        for name, value in given.items()
        if value is not None and value is not False and value != _USUAL.get(name, "")
    ]
    if session.experiment == _CLEAN_START:
        others.append(_CLEAN_START)
    schemas = int(stored_number(session.settings.get("schemas")) or 1)
    return Setting(version, cache, int(count) * schemas, " ".join(others))


def _mean(runs: Sequence[Run], metric: str) -> float | None:
    found = [run.metrics[metric] for run in runs if run.metrics.get(metric)]
    return statistics.fmean(found) if found else None


def _share(runs: Sequence[Run], name: str) -> float | None:
    """Returns the mean seconds of a second, over runs that recorded it."""
    active = [run.host_activity for run in runs if run.host_activity is not None and run.host_activity.seconds]
    found = [(getattr(one, name), one.seconds) for one in active if getattr(one, name) is not None]
    return sum(part for part, _ in found) / sum(seconds for _, seconds in found) if found else None


def with_first_sessions(cells: Iterable[SessionCell]) -> tuple[SessionCell, ...]:
    """Returns the cells in the order of their sessions, and marks those that were the first over a data directory."""
    first: dict[tuple[str, str | None], str] = {}
    found = []
    for cell in sorted(cells, key=lambda one: (one.started_at, one.session, one.setting)):
        session = first.setdefault((cell.setting.server, cell.directory), cell.session)
        found.append(replace(cell, is_first=cell.directory is not None and session == cell.session))
    return tuple(found)


def of_hosts(cells: Iterable[SessionCell]) -> tuple[SessionCell, ...]:
    """Returns the cells with the host as a part of their setting, so that only sessions of one host are compared."""
    return tuple(
        replace(cell, setting=cell.setting._replace(others=f"{cell.setting.others} host={cell.host}"))
        for cell in cells
        if cell.host is not None
    )


def by_setting(cells: Iterable[SessionCell]) -> dict[Setting, list[SessionCell]]:
    """Returns the cells of each setting that several sessions measured."""
    groups: dict[Setting, list[SessionCell]] = {}
    for cell in cells:
        groups.setdefault(cell.setting, []).append(cell)
    return {setting: found for setting, found in sorted(groups.items()) if len(found) > 1}
