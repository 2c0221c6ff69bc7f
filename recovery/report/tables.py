"""Declares the sections of every report, in their order: their tables and charts, and what they need.

The results come first, then every run and the warnings, then the settings, the host and the servers. A function is
named by its module, and imported only if the session has something for it to show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from recovery.analysis.growth import growth_curves
from recovery.analysis.summary import is_compared, main_metrics, metric_names
from recovery.model import Run, Session, Table, metric

_MAX_TERMINAL_RUNS = 24
"""A terminal shows the table of runs up to this number."""
PUBLISHED = ("crash-recovery", "metadata", "interference", "table-cache", "write-scaling")
"""Experiments that repeat a publication, in the order of published.toml."""
Needs = Callable[[Session], bool]


def _always(_: Session) -> bool:
    return True


def _never(_: Session) -> bool:
    return False


def _unlike(needs: Needs) -> Needs:
    return lambda session: not needs(session)


def _any_run(value: Callable[[Run], object]) -> Needs:
    """Needs a run that has this value."""
    return lambda session: any(value(run) not in (None, (), {}) for run in session.runs)


def _phases(run: Run) -> object:
    return run.startup.phases


def _observations(run: Run) -> object:
    return run.observations


def _tables(run: Run) -> object:
    return run.contents.tables_found


def _opened_files(run: Run) -> object:
    return run.opened_files.tablespaces_opened


def _measured(*names: str) -> Needs:
    """Needs a run that has one of these metrics."""
    return lambda session: any(name in run.metrics for run in session.runs for name in names)


def _is_about(name: str) -> Needs:
    """Needs a session with this main metric."""
    return lambda session: session.figure == name


def _was_published(session: Session) -> bool:
    return session.scenario in PUBLISHED


def _has_curves(session: Session) -> bool:
    return bool(growth_curves(session))


def _both(*needs: Needs) -> Needs:
    return lambda session: all(each(session) for each in needs)


def _has_more_metrics(session: Session) -> bool:
    """Returns whether the session has metrics that its main tables do not show."""
    shown = [{name, *metric(name).related} for name in main_metrics(session)]
    return not set.intersection(*shown).issuperset(metric_names(session))


def _has_few_runs(session: Session) -> bool:
    return len(session.runs) <= _MAX_TERMINAL_RUNS


@dataclass(frozen=True)
class Source:
    """A function of this package that makes tables or charts of a session."""

    function: str
    """Its module in `recovery.report`, and its name."""
    needs: Needs = _always
    """What a session must have, so that there is something to show."""
    in_terminal: Needs = _always
    """Whether a terminal shows its tables. The server's internal metrics would fill many screens."""
    only_on_page: bool = False
    """Whether only the HTML page shows its tables."""

    def of(self, session: Session) -> tuple[Any, ...]:
        """Returns the tables or charts."""
        if not self.needs(session):
            return ()
        module, name = self.function.split(":")
        found = getattr(import_module(f"recovery.report.{module}"), name)(session)
        if found is None:
            return ()
        return tuple(found) if isinstance(found, Iterable) else (found,)


@dataclass(frozen=True)
class Section:
    """A part of the report with its heading on the HTML page, where the charts are above the tables."""

    key: str
    title: str
    """Empty: the title of the session."""
    tables: tuple[Source, ...] = ()
    charts: tuple[Source, ...] = ()
    lead: str = ""


@dataclass(frozen=True)
class Document:
    """What a report has in every format: of a session, or of the hosts of a fleet."""

    heading: str
    paragraphs: tuple[str, ...]
    """The question, the answer, and the state."""
    tables: tuple[Table, ...]
    commands: tuple[str, ...]
    """Those that repeat it."""


SECTIONS = (
    Section(
        "figures", "",
        tables=(
            Source("load_tables:durations_table", _is_about("elapsed_s")),
            Source("metric_tables:summary_tables", is_compared),
            Source("crash_tables:crash_tables", _both(_unlike(is_compared), _unlike(_any_run(_observations)))),
            Source("crash_tables:damage_table", _any_run(_observations)),
        ),
        charts=(
            Source("html.session_charts:growth_charts", _has_curves),
            Source("html.session_charts:group_charts", _unlike(_has_curves)),
        ),
    ),
    Section(
        "device-reads", "Reads of the device",
        tables=(Source("load_tables:device_read_tables", _measured("device_reads_per_s")),),
        charts=(Source("html.session_charts:page_size_charts", _measured("device_reads_per_s")),),
    ),
    Section("versions", "Versions compared", tables=(Source("metric_tables:version_tables", is_compared),)),
    Section(
        "axes", "Effects of the settings",
        tables=(
            Source("metric_tables:axis_tables", is_compared),
            Source("metric_tables:axis_tables", _unlike(is_compared), only_on_page=True),
        ),
    ),
    Section("published", "Published and here", tables=(Source("published:published_tables", _was_published),)),
    Section("growth", "Growth", tables=(Source("startup_tables:scale_tables", _has_curves),)),
    Section(
        "phases", "Phases of the start",
        tables=(
            Source("startup_tables:phase_table", _both(is_compared, _any_run(_phases))),
            Source("startup_tables:phase_table", _both(_unlike(is_compared), _any_run(_phases)), only_on_page=True),
        ),
        charts=(Source("html.session_charts:phases_chart", _any_run(_phases)),),
    ),
    Section(
        "reads", "Reads",
        charts=(Source("html.session_charts:reads_chart", _both(_measured("read_bytes"), _any_run(_tables))),),
    ),
    Section(
        "touched", "Files touched", tables=(Source("startup_tables:touched_table", _any_run(_opened_files)),)
    ),
    Section(
        "floor", "Storage floor",
        tables=(Source("startup_tables:floor_table", lambda session: bool(session.floors)),),
        charts=(Source("html.session_charts:floor_chart", lambda session: bool(session.floors)),),
    ),
    Section("creation", "Creating the tables", tables=(Source("load_tables:creation_table", _is_about("elapsed_s")),)),
    Section(
        "over-time", "Over time", charts=(Source("html.timelines:timelines", _any_run(lambda run: run.timeline)),),
        lead="The median run of each cell, sample by sample.",
    ),
    Section(
        "inside", "Inside the server",
        tables=(
            Source("load_tables:internal_metric_tables", _has_more_metrics, in_terminal=_never),
            Source("load_tables:waits_table", _any_run(lambda run: run.load.waits), in_terminal=_never),
        ),
    ),
    Section(
        "stacks", "Stacks",
        tables=(
            Source("stack_tables:hottest_tables", _any_run(lambda run: run.stacks.hottest), in_terminal=_never),
            Source("stack_tables:chain_tables", _any_run(lambda run: run.stacks.chains), in_terminal=_never),
        ),
    ),
    Section(
        "runs", "Every run",
        tables=(
            Source("metric_tables:runs_table", in_terminal=_has_few_runs),
            Source("settings_tables:not_counted"),
        ),
    ),
    Section("warnings", "Warnings", tables=(Source("settings_tables:findings_tables"),)),
    Section(
        "measured-on", "Measured on",
        tables=(
            Source("settings_tables:settings_and_host_tables", in_terminal=_never),
            Source("load_tables:clients_table", _any_run(lambda run: run.load.clients), in_terminal=_never),
            Source("settings_tables:server_option_tables", in_terminal=_never),
        ),
    ),
)  # fmt: skip
"""The sections in reading order; a report leaves out those with nothing to show."""


def all_tables(session: Session) -> tuple[Table, ...]:
    """Returns all tables of a session, in reading order."""
    return tuple(table for section in SECTIONS for table in section_tables(section, session))


def section_tables(section: Section, session: Session, *, on_page: bool = False) -> Iterator[Table]:
    for source in section.tables:
        if on_page or not source.only_on_page:
            yield from source.of(session)


def setup_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables of the settings, the host, the clients and the servers."""
    return tuple(section_tables(SECTIONS[-1], session))


def terminal_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables that are shown in a terminal."""
    shown = (
        source
        for section in SECTIONS
        for source in section.tables
        if source.in_terminal(session) and not source.only_on_page
    )
    return tuple(table for source in shown for table in source.of(session))


def heading(session: Session) -> str:
    """Returns the first line of the report."""
    return f"{session.scenario}: {', '.join(session.versions)}"


def status_line(session: Session) -> str:
    """Returns the status of the session: how many runs ended, when it started, and the tool version."""
    ended = len(session.runs)
    all_of_them = "1 run" if ended == 1 else f"{ended} runs"
    progress = all_of_them if ended == session.planned_runs else f"{ended} of {session.planned_runs} runs"
    return f"{session.status}, {progress}; started {session.started_at}; tool version {session.tool_version}"
