"""Where do the rendered reports go? Beside the stored session that they are made of, and of nothing else."""

from __future__ import annotations

from pathlib import Path

from recovery.curves import curves
from recovery.files import write_atomically
from recovery.report import markdown, text
from recovery.report.chart import CHART, chart
from recovery.store import keeping_in, load


def write_reports(folder: Path) -> tuple[Path, ...]:
    """report.txt and report.md, and a chart where there is a curve, made from what is stored in the folder."""
    session = load(folder)
    rendered = {"report.txt": text.render(session), "report.md": markdown.render(session)}
    if drawn := curves(session):
        rendered[CHART] = chart(f"{session.title}, against the number of tables", drawn)
    paths = []
    with keeping_in(folder):
        for name, content in rendered.items():
            write_atomically(folder / name, content.encode("utf-8", errors="replace"))
            paths.append(folder / name)
    return tuple(paths)
