"""How do the experiments look in a browser? One page that fetches nothing, with a chart where there are ratios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recovery.experiments.bars import ratio_bars
from recovery.experiments.chapters import QUESTION, TITLE, host_words, pages, state
from recovery.experiments.pictures import pictures
from recovery.experiments.text import render_markdown, render_text
from recovery.experiments.told import Chapter, Journey, chapters, read, save
from recovery.experiments.verdicts import Word
from recovery.files import write_atomically
from recovery.report.html.page import template
from recovery.report.html.parts import Grid
from recovery.store import keeping_in

PAGE = "index.html"
_BADGES = {Word.SHOWS: "good", Word.NOT: "bad", Word.OPPOSITE: "bad", Word.UNTOLD: "doubtful"}


def render(journey: Journey, found: Sequence[Chapter]) -> str:
    every = pages(found)
    return template("experiments.html.j2").render(
        title=TITLE,
        question=QUESTION,
        state=state(journey),
        host=host_words(found),
        journey=journey,
        pages=every,
        charts={page.key: ratio_bars(page.answers, f"ratios-{page.key}") for page in every},
        pictures={one.publication.name: tuple(pictures(one.session)) for one in found if one.session},
        tables={
            page.key: {
                name: table and Grid(f"{name}-{page.key}", table)
                for name, table in (
                    ("published", page.published_table),
                    ("measured", page.measured_table),
                    ("answers", page.answers_table),
                )
            }
            for page in every
        },
        badges={word.value: css for word, css in _BADGES.items()},
    )


def write(folder: Path) -> tuple[Path, ...]:
    """All reports, made from what is stored there and in the sessions beside it."""
    journey = read(folder)
    found = chapters(journey, folder)
    save(journey, folder, found)
    rendered = {
        PAGE: render(journey, found),
        "report.txt": render_text(journey, found),
        "report.md": render_markdown(journey, found),
    }
    with keeping_in(folder):
        for name, content in rendered.items():
            write_atomically(folder / name, content.encode("utf-8", errors="replace"))
    return tuple(folder / name for name in rendered)
