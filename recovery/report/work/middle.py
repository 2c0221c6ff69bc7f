"""What did each version come to in each cell? The session's figure, with what matters beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from recovery.cells import Group, groups
from recovery.measures import Middle, middles, taken
from recovery.quantities import Quantity, quantity
from recovery.report.work import keys, said
from recovery.stored import Session, Table
from recovery.students import LEAST_RUNS

_BESIDE = {
    "s": ("read_bytes", "read_requests", "server_cpu_s", "tables_per_s"),
    "/s": ("latency_mean_ms", "latency_p95_ms", "latency_p99_ms"),
}
"""By the unit of a figure: what a reader asks for next."""
_BESIDE_TRANSACTIONS = ("errors_per_transaction", "qps")


def beside(session: Session, figure: str) -> tuple[Quantity, ...]:
    """Those that were taken."""
    first = _BESIDE_TRANSACTIONS if figure == "tps" else ()
    wanted = (*first, *_BESIDE.get(quantity(figure).unit, ()))
    return tuple(quantity(name) for name in wanted if taken(session.runs, name))


def middle_tables(session: Session) -> Iterator[Table]:
    found = {(one.version, one.variant): one for one in middles(session)}
    parts = groups(session)
    # What holds for all of them is said below the last.
    last = {group.figure: group for group in parts}
    for group in parts:
        rows = [found[version, variant] for version in session.versions for variant in group.variants]
        made = _table(session, group, [one for one in rows if _ran(one)])
        explained = (_figures(session, group),) if group is last[group.figure] else ()
        yield replace(made, notes=(*_left_out(rows), *explained, *(_notes(session) if group is parts[-1] else ())))


def _ran(one: Middle) -> bool:
    """A version need not have every variant."""
    return bool(one.count or one.failed or one.void)


def _table(session: Session, group: Group, rows: Sequence[Middle]) -> Table:
    about, more = quantity(group.figure), beside(session, group.figure)
    others = {each.name: {(one.version, one.variant): one.mean for one in middles(session, each.name)} for each in more}
    named = keys.headers(session, group)
    return Table(
        title=keys.titled(f"{session.title}: {about.title}", group),
        headers=(*named, "runs", "mean", "+-", "median", "min", "max", *(one.title for one in more)),
        rows=tuple(
            (
                *keys.row(session, group, (one.version, one.variant)),
                str(one.count),
                *(said.column(about, value) for value in (one.mean, one.interval, one.median, one.min, one.max)),
                *(said.column(each, others[each.name][one.version, one.variant]) for each in more),
            )
            for one in rows
        ),
        numeric=(*keys.numeric(session, group), *(True,) * (6 + len(more))),
        keys=len(named),
    )


def _figures(session: Session, group: Group) -> str:
    return _explained((quantity(group.figure), *beside(session, group.figure)))


def _notes(session: Session) -> tuple[str, ...]:
    return (
        f"+-: half of the mean's 95 % interval, by Student's t, from {LEAST_RUNS} runs on.",
        *keys.spelled(session),
    )


def _explained(told: Sequence[Quantity]) -> str:
    figure, *more = told
    first = f"{figure.title}: {figure.told}. " if figure.told else ""
    better = said.which_is_better(figure)
    beside_it = explained(more)
    return f"{first}{better}.{' Means: ' + beside_it if beside_it else ''}" if better else f"{first}{beside_it}".strip()


def explained(told: Sequence[Quantity]) -> str:
    """`p95 ms: ...; read: ...`, of those that need words."""
    words = "; ".join(f"{one.title}: {one.told}" for one in told if one.told)
    return f"{words}." if words else ""


def _left_out(rows: Sequence[Middle]) -> tuple[str, ...]:
    parts = [
        f"{one.version} {one.variant} {number} {what}"
        for one in rows
        for number, what in ((one.failed, "failed"), (one.void, "void"))
        if number
    ]
    return (f"Not counted: {', '.join(parts)}.",) if parts else ()
