"""What stands on the page of a server at work, and in which order?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recovery.cells import groups
from recovery.report.doubts import findings_tables
from recovery.report.hottest import hottest_tables
from recovery.report.html.about import about_parts
from recovery.report.html.against_reads import reads_charts
from recovery.report.html.cellbars import cell_bars
from recovery.report.html.overtime import over_time
from recovery.report.html.parts import Fold, Part, Section, grids
from recovery.report.html.scaling import scaling_charts
from recovery.report.html.stacks import stack_parts
from recovery.report.stacks import stacks_tables
from recovery.report.tables import figures_of
from recovery.report.work.against import axis_tables, version_tables
from recovery.report.work.asked import asked_table
from recovery.report.work.crashes import about_crashes
from recovery.report.work.damaged import about_damage
from recovery.report.work.inside import inside_tables
from recovery.report.work.reads import reads_tables
from recovery.report.work.tables import main_tables
from recovery.stored import Session, Table

_MOST_ROWS = 24
"""Of a table that is shown at once."""


def work_sections(session: Session, flames: Mapping[int, str]) -> Iterator[Section]:
    figures, versions = main_tables(session), tuple(version_tables(session))
    axes, inside = tuple(axis_tables(session)), tuple(inside_tables(session))
    judged = about_crashes(session) or about_damage(session)
    asked = None if judged else asked_table(session)
    reads = tuple(reads_tables(session))
    first = () if asked is None else grids("asked", asked)
    charts, tables = tuple(_charts(session)), _tables("figures", figures)
    # Where it is asked what survived, the seconds come after.
    yield Section("figures", session.title, (*first, *(tables + charts if judged else charts + tables)))
    yield Section("reads", "Reads", (*reads_charts(session), *_tables("reads", reads)))
    yield Section("axes", "What makes a difference", _tables("axes", axes))
    yield Section("versions", "Versions", _tables("versions", versions))
    lead = "The median run of each cell. A counter's line is its growth a second; measuring begins at 0."
    yield Section("over-time", "Over time", over_time(session), lead)
    yield Section("inside", "What went on inside", _tables("inside", inside))
    hot, chains = hottest_tables(session), stacks_tables(session)
    yield Section("stacks", "Stacks", stack_parts(session, flames, hot, chains))
    placed = (asked, *figures, *reads, *versions, *axes, *inside, *hot, *chains, *findings_tables(session))
    found = figures_of(session)
    rest = tuple(table for table in found if table not in placed)
    yield Section("runs", "Every run", _tables("runs", rest))
    elsewhere = (*found, *(table for table in placed if table is not None))
    yield Section("measured-on", "Measured on", about_parts(session, elsewhere))


def _charts(session: Session) -> Iterator[Part]:
    """Lines where an axis has numbers enough, else bars."""
    for number, group in enumerate(groups(session), 1):
        drawn = scaling_charts(session, group, f"scaling-{number}") or cell_bars(session, group, f"bars-{number}")
        if drawn is not None:
            yield drawn


def _tables(key: str, found: tuple[Table, ...]) -> tuple[Part, ...]:
    """Long ones are folded."""
    parts: list[Part] = []
    for number, table in enumerate(found, 1):
        shown = grids(f"{key}-{number}", table)
        long = len(table.rows) > _MOST_ROWS
        parts += [Fold(f"{table.title}: {len(table.rows)} rows", shown)] if long else shown
    return tuple(parts)
