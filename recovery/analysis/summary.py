"""What do the measured runs come to: mean with its interval, median, spread, and the ratio to the baseline?"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from recovery.analysis.effective_options import are_one
from recovery.analysis.statistics import Compared, described, effect_95, stand_out, stored_effect
from recovery.model import QUANTITIES, STARTUP, Axis, Run, Session, Verdict, is_second_start, quantity


@dataclass(frozen=True)
class Summary(Compared):
    version: str
    """As in the session's `versions`."""
    variant: str
    """As in its `variants`."""
    count: int
    """Of the runs that were measured; what follows is of their startups."""
    mean_s: float | None
    """Of all of them; None where there are none."""
    median_s: float | None
    """The middle one."""
    min_s: float | None
    """The shortest."""
    max_s: float | None
    """The longest."""
    stdev_s: float | None
    """Standard deviation of a sample; None under two runs."""
    interval_s: float | None = None
    """Half of the mean's 95 % interval, by Student's t; None under three runs."""
    failed: int = 0
    """Runs in which the server did not come back, or lost something."""
    void: int = 0
    """Runs that measured something else than was asked."""


def summarised(session: Session) -> tuple[Summary, ...]:
    return summarise(session.runs, session.versions, session.variants, baseline=baseline_of(session))


def baseline_of(session: Session) -> str:
    """What ratios are taken to: the version that was named, or else the first."""
    named = session.settings.get("baseline")
    return str(named) if named in session.versions else session.versions[0]


def summarise(
    runs: Iterable[Run], versions: Sequence[str], variants: Sequence[str], *, baseline: str | None = None
) -> tuple[Summary, ...]:
    """One summary for each version in each variant, in the order given; failed and void runs are only counted. A
    version has second starts only where there are any, and no ratio of them: they were cold to different degrees."""
    every = cells_of(runs, versions, variants)
    cells = {key: cell for key, cell in every.items() if cell or not is_second_start(key[1])}
    times = {key: _times(cell) for key, cell in cells.items()}
    base = baseline if baseline in versions else next(iter(versions), None)
    found = []
    for (version, variant), cell in cells.items():
        to = () if is_second_start(variant) else times.get((str(base), variant), ())
        effect = effect_95(times[version, variant], to)
        found.append(replace(_summary(version, variant, cell), **stored_effect(effect, is_base=version == base)))
    return tuple(found)


def measured_by(session: Session) -> tuple[tuple[str, str, tuple[Run, ...]], ...]:
    """Version, variant, and the runs that count, in the order of the report; without those that have none."""
    measured = [run for run in session.runs if run.verdict is Verdict.MEASURED]
    cells = cells_of(measured, session.versions, session.variants)
    return tuple((*key, runs) for key, runs in cells.items() if runs)


def mean(values: Iterable[float | None]) -> float | None:
    """Of the values that were taken; None where there are none."""
    taken = [value for value in values if value is not None]
    return statistics.fmean(taken) if taken else None


def cells_of(
    runs: Iterable[Run], versions: Sequence[str], variants: Sequence[str]
) -> dict[tuple[str, str], tuple[Run, ...]]:
    """Returns the runs of each version in each variant."""
    cells: dict[tuple[str, str], list[Run]] = {(version, variant): [] for version in versions for variant in variants}
    for run in runs:
        if (run.version, run.variant) in cells:
            cells[run.version, run.variant].append(run)
    return {key: tuple(found) for key, found in cells.items()}


def _times(cell: Iterable[Run]) -> list[float]:
    return [run.startup_s for run in cell if run.verdict is Verdict.MEASURED and run.startup_s is not None]


def _summary(version: str, variant: str, cell: Sequence[Run]) -> Summary:
    times = _times(cell)
    return Summary(
        version=version,
        variant=variant,
        count=len(times),
        **described(times, "_s"),
        failed=sum(run.verdict is Verdict.FAILED for run in cell),
        void=sum(run.verdict is Verdict.VOID for run in cell),
    )


# By what do a session's variants differ from each other, and how is one of them called? Pure.

_SWITCH = frozenset({"on", "off", "true", "false", "yes", "no"})
_SIZE = re.compile(r"\d+(\.\d+)?[kmgKMG]?B?")
_MOST_TOGETHER = 12
"""Variants in one table or picture; more are told apart by their first axis."""
LEAST_TO_SCALE = 3
"""Values that a line is drawn through."""


@dataclass(frozen=True)
class Group:
    """Variants that are shown together."""

    name: str
    """What all of them have, and no other group; empty where all variants are in one."""
    variants: tuple[str, ...]
    axes: tuple[Axis, ...]
    """By which these differ, with the values that they have."""
    figure: str
    """What all of them are about."""


def is_switch(axis: Axis) -> bool:
    """On or off, and nothing between."""
    return bool(axis.values) and all(value.lower() in _SWITCH for value in axis.values)


def is_numeric(axis: Axis) -> bool:
    return bool(axis.values) and all(number(value) is not None for value in axis.values)


def number(value: str) -> float | None:
    return float(value) if re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", value) else None


def says_itself(axis: Axis) -> bool:
    """`point-select` needs no name before it, 8 and off do."""
    return bool(axis.values) and not any(
        value.lower() in _SWITCH or _SIZE.fullmatch(value) is not None for value in axis.values
    )


def groups(session: Session) -> tuple[Group, ...]:
    """By the first axis, where it says by itself what is measured and its values are each a matter of their own."""
    whole = session.differing_axes
    first = whole[0] if whole else None
    if first is not None and says_itself(first):
        parts = tuple(_part(session, first, value) for value in first.values)
        there = sum(len(part.variants) for part in parts) == len(session.variants)
        unlike = len({(part.figure, *(axis.name for axis in part.axes)) for part in parts}) > 1
        many = len(session.variants) > _MOST_TOGETHER and any(part.axes for part in parts)
        if there and (unlike or many):
            return parts
    return (Group("", session.variants, whole, session.figure_of(next(iter(session.variants), ""))),)


def _part(session: Session, axis: Axis, value: str) -> Group:
    variants = tuple(variant for variant in session.variants if session.cells.get(variant, {}).get(axis.name) == value)
    return Group(value, variants, session.differing_among(variants), session.figure_of(variants[0]))


def are_told_apart(session: Session, group: Group) -> bool:
    """By the values that they have on the group's axes alone."""
    cells = [tuple(session.cells.get(variant, {}).get(axis.name) for axis in group.axes) for variant in group.variants]
    return len(set(cells)) == len(cells)


def scale_of(group: Group) -> Axis | None:
    """The axis against which the figure is drawn: of numbers, and rather one along which nothing is a base."""
    able = [axis for axis in group.axes if _is_scale(axis)]
    return min(able, key=lambda axis: (axis.base is not None, -len(axis.values)), default=None)


def _is_scale(axis: Axis) -> bool:
    """Numbers that are held against a base need not be amounts: 1, 2 and 0 may be names, and are in no order then."""
    values = [number(value) or 0.0 for value in axis.values]
    in_order = axis.base is None or values == sorted(values)
    return is_numeric(axis) and len(values) >= LEAST_TO_SCALE and in_order


def cell_words(session: Session, variant: str, *, without: Collection[str] = ()) -> str:
    """`point-select, threads 8, poll=on`: by what it differs from others; its name where nothing says it."""
    axes = [axis for axis in session.differing_axes if axis.name not in without]
    cell = session.cells.get(variant, {})
    told = [value_words(axis, cell[axis.name]) for axis in axes if axis.name in cell]
    return ", ".join(told) or ("" if without else variant)


def words_in(session: Session, group: Group, variant: str, *, without: Collection[str] = ()) -> str:
    """As `cell_words`, among those of a group: what all of them have is left out."""
    cell = session.cells.get(variant, {})
    told = [value_words(axis, cell[axis.name]) for axis in group.axes if axis.name in cell and axis.name not in without]
    return ", ".join(told)


def value_words(axis: Axis, value: str) -> str:
    if says_itself(axis):
        return value
    return f"{axis.name} {value}" if axis.name.isalpha() and not is_switch(axis) else f"{axis.name}={value}"


# What do the figures of servers at work come to: middles, ratios of versions, and along what variants differ by?


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
