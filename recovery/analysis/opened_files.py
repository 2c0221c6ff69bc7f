"""Judges the documentation's claim about the files that a crash recovery opens, over starts that were traced."""

from __future__ import annotations

from collections.abc import Sequence

from recovery.analysis.summary import Cell, runs_by_cell
from recovery.model import Run, Session, Verdict

CLAIM = '"only tablespace *.ibd files modified since the last checkpoint are accessed"'
MANUAL = "https://dev.mysql.com/doc/refman/5.7/en/innodb-recovery.html"
"""The page of the manual with this claim, under Tablespace Discovery During Crash Recovery. From 8.0 on the manual says
there that the directories of `innodb_directories` are scanned."""
HOLDS, OPENS_ONLY, FAILS, NOT_TESTED = "holds", "opened, not read", "does not hold", "-"


def traced_runs(session: Session) -> dict[Cell, tuple[Run, ...]]:
    """Returns the runs of each cell whose opened files were recorded, in the order of the report. Cells without such a
    run are left out."""
    found: dict[Cell, tuple[Run, ...]] = {}
    for cell, runs in runs_by_cell(session).items():
        traced = [run for run in runs if run.verdict.as_asked and run.is_traced]
        counted = [run for run in traced if run.verdict is Verdict.MEASURED]
        if traced:
            found[cell] = tuple(counted or traced)
    return found


def claim_verdict(runs: Sequence[Run]) -> str:
    """Returns whether the claim holds. A single start that read an unmodified file refutes it; a clean start proves
    nothing about recovery."""
    if not any(run.startup.crash_proof for run in runs):
        return NOT_TESTED
    if any(run.opened_files.read_unmodified for run in runs):
        return FAILS
    return OPENS_ONLY if any(run.opened_files.opened_unmodified for run in runs) else HOLDS
