"""How does each version compare with each other one? Ratios cell by cell, a column for each pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from recovery.cells import Group, groups
from recovery.measures import Between, between, version_pairs
from recovery.quantities import Quantity, quantity
from recovery.report.work import keys, said
from recovery.stored import Session, Table


def over(pair: tuple[str, str]) -> str:
    """As a column is headed: `8.0.31 / 5.7.22`."""
    return " / ".join(pair)


def pair_tables(session: Session) -> Iterator[Table]:
    """Several versions in a few columns; what holds for all tables is said below the last."""
    found = {(one.variant, one.version, one.base_version): one for one in between(session)}
    made = [table for group in groups(session) if (table := _table(session, group, found)).rows]
    yield from (replace(table, notes=()) for table in made[:-1])
    yield from made[-1:]


def _table(session: Session, group: Group, found: dict[tuple[str, str, str], Between]) -> Table:
    about, pairs = quantity(group.figure), version_pairs(session.versions)
    # Of each cell its own columns but that of the version.
    named = keys.headers(session, group)[1:] or ("cell",)
    rows = [variant for variant in group.variants if any((variant, *pair) in found for pair in pairs)]
    return Table(
        title=keys.titled(f"Version against version: {about.title}", group),
        headers=(*named, *map(over, pairs)),
        rows=tuple(
            (*_names(session, group, variant), *(_factor(found.get((variant, *pair))) for pair in pairs))
            for variant in rows
        ),
        numeric=(*(keys.numeric(session, group)[1:] or (False,)), *(True,) * len(pairs)),
        notes=(
            _note(about, errors=any(one.differs is not None for one in found.values())),
            *said.of_so_many([one.differs for one in found.values()]),
        ),
        keys=len(named),
    )


def _note(about: Quantity, *, errors: bool) -> str:
    better = "" if about.more_is_better is None else f": {'above' if about.more_is_better else 'below'} 1 is better"
    told = ", with its 95 % interval; (=): not significant, 1 lies inside of it" if errors else ""
    return f"Mean over mean{better}{told}."


def _names(session: Session, group: Group, variant: str) -> tuple[str, ...]:
    return keys.row(session, group, ("", variant))[1:] or (group.name or variant,)


def _factor(one: Between | None) -> str:
    return said.effect(one) + (" (=)" if one is not None and one.differs is False else "")
