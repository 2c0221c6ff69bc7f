"""Sentences about what work that is pending at a kill costs the start after it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from recovery.analysis.pending_costs import DIRTY, REDO, PendingCurve, RedoCost, pending_curves, redo_costs
from recovery.analysis.statistics import LINE
from recovery.analysis.summary import value_words
from recovery.model import Session

_MIB = 1 << 20


def pending_answers(session: Session) -> Iterator[str]:
    """Yields for each version what dirty pages, redo and rows cost, as far as the runs show it."""
    curves, redo = pending_curves(session), list(redo_costs(session))
    for version in session.versions:
        clauses = [
            *(text for curve in curves if curve.version == version for text in _curve_text(session, curve)),
            *(_redo_text(session, cost) for cost in redo if cost.version == version),
        ]
        if clauses:
            yield f"{version}: {'; '.join(clauses)}."


def _curve_text(session: Session, curve: PendingCurve) -> Iterator[str]:
    """Yields what each 1,000 or so of it cost, or that the interval does not tell the cost from zero; nothing without
    an interval."""
    fit, unit = curve.fit, _MIB if curve.axis == REDO else 1
    if fit is None or curve.most < unit:
        return
    step = 10 ** math.floor(math.log10(curve.most / unit))
    what, until = _what(curve)
    if fit.form == LINE:
        slope_s, error_s, where = (
            fit.per_table_s,
            fit.per_table_error_s,
            f", up to {curve.most / unit:,.0f}{' MiB' if curve.axis == REDO else ''}",
        )
    else:
        steepest = fit.steepest_step()
        slope_s, error_s = steepest.per_table_s, steepest.per_table_error_s
        where = f" where they cost most, from {steepest.start / unit:,.0f} to {steepest.end / unit:,.0f}"
    if error_s is None:
        return
    cell = _others_text(session, curve)
    if slope_s <= error_s:
        yield f"no significant cost of {what.removeprefix('MiB of ')}{until}{where}{cell}"
        return
    cost = _with_interval(slope_s * step * unit, error_s * step * unit)
    yield f"each {step:,} {what} cost {cost}{until}{where}{cell}"


def _with_interval(seconds: float, error_s: float) -> str:
    """Formats seconds and their interval with the first digit of the error: `13 s (12 to 14)`."""
    places = max(0, -math.floor(math.log10(error_s))) if error_s else 2
    return f"{seconds:.{places}f} s ({seconds - error_s:.{places}f} to {seconds + error_s:.{places}f})"


def _what(curve: PendingCurve) -> tuple[str, str]:
    """Returns what was pending, and until when its seconds are counted, if not until the server is ready."""
    if curve.axis == DIRTY:
        return "dirty pages", ""
    if curve.axis == REDO:
        return "MiB of redo", ""
    transactions = {"open": "an open transaction", "prepared": "a prepared transaction"}
    return f"rows of {transactions.get(curve.state, 'a transaction after XA PREPARE')}", " until they are rolled back"


def _redo_text(session: Session, cost: RedoCost) -> str:
    redo, pages = f"{cost.redo_bytes / _MIB:,.0f} MiB of redo", f"{cost.dirty_pages:,.0f} dirty pages"
    cell = _others_text(session, cost)
    if cost.seconds <= cost.error_s:
        return f"{redo} with {pages} cost no more than these pages{cell}"
    return f"{redo} with {pages} cost {_with_interval(cost.seconds, cost.error_s)} more than these pages{cell}"


def _others_text(session: Session, found: PendingCurve | RedoCost) -> str:
    """Returns the values of the other axes, if they were varied."""
    others = dict(found.others)
    words = [value_words(axis, others[axis.name]) for axis in session.differing_axes if axis.name in others]
    return f" with {', '.join(words)}" if words else ""
