"""No figure is typed into a page: the tables of README.md and docs/ are what `make results` makes of kept sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from statistics import fmean

import pytest
from pages.__main__ import PAGES, RESULTS, ROOT, made, sources
from pages.blocks import BlockError, Sources, filled, without_blocks
from pages.servers import ONE_SESSION

from recovery.analysis.summary import measured_runs_by_cell

PAGES_OF_RESULTS = [page for page in PAGES if page.parent == RESULTS]
SESSION = "2026-11-28-two-versions"
HERE = PurePosixPath()
MEASURED_ON = re.compile(r"[Mm]easured (?:once )?on \d+ \w+ 20\d\d")
"""A sentence about one dated measurement that no session is kept of."""
UNIT = r"(?:s|ms|us|min|%|kB|MB|GB|TB|times|reads|queries/s)"
FIGURE = re.compile(rf"±|\+- \d|\d \(\d|(?<![\w.-])\d[\d,]*(?:\.\d+)? {UNIT}(?![\w/])|(?<![\w.-])\d+\.\d+(?![\w.-])")
SCREENS = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
NO_FIGURES = (
    re.compile(r"`[^`]*`"),
    re.compile(r"\]\([^)]*\)"),
    re.compile(r"(?<![\d.])(?:5\.[5-7]|8\.[034]|9\.[0-7]|10\.(?:2|3|11)|11\.[48])(?![\d]|\.\d| ?(?:s|%)\b)"),
    re.compile(r"95 % interval"),
)  # fmt: skip


@pytest.fixture(scope="module")
def kept() -> Iterator[Sources]:
    with sources() as found:
        yield found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_what_is_made_of_the_kept_sessions(page: Path, kept: Sources) -> None:
    assert page.read_text("utf-8") == made(page, kept), "run `make results`, and look at what it changed"


def test_a_figure_that_is_changed_by_hand_is_made_anew(kept: Sources) -> None:
    page = (RESULTS / "starts.md").read_text("utf-8")
    wrong = page.replace("| 86.20 ± 4.29 |", "| 86.20 ± 4.30 |", 1)
    assert wrong != page
    assert filled(wrong, kept, HERE) == page


def typed_figures(page: str, *, beside: str = "") -> list[str]:
    """Returns the lines that have a measured figure which nothing makes, of those with the words `beside`."""
    found = []
    for line in SCREENS.sub("", without_blocks(page)).splitlines():
        text = line
        for pattern in NO_FIGURES:
            text = pattern.sub("", text)
        if beside in line and not line.startswith("#") and FIGURE.search(text) and not MEASURED_ON.search(text):
            found.append(line)
    return found


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES_OF_RESULTS], ids=lambda page: page.name)
def test_no_figure_is_typed_into_a_page_of_results(page: Path) -> None:
    assert typed_figures(page.read_text("utf-8")) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page not in PAGES_OF_RESULTS], ids=lambda page: page.name)
def test_no_figure_stands_beside_a_link_to_results(page: Path) -> None:
    """Other pages have figures of settings and limits."""
    assert typed_figures(page.read_text("utf-8"), beside="](results/") == []
    assert typed_figures(page.read_text("utf-8"), beside=" +- ") == []


@pytest.mark.parametrize(
    ("line", "is_figure"),
    [
        ("5.7.22 took 3.7 times as long.", True),
        ("A start takes 60 s.", True),
        ("It loses 24 % (11-35) of them.", True),
        ("| 63.0 ± 3.6 |", True),
        ("8.0.31 and 9.7.4 open 200,000 files, and 5.7 reads them.", False),
        ("Loads of a minute, `SECONDS=60`, [three](a.md#60-s).", False),
        ("Once it took 12 s (measured on 28 November 2026).", False),
    ],
)
def test_a_typed_figure_is_found(line: str, is_figure: bool) -> None:
    assert bool(typed_figures(line)) == is_figure


def shown(kept: Sources, block: str) -> str:
    """Returns what a block of this text shows."""
    return filled(f"{block}-->\n<!-- end -->", kept, HERE).partition("-->\n")[2].removesuffix("<!-- end -->").strip()


def test_columns_can_be_named_joined_and_chosen(kept: Sources) -> None:
    block = "title: Startup after SIGKILL & Tables' files\ncolumns: server = {version}; s = {mean} ± {+-}; opened\n"
    assert shown(kept, f"<!-- table\nsession: {SESSION}\n{block}rows: ^5.*cold\nnotes: ^First cold\n") == (
        "| server | s | opened |\n|---|---:|---:|\n| 5.7.22 | 86.20 ± 4.29 | 200,000 |\n\n"
        f"[{SESSION}]({SESSION}/report.txt)\n\n"
        "First cold start over each data directory, before the others and not averaged: 5.7.22 97.61 s, "
        "mariadb-10.11.5 7.78 s."
    )


def test_values_of_a_column_can_be_columns(kept: Sources) -> None:
    block = "title: Startup after SIGKILL\ncolumns: version; variant; mean\nacross: variant\n"
    assert shown(kept, f"<!-- table\nsession: {SESSION}\n{block}").startswith(
        "| version | cold | warm |\n|---|---:|---:|\n| 5.7.22 | 86.20 | 8.80 |\n"
    )


def test_several_sessions_are_one_table_with_a_link_in_the_first_row_of_each(kept: Sources) -> None:
    names = f"{SESSION} 2026-11-25-mariadb-200000"
    rows = shown(kept, f"<!-- table\nsession: {names}\ntitle: Phases\ncolumns: version; validation\n").splitlines()
    assert rows[2:5] == [
        f"| [{SESSION}]({SESSION}/report.txt) | 5.7.22 | 84.91 |",
        "|  | 5.7.22 | 8.03 |",
        "|  | mariadb-10.11.5 | - |",
    ]


def test_an_answer_is_what_the_report_says_first(kept: Sources) -> None:
    report = (RESULTS / SESSION / "report.txt").read_text("utf-8")
    first, *lines = shown(kept, f"<!-- answer\nsession: {SESSION}\n").splitlines()
    assert first == "```text"
    assert "\n".join(lines[: lines.index("```")]) in report


def test_the_first_table_of_the_readme_has_the_means_of_the_runs(kept: Sources) -> None:
    session, (_, _, *rows) = kept.session(ONE_SESSION), kept.computed["servers"]().splitlines()
    shown = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert len(shown) == len(session.versions)
    for server, *seconds in shown:
        version = server.removeprefix("MySQL ").lower().replace(" ", "-")
        for cache, text in zip(("cold", "warm"), seconds, strict=False):
            runs = measured_runs_by_cell(session)[version, cache]
            mean = fmean(run.metrics["startup_s"] for run in runs)
            assert float(text.partition(" ")[0]) == pytest.approx(mean, abs=0.05), (server, cache)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("<!-- table\nsession: nothing\ntitle: Startup\n-->\n<!-- end -->", "there is no session nothing"),
        (f"<!-- table\nsession: {SESSION}\ntitle: Start-up\n-->\n<!-- end -->", "no table begins with 'Start-up'"),
        (f"<!-- table\nsession: {SESSION}\ntitle: Startup\ncolumns: men\n-->\n<!-- end -->", "has no 'men'"),
        (f"<!-- table\nsession: {SESSION}\ntitel: Startup\n-->\n<!-- end -->", "unknown: titel"),
        (f"<!-- table\nsession: {SESSION}\ntitle: Startup\nrows: none\n-->\n<!-- end -->", "no row of 'Startup"),
        ("<!-- table\ntitle: Startup\n-->\n<!-- end -->", "a block without session"),
        ("<!-- computed\nname: nothing\n-->\n<!-- end -->", "nothing is computed as"),
        ("<!-- table\nsession: a\n-->\n", "no end"),
    ],
)
def test_a_wrong_block_is_an_error(block: str, message: str, kept: Sources) -> None:
    with pytest.raises(BlockError, match=message):
        filled(block, kept, HERE)
