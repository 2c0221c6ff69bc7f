"""The terminal's page as a picture (SVG), for a page that wants to show what was printed."""

from __future__ import annotations

import io

from rich.console import Console

from recovery.model import Session
from recovery.report import console as console_report

WIDTH = 100


def svg(session: Session) -> str:
    recorder = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False, force_terminal=True)
    console_report.render(session, recorder)
    return recorder.export_svg(title=f"recovery {session.scenario}")
