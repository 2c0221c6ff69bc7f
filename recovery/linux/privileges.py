"""Lists the steps that need root's rights, and records which of them the user has refused.

Each step is checked where it is taken, so that no caller can forget the check. A refusal applies to the whole process,
like a right that it does not have."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from enum import StrEnum

from recovery.errors import UsageError

# --- Steps and their names

REFUSE_OPTION = "--no-root-steps"
ALL = "all"
_EVERY = (ALL, "1", "true", "yes")
_NONE = ("0", "false", "no")
"""The values that are accepted for a flag."""


class RootStep(StrEnum):
    """The steps, in the order of docs/security.md, which explains what each is for and what replaces it."""

    DROP_CACHES = "drop-caches"
    CGROUPS = "cgroups"
    FANOTIFY = "fanotify"
    MOUNT = "mount"
    INSTALL = "install"
    DEBOOTSTRAP = "debootstrap"


Steps = frozenset[RootStep]
NO_STEPS: Steps = frozenset()
EVERY_STEP: Steps = frozenset(RootStep)
_DROP_CACHES_ONLY: Steps = frozenset({RootStep.DROP_CACHES})


def parse_steps(text: str | None) -> Steps:
    """Returns the refused steps from the user's text: all of them, or some by name."""
    if text is None or text.strip().lower() in _NONE:
        return NO_STEPS
    if text.strip().lower() in _EVERY:
        return EVERY_STEP
    known = {step.value: step for step in RootStep}
    words = text.replace(",", " ").split()
    unknown = [word for word in words if word not in known]
    if unknown or not words:
        raise UsageError(
            f"{REFUSE_OPTION}={text}: there is no step '{(unknown or [text])[0]}'",
            f"there are: {', '.join(known)}; without a name it refuses all of them",
        )
    return frozenset(known[word] for word in words)


def steps_text(steps: Set[RootStep]) -> str | None:
    """Returns the text that is written after the option, or None if nothing is refused."""
    if steps == EVERY_STEP:
        return ALL
    return ",".join(step for step in RootStep if step in steps) or None


def refused_steps(named: str | None, *, no_drop_caches: bool) -> Steps:
    """Returns the steps that both options refuse; --no-drop-caches is the older option, for one of them."""
    return parse_steps(named) | (_DROP_CACHES_ONLY if no_drop_caches else NO_STEPS)


def step_options(refused: Steps) -> tuple[tuple[str, object], ...]:
    """Returns the options for the command that repeats a session."""
    if refused == _DROP_CACHES_ONLY:
        return (("--no-drop-caches", True),)
    told = steps_text(refused)
    return ((f"{REFUSE_OPTION}={told}", True),) if told else ()


# --- Refused steps of this process

_refused: Steps = NO_STEPS


@contextmanager
def refuse_steps(steps: Steps) -> Iterator[None]:
    """Refuses the steps inside the block, in addition to those that were refused before."""
    global _refused
    before = _refused
    _refused = before | steps
    try:
        yield
    finally:
        _refused = before


def is_refused(step: RootStep) -> bool:
    return step in _refused


def refusal_text(step: RootStep) -> str:
    """Returns the reason for an error message or a report."""
    return f"refused by {REFUSE_OPTION} ({step})"
