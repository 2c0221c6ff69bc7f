"""Compares cells with each other: the one place that decides what a difference is, and whether it is significant.

Versions, axes, published claims, two sides of sessions and the hosts of a fleet are all pairs of cells. The interval of
a ratio is computed on its logarithm: from the pairs of values of the same block where both cells alternated, otherwise
with Welch's degrees of freedom. Holm's correction takes all pairs of a table together.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, NamedTuple

from recovery.analysis.statistics import (
    MIN_RUNS,
    beyond_rounding,
    descriptive_statistics,
    over_sessions,
    standard_error,
    t975,
    t_two_sided_p,
)

# --- Cells and pairs of them


class CellKey(NamedTuple):
    """What tells a cell from all others that it may be compared with."""

    side: str
    """Side of a comparison of sessions, or name of a host; empty within one session."""
    version: str
    variant: str


@dataclass(frozen=True)
class Sample:
    """The values of a cell. Runs of one session share its conditions, so they are kept apart by session."""

    sessions: tuple[tuple[float, ...], ...]
    """The values of each session; empty for a session that measured none."""
    factor: float = 1.0
    """Factor of the intervals of a single session: above 1 if it stopped at a precision."""
    blocks: tuple[tuple[Hashable, ...], ...] = ()
    """The block of each value, in the same form. Only values of cells that alternated have blocks in common, and two
    sessions have none. Empty if they are not known."""
    spread: tuple[float, ...] | None = None
    """Means of further sessions of the same design, which show how much sessions differ, and do not count in the mean.
    None: the runs of one session are compared. Otherwise sessions are, however few there are."""

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(chain.from_iterable(self.sessions))

    @property
    def means(self) -> tuple[float, ...]:
        """The mean of each session that has values."""
        return tuple(statistics.fmean(values) for values in self.sessions if values)

    @property
    def mean(self) -> float | None:
        """The mean of all values, or with several sessions that over them; None without any value."""
        if len(self.sessions) == 1:
            return statistics.fmean(self.values) if self.values else None
        over = over_sessions(self.means)
        return None if over is None else over.mean

    def statistics(self) -> dict[str, Any]:
        """Returns what `descriptive_statistics` returns. With several sessions, each is one value: mean and interval
        are those over sessions, the deviation is that of their means."""
        if len(self.sessions) == 1:
            return descriptive_statistics(self.values, factor=self.factor)
        # A precision is one within a session.
        stdev = descriptive_statistics(self.means)["stdev"]
        found = descriptive_statistics(self.values) | {"mean": self.mean, "stdev": stdev, "interval": None}
        if (over := over_sessions(self.means)) is not None and over.interval is not None:
            low, high = over.interval
            found |= {"interval": (high - low) / 2, "low": low, "high": high}
        return found


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A mean compared with that of another cell. The values of a ratio are None if a mean is zero."""

    ratio: float | None = None
    """The mean divided by the mean that it is compared with. Of cells that alternated, it is the geometric mean of the
    ratios within the blocks; of several sessions, the ratio of the geometric means of the sessions' means."""
    ratio_low: float | None = None
    """The lower end of its 95 % interval; None for the baseline itself, and with fewer than three runs of either."""
    ratio_high: float | None = None
    """The upper end of its 95 % interval."""
    ratio_error: float | None = None
    """Half the width of that interval."""
    difference: float | None = None
    """The mean minus the mean that it is compared with, if one of the two is zero and there is no ratio."""
    difference_error: float | None = None
    """Half the width of its 95 % interval; None with fewer than three runs of either."""
    differs: bool | None = None
    """Whether no effect (a ratio of 1, a difference of 0) is outside the interval. None without an interval. Reports
    show `significant`."""
    p_value: float | None = None
    """Probability of an effect at least as large if there is none; None without an interval."""
    significant: bool | None = None
    """Significant even when all comparisons of its table are taken together: Holm's correction, 5 % in total. None
    without an interval."""

    @property
    def is_known(self) -> bool:
        """Whether both cells have values."""
        return self.ratio is not None or self.difference is not None


def contrast_fields(contrast: Contrast) -> dict[str, Any]:
    """Returns the values of a contrast, to be those of something that has more."""
    return {field.name: getattr(contrast, field.name) for field in fields(Contrast)}


def contrasts(
    cells: Mapping[CellKey, Sample],
    pairs: Iterable[tuple[CellKey, CellKey]],
    *,
    chosen_from: int = 0,
    by_difference: bool = False,
) -> tuple[Contrast, ...]:
    """Returns a contrast for each pair (base, other): the other compared with the base. It is empty if either has no
    values, and only a ratio of 1 if both are the same cell. All pairs are significant together, and two cells that are
    compared in both directions count once.

    `chosen_from` is the number of pairs of the table if these were chosen by their values, such as the fastest and the
    slowest: then they must be significant for that many comparisons. With `by_difference` each has the difference of
    the means, even where there is a ratio: a mean near zero makes a ratio mere noise."""
    listed = tuple(pairs)
    found = [_contrast(cells, base, other, by_difference=by_difference) for base, other in listed]
    p_values = {frozenset(pair): contrast.p_value for pair, contrast in zip(listed, found, strict=True)}
    flags = holm_significant(tuple(p_values.values()), chosen_from=chosen_from)
    significant = dict(zip(p_values, flags, strict=True))
    return tuple(
        replace(contrast, significant=significant[frozenset(pair)])
        for pair, contrast in zip(listed, found, strict=True)
    )


def _contrast(
    cells: Mapping[CellKey, Sample], base: CellKey, other: CellKey, *, by_difference: bool = False
) -> Contrast:
    sides = cells.get(other, Sample(())), cells.get(base, Sample(()))
    if any(side.spread is not None for side in sides):
        effect = compare_sessions(*sides)
    else:
        effect = _compare(*sides, by_difference=by_difference)
    if effect is None:
        return Contrast()
    if base == other:
        return Contrast(ratio=1.0) if effect.is_ratio else Contrast()
    if effect.is_ratio:
        contrast = Contrast(ratio=effect.value, ratio_low=effect.low, ratio_high=effect.high, ratio_error=effect.error)
    else:
        contrast = Contrast(difference=effect.value, difference_error=effect.error)
    return replace(contrast, differs=effect.differs, p_value=effect.p_value)


def _compare(sample: Sample, to: Sample, *, by_difference: bool) -> Effect | None:
    """Compares two cells, by blocks if they have enough of them in common. Returns None if either has no values."""
    by_session = _are_several(sample, to)
    values, base_values = (side.means if by_session else side.values for side in (sample, to))
    if not values or not base_values:
        return None
    factor = 1.0 if by_session else max(sample.factor, to.factor)
    pairs = pairs_of_blocks(sample, to)
    if by_difference or not _have_ratio(values, base_values):
        if len(pairs) < MIN_RUNS:
            return compare_differences(values, base_values, factor=factor)
        return _mean_change([value - base for value, base in pairs], factor, is_ratio=False)
    if min(*values, *base_values) <= 0:
        return compare_means(values, base_values, factor=factor)
    if len(pairs) >= MIN_RUNS:
        return _mean_change([math.log(value / base) for value, base in pairs], factor)
    return (compare_logs if by_session else compare_means)(values, base_values, factor=factor)


def _are_several(*samples: Sample) -> bool:
    """Returns whether the values of any cell come from several sessions, so that sessions are compared."""
    return any(len(sample.sessions) > 1 for sample in samples)


def pairs_of_blocks(sample: Sample, to: Sample) -> tuple[tuple[float, float], ...]:
    """Returns the values of both cells for each block that both have. If there are several sessions, a session is one
    block: the pairs are the means of each session in which the cells alternated."""
    by_session = _are_several(sample, to)
    found, base = (_by_block(side, by_session=by_session) for side in (sample, to))
    pairs = {
        (place, base[block][0]): (value, base[block][1]) for block, (place, value) in found.items() if block in base
    }
    return tuple(pairs.values())


def _by_block(sample: Sample, *, by_session: bool) -> dict[Hashable, tuple[Hashable, float]]:
    """Returns, by block, what is paired: the block itself with its value, or the session with its mean."""
    return {
        block: (place, statistics.fmean(values)) if by_session else (block, value)
        for place, (values, blocks) in enumerate(zip(sample.sessions, sample.blocks, strict=bool(sample.blocks)))
        for value, block in zip(values, blocks, strict=True)
    }


# --- Two groups of values


@dataclass(frozen=True)
class Effect:
    """The mean of one side compared with that of another: their ratio, or their difference if a mean is zero."""

    value: float
    low: float | None = None
    """The lower end of its 95 % interval; None if either side has too few runs."""
    high: float | None = None
    """The upper end."""
    p_value: float | None = None
    """Probability of an effect at least as large if there is none; None without an interval."""
    is_ratio: bool = True

    @property
    def differs(self) -> bool | None:
        """Whether it is significant: the value of no effect is outside the interval. None without an interval."""
        if self.low is None or self.high is None:
            return None
        return not self.low <= self.none <= self.high

    @property
    def none(self) -> float:
        """The value that means no effect."""
        return 1.0 if self.is_ratio else 0.0

    @property
    def error(self) -> float | None:
        """Half the width of the interval, or None without one."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def compare_means(values: Sequence[float], to: Sequence[float], *, factor: float = 1.0) -> Effect | None:
    """Compares the means of two sides. Returns None if one side has no value. The interval is multiplied by `factor`.

    The interval of a ratio is computed on its logarithm: the relative standard errors of both means are added as
    squares (delta method), with the degrees of freedom of Welch and Satterthwaite. It is therefore asymmetric and never
    below 0, and exchanging the sides does not change whether the effect is significant."""
    if not values or not to:
        return None
    if not _have_ratio(values, to):
        return compare_differences(values, to, factor=factor)
    means = (statistics.fmean(values), statistics.fmean(to))
    shift = math.log(means[0] / means[1])
    return _effect(shift, *_welch(shift, (values, to), means, factor))


def compare_logs(values: Sequence[float], to: Sequence[float], *, factor: float = 1.0) -> Effect:
    """Compares the means of the logarithms of two sides, which must be positive. Where values differ by much, as those
    of several sessions do, their logarithms are more symmetric than they are themselves."""
    logs = ([math.log(value) for value in values], [math.log(value) for value in to])
    shift = statistics.fmean(logs[0]) - statistics.fmean(logs[1])
    return _effect(shift, *_welch(shift, logs, (1.0, 1.0), factor))


def compare_differences(values: Sequence[float], to: Sequence[float], *, factor: float = 1.0) -> Effect | None:
    """Like `compare_means`, but always by the difference of the means."""
    if not values or not to:
        return None
    shift = statistics.fmean(values) - statistics.fmean(to)
    return _effect(shift, *_welch(shift, (values, to), (1.0, 1.0), factor), is_ratio=False)


def _have_ratio(values: Sequence[float], to: Sequence[float]) -> bool:
    """Returns whether there is a ratio of the means: none of them is zero, and no value is negative."""
    return min(statistics.fmean(values), statistics.fmean(to)) > 0 and min(*values, *to) >= 0


def _mean_change(changes: Sequence[float], factor: float, *, is_ratio: bool = True) -> Effect:
    """Returns the mean of the changes in each block, with its interval by Student's t. Changes of a ratio are
    logarithms."""
    shift, error = statistics.fmean(changes), factor * standard_error(changes)
    return _effect(shift, *_interval(shift, error, len(changes) - 1), is_ratio=is_ratio)


def _effect(shift: float, half: float | None, p_value: float | None, *, is_ratio: bool = True) -> Effect:
    """Returns the effect for a shift and half the width of its interval. Those of a ratio are logarithms."""
    scale = _exp if is_ratio else float
    if half is None:
        return Effect(scale(shift), is_ratio=is_ratio)
    return Effect(scale(shift), scale(shift - half), scale(shift + half), p_value, is_ratio)


_MAX_LOG = 50.0
"""Largest logarithm of a ratio: values that vary by many powers of ten have intervals beyond all stored numbers."""


def _exp(log: float) -> float:
    return math.exp(max(-_MAX_LOG, min(_MAX_LOG, log)))


def compare_sessions(sample: Sample, to: Sample) -> Effect | None:
    """Compares two sides of sessions by the logarithms of the sessions' means. Returns None if one side has none.

    With three sessions on each side the interval is Welch's. With fewer, the spread between sessions is pooled over all
    that are known, those of `spread` included, each side around its own mean; then the side that is compared with needs
    three of them. Otherwise there is no interval. Without positive means it is the difference of the means, and only
    Welch's interval."""
    values, base = sample.means, to.means
    if not values or not base:
        return None
    if min(*values, *base) <= 0:
        return compare_differences(values, base)
    if min(len(values), len(base)) >= MIN_RUNS:
        return compare_logs(values, base)
    logs, base_logs = _logs(values), _logs(base)
    shift = statistics.fmean(logs) - statistics.fmean(base_logs)
    known = ([*logs, *_logs(sample.spread or ())], [*base_logs, *_logs(to.spread or ())])
    return _effect(shift, *_pooled(shift, (len(values), len(base)), known))


def _logs(means: Iterable[float]) -> list[float]:
    return [math.log(mean) for mean in means if mean > 0]


def _pooled(
    shift: float, counts: tuple[int, int], known: tuple[Sequence[float], Sequence[float]]
) -> tuple[float | None, float | None]:
    """Returns the same as `_welch` for a shift between the means of so many sessions of each side, by the spread of all
    known ones, the second of which are those that are compared with."""
    if len(known[1]) < MIN_RUNS:
        return None, None
    degrees = sum(map(len, known)) - len(known)
    square = sum((value - statistics.fmean(side)) ** 2 for side in known for value in side) / degrees
    return _interval(shift, math.sqrt(square * sum(1 / count for count in counts)), degrees)


def _welch(
    shift: float, sides: tuple[Sequence[float], Sequence[float]], scales: tuple[float, float], factor: float
) -> tuple[float | None, float | None]:
    """Returns half the width of the 95 % interval of a shift between two sides, and the probability of a shift at least
    as large if there is none; None for both if either side has too few runs. Each side's standard error is divided by
    its scale."""
    if min(map(len, sides)) < MIN_RUNS:
        return None, None
    parts = [((standard_error(side) / scale) ** 2, len(side) - 1) for side, scale in zip(sides, scales, strict=True)]
    square = sum(part for part, _ in parts)
    degrees = square**2 / sum(part**2 / degrees for part, degrees in parts) if square else 1.0
    return _interval(shift, factor * math.sqrt(square), degrees)


def _interval(shift: float, error: float, degrees: float) -> tuple[float, float]:
    """Returns half the width of the 95 % interval of a shift with this standard error, and its p-value."""
    if not error:
        return 0.0, 0.0 if shift else 1.0
    return t975(degrees) * error, beyond_rounding(t_two_sided_p(shift / error, degrees))


# --- Holm's correction: which of several comparisons are significant when they are taken together

SIGNIFICANCE_LEVEL = 0.05
"""Share of comparisons without an effect that are significant by chance: 95 % intervals miss this share."""


def holm_adjusted(p_values: Sequence[float], *, chosen_from: int = 0) -> tuple[float, ...]:
    """Returns the adjusted p-values in the given order, by the method of Holm (1979): the smallest is multiplied by the
    number of all p-values, the next by the number that remain, and none is less than the one before it. `chosen_from`
    is the number of all, if these were chosen out of more."""
    count = max(chosen_from, len(p_values))
    corrected = [0.0] * len(p_values)
    before = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        before = max(before, min(1.0, (count - rank) * p_values[place]))
        corrected[place] = before
    return tuple(corrected)


def holm_significant(p_values: Sequence[float | None], *, chosen_from: int = 0) -> tuple[bool | None, ...]:
    """Returns which p-values are significant when all are taken together. None stays None and is not counted."""
    known = iter(holm_adjusted([p for p in p_values if p is not None], chosen_from=chosen_from))
    return tuple(None if p is None else next(known) <= SIGNIFICANCE_LEVEL for p in p_values)
