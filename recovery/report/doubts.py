"""What may be wrong with these figures? The findings, as a table: none where there is none."""

from __future__ import annotations

from recovery.findings import findings
from recovery.stored import Session, Table


def findings_tables(session: Session) -> tuple[Table, ...]:
    found = findings(session)
    if not found:
        return ()
    return (
        Table(
            title="Doubts about these figures",
            headers=("about", "what, and what to do"),
            rows=tuple((one.about, f"{one.text} -> {one.hint}") for one in found),
            numeric=(False, False),
        ),
    )
