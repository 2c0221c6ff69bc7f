"""Which formats can a session be had in? Each is a function of what is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recovery.report import hyperfine, markdown, picture, sheet, text
from recovery.report.html.page import PAGE
from recovery.store import REPORT, escape_control_characters, load
from recovery.stored import Session

RENDERED: dict[str, Callable[[Session], str]] = {
    "text": text.render,
    "markdown": markdown.render,
    "csv": sheet.render,
    "hyperfine": hyperfine.render,
    "svg": picture.svg,
}
STORED = {"json": REPORT, "html": PAGE}
"""Given as they stand beside the session."""
FORMATS = (*RENDERED, *STORED)


def rendered(folder: Path, name: str) -> str:
    if name in STORED:
        return escape_control_characters((folder / STORED[name]).read_text(encoding="utf-8"))
    return RENDERED[name](load(folder))
