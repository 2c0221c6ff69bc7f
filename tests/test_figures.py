"""Every figure of a page that links to results is in the report of a session, or is a named exception."""

from __future__ import annotations

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
    return [one for path, page in checker.pages.items() if not _is_made(page.text) for one in checker.check(path)]


def _is_made(page: str) -> bool:
    """Whether `make results` fills the page: tests/test_pages.py looks at it."""
    return "<!-- end -->" in page


def wrong(checked: list[Checked]) -> list[str]:
    return [f"{one.page.relative_to(ROOT)}:{one.line}: {one.figure.text}" for one in checked if not one.how]


def test_every_figure_is_in_a_report_or_an_exception(checked: list[Checked]) -> None:
    assert wrong(checked) == [], "tests/helpers/figures.py prints them with the words around them"


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
        ("README.md", "| 102.6 +- 47.2 |", "| 102.6 +- 47.3 |"),
        ("README.md", "| 59 (45-76) |", "| 59 (45-77) |"),
        ("docs/upgrade.md", "1.48 (1.26-1.73) times", "1.48 (1.26-1.74) times"),
        ("docs/shorten.md", "still took [22.3 s]", "still took [23.3 s]"),
        ("docs/shorten.md", "[72.0 s cold and", "[73.0 s cold and"),
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
