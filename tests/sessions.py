"""What did the command store, can this host be limited, and what may be left out? For the tests that run it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from recovery.errors import HostUnfitError
from recovery.host.disktrial import no_power_cut
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


def left_out(why: str) -> NoReturn:
    """Here it is skipped, and said; in CI it counts as a failure, or nobody would ever see that nothing was tested."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"CI must not leave this out: {why}", pytrace=False)
    pytest.skip(why)


def need_limits() -> None:
    if (why := why_not_limited()) is not None:
        left_out(why)


def need_disks() -> None:
    if (why := no_power_cut()) is not None:
        left_out(f"no filesystem in a file can be mounted here: {why}")


def as_a_user() -> dict[str, str]:
    """The environment of somebody who types a command: without settings, but for those that keep tests apart."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RECOVERY_", "MAKE"))}
    apart = ("RECOVERY_CACHE", "RECOVERY_HOST_LOCK", "RECOVERY_NO_DROP_CACHES")
    return kept | {name: os.environ[name] for name in apart if name in os.environ}
