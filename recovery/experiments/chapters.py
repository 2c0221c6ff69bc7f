"""What stands on the page of each question? Paragraphs and tables, for all renderers alike. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recovery.cells import cell_words
from recovery.experiments.allot import span_text
from recovery.experiments.answers import Answer, facts_of
from recovery.experiments.literature import Publication
from recovery.experiments.told import Chapter, Journey
from recovery.experiments.verdicts import Word
from recovery.findings import findings
from recovery.measures import figures_about, middles
from recovery.quantities import quantity
from recovery.report import figures
from recovery.report.html.page import PAGE
from recovery.report.work.said import column, of_so_many, worded
from recovery.stored import Finding, Session, Table
from recovery.students import LEAST_RUNS
from recovery.summary import measured_by

_MOST_ROWS = 24
_TOLD_IN_FULL = ("short-run", "few-runs")
"""Doubts that come of the scale; the others are the session's own."""
_ORDER = (Word.SHOWS, Word.NOT, Word.OPPOSITE, Word.UNTOLD)
TITLE = "Published experiments, repeated here"
QUESTION = "What was published, and does it show on this host?"


@dataclass(frozen=True)
class Sentence:
    about: str
    text: str


@dataclass(frozen=True, kw_only=True)
class PageOf:
    """One question."""

    key: str
    title: str
    question: str
    short: str
    """Its answer, for the top of the report, behind the title."""
    published: tuple[str, ...]
    published_table: Table | None
    measured: tuple[str, ...]
    measured_table: Table | None
    answers: tuple[Answer, ...]
    answers_table: Table | None
    sentences: tuple[Sentence, ...]
    """Of the answers; those that lack nothing but runs share one."""
    beyond: tuple[str, ...]
    link: str | None
    """To the session's own report, from this folder."""
    command: str | None

    @property
    def in_short(self) -> str:
        return f"{self.title}: {self.short}"


def pages(chapters: Sequence[Chapter]) -> tuple[PageOf, ...]:
    host: dict[str, float] = {}
    for one in chapters:
        host |= {} if one.session is None else facts_of(one.session)
    known = {name: value for name, value in host.items() if name in ("cpus", "memory_bytes")}
    return tuple(_page(one, known) for one in chapters)


def _page(chapter: Chapter, host: dict[str, float]) -> PageOf:
    publication, session, step = chapter.publication, chapter.session, chapter.step
    return PageOf(
        key=publication.name,
        title=f"{publication.label} {publication.title}",
        question=publication.question,
        short=_short(chapter),
        published=tuple(_published(publication)),
        published_table=_published_table(publication),
        measured=tuple(_measured(chapter)),
        measured_table=None if session is None else _measured_table(session, chapter),
        answers=chapter.answers,
        answers_table=_answers_table(chapter.answers),
        sentences=tuple(_sentences(chapter.answers)),
        beyond=tuple(_beyond(publication, host if session is None else facts_of(session))),
        link=None if session is None else f"../{step.session}/{PAGE}",
        command=step.command,
    )


def _short(chapter: Chapter) -> str:
    if chapter.session is None:
        return _why_not(chapter)
    counted = Counter(one.word for one in chapter.answers)
    if not counted:
        return "nothing that was published is about the versions that were measured."
    total = sum(counted[word] for word in _ORDER)
    told = ", ".join(f"{counted[word]} {_said(word, counted[word])}" for word in _ORDER if counted[word])
    if counted[Word.UNTOLD] == sum(one.few for one in chapter.answers) > 0:
        told += " from so few runs"
    if counted[Word.COMPARED]:
        told += f", {counted[Word.COMPARED]} more compared without a published figure"
    first = next((one for one in chapter.answers if one.is_significant), None)
    return f"of {total} published effect{'s' if total > 1 else ''}, {told}.{_headline(first)}"


def _headline(answer: Answer | None) -> str:
    """The first that is significant."""
    if answer is None:
        return ""
    what = f"{answer.what[0].upper()}{answer.what[1:]}"
    error = f" ({answer.error_words})" if answer.error_words else ""
    return f" {what}: {answer.ours_words}{error} here, {answer.published_words} published."


def _said(word: Word, count: int) -> str:
    many = {Word.SHOWS: "show", Word.NOT: "do not show", Word.OPPOSITE: "show the opposite"}
    one = {Word.OPPOSITE: "shows the opposite"}
    return (one if count == 1 else many).get(word, word.value)


def _why_not(chapter: Chapter) -> str:
    step = chapter.step
    reason = step.left_out or step.error or chapter.missing
    if reason is None:
        return "it was not measured yet."
    return f"{'left out' if step.left_out else 'not measured'}: {reason.rstrip('.')}."


def _published(publication: Publication) -> Iterator[str]:
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


def _measured(chapter: Chapter) -> Iterator[str]:
    step, session = chapter.step, chapter.session
    if session is None:
        yield f"{_why_not(chapter)[0].upper()}{_why_not(chapter)[1:]}"
        return
    took = "" if step.took_s is None else f" It took {span_text(step.took_s)}."
    yield f"Versions: {', '.join(session.versions)}. Scale: {step.scale}.{took}"
    if step.planned:
        yield f"Chosen anew with the time that was left of the budget; planned: {step.planned}."
    if step.error:
        how = "Not all of it counts" if session.status == "finished" else "It ended early"
        yield f"{how}: {step.error.rstrip('.')}."
    elif session.status != "finished":
        yield f"This session is {session.status}: {len(session.runs)} of {session.planned_runs} runs had ended."
    yield from _doubts(findings(session))


def _doubts(found: Sequence[Finding]) -> Iterator[str]:
    told = {one.kind: f"{one.text} {one.hint}" for one in found if one.kind in _TOLD_IN_FULL}
    yield from told.values()
    others = [one for one in found if one.kind not in told]
    if others:
        kinds = ", ".join(dict.fromkeys(one.kind.replace("-", " ") for one in others if one.kind))
        yield f"{len(others)} more doubt{'s are' if len(others) > 1 else ' is'} in the session's own report: {kinds}."


def _measured_table(session: Session, chapter: Chapter) -> Table | None:
    if not measured_by(session):
        return None
    several = len(session.variants) > 1
    # Each with its own name where cells are about different figures.
    names = figures_about(session)
    told, mean = (column, f"mean {quantity(names[0]).title}") if len(names) == 1 else (worded, "mean")
    beside = _beside(session, chapter.publication)
    rows = [
        (
            *((cell_words(session, one.variant),) if several else ()),
            one.version,
            str(one.count),
            figures.ABSENT if one.mean is None else told(quantity(one.name), one.mean),
            column(quantity(one.name), one.interval),
            *(column(quantity(name), means.get((one.version, one.variant))) for name, means in beside.items()),
        )
        for one in sorted(chapter.middles, key=lambda one: session.variants.index(one.variant))
    ]
    left = len(rows) - _MOST_ROWS
    notes = (f"{left} more are in the session's own report.",) if left > 0 else ()
    more = (f"mean {quantity(name).title}" for name in beside)
    head = (*(("what",) if several else ()), "version", "runs", mean, "+-", *more)
    return Table(
        "Figures of this host",
        head,
        tuple(rows[:_MOST_ROWS]),
        tuple(name not in ("what", "version") for name in head),
        notes=notes,
        keys=1 + several,
    )


def _beside(session: Session, publication: Publication) -> dict[str, dict[tuple[str, str], float]]:
    """Means of other figures that something was published about, where they were taken."""
    shown = (None, *figures_about(session))
    names = dict.fromkeys(claim.figure for claim in publication.claim if claim.figure not in shown)
    found = {}
    for name in names:
        means = {(one.version, one.variant): one.mean for one in middles(session, name) if one.mean is not None}
        if name and means:
            found[name] = means
    return found


def _answers_table(answers: Sequence[Answer]) -> Table | None:
    if not answers:
        return None
    rows = tuple(
        tuple(
            told or figures.ABSENT
            for told in (one.what, one.word.value, one.published_words, one.ours_words, one.error_words, one.measured)
        )
        for one in answers
    )
    notes = []
    if any(one.is_ratio for one in answers):
        notes.append("A ratio is a mean over a mean, with its 95 % interval from three runs of either on.")
    differ = [one.is_significant for one in answers if one.interval]
    planned = "What is asked was known before it was measured, so each is judged by itself."
    notes += [f"{planned} {told}" for told in of_so_many(differ)]
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
            f"Cannot be told from so few runs, without an interval; the table has their figures. {LEAST_RUNS} runs of "
            "each would tell: that takes a larger BUDGET.",
        )


def _beyond(publication: Publication, facts: dict[str, float]) -> Iterator[str]:
    words = {name: f"{value:,}" for name, value in facts.items()}
    for one in publication.beyond:
        if one.fact is None or facts.get(one.fact, one.least) < one.least:
            yield one.text.format_map(words)


def state(journey: Journey) -> str:
    """How far it came."""
    took = "" if journey.took_s is None else f" after {span_text(journey.took_s)}"
    return (
        f"{journey.status}{took}, of a budget of {span_text(journey.budget_s)}; {', '.join(journey.versions)}; "
        f"begun {journey.started_at}"
    )


def host_words(chapters: Sequence[Chapter]) -> str:
    """Of the host that measured, in a line; empty where nothing was measured."""
    session = next((one.session for one in chapters if one.session is not None), None)
    if session is None:
        return ""
    names = ("cpu_model", "cpus", "memory_bytes", "os", "virtualisation", "device_model", "ebs_volume", "filesystem")
    told = [figures.fact(name, session.environment[name]) for name in names if session.environment.get(name)]
    return "This host: " + "; ".join(f"{name} {value}" for name, value in told) + "."
