"""The terminal's page as a picture (SVG), for a page that wants to show what was printed."""

from __future__ import annotations

import io
import re

from rich.console import Console

from recovery.model import Session
from recovery.report import console as console_report
from recovery.report import format as fmt

WIDTH = 100
_REMOTE_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def svg(session: Session) -> str:
    """Fetches nothing when it is looked at: the recorder's own fonts come from the network, and are left out."""
    recorder = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False, force_terminal=True)
    console_report.render(session, recorder)
    return _REMOTE_FONTS.sub("", recorder.export_svg(title=fmt.printable(f"recovery {session.scenario}")))
