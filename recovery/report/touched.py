"""Does a recovering server touch only the files that were modified? The numbers, what was read, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recovery.report import figures
from recovery.stored import Run, Session, Table
from recovery.summary import mean, measured_by

CLAIM = '"only *.ibd files modified since the last checkpoint are accessed"'
HOLDS, OPENS_ONLY, FAILS = "holds", "opened, not read", "does not hold"
_HEADERS = (
    "version", "variant", "modified", "opened", "opens", "opened in vain", "read", "read in vain", "requests", "bytes",
    "cache", "in data", "claim",
)  # fmt: skip


def touched_table(session: Session) -> Table | None:
    """None where nothing was traced."""
    rows = [
        (version, variant, traced)
        for version, variant, runs in measured_by(session)
        if (traced := [run for run in runs if run.tablespaces_opened is not None])
    ]
    if not rows:
        return None
    means = sorted({run.traced_by for _, _, runs in rows for run in runs if run.traced_by})
    return Table(
        title="Tables' files that the start touched",
        headers=_HEADERS,
        rows=tuple((version, variant, *_row(runs)) for version, variant, runs in rows),
        numeric=(False, False, *(True,) * 10, False),
        notes=(
            f"The claim of the documentation: {CLAIM}. modified: files whose pages held changes from after the "
            "checkpoint; opened: distinct files until the first answered query; read: those whose contents were read; "
            "in vain: without having been modified.",
            "requests, bytes: read for each table of the schema, all of the server's reads shared out; cache: by how "
            "much the host's page cache grew; in data: by how much of the data directory, where it was proved to "
            "begin without.",
            f"Told by {' and '.join(means)}; every start of this session bore the cost of that.",
        ),
        keys=2,
    )


def claim(runs: Sequence[Run]) -> str:
    """One start that read a file in vain is enough; a clean start says nothing of a claim about recovery."""
    if not any(run.crash_proof for run in runs):
        return figures.ABSENT
    if any(run.read_unmodified for run in runs):
        return FAILS
    return OPENS_ONLY if any(run.opened_unmodified for run in runs) else HOLDS


def _row(runs: Sequence[Run]) -> tuple[str, ...]:
    return (
        _count(runs, lambda run: run.tablespaces_modified),
        _count(runs, lambda run: run.tablespaces_opened),
        _count(runs, lambda run: run.tablespace_opens),
        _count(runs, lambda run: run.opened_unmodified),
        _count(runs, lambda run: run.tablespaces_read),
        _count(runs, lambda run: run.read_unmodified),
        figures.ratio(mean(_each(run.read_requests, run.tables) for run in runs)),
        _size(mean(_each(run.read_bytes, run.tables) for run in runs)),
        _size(mean(run.cache_grown_bytes for run in runs)),
        _size(mean(_grown_in_data(run) for run in runs)),
        claim(runs),
    )


def _grown_in_data(run: Run) -> int | None:
    """Known where it was proved what the start began with."""
    if run.resident_after_bytes is None or run.resident_before_bytes is None:
        return None
    return run.resident_after_bytes - run.resident_before_bytes


def _each(total: int | None, tables: int | None) -> float | None:
    return total / tables if total is not None and tables else None


def _count(runs: Sequence[Run], of: Callable[[Run], int | None]) -> str:
    """One number where all runs agree, as they should; else from the least to the most."""
    found = [value for run in runs if (value := of(run)) is not None]
    if not found:
        return figures.ABSENT
    least, most = min(found), max(found)
    return figures.count(least) if least == most else f"{figures.count(least)}-{figures.count(most)}"


def _size(value: float | None) -> str:
    return figures.size(None if value is None else round(value))
