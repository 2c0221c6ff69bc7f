"""Is one session slower, or worse, than another, by more than noise, and were both measured alike? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from recovery.measures import Middle, figures_taken, is_work, middles
from recovery.quantities import quantity
from recovery.stored import STARTUP, Session
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
_UNASKED = (None, False, "")
_NOT_ASKED, _EMPTY = "-", "(empty)"

Facts = Mapping[str, object]


@dataclass(frozen=True)
class Difference:
    """In what two sessions were not alike."""

    what: str
    one: str
    other: str


@dataclass(frozen=True)
class Compared:
    """The same variant in both sessions; `ratio` is the second's mean over the first's, None where either has none."""

    variant: str
    one: Summary | Middle
    other: Summary | Middle
    ratio: float | None = None
    error: float | None = None
    differs: bool | None = None


@dataclass(frozen=True)
class Comparison:
    pairs: tuple[Compared, ...]
    differences: tuple[Difference, ...]


def compare(one: Session, other: Session) -> Comparison:
    return Comparison(tuple(_pairs(one, other)), tuple(_differences(one, other)))


def _pairs(one: Session, other: Session) -> Iterator[Compared]:
    """The same version in both; where each session has but one, these two, whatever they are."""
    if one.figure != other.figure:
        return
    found = [_middles(session) for session in (one, other)]
    times = [_times(session) for session in (one, other)]
    alone = len(one.versions) == len(other.versions) == 1
    for version, variant in found[0]:
        its = (other.versions[0] if alone else version, variant)
        if its not in found[1] or one.figure_of(variant) != other.figure_of(variant):
            continue
        pair = Compared(variant, found[0][version, variant], found[1][its])
        values, to = times[1].get(its, []), times[0].get((version, variant), [])
        ratio = ratio_95(values, to) if any(values) else None
        if ratio is not None:
            pair = replace(pair, ratio=ratio.value, error=ratio.error, differs=ratio.differs)
        yield pair


def _middles(session: Session) -> dict[tuple[str, str], Summary | Middle]:
    found = middles(session) if is_work(session) else summarised(session)
    return {(each.version, each.variant): each for each in found}


def _times(session: Session) -> dict[tuple[str, str], list[float]]:
    return {(version, variant): figures_taken(session, runs) for version, variant, runs in measured_by(session)}


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
    """What was not asked is a value, and so is what an older tool could not be asked."""
    for name in dict.fromkeys((*one, *other)):
        values = [_NOT_ASKED if asked.get(name) in _UNASKED else str(asked[name]) for asked in (one, other)]
        if values[0] != values[1]:
            yield Difference(_words(name), *values)


def _differing(prefix: str, one: Facts, other: Facts) -> Iterator[Difference]:
    """What only one of them knows was not told to the other's tool, and is no difference that could be told."""
    for name in one:
        if name in other and one[name] != other[name] and None not in (one[name], other[name]):
            yield Difference(prefix + _words(name), str(one[name]) or _EMPTY, str(other[name]) or _EMPTY)


def _words(name: str) -> str:
    return name.replace("_", " ")


def not_measured(session: Session) -> str | None:
    """Why this session cannot pass for a good one, however fast the runs that it has."""
    lacking = session.planned_runs - sum(run.verdict.as_asked for run in session.runs)
    return None if lacking <= 0 else f"{lacking} of its {session.planned_runs} runs failed, were void or are missing"


def slower(ratio: float | None, *, differs: bool | None, allowed: float) -> bool:
    """More than is allowed, and not by chance as far as can be told: of too few runs nobody can tell."""
    return ratio is not None and ratio > 1 + allowed and differs is not False


def worse(figure: str, ratio: float | None, *, differs: bool | None, allowed: float) -> bool:
    """As `slower`, of any figure: where more is better, less is worse; where neither is, nothing can be worse."""
    if not quantity(figure).more_is_better:
        judged = figure == STARTUP or quantity(figure).more_is_better is False
        return judged and slower(ratio, differs=differs, allowed=allowed)
    return ratio is not None and ratio < 1 - allowed and differs is not False


def slower_than_baseline(session: Session, allowed: float) -> tuple[str, ...]:
    """In words, for who has set a limit."""
    base = baseline_of(session)
    return tuple(
        too_slow(f"{each.version} {each.variant}", each.ratio or 0.0, base, allowed, figure=figure)
        for each in _middles(session).values()
        for figure in [session.figure_of(each.variant)]
        if each.version != base and worse(figure, each.ratio, differs=each.differs, allowed=allowed)
    )


def slower_pairs(found: Comparison, allowed: float) -> tuple[str, ...]:
    return tuple(
        too_slow(f"{pair.other.version} {pair.variant}", pair.ratio or 0.0, pair.one.version, allowed, figure=figure)
        for pair in found.pairs
        for figure in [figure_of(pair)]
        if worse(figure, pair.ratio, differs=pair.differs, allowed=allowed)
    )


def figure_of(pair: Compared) -> str:
    """What both came to."""
    return pair.one.name if isinstance(pair.one, Middle) else STARTUP


def too_slow(what: str, ratio: float, base: str, allowed: float, *, figure: str = STARTUP) -> str:
    about = quantity(figure)
    if about.more_is_better:
        return f"{what} comes to {ratio:.2f} times the {about.title} of {base}, {1 - allowed:g} are allowed"
    return f"{what} takes {ratio:.2f} times as long as {base}, {1 + allowed:g} are allowed"
