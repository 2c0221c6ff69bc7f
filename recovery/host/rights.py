"""May this step be taken that needs root? Asked where it is taken, so that whoever comes to need it cannot forget to.

What is refused is refused to the whole process, as a right that it does not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from recovery.rootsteps import NO_STEPS, OPTION, RootStep, Steps

_refused: Steps = NO_STEPS


@contextmanager
def refusing(steps: Steps) -> Iterator[None]:
    """Meanwhile none of them is taken; what was refused before stays so."""
    global _refused
    before = _refused
    _refused = before | steps
    try:
        yield
    finally:
        _refused = before


def is_refused(step: RootStep) -> bool:
    return step in _refused


def refusal(step: RootStep) -> str:
    """In words, for who was refused it."""
    return f"refused by {OPTION} ({step})"
