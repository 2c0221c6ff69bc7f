"""Which formats can a session be had in? Each is a function of what is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recovery.report import hyperfine, markdown, picture, sheet, text
from recovery.store import REPORT, load
from recovery.stored import Session

JSON = "json"
RENDERED: dict[str, Callable[[Session], str]] = {
    "text": text.render,
    "markdown": markdown.render,
    "csv": sheet.render,
    "hyperfine": hyperfine.render,
    "svg": picture.svg,
}
FORMATS = (*RENDERED, JSON)


def rendered(folder: Path, name: str) -> str:
    """The session of this folder; report.json itself is given as it stands."""
    if name == JSON:
        return (folder / REPORT).read_text(encoding="utf-8")
    return RENDERED[name](load(folder))
