"""How is a stored file read back? By its format, with what to do where it is damaged or newer than this tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from recovery.errors import RecoveryError

FORMAT = 1
_Stored = TypeVar("_Stored")


def read_back(path: Path, adapter: TypeAdapter[_Stored]) -> _Stored:
    """Keys that we don't know are a later tool's, and are left alone."""
    try:
        stored = json.loads(path.read_bytes())
        if not isinstance(stored, dict) or not isinstance(stored.get("format"), int):
            raise ValueError("it has no format number")
        if stored["format"] > FORMAT:
            raise RecoveryError(
                f"{path} was written by a newer version of this tool (format {stored['format']})",
                f"update the tool: this one reads format {FORMAT}",
            )
        return adapter.validate_python(stored)
    except OSError as error:
        raise RecoveryError(f"cannot read {path}: {error.strerror}", "look at its permissions") from error
    except (ValueError, RecursionError) as error:
        raise RecoveryError(f"{path} is damaged: {_reason(error)}", "restore the file, or measure again") from error


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
