"""Writes the answer at the top of a report: what was timed, what it depends on, and what takes the time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from recovery import phase_table
from recovery.analysis.combined import CombinedSession
from recovery.analysis.compare import is_slow, judge_baseline
from recovery.analysis.contrasts import Contrast
from recovery.analysis.growth import TEST_NEEDS, Curve, growth_curves
from recovery.analysis.history import CellHistory, cell_histories
from recovery.analysis.host_figures import dependent_pairs
from recovery.analysis.opened_files import traced_runs
from recovery.analysis.statistics import (
    LINE,
    LINE_NEEDS,
    MIN_RUNS,
    LineFit,
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
    main_value,
    mean,
    measured_runs_by_cell,
    own_read_requests,
    phase_means,
    summarise,
    value_words,
    variant_ratios,
)
from recovery.analysis.warnings import cells_missing_precision, findings_of_each_cell
from recovery.linux.cgroups import limits_text, run_exceeded
from recovery.metrics import Metric, metric
from recovery.model import (
    SECOND_START,
    SETTINGS_AXIS,
    STARTUP_METRIC,
    Axis,
    Cache,
    ExtraRun,
    Finding,
    Run,
    Session,
    Verdict,
)
from recovery.report import fmt
from recovery.report.answer import Answer, Row, Value, chosen, value_of
from recovery.report.host_words import (
    host_line,
    incomplete_sessions_line,
    is_over_sessions,
    on_host,
    over_sessions_line,
    scope,
    speed_words,
    storage_name,
)
from recovery.report.pending_text import pending_costs

_MAX_CLAUSES = 3
"""Most clauses of each kind in one sentence; the tables have the rest."""


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


def answers(session: Session) -> tuple[str, ...]:
    """Returns the answer of a session in lines."""
    return answer_of(session).lines


def answer_of(session: Session) -> Answer:
    """Returns the answer of a session: its figures in the order of the report, and what they mean."""
    context = _Context(session, summarise(session), measured_runs_by_cell(session), phase_means(session))
    is_measured = any(run.verdict is Verdict.MEASURED for run in session.runs)
    if not is_compared(session):
        from recovery.report.crash_tables import crash_answer

        found = crash_answer(session)
    elif growth_curves(session):
        found = _growth_answer(context)
    elif session.has_caches:
        found = _start_answer(context)
    else:
        found = _load_answer(context)
    doubts = (
        *found.doubts,
        *_not_counted(session),
        *_precision(session),
        *_limits(session),
        *_first_reads(session),
        *(host_line(session) if is_compared(session) and is_measured else ()),
        *_history(session),
    )
    if isinstance(session, CombinedSession):
        doubts = (*doubts, over_sessions_line(session), *incomplete_sessions_line(session))
    return replace(found, doubts=doubts, warnings=tuple(warning_lines(findings_of_each_cell(session))))


def _not_counted(session: Session) -> Iterator[str]:
    """Yields how many runs do not count, by version."""
    if not is_compared(session):  # what failed is what it counts
        return
    counts = {
        version: _counted([
            sum(run.version == version and run.verdict is verdict for run in session.runs)
            for verdict in (Verdict.FAILED, Verdict.VOID)
        ])
        for version in session.versions
    }  # fmt: skip
    if found := [f"{version} {count}" for version, count in counts.items() if count]:
        yield f"Not counted: {'; '.join(_first_clauses(found))}."


def _first_reads(session: Session) -> Iterator[str]:
    """Yields how long the first cold start over each data directory took, in the order of the report."""
    read = [run for run in session.runs if run.extra is ExtraRun.FIRST_READ and run.verdict.as_asked]
    each: dict[str, str] = {}
    for version in session.versions:
        seconds = [main_value(session, run) for run in read if run.version == version]
        if known := [one for one in seconds if one is not None]:
            places = _decimals(min(known))
            texts = [f"{one:.{places}f}" for one in (min(known), max(known))]
            each[version] = f"{' to '.join(dict.fromkeys(texts))} s"
    if each:
        named = [f"{version} {text}" if len(each) > 1 else text for version, text in each.items()]
        yield f"First start over new files, not averaged: {', '.join(named)}."


def _limits(session: Session) -> Iterator[str]:
    """Yields for each limit of the session whether it was kept: those of the server, and those of its figures."""
    design = session.design
    if design.limits and session.runs:
        void = [run for run in session.runs if run.verdict is Verdict.VOID]
        broken = [run.number for run in void if run_exceeded(design.limits, run)]
        runs = f"run{'s' if len(broken) > 1 else ''} {fmt.number_ranges(broken)}"
        state = f"broken in {runs}, which {'do' if len(broken) > 1 else 'does'} not count" if broken else "kept"
        yield f"Limits of the server, {limits_text(design.limits)}: {state}."
    if design.max_startup is not None:
        slow = [run.number for run in session.runs if is_slow(run, design.max_startup)]
        state = f"broken in run{'s' if len(slow) > 1 else ''} {fmt.number_ranges(slow)}" if slow else "kept"
        yield f"No start above {design.max_startup:g} s: {state}."
    if design.fail_over is not None and len(session.versions) > 1:
        judged = judge_baseline(session, design.fail_over)
        texts = judged.exceeded or judged.undecided
        state = "broken" if judged.exceeded else "cannot tell" if judged.undecided else "kept"
        more = f": {'; '.join(_first_clauses(texts))}" if texts else ""
        yield f"At most {100 * design.fail_over:g} % worse than {baseline_of(session)}: {state}{more}."


def warning_lines(found: Sequence[Finding]) -> Iterator[str]:
    """Yields the most important warning, and how many there are of how many kinds."""
    kinds = Counter(finding.kind for finding in found)
    if not found:
        return
    first = found[0]
    same = kinds[first.kind] - 1
    also = f" (and {same} more of this kind)" if same else ""
    yield f"Warning, {first.about}: {first.text}{also}"
    if len(kinds) > 1:
        yield f"{fmt.count_text(len(found), 'warning')} in {len(kinds)} kinds."


def _precision(session: Session) -> Iterator[str]:
    """Yields whether the precision was reached. It is one of a session: over several, those that missed it are
    counted."""
    if session.design.precision is None or not any(run.verdict is Verdict.MEASURED for run in session.runs):
        return
    found = f"The precision of +- {100 * session.design.precision:g} % was"
    if isinstance(session, CombinedSession) and len(session.parts) > 1:
        missing = sum(any(cells_missing_precision(part.session)) for part in session.parts)
        yield f"{found} missed in {missing} of {len(session.parts)} sessions." if missing else f"{found} reached."
        return
    missed = [about for about, _ in cells_missing_precision(session)]
    cells = ", ".join(missed[:_MAX_CLAUSES])
    more = f" and {len(missed) - _MAX_CLAUSES} more" if len(missed) > _MAX_CLAUSES else ""
    yield f"{found} missed {scope(session)}: {cells}{more}." if missed else f"{found} reached {scope(session)}."


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


def _texts(about: Metric, first: float, *others: float | None) -> list[str]:
    """Formats values without their unit, and seconds with as many decimals as the first of them."""
    if about.unit != "s":
        return [fmt.column(about, value) for value in (first, *others)]
    return [f"{value or 0.0:.{_decimals(first)}f}" for value in (first, *others)]


def _range_text(about: Metric, low: float, high: float) -> str:
    """Formats a range, such as `39.8 to 52.2 s`, or its only value."""
    first, last = _texts(about, low, high)
    return f"{'' if low == high or first == last else f'{first} to '}{_with_unit(about, high, last)}"


def _mean_over_sessions(about: Metric, mean: float, low: float, high: float) -> str:
    """Formats a mean with its interval, such as `46.1 s (39.0-54.4)`."""
    figure, *ends = _texts(about, mean, low, high)
    return f"{_with_unit(about, mean, figure)} ({(' to ' if low < 0 else '-').join(ends)})"


def _with_unit(about: Metric, value: float, text: str) -> str:
    return f"{text} s" if about.unit == "s" else fmt.with_unit(about, value)


def _nothing(session: Session, version: str) -> str:
    runs = [run for run in session.runs if run.version == version]
    counts = tuple(sum(run.verdict is verdict for run in runs) for verdict in (Verdict.FAILED, Verdict.VOID))
    if not any(counts) and any(run.verdict is Verdict.SAMPLED for run in runs):
        return f"{version}: only runs that are not averaged, none was measured."
    reason = next((run.reason for run in runs if run.reason), None)
    left_out = f" ({_counted(counts)})" if any(counts) else ""
    return f"{version}: nothing was measured{left_out}" + (f": {reason.rstrip('.')}." if reason else ".")


def _counted(counts: Sequence[int]) -> str:
    kinds = zip(counts, ("failed", "void"), strict=True)
    return ", ".join(f"{number} {what} run{'s' if number > 1 else ''}" for number, what in kinds if number)


def _first_clauses(clauses: Sequence[str]) -> list[str]:
    """Returns the first clauses, and a last one that counts the others."""
    more = len(clauses) - _MAX_CLAUSES
    return [*clauses[:_MAX_CLAUSES], *((f"and {more} more in the tables",) if more > 0 else ())]


def _axis_value(session: Session, axis: Axis, ratio: VariantRatio) -> str:
    return session.values_of(ratio.variant)[axis.name]


def mean_text(summary: Summary) -> str:
    """Formats a mean with its interval: `64.0 s +- 1.4`, which has as many decimals, or `12,345 queries/s +- 245`."""
    about, mean = metric(summary.name), summary.mean or 0.0
    figure, low, high, error = _texts(about, mean, summary.min, summary.max, summary.interval)
    text = _with_unit(about, mean, figure)
    if fmt.passes_zero(summary):
        return f"{text} (runs of {low} to {_with_unit(about, summary.max or 0.0, high)})"
    if summary.low is not None and summary.high is not None:
        return _mean_over_sessions(about, mean, summary.low, summary.high)
    return text if summary.interval is None else f"{text} +- {error}"


def seconds_with_digits(seconds: float) -> str:
    """Formats seconds with three digits, such as `64.0 s`."""
    return f"{seconds:.{_decimals(seconds)}f} s"


def _decimals(seconds: float) -> int:
    if 0 < seconds < 0.0995:
        return 1 - math.floor(math.log10(seconds))
    return 0 if seconds >= 99.95 else 1 if seconds >= 9.995 else 2


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


# --- The rows


def _rows(context: _Context, columns: Sequence[str], *, unit: str = "") -> list[Row]:
    """Returns a row for each version and way to measure it. Its values are those of the states of the cache, or one,
    without the unit that all have."""
    session = context.session
    rows: list[Row] = []
    for version in session.versions:
        mine = _measured(context, version)
        if not mine:
            nothing = _nothing(session, version).removeprefix(f"{version}: ")
            rows.append(Row(version, (Value(nothing), *(None for _ in columns[1:])), (), version))
            continue
        by_key: dict[tuple[str, ...], dict[str, Summary]] = {}
        for summary in mine:
            cache = session.cache_of(summary.variant) or ""
            values = session.values_of(summary.variant)
            axes = [value_words(axis, values[axis.name]) for axis in session.differing_axes if axis.name in values]
            key = tuple(axes) if axes or session.has_caches else (summary.variant,)
            if cache in by_key.get(key, {}) or (not cache and not session.axes_tell_all_apart):
                key = (*axes, summary.variant)
            by_key.setdefault(key, {})[cache] = summary
        many = len(session.variant_names) > 1 or not session.has_caches
        for key, found in by_key.items():
            shown = [_value(found[name], unit) if name in found else None for name in columns]
            rows.append(Row(", ".join((version, *(key if many else ()))), tuple(shown), (), version))
    return rows


def _value(summary: Summary, unit: str) -> Value:
    text = mean_text(summary)
    return value_of(summary, text.replace(f" {unit}", "") if unit else text)


def _with_facts(answer: Answer, facts: Mapping[str, Callable[[Cell], str]]) -> Answer:
    """Returns the answer with these facts beside the rows: of the first value of each. Those without any are left
    out."""
    cells = [next((value.cell for value in row.values if value and value.cell), None) for row in answer.rows]
    found = {name: tuple("" if cell is None else of(cell) for cell in cells) for name, of in facts.items()}
    kept = {name: texts for name, texts in found.items() if any(texts)}
    rows = [
        replace(row, facts=tuple(texts[number] for texts in kept.values())) for number, row in enumerate(answer.rows)
    ]
    return replace(answer, facts=tuple(kept), rows=tuple(rows))


# --- Loads and other tasks: in words that depend on the metric and the axes only


def _load_answer(context: _Context) -> Answer:
    """Returns the figures of all cells, and what differs most: along the axes, and between versions."""
    session = context.session
    effects, versions = all_variant_ratios(session), compared_with_baseline(session)
    costs = pending_costs(session)
    measured = [summary for summary in context.summaries if summary.count]
    metrics = list(dict.fromkeys(summary.name for summary in measured))
    unit = _unit_of(metric(metrics[0])) if len(metrics) == 1 else ""
    rows = _rows(context, ("",), unit=unit)
    comparison, named = _effects(session, () if costs else effects, () if costs else versions)
    shown, left_out = chosen(rows, (*named, *_base_cells(context)))
    counted = _mean_of_runs(session, measured, " +- 95 % interval{}") if measured else ""
    return Answer(
        title=_title(session, counted) if measured else "",
        columns=("",),
        unit=unit,
        rows=shown,
        left_out=left_out,
        comparison=tuple(comparison),
        cause=tuple(f"{version}: {'; '.join(clauses)}." for version, clauses in costs.items()),
    )


def _base_cells(context: _Context) -> Iterator[Cell]:
    for version in context.session.versions:
        if measured := _measured(context, version):
            yield from ((version, summary.variant) for summary in _at_base(context.session, measured))


def _unit_of(about: Metric) -> str:
    """Returns what follows each figure of a load, which a table has in its head."""
    return "" if about.unit in ("s", "B", "B/s") else about.label if about.unit in ("/s", "") else about.unit


def _effects(
    session: Session, effects: Sequence[VariantRatio], versions: Sequence[Summary]
) -> tuple[list[str], list[Cell]]:
    """Returns the significant differences, the largest first, how many are not significant, and the cells of those that
    are named."""
    base = baseline_of(session)

    def of_version(summary: Summary) -> str:
        contrast = _contrast_text(metric(summary.name), summary)
        cell = cell_words(session, summary.variant) if len(session.variant_names) > 1 else ""
        return f"{summary.version} instead of {base}: {contrast}{_for(cell)}"

    def of_axis(effect: VariantRatio) -> str:
        named = f"{effect.version}, " if len(session.versions) > 1 else ""
        return f"{named}{_effect_text(session, effect)}"

    made: list[tuple[VariantRatio | Summary, str, tuple[Cell, Cell]]] = [
        *((one, of_axis(one), ((one.version, one.variant), (one.version, one.base_variant))) for one in effects),
        *((one, of_version(one), ((one.version, one.variant), (base, one.variant))) for one in versions),
    ]
    known = [found for found in made if found[0].significant is not None]
    sure = sorted(
        (found for found in known if found[0].significant), key=lambda found: effect_size(found[0]), reverse=True
    )
    lines = [f"{text}." for _, text, _ in sure[:_MAX_CLAUSES]]
    if len(sure) > _MAX_CLAUSES:
        more = fmt.count_text(len(sure) - _MAX_CLAUSES, "more significant difference")
        lines.append(f"{more} in the tables.")
    open_ones = [found for found in known if not found[0].significant]
    together = ", all taken together" if any(found[0].differs for found in open_ones) else ""
    if len(open_ones) == 1:
        lines.append(f"{open_ones[0][1]}, not significant{together}.")
    elif open_ones:
        of = f"{len(open_ones)} of {len(known)}" if sure else f"{len(open_ones)}"
        lines.append(f"No significant difference in {of} comparisons{together}.")
    if made and not known:
        lines.append(f"No effect is claimed: {_needed(session)}.")
    return lines, [cell for _, _, cells in sure[:_MAX_CLAUSES] for cell in cells]


def _at_base(session: Session, measured: Sequence[Summary]) -> list[Summary]:
    """Returns the cells at the base of all axes, or all cells if none is."""
    bases = {axis.name: axis.base for axis in session.axes if axis.base is not None}
    return [
        summary
        for summary in measured
        if all(session.value_of(summary.variant, axis) in (base, None) for axis, base in bases.items())
    ] or list(measured)


def _for(cell: str) -> str:
    return f" for {cell}" if cell else ""


def _effect_text(session: Session, effect: VariantRatio) -> str:
    """Formats an effect with its cell: `threads 8 instead of 1: 1.42 (1.35 to 1.50) times the queries/s for a load`."""
    axis = next(axis for axis in session.axes if axis.name == effect.axis)
    changed = f"{value_words(axis, _axis_value(session, axis, effect))} instead of {axis.base}"
    contrast = _contrast_text(metric(session.metric_of(effect.variant)), effect)
    return f"{changed}: {contrast}{_for(cell_without_base(session, effect.variant, without=axis.name))}"


def _contrast_text(about: Metric, contrast: Contrast) -> str:
    if contrast.ratio is None:
        return f"{fmt.effect(contrast)} {about.label if about.unit in ('/s', '') else about.unit}"
    return f"{fmt.effect(contrast)} times {'as long' if about.unit == 's' else f'the {about.label}'}"


def _needed(session: Session) -> str:
    """Returns what an interval needs."""
    return f"{MIN_RUNS} {'sessions' if isinstance(session, CombinedSession) else 'runs'} of each are needed"


# --- Timed starts: how long they take, the comparison, and what takes the time

_EXPLAINED = 0.9
"""Share of a start that the phases of its answer explain, or the answer says what is not named."""
_MAX_PHASES = 4
_MANY_TABLES = 5000
"""Number of tables from which on reads are given for each table. With fewer, most reads are of other files."""


def _start_answer(context: _Context) -> Answer:
    """Returns the seconds of each server by state of the cache, one comparison, and what takes the time."""
    session = context.session
    measured = [summary for summary in context.summaries if summary.count]
    caches = list(dict.fromkeys(session.cache_of(summary.variant) or "" for summary in measured)) or [""]
    rows = _rows(context, caches)
    comparison, named = _start_comparison(context, measured)
    shown, left_out = chosen(rows, named)
    answer = Answer(
        title=_title(session, *_conditions(context, measured)) if measured else "",
        columns=tuple(f"{cache}, not proved warm" if cache == SECOND_START else cache for cache in caches),
        rows=shown,
        left_out=left_out,
        comparison=tuple(comparison),
        cause=(*_reason(context, measured), *_redo_read(context, measured), *_predicted(session, measured)),
    )
    traced = traced_runs(session)
    return _with_facts(
        answer,
        {
            "opens": lambda cell: _opened(traced.get(cell, ())),
            **_reads_fact(context),
        },
    )


def _title(session: Session, *words: str) -> str:
    """Returns what the figures are, in which session, on which host and with which storage."""
    where, storage = on_host(session), speed_words(session)
    about = ", ".join(filter(None, words))
    return f"{session.title} {where}{f': {about}' if about else ''}{f' ({storage})' if storage else ''}"


def _opened(runs: Sequence[Run]) -> str:
    """Returns how many tablespaces these traced starts opened, or `all`."""
    opened = mean(run.opened_files.tablespaces_opened for run in runs)
    tables = mean(run.contents.tables_found for run in runs)
    if opened is None:
        return ""
    return "all" if tables and opened >= tables else f"{opened:,.0f}"


def _reads_fact(context: _Context) -> dict[str, Callable[[Cell], str]]:
    """Returns the requests and bytes of a start as a fact: for each table if all starts had many, or all of them."""
    runs = [run for found in context.measured.values() for run in found]
    is_of_each = all((run.contents.tables_found or 0) >= _MANY_TABLES for run in runs)

    def text(cell: Cell) -> str:
        found = context.measured[cell]
        tables = mean(run.contents.tables_found for run in found) if is_of_each else 1.0
        size, requests = mean(run.metrics.get("read_bytes") for run in found), own_read_requests(context.session, found)
        if not tables or size is None:
            return ""
        each = "" if requests is None else f"{requests:,.0f}, "
        if requests is not None and is_of_each:
            each = f"{requests / tables:.{3 if requests >= tables else 2}g}, "
        return f"{each}{fmt.size(round(size / tables))}"

    return {"reads a table" if is_of_each else "reads": text}


def _conditions(context: _Context, measured: Sequence[Summary]) -> tuple[str, str]:
    """Returns the number of tables, where it is the same for all, and of how many runs the figures are."""
    runs = [run for summary in measured for run in context.measured[summary.version, summary.variant]]
    tables = {run.contents.tables_found for run in runs}
    proper = [summary for summary in measured if not context.session.is_second_start(summary.variant)] or measured
    number = tables.pop() if len(tables) == 1 else None
    tables_text = "" if number is None else fmt.count_text(number, "table")
    return tables_text, _mean_of_runs(context.session, proper, " +- 95 % interval{}")


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


def _start_comparison(context: _Context, measured: Sequence[Summary]) -> tuple[list[str], list[Cell]]:
    """Returns the comparison of the slowest and the fastest version, or of a single version's variants, with the cells
    that it names.

    It is of the first variant that several versions have, so usually of cold starts."""
    proper = [summary for summary in measured if not context.session.is_second_start(summary.variant)]
    for variant in dict.fromkeys(summary.variant for summary in proper):
        same = [summary for summary in proper if summary.variant == variant]
        if len(same) > 1:
            ends = compare_ends(context.session, same)
            lines = list(_faster(context, same, lambda summary: summary.version, f", {variant}"))
            return lines, [(one.version, one.variant) for one in (ends.fast, ends.slow)]
    settings = settings_axis(context.session)
    if settings is not None and proper:
        found = [one for one in variant_ratios(context.session, settings) if one.base_variant == proper[0].variant]
        return _effects(context.session, found, ())
    return list(_faster(context, proper, lambda summary: f"The {summary.variant} start", "")), []


def settings_axis(session: Session) -> Axis | None:
    """Returns the axis of the settings that the user named, if they are compared."""
    return next((axis for axis in session.differing_axes if axis.name == SETTINGS_AXIS and axis.base), None)


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
        storage = f", {storage_name(context.session)}" if dependent_pairs(context.session, [pair]) else ""
        yield f"{name(fast)} {verb} {times} than {_inside(name(slow))}{where}{storage}."


def _inside(name: str) -> str:
    """Returns a name as it is written inside a sentence."""
    return name.replace("The ", "the ", 1)


def _reason(context: _Context, measured: Sequence[Summary]) -> Iterator[str]:
    """Yields what takes the time of the slowest start."""
    slow = slowest_start(context.session, measured)
    means = context.phases.get((slow.version, slow.variant), {}) if slow is not None else {}
    if slow is None or not means:
        return
    runs = context.measured[slow.version, slow.variant]
    estimated = phase_table.estimated_phases((run.startup.phases for run in runs), means)
    taken = _time_taken(slow.mean or 0.0, phase_table.of_the_start(means), estimated)
    files = _files_opened(traced_runs(context.session).get((slow.version, slow.variant), ()))
    yield f"{slow.version} {slow.variant}: {taken}{files}."
    if phase_table.has_hidden_phases(means):
        yield "The log shows more phases with log_error_verbosity=3, the tool's default."
    if after := {name: seconds for name, seconds in means.items() if phase_table.is_after_the_start(name)}:
        longest = sorted(after, key=lambda name: -after[name])[:_MAX_PHASES]
        texts = [f"{seconds_with_digits(after[name])} {name}" for name in longest]
        yield f"First queries after that: {', '.join(texts)}."


def _files_opened(runs: Sequence[Run]) -> str:
    """Returns how many of the opened tablespaces were modified before the kill."""
    opened = mean(run.opened_files.tablespaces_opened for run in runs)
    modified = mean(run.opened_files.tablespaces_modified for run in runs)
    return (
        "" if not opened or modified is None else f"; {modified:,.0f} of {opened:,.0f} opened tablespaces are modified"
    )


def _time_taken(whole: float, means: Mapping[str, float], estimated: Container[str]) -> str:
    """Returns the longest phases of a start until they explain enough of it, and what the others leave."""
    unnamed = max(0.0, whole - sum(means.values())) + means.get(phase_table.UNNAMED, 0.0)
    named = sorted((name for name in means if name != phase_table.UNNAMED), key=lambda name: -means[name])
    shown: list[str] = []
    while len(shown) < min(len(named), _MAX_PHASES) and sum(means[name] for name in shown) < _EXPLAINED * whole:
        shown.append(named[len(shown)])
    figures = [fmt.estimate(seconds_with_digits(means[name]), name in estimated) for name in shown]
    explained = sum(means[name] for name in shown)
    if len(shown) == 1:
        text = f"{figures[0].removesuffix(' s')} of {seconds_with_digits(whole)} are {shown[0]}"
    else:
        texts = [f"{figure} {name}" for figure, name in zip(figures, shown, strict=True)]
        text = " ".join(filter(None, (_joined_words(texts), f"of {seconds_with_digits(whole)}")))
    if explained >= _EXPLAINED * whole:
        return text
    shorter = sum(means[name] for name in named[len(shown) :])
    rest = [f"{seconds_with_digits(shorter)} in {fmt.count_text(len(named) - len(shown), 'shorter phase')}"] * (
        len(named) > len(shown)
    )
    if unnamed > (1 - _EXPLAINED) * whole:
        rest.append(f"{seconds_with_digits(unnamed)} between lines of the log that do not show what the server did")
    return f"{text}; {', '.join(rest)}" if rest else text


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


# --- Growth


def _growth_answer(context: _Context) -> Answer:
    """Returns the seconds for each number of tables, and the form and the prediction of each curve."""
    session, curves = context.session, growth_curves(context.session)
    error = " +- 95 % intervals" if any(summary.interval is not None for summary in context.summaries) else ""
    if error and is_over_sessions(session):
        error = " (95 % intervals)"
    caches = tuple(dict.fromkeys(session.cache_of(summary.variant) or "" for summary in context.summaries))
    rows = _rows(context, caches)
    named = [_named_by_tables(context, row) for row in rows]
    shown, left_out = chosen(named, [])
    return _with_facts(
        Answer(
            title=_title(session, f"means{error} {scope(session)}"),
            columns=caches,
            rows=shown,
            left_out=left_out,
            comparison=tuple(_growth(session, curve) for curve in sorted(curves, key=_largest_s, reverse=True)),
        ),
        {"ms a table": lambda cell: _per_table(context, cell)},
    )


def _per_table(context: _Context, cell: Cell) -> str:
    found = [(run.metrics.get(STARTUP_METRIC), run.contents.tables_found) for run in context.measured[cell]]
    each = mean(1000 * seconds / tables for seconds, tables in found if seconds is not None and tables)
    return "" if each is None else f"{each:.3g}"


def _named_by_tables(context: _Context, row: Row) -> Row:
    """Returns the row with the number of tables that its starts found as its name."""
    cell = next((value.cell for value in row.values if value and value.cell), None)
    tables = mean(run.contents.tables_found for run in context.measured.get(cell, ())) if cell else None
    return row if tables is None else replace(row, name=f"{row.version}, {tables:,.0f} tables")


def _largest_s(curve: Curve) -> float:
    _, runs = curve.points[-1]
    return mean(run.metrics.get(STARTUP_METRIC) for run in runs) or 0.0


def _growth(session: Session, curve: Curve) -> str:
    """Returns what each table adds to a start, and what is predicted from it."""
    named = f"{curve.version} {session.cache_of(curve.variant) or curve.variant}"
    found, requested = curve.fit, session.design.predict
    if found is None:
        return f"{named}: {LINE_NEEDS}."
    step = found if found.form == LINE else found.steepest_step(curve.between)
    error = "" if step.per_table_error_s is None else f" +- {1000 * step.per_table_error_s:.2g}"
    each = f"{1000 * step.per_table_s:.3g}{error} ms for each table"
    if isinstance(step, LineFit):
        line = "fits" if found.called == LINE else "cannot be told from a curve"
        text = f"a straight line {line}: {seconds_with_digits(max(0.0, found.fixed_s))} and {each}"
    else:
        over = f", with the spread between {curve.between.sessions} sessions" if curve.between and error else ""
        text = f"no straight line fits: up to {each}, from {step.start:,.0f} to {step.end:,.0f} tables{over}"
    predicted = "" if requested is None else f"; {_prediction(curve, found.predict(requested), requested)}"
    return f"{named}: {text}{predicted}."


def _prediction(curve: Curve, found: Prediction, tables: int) -> str:
    """Returns the prediction with its error at the largest point. It has no figure if that error is too large."""
    tested, test = curve.held_out, f"not tested: {TEST_NEEDS}"
    if tested is not None:
        off = "" if tested.off is None else f", {fmt.whole_percent(abs(tested.off))} "
        side = "" if tested.off is None else f"{'above' if tested.off >= 0 else 'below'} its prediction"
        test = f"tested at {tested.tables:,}: {seconds_with_digits(tested.measured_s)} measured{off}{side}"
    if curve.predicts is False:
        return f"no prediction for {tables:,} ({test})"
    interval = f" ({' to '.join(map(seconds_with_digits, found.interval))})" if found.interval else ""
    return f"predicted with {tables:,}: {seconds_with_digits(found.seconds)}{interval}, {test}"
