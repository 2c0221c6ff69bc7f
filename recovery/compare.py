"""Is one session slower than another, by more than noise, and were both measured alike? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recovery.stored import Session
from recovery.students import ratio_95
from recovery.summary import Summary, baseline_of, measured_by, summarised

_PASSING = frozenset({"load_1m", "tool_peak_memory_bytes", "python"})
"""Facts of a host that differ from one session to the next and say nothing of it. So do the figures of its probe."""
_PROBED = "probe_"
_NOT_ASKED_OF_THE_SERVER = frozenset(
    {"version", "data", "runs", "order", "baseline", "fail_over", "note", "mysqld", "image", "archive", "registry"}
)
"""Settings in which two sessions may differ and still be held against each other: the servers are the question."""
_OWN_NAMES = frozenset(
    {"options", "data_bytes", "source", "sha256", "image", "warnings", "@version", "@version_comment"}
)
"""What is known of a server and differs from one build to the next."""

Facts = Mapping[str, object]


@dataclass(frozen=True)
class Difference:
    """In what two sessions were not alike."""

    what: str
    one: str
    other: str


@dataclass(frozen=True)
class Compared:
    """The same variant in both sessions; `ratio` is the second's mean over the first's."""

    variant: str
    one: Summary
    other: Summary
    ratio: float
    error: float | None
    differs: bool | None


@dataclass(frozen=True)
class Comparison:
    pairs: tuple[Compared, ...]
    differences: tuple[Difference, ...]


def compare(one: Session, other: Session) -> Comparison:
    return Comparison(tuple(_pairs(one, other)), tuple(_differences(one, other)))


def _pairs(one: Session, other: Session) -> Iterator[Compared]:
    """The same version in both; where each session has but one, these two, whatever they are."""
    times = [
        {(version, variant): [run.startup_s or 0.0 for run in runs] for version, variant, runs in measured_by(session)}
        for session in (one, other)
    ]
    found = [{(each.version, each.variant): each for each in summarised(session)} for session in (one, other)]
    alone = len(one.versions) == len(other.versions) == 1
    for version, variant in times[0]:
        its = (other.versions[0] if alone else version, variant)
        ratio = ratio_95(times[1].get(its, []), times[0][version, variant])
        if ratio is not None:
            yield Compared(variant, found[0][version, variant], found[1][its], ratio.value, ratio.error, ratio.differs)


def _differences(one: Session, other: Session) -> Iterator[Difference]:
    yield from _differing("", {"scenario": one.scenario}, {"scenario": other.scenario})
    yield from _differing("", {"tool": one.tool_version}, {"tool": other.tool_version})
    yield from _differing("host: ", _lasting(one.environment), _lasting(other.environment))
    yield from _differing("", _asked(one.settings), _asked(other.settings))
    for name in one.servers:
        its = name if name in other.servers else next(iter(other.servers), name)
        if its == name or len(one.servers) == len(other.servers) == 1:
            yield from _differing(f"{name}: ", _said(one.servers[name]), _said(other.servers.get(its, {})))


def _lasting(environment: Facts) -> Facts:
    return {
        name: value
        for name, value in environment.items()
        if name not in _PASSING and not name.startswith(_PROBED) and name != "tool"
    }


def _asked(settings: Facts) -> Facts:
    return {name: value for name, value in settings.items() if name not in _NOT_ASKED_OF_THE_SERVER}


def _said(server: Facts) -> Facts:
    return {name: value for name, value in server.items() if name not in _OWN_NAMES}


def _differing(prefix: str, one: Facts, other: Facts) -> Iterator[Difference]:
    """What only one of them knows was not asked by the other's tool, and is no difference that could be told."""
    for name in one:
        if name in other and one[name] != other[name] and None not in (one[name], other[name]):
            yield Difference(f"{prefix}{name.replace('_', ' ')}", str(one[name]), str(other[name]))


def slower(ratio: float | None, *, differs: bool | None, allowed: float) -> bool:
    """More than is allowed, and not by chance as far as can be told: of too few runs nobody can tell."""
    return ratio is not None and ratio > 1 + allowed and differs is not False


def slower_than_baseline(session: Session, allowed: float) -> tuple[str, ...]:
    """In words, for who has set a limit."""
    base = baseline_of(session)
    return tuple(
        too_slow(f"{each.version} {each.variant}", each.ratio or 0.0, base, allowed)
        for each in summarised(session)
        if each.version != base and slower(each.ratio, differs=each.differs, allowed=allowed)
    )


def slower_pairs(found: Comparison, allowed: float) -> tuple[str, ...]:
    return tuple(
        too_slow(f"{pair.other.version} {pair.variant}", pair.ratio, pair.one.version, allowed)
        for pair in found.pairs
        if slower(pair.ratio, differs=pair.differs, allowed=allowed)
    )


def too_slow(what: str, ratio: float, base: str, allowed: float) -> str:
    return f"{what} takes {ratio:.2f} times as long as {base}, {1 + allowed:g} are allowed"
