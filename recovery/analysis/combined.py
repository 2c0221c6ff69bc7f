"""Combines sessions into one that the reports of a session can show. Where they are those of several hosts, the host is
an axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import cast

from recovery.model import Axis, Run, Session, Status, VariantInfo, Verdict

HOST_AXIS = "host"


@dataclass(frozen=True, kw_only=True)
class PartRun(Run):
    """A run of a combined session. Its number is that in its own session, so that only part and number tell it from
    all others."""

    part: int
    """Place of its session among the parts."""


@dataclass(frozen=True)
class Part:
    """A session of a host, as a part of a combined one."""

    host: str
    session: Session
    """As it was stored."""
    runs: tuple[PartRun, ...]
    """Its runs, with the variants of the combined session."""
    name: str = ""
    """Name of the session, where the host does not tell it from the others."""


@dataclass(frozen=True)
class CombinedSession(Session):
    """Sessions of the same command and settings, of one or several hosts. Their variants are those of a host each.

    Runs keep the numbers that they have in their own session. The names of servers have the host, too."""

    parts: tuple[Part, ...] = ()

    @cached_property
    def _servers(self) -> dict[str, dict[str, dict[str, str]]]:
        """The servers of each host. What several sessions of a host have is that of the first."""
        found: dict[str, dict[str, dict[str, str]]] = {}
        for part in self.parts:
            of_host = found.setdefault(part.host, {})
            for name, facts in part.session.servers.items():
                of_host.setdefault(name, facts)
        return found

    def servers_of(self, variant: str, /) -> Mapping[str, Mapping[str, str]]:
        return self._servers.get(self.values_of(variant).get(HOST_AXIS, ""), {})

    @cached_property
    def _first_hosts(self) -> dict[str, str]:
        """The first host that measured a version, by version."""
        found: dict[str, str] = {}
        for part in self.parts:
            for run in part.runs:
                if run.verdict is Verdict.MEASURED:
                    found.setdefault(run.version, part.host)
        return found

    def base_of(self, axis: Axis, version: str, /) -> str | None:
        """Returns, as the base of the hosts, the first one that measured the version."""
        return self._first_hosts.get(version) if axis.name == HOST_AXIS else axis.base

    def block_of(self, run: Run) -> tuple[int, ...]:
        part = cast(PartRun, run).part
        return (part, *self.parts[part].session.block_of(run))

    def by_session(self, runs: Iterable[Run]) -> tuple[tuple[Session, tuple[Run, ...]], ...]:
        """Returns the runs of each session that they were measured in. All must be runs of this one, or changed copies
        of them."""
        found: dict[int, list[Run]] = {}
        for run in cast(Iterable[PartRun], runs):
            found.setdefault(run.part, []).append(run)
        return tuple((self.parts[place].session, tuple(of_part)) for place, of_part in sorted(found.items()))


def host_variant(host: str, variant: str) -> str:
    """Returns the name of a host's variant in a combined session, which is that of the variant if the host is not
    named. It ends like that of the variant, which may have its number of tables at the end."""
    return f"{host} {variant}" if host else variant


def combine(sessions: Sequence[tuple[str, Session]]) -> CombinedSession:
    """Returns one session of these, each with the name of its host. The first has the title and the settings. Without
    any name there is no axis of hosts."""
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
        VariantInfo(
            name, {**session.values_of(variant), **({HOST_AXIS: host} if host else {})}, session.own_metric_of(variant)
        )
        for name, (host, variant, session) in named.items()
    )
    parts = tuple(
        Part(host, session, tuple(_run_of_part(run, host, place) for run in session.runs))
        for place, (host, session) in enumerate(sessions)
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
        "servers": {
            _host_server(host, name): facts for host, session in sessions for name, facts in session.servers.items()
        },
        "notes": tuple(f"{host}: {note}" if host else note for host, session in sessions for note in session.notes),
        "runs": tuple(run for part in parts for run in part.runs),
        "floors": tuple(
            replace(floor, variants=tuple(host_variant(host, variant) for variant in floor.variants))
            for host, session in sessions
            for floor in session.floors
        ),
        "earlier": (),
        "axes": (*_axes(first, [variant.values for variant in variants]), Axis(HOST_AXIS, hosts, hosts[0])),
    }
    if not any(hosts):
        changed["axes"] = first.axes
    kept = {field.name: getattr(first, field.name) for field in fields(Session)}
    return CombinedSession(**{**kept, **changed}, parts=parts)


def combine_sessions(sessions: Mapping[str, Session]) -> CombinedSession:
    """Returns one session of these sessions of the same measurement, by name. Each is one value of every cell."""
    whole = combine([("", session) for session in sessions.values()])
    parts = tuple(replace(part, name=name) for name, part in zip(sessions, whole.parts, strict=True))
    is_finished = all(session.status == Status.FINISHED for session in sessions.values())
    status = whole.status if is_finished else Status.ABORTED.value
    return replace(whole, parts=parts, notes=tuple(dict.fromkeys(whole.notes)), floors=(), status=status)


def _host_server(host: str, name: str) -> str:
    """Returns the name of a host's server in a combined session: its version, the host, and the variant if there is
    one."""
    version, _, variant = name.partition(" ")
    return f"{version} {host_variant(host, variant)}".rstrip()


def _run_of_part(run: Run, host: str, place: int) -> PartRun:
    kept = {field.name: getattr(run, field.name) for field in fields(Run)}
    return PartRun(**{**kept, "variant": host_variant(host, run.variant)}, part=place)


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
