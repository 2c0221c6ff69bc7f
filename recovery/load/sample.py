"""What was seen of a server at work in one look at it? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LOOK = "look_s"
"""The figure of what the look itself cost: how long the server took to answer it."""


@dataclass(frozen=True)
class Sample:
    """Counters as they stood: nothing is subtracted here. A figure that could not be taken is not among them."""

    at_s: float
    """Since the measuring began; the warm-up lies before 0."""
    figures: Mapping[str, float] = field(default_factory=dict, hash=False)
    """By who tells it and what it is called there: `status.Questions`, `metric.log_writes`, `process.cpu_s`."""


def thinned(samples: list[Sample], *, but: Sample | None) -> list[Sample]:
    """Every second of them, and the one that must stay."""
    return [one for at, one in enumerate(samples) if at % 2 or one is but]


def began_with(samples: tuple[Sample, ...]) -> Sample | None:
    """The look at which the measuring began: the first since then, and not one that is closer, but of what was done to
    prepare it. Where there is none, the one closest to it."""
    since = (one for one in samples if one.at_s >= 0)
    return min(since, key=lambda one: one.at_s, default=None) or max(samples, key=lambda one: one.at_s, default=None)
