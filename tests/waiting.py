"""Tests wait for events: a file, a line, a state of a process. An event that does not come is named."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_S = 60.0
"""The limit of every wait: long enough for a busy host, so only an error reaches it."""
_POLL_S = 0.02
_Found = TypeVar("_Found")


def until(condition: Callable[[], _Found], what: str) -> _Found:
    """Returns the first true result of the condition, and fails with `what` if there is none in time."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:.0f} s for {what}"
        time.sleep(_POLL_S)
    return found
