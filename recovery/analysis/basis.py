"""Says what figures stand on: how many sessions, over what time, on how many hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from recovery.analysis.combined import HOST_AXIS, CombinedSession
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
    """None if it is not known."""


def basis_of(session: Session, *, earlier: bool = False) -> Basis:
    """Returns what the figures of a session stand on, which may be several combined. `earlier` counts those that are
    stored with it, too: what was measured before on the same host."""
    every = _parts(session)
    before = [result for part in every for result in part.earlier if result.version in part.versions]
    known = (*every, *(before if earlier else ()))
    starts = {began for each in known if (began := time_of(each.started_at)) is not None}
    ends = [end for part in every for end in _ends(part)]
    span = max((*starts, *ends)) - min(starts) if starts else timedelta()
    return Basis(
        max(len(every), len(starts)),
        span.total_seconds(),
        count_days(each.started_at for each in known),
        number_of_hosts(session),
    )


def _parts(session: Session) -> tuple[Session, ...]:
    return tuple(part.session for part in session.parts) if isinstance(session, CombinedSession) else (session,)


def count_days(started_at: Iterable[str]) -> int:
    """Returns on how many days (UTC) sessions started, at least one. Times that are damaged are left out."""
    return max(1, len({time.date() for text in started_at if (time := time_of(text)) is not None}))


def number_of_hosts(session: Session) -> int | None:
    """Returns on how many hosts the runs of a session were measured, which may be several combined; None if that is not
    known. Hosts that have a name are told apart by it, and others by their id."""
    named = {host for variant in session.variant_names if (host := session.value_of(variant, HOST_AXIS))}
    if named:
        return len(named)
    first, *others = (part.host_id for part in _parts(session))
    if any(is_same_host(first, other) is None for other in others):
        return None
    return len({first, *others})


def is_same_host(one: str | None, other: str | None) -> bool | None:
    """Returns whether two ids are of one host and its storage. None if that is not known, because one has no id."""
    return None if one is None or other is None else one == other


def time_of(text: str | None) -> datetime | None:
    """Returns a stored time; None if there is none, or if it is damaged."""
    try:
        found = datetime.fromisoformat(text or "")
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the first day of the year 1, in a zone east of Greenwich
        return None


def _ends(session: Session) -> Iterator[datetime]:
    """Yields when its runs had ended at the earliest."""
    for run in session.runs:
        if (began := time_of(run.started_at)) is not None:
            yield began + timedelta(seconds=_seconds(run))


def _seconds(run: Run) -> float:
    observed = run.host_activity.seconds if run.host_activity else 0.0
    return max(observed, *(run.metrics.get(name, 0.0) for name in _DURATIONS))
