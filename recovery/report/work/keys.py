"""Which columns say what a row is about: the version, and its place on each axis that differs?"""

from __future__ import annotations

from collections.abc import Collection

from recovery.cells import Group, are_told_apart
from recovery.report import figures
from recovery.stored import Session


def headers(session: Session, group: Group, *, without: Collection[str] = ()) -> tuple[str, ...]:
    """Axes in words, so that a long name can be broken; the notes have it as the server spells it."""
    own = () if are_told_apart(session, group) else ("variant",)
    return ("version", *(figures.words(axis.name) for axis in group.axes if axis.name not in without), *own)


def row(session: Session, group: Group, about: tuple[str, str], *, without: Collection[str] = ()) -> tuple[str, ...]:
    """`about` is a version and a variant."""
    version, variant = about
    cell = session.cells.get(variant, {})
    own = () if are_told_apart(session, group) else (variant,)
    values = (cell.get(axis.name, figures.ABSENT) for axis in group.axes if axis.name not in without)
    return (version, *values, *own)


def numeric(session: Session, group: Group, *, without: Collection[str] = ()) -> tuple[bool, ...]:
    """Right-aligned are those whose values are told by figures alone."""
    axes = [axis for axis in group.axes if axis.name not in without]
    own = () if are_told_apart(session, group) else (False,)
    return (False, *(all(value[:1].isdigit() and " " not in value for value in axis.values) for axis in axes), *own)


def spelled(session: Session) -> tuple[str, ...]:
    """A note of the names behind heads in words."""
    names = [axis.name for axis in session.differing_axes if "_" in axis.name]
    return (f"As the server spells them: {', '.join(names)}.",) if names else ()


def titled(title: str, group: Group) -> str:
    return f"{title}, {group.name}" if group.name else title
