"""Compares two sides, each of one or several sessions: significant ratios, and differences in how they were measured.

It also decides whether a result is worse than an allowed limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recovery.analysis.statistics import EffectFields, compare_means, descriptive_statistics, effect_fields
from recovery.analysis.summary import (
    FigureSummary,
    Summary,
    baseline_of,
    cell_values,
    figure_summaries,
    is_load_session,
    measured_runs_by_cell,
    session_summaries,
)
from recovery.model import STARTUP_FIGURE, Session, is_second_start, metric

_VOLATILE_HOST_FACTS = frozenset(
    {"load_1m", "tool_peak_memory_bytes", "python", "memory_available_bytes", "filesystem_free_bytes", "inodes_free"}
)
"""Facts about a host that change from one session to the next and explain nothing, like the results of its probe."""
_PROBE_PREFIX = "probe_"
_IGNORED_SETTINGS = frozenset(
    {"version", "data", "runs", "order", "baseline", "fail_over", "note", "mysqld", "image", "archive", "registry"}
)
"""Settings that may differ between compared sessions, because the servers are what is compared."""
_BUILD_FACTS = frozenset(
    {"options", "data_bytes", "source", "sha256", "image", "warnings", "@version", "@version_comment"}
)
"""Facts about a server that differ from one build to the next."""
_UNSET_VALUES = (None, False, "")
_UNSET_TEXT, _EMPTY_TEXT = "-", "(empty)"

Facts = Mapping[str, object]


@dataclass(frozen=True)
class Difference:
    """A setting, or a fact about host or server, in which two sessions differ."""

    what: str
    one: str
    other: str


@dataclass(frozen=True)
class SessionResult:
    """The result of one session of a side."""

    place: int
    """Index of the session in its side, from 0."""
    mean: float | None
    interval: float | None
    count: int


@dataclass(frozen=True)
class Pair(EffectFields):
    """The same variant on both sides, the second compared with the first. If a side has several sessions, its mean and
    interval are those of the sessions' means, and all other values are of all their runs."""

    variant: str
    one: Summary | FigureSummary
    other: Summary | FigureSummary
    one_sessions: tuple[SessionResult, ...] = ()
    other_sessions: tuple[SessionResult, ...] = ()

    @property
    def figure(self) -> str:
        """Name of the figure that both sides measure."""
        return self.one.name if isinstance(self.one, FigureSummary) else STARTUP_FIGURE


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
    sides = [_results_by_cell(side, alone=alone) for side in (one, other)]
    for (version, variant), ones in sides[0].items():
        others = sides[1].get((version, variant))
        if not others or is_second_start(variant) or first.figure_of(variant) != second.figure_of(variant):
            continue
        # Runs of one session share that session's conditions, so the sample across sessions is the sessions' means.
        values = [[found.mean for found in side] if several else side[0].values for side in (ones, others)]
        known = [[value for value in side if value is not None] for side in values]
        of_sessions = [tuple(map(_of_session, side)) for side in (ones, others)]
        yield Pair(
            variant, _combined_summary(ones), _combined_summary(others), *(of_sessions if several else ()),
            **effect_fields(compare_means(known[1], known[0])),
        )  # fmt: skip


@dataclass(frozen=True)
class _SessionSummary:
    place: int
    summary: Summary | FigureSummary
    values: Sequence[float]

    @property
    def mean(self) -> float | None:
        return self.summary.mean if isinstance(self.summary, FigureSummary) else self.summary.mean_s

    @property
    def interval(self) -> float | None:
        return self.summary.interval if isinstance(self.summary, FigureSummary) else self.summary.interval_s


def _of_session(found: _SessionSummary) -> SessionResult:
    return SessionResult(found.place, found.mean, found.interval, len(found.values))


def _results_by_cell(side: Side, *, alone: bool) -> dict[tuple[str, str], list[_SessionSummary]]:
    """Returns the results of each session by version and variant."""
    found: dict[tuple[str, str], list[_SessionSummary]] = {}
    for place, session in enumerate(side):
        times = {
            (version, variant): cell_values(session, runs) for version, variant, runs in measured_runs_by_cell(session)
        }
        for key, summary in _summaries_by_cell(session).items():
            found.setdefault(("" if alone else key[0], key[1]), []).append(
                _SessionSummary(place, summary, times.get(key, []))
            )
    return found


def _combined_summary(found: Sequence[_SessionSummary]) -> Summary | FigureSummary:
    """Summarises all runs of several sessions. Mean, deviation and interval are those of the sessions' means."""
    first = found[0].summary
    if len(found) == 1:
        return first
    unit = "" if isinstance(first, FigureSummary) else "_s"
    counted = {name: sum(getattr(one.summary, name) for one in found) for name in ("count", "failed", "void")}
    runs = descriptive_statistics([value for one in found for value in one.values], unit)
    means = descriptive_statistics([one.mean for one in found if one.mean is not None], unit)
    of_means = {name + unit: means[name + unit] for name in ("mean", "stdev", "interval")}
    changes: dict[str, Any] = {**counted, **runs, **of_means}
    return replace(first, **changes)


def _summaries_by_cell(session: Session) -> dict[tuple[str, str], Summary | FigureSummary]:
    found = figure_summaries(session) if is_load_session(session) else session_summaries(session)
    return {(each.version, each.variant): each for each in found}


def _differences(one: Session, other: Session) -> Iterator[Difference]:
    yield from _differing_facts("", {"scenario": one.scenario}, {"scenario": other.scenario})
    yield from _differing_facts("", {"tool": one.tool_version}, {"tool": other.tool_version})
    yield from _differing_facts("host: ", _stable_host_facts(one.environment), _stable_host_facts(other.environment))
    yield from _differing_settings(_compared_settings(one.settings), _compared_settings(other.settings))
    for name, said in one.servers.items():
        if name in other.servers:
            yield from _differing_facts(
                f"{name}: ", _compared_server_facts(said), _compared_server_facts(other.servers[name])
            )
        elif len(one.servers) == len(other.servers) == 1:
            (its,) = other.servers.values()
            yield from _differing_facts("server: ", _compared_server_facts(said), _compared_server_facts(its))


def _stable_host_facts(environment: Facts) -> Facts:
    return {
        name: value
        for name, value in environment.items()
        if name not in _VOLATILE_HOST_FACTS and not name.startswith(_PROBE_PREFIX) and name != "tool"
    }


def _compared_settings(settings: Facts) -> Facts:
    return {name: value for name, value in settings.items() if name not in _IGNORED_SETTINGS}


def _compared_server_facts(server: Facts) -> Facts:
    return {name: value for name, value in server.items() if name not in _BUILD_FACTS}


def _differing_settings(one: Facts, other: Facts) -> Iterator[Difference]:
    """Yields the settings that differ. A setting that was not given counts as a value, also if an older tool did
    not have it."""
    for name in dict.fromkeys((*one, *other)):
        values = [_UNSET_TEXT if asked.get(name) in _UNSET_VALUES else str(asked[name]) for asked in (one, other)]
        if values[0] != values[1]:
            yield Difference(_words(name), *values)


def _differing_facts(prefix: str, one: Facts, other: Facts) -> Iterator[Difference]:
    """Yields the facts that differ. A fact that only one session has is skipped: the other tool did not record it."""
    for name in one:
        if name in other and one[name] != other[name] and None not in (one[name], other[name]):
            yield Difference(prefix + _words(name), str(one[name]) or _EMPTY_TEXT, str(other[name]) or _EMPTY_TEXT)


def _words(name: str) -> str:
    return name.replace("_", " ")


def incomplete_reason(session: Session) -> str | None:
    """Returns why the session is incomplete, as text, regardless of how fast its runs are. None if it is complete."""
    lacking = session.planned_runs - sum(run.verdict.as_asked for run in session.runs)
    return None if lacking <= 0 else f"{lacking} of its {session.planned_runs} runs failed, were void or are missing"


def is_worse(figure: str, found: EffectFields, allowed: float) -> bool:
    """Returns whether the effect is significantly worse, by more than allowed. If neither more nor less of the figure
    is better, nothing is worse. Without a ratio, which is the case if a mean is zero, any significant difference in the
    wrong direction is worse."""
    more_is_better = False if figure == STARTUP_FIGURE else metric(figure).more_is_better
    if not found.differs or more_is_better is None:
        return False
    if found.ratio is None:
        return ((found.difference or 0.0) < 0) is more_is_better
    return found.ratio < 1 - allowed if more_is_better else found.ratio > 1 + allowed


def worse_than_baseline(session: Session, allowed: float) -> tuple[str, ...]:
    """Returns a text for each result that is worse than the baseline by more than allowed."""
    base = baseline_of(session)
    return tuple(
        worse_text(f"{each.version} {each.variant}", each.ratio or 0.0, base, allowed, figure=figure)
        for each in _summaries_by_cell(session).values()
        for figure in [session.figure_of(each.variant)]
        if each.version != base and is_worse(figure, each, allowed)
    )


def cells_without_interval(session: Session) -> tuple[str, ...]:
    """Returns the cells that a limit cannot be applied to: those without an interval of their ratio to the baseline,
    including warm cells with second starts on either side."""
    base = baseline_of(session)
    second = {each.version for each in _summaries_by_cell(session).values() if is_second_start(each.variant)}
    return tuple(
        f"{each.version} {each.variant}"
        for each in _summaries_by_cell(session).values()
        if each.version != base
        and each.differs is None
        and not is_second_start(each.variant)
        and (each.count or each.version in second or base in second)
    )


def worse_pairs(found: Comparison, allowed: float) -> tuple[str, ...]:
    return tuple(
        worse_text(
            f"{pair.other.version} {pair.variant}", pair.ratio or 0.0, pair.one.version, allowed, figure=pair.figure
        )
        for pair in found.pairs
        if is_worse(pair.figure, pair, allowed)
    )


def worse_text(what: str, ratio: float, base: str, allowed: float, *, figure: str = STARTUP_FIGURE) -> str:
    about = metric(figure)
    if about.more_is_better:
        return f"{what} comes to {ratio:.2f} times the {about.title} of {base}, {1 - allowed:g} are allowed"
    return f"{what} takes {ratio:.2f} times as long as {base}, {1 + allowed:g} are allowed"
