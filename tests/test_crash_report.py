"""Is it told how to bring a failed kill again? By the session that was measured, and by the command as it is read."""

from __future__ import annotations

import shlex
from pathlib import Path

from recovery.analysis.warnings import findings
from recovery.cli.measure import request_from_arguments
from recovery.model import Verdict, parse_version
from recovery.report.crash_tables import crash_tables
from recovery.report.stored_session import load_session

MEASURED = Path(__file__).parent.parent / "docs" / "results" / "2026-11-22-crash-matrix-definitions"


def test_a_failed_kill_again() -> None:
    session = load_session(MEASURED)
    failed = [run for run in session.runs if run.verdict is Verdict.FAILED]
    assert failed
    (note,) = (note for table in crash_tables(session) for note in table.notes if note.startswith("A failed one again"))
    first, *others = note.removesuffix(".").partition(": ")[2].split("; ")
    many = len({(run.variant.partition("-")[0], run.repeat) for run in failed})
    assert others[-1] == f"and {many - 3} more"
    name, *words = shlex.split(first)[1:]
    request = request_from_arguments(name, words)
    plan = request.plan([parse_version(failed[0].version)], request.measured, alternating=True)
    assert {trial.repeat for trial in plan.trials} == {failed[0].repeat}
    assert {failed[0].variant} <= {variant.name for variant in request.measured}
    assert {variant.name.partition("-")[0] for variant in request.measured} == {failed[0].variant.partition("-")[0]}


def test_what_an_older_tool_had_killed_is_not_promised_again() -> None:
    """Its moments hung on earlier runs."""
    session = load_session(MEASURED.with_name("2026-11-22-crash-matrix-writing"))
    assert any(run.verdict is Verdict.FAILED for run in session.runs)
    assert not any("again, at" in note for table in crash_tables(session) for note in table.notes)


def test_recoveries_of_kills_at_other_moments_differ() -> None:
    assert "wide-spread" not in {one.kind for one in findings(load_session(MEASURED))}
