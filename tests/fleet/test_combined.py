"""Sessions of several hosts are combined into one, which knows what came from which of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recovery.analysis.combined import CombinedSession, combine
from recovery.analysis.summary import summarise
from recovery.model import Session
from recovery.storage.sessions import load_session

KEPT = "2026-11-21-four-versions"


@pytest.fixture
def session(kept_sessions: Path) -> Session:
    return load_session(kept_sessions / KEPT)


def of_two_hosts(session: Session) -> CombinedSession:
    """Two sessions of the first host and one of the second; the runs of all have the same numbers."""
    return combine([("one", session), ("one", session), ("two", session)])


def test_runs_are_told_apart_by_part_and_number(session: Session) -> None:
    combined = of_two_hosts(session)
    assert len({(run.part, run.number) for part in combined.parts for run in part.runs}) == len(combined.runs)
    assert len(set(combined.runs)) == 3 * len(session.runs)


def test_changed_runs_still_belong_to_their_session(session: Session) -> None:
    combined = of_two_hosts(session)
    changed = replace(combined, runs=tuple(replace(run, log=None) for run in combined.runs))
    found = changed.by_session(changed.runs)
    assert [len(runs) for _, runs in found] == [len(session.runs)] * 3
    assert summarise(changed) == summarise(combined)
