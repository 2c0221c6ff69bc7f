"""The published experiments, and the comparison of each published claim with a session measured here.

The publications are read from published.toml. A claim states an effect in a form that can be compared with a host of
another size: mostly a ratio. Everything except the reading of that file is pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from statistics import fmean

from pydantic import TypeAdapter

from recovery.analysis.statistics import MIN_RUNS, Effect, compare_differences, compare_means, half_interval_95
from recovery.analysis.summary import cell_words, mean, metric_values, parse_number, runs_by_cell
from recovery.linux.cgroups import limits_from_settings
from recovery.model import Run, Session, Verdict, metric
from recovery.report.fmt import number as number_text
from recovery.report.fmt import times, with_unit

Selector = Mapping[str, str]
"""Selects cells by a series of versions, a variant, or values of axes. `least` and `most` stand for the smallest and
the largest measured value of an axis."""


DIRECTIONS = ("less", "more")
UNKNOWN_DIRECTION = "either"
"""Direction of a claim that was compared in the publication with a result that is unknown to this tool."""


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table."""

    what: str
    values: tuple[str, ...]
    """One value for each published version, as printed."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A published effect, in a form that can be compared with measurements on another host."""

    what: str
    one: Selector
    """The cell of the numerator."""
    other: Selector = field(default_factory=dict)
    """The cell of the denominator: the differences from `one`."""
    figure: str | None = None
    """Name of the figure; None for the figure that the session measures."""
    of: float | None = None
    """Published figure of `one`."""
    to: float | None = None
    """Published figure of `other`."""
    ratio: float | None = None
    """Published ratio, if the two figures were not published."""
    at_least: bool = False
    """The published ratio is a lower bound."""
    up_to: float | None = None
    """Upper end, if a range of ratios was published."""
    direction: str | None = None
    """`less` or `more` if only the direction was published; `either` if not even that is known."""
    level: float | None = None
    """A published figure that is compared by itself, not as a ratio."""
    within: float = 0.0
    """Largest distance from the level, as a share of it, that still counts as published."""
    each_table: bool = False
    """The measured figure is divided by the number of tables."""
    unit: str = ""
    needs: Mapping[str, int] = field(default_factory=dict)
    """Minimum values of facts about the host and the scale, below which a missing effect refutes nothing."""
    why: str = ""
    """Why the minimum values are needed."""

    @property
    def published(self) -> float | None:
        """The published ratio; None if only its direction or a level was published."""
        if self.of is not None and self.to:
            return self.of / self.to
        return self.ratio


@dataclass(frozen=True, kw_only=True)
class HostLimitation:
    """Something published that a small host cannot show."""

    text: str
    fact: str | None = None
    """Fact of the host that decides; None if no host can show it any more."""
    least: int = 0
    """Value of the fact from which a host could show it."""


@dataclass(frozen=True, kw_only=True)
class Publication:
    """A published experiment."""

    name: str
    """Name of the scenario that repeats it."""
    label: str
    title: str
    question: str
    source: str
    host: str
    versions: tuple[str, ...]
    scale: str
    said: tuple[str, ...] = ()
    figure: tuple[PublishedRow, ...] = ()
    claim: tuple[Claim, ...] = ()
    beyond: tuple[HostLimitation, ...] = ()


@cache
def publications() -> tuple[Publication, ...]:
    """Returns all publications, in the order of the file."""
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Publication, ...]).validate_python(tomllib.loads(text)["experiment"])


def publication_names() -> tuple[str, ...]:
    return tuple(one.name for one in publications())


# --- Cells of a session that a claim is about

VERSION, VARIANT = "version", "variant"
LEAST, MOST = "least", "most"
CellKey = tuple[str, str]
"""Version and variant of a cell."""


@dataclass(frozen=True)
class CellPair:
    """Two cells to compare."""

    one: CellKey
    other: CellKey | None
    """None if the claim is about a level."""


def cell_pairs(session: Session, claim: Claim) -> Iterator[CellPair]:
    """Yields the pairs of cells that a claim is about, in the order of the session."""
    for version in _series_versions(session, claim.one.get(VERSION)):
        for variant in session.variants:
            if not _matches(session, variant, claim.one):
                continue
            if claim.level is not None:
                yield CellPair((version, variant), None)
                continue
            like = {**claim.one, **claim.other}
            base = _variant_like(session, variant, like)
            for old in _series_versions(session, like.get(VERSION)) if VERSION in claim.other else (version,):
                if base is not None and (old, base) != (version, variant):
                    yield CellPair((version, variant), (old, base))


def has_series(session: Session, series: str | None) -> bool:
    return any(_series_versions(session, series))


def _series_versions(session: Session, series: str | None) -> tuple[str, ...]:
    return tuple(one for one in session.versions if series is None or one == series or one.startswith(f"{series}."))


def _matches(session: Session, variant: str, wanted: Selector) -> bool:
    if variant != wanted.get(VARIANT, variant):
        return False
    cell = session.cells.get(variant, {})
    return all(cell.get(name) == value for name, value in _axis_values(session, wanted).items())


def _variant_like(session: Session, variant: str, wanted: Selector) -> str | None:
    """Returns the variant that has these values and otherwise the same as `variant`; None if there is none."""
    cell = {**session.cells.get(variant, {}), **_axis_values(session, wanted)}
    return next((one for one in session.variants if session.cells.get(one, {}) == cell), None)


def _axis_values(session: Session, wanted: Selector) -> Mapping[str, str]:
    return {name: _axis_value(session, name, value) for name, value in wanted.items() if name not in (VERSION, VARIANT)}


def _axis_value(session: Session, name: str, value: str) -> str:
    if value not in (LEAST, MOST):
        return value
    there = [one for axis in session.axes if axis.name == name for one in axis.values if parse_number(one) is not None]
    if not there:
        return value
    return (max if value == MOST else min)(there, key=lambda one: parse_number(one) or 0.0)


# --- Verdict and sentence for a claim

_NO_CHANGE = 0.05
"""A ratio that is no further from 1, published or measured, means no change."""
_MAX_HALF_INTERVAL = 0.1
"""Half the width of an interval above which a relevant effect could be hidden in it."""


_FACT_NAMES = {"cpus": "CPUs"}


class ClaimVerdict(StrEnum):
    """The verdict about a claim, in words of the report."""

    SHOWS = "shows"
    NOT = "does not show"
    OPPOSITE = "the opposite shows"
    UNTOLD = "cannot be told"
    COMPARED = "was compared"
    """Compared without a published figure."""


@dataclass(frozen=True)
class ClaimCheck:
    """A claim with the facts of the host and the scale that it is checked on."""

    claim: Claim
    facts: Mapping[str, float]

    @property
    def lacks(self) -> str:
        """Why this host or this scale is too small for the claim; empty if it is not."""
        missing = [name for name, least in self.claim.needs.items() if self.facts.get(name, 0) < least]
        if not missing:
            return ""
        told = " and ".join(f"{self.facts.get(name, 0):,} {_FACT_NAMES.get(name, name)}" for name in missing)
        return f"{told} are too few{f': {self.claim.why}' if self.claim.why else ''}"


def published_text(claim: Claim) -> str:
    """Returns the published value of a claim as text."""
    if claim.level is not None:
        return level_text(claim, claim.level)
    if claim.direction == UNKNOWN_DIRECTION:
        return "no figure"
    if claim.published is None:
        return f"{claim.direction} than 1"
    if claim.at_least:
        return f"at least {times(claim.published)}"
    told = times(claim.published)
    return f"{told} to {times(claim.up_to)}" if claim.up_to else told


def level_text(claim: Claim, value: float) -> str:
    """Formats a level with the unit of the claim, such as `31,000 bytes` or `100 % of all`."""
    told = f"{100 * value:.4g} %" if claim.unit.startswith("of ") else number_text(value)
    return f"{told} {claim.unit}".strip()


def judge_ratio(asked: ClaimCheck, ours: Effect | None, *, least: int) -> tuple[ClaimVerdict, str]:
    """Returns the verdict and a sentence about a measured ratio. `least` is the number of runs of the smaller side."""
    theirs = f"published: {published_text(asked.claim)}"
    if ours is None:
        return (
            ClaimVerdict.UNTOLD,
            f"Cannot be told: one of the two sides was not measured, or came to nothing; {theirs}.",
        )
    told = _ratio_text(ours)
    if ours.differs is None:
        runs = "one run" if least == 1 else f"{least} runs"
        return ClaimVerdict.UNTOLD, f"Cannot be told from {runs} of a cell, without an interval: {told}; {theirs}."
    if asked.claim.direction == UNKNOWN_DIRECTION:
        word = "significant" if ours.differs else "not significant"
        return ClaimVerdict.COMPARED, f"No figure was published; here {told}, {word}."
    word, text = _judge_no_change(ours) if _claims_no_change(asked.claim) else _judge_change(asked.claim, ours)
    lacks = asked.lacks
    if lacks and word is ClaimVerdict.NOT:
        return ClaimVerdict.UNTOLD, f"Cannot be told here: {told}, but {lacks}; {theirs}."
    doubt = f" A caveat: {lacks}." if lacks and word is not ClaimVerdict.UNTOLD else ""
    return word, f"{text.format(ours=told, theirs=theirs)}{doubt}"


def _claims_no_change(claim: Claim) -> bool:
    return claim.published is not None and abs(claim.published - 1) <= _NO_CHANGE


def _judge_no_change(ours: Effect) -> tuple[ClaimVerdict, str]:
    """Returns the verdict and a sentence template for a claim that nothing changes."""
    assert ours.error is not None
    if ours.differs and abs(ours.value - 1) > _NO_CHANGE:
        return ClaimVerdict.NOT, "Does not show here: {ours}, which is significant; {theirs}."
    if ours.error > _MAX_HALF_INTERVAL:
        return ClaimVerdict.UNTOLD, "Cannot be told: {ours} hides a difference as large as its interval; {theirs}."
    return ClaimVerdict.SHOWS, "Shows here: {ours}, next to no difference; {theirs}."


def _judge_change(claim: Claim, ours: Effect) -> tuple[ClaimVerdict, str]:
    """Returns the verdict and a sentence template for a claim that something changes."""
    assert ours.low is not None
    assert ours.high is not None
    low, high = ours.low, ours.high
    least, most = claim.published, claim.up_to or claim.published
    more = claim.direction == "more" if least is None else least > 1
    if not ours.differs:
        inside = least is not None and low <= least <= high
        if inside or (least is None and (high - low) / 2 > _MAX_HALF_INTERVAL):
            return (
                ClaimVerdict.UNTOLD,
                "Cannot be told: the interval of {ours} holds what was published and no difference, too; {theirs}.",
            )
        return ClaimVerdict.NOT, "Does not show here: {ours}, no significant difference; {theirs}."
    if (ours.value > 1) != more:
        return ClaimVerdict.OPPOSITE, "The opposite shows here: {ours}; {theirs}."
    if least is None or most is None:
        return ClaimVerdict.SHOWS, "Shows here: {ours}; {theirs}."
    if claim.at_least:
        held = "as published" if high >= least else "less than was published"
    elif low <= most and high >= least:
        held = "as much as was published"
    else:
        held = "more than was published" if (ours.value > most) == more else "less than was published"
    return ClaimVerdict.SHOWS, f"Shows here, {held}: {{ours}}; {{theirs}}."


def _ratio_text(ours: Effect) -> str:
    return times(ours.value) + (f" ({interval_text(ours)})" if ours.error is not None else "")


def interval_text(ours: Effect | None) -> str:
    """Formats the interval of an effect, such as `1.52-1.90`; empty without an interval."""
    if ours is None or ours.low is None or ours.high is None:
        return ""
    return f"{times(ours.low)}-{times(ours.high)}"


@dataclass(frozen=True)
class LevelsVerdict:
    """The verdict from the two means themselves, for cases in which their ratio is meaningless."""

    word: ClaimVerdict
    text: str
    one: float
    other: float
    told: str


def judge_levels(asked: ClaimCheck, name: str, sides: Sequence[Sequence[float]]) -> LevelsVerdict | None:
    """Returns the verdict from the means of both sides, for a claim with only a direction. None if a ratio is as good.

    There is no ratio over a mean of zero, and over a mean near zero it is only noise. The means themselves are enough
    to decide about a direction."""
    claim, about = asked.claim, metric(name)
    one, other = (fmean(side) for side in sides)
    told = f"{with_unit(about, one)} against {with_unit(about, other)}"
    theirs = f"published: {claim.direction}"
    few = min(map(len, sides)) < MIN_RUNS
    apart = not few and _differ(*sides)
    if one and other and not apart:
        return None
    if few:
        word, text = ClaimVerdict.UNTOLD, "Cannot be told from so few runs, without an interval"
    elif apart:
        shows = (one > other) is (claim.direction == "more")
        word, text = (ClaimVerdict.SHOWS, "Shows here") if shows else (ClaimVerdict.OPPOSITE, "The opposite shows here")
    elif one or other:
        word, text = ClaimVerdict.UNTOLD, "Cannot be told, for some of the runs have none"
    else:
        word, text = ClaimVerdict.NOT, "Does not show here"
    if asked.lacks and word is ClaimVerdict.NOT:
        word, text, told = ClaimVerdict.UNTOLD, "Cannot be told here", f"{told}, but {asked.lacks}"
    return LevelsVerdict(
        word, f"{text}: {told}; {theirs}.", one, other, f"{with_unit(about, one)} from {number_text(other)}"
    )


def _differ(one: Sequence[float], other: Sequence[float]) -> bool:
    """Returns whether two sides differ: significantly, or because one is zero in all runs and the other in none."""
    less, more = sorted((one, other), key=fmean)
    if not any(less):
        return min(more) > 0
    return compare_differences(more, less).differs is True


# --- Answers: each claim checked on the cells of a session


@dataclass(frozen=True)
class Answer:
    """The answer to the question of whether a published effect shows on this host."""

    what: str
    """The effect, as in the claim."""
    word: ClaimVerdict
    text: str
    """A sentence with the verdict and the figures that it is based on."""
    measured: str = ""
    """The measured versions, and the cell if there are several."""
    published: float | None = None
    """The published ratio or level; None if only the direction is known."""
    published_words: str = ""
    """The published value as text."""
    ours: float | None = None
    """The ratio or level measured here; None if there is none."""
    error: float | None = None
    """Half the width of the 95 % interval; None with fewer than three runs."""
    ours_words: str = ""
    """The measured value as text."""
    error_words: str = ""
    """The 95 % interval as text."""
    is_ratio: bool = True
    levels: tuple[float, float] | None = None
    """The means of both sides, if the base is zero or so close to it that a ratio would be noise."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of a ratio."""
    few: bool = False
    """Too few runs are the only reason why there is no verdict."""

    @property
    def is_significant(self) -> bool:
        """Whether it is a ratio with an interval that does not contain 1, or a level with an interval."""
        if self.is_ratio:
            return self.interval is not None and not self.interval[0] <= 1 <= self.interval[1]
        return self.error is not None


def answer_claims(publication: Publication, session: Session) -> tuple[Answer, ...]:
    """Returns the answers in the order of the claims. Claims about versions that were not measured are left out."""
    facts = claim_facts(session)
    return tuple(
        answer for claim in publication.claim for answer in _answers_to_claim(session, ClaimCheck(claim, facts))
    )


def claim_facts(session: Session) -> dict[str, float]:
    """Returns the facts that claims refer to, by name. CPUs and memory are those that the server was limited to."""
    settings, host, limits = session.settings, session.environment, limits_from_settings(session.settings)
    tables, schemas = (_int_or_zero(settings.get(name)) for name in ("tables", "schemas"))
    found = {
        "cpus": _allowed(_int_or_zero(host.get("cpus")), limits.cpus),
        "memory_bytes": _allowed(_int_or_zero(host.get("memory_bytes")), limits.memory_bytes),
        "tables": tables * max(1, schemas),
        "rows": _int_or_zero(settings.get("rows")),
    }
    return {name: value for name, value in found.items() if value}


def _int_or_zero(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _allowed(there: int, allowed: float | None) -> float:
    """Returns the smaller of what the host has and what is allowed, as an integer if possible: 2 and not 2.0."""
    found = min(there or allowed, allowed) if allowed else there
    return int(found) if found == int(found) else found


def _answers_to_claim(session: Session, asked: ClaimCheck) -> Iterator[Answer]:
    """Yields an answer for each pair of cells that the claim is about, or one answer that it was not measured."""
    claim = asked.claim
    wanted = (claim.one.get(VERSION), claim.other.get(VERSION))
    if not all(has_series(session, series) for series in wanted if series):
        return
    found = list(cell_pairs(session, claim))
    if not found:
        yield Answer(
            claim.what, ClaimVerdict.UNTOLD,
            f"Cannot be told: not measured at this scale; published: {published_text(claim)}.",
            published=claim.published or claim.level, published_words=published_text(claim),
            is_ratio=claim.level is None,
        )  # fmt: skip
    cells = runs_by_cell(session)
    for pair in found:
        yield (
            _answer_by_level(session, asked, pair, cells[pair.one])
            if claim.level is not None
            else _answer_by_ratio(session, asked, pair, cells)
        )


def _answer_by_ratio(
    session: Session, asked: ClaimCheck, pair: CellPair, cells: Mapping[tuple[str, str], Sequence[Run]]
) -> Answer:
    assert pair.other is not None
    claim = asked.claim
    name = claim.figure or session.figure_of(pair.one[1])
    sides = [metric_values(cells[key], name) for key in (pair.one, pair.other)]
    effect = compare_means(*sides) if all(map(any, sides)) else None
    ours = effect if effect is not None and effect.is_ratio else None
    least = min(map(len, sides))
    where, few = _measured_cells_text(session, claim, pair), 0 < least < MIN_RUNS
    found = judge_levels(asked, name, sides) if claim.direction in DIRECTIONS and least else None
    if found and claim.direction and not (ours and ours.differs and (ours.error or 0.0) < ours.value):
        return Answer(
            claim.what, found.word, found.text, where, None, claim.direction, None, None, found.told,
            is_ratio=False, levels=(found.one, found.other), few=few,
        )  # fmt: skip
    word, text = judge_ratio(asked, ours, least=least)
    return Answer(
        claim.what, word, text, where,
        claim.published, published_text(claim), ours.value if ours else None, ours.error if ours else None,
        times(ours.value) if ours else "", interval_text(ours), few=few and ours is not None,
        interval=(ours.low, ours.high) if ours and ours.low is not None and ours.high is not None else None,
    )  # fmt: skip


def _measured_cells_text(session: Session, claim: Claim, pair: CellPair) -> str:
    """Returns the measured versions, and the values of the cell on the axes that the claim does not name."""
    assert pair.other is not None
    versions = " over ".join(dict.fromkeys((pair.one[0], pair.other[0])))
    named = {*claim.one, *claim.other}
    where = cell_words(session, pair.one[1], without=named) if session.cells else ""
    return f"{versions}, {where}" if where else versions


def _answer_by_level(session: Session, asked: ClaimCheck, pair: CellPair, runs: Sequence[Run]) -> Answer:
    claim = asked.claim
    values = [
        value
        for run in runs
        if run.verdict is Verdict.MEASURED
        if (value := _level_of_run(session, claim, run)) is not None
    ]
    ours, theirs = mean(values), f"published: {published_text(claim)}"
    assert claim.level is not None
    if ours is None:
        word, text = ClaimVerdict.UNTOLD, f"Cannot be told: it was not taken; {theirs}."
    else:
        told = level_text(claim, ours)
        if ours <= 0:
            word, text = (
                ClaimVerdict.UNTOLD,
                f"Cannot be told: {told}, in which others on this host have a part; {theirs}.",
            )
        elif abs(ours / claim.level - 1) <= claim.within:
            word, text = ClaimVerdict.SHOWS, f"Shows here: {told}; {theirs}."
        elif asked.lacks:
            word, text = ClaimVerdict.UNTOLD, f"Cannot be told here: {told}, but {asked.lacks}; {theirs}."
        else:
            word, text = ClaimVerdict.NOT, f"Does not show here: {told}; {theirs}."
    error = half_interval_95(values) if len(values) >= MIN_RUNS else None
    return Answer(
        claim.what, word, text, pair.one[0], claim.level, published_text(claim), ours, error,
        "" if ours is None else level_text(claim, ours),
        "" if error is None or ours is None
        else f"{level_text(claim, ours - error)} to {level_text(claim, ours + error)}",
        is_ratio=False,
    )  # fmt: skip


def _level_of_run(session: Session, claim: Claim, run: Run) -> float | None:
    """Returns the figure of a run that a level is compared with; None if it was not measured."""
    name = claim.figure or session.figure_of(run.variant)
    value = run.measures.get(name, getattr(run, name, None))
    tables = run.tables or claim_facts(session).get("tables")
    if not isinstance(value, int | float) or (claim.each_table and not tables):
        return None
    return value / tables if claim.each_table and tables else float(value)
