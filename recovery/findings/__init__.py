"""Which figures of this session may not mean what they seem to? Every doubt, and what to do about it."""

from __future__ import annotations

from recovery.findings import cache, growth, host, server, spread
from recovery.stored import Finding, Session

CHECKS = (*spread.CHECKS, *cache.CHECKS, *host.CHECKS, *server.CHECKS, *growth.CHECKS)


def findings(session: Session) -> tuple[Finding, ...]:
    return tuple(found for check in CHECKS for found in check(session))
