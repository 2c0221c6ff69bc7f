"""Writes the answer at the top of a report: what was timed, what it depends on, and what takes the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from recovery import phase_table
from recovery.analysis.combined import CombinedSession
from recovery.analysis.contrasts import Contrast
from recovery.analysis.growth import TEST_NEEDS, Curve, growth_curves
from recovery.analysis.history import CellHistory, cell_histories
from recovery.analysis.host_figures import dependent_pairs
from recovery.analysis.opened_files import OPENS_ONLY, claim_verdict, traced_runs
from recovery.analysis.statistics import (
    LINE,
    LINE_NEEDS,
    MIN_RUNS,
    Prediction,
)
from recovery.analysis.summary import (
    Cell,
    Summary,
    VariantRatio,
    all_variant_ratios,
    baseline_of,
    cell_words,
    compare_cells,
    compared_with_baseline,
    is_compared,
    mean,
    measured_runs_by_cell,
    own_read_requests,
    phase_means,
    sample_of,
    summarise,
    summary_of,
    value_words,
    variant_ratios,
)
from recovery.analysis.warnings import cells_missing_precision
from recovery.metrics import Metric, metric
from recovery.model import SETTINGS_AXIS, STARTUP_METRIC, Axis, Cache, Run, Session, Verdict
from recovery.report import fmt
from recovery.report.host_words import (
    host_line,
    incomplete_sessions_line,
    is_over_sessions,
    on_host,
    over_sessions_line,
    scope,
    storage_words,
)
from recovery.report.pending_text import pending_costs

_MAX_CLAUSES = 3
"""Most clauses of each kind in one sentence; the tables have the rest."""
_MAX_VERSIONS = 4
"""Most versions that all have a line of their own; of more, the first three have one."""
MORE_VERSIONS = "more versions in the tables."
"""How the line ends that counts the versions without one."""


@dataclass(frozen=True)
class _Context:
    """The data that all sentences of a session are made from."""

    session: Session
    summaries: tuple[Summary, ...]
    measured: dict[Cell, tuple[Run, ...]]
    phases: dict[Cell, dict[str, float]]
    """Mean seconds of each phase of a start."""

    def of(self, version: str) -> list[Summary]:
        return [summary for summary in self.summaries if summary.version == version]


def answers(session: Session, *, each_version: bool = True, reason: bool = True, host: bool = True) -> tuple[str, ...]:
    """Returns the answer of a session in lines, with the versions in the order of the report.

    Timed starts have a line for each version, unless a table follows that has the same figures, a comparison, and with
    `reason` what takes the time. A version measured with several numbers of tables has a line for each of its curves.
    Loads have a line for each version, and one for the largest difference between versions. With `host`, the next line
    has what was recorded of the host that all figures belong to. Lines about earlier sessions on it are the last."""
    is_shown = host and is_compared(session) and any(run.verdict is Verdict.MEASURED for run in session.runs)
    return (
        *_answers(session, each_version=each_version, reason=reason),
        *_missed_precision(session),
        *(host_line(session) if is_shown else ()),
        *_history(session),
        *(
            (over_sessions_line(session), *incomplete_sessions_line(session))
            if isinstance(session, CombinedSession)
            else ()
        ),
    )


def _missed_precision(session: Session) -> Iterator[str]:
    """Yields which cells missed the precision. It is one of a session: over several, those that missed it are
    counted."""
    if isinstance(session, CombinedSession) and len(session.parts) > 1:
        missing = sum(any(cells_missing_precision(part.session)) for part in session.parts)
        if missing:
            precision = 100 * (session.design.precision or 0)
            yield f"The precision of +- {precision:g} % was missed in {missing} of {len(session.parts)} sessions."
    elif missed := [about for about, _ in cells_missing_precision(session)]:
        more = f" and {len(missed) - _MAX_CLAUSES} more" if len(missed) > _MAX_CLAUSES else ""
        precision = 100 * (session.design.precision or 0)
        yield (
            f"The precision of +- {precision:g} % was missed {scope(session)}: "
            f"{', '.join(missed[:_MAX_CLAUSES])}{more}."
        )


def _history(session: Session) -> Iterator[str]:
    """Yields the range of the earlier sessions of this design on this host, and from three sessions on, this one
    included, their mean with its interval."""
    found = list(cell_histories(session))

    def range_of(cell: CellHistory) -> str:
        low, high = cell.range
        return _range_text(metric(session.metric_of(cell.variant)), low, high)

    def mean_of(cell: CellHistory) -> str:
        over, about = cell.over_all, metric(session.metric_of(cell.variant))
        return "" if over is None or over.interval is None else _mean_over_sessions(about, over.mean, *over.interval)

    ranges = [
        f"{_cells_text(session, cells, range_of)} in {where}"
        for where, cells in _by_sessions(found, lambda cell: cell.sessions_and_days)
    ]
    if ranges:
        yield f"Earlier on this host: {'; '.join(ranges)}."
    known = [cell for cell in found if cell.over_all is not None]
    means = [
        f"over {where}: {_cells_text(session, cells, mean_of)}"
        for where, cells in _by_sessions(known, lambda cell: cell.all_sessions_and_days)
    ]
    if means:
        yield f"O{'; '.join(means)[1:]}."


def _by_sessions(
    cells: Sequence[CellHistory], number: Callable[[CellHistory], tuple[int, int]]
) -> Iterator[tuple[str, list[CellHistory]]]:
    """Yields the cells that have the same number of sessions and days, with these in words. If too many differ in it,
    the table has the others."""
    found: dict[tuple[int, int], list[CellHistory]] = {}
    for cell in cells:
        found.setdefault(number(cell), []).append(cell)
    for (sessions, days), same in sorted(found.items(), key=lambda item: -len(item[1]))[:_MAX_CLAUSES]:
        on = "" if sessions == 1 else f" of {fmt.count_text(days, 'day')}"
        yield f"{fmt.count_text(sessions, 'session')}{on}", same


def _cells_text(session: Session, cells: Sequence[CellHistory], text: Callable[[CellHistory], str]) -> str:
    """Returns a text of each cell with its name, unless the session has only one. A version is named once."""
    if len(measured_runs_by_cell(session)) == 1:
        return text(cells[0])
    clauses = []
    for version in dict.fromkeys(cell.version for cell in cells):
        named = [f"{cell_words(session, cell.variant)} {text(cell)}" for cell in cells if cell.version == version]
        clauses.append(f"{version} " * (len(session.versions) > 1) + ", ".join(_first_clauses(named)))
    return "; ".join(_first_clauses(clauses))


def _range_text(about: Metric, low: float, high: float) -> str:
    """Formats a range, such as `39.8 to 52.2 s`, or its only value."""
    if about.unit == "s":
        places = _decimals(low)
        texts = [f"{value:.{places}f}" for value in (low, high)]
        return f"{' to '.join(dict.fromkeys(texts))} s"
    if low == high:
        return fmt.with_unit(about, low)
    return f"{fmt.column(about, low)} to {fmt.with_unit(about, high)}"


def _mean_over_sessions(about: Metric, mean: float, low: float, high: float) -> str:
    """Formats a mean with its interval, such as `46.1 s (39.0-54.4)`."""
    to = " to " if low < 0 else "-"
    if about.unit == "s":
        places = _decimals(mean)
        return f"{mean:.{places}f} s ({low:.{places}f}{to}{high:.{places}f})"
    return f"{fmt.with_unit(about, mean)} ({fmt.column(about, low)}{to}{fmt.column(about, high)})"


def _answers(session: Session, *, each_version: bool, reason: bool) -> tuple[str, ...]:
    if not is_compared(session):
        from recovery.report.crash_tables import crash_answers

        return tuple(crash_answers(session))
    context = _Context(session, summarise(session), measured_runs_by_cell(session), phase_means(session))
    curves = growth_curves(session)
    if curves:
        return tuple(_growth_answers(context, curves))
    if session.has_caches:
        return tuple(_start_answers(context, each_version=each_version, reason=reason))
    return tuple(_load_answers(context))


def _version_lines(context: _Context, versions: Sequence[str], line: Callable[[_Context, str], str]) -> Iterator[str]:
    """Yields a line for each version; of too many for the first ones, and how many there are more."""
    shown = versions if len(versions) <= _MAX_VERSIONS else _first_versions(context, versions)
    yield from (line(context, version) for version in shown)
    if len(shown) < len(versions):
        yield f"and {len(versions) - len(shown)} {MORE_VERSIONS}"


def _first_versions(context: _Context, versions: Sequence[str]) -> list[str]:
    """Returns the versions that have a line, if there are too many: the fastest, the slowest, and the first others."""
    first = context.session.variant_names[0]
    same = [summary for summary in context.summaries if summary.count and summary.variant == first]
    compared = [] if context.session.is_second_start(first) else sorted(same, key=lambda summary: summary.mean or 0.0)
    ends = [summary.version for summary in (compared[:1] + compared[-1:]) if summary.version in versions]
    chosen = tuple(dict.fromkeys((*ends, *versions)))[: _MAX_VERSIONS - 1]
    return [version for version in versions if version in chosen]


def _nothing(session: Session, version: str) -> str:
    runs = [run for run in session.runs if run.version == version]
    counts = tuple(sum(run.verdict is verdict for run in runs) for verdict in (Verdict.FAILED, Verdict.VOID))
    if not any(counts) and any(run.verdict is Verdict.SAMPLED for run in runs):
        return f"{version}: only runs that are not averaged, none was measured."
    reason = next((run.reason for run in runs if run.reason), None)
    left_out = f" ({_counted(counts)})" if any(counts) else ""
    return f"{version}: nothing was measured{left_out}" + (f": {reason.rstrip('.')}." if reason else ".")


def _not_counted(context: _Context, version: str) -> str:
    return _counted([sum(getattr(summary, name) for summary in context.of(version)) for name in ("failed", "void")])


def _counted(counts: Sequence[int]) -> str:
    kinds = zip(counts, ("failed", "void"), strict=True)
    return ", ".join(f"{number} {what} run{'s' if number > 1 else ''}" for number, what in kinds if number)


def _first_clauses(clauses: Sequence[str]) -> list[str]:
    """Returns the first clauses, and a last one that counts the others."""
    more = len(clauses) - _MAX_CLAUSES
    return [*clauses[:_MAX_CLAUSES], *((f"and {more} more in the tables",) if more > 0 else ())]


def _axis_value(session: Session, axis: Axis, ratio: VariantRatio) -> str:
    return session.values_of(ratio.variant)[axis.name]


def _time(session: Session, summary: Summary) -> str:
    on = "on a " if session.is_second_start(summary.variant) else ""
    return f"{mean_text(summary)} {on}{summary.variant}"


def mean_text(summary: Summary) -> str:
    """Formats a mean in seconds with its interval, such as `64.0 +- 1.4 s`, which has as many decimals."""
    seconds, places = summary.mean or 0.0, _decimals(summary.mean or 0.0)
    if fmt.passes_zero(summary):
        return f"{seconds:.{places}f} s (runs of {summary.min:.{places}f} to {summary.max:.{places}f} s)"
    if summary.low is not None and summary.high is not None:
        return _mean_over_sessions(metric(summary.name), seconds, summary.low, summary.high)
    error = "" if summary.interval is None else f" +- {summary.interval:.{places}f}"
    return f"{seconds:.{places}f}{error} s"


def seconds_with_digits(seconds: float) -> str:
    """Formats seconds with three digits, such as `64.0 s`."""
    return f"{seconds:.{_decimals(seconds)}f} s"


def _decimals(seconds: float) -> int:
    return 0 if seconds >= 99.95 else 1 if seconds >= 9.995 else 2


def _effect_words(contrast: Contrast) -> str:
    """Formats an effect, such as `2.31 (2.05-2.60) times`."""
    return f"{fmt.effect(contrast)} times"


def _measured(context: _Context, version: str) -> list[Summary]:
    return [summary for summary in context.of(version) if summary.count]


def cell_without_base(session: Session, variant: str, *, without: str = "") -> str:
    """Returns the cell in words, without the axes that are at their base."""
    cell = session.values_of(variant)
    at_base = {axis.name for axis in session.axes if axis.base is not None and cell.get(axis.name) == axis.base}
    return cell_words(session, variant, without={*at_base, without})


def effect_size(contrast: Contrast) -> float:
    """Returns the size of an effect for ranking. A factor of one half counts as much as a factor of two, and an effect
    from or to zero is larger than any other."""
    return math.inf if contrast.ratio is None else abs(math.log(contrast.ratio))


def _joined_words(words: Sequence[str]) -> str:
    known = [word for word in words if word]
    return f"{', '.join(known[:-1])} and {known[-1]}" if len(known) > 1 else "".join(known)


# --- Loads and other tasks: a line for each version, in words that depend on the metric and the axes only

_Compared = TypeVar("_Compared", VariantRatio, Summary)


def _load_answers(context: _Context) -> Iterator[str]:
    """Yields what the figures are, a line for each version, and where a version differs most from the baseline."""
    session, base = context.session, baseline_of(context.session)
    effects, versions = all_variant_ratios(session), compared_with_baseline(session)
    pairs = [
        *(((summary.version, summary.variant), (base, summary.variant)) for summary in versions if summary.significant),
        *(
            ((ratio.version, ratio.variant), (ratio.version, ratio.base_variant))
            for ratio in effects
            if ratio.significant
        ),
    ]
    if measured := [summary for summary in context.summaries if summary.count]:
        storage = " and storage" if dependent_pairs(session, pairs) else ""
        counted = _mean_of_runs(session, measured, " (95 % interval{})")
        yield f"{on_host(session).capitalize()}{storage}; {counted}:"

    costs = pending_costs(session)

    def line(context: _Context, version: str) -> str:
        of_version = [effect for effect in effects if effect.version == version]
        return _load_line(context, version, of_version, costs.get(version, ()))

    def text(summary: Summary) -> str:
        contrast = _contrast_text(metric(summary.name), summary)
        return f"{summary.version} instead of {base}: {contrast}{_for(cell_without_base(session, summary.variant))}"

    yield from _version_lines(context, session.versions, line)
    for clause in () if costs else _largest(versions, "difference", f"from {base}", text):
        # The name of a server is written as it is.
        yield f"{clause if clause.startswith(session.versions) else clause[0].upper() + clause[1:]}."


def _load_line(context: _Context, version: str, effects: Sequence[VariantRatio], costs: Sequence[str]) -> str:
    """Returns the value at the base of the axes and the largest effect along them, or the costs of what was pending, or
    the first values if nothing is compared along an axis."""
    session, measured = context.session, _measured(context, version)
    if not measured:
        return _nothing(session, version)
    shown = _at_base(session, measured)
    if effects:
        shown = shown[:1]
        named = cell_without_base(session, shown[0].variant)
        clauses = [f"{_value_text(shown[0])}{_for(named)}"]
        if costs:  # these have intervals of their own
            effects = ()
        else:
            axes = list(dict.fromkeys(effect.axis for effect in effects))
            of = f"of {_joined_words(axes) if len(axes) <= _MAX_CLAUSES else f'{len(axes)} axes'}"
            clauses += _largest(effects, "effect", of, lambda effect: _effect_text(session, effect, named))
    else:
        clauses = _first_clauses([_value_text(value) + _for(cell_words(session, value.variant)) for value in shown])
    clauses += (*_lacking_intervals(session, shown, effects), *costs)
    left_out = _not_counted(context, version)
    return f"{version}: {'; '.join(clauses)}.{left_out and f' Not counted: {left_out}.'}"


def _at_base(session: Session, measured: Sequence[Summary]) -> list[Summary]:
    """Returns the cells at the base of all axes, or all cells if none is. The largest value of the first one's metric
    comes first if more is better; otherwise the cells are in the order of the report."""
    bases = {axis.name: axis.base for axis in session.axes if axis.base is not None}
    found = [
        summary
        for summary in measured
        if all(session.value_of(summary.variant, axis) in (base, None) for axis, base in bases.items())
    ] or list(measured)
    first = found[0].name
    if not metric(first).more_is_better:
        return found
    return sorted(found, key=lambda summary: (summary.name != first, -(summary.mean or 0.0)))


def _value_text(summary: Summary) -> str:
    """Formats a mean with its interval, such as `12,345 queries/s (12,100 to 12,590)`."""
    about, interval = metric(summary.name), fmt.drawn_interval(summary)
    text = fmt.with_unit(about, summary.mean or 0.0)
    if fmt.passes_zero(summary):
        return f"{text} (runs of {fmt.column(about, summary.min)} to {fmt.column(about, summary.max)})"
    return text if interval is None else f"{text} ({' to '.join(fmt.column(about, end) for end in interval)})"


def _for(cell: str) -> str:
    return f" for {cell}" if cell else ""


def _largest(found: Sequence[_Compared], what: str, of: str, text: Callable[[_Compared], str]) -> Iterator[str]:
    """Yields the largest contrast that is significant, as in its table. A single one is given in any case, and none
    without an interval."""
    known = [contrast for contrast in found if contrast.significant is not None]
    significant = [contrast for contrast in known if contrast.significant]
    together = ", all taken together" if any(contrast.differs for contrast in known) else ""
    if len(known) == 1:
        yield f"{text(known[0])}, {'significant' if significant else f'not significant{together}'}"
    elif significant:
        yield f"{text(max(significant, key=effect_size))}, largest significant {what} of {len(known)} compared"
    elif known:
        yield f"no significant {what} {of} ({len(known)} compared{together})"


def _effect_text(session: Session, effect: VariantRatio, named: str) -> str:
    """Formats an effect, such as `threads 8 instead of 1: 1.42 (1.35 to 1.50) times the queries/s`, with its cell
    unless that is the one that the line has named."""
    axis = next(axis for axis in session.axes if axis.name == effect.axis)
    changed = f"{value_words(axis, _axis_value(session, axis, effect))} instead of {axis.base}"
    cell = cell_without_base(session, effect.variant, without=axis.name)
    contrast = _contrast_text(metric(session.metric_of(effect.variant)), effect)
    return f"{changed}: {contrast}{_for(cell if cell != named else '')}"


def _contrast_text(about: Metric, contrast: Contrast) -> str:
    if contrast.ratio is None:
        return f"{fmt.effect(contrast)} {about.label if about.unit in ('/s', '') else about.unit}"
    interval = f"{fmt.times(contrast.ratio_low)} to {fmt.times(contrast.ratio_high)}"
    return f"{fmt.times(contrast.ratio)} ({interval}) times {'as long' if about.unit == 's' else f'the {about.label}'}"


def _needed(session: Session) -> str:
    """Returns what an interval needs."""
    return f"{MIN_RUNS} {'sessions' if isinstance(session, CombinedSession) else 'runs'} of each are needed"


def _lacking_intervals(session: Session, shown: Sequence[Summary], effects: Sequence[VariantRatio]) -> Iterator[str]:
    """Yields that values have no interval, and that therefore no effect is claimed."""
    unclaimed = bool(effects) and all(effect.significant is None for effect in effects)
    if unclaimed or any(summary.interval is None for summary in shown[:_MAX_CLAUSES]):
        yield f"no interval{', so no effect is claimed' if unclaimed else ''}: {_needed(session)}"


# --- Timed starts: how long they take, the comparison, and what takes the time

_LARGE_SHARE = 0.25
"""A phase is mentioned from this share of the startup on; if none has it, the longest ones are."""
_MAX_PHASES = 2
_MANY_TABLES = 5000
"""Number of tables from which on reads are given for each table. With fewer, most reads are of other files."""
_NOT_WARM = " (not proved warm)"


def _start_answers(context: _Context, *, each_version: bool, reason: bool) -> Iterator[str]:
    """Yields what the figures are, a line for each version, one comparison, and what takes the time."""
    session = context.session
    measured = [summary for summary in context.summaries if summary.count]
    conditions = f"{session.title}{_conditions(context, measured)}"
    if measured and each_version:
        yield conditions
    versions = [version for version in session.versions if each_version or not _measured(context, version)]
    yield from _version_lines(context, versions, _start_line)
    if each_version or len(session.versions) > 1 or settings_axis(session) is not None:
        yield from _start_comparison(context, measured)
    if reason:
        yield from _reason(context, measured)
    yield from _redo_read(context, measured)
    yield from _predicted(context.session, measured)
    if measured and not each_version:  # a table follows
        yield conditions


def _conditions(context: _Context, measured: Sequence[Summary]) -> str:
    """Returns the host, and the number of tables and of runs behind the figures, where they are the same for all."""
    runs = [run for summary in measured for run in context.measured[summary.version, summary.variant]]
    tables = {run.contents.tables_found for run in runs}
    proper = [summary for summary in measured if not context.session.is_second_start(summary.variant)] or measured
    number = tables.pop() if len(tables) == 1 else None
    if not proper:
        return ""
    counted = _mean_of_runs(context.session, proper, " +- 95 % interval{}")
    tables_text = "" if number is None else f", {fmt.count_text(number, 'table')}"
    return f" {on_host(context.session)}{tables_text}; {counted}:"


def _mean_of_runs(session: Session, measured: Sequence[Summary], interval: str) -> str:
    """Returns how many runs a mean is of, and what its interval is about: `mean of 5 runs +- 95 % interval in this
    session`. Over several sessions it is `geometric mean (95 % interval) over 5 sessions of 3 days`."""
    counts = {summary.count for summary in measured}
    many = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    runs = f" of {many} run{'' if many == '1' else 's'}"
    has_interval = any(summary.interval is not None for summary in measured)
    what = f"mean{runs}"
    if is_over_sessions(session):
        what, interval = "geometric mean", " (95 % interval){}"
    return f"{what}{interval if has_interval else '{}'}".format(f" {scope(session)}")


def _start_line(context: _Context, version: str) -> str:
    mine = _measured(context, version)
    if not mine:
        return _nothing(context.session, version)
    second = context.session.is_second_start
    clauses = _first_clauses(
        [f"{summary.variant}{_NOT_WARM if second(summary.variant) else ''} {mean_text(summary)}" for summary in mine]
    )
    left_out = _not_counted(context, version)
    return f"{version}: {'; '.join(clauses)}{left_out and f' (not counted: {left_out})'}"


def _start_comparison(context: _Context, measured: Sequence[Summary]) -> Iterator[str]:
    """Yields the comparison of the slowest and the fastest version, or of a single version's variants.

    It is of the first variant that several versions have, so usually of cold starts."""
    proper = [summary for summary in measured if not context.session.is_second_start(summary.variant)]
    for variant in dict.fromkeys(summary.variant for summary in proper):
        same = [summary for summary in proper if summary.variant == variant]
        if len(same) > 1:
            yield from _faster(context, same, lambda summary: summary.version, f", {variant}")
            return
    settings = settings_axis(context.session)
    if settings is not None and proper:
        yield from _compared_settings(context, settings, proper[0].variant)
    else:
        yield from _faster(context, proper, lambda summary: f"The {summary.variant} start", "")


def settings_axis(session: Session) -> Axis | None:
    """Returns the axis of the settings that the user named, if they are compared."""
    return next((axis for axis in session.differing_axes if axis.name == SETTINGS_AXIS and axis.base), None)


def _compared_settings(context: _Context, axis: Axis, base_variant: str) -> Iterator[str]:
    """Yields how long the starts with each of the named settings take compared with this variant, the largest effect
    first. Differences must be significant when all are taken together."""
    ratios = [ratio for ratio in variant_ratios(context.session, axis) if ratio.base_variant == base_variant]
    sure = sorted((ratio for ratio in ratios if ratio.significant), key=effect_size, reverse=True)
    clauses = _first_clauses(
        [f"{_axis_value(context.session, axis, ratio)} takes {_effect_words(ratio)} as long" for ratio in sure]
    )
    if alike := [_axis_value(context.session, axis, ratio) for ratio in ratios if ratio.significant is False]:
        clauses.append(f"no significant difference: {', '.join(alike)}")
    pairs = [((ratio.version, ratio.base_variant), (ratio.version, ratio.variant)) for ratio in sure]
    where = f" {storage_words(context.session)}" if dependent_pairs(context.session, pairs) else ""
    if clauses:
        yield f"Compared with {axis.base}{where}: {'; '.join(clauses)}."
    elif ratios:
        yield f"Not compared: {_needed(context.session)}."


@dataclass(frozen=True)
class Ends:
    """The fastest and the slowest of several cells, compared with each other."""

    fast: Summary
    slow: Summary
    contrast: Contrast
    """The slowest compared with the fastest."""
    differ: bool | None
    """Whether they differ significantly; None with fewer than three runs of either. What a table compares is as
    significant as there. Any others are chosen out of all pairs, and must be significant for that many comparisons."""


def compare_ends(session: Session, found: Sequence[Summary]) -> Ends:
    """Compares the fastest of these measured cells with the slowest."""
    ranked = sorted(found, key=lambda summary: summary.mean or 0.0)
    fast, slow = ranked[0], ranked[-1]
    base, cell = (fast.version, fast.variant), (slow.version, slow.variant)
    contrast = compare_cells(session, base, cell, chosen_from=math.comb(len(found), 2))
    return Ends(fast, slow, contrast, contrast.significant)


def _faster(context: _Context, found: Sequence[Summary], name: Callable[[Summary], str], where: str) -> Iterator[str]:
    """Yields how many times faster the fastest is than the slowest, and on which storage, if that changes it."""
    if len(found) < 2:
        return
    ends = compare_ends(context.session, found)
    fast, slow, contrast = ends.fast, ends.slow, ends.contrast
    if ends.differ is None:
        yield f"Not compared: {_needed(context.session)}."
    elif not ends.differ:
        yield f"{name(fast)} and {_inside(name(slow))} do not differ significantly{where}."
    else:
        low, high = fmt.times(contrast.ratio_low), fmt.times(contrast.ratio_high)
        times = f"{fmt.times(contrast.ratio)} times faster ({low}-{high})"
        its_runs = context.measured[fast.version, fast.variant]
        verb = "recovers" if any(run.startup.crash_proof for run in its_runs) else "starts"
        pair = ((fast.version, fast.variant), (slow.version, slow.variant))
        storage = f", {storage_words(context.session)}" if dependent_pairs(context.session, [pair]) else ""
        yield f"{name(fast)} {verb} {times} than {_inside(name(slow))}{where}{storage}."


def _inside(name: str) -> str:
    """Returns a name as it is written inside a sentence."""
    return name.replace("The ", "the ", 1)


def _reason(context: _Context, measured: Sequence[Summary]) -> Iterator[str]:
    """Yields what takes the time of the slowest start."""
    slow = slowest_start(context.session, measured)
    if slow is None:
        return
    runs = context.measured[slow.version, slow.variant]
    means = context.phases.get((slow.version, slow.variant), {})
    estimated = phase_table.estimated_phases((run.startup.phases for run in runs), means)
    clauses = [
        *_phases(phase_table.of_the_start(means), estimated),
        *_reads_per_table(context.session, runs),
        *_tablespaces(traced_runs(context.session).get((slow.version, slow.variant), ())),
    ]
    if clauses:
        yield f"Why {slow.version} takes {seconds_with_digits(slow.mean or 0.0)} {slow.variant}: {'; '.join(clauses)}."
    if phase_table.has_hidden_phases(means):
        yield "The log shows more phases with log_error_verbosity=3, the tool's default."
    if after := {name: seconds for name, seconds in means.items() if phase_table.is_after_the_start(name)}:
        yield f"First queries after that: {', '.join(_phases(after))}."


def _redo_read(context: _Context, measured: Sequence[Summary]) -> Iterator[str]:
    """Yields how much redo the starts over a data directory of the user's own had to read, by version."""
    session, found = context.session, dict[str, str]()
    for version in session.versions if session.design.has_own_data else ():
        cells = [(version, summary.variant) for summary in measured if summary.version == version]
        read = mean(run.metrics.get("redo_bytes") for cell in cells for run in context.measured[cell])
        if read is not None:
            found[version] = fmt.size(round(read))
    if not found:
        return
    sizes = (
        [next(iter(found.values()))] if len(found) == 1 else [f"{size} by {version}" for version, size in found.items()]
    )
    read_text = f"Redo to read: {_joined_words(sizes)}"
    if session.settings.get("before_kill"):
        yield f"{read_text}, after BEFORE_KILL."
    elif session.design.as_is or not _is_recovery(context, measured):
        yield f"{read_text}."
    else:
        yield f"{read_text}, the least: a crash under load leaves more (BEFORE_KILL=load, AS_IS=1)."


def _predicted(session: Session, measured: Iterable[Summary]) -> Iterator[str]:
    """Yields what was predicted for the recovery of the user's own data, and what it took."""
    predicted = session.design.predicted
    for summary in measured:
        if predicted and summary.mean:
            yield (
                f"Predicted: {seconds_with_digits(predicted)}. {summary.version} took "
                f"{seconds_with_digits(summary.mean)} {summary.variant}: {100 * (summary.mean / predicted - 1):+.0f} %."
            )


def _is_recovery(context: _Context, measured: Sequence[Summary]) -> bool:
    cells = [(summary.version, summary.variant) for summary in measured]
    return any(run.startup.crash_proof for cell in cells for run in context.measured[cell])


def advice_of(session: Session) -> str | None:
    """Returns where the documentation says what shortens the longest phase of the slowest start; None if no start was
    timed or no phase is known."""
    slow = slowest_start(session, summarise(session)) if session.has_caches else None
    found = phase_means(session).get((slow.version, slow.variant), {}) if slow is not None else {}
    means = phase_table.of_the_start(found)
    return phase_table.advice_on(max(means, key=lambda name: means[name])) if means else None


def slowest_start(session: Session, found: Iterable[Summary]) -> Summary | None:
    """Returns the slowest cold start with the options that others are compared with, or else the slowest start, or None
    if none was measured. Starts that are not proved to be warm are only taken if there are no others."""
    every = [summary for summary in found if summary.count]
    measured = [summary for summary in every if not session.is_second_start(summary.variant)] or every
    bases = {(axis.name, axis.base) for axis in session.axes if axis.base is not None}
    plain = [summary for summary in measured if bases <= session.values_of(summary.variant).items()] or measured
    cold = [summary for summary in plain if session.cache_of(summary.variant) == Cache.COLD] or plain
    return max(cold, key=lambda summary: summary.mean or 0.0, default=None)


def slowest_flavor(session: Session) -> str | None:
    """Returns the flavor of the server with the slowest start, as its runs have it; None if no start was measured."""
    slow = slowest_start(session, summarise(session)) if session.has_caches else None
    return None if slow is None else next(run.flavor for run in session.runs if run.version == slow.version)


def _reads_per_table(session: Session, runs: Sequence[Run]) -> Iterator[str]:
    tables = mean(run.contents.tables_found for run in runs)
    size, requests = mean(run.metrics.get("read_bytes") for run in runs), own_read_requests(session, runs)
    if not tables or size is None:
        return
    if tables < _MANY_TABLES:
        yield f"{fmt.size(round(size))} read" + (
            "" if requests is None else f" in {fmt.count_text(round(requests), 'request')}"
        )
        return
    each = None if requests is None else f"{requests / tables:.2g}"
    reads = "" if each is None else f" in {each} read{'' if each == '1' else 's'}"
    yield f"{fmt.size(round(size / tables))}{reads} for each table"


def _phases(means: Mapping[str, float], estimated: Container[str] = ()) -> Iterator[str]:
    whole = sum(means.values())
    longest = sorted(means, key=lambda name: -means[name])[:_MAX_PHASES] if whole else []
    large = [name for name in longest if means[name] >= _LARGE_SHARE * whole] or longest
    if large:
        figures = {name: fmt.estimate(seconds_with_digits(means[name]), name in estimated) for name in large}
        yield ", ".join(f"{figure} {_phase_words(name)}" for name, figure in figures.items())


def _phase_words(name: str) -> str:
    return f"between two lines of the log ({name})" if name == phase_table.UNNAMED else name


def _tablespaces(runs: Sequence[Run]) -> Iterator[str]:
    """Yields how many tablespaces these traced starts opened, modified and read, if there are any."""
    opened = mean(run.opened_files.tablespaces_opened for run in runs)
    if opened is None:
        return
    counts = [f"{fmt.count_text(round(opened), 'tablespace')} opened"]
    modified, read = (
        mean(run.opened_files.tablespaces_modified for run in runs),
        mean(run.opened_files.tablespaces_read for run in runs),
    )
    if modified is not None:
        counts.append(f"{modified:,.0f} of them modified")
    if claim_verdict(runs) == OPENS_ONLY and read is not None:
        counts.append(f"{read:,.0f} read")
    yield ", ".join(counts)


# --- Growth


def _growth_answers(context: _Context, curves: Sequence[Curve]) -> Iterator[str]:
    """Yields what the figures are, and a sentence for each curve of a version."""
    session = context.session
    error = " +- 95 % intervals" if any(summary.interval is not None for summary in context.summaries) else ""
    if error and is_over_sessions(session):
        error = " (95 % intervals)"
    yield f"{session.title} {on_host(session)}; means{error} {scope(session)}:"
    for version in context.session.versions:
        own = [_growth(context.session, curve) for curve in curves if curve.version == version]
        yield from own or (_nothing(context.session, version),)


def _growth(session: Session, curve: Curve) -> str:
    tables, runs = curve.points[-1]
    largest = summary_of(curve.version, curve.variant, STARTUP_METRIC, runs, sample_of(session, runs, STARTUP_METRIC))
    text = f"{curve.version} needs {_time(session, largest)} with {tables:,} tables"
    found, requested = curve.fit, session.design.predict
    if found is None:
        return f"{text}; {LINE_NEEDS}."
    if found.form == LINE:
        line = "a straight line " + ("fits" if found.called == LINE else "cannot be told from a curve")
        error = "" if found.per_table_error_s is None else f" +- {1000 * found.per_table_error_s:.2g}"
        text += (
            f"; {line}: {seconds_with_digits(max(0.0, found.fixed_s))} and {1000 * found.per_table_s:.3g}{error} "
            "ms for each table"
        )
    else:
        step = found.steepest_step(curve.between)
        error = "" if step.per_table_error_s is None else f" +- {1000 * step.per_table_error_s:.2g}"
        over = (
            "" if curve.between is None or not error else f", with the spread between {curve.between.sessions} sessions"
        )
        text += (
            f"; no straight line fits: from {step.start:,.0f} to {step.end:,.0f} tables, where they add most, "
            f"{1000 * step.per_table_s:.3g}{error} ms for each{over}"
        )
    return f"{text}{'' if requested is None else _prediction(curve, found.predict(requested), requested)}."


def _prediction(curve: Curve, found: Prediction, tables: int) -> str:
    """Returns the prediction with its error at the largest point. It has no figure if that error is too large."""
    tested = curve.held_out
    if tested is None:
        test = f"not tested: {TEST_NEEDS}"
    else:
        test = f"tested at {tested.tables:,}: {seconds_with_digits(tested.measured_s)} measured"
        if tested.off is not None:
            test += f", {fmt.whole_percent(abs(tested.off))} {'above' if tested.off >= 0 else 'below'} its prediction"
    if curve.predicts is False:
        return f"; no prediction for {tables:,} ({test})"
    interval = f" ({' to '.join(map(seconds_with_digits, found.interval))})" if found.interval else ""
    return f", and so {seconds_with_digits(found.seconds)}{interval} with {tables:,} ({test})"
