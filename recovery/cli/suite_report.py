"""The stored record of a run of `recovery experiments`, and its reports as text, markdown and HTML.

The record is experiments.json. All reports are made from it and from the stored sessions in the folders next to it, so
they can be written again at any time."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from markupsafe import Markup
from pydantic import TypeAdapter

from recovery import __version__
from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import (
    Summary,
    cell_words,
    groups,
    main_metrics,
    measured_runs_by_cell,
    summarise,
)
from recovery.analysis.warnings import findings
from recovery.cli.suite_budget import short_duration_text
from recovery.cli.suite_published import Answer, ClaimVerdict, Publication, answer_claims, claim_facts, publications
from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import STORED_FORMAT, new_folder, read_stored, sync_folder, write_atomically
from recovery.model import Finding, Session, Table, metric
from recovery.report import fmt
from recovery.report.fmt import chance_notes, column, times, with_unit
from recovery.report.html import svg
from recovery.report.html.cell_bars import cell_bars
from recovery.report.html.load_timelines import load_timelines
from recovery.report.html.page import PAGE, template
from recovery.report.html.scaling_charts import scaling_charts
from recovery.report.html.svg import Chart, FoldedParts, LegendEntry, Part, TablePart
from recovery.report.markdown import code_block, escaped, table_lines
from recovery.report.stored_session import load_session, writing_results
from recovery.report.text import WIDTH, command_lines, paragraph, render_table

# --- Chart of published and measured ratios

_NAME_HEIGHT, _BAR_HEIGHT, _BAR_GAP, _ROW_GAP = 19, 15, 3, 12
"""Heights in the chart: a row name, a bar, the gap below a bar, and the gap between effects."""
_AXIS_END = 78.0
_AXIS_MARGIN = 1.08
"""Factor by which the axis extends beyond the smallest and the largest value."""
_NARROW_SPAN, _WIDE_SPAN = 4.0, 50.0
"""Ratio of the ends of the axis below which ticks are linear, and above which only powers of ten get one."""
_MAX_OUTLIER_FACTOR = 4.0
"""A ratio without a published one is not drawn if it is further from 1 than the others by more than this factor."""
_PUBLISHED_CLASS, _OURS_CLASS = "v6", "v0"
"""CSS classes of the bars."""


@dataclass(frozen=True)
class RatioAxis:
    """A logarithmic axis of ratios, on which 2 and 0.5 are equally far from 1."""

    least: float
    most: float

    def at(self, ratio: float) -> float:
        whole = math.log(self.most / self.least)
        inside = min(max(ratio, self.least), self.most)
        return svg.START + (_AXIS_END - svg.START) * math.log(inside / self.least) / whole

    def ticks(self) -> tuple[float, ...]:
        span = self.most / self.least
        steps = (1.0,) if span > _WIDE_SPAN else (1.0, 2.0, 5.0)
        if span < _NARROW_SPAN:
            every = 0.1 if span < 2 else 0.5
            first = math.ceil(self.least / every)
            found = [round(every * one, 6) for one in range(first, int(self.most / every + 1e-9) + 1)]
        else:
            powers = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
            found = [step * 10.0**power for power in powers for step in steps]
        return tuple(one for one in found if self.least <= one <= self.most)


def ratio_bars(answers: Sequence[Answer], key: str) -> Chart | None:
    """Returns a bar chart that compares published ratios with those measured here. None if no ratio was measured."""
    every = [one for one in answers if one.is_ratio and one.ours]
    able = list(_drawable(every))
    if not able:
        return None
    axis = _ratio_axis(able)
    parts: list[Markup] = []
    y = 0.0
    for one in able:
        parts.append(svg.text(0, y + 13, _row_name(one, able), class_="row-name"))
        y += _NAME_HEIGHT
        for part, height in _bar_pair(axis, one, y):
            parts += part
            y += height
        y += _ROW_GAP
    title = "Ratios, published and here"
    drawing = svg.picture(
        key,
        title=title,
        told=f"{'; '.join(map(_answer_summary, able))}. The table below has the figures.",
        height=y + 24,
        parts=[*_grid(axis, y), *parts],
    )
    legend = (
        LegendEntry(f"swatch {_PUBLISHED_CLASS}", "published"),
        LegendEntry(f"swatch {_OURS_CLASS}", "here"),
        LegendEntry("sign-whisker", "95 % interval"),
    )
    note = "Bars begin at 1, where nothing differs; twice as much and half as much are equally long."
    far = "What is too far from the others to be drawn beside them is in the table."
    return Chart(key, title, drawing, legend, (note, far) if len(able) < len(every) else (note,))


def _drawable(answers: Sequence[Answer]) -> Iterator[Answer]:
    """Yields the answers that fit on one axis.

    An answer with a published ratio is always included. One without is left out if its ratio is so far from the others
    that they could no longer be distinguished."""
    pairs = [(one.published, one.ours) for one in answers if one.published and one.ours]
    spans = [abs(math.log(ratio)) for pair in pairs for ratio in pair]
    most = max(spans, default=math.inf) + math.log(_MAX_OUTLIER_FACTOR)
    for one in answers:
        if one.published or (one.ours and abs(math.log(one.ours)) <= most):
            yield one


def _row_name(answer: Answer, all_of_them: Sequence[Answer]) -> str:
    again = sum(one.what == answer.what for one in all_of_them) > 1
    return f"{answer.what} ({answer.measured})" if again else answer.what


def _ratio_axis(answers: Sequence[Answer]) -> RatioAxis:
    values = [1.0]
    for one in answers:
        assert one.ours is not None
        values += [one.ours, *(max(end, one.ours / 2) for end in one.interval or ())]
        values += [one.published] if one.published else []
    low, high = min(values) / _AXIS_MARGIN, max(values) * _AXIS_MARGIN
    return RatioAxis(low, max(high, low * 1.2))


def _bar_pair(axis: RatioAxis, answer: Answer, y: float) -> Iterator[tuple[list[Markup], float]]:
    assert answer.ours is not None
    if answer.published:
        yield _bar(axis, y, answer.published, _PUBLISHED_CLASS, answer.published_words), _BAR_HEIGHT + _BAR_GAP
        y += _BAR_HEIGHT + _BAR_GAP
    drawing = _bar(axis, y, answer.ours, _OURS_CLASS, times(answer.ours), beyond=max(answer.interval or (answer.ours,)))
    if answer.interval is not None:
        low, high = max(answer.interval[0], axis.least), answer.interval[1]
        centre = y + _BAR_HEIGHT / 2
        ends = (axis.at(low), axis.at(high))
        drawing.append(svg.line((ends[0], centre), (ends[1], centre), class_="whisker"))
        drawing += [svg.line((x, centre - 4), (x, centre + 4), class_="whisker") for x in ends]
    yield drawing, _BAR_HEIGHT + _BAR_GAP


def _bar(axis: RatioAxis, y: float, ratio: float, css: str, told: str, *, beyond: float | None = None) -> list[Markup]:
    one, end = axis.at(1.0), axis.at(ratio)
    sides = (min(one, end), max(one, end, min(one, end) + 0.2))
    x = max(sides[1], axis.at(beyond or ratio))
    return [
        svg.rectangle(sides, (y, y + _BAR_HEIGHT), class_=f"bar {css}"),
        svg.text(x, y + _BAR_HEIGHT / 2 + 4.5, told, dx=9, class_="value"),
    ]


def _answer_summary(answer: Answer) -> str:
    assert answer.ours is not None
    return f"{answer.what}: {times(answer.ours)}, published {answer.published_words}"


def _grid(axis: RatioAxis, bottom: float) -> Iterator[Markup]:
    for value in axis.ticks():
        x = axis.at(value)
        css = "ground" if value == 1 else "grid"
        yield svg.line((x, 0), (x, bottom), class_=css)
        yield svg.text(x, bottom + 16, f"{value:,g}", text_anchor="start" if x < 3 else "middle", class_="tick")


# --- The stored record (experiments.json)

RECORD_FILE = "experiments.json"
_FOLDER_SUFFIX = "-experiments"


@dataclass(frozen=True, kw_only=True)
class ExperimentRecord:
    """The record of one experiment: its plan and its outcome."""

    name: str
    """Name of its scenario."""
    command: str | None = None
    """Command that repeats it; None if it was left out."""
    scale: str = ""
    """Description of its scale."""
    planned: str = ""
    """Scale that was planned first, if it was changed to fit the remaining time; empty otherwise."""
    expected_s: float | None = None
    """Estimated duration; None if it was left out."""
    took_s: float | None = None
    """Actual duration; None until it has ended."""
    session: str | None = None
    """Folder name of its session, next to the folder of this record."""
    left_out: str | None = None
    """Why it was not started."""
    error: str | None = None
    """Why it ended early, or why not all of its runs count."""


@dataclass(frozen=True, kw_only=True)
class SuiteRecord:
    """The record of a whole run of `recovery experiments`."""

    command: str
    started_at: str
    budget_s: float
    versions: tuple[str, ...]
    steps: tuple[ExperimentRecord, ...]
    status: str = "running"
    """One of running, finished, failed (an experiment failed, or none was measured), interrupted and aborted."""
    took_s: float | None = None
    tool_version: str = __version__

    def with_step(self, step: ExperimentRecord) -> SuiteRecord:
        return replace(self, steps=tuple(step if one.name == step.name else one for one in self.steps))


@dataclass(frozen=True)
class ExperimentResult:
    """One experiment with its publication, its session and the answers."""

    publication: Publication
    step: ExperimentRecord
    session: Session | None
    answers: tuple[Answer, ...] = ()
    missing: str | None = None
    """Why the stored session could not be read; None if it could, or if there is none."""

    @property
    def middles(self) -> tuple[Summary, ...]:
        return () if self.session is None else tuple(one for one in summarise(self.session) if one.count)


_SUITE_RECORD = TypeAdapter(SuiteRecord)
_ANSWERS = TypeAdapter(tuple[Answer, ...])
_SUMMARIES = TypeAdapter(tuple[Summary, ...])


def create_suite_folder(results: Path) -> Path:
    """Creates the folder of a new run in `results`, named by the current time, and returns its path."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}{_FOLDER_SUFFIX}"
    with writing_results(results):
        results.mkdir(parents=True, exist_ok=True)
        folder = new_folder(results, name)
        sync_folder(results)
    return folder


def load_results(journey: SuiteRecord, folder: Path) -> tuple[ExperimentResult, ...]:
    """Returns the experiments of a run, with their sessions as stored in the folders next to `folder`."""
    steps = {step.name: step for step in journey.steps}
    return tuple(_load_result(one, steps[one.name], folder) for one in publications() if one.name in steps)


def _load_result(publication: Publication, step: ExperimentRecord, folder: Path) -> ExperimentResult:
    if step.session is None:
        return ExperimentResult(publication, step, None)
    try:
        # The record may come from somebody else and contain any path, so only the last part of it is used.
        session = load_session(folder.parent / PurePath(step.session).name)
    except RecoveryError as error:
        return ExperimentResult(publication, step, None, missing=error.message)
    return ExperimentResult(publication, step, session, answer_claims(publication, session))


def save_suite(journey: SuiteRecord, folder: Path, read_before: tuple[ExperimentResult, ...] | None = None) -> None:
    """Writes the record, with answers and summaries computed from the current sessions.

    `read_before` are the chapters if the caller has just read them; otherwise the sessions are read."""
    found = {one.publication.name: one for one in read_before or load_results(journey, folder)}
    body = _SUITE_RECORD.dump_python(journey, mode="json")
    steps = [{**step, **_derived_fields(found[step["name"]])} for step in body.pop("steps") if step["name"] in found]
    text = json.dumps({"format": STORED_FORMAT, **body, "steps": steps}, indent=2, ensure_ascii=False) + "\n"
    with writing_results(folder):
        write_atomically(folder / RECORD_FILE, text.encode("utf-8", errors="replace"))


def _derived_fields(chapter: ExperimentResult) -> dict[str, Any]:
    """Returns the derived part of a stored step, which is computed from the session at every write."""
    return {
        "published": TypeAdapter(Publication).dump_python(chapter.publication, mode="json"),
        "answers": _ANSWERS.dump_python(chapter.answers, mode="json"),
        "measures": _SUMMARIES.dump_python(chapter.middles, mode="json"),
    }


def read_suite(folder: Path) -> SuiteRecord:
    """Reads the record of a folder. Raises UsageError if the folder has none."""
    path = folder / RECORD_FILE
    if not path.is_file():
        raise UsageError(f"there are no experiments in {folder}", f"name a folder that has {RECORD_FILE}")
    return read_stored(path, _SUITE_RECORD)


# --- Paragraphs and tables of each experiment, shared by all renderers

_MAX_ROWS = 24
"""Maximum number of rows of the table of measured figures."""
_QUOTED_WARNINGS = ("short-run", "few-runs")
"""Kinds of warnings that are caused by the scale and quoted in full. The others are in the report of the session."""
_VERDICT_ORDER = (ClaimVerdict.SHOWS, ClaimVerdict.NOT, ClaimVerdict.OPPOSITE, ClaimVerdict.UNTOLD)
SUITE_TITLE = "Published experiments, repeated here"
SUITE_QUESTION = "What was published, and does it show on this host?"


@dataclass(frozen=True)
class Sentence:
    """A sentence of the report, with the effect that it is about."""

    about: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ExperimentPage:
    """The content of the report about one experiment, independent of the output format."""

    key: str
    title: str
    question: str
    short: str
    """Short answer, shown after the title at the top of the report."""
    published: tuple[str, ...]
    published_table: Table | None
    measured: tuple[str, ...]
    measured_table: Table | None
    answers: tuple[Answer, ...]
    answers_table: Table | None
    sentences: tuple[Sentence, ...]
    """One for each answer; answers that only lack runs share one."""
    beyond: tuple[str, ...]
    """What this host cannot show."""
    link: str | None
    """Relative link from this folder to the report of the session."""
    command: str | None

    @property
    def in_short(self) -> str:
        return f"{self.title}: {self.short}"


def experiment_pages(chapters: Sequence[ExperimentResult]) -> tuple[ExperimentPage, ...]:
    """Returns the content of the report about each experiment.

    CPUs and memory of the host are taken from the other sessions for an experiment that has no session."""
    host: dict[str, float] = {}
    for one in chapters:
        host |= {} if one.session is None else claim_facts(one.session)
    known = {name: value for name, value in host.items() if name in ("cpus", "memory_bytes")}
    return tuple(_experiment_page(one, known) for one in chapters)


def _experiment_page(chapter: ExperimentResult, host: dict[str, float]) -> ExperimentPage:
    publication, session, step = chapter.publication, chapter.session, chapter.step
    return ExperimentPage(
        key=publication.name,
        title=f"{publication.label} {publication.title}",
        question=publication.question,
        short=_short_answer(chapter),
        published=tuple(_published_paragraphs(publication)),
        published_table=_published_table(publication),
        measured=tuple(_measured_paragraphs(chapter)),
        measured_table=None if session is None else _measured_table(session, chapter),
        answers=chapter.answers,
        answers_table=_answers_table(chapter.answers),
        sentences=tuple(_sentences(chapter.answers)),
        beyond=tuple(_host_limitations(publication, host if session is None else claim_facts(session))),
        link=None if session is None else f"../{step.session}/{PAGE}",
        command=step.command,
    )


def _short_answer(chapter: ExperimentResult) -> str:
    if chapter.session is None:
        return _missing_reason(chapter)
    counted = Counter(one.word for one in chapter.answers)
    if not counted:
        return "nothing that was published is about the versions that were measured."
    total = sum(counted[word] for word in _VERDICT_ORDER)
    told = ", ".join(
        f"{counted[word]} {_verdict_words(word, counted[word])}" for word in _VERDICT_ORDER if counted[word]
    )
    if counted[ClaimVerdict.UNTOLD] == sum(one.few for one in chapter.answers) > 0:
        told += " from so few runs"
    if counted[ClaimVerdict.COMPARED]:
        told += f", {counted[ClaimVerdict.COMPARED]} more compared without a published figure"
    first = next((one for one in chapter.answers if one.is_significant), None)
    return f"of {total} published effect{'s' if total > 1 else ''}, {told}.{_headline(first)}"


def _headline(answer: Answer | None) -> str:
    """Returns a sentence about an answer, or an empty text without one."""
    if answer is None:
        return ""
    what = f"{answer.what[0].upper()}{answer.what[1:]}"
    error = f" ({answer.error_words})" if answer.error_words else ""
    return f" {what}: {answer.ours_words}{error} here, {answer.published_words} published."


def _verdict_words(word: ClaimVerdict, count: int) -> str:
    many = {ClaimVerdict.SHOWS: "show", ClaimVerdict.NOT: "do not show", ClaimVerdict.OPPOSITE: "show the opposite"}
    one = {ClaimVerdict.OPPOSITE: "shows the opposite"}
    return (one if count == 1 else many).get(word, word.value)


def _missing_reason(chapter: ExperimentResult) -> str:
    step = chapter.step
    reason = step.left_out or step.error or chapter.missing
    if reason is None:
        return "it was not measured yet."
    return f"{'left out' if step.left_out else 'not measured'}: {reason.rstrip('.')}."


def _published_paragraphs(publication: Publication) -> Iterator[str]:
    yield f"{publication.source}. Host: {publication.host}. Servers: {', '.join(publication.versions)}."
    yield f"Scale: {publication.scale}."
    yield from publication.said


def _published_table(publication: Publication) -> Table | None:
    if not publication.figure:
        return None
    return Table(
        "Published figures",
        ("what", *publication.versions),
        tuple((one.what, *one.values) for one in publication.figure),
        (False, *(True for _ in publication.versions)),
    )


def _measured_paragraphs(chapter: ExperimentResult) -> Iterator[str]:
    step, session = chapter.step, chapter.session
    if session is None:
        yield f"{_missing_reason(chapter)[0].upper()}{_missing_reason(chapter)[1:]}"
        return
    took = "" if step.took_s is None else f" It took {short_duration_text(step.took_s)}."
    yield f"Versions: {', '.join(session.versions)}. Scale: {step.scale}.{took}"
    if step.planned:
        yield f"Chosen anew with the time that was left of the budget; planned: {step.planned}."
    if step.error:
        how = "Not all of it counts" if session.status == "finished" else "It ended early"
        yield f"{how}: {step.error.rstrip('.')}."
    elif session.status != "finished":
        yield f"This session is {session.status}: {len(session.runs)} of {session.planned_runs} runs had ended."
    yield from _warning_paragraphs(findings(session))


def _warning_paragraphs(found: Sequence[Finding]) -> Iterator[str]:
    told = {one.kind: f"{one.text} {one.hint}" for one in found if one.kind in _QUOTED_WARNINGS}
    yield from told.values()
    others = [one for one in found if one.kind not in told]
    if others:
        kinds = ", ".join(dict.fromkeys(one.kind.replace("-", " ") for one in others if one.kind))
        yield f"{len(others)} more doubt{'s are' if len(others) > 1 else ' is'} in the session's own report: {kinds}."


def _measured_table(session: Session, chapter: ExperimentResult) -> Table | None:
    if not measured_runs_by_cell(session):
        return None
    several = len(session.variants) > 1
    # If cells measure different figures, each value is shown with the unit of its own figure.
    names = main_metrics(session)
    told, mean = (column, f"mean {metric(names[0]).label}") if len(names) == 1 else (with_unit, "mean")
    beside = _other_means(session, chapter.publication)
    rows = [
        (
            *((cell_words(session, one.variant),) if several else ()),
            one.version,
            str(one.count),
            fmt.ABSENT if one.mean is None else told(metric(one.name), one.mean),
            column(metric(one.name), one.interval),
            *(column(metric(name), means.get((one.version, one.variant))) for name, means in beside.items()),
        )
        for one in sorted(chapter.middles, key=lambda one: session.variants.index(one.variant))
    ]
    left = len(rows) - _MAX_ROWS
    notes = (f"{left} more are in the session's own report.",) if left > 0 else ()
    more = (f"mean {metric(name).label}" for name in beside)
    head = (*(("what",) if several else ()), "version", "runs", mean, "+-", *more)
    return Table(
        "Figures of this host",
        head,
        tuple(rows[:_MAX_ROWS]),
        tuple(name not in ("what", "version") for name in head),
        notes=notes,
        keys=1 + several,
    )


def _other_means(session: Session, publication: Publication) -> dict[str, dict[tuple[str, str], float]]:
    """Returns the means of figures that claims are about and that have no column yet.

    The result maps the name of the figure to the means by version and variant. Figures without a mean are left out."""
    shown = (None, *main_metrics(session))
    names = dict.fromkeys(claim.figure for claim in publication.claim if claim.figure not in shown)
    found = {}
    for name in names:
        means = {(one.version, one.variant): one.mean for one in summarise(session, name) if one.mean is not None}
        if name and means:
            found[name] = means
    return found


def _answers_table(answers: Sequence[Answer]) -> Table | None:
    if not answers:
        return None
    rows = tuple(
        tuple(
            told or fmt.ABSENT
            for told in (one.what, one.word.value, one.published_words, one.ours_words, one.error_words, one.measured)
        )
        for one in answers
    )
    notes = []
    if any(one.is_ratio for one in answers):
        notes.append("A ratio is a mean over a mean, with its 95 % interval from three runs of either on.")
    differ = [one.is_significant for one in answers if one.interval]
    planned = "What is asked was known before it was measured, so each is judged by itself."
    notes += [f"{planned} {told}" for told in chance_notes(differ)]
    return Table(
        "Published and here",
        ("what", "here it", "published", "here", "95 % interval", "servers here"),
        rows,
        (False, False, True, True, True, False),
        notes=tuple(notes),
    )


def _sentences(answers: Sequence[Answer]) -> Iterator[Sentence]:
    few = [one for one in answers if one.few]
    for one in answers:
        if not one.few or len(few) == 1:
            yield Sentence(f"{one.what} ({one.measured})" if one.measured else one.what, one.text)
    if len(few) > 1:
        yield Sentence(
            f"{len(few)} effects",
            f"Cannot be told from so few runs, without an interval; the table has their figures. {MIN_RUNS} runs of "
            "each would tell: that takes a larger BUDGET.",
        )


def _host_limitations(publication: Publication, facts: dict[str, float]) -> Iterator[str]:
    words = {name: f"{value:,}" for name, value in facts.items()}
    for one in publication.beyond:
        if one.fact is None or facts.get(one.fact, one.least) < one.least:
            yield one.text.format_map(words)


def suite_status(journey: SuiteRecord) -> str:
    """Returns a line with the status of the run, its duration, its budget and its versions."""
    took = "" if journey.took_s is None else f" after {short_duration_text(journey.took_s)}"
    return (
        f"{journey.status}{took}, of a budget of {short_duration_text(journey.budget_s)}; "
        f"{', '.join(journey.versions)}; "
        f"begun {journey.started_at}"
    )


def host_line(chapters: Sequence[ExperimentResult]) -> str:
    """Returns a line about the host that measured; empty if nothing was measured."""
    session = next((one.session for one in chapters if one.session is not None), None)
    if session is None:
        return ""
    names = ("cpu_model", "cpus", "memory_bytes", "os", "virtualisation", "device_model", "ebs_volume", "filesystem")
    told = [fmt.fact_row(name, session.environment[name]) for name in names if session.environment.get(name)]
    return "This host: " + "; ".join(f"{name} {value}" for name, value in told) + "."


# --- Charts taken from the sessions

_TIMELINE_SCENARIO = "interference"
"""Scenario that is also shown as a timeline, because its published results are timelines."""


def session_charts(session: Session) -> Iterator[Part]:
    """Yields the charts of a session. Their keys contain the scenario, because all sessions share one page."""
    for number, group in enumerate(groups(session), 1):
        key = f"{session.scenario}-{number}"
        drawn = scaling_charts(session, group, key) or cell_bars(session, group, key)
        if drawn is not None:
            yield drawn
    if session.scenario == _TIMELINE_SCENARIO:
        yield from _timeline_charts(session)


def _timeline_charts(session: Session) -> Iterator[Part]:
    """Yields the first timeline of each version, and all others folded."""
    found = load_timelines(session)
    first = {
        next(
            (number for number, part in enumerate(found) if isinstance(part, Chart) and _is_chart_of(version, part)),
            None,
        )
        for version in session.versions
    }
    yield from (part for number, part in enumerate(found) if number in first)
    rest = tuple(part for number, part in enumerate(found) if number not in first)
    charts = tuple(part for part in rest if not isinstance(part, FoldedParts))
    if charts:
        yield FoldedParts(f"{len(charts)} more of them over time", charts)
    yield from (part for part in rest if isinstance(part, FoldedParts))


def _is_chart_of(version: str, chart: Chart) -> bool:
    return f"{chart.title} ".startswith(f"{version} ")


# --- Plain text (at most 78 columns) and markdown (every text from outside is escaped)

_BULLET = "* "


def render_text(journey: SuiteRecord, chapters: Sequence[ExperimentResult]) -> str:
    lines = [SUITE_TITLE, "=" * len(SUITE_TITLE), SUITE_QUESTION]
    for told in (suite_status(journey), host_line(chapters)):
        lines += paragraph(told) if told else []
    found = experiment_pages(chapters)
    lines.append("")
    for page in found:
        lines += paragraph(page.in_short)
    lines += ["", "To repeat it:", *command_lines(journey.command)]
    for page in found:
        lines += ["", "", *_page_text(page)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _page_text(page: ExperimentPage) -> Iterator[str]:
    title = paragraph(page.title)
    yield from title
    yield "=" * min(WIDTH, max(map(len, title)))
    yield from paragraph(page.question)
    yield from _section_lines("Published", page.published, page.published_table)
    yield from _section_lines("Measured here", page.measured, page.measured_table)
    if page.command:
        yield from ("", "To repeat it:", *command_lines(page.command))
    if page.link:
        yield f"Its own report: {page.link}"
    if page.answers:
        yield from _section_lines("Does it show here?", (), page.answers_table)
        yield ""
        for one in page.sentences:
            yield from _bullet_lines(f"{one.about}: {one.text}")
    if page.beyond:
        yield from ("", "What this host cannot show")
        for told in page.beyond:
            yield from _bullet_lines(told)


def _bullet_lines(told: str) -> Iterator[str]:
    for number, line in enumerate(paragraph(told, width=WIDTH - len(_BULLET))):
        yield f"{' ' * len(_BULLET) if number else _BULLET}{line}"


def _section_lines(title: str, told: Sequence[str], table: Table | None) -> Iterator[str]:
    yield from ("", title, "-" * len(title))
    for one in told:
        yield from paragraph(one)
    if table is not None:
        yield ""
        # The title and the rule of the table are dropped, because the part already has a heading.
        yield from render_table(replace(table, title="")).splitlines()[2:]


def render_markdown(journey: SuiteRecord, chapters: Sequence[ExperimentResult]) -> str:
    found = experiment_pages(chapters)
    lines = [f"# {SUITE_TITLE}"]
    for told in (SUITE_QUESTION, suite_status(journey), host_line(chapters)):
        lines += ["", escaped(told)] if told else []
    lines += [
        "",
        *(f"- {escaped(page.in_short)}" for page in found),
        "",
        "To repeat it:",
        "",
        *code_block(journey.command),
    ]
    for page in found:
        lines += ["", *_page_markdown(page)]
    return "\n".join(lines) + "\n"


def _page_markdown(page: ExperimentPage) -> Iterator[str]:
    yield from (f"## {escaped(page.title)}", "", escaped(page.question))
    for title, told, table in (
        ("Published", page.published, page.published_table),
        ("Measured here", page.measured, page.measured_table),
        ("Does it show here?", (), page.answers_table),
    ):
        if not told and table is None:
            continue
        yield from ("", f"### {title}")
        for one in told:
            yield from ("", escaped(one))
        if table is not None:
            yield ""
            yield from list(table_lines(table))[2:]
    if page.answers:
        yield ""
        yield from (f"- {escaped(one.about)}: {escaped(one.text)}" for one in page.sentences)
    if page.beyond:
        yield from ("", "### What this host cannot show", "")
        yield from (f"- {escaped(told)}" for told in page.beyond)
    if page.command:
        yield from ("", *code_block(page.command))
    if page.link:
        yield from ("", f"[Its own report]({page.link})")


# --- The HTML page, which loads nothing from elsewhere, and the writing of all reports

SUITE_PAGE = "index.html"
_BADGES = {
    ClaimVerdict.SHOWS: "good",
    ClaimVerdict.NOT: "bad",
    ClaimVerdict.OPPOSITE: "bad",
    ClaimVerdict.UNTOLD: "doubtful",
}


def render_html(journey: SuiteRecord, found: Sequence[ExperimentResult]) -> str:
    """Returns the HTML page."""
    every = experiment_pages(found)
    return template("experiments.html.j2").render(
        title=SUITE_TITLE,
        question=SUITE_QUESTION,
        state=suite_status(journey),
        host=host_line(found),
        journey=journey,
        pages=every,
        charts={page.key: ratio_bars(page.answers, f"ratios-{page.key}") for page in every},
        pictures={one.publication.name: tuple(session_charts(one.session)) for one in found if one.session},
        tables={
            page.key: {
                name: table and TablePart(f"{name}-{page.key}", table)
                for name, table in (
                    ("published", page.published_table),
                    ("measured", page.measured_table),
                    ("answers", page.answers_table),
                )
            }
            for page in every
        },
        badges={word.value: css for word, css in _BADGES.items()},
    )


def write_suite_reports(folder: Path) -> tuple[Path, ...]:
    """Writes all reports from the record and the sessions next to it, and returns their paths."""
    journey = read_suite(folder)
    found = load_results(journey, folder)
    save_suite(journey, folder, found)
    rendered = {
        SUITE_PAGE: render_html(journey, found),
        "report.txt": render_text(journey, found),
        "report.md": render_markdown(journey, found),
    }
    with writing_results(folder):
        for name, content in rendered.items():
            write_atomically(folder / name, content.encode("utf-8", errors="replace"))
    return tuple(folder / name for name in rendered)
