"""Says what figures stand on: how many sessions, over what time, on how many hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from recovery.model import Run, Session

_DURATIONS = ("startup_s", "first_query_s", "elapsed_s")
"""Metrics of a run that say how long its measurement took at least."""


@dataclass(frozen=True)
class Basis:
    sessions: int
    seconds: float
    """From the first start to the last end."""
    days: int
    """Number of days (UTC) on which a session started."""
    hosts: int | None
    """None if there are several sessions, and one of them did not record its host."""


def basis_of(sessions: Iterable[Session], *, earlier: bool = False) -> Basis:
    """Returns what these sessions of a measurement are together. `earlier` counts those that are stored with them, too:
    what was measured before on the same host."""
    every = tuple(sessions)
    before = [result for session in every for result in session.earlier if result.version in session.versions]
    known = (*every, *(before if earlier else ()))
    starts = {began for session in known if (began := time_of(session.started_at)) is not None}
    ends = [end for session in every for end in _ends(session)]
    span = max((*starts, *ends)) - min(starts) if starts else timedelta()
    ids = {session.host_id for session in every}
    return Basis(
        max(len(every), len(starts)),
        span.total_seconds(),
        max(1, len({began.date() for began in starts})),
        len(ids) if None not in ids else 1 if len(every) == 1 else None,
    )


def time_of(text: str | None) -> datetime | None:
    """Returns a stored time; None if there is none, or if it is damaged."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _ends(session: Session) -> Iterator[datetime]:
    """Yields when its runs had ended at the earliest."""
    for run in session.runs:
        if (began := time_of(run.started_at)) is not None:
            yield began + timedelta(seconds=_seconds(run))


def _seconds(run: Run) -> float:
    observed = run.host_activity.seconds if run.host_activity else 0.0
    return max(observed, *(run.metrics.get(name, 0.0) for name in _DURATIONS))
