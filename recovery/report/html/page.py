"""Builds the HTML report, with its sections in reading order.

The page is a single file. It loads nothing, escapes all text that comes from outside, and has one script, which adds
Copy buttons. The page's policy allows that script by its hash, and no other.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from recovery.analysis.growth import growth_curves
from recovery.analysis.summary import groups
from recovery.analysis.warnings import CHECKS, not_checked
from recovery.linux.files import template_dir
from recovery.model import Session, Table, Verdict
from recovery.report import fmt
from recovery.report.html.cell_bars import cell_bars
from recovery.report.html.growth_charts import growth_charts
from recovery.report.html.load_read_charts import page_size_charts
from recovery.report.html.phase_bars import phases_chart
from recovery.report.html.read_charts import floor_chart, reads_chart
from recovery.report.html.scaling_charts import scaling_charts
from recovery.report.html.svg import Chart, FoldedParts, Part, Section, table_parts
from recovery.report.html.timelines import timelines
from recovery.report.metric_tables import axis_tables, device_read_tables, durations_table, version_tables
from recovery.report.server_tables import internal_metric_tables
from recovery.report.settings_tables import findings_by_hint, findings_line, findings_tables
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
from recovery.report.tables import all_tables, figure_tables, heading, is_judged, main_tables, status_line

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
    return (*functions, *_flames(session, flames), *_folded("Most frequent call chains", "stacks", chains))


def _flames(session: Session, flames: Mapping[int, str]) -> Iterator[Part]:
    for run in session.runs:
        if run.number in flames:
            title = f"Flame graph of run {run.number}, {run.version} {run.variant}"
            # Drawn by svg.flame(), which escapes every name in it.
            drawing = Markup(flames[run.number])  # noqa: S704
            note = "From top to bottom: phase, thread, and calls. The width is the number of samples."
            yield FoldedParts(title, (Chart(f"flame-{run.number}", title, drawing, notes=(note,), wide=True),))


def _folded_each(key: str, found: Tables) -> tuple[Part, ...]:
    return tuple(
        FoldedParts(table.title, table_parts(f"{key}-{number}", table)) for number, table in enumerate(found, 1)
    )


def _folded(summary: str, key: str, found: Tables) -> tuple[Part, ...]:
    return (FoldedParts(f"{summary}: {len(found)} tables", table_parts(key, *found)),) if found else ()


# --- Sections

_MAX_ROWS = 24
"""Most rows of a table that is shown at once; longer ones are folded."""


def _charts(*charts: Chart | None) -> tuple[Chart, ...]:
    return tuple(chart for chart in charts if chart is not None)


def _main_charts(session: Session) -> Iterator[Part]:
    """Yields the growth charts, or a chart for each group: lines if an axis has enough numeric values, else bars."""
    if growth_curves(session):
        yield from growth_charts(session)
        return
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


def sections(session: Session, flames: Mapping[int, str]) -> tuple[Section, ...]:
    """Returns the sections of the page, without empty ones. `flames` has a flame graph by the number of the run."""
    return tuple(section for section in _sections(session, flames) if section.parts)


def _sections(session: Session, flames: Mapping[int, str]) -> Iterator[Section]:
    """Yields the sections in reading order."""
    judged = is_judged(session)
    durations = None if judged else durations_table(session)
    main, scale = main_tables(session), scale_tables(session)
    charts, tables = tuple(_main_charts(session)), (*table_parts("durations", durations), *_tables("figures", main))
    # If the question is what survived a crash, the tables come first and the charts of seconds after them.
    yield Section("figures", session.title, tables + charts if judged else charts + tables)
    yield Section("growth", "Growth", table_parts("growth", *scale))
    axes, versions = tuple(axis_tables(session)), () if judged else tuple(version_tables(session))
    yield Section("axes", "Effects of the settings", _tables("axes", axes))
    yield Section("versions", "Versions compared", _tables("versions", versions))
    phases, touched, floor = phase_table(session), touched_table(session), floor_table(session)
    yield Section("phases", "Phases of the start", (*_charts(phases_chart(session)), *table_parts("phases", phases)))
    reads = tuple(device_read_tables(session))
    drawn_reads = (*_charts(reads_chart(session)), *page_size_charts(session))
    yield Section("reads", "Reads", (*drawn_reads, *_tables("reads", reads)))
    yield Section("floor", "Storage floor", (*_charts(floor_chart(session)), *table_parts("floor", floor)))
    yield Section("touched", "Files touched", table_parts("touched", touched), f"The documentation says: {CLAIM}.")
    lead = "The median run of each cell, sample by sample."
    yield Section("over-time", "Over time", timelines(session), lead)
    inside = tuple(internal_metric_tables(session))
    yield Section("inside", "Inside the server", _tables("inside", inside))
    hot, chains = hottest_tables(session), stacks_tables(session)
    yield Section("stacks", "Stacks", stack_parts(session, flames, hot, chains))
    placed = (
        durations, *main, *scale, *axes, *versions, phases, touched, floor, *reads, *inside, *hot, *chains,
        *findings_tables(session),
    )  # fmt: skip
    figures = figure_tables(session)
    yield Section("runs", "Every run", _tables("runs", tuple(table for table in figures if table not in placed)))
    yield Section("measured-on", "Measured on", setup_parts(session, (*figures, *placed)))


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
        findings_line="".join(findings_line(session)),
        checks=len(CHECKS),
        not_checked=not_checked(session),
        sections=sections(session, flames or {}),
        badges=_BADGES,
    )


@cache
def template(name: str) -> Template:
    """Returns one of the tool's templates, with autoescaping on. It knows the pages' script and its hash."""
    # Autoescaping is forced, because Jinja would not choose it by the ending `.html.j2`.
    loader = FileSystemLoader(template_dir())
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    script, *_ = loader.get_source(environment, "report.js")
    environment.globals |= {
        "script": Markup(script),  # noqa: S704 - a file of the tool, with nothing from outside in it
        "script_hash": b64encode(sha256(script.encode()).digest()).decode(),
    }
    return environment.get_template(name)


def _printable(value: object) -> object:
    """Returns a text as one line without control characters. Markup is unchanged."""
    return fmt.printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _split_version(answer: str, versions: tuple[str, ...]) -> tuple[str, str]:
    """Splits a sentence into the version that it begins with and the rest."""
    first = max((version for version in versions if answer.startswith(version)), key=len, default="")
    return first, answer[len(first) :]
