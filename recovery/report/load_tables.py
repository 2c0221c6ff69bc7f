"""Builds the tables of loads and other tasks.

They show what happened inside the server and its clients: the table cache, storage, locks and CPUs as means of each
cell, and what the server's threads waited for most; also the durations of statements, the time needed to create the
tables, the device reads, and the client commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recovery.analysis.combined import HOST_AXIS
from recovery.analysis.summary import (
    Group,
    cell_words,
    groups,
    is_switch,
    main_metrics,
    median_run,
    metric_means,
    metric_names,
    metric_values,
    runs_by_cell,
    version_pairs,
)
from recovery.analysis.warnings import server_of
from recovery.metrics import Metric, metric
from recovery.model import Run, Session, Table, ThreadWait, stored_number
from recovery.report import fmt
from recovery.report.fmt import explanations, related_metrics
from recovery.report.metric_tables import pair_header

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
        for variant in session.variant_names
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
    rows = [
        (*key, cell_words(session, key[1]), wait) for key, run in found.items() for wait in _top_waits(run.load.waits)
    ]
    if not rows:
        return None
    return Table(
        title="Most frequent waits",
        headers=("version", "cell", "by", "what", "waits", "seconds"),
        rows=tuple(
            (version, cell, wait.source, wait.name, fmt.count(wait.count), _wait_seconds(wait))
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
            "From the run of each cell in which all waits were counted (WAITS=1). It is not averaged, because counting "
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


def _wait_seconds(wait: ThreadWait) -> str:
    return fmt.ABSENT if wait.wait_s is None else fmt.duration(wait.wait_s)


# --- Time to create the tables: fast, and one by one as in the published test if that was tried

_TABLES_MADE, _TOOK = "tables_made", "elapsed_s"


def creation_table(session: Session) -> Table | None:
    """Returns the table of the time needed to create the tables, or None if nothing is known about it."""
    creations = _creations(session)
    rows = [_creation_row(creation) for creation in creations]
    if all(set(row[2:]) == {fmt.ABSENT} for row in rows):
        return None
    hosts = [creation.host for creation in creations]
    named = ("host",) if any(hosts) else ()
    notes = [
        "fast: several connections, multi-statement packets, durable only at the end; measured once, when the data "
        "directory was built."
    ]
    if any(creation.tried for creation in creations):
        notes.append(
            "one by one: a single client, each table durable; extrapolated: all tables at that rate, not measured."
        )
    return Table(
        title="Creating the tables",
        headers=("version", *named, "tables", "fast, s", "tables/s", "one by one", "s", "tables/s", "extrapolated, s"),
        rows=tuple((row[0], *((host,) if named else ()), *row[1:]) for row, host in zip(rows, hosts, strict=True)),
        numeric=(False, *(False for _ in named), *(True,) * 7),
        keys=1 + len(named),
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class _Creation:
    """How the tables of a version were created, on one of several hosts."""

    version: str
    host: str
    """Empty unless there are several."""
    tables: float | None
    """Number of all tables."""
    build_s: float | None
    """Seconds to build the data directory."""
    tried: tuple[float, float] | None
    """Number of tables that were created one by one, and the seconds that this took: means over its runs."""

    @property
    def extrapolated_s(self) -> float | None:
        """The seconds that all tables would take one by one; None if all were created so, or none."""
        if self.tables is None or self.tried is None or self.tried[0] >= self.tables:
            return None
        return self.tables * self.tried[1] / self.tried[0]


def _creations(session: Session) -> list[_Creation]:
    made, took = metric_means(session, _TABLES_MADE), metric_means(session, _TOOK)
    hosts: dict[str, list[str]] = {}
    for variant in session.variant_names:
        hosts.setdefault(_host_of(session, variant), []).append(variant)
    found = []
    for version in session.versions:
        for host, variants in hosts.items():
            tried = [
                (tables, seconds)
                for cell in ((version, variant) for variant in variants)
                if (tables := made.get(cell)) and (seconds := took.get(cell))
            ]
            known = server_of(session, version, variants[0])
            tables, build_s = stored_number(known.get("tables")), stored_number(known.get("build_s"))
            found.append(_Creation(version, host, tables, build_s, tried[-1] if tried else None))
    return found


def _host_of(session: Session, variant: str) -> str:
    """Returns the host that measured a variant; empty unless there are several."""
    several = any(axis.name == HOST_AXIS for axis in session.differing_axes)
    return session.values_of(variant).get(HOST_AXIS, "") if several else ""


def _creation_row(creation: _Creation) -> tuple[str, ...]:
    tables, build_s = creation.tables, creation.build_s
    fast = (fmt.duration(build_s), fmt.number(tables / build_s)) if tables and build_s else (fmt.ABSENT,) * 2
    slow = (fmt.ABSENT,) * 4
    if creation.tried is not None and tables:
        some, seconds = creation.tried
        all_of_them = creation.extrapolated_s
        slow = (
            f"{some:,.0f}",
            fmt.duration(seconds),
            fmt.number(some / seconds),
            fmt.ABSENT if all_of_them is None else fmt.duration(all_of_them),
        )
    return (creation.version, fmt.count(None if tables is None else int(tables)), *fast, *slow)


# --- Duration of each query and dump, laid out like the published table

_DUMPED = "dump_bytes"
_EXTRAPOLATED = "* "
_PUBLISHED = ("Q1", "Q2", "Q3")
"""The queries of the first rows. Rows for creating tables, for dumps and for other queries follow in this order."""


@dataclass(frozen=True)
class _Row:
    place: int
    name: str
    seconds: tuple[float | None, ...]
    """One value for each version; None if it was not measured."""
    extrapolated: bool = False


def durations_table(session: Session) -> Table | None:
    """Returns the table of durations of statements and dumps. It is None if there are several groups, if the session
    compares a switch on and off, or if nothing was measured."""
    (first, *others) = groups(session)
    if others or any(is_switch(axis) for axis in first.axes):
        return None
    rows = sorted((*_duration_rows(session), *_creation_rows(session)), key=lambda row: row.place)
    if not any(value for row in rows for value in row.seconds):
        return None
    pairs = version_pairs(session.versions)
    return Table(
        title=f"{session.title}: seconds of each task",
        headers=("what", *session.versions, *map(pair_header, pairs)),
        rows=tuple(
            (row.name, *(_seconds(value, row) for value in row.seconds), *_ratios(session, row, pairs)) for row in rows
        ),
        numeric=(False, *(True,) * (len(session.versions) + len(pairs))),
        notes=tuple(_query_notes(session, rows)),
    )


def _duration_rows(session: Session) -> Iterator[_Row]:
    found = metric_means(session)
    cells = runs_by_cell(session)
    for variant in session.variant_names:
        runs = [run for version in session.versions for run in cells[version, variant]]
        name = cell_words(session, variant)
        if created := metric_values(runs, _TABLES_MADE):
            host = _host_of(session, variant)
            name = f"creating {fmt.count_text(round(created[0]), 'table')} one by one{f', {host}' if host else ''}"
        yield _Row(_row_order(variant, runs), name, tuple(found[version, variant] for version in session.versions))


def _row_order(variant: str, runs: list[Run]) -> int:
    if variant in _PUBLISHED:
        return 0
    if metric_values(runs, _TABLES_MADE):
        return 1
    return 2 if metric_values(runs, _DUMPED) else 3


def _creation_rows(session: Session) -> Iterator[_Row]:
    """Yields rows with the time to build the data directories, and the time they would have taken one by one: of each
    host, if there are several."""
    hosts: dict[str, list[_Creation]] = {}
    for creation in _creations(session):
        hosts.setdefault(creation.host, []).append(creation)
    for host, creations in hosts.items():
        about = f", {host}" if host else ""
        many = max((creation.tables for creation in creations if creation.tables), default=0)
        build_s = tuple(creation.build_s for creation in creations)
        if any(build_s):
            yield _Row(1, f"creating all {many:,.0f}, fast{about}", build_s)
        all_of_them = tuple(creation.extrapolated_s for creation in creations)
        if any(all_of_them):
            yield _Row(1, f"creating all {many:,.0f} one by one{about}", all_of_them, extrapolated=True)


def _seconds(value: float | None, row: _Row) -> str:
    if value is None:
        return fmt.ABSENT
    # An extrapolated value is shown with fewer decimals, because such precision was not measured.
    return f"{_EXTRAPOLATED}{fmt.number(value)}" if row.extrapolated else fmt.duration(value)


def _ratios(session: Session, row: _Row, pairs: tuple[tuple[str, str], ...]) -> Iterator[str]:
    found = dict(zip(session.versions, row.seconds, strict=True))
    for version, base in pairs:
        value, of = found[version], found[base]
        yield fmt.times(value / of if value is not None and of else None)


def _query_notes(session: Session, rows: list[_Row]) -> Iterator[str]:
    ratios = ", and ratios of these (below 1 is faster)" if len(session.versions) > 1 else ""
    yield f"Means, in seconds until the last answer{ratios}. The tables below have their intervals."
    if any(row.extrapolated for row in rows):
        yield "*: extrapolated from the tables that were created one by one; not measured."
    clients = {
        f"{name} ({version})"
        for run in session.runs
        if _DUMPED in run.metrics
        for name, version in run.load.clients.items()
        if name != "dump"
    }
    if clients:
        of_all = " of all versions" if len(clients) == 1 and len(session.versions) > 1 else ""
        schemas = session.design.dump_schemas
        of_some = f" of {schemas} of {session.design.schemas} schemas" if schemas else ""
        yield f"Dumps{of_all}{of_some} by {', '.join(sorted(clients))}."


# --- Queries per second compared with device reads, by page size, for groups that read from the device

PAGES = ("innodb_page_size", "pages")
"""Axes that describe how the data is stored in pages."""
DEVICE_READS, READS_PER_QUERY = "device_reads_per_s", "device_reads_per_query"
_METRICS = ("qps", DEVICE_READS, READS_PER_QUERY, "read_bytes_per_s", "buffer_pool_reads_per_s")


def page_size_groups(session: Session) -> tuple[Group, ...]:
    """Returns the groups that differ in their pages and read from the device."""
    reading = {variant for (_, variant), value in metric_means(session, DEVICE_READS).items() if value}
    return tuple(
        group
        for group in groups(session)
        if group.metric == "qps" and any(axis.name in PAGES for axis in group.axes) and reading & set(group.variants)
    )


def device_read_tables(session: Session) -> Iterator[Table]:
    for group in page_size_groups(session):
        yield _reads_table(session, group)


def _reads_table(session: Session, group: Group) -> Table:
    means = {
        name: metric_means(session, name)
        for name in _METRICS
        if any(name in run.metrics for run in session.runs) or name == READS_PER_QUERY
    }
    shown = [metric(name) for name in means]
    rows = [(version, variant) for version in session.versions for variant in group.variants]
    named = fmt.key_headers(session, group)
    return Table(
        title=fmt.group_title("Queries and reads of the device", group),
        headers=(*named, *(about.label for about in shown)),
        rows=tuple(
            (*fmt.key_cells(session, group, row), *(fmt.column(about, means[about.name][row]) for about in shown))
            for row in rows
            if means["qps"][row] is not None
        ),
        numeric=(*fmt.numeric_columns(session, group), *(True,) * len(shown)),
        notes=("Means. reads/s, reads/query: completed by the device under the data, for any process.",),
        keys=len(named),
    )


# --- The client commands

_MAX_COMMANDS, _MAX_RUNS_TEXT = 24, 24
_SOCKET = re.compile(r"(?<=socket=)\S+(?=/mysqld\.sock)")
"""The folder of a server's socket, which is another one for each start."""


def clients_table(session: Session) -> Table | None:
    """Returns the table of the client commands, each once, or None if no client ran."""
    found: dict[tuple[str, str], list[int]] = {}
    for run in session.runs:
        for name, command in run.load.clients.items():
            found.setdefault((name, _SOCKET.sub("RUNDIR", command)), []).append(run.number)
    if not found:
        return None
    shown = list(found.items())[:_MAX_COMMANDS]
    left = len(found) - len(shown)
    return Table(
        title="Clients",
        headers=("client", "command", "runs"),
        rows=tuple((name, command, _runs_text(numbers)) for (name, command), numbers in shown),
        numeric=(False, False, False),
        notes=(f"{left} more commands are in report.json.",) if left else (),
        keys=2,
    )


def _runs_text(numbers: Sequence[int]) -> str:
    text = fmt.number_ranges(numbers)
    return text if len(text) <= _MAX_RUNS_TEXT else f"{len(numbers)} runs"
