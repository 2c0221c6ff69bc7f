"""Does the line hold, out of which a prediction is made?"""

from __future__ import annotations

from collections.abc import Iterator

from recovery.curves import Curve, curves
from recovery.findings.doubt import Check, doubt
from recovery.stored import Finding, Session
from recovery.summary import mean

_MOST = 0.8
"""Of 95 runs in 100 that were promised."""


def bent(curve: Curve) -> bool | None:
    """Upwards, or downwards (False); None where the line holds, or cannot be put to the test."""
    found = curve.held_out
    if found is None or found.inside >= _MOST * len(found.runs):
        return None
    return (mean(run.startup_s for run in found.runs) or 0.0) > found.seconds


def no_line(session: Session) -> Iterator[Finding]:
    for curve in curves(session):
        found, rising = curve.held_out, bent(curve)
        if found is None or rising is None:
            continue
        measured = mean(run.startup_s for run in found.runs) or 0.0
        yield doubt(
            "no-line", f"{curve.version} {curve.variant}",
            f"The smaller points had said {found.seconds:.1f} s of {found.tables:,} tables, {measured:.1f} were "
            f"measured: a table costs {'more' if rising else 'less'} the more there are.",
            f"Take what the line says of more tables for {'a lower' if rising else 'an upper'} bound, or measure "
            "there.",
        )  # fmt: skip


CHECKS: tuple[Check, ...] = (no_line,)
