"""By what do a session's variants differ from each other, and how is one of them called? Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from recovery.stored import Axis, Session

_SWITCH = frozenset({"on", "off", "true", "false", "yes", "no"})
_SIZE = re.compile(r"\d+(\.\d+)?[kmgKMG]?B?")
_MOST_TOGETHER = 12
"""Variants in one table or picture; more are told apart by their first axis."""
LEAST_TO_SCALE = 3
"""Values that a line is drawn through."""


@dataclass(frozen=True)
class Group:
    """Variants that are shown together."""

    name: str
    """What all of them have, and no other group; empty where all variants are in one."""
    variants: tuple[str, ...]
    axes: tuple[Axis, ...]
    """By which these differ, with the values that they have."""
    figure: str
    """What all of them are about."""


def is_switch(axis: Axis) -> bool:
    """On or off, and nothing between."""
    return bool(axis.values) and all(value.lower() in _SWITCH for value in axis.values)


def is_numeric(axis: Axis) -> bool:
    return bool(axis.values) and all(number(value) is not None for value in axis.values)


def number(value: str) -> float | None:
    return float(value) if re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", value) else None


def says_itself(axis: Axis) -> bool:
    """`point-select` needs no name before it, 8 and off do."""
    return bool(axis.values) and not any(
        value.lower() in _SWITCH or _SIZE.fullmatch(value) is not None for value in axis.values
    )


def groups(session: Session) -> tuple[Group, ...]:
    """By the first axis, where it says by itself what is measured and its values are each a matter of their own."""
    whole = session.differing_axes
    first = whole[0] if whole else None
    if first is not None and says_itself(first):
        parts = tuple(_part(session, first, value) for value in first.values)
        there = sum(len(part.variants) for part in parts) == len(session.variants)
        unlike = len({(part.figure, *(axis.name for axis in part.axes)) for part in parts}) > 1
        many = len(session.variants) > _MOST_TOGETHER and any(part.axes for part in parts)
        if there and (unlike or many):
            return parts
    return (Group("", session.variants, whole, session.figure_of(next(iter(session.variants), ""))),)


def _part(session: Session, axis: Axis, value: str) -> Group:
    variants = tuple(variant for variant in session.variants if session.cells.get(variant, {}).get(axis.name) == value)
    return Group(value, variants, session.differing_among(variants), session.figure_of(variants[0]))


def are_told_apart(session: Session, group: Group) -> bool:
    """By the values that they have on the group's axes alone."""
    cells = [tuple(session.cells.get(variant, {}).get(axis.name) for axis in group.axes) for variant in group.variants]
    return len(set(cells)) == len(cells)


def scale_of(group: Group) -> Axis | None:
    """The axis against which the figure is drawn: of numbers, and rather one along which nothing is a base."""
    able = [axis for axis in group.axes if _is_scale(axis)]
    return min(able, key=lambda axis: (axis.base is not None, -len(axis.values)), default=None)


def _is_scale(axis: Axis) -> bool:
    """Numbers that are held against a base need not be amounts: 1, 2 and 0 may be names, and are in no order then."""
    values = [number(value) or 0.0 for value in axis.values]
    in_order = axis.base is None or values == sorted(values)
    return is_numeric(axis) and len(values) >= LEAST_TO_SCALE and in_order


def cell_words(session: Session, variant: str, *, without: Collection[str] = ()) -> str:
    """`point-select, threads 8, poll=on`: by what it differs from others; its name where nothing says it."""
    axes = [axis for axis in session.differing_axes if axis.name not in without]
    cell = session.cells.get(variant, {})
    told = [value_words(axis, cell[axis.name]) for axis in axes if axis.name in cell]
    return ", ".join(told) or ("" if without else variant)


def words_in(session: Session, group: Group, variant: str, *, without: Collection[str] = ()) -> str:
    """As `cell_words`, among those of a group: what all of them have is left out."""
    cell = session.cells.get(variant, {})
    told = [value_words(axis, cell[axis.name]) for axis in group.axes if axis.name in cell and axis.name not in without]
    return ", ".join(told)


def value_words(axis: Axis, value: str) -> str:
    if says_itself(axis):
        return value
    return f"{axis.name} {value}" if axis.name.isalpha() and not is_switch(axis) else f"{axis.name}={value}"
