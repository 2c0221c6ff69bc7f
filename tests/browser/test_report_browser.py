"""The HTML report in Chromium: wide and narrow, light and dark, by keyboard, and printed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from browser import chromium
from everything import FOLDED, HOSTILE, everything, growing, with_in_every_text
from runs import with_parts

from recovery.analysis.stacks import Folded, folded_text
from recovery.model import Session
from recovery.report import fmt
from recovery.report.html.page import PAGE
from recovery.report.json_report import to_json
from recovery.report.tables import all_tables
from recovery.report.write import write_reports
from recovery.storage.sessions import REPORT_FILE, STACKS_FOLDER, load_session

pytestmark = pytest.mark.on_demand("browser")
VIEW = (Path(__file__).parent / "view.js").read_text()
STORED = {
    "four-versions": "2026-11-21-four-versions",
    "six-servers": "2026-11-25-six-servers",
    "scale": "2026-11-21-scale",
    "layouts": "2026-11-21-layouts",
    "stacks": "2026-11-21-stacks",
    "interference": "2026-11-26-experiments-interference",
    "write-scaling": "2026-11-26-write-scaling",
    "definitions": "2026-11-22-crash-matrix-definitions",
}
LEAST_CONTRAST = 4.5
TAB = 9
A4 = 703
"""Pixels between the margins of a sheet."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, kept_sessions: Path) -> dict[str, Path]:
    """Returns the pages of stored and of generated sessions, by name."""
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, kept in STORED.items():
        shutil.copytree(kept_sessions / kept, folder / name)
        write_reports(folder / name, load_session(folder / name))
        found[name] = folder / name / PAGE
    hostile = with_in_every_text(everything(), HOSTILE)
    own = {"everything": everything(), "near": growing(100_000), "far": growing(1_000_000), "hostile": hostile}
    for name, session in own.items():
        found[name] = _kept(folder / name, session)
    return found


def _kept(folder: Path, session: Session) -> Path:
    (folder / STACKS_FOLDER).mkdir(parents=True)
    (folder / STACKS_FOLDER / "092.folded").write_text(folded_text(Folded(FOLDED)))
    stacks = tuple(with_parts(run, file=f"{STACKS_FOLDER}/092.folded" if run.stacks else None) for run in session.runs)
    (folder / REPORT_FILE).write_bytes(to_json(replace(session, runs=stacks)))
    write_reports(folder, load_session(folder))
    return folder / PAGE


every_page = pytest.mark.parametrize("name", [*STORED, "everything", "near", "far", "hostile"])


def opened(page: chromium.Page, path: Path, *, width: int = 1280, dark: bool = False, unfold: bool = True) -> None:
    page.open(path, width=width, dark=dark)
    page.run(f"{VIEW}; globalThis.view = view; undefined")
    if unfold:
        page.run("view.unfold()")


@every_page
def test_a_page_draws_its_charts_fetches_nothing_and_logs_no_error(
    page: chromium.Page, pages: dict[str, Path], name: str
) -> None:
    opened(page, pages[name])
    charts = page.run("view.charts()")
    assert len(charts) >= 2
    assert all(chart["width"] > 300 and chart["height"] > 50 and chart["drawn"] > 3 for chart in charts), charts
    assert [event["request"]["url"] for event in page.events("Network.requestWillBeSent")] == [pages[name].as_uri()]
    assert [event["entry"]["text"] for event in page.events("Log.entryAdded")] == []
    assert page.events("Runtime.consoleAPICalled") == []
    assert page.events("Runtime.exceptionThrown") == []


@every_page
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_a_page_fits_its_window(page: chromium.Page, pages: dict[str, Path], name: str, width: int) -> None:
    opened(page, pages[name], width=width)
    assert page.run("document.scrollingElement.scrollWidth") <= width
    if name != "hostile":
        assert page.run("view.overlaps()") == []


@pytest.mark.parametrize("name", [*STORED, "everything", "near", "far"])
def test_nothing_is_cut_on_a_phone(page: chromium.Page, pages: dict[str, Path], name: str) -> None:
    opened(page, pages[name], width=390)
    assert page.run("view.cut(390)") == []


def test_what_is_cut_is_detected(page: chromium.Page, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<meta name=viewport content='width=device-width'><p>fits</p><div class=scroll style='overflow:auto'>"
        "<p style='width:900px;text-align:right'>outside</p></div>"
        "<svg class=chart width=100% height=40 overflow=visible><text x=95% y=20>beyond the edge</text></svg>"
    )
    opened(page, bad, width=390)
    assert page.run("view.cut(390)") == ["outside", "beyond the edge"]


def test_the_first_figure_is_the_largest_text_of_the_answer(page: chromium.Page, pages: dict[str, Path]) -> None:
    for width in (390, 1280):
        opened(page, pages["six-servers"], width=width)
        size = "parseFloat(getComputedStyle(document.querySelector('{}')).fontSize)"
        assert page.run(size.format(".figure")) > 1.5 * page.run(size.format(".answer"))


def test_a_warning_is_reached_from_the_figure_that_it_doubts(page: chromium.Page, pages: dict[str, Path]) -> None:
    opened(page, pages["six-servers"], unfold=False)
    assert not page.run("document.querySelector('#warnings details').open"), "there are many"
    page.click(".doubts a")
    assert page.run("document.querySelector('#warnings details').open")
    assert page.run("document.querySelector(location.hash).className") == "warning"


@every_page
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_has_enough_contrast(page: chromium.Page, pages: dict[str, Path], name: str, dark: bool) -> None:
    opened(page, pages[name], dark=dark)
    texts = page.run("view.texts()")
    assert len(texts) > 100
    assert [text for text in texts if text["contrast"] < LEAST_CONTRAST] == []


def test_low_contrast_is_detected(page: chromium.Page, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<body style='background:#fff'><p style='color:#bbb'>pale</p><p style='color:#000'>clear</p>"
        "<div style='background:rgba(0,0,0,.9);color:#222'><b>dark</b></div>"
        "<svg width=300 height=60><rect width=300 height=60 fill='#0072b2'/><text y=30 fill='#000'>on blue</text></svg>"
    )
    opened(page, bad)
    found = {text["text"]: text["contrast"] for text in page.run("view.texts()")}
    assert found["clear"] == pytest.approx(21)
    assert [name for name in found if found[name] < LEAST_CONTRAST] == ["pale", "dark", "on blue"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_bars_and_lines_have_enough_contrast(page: chromium.Page, pages: dict[str, Path], dark: bool) -> None:
    opened(page, pages["everything"], dark=dark)
    edges = page.run(
        "[...document.querySelectorAll('.bar, .series, .whisker, .phase')].map((one) => view.contrast("
        "view.color(getComputedStyle(one).stroke), view.color(getComputedStyle(document.body).backgroundColor)))"
    )
    assert len(edges) > 20
    assert min(edges) >= 3


@pytest.mark.parametrize("name", ["everything", "stacks", "six-servers"])
def test_everything_that_scrolls_or_unfolds_is_reached_by_keyboard(
    page: chromium.Page, pages: dict[str, Path], name: str
) -> None:
    opened(page, pages[name], width=360)
    page.press("Tab", TAB)
    first = page.run("view.focused()")
    assert first["css"] == "skip"
    assert first["top"] >= 0, "visible with the focus"
    wanted = page.run("document.querySelectorAll('[tabindex=\"0\"], summary, a:not(.skip), button').length")
    reached = []
    for _ in range(wanted + 1):
        page.press("Tab", TAB)
        reached.append(page.run("view.focused()"))
    kinds = [one["tag"] for one in reached]
    assert sum("scroll" in one["css"] for one in reached) == page.run("document.querySelectorAll('.scroll').length")
    assert kinds.count("SUMMARY") == page.run("document.querySelectorAll('summary').length")
    assert kinds.count("BUTTON") == page.run("document.querySelectorAll('table, pre').length")
    assert all(one["outline"] >= 2 for one in reached[:wanted]), "the focus is visible"


def test_scrolling_tables_images_and_regions_have_names(page: chromium.Page, pages: dict[str, Path]) -> None:
    opened(page, pages["everything"], width=360)
    outside = "[...document.querySelectorAll('table')].filter((one) => !one.closest('[role=region][tabindex=\"0\"]'))"
    assert page.run(f"{outside}.length") == 0
    tree = page.ask("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], bool(node.get("name", {}).get("value"))) for node in tree if "role" in node}
    assert ("image", True) in named
    assert not {(role, False) for role in ("image", "region", "navigation")} & named
    assert {"main", "banner", "navigation", "contentinfo"} <= {role for role, _ in named}


def test_markup_in_a_session_is_shown_as_text(page: chromium.Page, pages: dict[str, Path]) -> None:
    opened(page, pages["hostile"])
    assert page.events("Page.javascriptDialogOpening") == []
    assert page.run("document.querySelectorAll('img, [onerror], iframe, object').length") == 0
    assert page.run("document.scripts.length") == 1, "the page's own"
    assert page.run("document.body.innerText.split('<script>alert(1)</script>').length") > 100


def test_no_other_script_can_run(page: chromium.Page, pages: dict[str, Path]) -> None:
    opened(page, pages["everything"])
    added = "const added = document.createElement('script'); added.textContent = 'globalThis.ran = 1'"
    assert page.run(f"{added}; document.body.append(added); typeof ran") == "undefined"


@pytest.mark.parametrize("name", ["four-versions", "hostile"])
def test_tables_and_the_command_can_be_copied(page: chromium.Page, pages: dict[str, Path], name: str) -> None:
    opened(page, pages[name])
    session = load_session(pages[name].parent)
    title = page.run("document.querySelector('caption').innerText")
    (table,) = (one for one in map(fmt.printable_table, all_tables(session)) if one.title == title)
    page.click(".scroll:has(table) + .copy")
    text, markup = page.pasted()
    assert text == "\n".join("\t".join(row) for row in (table.headers, *table.rows))
    assert markup.count("<tr") == len(table.rows) + 1
    assert "<script" not in markup
    page.click("pre + .copy")
    text, markup = page.pasted()
    assert (text, markup) == (fmt.printable(session.command), "")
    assert page.run("[...document.querySelectorAll('.copy')].filter((one) => one.innerText == 'Copied').length") == 2


def test_print_is_white_and_unfolded(page: chromium.Page, pages: dict[str, Path]) -> None:
    opened(page, pages["everything"], dark=True, unfold=False)
    paper = page.printed()
    assert paper.startswith(b"%PDF")
    assert paper.count(b"/Type /Page\n") >= 1
    page.ask("Emulation.setEmulatedMedia", media="print")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.run("getComputedStyle(document.querySelector('.copy')).display") == "none"
    folded = "[...document.querySelectorAll('details:not([open]) > :not(summary, .copy)')]"
    assert page.run(f"{folded}.length") > 0
    assert page.run(f"{folded}.every((one) => one.getBoundingClientRect().height > 0)")
    page.ask("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("name", [*STORED, "everything", "near"])
def test_no_printed_table_is_cut(page: chromium.Page, pages: dict[str, Path], name: str) -> None:
    opened(page, pages[name], width=A4, unfold=False)
    page.ask("Emulation.setEmulatedMedia", media="print")
    wide = "[...document.querySelectorAll('table')].filter((one) => one.getBoundingClientRect().right > innerWidth)"
    assert page.run(f"{wide}.map((one) => [one.caption.innerText, one.scrollWidth])") == []
    page.ask("Emulation.setEmulatedMedia", media="")
