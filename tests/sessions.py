"""What did the command store, and can this host be limited? For the tests that run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recovery.errors import HostUnfitError
from recovery.host.limitable import needed
from recovery.model import Limits


def stored(folder: Path) -> dict[str, Any]:
    """The newest session's report.json, of a test whose results lie in this folder."""
    report: dict[str, Any] = json.loads((folder / "results" / "latest" / "report.json").read_text())
    return report


def why_not_limited() -> str | None:
    """Of the disk that holds the tests; None where limits can be set."""
    try:
        needed(Limits(read_iops=1, memory_bytes=1, cpus=0.1), Path(__file__).parent)
    except HostUnfitError as error:
        return error.message
    return None
