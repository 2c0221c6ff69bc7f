"""Which figures of this session may not mean what they seem to? Every doubt, and what to do about it."""

from __future__ import annotations

from recovery.findings.spread import SPREAD
from recovery.stored import Finding, Session

CHECKS = SPREAD
"""Each looks at what is stored, and at nothing else."""


def findings(session: Session) -> tuple[Finding, ...]:
    return tuple(found for check in CHECKS for found in check(session))
