"""Does the report say what was opened, what had been modified, whether the claim holds, and how far the floor is?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recovery.model import ReadFloor, Run, Session, Table, Verdict
from recovery.report.startup_tables import FAILS, HOLDS, OPENS_ONLY, floor_table, touched_table
from recovery.report.stored_session import load_session
from recovery.report.text import WIDTH, render

SESSION = load_session(Path(__file__).parent.parent / "fixtures" / "sessions" / "three-versions")


def touched(run: Run, *, opened: int, modified: int, in_vain: int, read_in_vain: int | None = None) -> Run:
    return replace(
        run,
        tablespaces_opened=opened,
        tablespace_opens=2 * opened,
        tablespaces_modified=modified,
        opened_unmodified=in_vain,
        tablespaces_read=opened,
        read_unmodified=in_vain if read_in_vain is None else read_in_vain,
        traced_by="fanotify",
        tables=1000,
        read_requests=2500,
        read_bytes=96_000_000,
        resident_after_bytes=40_000_000,
    )


def traced() -> Session:
    """The first version opens all, the others what they must."""
    first = SESSION.versions[0]
    runs = tuple(
        touched(run, opened=1000, modified=100, in_vain=900)
        if run.version == first
        else touched(run, opened=100, modified=100, in_vain=0)
        for run in SESSION.runs
    )
    return replace(SESSION, runs=runs)


def rows(table: Table | None) -> list[dict[str, str]]:
    assert table is not None
    return [dict(zip(table.headers, row, strict=True)) for row in table.rows]


def test_a_session_that_was_not_traced_has_no_such_table() -> None:
    assert touched_table(SESSION) is None
    assert floor_table(SESSION) is None


def test_both_numbers_and_the_answer() -> None:
    first, *others = rows(touched_table(traced()))
    assert first["version"] == SESSION.versions[0]
    assert (first["opened"], first["opens"], first["modified"], first["opened only"]) == (
        "1,000",
        "2,000",
        "100",
        "900",
    )
    assert (first["read"], first["requests"], first["bytes"]) == ("1,000", "2.50", "96.0 kB")
    assert first["in data"] == "40.0 MB"
    assert first["claim"] == FAILS
    assert {row["claim"] for row in others if row["version"] != first["version"]} == {HOLDS}


def test_one_start_that_opens_one_file_in_vain_refutes_it() -> None:
    session = traced()
    last = next(run for run in reversed(session.runs) if run.verdict is Verdict.MEASURED)
    once = replace(last, tablespaces_opened=101, opened_unmodified=1, tablespaces_read=101, read_unmodified=1)
    spoiled = replace(session, runs=tuple(once if run is last else run for run in session.runs))
    row = next(
        row for row in rows(touched_table(spoiled)) if (row["version"], row["variant"]) == (last.version, last.variant)
    )
    assert (row["opened"], row["read only"], row["claim"]) == ("100-101", "0-1", FAILS)


def test_a_void_run_says_nothing_of_the_claim() -> None:
    session = traced()
    void = tuple(replace(run, verdict=Verdict.VOID) for run in session.runs)
    assert touched_table(replace(session, runs=void)) is None


def test_the_floor_and_how_far_above_it_the_cold_starts_are() -> None:
    first = SESSION.versions[0]
    (row,) = rows(floor_table(replace(SESSION, floors=(ReadFloor(first, ("cold", "warm"), 1000, 2.0, 0.5, 16, 0.25),))))
    cold = [run.startup_s for run in SESSION.runs if (run.version, run.variant) == (first, "cold")]
    mean_s = sum(one or 0 for one in cold) / len(cold)
    assert (row["1 thread"], row["16 threads"], row["opened"]) == ("2.00", "0.50", "0.25")
    assert row["/ 1 thread"] == f"{mean_s / 2.0:.2f}"
    assert row["/ 16"] == f"{mean_s / 0.5:.2f}"


def test_the_page_stays_narrow() -> None:
    floor = ReadFloor(SESSION.versions[0], ("cold", "warm"), 1000, 2.0, 0.5, 16, 0.25)
    text = render(replace(traced(), floors=(floor,)))
    assert "does not hold" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= WIDTH


def test_files_that_are_opened_and_not_read_are_another_answer() -> None:
    """As MariaDB 10.11 does it: it asks every file for its size."""
    runs = tuple(
        touched(run, opened=1000, modified=100, in_vain=900, read_in_vain=0) if run.verdict is Verdict.MEASURED else run
        for run in SESSION.runs
    )
    assert {row["claim"] for row in rows(touched_table(replace(SESSION, runs=runs)))} == {OPENS_ONLY}


def test_a_clean_start_says_nothing_of_the_claim() -> None:
    clean = tuple(replace(run, crash_proof=None) for run in traced().runs)
    assert {row["claim"] for row in rows(touched_table(replace(SESSION, runs=clean)))} == {"-"}
