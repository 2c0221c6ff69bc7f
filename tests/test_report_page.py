"""Is the page well-formed, does it show all there is, and is what comes from outside text to it, and nothing else?"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from everything import FOLDED, HOSTILE, a_session, everything, growing, with_in_every_text

from recovery.analysis.summary import measured_runs_by_cell
from recovery.cli.main import run
from recovery.model import Session
from recovery.report.fmt import exact_axis, rounded_axis
from recovery.report.html.growth_charts import growth_charts
from recovery.report.html.page import PAGE, render
from recovery.report.html.read_charts import floor_chart
from recovery.report.html.svg import flame_graph
from recovery.report.html.timelines import rates
from recovery.report.stored_session import REPORT_FILE, load_session
from recovery.report.write import write_reports

ROOT = Path(__file__).parent.parent
STORED = ROOT / "fixtures" / "sessions" / "three-versions"
_VOID = {"meta", "link", "br", "hr", "img", "input"}


class Read(HTMLParser):
    """What a page consists of; a tag that closes another than the open one is an error."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: Counter[str] = Counter()
        self.tags: Counter[str] = Counter()
        self.headings: list[int] = []
        self.labels: list[str] = []
        self.names: set[str] = set()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        assert len(given) == len(attrs), f"twice in {tag}: {attrs}"
        self.names |= set(given)
        self.tags[tag] += 1
        self.ids.update([given["id"]] if "id" in given else [])
        self.labels += given.get("aria-labelledby", "").split()
        self.labels += [given["href"][1:]] if given.get("href", "").startswith("#") else []
        self.labels += re.findall(r"url\(#([^)]+)\)", given.get("fill", ""))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def pictures(session: Session) -> dict[int, str]:
    return {run.number: flame_graph(f"run {run.version}", FOLDED, ("redo scan",)) for run in session.runs if run.stacks}


SESSIONS = {
    "everything": everything(),
    "growing": growing(),
    "predicted": growing(100_000),
    "predicted far": growing(1_000_000),
    "no runs": a_session(()),
    "one run": a_session(everything().runs[:1]),
    "hostile": with_in_every_text(everything(), HOSTILE),
    "hostile points": replace(growing(), settings={"points": f"1000 {HOSTILE} 50000"}),
}


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_it_is_well_formed_and_every_label_exists(session: Session) -> None:
    page = Read(render(session, pictures(session)))
    assert [name for name, times in page.ids.items() if times > 1] == []
    assert set(page.labels) <= set(page.ids)
    assert page.tags["h1"] == 1
    assert page.headings[0] == 1
    deeper = [(before, after) for before, after in zip(page.headings, page.headings[1:], strict=False)]
    assert all(after <= before + 1 for before, after in deeper), "no heading leaves a level out"
    assert page.tags["table"] == page.tags["caption"]


def test_nothing_from_outside_becomes_markup() -> None:
    plain, session = everything(), with_in_every_text(everything(), HOSTILE)
    hostile_chain = {tuple(name + HOSTILE for name in names): count for names, count in FOLDED.items()}
    drawings = {92: flame_graph(f"run{HOSTILE}", hostile_chain, ("redo scan",))}
    written = render(session, drawings)
    page, harmless = Read(written), Read(render(plain, pictures(plain)))
    assert "<script" not in written.lower()
    assert page.tags["img"] == page.tags["script"] == 0
    assert not any(name.startswith("on") for name in page.names)
    assert page.names == harmless.names
    # As text it is there, in whatever there is to say: versions, variants, notes, chains, settings, servers.
    assert sum("<script>alert(1)</script>\"'&" in text for text in page.texts) > 100
    for said in ("io2, 5000 IOPS", "it did not come back", "fil_ibd_open", "AMD EPYC", "@innodb_flush", "--tables"):
        assert any(said in text and "<script>" in text for text in page.texts), said


def test_one_style_and_a_policy_that_lets_nothing_in() -> None:
    written = render(everything(), pictures(everything()))
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in written
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+[^\s\"')<]*", written))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert Read(written).tags["style"] == 1


def test_old_sessions_are_shown(stored_session: Path, tmp_path: Path) -> None:
    shutil.copy(stored_session / REPORT_FILE, tmp_path / REPORT_FILE)
    assert tmp_path / PAGE in write_reports(tmp_path)
    page = Read((tmp_path / PAGE).read_text())
    assert page.tags["svg"] > 0
    for written in (page.texts, *((tmp_path / name).read_text() for name in ("report.txt", "report.md"))):
        assert "Every run" in written


def test_where_it_lies_and_what_is_in_it_are_not_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--format", "html"], ["--json"]):
        assert run(["report", str(STORED), *words, "--html"]) == 2
        assert "leave one of them out" in capsys.readouterr().err


def test_the_command_tells_where_it_lies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(STORED / REPORT_FILE, tmp_path / REPORT_FILE)
    assert run(["report", str(tmp_path), "--html"]) == 2
    assert "`recovery report SESSION --write` writes it" in capsys.readouterr().err
    assert run(["report", str(tmp_path), "--html", "--write"]) == 0
    told = Path(capsys.readouterr().out.strip())
    assert told == tmp_path.resolve() / PAGE
    assert told.read_text().startswith("<!DOCTYPE html>")


def test_all_that_was_taken_is_drawn() -> None:
    ids = Read(render(everything(), pictures(everything()))).ids
    drawn = {"bars-1", "phases-chart", "reads-chart", "floor-chart", "timeline-1", "flame-92"}
    assert {f"{name}-title" for name in drawn - {"flame-92"}} <= set(ids)
    assert {"touched", "stacks", "over-time", "runs", "measured-on", "repeat"} <= set(ids)
    few = set(Read(render(a_session(tuple(replace(run, timeline=None) for run in everything().runs[:2])))).ids)
    assert not {"over-time", "stacks", "floor", "growth"} & few


def test_the_mean_is_the_one_location_that_a_chart_shows() -> None:
    cells = len(measured_runs_by_cell(everything()))
    written = render(everything(), pictures(everything()))
    assert len(re.findall(r">mean [\d.]+ s<", written)) == cells
    assert "median" not in written.split("</figure>")[0]


def test_who_does_not_read_every_file_has_no_bar_over_the_floor() -> None:
    chart = floor_chart(everything())
    assert chart is not None
    assert "mariadb" not in chart.svg
    assert chart.svg.count('class="bar') == 4
    assert chart.notes == ("No floor for mariadb-10.11.5 cold: it does not read every file, or it was shorter.",)
    (floor, *_) = everything().floors
    assert floor_chart(replace(everything(), floors=(replace(floor, many_threads_s=900.0),))) is None


def test_a_prediction_that_fails_its_test_is_not_drawn() -> None:
    session = growing(1_000_000)
    bent = [replace(run, startup_s=2 * (run.startup_s or 0)) if run.tables == 50_000 else run for run in session.runs]
    (_, straight) = growth_charts(session)
    assert "whisker" in straight.svg
    assert len(growth_charts(replace(session, runs=tuple(bent)))) == 1


def test_a_piecewise_prediction_is_drawn_without_an_interval(kept_sessions: Path) -> None:
    growth, predicted = growth_charts(load_session(kept_sessions / "2026-11-21-scale"))
    assert "452.1 s" in predicted.svg
    assert "5.7.22 cold, tested: 200,000 tables took +6%" in predicted.svg
    assert "8.0.31" not in predicted.svg
    assert "whisker" not in predicted.svg
    assert growth.svg.count('class="series s0"') == 4, "from point to point"


def test_a_prediction_far_away_has_a_chart_of_its_own_alone() -> None:
    near, far = (Read(render(growing(tables))) for tables in (100_000, 1_000_000))
    assert "predicted-chart-title" in far.ids
    assert any("s predicted for 100,000 tables" in text for text in near.texts)
    assert not any("s predicted for 1,000,000 tables" in text for text in far.texts)


@pytest.mark.parametrize(
    ("most", "end", "ticks"), [(55.4, 60, 7), (100, 100, 5), (200_000, 200_000, 5), (0.69, 0.8, 5), (0, 4, 5)]
)
def test_axes_end_at_round_numbers(most: float, end: float, ticks: int) -> None:
    found = rounded_axis(most)
    assert found.maximum == pytest.approx(end)
    assert len(found.ticks()) == ticks
    assert found.at(found.ticks()[-1]) == pytest.approx(100)


def test_an_exact_axis_ends_with_its_values() -> None:
    found = exact_axis(43.5)
    assert found.maximum == 43.5
    assert found.ticks() == (0, 10, 20, 30, 40)


def test_rates_are_between_looks() -> None:
    assert rates((1.0, 2.0, 4.0), (5, 10, 30)) == [(0, 1, 5), (1, 2, 5), (2, 4, 10)]
    assert rates((1.0, 1.0), (5, 5)) == [(0, 1, 5)]
    assert rates((1.0, 2.0), ()) == []
    many = rates([0.2 * look for look in range(1, 5000)], [float(look) for look in range(1, 5000)])
    assert len(many) < 300
    assert many[-1][1] == pytest.approx(0.2 * 4999)
