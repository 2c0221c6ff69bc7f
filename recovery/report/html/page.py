"""How does the report look in a browser? One file: fetches nothing, runs nothing, escapes what is from outside."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from recovery.findings import checks_of, not_looked_at
from recovery.measures import is_work
from recovery.paths import template_dir
from recovery.report import layout
from recovery.report.answer import answers
from recovery.report.doubts import by_hint
from recovery.report.html.sections import sections
from recovery.report.tables import heading, state
from recovery.report.touched import FAILS, HOLDS, OPENS_ONLY
from recovery.stored import Session, Verdict

PAGE = "report.html"
"""Its name beside the other reports."""
_BADGES = {
    Verdict.MEASURED.value: "good",
    Verdict.SAMPLED.value: "plain",
    Verdict.VOID.value: "doubtful",
    Verdict.FAILED.value: "bad",
    HOLDS: "good",
    OPENS_ONLY: "doubtful",
    FAILS: "bad",
}
"""Cells that are a verdict: a colour beside the word."""


def render(session: Session, flames: Mapping[int, str] | None = None) -> str:
    """The whole page. `flames` are pictures of stacks, by the number of the run."""
    return template(f"{PAGE}.j2").render(
        session=session,
        heading=heading(session),
        state=state(session),
        answers=[_bold(answer, session.versions) for answer in answers(session)],
        findings=by_hint(session),
        checks=len(checks_of(session)),
        not_looked_at=not_looked_at(session),
        sections=sections(session, flames or {}),
        badges=_BADGES,
        at_work=is_work(session),
    )


@cache
def template(name: str) -> Template:
    """One of ours, with everything from outside escaped."""
    # By its ending alone Jinja would not escape `.html.j2`.
    environment = Environment(
        loader=FileSystemLoader(template_dir()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    return environment.get_template(name)


def _printable(value: object) -> object:
    """One line, and no control characters; what was drawn is as it is."""
    return layout.printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _bold(answer: str, versions: tuple[str, ...]) -> tuple[str, str]:
    """The version that a sentence begins with, and the rest of it."""
    first = max((version for version in versions if answer.startswith(version)), key=len, default="")
    return first, answer[len(first) :]
