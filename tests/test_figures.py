"""Every figure of a page that links to results is in the report of a session, or is a named exception."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from figures import (
    ROOT,
    Checked,
    Checker,
    Line,
    changed,
    cleaned,
    figures_in,
    generated_tables,
    read_exceptions,
    read_pages,
)
from formulas import computed

LEAST_NOTICED = 0.6
"""A change of the last digit can make another figure of the same report."""


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(read_pages(), read_exceptions(), generated_tables())


@pytest.fixture(scope="module")
def checked(checker: Checker) -> list[Checked]:
    return [one for path in checker.pages for one in checker.check(path)]


def wrong(checked: list[Checked]) -> list[str]:
    return [f"{one.page.relative_to(ROOT)}:{one.line}: {one.figure.text}" for one in checked if not one.how]


def test_every_figure_is_in_a_report_or_an_exception(checked: list[Checked]) -> None:
    assert wrong(checked) == [], "tests/helpers/figures.py prints them with the words around them"


def test_most_figures_are_in_reports(checked: list[Checked]) -> None:
    counts = Counter(one.how for one in checked for _ in one.figure.numbers)
    assert counts["report"] > 1000
    assert counts["report"] > 0.7 * (counts.total() - counts["generated"])


def test_every_exception_is_on_a_page(checker: Checker) -> None:
    text = "\n".join(page.text for page in checker.pages.values())
    assert [words for words in checker.exceptions if words not in text] == []
    assert [words for words in checker.exceptions if not re.search(r"\d", words)] == []


def test_what_is_computed_is_what_the_page_says() -> None:
    for words, values in computed().items():
        numbers = [number for figure in figures_in(cleaned(words)) for number in figure.numbers]
        assert len(numbers) == len(values), words
        for number, value in zip(numbers, values, strict=True):
            assert abs(number.value - value) <= number.step / 2 * 1.001, (words, value)


def test_most_changes_of_one_digit_are_noticed(checked: list[Checked]) -> None:
    """Of a third of the figures, because all take ten seconds."""
    sample = [one for one in checked if one.how == "report"][::3]
    noticed = [not one.would_be_found(other) for one in sample for other in changed(one.figure)]
    assert sum(noticed) > LEAST_NOTICED * len(noticed)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("docs/results/starts.md", "63.0 +- 3.6 (60.8-68.0)", "63.0 +- 3.7 (60.8-68.0)"),
        ("docs/results/starts.md", "1.34 (1.31-1.37) times", "1.34 (1.31-1.38) times"),
        ("docs/results/starts.md", "1.18 (1.03-1.35) times", "1.18 (1.03-1.36) times"),
        ("docs/results/starts.md", "0.48 +- 0.08 (0.40-0.57)", "0.48 +- 0.09 (0.40-0.57)"),
        ("docs/results/starts.md", "from 40.5 to 30.9 s", "from 40.5 to 31.9 s"),
        ("docs/results/watch.md", "| recorded starts | 93 |", "| recorded starts | 92 |"),
        ("docs/results/estimate.md", "8 % (worst 246) |", "8 % (worst 247) |"),
        ("README.md", "| 102.6 +- 47.2 |", "| 102.6 +- 47.3 |"),
        ("README.md", "| 102.6 +- 47.2 | 169.2 |", "| 102.6 +- 47.2 | 169.3 |"),
        ("README.md", "| 59 (45-76) |", "| 59 (45-77) |"),
        ("README.md", "1.24 (1.11-1.38) times", "1.24 (1.11-1.39) times"),
        ("docs/upgrade.md", "1.48 (1.26-1.73) times", "1.48 (1.26-1.74) times"),
        ("docs/shorten.md", "still took [22.3 s]", "still took [23.3 s]"),
        ("docs/shorten.md", "[72.0 s cold and", "[73.0 s cold and"),
        ("docs/reading.md", "[20.3 and 8.0 s]", "[20.3 and 9.0 s]"),
        ("docs/own-data.md", "5.7.22: cold 3.79 +-", "5.7.22: cold 3.78 +-"),
    ],
)
def test_a_changed_figure_of_a_page_is_named(name: str, before: str, after: str) -> None:
    found = wrong_after(name, before, after)
    assert found
    assert len({one.rpartition(": ")[0] for one in found}) == 1
    assert found[0].startswith(f"{name}:")


def test_an_answer_is_in_its_report_word_for_word() -> None:
    found = wrong_after("README.md", "84.9 s validation;", "84.9 s discovery;")
    assert len(found) >= 20


def wrong_after(name: str, before: str, after: str) -> list[str]:
    """Returns the figures that are found nowhere after a change of a page."""
    pages, page = read_pages(), ROOT / name
    assert before in pages[page]
    pages[page] = pages[page].replace(before, after, 1)
    return wrong(list(Checker(pages, read_exceptions(), generated_tables()).check(page)))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("63.0 +- 3.6 (60.8-68.0)", [(63.0, 3.6, 60.8, 68.0)]),
        ("loses 24 % (11-35)", [(24.0, 11.0, 35.0)]),
        ("200,000, twice, and 1.1 GB", [(200_000.0,), (1.1,)]),
        ("| -0.469 (-0.609 to -0.328)", [(-0.469, -0.609, -0.328)]),
        ("p = 1e-9", [(1e-9,)]),
        ("76.1 to 95.5 s; 15.8", [(76.1,), (95.5,), (15.8,)]),
        ("utf8mb4, 10.11.5x", []),
    ],
)
def test_figures_are_read_from_text(text: str, numbers: list[tuple[float, ...]]) -> None:
    assert [tuple(number.value for number in figure.numbers) for figure in figures_in(text)] == numbers


@pytest.mark.parametrize(
    ("figure", "line", "is_there"),
    [
        ("1.5 +- 0.2 s", Line("5.7.22  cold  5  1.53  0.21  1.60", "Startup: seconds", "version  mean  +-"), True),
        ("0.2 +- 1.5 s", Line("5.7.22  cold  5  1.53  0.21  1.60", "Startup: seconds", "version  mean  +-"), False),
        ("1.5 MB", Line("5.7.22  cold  5  1.53  0.21  1.60", "Startup: seconds", "version  mean  +-"), False),
        ("1.5 s", Line("5.7.22  cold  5  1.53  0.21  1.60", "Memory: MB", "version  mean  +-"), False),
        ("0.5 s (0.3 to 0.6)", Line("open 0.5 s (0.3 to 0.6), prepared 0.2 s (0.1 to 0.7)"), True),
        ("0.5 s (0.1 to 0.7)", Line("open 0.5 s (0.3 to 0.6), prepared 0.2 s (0.1 to 0.7)"), False),
        ("12.3 s", Line("5.7.22  12.34", "Every run", "version  seconds"), True),
        ("12 s", Line("5.7.22  12.34", "Every run", "version  seconds"), False),
        ("12 s", Line("5.7.22  12.34", "Startup: seconds", "version  mean"), True),
    ],
)
def test_a_figure_is_found_by_order_unit_and_digits(figure: str, line: Line, is_there: bool) -> None:
    assert line.has(next(figures_in(figure))) == is_there


@pytest.mark.parametrize(
    ("line", "is_about_5_7", "is_about_none"),
    [
        (Line("5.7.22  12.34", "Startup"), True, True),
        (Line("8.0.31  12.34", "Startup"), False, True),
        (Line("runs  12.34", "Startup"), True, True),
        (Line("build_s  12.34", "Server 5.7.22"), True, False),
        (Line("build_s  12.34", "Server 8.0.31"), False, False),
        (Line("memory  12.34", "Host"), False, False),
    ],
)
def test_a_line_about_another_server_or_the_host_is_no_evidence(
    line: Line, is_about_5_7: bool, is_about_none: bool
) -> None:
    assert line.can_be_about(frozenset({"5.7.22"})) == is_about_5_7
    assert line.can_be_about(frozenset()) == is_about_none
