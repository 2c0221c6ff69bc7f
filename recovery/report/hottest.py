"""In which functions was the server most often? Those on top of its stacks, for each run that was looked into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recovery.cells import cell_words
from recovery.folded import LEAST_SAMPLES, MOST_HOT, share
from recovery.report import figures
from recovery.stored import Run, Session, Table


def hottest_tables(session: Session) -> tuple[Table, ...]:
    """What its columns mean is said below the last."""
    runs = [run for run in session.runs if run.hottest]
    return tuple(_table(session, run, tuple(_notes(runs)) if run is runs[-1] else ()) for run in runs)


def _table(session: Session, run: Run, notes: tuple[str, ...]) -> Table:
    of = run.hottest[0].of
    return Table(
        title=f"Hottest functions of {run.version} {cell_words(session, run.variant)}, run {run.number}: "
        f"{figures.count(of)} stacks by {run.sampled_by}",
        headers=("function", "self", "in all"),
        rows=tuple((one.function, share(one.on_top, one.of), share(one.within, one.of)) for one in run.hottest),
        numeric=(False, True, True),
        notes=notes,
    )


def _notes(runs: Sequence[Run]) -> Iterator[str]:
    perf = "; as `perf top` has it" if any(run.sampled_by == "perf" for run in runs) else ""
    yield (
        "self: of the stacks of threads that did not wait, those with this function on top, so that it was at work "
        f"itself{perf}; in all: with what it had called, too. The {MOST_HOT} most often on top, at most."
    )
    if any(run.hottest[0].of < LEAST_SAMPLES for run in runs):
        yield f"A share needs {LEAST_SAMPLES} samples; of fewer the counts are given."
    if any(one.function.startswith("[") for run in runs for one in run.hottest):
        yield "[file]: functions for which that file has no symbol, all together."
