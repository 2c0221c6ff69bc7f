"""What did the server's threads wait for most, in each cell? By the server's own counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median_low

from recovery.cells import cell_words
from recovery.measured import Wait
from recovery.measures import by_cell, figure_value
from recovery.report import figures
from recovery.report.work import said
from recovery.stored import Run, Session, Table, Verdict

_MOST = 3
"""Of each source; report.json has ten."""
_TOLD = (
    "While it was measured. innodb mutex: SHOW ENGINE INNODB MUTEX; performance schema: every passage is counted, not "
    "only waits; seconds: of all threads together, where they are told."
)


def waits_table(session: Session) -> Table | None:
    """None where nobody waited, or no server told."""
    found = {key: run for key, runs in by_cell(session).items() if (run := _counted(runs) or _median(session, runs))}
    rows = [(*key, cell_words(session, key[1]), wait) for key, run in found.items() for wait in _most(run.waits)]
    if not rows:
        return None
    return Table(
        title="What was waited for most",
        headers=("version", "cell", "by", "what", "waits", "seconds"),
        rows=tuple(
            (version, cell, wait.source, wait.name, figures.count(wait.count), _seconds(wait))
            for version, _, cell, wait in rows
        ),
        numeric=(False, False, False, False, True, True),
        notes=(*_from(tuple(found.values())), _TOLD),
        keys=4,
    )


def _from(runs: Sequence[Run]) -> Iterator[str]:
    counted = len([run for run in runs if run.counted_waits])
    if counted:
        yield (
            "Of that run of each cell in which all waits were counted (WAITS=1), and which is in no mean: to count "
            "costs by itself, most where a lock is taken most often."
        )
    if counted < len(runs):
        yield (
            f"Of the median run of each {'other ' if counted else ''}cell: of mutexes servers since 5.7 tell nothing "
            "by themselves; WAITS=1 counts them."
        )


def _counted(runs: tuple[Run, ...]) -> Run | None:
    return next((run for run in runs if run.counted_waits), None)


def _median(session: Session, runs: tuple[Run, ...]) -> Run | None:
    counted = [
        (value, run)
        for run in runs
        if run.verdict is Verdict.MEASURED and (value := figure_value(session, run)) is not None
    ]
    if not counted:
        return None
    middle = median_low([value for value, _ in counted])
    return next(run for value, run in counted if value == middle)


def _most(waits: tuple[Wait, ...]) -> Iterator[Wait]:
    """They are stored in their order."""
    for source in dict.fromkeys(wait.source for wait in waits):
        yield from [wait for wait in waits if wait.source == source and wait.count][:_MOST]


def _seconds(wait: Wait) -> str:
    return figures.ABSENT if wait.wait_s is None else said.timed(wait.wait_s)
