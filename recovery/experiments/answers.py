"""Does a published effect show here? A verdict and a sentence, made from figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from recovery.cells import cell_words
from recovery.experiments.literature import DIRECTIONS, Claim, Publication
from recovery.experiments.pairs import VERSION, Pair, pairs, series_measured
from recovery.experiments.verdicts import (
    Asked,
    Word,
    figure_words,
    interval_words,
    of_levels,
    of_ratio,
    published,
)
from recovery.limited import limits_of
from recovery.measures import by_cell, taken
from recovery.report.work.said import times
from recovery.stored import Run, Session, Verdict
from recovery.students import LEAST_RUNS, effect_95, half_interval_95
from recovery.summary import mean


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
    """Half the width of the 95 % interval; None under three runs."""
    ours_words: str = ""
    error_words: str = ""
    is_ratio: bool = True
    levels: tuple[float, float] | None = None
    """Of both sides, where the base is nothing, or so close to it that a ratio would be noise."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of a ratio."""
    few: bool = False
    """It cannot be told for no other reason than that there are too few runs."""

    @property
    def is_significant(self) -> bool:
        """A ratio whose interval leaves out 1, or a level with an interval."""
        if self.is_ratio:
            return self.interval is not None and not self.interval[0] <= 1 <= self.interval[1]
        return self.error is not None


def answers(publication: Publication, session: Session) -> tuple[Answer, ...]:
    """In the order of the claims; those about versions that nobody measured are left out."""
    facts = facts_of(session)
    return tuple(answer for claim in publication.claim for answer in _of(session, Asked(claim, facts)))


def facts_of(session: Session) -> dict[str, float]:
    """What claims are about, by name: of the host what the server was allowed."""
    settings, host, limits = session.settings, session.environment, limits_of(session.settings)
    tables, schemas = (_whole(settings.get(name)) for name in ("tables", "schemas"))
    found = {
        "cpus": _least(_whole(host.get("cpus")), limits.cpus),
        "memory_bytes": _least(_whole(host.get("memory_bytes")), limits.memory_bytes),
        "tables": tables * max(1, schemas),
        "rows": _whole(settings.get("rows")),
    }
    return {name: value for name, value in found.items() if value}


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _least(there: int, allowed: float | None) -> float:
    """Told as it was given: 2 and not 2.0."""
    found = min(there or allowed, allowed) if allowed else there
    return int(found) if found == int(found) else found


def _of(session: Session, asked: Asked) -> Iterator[Answer]:
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


def _ratio(session: Session, asked: Asked, pair: Pair, cells: Mapping[tuple[str, str], Sequence[Run]]) -> Answer:
    assert pair.other is not None
    claim = asked.claim
    name = claim.figure or session.figure_of(pair.one[1])
    sides = [taken(cells[key], name) for key in (pair.one, pair.other)]
    ours = effect_95(*sides) if all(map(any, sides)) else None
    least = min(map(len, sides))
    where, few = _measured(session, claim, pair), 0 < least < LEAST_RUNS
    found = of_levels(asked, name, sides) if claim.direction in DIRECTIONS and least else None
    if found and claim.direction and not (ours and ours.differs and (ours.error or 0.0) < ours.value):
        return Answer(
            claim.what, found.word, found.text, where, None, claim.direction, None, None, found.told,
            is_ratio=False, levels=(found.one, found.other), few=few,
        )  # fmt: skip
    word, text = of_ratio(asked, ours, least=least)
    return Answer(
        claim.what, word, text, where,
        claim.published, published(claim), ours.value if ours else None, ours.error if ours else None,
        times(ours.value) if ours else "", interval_words(ours), few=few and ours is not None,
        interval=(ours.low, ours.high) if ours and ours.low is not None and ours.high is not None else None,
    )  # fmt: skip


def _measured(session: Session, claim: Claim, pair: Pair) -> str:
    """Which versions, and in which of the cells that the claim does not tell apart."""
    assert pair.other is not None
    versions = " over ".join(dict.fromkeys((pair.one[0], pair.other[0])))
    named = {*claim.one, *claim.other}
    where = cell_words(session, pair.one[1], without=named) if session.cells else ""
    return f"{versions}, {where}" if where else versions


def _level(session: Session, asked: Asked, pair: Pair, runs: Sequence[Run]) -> Answer:
    claim = asked.claim
    values = [
        value for run in runs if run.verdict is Verdict.MEASURED if (value := _figure(session, claim, run)) is not None
    ]
    ours, theirs = mean(values), f"published: {published(claim)}"
    assert claim.level is not None
    if ours is None:
        word, text = Word.UNTOLD, f"Cannot be told: it was not taken; {theirs}."
    else:
        told = figure_words(claim, ours)
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
        "" if ours is None else figure_words(claim, ours),
        "" if error is None or ours is None
        else f"{figure_words(claim, ours - error)} to {figure_words(claim, ours + error)}",
        is_ratio=False,
    )  # fmt: skip


def _figure(session: Session, claim: Claim, run: Run) -> float | None:
    name = claim.figure or session.figure_of(run.variant)
    value = run.measures.get(name, getattr(run, name, None))
    tables = run.tables or facts_of(session).get("tables")
    if not isinstance(value, int | float) or (claim.each_table and not tables):
        return None
    return value / tables if claim.each_table and tables else float(value)
