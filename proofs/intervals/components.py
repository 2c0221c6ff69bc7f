"""How much of the variance of log seconds lies between hosts, between sessions and between runs, and what explains it.

Differences are standard deviations of natural logarithms: 0.10 is about 10 %."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from intervals.cells import SessionCell, by_setting
from recovery.analysis.statistics import t975

# --- One component


@dataclass(frozen=True)
class Component:
    """A standard deviation of log seconds, with its 95 % interval."""

    name: str
    sd: float
    low: float
    high: float
    degrees: int
    """Degrees of freedom of the estimate."""
    sessions: int
    servers: int


def within_sessions(cells: Sequence[SessionCell]) -> Component:
    """Returns the deviation of the runs of a session."""
    squares = sum((len(cell.logs) - 1) * statistics.variance(cell.logs) for cell in cells)
    degrees = sum(len(cell.logs) - 1 for cell in cells)
    return _component("runs of a session", squares / degrees, 0.0, degrees, cells)


def between_sessions(name: str, cells: Sequence[SessionCell], same: Callable[[SessionCell], Hashable]) -> Component:
    """Returns the deviation of the true means of sessions with the same value of `same`, without the part that their
    runs' own deviation gives to each mean."""
    groups = _groups(cells, same)
    degrees = sum(len(group) - 1 for group in groups)
    compared = [cell for group in groups for cell in group]
    if not degrees:
        raise ValueError(f"no two sessions to compare: {name}")
    squares = sum((len(group) - 1) * statistics.variance([cell.log_mean for cell in group]) for group in groups)
    run_variance = within_sessions(compared).sd ** 2
    noise = run_variance * statistics.fmean(1 / len(cell.values) for cell in compared)
    return _component(name, squares / degrees, noise, degrees, compared)


def _component(name: str, mean_square: float, noise: float, degrees: int, cells: Sequence[SessionCell]) -> Component:
    """The ends come from those of the mean square, so they are approximate where noise is taken off."""
    ends = (degrees / stats.chi2.ppf(share, degrees) for share in (0.975, 0.025))
    low, high = (math.sqrt(max(0.0, float(end) * mean_square - noise)) for end in ends)
    sd = math.sqrt(max(0.0, mean_square - noise))
    sessions, servers = len({cell.session for cell in cells}), len({cell.setting.server for cell in cells})
    return Component(name, sd, low, high, degrees, sessions, servers)


def _groups(cells: Iterable[SessionCell], same: Callable[[SessionCell], Hashable]) -> list[list[SessionCell]]:
    found: dict[Hashable, list[SessionCell]] = {}
    for cell in cells:
        found.setdefault(same(cell), []).append(cell)
    return [group for group in found.values() if len(group) > 1]


def drift(cells: Sequence[SessionCell]) -> Component:
    """Returns the deviation of the change of log seconds from the first to the last run of a cell, by a straight line,
    without the part that the runs' deviation from their lines gives to it."""
    changes, spreads, rest = [], [], 0.0
    for cell in cells:
        line = statistics.linear_regression(cell.at, cell.logs)
        length = cell.at[-1] - cell.at[0]
        middle = statistics.fmean(cell.at)
        changes.append(line.slope * length)
        spreads.append(length**2 / sum((at - middle) ** 2 for at in cell.at))
        rest += sum((log - line.intercept - line.slope * at) ** 2 for at, log in zip(cell.at, cell.logs, strict=True))
    noise = rest / sum(len(cell.values) - 2 for cell in cells) * statistics.fmean(spreads)
    return _component("change", statistics.fmean(change**2 for change in changes), noise, len(changes), cells)


def ratio_between_sessions(cells: Sequence[SessionCell], servers: tuple[str, str]) -> Component:
    """Returns the deviation of the log ratio of two servers between the sessions that measured both. What the runs' own
    deviation gives to it is not taken off: with so few sessions nothing would be left of some."""
    pairs = paired(cells, servers)
    if len(pairs) < 2:
        raise ValueError(f"no two sessions measured both {' and '.join(servers)}")
    ratios = [other.log_mean - one.log_mean for one, other in pairs]
    both = [cell for pair in pairs for cell in pair]
    return _component(f"{servers[1]} over {servers[0]}", statistics.variance(ratios), 0.0, len(pairs) - 1, both)


def paired(cells: Sequence[SessionCell], servers: tuple[str, str]) -> list[tuple[SessionCell, SessionCell]]:
    """Returns the cells of two servers in each session that measured both, with otherwise the same setting; if it did
    so with several numbers of tables, those with the largest."""
    one, other = (
        {(cell.session, cell.setting._replace(server="")): cell for cell in cells if cell.setting.server == server}
        for server in servers
    )
    largest: dict[str, tuple[SessionCell, SessionCell]] = {}
    for place in sorted(one.keys() & other.keys(), key=lambda place: (place[1].tables, place[0])):
        largest[place[0]] = (one[place], other[place])
    return list(largest.values())


# --- What explains the differences between sessions


@dataclass(frozen=True)
class Explained:
    """How well something that sessions recorded explains the differences between sessions of the same setting."""

    name: str
    sessions: int
    settings: int
    degrees: int
    """Degrees of freedom that are left."""
    levels: int
    """Values that it has; hosts and engines have few, so that another property of these hosts explains as much."""
    share: float
    """Share of the variance between sessions of a setting that it explains, adjusted for its number of parameters."""
    left_out_share: float | None
    """The same, when each session is predicted from the others; below 0 if their mean alone predicts better."""
    slope: float | None
    """Change of log seconds with the logarithm of it, or for a share with the share; None for hosts and engines."""
    slope_low: float | None = None
    slope_high: float | None = None


_Numbers = NDArray[np.float64]
Factor = Callable[[SessionCell], str | float | None]


def explained(name: str, cells: Sequence[SessionCell], factor: Factor) -> Explained | None:
    """Returns how much a factor explains, among settings that several sessions measured. Texts are levels, numbers are
    covariates. Returns None if too few sessions recorded it, or it does not differ."""
    known = [cell for cell in cells if factor(cell) is not None]
    known = [cell for group in by_setting(known).values() for cell in group]
    values = [factor(cell) for cell in known]
    levels = len(set(values))
    settings = len({cell.setting for cell in known})
    is_text = any(isinstance(value, str) for value in values)
    if levels < 2:
        return None
    base, model = _rest(known, None), _rest(known, factor)
    degrees_base, degrees = len(known) - settings, len(known) - _rank(known, factor)
    if degrees < 1 or not base:
        return None
    slope: tuple[float | None, float | None, float | None] = (None, None, None)
    if not is_text:
        slope = _slope(known, factor, model, degrees)
    return Explained(
        name,
        len({cell.session for cell in known}),
        settings,
        degrees,
        levels,
        1 - (model / degrees) / (base / degrees_base),
        _left_out_share(known, factor),
        *slope,
    )


def _design(cells: Sequence[SessionCell], factor: Factor | None, like: Sequence[SessionCell]) -> _Numbers:
    """Returns a row for each cell: its setting, and the factor as levels of `like` or as a number."""
    settings = sorted({cell.setting for cell in like})
    columns = [[float(cell.setting == setting) for setting in settings] for cell in cells]
    if factor is None:
        return np.array(columns)
    known = [factor(cell) for cell in like]
    levels: Collection[str] = sorted({value for value in known if isinstance(value, str)})
    for row, cell in zip(columns, cells, strict=True):
        value = factor(cell)
        if isinstance(value, str):
            row.extend(float(value == level) for level in levels)
        else:
            row.append(float(value or 0.0))
    return np.array(columns)


def _means(cells: Sequence[SessionCell]) -> _Numbers:
    return np.array([cell.log_mean for cell in cells])


def _rest(cells: Sequence[SessionCell], factor: Factor | None) -> float:
    """Returns the sum of squares that is left."""
    design = _design(cells, factor, cells)
    solution = np.linalg.lstsq(design, _means(cells), rcond=None)[0]
    return float(((_means(cells) - design @ solution) ** 2).sum())


def _rank(cells: Sequence[SessionCell], factor: Factor) -> int:
    return int(np.linalg.matrix_rank(_design(cells, factor, cells)))


def _slope(
    cells: Sequence[SessionCell], factor: Factor, rest: float, degrees: int
) -> tuple[float, float | None, float | None]:
    design = _design(cells, factor, cells)
    slope = float(np.linalg.lstsq(design, _means(cells), rcond=None)[0][-1])
    others = design[:, :-1]
    unexplained = design[:, -1] - others @ np.linalg.lstsq(others, design[:, -1], rcond=None)[0]
    spread = float((unexplained**2).sum())
    if spread <= 0:
        return slope, None, None
    half = t975(degrees) * math.sqrt(rest / degrees / spread)
    return slope, slope - half, slope + half


def _left_out_share(cells: Sequence[SessionCell], factor: Factor) -> float | None:
    """Leaves out one session after the other. A cell counts if the others have its setting and its level."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    for session in dict.fromkeys(cell.session for cell in cells):
        others = [cell for cell in cells if cell.session != session]
        predictable = [cell for cell in cells if cell.session == session and _is_predictable(cell, others, factor)]
        if not predictable:
            continue
        for with_factor, squares in errors.items():
            used = factor if with_factor else None
            solution = np.linalg.lstsq(_design(others, used, others), _means(others), rcond=None)[0]
            left = _means(predictable) - _design(predictable, used, others) @ solution
            squares.extend(float(error) ** 2 for error in left)
    return 1 - sum(errors[True]) / sum(errors[False]) if sum(errors[False]) else None


def _is_predictable(cell: SessionCell, others: Sequence[SessionCell], factor: Factor) -> bool:
    value = factor(cell)
    return any(other.setting == cell.setting for other in others) and (
        not isinstance(value, str) or any(factor(other) == value for other in others)
    )


def _log(value: float | None) -> float | None:
    return None if not value else math.log(value)


FACTORS: Mapping[str, Factor] = {
    "host": lambda cell: cell.host,
    "engine": lambda cell: cell.engine,
    "traced": lambda cell: str(cell.traced),
    "first session over its directory": lambda cell: None if cell.directory is None else str(cell.is_first),
    "reads a second, 16 threads": lambda cell: _log(cell.reads_16_per_s),
    "reads a second, 1 thread": lambda cell: _log(cell.reads_1_per_s),
    "milliseconds of a first read": lambda cell: _log(cell.first_read_ms),
    "CPUs used by others": lambda cell: cell.others_cpus,
    "steal": lambda cell: cell.steal,
}
"""What sessions recorded that may explain why their means differ."""
