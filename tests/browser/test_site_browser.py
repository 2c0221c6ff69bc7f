"""The pages about all sessions in Chromium: sorted, filtered, on a phone, in the dark, and by keyboard."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from browser import chromium

from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.report.site import write_site

pytestmark = pytest.mark.on_demand("browser")
VIEW = (Path(__file__).parent / "view.js").read_text()
KEPT = (
    "2026-11-25-six-servers",
    "2026-11-26-5.7.22",
    "2026-11-26-experiments-crash-recovery",
    "2026-11-26-charset",
    "2026-11-22-crash-matrix-inserts",
    "2026-11-25-5.7.22-5000-iops",
)
PAGES = (
    *("index", "question-cold-recovery", "question-write-scaling", "question-crash-matrix", "published"),
    "sessions/2026-11-26-experiments-crash-recovery",
)
LEAST_CONTRAST = 4.5
TAB = 9


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, kept_sessions: Path) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for name in KEPT:
        shutil.copytree(kept_sessions / name, folder / "results" / name)
    write_site(folder / "results", folder / "out", {name: find_experiment(name).question for name in EXPERIMENTS})
    return folder / "out"


def opened(page: chromium.Page, path: Path, *, width: int = 1280, dark: bool = False) -> None:
    page.open(path, width=width, dark=dark)
    page.run(f"{VIEW}; globalThis.view = view; undefined")
    page.run("view.unfold()")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fetches_nothing_and_logs_no_error(page: chromium.Page, site: Path, name: str) -> None:
    path = site / f"{name}.html"
    opened(page, path)
    assert [event["request"]["url"] for event in page.events("Network.requestWillBeSent")] == [path.as_uri()]
    assert [event["entry"]["text"] for event in page.events("Log.entryAdded")] == []
    assert page.events("Runtime.exceptionThrown") == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_a_page_fits_its_window(page: chromium.Page, site: Path, name: str, width: int) -> None:
    opened(page, site / f"{name}.html", width=width)
    assert page.run("document.scrollingElement.scrollWidth") <= width
    assert page.run("view.overlaps()") == []
    if width == 390:
        assert page.run("view.cut(390)") == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_has_enough_contrast(page: chromium.Page, site: Path, name: str, dark: bool) -> None:
    opened(page, site / f"{name}.html", dark=dark)
    texts = page.run("view.texts()")
    assert len(texts) > 50
    assert [text for text in texts if text["contrast"] < LEAST_CONTRAST] == []


ROWS = "[...document.querySelectorAll('#results tbody tr:not([hidden])')]"


def column(page: chromium.Page, place: int) -> list[str]:
    found: list[str] = page.run(f"{ROWS}.map((row) => row.cells[{place}].textContent.trim())")
    return found


def choose(page: chromium.Page, label: str, value: str) -> None:
    """Chooses a value in the list that has this label."""
    page.run(
        "{ const one = [...document.querySelectorAll('.filters label')]"
        f".find((one) => one.firstChild.data === '{label}').querySelector('select');"
        f"one.value = '{value}'; one.dispatchEvent(new Event('change')); }}"
    )


def test_the_table_is_filtered_by_each_of_its_columns(page: chromium.Page, site: Path) -> None:
    opened(page, site / "index.html")
    every = len(column(page, 0))
    chosen = {"server": "5.7.22", "cache": "cold", "tables": "200,000", "experiment": "cold-recovery"}
    for label, value in chosen.items():
        choose(page, label, value)
    (name,) = column(page, 0)
    assert name == "2026-11-25-5.7.22-5000-iops"
    assert page.run("document.querySelector('.filters [role=status]').textContent") == f"1 of {every} rows"
    choose(page, "storage", column(page, 6)[0])
    assert column(page, 0) == [name]
    for label in (*chosen, "storage"):
        choose(page, label, "")
    assert len(column(page, 0)) == every


def test_the_table_is_sorted_by_numbers_with_what_has_none_at_the_end(page: chromium.Page, site: Path) -> None:
    opened(page, site / "index.html")
    choose(page, "cache", "cold")
    header = "#results thead th:nth-child(5)"
    for direction in ("ascending", "descending"):
        page.click(f"{header} button")
        assert page.run(f"document.querySelector('{header}').getAttribute('aria-sort')") == direction
        seconds = [float(text.split()[0].replace(",", "")) for text in column(page, 4)]
        assert seconds == sorted(seconds, reverse=direction == "descending")
        assert len(seconds) > 5
    choose(page, "cache", "")
    tables = "#results thead th:nth-child(4) button"
    for _ in range(2):
        page.click(tables)
        assert [text for text in column(page, 3) if text == "-"] == column(page, 3)[-column(page, 3).count("-") :]


def test_a_phone_sorts_by_a_list(page: chromium.Page, site: Path) -> None:
    opened(page, site / "index.html", width=390)
    choose(page, "sort by", "1")
    servers = column(page, 1)
    assert servers.index("5.6.24") < servers.index("5.7.22") < servers.index("9.7.4") < servers.index("mariadb-10.11.5")
    page.click(".filters label button")
    assert column(page, 1)[0].startswith("mariadb")
    assert page.run("getComputedStyle(document.querySelector('#results thead button')).display") == "none"


def test_the_controls_are_reached_by_keyboard_and_a_row_leads_to_its_session(page: chromium.Page, site: Path) -> None:
    opened(page, site / "index.html")
    page.press("Tab", TAB)
    assert page.run("view.focused()")["css"] == "skip"
    controls = page.run("document.querySelectorAll('a:not(.skip), button, select, [tabindex=\"0\"], summary').length")
    kinds = []
    for _ in range(controls):
        page.press("Tab", TAB)
        focused = page.run("view.focused()")
        assert focused["outline"] >= 2, "the focus is visible"
        kinds.append(focused["tag"])
    assert kinds.count("SELECT") == 6
    assert kinds.count("BUTTON") >= 10
    first = column(page, 0)[0]
    page.browser.events.clear()
    page.click("#results tbody tr:not([hidden]) a")
    page.browser.wait_for("Page.loadEventFired")
    assert page.run("location.pathname").endswith(f"/sessions/{first}.html")
    page.press("Tab", TAB)
    page.press("Tab", TAB)
    assert page.run("document.activeElement.href") == (site / "index.html").as_uri(), "its first link leads back"


def test_a_session_leads_to_the_page_of_its_question(page: chromium.Page, site: Path) -> None:
    opened(page, site / "sessions" / "2026-11-26-experiments-crash-recovery.html")
    question = page.run("document.querySelector('.question').textContent")
    page.browser.events.clear()
    page.click(".question a")
    page.browser.wait_for("Page.loadEventFired")
    assert page.run("location.href") == (site / "question-cold-recovery.html").as_uri()
    assert page.run("document.querySelector('.question').textContent") == question


def test_the_most_tables_come_first_and_dates_are_sorted_in_both_orders(page: chromium.Page, site: Path) -> None:
    opened(page, site / "index.html")
    tables = [int(text.replace(",", "")) for text in column(page, 3) if text != "-"]
    assert tables == sorted(tables, reverse=True)
    assert tables[0] > tables[-1]
    choose(page, "sort by", "9")
    newest_first = column(page, 9)
    assert newest_first == sorted(newest_first, reverse=True)
    order = "[...document.querySelectorAll('.filters button')].at(-1)"
    assert page.run(f"{order}.textContent") == "descending"
    page.run(f"{order}.click()")
    assert page.run(f"{order}.textContent") == "ascending"
    assert column(page, 9) == newest_first[::-1]


def test_the_links_to_sessions_are_not_cut(page: chromium.Page, site: Path) -> None:
    for name in ("index", "question-cold-recovery"):
        opened(page, site / f"{name}.html", width=1280)
        cut = "one.getBoundingClientRect().right > one.closest('.scroll').getBoundingClientRect().right"
        assert page.run(f"[...document.querySelectorAll('#results tbody a')].filter((one) => {cut}).length") == 0
        wide = "document.querySelector('#results .scroll')"
        assert page.run(f"{wide}.scrollWidth - {wide}.clientWidth") == 0


def test_a_filter_has_an_address(page: chromium.Page, site: Path) -> None:
    opened(page, site / "index.html")
    every = len(column(page, 0))
    choose(page, "server", "5.7.22")
    choose(page, "tables", "200,000")
    assert page.run("location.hash") == "#results&server=5.7.22&tables=200%2C000"
    found, address = column(page, 0), page.run("location.href")
    assert 0 < len(found) < every
    opened(page, site / "published.html")
    page.browser.events.clear()
    page.ask("Page.navigate", url=address)
    page.browser.wait_for("Page.loadEventFired")
    assert column(page, 0) == found
    top = page.run("document.getElementById('results').getBoundingClientRect().top")
    assert 0 <= top < page.run("innerHeight"), "the table is shown"
    choose(page, "server", "")
    choose(page, "tables", "")
    assert page.run("location.hash") == "#results"
    page.run(
        "new Promise((done) => { addEventListener('hashchange', () => done(), { once: true });"
        "location.hash = '#results&server=none&x=%'; })"
    )
    assert len(column(page, 0)) == every, "a value that no row has filters nothing"


def test_without_a_script_all_rows_are_shown(page: chromium.Page, site: Path) -> None:
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    page.open(site / "index.html")
    page.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert len(column(page, 0)) > 10
    assert page.run("document.querySelectorAll('.filters').length") == 0


def test_print_has_no_controls(page: chromium.Page, site: Path) -> None:
    opened(page, site / "index.html", dark=True)
    page.ask("Emulation.setEmulatedMedia", media="print")
    assert page.run("getComputedStyle(document.querySelector('.filters')).display") == "none"
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.ask("Emulation.setEmulatedMedia", media="")
