"""The experiments as text, never wider than 78 columns, and as markdown, with every text from outside escaped. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from recovery.experiments.chapters import QUESTION, TITLE, PageOf, host_words, pages, state
from recovery.experiments.told import Chapter, Journey
from recovery.report.markdown import escaped, fenced, table_lines
from recovery.report.text import WIDTH, command_lines, paragraph, render_table
from recovery.stored import Table

_BULLET = "* "


def render_text(journey: Journey, chapters: Sequence[Chapter]) -> str:
    lines = [TITLE, "=" * len(TITLE), QUESTION]
    for told in (state(journey), host_words(chapters)):
        lines += paragraph(told) if told else []
    found = pages(chapters)
    lines.append("")
    for page in found:
        lines += paragraph(page.in_short)
    lines += ["", "To repeat it:", *command_lines(journey.command)]
    for page in found:
        lines += ["", "", *_page(page)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _page(page: PageOf) -> Iterator[str]:
    title = paragraph(page.title)
    yield from title
    yield "=" * min(WIDTH, max(map(len, title)))
    yield from paragraph(page.question)
    yield from _part("Published", page.published, page.published_table)
    yield from _part("Measured here", page.measured, page.measured_table)
    if page.command:
        yield from ("", "To repeat it:", *command_lines(page.command))
    if page.link:
        yield f"Its own report: {page.link}"
    if page.answers:
        yield from _part("Does it show here?", (), page.answers_table)
        yield ""
        for one in page.sentences:
            yield from _item(f"{one.about}: {one.text}")
    if page.beyond:
        yield from ("", "What this host cannot show")
        for told in page.beyond:
            yield from _item(told)


def _item(told: str) -> Iterator[str]:
    for number, line in enumerate(paragraph(told, width=WIDTH - len(_BULLET))):
        yield f"{' ' * len(_BULLET) if number else _BULLET}{line}"


def _part(title: str, told: Sequence[str], table: Table | None) -> Iterator[str]:
    yield from ("", title, "-" * len(title))
    for one in told:
        yield from paragraph(one)
    if table is not None:
        yield ""
        # Below its title and a rule: the part has one of its own.
        yield from render_table(replace(table, title="")).splitlines()[2:]


def render_markdown(journey: Journey, chapters: Sequence[Chapter]) -> str:
    found = pages(chapters)
    lines = [f"# {TITLE}"]
    for told in (QUESTION, state(journey), host_words(chapters)):
        lines += ["", escaped(told)] if told else []
    lines += ["", *(f"- {escaped(page.in_short)}" for page in found), "", "To repeat it:", "", *fenced(journey.command)]
    for page in found:
        lines += ["", *_markdown(page)]
    return "\n".join(lines) + "\n"


def _markdown(page: PageOf) -> Iterator[str]:
    yield from (f"## {escaped(page.title)}", "", escaped(page.question))
    for title, told, table in (
        ("Published", page.published, page.published_table),
        ("Measured here", page.measured, page.measured_table),
        ("Does it show here?", (), page.answers_table),
    ):
        if not told and table is None:
            continue
        yield from ("", f"### {title}")
        for one in told:
            yield from ("", escaped(one))
        if table is not None:
            yield ""
            yield from list(table_lines(table))[2:]
    if page.answers:
        yield ""
        yield from (f"- {escaped(one.about)}: {escaped(one.text)}" for one in page.sentences)
    if page.beyond:
        yield from ("", "### What this host cannot show", "")
        yield from (f"- {escaped(told)}" for told in page.beyond)
    if page.command:
        yield from ("", *fenced(page.command))
    if page.link:
        yield from ("", f"[Its own report]({page.link})")
