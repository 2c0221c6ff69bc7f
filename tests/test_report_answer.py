"""Is the answer what was measured, no more, and in one sentence a version?"""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from everything import a_run, a_session, everything, growing
from rich.console import Console

from recovery.model import Phase, ReadFloor, Run, Verdict
from recovery.report.console import render as console
from recovery.report.html.read_charts import floor_chart
from recovery.report.markdown import render as markdown
from recovery.report.startup_tables import floor_table
from recovery.report.stored_session import load_session
from recovery.report.summary_text import answers, seconds_with_error
from recovery.report.text import render as text


def of(*runs: Run) -> str:
    (answer,) = answers(a_session(runs))
    return answer


def untraced(run: Run) -> Run:
    none = dict.fromkeys(("tablespaces_opened", "tablespaces_modified", "tablespaces_read", "opened_unmodified"))
    return replace(run, **none)  # type: ignore[arg-type]


COLD = a_run(1, ("5.7.22", "cold"), 41.0)
WARM = a_run(2, ("5.7.22", "warm"), 6.2)


def test_cold_and_warm_with_what_was_traced() -> None:
    assert of(COLD, WARM) == (
        "5.7.22 needs 41.0 s cold; 6.20 s warm (200,000 tables). Cold: 36.5 s validation; 200,000 tablespaces opened, "
        "100 of them modified."
    )


def test_without_a_trace_only_the_tables_are_known() -> None:
    assert of(untraced(COLD)) == "5.7.22 needs 41.0 s cold (200,000 tables). Cold: 36.5 s validation."


def test_without_phases() -> None:
    assert of(replace(untraced(COLD), phases=())) == "5.7.22 needs 41.0 s cold (200,000 tables)."
    assert of(replace(untraced(COLD), phases=(Phase("validation", 0, 0),))).endswith("(200,000 tables).")


def test_a_server_that_opens_and_does_not_read() -> None:
    run = a_run(1, ("mariadb-10.11.5", "cold"), 4.0)
    assert "200,000 tablespaces opened, 100 of them modified, 100 read" in of(run)
    assert " read" not in of(COLD)


def test_only_void_and_failed() -> None:
    void = replace(COLD, verdict=Verdict.VOID, reason="somebody else killed it.")
    assert of(void) == "5.7.22: nothing was measured (1 void run): somebody else killed it."
    failed = replace(void, number=2, verdict=Verdict.FAILED)
    assert "(1 failed run, 1 void run)" in of(void, failed)
    assert of(COLD, failed).endswith("Not counted: 1 failed run.")
    assert of(replace(COLD, verdict=Verdict.SAMPLED)).startswith("5.7.22: only sampled runs")
    assert answers(a_session(())) == ("5.7.22: nothing was measured.",)


def test_a_wide_spread_is_told_by_its_mean_and_interval_as_any_other() -> None:
    runs = [a_run(number, ("5.7.22", "cold"), seconds) for number, seconds in enumerate((17.0, 18.0, 55.0), 1)]
    answer = of(*runs)
    assert answer.startswith("5.7.22 needs 30.0 +- 53.8 s cold (200,000 tables). Cold: 26.7 s validation")


def test_many_versions_have_a_sentence_each_and_the_floor_is_held_against() -> None:
    told = answers(everything())
    assert [sentence.split()[0] for sentence in told] == ["5.7.22", "8.0.31", "mariadb-10.11.5"]
    assert all("the 6.90 s that 16 threads need to read a page of each file" in sentence for sentence in told)
    assert "6.3 times" in told[0]
    assert "; less than the 6.90 s that 16" in told[2]
    assert told[2].endswith("each file, because it does not read every file.")


def test_the_floor_is_none_for_who_reads_less() -> None:
    floor = ReadFloor("5.7.22", ("cold",), 200_000, 60.0, 50.0, 16, 2.5)
    (told,) = answers(a_session((untraced(COLD),), floors=(floor,)))
    assert "threads" not in told, "one run has no interval"
    (told,) = answers(a_session(tuple(replace(untraced(COLD), number=each) for each in (1, 2, 3)), floors=(floor,)))
    assert told.endswith("; less than the 50.0 s that 16 threads need to read a page of each file.")
    skips = replace(COLD, tablespaces_read=100)
    assert "16 threads" not in answers(a_session((skips,), floors=(replace(floor, many_threads_s=4.0),)))[0]


def test_answer_floor_table_and_page_have_one_mean() -> None:
    runs = tuple(a_run(number, ("5.7.22", "cold"), seconds) for number, seconds in enumerate((17.0, 18.0, 19.0), 1))
    session = a_session(runs, floors=(ReadFloor("5.7.22", ("cold",), 200_000, 9.0, 2.0, 16, 2.5),))
    table, chart = floor_table(session), floor_chart(session)
    assert table is not None
    assert chart is not None
    assert "; 9.0 times the 2.00 s" in answers(session)[0]
    assert table.rows[0][-3:] == ("18.00", "2.00", "9.00")
    assert "9.00 \u00d7 16 threads" in chart.svg


def test_many_variants_are_cut_short() -> None:
    runs = [a_run(number, ("5.7.22", f"cold-{number}"), 10.0 * number) for number in range(1, 9)]
    assert of(*runs).startswith("5.7.22 needs 10.0 s cold-1; 20.0 s cold-2; ")
    assert "60.0 s cold-6; and 2 more in the tables (" in of(*runs)


def test_growth_is_told_by_its_line_and_its_prediction() -> None:
    told = answers(growing(1_000_000))
    assert told[0].startswith(
        "5.7.22 needs 16.5 +- 0.4 s cold with 50,000 tables; a straight line fits: 1.22 s and 0.306 ms"
    )
    assert ", and so 307 s (300 s to 315 s) with 1,000,000 (tested at 50,000: 16.5 s measured, " in told[0]
    assert "1,000,000" not in answers(growing())[0]


def test_what_no_straight_line_fits_is_predicted_piecewise_with_its_error(kept_sessions: Path) -> None:
    kept, other = answers(load_session(kept_sessions / "2026-11-21-scale"))
    assert kept.endswith(
        "; no straight line fits: from 50,000 tables on, each adds 0.455 ms, and so 452 s with 1,000,000 "
        "(tested at 200,000: 88.5 s measured, 6% above its prediction)."
    )
    assert other.endswith("no prediction for 1,000,000 (tested at 200,000: 126 s measured, 41% above its prediction).")


@pytest.mark.parametrize(("share", "side"), [(1.5, "above"), (0.5, "below")])
def test_a_largest_point_far_off_leaves_no_prediction(share: float, side: str) -> None:
    session = growing(1_000_000)
    runs = [
        replace(run, startup_s=share * (run.startup_s or 0)) if run.tables == 50_000 else run for run in session.runs
    ]
    (about_it, *_) = answers(replace(session, runs=tuple(runs)))
    assert re.search(rf"; no prediction for 1,000,000 \(.*, 50% {side} its prediction\)\.$", about_it)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.694, "0.69 s"), (9.996, "10.0 s"), (41.04, "41.0 s"), (99.96, "100 s"), (412.4, "412 s")]
)
def test_three_figures(seconds: float, said: str) -> None:
    assert seconds_with_error(seconds) == said


def test_every_report_has_the_answer() -> None:
    session = a_session((COLD, WARM))
    printed = StringIO()
    console(session, Console(file=printed, width=200))
    for report in (text(session), markdown(session), printed.getvalue()):
        assert "36.5 s validation; 200,000 tablespaces opened, 100 of them modified." in " ".join(report.split())
