"""Finds the sessions that repeat another one, and says when the next is due.

Stored sessions are the only state: each names the first one in its settings."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from recovery.errors import RecoveryError, UsageError
from recovery.model import REPEAT_OF
from recovery.session.resume import Unfinished
from recovery.storage.earlier import as_stored, head_has_any
from recovery.storage.sessions import REPORT_FILE, find_session, load_session, session_names


def find_first(results: Path, name: str | None) -> Path:
    """Returns the folder of the first session of the measurement that a session belongs to, by default the newest one.

    Raises UsageError if the session names a first one that is not there."""
    folder = find_session(results, name)
    first = load_session(folder).settings.get(REPEAT_OF)
    if first is None:
        return folder
    # Only a name beside it: the session may come from somebody else.
    found = folder.parent / Path(str(first)).name
    if found.name not in session_names(folder.parent):
        raise UsageError(
            f"{folder.name} repeats {found.name}, which is not in {folder.parent}", "restore it, or measure again"
        )
    return found


def sessions_of(first: Path) -> tuple[Unfinished, ...]:
    """Returns the first session and those that repeat it, in the order in which they began. Damaged ones are left
    out."""
    found = [Unfinished(first, load_session(first))]
    repeats_it = as_stored(REPEAT_OF, first.name)
    for name in session_names(first.parent):
        if not head_has_any(first.parent / name / REPORT_FILE, [[repeats_it]]):
            continue
        with suppress(RecoveryError):
            session = load_session(first.parent / name)
            if session.settings.get(REPEAT_OF) == first.name:
                found.append(Unfinished(first.parent / name, session))
    return tuple(found)


class NotDueError(RecoveryError):
    """Another command has measured meanwhile what was to be measured."""


def due_at(last_began: datetime, every_s: float | None, now: datetime) -> datetime:
    """Returns when the next session is due: so long after the start of the last one, and now if that time was missed.

    Times that were missed are not made up for: two sessions in a row would share the state of the host."""
    return now if every_s is None else max(now, last_began + timedelta(seconds=every_s))
