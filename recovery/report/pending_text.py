"""Clauses about what work that is pending at a kill costs the start after it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from recovery.analysis.pending_costs import DIRTY, REDO, TRANSACTION, PendingCurve, RedoCost, pending_curves, redo_costs
from recovery.analysis.statistics import LINE
from recovery.analysis.summary import value_words
from recovery.model import Session

_MIB = 1 << 20


def pending_costs(session: Session) -> Mapping[str, Sequence[str]]:
    """Returns for each version clauses about what dirty pages, redo and rows cost, as far as the runs show it."""
    curves, redo = pending_curves(session), list(redo_costs(session))
    found = {
        version: [
            *_curve_texts(session, [curve for curve in curves if curve.version == version]),
            *(_redo_text(session, cost) for cost in redo if cost.version == version),
        ]
        for version in session.versions
    }
    return {version: clauses for version, clauses in found.items() if clauses}


def _curve_texts(session: Session, curves: Sequence[PendingCurve]) -> Iterator[str]:
    """Yields what each 1,000 or so of it cost, or that the interval does not tell the cost from zero; nothing without
    an interval. The states of a transaction share a clause."""
    shared: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for curve in curves:
        fit, unit = curve.fit, _MIB if curve.axis == REDO else 1
        if fit is None or curve.most < unit:
            continue
        step, cell = 10 ** math.floor(math.log10(curve.most / unit)), _others_text(session, curve)
        if fit.form == LINE:
            slope_s, error_s = fit.per_table_s, fit.per_table_error_s
            where = f", up to {curve.most / unit:,.0f}{' MiB' if curve.axis == REDO else ''}"
        else:
            steepest = fit.steepest_step()
            slope_s, error_s = steepest.per_table_s, steepest.per_table_error_s
            where = f" where they cost most, from {steepest.start / unit:,.0f} to {steepest.end / unit:,.0f}"
        if error_s is None:
            continue
        is_claimed, cost = slope_s > error_s, _with_interval(slope_s * step * unit, error_s * step * unit)
        if curve.axis == TRANSACTION:
            text = f"{curve.state} {cost if is_claimed else 'not significant'}"
            state = (text, where) if fit.form == LINE else (text + where, "")
            shared.setdefault((step, cell), []).append(state)
        elif is_claimed:
            yield f"each {step:,} {'dirty pages' if curve.axis == DIRTY else 'MiB of redo'} cost {cost}{where}{cell}"
        else:
            yield f"no significant cost of {'dirty pages' if curve.axis == DIRTY else 'redo'}{where}{cell}"
    for (step, cell), states in shared.items():
        # The cells have the number of rows, unless several were asked for.
        is_same = len({end for _, end in states if end}) == 1
        texts = [text if is_same else text + end for text, end in states]
        yield f"each {step:,} rows until rolled back: {', '.join(texts)}{cell}"


def _with_interval(seconds: float, error_s: float) -> str:
    """Formats seconds and their interval with the first digit of the error: `13 s (12 to 14)`."""
    places = max(0, -math.floor(math.log10(error_s))) if error_s else 2
    return f"{seconds:.{places}f} s ({seconds - error_s:.{places}f} to {seconds + error_s:.{places}f})"


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
