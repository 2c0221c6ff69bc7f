"""Which figures of this session may not mean what they seem to? Every doubt, and what to do about it."""

from __future__ import annotations

from recovery.findings import cache, growth, host, server, spread
from recovery.stored import Finding, Session

CHECKS = (*spread.CHECKS, *cache.CHECKS, *host.CHECKS, *server.CHECKS, *growth.CHECKS)


def findings(session: Session) -> tuple[Finding, ...]:
    return tuple(found for check in CHECKS for found in check(session))


def not_looked_at(session: Session) -> str | None:
    """What could not be doubted, since this session does not tell it: older ones do not."""
    if any(run.around is not None for run in session.runs) or not session.runs:
        return None
    return "what else went on beside these starts is not known"
