"""Finds the results of other sessions of a host in the results folder: what a new session is compared with."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from recovery.analysis.history import SessionCell, session_cells
from recovery.analysis.summary import is_compared
from recovery.analysis.warm import rename_second_starts
from recovery.errors import RecoveryError
from recovery.linux.files import open_regular
from recovery.model import Session
from recovery.storage.sessions import HEAD_BYTES, REPORT_FILE, read_session, session_names

_MAX_SESSIONS = 500
_MAX_BYTES = 100 << 20
"""Most sessions that are read, the newest first, and most bytes of their reports: with more the end of a session would
wait for it."""


@dataclass(frozen=True)
class OtherSessions:
    """The results of other sessions that share a host and an experiment with some sessions."""

    cells: tuple[SessionCell, ...] = ()
    read: int = 0
    """Number of sessions that were read."""
    found: int = 0
    """Number of sessions that are there."""

    @property
    def note(self) -> str | None:
        """Says that not all were read, or is None."""
        if self.read == self.found:
            return None
        return f"Earlier sessions on this host: only the newest {self.read} of {self.found} were read."


def other_sessions(results: Path, like: Sequence[Session], *, without: Collection[Path]) -> OtherSessions:
    """Returns the results of the sessions in a folder that are of the same host and experiment as one of these, except
    those `without`. A session that is damaged, or that cannot be read, is skipped."""
    wanted = [
        (as_stored("host_id", session.host_id), as_stored("experiment", session.experiment))
        for session in like
        if session.host_id is not None and is_compared(session)
    ]
    if not wanted:
        return OtherSessions()
    left_out = {folder.resolve() for folder in without}
    cells: list[SessionCell] = []
    read = found = size = 0
    for name in reversed(session_names(results)):
        folder = results / name
        if folder.resolve() in left_out or not head_has_any(folder / REPORT_FILE, wanted):
            continue
        found += 1
        try:
            size += (folder / REPORT_FILE).stat().st_size
            if found > _MAX_SESSIONS or size > _MAX_BYTES:
                continue
            cells += session_cells(name, rename_second_starts(read_session(folder))).values()
        except (RecoveryError, OSError):
            found -= 1
            continue
        read += 1
    return OtherSessions(tuple(cells), read, found)


def as_stored(name: str, value: str | None) -> bytes:
    """Returns a fact or a setting as it is written in a report."""
    return f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}".encode(errors="replace")


def head_has_any(report: Path, wanted: Sequence[Sequence[bytes]]) -> bool:
    """Returns whether the beginning of a report has all texts of one of these. To read all of it takes much longer."""
    try:
        with open_regular(report) as file:
            head = file.read(HEAD_BYTES)
    except (RecoveryError, OSError):
        return False
    return any(all(text in head for text in texts) for texts in wanted)
