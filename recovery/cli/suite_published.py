"""The published experiments, and the comparison of each published claim with a session measured here.

The publications are read from published.toml. A claim states an effect in a form that can be compared with a host of
another size: mostly a ratio. Everything except the reading of that file is pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib import resources
from statistics import fmean

from pydantic import TypeAdapter

from recovery.analysis.contrasts import Effect, compare_differences, compare_means
from recovery.analysis.statistics import MIN_RUNS, half_interval_95
from recovery.analysis.summary import cell_words, metric_values, parse_number, runs_by_cell
from recovery.linux.cgroups import limits_from_settings, usable_cpus
from recovery.model import Metric, Run, Session, Verdict, metric
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


def missing_facts(claim: Claim, facts: Mapping[str, float]) -> str:
    """Returns why this host or this scale is too small for the claim; empty if it is not."""
    missing = [name for name, least in claim.needs.items() if facts.get(name, 0) < least]
    if not missing:
        return ""
    few = " and ".join(f"{facts.get(name, 0):,} {_FACT_NAMES.get(name, name)}" for name in missing)
    return f"{few} are too few{f': {claim.why}' if claim.why else ''}"


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
    return f"{times(claim.published)} to {times(claim.up_to)}" if claim.up_to else times(claim.published)


def level_text(claim: Claim, value: float) -> str:
    """Formats a level with the unit of the claim, such as `31,000 bytes` or `100 % of all`."""
    figure = f"{100 * value:.4g} %" if claim.unit.startswith("of ") else number_text(value)
    return f"{figure} {claim.unit}".strip()


def _judge_ratio(claim: Claim, ours: Effect | None) -> Judged:
    """Judges a measured ratio, regardless of the size of the host."""
    if ours is None:
        return ClaimVerdict.INCONCLUSIVE, "a mean of zero has no ratio"
    if ours.differs is None:
        return ClaimVerdict.INCONCLUSIVE, FEW_RUNS
    if claim.direction == UNKNOWN_DIRECTION:
        return ClaimVerdict.COMPARED, "significant" if ours.differs else "not significant"
    if claim.published is not None and abs(claim.published - 1) <= _NO_CHANGE:
        return _judge_no_change(ours)
    return _judge_change(claim, ours)


def _judge_no_change(ours: Effect) -> Judged:
    """Judges a claim that nothing changes."""
    assert ours.error is not None
    if ours.differs and abs(ours.value - 1) > _NO_CHANGE:
        return ClaimVerdict.NOT, "the difference is significant"
    if ours.error > _MAX_HALF_INTERVAL:
        return ClaimVerdict.INCONCLUSIVE, "the interval is so wide that it could hide a difference"
    return ClaimVerdict.HOLDS, ""


def _judge_change(claim: Claim, ours: Effect) -> Judged:
    """Judges a claim that something changes."""
    assert ours.low is not None
    assert ours.high is not None
    low, high = ours.low, ours.high
    least, most = claim.published, claim.up_to or claim.published
    more = claim.direction == "more" if least is None else least > 1
    if not ours.differs:
        inside = least is not None and low <= least <= high
        if inside or (least is None and (high - low) / 2 > _MAX_HALF_INTERVAL):
            return ClaimVerdict.INCONCLUSIVE, "the interval contains both the published effect and no difference"
        return ClaimVerdict.NOT, "no significant difference"
    if (ours.value > 1) != more:
        return ClaimVerdict.OPPOSITE, ""
    if least is None or most is None or (low <= most and high >= least) or (claim.at_least and high >= least):
        return ClaimVerdict.HOLDS, ""
    if claim.at_least or (ours.value > most) != more:
        return ClaimVerdict.WEAKER, ""
    return ClaimVerdict.HOLDS, "stronger than published"


def _judge_levels(claim: Claim, sides: Sequence[Sequence[float]]) -> Judged | None:
    """Judges a claim that has only a direction by the means of both sides. Returns None if a ratio is as good.

    There is no ratio over a mean of zero, and over a mean near zero it is only noise. The means themselves are enough
    to decide about a direction."""
    one, other = (fmean(side) for side in sides)
    few = min(map(len, sides)) < MIN_RUNS
    apart = not few and _differ(*sides)
    if one and other and not apart:
        return None
    if few:
        return ClaimVerdict.INCONCLUSIVE, FEW_RUNS
    if apart:
        return (ClaimVerdict.HOLDS if (one > other) is (claim.direction == "more") else ClaimVerdict.OPPOSITE), ""
    if one or other:
        return ClaimVerdict.INCONCLUSIVE, "the figure is zero in some of the runs"
    return ClaimVerdict.NOT, "the figure is zero on both sides"


def _differ(one: Sequence[float], other: Sequence[float]) -> bool:
    """Returns whether two sides differ: significantly, or because one is zero in all runs and the other in none."""
    less, more = sorted((one, other), key=fmean)
    if not any(less):
        return min(more) > 0
    return compare_differences(more, less).differs is True


def _judge_level(claim: Claim, ours: float) -> Judged:
    assert claim.level is not None
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

    @property
    def is_significant(self) -> bool:
        """Whether it is a ratio with an interval that does not contain 1, or a level with an interval."""
        return self.interval is not None and not (self.is_ratio and self.interval[0] <= 1 <= self.interval[1])


def answer_claims(publication: Publication, session: Session) -> tuple[Answer, ...]:
    """Returns the answers in the order of the claims. Claims about versions that were not measured are left out."""
    return tuple(answer for claim in publication.claim for answer in _answers_to_claim(session, claim))


def claim_facts(session: Session) -> dict[str, float]:
    """Returns the facts that claims refer to, by name. CPUs and memory are those that the server was limited to."""
    settings, host, limits = session.settings, session.environment, limits_from_settings(session.settings)
    tables, schemas = (_int_or_zero(settings.get(name)) for name in ("tables", "schemas"))
    found = {
        "cpus": _allowed(cpus := _int_or_zero(host.get("cpus")), usable_cpus(limits, cpus)),
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


def _answers_to_claim(session: Session, claim: Claim) -> Iterator[Answer]:
    """Yields an answer for each pair of cells that the claim is about, or one answer that it was not measured."""
    wanted = (claim.one.get(VERSION), claim.other.get(VERSION))
    if not all(has_series(session, series) for series in wanted if series):
        return
    unmeasured = Answer(
        what=claim.what, verdict=ClaimVerdict.NOT_MEASURED, note="not part of this scale", is_ratio=claim.level is None,
        published=claim.published if claim.level is None else claim.level, published_text=published_text(claim),
    )  # fmt: skip
    found, cells, lacks = (
        list(cell_pairs(session, claim)),
        runs_by_cell(session),
        missing_facts(claim, claim_facts(session)),
    )
    if not found:
        yield unmeasured
    for pair in found:
        if pair.other is None:
            unanswered = replace(unmeasured, measured=pair.one[0], note="no run has this figure")
            yield _answer_by_level(session, claim, unanswered, cells[pair.one], lacks)
        else:
            named = {*claim.one, *claim.other}
            where = cell_words(session, pair.one[1], without=named) if session.cells else ""
            versions = " over ".join(dict.fromkeys((pair.one[0], pair.other[0])))
            unanswered = replace(unmeasured, measured=f"{versions}, {where}" if where else versions)
            name = claim.figure or session.figure_of(pair.one[1])
            sides = [metric_values(cells[key], name) for key in (pair.one, pair.other)]
            yield _answer_by_ratio(claim, unanswered, metric(name), sides, lacks)


def _answer_by_ratio(
    claim: Claim, unanswered: Answer, about: Metric, sides: Sequence[Sequence[float]], lacks: str
) -> Answer:
    if not all(sides):
        return replace(unanswered, note="one of the two sides has no measured run")
    effect = compare_means(*sides) if all(map(any, sides)) else None
    ours = effect if effect is not None and effect.is_ratio else None
    is_clear = ours is not None and ours.differs and (ours.error or 0.0) < ours.value
    levels = _judge_levels(claim, sides) if claim.direction in DIRECTIONS and not is_clear else None
    if levels is not None:
        one, other = map(fmean, sides)
        verdict, note = _limited_by_host(levels, lacks)
        text = f"{with_unit(about, one)} against {number_text(other)}"
        return replace(
            unanswered, verdict=verdict, note=note, ours_text=text, published_text=str(claim.direction), is_ratio=False
        )
    verdict, note = _limited_by_host(_judge_ratio(claim, ours), lacks)
    answer = replace(unanswered, verdict=verdict, note=note)
    if ours is None:
        return answer
    answer = replace(answer, ours=ours.value, ours_text=times(ours.value))
    if ours.low is None or ours.high is None:
        return answer
    return replace(answer, interval=(ours.low, ours.high), interval_text=f"{times(ours.low)}-{times(ours.high)}")


def _answer_by_level(session: Session, claim: Claim, unanswered: Answer, runs: Sequence[Run], lacks: str) -> Answer:
    levels = (_level_of_run(session, claim, run) for run in runs if run.verdict is Verdict.MEASURED)
    values = [value for value in levels if value is not None]
    if not values:
        return unanswered
    ours = fmean(values)
    verdict, note = _limited_by_host(_judge_level(claim, ours), lacks)
    answer = replace(unanswered, verdict=verdict, note=note, ours=ours, ours_text=level_text(claim, ours))
    if len(values) < MIN_RUNS:
        return answer
    error = half_interval_95(values)
    low, high = ours - error, ours + error
    ends = dict.fromkeys((level_text(claim, low), level_text(claim, high)))
    return replace(answer, interval=(low, high), interval_text=" to ".join(ends))


def _level_of_run(session: Session, claim: Claim, run: Run) -> float | None:
    """Returns the figure of a run that a level is compared with; None if it was not measured."""
    name = claim.figure or session.figure_of(run.variant)
    value = run.metrics.get(name, getattr(run.opened_files, name, None))
    tables = run.contents.tables_found or claim_facts(session).get("tables")
    if not isinstance(value, int | float) or (claim.each_table and not tables):
        return None
    return value / tables if claim.each_table and tables else float(value)
