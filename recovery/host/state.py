"""What does a data directory hold, by its own state.json? Written atomically, read with suspicion."""

from __future__ import annotations

import dataclasses
import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from recovery.errors import HostUnfitError
from recovery.files import read_strange, sync_folder, write_atomically
from recovery.paths import default_data_dir
from recovery.readback import parse_json

FORMAT = 1
STATUSES = ("new", "building", "whole", "in_use", "failed")
_FILE = "state.json"
_MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class State:
    status: str
    """`new` (nothing is promised of what lies there), `building`, `whole`, `in_use` while trials run, or `failed`: kept
    as it was when a server did not come back over it, and used by no run."""
    version: str = ""
    fingerprint: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    statements_done: int = 0
    build_s: float | None = None
    """That its statements took, over all sessions that built it."""
    tables: int | None = None
    ibd_files: int | None = None
    bytes: int | None = None
    rows: dict[str, int] = field(default_factory=dict)
    """Rows acknowledged, by table of the insert script, over all trials."""
    created_at: str = ""
    tool_version: str = ""
    format: int = FORMAT


_ADAPTER = TypeAdapter(State)
NEW = State("new")


def removal(folder: Path) -> str:
    """What to do about a data directory that is not what it should be."""
    where = "" if folder.parent == default_data_dir() else f"--data {shlex.quote(str(folder.parent))} "
    return f"`recovery datadirs {where}remove {folder.name}` removes it; the next run builds it again"


def load(folder: Path) -> State:
    """NEW where there is none; RecoveryError where it is damaged, or from a newer tool."""
    hint = removal(folder)
    try:
        found = read_strange(folder / _FILE, _MOST_BYTES)
        stored = parse_json(found[0] if found is not None else b"")
    except FileNotFoundError:
        return NEW
    except (ValueError, OSError) as error:
        raise HostUnfitError(f"the data directory {folder.name} is damaged: {_FILE} cannot be read", hint) from error
    number = stored.get("format") if isinstance(stored, dict) else None
    if isinstance(number, int) and number > FORMAT:
        raise HostUnfitError(
            f"the data directory {folder.name} was made by a newer version of this tool (format {number})",
            f"use that version, or {hint}",
        )
    try:
        state = _ADAPTER.validate_python(stored)
    except ValidationError as error:
        raise HostUnfitError(f"the data directory {folder.name} is damaged: {_FILE} makes no sense", hint) from error
    if state.status not in STATUSES:
        raise HostUnfitError(f"the data directory {folder.name} is damaged: it is '{state.status}'", hint)
    return state


def save(folder: Path, state: State) -> None:
    """Either the old or the new one is there after a power loss, never half of one."""
    assert state.status in STATUSES
    try:
        write_atomically(folder / _FILE, json.dumps(dataclasses.asdict(state), indent=1).encode())
    except OSError as error:
        raise HostUnfitError(
            f"{folder / _FILE} cannot be written: {error.strerror}", "make room there, or give DATA= another folder"
        ) from error


def forget(folder: Path) -> None:
    """First of all in a removal: half of a data directory must never look like a whole one."""
    (folder / _FILE).unlink(missing_ok=True)
    sync_folder(folder)
