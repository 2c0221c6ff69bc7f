"""Selects the tables of a report and their order.

The results come first, then every run and the warnings, then the settings, the host and the servers.
"""

from __future__ import annotations

from collections.abc import Iterable

from recovery.model import Session, Table
from recovery.report.crash_tables import crash_tables, damage_table, is_crash_session, is_damage_session
from recovery.report.metric_tables import (
    axis_tables,
    clients_table,
    device_read_tables,
    durations_table,
    runs_table,
    summary_tables,
    table_creation_table,
    version_tables,
)
from recovery.report.server_tables import internal_metric_tables, waits_table
from recovery.report.settings_tables import findings_tables, not_counted, server_option_tables, settings_and_host_tables
from recovery.report.startup_tables import (
    floor_table,
    hottest_tables,
    phase_table,
    scale_tables,
    stacks_tables,
    touched_table,
)

_MAX_TERMINAL_RUNS = 24
"""A terminal shows the table of runs up to this number."""


def all_tables(session: Session) -> tuple[Table, ...]:
    """Returns all tables of a session, in reading order."""
    return (
        *figure_tables(session),
        *settings_and_host_tables(session),
        *present(clients_table(session)),
        *server_option_tables(session),
    )


def figure_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables of what was measured."""
    return (
        *_results(session),
        *internal_metric_tables(session),
        *present(waits_table(session)),
        *hottest_tables(session),
        *stacks_tables(session),
        runs_table(session),
        *not_counted(session),
        *findings_tables(session),
    )


def terminal_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables that are shown in a terminal. The server's internal metrics would fill many screens and are
    only in the report files."""
    runs = (runs_table(session),) if len(session.runs) <= _MAX_TERMINAL_RUNS else ()
    return (*_results(session), *runs, *not_counted(session), *findings_tables(session))


def _results(session: Session) -> tuple[Table, ...]:
    """Returns the tables of the main metric and its comparisons, and what explains it."""
    if is_judged(session):
        return main_tables(session)
    return (
        *present(durations_table(session)),
        *main_tables(session),
        *device_read_tables(session),
        *version_tables(session),
        *axis_tables(session),
        *scale_tables(session),
        *present(phase_table(session), touched_table(session), floor_table(session), table_creation_table(session)),
    )


def is_judged(session: Session) -> bool:
    """Returns whether the session asks what survived rather than how long something took."""
    return is_damage_session(session) or is_crash_session(session)


def main_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables of the main results for each version and cell."""
    if is_damage_session(session):
        return (damage_table(session),)
    return tuple(crash_tables(session) if is_crash_session(session) else summary_tables(session))


def present(*tables: Table | None) -> Iterable[Table]:
    return (table for table in tables if table is not None)


def heading(session: Session) -> str:
    """Returns the first line of the report."""
    return f"{session.scenario}: {', '.join(session.versions)}"


def status_line(session: Session) -> str:
    """Returns the status of the session: how many runs ended, when it started, and the tool version."""
    ended = len(session.runs)
    all_of_them = "1 run" if ended == 1 else f"{ended} runs"
    progress = all_of_them if ended == session.planned_runs else f"{ended} of {session.planned_runs} runs"
    return f"{session.status}, {progress}; started {session.started_at}; tool version {session.tool_version}"
