"""The answer is one table, which console, text, Markdown and page draw."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from at_work import table_cache
from everything import a_run, a_session, everything
from rich.console import Console
from runs import with_parts
from sessions import KEPT_SESSIONS, with_metrics

from recovery.analysis.warnings import findings_of_each_cell
from recovery.model import ExtraRun, Phase, Session, Verdict
from recovery.report import fmt, markdown, text
from recovery.report.answer import MAX_ROWS, Answer, Row, Value, bar_text, chosen, row_lines
from recovery.report.console import draw
from recovery.report.html import page
from recovery.report.summary_text import answer_of, warning_lines
from recovery.storage.sessions import load_session

TWO = Answer(
    title="Startup after SIGKILL",
    columns=("cold", "warm"),
    facts=("opens",),
    rows=(
        Row("5.7.22", (Value("86.2 s +- 4.3", 86.2, (81.9, 90.5), "s"), Value("8.80 s", 8.8, None, "s")), ("all",)),
        Row("mariadb-10.11.5", (Value("5.57 s +- 0.87", 5.57, (4.7, 6.44), "s"), None), ("",)),
    ),
    comparison=("mariadb-10.11.5 starts 15.6 times faster.",),
)


def words(shown: str) -> str:
    return " ".join(unescape(shown).replace("\\", "").replace("\u00b1", "+-").split())


def printed(answer: Answer, *, width: int = 400, encoding: str = "utf-8") -> str:
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    draw(answer, Console(file=output, width=width))
    output.seek(0)
    return output.read()


def cells_of_page(markup: str) -> list[list[str]]:
    (table,) = re.findall(r'<table class="answer-chart[^"]*">.*?</table>', markup, re.DOTALL) or [""]
    rows = re.findall(r"<tr>\s*<th scope=\"row\".*?</tr>", table, re.DOTALL)
    return [
        [
            words(re.sub("<[^>]+>", "", cell))
            for cell in re.findall(r"<(?:th|td)[^>]*>(.*?)</(?:th|td)>", row, re.DOTALL)
        ]
        for row in rows
    ]


@pytest.mark.parametrize("name", KEPT_SESSIONS)
def test_every_form_shows_the_same_rows(name: str, kept_sessions: Path) -> None:
    session = load_session(kept_sessions / name)
    answer = answer_of(session)
    expected = [
        [row.name, *(fmt.ABSENT if value is None else value.text for value in row.values)]
        + [fact or fmt.ABSENT for fact in row.facts]
        for row in answer.rows
    ]
    assert cells_of_page(page.render(session)) == expected
    marked = [
        [words(cell) for cell in line.strip("| ").split(" | ")]
        for line in markdown.answer_lines(answer)
        if line.startswith("| ")
    ][1:]
    on_console = printed(answer).splitlines()
    for row, in_markdown in zip(expected, marked, strict=True):
        kept = [cell for cell in in_markdown if not re.fullmatch("[\u2588-\u258f]+", cell)]
        assert kept == [words(cell) for cell in row]
        (line,) = [line for line in on_console if line.startswith(f"{fmt.printable(row[0])}  ")]
        shown = re.sub("[\u2588-\u258f]+", " ", line)
        assert words(shown) == " ".join(row)
    in_text = words(" ".join(text.answer_lines(answer)))
    assert all(value.text in in_text for row in answer.rows for value in row.values if value is not None)


def test_bars_are_as_long_as_their_values_on_one_scale() -> None:
    assert TWO.share(TWO.rows[0], 0) == pytest.approx(86.2 / 90.5)
    assert TWO.share(TWO.rows[0], 1) == pytest.approx(8.8 / 90.5)
    assert TWO.share(TWO.rows[1], 1) is None
    assert TWO.ends(TWO.rows[0], 0) == pytest.approx((81.9 / 90.5, 1.0))
    first, second = [line.count("\u2588") for line in printed(TWO).splitlines()[2:4]]
    assert (first, second) == (24, 1)
    assert bar_text(0.0, 24) == ""
    assert bar_text(0.0001, 24) == "\u258f", "what is not zero has a bar"
    assert (bar_text(0.5, 10, ascii_only=True), bar_text(0.01, 10, ascii_only=True)) == ("#####", "#")


def test_a_terminal_that_cannot_write_them_gets_no_blocks() -> None:
    plain = printed(TWO, encoding="ascii")
    assert plain.isascii()
    assert "86.2 s +- 4.3  ########################" in plain
    assert "86.2 s \u00b1 4.3  \u2588\u2588" in printed(TWO)


@pytest.mark.parametrize("width", [60, 78, 100, 160])
def test_rows_fit_the_page_and_names_are_wrapped_first(width: int) -> None:
    answer = answer_of(table_cache())
    lines = list(row_lines(answer, width))
    assert max(map(len, lines)) <= width
    assert all(any(value.text in line for line in lines) for row in answer.rows for value in row.values if value)


def test_of_many_rows_those_of_the_comparison_are_shown_and_the_others_counted() -> None:
    rows = [Row(f"row {n}", (Value("1 s", 1.0, None, "s", ("5.7.22", f"v{n}")),)) for n in range(20)]
    shown, left_out = chosen(rows, [("5.7.22", "v19"), ("5.7.22", "v12")])
    assert [row.name for row in shown] == [*(f"row {n}" for n in range(MAX_ROWS - 2)), "row 12", "row 19"]
    assert left_out == 20 - MAX_ROWS
    answer = answer_of(table_cache())
    assert answer.left_out
    assert f"{answer.left_out} more rows in the tables." in answer.sentences


# --- What stands below the rows


def cold(**values: object) -> Session:
    run = with_parts(a_run(1, ("5.7.22", "cold"), 41.0), opened_unmodified=None, **values)
    return a_session((run,))


def test_phases_are_named_until_they_explain_nine_tenths() -> None:
    phases = (Phase("redo scan", 0.0, 10.0), Phase("validation", 10.0, 40.0), Phase("dictionary", 40.0, 41.0))
    (cause,) = [line for line in answer_of(cold(phases=phases)).cause if " cold: " in line]
    assert cause.startswith("5.7.22 cold: 30.0 s validation and 10.0 s redo scan of 41.0 s")
    assert "shorter" not in cause


def test_what_the_phases_do_not_explain_is_said() -> None:
    (cause,) = answer_of(cold(phases=(Phase("validation", 0.0, 30.0),))).cause
    assert "11.0 s between lines of the log that do not show what the server did" in cause


@pytest.mark.parametrize("name", KEPT_SESSIONS)
def test_a_cause_explains_nine_tenths_or_says_what_is_left(name: str, kept_sessions: Path) -> None:
    for line in answer_of(load_session(kept_sessions / name)).cause:
        found = re.fullmatch(r"\S+ [^:]*: (?:([\d.]+) of|(.*) of) ([\d.]+) s(?: are [^;]*)?(;.*)?\.", line)
        if found is None:
            continue
        parts = [found[1]] if found[1] else re.findall(r"([\d.]+) s ", found[2])
        is_left = " shorter phase" in line or " between lines of the log" in line
        assert is_left or sum(map(float, parts)) >= 0.89 * float(found[3]), line


def test_first_starts_are_beside_the_means() -> None:
    first = replace(a_run(2, ("5.7.22", "cold"), 97.61), verdict=Verdict.SAMPLED, extra=ExtraRun.FIRST_READ)
    session = a_session((a_run(1, ("5.7.22", "cold"), 41.0), first))
    assert "First start over new files, not averaged: 97.6 s." in answer_of(session).doubts


def test_warnings_of_one_kind_are_one_line_with_their_number(kept_sessions: Path) -> None:
    found = findings_of_each_cell(load_session(kept_sessions / "2026-11-25-six-servers"))
    assert list(warning_lines(found)) == [
        f"Warning, {found[0].about}: {found[0].text} (and 4 more of this kind)", "13 warnings in 5 kinds.",
    ]  # fmt: skip
    assert list(warning_lines(())) == []


def test_limits_of_the_server_are_kept_or_broken() -> None:
    settings: dict[str, str | int | float | bool | None] = {"read_iops": 5000}
    run = a_run(1, ("5.7.22", "cold"), 41.0)
    over = with_metrics(a_run(2, ("5.7.22", "cold"), 41.0), read_requests=5000.0 * 41 * 2)
    broken = replace(over, verdict=Verdict.VOID)
    kept = a_session((run,))
    assert "Limits of the server, 5,000 reads a second: kept." in answer_of(replace(kept, settings=settings)).doubts
    both = replace(a_session((run, broken)), settings=settings)
    assert (
        "Limits of the server, 5,000 reads a second: broken in run 2, which does not count." in answer_of(both).doubts
    )


def test_limits_of_the_figures_are_kept_or_broken() -> None:
    session = everything()

    def said(**settings: object) -> str:
        return "\n".join(answer_of(replace(session, settings={**session.settings, **settings})).doubts)  # type: ignore[dict-item]

    assert "No start above 600 s: kept." in said(max_startup=600)
    assert re.search(r"No start above 2 s: broken in runs ", said(max_startup=2))
    assert "than 5.7.22: broken: " in said(fail_over=0.1, baseline="5.7.22")
    assert "At most 900 % worse than 5.7.22: kept." in said(fail_over=9.0, baseline="5.7.22")


def test_the_page_has_no_single_large_figure(kept_sessions: Path) -> None:
    shown = page.render(load_session(kept_sessions / "2026-11-28-two-versions"))
    answer = shown.partition('<section id="answer"')[2].partition("</section>")[0]
    assert 'class="figure"' not in shown
    assert answer.index("answer-chart") < answer.index('class="answer effect"')
    assert len(re.findall(r'class="length v\d"', answer)) == len(re.findall(r'class="range"', answer)) == 4
