"""What stands on the page, and in which order? Every figure of the other reports, and charts beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recovery.measures import is_work
from recovery.report.doubts import findings_tables
from recovery.report.floor import floor_table
from recovery.report.hottest import hottest_tables
from recovery.report.html.about import about_parts
from recovery.report.html.bars import startup_chart
from recovery.report.html.growth import growth_charts
from recovery.report.html.parts import Chart, Section, grids
from recovery.report.html.reads import floor_chart, reads_chart
from recovery.report.html.stacked import phases_chart
from recovery.report.html.stacks import stack_parts
from recovery.report.html.timeline import timelines
from recovery.report.html.worked import work_sections
from recovery.report.phases import phase_table
from recovery.report.scale import scale_tables
from recovery.report.stacks import stacks_tables
from recovery.report.tables import figures_of
from recovery.report.timing import timing_tables
from recovery.report.touched import CLAIM, touched_table
from recovery.stored import Session


def sections(session: Session, flames: Mapping[int, str]) -> tuple[Section, ...]:
    """Without those that would be empty. `flames` are pictures by the number of the run."""
    found = work_sections(session, flames) if is_work(session) else _sections(session, flames)
    return tuple(section for section in found if section.parts)


def _sections(session: Session, flames: Mapping[int, str]) -> Iterator[Section]:
    timing = tuple(timing_tables(session))
    scale = scale_tables(session)
    phases, touched, floor = phase_table(session), touched_table(session), floor_table(session)
    hot, chains = hottest_tables(session), stacks_tables(session)
    if scale:
        yield Section("growth", "Growth", (*growth_charts(session), *grids("growth", *scale)))
        yield Section("startup", "Startup", grids("startup", *timing))
    else:
        yield Section("startup", "Startup", (*_there(startup_chart(session)), *grids("startup", *timing)))
    yield Section("phases", "Where the time went", (*_there(phases_chart(session)), *grids("phases", phases)))
    yield Section("reads", "Reads", _there(reads_chart(session)))
    yield Section("floor", "The floor", (*_there(floor_chart(session)), *grids("floor", floor)))
    yield Section("touched", "Files touched", grids("touched", touched), f"The documentation says: {CLAIM}.")
    yield Section("timeline", "Timeline", timelines(session), "Looks at the starting server, in its median run.")
    yield Section("stacks", "Stacks", stack_parts(session, flames, hot, chains))
    placed = (*timing, *scale, *(phases, touched, floor), *hot, *chains, *findings_tables(session))
    figures = figures_of(session)
    yield Section("runs", "Every run", grids("runs", *(table for table in figures if table not in placed)))
    yield Section("measured-on", "Measured on", about_parts(session, (*figures, *placed)))


def _there(chart: Chart | None) -> tuple[Chart, ...]:
    return () if chart is None else (chart,)
