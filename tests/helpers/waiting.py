"""Tests wait for events: a file, a line, a state of a process. An event that does not come is named."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_S = 60.0
"""The limit of a wait: long enough for a busy host, so only an error reaches it."""
BUILDING_S = 240.0
"""The limit where tables are built before."""
_POLL_S = 0.02
_Found = TypeVar("_Found")


def until(condition: Callable[[], _Found | None], what: str, *, within_s: float = DEADLINE_S) -> _Found:
    """Returns the first true result of the condition, and fails with `what` if there is none in time."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {within_s:.0f} s for {what}"
        time.sleep(_POLL_S)
    return found
