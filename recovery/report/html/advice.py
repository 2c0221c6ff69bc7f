"""Shows on the page what shortens the longest phase: the sections of docs/shorten.md that the answer names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from recovery.linux.files import doc_text
from recovery.model import Session
from recovery.report.html.parts import unbroken
from recovery.report.summary_text import advice_of

_PAGE = "shorten"
_INLINE = re.compile(r"\[(?P<words>[^\]]+)\]\((?P<address>[^)\s]+)\)|\*\*(?P<strong>.+?)\*\*|`(?P<code>[^`]+)`")


@dataclass(frozen=True)
class Advice:
    """A section of the documentation."""

    title: str
    command: str
    """Prints the section."""
    points: tuple[Markup, ...]


def advice(session: Session) -> tuple[Advice, ...]:
    """Returns what shortens the longest phase of the slowest start; nothing if no phase is known, or in an installation
    without the documentation."""
    wanted = re.findall(r"#([\w-]+)", advice_of(session) or "")
    text = doc_text(_PAGE) if wanted else None
    found = {_anchor(title): (title, body) for title, body in _sections(text or "")}
    return tuple(
        Advice(title, f"recovery docs {_PAGE}#{name}", tuple(_points(body)))
        for name in wanted
        if name in found
        for title, body in (found[name],)
    )


def _sections(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        yield title.strip(), body


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _points(body: str) -> Iterator[Markup]:
    for line in body.splitlines():
        if line.strip():
            yield _inline(line.removeprefix("* "))


def _inline(text: str) -> Markup:
    """Returns Markdown within a line as HTML. A link to another page of the documentation becomes text: the page of the
    report lies elsewhere."""
    found, end = Markup(""), 0
    for match in _INLINE.finditer(text):
        found += unbroken(text[end : match.start()])
        end = match.end()
        if match["code"]:
            found += Markup("<code>{}</code>").format(match["code"])
        elif match["strong"]:
            found += Markup("<strong>{}</strong>").format(_inline(match["strong"]))
        elif match["address"].startswith("https://"):
            found += Markup('<a href="{}">{}</a>').format(match["address"], _inline(match["words"]))
        else:
            found += _inline(match["words"])
    return found + unbroken(text[end:])
