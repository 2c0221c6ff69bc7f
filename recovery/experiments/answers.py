"""Does a published effect show here? A verdict and a sentence, made from figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from recovery.cells import cell_words
from recovery.experiments.literature import Claim, Publication
from recovery.experiments.pairs import VERSION, Pair, pairs, series_measured
from recovery.measures import by_cell, taken
from recovery.report.work.said import number, times
from recovery.stored import Run, Session, Verdict
from recovery.students import LEAST_RUNS, Ratio, half_interval_95, ratio_95
from recovery.summary import mean

_NOTHING = 0.05
"""A published ratio that is no further from 1 says that nothing changes; so does one of ours."""
_COARSE = 0.1
"""An interval as wide hides what would be worth telling."""


_SPELLED = {"cpus": "CPUs"}


class Word(StrEnum):
    SHOWS = "shows"
    NOT = "does not show"
    OPPOSITE = "the opposite shows"
    UNTOLD = "cannot be told"


@dataclass(frozen=True)
class Answer:
    what: str
    """As in the claim."""
    word: Word
    text: str
    """A sentence, with the figures that it is made from."""
    measured: str = ""
    """Of which versions, and in which cell where there are several."""
    published: float | None = None
    """The ratio, or the level; None where only its direction is known."""
    published_words: str = ""
    ours: float | None = None
    error: float | None = None
    """Half of the 95 % interval; None under three runs."""
    ours_words: str = ""
    error_words: str = ""
    is_ratio: bool = True


@dataclass(frozen=True)
class _Asked:
    claim: Claim
    facts: Mapping[str, int]

    @property
    def lacks(self) -> str:
        """Why this host, or this scale, is no place to ask; empty where it is one."""
        missing = [name for name, least in self.claim.needs.items() if self.facts.get(name, 0) < least]
        if not missing:
            return ""
        told = " and ".join(f"{self.facts.get(name, 0):,} {_SPELLED.get(name, name)}" for name in missing)
        return f"{told} are too few{f': {self.claim.why}' if self.claim.why else ''}"


def answers(publication: Publication, session: Session) -> tuple[Answer, ...]:
    """In the order of the claims; those about versions that nobody measured are left out."""
    facts = facts_of(session)
    return tuple(answer for claim in publication.claim for answer in _of(session, _Asked(claim, facts)))


def facts_of(session: Session) -> dict[str, int]:
    """What claims and limits are about, by name."""
    settings, host = session.settings, session.environment
    tables, schemas = (_whole(settings.get(name)) for name in ("tables", "schemas"))
    found = {
        "cpus": _whole(host.get("cpus")),
        "memory_bytes": _whole(host.get("memory_bytes")),
        "tables": tables * max(1, schemas),
        "rows": _whole(settings.get("rows")),
    }
    return {name: value for name, value in found.items() if value}


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _of(session: Session, asked: _Asked) -> Iterator[Answer]:
    claim = asked.claim
    wanted = (claim.one.get(VERSION), claim.other.get(VERSION))
    if not all(series_measured(session, series) for series in wanted if series):
        return
    found = list(pairs(session, claim))
    if not found:
        yield Answer(
            claim.what, Word.UNTOLD, f"Cannot be told: not measured at this scale; published: {published(claim)}.",
            published=claim.published or claim.level, published_words=published(claim), is_ratio=claim.level is None,
        )  # fmt: skip
    cells = by_cell(session)
    for pair in found:
        yield (
            _level(session, asked, pair, cells[pair.one])
            if claim.level is not None
            else _ratio(session, asked, pair, cells)
        )


def _ratio(session: Session, asked: _Asked, pair: Pair, cells: Mapping[tuple[str, str], Sequence[Run]]) -> Answer:
    assert pair.other is not None
    claim = asked.claim
    name = claim.figure or session.figure
    sides = [taken(cells[key], name) for key in (pair.one, pair.other)]
    ours = ratio_95(*sides) if all(map(any, sides)) else None
    word, text = _worded(asked, ours, least=min(map(len, sides)))
    return Answer(
        claim.what, word, text, _measured(session, claim, pair),
        claim.published, published(claim), ours.value if ours else None, ours.error if ours else None,
        factor(ours.value) if ours else "", "" if ours is None or ours.error is None else factor(ours.error),
    )  # fmt: skip


def _measured(session: Session, claim: Claim, pair: Pair) -> str:
    """Which versions, and in which of the cells that the claim does not tell apart."""
    assert pair.other is not None
    versions = " over ".join(dict.fromkeys((pair.one[0], pair.other[0])))
    named = {*claim.one, *claim.other}
    where = cell_words(session, pair.one[1], without=named) if session.cells else ""
    return f"{versions}, {where}" if where else versions


def published(claim: Claim) -> str:
    if claim.level is not None:
        return _figure_words(claim, claim.level)
    if claim.published is None:
        return f"{claim.direction} than 1"
    if claim.at_least:
        return f"at least {factor(claim.published)}"
    told = factor(claim.published)
    return f"{told} to {factor(claim.up_to)}" if claim.up_to else told


def factor(ratio: float) -> str:
    """As exact as a reader needs it."""
    return times(ratio) if ratio < 10 else number(ratio)


def _figure_words(claim: Claim, value: float) -> str:
    """`31,000 bytes`, `100 % of all`."""
    told = f"{100 * value:.4g} %" if claim.unit.startswith("of ") else number(value)
    return f"{told} {claim.unit}".strip()


def _worded(asked: _Asked, ours: Ratio | None, *, least: int) -> tuple[Word, str]:
    theirs = f"published: {published(asked.claim)}"
    if ours is None:
        return Word.UNTOLD, f"Cannot be told: one of the two sides was not measured, or came to nothing; {theirs}."
    told = _times(ours)
    if ours.error is None:
        runs = "one run" if least == 1 else f"{least} runs"
        return Word.UNTOLD, f"Cannot be told from {runs} of a cell, without an interval: {told}; {theirs}."
    word, text = _nothing_claimed(ours) if _is_nothing(asked.claim) else _effect_claimed(asked.claim, ours)
    lacks = asked.lacks
    if lacks and word is Word.NOT:
        return Word.UNTOLD, f"Cannot be told here: {told}, but {lacks}; {theirs}."
    doubt = f" A caveat: {lacks}." if lacks and word is not Word.UNTOLD else ""
    return word, f"{text.format(ours=told, theirs=theirs)}{doubt}"


def _is_nothing(claim: Claim) -> bool:
    return claim.published is not None and abs(claim.published - 1) <= _NOTHING


def _nothing_claimed(ours: Ratio) -> tuple[Word, str]:
    assert ours.error is not None
    if ours.differs and abs(ours.value - 1) > _NOTHING:
        return Word.NOT, "Does not show here: {ours}, which is more than noise; {theirs}."
    if ours.error > _COARSE:
        return Word.UNTOLD, "Cannot be told: {ours} hides a difference as large as its interval; {theirs}."
    return Word.SHOWS, "Shows here: {ours}, next to no difference; {theirs}."


def _effect_claimed(claim: Claim, ours: Ratio) -> tuple[Word, str]:
    assert ours.error is not None
    low, high = ours.value - ours.error, ours.value + ours.error
    least, most = claim.published, claim.up_to or claim.published
    more = claim.direction == "more" if least is None else least > 1
    if not ours.differs:
        inside = least is not None and low <= least <= high
        if inside or (least is None and ours.error > _COARSE):
            return (
                Word.UNTOLD,
                "Cannot be told: the interval of {ours} holds what was published and no difference, too; {theirs}.",
            )
        return Word.NOT, "Does not show here: {ours}, no difference by more than noise; {theirs}."
    if (ours.value > 1) != more:
        return Word.OPPOSITE, "The opposite shows here: {ours}; {theirs}."
    if least is None or most is None:
        return Word.SHOWS, "Shows here: {ours}; {theirs}."
    if claim.at_least:
        held = "as published" if high >= least else "less than was published"
    elif low <= most and high >= least:
        held = "as much as was published"
    else:
        held = "more than was published" if (ours.value > most) == more else "less than was published"
    return Word.SHOWS, f"Shows here, {held}: {{ours}}; {{theirs}}."


def _times(ours: Ratio) -> str:
    return factor(ours.value) if ours.error is None else f"{factor(ours.value)} +- {factor(ours.error)}"


def _level(session: Session, asked: _Asked, pair: Pair, runs: Sequence[Run]) -> Answer:
    claim = asked.claim
    values = [
        value for run in runs if run.verdict is Verdict.MEASURED if (value := _figure(session, claim, run)) is not None
    ]
    ours, theirs = mean(values), f"published: {published(claim)}"
    assert claim.level is not None
    if ours is None:
        word, text = Word.UNTOLD, f"Cannot be told: it was not taken; {theirs}."
    else:
        told = _figure_words(claim, ours)
        if ours <= 0:
            word, text = Word.UNTOLD, f"Cannot be told: {told}, in which others on this host have a part; {theirs}."
        elif abs(ours / claim.level - 1) <= claim.within:
            word, text = Word.SHOWS, f"Shows here: {told}; {theirs}."
        elif asked.lacks:
            word, text = Word.UNTOLD, f"Cannot be told here: {told}, but {asked.lacks}; {theirs}."
        else:
            word, text = Word.NOT, f"Does not show here: {told}; {theirs}."
    error = half_interval_95(values) if len(values) >= LEAST_RUNS else None
    return Answer(
        claim.what, word, text, pair.one[0], claim.level, published(claim), ours, error,
        "" if ours is None else _figure_words(claim, ours), "" if error is None else _figure_words(claim, error),
        is_ratio=False,
    )  # fmt: skip


def _figure(session: Session, claim: Claim, run: Run) -> float | None:
    name = claim.figure or session.figure
    value = run.measures.get(name, getattr(run, name, None))
    tables = run.tables or facts_of(session).get("tables")
    if not isinstance(value, int | float) or (claim.each_table and not tables):
        return None
    return value / tables if claim.each_table and tables else float(value)
