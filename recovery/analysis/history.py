"""Compares a session with the earlier ones of its host: whether two cells are the same measurement, and what their
sessions say together.

A session belongs to its host and its day, so its interval is too narrow for the next session. Over several sessions
each one is a single value, however many runs it has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple

from recovery.analysis.basis import count_days
from recovery.analysis.effective_options import ServerFacts, server_of_cell
from recovery.analysis.statistics import MIN_RUNS, OverSessions, over_sessions
from recovery.analysis.summary import Cell, is_compared, measured_runs_by_cell, sample_of
from recovery.model import (
    CACHE_AXIS,
    MIN_FIRST_READ_TABLES,
    REPEAT_OF,
    SETTINGS_AXIS,
    STARTUP_METRIC,
    TABLES_AXIS,
    Cache,
    EarlierSession,
    ExtraRun,
    Layout,
    Run,
    Session,
    Verdict,
    stored_number,
)

# --- The design of a cell: what must be equal for a session to repeat the measurement of another


class Role(Enum):
    """Says whether sessions that differ in a stored setting are the same measurement."""

    DESIGN = auto()
    """It says what is measured, on what and how: they are not."""
    SERVER = auto()
    """They are not, but their cells may be: these are compared by the options, files and tables that their server had.
    """
    SHOWN = auto()
    """They are, and a comparison shows it."""
    IGNORED = auto()
    """They are, and nothing shows it."""


SETTING_ROLES: Mapping[str, Role] = {
    name: role
    for role, names in {
        Role.DESIGN: (
            "columns", "rows", "statistics", "charset", "template", "insert_template", "inserts", "datadir", "as_is",
            "engine", "read_iops", "read_bps", "memory_bytes", "cpus", "cpu_set", "server_cpus", "client_cpus",
            "as_published", "no_drop_caches", "unprivileged", "before_start", "before_kill", "first_queries",
            "seconds", "warmup_s", "memory_ratio", "pollers", "every_s", "poll_query", "queries", "dump_schemas",
            "published_build",
        ),
        Role.SERVER: ("tables", "schemas", "layout", "points", "set", "variants", "options", "open_files"),
        # Extra runs beside those that count, and a name.
        Role.SHOWN: ("trace", "stacks", "waits", "floor", "database"),
        Role.IGNORED: (
            # The server is compared by its executable.
            "version", "mysqld", "archive", "image", "registry",
            # How often and in which order, and what is said about the figures.
            "runs", "precision", "max_runs", "order", "seed", "baseline", "predict", "predicted", "fail_over",
            "max_startup", "note",
            # The device of the data is part of the host's id.
            "data",
            # An older name of two settings of the design.
            "no_root_steps",
            REPEAT_OF,
        ),
    }.items()
    for name in names
}  # fmt: skip
"""All settings that are stored with sessions, by this version and by those before."""
_UNSET_VALUES = (None, False, "", 0)


def role_of(name: str) -> Role:
    """Returns the role of a setting. One that only a newer version has may change what is measured."""
    return SETTING_ROLES.get(name, Role.DESIGN)


def given_settings(session: Session, *roles: Role) -> dict[str, str]:
    """Returns the settings of these roles that were given, as text. A setting that an older version did not have
    counts as one that was not given."""
    settings = {
        **session.settings,
        "no_drop_caches": session.design.keeps_caches,
        "unprivileged": session.design.is_unprivileged,
    }
    return {
        name: str(value) for name, value in settings.items() if role_of(name) in roles and value not in _UNSET_VALUES
    }


_CHARSET = "charset"
_MAX_DIGITS = 18
"""Of a number of tables: a stored session may be damaged."""


@dataclass(frozen=True)
class CellDesign:
    """What a cell measures, on what and how. Cells of equal designs are the same measurement, repeated."""

    host_id: str | None
    experiment: str
    metric: str
    variant: str
    """Its name without what the user called it and without its number of tables."""
    values: frozenset[tuple[str, str]]
    """Its value on each axis, except those that other fields have."""
    version: str
    """Without the user's name for the build."""
    build: str
    """SHA-256 of the executable, or the id of its image."""
    tables: str
    schemas: str
    layout: str
    options: str
    """The options that the server was given, from all places: of the tool, the experiment, the user and a my.cnf."""
    open_files: str | None
    """The number of files that the server could open, on which its caches depend."""
    is_traced: bool
    """Whether something recorded which files its counted runs opened. Older versions did it in every run."""
    cold_means: str
    """How the cache was emptied."""
    settings: frozenset[tuple[str, str]]
    """Those of `Role.DESIGN` that were given."""


def cell_design(session: Session, version: str, variant: str, runs: Collection[Run]) -> CellDesign | None:
    """Returns the design of a cell with these measured runs. None if its server is not known, and for second starts,
    which were cold to different degrees."""
    server = _server_of(session, version, variant)
    build = server.get("sha256") or server.get("image")
    if not build or session.is_second_start(variant):
        return None
    values, settings = dict(session.values_of(variant)), session.settings
    label = values.pop(SETTINGS_AXIS, None)
    # Of a load, it is the number of tables that the load uses.
    points = values.pop(TABLES_AXIS, None) if CACHE_AXIS in values else None
    tables = server.get("tables") or settings.get("tables")
    if points is not None:
        is_number = points.isdecimal() and len(points) <= _MAX_DIGITS
        tables = int(points) * (session.design.schemas or 1) if is_number else points
    given = given_settings(session, Role.DESIGN)
    if _CHARSET in values:  # the setting has all that were compared
        given.pop(_CHARSET, None)
    return CellDesign(
        host_id=session.host_id,
        experiment=session.experiment,
        metric=session.metric_of(variant),
        variant=variant.removesuffix(f"-{points}").removesuffix(f"-{label}"),
        values=frozenset(values.items()),
        version=version.partition("+")[0],
        build=build,
        tables=str(tables),
        schemas=str(server.get("schemas") or settings.get("schemas")),
        layout=str(server.get("layout") or settings.get("layout") or Layout.FILES),
        options=server.get("options", ""),
        open_files=server.get("@open_files_limit"),
        is_traced=any(run.is_traced for run in runs),
        cold_means=str(session.environment.get("cold_means")),
        settings=frozenset(given.items()),
    )


def _server_of(session: Session, version: str, variant: str) -> ServerFacts:
    label = session.value_of(variant, SETTINGS_AXIS)
    if label is not None:
        return session.servers.get(f"{version} {label}", {})
    return server_of_cell(session, version, variant)


# --- What a start measured, on whatever host

_EXPLAINING = frozenset({"engine", "server_cpus", "client_cpus", "unprivileged", "first_queries"})
"""Settings of the design that are facts of a session here, which may explain a difference."""
_SHAPING = (
    *("schemas", "layout", "set"),
    *(name for name, role in SETTING_ROLES.items() if role is Role.DESIGN and name not in _EXPLAINING),
)
"""Settings that change what a start measures."""
_USUAL = {"schemas": 1, "layout": "files", "columns": 0, "rows": 0, "inserts": 100, "read_ahead_kb": 8192}
_CLEAN_START = "clean-start"
_NO_SETTINGS = "plain"
"""Name of the settings of `VARIANT` that change nothing."""


class Setting(NamedTuple):
    """What timed starts measured. Cells of one setting in several sessions are the same measurement again, on any host
    and of any build."""

    server: str
    cache: str
    tables: int
    others: str
    """What else shapes a start, where it is not the usual value."""

    def __str__(self) -> str:
        return ", ".join(filter(None, (f"{self.server}, {self.cache}, {self.tables:,} tables", self.others)))


def setting_of(session: Session, version: str, variant: str) -> Setting | None:
    """Returns the setting of a cell of timed starts. None for anything else, and if a variant changes something that is
    not in the session's settings."""
    values = session.values_of(variant)
    cache, tables = values.get(CACHE_AXIS), values.get(TABLES_AXIS, session.settings.get("tables"))
    changed = {name: value for name, value in values.items() if name not in (CACHE_AXIS, TABLES_AXIS)}
    count = stored_number(tables)
    if session.metric != STARTUP_METRIC or cache is None or count is None or set(changed.values()) - {_NO_SETTINGS}:
        return None
    others = [
        name if value is True else f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in unusual_settings(session).items()
    ]
    if session.experiment == _CLEAN_START:
        others.append(_CLEAN_START)
    schemas = int(stored_number(session.settings.get("schemas")) or 1)
    return Setting(version, cache, int(count) * schemas, " ".join(others))


def unusual_settings(session: Session) -> dict[str, str | int | float | bool]:
    """Returns what shapes the starts of a session, where it is not the usual value: its settings, and the read-ahead of
    its host."""
    given = {name: session.settings.get(name) for name in _SHAPING}
    given["read_ahead_kb"] = session.environment.get("read_ahead_kb")
    cpus = stored_number(session.environment.get("cpus")) or 0
    if given["cpu_set"] == f"0-{cpus - 1:.0f}":
        given["cpu_set"] = None  # all of them
    return {
        name: value
        for name, value in given.items()
        if value is not None and value is not False and value != _USUAL.get(name, "")
    }


# --- First starts of sessions that made no first reads

Directory = tuple[str, str]
"""A version, and the seconds that building its data directory took, which tells it from others."""


def directory_of(session: Session, version: str, variant: str) -> Directory | None:
    """Returns the data directory of a cell; None if an older version did not store it."""
    seconds = stored_number(_server_of(session, version, variant).get("build_s"))
    return None if seconds is None else (version, f"{seconds:.2f}")


def first_sessions(known: Iterable[tuple[Directory | None, str]]) -> dict[Directory, str]:
    """Returns when the first session over each data directory started, of all that are known."""
    found: dict[Directory, str] = {}
    for directory, started_at in known:
        if directory is not None:
            found[directory] = min(found.get(directory, started_at), started_at)
    return found


def is_first_over(directory: Directory | None, started_at: str, first: Mapping[Directory, str]) -> bool:
    """Returns whether no session before this one is known to have measured the data directory."""
    return directory is None or first.get(directory, started_at) >= started_at


def without_first_starts(session: Session, first: Mapping[Directory, str]) -> Session:
    """Returns the session with its first cold start over each data directory as a first read, which no mean has: it
    takes up to twice as long as the others. Older versions counted it. `first` says when the first session over each
    directory started."""
    read = [run for run in session.runs if run.extra is ExtraRun.FIRST_READ]
    taken = {
        runs[0].number
        for (version, variant), runs in measured_runs_by_cell(session).items()
        if len(runs) >= MIN_RUNS
        and _reads_much(session, variant)
        and all(run.version != version for run in read)
        and is_first_over(directory_of(session, version, variant), session.started_at, first)
    }
    runs = tuple(
        replace(run, extra=ExtraRun.FIRST_READ, verdict=Verdict.SAMPLED) if run.number in taken else run
        for run in session.runs
    )
    return replace(session, runs=runs) if taken else session


def _reads_much(session: Session, variant: str) -> bool:
    tables = stored_number(session.value_of(variant, TABLES_AXIS) or session.settings.get("tables"))
    is_cold_start = session.metric == STARTUP_METRIC and session.cache_of(variant) == Cache.COLD
    many = (tables or 0) * (session.design.schemas or 1)
    return is_cold_start and (tables is None or many >= MIN_FIRST_READ_TABLES)


# --- Sessions of one design


@dataclass(frozen=True)
class SessionCell:
    """The result of a cell in one session, with its design."""

    session: str
    """Name of the session."""
    started_at: str
    design: CellDesign
    count: int
    mean: float
    directory: Directory | None = None
    rest: tuple[int, float] | None = None
    """Count and mean without the first cold start over the directory, where that would be among the runs."""

    def as_earlier(self, version: str, variant: str) -> EarlierSession:
        """Returns it as an earlier session of this cell of another session."""
        return EarlierSession(
            self.session, self.started_at, version, variant, self.count, self.mean, self.design.host_id
        )


def session_cells(name: str, session: Session) -> dict[Cell, SessionCell]:
    """Returns the result of each cell with a design, by version and variant. `name` is that of the session."""
    found: dict[Cell, SessionCell] = {}
    if not is_compared(session):
        return found
    later = measured_runs_by_cell(without_first_starts(session, {}))
    for (version, variant), runs in measured_runs_by_cell(session).items():
        sample = sample_of(session, runs, session.metric_of(variant))
        design = cell_design(session, version, variant, runs)
        if design is not None and sample.mean is not None:
            rest = sample_of(session, later.get((version, variant), ()), session.metric_of(variant))
            has_first = len(rest.values) < len(sample.values)
            found[version, variant] = SessionCell(
                name, session.started_at, design, len(sample.values), sample.mean,
                directory=directory_of(session, version, variant),
                rest=(len(rest.values), rest.mean) if has_first and rest.mean is not None else None,
            )  # fmt: skip
    return found


def cells_without_first_starts(cells: Iterable[SessionCell], first: Mapping[Directory, str]) -> tuple[SessionCell, ...]:
    """Returns the results of sessions without their first cold starts, as `without_first_starts` does of a session."""
    return tuple(
        replace(cell, count=cell.rest[0], mean=cell.rest[1])
        if cell.rest is not None and is_first_over(cell.directory, cell.started_at, first)
        else cell
        for cell in cells
    )


def first_sessions_of(sessions: Iterable[Session], others: Iterable[SessionCell] = ()) -> dict[Directory, str]:
    """Returns when the first session over each data directory started, of sessions and the results of others."""
    own = (cell for session in sessions for cell in session_cells("", session).values())
    return first_sessions((cell.directory, cell.started_at) for cell in (*own, *others))


def earlier_sessions(session: Session, others: Iterable[SessionCell]) -> tuple[EarlierSession, ...]:
    """Returns those of the other sessions' results that are of the same host and design as a cell of this session and
    started before it, in their order. A session that is there twice, as a copy, counts once."""
    cells, own = tuple(others), session_cells("", session)
    first = first_sessions_of((session,), cells)
    by_design: dict[CellDesign, dict[str, SessionCell]] = {}
    for other in cells_without_first_starts(cells, first):
        if other.design.host_id is not None and other.started_at < session.started_at:
            by_design.setdefault(other.design, {}).setdefault(other.started_at, other)
    return tuple(
        of.as_earlier(version, variant)
        for (version, variant), cell in own.items()
        for _, of in sorted(by_design.get(cell.design, {}).items())
    )


# --- What the sessions of a cell say together


@dataclass(frozen=True)
class CellHistory:
    """A cell with the earlier sessions of its design on this host."""

    version: str
    variant: str
    started_at: str
    mean: float
    """Mean of this session."""
    earlier: tuple[EarlierSession, ...]

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest mean of the earlier sessions."""
        means = [session.mean for session in self.earlier]
        return min(means), max(means)

    @property
    def sessions_and_days(self) -> tuple[int, int]:
        """The number of the earlier sessions, and of their days."""
        return len(self.earlier), count_days(session.started_at for session in self.earlier)

    @property
    def all_sessions_and_days(self) -> tuple[int, int]:
        """The same with this session."""
        days = count_days((self.started_at, *(session.started_at for session in self.earlier)))
        return len(self.earlier) + 1, days

    @property
    def over_all(self) -> OverSessions | None:
        """The mean over all these sessions and this one; None with fewer than three."""
        found = over_sessions([self.mean, *(session.mean for session in self.earlier)])
        return None if found is None or found.interval is None else found


def cell_histories(session: Session) -> Iterator[CellHistory]:
    """Yields the measured cells of a session that have earlier sessions, in the order of the report."""
    by_cell: dict[Cell, list[EarlierSession]] = {}
    for earlier in session.earlier:
        by_cell.setdefault((earlier.version, earlier.variant), []).append(earlier)
    for (version, variant), runs in measured_runs_by_cell(session).items() if by_cell else ():
        mean = sample_of(session, runs, session.metric_of(variant)).mean
        if (found := by_cell.get((version, variant))) and mean is not None:
            yield CellHistory(version, variant, session.started_at, mean, tuple(found))
