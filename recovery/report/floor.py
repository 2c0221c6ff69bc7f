"""How far above what the storage allows does each server start? Its cold start beside the plain reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from recovery.measured import Floor
from recovery.model import Cache
from recovery.report import figures
from recovery.stored import Run, Session, Table
from recovery.summary import mean, measured_by, summarised

_NEARLY_ALL = 0.99
"""Of the files: who reads so many reads them all, but for one that was dropped or made meanwhile."""


@dataclass(frozen=True)
class Held:
    """A cold start, held against plain reads of the same files."""

    floor: Floor
    variant: str
    startup_s: float | None
    """The mean; None where none was measured."""
    reads_all: bool | None
    """Each of the files; None where it was not traced."""

    @property
    def over_one(self) -> float | None:
        return self._over(self.floor.one_thread_s)

    @property
    def over_many(self) -> float | None:
        return self._over(self.floor.many_threads_s)

    @property
    def is_floor(self) -> bool:
        """Not for a start that was shorter, or needs to read less."""
        return self.over_many is not None and self.over_many >= 1 and self.reads_all is not False

    def _over(self, floor_s: float) -> float | None:
        """The one page of a general tablespace is no floor for anything."""
        return self.startup_s / floor_s if self.startup_s is not None and floor_s and self.floor.files > 1 else None


def held(session: Session) -> Iterator[Held]:
    """One for each cold variant over files whose floor was measured."""
    middles = {(one.version, one.variant): one.mean_s for one in summarised(session)} if session.floors else {}
    cells = {(version, variant): runs for version, variant, runs in measured_by(session)}
    for floor in session.floors:
        for variant in floor.variants:
            if Cache.COLD.begins(variant):
                key = (floor.version, variant)
                yield Held(floor, variant, middles.get(key), _reads_all(cells.get(key, ()), floor))


def _reads_all(runs: tuple[Run, ...], floor: Floor) -> bool | None:
    read = mean(run.tablespaces_read for run in runs)
    return None if read is None else read >= _NEARLY_ALL * floor.files


def floor_table(session: Session) -> Table | None:
    """None where it was not asked for, or no cold start is there to be held against it."""
    found = tuple(held(session))
    if not found:
        return None
    many = max(floor.threads for floor in session.floors)
    return Table(
        title="The floor: the same files, cold, read by a plain program, seconds",
        headers=(
            "version",
            "variant",
            "files",
            "1 thread",
            f"{many} threads",
            "opened",
            "startup",
            "/ 1 thread",
            f"/ {many}",
        ),
        rows=tuple(map(_row, found)),
        numeric=(False, False, *(True,) * 7),
        notes=(
            "1 thread, many: the first page of every table's file, read once by the order of inodes; opened: each "
            f"merely opened, by one thread. Each was measured {_times(session)}, under the limits of the session. "
            "startup: the mean; then its ratio to either.",
            *no_floor(found),
        ),
        keys=2,
    )


def no_floor(found: Iterable[Held]) -> tuple[str, ...]:
    """Of whom not: those that were measured, and need not read all that the floor reads."""
    names = [f"{one.floor.version} {one.variant}" for one in found if one.over_many is not None and not one.is_floor]
    return (f"No floor for {', '.join(names)}: not every file is read, or the start was shorter.",) if names else ()


def _times(session: Session) -> str:
    times = min(floor.times for floor in session.floors)
    return "once" if times == 1 else f"{times} times, and the shortest counts"


def _row(one: Held) -> tuple[str, ...]:
    floor = one.floor
    return (
        floor.version,
        one.variant,
        figures.count(floor.files),
        figures.seconds(floor.one_thread_s),
        figures.seconds(floor.many_threads_s),
        figures.seconds(floor.open_s),
        figures.seconds(one.startup_s),
        figures.ratio(one.over_one),
        figures.ratio(one.over_many),
    )
