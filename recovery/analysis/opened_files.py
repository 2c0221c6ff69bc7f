"""Judges the documentation's claim about the files that a crash recovery opens, over starts that were traced."""

from __future__ import annotations

from collections.abc import Sequence

from recovery.model import Run

CLAIM = '"only tablespace *.ibd files modified since the last checkpoint are accessed"'
MANUAL = "https://dev.mysql.com/doc/refman/5.7/en/innodb-recovery.html"
"""The page of the manual with this claim, under Tablespace Discovery During Crash Recovery. From 8.0 on the manual says
there that the directories of `innodb_directories` are scanned."""
HOLDS, OPENS_ONLY, FAILS, NOT_TESTED = "holds", "opened, not read", "does not hold", "-"


def claim_verdict(runs: Sequence[Run]) -> str:
    """Returns whether the claim holds. A single start that read an unmodified file refutes it; a clean start proves
    nothing about recovery."""
    if not any(run.startup.crash_proof for run in runs):
        return NOT_TESTED
    if any(run.opened_files.read_unmodified for run in runs):
        return FAILS
    return OPENS_ONLY if any(run.opened_files.opened_unmodified for run in runs) else HOLDS
