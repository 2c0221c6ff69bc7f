"""Compares the sessions of many hosts: versions within each host first, then hosts with the same version and settings.

Everything that is compared has an interval; what cannot be compared is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations

from recovery.analysis.compare import (
    PROBE_PREFIX,
    VOLATILE_HOST_FACTS,
    Pair,
    combined_summaries,
    compare,
    compared_settings,
    differing_settings,
)
from recovery.analysis.contrasts import Contrast
from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import Summary, baseline_of, is_compared, mean, metric_values, per_table
from recovery.analysis.warnings import doubts_by_cell
from recovery.model import STARTUP_METRIC, Session, Verdict

Fact = str | int | float | bool | None
PRICE = "price_per_hour"
_PAGEOUT = "idle_pageout"
_SERIALS = ("device_serial", "ebs_volume")
_IDENTITIES = frozenset({*_SERIALS, "ec2_zone", "tool"})
"""Facts that identify a host, and those that are compared elsewhere."""
_MACHINE_FACTS = frozenset({
    "cpu_model", "cpus", "memory_bytes", "architecture", "virtualisation", "machine_vendor", "machine_product",
    "ec2_instance_type", "filesystem", "filesystem_size_bytes", "mount_options", "device", "device_model", "scheduler",
    "read_ahead_kb", "rotational", "tool_device", "tool_filesystem", "temporary_device", "temporary_filesystem",
})  # fmt: skip
"""Facts about machine and storage, which is what hosts are compared for. All others, such as the kernel, are beside."""


@dataclass(frozen=True)
class Host:
    name: str
    facts: Mapping[str, Fact]
    """What the plan says about the host: instance type, volume, filesystem, price."""
    sessions: tuple[Session, ...]

    @property
    def found(self) -> Mapping[str, Fact]:
        """What the tool found on the host, without what changes by itself."""
        if not self.sessions:
            return {}
        last = self.sessions[-1]
        ignored = VOLATILE_HOST_FACTS | _IDENTITIES
        # Without a scheme that pages out there is none, whereas other facts are unknown if they are None.
        known = {
            name: "none" if name == _PAGEOUT and value is None else value for name, value in last.environment.items()
        }
        kept = {name: value for name, value in known.items() if name not in ignored and value is not None}
        return {**{n: v for n, v in kept.items() if not n.startswith(PROBE_PREFIX)}, "tool": last.tool_version}

    @property
    def price_per_hour(self) -> float | None:
        price = self.facts.get(PRICE)
        return None if price is None else float(price)


@dataclass(frozen=True)
class FleetCell:
    """The main metric of one version in one variant on one host, with its reads and its cost."""

    workload: str
    host: str
    summary: Summary
    sessions: int
    """Number of sessions that it is the mean of."""
    tables: float | None = None
    reads: float | None = None
    """Mean requests to the device of a start."""
    reads_per_table: float | None = None
    cost_per_million_tables: float | None = None
    """Price per hour times duration, divided by tables; None without a price."""
    doubts: tuple[str, ...] = ()
    """The warnings about its mean."""


@dataclass(frozen=True)
class FleetRatio(Contrast):
    """A mean divided by that of another version on the same host, or of the same version on another host."""

    workload: str
    metric: str
    variant: str
    version: str
    host: str
    base_version: str
    base_host: str
    cost_ratio: float | None = None
    """The ratio times that of the prices; None if a price is missing, and for anything but a duration."""
    beside: tuple[str, ...] = ()
    """What differs between the two hosts beside machine and storage: the ratio measures it, too."""


@dataclass(frozen=True)
class Workload:
    """A command with its settings, which one or several hosts measured."""

    name: str
    sessions: Mapping[str, tuple[Session, ...]]
    """Its sessions by host."""
    versions: tuple[str, ...]

    @property
    def first(self) -> Session:
        return next(iter(self.sessions.values()))[0]

    def side(self, host: str, version: str) -> list[Session]:
        """Returns the sessions of a host, reduced to one version."""
        return [_of_version(one, version) for one in self.sessions.get(host, ()) if version in one.versions]


@dataclass(frozen=True)
class Fleet:
    hosts: tuple[Host, ...]
    cells: tuple[FleetCell, ...]
    within: tuple[FleetRatio, ...]
    """Versions compared on the same host."""
    between: tuple[FleetRatio, ...]
    """Hosts compared for the same version."""
    not_compared: tuple[str, ...]
    """What has no ratio, and why."""


def _of_version(session: Session, version: str) -> Session:
    servers = {name: facts for name, facts in session.servers.items() if name.partition(" ")[0] == version}
    runs = tuple(run for run in session.runs if run.version == version)
    return replace(session, versions=(version,), runs=runs, servers=servers)


def compare_hosts(hosts: Sequence[Host]) -> Fleet:
    """Compares the versions on each host, and each host with the first one that measured the same."""
    workloads = _workloads(hosts)
    by_name = {host.name: host for host in hosts}
    within = tuple(one for workload in workloads for one in _within(workload))
    between = tuple(one for workload in workloads for one in _between(workload, by_name))
    without = (*_without_interval(within), *_without_interval(between))
    return Fleet(
        hosts=tuple(hosts),
        cells=tuple(one for workload in workloads for one in _cells(workload, by_name)),
        within=tuple(one for one in within if one.differs is not None),
        between=tuple(one for one in between if one.differs is not None),
        not_compared=(*_unlike(hosts, workloads), *_second_starts(hosts), *without),
    )


# --- Workloads: sessions of the same command and settings


def _workloads(hosts: Sequence[Host]) -> tuple[Workload, ...]:
    found: dict[tuple[object, ...], dict[str, list[Session]]] = {}
    for host in hosts:
        for session in filter(is_compared, host.sessions):
            settings = compared_settings(session.settings)
            key = (session.scenario, session.figure, frozenset(settings.items()))
            found.setdefault(key, {}).setdefault(host.name, []).append(session)
    groups = list(found.values())
    firsts = [next(iter(sessions.values()))[0] for sessions in groups]
    return tuple(
        Workload(
            _workload_name(first, firsts),
            {name: tuple(of_host) for name, of_host in sessions.items()},
            tuple(dict.fromkeys(v for of_host in sessions.values() for one in of_host for v in one.versions)),
        )
        for first, sessions in zip(firsts, groups, strict=True)
    )


def _workload_name(session: Session, among: Iterable[Session]) -> str:
    """Returns the name of the command, with the settings in which it differs from others of this command."""
    others = [one for one in among if one is not session and one.scenario == session.scenario]
    found = {each.what: each.one for other in others for each in differing_settings(session.settings, other.settings)}
    return ", ".join((session.scenario, *(f"{what} {value}" for what, value in found.items())))


# --- Figures and ratios


def _cells(workload: Workload, hosts: Mapping[str, Host]) -> Iterator[FleetCell]:
    doubts = {name: [doubts_by_cell(one) for one in sessions] for name, sessions in workload.sessions.items()}
    for version in workload.versions:
        for name in workload.sessions:
            side = workload.side(name, version)
            if not side:
                continue
            for cell, summary in combined_summaries(side).items():
                if not summary.has_runs:
                    continue
                runs = [
                    run
                    for one in side
                    for run in one.runs
                    if run.variant == summary.variant and run.verdict is Verdict.MEASURED
                ]
                tables = mean(run.tables for run in runs)
                seconds = mean(per_table(run, summary.name) for run in runs) if summary.name == STARTUP_METRIC else None
                price = hosts[name].price_per_hour
                yield FleetCell(
                    workload.name, name, summary, len(side), tables,
                    mean(metric_values(runs, "read_requests")),
                    mean(per_table(run, "read_requests") for run in runs),
                    None if price is None or seconds is None else price / 3600 * seconds * 1e6,
                    tuple(dict.fromkeys(text for of_session in doubts[name] for text in of_session.get(cell, ()))),
                )  # fmt: skip


def _within(workload: Workload) -> Iterator[FleetRatio]:
    for name, sessions in workload.sessions.items():
        versions = tuple(dict.fromkeys(version for one in sessions for version in one.versions))
        base = baseline_of(sessions[0])
        for version in (one for one in versions if one != base):
            for pair in _pairs(workload.side(name, base), workload.side(name, version)):
                yield _ratio(workload, pair, (name, version), (name, base))


def _between(workload: Workload, hosts: Mapping[str, Host]) -> Iterator[FleetRatio]:
    for version in workload.versions:
        base, *others = (name for name in workload.sessions if workload.side(name, version))
        for name in others:
            sides = workload.side(base, version), workload.side(name, version)
            beside = tuple(_beside(hosts[base], hosts[name], *sides))
            prices = hosts[base].price_per_hour, hosts[name].price_per_hour
            for pair in _pairs(*sides):
                found = _ratio(workload, pair, (name, version), (base, version))
                cost = None
                if found.ratio is not None and found.metric == STARTUP_METRIC and prices[0] and prices[1] is not None:
                    cost = found.ratio * prices[1] / prices[0]
                yield replace(found, beside=beside, cost_ratio=cost)


def _pairs(one: Sequence[Session], other: Sequence[Session]) -> Iterator[Pair]:
    """Yields what both sides have. A version need not have every variant."""
    for pair in compare(one, other).pairs if one and other else ():
        if pair.one.has_runs and pair.other.has_runs:
            yield pair


def _ratio(workload: Workload, pair: Pair, of: tuple[str, str], base: tuple[str, str]) -> FleetRatio:
    effect = {one.name: getattr(pair, one.name) for one in fields(Contrast)}
    return FleetRatio(workload.name, pair.metric, pair.variant, of[1], of[0], base[1], base[0], **effect)


# --- What differs between hosts, and what cannot be compared


def differing_facts(hosts: Sequence[Host]) -> tuple[str, ...]:
    """Returns the names of the facts that the tool found to differ between hosts. Sizes within 1 % do not differ."""
    names = dict.fromkeys(name for host in hosts for name in host.found)
    return tuple(
        name
        for name in names
        if any(not _is_alike(one.found.get(name), other.found.get(name)) for one, other in combinations(hosts, 2))
    )


def _is_alike(one: Fact, other: Fact) -> bool:
    """A fact that only one host has is not compared: the tool of the other did not find it."""
    if None in (one, other):
        return True
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=0.01)
    return one == other


def _beside(one: Host, other: Host, ones: Sequence[Session], others: Sequence[Session]) -> Iterator[str]:
    for name in differing_facts((one, other)):
        if name not in _MACHINE_FACTS:
            yield "version of the tool" if name == "tool" else name.replace("_", " ")
    builds = [{facts.get("sha256") for each in side for facts in each.servers.values()} for side in (ones, others)]
    if builds[0] != builds[1] and not any(None in found for found in builds):
        yield "build of the server"
    for each in compare(ones, others).differences:
        prefix, _, what = each.what.partition(": ")
        if what and prefix != "host":
            yield what


def _unlike(hosts: Sequence[Host], workloads: Sequence[Workload]) -> Iterator[str]:
    """Yields what no other host measured in the same way."""
    for host in hosts:
        for session in host.sessions:
            if not is_compared(session):
                yield f"{host.name}, {session.scenario}: it asks what survives a crash, which has no mean to compare."
    for workload in workloads:
        alike = [one for one in workloads if one.first.scenario == workload.first.scenario]
        if len(hosts) > 1 and len(workload.sessions) == len(alike) == 1:
            yield f"{_list(workload.sessions)}, {workload.name}: no other host measured it."
        elif set(alike[0].sessions) != set(workload.sessions):
            yield f"{_list(workload.sessions)} with {_list(alike[0].sessions)}, {workload.first.scenario}: " + (
                _settings_text(alike[0].first, workload.first)
            )
        for version in workload.versions if len(workload.sessions) > 1 else ():
            names = [name for name in workload.sessions if workload.side(name, version)]
            if len(names) == 1:
                yield f"{names[0]}, {workload.name}, {version}: no other host measured this version."


def _settings_text(one: Session, other: Session) -> str:
    found = [f"{each.what} {each.other}, not {each.one}" for each in differing_settings(one.settings, other.settings)]
    return f"other settings ({'; '.join(found)})." if found else "another metric."


def _second_starts(hosts: Sequence[Host]) -> Iterator[str]:
    found: dict[str, dict[str, None]] = {}
    for host in hosts:
        for session in host.sessions:
            for run in session.runs:
                if session.is_second_start(run.variant):
                    found.setdefault(run.version, {})[host.name] = None
    for version, names in found.items():
        yield f"{version} warm on {_list(names)}: second starts, which are not proved to be warm."


def _without_interval(ratios: Iterable[FleetRatio]) -> Iterator[str]:
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for one in ratios:
        if one.differs is None:
            what = f"{one.workload}, {one.variant}"
            found.setdefault((what, one.version, _base_of(one)), {})[one.host] = None
    for (what, version, base), names in found.items():
        yield (
            f"{what}: {version} on {_list(names)} with {base}: no interval, which needs {MIN_RUNS} measured runs of "
            f"each, or {MIN_RUNS} sessions of each if a host has several."
        )


def _base_of(one: FleetRatio) -> str:
    return one.base_version if one.host == one.base_host else one.base_host


def shared_devices(hosts: Sequence[Host]) -> tuple[str, ...]:
    """Returns the names of hosts whose data lay on a device with the same serial number as that of another host."""
    serials = {
        host.name: {
            str(one.environment[name]) for one in host.sessions for name in _SERIALS if one.environment.get(name)
        }
        for host in hosts
    }
    pairs = [pair for pair in combinations(serials, 2) if serials[pair[0]] & serials[pair[1]]]
    return tuple(name for name in serials if any(name in pair for pair in pairs))


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
