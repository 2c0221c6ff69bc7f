"""What was published, by whom, on which host, and what of it can be held against a host of another size?"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from pydantic import TypeAdapter

Selector = Mapping[str, str]
"""A series of versions, a variant, or a value on each of some axes; `least` and `most` are those that were measured."""


DIRECTIONS = ("less", "more")
EITHER = "either"
"""It was compared, and what came out is not known here."""


@dataclass(frozen=True)
class Figure:
    """A row of the published table."""

    what: str
    values: tuple[str, ...]
    """One for each published version, as printed."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What was published, in a form that another host can be asked for."""

    what: str
    one: Selector
    other: Selector = field(default_factory=dict)
    """Like `one` but for what it names."""
    figure: str | None = None
    """None: the session's own."""
    of: float | None = None
    to: float | None = None
    ratio: float | None = None
    at_least: bool = False
    up_to: float | None = None
    direction: str | None = None
    """`less` or `more`, where nothing else was said; `either` where not even that was."""
    level: float | None = None
    """A figure by itself, and no ratio."""
    within: float = 0.0
    """So far from the level, as a share of it, is as published."""
    each_table: bool = False
    unit: str = ""
    needs: Mapping[str, int] = field(default_factory=dict)
    """Facts of the host and of the scale, and the least that it takes."""
    why: str = ""

    @property
    def published(self) -> float | None:
        """The ratio; None where only its direction is known."""
        if self.of is not None and self.to:
            return self.of / self.to
        return self.ratio


@dataclass(frozen=True, kw_only=True)
class Beyond:
    """What a small host cannot show."""

    text: str
    fact: str | None = None
    least: int = 0
    """From here on it could."""


@dataclass(frozen=True, kw_only=True)
class Publication:
    name: str
    """Of the scenario that repeats it."""
    label: str
    title: str
    question: str
    source: str
    host: str
    versions: tuple[str, ...]
    scale: str
    said: tuple[str, ...] = ()
    figure: tuple[Figure, ...] = ()
    claim: tuple[Claim, ...] = ()
    beyond: tuple[Beyond, ...] = ()


@cache
def publications() -> tuple[Publication, ...]:
    """All of them, in their order."""
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Publication, ...]).validate_python(tomllib.loads(text)["experiment"])


def names() -> tuple[str, ...]:
    return tuple(one.name for one in publications())
