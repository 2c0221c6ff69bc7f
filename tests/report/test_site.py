"""The pages about all sessions of a results folder: complete, well-formed, without requests, and safe."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from itertools import permutations
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from html_page import HtmlPage, check_page, without_whole
from otherusers import NOBODY, everybodys_folder, needs_root

from recovery.analysis.summary import summarise
from recovery.cli.main import run
from recovery.linux.files import template_dir
from recovery.model import Session
from recovery.report import site as site_module
from recovery.report.html.page import GENERATOR, render
from recovery.report.html.site_pages import (
    Site,
    SiteSession,
    mean_over,
    same_measurements,
    session_links,
    site_pages,
    site_session,
)
from recovery.report.published import publications
from recovery.report.site import write_site
from recovery.storage.sessions import REPORT_FILE, load_session

KEPT = (
    "2026-11-25-six-servers",
    "2026-11-26-5.7.22",
    "2026-11-26-8.0.31",
    "2026-11-26-experiments-crash-recovery",
    "2026-11-26-charset",
    "2026-11-22-crash-matrix-inserts",
    "2026-11-27-two-versions-traced",
    "2026-11-28-two-versions",
)
SHORTEN = (Path(__file__).parents[2] / "docs" / "shorten.md").read_text()
"""The pages may lead to addresses of this one."""
QUESTIONS = {"crash-recovery": "How long?", "write-scaling": "How fast?", "crash-matrix": "What is lost?"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, kept_sessions: Path) -> Path:
    folder = tmp_path_factory.mktemp("site") / "results"
    for name in KEPT:
        shutil.copytree(kept_sessions / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def site(results: Path) -> Path:
    out = results.parent / "out"
    written = write_site(results, out, QUESTIONS)
    assert (written.sessions, written.left_out) == (len(KEPT), ())
    assert written.index == out / "index.html"
    return out


def pages(site: Path) -> list[Path]:
    return sorted(site.glob("*.html"))


def text_of(page: Path) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", without_whole(page.read_text()))).split())


def test_there_is_a_page_for_each_session_and_each_question(site: Path) -> None:
    assert {path.stem for path in (site / "sessions").iterdir()} == set(KEPT)
    questions = {f"question-{name}.html" for name in QUESTIONS}
    assert {path.name for path in pages(site)} == {"index.html", "published.html", *questions}
    for path in (site / "sessions").iterdir():
        check_page(path.read_text())


def test_a_session_leads_to_the_index_and_to_its_question_only_on_a_site(site: Path, results: Path) -> None:
    back = '<a href="../index.html">All results</a>'
    for name in KEPT:
        session = load_session(results / name)
        link = f'<a href="../question-{session.experiment}.html">{session.question}</a>'
        written, alone = (site / "sessions" / f"{name}.html").read_text(), render(session)
        assert back in written
        assert f'<p class="question">{link}</p>' in written
        assert f'<p class="question">{session.question}</p>' in alone
        assert 'href="../' not in alone


def test_a_session_leads_to_the_published_claims_if_it_measured_any(site: Path) -> None:
    found = re.compile(r'<a href="\.\./(published\.html)#([a-z-]+)">Do the published effects show here\?</a>')
    published = (site / "published.html").read_text()
    leading = {}
    for path in (site / "sessions").iterdir():
        if link := found.search(path.read_text()):
            leading[path.stem] = link[2]
            assert f'<section id="{link[2]}"' in published
    assert leading["2026-11-26-experiments-crash-recovery"] == "crash-recovery"
    assert "2026-11-22-crash-matrix-inserts" not in leading


def test_experiments_that_ask_one_question_share_its_page(results: Path) -> None:
    session = site_session(KEPT[0], "sessions/one.html", load_session(results / KEPT[0]))
    sessions = session, replace(session, name="other", experiment="cold-recovery")
    questions = {"cold-recovery": "How long?", "crash-recovery": "How long?"}
    assert {session_links(one, questions).question for one in sessions} == {"../question-cold-recovery.html"}
    written = dict(site_pages(Site(sessions, questions, {one.name: () for one in sessions})))
    assert [name for name in written if name.startswith("question-")] == ["question-cold-recovery.html"]
    page = written["question-cold-recovery.html"]
    assert "cold-recovery, crash-recovery: 2 sessions</h1>" in page
    assert {KEPT[0], "other"} <= set(re.findall(r'<a href="sessions/one.html">([^<]+)</a>', page))


def test_an_experiment_of_a_later_version_has_a_page_of_its_own(results: Path) -> None:
    session = site_session(KEPT[0], "sessions/one.html", load_session(results / KEPT[0]))
    later = tuple(replace(session, experiment=name) for name in ("big crash", "other"))
    written = dict(site_pages(Site(later, QUESTIONS, {one.name: () for one in later})))
    for one in later:
        assert one.question in written[session_links(one, QUESTIONS).question.removeprefix("../")]


@pytest.mark.parametrize(
    ("settings", "label", "beside"),
    [
        ({"memory_bytes": 2 << 30}, *["limited to 2 GiB of memory with its page cache"] * 2),
        ({"cpus": 1.0}, *["limited to 1 CPU"] * 2),
        ({"read_iops": 5000}, "limited to 5,000 reads a second", ""),
        ({"read_bps": 100 << 20, "cpus": 2}, "limited to 100 MiB read a second, 2 CPUs", "limited to 2 CPUs"),
        ({"set": "ssl=ON"}, *["ssl=ON"] * 2),
        (
            {"schemas": 100, "set": "innodb_page_size=4k", "columns": 1, "statistics": True},
            *["schemas 100, innodb_page_size=4k, columns 1, statistics"] * 2,
        ),
        ({"as_published": True, "rows": 20_000}, *["rows 20,000, as published"] * 2),
        ({"seconds": None, "layout": "files", "inserts": 100}, "", ""),
    ],
)
def test_settings_are_named_as_in_other_texts(
    settings: dict[str, str | float], label: str, beside: str, results: Path
) -> None:
    session = load_session(results / KEPT[0])
    cell, *_ = site_session("one", "", replace(session, settings={**session.settings, **settings})).cells
    assert (cell.settings, cell.words) == (label, beside)


def test_the_read_ahead_is_named_with_the_server_and_with_the_storage(results: Path) -> None:
    session = load_session(results / KEPT[0])
    host = {**session.environment, "filesystem": "ext4", "device_model": "nvme", "read_ahead_kb": 16}
    found = site_session("one", "", replace(session, environment=host))
    assert found.storage == "ext4, nvme, read-ahead 16 KiB"
    assert (found.cells[0].settings, found.cells[0].words) == ("read-ahead 16 KiB", "")


@pytest.mark.parametrize("name", ["memory_bytes", "read_bps", "read_iops", "cpus", "cpu_set", "set", "columns"])
@pytest.mark.parametrize("value", [0, -1, 1e300, True, "", "x"])
def test_a_damaged_setting_is_no_traceback(name: str, value: str | float, results: Path) -> None:
    session = load_session(results / KEPT[0])
    assert site_session("one", "", replace(session, settings={**session.settings, name: value})).cells


def test_sessions_without_a_host_say_what_that_means(results: Path) -> None:
    session = site_session(KEPT[0], "sessions/one.html", load_session(results / KEPT[0]))
    charts = {session.name: ()}

    def index_of(*hosts: str | None) -> str:
        sessions = tuple(replace(session, host_id=host) for host in hosts)
        return dict(site_pages(Site(sessions, QUESTIONS, charts)))["index.html"]

    assert "In 1 of 2 sessions the host is not recorded, so two of them can differ" in index_of("a", None)
    assert "; 2 hosts</p>" in index_of("a", "b")
    for known in (index_of("a", "b"), index_of(None)):
        assert "the host is not recorded" not in known


def test_the_pages_are_well_formed_and_fetch_nothing(site: Path) -> None:
    for path in pages(site):
        written = path.read_text()
        page = HtmlPage(written)
        assert [name for name, times in page.ids.items() if times > 1] == []
        assert set(page.labels) <= set(page.ids)
        assert page.tags["h1"] == 1
        assert page.tags["table"] == page.tags["caption"] > 0
        assert {"link", "iframe", "img", "form"} & set(page.tags) == set()
        assert not any(name.startswith("on") for name in page.names)
        assert all(one in SHORTEN for one in re.findall(r'(?:src|href)="((?:https?:)?//[^"]*)"', written))
        scripts = re.findall(r"<script>(.*?)</script>", written, re.DOTALL)
        assert scripts == [(template_dir() / name).read_text() for name in ("report.js", "site.js")]
        hashes = [f"'sha256-{b64encode(sha256(one.encode()).digest()).decode()}'" for one in scripts]
        assert f"default-src 'none'; script-src {' '.join(hashes)}; style-src 'unsafe-inline'; img-src data:" in written


def test_every_link_leads_to_a_page(site: Path) -> None:
    for path in pages(site):
        for link in set(re.findall(r'href="([^"#]+)"', path.read_text())):
            assert link in SHORTEN or (site / unquote(unescape(link))).is_file(), f"{link} in {path.name}"


def test_each_session_is_in_the_table_of_results(site: Path) -> None:
    table = re.search(r'<section id="results".*?</section>', (site / "index.html").read_text(), re.DOTALL)
    assert table is not None
    assert set(re.findall(r'href="sessions/([^"]+)\.html"', table[0])) == set(KEPT)
    assert 'data-filters="server,tables,cache,storage,experiment"' in table[0]


def test_no_caption_says_what_another_or_a_heading_says(site: Path) -> None:
    for path in (site / "index.html", *site.glob("question-*.html")):
        shown = re.findall(r"<(?:caption><span id=\S+|h2 [^>]+><a [^>]+)>([^<]+)<", path.read_text())
        assert len(shown) >= 3
        words = [one.lower() for one in shown]
        assert [(one, other) for one, other in permutations(words, 2) if one in other] == []


def test_fewer_than_five_sessions_show_their_means_without_their_first_starts(site: Path) -> None:
    text = text_of(site / "index.html")
    assert "200,000 tables: seconds until ready" in text
    assert "5.7.22 39.5, 46.3, 67.5 and 86.2 s, 4 sessions" in text
    assert "mariadb-10.11.5 3.90, 5.57 and 7.53 s, 3 sessions" in text
    assert "5.7.22: 39.5 to 86.2, 4 sessions" in text.replace("cold 5.7.22 ", "5.7.22: ")
    assert "0.47 s \u00b1 0.11, one session" in text


def test_the_text_beside_each_bar_fits_on_a_phone(site: Path) -> None:
    """The chart is 350 pixels wide there, and a letter 7."""
    for path in (site / "index.html", site / "question-crash-recovery.html"):
        bars = re.findall(r'<text x="([0-9.]+)%"[^>]*class="value"[^>]*>([^<]+)', path.read_text())
        assert len(bars) >= 5
        for share, text in bars:
            assert float(share) * 3.5 + 7 * len(unescape(text)) + 10 <= 350, text


def test_the_means_over_sessions_are_those_of_the_tables_of_results(kept_sessions: Path) -> None:
    published = json.loads((Path(__file__).parents[2] / "docs" / "intervals.json").read_text())["over_sessions"]
    kept = [(path.name, load_session(path)) for path in sorted(kept_sessions.iterdir()) if path.is_dir()]
    sessions = sorted((site_session(name, "", one) for name, one in kept), key=lambda one: one.started_at)
    found = {str(key): measured for key, measured in same_measurements(sessions).items()}
    compared = 0
    for one in published:
        measured = found.get(one["what"])
        if measured is None or sorted(session.name for session, _ in measured) != sorted(one["sessions"]):
            continue  # a ratio, or a session that is not kept
        mean, interval = mean_over(measured)
        assert mean == pytest.approx(one["value"], rel=1e-4)
        if len(measured) >= 5:
            assert interval == pytest.approx((one["low"], one["high"]), rel=1e-4)
        else:
            assert interval is None
        compared += 1
    assert compared >= 5


def test_a_site_that_is_written_again_has_no_page_of_a_removed_session(results: Path, tmp_path: Path) -> None:
    """What the tool did not write stays, and so does a page under a name that the site did not have."""
    for name in KEPT[:3]:
        shutil.copytree(results / name, tmp_path / "results" / name)
    out = tmp_path / "out"
    write_site(tmp_path / "results", out, QUESTIONS)
    removed, replaced = (out / "sessions" / f"{name}.html" for name in KEPT[:2])
    copied = shutil.copy(removed, out / "sessions" / "copied.html")
    replaced.write_text("my own")
    for name in KEPT[:2]:
        shutil.rmtree(tmp_path / "results" / name)
    (out / "mine.html").write_text("my own")
    write_site(tmp_path / "results", out, QUESTIONS)
    assert not removed.exists()
    assert (replaced.read_text(), (out / "mine.html").read_text(), Path(copied).exists()) == ("my own", "my own", True)
    assert (out / "sessions" / f"{KEPT[2]}.html").exists()
    listed = re.findall(r'href="(question-[^"]+)"', (out / "index.html").read_text())
    assert {path.name for path in out.glob("question-*.html")} == set(listed)


def test_data_of_another_site_removes_nothing_outside(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results / KEPT[1], tmp_path / "results" / KEPT[1])
    out, rows = tmp_path / "out", [{"session": "../../precious", "experiment": "x"}, {"session": 1}]
    write_site(tmp_path / "results", out, QUESTIONS)
    precious = Path(shutil.copy(out / "index.html", tmp_path / "precious.html"))
    for content in ({"generator": GENERATOR, "results": rows[:1]}, {"generator": GENERATOR, "results": rows}, "[]"):
        (out / "results.json").write_text(
            f"{json.dumps(content)} {GENERATOR}" if content == "[]" else json.dumps(content)
        )
        write_site(tmp_path / "results", out, QUESTIONS)
        assert precious.exists()


def test_a_question_has_answer_chart_table_and_doubts(site: Path) -> None:
    for name, question in QUESTIONS.items():
        page = site / f"question-{name}.html"
        written = page.read_text()
        for section in ("answer", "most-runs", "results", "doubts"):
            assert f'<section id="{section}"' in written, name
        assert question in text_of(page)
        assert "<svg" in written


def section_of(page: Path, key: str) -> str:
    found = re.search(rf'<section id="{key}".*?</section>', page.read_text(), re.DOTALL)
    assert found is not None
    return found[0]


def test_a_question_quotes_the_session_with_the_most_runs(site: Path) -> None:
    page, link = site / "question-crash-recovery.html", "sessions/2026-11-25-six-servers.html"
    assert f'From the session with the most runs, <a href="{link}">2026-11-25-six-servers</a>:' in page.read_text()
    assert "mariadb-10.11.18 recovers 184 times faster" in text_of(page)
    chart = section_of(page, "most-runs")
    assert "The session with the most runs: 2026-11-25-six-servers" in chart
    assert {"5.6.24", "9.7.4", "mariadb-10.11.18"} <= set(re.findall(r"[a-z]*-?[0-9]+(?:\.[0-9]+){1,2}", chart))


def test_the_quoted_session_is_finished_then_has_most_runs_then_most_tables_then_is_the_newest(results: Path) -> None:
    session = site_session("first", "first.html", load_session(results / KEPT[0]))
    page = f"question-{session.experiment}.html"
    fewer_tables = tuple(replace(cell, tables=10) for cell in session.cells)
    others = (
        replace(session, name="fewer tables", cells=fewer_tables),
        replace(session, name="fewer runs", measured_runs=session.measured_runs - 1),
        replace(session, name="unfinished", measured_runs=session.measured_runs + 1, is_finished=False),
    )

    def quoted(*sessions: SiteSession) -> str:
        return Site(sessions, QUESTIONS, {}).with_most_runs(page).name

    assert quoted(session, *others) == "first"
    assert quoted(session, replace(session, name="newer"), *others) == "newer"
    assert quoted(*others) == "fewer tables"
    assert quoted(others[-1]) == "unfinished"


def test_a_question_about_starts_says_what_shortens_them_as_the_session_does(site: Path) -> None:
    page, session = site / "question-crash-recovery.html", site / "sessions" / "2026-11-25-six-servers.html"
    assert section_of(page, "shorten") == section_of(session, "shorten")
    assert "<strong>" in section_of(page, "shorten")
    assert 'What shortens it: <a href="#shorten">' in section_of(page, "answer")
    assert "What shortens it" not in text_of(site / "question-write-scaling.html")


def test_the_published_claims_stand_beside_what_was_measured(site: Path) -> None:
    text = text_of(site / "published.html")
    for publication in publications():
        assert publication.heading in text
        for claim in publication.claim:
            assert " ".join(claim.what.split()) in text
    assert "31,000 bytes 102,470 bytes" in text
    assert re.search(r"31,000 bytes [0-9,]+ bytes to 102,470 bytes does not reproduce 5\.7\.22 - \d ", text)
    assert "not measured" in text


def test_each_claim_stands_once_before_the_results_of_sessions(site: Path) -> None:
    written = (site / "published.html").read_text()
    for publication in publications():
        _, _, section = written.partition(f'<section id="{publication.name}"')
        claims, _, _ = section.partition("</table>")
        rows = re.findall(r'<th scope="row"[^>]*>(.*?)</th>', without_whole(claims))
        assert [unescape(row) for row in rows] == [" ".join(claim.what.split()) for claim in publication.claim]
        assert "<details" not in claims


def means_of(page: Path, server: str) -> set[str]:
    """What a page says of cold starts with 200,000 tables: in its chart, its answer or its questions."""
    text = text_of(page)
    figure = r"[0-9.]+(?: s)? \([0-9.]+-[0-9.]+\), [0-9]+ sessions"
    charted = re.findall(rf"cold {re.escape(server)} ({figure})", text)
    told = re.findall(rf"Cold, 200,000 tables: (?:[^.]|\.[0-9])*?\b{re.escape(server)} ({figure})", text)
    return {one.replace(" s ", " ") for one in (*charted, *told)}


def test_all_pages_have_one_mean_of_a_measurement(kept_sessions: Path, tmp_path: Path) -> None:
    """Sessions of another question that measured the same starts count on each page."""
    for name in (*KEPT, "2026-11-21-scale"):
        shutil.copytree(kept_sessions / name, tmp_path / "results" / name)
    write_site(tmp_path / "results", tmp_path / "out", {**QUESTIONS, "scale": "How does it grow?"})
    names = ("index", "question-crash-recovery", "question-scale")
    found = [means_of(tmp_path / "out" / f"{name}.html", "5.7.22") for name in names]
    assert found[0] == found[1] == found[2]
    (mean,) = found[0]
    assert mean.endswith(", 5 sessions")


def test_a_question_is_answered_by_each_of_its_servers(site: Path) -> None:
    answer = text_of_part(section_of(site / "question-crash-recovery.html", "answer"))
    (line,) = re.findall(r"Cold, 200,000 tables: .*?sessions?\. ", answer)
    servers = ("5.6.24", "5.7.22", "8.0.31", "9.7.4", "mariadb-10.11.5", "mariadb-10.11.18")
    assert [line.index(f" {server} ") for server in servers] == sorted(line.index(f" {server} ") for server in servers)
    questions = text_of_part(section_of(site / "index.html", "questions"))
    assert line in questions
    for server in ("5.7.22", "8.0.31"):
        assert re.search(rf"{re.escape(server)}, [^:]+: [0-9.,]+ (?:s|\u00b1 [0-9.,]+ queries/s)", questions), "a load"


def text_of_part(markup: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", without_whole(markup))).split()) + " "


def test_the_first_rows_have_the_most_tables_and_lead_to_their_sessions(site: Path) -> None:
    table = section_of(site / "index.html", "results")
    rows = re.findall(r"<tr>\s*<th scope=\"row\".*?</tr>", table, re.DOTALL)
    tables = [text_of_part(cells[2]) for cells in (re.findall(r"<td.*?</td>", row, re.DOTALL) for row in rows)]
    counts = [int(one.replace(",", "")) for one in tables if one != "- "]
    assert counts == sorted(counts, reverse=True)
    assert all('<a href="sessions/' in row.partition("</th>")[0] for row in rows)


def test_the_figures_can_be_taken_as_csv_and_json(site: Path, results: Path) -> None:
    stored = json.loads((site / "results.json").read_text())
    assert stored["format"] == 1
    with (site / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in stored["results"]
    ] == rows
    assert {row["session"] for row in rows} == set(KEPT)
    session = load_session(results / "2026-11-26-5.7.22")
    (cold,) = (row for row in stored["results"] if (row["session"], row["cache"]) == ("2026-11-26-5.7.22", "cold"))
    (summary,) = (one for one in summarise(session) if one.variant == "cold")
    assert (cold["server"], cold["tables"], cold["unit"], cold["runs"]) == ("5.7.22", 200_000, "s", 4)
    assert summary.mean is not None
    assert summary.interval is not None
    assert (cold["mean"], cold["low"]) == (summary.mean, summary.mean - summary.interval)
    for name in ("index.html", "question-crash-recovery.html"):
        assert '<a href="results.csv">results.csv</a>, <a href="results.json">' in section_of(site / name, "results")


def test_search_engines_list_a_site_only_if_it_is_public(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results / KEPT[1], tmp_path / "results" / KEPT[1])
    meta = '<meta name="robots" content="noindex">'
    for more, is_public in (["--public"], True), ([], False):
        assert run(["site", str(tmp_path / "results"), "--out", str(tmp_path / "out"), *more]) == 0
        for page in (tmp_path / "out").rglob("*.html"):
            assert (meta in page.read_text()) is not is_public


# --- Folders that are not as they should be


def test_the_command_writes_the_site_and_prints_its_index(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(results / KEPT[1], tmp_path / "results" / KEPT[1])
    out = tmp_path / "new" / "site"
    assert run(["site", str(tmp_path / "results"), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out / 'index.html'}\n"
    assert "How long does this server take to start after a crash" in text_of(out / "index.html")
    assert run(["site", str(tmp_path / "results"), "--out", str(out)]) == 0, "a site is replaced"


def test_a_damaged_session_is_left_out_and_named(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in KEPT[1:3]:
        shutil.copytree(results / name, tmp_path / "results" / name)
    (tmp_path / "results" / KEPT[2] / REPORT_FILE).write_text("{")
    assert run(["site", str(tmp_path / "results"), "--out", str(tmp_path / "out")]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {KEPT[2]} is left out: ")
    page = text_of(tmp_path / "out" / "index.html")
    assert "Sessions that cannot be read, and are left out: 1." in page
    assert KEPT[2] not in page, "the user may have given the name"
    assert run(["site", str(tmp_path / "results"), "--out", str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["index"] == str(tmp_path / "out" / "index.html")
    assert [f"warning: {one}" for one in found["left_out"]] == [line]
    (tmp_path / "results" / KEPT[1] / REPORT_FILE).write_text("{")
    assert run(["site", str(tmp_path / "results"), "--out", str(tmp_path / "out")]) == 1
    assert "can be read" in capsys.readouterr().err


def test_what_is_not_a_results_folder_is_refused(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    for folder, message in (
        (tmp_path / "none", "there is no folder"),
        (tmp_path / "file", "there is no folder"),
        (tmp_path, "there is no session in"),
        (results / KEPT[0], "is a single session"),
    ):
        assert run(["site", str(folder), "--out", str(tmp_path / "out")]) == 2
        error, hint = capsys.readouterr().err.splitlines()
        assert message in error
        assert hint.startswith("hint:")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(["site", str(results), "--out", str(tmp_path / "file" / "out")]) == 3
    error, hint = capsys.readouterr().err.splitlines()
    assert "cannot write the site" in error
    assert "--out" in hint


def test_the_page_of_something_else_is_not_replaced(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "index.html").write_text("my own")
    assert run(["site", str(results), "--out", str(tmp_path)]) == 2
    assert "is not a page of this tool" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


@pytest.mark.parametrize("name", ["published.html", f"sessions/{KEPT[1]}.html"])
@pytest.mark.parametrize("kind", ["file", "link", "pipe", "folder"])
def test_nothing_but_pages_of_the_site_is_replaced(
    name: str, kind: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(results / KEPT[1], tmp_path / "results" / KEPT[1])
    command = ["site", str(tmp_path / "results"), "--out", str(tmp_path / "out")]
    assert run(command) == 0
    page, precious = tmp_path / "out" / name, tmp_path / "precious"
    page.rename(precious)
    if kind == "file":
        page.write_text("my own")
    elif kind == "link":
        page.symlink_to(precious)
    elif kind == "pipe":
        os.mkfifo(page)
    else:
        page.mkdir()
    before, content = page.lstat(), precious.read_text()
    assert run(command) == 2
    assert f"{page} is not a page of this tool, and is not replaced" in capsys.readouterr().err
    assert (page.lstat().st_ino, page.lstat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert precious.read_text() == content


@pytest.mark.parametrize("linked", ["out", "out/sessions"])
def test_the_site_is_not_written_through_a_link(
    linked: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / linked).parent.mkdir(exist_ok=True)
    (tmp_path / linked).symlink_to(tmp_path / "elsewhere")
    assert run(["site", str(results), "--out", str(tmp_path / "out")]) == 3
    error, hint = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / linked} is a link, and is not followed" in error
    assert "--out" in hint
    assert list((tmp_path / "elsewhere").iterdir()) == []


@needs_root
def test_root_writes_no_site_where_another_user_could_replace_it(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with everybodys_folder() as shared:
        (shared / "theirs").mkdir()
        os.chown(shared / "theirs", NOBODY, NOBODY)
        assert run(["site", str(results), "--out", str(shared / "theirs")]) == 3
        assert "theirs belongs to nobody, who could replace what root writes there" in capsys.readouterr().err
        assert list((shared / "theirs").iterdir()) == []


def test_one_damaged_session_keeps_no_other_from_its_page(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One began before the first day, one is too long for a page, and one fails where nobody expects it."""
    named_long = "z" * 250
    for name in ("early", "fails", "long", "whole", named_long):
        shutil.copytree(results / KEPT[1], tmp_path / "results" / name)

    def change(name: str, **changed: object) -> None:
        path = tmp_path / "results" / name / REPORT_FILE
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))

    change("early", started_at="0001-01-01T00:00:00+02:00")
    (run_of_long, *_) = json.loads((results / KEPT[1] / REPORT_FILE).read_text())["runs"]
    change("long", runs=[{**run_of_long, "number": number} for number in range(1, 22)])
    monkeypatch.setattr(site_module, "_MAX_RUNS", 20)

    change("fails", started_at=(fails_at := "2026-11-20T10:00:00+00:00"))

    def fail(session: Session, **named: Any) -> str:
        if session.started_at == fails_at:
            raise ZeroDivisionError("a mean of nothing")
        return render(session, **named)

    monkeypatch.setattr(site_module, "render", fail)
    assert run(["site", str(tmp_path / "results"), "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "warning: fails is left out: it is damaged: ZeroDivisionError: a mean of nothing",
        "warning: long is left out: it has 21 runs, and a page of the site at most 20",
    ]
    shown = sorted(path.stem for path in (tmp_path / "out/sessions").iterdir())
    assert [name.rpartition("Z-")[0] for name in shown[:1]] == ["00010101T000000"]
    assert shown[2] == f"{shown[1]}-2", "they are named after their start, not as the user did"
    test_every_link_leads_to_a_page(tmp_path / "out")


def test_the_site_has_no_path_or_name_that_a_bundle_has_not(results: Path, tmp_path: Path) -> None:
    private = ("/srv/secret-project", "joe.example.internal", "my private note", "S3R1AL")
    name = "of joe.example.internal"
    shutil.copytree(results / KEPT[1], tmp_path / "results" / name)
    path = tmp_path / "results" / name / REPORT_FILE
    stored = json.loads(path.read_text())
    stored["command"] += f" --data {private[0]}/data --note '{private[2]}'"
    stored["settings"] |= {"data": f"{private[0]}/data", "note": private[2]}
    stored["environment"] |= {"hostname": private[1], "data": f"{private[0]}/data", "device_serial": private[3]}
    stored["notes"] = [f"{private[2]}: {private[0]}"]
    path.write_text(json.dumps(stored))
    (tmp_path / "results/damaged").mkdir()
    (tmp_path / "results/damaged" / REPORT_FILE).write_text("{")
    assert run(["site", str(tmp_path / "results"), "--out", str(tmp_path / "out")]) == 0
    (page,) = (tmp_path / "out/sessions").iterdir()
    assert "recovery crash-recovery --version" in text_of(page)
    for written in (tmp_path / "out").rglob("*.html"):
        text = f"{written.name} {unquote(written.read_text())}"
        assert [one for one in (*private, str(tmp_path)) if one in text] == [], written.name
    test_every_link_leads_to_a_page(tmp_path / "out")
    assert "device serial" in render(load_session(path.parent)), "a report of one's own has it"


def test_markup_in_a_session_and_its_name_is_shown_as_text(results: Path, tmp_path: Path) -> None:
    bad = '../<img src=x onerror="alert(1)">\x1b[2J\u202e'
    name = "a&b 'c' <i>"
    shutil.copytree(results / KEPT[1], tmp_path / "results" / name)
    path = tmp_path / "results" / name / REPORT_FILE
    stored = json.loads(path.read_text())
    stored |= {"experiment": bad, "question": bad, "command": bad, "notes": [bad]}
    stored["environment"] |= {"filesystem": bad, "read_ahead_kb": bad}
    path.write_text(json.dumps(stored).replace("5.7.22", "5.7.22<b>"))
    write_site(tmp_path / "results", tmp_path / "out", QUESTIONS)
    for page in pages(tmp_path / "out"):
        parsed = HtmlPage(page.read_text())
        assert {"img", "i", "b"} & set(parsed.tags) == set()
        assert not {"\x1b", "\u202e"} & set(page.read_text())
    test_every_link_leads_to_a_page(tmp_path / "out")
