"""Is one version better than another, and what does each axis do? Ratios with intervals, and which are significant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from recovery.cells import Group, groups, is_switch, value_words
from recovery.measures import LEAST_TO_PAIR, Held, Middle, against_baseline, along, middles
from recovery.quantities import Quantity, quantity
from recovery.report import figures
from recovery.report.work import keys, said
from recovery.report.work.pairs import pair_tables
from recovery.stored import Axis, Session, Table
from recovery.summary import baseline_of

OFF = frozenset({"off", "false", "no"})
MISSES = "load_table_open_cache_misses_per_s"
"""Of the load's own: what somebody else took from it by the table cache, if by that."""
_MISSED = (
    "more misses/s: of the table cache, the load's own, without those of who asked beside it; what was lost without "
    "more of them was lost to something else."
)
_SIGNIFICANT = "significant: 1 is outside of it"


def version_tables(session: Session) -> Iterator[Table]:
    """Each pair of three versions; of others every one over the baseline, and of more than three both. None of a
    session with one version."""
    if len(session.versions) >= LEAST_TO_PAIR:
        yield from pair_tables(session)
    if len(session.versions) == LEAST_TO_PAIR:
        return
    held = against_baseline(session)
    found = {(one.version, one.variant): one for one in held}
    base = baseline_of(session)
    means = {one.variant: one.mean for one in middles(session) if one.version == base}
    parts = [(group, [found[key] for key in _order(session, group) if key in found]) for group in groups(session)]
    made = [_versions(session, group, rows, means) for group, rows in parts if rows]
    yield from (replace(table, notes=()) for table in made[:-1])
    counted = said.of_so_many([one.differs for one in held])
    yield from (replace(table, notes=(*table.notes, *counted)) for table in made[-1:])


def _order(session: Session, group: Group) -> list[tuple[str, str]]:
    return [(version, variant) for version in session.versions for variant in group.variants]


def _versions(session: Session, group: Group, rows: Sequence[Middle], means: dict[str, float | None]) -> Table:
    about, base = quantity(group.figure), baseline_of(session)
    named = keys.headers(session, group)
    return Table(
        title=keys.titled(f"Compared with {base}: {about.title}", group),
        headers=(*named, "mean", f"of {base}", "ratio", "significant"),
        rows=tuple(
            (
                *keys.row(session, group, (one.version, one.variant)),
                said.column(about, one.mean),
                said.column(about, means[one.variant]),
                said.effect(one),
                said.verdict(about, one),
            )
            for one in rows
        ),
        numeric=(*keys.numeric(session, group), *(True,) * 3, False),
        notes=(f"ratio: mean over the mean of {base} in the same row{_better(about)}, with its 95 % interval; "
               f"{_SIGNIFICANT}.",),
        keys=len(named),
    )  # fmt: skip


def _better(about: Quantity) -> str:
    if about.more_is_better is None:
        return ""
    return f": {'above' if about.more_is_better else 'below'} 1 is better"


def axis_tables(session: Session) -> Iterator[Table]:
    """One for each axis that has a base, in each group that differs along it."""
    for group in groups(session):
        for axis in group.axes:
            every = _marked(along(session, axis))
            held = [one for one in every if one.variant in group.variants]
            if held:
                switched = is_switch(axis) and axis.base is not None and axis.base.lower() in OFF
                made = (_lost if switched else _factors)(session, group, axis, held)
                yield replace(made, notes=(*made.notes, *_of_so_many(axis, every)))


def _marked(held: Sequence[Held]) -> Sequence[Held]:
    """One alone has no others to stand out of."""
    several = sum(one.differs is not None for one in held) > 1
    return held if several else [replace(one, stands_out=None) for one in held]


def _of_so_many(axis: Axis, every: Sequence[Held]) -> Iterator[str]:
    """All along the axis, also those in tables of other groups."""
    marked = sum(bool(one.stands_out) for one in every)
    for told in said.of_so_many([one.differs for one in every], along=f" along {axis.name}"):
        yield f"{told} With Holm's correction for all together, {marked:,} (*) {said.are(marked)}."


def _star(one: Held) -> str:
    return " *" if one.stands_out else ""


def lost_word(about: Quantity) -> str:
    """What a share that is taken away is called: seconds are added, queries lost."""
    return "added" if about.more_is_better is False else "lost"


def lost_share(about: Quantity, ratio: float | None) -> float | None:
    if ratio is None:
        return None
    return ratio - 1 if about.more_is_better is False else 1 - ratio


def lost_interval(about: Quantity, held: Held) -> str:
    """`12.1 to 20.3 %`"""
    ends = [share for end in (held.ratio_low, held.ratio_high) if (share := lost_share(about, end)) is not None]
    return f"{100 * min(ends):.1f} to {100 * max(ends):.1f} %" if ends else figures.ABSENT


def _lost(session: Session, group: Group, axis: Axis, held: Sequence[Held]) -> Table:
    """Where the base is that something is off: what it costs, in percent."""
    about, word = quantity(group.figure), lost_word(quantity(group.figure))
    means = _means(session)
    on = " or ".join(value_words(axis, value) for value in axis.values if value != axis.base)
    off = value_words(axis, str(axis.base))
    named = keys.headers(session, group, without=(axis.name,))
    missed = {(one.version, one.variant): one.mean for one in middles(session, MISSES) if one.mean is not None}
    why = ("more misses/s",) if missed else ()
    return Table(
        title=keys.titled(f"{word.capitalize()} by {on}: {about.title}", group),
        headers=(*named, off, on, word, "95 % interval", "significant", *why),
        rows=tuple(
            (
                *keys.row(session, group, (one.version, one.variant), without=(axis.name,)),
                said.column(about, means[one.version, one.base_variant]),
                said.column(about, means[one.version, one.variant]),
                said.percent(lost_share(about, one.ratio)),
                lost_interval(about, one),
                said.verdict(about, one) + _star(one),
                *(said.column(quantity(MISSES), _more(missed, one)) for _ in why),
            )
            for one in held
        ),
        numeric=(*keys.numeric(session, group, without=(axis.name,)), *(True,) * 4, False, *(True,) * len(why)),
        notes=(
            f"{word}: by how much the mean with {on} is {'above' if word == 'added' else 'below'} that with {off}; "
            "significant: 0 is outside of its interval.",
            *((_MISSED,) if missed else ()),
        ),
        keys=len(named),
    )


def _more(means: Mapping[tuple[str, str], float], held: Held) -> float | None:
    on, off = means.get((held.version, held.variant)), means.get((held.version, held.base_variant))
    return None if on is None or off is None else on - off


def _factors(session: Session, group: Group, axis: Axis, held: Sequence[Held]) -> Table:
    """A row for each base, a column for each other value."""
    about = quantity(group.figure)
    means = _means(session)
    found = {(one.version, one.base_variant, session.cells[one.variant][axis.name]): one for one in held}
    values = [value for value in axis.values if value != axis.base]
    rows = list(dict.fromkeys((one.version, one.base_variant) for one in held))
    named = keys.headers(session, group, without=(axis.name,))
    return Table(
        title=keys.titled(f"{axis.name}: {about.title}, factor against {axis.base}", group),
        headers=(*named, f"mean at {axis.base}", *values),
        rows=tuple(
            (
                *keys.row(session, group, row, without=(axis.name,)),
                said.column(about, means[row]),
                *(_factor(found.get((*row, value))) for value in values),
            )
            for row in rows
        ),
        numeric=(*keys.numeric(session, group, without=(axis.name,)), *(True,) * (1 + len(values))),
        notes=(
            f"Mean over the mean at {axis.base}{_better(about)}, with its 95 % interval; where 1 lies inside, the "
            "difference is not significant.",
        ),
        keys=len(named),
    )


def _factor(held: Held | None) -> str:
    return said.effect(held) + (_star(held) if held else "")


def _means(session: Session) -> dict[tuple[str, str], float | None]:
    return {(one.version, one.variant): one.mean for one in middles(session)}
