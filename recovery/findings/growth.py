"""Do the smaller numbers of tables predict the largest one?"""

from __future__ import annotations

from collections.abc import Iterator

from recovery.curves import curves
from recovery.findings.doubt import Check, doubt
from recovery.stored import Finding, Session


def not_predicted(session: Session) -> Iterator[Finding]:
    for curve in curves(session):
        found = curve.held_out
        if found is None or curve.predicts:
            continue
        yield doubt(
            "no-line", f"{curve.version} {curve.variant}",
            f"The smaller points predict {found.predicted.seconds:.1f} s for {found.tables:,} tables, "
            f"{found.measured_s:.1f} s were measured.",
            f"Rely on no prediction for more than {found.tables:,} tables: measure there.",
        )  # fmt: skip


CHECKS: tuple[Check, ...] = (not_predicted,)
