"""Builds the tables of metrics: the main metric of each cell, its comparisons across versions and axes, every run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from recovery.analysis.history import cell_histories
from recovery.analysis.statistics import MIN_RUNS, MIN_SESSIONS
from recovery.analysis.summary import (
    MIN_VERSIONS_FOR_PAIRS,
    Cell,
    Group,
    Summary,
    VariantRatio,
    VersionRatio,
    baseline_of,
    cell_words,
    compared_with_baseline,
    count_version_comparisons,
    groups,
    is_switch,
    main_metrics,
    main_value,
    metric_means,
    metric_value,
    summarise,
    value_words,
    variant_ratios,
    version_pairs,
    version_ratios,
)
from recovery.analysis.warnings import doubts_by_cell
from recovery.metrics import Metric, metric
from recovery.model import SETTINGS_AXIS, Axis, ExtraRun, Limits, Run, Session, Table, Verdict
from recovery.report import fmt
from recovery.report.fmt import explanations, related_metrics
from recovery.report.host_words import is_over_sessions, scope, storage_note
from recovery.report.settings_tables import cold_cache_notes, page_cache_notes, runs_by_value

# --- Ratios between pairs of versions, one column for each pair


def pair_header(pair: tuple[str, str]) -> str:
    """Returns the column header of a pair of versions, such as `8.0.31 / 5.7.22`."""
    return " / ".join(pair)


def pair_tables(session: Session) -> Iterator[Table]:
    """Yields tables with a column for each pair of versions. Only the last table has the notes, which apply to all."""
    found = {(ratio.variant, ratio.version, ratio.base_version): ratio for ratio in version_ratios(session)}
    made = [table for group in groups(session) if (table := _pairs_table(session, group, found)).rows]
    yield from (replace(table, notes=()) for table in made[:-1])
    yield from made[-1:]


def _pairs_table(session: Session, group: Group, found: dict[tuple[str, str, str], VersionRatio]) -> Table:
    about, pairs = metric(group.metric), version_pairs(session.versions)
    # The key columns of a cell, without the version.
    named = fmt.key_headers(session, group)[1:] or ("cell",)
    rows = [variant for variant in group.variants if any((variant, *pair) in found for pair in pairs)]
    return Table(
        title=fmt.group_title(f"Versions compared: {about.label}", group),
        headers=(*named, *map(pair_header, pairs)),
        rows=tuple(
            (*_cell_keys(session, group, variant), *(_pair_factor(found.get((variant, *pair))) for pair in pairs))
            for variant in rows
        ),
        numeric=(*(fmt.numeric_columns(session, group)[1:] or (False,)), *(True,) * len(pairs)),
        notes=(
            _ratio_note(about, "the earlier version", [ratio.significant for ratio in found.values()]),
            *storage_note(session, (((version, variant), (base, variant)) for variant, version, base in found)),
            *fmt.together_notes(count_version_comparisons(session)),
        ),
        keys=len(named),
    )


def _ratio_note(about: Metric, base: str, significant: Sequence[bool | None] = (True,)) -> str:
    """Returns the note on columns of ratios of means. `significant` has for each of them whether it is, or None if it
    has no interval. The sign (=) is explained only if a ratio has it."""
    better = "" if about.more_is_better is None else f"; {'above' if about.more_is_better else 'below'} 1 is better"
    interval = ", with its 95 % interval" if any(value is not None for value in significant) else ""
    sign = " (=): not significant." if False in significant else ""
    return f"Ratio of the mean to that of {base}{better}{interval}.{sign}"


def _cell_keys(session: Session, group: Group, variant: str) -> tuple[str, ...]:
    return fmt.key_cells(session, group, ("", variant))[1:] or (group.name or variant,)


def _pair_factor(ratio: VersionRatio | VariantRatio | None) -> str:
    return fmt.effect(ratio) + (" (=)" if ratio is not None and ratio.significant is False else "")


# --- Earlier sessions of the same host and design


def earlier_table(session: Session) -> Table | None:
    """Returns the table of the earlier sessions of each cell; None if there are none."""
    rows = []
    for cell in cell_histories(session):
        about, over = metric(session.metric_of(cell.variant)), cell.over_all
        low, high = cell.range
        mean, interval = fmt.ABSENT, fmt.ABSENT
        if over is not None and over.interval is not None:
            mean = fmt.column(about, over.mean)
            interval = "-".join(fmt.column(about, end) for end in over.interval)
        name = f"{cell_words(session, cell.variant)}, {about.label}"
        counts = map(str, cell.sessions_and_days)
        rows.append((cell.version, name, *counts, fmt.column(about, low), fmt.column(about, high), mean, interval))
    if not rows:
        return None
    return Table(
        title="Earlier sessions on this host",
        headers=("version", "mean of", "sessions", "days", "smallest", "largest", "over all", "95 % interval"),
        rows=tuple(rows),
        numeric=(False, False, True, True, True, True, True, True),
        notes=(
            "Sessions of the same experiment, server, tables, options and limits. over all: geometric mean of their "
            f"means and this session's, from {MIN_SESSIONS} sessions on, or the arithmetic one if any is zero.",
            *_few_runs_note(session),
        ),
        keys=2,
    )


def _few_runs_note(session: Session) -> Iterator[str]:
    """Yields how many earlier sessions have too few runs for an interval of their own."""
    few = {earlier.session for earlier in session.earlier if earlier.count < MIN_RUNS}
    if few:
        has = "has" if len(few) == 1 else "have"
        yield f"Each session is one value, however few runs it has: {len(few)} {has} fewer than {MIN_RUNS} of a cell."


# --- Versions compared with the baseline, and the effect of each axis, with confidence intervals

OFF_VALUES = frozenset({"off", "false", "no"})
LOAD_CACHE_MISSES = "load_table_open_cache_misses_per_s"
"""Table cache misses of the load's connections. They show whether a loss was caused through the table cache."""
_CACHE_MISSES_NOTE = (
    "more misses/s: additional misses of the table cache by the load's own connections. A loss without them has "
    "another cause."
)


def version_tables(session: Session) -> Iterator[Table]:
    """Yields the comparisons between versions: each pair if there are three versions, every version with the baseline
    if there are two, and both if there are more than three. A session with one version has none."""
    if len(session.versions) >= MIN_VERSIONS_FOR_PAIRS:
        yield from pair_tables(session)
    if len(session.versions) == MIN_VERSIONS_FOR_PAIRS:
        return
    compared = compared_with_baseline(session)
    found = {(summary.version, summary.variant): summary for summary in compared}
    means = metric_means(session)
    base = baseline_of(session)
    parts = [(group, [found[cell] for cell in _order(session, group) if cell in found]) for group in groups(session)]
    made = [
        _comparison_table(session, group, base, [(summary, (base, summary.variant)) for summary in rows], means)
        for group, rows in parts
        if rows
    ]
    yield from (replace(table, notes=()) for table in made[:-1])
    pairs = [((summary.version, summary.variant), (base, summary.variant)) for summary in compared]
    # With more versions, the tables of pairs have it.
    on_storage = storage_note(session, pairs) if len(session.versions) < MIN_VERSIONS_FOR_PAIRS else ()
    together = fmt.together_notes(count_version_comparisons(session))
    yield from (replace(table, notes=(*table.notes, *on_storage, *together)) for table in made[-1:])


def _order(session: Session, group: Group) -> list[Cell]:
    return [(version, variant) for version in session.versions for variant in group.variants]


def _comparison_table(
    session: Session,
    group: Group,
    base: str,
    rows: Sequence[tuple[Summary | VariantRatio, Cell]],
    means: Mapping[Cell, float | None],
) -> Table:
    """Returns a table with a row for each comparison. `base` names what all are compared with, a version or a value;
    `rows` also have the cell of each that it is."""
    about = metric(group.metric)
    named = fmt.key_headers(session, group)
    return Table(
        title=fmt.group_title(f"Compared with {base}: {about.label}", group),
        headers=(*named, "mean", f"of {base}", "ratio", "significant"),
        rows=tuple(
            (
                *fmt.key_cells(session, group, (compared.version, compared.variant)),
                fmt.column(about, means[compared.version, compared.variant]),
                fmt.column(about, means[base_cell]),
                fmt.effect(compared),
                fmt.verdict(about, compared),
            )
            for compared, base_cell in rows
        ),
        numeric=(*fmt.numeric_columns(session, group), *(True,) * 3, False),
        notes=(_ratio_note(about, base),),
        keys=len(named),
    )


def axis_tables(session: Session) -> Iterator[Table]:
    """Yields a table for each axis that has a base, in each group that differs along it."""
    for group in groups(session):
        for axis in group.axes:
            every = variant_ratios(session, axis)
            together = fmt.together_notes(
                sum(ratio.significant is not None for ratio in every), along=f" along {axis.name}"
            )
            ratios = [ratio for ratio in every if ratio.variant in group.variants]
            for of_base, alike in _by_base(session, axis, ratios):
                made = _axis_table(session, group, of_base, alike)
                pairs = [((ratio.version, ratio.variant), (ratio.version, ratio.base_variant)) for ratio in alike]
                yield replace(made, notes=(*made.notes, *storage_note(session, pairs), *together))


def _by_base(
    session: Session, axis: Axis, ratios: Sequence[VariantRatio]
) -> Iterator[tuple[Axis, Sequence[VariantRatio]]]:
    """Yields the ratios to each value of an axis, with the axis that has it as its base. It is the same for all, unless
    hosts measured different versions."""
    found: dict[str | None, list[VariantRatio]] = {}
    for ratio in ratios:
        found.setdefault(session.value_of(ratio.base_variant, axis.name), []).append(ratio)
    for base, alike in found.items():
        used = {base, *(session.value_of(ratio.variant, axis.name) for ratio in alike)}
        values = axis.values if base == axis.base else tuple(value for value in axis.values if value in used)
        yield replace(axis, base=base, values=values), alike


def _axis_table(session: Session, group: Group, axis: Axis, ratios: Sequence[VariantRatio]) -> Table:
    if axis.name == SETTINGS_AXIS:
        rows = [(ratio, (ratio.version, ratio.base_variant)) for ratio in ratios]
        return _comparison_table(session, group, str(axis.base), rows, metric_means(session))
    switched = is_switch(axis) and axis.base is not None and axis.base.lower() in OFF_VALUES
    return (_switch_cost_table if switched else _axis_factor_table)(session, group, axis, ratios)


def lost_word(about: Metric) -> str:
    """Returns the word for a change for the worse: seconds are `added`, queries are `lost`."""
    return "added" if about.more_is_better is False else "lost"


def lost_share(about: Metric, ratio: float | None) -> float | None:
    """Returns which share was lost (or added, if less is better) at this ratio."""
    if ratio is None:
        return None
    return ratio - 1 if about.more_is_better is False else 1 - ratio


def lost_interval(about: Metric, ratio: VariantRatio) -> str:
    """Formats the 95 % interval of the lost share, such as `12.1 to 20.3 %`."""
    ends = [share for end in (ratio.ratio_low, ratio.ratio_high) if (share := lost_share(about, end)) is not None]
    return f"{100 * min(ends):.1f} to {100 * max(ends):.1f} %" if ends else fmt.ABSENT


def _switch_cost_table(session: Session, group: Group, axis: Axis, ratios: Sequence[VariantRatio]) -> Table:
    """Returns the table for a switch that is off at its base: what switching it on costs, in percent."""
    about, word = metric(group.metric), lost_word(metric(group.metric))
    means = metric_means(session)
    on = " or ".join(value_words(axis, value) for value in axis.values if value != axis.base)
    off = value_words(axis, str(axis.base))
    named = fmt.key_headers(session, group, without=(axis.name,))
    missed = {cell: value for cell, value in metric_means(session, LOAD_CACHE_MISSES).items() if value is not None}
    why = ("more misses/s",) if missed else ()
    return Table(
        title=fmt.group_title(f"{word.capitalize()} by {on}: {about.label}", group),
        headers=(*named, off, on, word, "95 % interval", "significant", *why),
        rows=tuple(
            (
                *fmt.key_cells(session, group, (ratio.version, ratio.variant), without=(axis.name,)),
                fmt.column(about, means[ratio.version, ratio.base_variant]),
                fmt.column(about, means[ratio.version, ratio.variant]),
                fmt.percent(lost_share(about, ratio.ratio)),
                lost_interval(about, ratio),
                fmt.verdict(about, ratio),
                *(fmt.column(metric(LOAD_CACHE_MISSES), _additional_misses(missed, ratio)) for _ in why),
            )
            for ratio in ratios
        ),
        numeric=(*fmt.numeric_columns(session, group, without=(axis.name,)), *(True,) * 4, False, *(True,) * len(why)),
        notes=(
            f"{word}: by how much the mean with {on} is {'above' if word == 'added' else 'below'} that with {off}.",
            *((_CACHE_MISSES_NOTE,) if missed else ()),
        ),
        keys=len(named),
    )


def _additional_misses(means: Mapping[Cell, float], ratio: VariantRatio) -> float | None:
    on, off = means.get((ratio.version, ratio.variant)), means.get((ratio.version, ratio.base_variant))
    return None if on is None or off is None else on - off


def _axis_factor_table(session: Session, group: Group, axis: Axis, ratios: Sequence[VariantRatio]) -> Table:
    """Returns the table for any other axis, with a row for each base cell and a column for each other value."""
    about = metric(group.metric)
    means = metric_means(session)
    found = {
        (ratio.version, ratio.base_variant, session.values_of(ratio.variant)[axis.name]): ratio for ratio in ratios
    }
    values = [value for value in axis.values if value != axis.base]
    rows = list(dict.fromkeys((ratio.version, ratio.base_variant) for ratio in ratios))
    named = fmt.key_headers(session, group, without=(axis.name,))
    return Table(
        title=fmt.group_title(f"{axis.name}: {about.label}, ratio to {axis.base}", group),
        headers=(*named, f"mean at {axis.base}", *values),
        rows=tuple(
            (
                *fmt.key_cells(session, group, row, without=(axis.name,)),
                fmt.column(about, means[row]),
                *(_pair_factor(found.get((*row, value))) for value in values),
            )
            for row in rows
        ),
        numeric=(*fmt.numeric_columns(session, group, without=(axis.name,)), *(True,) * (1 + len(values))),
        notes=(_ratio_note(about, f"{axis.name} {axis.base}", [ratio.significant for ratio in ratios]),),
        keys=len(named),
    )


# --- Summary of the session's main metric for each version and cell, with related metrics


def summary_tables(session: Session) -> Iterator[Table]:
    doubts = doubts_by_cell(session)
    found = {(summary.version, summary.variant): summary for summary in summarise(session)}
    parts = groups(session)
    # Notes that apply to all tables of a metric are only below the last of them.
    last = {group.metric: group for group in parts}
    for group in parts:
        rows = [found[cell] for cell in _order(session, group) if cell in found and found[cell].has_runs]
        table = _summary_table(session, group, rows)
        of_means = (" ".join(doubts.get((summary.version, summary.variant), ())) for summary in rows)
        yield replace(
            table,
            doubts=tuple(tuple(text if name == "mean" else "" for name in table.headers) for text in of_means),
            notes=(
                *_left_out_notes(rows),
                *(_metric_notes(session, group) if group is last[group.metric] else ()),
                *(_summary_notes(session) if group is parts[-1] else ()),
            ),
        )


def _summary_notes(session: Session) -> Iterator[str]:
    zero = "; none where it would pass zero: see min and max" if any(map(fmt.passes_zero, summarise(session))) else ""
    if is_over_sessions(session):
        yield (
            f"mean: geometric mean of the sessions' means, or the arithmetic one if any is zero; 95 %: its interval "
            f"{scope(session)}, by Student's t, from {MIN_SESSIONS} sessions on{zero}."
        )
    else:
        yield f"+-: half of the 95 % interval {scope(session)}, by Student's t, from {MIN_RUNS} runs on{zero}."
    yield from _first_read_note(session)
    if session.has_caches:
        from recovery.report.startup_tables import warm_notes

        yield from warm_notes(session)
    yield from fmt.server_spelling_notes(session)


def _first_read_note(session: Session) -> Iterator[str]:
    """Yields how long the first read of each data directory took."""
    read = [run for run in session.runs if run.extra is ExtraRun.FIRST_READ and run.verdict.as_asked]
    if not read:
        return
    found = [run for version in session.versions for run in read if run.version == version]
    is_one_each = len({run.version for run in found}) == len(found)
    names = [run.version if is_one_each else f"{run.version} {cell_words(session, run.variant)}" for run in found]
    each = (f"{name} {fmt.seconds(main_value(session, run))} s" for name, run in zip(names, found, strict=True))
    yield f"First cold start over each data directory, before the others and not averaged: {', '.join(each)}."


def _metric_notes(session: Session, group: Group) -> Iterator[str]:
    main, related = metric(group.metric), related_metrics(session, group.metric)
    better = fmt.which_is_better(main)
    yield f"{main.label}: {main.note or main.unit}.{f' {better}.' if better else ''}"
    if more := explanations(related):
        yield f"Means. {more}"


def _left_out_notes(rows: Sequence[Summary]) -> Iterator[str]:
    parts = [
        f"{summary.version} {summary.variant} {number} {what}"
        for summary in rows
        for number, what in ((summary.failed, "failed"), (summary.void, "void"))
        if number
    ]
    if parts:
        yield f"Not counted: {', '.join(parts)}."


def _summary_table(session: Session, group: Group, rows: Sequence[Summary]) -> Table:
    about, more = metric(group.metric), related_metrics(session, group.metric)
    means = {other.name: metric_means(session, other.name) for other in more}
    named, error = fmt.key_headers(session, group), "95 %" if is_over_sessions(session) else "+-"
    return Table(
        title=fmt.group_title(f"{session.title}: {about.label}", group),
        headers=(*named, "runs", "mean", error, "median", "min", "max", *(other.label for other in more)),
        rows=tuple(
            (
                *fmt.key_cells(session, group, (summary.version, summary.variant)),
                str(summary.count),
                fmt.column(about, summary.mean),
                fmt.ABSENT if fmt.passes_zero(summary) else fmt.interval_column(about, summary),
                *(fmt.column(about, value) for value in (summary.median, summary.min, summary.max)),
                *(fmt.column(other, means[other.name][summary.version, summary.variant]) for other in more),
            )
            for summary in rows
        ),
        numeric=(*fmt.numeric_columns(session, group), *(True,) * (6 + len(more))),
        keys=len(named),
    )


# --- Every run, counted or not


def runs_table(session: Session) -> Table:
    limits = session.design.limits
    shown = _run_metrics(session, limits)
    return Table(
        title="Every run",
        headers=("#", "version", "cell" if session.axes else "variant", *(about.label for about in shown), "verdict"),
        rows=tuple(
            (
                str(run.number),
                run.version,
                cell_words(session, run.variant),
                *(fmt.column(about, metric_value(run, about.name)) for about in shown),
                run.verdict_words,
            )
            for run in session.runs
        ),
        numeric=(True, False, False, *(True,) * len(shown), False),
        notes=(*_run_notes(session, shown, limits),),
        keys=3,
    )


def _run_metrics(session: Session, limits: Limits) -> list[Metric]:
    """Returns the main metrics and those related to them. What is limited has a column as well."""
    names: list[str] = []
    for main in main_metrics(session):
        names += [main, *(related.name for related in related_metrics(session, main, every_run=True))]
    limited = (
        ("reads_per_s", limits.read_iops),
        ("read_bytes_per_s", limits.read_bps),
        ("group_memory_bytes", limits.memory_bytes),
    )
    names += [name for name, limit in limited if limit is not None]
    return [metric(name) for name in dict.fromkeys(names)]


def _run_notes(session: Session, shown: Sequence[Metric], limits: Limits) -> Iterator[str]:
    """Yields the notes on columns, then facts that apply to several runs and so have no separate column."""
    runs = session.runs
    if any(about.of_run for about in shown):
        yield explanations(shown)
        if limits.read_iops is not None or limits.read_bps is not None:
            yield "requests: of the server's control group, as the limit counts them, before they are merged."
    for means, numbers in runs_by_value((run.cold.means, run.number) for run in runs).items():
        yield f"Cache emptied by {means}: {numbers}."
    yield from cold_cache_notes(runs, as_published=session.design.as_published)
    for count, numbers in runs_by_value((run.warm.warmups, run.number) for run in runs).items():
        yield f"Warm-up starts that are not counted: {count} before {numbers}."
    yield from page_cache_notes(runs)
    yield from _container_notes(runs)
    yield from _rows_found_notes(runs)
    for program, numbers in runs_by_value((run.stacks.program, run.number) for run in runs).items():
        yield f"Stacks sampled by {program}, not averaged: {numbers}."
    for numbers in runs_by_value((run.counted_waits, run.number) for run in runs).values():
        yield f"Waits counted, not averaged: {numbers}."
    for numbers in runs_by_value((run.extra is ExtraRun.TRACE, run.number) for run in runs).values():
        yield f"Opened files recorded, not averaged: {numbers}."


def _container_notes(runs: Sequence[Run]) -> Iterator[str]:
    """Yields a note on the time that the container engine adds, which is not part of any startup time."""
    overheads = [run.startup.engine_overhead_s for run in runs if run.startup.engine_overhead_s is not None]
    errors = [run.startup.start_error_s for run in runs if run.startup.start_error_s is not None]
    if overheads:
        yield (
            f"In containers a startup begins with the exec of the server, known to {1000 * max(errors, default=0):.1f} "
            f"ms. The engine's {fmt.seconds(min(overheads))} to {fmt.seconds(max(overheads))} s before it are not "
            "included."
        )


def _rows_found_notes(runs: Sequence[Run]) -> Iterator[str]:
    """Yields a note on the acknowledged rows found after each start. It is short if all of them were found."""
    counted = [run for run in runs if run.contents.rows_expected is not None]
    if not counted:
        return
    if all(
        run.contents.rows_found == run.contents.rows_expected and run.verdict is not Verdict.FAILED for run in counted
    ):
        rows = " and all acknowledged rows" if any(run.contents.rows_expected for run in counted) else ""
        yield f"All tables{rows} were found after each start."
        return
    found = "; ".join(
        f"run {run.number} {fmt.found_of_expected(run.contents.rows_found, run.contents.rows_expected)}"
        for run in counted
    )
    yield f"Acknowledged rows found after the start: {found}."
