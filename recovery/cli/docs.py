"""Contains `recovery docs`, which prints pages of the documentation, or sections of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from recovery.cli.completion import complete_page
from recovery.cli.output import print_line
from recovery.errors import UsageError, did_you_mean
from recovery.linux.files import doc_pages

_HEADING = re.compile(r"(#+) (.+)")
_COMMENT = re.compile(r"^<!--.*?-->\n+", re.DOTALL | re.MULTILINE)
"""It says what a table is made of, for `make results`."""


@click.command("docs")
@click.argument("pages", nargs=-1, metavar="[PAGE[#SECTION]]...", shell_complete=complete_page)
def docs(pages: tuple[str, ...]) -> None:
    """Print a page of the documentation, or a section of it, such as `shorten#redo`. Without PAGE, list all pages."""
    found = doc_pages()
    if not pages:
        for name, path in found.items():
            print_line(f"{name:<20} {_title(path)}")
    for text in [_text(given, found) for given in pages]:
        _print(text)


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _text(given: str, found: Mapping[str, Path]) -> str:
    """Returns the page or the section. `given` is as the tool's advice or a link of a page has it: `shorten#redo`,
    `docs/shorten.md#redo`."""
    page, _, anchor = given.partition("#")
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in found:
        raise UsageError(
            f"there is no page {page}", did_you_mean(name, list(found), otherwise="`recovery docs` lists them")
        )
    text = _COMMENT.sub("", found[name].read_text(encoding="utf-8"))
    if not anchor:
        return text
    sections = dict(_sections(text))
    if anchor not in sections:
        there = f"there are: {', '.join(sections)}"
        raise UsageError(
            f"the page {name} has no section {anchor}",
            did_you_mean(anchor, list(sections), prefix=f"{name}#", otherwise=there),
        )
    return sections[anchor]


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yields the anchor and the text of each section, with those inside it. The anchor is made as in a link to it."""
    lines, headings, in_code = text.splitlines(), [], False
    for number, line in enumerate(lines):
        in_code ^= line.startswith("```")
        if not in_code and (match := _HEADING.fullmatch(line)) is not None:
            anchor = re.sub(r"[^\w -]", "", match[2].lower()).replace(" ", "-")
            headings.append((number, len(match[1]), anchor))
    for begin, level, anchor in headings:
        later = (number for number, other, _ in headings if number > begin and other <= level)
        yield anchor, "\n".join(lines[begin : next(later, len(lines))]).strip() + "\n"


def _print(text: str) -> None:
    """Prints Markdown as it is, or with its lines wrapped and its tables drawn on a terminal."""
    if not sys.stdout.isatty():
        for line in text.splitlines():
            print_line(line)
        return
    from rich.markdown import Markdown

    from recovery.report.console import ReportConsole

    ReportConsole().print(Markdown(text, hyperlinks=False))
