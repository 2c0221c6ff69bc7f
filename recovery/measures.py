"""What do the figures of servers at work come to: middles, ratios of versions, and along what variants differ by?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from recovery.chance import stand_out
from recovery.effect import are_one
from recovery.quantities import QUANTITIES, quantity
from recovery.stored import STARTUP, Axis, Run, Session, Verdict
from recovery.students import Compared, described, effect_95, stored_effect
from recovery.summary import baseline_of, cells_of, mean


@dataclass(frozen=True)
class Middle(Compared):
    """One figure of one version in one variant."""

    version: str
    """As in the session's `versions`."""
    variant: str
    """As in its `variants`."""
    name: str
    """Of the figure, as in the `measures` of a run."""
    unit: str
    """As it stands behind a figure; empty for a plain number."""
    count: int
    """Of the measured runs in which it was taken; what follows is of those."""
    mean: float | None
    """Of all of them; None where there are none."""
    median: float | None
    """The middle one."""
    min: float | None
    """The smallest."""
    max: float | None
    """The largest."""
    stdev: float | None
    """Standard deviation of a sample; None under two runs."""
    interval: float | None = None
    """Half of the mean's 95 % interval, by Student's t; None under three runs."""
    failed: int = 0
    """Runs that failed."""
    void: int = 0
    """Runs that measured something else than was asked."""


@dataclass(frozen=True)
class Held(Compared):
    """The figure of one variant over that of another, which differs along one axis alone."""

    axis: str
    """As in the session's `axes`."""
    version: str
    """Of both, as in the session's `versions`."""
    variant: str
    """As in its `variants`."""
    base_variant: str
    """The one that has the axis' base value."""
    luck: float | None = None
    """The probability of an effect as large where there is none; None under three runs of either."""
    stands_out: bool | None = None
    """Significant also when all comparisons along this axis are taken together: Holm's correction, 5 % in all."""


@dataclass(frozen=True)
class Between(Compared):
    """The figure of one version over that of another, in the same variant."""

    version: str
    """As in the session's `versions`."""
    base_version: str
    """The one that it is held against: rather an earlier one in the order of the report."""
    variant: str
    """Of both, as in its `variants`."""


LEAST_TO_PAIR = 3
"""Versions, for ratios of more than one pair."""
_DERIVED = {
    "device_reads_per_query": ("device_reads_per_s", ("qps",)),
    "errors_per_transaction": ("client_errors", ("tps", "elapsed_s")),
}
"""Figures of a run that others make: of what, over the product of what."""


def is_work(session: Session) -> bool:
    """About a server that is put to work, not about its start."""
    return session.figure != STARTUP


def value_of(run: Run, name: str) -> float | None:
    if name not in _DERIVED:
        return run.startup_s if name == STARTUP else run.measures.get(name)
    one, others = _DERIVED[name]
    if not {one, *others} <= set(run.measures):
        return None
    over = math.prod(run.measures[part] for part in others)
    return run.measures[one] / over if over else None


def figure_value(session: Session, run: Run) -> float | None:
    """Of what its variant is about."""
    return value_of(run, session.figure_of(run.variant))


def figures_about(session: Session) -> tuple[str, ...]:
    """What its variants are about, each once; most often one."""
    found = dict.fromkeys(session.figure_of(variant) for variant in session.variants)
    return tuple(found) or (session.figure,)


def figures_taken(session: Session, runs: Sequence[Run]) -> list[float]:
    """Of the runs of one cell that count, what the cell is about."""
    return taken(runs, session.figure_of(runs[0].variant)) if runs else []


def taken(runs: Iterable[Run], name: str) -> list[float]:
    """Of the runs that count."""
    values = (value_of(run, name) for run in runs if run.verdict is Verdict.MEASURED)
    return [value for value in values if value is not None]


def names_taken(session: Session) -> tuple[str, ...]:
    """Those that the session is about first, then as in `quantities.py`, then what is not known there."""
    found = {name for run in session.runs if run.verdict is Verdict.MEASURED for name in run.measures}
    found |= {name for name in _DERIVED if taken(session.runs, name)}
    order = (*figures_about(session), *QUANTITIES, *sorted(found))
    return tuple(name for name in dict.fromkeys(order) if name in found)


def middles(session: Session, name: str | None = None) -> tuple[Middle, ...]:
    """Of what each variant is about, or of another figure; one for each version in each variant, in the order of the
    report."""
    base = baseline_of(session)
    cells = by_cell(session)
    called = {variant: name or session.figure_of(variant) for variant in session.variants}
    values = {key: taken(runs, called[key[1]]) for key, runs in cells.items()}
    found = []
    for key, runs in cells.items():
        effect = effect_95(values[key], values[base, key[1]])
        found.append(replace(_middle(key, called[key[1]], runs), **stored_effect(effect, is_base=key[0] == base)))
    return tuple(found)


def means(session: Session, name: str) -> dict[tuple[str, str], float | None]:
    """Of one figure, where that is all that is told of it."""
    return {key: mean(taken(runs, name)) for key, runs in by_cell(session).items()}


def by_cell(session: Session) -> dict[tuple[str, str], tuple[Run, ...]]:
    """All runs by version and variant, counted or not."""
    return cells_of(session.runs, session.versions, session.variants)


def against_baseline(session: Session, name: str | None = None) -> tuple[Middle, ...]:
    """Of every version but the baseline, where both have figures."""
    base = baseline_of(session)
    found = (one for one in middles(session, name) if one.version != base)
    return tuple(one for one in found if one.ratio is not None or one.difference is not None)


def along(session: Session, axis: Axis) -> tuple[Held, ...]:
    """Each variant over the one that has the axis' base, and is alike on all others; none where there is no base,
    nor where the server made no difference between them."""
    pairs = _pairs(session, axis)
    cells = by_cell(session)
    found = []
    for version in session.versions:
        for variant, base in pairs:
            if are_one(session, version, (variant, base)):
                continue
            effect = effect_95(*(figures_taken(session, cells[version, each]) for each in (variant, base)))
            if effect is not None:
                found.append(Held(axis.name, version, variant, base, luck=effect.luck, **stored_effect(effect)))
    standing = stand_out([one.luck for one in found])
    return tuple(replace(one, stands_out=stands) for one, stands in zip(found, standing, strict=True))


def contrasts(session: Session) -> tuple[Held, ...]:
    """Along every axis that has a base."""
    return tuple(held for axis in session.axes for held in along(session, axis)) if is_work(session) else ()


def version_pairs(versions: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The later over the earlier: neighbours, and the last over the first. Of three versions these are all pairs."""
    ends = [(versions[-1], versions[0])] if len(versions) >= LEAST_TO_PAIR else []
    return (*((later, earlier) for earlier, later in pairwise(versions)), *ends)


def between(session: Session) -> tuple[Between, ...]:
    """Each pair of versions in each variant, where both were measured."""
    if not is_work(session):
        return ()
    cells = by_cell(session)
    found = []
    for variant in session.variants:
        for version, base in version_pairs(session.versions):
            effect = effect_95(*(figures_taken(session, cells[each, variant]) for each in (version, base)))
            if effect is not None:
                found.append(Between(version, base, variant, **stored_effect(effect)))
    return tuple(found)


def stored_measures(session: Session) -> tuple[Middle, ...]:
    """All figures that were taken, as in report.json; none of a session about starts, which has summaries."""
    if not is_work(session):
        return ()
    found = (one for name in names_taken(session) for one in middles(session, name))
    return tuple(one for one in found if one.count or one.name == session.figure_of(one.variant))


def _pairs(session: Session, axis: Axis) -> list[tuple[str, str]]:
    if axis.base is None:
        return []
    known = {_key(session.cells.get(variant, {})): variant for variant in session.variants}
    pairs = []
    for variant in session.variants:
        cell = session.cells.get(variant, {})
        base = known.get(_key({**cell, axis.name: axis.base}))
        if axis.name in cell and base is not None and base != variant:
            pairs.append((variant, base))
    return pairs


def _key(cell: dict[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(cell.items())


def _middle(key: tuple[str, str], name: str, runs: Sequence[Run]) -> Middle:
    values = taken(runs, name)
    return Middle(
        *key,
        name=name,
        unit=quantity(name).unit,
        count=len(values),
        **described(values),
        failed=sum(run.verdict is Verdict.FAILED for run in runs),
        void=sum(run.verdict is Verdict.VOID for run in runs),
    )
