"""Writes the rendered reports into the folder of the stored session."""

from __future__ import annotations

from pathlib import Path

from recovery.linux.files import write_atomically
from recovery.model import Session
from recovery.report import markdown, text
from recovery.report.html import page
from recovery.storage.sessions import writing_results


def write_reports(folder: Path, session: Session) -> tuple[Path, ...]:
    """Writes report.txt, report.md and report.html of a session into its folder, and returns their paths."""
    rendered = {
        "report.txt": text.render(session),
        "report.md": markdown.render(session),
        page.PAGE: page.render(session),
    }
    paths = []
    with writing_results(folder):
        for name, content in rendered.items():
            write_atomically(folder / name, content.encode("utf-8", errors="replace"), links_until=folder.parent)
            paths.append(folder / name)
    return tuple(paths)
