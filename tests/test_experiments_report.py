"""Are the reports of all experiments made from what is stored, well-formed, narrow, and safe?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from at_work import OLD, interference
from everything import HOSTILE
from journeys import SESSIONS, journey, stored
from test_report_page import Read

from recovery.cli.main import run
from recovery.cli.suite_published import Answer, ClaimVerdict, publications
from recovery.cli.suite_report import (
    RECORD_FILE,
    SUITE_PAGE,
    RatioAxis,
    ratio_bars,
    read_suite,
    save_suite,
    write_suite_reports,
)
from recovery.report.stored_session import REPORT_FILE


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("results"), *SESSIONS)


def test_the_page_is_well_formed_and_fetches_nothing(whole: Path) -> None:
    written = (whole / SUITE_PAGE).read_text()
    page = Read(written)
    assert max(page.ids.values()) == 1
    assert set(page.labels) <= set(page.ids)
    assert {"script", "link", "iframe", "img"} & set(page.tags) == set()
    assert page.tags["h1"] == page.tags["style"] == 1
    assert page.headings == [1, 2, *page.headings[2:]]
    assert page.tags["table"] == page.tags["caption"] > 5
    assert page.tags["svg"] >= 4, "a chart where there are ratios"
    for one in publications():
        assert f'<section id="{one.name}"' in written
        assert f'href="../20261121T200000Z-{one.name}/report.html"' in written


def test_published_figures_stand_beside_ours(whole: Path) -> None:
    for name in (SUITE_PAGE, "report.txt", "report.md"):
        told = " ".join((whole / name).read_text().split())
        assert "57 min 46 s" in told
        assert "Shows here, as much as was published: 0.83" in told
        assert "+270 % and +182 % from 5.6.5" in told
        assert "had 12 CPUs, here there were 4" in told


def test_each_question_has_its_answer_its_figures_and_its_own_charts(whole: Path) -> None:
    written = (whole / SUITE_PAGE).read_text()
    parts = {one.name: written.split(f'<section id="{one.name}"')[1].split("</section>")[0] for one in publications()}
    for told in parts.values():
        assert '<p class="answer">Of ' in told
        assert "Figures of this host" in told
        assert "<figcaption>" in told.split("Measured here</h3>")[1], "a chart of its own"
    assert "Second by second" in parts["interference"]
    assert "2 more of them over time" not in parts["interference"]
    assert "4 more of them over time" in parts["interference"], "one of each version is open"
    assert "mean load misses/s" in parts["interference"], "what is claimed of them stands beside the queries"
    assert "Second by second" not in parts["table-cache"]


def test_effects_that_lack_runs_alone_share_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SESSIONS, "interference", lambda: interference(caches=("400",), runs=1))
    folder = stored(tmp_path, "interference")
    told = " ".join((folder / "report.txt").read_text().split())
    assert told.count("Cannot be told from so few runs") == 1
    assert "3 effects: Cannot be told from so few runs, without an interval" in told
    assert "1 shows, 3 cannot be told from so few runs." in told
    assert "1,300 load misses/s from" in told


def test_text_is_narrow_and_plain(whole: Path) -> None:
    text = (whole / "report.txt").read_bytes().decode("ascii")
    assert max(map(len, text.splitlines())) <= 78
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_all_of_it_is_in_json(whole: Path) -> None:
    found = json.loads((whole / RECORD_FILE).read_text())
    assert found["format"] == 1
    assert [step["name"] for step in found["steps"]] == list(SESSIONS)
    polled = next(step for step in found["steps"] if step["name"] == "interference")
    assert polled["published"]["host"] == "12 CPUs, 12 GB"
    shown = polled["answers"][0]
    assert shown["word"] == "shows"
    assert shown["published"] == pytest.approx(0.8306, abs=1e-4)
    assert shown["ours"] == pytest.approx(0.831, abs=1e-3)
    assert {one["version"] for one in polled["measures"]} == {"5.7.22", "8.0.31"}
    assert read_suite(whole) == journey(*read_suite(whole).steps)


def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    folder = stored(tmp_path, "interference")
    for name in (SUITE_PAGE, "report.txt", "report.md"):
        told = " ".join((folder / name).read_text().split())
        assert told.count("its smallest scale takes about 9 minutes") >= 4
    drawn = {one.name for one in publications() if f"ratios-{one.name}" in (folder / SUITE_PAGE).read_text()}
    assert drawn == {"interference"}


def test_it_is_made_again_from_what_is_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored(tmp_path, "interference")
    before = (folder / SUITE_PAGE).read_text()
    (folder / SUITE_PAGE).unlink()
    assert run(["experiments", "--report", str(folder)]) == 0
    assert (folder / SUITE_PAGE).read_text() == before
    assert "E3 Questions to information_schema under load: of 10 published effects" in capsys.readouterr().out
    (tmp_path / "20261121T200000Z-interference" / REPORT_FILE).unlink()
    assert run(["experiments", "--report", str(folder)]) == 0
    assert "there is no session in" in (folder / "report.txt").read_text().replace("\n", " ")


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
    assert "there is no session in" in (folder / "report.txt").read_text().replace("\n", " ")


def test_what_comes_from_outside_is_text(tmp_path: Path) -> None:
    folder = stored(tmp_path, "interference", text=HOSTILE)
    written = (folder / SUITE_PAGE).read_text()
    assert "<script" not in written.lower()
    Read(written)
    assert "<script" not in (folder / "report.md").read_text().split("```")[0].lower()


def an_answer(published: float | None, ours: float | None, error: float | None = 0.01) -> Answer:
    interval = None if ours is None or error is None else (ours - error, ours + error)
    return Answer("x", ClaimVerdict.SHOWS, "x", OLD, published, str(published), ours, error, interval=interval)


def test_half_and_twice_are_as_far_from_one() -> None:
    axis = RatioAxis(0.25, 4.0)
    assert axis.at(2) - axis.at(1) == pytest.approx(axis.at(1) - axis.at(0.5))
    assert axis.at(1000) == axis.at(4), "what lies outside ends at the edge"
    assert RatioAxis(0.7, 1.3).ticks() == (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
    assert RatioAxis(0.5, 300).ticks() == (1.0, 10.0, 100.0)
    assert 1.0 in RatioAxis(0.4, 9).ticks()


def test_one_far_from_all_that_was_published_is_left_to_the_table() -> None:
    far = an_answer(None, 201.0)
    chart = ratio_bars([an_answer(0.83, 0.9), an_answer(1.0, 1.0), far], "k")
    assert chart is not None
    assert chart.svg.count('class="bar v0"') == 2
    assert "too far from the others" in chart.notes[-1]
    alone = ratio_bars([far], "k")
    assert alone is not None
    assert len(alone.notes) == 1


def test_a_bar_for_each_and_none_where_there_is_nothing() -> None:
    chart = ratio_bars([an_answer(30.1, 12.0), an_answer(0.83, 0.9), an_answer(None, 0.9, None)], "k")
    assert chart is not None
    assert chart.svg.count('class="bar v0"') == 3
    assert chart.svg.count('class="bar v6"') == 2
    assert chart.svg.count('class="whisker"') == 2 * 3
    assert ratio_bars([an_answer(30.1, None)], "k") is None
    assert ratio_bars([replace(an_answer(1.0, 1.0), is_ratio=False)], "k") is None
