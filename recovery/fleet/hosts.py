"""Compares the hosts of a fleet. Sessions of the same command and settings are combined, with the host as an axis.

What cannot be compared is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from recovery.analysis.combined import HOST_AXIS, CombinedSession, combine, host_variant
from recovery.analysis.compare import (
    PROBE_PREFIX,
    VOLATILE_HOST_FACTS,
    compared_settings,
    differences,
    differing_settings,
    words,
)
from recovery.analysis.contrasts import Contrast, contrast_fields
from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import (
    Summary,
    baseline_of,
    compared_with_baseline,
    is_compared,
    mean,
    measured_runs_by_cell,
    metric_values,
    per_table,
    summarise,
    variant_ratios,
)
from recovery.analysis.warnings import doubts_by_cell
from recovery.model import STARTUP_METRIC, Axis, Session

Fact = str | int | float | bool | None
PRICE = "price_per_hour"
_PAGEOUT = "idle_pageout"
_SERIALS = ("device_serial", "ebs_volume")
_IDENTITIES = frozenset({*_SERIALS, "host_id", "ec2_zone", "tool"})
"""Facts that identify a host, and those that are compared elsewhere."""
_MACHINE_FACTS = frozenset({
    "cpu_model", "cpus", "memory_bytes", "architecture", "virtualisation", "machine_vendor", "machine_product",
    "ec2_instance_type", "filesystem", "filesystem_size_bytes", "mount_options", "device", "device_model", "scheduler",
    "read_ahead_kb", "rotational", "tool_device", "tool_filesystem", "temporary_device", "temporary_filesystem",
})  # fmt: skip
"""Facts about machine and storage, which is what hosts are compared for. All else, such as the kernel, is another
difference."""


@dataclass(frozen=True)
class Host:
    name: str
    facts: Mapping[str, Fact]
    """What the plan says about the host: instance type, volume, filesystem, price."""
    sessions: tuple[Session, ...]

    @cached_property
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
        return {
            **{name: value for name, value in kept.items() if not name.startswith(PROBE_PREFIX)},
            "tool": last.tool_version,
        }

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
    other_differences: tuple[str, ...] = ()
    """What differs between the two hosts apart from machine and storage: the ratio measures it, too."""


@dataclass(frozen=True)
class Workload:
    """A command with its settings, which one or several hosts measured."""

    name: str
    session: CombinedSession

    @cached_property
    def axis(self) -> Axis:
        return next(axis for axis in self.session.axes if axis.name == HOST_AXIS)

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.axis.values

    @property
    def first(self) -> Session:
        return self.session.parts[0].session

    def host_of(self, variant: str) -> str:
        return self.session.values_of(variant)[HOST_AXIS]

    def own_name(self, variant: str) -> str:
        """Returns the name of a variant in the sessions of its host."""
        return variant.removeprefix(host_variant(self.host_of(variant), ""))

    def sessions_of(self, host: str, version: str = "") -> list[Session]:
        """Returns the sessions of a host, by default of all versions."""
        found = [part.session for part in self.session.parts if part.host == host]
        return [session for session in found if not version or version in session.versions]


@dataclass(frozen=True)
class Fleet:
    hosts: tuple[Host, ...]
    workloads: tuple[Workload, ...]
    cells: tuple[FleetCell, ...]
    within: tuple[FleetRatio, ...]
    """Versions compared on the same host."""
    between: tuple[FleetRatio, ...]
    """Hosts compared for the same version."""
    not_compared: tuple[tuple[str, str], ...]
    """What has no ratio, and why."""


def compare_hosts(hosts: Sequence[Host]) -> Fleet:
    """Compares the versions on each host, and each host with the first one that measured the same version in the same
    way."""
    workloads = _workloads(hosts)
    by_name = {host.name: host for host in hosts}
    within = tuple(ratio for workload in workloads for ratio in _within(workload))
    between = tuple(ratio for workload in workloads for ratio in _between(workload, by_name))
    return Fleet(
        hosts=tuple(hosts),
        workloads=workloads,
        cells=tuple(cell for workload in workloads for cell in _cells(workload, by_name)),
        within=tuple(ratio for ratio in within if ratio.differs is not None),
        between=tuple(ratio for ratio in between if ratio.differs is not None),
        not_compared=(
            *_unlike(hosts, workloads), *_second_starts(hosts), *_without_interval(within), *_without_interval(between)
        ),
    )  # fmt: skip


# --- Workloads: sessions of the same command and settings


def _workloads(hosts: Sequence[Host]) -> tuple[Workload, ...]:
    groups: dict[tuple[object, ...], list[tuple[str, Session]]] = {}
    for host in hosts:
        for session in filter(is_compared, host.sessions):
            settings = frozenset(compared_settings(session).items())
            key = (session.experiment, session.metric, settings)
            groups.setdefault(key, []).append((host.name, session))
    firsts = [sessions[0][1] for sessions in groups.values()]
    return tuple(
        Workload(_workload_name(first, firsts), combine(sessions))
        for first, sessions in zip(firsts, groups.values(), strict=True)
    )


def _workload_name(session: Session, among: Iterable[Session]) -> str:
    """Returns the name of the command, with the settings in which it differs from others of this command."""
    others = [other for other in among if other is not session and other.experiment == session.experiment]
    found = {difference.what: difference.one for other in others for difference in differing_settings(session, other)}
    return ", ".join((session.experiment, *(f"{what} {value}" for what, value in found.items())))


# --- Figures and ratios


def _cells(workload: Workload, hosts: Mapping[str, Host]) -> Iterator[FleetCell]:
    session = workload.session
    doubts, measured = doubts_by_cell(session), measured_runs_by_cell(session)
    for summary in summarise(session):
        if not summary.has_runs:
            continue
        cell = (summary.version, summary.variant)
        host, runs = workload.host_of(summary.variant), measured.get(cell, ())
        seconds = mean(per_table(run, summary.name) for run in runs) if summary.name == STARTUP_METRIC else None
        price = hosts[host].price_per_hour
        yield FleetCell(
            workload.name,
            host,
            replace(summary, variant=workload.own_name(summary.variant)),
            sessions=len(workload.sessions_of(host, summary.version)),
            tables=mean(run.contents.tables_found for run in runs),
            reads=mean(metric_values(runs, "read_requests")),
            reads_per_table=mean(per_table(run, "read_requests") for run in runs),
            cost_per_million_tables=None if price is None or seconds is None else price / 3600 * seconds * 1e6,
            doubts=doubts.get(cell, ()),
        )


def _within(workload: Workload) -> Iterator[FleetRatio]:
    base = baseline_of(workload.session)
    for summary in compared_with_baseline(workload.session):
        host, variant = workload.host_of(summary.variant), workload.own_name(summary.variant)
        yield FleetRatio(
            workload.name, summary.name, variant, summary.version, host, base, host, **contrast_fields(summary)
        )


def _between(workload: Workload, hosts: Mapping[str, Host]) -> Iterator[FleetRatio]:
    for ratio in variant_ratios(workload.session, workload.axis):
        base = workload.host_of(ratio.base_variant)
        host, version, name = workload.host_of(ratio.variant), ratio.version, workload.session.metric_of(ratio.variant)
        prices = hosts[base].price_per_hour, hosts[host].price_per_hour
        cost = None
        if ratio.ratio is not None and name == STARTUP_METRIC and prices[0] and prices[1] is not None:
            cost = ratio.ratio * prices[1] / prices[0]
        yield FleetRatio(
            workload.name, name, workload.own_name(ratio.variant), version, host, version, base, cost,
            tuple(_other_differences(workload, version, hosts[base], hosts[host])), **contrast_fields(ratio),
        )  # fmt: skip


# --- What differs between hosts, and what cannot be compared


def differing_facts(hosts: Sequence[Host]) -> tuple[str, ...]:
    """Returns the names of the facts that the tool found to differ between hosts. Sizes within 1 % do not differ."""
    names = dict.fromkeys(name for host in hosts for name in host.found)
    return tuple(
        name
        for name in names
        if any(not _is_alike(first.found.get(name), second.found.get(name)) for first, second in combinations(hosts, 2))
    )


def _is_alike(one: Fact, other: Fact) -> bool:
    """A fact that only one host has is not compared: the tool of the other did not find it."""
    if None in (one, other):
        return True
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=0.01)
    return one == other


def _other_differences(workload: Workload, version: str, base: Host, host: Host) -> Iterator[str]:
    """Yields what differs between two hosts apart from machine and storage, for sessions of a version."""
    for name in differing_facts((base, host)):
        if name not in _MACHINE_FACTS:
            yield "version of the tool" if name == "tool" else words(name)
    sides = [
        [_of_version(session, version) for session in workload.sessions_of(name, version)]
        for name in (base.name, host.name)
    ]
    builds = [{facts.get("sha256") for session in side for facts in session.servers.values()} for side in sides]
    if builds[0] != builds[1] and not any(None in found for found in builds):
        yield "build of the server"
    for difference in differences((*sides[0], *sides[1])):
        prefix, _, what = difference.what.partition(": ")
        if what and prefix != "host":
            yield what


def _of_version(session: Session, version: str) -> Session:
    """Returns a session reduced to one version."""
    servers = {name: facts for name, facts in session.servers.items() if name.partition(" ")[0] == version}
    runs = tuple(run for run in session.runs if run.version == version)
    return replace(session, versions=(version,), runs=runs, servers=servers)


def _unlike(hosts: Sequence[Host], workloads: Sequence[Workload]) -> Iterator[tuple[str, str]]:
    """Yields what no other host measured in the same way."""
    for host in hosts:
        for session in host.sessions:
            if not is_compared(session):
                yield (
                    f"{host.name}, {session.experiment}",
                    "it asks what survives a crash, which has no mean to compare.",
                )
    for workload in workloads:
        alike = [other for other in workloads if other.first.experiment == workload.first.experiment]
        if len(hosts) > 1 and len(workload.hosts) == len(alike) == 1:
            yield f"{_list(workload.hosts)}, {workload.name}", "no other host measured it."
        elif set(alike[0].hosts) != set(workload.hosts):
            what = f"{_list(workload.hosts)} with {_list(alike[0].hosts)}, {workload.first.experiment}"
            yield what, _settings_text(alike[0].first, workload.first)
        for version in workload.session.versions if len(workload.hosts) > 1 else ():
            names = [name for name in workload.hosts if workload.sessions_of(name, version)]
            if len(names) == 1:
                yield f"{_list(names)}, {workload.name}, {version}", "no other host measured this version."


def _settings_text(first: Session, other: Session) -> str:
    found = differing_settings(first, other)
    texts = [f"{difference.what} {difference.other}, not {difference.one}" for difference in found]
    return f"other settings ({'; '.join(texts)})." if texts else "another metric."


def _second_starts(hosts: Sequence[Host]) -> Iterator[tuple[str, str]]:
    found: dict[str, dict[str, None]] = {}
    for host in hosts:
        for session in host.sessions:
            for run in session.runs:
                if session.is_second_start(run.variant):
                    found.setdefault(run.version, {})[host.name] = None
    for version, names in found.items():
        yield f"{version} warm on {_list(names)}", "second starts, which are not proved to be warm."


def _without_interval(ratios: Iterable[FleetRatio]) -> Iterator[tuple[str, str]]:
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for ratio in ratios:
        if ratio.differs is None:
            what = f"{ratio.workload}, {ratio.variant}"
            base = ratio.base_version if ratio.host == ratio.base_host else ratio.base_host
            found.setdefault((what, ratio.version, base), {})[ratio.host] = None
    why = (
        f"no interval, which needs {MIN_RUNS} measured runs of each, or {MIN_RUNS} sessions of each if a host has "
        "several."
    )
    for (what, version, base), names in found.items():
        yield f"{what}: {version} on {_list(names)} with {base}", why


def shared_devices(hosts: Sequence[Host]) -> tuple[str, ...]:
    """Returns the names of hosts whose data lay on a device with the same serial number as that of another host."""
    serials = {
        host.name: {
            str(session.environment[name])
            for session in host.sessions
            for name in _SERIALS
            if session.environment.get(name)
        }
        for host in hosts
    }
    pairs = [pair for pair in combinations(serials, 2) if serials[pair[0]] & serials[pair[1]]]
    return tuple(name for name in serials if any(name in pair for pair in pairs))


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
