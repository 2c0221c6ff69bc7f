"""Leaves out one session after the other: do the intervals of the others contain its mean?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from intervals.cells import SessionCell, by_setting
from recovery.analysis.contrasts import CellKey, Sample, contrasts
from recovery.analysis.statistics import MIN_RUNS, over_sessions, t975


@dataclass(frozen=True)
class LeftOut:
    what: str
    contained: int
    of: int


def left_out(cells: Sequence[SessionCell]) -> tuple[LeftOut, ...]:
    """Returns how often intervals contain the mean of a session that they were not made of, or what others say of it.
    An interval over the others needs three of them, and one of runs three runs."""
    groups = tuple(by_setting(cells).values())
    with_intervals = [[cell for cell in group if len(cell.values) >= MIN_RUNS] for group in groups]
    of_four = [group for group in groups if len(group) > MIN_RUNS]
    return (
        _counted("its own interval contains the mean of the others", of_four, _own_contains, needs=MIN_RUNS),
        _pairs("the interval of one other session contains its mean", with_intervals, _other_contains),
        _pairs("it does not differ significantly from one other session", with_intervals, _do_not_differ, twice=False),
        _counted("the others say where the next session is: it is there", of_four, _predicts),
        _by_fives("the interval over five sessions in a row contains the mean of the others", groups),
    )


Session = SessionCell
Others = Sequence[SessionCell]


def _counted(
    what: str, groups: Sequence[Others], contains: Callable[[Session, Others], bool], *, needs: int = 1
) -> LeftOut:
    """Counts the sessions with as many runs as are needed."""
    found = [
        contains(cell, [other for other in group if other is not cell])
        for group in groups
        for cell in group
        if len(cell.values) >= needs
    ]
    return LeftOut(what, sum(found), len(found))


def _pairs(
    what: str, groups: Sequence[Others], agree: Callable[[Session, Session], bool], *, twice: bool = True
) -> LeftOut:
    ordered = permutations if twice else combinations
    found = [agree(one, other) for group in groups for one, other in ordered(group, 2)]
    return LeftOut(what, sum(found), len(found))


def _by_fives(what: str, groups: Sequence[Others]) -> LeftOut:
    """Compares five sessions in a row with all others of their setting, where these are five or more, too."""
    found = []
    for group in groups:
        for start in range(len(group) - _FIVE + 1 if len(group) >= 2 * _FIVE else 0):
            five, others = group[start : start + _FIVE], [*group[:start], *group[start + _FIVE :]]
            over = over_sessions([cell.mean for cell in five])
            assert over is not None
            assert over.interval is not None
            low, high = over.interval
            found.append(low <= statistics.geometric_mean(cell.mean for cell in others) <= high)
    return LeftOut(what, sum(found), len(found))


_FIVE = 5


def _predicts(cell: Session, others: Others) -> bool:
    """Whether the mean is where one more session is expected: the spread of the others' means, and the uncertainty of
    their mean."""
    means = [other.log_mean for other in others]
    half = t975(len(means) - 1) * statistics.stdev(means) * math.sqrt(1 + 1 / len(means))
    return abs(cell.log_mean - statistics.fmean(means)) <= half


def _own_contains(cell: Session, others: Others) -> bool:
    return _contains(cell, math.exp(statistics.fmean(other.log_mean for other in others)))


def _other_contains(cell: Session, other: Session) -> bool:
    return _contains(other, cell.mean)


def _contains(cell: Session, seconds: float) -> bool:
    found = Sample((cell.values,)).statistics()
    return bool(abs(seconds - found["mean"]) <= found["interval"])


def _do_not_differ(one: Session, other: Session) -> bool:
    keys = CellKey("first", "", ""), CellKey("second", "", "")
    (found,) = contrasts(dict(zip(keys, (Sample((one.values,)), Sample((other.values,))), strict=True)), [keys])
    return found.differs is False
