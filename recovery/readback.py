"""How is a stored file read back? By its format, with what to do where it is damaged or newer than this tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

from recovery.errors import RecoveryError
from recovery.files import read_limited

FORMAT = 1
_MOST_BYTES = 500_000_000
"""Twice what a session of many runs takes."""
_LEAST, _MOST = 1e-30, 1e30
"""Between them lies whatever can be measured, and all that is made of it: beyond, to compute with it would fail."""
_Stored = TypeVar("_Stored")


def read_back(path: Path, adapter: TypeAdapter[_Stored]) -> _Stored:
    """Keys that we don't know are a later tool's, and are left alone."""
    try:
        content = read_limited(path, _MOST_BYTES)
        stored = json.loads(content, parse_float=_real, parse_int=_whole, parse_constant=_no_figure)
        if not isinstance(stored, dict) or not isinstance(stored.get("format"), int):
            raise ValueError("it has no format number")
        if stored["format"] > FORMAT:
            raise RecoveryError(
                f"{path} was written by a newer version of this tool (format {stored['format']})",
                f"update the tool: this one reads format {FORMAT}",
            )
        # Strictly: a figure in quotes is none, and need not be one that was judged here.
        return adapter.validate_json(content, strict=True)
    except OSError as error:
        raise RecoveryError(f"cannot read {path}: {error.strerror}", "look at its permissions") from error
    except (ValueError, RecursionError) as error:
        raise RecoveryError(f"{path} is damaged: {_reason(error)}", "restore the file, or measure again") from error


def parse_json(text: str | bytes) -> Any:
    """Returns what the text says. ValueError alone where it is no JSON, also where it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _real(text: str) -> float:
    value = float(text)
    return value if value == 0 or _LEAST < abs(value) < _MOST else _no_figure(text)


def _whole(text: str) -> int:
    return int(text) if len(text) <= len(f"{_MOST:.0f}") else _no_figure(text)


def _no_figure(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is no figure that can be measured")


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
