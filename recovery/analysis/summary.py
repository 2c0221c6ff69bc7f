"""Summarises the measured runs of a session: the values of a metric, their means with intervals, and ratios.

A timed start is measured like a load: its main metric is `startup_s`. The module also groups and names the variants by
the axes on which they differ.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from recovery.analysis.combined import HOST_AXIS
from recovery.analysis.contrasts import CellKey, Contrast, Sample, contrast_fields, contrasts
from recovery.analysis.effective_options import are_equivalent
from recovery.analysis.statistics import PRECISION_FACTOR
from recovery.metrics import METRICS, metric
from recovery.model import Axis, Run, Session, Verdict, are_own_reads
from recovery.phase_table import seconds_of_starts, sorted_phases

# --- Values of a metric

_DERIVED_METRICS = {
    "device_reads_per_query": ("device_reads_per_s", ("qps",)),
    "errors_per_transaction": ("client_errors", ("tps", "elapsed_s")),
    "read_bytes_per_s": ("read_bytes", ("first_query_s",)),
}
"""Metrics that are computed from others where they were not measured: a dividend, and the divisors."""
_OF_EVERY_RUN = frozenset(name for name, about in METRICS.items() if about.of_every_run)


def metric_value(run: Run, name: str) -> float | None:
    """Returns the run's value of a metric, or None if it was not measured."""
    value = run.metrics.get(name)
    if value is not None or name not in _DERIVED_METRICS:
        return value
    dividend, divisors = _DERIVED_METRICS[name]
    parts = [run.metrics.get(part) for part in (dividend, *divisors)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not all(known[1:]):
        return None
    return known[0] / math.prod(known[1:])


def per_table(run: Run, name: str) -> float | None:
    """Returns the run's value of a metric, divided by its number of tables."""
    value = run.metrics.get(name)
    return value / run.contents.tables_found if value is not None and run.contents.tables_found else None


def own_read_requests(session: Session, runs: Iterable[Run], *, for_each_table: bool = False) -> float | None:
    """Returns the mean of the server's read requests, from the runs in which others read little from the device.

    The counter may be that of the device, for all processes, unless reads were limited."""
    are_limited = bool(session.design.limits.read_iops or session.design.limits.read_bps)
    own = [
        run
        for run in runs
        if are_limited
        or run.host_activity is None
        or run.host_activity.others_read_bytes is None
        or are_own_reads(run.metrics.get("read_bytes"), run.host_activity.others_read_bytes)
    ]
    name = "read_requests"
    return mean(per_table(run, name) if for_each_table else run.metrics.get(name) for run in own)


def main_value(session: Session, run: Run) -> float | None:
    """Returns the run's value of the metric that its variant measures."""
    return metric_value(run, session.metric_of(run.variant))


def metric_values(runs: Iterable[Run], name: str) -> list[float]:
    """Returns the values of a metric of all measured runs that have it."""
    return _measured_values(runs, lambda run: metric_value(run, name))


def _measured_values(runs: Iterable[Run], value_of: Callable[[Run], float | None]) -> list[float]:
    values = (value_of(run) for run in runs if run.verdict is Verdict.MEASURED)
    return [value for value in values if value is not None]


def main_values(session: Session, runs: Sequence[Run]) -> list[float]:
    """Returns the values of the metric that a cell measures, of the cell's measured runs."""
    return metric_values(runs, session.metric_of(runs[0].variant)) if runs else []


def main_metrics(session: Session) -> tuple[str, ...]:
    """Returns the distinct metrics that the variants measure; usually one."""
    found = dict.fromkeys(session.metric_of(variant) for variant in session.variant_names)
    return tuple(found) or (session.metric,)


def is_compared(session: Session) -> bool:
    """Returns whether the means of the main metric are compared, which is no question of what survived a crash."""
    return metric(session.metric).is_compared


def metric_names(session: Session) -> tuple[str, ...]:
    """Returns the names of all metrics that were measured: first the main ones, then those of `METRICS` in its order,
    then the others. What is counted in every run is left out where the main metrics have no use for it."""
    found = {name for run in session.runs if run.verdict is Verdict.MEASURED for name in run.metrics}
    main = main_metrics(session)
    found -= _OF_EVERY_RUN.difference(main, *(metric(name).related for name in main))
    found |= {
        name
        for name, (dividend, divisors) in _DERIVED_METRICS.items()
        if found.issuperset((dividend, *divisors)) and metric_values(session.runs, name)
    }
    order = (*main, *METRICS, *sorted(found))
    return tuple(name for name in dict.fromkeys(order) if name in found)


def mean(values: Iterable[float | None]) -> float | None:
    taken = [value for value in values if value is not None]
    return statistics.fmean(taken) if taken else None


def interval_factor(session: Session) -> float:
    """Returns the factor of the session's intervals, which is above 1 if it stopped at a precision."""
    return PRECISION_FACTOR if session.design.precision else 1.0


# --- Cells: the runs of one version in one variant

Cell = tuple[str, str]
"""A version and a variant."""


def key_of(cell: Cell) -> CellKey:
    """Returns the key of a session's cell among those that are compared."""
    return CellKey("", *cell)


def runs_words(session: Session, runs: Sequence[Run]) -> str:
    """Returns which runs of their cell these are, such as `runs 1, 4 of 5`: by their numbers in the cell, of those that
    count. Of several sessions it says of which."""
    texts = []
    for found in _by_part(runs).values():
        cell = (found[0].version, found[0].variant, _part_of(found[0]))
        alike = (run for run in session.runs if (run.version, run.variant, _part_of(run)) == cell and not run.extra)
        of_all = max((run.repeat for run in alike), default=0)
        numbers = ", ".join(str(run.repeat) for run in found)
        where = f" of session {cell[2] + 1}" if isinstance(cell[2], int) else ""
        is_all = len(found) == of_all > 1
        shown = f"all {of_all} runs" if is_all else f"run{'s' if len(found) > 1 else ''} {numbers} of {of_all}"
        texts.append(f"{shown}{where}")
    return "; ".join(texts)


def _by_part(runs: Sequence[Run]) -> dict[int | None, list[Run]]:
    found: dict[int | None, list[Run]] = {}
    for run in runs:
        found.setdefault(_part_of(run), []).append(run)
    return found


def _part_of(run: Run) -> int | None:
    """Returns the place of the run's session in a combined one."""
    return getattr(run, "part", None)


def runs_by_cell(session: Session) -> dict[Cell, tuple[Run, ...]]:
    """Returns all runs by version and variant, including those that are not measured, in the order of the report."""
    return _by_cell(session, session.runs)


def measured_runs_by_cell(session: Session) -> dict[Cell, tuple[Run, ...]]:
    """Returns the measured runs by version and variant, without empty cells, in the order of the report."""
    cells = _by_cell(session, [run for run in session.runs if run.verdict is Verdict.MEASURED])
    return {cell: runs for cell, runs in cells.items() if runs}


def _by_cell(session: Session, runs: Iterable[Run]) -> dict[Cell, tuple[Run, ...]]:
    cells: dict[Cell, list[Run]] = {
        (version, variant): [] for version in session.versions for variant in session.variant_names
    }
    for run in runs:
        if (run.version, run.variant) in cells:
            cells[run.version, run.variant].append(run)
    return {cell: tuple(found) for cell, found in cells.items()}


def median_run(session: Session, runs: Iterable[Run]) -> Run | None:
    """Returns the measured run with the median main value; the lower of the two middle ones if there are two."""
    known = [(value, run) for run in runs if run.verdict is Verdict.MEASURED
             and (value := main_value(session, run)) is not None]  # fmt: skip
    if not known:
        return None
    middle = statistics.median_low(value for value, _ in known)
    return next(run for value, run in known if value == middle)


def phase_means(session: Session) -> dict[Cell, dict[str, float]]:
    """Returns the mean seconds of each phase by version and variant, without those that have no run with phases."""
    found = {}
    for cell, runs in measured_runs_by_cell(session).items():
        starts = seconds_of_starts(run.startup.phases for run in runs if run.startup.phases)
        names = sorted_phases(name for start in starts for name in start)
        means = {name: statistics.fmean(start.get(name, 0.0) for start in starts) for name in names}
        if means:
            found[cell] = means
    return found


# --- Summaries of a metric


@dataclass(frozen=True)
class Summary(Contrast):
    """One metric of one version in one variant, compared with the baseline."""

    version: str
    """Version of the server, as in the session's `versions`."""
    variant: str
    """As in the session's `variants`."""
    name: str
    """Name of the metric: `startup_s`, or as in the `metrics` of a run."""
    unit: str
    """Printed after a value; empty for a plain number."""
    count: int
    """Number of measured runs that have the metric; the following values are of those."""
    mean: float | None
    """Mean of all of them; over several sessions, the geometric mean of their means, or the arithmetic one if any is
    not above zero. None if there are none."""
    median: float | None
    """Median of all of them."""
    min: float | None
    """The smallest value."""
    max: float | None
    """The largest value."""
    stdev: float | None
    """Standard deviation of a sample; None with fewer than two runs."""
    interval: float | None = None
    """Half the width of the mean's 95 % interval, by Student's t; None with fewer than three runs, or sessions."""
    low: float | None = None
    """Over several sessions, the lower end of that interval, computed on the logarithm for a geometric mean. In one
    session it is the mean less `interval`."""
    high: float | None = None
    """Over several sessions, its upper end."""
    failed: int = 0
    """Number of runs in which the server did not come back, or lost something."""
    void: int = 0
    """Number of runs that measured something other than was asked."""

    @property
    def has_runs(self) -> bool:
        """Whether the cell has any run, because a version need not have every variant."""
        return bool(self.count or self.failed or self.void)


def baseline_of(session: Session) -> str:
    """Returns the version that ratios refer to: the one named in the settings, or else the first."""
    named = session.design.baseline
    return named if named in session.versions else session.versions[0]


def summarise(session: Session, name: str | None = None) -> tuple[Summary, ...]:
    """Returns the summary of a metric for each version in each variant, in the order of the report. By default it is
    the metric that the variant measures. Failed and void runs are only counted.

    A version has a summary of second starts only if it has any, and no ratio of them, because they were cold to
    different degrees."""
    cells = {cell: runs for cell, runs in runs_by_cell(session).items() if runs or not session.is_second_start(cell[1])}
    names = {cell: name or session.metric_of(cell[1]) for cell in cells}
    samples = {key_of(cell): sample_of(session, runs, names[cell]) for cell, runs in cells.items()}
    found, base = _version_contrasts(session, samples), baseline_of(session)
    return tuple(
        replace(
            summary_of(version, variant, names[version, variant], runs, samples[key_of((version, variant))]),
            **contrast_fields(found.get(_version_pair(variant, version, base), Contrast())),
        )
        for (version, variant), runs in cells.items()
    )


def sample_of(session: Session, runs: Iterable[Run], name: str) -> Sample:
    """Returns the values of a metric of these runs, to be compared."""
    return sample_of_values(session, runs, lambda run: metric_value(run, name))


def sample_of_values(session: Session, runs: Iterable[Run], value_of: Callable[[Run], float | None]) -> Sample:
    """Returns a value of each of these runs that is measured and has it, to be compared."""
    parts = session.by_session(runs)
    factor = max((interval_factor(part) for part, _ in parts), default=1.0)
    known = [
        [(value, session.block_of(run)) for run in of_part
         if run.verdict is Verdict.MEASURED and (value := value_of(run)) is not None]
        for _, of_part in parts
    ]  # fmt: skip
    return Sample(
        tuple(tuple(value for value, _ in of_part) for of_part in known),
        factor,
        tuple(tuple(block for _, block in of_part) for of_part in known),
    )


def main_samples(session: Session) -> dict[CellKey, Sample]:
    """Returns the values of the metric that each cell measures."""
    return {
        key_of(cell): sample_of(session, runs, session.metric_of(cell[1]))
        for cell, runs in runs_by_cell(session).items()
    }


def summary_of(version: str, variant: str, name: str, runs: Sequence[Run], sample: Sample) -> Summary:
    """Returns the summary of a metric of these runs, compared with nothing. `sample` has its values."""
    return Summary(
        version=version,
        variant=variant,
        name=name,
        unit=metric(name).unit,
        count=len(sample.values),
        **sample.statistics(),
        failed=sum(run.verdict is Verdict.FAILED for run in runs),
        void=sum(run.verdict is Verdict.VOID for run in runs),
    )


def metric_means(session: Session, name: str | None = None) -> dict[Cell, float | None]:
    """Returns the mean of a metric, by default the main one, by version and variant."""
    return {
        cell: sample_of(session, runs, name or session.metric_of(cell[1])).mean
        for cell, runs in runs_by_cell(session).items()
    }


def stored_summaries(session: Session) -> list[dict[str, Any]]:
    """Returns the summaries of all metrics as they are stored."""
    found = (summary for name in metric_names(session) for summary in summarise(session, name))
    return [asdict(summary) for summary in found if summary.count or summary.name == session.metric_of(summary.variant)]


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
    metric: str
    """Name of the metric that all of them measure."""


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
    metric or axes, or there are too many variants for one table. Otherwise returns one group."""
    whole = session.differing_axes
    first = whole[0] if whole else None
    if first is not None and is_self_explanatory(first):
        parts = tuple(_group_for_value(session, first, value) for value in first.values)
        there = sum(len(part.variants) for part in parts) == len(session.variant_names)
        unlike = len({(part.metric, *(axis.name for axis in part.axes)) for part in parts}) > 1
        many = len(session.variant_names) > _MAX_GROUPED and any(part.axes for part in parts)
        if there and (unlike or many):
            return parts
    return (Group("", session.variant_names, whole, session.metric_of(next(iter(session.variant_names), ""))),)


def _group_for_value(session: Session, axis: Axis, value: str) -> Group:
    variants = tuple(variant for variant in session.variant_names if session.value_of(variant, axis.name) == value)
    return Group(value, variants, session.differing_among(variants), session.metric_of(variants[0]))


def scale_axis(group: Group) -> Axis | None:
    """Returns the numeric axis for the chart of the metric, preferably one without a base value, or None."""
    able = [axis for axis in group.axes if _is_scale(axis)]
    return min(able, key=lambda axis: (axis.base is not None, -len(axis.values)), default=None)


def _is_scale(axis: Axis) -> bool:
    """Returns whether the axis is numeric with enough values. With a base value they must also be in ascending order,
    because 1, 2 and 0 may be mere names."""
    values = [parse_number(value) or 0.0 for value in axis.values]
    in_order = axis.base is None or values == sorted(values)
    return axis.name != HOST_AXIS and is_numeric(axis) and len(values) >= MIN_SCALE_VALUES and in_order


def cell_words(session: Session, variant: str, *, without: Collection[str] = ()) -> str:
    """Returns the variant's values on the axes, `point-select, threads 8, poll=on`, or its name if they do not tell it
    from all others: cold and warm starts differ on no axis."""
    if not without and not session.axes_tell_all_apart:
        return variant
    axes = [axis for axis in session.differing_axes if axis.name not in without]
    cell = session.values_of(variant)
    values = [value_words(axis, cell[axis.name]) for axis in axes if axis.name in cell]
    return ", ".join(values) or ("" if without else variant)


def cell_words_in_group(session: Session, group: Group, variant: str, *, without: Collection[str] = ()) -> str:
    """Like `cell_words`, but leaves out what all variants of the group have in common."""
    cell = session.values_of(variant)
    axes = [axis for axis in group.axes if axis.name in cell and axis.name not in without]
    return ", ".join(value_words(axis, cell[axis.name]) for axis in axes)


def value_words(axis: Axis, value: str) -> str:
    if is_self_explanatory(axis):
        return value
    return f"{axis.name} {value}" if axis.name.isalpha() and not is_switch(axis) else f"{axis.name}={value}"


# --- Comparisons: ratios of versions, and of variants along an axis


@dataclass(frozen=True)
class VariantRatio(Contrast):
    """The metric of one variant divided by that of another variant, which differs on one axis only."""

    axis: str
    """Name of the axis, as in the session's `axes`."""
    version: str
    """Version of both, as in the session's `versions`."""
    variant: str
    """As in the session's `variants`."""
    base_variant: str
    """The variant that has the axis' base value."""


@dataclass(frozen=True)
class VersionRatio(Contrast):
    """The metric of one version divided by that of another version in the same variant."""

    version: str
    """Version of the server, as in the session's `versions`."""
    base_version: str
    """The version that it is compared with, which comes earlier in the order of the report."""
    variant: str
    """Variant of both, as in the session's `variants`."""


MIN_VERSIONS_FOR_PAIRS = 3
"""Number of versions from which on the last is also compared with the first."""


def compared_with_baseline(session: Session) -> tuple[Summary, ...]:
    """Returns the summaries of all versions but the baseline, where both have values."""
    base = baseline_of(session)
    return tuple(summary for summary in summarise(session) if summary.version != base and summary.is_known)


def variant_ratios(session: Session, axis: Axis) -> tuple[VariantRatio, ...]:
    """Returns the ratio of each variant to the one with the axis' base value and the same values on all other axes.
    There is none without a base value, nor if the server ran both with the same effective options. Those of the axis
    are significant together, in all versions: they are in one table, and an answer takes them from there."""
    cells = [
        (axis.name, version, variant, base)
        for version in session.versions
        for variant, base in _variant_pairs(session, axis, session.base_of(axis, version))
        if not are_equivalent(session, version, (variant, base)) and not session.is_second_start(variant)
    ]
    pairs = [(key_of((version, base)), key_of((version, variant))) for _, version, variant, base in cells]
    found = zip(cells, contrasts(main_samples(session), pairs), strict=True)
    return tuple(VariantRatio(*cell, **contrast_fields(contrast)) for cell, contrast in found if contrast.is_known)


def all_variant_ratios(session: Session) -> tuple[VariantRatio, ...]:
    """Returns the ratios along all axes that have a base value."""
    return tuple(ratio for axis in session.axes for ratio in variant_ratios(session, axis))


def version_pairs(versions: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Returns pairs of a later and an earlier version: neighbours, and the last with the first. For three versions
    these are all pairs."""
    ends = [(versions[-1], versions[0])] if len(versions) >= MIN_VERSIONS_FOR_PAIRS else []
    return (*((later, earlier) for earlier, later in pairwise(versions)), *ends)


def version_ratios(session: Session) -> tuple[VersionRatio, ...]:
    """Returns the ratios of all version pairs in each variant that both have values in, except second starts."""
    compared = _version_contrasts(session, main_samples(session))
    found = (
        (version, base, variant, compared.get(_version_pair(variant, version, base), Contrast()))
        for variant in session.variant_names
        for version, base in version_pairs(session.versions)
    )
    return tuple(VersionRatio(*cell, **contrast_fields(contrast)) for *cell, contrast in found if contrast.is_known)


def _version_contrasts(session: Session, samples: Mapping[CellKey, Sample]) -> dict[tuple[CellKey, CellKey], Contrast]:
    """Returns the comparisons of versions in each variant, except of second starts: with the baseline, and in pairs.
    All of them are significant together, in the tables and in the answer."""
    base = baseline_of(session)
    versions = (*((version, base) for version in session.versions), *version_pairs(session.versions))
    pairs = [
        _version_pair(variant, *of_both)
        for variant in session.variant_names
        if not session.is_second_start(variant)
        for of_both in versions
    ]
    return dict(zip(pairs, contrasts(samples, pairs), strict=True))


def count_version_comparisons(session: Session) -> int:
    """Returns how many comparisons of versions are significant together."""
    found = _version_contrasts(session, main_samples(session))
    return len({frozenset(pair) for pair, contrast in found.items() if contrast.significant is not None})


def _version_pair(variant: str, version: str, base: str) -> tuple[CellKey, CellKey]:
    return key_of((base, variant)), key_of((version, variant))


def compare_cells(session: Session, base: Cell, other: Cell, *, chosen_from: int) -> Contrast:
    """Compares two cells that were chosen out of this many pairs. Two versions in one variant that a table compares,
    too, are significant if they are so there."""
    samples, pair = main_samples(session), (key_of(base), key_of(other))
    (found,) = contrasts(samples, [pair], chosen_from=chosen_from)
    of_table = {frozenset(both): contrast for both, contrast in _version_contrasts(session, samples).items()}
    return replace(found, significant=of_table.get(frozenset(pair), found).significant)


def _variant_pairs(session: Session, axis: Axis, base_value: str | None) -> list[tuple[str, str]]:
    if base_value is None:
        return []
    known = {_cell_key(session.values_of(variant)): variant for variant in session.variant_names}
    pairs = []
    for variant in session.variant_names:
        cell = session.values_of(variant)
        base = known.get(_cell_key({**cell, axis.name: base_value}))
        if axis.name in cell and base is not None and base != variant:
            pairs.append((variant, base))
    return pairs


def _cell_key(cell: dict[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(cell.items())
