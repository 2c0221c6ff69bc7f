"""Compares two sides, each of one or several sessions: significant ratios, and differences in how they were measured.

It also decides whether a result is worse than an allowed limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recovery.analysis.statistics import Compared, described, effect_95, stored_effect
from recovery.analysis.summary import (
    Middle,
    Summary,
    baseline_of,
    figures_taken,
    is_work,
    measured_by,
    middles,
    summarised,
)
from recovery.model import STARTUP, Session, is_second_start, quantity

_PASSING = frozenset(
    {"load_1m", "tool_peak_memory_bytes", "python", "memory_available_bytes", "filesystem_free_bytes", "inodes_free"}
)
"""Facts about a host that change from one session to the next and explain nothing, like the results of its probe."""
_PROBED = "probe_"
_NOT_ASKED_OF_THE_SERVER = frozenset(
    {"version", "data", "runs", "order", "baseline", "fail_over", "note", "mysqld", "image", "archive", "registry"}
)
"""Settings that may differ between compared sessions, because the servers are what is compared."""
_OWN_NAMES = frozenset(
    {"options", "data_bytes", "source", "sha256", "image", "warnings", "@version", "@version_comment"}
)
"""Facts about a server that differ from one build to the next."""
_UNASKED = (None, False, "")
_NOT_ASKED, _EMPTY = "-", "(empty)"

Facts = Mapping[str, object]


@dataclass(frozen=True)
class Difference:
    """A setting, or a fact about host or server, in which two sessions differ."""

    what: str
    one: str
    other: str


@dataclass(frozen=True)
class OfSession:
    """The result of one session of a side."""

    place: int
    """Index of the session in its side, from 0."""
    mean: float | None
    interval: float | None
    count: int


@dataclass(frozen=True)
class Pair(Compared):
    """The same variant on both sides, the second compared with the first. If a side has several sessions, its mean and
    interval are those of the sessions' means, and all other values are of all their runs."""

    variant: str
    one: Summary | Middle
    other: Summary | Middle
    one_sessions: tuple[OfSession, ...] = ()
    other_sessions: tuple[OfSession, ...] = ()

    @property
    def figure(self) -> str:
        """Name of the figure that both sides measure."""
        return self.one.name if isinstance(self.one, Middle) else STARTUP


@dataclass(frozen=True)
class Comparison:
    pairs: tuple[Pair, ...]
    differences: tuple[Difference, ...]


Side = Sequence[Session]
"""Sessions of the same figure and scenario."""


def compare(one: Side, other: Side) -> Comparison:
    first, *rest = (*one, *other)
    differences = dict.fromkeys(each for session in rest for each in _differences(first, session))
    return Comparison(tuple(_pairs(one, other)), tuple(differences))


def _pairs(one: Side, other: Side) -> Iterator[Pair]:
    """Yields pairs of the same version on both sides. If each side has a single version, these two are paired even if
    they differ."""
    first, second = one[0], other[0]
    if first.figure != second.figure:
        return
    alone = all(len({version for session in side for version in session.versions}) == 1 for side in (one, other))
    several = len(one) > 1 or len(other) > 1
    sides = [_measured(side, alone=alone) for side in (one, other)]
    for (version, variant), ones in sides[0].items():
        others = sides[1].get((version, variant))
        if not others or is_second_start(variant) or first.figure_of(variant) != second.figure_of(variant):
            continue
        # Runs of one session share that session's conditions, so the sample across sessions is the sessions' means.
        values = [[found.mean for found in side] if several else side[0].values for side in (ones, others)]
        known = [[value for value in side if value is not None] for side in values]
        of_sessions = [tuple(map(_of_session, side)) for side in (ones, others)]
        yield Pair(
            variant, _joined(ones), _joined(others), *(of_sessions if several else ()),
            **stored_effect(effect_95(known[1], known[0])),
        )  # fmt: skip


@dataclass(frozen=True)
class _Found:
    place: int
    summary: Summary | Middle
    values: Sequence[float]

    @property
    def mean(self) -> float | None:
        return self.summary.mean if isinstance(self.summary, Middle) else self.summary.mean_s

    @property
    def interval(self) -> float | None:
        return self.summary.interval if isinstance(self.summary, Middle) else self.summary.interval_s


def _of_session(found: _Found) -> OfSession:
    return OfSession(found.place, found.mean, found.interval, len(found.values))


def _measured(side: Side, *, alone: bool) -> dict[tuple[str, str], list[_Found]]:
    """Returns the results of each session by version and variant."""
    found: dict[tuple[str, str], list[_Found]] = {}
    for place, session in enumerate(side):
        times = {(version, variant): figures_taken(session, runs) for version, variant, runs in measured_by(session)}
        for key, summary in _middles(session).items():
            found.setdefault(("" if alone else key[0], key[1]), []).append(_Found(place, summary, times.get(key, [])))
    return found


def _joined(found: Sequence[_Found]) -> Summary | Middle:
    """Summarises all runs of several sessions. Mean, deviation and interval are those of the sessions' means."""
    first = found[0].summary
    if len(found) == 1:
        return first
    unit = "" if isinstance(first, Middle) else "_s"
    counted = {name: sum(getattr(one.summary, name) for one in found) for name in ("count", "failed", "void")}
    runs = described([value for one in found for value in one.values], unit)
    means = described([one.mean for one in found if one.mean is not None], unit)
    of_means = {name + unit: means[name + unit] for name in ("mean", "stdev", "interval")}
    changes: dict[str, Any] = {**counted, **runs, **of_means}
    return replace(first, **changes)


def _middles(session: Session) -> dict[tuple[str, str], Summary | Middle]:
    found = middles(session) if is_work(session) else summarised(session)
    return {(each.version, each.variant): each for each in found}


def _differences(one: Session, other: Session) -> Iterator[Difference]:
    yield from _differing("", {"scenario": one.scenario}, {"scenario": other.scenario})
    yield from _differing("", {"tool": one.tool_version}, {"tool": other.tool_version})
    yield from _differing("host: ", _lasting(one.environment), _lasting(other.environment))
    yield from _asked_differently(_asked(one.settings), _asked(other.settings))
    for name, said in one.servers.items():
        if name in other.servers:
            yield from _differing(f"{name}: ", _said(said), _said(other.servers[name]))
        elif len(one.servers) == len(other.servers) == 1:
            (its,) = other.servers.values()
            yield from _differing("server: ", _said(said), _said(its))


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


def _asked_differently(one: Facts, other: Facts) -> Iterator[Difference]:
    """Yields the settings that differ. A setting that was not given counts as a value, also if an older tool did
    not have it."""
    for name in dict.fromkeys((*one, *other)):
        values = [_NOT_ASKED if asked.get(name) in _UNASKED else str(asked[name]) for asked in (one, other)]
        if values[0] != values[1]:
            yield Difference(_words(name), *values)


def _differing(prefix: str, one: Facts, other: Facts) -> Iterator[Difference]:
    """Yields the facts that differ. A fact that only one session has is skipped: the other tool did not record it."""
    for name in one:
        if name in other and one[name] != other[name] and None not in (one[name], other[name]):
            yield Difference(prefix + _words(name), str(one[name]) or _EMPTY, str(other[name]) or _EMPTY)


def _words(name: str) -> str:
    return name.replace("_", " ")


def not_measured(session: Session) -> str | None:
    """Returns why the session is incomplete, as text, regardless of how fast its runs are. None if it is complete."""
    lacking = session.planned_runs - sum(run.verdict.as_asked for run in session.runs)
    return None if lacking <= 0 else f"{lacking} of its {session.planned_runs} runs failed, were void or are missing"


def worse(figure: str, found: Compared, allowed: float) -> bool:
    """Returns whether the effect is significantly worse, by more than allowed. If neither more nor less of the figure
    is better, nothing is worse. Without a ratio, which is the case if a mean is zero, any significant difference in the
    wrong direction is worse."""
    more_is_better = False if figure == STARTUP else quantity(figure).more_is_better
    if not found.differs or more_is_better is None:
        return False
    if found.ratio is None:
        return ((found.difference or 0.0) < 0) is more_is_better
    return found.ratio < 1 - allowed if more_is_better else found.ratio > 1 + allowed


def slower_than_baseline(session: Session, allowed: float) -> tuple[str, ...]:
    """Returns a text for each result that is worse than the baseline by more than allowed."""
    base = baseline_of(session)
    return tuple(
        too_slow(f"{each.version} {each.variant}", each.ratio or 0.0, base, allowed, figure=figure)
        for each in _middles(session).values()
        for figure in [session.figure_of(each.variant)]
        if each.version != base and worse(figure, each, allowed)
    )


def not_compared(session: Session) -> tuple[str, ...]:
    """Returns the cells that a limit cannot be applied to: those without an interval of their ratio to the baseline,
    including warm cells with second starts on either side."""
    base = baseline_of(session)
    second = {each.version for each in _middles(session).values() if is_second_start(each.variant)}
    return tuple(
        f"{each.version} {each.variant}"
        for each in _middles(session).values()
        if each.version != base
        and each.differs is None
        and not is_second_start(each.variant)
        and (each.count or each.version in second or base in second)
    )


def slower_pairs(found: Comparison, allowed: float) -> tuple[str, ...]:
    return tuple(
        too_slow(
            f"{pair.other.version} {pair.variant}", pair.ratio or 0.0, pair.one.version, allowed, figure=pair.figure
        )
        for pair in found.pairs
        if worse(pair.figure, pair, allowed)
    )


def too_slow(what: str, ratio: float, base: str, allowed: float, *, figure: str = STARTUP) -> str:
    about = quantity(figure)
    if about.more_is_better:
        return f"{what} comes to {ratio:.2f} times the {about.title} of {base}, {1 - allowed:g} are allowed"
    return f"{what} takes {ratio:.2f} times as long as {base}, {1 + allowed:g} are allowed"
