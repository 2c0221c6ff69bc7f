"""What may be wrong with these figures? The findings, what to do said once for all that it helps against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recovery.findings import findings
from recovery.stored import Finding, Session, Table


def findings_tables(session: Session) -> tuple[Table, ...]:
    """None where nothing was found."""
    found = by_hint(session)
    if not found:
        return ()
    return (
        Table(
            title="Doubts about these figures",
            headers=("about", "what, and what to do"),
            rows=tuple(row for hint, group in found for row in _rows(hint, group)),
            numeric=(False, False),
        ),
    )


def by_hint(session: Session) -> list[tuple[str, list[Finding]]]:
    grouped: dict[str, list[Finding]] = {}
    for one in findings(session):
        grouped.setdefault(one.hint, []).append(one)
    return list(grouped.items())


def _rows(hint: str, found: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """The hint in a row of its own where it is for several."""
    if len(found) == 1:
        yield found[0].about, f"{found[0].text} -> {hint}"
        return
    yield from ((one.about, one.text) for one in found)
    yield "", f"-> {hint}"
