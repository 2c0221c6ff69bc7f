"""Which steps are meant by what a user writes, and is what was refused repeated?"""

from __future__ import annotations

import pytest

from recovery.errors import UsageError
from recovery.linux.privileges import (
    EVERY_STEP,
    NO_STEPS,
    RootStep,
    parse_steps,
    refused_steps,
    step_options,
    steps_text,
)

TWO = frozenset({RootStep.FANOTIFY, RootStep.DROP_CACHES})


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (None, NO_STEPS),
        ("0", NO_STEPS),
        ("1", EVERY_STEP),
        ("all", EVERY_STEP),
        ("True", EVERY_STEP),
        ("fanotify,drop-caches", TWO),
        (" drop-caches  fanotify ", TWO),
        (",".join(RootStep), EVERY_STEP),
    ],
)
def test_what_is_meant(text: str | None, meant: frozenset[RootStep]) -> None:
    assert parse_steps(text) == meant
    assert parse_steps(steps_text(meant)) == meant


@pytest.mark.parametrize("text", ["fanotfy", "drop-caches,all", ",", "2"])
def test_what_is_no_step(text: str) -> None:
    with pytest.raises(UsageError, match="there is no step") as caught:
        parse_steps(text)
    assert all(step in caught.value.hint for step in RootStep)


def test_the_older_option_is_one_of_them() -> None:
    assert refused_steps(None, no_drop_caches=True) == {RootStep.DROP_CACHES}
    assert refused_steps("fanotify", no_drop_caches=True) == TWO
    assert step_options(frozenset({RootStep.DROP_CACHES})) == (("--no-drop-caches", True),)
    assert step_options(TWO) == (("--no-root-steps=drop-caches,fanotify", True),)
    assert step_options(EVERY_STEP) == (("--no-root-steps=all", True),)
    assert step_options(NO_STEPS) == ()
