"""What was the server doing? The chains of calls seen most, phase by phase, for each run that was looked into."""

from __future__ import annotations

from pathlib import PurePath

from recovery.folded import LEAST_SAMPLES, share
from recovery.measured import Chain
from recovery.stored import Run, Session, Table

MOST_FRAMES = 8
"""Of a chain: the innermost tell most. The folded file has all."""
_LEAST_SHARE = 0.05
"""Of the samples in its phase, for a chain to be told of; and of all samples, for a phase."""


def stacks_tables(session: Session) -> tuple[Table, ...]:
    return tuple(_table(run) for run in session.runs if run.chains)


def flame_of(stacks: str) -> str:
    """The picture lies beside the file that it is made of."""
    path = PurePath(stacks)
    return str(path.with_suffix(".svg")) if path.name else stacks


def _table(run: Run) -> Table:
    told = [chain for chain in run.chains if _tells(chain, run)]
    notes = [
        "samples: taken in the phase; share: of those, in which a thread was in this very chain. Outermost first, "
        f"{MOST_FRAMES} frames at most; threads that wait are left out, unless for a mutex. The three seen most of "
        f"each kind of thread in each phase, if in {_LEAST_SHARE:.0%} of its samples, and the phase in as many of all.",
    ]
    if any(chain.of < LEAST_SAMPLES for chain in told):
        notes.append(f"A share needs {LEAST_SAMPLES} samples in the phase; of fewer the counts are given.")
    if any(frame.startswith("[") for chain in told for frame in chain.frames):
        notes.append("[file]: a function for which that file has no symbol.")
    if run.sampled_by == "perf":
        notes.append("perf sees who has a CPU: time in which the server waits for its storage is not in here.")
    if run.stacks:
        notes.append(f"All of them: {run.stacks}; as a flame graph: {flame_of(run.stacks)}.")
    return Table(
        title=f"Stacks of run {run.number}, {run.version} {run.variant}, {run.samples} samples by {run.sampled_by}",
        headers=("phase", "samples", "share", "thread", "chain"),
        rows=tuple(
            (chain.phase, str(chain.of), share(chain.samples, chain.of, decimals=0), chain.thread, _text(chain))
            for chain in told
        ),
        numeric=(False, True, True, False, False),
        notes=tuple(notes),
    )


def _tells(chain: Chain, run: Run) -> bool:
    """Seen often enough, in a phase that is long enough; a main thread that waits while others work tells nothing."""
    if chain.samples < _LEAST_SHARE * chain.of or chain.of < _LEAST_SHARE * (run.samples or 0):
        return False
    return not chain.waits or not any(one.phase == chain.phase and one.thread != chain.thread for one in run.chains)


def _text(chain: Chain) -> str:
    shown = chain.frames[-MOST_FRAMES:]
    return " > ".join(("...", *shown) if len(shown) < len(chain.frames) else shown)
