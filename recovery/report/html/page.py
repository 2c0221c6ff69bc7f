"""Builds the HTML report, with its sections in reading order.

The page is a single file. It loads nothing, escapes all text that comes from outside, and has one script, which adds
Copy buttons. The page's policy allows that script by its hash, and no other.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from recovery.analysis.combined import CombinedSession
from recovery.analysis.opened_files import FAILS, HOLDS, OPENS_ONLY
from recovery.analysis.summary import Cell, is_compared
from recovery.analysis.warnings import CHECKS, doubts_by_cell, findings_of_each_cell, not_checked
from recovery.linux.files import template_dir
from recovery.model import EXTRA_RUN_WORDS, Finding, Session, Table, Verdict
from recovery.phase_table import sorted_phases
from recovery.report import fmt
from recovery.report.answer import Answer
from recovery.report.claims import ClaimVerdict
from recovery.report.html.advice import Advice, advice
from recovery.report.html.parts import (
    Chart,
    FoldedParts,
    LegendEntry,
    PageSection,
    Panels,
    Part,
    TablePart,
    numbered_chart,
    signs_last,
    table_parts,
    unbroken,
)
from recovery.report.html.session_charts import is_phase
from recovery.report.settings_tables import findings_by_hint
from recovery.report.summary_text import advice_of, answer_of
from recovery.report.tables import Section, heading, page_tables, sections_of, status_line

# --- Sections

_MAX_ROWS = 24
"""Most rows of a table that is shown at once; longer ones are folded."""
_MAX_OPEN_TABLES = 2
"""Most tables of hottest functions that are shown at once; if there are more, all are folded."""
_FACTS = ("Settings", "Host")
SPEEDSCOPE = "https://www.speedscope.app"
_SPEEDSCOPE = Markup('<a href="{0}">{0}</a> draws all stacks of a run: drop its file on it, such as <code>{1}</code>.')
Tables = Sequence[Table]


def sections(session: Session) -> tuple[PageSection, ...]:
    """Returns the sections of the page, without empty ones."""
    found = (page_section(section, session) for section in sections_of(session) if section.key != "warnings")
    return tuple(section for section in found if section.parts)


def tidied(section: PageSection) -> PageSection:
    """Returns the section with every title shown once, and so every entry of a legend that its charts share."""
    parts = tuple(_with_headings(section.parts, section.title, [section.title]))
    entries = Counter(entry for chart in _charts(parts) for entry in chart.legend)
    meanings = Counter(entry.css for entry in entries)
    # A sign that means another run in each chart, such as the line of a run, is explained at its chart.
    shared = (entry for entry, times in entries.items() if times > 1 and meanings[entry.css] == 1)
    common = signs_last(shared)
    order = sorted_phases(entry.name for entry in common)
    phases = sorted(filter(is_phase, common), key=lambda entry: order.index(entry.name))
    legend = (*(entry for entry in common if not is_phase(entry)), *phases)
    return replace(section, parts=tuple(_without_entries(part, legend) for part in parts), legend=legend)


def _with_headings(parts: Iterable[Part], title: str, above: list[str]) -> Iterator[Part]:
    """Yields the parts with their headings. These leave out what the section's title or the last heading says."""
    for part in parts:
        if isinstance(part, FoldedParts):
            summary = _heading(part.summary, title, above) or part.summary
            yield replace(part, summary=summary, parts=tuple(_with_headings(part.parts, title, [*above, summary])))
            continue
        own = part.table.title if isinstance(part, TablePart) else part.title
        yield replace(part, heading=_heading(own, title, above))


def _heading(own: str, title: str, above: list[str]) -> str:
    """Returns the heading of a part without the section's title, or nothing if the last heading begins with it."""
    rest = own.removeprefix(title) if title else own
    shown = rest if rest == own else rest.lstrip(":, ")
    if not shown or re.match(rf"{re.escape(shown)}(?:$|[: ])", above[-1], re.IGNORECASE):
        return ""
    above.append(shown)
    return shown if shown == own else shown[0].upper() + shown[1:]


def _charts(parts: Iterable[Part]) -> Iterator[Chart | Panels]:
    for part in parts:
        if isinstance(part, FoldedParts):
            yield from _charts(part.parts)
        elif not isinstance(part, TablePart):
            yield part


def _without_entries(part: Part, entries: Collection[LegendEntry]) -> Part:
    if isinstance(part, FoldedParts):
        return replace(part, parts=tuple(_without_entries(inner, entries) for inner in part.parts))
    if isinstance(part, TablePart):
        return part
    return replace(part, legend=tuple(entry for entry in part.legend if entry not in entries))


def page_section(about: Section, session: Session, *, number: int = 1) -> PageSection:
    """Returns a section with its headings. If a page has several sessions, `number` is that of this one."""
    charts, tables, lead = tuple(about.charts(session)), page_tables(about, session), about.lead
    if about.key == "stacks":
        parts: tuple[Part, ...] = stack_parts(session, tables)
        lead = _drawn_by_speedscope(session)
    elif about.key == "measured-on":
        parts = setup_parts(tables)
    else:
        parts = table_sections(about.key, tables)
    # If the question is what survived a crash, the tables come first and the charts of seconds after them.
    in_order = charts + parts if is_compared(session) else parts + charts
    section = tidied(PageSection(about.key, about.title or session.title, in_order, lead))
    return section if number == 1 else _numbered(section, number)


def _numbered(section: PageSection, number: int) -> PageSection:
    """Returns the section with other names of its parts, because a page must have no name twice."""
    parts = tuple(_numbered_part(part, number) for part in section.parts)
    return replace(section, key=f"{section.key}-{number}", parts=parts)


def _numbered_part(part: Part, number: int) -> Part:
    if isinstance(part, FoldedParts):
        return replace(part, parts=tuple(_numbered_part(inner, number) for inner in part.parts))
    key = f"{part.key}-{number}"
    if isinstance(part, Panels):
        return replace(part, key=key, charts=tuple(numbered_chart(chart, number) for chart in part.charts))
    return numbered_chart(part, number) if isinstance(part, Chart) else replace(part, key=key)


def table_sections(key: str, found: Tables) -> tuple[Part, ...]:
    """Returns the tables as parts of the page, with long ones folded."""
    parts: list[Part] = []
    for number, table in enumerate(found, 1):
        shown = table_parts(f"{key}-{number}", table)
        long = len(table.rows) > _MAX_ROWS
        parts += [FoldedParts(f"{table.title}: {fmt.count_text(len(table.rows), 'row')}", shown)] if long else shown
    return tuple(parts)


def setup_parts(tables: Tables) -> tuple[Part, ...]:
    """Returns the tables of the settings and the host, then the others, folded."""
    shown = [table for table in tables if table.title in _FACTS]
    return (*table_parts("about", *shown), *_folded_each("about", [table for table in tables if table not in shown]))


def stack_parts(session: Session, tables: Tables) -> tuple[Part, ...]:
    """Returns the hottest functions, and the call chains, folded."""
    count = sum(bool(run.stacks.hottest) for run in session.runs)
    hottest, chains = tables[:count], tables[count:]
    shown = table_parts("hottest", *hottest) if count <= _MAX_OPEN_TABLES else _folded_each("hottest", hottest)
    folded = FoldedParts(
        f"Most frequent call chains: {fmt.count_text(len(chains), 'table')}", table_parts("stacks", *chains)
    )
    return (*shown, *((folded,) if chains else ()))


def _drawn_by_speedscope(session: Session) -> str:
    """Returns what draws the stored stacks of a session; empty if no file of them is stored."""
    file = next((run.stacks.file for run in session.runs if run.stacks.file), None)
    return "" if file is None else _SPEEDSCOPE.format(SPEEDSCOPE, fmt.printable(file))


def _folded_each(key: str, found: Tables) -> Iterator[Part]:
    for number, table in enumerate(found, 1):
        yield FoldedParts(table.title, table_parts(f"{key}-{number}", table))


# --- Rendering

PAGE = "report.html"
"""File name of the page, in the folder of the reports."""
GENERATOR = "mysql-recovery-tester site"
"""Is in every page of a site, so that no other file is replaced."""
BADGES = {
    Verdict.MEASURED.value: "good",
    **dict.fromkeys(EXTRA_RUN_WORDS, "plain"),
    Verdict.VOID.value: "doubtful",
    Verdict.FAILED.value: "bad",
    HOLDS: "good",
    OPENS_ONLY: "doubtful",
    FAILS: "bad",
    ClaimVerdict.WEAKER.value: "doubtful",
    ClaimVerdict.NOT.value: "bad",
    ClaimVerdict.OPPOSITE.value: "bad",
    ClaimVerdict.INCONCLUSIVE.value: "doubtful",
}
"""CSS class of a table cell that is a verdict, which adds a colour to the word."""


@dataclass(frozen=True)
class SiteLinks:
    """Relative links from the page of a session to other pages of its site."""

    question: str
    """To the page of its question."""
    others: tuple[tuple[str, str], ...]
    """To other pages, with their names."""
    is_public: bool = False
    """Whether search engines may list the page."""


def render(session: Session, *, site: SiteLinks | None = None) -> str:
    """Returns the whole page. `site` is as in PageContent."""
    return render_content(
        PageContent(
            question=session.question,
            heading=heading(session),
            state=status_line(session),
            answer=answer_of(session),
            doubted=doubts_by_cell(session),
            # Those of each cell, which the answer counts, and not the merged ones of the reports as text.
            findings=findings_of_each_cell(session),
            sections=sections(session),
            notes=session.notes,
            commands=(session.command,),
            source=f"report.json {'of each session' if isinstance(session, CombinedSession) else 'in the same folder'}",
            tool_version=session.tool_version,
            not_checked=not_checked(session),
            advice_of=advice_of(session),
            advice=advice(session),
            site=site,
        )
    )


@dataclass(frozen=True, kw_only=True)
class PageContent:
    """What a page shows: of a session, or of the hosts of a fleet."""

    question: str
    heading: str
    state: str
    answer: Answer
    findings: tuple[Finding, ...]
    sections: tuple[PageSection, ...]
    """Those from `measured-on` on come after the warnings."""
    notes: tuple[str, ...]
    commands: tuple[str, ...]
    """Those that repeat it."""
    source: str
    """What the page is made from."""
    tool_version: str
    not_checked: str | None = None
    advice_of: str | None = None
    advice: tuple[Advice, ...] = ()
    pages: tuple[tuple[str, str], ...] = ()
    """Names and relative links of the pages of single sessions."""
    site: SiteLinks | None = None
    """The site that the page is in; None if it stands alone."""
    doubted: Mapping[Cell, tuple[str, ...]] = field(default_factory=dict)
    """The warnings about the figures of single cells."""


def render_content(content: PageContent) -> str:
    by_hint = findings_by_hint(content.findings)
    numbers = {hint: number for number, (hint, _) in enumerate(by_hint, 1)}
    return rendered(f"{PAGE}.j2", page=content, findings=by_hint, numbers=numbers, checks=len(CHECKS), badges=BADGES)


def rendered(name: str, **values: object) -> str:
    """Returns a page without hidden characters, wherever they come from: also those of titles and drawings, whose text
    is markup already."""
    return fmt.without_hidden(template(name).render(values))


@cache
def template(name: str) -> Template:
    """Returns one of the tool's templates, with autoescaping on. It knows the pages' scripts and their
    hashes."""
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
    environment.filters["unbroken"] = unbroken
    environment.globals["generator"] = GENERATOR
    for prefix in ("", "site_"):
        script, *_ = loader.get_source(environment, "report.js" if not prefix else "site.js")
        environment.globals |= {
            f"{prefix}script": Markup(script),  # noqa: S704 - a file of the tool, with nothing from outside in it
            f"{prefix}script_hash": b64encode(sha256(script.encode()).digest()).decode(),
        }
    return environment.get_template(name)


def _printable(value: object) -> object:
    """Returns a text as one line without control characters. Markup is unchanged."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return fmt.plus_minus(fmt.printable(value))
