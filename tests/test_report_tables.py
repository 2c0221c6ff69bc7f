"""Do the tables say what was stored, in a reader's units?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from everything import a_run, a_session

from recovery.model import Session, Table, Verdict
from recovery.report import fmt
from recovery.report.settings_tables import findings_tables
from recovery.report.stored_session import load_session
from recovery.report.tables import all_tables
from recovery.report.text import WIDTH, render_table

SESSION = load_session(Path(__file__).parent.parent / "fixtures" / "sessions" / "three-versions")


def table(session: Session, title: str) -> Table:
    (found,) = (table for table in all_tables(session) if table.title.startswith(title))
    return found


def cells(session: Session, title: str, row: int) -> dict[str, str]:
    found = table(session, title)
    return dict(zip(found.headers, found.rows[row], strict=True))


def test_every_row_is_as_wide_as_its_headers() -> None:
    for found in all_tables(SESSION):
        assert {len(found.headers)} == {len(found.numeric), *(len(row) for row in found.rows)}, found.title


def test_the_order_of_reading() -> None:
    titles = [found.title for found in all_tables(SESSION)]
    assert titles == [
        "Startup after SIGKILL: seconds",
        "Versions compared: seconds",
        "Every run",
        "Not counted",
        "Settings",
        "Host",
        "Server 5.6.24",
        "Server 5.7.22",
        "Server mariadb-10.11.5",
    ]


def test_a_clean_start_is_not_called_a_crash() -> None:
    clean = replace(SESSION, scenario="clean-start", title="Clean start")
    assert all_tables(clean)[0].title == "Clean start: seconds"


def test_a_row_for_each_version_in_each_variant() -> None:
    timing = table(SESSION, "Startup")
    assert [row[:2] for row in timing.rows] == [
        (version, variant) for version in SESSION.versions for variant in ("cold", "warm")
    ]


def test_what_did_not_count_is_said_under_the_table() -> None:
    assert cells(SESSION, "Startup", 2)["runs"] == "2"
    assert "Not counted: 5.7.22 cold 1 failed, mariadb-10.11.5 warm 1 void." in table(SESSION, "Startup").notes
    reasons = {row[0]: row[-1] for row in table(SESSION, "Not counted").rows}
    assert set(reasons) == {"8", "18"}
    assert "Unable to lock ./ibdata1" in reasons["8"]
    assert "logs/018-mariadb-10.11.5-warm-3.err" in reasons["18"]


def test_a_void_run_is_in_no_figure() -> None:
    spoiled = tuple(
        replace(run, startup_s=9999.0, first_query_s=9999.0) if run.verdict is Verdict.VOID else run
        for run in SESSION.runs
    )
    assert all_tables(replace(SESSION, runs=spoiled))[0] == all_tables(SESSION)[0]


def test_where_all_runs_count_nothing_is_said() -> None:
    measured = tuple(run for run in SESSION.runs if run.verdict is Verdict.MEASURED)
    session = replace(SESSION, runs=measured)
    assert "Not counted" not in [found.title for found in all_tables(session)]
    assert not any("Not counted" in note for note in all_tables(session)[0].notes)


def test_a_session_without_runs() -> None:
    session = replace(SESSION, runs=(), status="interrupted")
    assert table(session, "Startup").rows == ()
    assert table(session, "Every run").rows == ()


def test_how_the_cache_was_emptied() -> None:
    notes = " ".join(table(SESSION, "Every run").notes)
    assert "Cache emptied by drop_caches: runs 1, 2, 3, 7, 9, 13, 14, 15." in notes
    assert "2 before runs 4, 10, 16." in notes


def test_the_fingerprint_is_short_and_the_values_in_effect_are_marked() -> None:
    server = {row[0]: row[1] for row in table(SESSION, "Server 5.7.22").rows}
    assert server["sha256"] == SESSION.servers["5.7.22"]["sha256"][:12]
    assert server["@open_files_limit"] == "20000"
    assert server["@innodb_flush_method"] == "(empty)"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0.00"), (1.234, "1.23"), (99.994, "99.99"), (99.996, "100.0"), (425.26, "425.3")],
)
def test_seconds(value: float | None, text: str) -> None:
    assert fmt.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_960, "1.0 MB"),
        (19_900_000_000, "19.9 GB"),
        (22_000_000_000_000, "22.0 TB"),
    ],
)
def test_sizes_are_decimal(value: int | None, text: str) -> None:
    assert fmt.size(value) == text


def test_absent_is_a_dash_and_zero_is_zero() -> None:
    assert fmt.count(None) == fmt.ratio(None) == fmt.found_of_expected(None, None) == "-"
    assert fmt.count(0) == "0"
    assert fmt.found_of_expected(99, 100) == "99/100"
    assert fmt.found_of_expected(None, 100) == "-/100"


def test_facts() -> None:
    assert fmt.fact_row("memory_bytes", 8_300_000_000) == ("memory", "8.3 GB")
    assert fmt.fact_row("as_published", value=False) == ("as published", "no")
    assert fmt.fact_row("tables", 200_000) == ("tables", "200,000")
    assert fmt.fact_row("template", None) == ("template", "-")


def test_what_to_do_is_said_once_for_all_that_it_helps_against() -> None:
    slow = [a_run(number, ("5.7.22", "cold"), seconds) for number, seconds in enumerate((55.0, 18.0, 17.0, 18.0), 1)]
    others = [replace(run, number=10 + run.number, variant="warm") for run in slow]
    (table,) = findings_tables(a_session((*slow, *others)))
    hints = [text for _, text in table.rows if "->" in text]
    assert len(hints) == len(set(hints)) < len(table.rows)
    first, second, hint = table.rows[:3]
    assert (first[0], second[0], hint[0]) == ("5.7.22 cold", "5.7.22 warm", "")
    assert hint[1].startswith("-> ")
    assert all(len(line) <= WIDTH for line in render_table(table).splitlines())
