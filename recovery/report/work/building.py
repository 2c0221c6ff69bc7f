"""How long did it take to make the tables, fast, and in the published way as far as that was tried?"""

from __future__ import annotations

from recovery.findings.doubt import number, server_of
from recovery.measures import middles
from recovery.report import figures
from recovery.report.work import said
from recovery.stored import Session, Table

_MADE, _TOOK = "tables_made", "elapsed_s"


def building_table(session: Session) -> Table | None:
    """None where nothing is known of it."""
    tried = one_by_one(session)
    rows = [_row(session, version, tried.get(version)) for version in session.versions]
    if all(set(row[2:]) == {figures.ABSENT} for row in rows):
        return None
    notes = [
        "fast: several connections, packets of statements, nothing made durable until the end; measured once, when "
        "the data directory was built."
    ]
    if tried:
        notes.append(
            "one by one: a single client, each table durable, made beside the others; extrapolated: what all tables "
            "would take at that rate, which was not measured."
        )
    return Table(
        title="Making the tables",
        headers=("version", "tables", "fast, s", "tables/s", "one by one", "s", "tables/s", "extrapolated, s"),
        rows=tuple(rows),
        numeric=(False, *(True,) * 7),
        notes=tuple(notes),
    )


def one_by_one(session: Session) -> dict[str, tuple[float, float]]:
    """Tables and seconds by version, means of its runs."""
    made = {(one.version, one.variant): one.mean for one in middles(session, _MADE)}
    took = {(one.version, one.variant): one.mean for one in middles(session, _TOOK)}
    return {
        version: (tables, seconds)
        for (version, variant), tables in made.items()
        if tables and (seconds := took[version, variant])
    }


def _row(session: Session, version: str, tried: tuple[float, float] | None) -> tuple[str, ...]:
    known = server_of(session, version)
    tables, build_s = number(known.get("tables")), number(known.get("build_s"))
    fast = (said.timed(build_s), said.number(tables / build_s)) if tables and build_s else (figures.ABSENT,) * 2
    slow = (figures.ABSENT,) * 4
    if tried is not None and tables:
        some, seconds = tried
        slow = (f"{some:,.0f}", said.timed(seconds), said.number(some / seconds), said.timed(tables * seconds / some))
    return (version, figures.count(None if tables is None else int(tables)), *fast, *slow)
