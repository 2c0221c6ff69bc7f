"""Says in words what figures stand on, and what would make them stronger."""

from __future__ import annotations

from recovery.analysis.basis import Basis, basis_of
from recovery.analysis.combined import CombinedSession
from recovery.analysis.statistics import MIN_SESSIONS
from recovery.analysis.summary import is_compared
from recovery.report import fmt


def basis_words(basis: Basis) -> str:
    """Returns it in words, such as `3 sessions over 26.1 hours on one host`."""
    many = "one session of" if basis.sessions == 1 else f"{basis.sessions} sessions over"
    where = "" if basis.hosts is None else f" on {'one host' if basis.hosts == 1 else f'{basis.hosts} hosts'}"
    return f"{many} {fmt.time_span(basis.seconds, whole=True)}{where}"


def stronger_words(basis: Basis) -> str:
    """Returns what would make the figures stronger; empty if nothing is known."""
    if basis.sessions < MIN_SESSIONS:
        return "three sessions of several days would show how much sessions differ"
    if basis.days == 1:
        return "sessions of several days would show how much days differ"
    if basis.hosts == 1:
        return "sessions of another host would show whether they hold there"
    return ""


def over_sessions_line(session: CombinedSession) -> str:
    """Returns what the figures of several sessions stand on, in a sentence."""
    basis = basis_of(part.session for part in session.parts)
    if not is_compared(session):
        return f"{basis_words(basis)}: what is counted is of all of them.".capitalize()
    if basis.sessions < MIN_SESSIONS:
        return f"{basis_words(basis)}: no interval over sessions, which needs {MIN_SESSIONS}.".capitalize()
    stronger = stronger_words(basis) if basis.days == 1 else ""
    return f"{'; '.join(filter(None, (basis_words(basis), stronger)))}.".capitalize()
