"""Points, line, prediction and picture, out of a stored session; and nothing of it where one number was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from recovery.analysis.growth import growth_curves
from recovery.model import Run, Session, Verdict
from recovery.report.startup_tables import scale_tables
from recovery.report.stored_session import load_session, to_json
from recovery.report.summary_text import answers
from recovery.report.text import WIDTH, render

FIXTURE = Path(__file__).parent.parent / "fixtures" / "sessions" / "three-versions"
PLAIN = load_session(FIXTURE)
POINTS = (1_000, 10_000, 50_000)


def grown(*, predict: int | None = None) -> Session:
    """Of two versions: 2 s and 0.3 ms a table, and 1 s alone; three runs each."""
    runs: list[Run] = []
    for version, per_table_s, fixed_s in (("5.7.22", 0.0003, 2.0), ("mariadb-10.11.5", 0.0, 1.0)):
        for tables in POINTS:
            for repeat, share in enumerate((0.99, 1.0, 1.01), start=1):
                number, startup_s = len(runs) + 1, share * (fixed_s + per_table_s * tables)
                threads = tables // 8000 + 1 if version == "5.7.22" else None
                name = f"cold-{tables}"
                run = Run(number, version, "mysql", name, repeat, Verdict.MEASURED, startup_s=startup_s, tables=tables)
                runs.append(replace(run, scan_threads=threads))
    settings = PLAIN.settings | {"points": "1000 10000 50000", "predict": predict}
    return replace(
        PLAIN,
        runs=tuple(runs),
        versions=("5.7.22", "mariadb-10.11.5"),
        variants=tuple(f"cold-{tables}" for tables in POINTS),
        settings=settings,
    )


def test_one_number_of_tables_makes_no_curve() -> None:
    assert growth_curves(PLAIN) == ()
    assert scale_tables(PLAIN) == ()
    assert json.loads(to_json(PLAIN))["fits"] == []


def test_every_point_and_the_line() -> None:
    growth, forms, _ = scale_tables(grown())
    rows = [dict(zip(growth.headers, row, strict=True)) for row in growth.rows]
    assert [row["tables"] for row in rows[:3]] == ["1,000", "10,000", "50,000"]
    assert [row["threads"] for row in rows] == ["1", "2", "7", "-", "-", "-"]
    assert rows[2]["mean"] == "17.00"
    assert rows[2]["ms a table"] == "0.340"
    assert [row["ms added"] for row in rows[:3]] == ["-", "0.300", "0.300"]
    assert rows[2]["off line"] == "+0%"
    assert forms.rows[0][:5] == ("5.7.22", "cold", "straight line", "1", "2.00")
    assert forms.rows[0][6] == "0.3000"


def test_the_largest_point_is_held_against_the_others() -> None:
    *_, tested = scale_tables(grown())
    row = dict(zip(tested.headers, tested.rows[0], strict=True))
    assert (row["tables"], row["predicted"], row["measured"], row["off"]) == ("50,000", "17.00", "17.00", "+0%")
    low, _, high = row["interval"].partition("-")
    assert 15 < float(low) < 17 < float(high) < 19
    assert row["within"] == "3/3"
    stored = json.loads(to_json(grown()))["fits"][0]["held_out"]
    assert (stored["tables"], stored["runs"], stored["inside"]) == (50_000, 3, 3)


def bent(*, predict: int | None = None) -> Session:
    """The largest point takes twice as long as the line says."""
    session = grown(predict=predict)
    runs = tuple(
        replace(run, startup_s=2 * (run.startup_s or 0)) if run.variant == "cold-50000" else run for run in session.runs
    )
    return replace(session, runs=runs)


def test_a_bend_is_seen() -> None:
    _, forms, tested, predicted = scale_tables(bent(predict=1_000_000))
    row = dict(zip(tested.headers, tested.rows[0], strict=True))
    assert (row["off"], row["within"]) == ("+100%", "0/3")
    assert forms.rows[0][2] == "piecewise"
    assert forms.rows[0][4:] == ("-", "-", "0.7250", "-")
    row = dict(zip(predicted.headers, predicted.rows[0], strict=True))
    assert (row["seconds"], row["interval"]) == ("722.8", "-"), "an interval would assume the line that is rejected"
    assert (row["off at the largest point"], row["used"]) == ("+100%", "no")
    first = json.loads(to_json(bent(predict=1_000_000)))["fits"][0]
    assert (first["form"], first["predicted"]["used"], first["predicted"]["low_s"]) == ("piecewise", False, None)
    assert first["lack_of_fit_p"] < 1e-6
    assert first["held_out"]["off"] == pytest.approx(1.0)


def test_two_points_hold_nothing_out() -> None:
    session = grown(predict=1_000_000)
    runs = tuple(run for run in session.runs if run.variant != "cold-10000")
    growth, forms, predicted = scale_tables(replace(session, runs=runs))
    both = "5.7.22 cold, mariadb-10.11.5 cold"
    assert f"{both}: the test of its fit needs at least 3 numbers of tables, one of them with 2 runs." in growth.notes
    assert f"{both}: the test of a prediction needs at least 2 smaller numbers of tables and 4 runs." in growth.notes
    assert forms.rows[0][2:4] == ("straight line", "not tested")
    assert predicted.rows[0][-1] == "not tested"


def test_what_a_line_needs_is_said() -> None:
    session = grown(predict=1_000_000)
    runs = tuple(run for run in session.runs if run.repeat == 1)
    (growth, *more) = scale_tables(replace(session, runs=runs))
    assert more == [], "a table of dashes"
    assert growth.notes[-1] == (
        "5.7.22 cold, mariadb-10.11.5 cold: a line needs at least 2 numbers of tables and 4 runs."
    )
    assert answers(replace(session, runs=runs))[0].endswith("; a line needs at least 2 numbers of tables and 4 runs.")


def test_a_prediction_with_its_interval() -> None:
    *_, predicted = scale_tables(grown(predict=1_000_000))
    row = dict(zip(predicted.headers, predicted.rows[0], strict=True))
    assert (row["seconds"], row["used"]) == ("302.0", "yes")
    low, _, high = row["interval"].partition("-")
    assert 290 < float(low) < 302 < float(high) < 315
    (first, _) = json.loads(to_json(grown(predict=1_000_000)))["fits"]
    assert first["predicted"]["tables"] == 1_000_000
    assert first["predicted"]["seconds"] == pytest.approx(302.0)
    assert first["predicted"]["used"] is True


def test_the_page_stays_narrow() -> None:
    assert max(map(len, render(grown(predict=1_000_000)).splitlines())) <= WIDTH
