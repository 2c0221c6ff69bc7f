"""May this step be taken that needs root? Asked where it is taken, so that whoever comes to need it cannot forget to.

What is refused is refused to the whole process, as a right that it does not have."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from enum import StrEnum

from recovery.errors import UsageError

# Which steps take root's rights, what is each of them called, and which were refused? Pure.

OPTION = "--no-root-steps"
ALL = "all"
_EVERY = (ALL, "1", "true", "yes")
_NONE = ("0", "false", "no")
"""As a flag is said to make."""


class RootStep(StrEnum):
    """In the order of docs/security.md, which tells what each is for and what takes its place."""

    DROP_CACHES = "drop-caches"
    CGROUPS = "cgroups"
    FANOTIFY = "fanotify"
    MOUNT = "mount"
    INSTALL = "install"
    DEBOOTSTRAP = "debootstrap"


Steps = frozenset[RootStep]
NO_STEPS: Steps = frozenset()
EVERY_STEP: Steps = frozenset(RootStep)
_DROPPING: Steps = frozenset({RootStep.DROP_CACHES})


def parse_steps(text: str | None) -> Steps:
    """Of the user: all of them, or some by name."""
    if text is None or text.strip().lower() in _NONE:
        return NO_STEPS
    if text.strip().lower() in _EVERY:
        return EVERY_STEP
    known = {step.value: step for step in RootStep}
    words = text.replace(",", " ").split()
    unknown = [word for word in words if word not in known]
    if unknown or not words:
        raise UsageError(
            f"{OPTION}={text}: there is no step '{(unknown or [text])[0]}'",
            f"there are: {', '.join(known)}; without a name it refuses all of them",
        )
    return frozenset(known[word] for word in words)


def steps_text(steps: Set[RootStep]) -> str | None:
    """As it is written after the option; None where nothing is refused."""
    if steps == EVERY_STEP:
        return ALL
    return ",".join(step for step in RootStep if step in steps) or None


def asked_steps(named: str | None, *, no_drop_caches: bool) -> Steps:
    """By both options that refuse some: --no-drop-caches is the older name of one."""
    return parse_steps(named) | (_DROPPING if no_drop_caches else NO_STEPS)


def repeated_steps(refused: Steps) -> tuple[tuple[str, object], ...]:
    """For the command that repeats a session."""
    if refused == _DROPPING:
        return (("--no-drop-caches", True),)
    told = steps_text(refused)
    return ((f"{OPTION}={told}", True),) if told else ()


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
