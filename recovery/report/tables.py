"""Declares the sections of every report, in their order, with the functions that make their tables and charts.

The results come first, then every run and the warnings, then the settings, the host and the servers. A module that only
some sessions need is imported by a section of such a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from recovery.analysis.combined import CombinedSession
from recovery.analysis.growth import growth_curves
from recovery.analysis.summary import is_compared, main_metrics, metric_names
from recovery.metrics import metric
from recovery.model import Session, Table
from recovery.report.answer import Answer
from recovery.report.fmt import count_text
from recovery.report.metric_tables import axis_tables, earlier_table, runs_table, summary_tables, version_tables
from recovery.report.settings_tables import (
    findings_tables,
    not_counted,
    server_option_tables,
    settings_and_host_tables,
)
from recovery.report.summary_text import answer_of

if TYPE_CHECKING:
    from recovery.report.html.parts import Part

_MAX_TERMINAL_RUNS = 24
"""A terminal shows the table of runs up to this number."""
PUBLISHED = ("crash-recovery", "metadata", "interference", "table-cache", "write-scaling")
"""Experiments that repeat a publication, in the order of published.toml."""
_Tables = Callable[[Session], Iterable[Table]]
_Made = TypeVar("_Made")


def _nothing(_: Session) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Section:
    """A part of the report with its heading on the HTML page, where the charts are above the tables."""

    key: str
    title: str
    """Empty: the title of the session."""
    tables: _Tables = _nothing
    charts: Callable[[Session], Iterable[Part]] = _nothing
    lead: str = ""
    on_page: _Tables | None = None
    """The tables on the HTML page, if those are others."""
    in_terminal: _Tables | None = None
    """The tables in a terminal, if those are others: the server's internal metrics would fill many screens."""


@dataclass(frozen=True)
class Document:
    """What a report has in every format: of a session, or of the hosts of a fleet."""

    heading: str
    question: str
    answer: Answer
    state: str
    tables: tuple[Table, ...]
    commands: tuple[str, ...]
    """Those that repeat it."""


def document_of(session: Session) -> Document:
    """Returns the report of a session."""
    return Document(
        heading(session),
        session.question,
        answer_of(session),
        status_line(session),
        all_tables(session),
        (session.command,),
    )


def _present(*made: _Made | None) -> Iterator[_Made]:
    """Yields what there was something to show in."""
    yield from (part for part in made if part is not None)


def _has_measured(session: Session, name: str) -> bool:
    return any(name in run.metrics for run in session.runs)


# --- What each section shows


def _figures(session: Session) -> Iterator[Table]:
    is_observed = any(run.observations for run in session.runs)
    if session.metric == "elapsed_s":
        from recovery.report.load_tables import durations_table

        yield from _present(durations_table(session))
    if is_compared(session):
        yield from summary_tables(session)
    elif not is_observed:
        from recovery.report.crash_tables import crash_tables

        yield from crash_tables(session)
    if is_observed:
        from recovery.report.crash_tables import damage_table

        yield damage_table(session)


def _figure_charts(session: Session) -> Iterator[Part]:
    from recovery.report.html.session_charts import group_charts, growth_charts

    yield from growth_charts(session) if growth_curves(session) else group_charts(session)


def _device_reads(session: Session) -> Iterator[Table]:
    if _has_measured(session, "device_reads_per_s"):
        from recovery.report.load_tables import device_read_tables

        yield from device_read_tables(session)


def _device_read_charts(session: Session) -> Iterator[Part]:
    if _has_measured(session, "device_reads_per_s"):
        from recovery.report.html.session_charts import page_size_charts

        yield from page_size_charts(session)


def _versions(session: Session) -> Iterator[Table]:
    if is_compared(session):
        yield from version_tables(session)


def _axes(session: Session) -> Iterator[Table]:
    if is_compared(session):
        yield from axis_tables(session)


def _earlier(session: Session) -> Iterator[Table]:
    yield from _present(earlier_table(session))


def _published(session: Session) -> Iterator[Table]:
    if session.experiment in PUBLISHED:
        from recovery.report.published import published_tables

        yield from published_tables(session)


def _growth(session: Session) -> Iterator[Table]:
    if growth_curves(session):
        from recovery.report.startup_tables import scale_tables

        yield from scale_tables(session)


def _phases(session: Session) -> Iterator[Table]:
    if is_compared(session):
        yield from _phases_on_page(session)


def _phases_on_page(session: Session) -> Iterator[Table]:
    if any(run.startup.phases for run in session.runs):
        from recovery.report.startup_tables import phase_table

        yield from _present(phase_table(session))


def _phase_charts(session: Session) -> Iterator[Part]:
    if any(run.startup.phases for run in session.runs):
        from recovery.report.html.session_charts import phases_chart

        yield from _present(phases_chart(session))


def _read_charts(session: Session) -> Iterator[Part]:
    if _has_measured(session, "read_bytes") and any(run.contents.tables_found is not None for run in session.runs):
        from recovery.report.html.session_charts import reads_chart

        yield from _present(reads_chart(session))


def _touched(session: Session) -> Iterator[Table]:
    if any(run.is_traced for run in session.runs):
        from recovery.report.startup_tables import touched_table

        yield from _present(touched_table(session))


def _floor(session: Session) -> Iterator[Table]:
    if session.floors:
        from recovery.report.startup_tables import floor_table

        yield from _present(floor_table(session))


def _floor_charts(session: Session) -> Iterator[Part]:
    if session.floors:
        from recovery.report.html.session_charts import floor_chart

        yield from _present(floor_chart(session))


def _creation(session: Session) -> Iterator[Table]:
    if session.metric == "elapsed_s":
        from recovery.report.load_tables import creation_table

        yield from _present(creation_table(session))


def _timelines(session: Session) -> Iterator[Part]:
    if any(run.timeline is not None for run in session.runs):
        from recovery.report.html.timelines import timelines

        yield from timelines(session)


def _inside(session: Session) -> Iterator[Table]:
    if _has_more_metrics(session):
        from recovery.report.load_tables import internal_metric_tables

        yield from internal_metric_tables(session)
    if any(run.load.waits for run in session.runs):
        from recovery.report.load_tables import waits_table

        yield from _present(waits_table(session))


def _has_more_metrics(session: Session) -> bool:
    """Returns whether the session has metrics that its main tables do not show."""
    shown = [{name, *metric(name).related} for name in main_metrics(session)]
    return not set.intersection(*shown).issuperset(metric_names(session))


def _stacks(session: Session) -> Iterator[Table]:
    if any(run.stacks.hottest or run.stacks.chains for run in session.runs):
        from recovery.report.stack_tables import chain_tables, hottest_tables

        yield from hottest_tables(session)
        yield from chain_tables(session)


def _sessions(session: Session) -> Iterator[Table]:
    if isinstance(session, CombinedSession):
        from recovery.report.session_tables import session_tables

        yield from session_tables(session)


def _runs(session: Session) -> Iterator[Table]:
    yield runs_table(session)
    yield from not_counted(session)


def _runs_in_terminal(session: Session) -> Iterable[Table]:
    return _runs(session) if len(session.runs) <= _MAX_TERMINAL_RUNS else not_counted(session)


def _measured_on(session: Session) -> Iterator[Table]:
    yield from settings_and_host_tables(session)
    if any(run.load.clients for run in session.runs):
        from recovery.report.load_tables import clients_table

        yield from _present(clients_table(session))
    yield from server_option_tables(session)


SECTIONS = (
    Section("figures", "", _figures, _figure_charts),
    Section("sessions", "Sessions", _sessions),
    Section("device-reads", "Reads of the device", _device_reads, _device_read_charts),
    Section("versions", "Versions compared", _versions),
    Section("axes", "Effects of the settings", _axes, on_page=axis_tables),
    Section("earlier", "Earlier sessions", _earlier),
    Section("published", "Published and here", _published),
    Section("growth", "Growth", _growth),
    Section("phases", "Phases of the start", _phases, _phase_charts, on_page=_phases_on_page),
    Section("reads", "Reads", charts=_read_charts),
    Section("touched", "Files touched", _touched),
    Section("floor", "Storage floor", _floor, _floor_charts),
    Section("creation", "Creating the tables", _creation),
    Section(
        "over-time", "Over time", charts=_timelines, lead="The median run of each cell, sample by sample."
    ),
    Section("inside", "Inside the server", _inside, in_terminal=_nothing),
    Section("stacks", "Stacks", _stacks, in_terminal=_nothing),
    Section("runs", "Every run", _runs, in_terminal=_runs_in_terminal),
    Section("warnings", "Warnings", findings_tables),
    Section("measured-on", "Measured on", _measured_on, in_terminal=_nothing),
)  # fmt: skip
"""The sections in reading order; a report leaves out those with nothing to show."""


OF_ONE_SESSION = frozenset({"published", "over-time", "inside", "stacks", "runs"})
"""Sections that only the report of a single session has: published effects are judged by one host, and in a combined
session several runs have the same number."""


def sections_of(session: Session) -> tuple[Section, ...]:
    """Returns the sections that the report of a session may have."""
    several = isinstance(session, CombinedSession)
    return tuple(section for section in SECTIONS if not (several and section.key in OF_ONE_SESSION))


def all_tables(session: Session) -> tuple[Table, ...]:
    """Returns all tables of a session, in reading order."""
    return tuple(table for section in sections_of(session) for table in section.tables(session))


def page_tables(section: Section, session: Session) -> tuple[Table, ...]:
    """Returns the tables of a section of the HTML page."""
    return tuple((section.on_page or section.tables)(session))


def setup_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables of the settings, the host, the clients and the servers."""
    return tuple(_measured_on(session))


def terminal_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables that are shown in a terminal."""
    shown = (section.in_terminal or section.tables for section in sections_of(session))
    return tuple(table for tables in shown for table in tables(session))


def heading(session: Session) -> str:
    """Returns the first line of the report."""
    several = f", {len(session.parts)} sessions" if isinstance(session, CombinedSession) else ""
    return f"{session.experiment}: {', '.join(session.versions)}{several}"


def status_line(session: Session) -> str:
    """Returns the status of the session: how many runs ended, when it started, and the tool version."""
    ended = len(session.runs)
    planned = count_text(session.planned_runs, "run")
    progress = planned if ended == session.planned_runs else f"{ended} of {planned}"
    return f"{session.status}, {progress}; started {session.started_at}; tool version {session.tool_version}"
