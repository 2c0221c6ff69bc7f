"""What dirty pages, redo and uncommitted rows at a kill cost the start after it (pure).

Lines are fitted to what was measured right before the kill, not to what was asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from recovery.analysis.growth import Points, fit_of
from recovery.analysis.statistics import LINE, LineFit, standard_error, t975
from recovery.analysis.summary import mean, measured_runs_by_cell, metric_values
from recovery.model import STARTUP_METRIC, Run, Session

DIRTY, REDO, TRANSACTION = "dirty", "redo", "transaction"
"""Axes of pending-work. A value of the last one is a number of rows and the state of the transaction: `50000 open`."""
NONE = "0"
"""The value of these axes if nothing of their kind is pending."""
PENDING_METRICS = {
    DIRTY: ("dirty_pages", STARTUP_METRIC),
    REDO: ("checkpoint_age_bytes", STARTUP_METRIC),
    TRANSACTION: ("uncommitted_rows", "rollback_s"),
}
"""By axis: the metric that was measured before the kill, and the one of the seconds that it costs."""
_Others = frozenset[tuple[str, str]]
"""Values on all axes but these three."""


@dataclass(frozen=True)
class PendingCurve:
    """The starts of one version by dirty pages, by redo, or by the rows of a transaction in one state. Nothing else was
    pending."""

    version: str
    axis: str
    state: str
    """Of the transaction; empty for the other axes."""
    others: _Others
    most: float
    """The largest mean of what was pending."""
    fit: LineFit | None
    """Seconds by what was pending; None with too few runs."""


@dataclass(frozen=True)
class RedoCost:
    """What redo costs in addition to the dirty pages that are pending with it."""

    version: str
    others: _Others
    redo_bytes: float
    dirty_pages: float
    seconds: float
    """Mean startup less that of so many dirty pages, according to their line."""
    error_s: float
    """Half of its 95 % interval."""


def pending_curves(session: Session) -> tuple[PendingCurve, ...]:
    """Returns the curves of a session, each with the starts with nothing pending; none unless it is of pending-work."""
    nothing: dict[tuple[str, _Others], tuple[Run, ...]] = {}
    found: dict[tuple[str, str, str, _Others], list[tuple[Run, ...]]] = {}
    for version, pending, others, runs in _cells(session):
        if not pending:
            nothing[version, others] = runs
        elif len(pending) == 1:
            ((axis, value),) = pending.items()
            found.setdefault((version, axis, value.partition(" ")[2], others), []).append(runs)
    return tuple(
        _curve(session, key, [*([base] if (base := nothing.get((key[0], key[3]))) else []), *cells])
        for key, cells in found.items()
    )


def _cells(session: Session) -> Iterator[tuple[str, dict[str, str], _Others, tuple[Run, ...]]]:
    """Yields version, what was asked to be pending, other values, and measured runs of each cell."""
    for (version, variant), runs in measured_runs_by_cell(session).items():
        values = session.values_of(variant)
        pending = {axis: values[axis] for axis in PENDING_METRICS if values.get(axis, NONE) != NONE}
        yield version, pending, frozenset(item for item in values.items() if item[0] not in PENDING_METRICS), runs


def _curve(session: Session, key: tuple[str, str, str, _Others], cells: list[tuple[Run, ...]]) -> PendingCurve:
    pending, seconds = PENDING_METRICS[key[1]]
    points: Points = tuple(
        sorted(((round(mean(metric_values(runs, pending)) or 0), runs) for runs in cells), key=lambda point: point[0])
    )
    return PendingCurve(*key, points[-1][0], fit_of(session, points, seconds))


def redo_costs(session: Session) -> Iterator[RedoCost]:
    """Yields the cost of redo wherever it was pending together with dirty pages, if a straight line fits these."""
    lines = {(curve.version, curve.others): curve.fit for curve in pending_curves(session) if curve.axis == DIRTY}
    for version, pending, others, runs in _cells(session):
        fit = lines.get((version, others))
        if pending.keys() != {DIRTY, REDO} or fit is None or fit.form != LINE or fit.sessions > 1:
            continue
        pages, redo = (mean(metric_values(runs, name)) for name in ("dirty_pages", "checkpoint_age_bytes"))
        seconds = metric_values(runs, STARTUP_METRIC)
        if pages is not None and redo is not None and len(seconds) > 1:
            # That of the mean of these runs, which may spread more, and that of the line at this point.
            line = fit.relative_error**2 * (1 / fit.weight + (pages - fit.center) ** 2 / fit.spread)
            error_s = t975(len(seconds) - 1) * math.sqrt(standard_error(seconds) ** 2 + line)
            yield RedoCost(version, others, redo, pages, fmean(seconds) - fit.line_at(pages), error_s)
