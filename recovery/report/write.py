"""Writes the rendered reports into the folder of the stored session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

from recovery.analysis.stacks import Folded
from recovery.linux.files import write_atomically
from recovery.model import Session
from recovery.phase_table import sorted_phases
from recovery.report import markdown, text
from recovery.report.fmt import count_text, flame_graph_path
from recovery.report.html import page
from recovery.report.html.flame_graph import flame_graph
from recovery.storage.sessions import STACKS_FOLDER, load_stacks, writing_results


def write_reports(folder: Path, session: Session) -> tuple[Path, ...]:
    """Writes report.txt, report.md and report.html of a session into its folder, and returns the paths of all files
    written. It adds a flame graph for each run with sampled stacks."""
    flames = _flames(folder, session, session)
    rendered = {
        "report.txt": text.render(session),
        "report.md": markdown.render(session),
        page.PAGE: _page(session, flames),
    }
    rendered |= dict(flames.values())
    paths = []
    with writing_results(folder):
        for name, content in rendered.items():
            write_atomically(folder / name, content.encode("utf-8", errors="replace"), links_until=folder.parent)
            paths.append(folder / name)
    return tuple(paths)


def render_page(
    folder: Path,
    session: Session,
    *,
    site: page.SiteLinks | None = None,
    stored: Session | None = None,
    shared_stacks: Callable[[Folded], Folded] | None = None,
) -> str:
    """Returns the HTML report, including the flame graphs of the stacks stored with the session. On a site it links to
    other pages. Of a reduced session, `stored` names the files of its stacks, and `shared_stacks` reduces them."""
    return _page(session, _flames(folder, session, stored or session, shared_stacks), site=site)


def _page(session: Session, flames: Mapping[int, tuple[str, str]], *, site: page.SiteLinks | None = None) -> str:
    return page.render(session, {number: drawing for number, (_, drawing) in flames.items()}, site=site)


def _flames(
    folder: Path, session: Session, stored: Session, shared_stacks: Callable[[Folded], Folded] | None = None
) -> dict[int, tuple[str, str]]:
    """Returns, by the number of the run, the path of each flame graph next to its folded stacks, and the drawing."""
    drawn = {}
    for run, with_file in zip(session.runs, stored.runs, strict=True):
        folded = load_stacks(folder, with_file)
        if folded is None:
            continue
        if shared_stacks is not None:
            folded = shared_stacks(folded)
        samples = f"{count_text(run.stacks.count or 0, 'sample')} by {run.stacks.program}"
        title = f"{run.version} {run.variant}, run {run.number}: {samples}"
        picture = flame_graph(title, folded, sorted_phases(names[0] for names in folded))
        drawn[run.number] = (flame_graph_path(f"{STACKS_FOLDER}/{PurePath(run.stacks.file or '').name}"), picture)
    return drawn
