"""What does a query cost the device, by the size of pages? Queries a second against reads, where data is larger."""

from __future__ import annotations

from collections.abc import Iterator

from recovery.cells import Group, groups
from recovery.measures import middles
from recovery.quantities import quantity
from recovery.report.work import keys, said
from recovery.stored import Session, Table

PAGES = ("innodb_page_size", "pages")
"""Axes of how the data lies in pages."""
READS, EACH = "device_reads_per_s", "device_reads_per_query"
_FIGURES = ("qps", READS, EACH, "read_bytes_per_s", "buffer_pool_reads_per_s")


def by_pages(session: Session) -> tuple[Group, ...]:
    """Groups that differ by pages, and read from the device."""
    reading = {one.variant for one in middles(session, READS) if one.mean}
    return tuple(
        group
        for group in groups(session)
        if group.figure == "qps" and any(axis.name in PAGES for axis in group.axes) and reading & set(group.variants)
    )


def reads_tables(session: Session) -> Iterator[Table]:
    for group in by_pages(session):
        yield _table(session, group)


def _table(session: Session, group: Group) -> Table:
    means = {
        name: {(one.version, one.variant): one.mean for one in middles(session, name)}
        for name in _FIGURES
        if any(name in run.measures for run in session.runs) or name == EACH
    }
    told = [quantity(name) for name in means]
    rows = [(version, variant) for version in session.versions for variant in group.variants]
    named = keys.headers(session, group)
    return Table(
        title=keys.titled("Queries against the device's reads", group),
        headers=(*named, *(about.title for about in told)),
        rows=tuple(
            (*keys.row(session, group, row), *(said.column(about, means[about.name][row]) for about in told))
            for row in rows
            if means["qps"][row] is not None
        ),
        numeric=(*keys.numeric(session, group), *(True,) * len(told)),
        notes=("Means. reads/s, reads/query: that the device under the data completed, by whomever they were asked.",),
        keys=len(named),
    )
