"""The published experiments, and the tables that show what was published beside what a session measured.

The publications are read from published.toml; a session belongs to the one that is named like its experiment."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources

from pydantic import TypeAdapter

from recovery.model import Session, Table
from recovery.report import fmt
from recovery.report.claims import Answer, ClaimVerdict, Publication, answer_claims, claim_facts, count_comparisons


@cache
def publications() -> tuple[Publication, ...]:
    """Returns all publications, in the order of the file."""
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Publication, ...]).validate_python(tomllib.loads(text)["experiment"])


def find_publication(experiment: str) -> Publication | None:
    """Returns the publication that an experiment repeats; None if there is none."""
    return next((publication for publication in publications() if publication.name == experiment), None)


# --- In the report of a session


def published_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables about the publication that the session repeats, or nothing if it measured none of its
    claims."""
    publication = find_publication(session.experiment)
    answers = () if publication is None else answer_claims(publication, session)
    if publication is None or all(answer.verdict is ClaimVerdict.NOT_MEASURED for answer in answers):
        return ()
    tables = (
        _claims_table(answers, count_comparisons(publication, session)),
        figures_table(publication),
        publication_table(publication),
        _limitations_table(publication, session),
    )
    return tuple(table for table in tables if table.rows)


def _claims_table(answers: Sequence[Answer], comparisons: int) -> Table:
    numbers = {
        note: str(number)
        for number, note in enumerate(dict.fromkeys(answer.note for answer in answers if answer.note), 1)
    }
    rows = tuple(
        tuple(
            text or fmt.ABSENT
            for text in (
                answer.what, answer.measured, answer.verdict.value, answer.published_text, answer.ours_text,
                answer.interval_text, numbers.get(answer.note),
            )
        )
        for answer in answers
    )  # fmt: skip
    notes = [f"Note {number}: {note}." for note, number in numbers.items()]
    if any(answer.is_ratio for answer in answers):
        notes.append("A ratio is a mean divided by a mean, with its 95 % interval if both have three runs.")
    notes += fmt.together_notes(comparisons)
    return Table(
        "Published and here",
        ("what", "servers here", "verdict", "published", "here", "95 % interval", "note"),
        rows,
        (False, False, False, False, False, False, True),
        notes=tuple(notes),
        keys=2,
    )


def figures_table(publication: Publication) -> Table:
    return Table(
        "Published figures",
        ("what", *publication.versions),
        tuple((row.what, *row.values) for row in publication.figure),
        (False, *(True for _ in publication.versions)),
    )


def publication_table(publication: Publication) -> Table:
    rows = (
        ("question", publication.question),
        ("source", publication.source),
        ("host", publication.host),
        ("servers", ", ".join(publication.versions)),
        ("scale", publication.scale),
        *([("also published", " ".join(publication.said))] if publication.said else []),
    )
    return Table("The publication", ("what", "value"), rows, (False, False))


def _limitations_table(publication: Publication, session: Session) -> Table:
    facts = claim_facts(session)
    words = {name: f"{value:,}" for name, value in facts.items()}
    rows = tuple(
        (limitation.text.format_map(words),)
        for limitation in publication.beyond
        if limitation.fact is None or facts.get(limitation.fact, limitation.least) < limitation.least
    )
    return Table("What this host cannot show", ("published",), rows, (False,))


# --- In one line


def short_answer(answers: Sequence[Answer]) -> str:
    """Returns how many claims have which verdict, and the first significant effect."""
    if not answers:
        return "the publication makes no claim about the measured versions."
    count = Counter(answer.verdict for answer in answers)
    counts = ", ".join(f"{count[verdict]} {verdict.value}" for verdict in ClaimVerdict if count[verdict])
    first = next((answer for answer in answers if answer.is_significant), None)
    effects = "effect" if len(answers) == 1 else "effects"
    return " ".join((f"{len(answers)} published {effects}: {counts}.", *_headline(first)))


def _headline(answer: Answer | None) -> Iterator[str]:
    """Yields a sentence about an answer, if there is one."""
    if answer is not None:
        shown = answer.interval_text not in ("", answer.ours_text)
        interval = f" ({answer.interval_text})" if shown else ""
        what = f"{answer.what[0].upper()}{answer.what[1:]}"
        yield f"{what}: {answer.ours_text}{interval} here, {answer.published_text} published."
