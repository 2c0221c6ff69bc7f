"""Prints a session on a terminal, at the width of the window: its answer in a few lines, or also its tables.

The report files have the host and the servers in full.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shutil import which
from textwrap import wrap

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table as Grid
from rich.text import Text

from recovery.analysis.combined import CombinedSession
from recovery.analysis.summary import is_compared
from recovery.model import EXTRA_RUN_WORDS, Session, Status, Table, Verdict
from recovery.report import fmt
from recovery.report.answer import Answer, printable, row_lines
from recovery.report.summary_text import advice_of, answer_of, slowest_flavor
from recovery.report.tables import heading, status_line, terminal_tables

_MIN_WIDTH = 60
"""Minimum width of tables; in a narrower window the lines are wrapped by the terminal."""
_MAX_LINES, _LEAST_LINES = 23, 4
"""Most lines of the answer, with where the report is and the next commands, and least of its sentences."""
_USUAL_WIDTH = 80
_STYLES = {
    Verdict.FAILED.value: "red",
    Verdict.VOID.value: "yellow",
    Verdict.MEASURED.value: "green",
    **dict.fromkeys(EXTRA_RUN_WORDS, "cyan"),
}


class ReportConsole(Console):
    """A console on standard output. A reader that closes the pipe early (`| head`) does not change the exit status of
    the measurement."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__(highlight=False, width=width)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def program_name() -> str:
    """Returns the command of this tool as the user can call it: with its path if the PATH does not find it."""
    called = Path(sys.argv[0])
    return short_path(called) if called.name == "recovery" and which("recovery") is None else "recovery"


def short_path(path: Path) -> str:
    """Returns the path relative to the working directory if that is shorter and at most one level up, else from the
    root."""
    relative, absolute = os.path.relpath(path), os.path.normpath(path.absolute())
    is_far = Path(relative).parts[:2] == (os.pardir, os.pardir)
    return absolute if is_far or len(absolute) <= len(relative) else relative


def show(session: Session, folder: Path, console: Console, *, verbose: bool) -> None:
    if verbose:
        render(session, console)
    else:
        print_answer(session, folder, console)


def print_answer(session: Session, folder: Path, console: Console) -> None:
    """Prints the answer, where the report is, and the next commands."""
    links = [f"report: {folder / 'report.html'}"]
    if (advice := advice_of(session)) is not None:
        links.append(f"what shortens it: {advice.replace('recovery', program_name(), 1)}")
    state = () if session.status == Status.FINISHED else (status_line(session),)
    for number, line in enumerate(_answer(session, console, state, room=_MAX_LINES - len(links) - 1)):
        console.print(Text(line, style="" if number else "bold"))
    for line in (*links, _next_commands(session, folder)):
        console.print(Text(fmt.printable(line)), soft_wrap=not console.record)


def show_sessions(session: CombinedSession, results: Path, console: Console, *, verbose: bool) -> None:
    """Prints the report of several sessions of a measurement, which are in this results folder."""
    if verbose:
        render(session, console)
        return
    names = ",".join(part.name for part in session.parts)
    for number, line in enumerate(_answer(session, console, (), room=_MAX_LINES - 1)):
        console.print(Text(line, style="" if number else "bold"))
    place = "" if results == Path("results").absolute() else f" --results {shlex.quote(short_path(results))}"
    further = f"next: {program_name()} report -v{place} {shlex.quote(names)} (tables; --format html > FILE: a page)"
    console.print(Text(fmt.printable(further)), soft_wrap=not console.record)


def _answer(session: Session, console: Console, further: Sequence[str], *, room: int) -> Iterator[str]:
    """Yields the answer in lines: its title, its rows with their bars, and as much below them as there is room for."""
    answer = _on_console(answer_of(session), console)
    head = wrap(f"{answer.title}:" if answer.title else heading(session), console.width)
    rows = list(row_lines(answer, console.width, ascii_only=not _has_blocks(console)))
    warnings = list(answer.warnings)
    if len(warnings) > 1:
        warnings[-1] = f"{warnings[-1].removesuffix('.')}: -v"
    sentences = (*answer.sentences, *map(fmt.printable, further))
    keep = not is_compared(session)
    yield from (*head, *rows)
    yield from fitted(sentences, warnings, console.width, max(_LEAST_LINES, room - len(head) - len(rows)), keep=keep)


def draw(answer: Answer, console: Console) -> None:
    """Prints an answer at the width of the window: its title, its rows with their bars, and what is below them."""
    answer = _on_console(answer, console)
    if answer.title:
        console.print(Text(f"{answer.title}:"))
    for line in row_lines(answer, console.width, ascii_only=not _has_blocks(console)):
        console.print(Text(line), soft_wrap=True)
    for paragraph in (*answer.sentences, *answer.warnings):
        console.print(Text(paragraph))


def _on_console(answer: Answer, console: Console) -> Answer:
    has_blocks = _has_blocks(console)
    return printable(answer, lambda text: fmt.plus_minus(fmt.printable(text)) if has_blocks else fmt.printable(text))


def _has_blocks(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")


_CUT_FIRST = ("The log shows ", "The host changed ", "First start ", "Limits of the server", "Over ")
"""How paragraphs begin that are cut before the answer with its storage and the earlier sessions. The last keeps a
line."""


def fitted(paragraphs: Sequence[str], warning: Sequence[str], width: int, count: int, *, keep: bool) -> Iterator[str]:
    """Yields the paragraphs and the warning as lines, at most so many. First the warning is cut to a line, then what
    explains the answer, to a line each and then away. Of the rest the longest are cut, and of these the last. There may
    be more lines on a narrow terminal, and with `keep`, which cuts no paragraph."""
    texts = [*paragraphs, *warning]
    rows = [len(wrap(text, width)) for text in texts]
    if warning:
        rows[-1] = min(rows[-1], max(1, min(2, count - sum(rows[:-1]))))
    explains = [place for start in _CUT_FIRST for place, text in enumerate(paragraphs) if text.startswith(start)]
    if not keep and width >= _USUAL_WIDTH:
        for least in (1, 0):
            for place in explains:
                kept = max(least, texts[place].startswith(_CUT_FIRST[-1]))
                rows[place] = max(min(rows[place], kept), rows[place] - max(0, sum(rows) - count))
        while sum(rows) > count and max(rows) > 1:
            rows[max(range(len(rows)), key=lambda place: (rows[place], place))] -= 1
    for text, most in zip(texts, rows, strict=True):
        if most:
            yield from wrap(text, width, max_lines=most, placeholder=" ...")


def _next_commands(session: Session, folder: Path) -> str:
    """Returns the next commands. They name the folder of a session that is not in `results` here."""
    flavors = dict.fromkeys(run.flavor for run in session.runs)
    only = f" --for {slowest_flavor(session) or next(iter(flavors))}" if len(flavors) > 1 else ""
    here = Path("results").absolute()
    named = "" if folder.absolute().parent == here else f" {shlex.quote(short_path(folder))}"
    program = program_name()
    return f"next: {program} report -v{named} (tables), {program} bundle{only}{named} (bug report)"


def render(session: Session, console: Console) -> None:
    """Prints the answer and the tables. Every string is wrapped in Text, so that text from a server or user is never
    interpreted as markup."""
    console.print(Text(fmt.printable(heading(session)), style="bold"))
    draw(answer_of(session), console)
    console.print(Text(fmt.printable(status_line(session))))
    print_tables(terminal_tables(session), console)
    console.print()
    # A single line, so that it can be copied. It is wrapped if the output is recorded for a picture, which would cut it
    # off.
    console.print(Text(f"repeat: {fmt.printable(session.command)}"), soft_wrap=not console.record)


def print_tables(tables: Iterable[Table], console: Console) -> None:
    for table in tables:
        console.print()
        for part in _grids(fmt.printable_table(table), max(console.width, _MIN_WIDTH)):
            console.print(part)


def _grids(table: Table, width: int) -> Iterator[Text | Grid]:
    yield Text(table.title, style="bold")
    gap = fmt.column_gap(table, width)
    for number, part in enumerate(fmt.split(table, width, gap=gap)):
        if number:
            yield Text()
        yield _grid(part, fmt.widths(part, width, gap=gap), gap)
        for note in part.notes:
            yield Text(note, style="dim")


def _grid(table: Table, columns: tuple[int, ...], gap: int) -> Grid:
    # The box itself uses one of the blanks between two columns.
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), show_edge=False, pad_edge=False)
    for header, is_number, width in zip(table.headers, table.numeric, columns, strict=True):
        justify: JustifyMethod = "right" if is_number else "left"
        grid.add_column(Text(header), justify=justify, width=width, overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    return grid
