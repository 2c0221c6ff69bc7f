"""How did each run go, and by which clients? Every one, counted or not."""

from __future__ import annotations

from collections.abc import Iterator

from recovery.cells import cell_words
from recovery.measures import figures_about, value_of
from recovery.quantities import quantity
from recovery.report.about import grouped, left_in_cache
from recovery.report.work import said
from recovery.report.work.middle import beside
from recovery.stored import Run, Session, Table

_MOST_COMMANDS = 24


def runs_table(session: Session) -> Table:
    names = figures_about(session)
    about = [quantity(name) for name in names]
    more = [one for one in dict.fromkeys(one for name in names for one in beside(session, name)) if one not in about]
    return Table(
        title="Every run",
        headers=("#", "version", "cell", *(one.title for one in (*about, *more)), "verdict"),
        rows=tuple(
            (
                str(run.number),
                run.version,
                cell_words(session, run.variant),
                *(said.column(one, value_of(run, one.name)) for one in (*about, *more)),
                run.verdict.value,
            )
            for run in session.runs
        ),
        numeric=(True, False, False, *(True,) * len((*about, *more)), False),
        notes=(*_notes(session.runs, as_published=bool(session.settings.get("as_published"))),),
        keys=3,
    )


def _notes(runs: tuple[Run, ...], *, as_published: bool) -> Iterator[str]:
    for means, numbers in grouped((run.cold_means, run.number) for run in runs).items():
        yield f"Cache emptied by {means}: {numbers}."
    yield from left_in_cache(runs, as_published=as_published)
    for program, numbers in grouped((run.sampled_by, run.number) for run in runs).items():
        yield f"Stacks taken by {program} meanwhile, in no mean: {numbers}."
    for numbers in grouped((run.counted_waits, run.number) for run in runs).values():
        yield f"Waits counted meanwhile, in no mean: {numbers}."


def clients_table(session: Session) -> Table | None:
    """The exact commands, each once; None where nothing but the server was at work."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in session.runs:
        for name, command in run.clients.items():
            found.setdefault((name, command), []).append(str(run.number))
    if not found:
        return None
    shown = list(found.items())[:_MOST_COMMANDS]
    left = len(found) - len(shown)
    return Table(
        title="Clients",
        headers=("client", "command", "runs"),
        rows=tuple((name, command, ", ".join(numbers)) for (name, command), numbers in shown),
        numeric=(False, False, False),
        notes=(f"{left} more commands are in report.json, run by run.",) if left else (),
        keys=2,
    )
