"""What is the answer of a server at work, in a sentence for each version? From figures and axes, whatever they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recovery.cells import cell_words, groups, is_switch, value_words
from recovery.measures import Held, Middle, along, by_cell, middles, taken
from recovery.quantities import Quantity, quantity
from recovery.report.work import said
from recovery.report.work.against import OFF, lost_share
from recovery.report.work.crashes import about_crashes, crash_answers
from recovery.report.work.damaged import about_damage, damage_answers
from recovery.stored import Axis, Session, Verdict
from recovery.students import LEAST_RUNS, Compared, effect_95, stored_effect
from recovery.summary import baseline_of

_MOST, _MOST_PARTS, _MOST_FACTORS = 6, 3, 3
"""Clauses of one sentence; the tables have the rest."""


@dataclass(frozen=True)
class _Told:
    session: Session
    found: dict[tuple[str, str], Middle]

    def about(self, variant: str) -> Quantity:
        return quantity(self.session.figure_of(variant))

    @property
    def seconds(self) -> bool:
        """Or another figure of which less is better."""
        return quantity(self.session.figure).more_is_better is False

    def mean(self, version: str, variant: str) -> float | None:
        return self.found[version, variant].mean


def work_answers(session: Session) -> tuple[str, ...]:
    """In the order of the report."""
    if about_damage(session):
        return tuple(damage_answers(session))
    if about_crashes(session):
        return tuple(crash_answers(session))
    told = _Told(session, {(one.version, one.variant): one for one in middles(session)})
    return tuple(_answer(told, version) for version in session.versions)


def _answer(told: _Told, version: str) -> str:
    mine = [one for one in told.found.values() if one.version == version]
    if not any(one.count for one in mine):
        return _nothing(told.session, version)
    switch = _switched(told.session)
    if switch is not None:
        clauses = list(_costs(told, version, switch))
    elif told.seconds or _few(told, version):
        clauses = list(_each(told, version))
    else:
        clauses = [*_most(told, version), *_factors(told, version)]
    failed, void = (sum(getattr(one, name) for one in mine) for name in ("failed", "void"))
    counted = ", ".join(f"{number} {what}" for number, what in ((failed, "failed"), (void, "void")) if number)
    left_out = f" Not counted: {counted}." if counted else ""
    return f"{version} {'; '.join(clauses) if clauses else 'was measured: the tables have it'}.{left_out}"


def _few(told: _Told, version: str) -> bool:
    """Cells that can be told one by one, since none is held against another."""
    axes = [axis for group in groups(told.session) for axis in group.axes]
    return len(_measured(told, version)) <= _MOST and not any(axis.base is not None for axis in axes)


def _nothing(session: Session, version: str) -> str:
    runs = [run for run in session.runs if run.version == version]
    reason = next((run.reason for run in runs if run.reason), None)
    left_out = [verdict.value for verdict in (Verdict.FAILED, Verdict.VOID) if any(r.verdict is verdict for r in runs)]
    told = f"{version}: nothing was measured" + (f" ({' and '.join(left_out)} runs)" if left_out else "")
    return f"{told}: {reason.rstrip('.')}." if reason else f"{told}."


def _switched(session: Session) -> Axis | None:
    """Something that is off, and on beside it: what that costs is the question."""
    axes = session.differing_axes
    if len(groups(session)) > 1:
        return None
    return next((axis for axis in axes if is_switch(axis) and (axis.base or "").lower() in OFF), None)


def _costs(told: _Told, version: str, axis: Axis) -> Iterator[str]:
    """`loses 16.9 % +- 1.2 by poll=on (46,320 to 38,472 queries/s)`, the most first; what is noise together."""
    held = [one for one in along(told.session, axis) if one.version == version]
    ranked = sorted(held, key=_size, reverse=True)
    noise = [one for one in ranked if one.stands_out is False]
    more = [one for one in ranked if one.stands_out]
    for number, one in enumerate(more[:_MOST]):
        yield f"{_cost(told, one)}{_by(told.session, axis, one, first=number == 0)}{_from_to(told, one)}"
    if len(more) > _MOST:
        yield f"and {len(more) - _MOST} more in the tables"
    if noise:
        where = "" if not more else f" with {_listed([_elsewhere(told.session, axis, one) for one in noise])}"
        values = _from_to(told, noise[0]) if len(noise) == 1 else ""
        what = "does not take significantly longer" if told.seconds else "does not lose significantly"
        on = "" if more else f" by {value_words(axis, _on(told.session, axis, noise[0]))}"
        yield f"{what}{on}{where}{values}{_together(told, axis, noise)}"
    yield from _untold(axis, held)


def _untold(axis: Axis, held: Sequence[Held]) -> Iterator[str]:
    """Without an interval no effect is claimed."""
    if held and all(one.stands_out is None for one in held):
        yield f"{axis.name} was not compared: {LEAST_RUNS} runs of each are needed"


def _together(told: _Told, axis: Axis, noise: Sequence[Held]) -> str:
    """Said where single comparisons are significant, and all together are not."""
    if not any(one.differs for one in noise):
        return ""
    several = sum(one.differs is not None for one in along(told.session, axis))
    return f", the {several} comparisons along {axis.name} taken together"


def _cost(told: _Told, held: Held) -> str:
    about = told.about(held.variant)
    if held.ratio is None:
        return f"changes by {said.effect(held)}"
    shares = [lost_share(about, ratio) or 0.0 for ratio in (held.ratio, held.ratio_low, held.ratio_high)]
    share, low, high = shares[0], *sorted(map(abs, shares[1:]))
    told_share = f"{100 * abs(share):.1f} % ({100 * low:.1f} to {100 * high:.1f})"
    if told.seconds:
        return f"needs {told_share} {'more' if share > 0 else 'less'}"
    return f"{'loses' if share > 0 else 'gains'} {told_share}"


def _by(session: Session, axis: Axis, held: Held, *, first: bool) -> str:
    """By what, said once, and where."""
    elsewhere = _elsewhere(session, axis, held)
    on = f" by {value_words(axis, _on(session, axis, held))}" if first else ""
    return f"{on} with {elsewhere}" if elsewhere else on


def _on(session: Session, axis: Axis, held: Held) -> str:
    return session.cells[held.variant][axis.name]


def _elsewhere(session: Session, axis: Axis, held: Held) -> str:
    return cell_words(session, held.variant, without=(axis.name,))


def _from_to(told: _Told, held: Held) -> str:
    before, after = told.mean(held.version, held.base_variant), told.mean(held.version, held.variant)
    if before is None or after is None:
        return ""
    about = told.about(held.variant)
    return f" ({said.column(about, before)} to {said.worded(about, after)})"


def _each(told: _Told, version: str) -> Iterator[str]:
    """`needs 58.3 s for Q1, 30.4 times as long as 8.0.31`, cell by cell."""
    cells = _measured(told, version)
    for number, one in enumerate(cells[:_MOST]):
        verb = ("needs " if told.seconds else "comes to ") if number == 0 else ""
        where = cell_words(told.session, one.variant)
        yield f"{verb}{said.worded(told.about(one.variant), one.mean or 0.0)} for {where}{_than(told, one)}"
    if len(cells) > _MOST:
        yield f"and {len(cells) - _MOST} more in the tables"


def _than(told: _Told, one: Middle) -> str:
    """Compared with the baseline, or of two versions with the other; said once, of the larger figure."""
    session, base = told.session, baseline_of(told.session)
    two = len(session.versions) == 2
    other = next((version for version in session.versions if version != one.version), base) if two else base
    if other == one.version:
        return ""
    cells = by_cell(session)
    effect = effect_95(*(taken(cells[version, one.variant], one.name) for version in (one.version, other)))
    if effect is None or (two and effect.value < effect.none):
        return ""
    words = _compared_words(told.about(one.variant), Compared(**stored_effect(effect)), other)
    return f", {words}" if words else ""


def _compared_words(about: Quantity, one: Compared, other: str) -> str:
    """Nothing without an interval: then no effect is claimed."""
    if one.differs is None:
        return ""
    if not one.differs:
        return f"not significantly different from {other}"
    if one.ratio is None:
        return f"{said.effect(one)} compared with {other}"
    if about.more_is_better is False and about.unit == "s":
        return f"{_times(one)} as long as {other}"
    return f"{_times(one)} that of {other}"


def _times(one: Compared) -> str:
    """`2.31 (2.05-2.60) times`"""
    return f"{said.effect(one)} times"


def _most(told: _Told, version: str) -> Iterator[str]:
    """The largest figure of each group, or of each value of what says by itself what was done."""
    verb = "does up to "
    for group in groups(told.session)[:_MOST_PARTS]:
        able = [one for one in _measured(told, version) if one.variant in group.variants and one.mean]
        if able:
            best = max(able, key=lambda one: one.mean or 0.0)
            where = _where(told.session, best.variant)
            with_it = f" with {where}" if where else ""
            yield f"{verb}{said.worded(told.about(best.variant), best.mean or 0.0)}{with_it}{_over_base(told, best)}"
            verb = ""


def _measured(told: _Told, version: str) -> list[Middle]:
    return [one for one in told.found.values() if one.version == version and one.count]


def _where(session: Session, variant: str, *, without: str = "") -> str:
    """The cell, as far as it is not at a base."""
    cell = session.cells.get(variant, {})
    at_base = {axis.name for axis in session.axes if axis.base is not None and cell.get(axis.name) == axis.base}
    return cell_words(session, variant, without={*at_base, without})


def _over_base(told: _Told, one: Middle) -> str:
    base = baseline_of(told.session)
    words = "" if one.version == base else _compared_words(told.about(one.variant), one, base)
    return f", {words}" if words else ""


def _factors(told: _Told, version: str) -> Iterator[str]:
    """The largest effects along each axis that has a base: of those that are significant among all along it, since of
    many that are so by themselves the largest is the luckiest."""
    best: list[tuple[float, str]] = []
    for axis in told.session.axes:
        held = [one for one in along(told.session, axis) if one.version == version]
        sure = [one for one in held if one.stands_out]
        untold = list(_untold(axis, held))
        if sure:
            most = max(sure, key=_size)
            best.append((_size(most), _factor(told.session, axis, most, alone=len(held) == 1)))
        elif untold:
            best.append((0.0, untold[0]))
        elif held:
            best.append((0.0, f"{axis.name} changes nothing significantly{_together(told, axis, held)}"))
    yield from (clause for _, clause in sorted(best, key=lambda one: -one[0])[:_MOST_FACTORS])


def _size(held: Held) -> float:
    """Half of it is as large as twice, and what begins or ends at zero is larger than any."""
    return math.inf if held.ratio is None else abs(math.log(held.ratio))


def _factor(session: Session, axis: Axis, held: Held, *, alone: bool) -> str:
    where = _where(session, held.variant, without=axis.name)
    named = value_words(axis, _on(session, axis, held))
    if held.ratio is None:
        return f"{named} changes it by {said.effect(held)}" + (f" ({where})" if where else "")
    reach = "" if alone else "up to " if held.ratio > 1 else "down to "
    return f"{named} makes it {reach}{_times(held)} that of {axis.base}" + (f" ({where})" if where else "")


def _listed(words: Sequence[str]) -> str:
    told = [word for word in words if word]
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told)
