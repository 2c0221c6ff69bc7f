"""Builds the HTML report, with its sections in reading order.

The page is a single file. It loads nothing, escapes all text that comes from outside, and has one script, which adds
Copy buttons. The page's policy allows that script by its hash, and no other.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from recovery.analysis.summary import is_compared
from recovery.analysis.warnings import CHECKS, not_checked
from recovery.linux.files import template_dir
from recovery.model import Session, Table, Verdict
from recovery.report import fmt
from recovery.report.html.svg import Chart, FoldedParts, PageSection, Part, table_parts
from recovery.report.settings_tables import findings_by_hint, findings_line
from recovery.report.summary_text import FAILS, HOLDS, OPENS_ONLY, answers
from recovery.report.tables import SECTIONS, Section, heading, section_tables, status_line

# --- Sections

_MAX_ROWS = 24
"""Most rows of a table that is shown at once; longer ones are folded."""
_MAX_OPEN_TABLES = 2
"""Most tables of hottest functions that are shown at once; if there are more, all are folded."""
_FACTS = ("Settings", "Host")
Tables = Sequence[Table]


def sections(session: Session, flames: Mapping[int, str]) -> tuple[PageSection, ...]:
    """Returns the sections of the page, without empty ones. `flames` has a flame graph by the number of the run."""
    found = (_section(section, session, flames) for section in SECTIONS if section.key != "warnings")
    return tuple(section for section in found if section.parts)


def _section(about: Section, session: Session, flames: Mapping[int, str]) -> PageSection:
    charts = tuple(chart for source in about.charts for chart in source.of(session))
    tables = tuple(section_tables(about, session, on_page=True))
    if about.key == "stacks":
        parts: tuple[Part, ...] = stack_parts(session, flames, tables)
    elif about.key == "measured-on":
        parts = setup_parts(tables)
    else:
        parts = _tables(about.key, tables)
    # If the question is what survived a crash, the tables come first and the charts of seconds after them.
    in_order = charts + parts if is_compared(session) else parts + charts
    return PageSection(about.key, about.title or session.title, in_order, about.lead)


def _tables(key: str, found: Tables) -> tuple[Part, ...]:
    """Returns the tables as parts of the page, with long ones folded."""
    parts: list[Part] = []
    for number, table in enumerate(found, 1):
        shown = table_parts(f"{key}-{number}", table)
        long = len(table.rows) > _MAX_ROWS
        parts += [FoldedParts(f"{table.title}: {len(table.rows)} rows", shown)] if long else shown
    return tuple(parts)


def setup_parts(tables: Tables) -> tuple[Part, ...]:
    """Returns the tables of the settings and the host, then the others, folded."""
    shown = [table for table in tables if table.title in _FACTS]
    return (*table_parts("about", *shown), *_folded_each("about", [table for table in tables if table not in shown]))


def stack_parts(session: Session, flames: Mapping[int, str], tables: Tables) -> tuple[Part, ...]:
    """Returns the hottest functions, a flame graph for each sampled run, and the call chains, folded."""
    count = sum(bool(run.hottest) for run in session.runs)
    hottest, chains = tables[:count], tables[count:]
    shown = table_parts("hottest", *hottest) if count <= _MAX_OPEN_TABLES else _folded_each("hottest", hottest)
    folded = FoldedParts(f"Most frequent call chains: {len(chains)} tables", table_parts("stacks", *chains))
    return (*shown, *_flames(session, flames), *((folded,) if chains else ()))


def _flames(session: Session, flames: Mapping[int, str]) -> Iterator[Part]:
    for run in session.runs:
        if run.number in flames:
            title = f"Flame graph of run {run.number}, {run.version} {run.variant}"
            # Drawn by svg.flame(), which escapes every name in it.
            drawing = Markup(flames[run.number])  # noqa: S704
            note = "From top to bottom: phase, thread, and calls. The width is the number of samples."
            yield FoldedParts(title, (Chart(f"flame-{run.number}", title, drawing, notes=(note,), wide=True),))


def _folded_each(key: str, found: Tables) -> Iterator[Part]:
    for number, table in enumerate(found, 1):
        yield FoldedParts(table.title, table_parts(f"{key}-{number}", table))


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
