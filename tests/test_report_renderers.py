"""Does every page hold its form, whatever names, notes and reasons come from outside?"""

from __future__ import annotations

import io
import re
import shlex
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from recovery.model import Session, Table
from recovery.report import console as console_report
from recovery.report import fmt, markdown, text
from recovery.report.stored_session import load_session
from recovery.report.tables import all_tables

SESSION = load_session(Path(__file__).parent.parent / "fixtures" / "sessions" / "three-versions")
OUTSIDE = st.text(max_size=120) | st.text("ab |`<>\\\"'[/]\u00e9\u00d7\n\t\x1b\u202e\ud800", max_size=200)


def with_strings(outside: str) -> Session:
    """The fixture with this text in every place that a user, a server or a host fills."""
    runs = tuple(replace(run, reason=outside, log=outside, cold_means=outside, version=outside) for run in SESSION.runs)
    return replace(
        SESSION,
        scenario=outside,
        question=outside,
        command=outside,
        versions=(outside, "5.7.22"),
        variants=(outside, "cold"),
        environment={outside: outside, "cpus": 2},
        settings={"data": outside},
        servers={outside: {outside: outside, "options": outside}},
        notes=(outside,),
        runs=runs,
    )


def on_console(session: Session, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, color_system=None)
    console_report.render(session, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@settings(max_examples=60, deadline=None)
@given(OUTSIDE)
def test_text_is_ascii_and_never_over_78_columns(outside: str) -> None:
    page = text.render(with_strings(outside))
    assert page.isascii()
    assert page.endswith("\n")
    assert max(map(len, page.split("\n"))) <= 78
    assert all(char.isprintable() or char == "\n" for char in page)


@settings(max_examples=30, deadline=None)
@given(OUTSIDE)
def test_markdown_rows_keep_their_cells_and_nothing_becomes_markup(outside: str) -> None:
    page = markdown.render(with_strings(outside))
    columns = 0
    fenced = False
    for line in page.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        assert "<" not in line
        if not line.startswith("| ") and not line.startswith("|-"):
            columns = 0
            continue
        bars = len(re.findall(r"(?<!\\)(?:\\\\)*\|", line))
        assert bars == (columns or bars)
        columns = bars


@settings(max_examples=30, deadline=None)
@given(OUTSIDE)
def test_the_console_prints_anything(outside: str) -> None:
    page = on_console(with_strings(outside), 80)
    assert "\x1b" not in page
    page.encode("utf-8")


def test_the_console_takes_nothing_for_markup() -> None:
    page = on_console(replace(SESSION, notes=("[red]no [/] markup[/red] :smile: [link=x]",)), 120)
    assert "[red]no [/] markup[/red] :smile: [link=x]" in page


@pytest.mark.parametrize("width", [80, 120])
def test_the_console_page_is_not_broken_up(width: int) -> None:
    command, *lines = [line for line in on_console(SESSION, width).split("\n") if not line.startswith("repeat:")]
    assert command.startswith("crash-recovery")
    assert max(map(len, lines)) <= width
    # Figures and names are whole, and a row is a line.
    rows = [line for line in lines if re.match(r" *\d+ +mariadb-10\.11\.5 +(cold|warm) +\d+\.\d+ ", line)]
    assert len(rows) == 6
    assert sum(line.startswith("mariadb-10.11.5") and "1.03" in line for line in lines) == 1


def test_the_wide_console_has_all_of_a_run_in_one_line() -> None:
    (line,) = (line for line in on_console(SESSION, 120).split("\n") if re.match(r" *1  5\.6\.24", line))
    assert line.rstrip().endswith("measured")


def test_the_command_can_be_pasted() -> None:
    page = text.render(replace(SESSION, command="recovery run --set 'a b=c' " + "--tables 200000 " * 12))
    pasted = page.split("To repeat it:\n")[1].split("\n\n")[0].replace("\\\n", "")
    assert shlex.split(pasted) == ["recovery", "run", "--set", "a b=c", *["--tables", "200000"] * 12]


def test_markdown_escapes() -> None:
    session = replace(SESSION, notes=("a|b `c` <b>x</b> *y* [z](u) _q_ innodb_page_size \\ &amp;",), command="a ``` b")
    page = markdown.render(session)
    assert "- a\\|b \\`c\\` &lt;b&gt;x&lt;/b&gt; \\*y\\* \\[z\\](u) \\_q\\_ innodb_page_size \\\\ &amp;amp;\n" in page
    assert "````sh\na ``` b\n````\n" in page


def a_table(*widths: int, rows: int = 1) -> Table:
    return Table(
        title="t",
        headers=tuple(f"h{number}" for number in range(len(widths))),
        rows=tuple(tuple("x" * width for width in widths) for _ in range(rows)),
        numeric=(False,) * len(widths),
        notes=("n",),
    )


def test_a_table_that_fits_is_left_as_it_is() -> None:
    assert fmt.split(a_table(10, 10), 22, gap=2) == (a_table(10, 10),)
    assert len(fmt.split(a_table(10, 10, 10), 22, gap=2)) == 2


def test_a_split_table_loses_no_column_and_repeats_the_first() -> None:
    parts = fmt.split(a_table(3, 20, 20, 20, 20, 20), 50, gap=2)
    assert [part.headers for part in parts] == [("h0", "h1", "h2"), ("h0", "h3", "h4"), ("h0", "h5")]
    assert [part.title for part in parts] == ["t", "", ""]
    assert [part.notes for part in parts] == [(), (), ("n",)]


def test_every_part_of_a_split_table_says_which_row_it_is(stored_session: Path) -> None:
    tables = [fmt.printable_table(table) for table in all_tables(load_session(stored_session))]
    for table, width in product(tables, (78, 60, 40)):
        whole = {row[: table.keys] for row in table.rows}
        gap = fmt.column_gap(table, width)
        parts = fmt.split(table, width, gap=gap)
        for part in parts:
            assert len({row[: part.keys] for row in part.rows}) == len(whole), (table.title, part.headers)
            columns = fmt.widths(part, width, gap=gap)
            assert sum(columns) + gap * (len(columns) - 1) <= width, (table.title, part.headers)
        if len(parts) > 1 and width > 40:
            assert len(whole) == len(table.rows), f"{table.title}: its keys do not tell its rows apart"


def test_keys_that_take_too_much_of_a_page_are_narrowed_and_constant_ones_said_once() -> None:
    rows = tuple(("a" * 24, f"{number}" * 20, "c" * 24, "d", "e" * 20, "f" * 20) for number in range(2))
    table = Table("t", tuple("abcdef"), rows, (False,) * 6, keys=4)
    parts = fmt.split(table, 60, gap=2)
    assert [part.headers for part in parts] == [tuple("abcde"), ("b", "f")]
    assert fmt.widths(parts[0], 60, gap=2) == (10, 11, 11, 1, 19)
    assert fmt.widths(parts[1], 60, gap=2) == (20, 20)


def test_one_blank_between_columns_where_that_saves_a_part() -> None:
    assert fmt.column_gap(a_table(10, 10, 10), 34) == 2
    assert fmt.column_gap(a_table(10, 10, 10), 33) == 1
    assert fmt.column_gap(a_table(10, 10, 10), 31) == 2


def test_control_characters_never_reach_a_terminal() -> None:
    assert fmt.printable("a\n b\x1b[31m\ud800\u202ec") == "a b?[31m??c"


class Counted(str):
    """A version that counts how often it is compared."""

    __slots__ = ()
    __hash__ = str.__hash__
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_a_report_groups_its_runs_once() -> None:
    """With 1,000 runs in 1,000 cells, a search of all runs for each cell takes a million comparisons."""
    versions = tuple(Counted(f"8.0.{number}") for number in range(50))
    variants = tuple(f"cold-{number}" for number in range(20))
    cells = [(version, variant) for version in versions for variant in variants]
    runs = tuple(
        replace(SESSION.runs[0], number=number, version=version, variant=variant)
        for number, (version, variant) in enumerate(cells, 1)
    )
    session = replace(SESSION, versions=versions, variants=variants, runs=runs, planned_runs=len(runs), servers={})
    Counted.compared = 0
    text.render(session)
    assert Counted.compared < 300_000
