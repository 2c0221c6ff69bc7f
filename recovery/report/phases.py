"""Where did the time go? Versions by phases, mean seconds over the measured runs, and the share that has a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from recovery.measured import Phase
from recovery.phases import JOIN, UNNAMED, in_order, named_share, seconds_by_name
from recovery.report import figures
from recovery.stored import Run, Session, Table
from recovery.summary import mean, measured_by


def phase_table(session: Session) -> Table | None:
    """None where no run has phases: sessions of older tools have none."""
    found = [
        ((version, variant), starts)
        for version, variant, runs in measured_by(session)
        if (starts := [run.phases for run in runs if run.phases])
    ]
    if not found:
        return None
    title = "Where the time went, mean seconds"
    measured = tuple(run for _, _, runs in measured_by(session) for run in runs)
    return phases_by(title, ("version", "variant"), found, notes=(*_beside(measured), *_held(measured)))


def phase_means(session: Session) -> dict[tuple[str, str], dict[str, float]]:
    """Mean seconds of each phase by version and variant; without those of which no run has phases."""
    found = {}
    for version, variant, runs in measured_by(session):
        starts = [seconds_by_name(run.phases) for run in runs if run.phases]
        means = {name: _mean_of(starts, name) or 0.0 for name in in_order(name for start in starts for name in start)}
        if means:
            found[version, variant] = means
    return found


def phases_by(
    title: str,
    headers: tuple[str, ...],
    rows: Sequence[tuple[tuple[str, ...], Sequence[tuple[Phase, ...]]]],
    *,
    notes: tuple[str, ...] = (),
) -> Table:
    """A row for each group of starts, a column for each phase that any of them has. What a start has not is 0 of its
    group's mean, and `-` where no start of the group has it."""
    names = in_order(phase.name for _, starts in rows for phases in starts for phase in phases)
    return Table(
        title=title,
        headers=(*headers, *names, "named"),
        rows=tuple(
            (*key, *_means([seconds_by_name(phases) for phases in starts], names), _share(starts))
            for key, starts in rows
        ),
        numeric=(*(False,) * len(headers), *(True,) * (len(names) + 1)),
        notes=(*_explained(names), *notes),
        keys=len(headers),
    )


def _means(starts: Sequence[dict[str, float]], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(figures.seconds(_mean_of(starts, name)) for name in names)


def _mean_of(starts: Sequence[dict[str, float]], name: str) -> float | None:
    return mean(start.get(name, 0.0) for start in starts) if any(name in start for start in starts) else None


def _share(starts: Sequence[tuple[Phase, ...]]) -> str:
    share = mean(named_share(phases) for phases in starts)
    # Rounded down: 100 % is said only of what has a name to its last line.
    return figures.ABSENT if share is None else f"{int(share * 1000) / 10:g} %"


def _explained(names: Sequence[str]) -> tuple[str, ...]:
    notes = ["named: the share of the startup that lines of the log bound and give a name."]
    if any(JOIN in name for name in names):
        notes.append("a + b: no line of the log parts the two.")
    if UNNAMED in names:
        notes.append("unnamed: between two lines that do not tell what was done.")
    return tuple(notes)


def _beside(runs: Sequence[Run]) -> Iterator[str]:
    each = [seconds_by_name(run.beside) for run in runs]
    for name in in_order(name for found in each for name in found):
        seen = [found[name] for found in each if name in found]
        yield (
            f"Beside the start, in a thread of the server's own, {name} in {len(seen)} runs: until the ready line "
            f"{figures.seconds(min(seen))} to {figures.seconds(max(seen))} s."
        )


def _held(runs: Iterable[Run]) -> tuple[str, ...]:
    held = sorted((run.number, run.log_held_s) for run in runs if run.log_held_s is not None)
    if not held:
        return ()
    numbers = ", ".join(str(number) for number, _ in held)
    return (
        f"The server held lines of its log back, by {figures.seconds(max(seconds for _, seconds in held))} s at most, "
        f"in run {numbers}: these starts go by its own stamps.",
    )
