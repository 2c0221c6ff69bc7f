"""Builds the HTML report, with its sections in reading order.

The page is a single file. It loads nothing, runs no scripts, and escapes all text that comes from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from recovery.analysis.summary import groups, is_load_session
from recovery.analysis.warnings import checks_of, not_checked
from recovery.linux.files import template_dir
from recovery.model import Session, Table, Verdict
from recovery.report import fmt
from recovery.report.crash_tables import is_crash_session, is_damage_session
from recovery.report.html.cell_bars import cell_bars
from recovery.report.html.growth_charts import growth_charts
from recovery.report.html.load_read_charts import page_size_charts
from recovery.report.html.load_timelines import load_timelines
from recovery.report.html.phase_bars import phases_chart
from recovery.report.html.read_charts import floor_chart, reads_chart
from recovery.report.html.scaling_charts import scaling_charts
from recovery.report.html.startup_bars import startup_chart
from recovery.report.html.svg import Chart, FoldedParts, Part, Section, table_parts
from recovery.report.html.timelines import startup_timelines
from recovery.report.load_tables import axis_tables, device_read_tables, durations_table, main_tables, version_tables
from recovery.report.server_tables import internal_figure_tables
from recovery.report.settings_tables import findings_by_hint, findings_tables
from recovery.report.startup_tables import (
    CLAIM,
    FAILS,
    HOLDS,
    OPENS_ONLY,
    floor_table,
    hottest_tables,
    phase_table,
    scale_tables,
    stacks_tables,
    touched_table,
)
from recovery.report.summary_text import answers
from recovery.report.tables import all_tables, figure_tables, heading, status_line, timing_tables

# --- Settings, host and servers

_FACTS = ("Settings", "Host")


def setup_parts(session: Session, placed: tuple[Table | None, ...]) -> tuple[Part, ...]:
    """Returns all tables that are not elsewhere on the page. Settings and host are shown at once, the rest is
    folded."""
    rest = [table for table in all_tables(session) if table not in placed]
    shown = [table for table in rest if table.title in _FACTS]
    folded = [table for table in rest if table.title not in _FACTS]
    each = (FoldedParts(table.title, table_parts(f"about-{number}", table)) for number, table in enumerate(folded))
    return (*table_parts("about", *shown), *each)


# --- Stacks: hottest functions, a flame graph for each sampled run, and call chains

_MAX_OPEN_TABLES = 2
"""Most tables of hottest functions that are shown at once; if there are more, all are folded."""
Tables = tuple[Table, ...]


def stack_parts(session: Session, flames: Mapping[int, str], hottest: Tables, chains: Tables) -> tuple[Part, ...]:
    """Returns the parts that show sampled stacks. `flames` has a flame graph by the number of the run."""
    functions = (
        table_parts("hottest", *hottest) if len(hottest) <= _MAX_OPEN_TABLES else _folded_each("hottest", hottest)
    )
    return (*functions, *_flames(session, flames), *_folded("Chains seen most", "stacks", chains))


def _flames(session: Session, flames: Mapping[int, str]) -> Iterator[Part]:
    for run in session.runs:
        if run.number in flames:
            title = f"Flame graph of run {run.number}, {run.version} {run.variant}"
            # Drawn by svg.flame(), which escapes every name in it.
            drawing = Markup(flames[run.number])  # noqa: S704
            note = "From above: the phase, the thread, and what called what; as wide as it was seen often."
            yield FoldedParts(title, (Chart(f"flame-{run.number}", title, drawing, notes=(note,), wide=True),))


def _folded_each(key: str, found: Tables) -> tuple[Part, ...]:
    return tuple(
        FoldedParts(table.title, table_parts(f"{key}-{number}", table)) for number, table in enumerate(found, 1)
    )


def _folded(summary: str, key: str, found: Tables) -> tuple[Part, ...]:
    return (FoldedParts(f"{summary}: {len(found)} tables", table_parts(key, *found)),) if found else ()


# --- Sections for servers under load

_MAX_ROWS = 24
"""Most rows of a table that is shown at once; longer ones are folded."""


def load_sections(session: Session, flames: Mapping[int, str]) -> Iterator[Section]:
    """Yields the sections of a session under load, in reading order."""
    figures, versions = main_tables(session), tuple(version_tables(session))
    axes, inside = tuple(axis_tables(session)), tuple(internal_figure_tables(session))
    judged = is_crash_session(session) or is_damage_session(session)
    asked = None if judged else durations_table(session)
    reads = tuple(device_read_tables(session))
    first = () if asked is None else table_parts("asked", asked)
    charts, tables = tuple(_charts(session)), _tables("figures", figures)
    # If the question is what survived a crash, the tables come first and the charts of seconds after them.
    yield Section("figures", session.title, (*first, *(tables + charts if judged else charts + tables)))
    yield Section("reads", "Reads", (*page_size_charts(session), *_tables("reads", reads)))
    yield Section("axes", "What makes a difference", _tables("axes", axes))
    yield Section("versions", "Versions", _tables("versions", versions))
    lead = "The median run of each cell. A counter's line is its growth a second; measuring begins at 0."
    yield Section("over-time", "Over time", load_timelines(session), lead)
    yield Section("inside", "What went on inside", _tables("inside", inside))
    hot, chains = hottest_tables(session), stacks_tables(session)
    yield Section("stacks", "Stacks", stack_parts(session, flames, hot, chains))
    placed = (asked, *figures, *reads, *versions, *axes, *inside, *hot, *chains, *findings_tables(session))
    found = figure_tables(session)
    rest = tuple(table for table in found if table not in placed)
    yield Section("runs", "Every run", _tables("runs", rest))
    elsewhere = (*found, *(table for table in placed if table is not None))
    yield Section("measured-on", "Measured on", setup_parts(session, elsewhere))


def _charts(session: Session) -> Iterator[Part]:
    """Yields a chart for each group: lines if an axis has enough numeric values, else bars."""
    for number, group in enumerate(groups(session), 1):
        drawn = scaling_charts(session, group, f"scaling-{number}") or cell_bars(session, group, f"bars-{number}")
        if drawn is not None:
            yield drawn


def _tables(key: str, found: tuple[Table, ...]) -> tuple[Part, ...]:
    """Returns the tables as parts of the page, with long ones folded."""
    parts: list[Part] = []
    for number, table in enumerate(found, 1):
        shown = table_parts(f"{key}-{number}", table)
        long = len(table.rows) > _MAX_ROWS
        parts += [FoldedParts(f"{table.title}: {len(table.rows)} rows", shown)] if long else shown
    return tuple(parts)


# --- All sections: every figure of the other reports, and charts


def sections(session: Session, flames: Mapping[int, str]) -> tuple[Section, ...]:
    """Returns the sections of the page, without empty ones. `flames` has a flame graph by the number of the run."""
    found = load_sections(session, flames) if is_load_session(session) else _startup_sections(session, flames)
    return tuple(section for section in found if section.parts)


def _startup_sections(session: Session, flames: Mapping[int, str]) -> Iterator[Section]:
    timing = tuple(timing_tables(session))
    scale = scale_tables(session)
    phases, touched, floor = phase_table(session), touched_table(session), floor_table(session)
    hot, chains = hottest_tables(session), stacks_tables(session)
    if scale:
        yield Section("growth", "Growth", (*growth_charts(session), *table_parts("growth", *scale)))
        yield Section("startup", "Startup", table_parts("startup", *timing))
    else:
        yield Section("startup", "Startup", (*_present(startup_chart(session)), *table_parts("startup", *timing)))
    yield Section("phases", "Where the time went", (*_present(phases_chart(session)), *table_parts("phases", phases)))
    yield Section("reads", "Reads", _present(reads_chart(session)))
    yield Section("floor", "The floor", (*_present(floor_chart(session)), *table_parts("floor", floor)))
    yield Section("touched", "Files touched", table_parts("touched", touched), f"The documentation says: {CLAIM}.")
    yield Section(
        "timeline", "Timeline", startup_timelines(session), "Looks at the starting server, in its median run."
    )
    yield Section("stacks", "Stacks", stack_parts(session, flames, hot, chains))
    placed = (*timing, *scale, *(phases, touched, floor), *hot, *chains, *findings_tables(session))
    figures = figure_tables(session)
    yield Section("runs", "Every run", table_parts("runs", *(table for table in figures if table not in placed)))
    yield Section("measured-on", "Measured on", setup_parts(session, (*figures, *placed)))


def _present(chart: Chart | None) -> tuple[Chart, ...]:
    return () if chart is None else (chart,)


# --- Rendering

PAGE = "report.html"
"""File name of the page, in the folder of the reports."""
_BADGES = {
    Verdict.MEASURED.value: "good",
    Verdict.SAMPLED.value: "plain",
    Verdict.VOID.value: "doubtful",
    Verdict.FAILED.value: "bad",
    HOLDS: "good",
    OPENS_ONLY: "doubtful",
    FAILS: "bad",
}
"""CSS class of a table cell that is a verdict, which adds a colour to the word."""


def render(session: Session, flames: Mapping[int, str] | None = None) -> str:
    """Returns the whole page. `flames` has a flame graph by the number of the run."""
    return template(f"{PAGE}.j2").render(
        session=session,
        heading=heading(session),
        state=status_line(session),
        answers=[_split_version(answer, session.versions) for answer in answers(session)],
        findings=findings_by_hint(session),
        checks=len(checks_of(session)),
        not_looked_at=not_checked(session),
        sections=sections(session, flames or {}),
        badges=_BADGES,
        at_work=is_load_session(session),
    )


@cache
def template(name: str) -> Template:
    """Returns one of the tool's templates, with autoescaping on."""
    # Autoescaping is forced, because Jinja would not choose it by the ending `.html.j2`.
    environment = Environment(
        loader=FileSystemLoader(template_dir()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    return environment.get_template(name)


def _printable(value: object) -> object:
    """Returns a text as one line without control characters. Markup is unchanged."""
    return fmt.printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _split_version(answer: str, versions: tuple[str, ...]) -> tuple[str, str]:
    """Splits a sentence into the version that it begins with and the rest."""
    first = max((version for version in versions if answer.startswith(version)), key=len, default="")
    return first, answer[len(first) :]
