"""Turns lines of JSON into the usual form of a log: those of MySQL's log_sink_json, and those of Docker's json-file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_LABELS = ("System", "ERROR", "Warning", "Note")
"""By priority, as the server writes them into its usual log."""
_MAX_CODE = 999_999


def usual_line(line: str) -> str:
    """Returns the line as the server writes it without JSON. A line that is no such JSON is returned as it is."""
    before, brace, rest = line.partition("{")
    if '"msg"' not in rest and '"log"' not in rest:
        return line
    try:
        event = json.loads(brace + rest)
    except (ValueError, RecursionError):  # nested too deeply
        return line
    if isinstance(event.get("log"), str) and isinstance(event.get("time"), str):
        return f"{before}{event['time']} {usual_line(event['log'].rstrip())}"
    if isinstance(event.get("msg"), str) and "prio" in event:
        return before + _server_line(event)
    return line


def _server_line(event: Mapping[str, Any]) -> str:
    priority, code, thread = (event.get(name) for name in ("prio", "err_code", "thread"))
    label = _LABELS[priority] if isinstance(priority, int) and 0 <= priority < len(_LABELS) else "Note"
    number = f"[MY-{code:06}] " if isinstance(code, int) and 0 <= code <= _MAX_CODE else ""
    text = " ".join(event["msg"].split("\n"))
    thread = thread if isinstance(thread, int) else 0
    return f"{_time_of(event)} {thread} [{label}] {number}[{event.get('subsystem', 'Server')}] {text}".lstrip()


def _time_of(event: Mapping[str, Any]) -> str:
    """Returns the time stamp of a message, or "" if a filter has removed it."""
    if isinstance(event.get("time"), str):
        return str(event["time"])
    try:
        moment = datetime.fromtimestamp(event["ts"] / 1000, UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"
