"""Where did the newest session leave off? A warm measurement for which no server is named goes on there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recovery.errors import RecoveryError, UsageError
from recovery.ownership import why_not_trusted
from recovery.paths import expanded
from recovery.request import parse_settings, split_versions
from recovery.server.options import shaping
from recovery.store import REPORT, find, load

Given = Mapping[str, Any]
"""Options by the names of click's parameters; None or empty is one that nobody gave."""


def newest(results: Path) -> Path | None:
    """The newest session's folder, where there is one."""
    try:
        return find(results, None).resolve()
    except (RecoveryError, OSError):
        return None


def gone_on_with(given: Given) -> Given:
    """A warm measurement for which no server is named goes on where the newest session left off: its servers over its
    data directories, under its limits. What is given all the same wins."""
    folder = (
        None
        if given["versions"] or given["mysqld"] or given["image"]
        else newest(expanded(Path(given["results"])).absolute())
    )
    if folder is None:
        return given
    # It names the server that is run next.
    if why := why_not_trusted(folder / REPORT):
        raise UsageError(f"the newest session, {folder}, is no guide: {why}", "give VERSION=")
    try:
        session = load(folder)
    except RecoveryError as error:
        raise UsageError(
            f"the newest session is no guide: {error.message}", f"give VERSION=, or {error.hint}"
        ) from None
    asked = {name: str(value) for name, value in session.settings.items() if value not in (None, "")}
    stored: dict[str, Any] = {
        name: asked.get(name)
        for name in (
            *("tables", "schemas", "columns", "rows", "database", "layout"),
            *("mysqld", "archive", "engine", "image", "registry"),
            *("read_iops", "read_bps", "cpus"),
        )
    }
    stored["memory"] = asked.get("memory_bytes")
    stored |= {name: Path(asked[name]) for name in ("data", "template", "insert_template") if name in asked}
    # A server of the user's own is asked for its version again; others are taken as they were asked for: an image's tag
    # may say more than the release that was found in it.
    again = () if "mysqld" in asked or "image" in asked else (asked.get("version") or " ".join(session.versions),)
    stored["versions"] = split_versions(again)
    shape = shaping(dict(parse_settings(_words(asked, "set"))))
    stored["settings"] = tuple(f"{name}={value}" for name, value in shape.items())
    stored["notes"] = (asked["note"],) if "note" in asked else ()
    stored["variants"] = _words(asked, "variants")
    return {**given, **{name: value for name, value in stored.items() if value and not given[name]}}


def _words(asked: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(asked.get(name, "")))
    except ValueError as error:
        raise UsageError(
            f"the newest session is no guide: its setting '{name}' is damaged ({error})",
            "give VERSION=, or measure something else first",
        ) from None
