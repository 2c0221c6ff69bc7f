"""Builds the tables about sampled stacks: the hottest functions and the most frequent call chains of each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recovery.analysis.stacks import MAX_HOT_FUNCTIONS, MIN_SAMPLES, share_text
from recovery.analysis.summary import cell_words
from recovery.model import CallChain, Run, Session, Table
from recovery.report import fmt

# --- Hottest functions of each run with sampled stacks


def hottest_tables(session: Session) -> tuple[Table, ...]:
    """Returns a table of the hottest functions for each sampled run. Only the last one has the notes on the columns."""
    runs = [run for run in session.runs if run.stacks.hottest]
    return tuple(_hottest_table(session, run, tuple(_notes(runs)) if run is runs[-1] else ()) for run in runs)


def _hottest_table(session: Session, run: Run, notes: tuple[str, ...]) -> Table:
    of = run.stacks.hottest[0].of
    return Table(
        title=f"Hottest functions of {run.version} {cell_words(session, run.variant)}, run {run.number}: "
        f"{fmt.ABSENT + ' stacks' if of is None else fmt.count_text(of, 'stack')} by {run.stacks.program}",
        headers=("function", "self", "in all"),
        rows=tuple(
            (hot.function, share_text(hot.on_top, hot.of), share_text(hot.within, hot.of)) for hot in run.stacks.hottest
        ),
        numeric=(False, True, True),
        notes=notes,
    )


def _notes(runs: Sequence[Run]) -> Iterator[str]:
    perf = " (as in `perf top`)" if any(run.stacks.program == "perf" for run in runs) else ""
    yield (
        f"self: share of the stacks of running threads with this function on top{perf}; in all: anywhere in the stack. "
        f"At most {MAX_HOT_FUNCTIONS} functions are shown."
    )
    if any(run.stacks.hottest[0].of < MIN_SAMPLES for run in runs):
        yield f"With fewer than {MIN_SAMPLES} samples the counts are shown instead of shares."
    if any(hot.function.startswith("[") for run in runs for hot in run.stacks.hottest):
        yield "[file]: all functions of that file that have no symbol."


# --- Most frequent call chains in each phase, for each run with sampled stacks

MAX_SHOWN_FRAMES = 8
"""Frames shown of each chain: the innermost ones, because they tell most. The folded file has all of them."""
_MIN_SHARE = 0.05
"""A chain is shown from this share of the samples in its phase on, and a phase from this share of all samples on."""


def chain_tables(session: Session) -> tuple[Table, ...]:
    return tuple(_chain_table(run) for run in session.runs if run.stacks.chains)


def _chain_table(run: Run) -> Table:
    shown = [chain for chain in run.stacks.chains if _is_worth_showing(chain, run)]
    notes = [
        f"samples: in this phase; share: with this call chain, outermost first, at most {MAX_SHOWN_FRAMES} frames. "
        "Threads that wait are left out, unless for a mutex. Shown are the three most frequent chains of each "
        f"kind of thread and phase, from {fmt.whole_percent(_MIN_SHARE)} of the samples.",
    ]
    if any(chain.of < MIN_SAMPLES for chain in shown):
        notes.append(f"With fewer than {MIN_SAMPLES} samples in the phase the counts are shown instead of shares.")
    if any(frame.startswith("[") for chain in shown for frame in chain.frames):
        notes.append("[file]: a function of that file that has no symbol.")
    if run.stacks.program == "perf":
        notes.append("perf samples running threads: the time in which the server waits for its storage is missing.")
    if run.stacks.file:
        notes.append(f"All stacks: {run.stacks.file}, which speedscope.app draws.")
    samples = fmt.count_text(run.stacks.count or 0, "sample")
    return Table(
        title=f"Stacks of run {run.number}, {run.version} {run.variant}, {samples} by {run.stacks.program}",
        headers=("phase", "samples", "share", "thread", "chain"),
        rows=tuple(
            (
                chain.phase,
                str(chain.of),
                share_text(chain.samples, chain.of, decimals=0),
                chain.thread,
                _chain_text(chain),
            )
            for chain in shown
        ),
        numeric=(False, True, True, False, False),
        # Only all columns together identify a row, so the table is never split.
        keys=5,
        notes=tuple(notes),
    )


def _is_worth_showing(chain: CallChain, run: Run) -> bool:
    """Returns whether a chain is worth showing: it is frequent enough and its phase is long enough. A main thread that
    waits while others work is not shown."""
    if chain.samples < _MIN_SHARE * chain.of or chain.of < _MIN_SHARE * (run.stacks.count or 0):
        return False
    return not chain.waits or not any(
        other.phase == chain.phase and other.thread != chain.thread for other in run.stacks.chains
    )


def _chain_text(chain: CallChain) -> str:
    shown = chain.frames[-MAX_SHOWN_FRAMES:]
    return " > ".join(("...", *shown) if len(shown) < len(chain.frames) else shown)
