"""Which components and explanations are computed, and the spread of the simulated sessions that they give."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from intervals.cells import SessionCell, by_setting, of_hosts
from intervals.components import (
    FACTORS,
    Component,
    Explained,
    between_sessions,
    drift,
    explained,
    ratio_between_sessions,
    within_sessions,
)
from intervals.coverage import Spread
from intervals.over_sessions import MANY
from recovery.model import Cache

ALIKE, UNLIKE = ("5.7.22", "8.0.31"), ("mariadb-10.11.5", "5.7.22")
"""Two servers that both read every file, and two of which one hardly reads any."""
SEVERAL_HOSTS, ONE_HOST = 200_000, 100_000
"""The numbers of tables that sessions on several hosts measured, and that many sessions on one host did."""


@dataclass(frozen=True)
class Components:
    """The components of cold starts with one number of tables."""

    runs: Component
    sessions: Component
    on_one_host: Component
    over_one_directory: Component
    change: Component


def cold(cells: Sequence[SessionCell], tables: int | None = None) -> tuple[SessionCell, ...]:
    """Returns the cold starts of the usual setting, over pages of the usual size."""
    return tuple(
        cell
        for cell in cells
        if cell.setting.cache == Cache.COLD and not cell.setting.others and tables in (None, cell.setting.tables)
    )


def components(cells: Sequence[SessionCell]) -> Components:
    return Components(
        runs=within_sessions(cells),
        sessions=between_sessions("sessions", cells, lambda cell: cell.setting),
        on_one_host=between_sessions("sessions on one host", cells, lambda cell: (cell.setting, cell.host)),
        over_one_directory=between_sessions("sessions over one directory", cells, _directory),
        change=drift(cells),
    )


def _directory(cell: SessionCell) -> Hashable:
    """Returns what tells directories apart; a session that did not store it is compared with none."""
    return cell.setting, cell.host, cell.directory or cell.session


def by_size(cells: Sequence[SessionCell]) -> Iterator[Component]:
    """Yields how much sessions differ for each state of the cache and number of tables, where several measured more
    than one server."""
    usual = [cell for group in by_setting(cells).values() for cell in group if not cell.setting.others]
    for cache, tables in sorted({cell.setting[1:3] for cell in usual}):
        found = [cell for cell in usual if cell.setting[1:3] == (cache, tables)]
        if len({cell.setting.server for cell in found}) > 1:
            yield between_sessions(f"{cache}, {tables:,} tables", found, lambda cell: cell.setting)


def ratios(cells: Sequence[SessionCell]) -> dict[str, Component]:
    """Returns how much the ratios of two servers differ between the sessions that measured both."""
    many = [cell for cell in cold(cells) if cell.setting.tables >= MANY]
    return {
        "servers alike": ratio_between_sessions(many, ALIKE),
        "servers unlike": ratio_between_sessions(many, UNLIKE),
    }


def explanations(cells: Sequence[SessionCell]) -> dict[str, tuple[Explained, ...]]:
    """Returns what explains the differences between sessions: of all hosts, and of one."""
    return {
        "hosts and sessions": tuple(_explanations(cold(cells, SEVERAL_HOSTS))),
        "sessions on one host": tuple(_explanations(of_hosts(cold(cells)))),
    }


def _explanations(cells: Sequence[SessionCell]) -> Iterator[Explained]:
    for name, factor in FACTORS.items():
        if (found := explained(name, cells, factor)) is not None:
            yield found


def spreads(found: Components, ratio: dict[str, Component]) -> dict[str, Spread]:
    """Returns what sessions of two servers are simulated with. The ratios of stored sessions differ between hosts and
    between sessions, which so few cannot tell apart: each gets the whole of it."""
    return {name: _spread(found, one.sd) for name, one in ratio.items()}


def _spread(found: Components, ratio_sd: float) -> Spread:
    own = ratio_sd / math.sqrt(2)
    return Spread(
        run=found.runs.sd,
        session=_rest(found.on_one_host.sd, own),
        own=own,
        host=_rest(found.sessions.sd, found.on_one_host.sd),
        own_on_host=own,
        change=found.change.sd,
    )


def _rest(whole: float, part: float) -> float:
    """Returns the deviation that is left of a whole without a part."""
    return math.sqrt(max(0.0, whole**2 - part**2))
