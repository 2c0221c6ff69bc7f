"""Is it told how to bring a failed kill again? By the session that was measured, and by the command as it is read."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from recovery.analysis.warnings import findings
from recovery.cli.measure import request_from_arguments
from recovery.model import Session, Verdict, parse_version
from recovery.report.crash_tables import crash_tables
from recovery.report.stored_session import load_session


@pytest.fixture
def session(kept_sessions: Path) -> Session:
    return load_session(kept_sessions / "2026-11-22-crash-matrix-definitions")


def test_a_failed_kill_again(session: Session) -> None:
    failed = [run for run in session.runs if run.verdict is Verdict.FAILED]
    assert failed
    (note,) = (
        note for table in crash_tables(session) for note in table.notes if note.startswith("To repeat a failed run")
    )
    first, *others = note.removesuffix(".").partition(": ")[2].split("; ")
    many = len({(run.variant.partition("-")[0], run.repeat) for run in failed})
    assert others[-1] == f"and {many - 3} more"
    name, *words = shlex.split(first)[1:]
    request = request_from_arguments(name, words)
    plan = request.plan([parse_version(failed[0].version)], request.measured, alternating=True)
    assert {trial.repeat for trial in plan.trials} == {failed[0].repeat}
    assert {failed[0].variant} <= {variant.name for variant in request.measured}
    assert {variant.name.partition("-")[0] for variant in request.measured} == {failed[0].variant.partition("-")[0]}


def test_what_an_older_tool_had_killed_is_not_promised_again(kept_sessions: Path) -> None:
    """Its moments hung on earlier runs."""
    session = load_session(kept_sessions / "2026-11-22-crash-matrix-writing")
    assert any(run.verdict is Verdict.FAILED for run in session.runs)
    assert not any("again, at" in note for table in crash_tables(session) for note in table.notes)


def test_recoveries_of_kills_at_other_moments_differ(session: Session) -> None:
    assert "wide-spread" not in {one.kind for one in findings(session)}
