"""Is somebody's name or password in an address? It would be in every report, and in a lock that all users read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from recovery.commands.options import CONFIG, PREFIX
from recovery.errors import UsageError

_WITH_A_USER = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s]*@", re.IGNORECASE)


def refuse_credentials(environment: Mapping[str, str], arguments: Sequence[str], config: Mapping[str, object]) -> None:
    """Before anything is told of what was asked. What was found is not repeated."""
    for name, value in _given(environment, arguments, config):
        if _WITH_A_USER.search(value):
            raise UsageError(
                f"{name} has a user in its address, who would be named in every report",
                "leave name and password out: fetch the file yourself and give its path, or name a mirror that asks "
                "for none",
            )


def _given(
    environment: Mapping[str, str], arguments: Sequence[str], config: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    yield from (
        (name.removeprefix(PREFIX), value) for name, value in sorted(environment.items()) if name.startswith(PREFIX)
    )
    for option, word in pairwise(("", *arguments)):
        name, equals, value = word.partition("=")
        yield (name, value) if name.startswith("--") and equals else (option or "an argument", word)
    for name, stored in config.items():
        for one in stored if isinstance(stored, tuple) else (stored,):
            yield f"'{name}' in {CONFIG}", str(one)
