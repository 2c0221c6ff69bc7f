"""On what was it measured? Settings and host at once, what the servers say folded."""

from __future__ import annotations

from recovery.report.html.parts import Fold, Part, grids
from recovery.report.tables import tables
from recovery.stored import Session, Table

_FACTS = ("Settings", "Host")


def about_parts(session: Session, placed: tuple[Table | None, ...]) -> tuple[Part, ...]:
    """Of all tables those that have no place elsewhere on the page."""
    rest = [table for table in tables(session) if table not in placed]
    shown = [table for table in rest if table.title in _FACTS]
    folded = [table for table in rest if table.title not in _FACTS]
    each = (Fold(table.title, grids(f"about-{number}", table)) for number, table in enumerate(folded))
    return (*grids("about", *shown), *each)
