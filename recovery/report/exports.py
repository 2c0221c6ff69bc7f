"""Exports a stored session in every supported format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recovery.analysis.combined import CombinedSession
from recovery.linux.files import parse_json, read_stored_text
from recovery.model import Session
from recovery.report import markdown, text
from recovery.report.csv_report import render_csv
from recovery.report.github_benchmark import render_github_benchmark
from recovery.report.html import page
from recovery.report.json_report import sessions_to_json, to_json
from recovery.report.junit import render_junit
from recovery.report.openmetrics import render_openmetrics
from recovery.storage.format import escape_control_characters
from recovery.storage.sessions import REPORT_FILE, load_session

RENDERERS: dict[str, Callable[[Session], str]] = {
    "text": text.render,
    "markdown": markdown.render,
    "csv": render_csv,
    "github-benchmark": render_github_benchmark,
    "openmetrics": render_openmetrics,
    "junit": render_junit,
}
FORMATS = (*RENDERERS, "json", "html")


def render_sessions(session: CombinedSession, name: str) -> str:
    """Returns the report of several sessions in the given format."""
    if name == "json":
        return sessions_to_json(session).decode()
    return escape_control_characters(page.render(session) if name == "html" else RENDERERS[name](session))


def render_as(folder: Path, name: str) -> str:
    """Returns the session in the given format, without writing any file. JSON is report.json as it was stored or, while
    the session runs and if it was killed, as it would be stored now."""
    session = load_session(folder)
    if name == "json":
        stored = read_stored_text(folder / REPORT_FILE)
        is_complete = "answer" in parse_json(stored)
        return escape_control_characters(stored if is_complete else to_json(session).decode())
    return escape_control_characters(page.render(session)) if name == "html" else RENDERERS[name](session)
