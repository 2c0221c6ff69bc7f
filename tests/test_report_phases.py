"""Does the report say where the time went, and nothing where nobody looked?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recovery.model import Phase, Run, Session, Table, Verdict
from recovery.report.startup_tables import phase_table
from recovery.report.stored_session import load_session, to_json
from recovery.report.text import WIDTH, render

SESSION = load_session(Path(__file__).parent.parent / "fixtures" / "sessions" / "three-versions")


def with_phases(run: Run, *, discovery_s: float) -> Run:
    phases = (Phase("process start", 0.0, 1.0), Phase("discovery", 1.0, 1.0 + discovery_s))
    end_s = 1.0 + discovery_s
    return replace(
        run, phases=(*phases, Phase("unnamed", end_s, end_s + 1), Phase("first query", end_s + 1, end_s + 2))
    )


def phased() -> Session:
    runs = tuple(
        with_phases(run, discovery_s=float(run.repeat)) if run.version == "5.6.24" else run for run in SESSION.runs
    )
    return replace(SESSION, runs=runs)


def table(session: Session) -> Table:
    found = phase_table(session)
    assert found is not None
    return found


def test_a_session_without_phases_has_no_such_table() -> None:
    assert phase_table(SESSION) is None
    assert "Phases of the start" not in render(SESSION)


def test_means_over_the_measured_runs_of_a_variant() -> None:
    found = table(phased())
    repeats = [run.repeat for run in SESSION.runs if (run.version, run.variant) == ("5.6.24", "cold")]
    row = dict(zip(found.headers, found.rows[0], strict=True))
    assert row["version"] == "5.6.24"
    assert row["discovery"] == f"{sum(repeats) / len(repeats):.2f}"
    assert found.headers == ("version", "variant", "process start", "discovery", "unnamed", "first query", "named")
    assert {row[0] for row in found.rows} == {"5.6.24"}


def test_a_failed_run_is_in_no_mean() -> None:
    session = phased()
    spoiled = tuple(
        replace(with_phases(run, discovery_s=9999.0), verdict=Verdict.VOID) if run.repeat == 1 else run
        for run in session.runs
    )
    assert not any("9999" in cell for row in table(replace(session, runs=spoiled)).rows for cell in row)


def test_lines_that_were_held_back_are_told() -> None:
    session = phased()
    held = tuple(replace(run, log_held_s=2.1) if run.number == 1 else run for run in session.runs)
    assert any("up to 2.10 s late in run 1" in note for note in table(replace(session, runs=held)).notes)


def test_it_fits_the_page_and_the_store(tmp_path: Path) -> None:
    session = phased()
    text = render(session)
    assert "Phases of the start, mean seconds" in text
    assert max(map(len, text.splitlines())) <= WIDTH
    (tmp_path / "report.json").write_bytes(to_json(session))
    assert load_session(tmp_path).runs[0].phases == session.runs[0].phases


def test_what_went_on_beside_the_start_is_told_below() -> None:
    session = phased()
    runs = tuple(replace(run, beside=(Phase("rollback", 1.0, 1.0 + run.number),)) for run in session.runs)
    notes = table(replace(session, runs=runs)).notes
    measured = [run.number for run in runs if run.verdict is Verdict.MEASURED]
    (told,) = (note for note in notes if "rollback" in note)
    assert f"in {len(measured)} runs" in told
    assert f"{min(measured):.2f} to {max(measured):.2f} s" in told
    assert not any("rollback" in note for note in table(session).notes)
