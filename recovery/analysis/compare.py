"""Compares two sides, each of one or several sessions: significant ratios, and differences in how they were measured.

Sessions of one server differ more than their runs. So a difference is only claimed against the spread between sessions:
those of the sides, and others of the same host and design. It also decides whether a result is worse than an allowed
limit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum, auto

from recovery.analysis.basis import is_same_host, time_of
from recovery.analysis.combined import CombinedSession
from recovery.analysis.contrasts import CellKey, Contrast, Sample, contrast_fields, contrasts
from recovery.analysis.history import (
    CellDesign,
    Role,
    SessionCell,
    given_settings,
    session_cells,
)
from recovery.analysis.statistics import MIN_SESSIONS
from recovery.analysis.summary import Cell, Summary, baseline_of, main_values, runs_by_cell, runs_words, summarise
from recovery.metrics import metric
from recovery.model import STARTUP_METRIC, EarlierSession, Run, Session, Verdict

VOLATILE_HOST_FACTS = frozenset(
    {"load_1m", "tool_peak_memory_bytes", "python", "memory_available_bytes", "filesystem_free_bytes", "inodes_free"}
)
"""Facts about a host that change from one session to the next and explain nothing, like the results of its probe."""
PROBE_PREFIX = "probe_"
_BUILD_FACTS = frozenset(
    {"options", "data_bytes", "build_s", "source", "sha256", "image", "warnings", "@version", "@version_comment"}
)
"""Facts about a server that differ from one build to the next."""
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
class Pair(Contrast):
    """The same variant on both sides, the second compared with the first. If a side has several sessions, its mean and
    interval are those of the sessions' means, and all other values are of all their runs. The ratio is that of the
    sessions' geometric means."""

    variant: str
    one: Summary
    other: Summary
    one_sessions: tuple[SessionResult, ...] = ()
    other_sessions: tuple[SessionResult, ...] = ()
    one_earlier: tuple[EarlierSession, ...] = ()
    """Further sessions of the same host and design, which count for the spread between sessions."""
    other_earlier: tuple[EarlierSession, ...] = ()
    """The same of the second side, without those of the first."""
    claim_sessions: tuple[int, int] = (0, 0)
    """Number of sessions of each side, further ones included, that the interval of the ratio is computed from."""
    confounded_by: str = ""
    """`day` or `host` if a claim would be possible but for that: the sides differ in it, and the sessions of the first
    do not show how much it matters. Then there is no interval."""

    @property
    def metric(self) -> str:
        """Name of the metric that both sides measure."""
        return self.one.name


@dataclass(frozen=True)
class Comparison:
    pairs: tuple[Pair, ...]
    differences: tuple[Difference, ...]


Side = Sequence[Session]
"""Sessions of the same metric and experiment."""


def compare(first: Side, second: Side, others: Iterable[SessionCell] = ()) -> Comparison:
    """Compares two sides. `others` are results of further sessions, of any host and design."""
    return Comparison(tuple(_pairs(first, second, tuple(others))), differences((*first, *second)))


def differences(sessions: Sequence[Session]) -> tuple[Difference, ...]:
    """Returns what differs between the first of these sessions and any other, with all values of the others."""
    reference, *others = sessions
    values: dict[tuple[str, str], dict[str, None]] = {}
    for session in others:
        for found in _differences(reference, session):
            values.setdefault((found.what, found.one), {})[found.other] = None
    return tuple(Difference(what, one, ", ".join(found)) for (what, one), found in values.items())


def _pairs(first: Side, second: Side, others: Sequence[SessionCell]) -> Iterator[Pair]:
    """Yields pairs of the same version on both sides. If each side has a single version, these two are paired even if
    they differ."""
    if first[0].metric != second[0].metric:
        return
    alone = all(len({version for session in side for version in session.versions}) == 1 for side in (first, second))
    sides = {name: _results_by_cell(side, alone=alone) for name, side in (("first", first), ("second", second))}
    cells = [
        (version, variant)
        for version, variant in sides["first"]
        if (version, variant) in sides["second"]
        and not first[0].is_second_start(variant)
        and first[0].metric_of(variant) == second[0].metric_of(variant)
    ]
    earlier = {cell: _earlier_of_both(sides["first"][cell], sides["second"][cell], others) for cell in cells}
    samples = {
        CellKey(name, *cell): replace(
            _sample(side, sides[name][cell]), spread=tuple(session.mean for session in earlier[cell][place])
        )
        for place, (name, side) in enumerate((("first", first), ("second", second)))
        for cell in cells
    }
    found = contrasts(samples, [(CellKey("first", *cell), CellKey("second", *cell)) for cell in cells])
    for cell, contrast in zip(cells, found, strict=True):
        results = [side[cell] for side in sides.values()]
        confounded_by = "" if contrast.significant is None else _confounded_by(results, earlier[cell])
        if confounded_by:
            contrast = Contrast(ratio=contrast.ratio, difference=contrast.difference)
        one, other = map(_combined_summary, (first, second), results)
        one_earlier, other_earlier = earlier[cell]
        yield Pair(
            cell[1],
            one,
            other,
            one_sessions=tuple(map(_of_session, results[0])),
            other_sessions=tuple(map(_of_session, results[1])),
            one_earlier=one_earlier,
            other_earlier=other_earlier,
            claim_sessions=(len(_means(results[0])) + len(one_earlier), len(_means(results[1])) + len(other_earlier)),
            confounded_by=confounded_by,
            **contrast_fields(contrast),
        )


@dataclass(frozen=True)
class _SessionSummary:
    place: int
    session: Session
    summary: Summary
    values: Sequence[float]
    design: CellDesign | None


def _of_session(found: _SessionSummary) -> SessionResult:
    return SessionResult(found.place, found.summary.mean, found.summary.interval, len(found.values))


def _means(found: Sequence[_SessionSummary]) -> list[float]:
    return [result.summary.mean for result in found if result.summary.mean is not None]


class HostDoubt(StrEnum):
    """Why the hosts of two sides are not known to have one in common."""

    DIFFERENT = auto()
    NOT_RECORDED = auto()
    """Of one side only."""


def host_doubt(sides: Sequence[Collection[Session]]) -> HostDoubt | None:
    """Returns why the measured sessions of two sides are not known to be of one host. None if a host is on both, or if
    nothing is known of either."""
    first, second = ({session.host_id for session in side} for side in sides)
    if not first or not second:
        return None
    if (None in first) != (None in second) and {None} in (first, second):
        return HostDoubt.NOT_RECORDED
    if None in first | second or first & second:
        return None
    return HostDoubt.DIFFERENT


def _confounded_by(
    sides: Sequence[Sequence[_SessionSummary]], earlier: tuple[Sequence[EarlierSession], Sequence[EarlierSession]]
) -> str:
    """Returns what differs between the sides, and is the same in all sessions of the first: `host`, `day` or nothing.
    Sessions of one day are more alike than those of two: back to back they show too small a spread."""
    measured = [[found.session for found in side if found.summary.mean is not None] for side in sides]
    if host_doubt(measured) is not None:
        return "host"
    days = list[set[date]]()
    for side, further in zip(measured, earlier, strict=True):
        starts = [session.started_at for session in side] + [one.started_at for one in further]
        days.append({time.date() for text in starts if (time := time_of(text)) is not None})
    return "day" if len(days[0]) == 1 and days[1] and not days[0] & days[1] else ""


_SessionKey = tuple[str | None, str]
"""Host and start of a session: a host runs one session at a time."""


def _earlier_of_both(
    first: Sequence[_SessionSummary], second: Sequence[_SessionSummary], others: Sequence[SessionCell]
) -> tuple[tuple[EarlierSession, ...], tuple[EarlierSession, ...]]:
    """Returns the further sessions that each side has of one cell. Each counts once: if both sides have one design, all
    of them belong to the first. There are none where the sides' own sessions are enough, or have no logarithm."""
    means = [_means(first), _means(second)]
    if min(map(len, means)) >= MIN_SESSIONS or min(map(min, filter(None, means)), default=0.0) <= 0:
        return (), ()
    taken = {(found.session.host_id, found.session.started_at) for found in (*first, *second)}
    designs = [{found.design for found in side if found.summary.mean is not None} for side in (first, second)]
    is_same = designs[1] <= designs[0] - {None}
    sides = []
    for side in ((*first, *second) if is_same else first, second):
        known = {key: session for key, session in _earlier(side, others).items() if key not in taken}
        taken |= known.keys()
        sides.append(tuple(known[key] for key in sorted(known, key=lambda key: key[1])))
    return sides[0], sides[1]


def _earlier(side: Sequence[_SessionSummary], others: Sequence[SessionCell]) -> dict[_SessionKey, EarlierSession]:
    """Returns the sessions of the same host and design as one of this side, from those that are given and those that
    are stored with the side's own."""
    known: dict[_SessionKey, EarlierSession] = {}
    for found in side:
        version, variant = found.summary.version, found.summary.variant
        for earlier in found.session.earlier:
            if (earlier.version, earlier.variant) == (version, variant):
                known[earlier.host_id, earlier.started_at] = earlier
        if found.design is not None and found.design.host_id is not None:
            known |= {
                (of.design.host_id, of.started_at): of.as_earlier(version, variant)
                for of in others
                if of.design == found.design
            }
    return known


def _results_by_cell(side: Side, *, alone: bool) -> dict[Cell, list[_SessionSummary]]:
    """Returns the results of each session by version and variant."""
    found: dict[Cell, list[_SessionSummary]] = {}
    for place, session in enumerate(side):
        cells, designed = runs_by_cell(session), session_cells("", session)
        for summary in summarise(session):
            cell = (summary.version, summary.variant)
            design = designed[cell].design if cell in designed else None
            found.setdefault(("" if alone else summary.version, summary.variant), []).append(
                _SessionSummary(place, session, summary, main_values(session, cells[cell]), design)
            )
    return found


def _sample(side: Side, found: Sequence[_SessionSummary]) -> Sample:
    """Returns the values of a cell for each session of the side, also of those that do not have the cell."""
    values = {result.place: tuple(result.values) for result in found}
    return Sample(tuple(values.get(place, ()) for place in range(len(side))))


def _combined_summary(side: Side, found: Sequence[_SessionSummary]) -> Summary:
    """Summarises all runs of several sessions. Mean, deviation and interval are those of the sessions' means."""
    first = found[0].summary
    if len(found) == 1:
        return first
    counted = {name: sum(getattr(result.summary, name) for result in found) for name in ("count", "failed", "void")}
    return replace(first, **counted, **_sample(side, found).statistics())


def _differences(one: Session, other: Session) -> Iterator[Difference]:
    yield from _differing_facts("", {"experiment": one.experiment}, {"experiment": other.experiment})
    yield from _differing_facts("", {"tool": one.tool_version}, {"tool": other.tool_version})
    volatile = VOLATILE_HOST_FACTS | {"tool"} | {name for name in one.environment if name.startswith(PROBE_PREFIX)}
    if is_same_host(one.host_id, other.host_id) is None:
        volatile |= {"host_id"}
    yield from _differing_facts("host: ", one.environment, other.environment, ignored=volatile)
    yield from differing_settings(one, other, Role.SHOWN)
    for name, facts in one.servers.items():
        if name in other.servers:
            yield from _differing_facts(f"{name}: ", facts, other.servers[name], ignored=_BUILD_FACTS)
        elif len(one.servers) == len(other.servers) == 1:
            (other_facts,) = other.servers.values()
            yield from _differing_facts("server: ", facts, other_facts, ignored=_BUILD_FACTS)


def compared_settings(session: Session) -> dict[str, str]:
    """Returns the settings that sessions of the same measurement have in common."""
    return given_settings(session, Role.DESIGN, Role.SERVER)


def differing_settings(one: Session, other: Session, *further: Role) -> Iterator[Difference]:
    """Yields the settings that sessions of the same measurement have in common, and those of `further` roles, in which
    these two differ. A setting that was not given counts as a value."""
    sides = [given_settings(session, Role.DESIGN, Role.SERVER, *further) for session in (one, other)]
    for name in dict.fromkeys((*sides[0], *sides[1])):
        values = [settings.get(name, _UNSET_TEXT) for settings in sides]
        if values[0] != values[1]:
            yield Difference(words(name), *values)


def not_alike(one: Session, other: Session) -> str | None:
    """Returns in words why two sessions are not the same measurement, repeated; None if they are. They may be of
    different hosts."""
    for what, values in (
        ("experiment", (one.experiment, other.experiment)),
        ("metric", (one.metric, other.metric)),
        ("versions", (" ".join(one.versions), " ".join(other.versions))),
    ):
        if values[0] != values[1]:
            return f"the {what} {_is_or_are(what)} {values[0]} and {values[1]}"
    for name, facts in one.servers.items():
        checksums = [found.get("sha256") for found in (facts, other.servers.get(name, {}))]
        if None not in checksums and checksums[0] != checksums[1]:
            return f"{name} is another build (SHA-256 {' and '.join(str(found)[:12] for found in checksums)})"
    means = [session.environment.get("cold_means") for session in (one, other)]
    if None not in means and means[0] != means[1]:
        return f"the cache is emptied by {means[0]} and {means[1]}"
    found = next(differing_settings(one, other), None)
    return None if found is None else f"{found.what} is {found.one} and {found.other}"


def _is_or_are(what: str) -> str:
    return "are" if what.endswith("s") else "is"


def _differing_facts(prefix: str, one: Facts, other: Facts, *, ignored: Collection[str] = ()) -> Iterator[Difference]:
    """Yields the facts that differ. A fact that only one session has is skipped: the other tool did not record it."""
    for name in one:
        if name in other and name not in ignored and one[name] != other[name] and None not in (one[name], other[name]):
            yield Difference(prefix + words(name), str(one[name]) or _EMPTY_TEXT, str(other[name]) or _EMPTY_TEXT)


def words(name: str) -> str:
    """Returns the name of a setting or a fact in words."""
    return name.replace("_", " ")


def incomplete_reason(session: Session) -> str | None:
    """Returns why the session is incomplete, as text, regardless of how fast its runs are. None if it is complete."""
    lacking = lacking_runs(session)
    if session.planned_runs == 1:
        return "its only run failed, was void or is missing" if lacking else None
    return f"{lacking} of its {session.planned_runs} runs failed, were void or are missing" if lacking else None


def lacking_runs(session: Session) -> int:
    """Returns how many of the planned runs failed, were void or are missing."""
    return max(0, session.planned_runs - sum(run.verdict.as_asked for run in session.runs))


@dataclass(frozen=True)
class LimitResult:
    """What a limit on ratios says, in words, of the cells that are not within it."""

    exceeded: tuple[str, ...] = ()
    """Cells whose whole interval is beyond the limit."""
    undecided: tuple[str, ...] = ()
    """Cells whose interval contains the limit, with what it would take to decide."""


@dataclass(frozen=True)
class _Judged:
    """A cell that a limit is applied to."""

    what: str
    base: str
    metric: str
    found: Contrast
    count: int
    """Number of values that the interval is computed from."""
    values: str
    """What these are, in the plural."""


def judge_baseline(session: Session, allowed: float) -> LimitResult:
    """Applies a limit to each version of a session, or of several, compared with the baseline."""
    base, summaries = baseline_of(session), summarise(session)
    of_base = {one.variant: one.count for one in summaries if one.version == base}
    cells = []
    for one in summaries:
        if one.version != base:
            count, values = min(one.count, of_base.get(one.variant, one.count)), "runs of each"
            if isinstance(session, CombinedSession):
                count, values = len(session.parts), "sessions"
            cells.append(_Judged(f"{one.version} {one.variant}", base, one.name, one, count, values))
    return _judge(cells, allowed)


def judge_pairs(found: Comparison, allowed: float) -> LimitResult:
    """Applies a limit to each pair of two sides, the second compared with the first."""
    return _judge(
        [
            _Judged(*_names_of_sides(pair), pair.metric, pair, min(pair.claim_sessions), "sessions of each")
            for pair in found.pairs
        ],
        allowed,
    )


def _names_of_sides(pair: Pair) -> tuple[str, str]:
    """Returns what the second and the first side are called: one server by its side, as both have its name."""
    if pair.other.version == pair.one.version:
        return f"the second, {pair.other.version} {pair.variant},", "the first"
    return f"{pair.other.version} {pair.variant}", pair.one.version


def _judge(cells: Iterable[_Judged], allowed: float) -> LimitResult:
    exceeded, undecided = list[str](), list[str]()
    for cell in cells:
        text = worse_text(cell.what, cell.found, cell.base, allowed, name=cell.metric)
        if is_worse(cell.metric, cell.found, allowed):
            exceeded.append(text)
        elif is_undecided(cell.metric, cell.found, allowed):
            undecided.append(f"{text}: {_what_it_takes(cell, allowed)}")
    return LimitResult(tuple(exceeded), tuple(undecided))


def _limit(name: str, allowed: float) -> float:
    """Returns the ratio that a limit allows."""
    return 1 - allowed if metric(name).more_is_better else 1 + allowed


def is_worse(name: str, found: Contrast, allowed: float) -> bool:
    """Returns whether the effect is significant, and its whole interval is worse than the limit allows. Without a
    ratio, which is the case if a mean is zero, any significant difference in the wrong direction is worse.

    Significant means what the table shows: when all of its comparisons are taken together. A limit is exceeded if any
    result is worse, so without the correction a session of many cells would exceed it by chance."""
    more_is_better = metric(name).more_is_better
    if not found.significant or more_is_better is None:
        return False
    if found.ratio is None:
        return ((found.difference or 0.0) < 0) is more_is_better
    if found.ratio_low is None or found.ratio_high is None:
        return False
    limit = _limit(name, allowed)
    return found.ratio_high < limit if more_is_better else found.ratio_low > limit


def is_undecided(name: str, found: Contrast, allowed: float) -> bool:
    """Returns whether the limit may or may not be exceeded: one end of the interval is beyond it, and it is not proved
    that the effect is."""
    more_is_better = metric(name).more_is_better
    if more_is_better is None or found.ratio_low is None or found.ratio_high is None:
        return False
    limit = _limit(name, allowed)
    may_be = found.ratio_low < limit if more_is_better else found.ratio_high > limit
    return may_be and not is_worse(name, found, allowed)


_MOST_TIMES = 50
"""Nobody measures so many times as often."""


def _what_it_takes(cell: _Judged, allowed: float) -> str:
    """Returns in words how many runs or sessions would decide, if the ratio stays as it is: the interval becomes
    narrower with the square root of their number."""
    ends, ratio, limit = (cell.found.ratio_low, cell.found.ratio_high), cell.found.ratio, _limit(cell.metric, allowed)
    low, high = (end or 0.0 for end in ends)
    if low <= 0 or limit <= 0 or not ratio:
        return "cannot tell, the interval is too wide"
    distance = abs(math.log(ratio / limit))
    times = (math.log(high / low) / 2 / distance) ** 2 if distance else math.inf
    if times > _MOST_TIMES:
        return "cannot tell, it is too near to the limit"
    return f"cannot tell; about {max(cell.count + 1, math.ceil(cell.count * times))} {cell.values} would"


def cells_without_interval(session: Session) -> tuple[str, ...]:
    """Returns the cells that a limit cannot be applied to: those without an interval of their ratio to the baseline,
    including warm cells with second starts on either side."""
    base, summaries = baseline_of(session), summarise(session)
    second = {summary.version for summary in summaries if session.is_second_start(summary.variant)}
    return tuple(
        f"{summary.version} {summary.variant}"
        for summary in summaries
        if summary.version != base
        and summary.differs is None
        and not session.is_second_start(summary.variant)
        and (summary.count or summary.version in second or base in second)
    )


def starts_over(session: Session, longest_s: float) -> tuple[str, ...]:
    """Returns the starts that took longer than this, as text."""
    return tuple(
        f"{run.version} {run.variant}, {runs_words(session, [run])}, {run.metrics[STARTUP_METRIC]:.2f} s"
        for run in session.runs
        if is_slow(run, longest_s)
    )


def is_slow(run: Run, longest_s: float) -> bool:
    """Returns whether a measured start took longer than this."""
    return run.verdict is Verdict.MEASURED and run.metrics.get(STARTUP_METRIC, 0.0) > longest_s


def worse_text(what: str, found: Contrast, base: str, allowed: float, *, name: str = STARTUP_METRIC) -> str:
    about, ratio = metric(name), f"{found.ratio or 0.0:.2f}"
    if found.ratio_low is not None and found.ratio_high is not None:
        ratio += f" ({found.ratio_low:.2f}-{found.ratio_high:.2f})"
    if about.more_is_better:
        return f"{what} has {ratio} times the {about.label} of {base}, {1 - allowed:g} are allowed"
    return f"{what} takes {ratio} times as long as {base}, {1 + allowed:g} are allowed"
