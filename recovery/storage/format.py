"""The format of stored sessions and runs: JSON, with the names of the types in `model.py`.

A run has its parts as they were measured, and one map of metrics. A part that was not measured is left out, and so is
the purpose of a run that is not extra. There was a format 1, in which runs were flat; no release wrote or reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from recovery.linux.files import read_stored
from recovery.metrics import typed_value
from recovery.model import Run, Session

FORMAT = 2
_RUN = TypeAdapter(Run)
_SESSION = TypeAdapter(Session)
_PARTS = {part.name: part.default for part in fields(Run) if is_dataclass(part.default)}
"""The parts of a run that are types of their own, each without any value."""
_TERMINAL_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def run_fields(run: Run) -> dict[str, Any]:
    """Returns a run as it is stored."""
    stored: dict[str, Any] = _RUN.dump_python(run, mode="json")
    stored["metrics"] = {name: typed_value(name, value) for name, value in run.metrics.items()}
    for name, empty in _PARTS.items():
        if getattr(run, name) == empty:
            del stored[name]
    if run.extra is None:
        del stored["extra"]
    return stored


def session_fields(session: Session) -> dict[str, Any]:
    """Returns a session as it is stored, without what a report computes from it."""
    stored = _SESSION.dump_python(replace(session, runs=()), mode="json")
    if not session.earlier:
        del stored["earlier"]
    return {**stored, "runs": list(map(run_fields, session.runs))}


def session_from_fields(stored: dict[str, Any]) -> Session:
    """Returns the session of the fields that `session_fields` returned, or of fewer."""
    return _SESSION.validate_json(json.dumps(stored), strict=True)


def session_to_json(session: Session, computed: Mapping[str, Any] | None = None) -> bytes:
    """Returns the contents of report.json, with what a report has computed, and the runs at the end."""
    stored = session_fields(session)
    runs = stored.pop("runs")
    head = {"format": FORMAT, "tool_version": stored.pop("tool_version")}
    return json_bytes({**head, **stored, **(computed or {}), "runs": runs})


def run_to_json(run: Run) -> bytes:
    return json_bytes({"format": FORMAT, **run_fields(run)})


def read_run(path: Path) -> Run:
    return read_stored(path, _RUN, only=FORMAT)


def read_report(path: Path) -> Session:
    """Reads the session in report.json; what a report has computed is not read."""
    return read_stored(path, _SESSION, only=FORMAT)


def json_bytes(stored: dict[str, Any]) -> bytes:
    text = escape_control_characters(json.dumps(stored, indent=2, ensure_ascii=False)) + "\n"
    # The results must not be lost because a file name is not valid UTF-8.
    return text.encode("utf-8", errors="replace")


def escape_control_characters(text: str) -> str:
    r"""Returns JSON with the same meaning, in which each character that a terminal obeys is escaped, as in `\u009b`."""
    return _TERMINAL_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
