"""The cells of stored sessions in which starts were timed, and which of them measured the same setting again."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from recovery.analysis.effective_options import server_of_cell
from recovery.analysis.history import Setting, setting_of
from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import measured_runs_by_cell
from recovery.model import STARTUP_METRIC, Cache, ExtraRun, Run, Session, stored_number


@dataclass(frozen=True)
class SessionCell:
    """The timed starts of one setting in one session, and what the session recorded of its host."""

    session: str
    started_at: str
    setting: Setting
    values: tuple[float, ...]
    """Seconds of each start, in the order of the runs, without the first read."""
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
    first_s: float | None = None
    """Seconds of the first read, the first cold start over the directory."""
    reads_1_per_s: float | None = None
    """4 KiB at random by one thread: the mean of what was measured before each block, or else before the session."""
    reads_16_per_s: float | None = None
    first_read_ms: float | None = None
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
    settings = {cell: setting_of(session, *cell) for cell in cells}
    count = Counter(settings.values())
    read = [run for run in session.runs if run.extra is ExtraRun.FIRST_READ]
    # One for each data directory: those of a session with several numbers of tables are of its variants.
    first_reads = {
        key: run.metrics[STARTUP_METRIC] for run in read for key in ((run.version, run.variant), (run.version, ""))
    }
    for (version, variant), runs in cells.items():
        values = tuple(run.metrics[STARTUP_METRIC] for run in runs if run.metrics.get(STARTUP_METRIC))
        setting = settings[version, variant]
        if setting is None or count[setting] > 1:
            continue
        is_cold = setting.cache == Cache.COLD
        first_s = first_reads.get((version, variant), first_reads.get((version, ""))) if is_cold else None
        if len(values) + (first_s is not None) < MIN_RUNS or len(values) < len(runs):
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
            traced=bool(session.settings.get("traced_starts")),
            directory=server_of_cell(session, version, variant).get("build_s"),
            first_s=first_s,
            reads_1_per_s=_mean(runs, "host_reads_per_s") or stored_number(host.get("probe_4k_1_iops")),
            reads_16_per_s=_mean(runs, "host_reads_16_per_s") or stored_number(host.get("probe_4k_16_iops")),
            first_read_ms=stored_number(host.get("probe_first_read_ms")),
            others_cpus=_share(runs, "others_cpu_s"),
            steal=_share(runs, "steal_s"),
        )


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
        directory = None if cell.directory is None else f"{float(cell.directory):.2f}"
        session = first.setdefault((cell.setting.server, directory), cell.session)
        is_first = directory is not None and session == cell.session
        found.append(replace(cell, directory=directory, is_first=is_first))
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
