"""Builds the tables and sentences about servers that were killed under load, or started over damaged files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from statistics import fmean

from recovery.analysis.summary import Group, by_cell, cell_words, groups
from recovery.model import QUESTION, RECOVERY, Run, Session, Table, Verdict, quantity
from recovery.report import format as fmt

# --- Crashes: what each cell lost or kept, summed over all its kills

_BROKEN = ("ghosts", "torn", "holes", "half_done", "missing", "failing", "complaints")
"""Counts that are shown only if they are not zero."""
_ALLOWED = (
    ("lost", "acknowledged writes lost"),
    ("half_done", "definitions half done"),
    ("orphans", "orphaned files"),
    ("missing", "missing files"),
)
_MOMENT = "killed_after_s"
_MOST_AGAIN = 3
_SHOWN = ("kills", "acknowledged", "lost")


def about_crashes(session: Session) -> bool:
    return session.figure == RECOVERY


def crash_tables(session: Session) -> Iterator[Table]:
    """Yields a table for each group of cells. There is none if the session is not about crashes."""
    if not about_crashes(session):
        return
    cells = {key: judged(runs) for key, runs in by_cell(session).items()}
    everything = tuple(run for runs in cells.values() for run in runs)
    shown = (*_SHOWN, *(name for name in ("cut_short", "orphans", *_BROKEN) if total(everything, name)))
    parts = groups(session)
    for group in parts:
        yield _table(session, group, cells, shown, is_last=group is parts[-1])


def crash_answers(session: Session) -> Iterator[str]:
    """Yields a sentence for each version."""
    cells = by_cell(session)
    for version in session.versions:
        runs = judged(run for variant in session.variants for run in cells[version, variant])
        seconds = [run.measures[RECOVERY] for run in runs if RECOVERY in run.measures]
        if not runs or not seconds:
            yield f"{version}: nothing was measured."
            continue
        back = f"{version} kept its word in {kept(runs):,} of {len(runs):,} crashes, and was ready again within "
        back += f"{fmt.timed(max(seconds))} s ({fmt.timed(fmean(seconds))} s on average)"
        gone = sum(RECOVERY not in run.measures for run in runs)
        back += f"; it did not come back from {gone:,}" if gone else ""
        more = [f"{total(runs, name):,} {what}" for name, what in _ALLOWED if total(runs, name)]
        yield f"{back}{'; counted besides: ' + ', '.join(more) if more else ''}."


def judged(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Returns the runs in which the server was killed as planned, whether it recovered correctly or not."""
    return tuple(run for run in runs if run.verdict in (Verdict.MEASURED, Verdict.FAILED))


def kept(runs: Iterable[Run]) -> int:
    """Returns how many servers came back with everything that they had promised."""
    return sum(run.verdict is Verdict.MEASURED for run in runs)


def total(runs: Iterable[Run], name: str) -> int:
    return int(sum(run.measures.get(name, 0.0) for run in runs))


def _table(
    session: Session,
    group: Group,
    cells: dict[tuple[str, str], tuple[Run, ...]],
    shown: tuple[str, ...],
    *,
    is_last: bool,
) -> Table:
    named = fmt.headers(session, group)
    about = [(version, variant) for version in session.versions for variant in group.variants]
    return Table(
        title=fmt.titled(session.title, group),
        headers=(
            *named, "survived", "mean s", "max s", *(quantity(name).title for name in shown), "oldest lost, s",
        ),
        rows=tuple(
            (*fmt.row(session, group, key), *_row(cells[key], shown)) for key in about if cells[key]
        ),
        numeric=(*fmt.numeric(session, group), *(True,) * (4 + len(shown))),
        notes=_notes(session, shown) if is_last else (),
        keys=len(named),
    )  # fmt: skip


def _row(runs: tuple[Run, ...], shown: tuple[str, ...]) -> Iterator[str]:
    seconds = [run.measures[RECOVERY] for run in runs if RECOVERY in run.measures]
    windows = [run.measures["lost_window_s"] for run in runs if "lost_window_s" in run.measures]
    yield f"{kept(runs)} of {len(runs)}"
    yield fmt.timed(fmean(seconds)) if seconds else fmt.ABSENT
    yield fmt.timed(max(seconds)) if seconds else fmt.ABSENT
    for name in shown:
        yield f"{total(runs, name):,}"
    yield fmt.timed(max(windows)) if windows else fmt.ABSENT


def _notes(session: Session, shown: tuple[str, ...]) -> tuple[str, ...]:
    told = "; ".join(f"{quantity(name).title}: {quantity(name).told}" for name in shown)
    return (
        "survived: the server came back, and had kept all that it had promised. With a log that is not flushed at each "
        "commit (innodb_flush_log_at_trx_commit=0, and 2 where the power is lost) what was acknowledged last may be "
        "lost, in whole transactions; of the old servers' definitions, which are changed in one place after the other, "
        "half may be left: both are counted, and no promise is broken by them.",
        f"Sums over all of a cell, seconds until ready again. {told}.",
        *_again(session),
        *fmt.spelled(session),
    )


def _again(session: Session) -> Iterator[str]:
    """Yields a note with commands that repeat failed runs. The number of the repetition determines the random choices,
    so that they are the same again; runs of older tool versions cannot be repeated that way."""
    failed = [run for run in session.runs if run.verdict is Verdict.FAILED and _MOMENT in run.measures]
    told = dict.fromkeys((session.cells.get(run.variant, {}).get(QUESTION), run.repeat) for run in failed)
    commands = [
        shlex.join((*shlex.split(session.command), *(("--question", moment) if moment else ()), "--only", str(repeat)))
        for moment, repeat in told
    ]
    if commands:
        more = f"; and {len(commands) - _MOST_AGAIN} more" if len(commands) > _MOST_AGAIN else ""
        yield f"A failed one again, at the same moment of chance: {'; '.join(commands[:_MOST_AGAIN])}{more}."


# --- Damaged files: what each server did, and what its log says about the damage

_LONGEST = 200


def about_damage(session: Session) -> bool:
    return any(run.told for run in session.runs)


def damage_answers(session: Session) -> Iterator[str]:
    """Yields a sentence for each version."""
    for version in session.versions:
        runs = [run for run in session.runs if run.version == version and run.told]
        back = sum(run.startup_s is not None for run in runs)
        yield f"{version} came back over {back} of {len(runs)} damages; the table has what it said of each."


def damaged_table(session: Session) -> Table:
    told = [run for run in session.runs if run.told]
    asked = tuple(dict.fromkeys(name for run in told for name in run.told))
    rows: dict[tuple[str, ...], list[str]] = {}
    for run in told:
        said = (run.version, cell_words(session, run.variant), *(_short(run.told.get(name)) for name in asked))
        rows.setdefault(said, []).append(str(run.number))
    return Table(
        title=session.title,
        headers=("version", "damage", "runs", *asked),
        rows=tuple((version, damage, ", ".join(runs), *said) for (version, damage, *said), runs in rows.items()),
        numeric=(False,) * (3 + len(asked)),
        notes=(
            "Started once over the damage, after a kill under load; says: the first line of its log that speaks of the "
            "damage, at the start or when it was asked for the table. Once mended: a second start, with the file put "
            "back as it was at the kill, or with room on the disk.",
        ),
        keys=3,
    )


def _short(text: str | None) -> str:
    if text is None:
        return fmt.ABSENT
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
