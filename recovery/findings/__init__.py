"""Which figures of this session may not mean what they seem to? Every doubt, and what to do about it."""

from __future__ import annotations

from recovery.findings import cache, growth, host, load, memory, redolog, server, spread
from recovery.findings.doubt import Check, gathered
from recovery.measures import is_work
from recovery.stored import Finding, Session

CHECKS = (*spread.CHECKS, *cache.CHECKS, *host.CHECKS, *server.CHECKS, *growth.CHECKS)
"""Of a session about starts."""
WORK_CHECKS = (
    *load.CHECKS, *redolog.CHECKS, *memory.CHECKS, spread.few_runs, cache.cached_below, cache.cold_not_proved,
    host.stolen, host.held_back, server.debug_build, server.options_not_in_effect,
)  # fmt: skip
"""Of one about servers at work: what holds for both, and what only they can suffer from."""


def checks_of(session: Session) -> tuple[Check, ...]:
    return WORK_CHECKS if is_work(session) else CHECKS


def findings(session: Session) -> tuple[Finding, ...]:
    found = (one for check in checks_of(session) for one in check(session))
    return tuple(gathered(found) if is_work(session) else found)


def not_looked_at(session: Session) -> str | None:
    """What could not be doubted, since this session does not tell it: older ones do not."""
    if any(run.around is not None for run in session.runs) or not session.runs:
        return None
    return f"what else went on beside these {'runs' if is_work(session) else 'starts'} is not known"
