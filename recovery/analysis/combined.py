"""Combines sessions of several hosts into one that the reports of a session can show: the host is an axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from recovery.model import Axis, Run, Session, VariantInfo

HOST_AXIS = "host"


@dataclass(frozen=True)
class Part:
    """A session of a host, as a part of a combined one."""

    host: str
    session: Session
    """As it was stored."""
    runs: tuple[Run, ...]
    """Its runs, with the variants of the combined session."""


@dataclass(frozen=True)
class CombinedSession(Session):
    """Sessions of the same command and settings, of one or several hosts. Their variants are those of a host each.

    Runs keep the numbers that they have in their own session."""

    parts: tuple[Part, ...] = ()

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(run): place for place, part in enumerate(self.parts) for run in part.runs}

    def by_session(self, runs: Iterable[Run]) -> tuple[tuple[Session, tuple[Run, ...]], ...]:
        found: dict[int, list[Run]] = {}
        for run in runs:
            found.setdefault(self._places[id(run)], []).append(run)
        return tuple((self.parts[place].session, tuple(of_part)) for place, of_part in sorted(found.items()))


def host_variant(host: str, variant: str) -> str:
    """Returns the name of a host's variant in a combined session. It ends like that of the variant, which may have its
    number of tables at the end."""
    return f"{host} {variant}"


def combine(sessions: Sequence[tuple[str, Session]]) -> CombinedSession:
    """Returns one session of these, each with the name of its host. The first has the title and the settings."""
    hosts = tuple(dict.fromkeys(host for host, _ in sessions))
    first = sessions[0][1]
    # Variants of all hosts beside each other.
    named = {
        host_variant(host, variant): (host, variant, session)
        for variant in dict.fromkeys(variant for _, session in sessions for variant in session.variant_names)
        for host, session in sessions
        if variant in session.variant_names
    }
    variants = tuple(
        VariantInfo(name, {**session.values_of(variant), HOST_AXIS: host}, session.own_metric_of(variant))
        for name, (host, variant, session) in named.items()
    )
    parts = tuple(
        Part(host, session, tuple(replace(run, variant=host_variant(host, run.variant)) for run in session.runs))
        for host, session in sessions
    )
    common = {
        name: value
        for name, value in first.environment.items()
        if all(session.environment.get(name) == value for _, session in sessions)
    }
    changed = {
        "environment": common,
        "versions": tuple(dict.fromkeys(version for _, session in sessions for version in session.versions)),
        "variants": variants,
        "planned_runs": sum(session.planned_runs for _, session in sessions),
        "servers": {name: about for _, session in reversed(sessions) for name, about in session.servers.items()},
        "notes": tuple(f"{host}: {note}" for host, session in sessions for note in session.notes),
        "runs": tuple(run for part in parts for run in part.runs),
        "floors": tuple(
            replace(floor, variants=tuple(host_variant(host, variant) for variant in floor.variants))
            for host, session in sessions
            for floor in session.floors
        ),
        "axes": (*_axes(first, [variant.values for variant in variants]), Axis(HOST_AXIS, hosts, hosts[0])),
    }
    kept = {field.name: getattr(first, field.name) for field in fields(Session)}
    return CombinedSession(**{**kept, **changed}, parts=parts)


def _axes(session: Session, cells: Iterable[dict[str, str]]) -> Iterable[Axis]:
    """Yields the axes of a session, and what its cells have beside them: starts differ in the cache, which is no axis
    of a session."""
    yield from session.axes
    known = {axis.name for axis in session.axes} | {HOST_AXIS}
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name in cell.keys() - known:
            values.setdefault(name, {})[cell[name]] = None
    yield from (Axis(name, tuple(found)) for name, found in sorted(values.items()))
