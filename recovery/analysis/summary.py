"""Summarises the measured runs of a session: means, intervals and ratios, for starts and for servers under load.

It also groups and names the variants by the axes on which they differ.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from recovery.analysis.effective_options import are_equivalent
from recovery.analysis.statistics import (
    EffectFields,
    compare_means,
    descriptive_statistics,
    effect_fields,
    holm_significant,
)
from recovery.model import METRICS, STARTUP_FIGURE, Axis, Run, Session, Verdict, is_second_start, metric


@dataclass(frozen=True)
class Summary(EffectFields):
    """The startups of one version in one variant."""

    version: str
    """Version of the server, as in the session's `versions`."""
    variant: str
    """As in the session's `variants`."""
    count: int
    """Number of measured runs; the following values are of their startups."""
    mean_s: float | None
    """Mean of all of them; None if there are none."""
    median_s: float | None
    """Median of all of them."""
    min_s: float | None
    """The shortest startup."""
    max_s: float | None
    """The longest startup."""
    stdev_s: float | None
    """Standard deviation of a sample; None with fewer than two runs."""
    interval_s: float | None = None
    """Half of the mean's 95 % interval, by Student's t; None with fewer than three runs."""
    failed: int = 0
    """Number of runs in which the server did not come back, or lost something."""
    void: int = 0
    """Number of runs that measured something other than was asked."""


def session_summaries(session: Session) -> tuple[Summary, ...]:
    return summarise(session.runs, session.versions, session.variants, baseline=baseline_of(session))


def baseline_of(session: Session) -> str:
    """Returns the version that ratios refer to: the one named in the settings, or else the first."""
    named = session.settings.get("baseline")
    return str(named) if named in session.versions else session.versions[0]


def summarise(
    runs: Iterable[Run], versions: Sequence[str], variants: Sequence[str], *, baseline: str | None = None
) -> tuple[Summary, ...]:
    """Returns one summary for each version in each variant, in the given order. Failed and void runs are only counted.
    A version has a summary of second starts only if it has any, and no ratio of them, because they were cold to
    different degrees."""
    every = group_by_cell(runs, versions, variants)
    cells = {key: cell for key, cell in every.items() if cell or not is_second_start(key[1])}
    times = {key: _times(cell) for key, cell in cells.items()}
    base = baseline if baseline in versions else next(iter(versions), None)
    found = []
    for (version, variant), cell in cells.items():
        to = () if is_second_start(variant) else times.get((str(base), variant), ())
        effect = compare_means(times[version, variant], to)
        found.append(replace(_summary(version, variant, cell), **effect_fields(effect, is_base=version == base)))
    return tuple(found)


def measured_runs_by_cell(session: Session) -> tuple[tuple[str, str, tuple[Run, ...]], ...]:
    """Returns version, variant and measured runs of each cell with such runs, in the order of the report."""
    measured = [run for run in session.runs if run.verdict is Verdict.MEASURED]
    cells = group_by_cell(measured, session.versions, session.variants)
    return tuple((*key, runs) for key, runs in cells.items() if runs)


def mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the values that are not None, or None if there are none."""
    taken = [value for value in values if value is not None]
    return statistics.fmean(taken) if taken else None


def group_by_cell(
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
        **descriptive_statistics(times, "_s"),
        failed=sum(run.verdict is Verdict.FAILED for run in cell),
        void=sum(run.verdict is Verdict.VOID for run in cell),
    )


# --- Variants: the axes on which they differ, their groups and their names

_SWITCH = frozenset({"on", "off", "true", "false", "yes", "no"})
_SIZE = re.compile(r"\d+(\.\d+)?[kmgKMG]?B?")
_MAX_GROUPED = 12
"""Variants in one table or chart; more of them are grouped by their first axis."""
MIN_SCALE_VALUES = 3
"""Least number of values on an axis for a line chart."""


@dataclass(frozen=True)
class Group:
    """Variants that are shown together."""

    name: str
    """The value that all of them have, and no other group; empty if all variants are in one group."""
    variants: tuple[str, ...]
    axes: tuple[Axis, ...]
    """The axes on which these variants differ, with the values that occur."""
    figure: str
    """Name of the figure that all of them measure."""


def is_switch(axis: Axis) -> bool:
    """Returns whether all values of the axis are words for on or off."""
    return bool(axis.values) and all(value.lower() in _SWITCH for value in axis.values)


def is_numeric(axis: Axis) -> bool:
    return bool(axis.values) and all(parse_number(value) is not None for value in axis.values)


def parse_number(value: str) -> float | None:
    return float(value) if re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", value) else None


def is_self_explanatory(axis: Axis) -> bool:
    """Returns whether the values are clear without the axis' name: `point-select` is, 8 and `off` are not."""
    return bool(axis.values) and not any(
        value.lower() in _SWITCH or _SIZE.fullmatch(value) is not None for value in axis.values
    )


def groups(session: Session) -> tuple[Group, ...]:
    """Groups the variants by the first axis if its values are clear by themselves, and either the groups differ in
    figure or axes, or there are too many variants for one table. Otherwise returns one group."""
    whole = session.differing_axes
    first = whole[0] if whole else None
    if first is not None and is_self_explanatory(first):
        parts = tuple(_group_for_value(session, first, value) for value in first.values)
        there = sum(len(part.variants) for part in parts) == len(session.variants)
        unlike = len({(part.figure, *(axis.name for axis in part.axes)) for part in parts}) > 1
        many = len(session.variants) > _MAX_GROUPED and any(part.axes for part in parts)
        if there and (unlike or many):
            return parts
    return (Group("", session.variants, whole, session.figure_of(next(iter(session.variants), ""))),)


def _group_for_value(session: Session, axis: Axis, value: str) -> Group:
    variants = tuple(variant for variant in session.variants if session.cells.get(variant, {}).get(axis.name) == value)
    return Group(value, variants, session.differing_among(variants), session.figure_of(variants[0]))


def are_distinguishable(session: Session, group: Group) -> bool:
    """Returns whether the variants of the group differ in their values on its axes."""
    cells = [tuple(session.cells.get(variant, {}).get(axis.name) for axis in group.axes) for variant in group.variants]
    return len(set(cells)) == len(cells)


def scale_axis(group: Group) -> Axis | None:
    """Returns the numeric axis for the chart of the figure, preferably one without a base value, or None."""
    able = [axis for axis in group.axes if _is_scale(axis)]
    return min(able, key=lambda axis: (axis.base is not None, -len(axis.values)), default=None)


def _is_scale(axis: Axis) -> bool:
    """Returns whether the axis is numeric with enough values. With a base value they must also be in ascending order,
    because 1, 2 and 0 may be mere names."""
    values = [parse_number(value) or 0.0 for value in axis.values]
    in_order = axis.base is None or values == sorted(values)
    return is_numeric(axis) and len(values) >= MIN_SCALE_VALUES and in_order


def cell_words(session: Session, variant: str, *, without: Collection[str] = ()) -> str:
    """Returns the variant's values on the axes, `point-select, threads 8, poll=on`, or its name if there are none."""
    axes = [axis for axis in session.differing_axes if axis.name not in without]
    cell = session.cells.get(variant, {})
    told = [value_words(axis, cell[axis.name]) for axis in axes if axis.name in cell]
    return ", ".join(told) or ("" if without else variant)


def cell_words_in_group(session: Session, group: Group, variant: str, *, without: Collection[str] = ()) -> str:
    """Like `cell_words`, but leaves out what all variants of the group have in common."""
    cell = session.cells.get(variant, {})
    told = [value_words(axis, cell[axis.name]) for axis in group.axes if axis.name in cell and axis.name not in without]
    return ", ".join(told)


def value_words(axis: Axis, value: str) -> str:
    if is_self_explanatory(axis):
        return value
    return f"{axis.name} {value}" if axis.name.isalpha() and not is_switch(axis) else f"{axis.name}={value}"


# --- Servers under load: means, ratios of versions, and ratios of variants


@dataclass(frozen=True)
class FigureSummary(EffectFields):
    """One figure of one version in one variant."""

    version: str
    """Version of the server, as in the session's `versions`."""
    variant: str
    """As in the session's `variants`."""
    name: str
    """Name of the figure, as in the `measures` of a run."""
    unit: str
    """Printed after a value; empty for a plain number."""
    count: int
    """Number of measured runs that have the figure; the following values are of those."""
    mean: float | None
    """Mean of all of them; None if there are none."""
    median: float | None
    """Median of all of them."""
    min: float | None
    """The smallest value."""
    max: float | None
    """The largest value."""
    stdev: float | None
    """Standard deviation of a sample; None with fewer than two runs."""
    interval: float | None = None
    """Half of the mean's 95 % interval, by Student's t; None with fewer than three runs."""
    failed: int = 0
    """Number of runs that failed."""
    void: int = 0
    """Number of runs that measured something other than was asked."""


@dataclass(frozen=True)
class VariantRatio(EffectFields):
    """The figure of one variant divided by that of another variant, which differs on one axis only."""

    axis: str
    """Name of the axis, as in the session's `axes`."""
    version: str
    """Version of both, as in the session's `versions`."""
    variant: str
    """As in the session's `variants`."""
    base_variant: str
    """The variant that has the axis' base value."""
    luck: float | None = None
    """Probability of an effect at least as large if there is none; None with fewer than three runs of either."""
    stands_out: bool | None = None
    """Significant even when all comparisons along this axis are taken together: Holm's correction, 5 % in total."""


@dataclass(frozen=True)
class VersionRatio(EffectFields):
    """The figure of one version divided by that of another version in the same variant."""

    version: str
    """Version of the server, as in the session's `versions`."""
    base_version: str
    """The version that it is compared with, which comes earlier in the order of the report."""
    variant: str
    """Variant of both, as in the session's `variants`."""


MIN_VERSIONS_FOR_PAIRS = 3
"""Number of versions from which on the last is also compared with the first."""
_DERIVED_FIGURES = {
    "device_reads_per_query": ("device_reads_per_s", ("qps",)),
    "errors_per_transaction": ("client_errors", ("tps", "elapsed_s")),
}
"""Figures of a run that are derived from others: a dividend, and the divisors."""


def is_load_session(session: Session) -> bool:
    """Returns whether the session is about servers under load rather than starts."""
    return session.figure != STARTUP_FIGURE


def run_value(run: Run, name: str) -> float | None:
    if name not in _DERIVED_FIGURES:
        return run.startup_s if name == STARTUP_FIGURE else run.measures.get(name)
    one, others = _DERIVED_FIGURES[name]
    if not {one, *others} <= set(run.measures):
        return None
    over = math.prod(run.measures[part] for part in others)
    return run.measures[one] / over if over else None


def variant_figure_value(session: Session, run: Run) -> float | None:
    """Returns the run's value of the figure that its variant measures."""
    return run_value(run, session.figure_of(run.variant))


def measured_figures(session: Session) -> tuple[str, ...]:
    """Returns the distinct figures that the variants measure; usually one."""
    found = dict.fromkeys(session.figure_of(variant) for variant in session.variants)
    return tuple(found) or (session.figure,)


def cell_values(session: Session, runs: Sequence[Run]) -> list[float]:
    """Returns the values of the figure that a cell measures, of its measured runs."""
    return figure_values(runs, session.figure_of(runs[0].variant)) if runs else []


def figure_values(runs: Iterable[Run], name: str) -> list[float]:
    """Returns the values of this figure of all measured runs that have it."""
    values = (run_value(run, name) for run in runs if run.verdict is Verdict.MEASURED)
    return [value for value in values if value is not None]


def figure_names(session: Session) -> tuple[str, ...]:
    """Returns the names of all figures that were taken: first those that the session measures, then those in the order
    of `QUANTITIES`, then the others."""
    found = {name for run in session.runs if run.verdict is Verdict.MEASURED for name in run.measures}
    found |= {name for name in _DERIVED_FIGURES if figure_values(session.runs, name)}
    order = (*measured_figures(session), *METRICS, *sorted(found))
    return tuple(name for name in dict.fromkeys(order) if name in found)


def figure_summaries(session: Session, name: str | None = None) -> tuple[FigureSummary, ...]:
    """Returns the summary of one figure for each version in each variant, in the order of the report. By default it is
    the figure that the variant measures."""
    base = baseline_of(session)
    cells = runs_by_cell(session)
    called = {variant: name or session.figure_of(variant) for variant in session.variants}
    values = {key: figure_values(runs, called[key[1]]) for key, runs in cells.items()}
    found = []
    for key, runs in cells.items():
        effect = compare_means(values[key], values[base, key[1]])
        found.append(
            replace(_figure_summary(key, called[key[1]], runs), **effect_fields(effect, is_base=key[0] == base))
        )
    return tuple(found)


def figure_means(session: Session, name: str) -> dict[tuple[str, str], float | None]:
    """Returns the mean of one figure for each version in each variant, for uses that need nothing else."""
    return {key: mean(figure_values(runs, name)) for key, runs in runs_by_cell(session).items()}


def runs_by_cell(session: Session) -> dict[tuple[str, str], tuple[Run, ...]]:
    """Returns all runs by version and variant, including those that are not measured."""
    return group_by_cell(session.runs, session.versions, session.variants)


def compared_with_baseline(session: Session, name: str | None = None) -> tuple[FigureSummary, ...]:
    """Returns the summaries of all versions but the baseline, where both have values."""
    base = baseline_of(session)
    found = (one for one in figure_summaries(session, name) if one.version != base)
    return tuple(one for one in found if one.ratio is not None or one.difference is not None)


def variant_ratios(session: Session, axis: Axis) -> tuple[VariantRatio, ...]:
    """Returns the ratio of each variant to the one with the axis' base value and the same values on all other axes.
    There is none without a base value, nor if the server ran both with the same effective options."""
    pairs = _variant_pairs(session, axis)
    cells = runs_by_cell(session)
    found = []
    for version in session.versions:
        for variant, base in pairs:
            if are_equivalent(session, version, (variant, base)):
                continue
            effect = compare_means(*(cell_values(session, cells[version, each]) for each in (variant, base)))
            if effect is not None:
                found.append(VariantRatio(axis.name, version, variant, base, luck=effect.luck, **effect_fields(effect)))
    standing = holm_significant([one.luck for one in found])
    return tuple(replace(one, stands_out=stands) for one, stands in zip(found, standing, strict=True))


def all_variant_ratios(session: Session) -> tuple[VariantRatio, ...]:
    """Returns the ratios along all axes that have a base value; none for a session about starts."""
    return (
        tuple(held for axis in session.axes for held in variant_ratios(session, axis))
        if is_load_session(session)
        else ()
    )


def version_pairs(versions: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Returns pairs of a later and an earlier version: neighbours, and the last with the first. For three versions
    these are all pairs."""
    ends = [(versions[-1], versions[0])] if len(versions) >= MIN_VERSIONS_FOR_PAIRS else []
    return (*((later, earlier) for earlier, later in pairwise(versions)), *ends)


def version_ratios(session: Session) -> tuple[VersionRatio, ...]:
    """Returns the ratios of all version pairs in each variant that both have values in."""
    if not is_load_session(session):
        return ()
    cells = runs_by_cell(session)
    found = []
    for variant in session.variants:
        for version, base in version_pairs(session.versions):
            effect = compare_means(*(cell_values(session, cells[each, variant]) for each in (version, base)))
            if effect is not None:
                found.append(VersionRatio(version, base, variant, **effect_fields(effect)))
    return tuple(found)


def stored_figure_summaries(session: Session) -> tuple[FigureSummary, ...]:
    """Returns the summaries of all figures for report.json. There are none for a session about starts, which has
    `summaries`."""
    if not is_load_session(session):
        return ()
    found = (one for name in figure_names(session) for one in figure_summaries(session, name))
    return tuple(one for one in found if one.count or one.name == session.figure_of(one.variant))


def _variant_pairs(session: Session, axis: Axis) -> list[tuple[str, str]]:
    if axis.base is None:
        return []
    known = {_cell_key(session.cells.get(variant, {})): variant for variant in session.variants}
    pairs = []
    for variant in session.variants:
        cell = session.cells.get(variant, {})
        base = known.get(_cell_key({**cell, axis.name: axis.base}))
        if axis.name in cell and base is not None and base != variant:
            pairs.append((variant, base))
    return pairs


def _cell_key(cell: dict[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(cell.items())


def _figure_summary(key: tuple[str, str], name: str, runs: Sequence[Run]) -> FigureSummary:
    values = figure_values(runs, name)
    return FigureSummary(
        *key,
        name=name,
        unit=metric(name).unit,
        count=len(values),
        **descriptive_statistics(values),
        failed=sum(run.verdict is Verdict.FAILED for run in runs),
        void=sum(run.verdict is Verdict.VOID for run in runs),
    )
