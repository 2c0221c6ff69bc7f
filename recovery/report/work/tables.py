"""Which tables make the report of a server at work? The figure, what it is held against, what went on, every run."""

from __future__ import annotations

from recovery.quantities import quantity
from recovery.report.about import not_counted
from recovery.report.doubts import findings_tables
from recovery.report.stacks import stacks_tables
from recovery.report.work.against import axis_tables, version_tables
from recovery.report.work.building import building_table
from recovery.report.work.inside import inside_tables
from recovery.report.work.middle import middle_tables
from recovery.report.work.runs import clients_table, runs_table
from recovery.report.work.waits import waits_table
from recovery.stored import Session, Table

_MOST_RUNS = 24


def work_figures(session: Session) -> tuple[Table, ...]:
    """What was measured."""
    built = building_table(session) if quantity(session.figure).unit == "s" else None
    waits = waits_table(session)
    return (
        *middle_tables(session),
        *version_tables(session),
        *axis_tables(session),
        *(() if built is None else (built,)),
        *inside_tables(session),
        *(() if waits is None else (waits,)),
        *stacks_tables(session),
        runs_table(session),
        *not_counted(session),
        *findings_tables(session),
    )


def work_in_short(session: Session) -> tuple[Table, ...]:
    """For a terminal: what went on inside would fill many screens, and is in the files."""
    left = {*inside_tables(session), waits_table(session), *stacks_tables(session)}
    if len(session.runs) > _MOST_RUNS:
        left.add(runs_table(session))
    return tuple(table for table in work_figures(session) if table not in left)


def work_about(session: Session) -> tuple[Table, ...]:
    """By what it was measured, beside host and servers."""
    clients = clients_table(session)
    return () if clients is None else (clients,)
