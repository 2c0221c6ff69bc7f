"""Exports a stored session in every supported format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recovery.linux.files import read_stored_text
from recovery.model import Session
from recovery.report import markdown, text
from recovery.report.csv_report import render_csv
from recovery.report.write import render_page
from recovery.storage.format import escape_control_characters
from recovery.storage.sessions import REPORT_FILE, load_session

RENDERERS: dict[str, Callable[[Session], str]] = {
    "text": text.render,
    "markdown": markdown.render,
    "csv": render_csv,
}
FORMATS = (*RENDERERS, "json", "html")


def render_as(folder: Path, name: str) -> str:
    """Returns the session in the given format, without writing any file. JSON is report.json as it was stored."""
    if name == "json":
        return escape_control_characters(read_stored_text(folder / REPORT_FILE))
    session = load_session(folder)
    return escape_control_characters(render_page(folder, session)) if name == "html" else RENDERERS[name](session)
