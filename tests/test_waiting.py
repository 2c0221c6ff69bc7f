"""The helper that waits for events in tests."""

from __future__ import annotations

import pytest
from waiting import until


def test_the_first_true_result_is_returned() -> None:
    results = iter([0, "", "found", "later"])
    assert until(lambda: next(results), "a result") == "found"


def test_a_missing_event_is_named() -> None:
    with pytest.raises(AssertionError, match="waited 0 s for the server"):
        until(lambda: False, "the server", within_s=0)
