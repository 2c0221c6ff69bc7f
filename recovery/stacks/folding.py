"""Which chains of calls were seen most, in which phase? Stacks and phases in, counts out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from recovery.folded import Folded, waits
from recovery.measured import Chain, Phase
from recovery.phases import UNNAMED
from recovery.stacks.snapshot import Snapshot

MAIN, OTHERS = "main thread", "other threads"
MOST_CHAINS = 3
"""Of a phase and of either kind of thread, for those who read; the folded file has all."""


def fold(snapshots: Sequence[Snapshot], phases: Sequence[Phase]) -> Folded:
    """The main thread whatever it does, the others where they do not wait."""
    folded: Folded = Counter()
    for snapshot in snapshots:
        phase = _phase_at(snapshot.at_s, phases)
        for stack in snapshot.stacks:
            if stack.main or not waits(stack.frames):
                folded[(phase, MAIN if stack.main else OTHERS, *stack.frames)] += 1
    return folded


def chains_of(snapshots: Sequence[Snapshot], phases: Sequence[Phase]) -> tuple[Chain, ...]:
    """The hottest of each phase, in the order of the phases."""
    looks = Counter(_phase_at(snapshot.at_s, phases) for snapshot in snapshots)
    # Several threads in the same chain are seen there once a look.
    seen = Counter(names for snapshot in snapshots for names in fold((snapshot,), phases))
    found: dict[tuple[str, str], list[Chain]] = {(phase.name, who): [] for phase in phases for who in (MAIN, OTHERS)}
    for (phase, who, *frames), count in seen.most_common():
        found.setdefault((phase, who), []).append(
            Chain(phase, who, tuple(frames), count, looks[phase], waits=waits(frames))
        )
    return tuple(chain for chains in found.values() for chain in chains[:MOST_CHAINS])


def _phase_at(at_s: float, phases: Sequence[Phase]) -> str:
    """What comes after the last phase belongs to it: the look began before it was over."""
    found = next((phase for phase in reversed(phases) if phase.start_s <= at_s), None)
    return found.name if found is not None else phases[0].name if phases else UNNAMED
