"""Which cells of a session does a published claim speak of? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recovery.cells import number
from recovery.experiments.literature import Claim, Selector
from recovery.stored import Session

VERSION, VARIANT = "version", "variant"
LEAST, MOST = "least", "most"
Key = tuple[str, str]
"""Version and variant."""


@dataclass(frozen=True)
class Pair:
    one: Key
    other: Key | None
    """None where the claim is about a figure by itself."""


def pairs(session: Session, claim: Claim) -> Iterator[Pair]:
    """In the order of the session; none where it has no such cells."""
    for version in _versions(session, claim.one.get(VERSION)):
        for variant in session.variants:
            if not _is_of(session, variant, claim.one):
                continue
            if claim.level is not None:
                yield Pair((version, variant), None)
                continue
            like = {**claim.one, **claim.other}
            base = _alike(session, variant, like)
            for old in _versions(session, like.get(VERSION)) if VERSION in claim.other else (version,):
                if base is not None and (old, base) != (version, variant):
                    yield Pair((version, variant), (old, base))


def series_measured(session: Session, series: str | None) -> bool:
    return any(_versions(session, series))


def _versions(session: Session, series: str | None) -> tuple[str, ...]:
    return tuple(one for one in session.versions if series is None or one == series or one.startswith(f"{series}."))


def _is_of(session: Session, variant: str, wanted: Selector) -> bool:
    if variant != wanted.get(VARIANT, variant):
        return False
    cell = session.cells.get(variant, {})
    return all(cell.get(name) == value for name, value in _axes(session, wanted).items())


def _alike(session: Session, variant: str, wanted: Selector) -> str | None:
    """The variant that has these values, and else the same."""
    cell = {**session.cells.get(variant, {}), **_axes(session, wanted)}
    return next((one for one in session.variants if session.cells.get(one, {}) == cell), None)


def _axes(session: Session, wanted: Selector) -> Mapping[str, str]:
    return {name: _value(session, name, value) for name, value in wanted.items() if name not in (VERSION, VARIANT)}


def _value(session: Session, name: str, value: str) -> str:
    if value not in (LEAST, MOST):
        return value
    there = [one for axis in session.axes if axis.name == name for one in axis.values if number(one) is not None]
    if not there:
        return value
    return (max if value == MOST else min)(there, key=lambda one: number(one) or 0.0)
