"""Lists the steps that need root's rights, and records which of them the user has refused.

Each step is checked where it is taken, so that no caller can forget the check. A refusal applies to the whole process,
like a right that it does not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

REFUSED_TEXT = "refused by --unprivileged"
"""The reason for an error message or a report."""


class RootStep(StrEnum):
    """The steps, in the order of docs/reliability.md, which explains what each is for and what replaces it."""

    DROP_CACHES = "drop-caches"
    CGROUPS = "cgroups"
    FANOTIFY = "fanotify"
    MOUNT = "mount"
    INSTALL = "install"
    DEBOOTSTRAP = "debootstrap"


Steps = frozenset[RootStep]
NO_STEPS: Steps = frozenset()
EVERY_STEP: Steps = frozenset(RootStep)
_refusals: list[Steps] = []
"""What each open block of `refuse_steps` refuses, in all threads. A ContextVar is empty in a new thread, which would
then take the steps."""


def refused_steps(*, unprivileged: bool, no_drop_caches: bool = False) -> Steps:
    if unprivileged:
        return EVERY_STEP
    return frozenset({RootStep.DROP_CACHES}) if no_drop_caches else NO_STEPS


@contextmanager
def refuse_steps(steps: Steps) -> Iterator[None]:
    """Refuses the steps inside the block, in addition to those that were refused before."""
    _refusals.append(steps)
    try:
        yield
    finally:
        _refusals.remove(steps)


def is_refused(step: RootStep) -> bool:
    return any(step in steps for steps in _refusals)
