"""Tests that the page of all experiments is made from what is stored, well-formed, complete and safe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from at_work import interference
from everything import HOSTILE
from suite_runs import FAILURE, SESSIONS, stored, suite_record
from test_report_page import Read

from recovery.cli.main import run
from recovery.cli.suite_published import FEW_RUNS, publications
from recovery.cli.suite_report import (
    RECORD_FILE,
    SUITE_MARKDOWN,
    SUITE_PAGE,
    read_suite,
    save_suite,
    short_duration_text,
    write_suite_reports,
)
from recovery.report.stored_session import REPORT_FILE


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("results"), *SESSIONS)


def words(path: Path) -> str:
    return " ".join(path.read_text().split())


def test_the_page_is_well_formed_and_fetches_nothing(whole: Path) -> None:
    written = (whole / SUITE_PAGE).read_text()
    page = Read(written)
    assert max(page.ids.values()) == 1
    assert set(page.labels) <= set(page.ids)
    assert {"script", "link", "iframe", "img"} & set(page.tags) == set()
    assert page.tags["h1"] == page.tags["style"] == 1
    assert page.headings == [1, 2, *page.headings[2:]]
    assert page.tags["table"] == page.tags["caption"] > 10
    for one in publications():
        assert f'<section id="{one.name}"' in written
        assert f'href="../20261121T200000Z-{one.name}/report.html"' in written


@pytest.mark.parametrize("name", [SUITE_PAGE, SUITE_MARKDOWN])
def test_published_figures_stand_beside_ours(whole: Path, name: str) -> None:
    text = words(whole / name)
    assert "57 min 46 s" in text
    assert "Figures of this host" in text
    assert "5.7: queries/s with the loop over without" in text
    assert "does not reproduce" in text
    assert "+270 % and +182 % from 5.6.5" in text
    assert "had 12 CPUs, here there were 4" in text
    assert "/report.html" in text


def test_each_question_has_its_answer_and_its_figures(whole: Path) -> None:
    written = (whole / SUITE_PAGE).read_text()
    for one in publications():
        section = written.split(f'<section id="{one.name}"')[1].split("</section>")[0]
        assert "Published and here" in section
        assert "Figures of this host" in section
        assert f"recovery {one.name} --runs 3" in section


def test_answers_without_enough_runs_share_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SESSIONS, "interference", lambda: interference(caches=("400",), runs=1))
    folder = stored(tmp_path, "interference")
    text = words(folder / SUITE_MARKDOWN)
    assert text.count(FEW_RUNS) == 1
    assert "4 published effects: 1 holds, 3 inconclusive." in text
    assert "1,300 load misses/s against" in text


def test_all_of_it_is_in_json(whole: Path) -> None:
    found = json.loads((whole / RECORD_FILE).read_text())
    assert found["format"] == 1
    assert found["scale"] == "standard"
    assert [step["name"] for step in found["steps"]] == list(SESSIONS)
    polled = next(step for step in found["steps"] if step["name"] == "interference")
    assert polled["published"]["host"] == "12 CPUs, 12 GB"
    shown = polled["answers"][0]
    assert shown["verdict"] == "holds"
    assert shown["published"] == pytest.approx(0.8306, abs=1e-4)
    assert shown["ours"] == pytest.approx(0.831, abs=1e-3)
    assert {one["version"] for one in polled["measures"]} == {"5.7.22", "8.0.31"}
    assert read_suite(whole) == suite_record(*read_suite(whole).steps)


def test_a_failure_is_on_the_page(tmp_path: Path) -> None:
    folder = stored(tmp_path, "interference")
    for name in (SUITE_PAGE, SUITE_MARKDOWN):
        assert words(folder / name).count(f"not measured: {FAILURE}.") >= 4


def test_reports_are_made_again_from_what_is_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored(tmp_path, "interference")
    before = (folder / SUITE_PAGE).read_text()
    (folder / SUITE_PAGE).unlink()
    assert run(["experiments", "--report", str(folder)]) == 0
    assert (folder / SUITE_PAGE).read_text() == before
    assert "E3 information_schema queries under load: 10 published effects" in capsys.readouterr().out
    (tmp_path / "20261121T200000Z-interference" / REPORT_FILE).unlink()
    assert run(["experiments", "--report", str(folder)]) == 0
    assert "there is no session in" in words(folder / SUITE_PAGE)


def test_a_record_of_an_older_version_is_read(tmp_path: Path) -> None:
    folder = stored(tmp_path, "interference")
    record = json.loads((folder / RECORD_FILE).read_text())
    del record["scale"]
    record["budget_s"] = 1800.0
    record["steps"][0] |= {"command": None, "left_out": "the budget has no room", "error": None}
    (folder / RECORD_FILE).write_text(json.dumps(record))
    assert run(["experiments", "--report", str(folder)]) == 0
    assert "E1 Crash recovery with 200,000 tables</a>: not measured yet." in (folder / SUITE_PAGE).read_text()


def test_no_experiments_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiments", "--report", str(tmp_path)]) == 2
    assert "there are no experiments in" in capsys.readouterr().err
    (tmp_path / RECORD_FILE).write_text('{"format": 2}')
    assert run(["experiments", "--report", str(tmp_path)]) == 1
    assert "newer version" in capsys.readouterr().err
    (tmp_path / RECORD_FILE).write_text('{"format": 1}')
    assert run(["experiments", "--report", str(tmp_path)]) == 1
    assert "is damaged" in capsys.readouterr().err


def test_a_session_is_looked_for_beside_it_alone(tmp_path: Path) -> None:
    folder = stored(tmp_path / "results", "metadata")
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "results" / "20261121T200000Z-metadata").rename(elsewhere)
    found = read_suite(folder)
    save_suite(replace(found, steps=tuple(replace(one, session="../../elsewhere") for one in found.steps)), folder)
    write_suite_reports(folder)
    assert "there is no session in" in words(folder / SUITE_MARKDOWN)


def test_what_comes_from_outside_is_text(tmp_path: Path) -> None:
    folder = stored(tmp_path, "interference", text=HOSTILE)
    written = (folder / SUITE_PAGE).read_text()
    assert "<script" not in written.lower()
    Read(written)
    assert "<script" not in (folder / SUITE_MARKDOWN).read_text().split("```")[0].lower()


def test_short_durations_are_in_seconds() -> None:
    assert [short_duration_text(one) for one in (5, 119, 130, 7200)] == ["5 s", "119 s", "2 minutes", "2.0 hours"]
