"""Where do the rendered reports go? Beside the stored session that they are made of, and of nothing else."""

from __future__ import annotations

from pathlib import Path, PurePath

from recovery.analysis.growth import curves
from recovery.analysis.phase_names import in_order
from recovery.linux.files import write_atomically
from recovery.model import Session
from recovery.report import markdown, text
from recovery.report.html import page
from recovery.report.html.svg import CHART, chart, flame
from recovery.report.startup_tables import flame_of
from recovery.report.stored_session import STACKS, keeping_in, load, stacks_of


def write_reports(folder: Path) -> tuple[Path, ...]:
    """report.txt, report.md and report.html, made from what is stored in the folder; a chart where there is a curve,
    and a flame graph for each start whose stacks were taken."""
    session = load(folder)
    rendered = {
        "report.txt": text.render(session),
        "report.md": markdown.render(session),
        page.PAGE: page_of(folder, session),
    }
    if drawn := curves(session):
        rendered[CHART] = chart(f"{session.title}, against the number of tables", drawn)
    rendered |= dict(_flames(folder, session).values())
    paths = []
    with keeping_in(folder):
        for name, content in rendered.items():
            write_atomically(folder / name, content.encode("utf-8", errors="replace"))
            paths.append(folder / name)
    return tuple(paths)


def page_of(folder: Path, session: Session) -> str:
    """The page for a browser, with the flame graphs of the stacks beside the session."""
    return page.render(session, {number: drawing for number, (_, drawing) in _flames(folder, session).items()})


def _flames(folder: Path, session: Session) -> dict[int, tuple[str, str]]:
    """By the number of the run: the name of a picture beside its folded stacks, and the picture."""
    drawn = {}
    for run in session.runs:
        folded = stacks_of(folder, run)
        if folded is None:
            continue
        title = f"{run.version} {run.variant}, run {run.number}: {run.samples} samples by {run.sampled_by}"
        picture = flame(title, folded, in_order(names[0] for names in folded))
        drawn[run.number] = (flame_of(f"{STACKS}/{PurePath(run.stacks or '').name}"), picture)
    return drawn
