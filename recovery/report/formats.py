"""Which formats can a session be had in? Each is a function of what is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recovery.report import hyperfine, markdown, picture, sheet, text
from recovery.report.write import page_of
from recovery.store import REPORT, escape_control_characters, load
from recovery.stored import Session

RENDERED: dict[str, Callable[[Session], str]] = {
    "text": text.render,
    "markdown": markdown.render,
    "csv": sheet.render,
    "hyperfine": hyperfine.render,
    "svg": picture.svg,
}
FORMATS = (*RENDERED, "json", "html")


def rendered(folder: Path, name: str) -> str:
    """Nothing is written. JSON is report.json as it was stored."""
    if name == "json":
        return escape_control_characters((folder / REPORT).read_text(encoding="utf-8"))
    session = load(folder)
    return escape_control_characters(page_of(folder, session)) if name == "html" else RENDERED[name](session)
