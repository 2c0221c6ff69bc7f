"""Judges published claims by a session that was measured here.

A claim states an effect in a form that can be compared with a host of another size: mostly a ratio."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from recovery.analysis.contrasts import CellKey, Contrast, Sample, contrasts
from recovery.analysis.opened_files import traced_runs
from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import (
    Cell,
    cell_words,
    parse_number,
    runs_by_cell,
    sample_of,
    sample_of_values,
)
from recovery.linux.cgroups import usable_cpus
from recovery.metrics import Metric, metric
from recovery.model import OpenedFiles, Run, Session
from recovery.report.fmt import number as number_text
from recovery.report.fmt import times, with_unit

# --- Claims: what was published, in a form that can be compared

Selector = Mapping[str, str]
"""Selects cells by a series of versions, a variant, or values of axes. `least` and `most` stand for the smallest and
the largest measured value of an axis."""


@dataclass(frozen=True, kw_only=True)
class _Claim:
    """What all claims have."""

    what: str
    cell: Selector
    """The cells that the claim is about."""
    figure: str | None = None
    """Name of the figure; None for the figure that the session measures."""
    needs: Mapping[str, int] = field(default_factory=dict)
    """Minimum values of facts about the host and the scale, below which a missing effect refutes nothing."""
    why: str = ""
    """Why the minimum values are needed."""


@dataclass(frozen=True, kw_only=True)
class _Comparison(_Claim):
    """A claim about the figure of a cell divided by that of its base."""

    base: Selector
    """The cell of the denominator: the differences from `cell`."""


@dataclass(frozen=True, kw_only=True)
class FiguresClaim(_Comparison):
    """The figures of both cells were published."""

    kind: Literal["figures"] = "figures"
    of: float
    to: float

    @property
    def bounds(self) -> tuple[float, float]:
        return self.of / self.to, self.of / self.to

    @property
    def published_text(self) -> str:
        return times(self.of / self.to)


@dataclass(frozen=True, kw_only=True)
class RatioClaim(_Comparison):
    """A ratio was published, without the two figures."""

    kind: Literal["ratio"] = "ratio"
    ratio: float
    at_least: bool = False
    """The published ratio is a lower bound."""

    @property
    def bounds(self) -> tuple[float, float]:
        return self.ratio, math.inf if self.at_least else self.ratio

    @property
    def published_text(self) -> str:
        return f"at least {times(self.ratio)}" if self.at_least else times(self.ratio)


@dataclass(frozen=True, kw_only=True)
class RangeClaim(_Comparison):
    """A range of ratios was published."""

    kind: Literal["range"] = "range"
    least: float
    most: float

    @property
    def bounds(self) -> tuple[float, float]:
        return self.least, self.most

    @property
    def published_text(self) -> str:
        return f"{times(self.least)} to {times(self.most)}"


@dataclass(frozen=True, kw_only=True)
class DirectionClaim(_Comparison):
    """Only the direction of the effect was published."""

    kind: Literal["direction"] = "direction"
    direction: Literal["less", "more"]

    @property
    def published_text(self) -> str:
        return f"{self.direction} than 1"


@dataclass(frozen=True, kw_only=True)
class UnknownClaim(_Comparison):
    """The cells were compared in the publication, but its result is unknown to this tool."""

    kind: Literal["unknown"] = "unknown"

    @property
    def published_text(self) -> str:
        return "no figure"


@dataclass(frozen=True, kw_only=True)
class LevelClaim(_Claim):
    """A published figure that is compared by itself, not as a ratio."""

    kind: Literal["level"] = "level"
    level: float
    within: float
    """Largest distance from the level, as a share of it, that still counts as published."""
    each_table: bool = False
    """The measured figure is divided by the number of tables."""
    unit: str = ""

    @property
    def published_text(self) -> str:
        return self.text_of(self.level)

    def text_of(self, value: float) -> str:
        """Formats a level with the unit of the claim, such as `31,000 bytes` or `100 % of all`."""
        figure = f"{100 * value:.4g} %" if self.unit.startswith("of ") else number_text(value)
        return f"{figure} {self.unit}".strip()


WithRatio = FiguresClaim | RatioClaim | RangeClaim
Comparison = WithRatio | DirectionClaim | UnknownClaim
Claim = Annotated[Comparison | LevelClaim, Field(discriminator="kind")]


@dataclass(frozen=True, kw_only=True)
class HostLimitation:
    """Something published that a small host cannot show."""

    text: str
    fact: str | None = None
    """Fact of the host that decides; None if no host can show it any more."""
    least: int = 0
    """Value of the fact from which a host could show it."""


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table."""

    what: str
    values: tuple[str, ...]
    """One value for each published version, as printed."""


@dataclass(frozen=True, kw_only=True)
class Publication:
    """A published experiment."""

    name: str
    """Name of the experiment that repeats it."""
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

    @property
    def heading(self) -> str:
        return f"{self.label} {self.title}"


# --- Cells of a session that a claim is about

VERSION, VARIANT = "version", "variant"
LEAST, MOST = "least", "most"


def matching_cells(session: Session, selector: Selector) -> Iterator[Cell]:
    """Yields the measured cells that a claim is about, in the order of the session."""
    for version in _series_versions(session, selector.get(VERSION)):
        for variant in session.variant_names:
            if _matches(session, variant, selector):
                yield version, variant


def cell_pairs(session: Session, claim: Comparison) -> Iterator[tuple[Cell, Cell]]:
    """Yields the pairs of a cell and its base that a claim is about, in the order of the session."""
    selector = {**claim.cell, **claim.base}
    for version, variant in matching_cells(session, claim.cell):
        base = _variant_like(session, variant, selector)
        for old in _series_versions(session, selector.get(VERSION)) if VERSION in claim.base else (version,):
            if base is not None and (old, base) != (version, variant):
                yield (version, variant), (old, base)


def has_series(session: Session, series: str | None) -> bool:
    return any(_series_versions(session, series))


def _series_versions(session: Session, series: str | None) -> tuple[str, ...]:
    return tuple(
        version
        for version in session.versions
        if series is None or version == series or version.startswith(f"{series}.")
    )


def _matches(session: Session, variant: str, selector: Selector) -> bool:
    if variant != selector.get(VARIANT, variant):
        return False
    cell = session.values_of(variant)
    return all(cell.get(name) == value for name, value in _axis_values(session, selector).items())


def _variant_like(session: Session, variant: str, selector: Selector) -> str | None:
    """Returns the variant that has these values and otherwise the same as `variant`; None if there is none."""
    cell = {**session.values_of(variant), **_axis_values(session, selector)}
    return next((variant for variant in session.variant_names if session.values_of(variant) == cell), None)


def _axis_values(session: Session, selector: Selector) -> Mapping[str, str]:
    return {
        name: _axis_value(session, name, value) for name, value in selector.items() if name not in (VERSION, VARIANT)
    }


def _axis_value(session: Session, name: str, value: str) -> str:
    if value not in (LEAST, MOST):
        return value
    values = [text for axis in session.axes if axis.name == name for text in axis.values]
    numbers = [text for text in values if parse_number(text) is not None]
    if not numbers:
        return value
    return (max if value == MOST else min)(numbers, key=lambda text: parse_number(text) or 0.0)


# --- Verdicts

_NO_CHANGE = 0.05
"""A ratio that is no further from 1, published or measured, means no change."""
_MAX_HALF_INTERVAL = 0.1
"""Half the width of an interval above which a relevant effect could be hidden in it."""
_FACT_NAMES = {"cpus": "CPUs"}
FEW_RUNS = f"fewer than {MIN_RUNS} runs give no interval: a larger SCALE has more"


class ClaimVerdict(StrEnum):
    """The verdict about a claim, in words of the report."""

    HOLDS = "holds"
    WEAKER = "weaker than published"
    NOT = "does not reproduce"
    OPPOSITE = "opposite"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not measured"
    COMPARED = "no published figure"


Judged = tuple[ClaimVerdict, str]
"""A verdict, and a note with its reason or with how the effect differs from the published one; the note may be
empty."""
_CONTAINS_BOTH = ClaimVerdict.INCONCLUSIVE, "the interval contains both the published effect and no difference"
_NO_DIFFERENCE = ClaimVerdict.NOT, "no significant difference"
_BOTH_ZERO = ClaimVerdict.NOT, "the figure is zero on both sides"
_ALONE_ONLY = ClaimVerdict.INCONCLUSIVE, "not significant when all comparisons of the table are taken together"
"""Of a ratio whose interval does not contain 1: that it is not significant with the others refutes nothing."""


def missing_facts(claim: Claim, facts: Mapping[str, float]) -> str:
    """Returns why this host or this scale is too small for the claim; empty if it is not."""
    missing = [name for name, least in claim.needs.items() if facts.get(name, 0) < least]
    if not missing:
        return ""
    found = [(facts.get(name, 0), _FACT_NAMES.get(name, name)) for name in missing]
    few = " and ".join(f"{many:,} {noun.removesuffix('s') if many == 1 else noun}" for many, noun in found)
    are = "is" if len(found) == 1 and found[0][0] == 1 else "are"
    return f"{few} {are} too few{f': {claim.why}' if claim.why else ''}"


def _judge_ratio(claim: Comparison, ours: Contrast) -> Judged:
    """Judges a measured ratio, regardless of the size of the host."""
    if ours.ratio is None:
        return ClaimVerdict.INCONCLUSIVE, "a mean of zero has no ratio"
    if ours.differs is None:
        return ClaimVerdict.INCONCLUSIVE, FEW_RUNS
    if isinstance(claim, UnknownClaim):
        return ClaimVerdict.COMPARED, "significant" if ours.significant else "not significant"
    if isinstance(claim, DirectionClaim):
        return _judge_direction(claim, ours)
    least, most = claim.bounds
    return _judge_no_change(ours) if abs(least - 1) <= _NO_CHANGE else _judge_change(least, most, ours)


def _judge_no_change(ours: Contrast) -> Judged:
    """Judges a claim that nothing changes."""
    assert ours.ratio is not None
    assert ours.ratio_error is not None
    if ours.differs and abs(ours.ratio - 1) > _NO_CHANGE:
        return (ClaimVerdict.NOT, "the difference is significant") if ours.significant else _ALONE_ONLY
    if ours.ratio_error > _MAX_HALF_INTERVAL:
        return ClaimVerdict.INCONCLUSIVE, "the interval is so wide that it could hide a difference"
    return ClaimVerdict.HOLDS, ""


def _judge_direction(claim: DirectionClaim, ours: Contrast) -> Judged:
    """Judges a claim that there is more, or less."""
    ratio, low, high = _ratio_with_ends(ours)
    if not ours.differs:
        return _CONTAINS_BOTH if (high - low) / 2 > _MAX_HALF_INTERVAL else _NO_DIFFERENCE
    if not ours.significant:
        return _ALONE_ONLY
    return (ClaimVerdict.HOLDS if (ratio > 1) is (claim.direction == "more") else ClaimVerdict.OPPOSITE), ""


def _judge_change(least: float, most: float, ours: Contrast) -> Judged:
    """Judges a claim that something changes by a ratio between these two."""
    ratio, low, high = _ratio_with_ends(ours)
    more = least > 1
    if not ours.differs:
        return _CONTAINS_BOTH if low <= least <= high else _NO_DIFFERENCE
    if not ours.significant:
        return _ALONE_ONLY
    if (ratio > 1) != more:
        return ClaimVerdict.OPPOSITE, ""
    if low <= most and high >= least:
        return ClaimVerdict.HOLDS, ""
    if (ratio > most) != more:
        return ClaimVerdict.WEAKER, ""
    return ClaimVerdict.HOLDS, "stronger than published"


def _ratio_with_ends(ours: Contrast) -> tuple[float, float, float]:
    assert ours.ratio is not None
    assert ours.ratio_low is not None
    assert ours.ratio_high is not None
    return ours.ratio, ours.ratio_low, ours.ratio_high


@dataclass(frozen=True)
class _Compared:
    """All comparisons of the claims about a session, which are significant together."""

    samples: Mapping[CellKey, Sample]
    """The values of each cell. The side of its key is the name of the figure."""
    ratios: Mapping[tuple[CellKey, CellKey], Contrast]
    """By the base and the cell that is compared with it."""
    differences: Mapping[tuple[CellKey, CellKey], Contrast]
    """The same by the difference of the means."""


def _compared(session: Session, claims: Iterable[Claim]) -> _Compared:
    runs = runs_by_cell(session)
    samples: dict[CellKey, Sample] = {}
    pairs: dict[tuple[CellKey, CellKey], None] = {}
    for claim in claims:
        for both in () if isinstance(claim, LevelClaim) else cell_pairs(session, claim):
            name = claim.figure or session.metric_of(both[0][1])
            of, to = (CellKey(name, *cell) for cell in both)
            samples |= {key: sample_of(session, runs[cell], name) for key, cell in zip((of, to), both, strict=True)}
            pairs[to, of] = None
    ratios, differences = (contrasts(samples, pairs, by_difference=by_difference) for by_difference in (False, True))
    return _Compared(samples, *(dict(zip(pairs, found, strict=True)) for found in (ratios, differences)))


def count_comparisons(publication: Publication, session: Session) -> int:
    """Returns how many comparisons of its claims are significant together."""
    found = _compared(session, publication.claim).ratios
    return len({frozenset(pair) for pair, contrast in found.items() if contrast.significant is not None})


@dataclass(frozen=True)
class _Sides:
    """The figure of a cell and of its base."""

    of: CellKey
    to: CellKey
    compared: _Compared

    @property
    def ratio(self) -> Contrast:
        return self.compared.ratios[self.to, self.of]

    @property
    def both(self) -> tuple[Sample, Sample]:
        return self.compared.samples[self.of], self.compared.samples[self.to]

    @property
    def means(self) -> tuple[float, float]:
        return self.both[0].mean or 0.0, self.both[1].mean or 0.0

    def have_different_means(self) -> bool | None:
        """Whether the means differ: significantly, or because one is zero in all runs and the other in none. None with
        too few runs."""
        less, more = sorted(self.both, key=lambda sample: sample.mean or 0.0)
        significant = self.compared.differences[self.to, self.of].significant
        return significant if significant is None or any(less.values) else min(more.values) > 0


def _judge_means(claim: DirectionClaim, sides: _Sides) -> Judged | None:
    """Judges a claim that has only a direction by the means of both sides. Returns None if a ratio is as good.

    There is no ratio over a mean of zero, and over a mean near zero it is only noise. The means themselves are enough
    to decide about a direction."""
    mean, base_mean = sides.means
    apart = sides.have_different_means()
    if mean and base_mean and not apart:
        return None
    if apart is None:
        return ClaimVerdict.INCONCLUSIVE, FEW_RUNS
    if apart:
        is_published = (mean > base_mean) is (claim.direction == "more")
        return (ClaimVerdict.HOLDS if is_published else ClaimVerdict.OPPOSITE), ""
    if mean or base_mean:
        return ClaimVerdict.INCONCLUSIVE, "the figure is zero in some of the runs"
    return _BOTH_ZERO


def _judge_level(claim: LevelClaim, ours: float) -> Judged:
    if ours <= 0:
        return ClaimVerdict.INCONCLUSIVE, "other processes on this host affect the figure"
    return ClaimVerdict.HOLDS if abs(ours / claim.level - 1) <= claim.within else ClaimVerdict.NOT, ""


def _limited_by_host(judged: Judged, lacks: str) -> Judged:
    """Returns the verdict on a host that may be too small: there a missing effect refutes nothing."""
    verdict, note = judged
    if not lacks or verdict in (ClaimVerdict.INCONCLUSIVE, ClaimVerdict.COMPARED):
        return judged
    if verdict is ClaimVerdict.NOT:
        return ClaimVerdict.INCONCLUSIVE, lacks
    return verdict, "; ".join(filter(None, (note, f"caveat: {lacks}")))


_MIN_LOAD_WITHOUT_EFFECT_S = 30
"""Shorter loads vary so much that a missing effect says nothing: the pages state it of loads of 30 and 60 s only."""


def _limited_by_load(judged: Judged, claim: Comparison, seconds: float | None) -> Judged:
    """Returns the verdict of loads that may be too short: they do not say that there is no effect."""
    if seconds is None or seconds >= _MIN_LOAD_WITHOUT_EFFECT_S:
        return judged
    expects_none = isinstance(claim, WithRatio) and abs(claim.bounds[0] - 1) <= _NO_CHANGE
    if judged in (_NO_DIFFERENCE, _BOTH_ZERO) or (expects_none and judged[0] is ClaimVerdict.HOLDS):
        least = f"measure {_MIN_LOAD_WITHOUT_EFFECT_S} or more"
        short = f"loads of {number_text(seconds)} s do not say that there is no effect: {least}"
        return ClaimVerdict.INCONCLUSIVE, short
    return judged


# --- Answers: each claim checked on the cells of a session


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to the question of whether a published effect reproduces on this host."""

    what: str
    """The effect, as in the claim."""
    verdict: ClaimVerdict
    note: str = ""
    """The reason of the verdict, or how the effect differs from the published one."""
    measured: str = ""
    """The measured versions, and the cell if there are several."""
    published: float | None = None
    """The published ratio or level; None if only the direction is known."""
    published_text: str = ""
    ours: float | None = None
    """The ratio or level measured here; None if there is none."""
    ours_text: str = ""
    interval: tuple[float, float] | None = None
    """The 95 % interval of ours; None with fewer than three runs."""
    interval_text: str = ""
    is_ratio: bool = True
    is_significant: bool = False
    """Whether it is a ratio that is significant among all of the publication, or a level with an interval."""


def answer_claims(publication: Publication, session: Session) -> tuple[Answer, ...]:
    """Returns the answers in the order of the claims. Claims about versions that were not measured are left out."""
    facts, compared = claim_facts(session), _compared(session, publication.claim)
    return tuple(answer for claim in publication.claim for answer in _answers_to_claim(session, claim, facts, compared))


def claim_facts(session: Session) -> dict[str, float]:
    """Returns the facts that claims refer to, by name. CPUs and memory are those that the server was limited to."""
    host, design, limits = session.environment, session.design, session.design.limits
    found = {
        "cpus": _allowed(cpus := _int_or_zero(host.get("cpus")), usable_cpus(limits, cpus)),
        "memory_bytes": _allowed(_int_or_zero(host.get("memory_bytes")), limits.memory_bytes),
        "tables": (design.tables or 0) * (design.schemas or 1),
        "rows": design.rows or 0,
    }
    return {name: value for name, value in found.items() if value}


def _int_or_zero(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _allowed(there: int, allowed: float | None) -> float:
    """Returns the smaller of what the host has and what is allowed, as an integer if possible: 2 and not 2.0."""
    found = min(there or allowed, allowed) if allowed else there
    return int(found) if found == int(found) else found


def _answers_to_claim(
    session: Session, claim: Claim, facts: Mapping[str, float], compared: _Compared
) -> Iterator[Answer]:
    """Yields an answer for each cell, or pair of cells, that the claim is about, or one answer that it was not
    measured."""
    bases = {} if isinstance(claim, LevelClaim) else claim.base
    if not all(has_series(session, series) for series in (claim.cell.get(VERSION), bases.get(VERSION)) if series):
        return
    unmeasured = Answer(
        what=claim.what, verdict=ClaimVerdict.NOT_MEASURED, note="not part of this session",
        is_ratio=not isinstance(claim, LevelClaim), published=_published_number(claim),
        published_text=claim.published_text,
    )  # fmt: skip
    lacks = missing_facts(claim, facts)
    if isinstance(claim, LevelClaim):
        answers = list(_answers_by_level(session, claim, unmeasured, lacks, facts))
    else:
        answers = list(_answers_by_ratio(session, claim, unmeasured, lacks, compared))
    yield from answers or (unmeasured,)


def _published_number(claim: Claim) -> float | None:
    """Returns the published ratio or level; None if only its direction was published, or nothing."""
    if isinstance(claim, LevelClaim):
        return claim.level
    return claim.bounds[0] if isinstance(claim, WithRatio) else None


def _answers_by_ratio(
    session: Session, claim: Comparison, unmeasured: Answer, lacks: str, compared: _Compared
) -> Iterator[Answer]:
    for cell, base in cell_pairs(session, claim):
        where = (
            cell_words(session, cell[1], without={*claim.cell, *claim.base})
            if any(variant.values for variant in session.variants)
            else ""
        )
        versions = " over ".join(dict.fromkeys((cell[0], base[0])))
        unanswered = replace(unmeasured, measured=f"{versions}, {where}" if where else versions)
        name = claim.figure or session.metric_of(cell[1])
        sides = _Sides(CellKey(name, *cell), CellKey(name, *base), compared)
        yield _answer_by_ratio(claim, unanswered, metric(name), sides, lacks, session.design.seconds)


def _answer_by_ratio(
    claim: Comparison, unanswered: Answer, about: Metric, sides: _Sides, lacks: str, load_s: float | None
) -> Answer:
    if not all(sample.values for sample in sides.both):
        return replace(unanswered, note="one of the two sides has no measured run")
    ours = sides.ratio
    is_clear = ours.ratio is not None and ours.significant and (ours.ratio_error or 0.0) < ours.ratio
    if isinstance(claim, DirectionClaim) and not is_clear and (judged := _judge_means(claim, sides)) is not None:
        verdict, note = _limited_by_load(_limited_by_host(judged, lacks), claim, load_s)
        mean, base_mean = sides.means
        text = f"{with_unit(about, mean)} against {number_text(base_mean)}"
        return replace(
            unanswered, verdict=verdict, note=note, ours_text=text, published_text=claim.direction, is_ratio=False
        )
    verdict, note = _limited_by_load(_limited_by_host(_judge_ratio(claim, ours), lacks), claim, load_s)
    answer = replace(unanswered, verdict=verdict, note=note)
    if ours.ratio is None:
        return answer
    answer = replace(answer, ours=ours.ratio, ours_text=times(ours.ratio), is_significant=bool(ours.significant))
    if ours.differs is None:
        return answer
    _, low, high = _ratio_with_ends(ours)
    return replace(answer, interval=(low, high), interval_text=f"{times(low)}-{times(high)}")


def _answers_by_level(
    session: Session, claim: LevelClaim, unmeasured: Answer, lacks: str, facts: Mapping[str, float]
) -> Iterator[Answer]:
    runs, traced = runs_by_cell(session), traced_runs(session)
    for cell in matching_cells(session, claim.cell):
        figure = claim.figure or session.metric_of(cell[1])
        level_of = partial(_level_of_run, claim, figure=figure, facts=facts)
        if figure in _OF_OPENED_FILES:  # counted in an extra run
            found = map(level_of, traced.get(cell, ()))
            levels = Sample((tuple(level for level in found if level is not None),))
        else:
            levels = sample_of_values(session, runs[cell], level_of)
        unanswered = replace(unmeasured, measured=cell[0], note="no run has this figure")
        yield _answer_by_level(claim, unanswered, levels, lacks)


_OF_OPENED_FILES = frozenset(field.name for field in fields(OpenedFiles))


def _answer_by_level(claim: LevelClaim, unanswered: Answer, levels: Sample, lacks: str) -> Answer:
    found = levels.statistics()
    ours, error = found["mean"], found["interval"]
    if ours is None:
        return unanswered
    verdict, note = _limited_by_host(_judge_level(claim, ours), lacks)
    answer = replace(unanswered, verdict=verdict, note=note, ours=ours, ours_text=claim.text_of(ours))
    if error is None:
        return answer
    low, high = found.get("low", ours - error), found.get("high", ours + error)
    ends = dict.fromkeys((claim.text_of(low), claim.text_of(high)))
    return replace(answer, interval=(low, high), interval_text=" to ".join(ends), is_significant=True)


def _level_of_run(claim: LevelClaim, run: Run, figure: str, facts: Mapping[str, float]) -> float | None:
    """Returns the figure of a run that a level is compared with; None if it was not measured."""
    value = run.metrics.get(figure, getattr(run.opened_files, figure, None))
    tables = run.contents.tables_found or facts.get("tables")
    if not isinstance(value, int | float) or (claim.each_table and not tables):
        return None
    return value / tables if claim.each_table and tables else float(value)
