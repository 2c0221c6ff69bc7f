"""The stored record of a run of `recovery experiments`, and its page as HTML and Markdown.

The record is experiments.json. Both reports are made from it and from the stored sessions in the folders next to it, so
they can be written again at any time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from pydantic import TypeAdapter

from recovery import __version__
from recovery.analysis.summary import Summary, cell_words, summarise
from recovery.analysis.warnings import findings
from recovery.cli.suite_published import Answer, ClaimVerdict, Publication, answer_claims, claim_facts, publications
from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import STORED_FORMAT, new_folder, read_stored, sync_folder, write_atomically
from recovery.model import Session, Table, metric
from recovery.report import fmt
from recovery.report.html.page import PAGE, template
from recovery.report.html.parts import table_parts
from recovery.report.markdown import code_block, escaped, table_lines
from recovery.session.estimate import duration_text
from recovery.storage.sessions import load_session, writing_results

# --- The stored record (experiments.json)

RECORD_FILE = "experiments.json"
_FOLDER_SUFFIX = "-experiments"


@dataclass(frozen=True, kw_only=True)
class ExperimentRecord:
    """The record of one experiment: its command and its outcome."""

    name: str
    """Name of its experiment."""
    command: str | None = None
    """Command that measures it alone. None in records of older versions, which left some experiments out."""
    took_s: float | None = None
    """Duration; None until it has ended."""
    session: str | None = None
    """Folder name of its session, next to the folder of this record."""
    error: str | None = None
    """Why it ended early, or why not all of its runs count."""


@dataclass(frozen=True, kw_only=True)
class SuiteRecord:
    """The record of a whole run of `recovery experiments`."""

    command: str
    started_at: str
    scale: str = ""
    """Empty in records of older versions."""
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
    def summaries(self) -> tuple[Summary, ...]:
        return () if self.session is None else tuple(one for one in summarise(self.session) if one.count)


_SUITE_RECORD = TypeAdapter(SuiteRecord)
_PUBLICATION = TypeAdapter(Publication)
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


def load_results(record: SuiteRecord, folder: Path) -> tuple[ExperimentResult, ...]:
    """Returns the experiments of a run, with their sessions as stored in the folders next to `folder`."""
    steps = {step.name: step for step in record.steps}
    return tuple(_load_result(one, steps[one.name], folder) for one in publications() if one.name in steps)


def _load_result(publication: Publication, step: ExperimentRecord, folder: Path) -> ExperimentResult:
    if step.session is None:
        return ExperimentResult(publication, step, None)
    try:
        session = load_session(session_folder(step.session, folder))
    except RecoveryError as error:
        return ExperimentResult(publication, step, None, missing=error.message)
    return ExperimentResult(publication, step, session, answer_claims(publication, session))


def session_folder(name: str, folder: Path) -> Path:
    """Returns the folder of a session next to `folder`.

    The record may come from somebody else and contain any path, so only the last part of the name is used."""
    return folder.parent / PurePath(name).name


def save_suite(record: SuiteRecord, folder: Path) -> None:
    """Writes the record, with answers and summaries computed from the current sessions."""
    _save(record, folder, load_results(record, folder))


def _save(record: SuiteRecord, folder: Path, results: Sequence[ExperimentResult]) -> None:
    body = _SUITE_RECORD.dump_python(record, mode="json")
    body["steps"] = [_stored_step(one) for one in results]
    text = json.dumps({"format": STORED_FORMAT, **body}, indent=2, ensure_ascii=False) + "\n"
    with writing_results(folder):
        write_atomically(folder / RECORD_FILE, text.encode("utf-8", errors="replace"))


def _stored_step(result: ExperimentResult) -> dict[str, Any]:
    """Returns a step as it is stored, with what was published and what follows from the session."""
    return {
        **TypeAdapter(ExperimentRecord).dump_python(result.step, mode="json"),
        "published": _PUBLICATION.dump_python(result.publication, mode="json"),
        "answers": _ANSWERS.dump_python(result.answers, mode="json"),
        "measures": _SUMMARIES.dump_python(result.summaries, mode="json"),
    }


def read_suite(folder: Path) -> SuiteRecord:
    """Reads the record of a folder. Raises UsageError if the folder has none."""
    path = folder / RECORD_FILE
    if not path.is_file():
        raise UsageError(f"there are no experiments in {folder}", f"name a folder that has {RECORD_FILE}")
    return read_stored(path, _SUITE_RECORD)


# --- The content of the page, independent of the format

SUITE_PAGE, SUITE_MARKDOWN = "index.html", "report.md"
SUITE_TITLE = "Published experiments, repeated here"
SUITE_QUESTION = "What was published, and does it reproduce on this host?"
_MAX_ROWS = 24
"""Maximum number of rows of the table of measured figures."""
_LEAST_IN_MINUTES_S = 120
"""Duration from which minutes are shown instead of seconds."""
_HOST_FACTS = (
    "cpu_model", "cpus", "memory_bytes", "os", "virtualisation", "device_model", "ebs_volume", "filesystem",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ExperimentSection:
    """The part of the page about one experiment."""

    key: str
    title: str
    question: str
    short: str
    """Short answer, shown after the title at the top of the page."""
    paragraphs: tuple[str, ...]
    tables: tuple[Table, ...]
    """The answers, the published figures, and the figures measured here."""
    beyond: tuple[str, ...]
    """What this host cannot show."""
    link: str | None
    """Relative link from this folder to the report of the session."""
    command: str | None

    @property
    def summary(self) -> str:
        return f"{self.title}: {self.short}"


def _short_duration_text(seconds: float) -> str:
    """Formats a duration in seconds if it is shorter than two minutes, and otherwise like `duration_text`."""
    return f"{seconds:.0f} s" if seconds < _LEAST_IN_MINUTES_S else duration_text(seconds)


def experiment_sections(results: Sequence[ExperimentResult]) -> tuple[ExperimentSection, ...]:
    """Returns the part of the page about each experiment.

    CPUs and memory of the host are taken from the other sessions for an experiment that has no session."""
    host: dict[str, float] = {}
    for one in results:
        host |= {} if one.session is None else claim_facts(one.session)
    known = {name: value for name, value in host.items() if name in ("cpus", "memory_bytes")}
    return tuple(_section(one, known) for one in results)


def _section(result: ExperimentResult, host: dict[str, float]) -> ExperimentSection:
    publication, session = result.publication, result.session
    tables = [_answers_table(result.answers), _published_table(publication)]
    if session is not None:
        tables.append(_measured_table(session, result.summaries))
    return ExperimentSection(
        key=publication.name,
        title=f"{publication.label} {publication.title}",
        question=publication.question,
        short=_short_answer(result),
        paragraphs=(*_published_paragraphs(publication), _measured_text(result)),
        tables=tuple(table for table in tables if table.rows),
        beyond=tuple(_host_limitations(publication, host if session is None else claim_facts(session))),
        link=f"../{PurePath(result.step.session).name}/{PAGE}" if session and result.step.session else None,
        command=result.step.command,
    )


def _short_answer(result: ExperimentResult) -> str:
    if result.session is None:
        reason = result.step.error or result.missing
        return "not measured yet." if reason is None else f"not measured: {reason.rstrip('.')}."
    if not result.answers:
        return "the publication makes no claim about the measured versions."
    counted = Counter(one.verdict for one in result.answers)
    counts = ", ".join(f"{counted[verdict]} {verdict.value}" for verdict in ClaimVerdict if counted[verdict])
    first = next((one for one in result.answers if one.is_significant), None)
    total = len(result.answers)
    return f"{total} published effect{'' if total == 1 else 's'}: {counts}.{_headline(first)}"


def _headline(answer: Answer | None) -> str:
    """Returns a sentence about an answer, or an empty text without one."""
    if answer is None:
        return ""
    shown = answer.interval_text not in ("", answer.ours_text)
    interval = f" ({answer.interval_text})" if shown else ""
    what = f"{answer.what[0].upper()}{answer.what[1:]}"
    return f" {what}: {answer.ours_text}{interval} here, {answer.published_text} published."


def _published_paragraphs(publication: Publication) -> Iterator[str]:
    versions = ", ".join(publication.versions)
    yield f"Published: {publication.source}. Host: {publication.host}. Servers: {versions}. Scale: {publication.scale}."
    yield from publication.said


def _measured_text(result: ExperimentResult) -> str:
    step, session = result.step, result.session
    if session is None:
        return f"Here: {_short_answer(result)}"
    parts = [f"Here: {', '.join(session.versions)}."]
    if step.took_s is not None:
        parts.append(f"It took {_short_duration_text(step.took_s)}.")
    if step.error:
        how = "Not all of it counts" if session.status == "finished" else "It ended early"
        parts.append(f"{how}: {step.error.rstrip('.')}.")
    elif session.status != "finished":
        parts.append(f"This session is {session.status}: {len(session.runs)} of {session.planned_runs} runs had ended.")
    kinds = dict.fromkeys(one.kind.replace("-", " ") for one in findings(session) if one.kind)
    if kinds:
        parts.append(f"Warnings in the session's own report: {', '.join(kinds)}.")
    return " ".join(parts)


def _published_table(publication: Publication) -> Table:
    return Table(
        "Published figures",
        ("what", *publication.versions),
        tuple((one.what, *one.values) for one in publication.figure),
        (False, *(True for _ in publication.versions)),
    )


def _measured_table(session: Session, summaries: Sequence[Summary]) -> Table:
    head = ("what", "version", "runs", "mean", "+-")
    rows = tuple(
        (
            cell_words(session, one.variant),
            one.version,
            str(one.count),
            fmt.ABSENT if one.mean is None else fmt.with_unit(metric(one.name), one.mean),
            fmt.interval_column(metric(one.name), one),
        )
        for one in summaries[:_MAX_ROWS]
    )
    more = len(summaries) - _MAX_ROWS
    notes = (f"{more} more are in the session's own report.",) if more > 0 else ()
    return Table("Figures of this host", head, rows, (False, False, True, True, True), notes=notes, keys=2)


def _answers_table(answers: Sequence[Answer]) -> Table:
    reasons = {
        note: str(number) for number, note in enumerate(dict.fromkeys(one.note for one in answers if one.note), 1)
    }
    rows = tuple(
        tuple(
            text or fmt.ABSENT
            for text in (
                one.what, one.verdict.value, one.published_text, one.ours_text, one.interval_text, one.measured,
                reasons.get(one.note),
            )
        )
        for one in answers
    )  # fmt: skip
    notes = [f"Note {number}: {note}." for note, number in reasons.items()]
    if any(one.is_ratio for one in answers):
        notes.append("A ratio is a mean divided by a mean, with its 95 % interval if both have three runs.")
    significant = [one.is_significant for one in answers if one.interval and one.is_ratio]
    fixed = "The claims were fixed before the measurement, so each is judged by itself."
    notes += [f"{fixed} {text}" for text in fmt.chance_notes(significant)]
    return Table(
        "Published and here",
        ("what", "verdict", "published", "here", "95 % interval", "servers here", "note"),
        rows,
        (False, False, True, True, True, False, True),
        notes=tuple(notes),
    )


def _host_limitations(publication: Publication, facts: dict[str, float]) -> Iterator[str]:
    words = {name: f"{value:,}" for name, value in facts.items()}
    for one in publication.beyond:
        if one.fact is None or facts.get(one.fact, one.least) < one.least:
            yield one.text.format_map(words)


def opening(record: SuiteRecord, results: Sequence[ExperimentResult]) -> tuple[str, ...]:
    """Returns the status of the run and, if anything was measured, a line about the host."""
    took = "" if record.took_s is None else f" after {_short_duration_text(record.took_s)}"
    scale = f"scale {record.scale}; " if record.scale else ""
    state = f"{record.status}{took}; {scale}{', '.join(record.versions)}; started {record.started_at}"
    session = next((one.session for one in results if one.session is not None), None)
    if session is None:
        return (state,)
    facts = [fmt.fact_row(name, session.environment[name]) for name in _HOST_FACTS if session.environment.get(name)]
    return state, f"This host: {'; '.join(f'{name} {value}' for name, value in facts)}."


# --- The page as HTML and as Markdown

_BADGES = {
    ClaimVerdict.HOLDS.value: "good",
    ClaimVerdict.WEAKER.value: "doubtful",
    ClaimVerdict.NOT.value: "bad",
    ClaimVerdict.OPPOSITE.value: "bad",
    ClaimVerdict.INCONCLUSIVE.value: "doubtful",
}


def write_suite_reports(folder: Path) -> None:
    """Writes both reports and the derived part of the record, from the record and the sessions next to it."""
    record = read_suite(folder)
    results = load_results(record, folder)
    _save(record, folder, results)
    with writing_results(folder):
        for name, text in (
            (SUITE_PAGE, render_html(record, results)),
            (SUITE_MARKDOWN, render_markdown(record, results)),
        ):
            write_atomically(folder / name, text.encode("utf-8", errors="replace"))


def render_html(record: SuiteRecord, results: Sequence[ExperimentResult]) -> str:
    """Returns the HTML page, which loads nothing from elsewhere."""
    return template("experiments.html.j2").render(
        title=SUITE_TITLE,
        question=SUITE_QUESTION,
        opening=opening(record, results),
        record=record,
        sections=[(one, table_parts(one.key, *one.tables)) for one in experiment_sections(results)],
        badges=_BADGES,
    )


def render_markdown(record: SuiteRecord, results: Sequence[ExperimentResult]) -> str:
    """Returns the page as Markdown, with all text from outside escaped."""
    sections = experiment_sections(results)
    lines = [f"# {SUITE_TITLE}"]
    for text in (SUITE_QUESTION, *opening(record, results)):
        lines += ["", escaped(text)]
    lines += ["", *(f"- {escaped(one.summary)}" for one in sections), "", *code_block(fmt.printable(record.command))]
    for one in sections:
        lines += ["", f"## {escaped(one.title)}", "", escaped(one.question)]
        for text in one.paragraphs:
            lines += ["", escaped(text)]
        for table in one.tables:
            lines += ["", *(f"#{line}" if line.startswith("## ") else line for line in table_lines(table))]
        if one.beyond:
            lines += ["", "### What this host cannot show", "", *(f"- {escaped(text)}" for text in one.beyond)]
        if one.command:
            lines += ["", *code_block(fmt.printable(one.command))]
        if one.link:
            lines += ["", f"[The session's own report]({one.link})"]
    return "\n".join(lines) + "\n"
