"""What did each server do and say whose files were damaged? In its own words."""

from __future__ import annotations

from collections.abc import Iterator

from recovery.cells import cell_words
from recovery.report import figures
from recovery.stored import Session, Table

_LONGEST = 200


def about_damage(session: Session) -> bool:
    return any(run.told for run in session.runs)


def damage_answers(session: Session) -> Iterator[str]:
    """A sentence for each version."""
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
        return figures.ABSENT
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
