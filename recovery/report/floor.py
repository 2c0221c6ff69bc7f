"""How far above what the storage allows does each server start? Its mean cold start beside the plain reads."""

from __future__ import annotations

from recovery.measured import Floor
from recovery.model import Cache
from recovery.report import figures
from recovery.stored import Session, Table
from recovery.summary import mean, measured_by


def floor_table(session: Session) -> Table | None:
    """None where it was not asked for, or no cold start is there to be held against it."""
    rows = tuple(row for floor in session.floors for row in _rows(session, floor))
    if not rows:
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
        rows=rows,
        numeric=(False, False, *(True,) * 7),
        notes=(
            "1 thread, many: the first page of every table's file, read once by the order of inodes; opened: each "
            f"merely opened, by one thread. Each was measured {_times(session)}, under the limits of the session. "
            "startup: the mean; then over either.",
        ),
    )


def _rows(session: Session, floor: Floor) -> list[tuple[str, ...]]:
    """One for each cold variant over these files."""
    means = {(version, variant): mean(run.startup_s for run in runs) for version, variant, runs in measured_by(session)}
    return [
        _row(floor, variant, means.get((floor.version, variant)))
        for variant in floor.variants
        if variant.startswith(Cache.COLD.value)
    ]


def _times(session: Session) -> str:
    times = min(floor.times for floor in session.floors)
    return "once" if times == 1 else f"{times} times, and the shortest counts"


def _row(floor: Floor, variant: str, startup_s: float | None) -> tuple[str, ...]:
    return (
        floor.version,
        variant,
        figures.count(floor.files),
        figures.seconds(floor.one_thread_s),
        figures.seconds(floor.many_threads_s),
        figures.seconds(floor.open_s),
        figures.seconds(startup_s),
        figures.ratio(_over(startup_s, floor.one_thread_s, floor.files)),
        figures.ratio(_over(startup_s, floor.many_threads_s, floor.files)),
    )


def _over(startup_s: float | None, floor_s: float, files: int) -> float | None:
    """The one page of a general tablespace is no floor for anything."""
    return startup_s / floor_s if startup_s is not None and floor_s and files > 1 else None
