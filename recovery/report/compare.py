"""Builds the tables that compare two sides, each of one or more sessions.

They show the ratio of the second side to the first and whether it is significant, the spread between sessions, and what
else differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recovery.analysis.compare import Comparison, HostDoubt, Pair, Side, host_doubt
from recovery.analysis.host_figures import waiting_cells
from recovery.analysis.statistics import MIN_SESSIONS
from recovery.analysis.summary import Summary
from recovery.metrics import metric
from recovery.model import STARTUP_METRIC, Cache, Session, Table
from recovery.report import fmt
from recovery.report.answer import Answer, Row, chosen, value_of
from recovery.report.host_words import storage_words
from recovery.report.summary_text import effect_size, mean_text

_MAX_SENTENCES = 3
DAYS_NEED = "A claim needs sessions of the first side on several days, or one of the day of the second"
ZERO_NEEDS = f"a mean of zero has no ratio, and a claim about a difference needs {MIN_SESSIONS} sessions of each side"


def comparison_answer(
    found: Comparison, sides: tuple[Side, Side], names: tuple[Sequence[str], Sequence[str]]
) -> Answer:
    """Returns both sides of each cell with the ratio of the second to the first, the largest effect, what a claim
    lacks, and which server is on which side."""
    named = len({pair.one.version for pair in found.pairs}) > 1
    pairs = sorted(found.pairs, key=lambda pair: (not pair.significant, -effect_size(pair) if pair.is_known else 0.0))
    rows = [_answer_row(pair, named=named) for pair in found.pairs]
    shown, left_out = chosen(rows, [(pair.one.version, pair.one.variant) for pair in pairs])
    lines = [_sentence(pair, _storage(pair, sides), named=named) for pair in pairs[:_MAX_SENTENCES]]
    if len(pairs) > _MAX_SENTENCES:
        lines.append(f"and {len(pairs) - _MAX_SENTENCES} more in the table.")
    doubts = [*_lacking_sessions(found.pairs), *_hosts(found.pairs, sides)]
    checksums = []
    for word, side, called in zip(("first", "second"), sides, names, strict=True):
        doubts.append(f"{word}: {_side_name(called)}: {'; '.join(_servers(side[0]))}")
        checksums.append({facts.get("sha256") for session in side for facts in session.servers.values()})
    if checksums[0] == checksums[1] and len(checksums[0]) == 1 and None not in checksums[0]:
        doubts.append("Both sides are the same binary: what differs is the settings or the host.")
    return Answer(
        columns=("first", "second"),
        facts=("ratio", "significant"),
        rows=shown,
        left_out=left_out,
        comparison=tuple(lines),
        doubts=tuple(doubts),
    )


def _answer_row(pair: Pair, *, named: bool) -> Row:
    name = f"{pair.one.version} {pair.variant}" if named else pair.variant
    values = tuple(value_of(side, mean_text(side)) if side.count else None for side in (pair.one, pair.other))
    return Row(name, values, (fmt.effect(pair), fmt.yes_or_no(pair.significant)), pair.one.version)


_HOST_DOUBTS = {
    HostDoubt.NOT_RECORDED: (
        "Whether the sides are of one host is not known, because one of them has no id of its host. So nothing is "
        "claimed"
    ),
    HostDoubt.DIFFERENT: (
        "The sides are of different hosts, so nothing is claimed: a difference may be one of the hosts, not of the "
        "servers"
    ),
}


def _hosts(pairs: Sequence[Pair], sides: tuple[Side, Side]) -> Iterator[str]:
    """Yields that the sides are of different hosts, or that this is not known, and of which pairs if not of all."""
    doubts: dict[HostDoubt | None, list[str]] = {}
    for pair in pairs:
        results = zip(sides, (pair.one_sessions, pair.other_sessions), strict=True)
        doubt = host_doubt([[side[one.place] for one in found if one.mean is not None] for side, found in results])
        doubts.setdefault(doubt, []).append(f"{pair.one.version} {pair.variant}")
    for doubt, named in doubts.items():
        if doubt is not None:
            which = f" ({', '.join(named)})" if len(doubts) > 1 else ""
            yield f"{_HOST_DOUBTS[doubt]}{which}."


def _storage(pair: Pair, sides: tuple[Side, Side]) -> str:
    """Returns the storage that the ratio of a pair belongs to; empty if it does not change with the storage, or if the
    sides have one each."""
    if len({session.host_id for side in sides for session in side}) > 1:
        return ""
    cells = [(summary.version, summary.variant) for summary in (pair.one, pair.other)]
    waits = [waiting_cells(side[0]).get(cell) for side, cell in zip(sides, cells, strict=True)]
    may_depend = pair.one.version != pair.other.version and sides[0][0].cache_of(pair.variant) == Cache.COLD
    return f", {storage_words(sides[0][0])}" if (may_depend if None in waits else waits[0] != waits[1]) else ""


def _sentence(pair: Pair, storage: str, *, named: bool) -> str:
    """Returns what the comparison of a cell says, with its version if there are several."""
    about, cell = metric(pair.metric), f"{pair.one.version} {pair.variant}" if named else pair.variant
    if not pair.is_known:
        return f"Not compared, {cell}: a side has no measured run."
    if pair.significant is False:
        return f"No significant difference, {cell}: {fmt.effect(pair)} of the first."
    end = f", {cell}{storage}" + (": no claim" if pair.significant is None else "")
    if pair.ratio is None:
        return f"The second differs by {fmt.effect(pair)} from the first{end}."
    what = "as long as" if about.unit == "s" else f"the {about.label} of"
    verb = "takes" if about.unit == "s" else "has"
    return f"The second {verb} {fmt.effect(pair)} times {what} the first{end}."


def _lacking_sessions(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yields how many sessions a claim needs, if a pair has too few: of the first side, and of both without a ratio."""
    unclaimed = [pair for pair in pairs if pair.is_known and pair.significant is None and not pair.confounded_by]
    if any(pair.confounded_by == "day" for pair in pairs):
        yield f"All sessions of the first side are of one day, the second is of another. {DAYS_NEED}."
    if any(pair.ratio is None for pair in unclaimed):
        yield f"{ZERO_NEEDS[0].upper()}{ZERO_NEEDS[1:]}."
    if few := [pair.claim_sessions[0] for pair in unclaimed if pair.ratio is not None]:
        there = f"{min(few)}" if min(few) == max(few) else f"{min(few)} to {max(few)}"
        yield (
            f"Sessions of one server differ more than their runs. A claim needs {MIN_SESSIONS} sessions of the first "
            f"side on its host; {there} {'is' if max(few) == 1 else 'are'} known."
        )


def _servers(session: Session) -> Iterator[str]:
    """Yields each version of a session with its source and checksum, and the session's note."""
    for version in session.versions:
        facts = next((facts for name, facts in session.servers.items() if name.partition(" ")[0] == version), {})
        checksum = f"SHA-256 {facts['sha256'][:12]}" if facts.get("sha256") else ""
        known = ", ".join(filter(None, (facts.get("source"), checksum)))
        yield f"{version} ({known})" if known else version
    if note := session.design.note:
        yield f"note: {note}"


def comparison_tables(found: Comparison, names: tuple[Sequence[str], Sequence[str]]) -> tuple[Table, ...]:
    """Returns the tables of a comparison. `names` are the names of the sessions on each side."""
    names_found = {pair.metric for pair in found.pairs}
    about = metric(found.pairs[0].metric if found.pairs else STARTUP_METRIC)
    several = len(names_found) > 1
    what = "means" if several else f"mean {about.label}"
    many = max(map(len, names)) > 1
    known = many or any(pair.one_earlier or pair.other_earlier for pair in found.pairs)
    better = fmt.which_is_better(about)
    pairs = Table(
        title=f"{_side_name(names[1])} (second) compared with {_side_name(names[0])} (first), {what}",
        headers=(
            *("variant", "first", "runs", "mean", "+-"),
            *("second", "runs", "mean", "+-", "ratio", "significant"),
        ),
        rows=tuple(_row(pair, named=several) for pair in found.pairs),
        numeric=(False, False, True, True, True, False, True, True, True, True, False),
        notes=(
            f"runs: those that count, of all; +-: half of the mean's 95 % interval in its session"
            f"{', over several its ends' if many else ''}; "
            "ratio: second over first, with its interval by the spread between sessions; significant: all pairs taken "
            "together.",
            *((f"{better}.",) if better else ()),
            *(("The mean over sessions is the geometric mean of their means.",) if many else ()),
        ),
        keys=2,
    )
    spread = (_sessions(found, names),) if known else ()
    return (pairs, *spread, *((_differences(found),) if found.differences else ()))


def _side_name(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} sessions"


def _row(pair: Pair, *, named: bool) -> tuple[str, ...]:
    return (
        f"{pair.variant}, {metric(pair.metric).label}" if named else pair.variant,
        *_side(pair.one),
        *_side(pair.other),
        fmt.effect(pair),
        fmt.yes_or_no(pair.significant),
    )


def _side(summary: Summary) -> tuple[str, str, str, str]:
    about = metric(summary.name)
    counted = fmt.found_of_expected(summary.count, summary.count + summary.failed + summary.void)
    return summary.version, counted, fmt.column(about, summary.mean), fmt.interval_column(about, summary)


def _sessions(found: Comparison, names: tuple[Sequence[str], Sequence[str]]) -> Table:
    """Returns the table with the mean of each session, and the spread between those of a side and others like them."""
    rows = []
    for pair in found.pairs:
        about = metric(pair.metric)
        for side, version, called, sessions, earlier in (
            ("first", pair.one.version, names[0], pair.one_sessions, pair.one_earlier),
            ("second", pair.other.version, names[1], pair.other_sessions, pair.other_earlier),
        ):
            own = [session.mean for session in sessions if session.mean is not None]
            means = own + [session.mean for session in earlier]
            spread = fmt.spread(means)
            for session in sessions:
                mean, interval = fmt.column(about, session.mean), fmt.column(about, session.interval)
                cells = (called[session.place], str(session.count), mean, interval, spread)
                rows.append((version, pair.variant, side, *cells))
            for other in earlier:
                mean = fmt.column(about, other.mean)
                rows.append((version, pair.variant, "", other.session, str(other.count), mean, fmt.ABSENT, spread))
    return Table(
        title="Spread between sessions",
        headers=("version", "variant", "side", "session", "runs", "mean", "+-", "spread"),
        rows=tuple(rows),
        numeric=(False, False, False, False, True, True, True, True),
        notes=(
            "+-: half of the 95 % interval within the session; spread: from the side's smallest mean to its largest. "
            "Sessions without a side are others of its host and design: they count for the spread, not for the mean.",
        ),
        keys=4,
    )


def _differences(found: Comparison) -> Table:
    return Table(
        title="Not alike in all sessions",
        headers=("what", "first", "other"),
        rows=tuple((difference.what, difference.one, difference.other) for difference in found.differences),
        numeric=(False, False, False),
        notes=("A ratio between sessions of unlike hosts or settings measures those as well.",),
    )
