"""Builds the pages about all sessions of a results folder: the index, a page for each question, and the published
experiments.

A session is reduced to a `SiteSession` as soon as its own page is made, so that one session at a time is in memory.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice

from markupsafe import Markup

from recovery.analysis.basis import Basis, count_days
from recovery.analysis.history import (
    CellDesign,
    Setting,
    cell_design,
    setting_of,
    unusual_settings,
)
from recovery.analysis.statistics import MIN_RUNS, MIN_SESSIONS, MIN_SESSIONS_OF_A_MEAN, over_sessions
from recovery.analysis.summary import Summary, cell_words, is_compared, runs_by_cell, summarise
from recovery.analysis.warnings import doubts_by_cell, findings_of_each_cell
from recovery.linux.cgroups import limits_text
from recovery.metrics import Metric, metric
from recovery.model import (
    SECOND_START,
    STARTUP_METRIC,
    Cache,
    Finding,
    Limits,
    Session,
    Settings,
    Status,
    Table,
    Verdict,
    limits_from_settings,
    parse_version,
    stored_number,
)
from recovery.report import fmt
from recovery.report.claims import Answer, ClaimVerdict, Publication, answer_claims
from recovery.report.csv_report import csv_text
from recovery.report.host_words import stronger_words
from recovery.report.html.advice import Advice, advice
from recovery.report.html.charts import About, Row, Segment, bar_css, bars
from recovery.report.html.page import BADGES, GENERATOR, SiteLinks, rendered, tidied
from recovery.report.html.parts import Chart, FoldedParts, PageSection, Part, table_parts, unbroken
from recovery.report.published import figures_table, find_publication, publication_table, publications
from recovery.report.summary_text import advice_of, answers, mean_text
from recovery.report.tables import PUBLISHED, SECTIONS, heading

INDEX, PUBLISHED_PAGE = "index.html", "published.html"
CSV_FILE, JSON_FILE = "results.csv", "results.json"
_INDEX_NAME = "All results"
_FILTERS = ("server", "tables", "cache", "storage", "experiment")
"""Columns of the table of results that a reader can filter by."""
_MAX_OPEN = 3
"""Most charts that are shown at once, each for a number of tables."""
_MAX_LINKS = 4
"""Most sessions that a row names; of more, it has the number."""
_CACHES = (Cache.COLD.value, Cache.WARM.value)


def question_page_name(experiment: str, questions: Mapping[str, str]) -> str:
    """Returns the file name of the page of an experiment's question. `questions` has those of all experiments, of which
    several can ask the same, such as a cold start alone and both. A session from someone else may name its experiment
    anything."""
    asked = questions.get(experiment)
    first = next((name for name, question in questions.items() if question == asked), experiment)
    return f"question-{re.sub(r'[^A-Za-z0-9.-]', '-', first)[:100]}.html"


# --- What the pages need of a session


@dataclass(frozen=True)
class SiteCell:
    """The result of a cell."""

    version: str
    cache: str
    """`cold`, `warm` or `second start`; empty unless it is a start."""
    words: str
    """What else it differs in from others of its session, and its settings, without those of its storage."""
    settings: str
    """Those that are not the usual ones of a start."""
    about: Metric
    text: str
    """Its mean with the interval in its session."""
    mean: float
    interval: tuple[float, float] | None
    runs: int
    measures: Setting | CellDesign | None
    """What it measured. Cells in which this is equal are the same measurement, repeated. None: it is not known."""
    tables: int | None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class SiteSession:
    """What the pages show of a session."""

    name: str
    link: str
    """Relative link to its own page."""
    experiment: str
    question: str
    heading: str
    started_at: str
    host_id: str | None
    storage: str
    versions: tuple[str, ...]
    runs: Mapping[str, tuple[int, int]]
    """Number of counted runs of each version, and how many of them failed."""
    is_finished: bool
    measured_runs: int
    answers: tuple[str, ...]
    advice_of: str | None
    """Where the documentation says what shortens the start."""
    advice: tuple[Advice, ...]
    findings: tuple[Finding, ...]
    cells: tuple[SiteCell, ...]
    claims: tuple[Answer, ...]

    @property
    def day(self) -> str:
        return self.started_at[: len("2026-11-28")]

    @property
    def anchor(self) -> Markup:
        return Markup('<a href="{}">{}</a>').format(self.link, self.name)

    @property
    def times_starts(self) -> bool:
        return any(cell.cache for cell in self.cells)

    @property
    def most_tables(self) -> int:
        return max((cell.tables or 0 for cell in self.cells), default=0)


def site_session(name: str, link: str, session: Session) -> SiteSession:
    publication = find_publication(session.experiment) if session.experiment in PUBLISHED else None
    return SiteSession(
        name=name,
        link=link,
        experiment=session.experiment,
        question=session.question,
        heading=heading(session),
        started_at=session.started_at,
        host_id=session.host_id,
        storage=_storage(session),
        versions=session.versions,
        runs={
            version: (
                sum(run.version == version and not run.extra for run in session.runs),
                sum(run.version == version and run.verdict is Verdict.FAILED for run in session.runs),
            )
            for version in session.versions
        },
        is_finished=session.status == Status.FINISHED,
        measured_runs=sum(run.verdict is Verdict.MEASURED for run in session.runs),
        answers=answers(session),
        advice_of=advice_of(session),
        advice=advice(session),
        findings=findings_of_each_cell(session),
        cells=tuple(_cells(session)) if is_compared(session) else (),
        claims=() if publication is None else answer_claims(publication, session),
    )


def session_links(session: SiteSession, questions: Mapping[str, str], *, is_public: bool = False) -> SiteLinks:
    """Returns what the page of a session leads to. `questions` is as in `question_page_name`."""
    pages = [(INDEX, _INDEX_NAME)]
    if any(answer.verdict is not ClaimVerdict.NOT_MEASURED for answer in session.claims):
        pages.append((f"{PUBLISHED_PAGE}#{session.experiment}", _PUBLISHED_QUESTION))
    up = "../" * session.link.count("/")
    question = question_page_name(session.experiment, questions)
    return SiteLinks(f"{up}{question}", tuple((f"{up}{link}", name) for link, name in pages), is_public)


def _cells(session: Session) -> Iterator[SiteCell]:
    runs, doubts = runs_by_cell(session), doubts_by_cell(session)
    settings = {
        cell: setting_of(session, *cell) or cell_design(session, *cell) for cell, measured in runs.items() if measured
    }
    times = Counter(settings.values())
    unusual = unusual_settings(session)
    for summary in summarise(session):
        cell = summary.version, summary.variant
        measures = settings.get(cell)
        if summary.mean is None:
            continue
        # Without the host's id nobody knows whether two sessions are of one design.
        is_known = isinstance(measures, Setting) or (measures is not None and measures.host_id is not None)
        cache = session.cache_of(summary.variant) or "" if session.metric == STARTUP_METRIC else ""
        # Of a load the limits alone: its rows and seconds are not what is usual for a start.
        beside = {
            name: value for name, value in unusual.items() if name not in _OF_STORAGE and (cache or name in _LIMITS)
        }
        yield SiteCell(
            version=summary.version,
            cache=cache,
            words=", ".join(filter(None, (_words(session, summary.variant), _settings_words(beside)))),
            settings=_settings_words(unusual),
            about=metric(summary.name),
            text=_text(summary),
            mean=summary.mean,
            interval=fmt.drawn_interval(summary),
            runs=summary.count,
            measures=measures if is_known and times[measures] == 1 else None,
            tables=_tables(session, measures),
            doubts=doubts.get(cell, ()),
        )


def _words(session: Session, variant: str) -> str:
    """Returns what a variant differs in, apart from its cache and its tables."""
    own = cell_words(session, variant, without={"tables"}) if len(session.variant_names) > 1 and session.axes else ""
    return own if own not in (*_CACHES, SECOND_START) else ""


_LIMITS = tuple(field.name for field in fields(Limits))
_OF_STORAGE = ("read_ahead_kb", "read_iops", "read_bps")


def _settings_words(settings: Settings) -> str:
    """Returns settings as other texts of the tool name them: `limited to 2 GiB of memory with its page cache`."""
    found = []
    for name, value in settings.items():
        if name in (*_LIMITS, *_OF_STORAGE):
            continue
        words = fmt.words(name) if value is True else " ".join(fmt.fact_row(name, value))
        found.append(str(value) if name == "set" else words)
    read_ahead = stored_number(settings.get("read_ahead_kb"))
    found += [] if read_ahead is None else [f"read-ahead {read_ahead:,.0f} KiB"]
    limits = limits_from_settings(settings)
    found += [f"limited to {limits_text(limits)}"] if limits else []
    return ", ".join(found)


def _tables(session: Session, measures: Setting | CellDesign | None) -> int | None:
    if isinstance(measures, Setting):
        return measures.tables
    tables = session.design.tables
    return None if tables is None else tables * (session.design.schemas or 1)


def _text(summary: Summary) -> str:
    about = metric(summary.name)
    if about.unit == "s":
        return mean_text(summary)
    interval = fmt.drawn_interval(summary)
    error = "" if interval is None else f" +- {fmt.interval_column(about, summary)}"
    return f"{fmt.column(about, summary.mean)}{error}"


def _storage(session: Session) -> str:
    """Returns the storage of the data, and what limited it."""
    host = session.environment
    known = (host.get("filesystem"), host.get("ebs_volume") or host.get("device_model"))
    found = [str(fact) for fact in known if fact]
    found.append(_settings_words({name: {**host, **session.settings}.get(name) for name in _OF_STORAGE}))
    return ", ".join(filter(None, found))


def main_charts(session: Session) -> tuple[Part, ...]:
    """Returns the charts of the main metric of a session."""
    return tuple(SECTIONS[0].charts(session))


# --- Pages


@dataclass(frozen=True, kw_only=True)
class SitePage:
    """What a page about several sessions shows."""

    question: str
    heading: str
    state: str
    sections: tuple[PageSection, ...]
    answers: tuple[str, ...] = ()
    advice_of: str | None = None
    advice: tuple[Advice, ...] = ()
    filters: Mapping[str, tuple[str, ...]]
    """Names of the columns to filter by, for each section whose table can be sorted and filtered."""
    notes: tuple[str, ...] = ()
    name: str


@dataclass(frozen=True)
class Site:
    sessions: tuple[SiteSession, ...]
    questions: Mapping[str, str]
    """The question of each experiment, in the order of the list."""
    charts: Mapping[str, tuple[Part, ...]]
    """Those of each session that has the most runs of its question, by its name."""
    left_out: tuple[str, ...] = ()
    """One line for each session that cannot be read."""
    is_public: bool = False
    """Whether search engines may list the pages."""

    def of(self, *experiments: str) -> tuple[SiteSession, ...]:
        return tuple(session for session in self.sessions if session.experiment in experiments)

    @property
    def experiments(self) -> tuple[str, ...]:
        """The experiments that have sessions, in the order of the list; others, of a later version, at the end."""
        there = {session.experiment for session in self.sessions}
        return (*(name for name in self.questions if name in there), *sorted(there - set(self.questions)))

    @property
    def asked(self) -> Mapping[str, tuple[str, ...]]:
        """The experiments of each question's page, by its file name."""
        found: dict[str, tuple[str, ...]] = {}
        for name in self.experiments:
            page = question_page_name(name, self.questions)
            found[page] = (*found.get(page, ()), name)
        return found

    def with_most_runs(self, page: str) -> SiteSession:
        """Returns the session that the page of a question quotes: the finished one with the most measured runs; of
        equal ones that with the most tables, then the newest."""
        sessions = self.of(*self.asked[page])
        return max(reversed(sessions), key=lambda one: (one.is_finished, one.measured_runs, one.most_tables))

    def question_of(self, experiments: Sequence[str]) -> str:
        """Returns the question that these experiments ask."""
        return self.questions.get(experiments[0]) or self.of(*experiments)[-1].question


def site_pages(site: Site) -> Iterator[tuple[str, str]]:
    """Yields the file name and the content of each page but those of single sessions."""
    links = [(INDEX, _INDEX_NAME), *((name, ", ".join(experiments)) for name, experiments in site.asked.items())]
    if any(session.claims for session in site.sessions):
        links.append((PUBLISHED_PAGE, "Published and here"))
    pages = [index_page(site), *(question_page(site, name) for name in site.asked)]
    pages += [published_page(site)] if len(links) > len(pages) else []
    for page in pages:
        yield page.name, rendered("site.html.j2", page=page, links=links, badges=BADGES, is_public=site.is_public)
    rows = [row for session in site.sessions for row in _data_rows(session)]
    yield CSV_FILE, csv_text(tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows])
    yield JSON_FILE, json.dumps({"format": 1, "generator": GENERATOR, "results": rows}, indent=1) + "\n"


def _data_rows(session: SiteSession) -> Iterator[dict[str, str | int | float | None]]:
    """Yields the result of each cell, or of each server if none are compared, by the name of its column."""
    shared = {"experiment": session.experiment, "storage": session.storage, "started_at": session.started_at}
    for version in session.versions:
        runs, failed = session.runs[version]
        cells: Sequence[SiteCell | None] = [cell for cell in session.cells if cell.version == version] or [None]
        for cell in cells:
            low, high = (cell.interval if cell else None) or (None, None)
            yield {
                "session": session.name,
                "server": version,
                "cache": cell.cache or None if cell else None,
                "tables": cell.tables if cell else None,
                "settings": cell.words or None if cell else None,
                "metric": cell.about.name if cell else None,
                "unit": cell.about.unit or cell.about.label if cell else None,
                "mean": cell.mean if cell else None,
                "low": low,
                "high": high,
                "runs": cell.runs if cell else runs,
                "failed": failed,
                "warnings": " ".join(cell.doubts) or None if cell else None,
                **shared,
            }


def index_page(site: Site) -> SitePage:
    starts = _starts(site.sessions, site.sessions)
    tables = _most_measured(starts)
    chart = None if tables is None else over_sessions_chart(starts, tables, "over-sessions")
    servers_lead = " ".join(("Starts after a kill, with the usual settings.", _SERVERS, *_unknown_hosts(site.sessions)))
    questions = Table(
        "Questions",
        ("experiment", "question", "sessions", "answer of each server"),
        tuple(
            (
                ", ".join(names),
                Markup('<a href="{}">{}</a>').format(page, site.question_of(names)),
                str(len(site.of(*names))),
                Markup("<br>").join(map(unbroken, server_lines(site, site.of(*names), are_cut=True)))
                or _first_line(site.with_most_runs(page)),
            )
            for page, names in site.asked.items()
        ),
        (False, False, True, False),
    )
    found = (
        _section("servers", "Servers", *((chart,) if chart else ()), lead=servers_lead),
        _section("questions", "Questions", *table_parts("questions", questions)),
        _section("results", _RESULTS_TITLE, *table_parts("results", results_table(site.sessions)), lead=_RESULTS),
    )
    return SitePage(
        question="How long does a server take to come back after a crash, and what else was measured?",
        heading=f"Results: {fmt.count_text(len(site.sessions), 'session')}",
        state=_state(site.sessions),
        sections=tuple(section for section in found if section.parts),
        filters={"results": _FILTERS},
        notes=site.left_out,
        name=INDEX,
    )


_SERVERS = (
    "A bar is the geometric mean over all sessions that measured it, also for another question, and a dot is the mean "
    f"of one session. From {MIN_SESSIONS_OF_A_MEAN} sessions on the interval is that over sessions; of fewer their "
    "means are shown."
)
_RESULTS_TITLE = "Results of each session"
_RESULTS = Markup(
    "Each row is of one session, with the 95 % interval in this session, and leads to its page. Those with the most "
    'tables come first. All figures, also those of single cells: <a href="{0}">{0}</a>, <a href="{1}">{1}</a>.'
).format(CSV_FILE, JSON_FILE)


def _first_line(session: SiteSession) -> Markup:
    """Returns the first line of an answer that is about a version, with its session."""
    lines = [line for line in session.answers if line.startswith(session.versions)]
    return Markup("{} ({})").format(unbroken(next(iter(lines or session.answers), fmt.ABSENT)), session.anchor)


def _state(sessions: Sequence[SiteSession]) -> str:
    days = sorted({session.day for session in sessions})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    servers = {version for session in sessions for version in session.versions}
    hosts = {session.host_id for session in sessions}
    known = [] if None in hosts else [fmt.count_text(len(hosts), "host")]
    return "; ".join((when, fmt.count_text(len(servers), "server"), *known))


def _unknown_hosts(sessions: Sequence[SiteSession]) -> Iterator[str]:
    """Yields what it means that sessions did not record their host, if there are others to compare them with."""
    unknown = sum(session.host_id is None for session in sessions)
    if unknown and len(sessions) > 1:
        yield (
            f"In {unknown:,} of {len(sessions):,} sessions the host is not recorded, so two of them can differ because "
            "they ran on different hosts."
        )


def _section(key: str, title: str, *parts: Part, lead: str = "") -> PageSection:
    return tidied(PageSection(key, title, parts, lead))


# --- Means over sessions

Measured = tuple[SiteSession, SiteCell]


def same_measurements(sessions: Iterable[SiteSession]) -> dict[Setting | CellDesign, list[Measured]]:
    """Returns the cells that are the same measurement, the oldest first. A cell with too few runs for an interval is
    there only if no session has more."""
    found: dict[Setting | CellDesign, list[Measured]] = {}
    for session in sessions:
        for cell in session.cells:
            if cell.measures is not None:
                found.setdefault(cell.measures, []).append((session, cell))
    return {key: [one for one in all_ if one[1].runs >= MIN_RUNS] or all_ for key, all_ in found.items()}


def mean_over(measured: Sequence[Measured]) -> tuple[float, tuple[float, float] | None]:
    """Returns the mean over sessions, and its interval; of a single session its own. Fewer than five have none."""
    if len(measured) == 1:
        return measured[0][1].mean, measured[0][1].interval
    over = over_sessions([cell.mean for _, cell in measured])
    assert over is not None
    return over.mean, over.interval if len(measured) >= MIN_SESSIONS_OF_A_MEAN else None


def mean_over_text(measured: Sequence[Measured]) -> str:
    """Formats the mean with its interval and what it is over: `56.3 (43.1-73.4), 7 sessions`. Of fewer than five
    sessions it has their means: `38.3, 47.2 and 61.7, 3 sessions`."""
    return _mean_over_words(measured, "")


def _chart_text(measured: Sequence[Measured]) -> str:
    """Returns the text beside a bar. Dots show what each session has, and a phone has no room for it."""
    if not 1 < len(measured) < MIN_SESSIONS_OF_A_MEAN:
        return mean_over_text(measured)
    about, means = measured[0][1].about, [cell.mean for _, cell in measured]
    return f"{_figure(about, min(means))} to {_figure(about, max(means))}, {len(means)} sessions"


def _mean_over_words(measured: Sequence[Measured], unit: str) -> str:
    about = measured[0][1].about
    mean, interval = mean_over(measured)
    if len(measured) == 1:
        return f"{measured[0][1].text}, one session"
    if interval is None:
        *figures, last = (_figure(about, value) for value in sorted(cell.mean for _, cell in measured))
        text = f"{', '.join(figures)} and {last}{unit}"
    else:
        text = f"{_figure(about, mean)}{unit} ({_figure(about, interval[0])}-{_figure(about, interval[1])})"
    return f"{text}, {len(measured)} sessions"


def _figure(about: Metric, value: float) -> str:
    return fmt.number(value) if about.unit == "s" else fmt.column(about, value)


def _starts(sessions: Iterable[SiteSession], of: Iterable[SiteSession]) -> dict[Setting, list[Measured]]:
    """Returns the measurements of starts, cold and proved warm, that any session of `of` has, with all sessions: a mean
    is the same on every page."""
    asked = {cell.measures for session in of for cell in session.cells}
    return {
        setting: found
        for setting, found in same_measurements(sessions).items()
        if isinstance(setting, Setting) and setting.cache in _CACHES and setting in asked
    }


def _most_measured(starts: Mapping[Setting, Sequence[Measured]]) -> int | None:
    """Returns the number of tables that starts after a kill were measured with most often."""
    times = Counter[int]()
    for setting, found in starts.items():
        if not setting.others:
            times[setting.tables] += len(found)
    return max(times, key=lambda tables: (times[tables], tables), default=None)


def over_sessions_chart(
    found: Mapping[Setting, Sequence[Measured]], tables: int, key: str, *, only_usual: bool = True
) -> Chart | None:
    """Returns the starts with this number of tables, as bars: each server cold and warm."""
    rows = []
    starts = {
        setting: measured
        for setting, measured in found.items()
        if setting.tables == tables and not (only_usual and setting.others)
    }
    for setting in sorted(starts, key=lambda one: (_order(one.server), one.others, one.cache)):
        measured = starts[setting]
        mean, interval = mean_over(measured)
        rows.append(
            Row(
                ", ".join(filter(None, (setting.server, measured[0][1].settings))),
                {setting.cache: mean},
                _chart_text(measured),
                interval=interval,
                runs=tuple((cell.mean, f"{session.name}: {cell.text}") for session, cell in measured)
                if len(measured) > 1
                else (),
                doubts=measured[0][1].doubts if len(measured) == 1 else (),
            )
        )
    about = About(
        key,
        f"{fmt.count_text(tables, 'table')}: seconds until ready",
        "s",
        description="The table of results has the figures.",
        interval=f"95 % interval: over sessions from {MIN_SESSIONS_OF_A_MEAN} on, else in the one session",
    )
    chart = bars(about, rows, [Segment(name, bar_css(number)) for number, name in enumerate(_CACHES)])
    return None if chart is None else _dots_are_sessions(chart)


def _dots_are_sessions(chart: Chart) -> Chart:
    legend = tuple(replace(entry, name="one session") if entry.css == "sign-dot" else entry for entry in chart.legend)
    return replace(chart, legend=legend)


def _order(server: str) -> tuple[str, tuple[int, ...], str]:
    """Returns the place of a server: by its flavor, then by its number."""
    try:
        version = parse_version(server)
    except ValueError:
        return "~", (), server
    flavors = {"mysql": "0", "percona": "1", "mariadb": "2"}
    return flavors[version.flavor.value], version.numbers, server


# --- The table of results


def results_table(sessions: Iterable[SiteSession]) -> Table:
    """Returns a row for each cell of timed starts, and for each server of any other session: those with the most tables
    first, of equal ones the newest."""
    rows = [row for session in reversed(tuple(sessions)) for row in _result_rows(session)]
    headers = ("session", "server", "cache", "tables", "result", "runs", "storage", "experiment", "settings", "date")
    return Table(
        _RESULTS_TITLE,
        headers,
        tuple(sorted(rows, key=lambda row: -int(row[3].replace(",", "")) if row[3] != fmt.ABSENT else 1)),
        tuple(header in ("tables", "result", "runs") for header in headers),
    )


def _result_rows(session: SiteSession) -> Iterator[tuple[str, ...]]:
    if session.times_starts:
        for cell in session.cells:
            yield _result_row(session, cell.version, cell.tables, cell.text, cell.runs, cell.cache, cell.words)
        return
    for version in session.versions:
        cells = [cell for cell in session.cells if cell.version == version]
        runs, failed = session.runs[version]
        text = _range_text(cells) if cells else f"{failed} failed" if failed else fmt.ABSENT
        many = fmt.count_text(len(cells), "cell") if len(cells) > 1 else ""
        yield _result_row(session, version, cells[0].tables if cells else None, text, runs, "", many)


def _result_row(
    session: SiteSession, version: str, tables: int | None, text: str, runs: int, cache: str, words: str
) -> tuple[str, ...]:
    found = (
        version,
        cache,
        fmt.count(tables),
        text,
        str(runs),
        session.storage,
        session.experiment,
        words,
        session.day,
    )
    return (session.anchor, *(value or fmt.ABSENT for value in found))


def _range_text(cells: Sequence[SiteCell]) -> str:
    """Returns the result of a cell, or the range of several: `46,756 to 70,230 queries/s`."""
    about = cells[0].about
    unit = about.unit if about.unit == "s" else about.label
    if len(cells) == 1:
        return cells[0].text if about.unit == "s" else f"{cells[0].text} {unit}"
    low, high = min(cell.mean for cell in cells), max(cell.mean for cell in cells)
    return f"{fmt.column(about, low)} to {fmt.column(about, high)} {unit}"


# --- A question


def question_page(site: Site, name: str) -> SitePage:
    """Returns the page of a question with this file name, with the sessions of all experiments that ask it."""
    experiments = site.asked[name]
    sessions = site.of(*experiments)
    main = site.with_most_runs(name)
    parts = _start_charts(_starts(site.sessions, sessions))
    found = (
        _section("over-sessions", "By server", *parts, lead=f"{_OWN_SETTINGS} {_SERVERS}"),
        _section("most-runs", f"{_MOST_RUNS}: {main.name}", *site.charts[main.name], lead=_MOST_RUNS_LEAD),
        _section("results", _RESULTS_TITLE, *table_parts("results", results_table(sessions)), lead=_RESULTS),
        _section("doubts", "Doubts", *_doubt_parts(sessions), lead=" ".join(_basis_lines(sessions))),
    )
    return SitePage(
        question=site.question_of(experiments),
        heading=f"{', '.join(experiments)}: {fmt.count_text(len(sessions), 'session')}",
        state=_state(sessions),
        answers=tuple(_answer_lines(site, sessions, main)),
        advice_of=main.advice_of,
        advice=main.advice,
        sections=tuple(section for section in found if section.parts or section.key in _ALWAYS_SHOWN),
        filters={"results": _FILTERS},
        name=name,
    )


_OWN_SETTINGS = "A server is named with the settings of its start that are not the usual ones."
_MOST_RUNS = "The session with the most runs"
_MOST_RUNS_LEAD = (
    "Finished sessions come first, then those with more measured runs, then those with more tables, then newer ones. "
    "All figures here are of this one session."
)
_ALWAYS_SHOWN = ("most-runs", "doubts")
_MAX_ANSWERS = 8


def _answer_lines(site: Site, sessions: Sequence[SiteSession], main: SiteSession) -> Iterator[str]:
    """Yields what is known of each server, other means over three sessions or more, then what the session with the most
    runs says."""
    yield from server_lines(site, sessions)
    over = {
        key: found
        for key, found in same_measurements(sessions).items()
        if len(found) >= MIN_SESSIONS and not (isinstance(key, Setting) and key.cache in _CACHES and not key.others)
    }
    for _, found in sorted(over.items(), key=lambda item: -len(item[1]))[:_MAX_ANSWERS]:
        cell = found[0][1]
        what = ", ".join(filter(None, (cell.version, cell.cache, cell.settings or cell.words)))
        yield f"{what}: {_mean_over_with_unit(found)}."
    yield Markup("From the session with the most runs, {}:").format(main.anchor)
    yield from main.answers


def server_lines(site: Site, sessions: Sequence[SiteSession], *, are_cut: bool = False) -> Iterator[str]:
    """Yields the answer of every server of these sessions: of starts the means over all sessions, else what the session
    with the most runs of that server says, which `are_cut` cuts to its first part."""
    starts = {one: found for one, found in _starts(site.sessions, sessions).items() if not one.others}
    tables = _most_measured(starts)
    servers = sorted({version for session in sessions for version in session.versions}, key=_order)
    left = [server for server in servers if not any(one.server == server for one in starts)]
    for cache in _CACHES:
        found = {one.server: starts[one] for one in starts if (one.cache, one.tables) == (cache, tables)}
        figures = [f"{server} {_mean_over_with_unit(found[server])}" for server in servers if server in found]
        if figures:
            yield f"{cache.capitalize()}, {tables:,} tables: {'; '.join(figures)}."
    for server in servers:
        own = [one for one in starts if one.server == server]
        if own and not any(one.tables == tables for one in own):
            many = max(own, key=lambda one: (len(starts[one]), one.tables)).tables
            shown = [f"{one.cache} {_mean_over_with_unit(starts[one])}" for one in own if one.tables == many]
            yield f"{server}, {many:,} tables: {'; '.join(shown)}."
    for server in left:
        ranked = sorted(sessions, key=lambda one: (one.is_finished, one.measured_runs, one.started_at), reverse=True)
        lines = (
            (line, session)
            for session in ranked
            for line in session.answers
            if line.startswith((f"{server}:", f"{server},")) and " instead of " not in line
        )
        for line, session in islice(lines, 1):
            text = line.partition(";")[0] if are_cut else line
            yield unbroken(f"{text.removesuffix('.')} (") + session.anchor + ")."


def _mean_over_with_unit(measured: Sequence[Measured]) -> str:
    """Formats the mean with its interval, its unit, and what it is over: `56.3 s (43.1-73.4), 7 sessions`."""
    about = measured[0][1].about
    return _mean_over_words(measured, f" {about.unit if about.unit == 's' else about.label}")


def _start_charts(starts: Mapping[Setting, Sequence[Measured]]) -> tuple[Part, ...]:
    """Returns a chart for each number of tables, the one most often measured first; further ones are folded."""
    counts = Counter(setting.tables for setting, found in starts.items() for _ in found)
    many = sorted(counts, key=lambda tables: (counts[tables], tables), reverse=True)
    made = (over_sessions_chart(starts, tables, f"over-{tables}", only_usual=False) for tables in many)
    charts = tuple(chart for chart in made if chart is not None)
    rest = charts[_MAX_OPEN:]
    return (*charts[:_MAX_OPEN], *((FoldedParts(f"Other numbers of tables: {len(rest)}", rest),) if rest else ()))


def _basis_lines(sessions: Sequence[SiteSession]) -> Iterator[str]:
    """Yields what the figures stand on, and what would make them stronger."""
    days = count_days(session.started_at for session in sessions)
    yield f"{fmt.count_text(len(sessions), 'session')} of {fmt.count_text(days, 'day')}."
    yield from _unknown_hosts(sessions)
    ids = {session.host_id for session in sessions}
    if stronger := stronger_words(Basis(len(sessions), 0.0, days, None if None in ids else len(ids))):
        yield f"{stronger[0].upper()}{stronger[1:]}."


def _doubt_parts(sessions: Sequence[SiteSession]) -> tuple[Part, ...]:
    """Returns the warnings of all sessions, the most frequent kind first."""
    kinds: dict[str, dict[str, SiteSession]] = {}
    hints: dict[str, Finding] = {}
    for session in sessions:
        for finding in session.findings:
            kinds.setdefault(finding.kind, {})[session.name] = session
            hints[finding.kind] = finding
    rows = tuple(
        (
            kind.replace("-", " "),
            str(len(found)),
            f"{hints[kind].about}: {hints[kind].text}",
            hints[kind].hint,
            _anchors(list(found.values())),
        )
        for kind, found in sorted(kinds.items(), key=lambda item: -len(item[1]))
    )
    table = Table(
        "Warnings", ("warning", "sessions", "for example", "what to do", "where"), rows, (False, True, *(False,) * 3)
    )
    return table_parts("doubts", table) if rows else ()


def _anchors(sessions: Sequence[SiteSession]) -> Markup:
    shown = Markup(", ").join(session.anchor for session in sessions[-_MAX_LINKS:])
    return shown + f" and {len(sessions) - _MAX_LINKS} more" if len(sessions) > _MAX_LINKS else shown


# --- The published experiments

_PUBLISHED_QUESTION = "Do the published effects show here?"


def published_page(site: Site) -> SitePage:
    sessions = [session for session in site.sessions if session.claims]
    return SitePage(
        question=_PUBLISHED_QUESTION,
        heading="Five published experiments, claim by claim",
        state=_state(sessions),
        sections=tuple(
            _section(one.name, one.heading, *_published_parts(one, site.of(one.name)), lead=one.question)
            for one in publications()
        ),
        filters={},
        notes=(
            "In brackets is the 95 % interval of a single result. Of several results the smallest and the largest are "
            "shown. A verdict is that of a session's report; if results disagree, each verdict has their number.",
            "A host with fewer CPUs or tables than a claim needs does not refute it: such a claim is inconclusive.",
            *_unknown_hosts(sessions),
        ),
        name=PUBLISHED_PAGE,
    )


Answered = Mapping[str, Sequence[tuple[SiteSession, Answer]]]
"""The sessions that measured a claim, with their answers, by what the claim says. All claims are there."""


def _published_parts(publication: Publication, sessions: Iterable[SiteSession]) -> Iterator[Part]:
    """Yields the claims, then the results of each session, folded, and what was published."""
    answered: dict[str, list[tuple[SiteSession, Answer]]] = {claim.what: [] for claim in publication.claim}
    for session in sessions:
        for answer in session.claims:
            if answer.verdict is not ClaimVerdict.NOT_MEASURED:
                answered[answer.what].append((session, answer))
    name = publication.name
    yield from table_parts(name, claims_table(publication, answered))
    results = claim_results_table(answered)
    if results.rows:
        title = f"{results.title}: {fmt.count_text(len(results.rows), 'result')}"
        yield FoldedParts(title, table_parts(f"{name}-results", results))
    yield from table_parts(f"{name}-figures", figures_table(publication) if publication.figure else None)
    yield FoldedParts("The publication", table_parts(f"{name}-source", publication_table(publication)))


def claims_table(publication: Publication, answered: Answered) -> Table:
    """Returns a row for each claim, with what all sessions measured beside it."""
    rows: list[tuple[str, ...]] = []
    for claim in publication.claim:
        answers = [answer for _, answer in answered[claim.what]]
        where = list(dict.fromkeys(session.anchor for session, _ in answered[claim.what]))
        notes = {answer.note for answer in answers}
        found = (
            claim.what,
            claim.published_text,
            _measured_text(answers),
            _verdicts_text(answers),
            "; ".join(dict.fromkeys(answer.measured for answer in answers)),
            "see each session" if len(notes) > 1 else "".join(notes),
            where[0] if len(where) == 1 else str(len(where)) if where else "",
        )
        rows.append(tuple(text or fmt.ABSENT for text in found))
    return Table(
        "Claims",
        ("claim", "published", "here", "does it show?", "servers", "note", "sessions"),
        tuple(rows),
        (False,) * 7,
    )


def _measured_text(answers: Sequence[Answer]) -> str:
    """Returns the result with its interval, or the range of several; of those without a number the newest."""
    if not answers:
        return ""
    newest = answers[-1]
    if len(answers) == 1:
        shown = newest.interval_text not in ("", newest.ours_text)
        return f"{newest.ours_text} ({newest.interval_text})" if shown else newest.ours_text
    numbers = [(answer.ours, answer.ours_text) for answer in answers if answer.ours is not None]
    if not numbers:
        return newest.ours_text
    return " to ".join(dict.fromkeys((min(numbers)[1], max(numbers)[1])))


def _verdicts_text(answers: Sequence[Answer]) -> str:
    """Returns the verdict, or each with the number of its answers if they disagree."""
    count = Counter(answer.verdict for answer in answers)
    if len(count) < 2:
        return next(iter(count), ClaimVerdict.NOT_MEASURED).value
    return ", ".join(f"{verdict.value} ({count[verdict]})" for verdict in ClaimVerdict if count[verdict])


def claim_results_table(answered: Answered) -> Table:
    """Returns a row for each claim and session that measured it, in the order of the claims."""
    rows: list[tuple[str, ...]] = []
    for what, results in answered.items():
        for session, answer in results:
            found = (
                what, answer.published_text, answer.ours_text, answer.interval_text, answer.verdict.value,
                answer.measured, answer.note,
            )  # fmt: skip
            rows.append((*(text or fmt.ABSENT for text in found), session.anchor))
    return Table(
        "Each session",
        ("claim", "published", "here", "95 % interval", "does it show?", "servers", "note", "session"),
        tuple(rows),
        (False,) * 8,
    )
