"""Means and ratios over several sessions, in which each session is one value, on logarithms."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from intervals.cells import SessionCell, by_setting
from intervals.components import paired
from recovery.analysis.statistics import MIN_RUNS, over_sessions
from recovery.model import Cache

MANY = 20_000
"""A session of fewer tables says little about many."""


@dataclass(frozen=True)
class OverSessions:
    what: str
    sessions: tuple[str, ...]
    value: float
    """The geometric mean of seconds or ratios."""
    low: float
    high: float
    least: float
    """The smallest value of a session."""
    most: float
    values: tuple[float, ...]
    """Those of the sessions, from the smallest on."""


def means_over_sessions(cells: Sequence[SessionCell]) -> Iterator[OverSessions]:
    """Yields the mean of each setting that at least three sessions measured."""
    for setting, group in by_setting(cells).items():
        if len(group) >= MIN_RUNS:
            yield _over(str(setting), group, [cell.mean for cell in group])


def ratios_over_sessions(cells: Sequence[SessionCell]) -> Iterator[OverSessions]:
    """Yields the ratio of two servers, cold, over the sessions that measured both: at least three of a size."""
    many = [cell for cell in cells if cell.setting.cache == Cache.COLD and cell.setting.tables >= MANY]
    for servers in combinations(sorted({cell.setting.server for cell in many}), 2):
        for pairs in _by_size(paired(many, servers)):
            if len(pairs) < MIN_RUNS:
                continue
            tables = sorted({one.setting.tables for one, _ in pairs})
            sizes = " to ".join(f"{one:,}" for one in dict.fromkeys((tables[0], tables[-1])))
            what = f"{servers[1]} over {servers[0]}, cold, {sizes} tables"
            yield _over(what, [one for one, _ in pairs], [other.mean / one.mean for one, other in pairs])


Pairs = list[tuple[SessionCell, SessionCell]]


def _by_size(pairs: Pairs) -> tuple[Pairs, ...]:
    """Returns the pairs with the largest number of tables and those with fewer, if both are enough for an interval: the
    ratio can change with the size. Otherwise it returns all."""
    largest = max((one.setting.tables for one, _ in pairs), default=0)
    fewer = [pair for pair in pairs if pair[0].setting.tables < largest]
    of_largest = [pair for pair in pairs if pair[0].setting.tables == largest]
    return (fewer, of_largest) if min(len(fewer), len(of_largest)) >= MIN_RUNS else (pairs,)


def first_runs(cells: Sequence[SessionCell]) -> Iterator[OverSessions]:
    """Yields how much longer the first start of a session took than the mean of its others: of the first sessions over
    their directories, and of later ones."""
    for what, is_first in (("after a build", True), ("later", False)):
        found = [cell for cell in cells if cell.directory is not None and cell.is_first == is_first]
        yield _over(what, found, [_first_over_others(cell) for cell in found])


def _first_over_others(cell: SessionCell) -> float:
    if cell.first_s is not None:
        return cell.first_s / cell.mean
    return cell.values[0] / statistics.fmean(cell.values[1:])


def _over(what: str, cells: Sequence[SessionCell], values: Sequence[float]) -> OverSessions:
    found = over_sessions(values)
    assert found is not None
    assert found.interval is not None
    names = tuple(cell.session for cell in cells)
    return OverSessions(what, names, found.mean, *found.interval, min(values), max(values), tuple(sorted(values)))
