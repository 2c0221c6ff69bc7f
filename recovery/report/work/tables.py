"""Which tables make the report of a server at work? The figure, what it is held against, what went on, every run."""

from __future__ import annotations

from recovery.quantities import quantity
from recovery.report.about import not_counted
from recovery.report.doubts import findings_tables
from recovery.report.hottest import hottest_tables
from recovery.report.stacks import stacks_tables
from recovery.report.work.against import axis_tables, version_tables
from recovery.report.work.asked import asked_table
from recovery.report.work.building import building_table
from recovery.report.work.crashes import about_crashes, crash_tables
from recovery.report.work.damaged import about_damage, damaged_table
from recovery.report.work.inside import inside_tables
from recovery.report.work.middle import middle_tables
from recovery.report.work.reads import reads_tables
from recovery.report.work.runs import clients_table, runs_table
from recovery.report.work.waits import waits_table
from recovery.stored import Session, Table

_MOST_RUNS = 24


def work_figures(session: Session) -> tuple[Table, ...]:
    """What was measured."""
    waits = waits_table(session)
    return (
        *_first(session),
        *inside_tables(session),
        *(() if waits is None else (waits,)),
        *hottest_tables(session),
        *stacks_tables(session),
        runs_table(session),
        *_last(session),
    )


def work_in_short(session: Session) -> tuple[Table, ...]:
    """For a terminal: what went on inside would fill many screens, and is in the files."""
    runs = (runs_table(session),) if len(session.runs) <= _MOST_RUNS else ()
    return (*_first(session), *runs, *_last(session))


def _first(session: Session) -> tuple[Table, ...]:
    """The figure, and what it is held against."""
    if about_damage(session) or about_crashes(session):
        return main_tables(session)
    built = building_table(session) if quantity(session.figure).unit == "s" else None
    asked = asked_table(session)
    return (
        *(() if asked is None else (asked,)),
        *main_tables(session),
        *reads_tables(session),
        *version_tables(session),
        *axis_tables(session),
        *(() if built is None else (built,)),
    )


def main_tables(session: Session) -> tuple[Table, ...]:
    """What each version came to in each cell."""
    if about_damage(session):
        return (damaged_table(session),)
    return tuple(crash_tables(session) if about_crashes(session) else middle_tables(session))


def _last(session: Session) -> tuple[Table, ...]:
    return (*not_counted(session), *findings_tables(session))


def work_about(session: Session) -> tuple[Table, ...]:
    """By what it was measured, beside host and servers."""
    clients = clients_table(session)
    return () if clients is None else (clients,)
