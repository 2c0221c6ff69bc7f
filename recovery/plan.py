"""Which trials, in which order? Pure: the same request gives the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recovery.model import Trial, Variant, Version


@dataclass(frozen=True)
class Plan:
    trials: tuple[Trial, ...]
    alternating: bool
    """Blocks of several versions take turns, so that a drift of the host hits all of them alike."""

    @property
    def order(self) -> str:
        """In words, for the report."""
        if len({trial.version for trial in self.trials}) < 2:
            return "one version"
        return "versions alternate, block by block" if self.alternating else "versions run one after the other"

    def last_of(self, version: Version) -> Trial:
        return next(trial for trial in reversed(self.trials) if trial.version == version)


def make_plan(versions: Sequence[Version], variants: Sequence[Variant], *, repeats: int, alternating: bool) -> Plan:
    """A block is every variant of one version, once: cold, then warm. Alternating, each version's n-th block comes
    before any version's block n + 1; otherwise each version runs all its blocks."""
    if alternating:
        blocks = [(version, repeat) for repeat in range(1, repeats + 1) for version in versions]
    else:
        blocks = [(version, repeat) for version in versions for repeat in range(1, repeats + 1)]
    steps = [(version, variant, repeat) for version, repeat in blocks for variant in variants]
    return Plan(
        tuple(
            Trial(number, version, variant, repeat) for number, (version, variant, repeat) in enumerate(steps, start=1)
        ),
        alternating,
    )
