"""How long did each question and each dump take, version beside version? The table as it was published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recovery.cells import cell_words, groups, is_switch
from recovery.findings.doubt import number, server_of
from recovery.measures import by_cell, middles, taken, version_pairs
from recovery.quantities import quantity
from recovery.report import figures
from recovery.report.work import said
from recovery.report.work.building import one_by_one
from recovery.report.work.pairs import over
from recovery.stored import Run, Session, Table

_MADE, _DUMPED = "tables_made", "dump_bytes"
_EXTRAPOLATED = "* "
_PUBLISHED = ("Q1", "Q2", "Q3")
"""Then the making of tables, dumps, and what else was asked."""


@dataclass(frozen=True)
class _Row:
    place: int
    name: str
    seconds: tuple[float | None, ...]
    """One for each version."""
    extrapolated: bool = False


def asked_table(session: Session) -> Table | None:
    """None where the figure is no time, or something that is switched on and off is the question."""
    (first, *others) = groups(session)
    if quantity(session.figure).unit != "s" or others or any(is_switch(axis) for axis in first.axes):
        return None
    rows = sorted((*_cells(session), *_making(session)), key=lambda row: row.place)
    if not any(value for row in rows for value in row.seconds):
        return None
    pairs = version_pairs(session.versions)
    return Table(
        title=f"{session.title}: seconds, {'version beside version' if pairs else 'in short'}",
        headers=("what", *session.versions, *map(over, pairs)),
        rows=tuple(
            (row.name, *(_seconds(value, row) for value in row.seconds), *_ratios(session, row, pairs)) for row in rows
        ),
        numeric=(False, *(True,) * (len(session.versions) + len(pairs))),
        notes=tuple(_notes(session, rows)),
    )


def _cells(session: Session) -> Iterator[_Row]:
    found = {(one.version, one.variant): one.mean for one in middles(session)}
    cells = by_cell(session)
    for variant in session.variants:
        runs = [run for version in session.versions for run in cells[version, variant]]
        name = cell_words(session, variant)
        if taken(runs, _MADE):
            name = f"making {taken(runs, _MADE)[0]:,.0f} tables one by one"
        yield _Row(_place(variant, runs), name, tuple(found[version, variant] for version in session.versions))


def _place(variant: str, runs: list[Run]) -> int:
    if variant in _PUBLISHED:
        return 0
    if taken(runs, _MADE):
        return 1
    return 2 if taken(runs, _DUMPED) else 3


def _making(session: Session) -> Iterator[_Row]:
    """The data directories, and what they would have taken the published way."""
    known = {version: server_of(session, version) for version in session.versions}
    tables = {version: number(known[version].get("tables")) for version in session.versions}
    build_s = tuple(number(known[version].get("build_s")) for version in session.versions)
    many = max((count for count in tables.values() if count), default=0)
    if any(build_s):
        yield _Row(1, f"making all {many:,.0f}, fast", build_s)
    tried = one_by_one(session)
    if tried and many:
        all_of_them = tuple(
            count * tried[version][1] / tried[version][0] if (count := tables[version]) and version in tried else None
            for version in session.versions
        )
        yield _Row(1, f"making all {many:,.0f} one by one", all_of_them, extrapolated=True)


def _seconds(value: float | None, row: _Row) -> str:
    if value is None:
        return figures.ABSENT
    # Nobody has measured its tenths.
    return f"{_EXTRAPOLATED}{said.number(value)}" if row.extrapolated else said.timed(value)


def _ratios(session: Session, row: _Row, pairs: tuple[tuple[str, str], ...]) -> Iterator[str]:
    found = dict(zip(session.versions, row.seconds, strict=True))
    for version, base in pairs:
        value, of = found[version], found[base]
        yield said.times(value / of if value is not None and of else None)


def _notes(session: Session, rows: list[_Row]) -> Iterator[str]:
    ratios = "; ratios of these, below 1 is faster" if len(session.versions) > 1 else ""
    yield f"Means, in seconds until the last answer{ratios}. The tables below have their errors."
    if any(row.extrapolated for row in rows):
        yield "*: extrapolated from the tables that were made one by one, at their rate; it was not measured."
    clients = {
        f"{name} ({version})"
        for run in session.runs
        if _DUMPED in run.measures
        for name, version in run.clients.items()
        if name != "dump"
    }
    if clients:
        of_all = " of all versions" if len(clients) == 1 and len(session.versions) > 1 else ""
        yield f"Dumps{of_all} by {', '.join(sorted(clients))}."
